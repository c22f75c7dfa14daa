"""Every judge on every set: what a weight is learned from, that ratings do not leak, and what the tests say."""

import numpy as np
import pandas as pd
import pytest

from dre.correlation import calibration, harm
from dre.correlation.domains import Domain
from dre.correlation.methods import Row
from dre.correlation.opinions import Opinion

N = 80
SETS = ("one", "two", "three")


def domain(name, seed):
    human = np.random.default_rng(seed).normal(size=N)
    names = {"pair_id": [f"{name}/{i}" for i in range(N)], "context_id": [f"{name}/c{i // 4}" for i in range(N)]}
    return Domain(name, name, name, pd.DataFrame(names | {"human": human}))


def opinion(domain, name, noise, seed):
    score = domain.items["human"] + noise * np.random.default_rng(seed).normal(size=N)
    scores = pd.DataFrame(
        {"pair_id": domain.items["pair_id"], "score_llm": (2.5 + score / 2).clip(0, 5), "status": "ok"}
    )
    return Opinion(name, "own", scores, N, 0)


@pytest.fixture
def found():
    """Three sets; a strong and a weak judge know all of them, a newcomer the last one only."""
    sets = [domain(name, seed) for seed, name in enumerate(SETS)]
    said = [[opinion(d, "strong", 0.3, 10 + i), opinion(d, "weak", 3.0, 20 + i)] for i, d in enumerate(sets)]
    said[2].append(opinion(sets[2], "newcomer", 1.0, 30))
    return list(zip(sets, said))


@pytest.fixture
def scored(found):
    """An SLM of two training seeds that knows something on every set."""
    return {d.label: {seed: slm(d, seed, 1.5) for seed in (0, 1)} for d, _ in found}


def slm(domain, seed, noise):
    part = domain.items["human"] + noise * np.random.default_rng([seed, len(domain.label)]).normal(size=N)
    s = (part - part.min()) / (part.max() - part.min())
    return pd.DataFrame({"pair_id": domain.items["pair_id"], "s_d": 1 - s, "s_p": s, "score_slm": 2 * s})


def with_ratings(found, label, ratings):
    return [
        (Domain(d.key, d.label, d.set, d.items.assign(human=ratings)) if d.label == label else d, said)
        for d, said in found
    ]


def test_a_weight_is_learned_from_the_judges_other_sets_or_from_other_judges_there(found):
    parts, own = calibration.learned_from(found, "weak", "two")
    assert own and [(d.label, each.name) for d, each in parts] == [("one", "weak"), ("three", "weak")]
    parts, own = calibration.learned_from(found, "newcomer", "three")
    assert not own and [(d.label, each.name) for d, each in parts] == [
        ("one", "strong"), ("one", "weak"), ("two", "strong"), ("two", "weak"),
    ]  # fmt: skip


def test_ratings_of_a_set_never_reach_its_own_fusion(found, scored):
    before = calibration.fits(found, scored, resamples=50)
    shuffled = np.random.default_rng(9).permutation(N).astype(float)
    for label in SETS:
        after = calibration.fits(with_ratings(found, label, shuffled), scored, resamples=50)
        for key, (by_seed, words) in before.items():
            if key[0] == label:
                assert after[key] == (by_seed, words), key
        assert any(after[key] != before[key] for key in before), "the ratings do reach those of other sets"


def test_scores_of_a_set_reach_its_scale_only_where_the_judge_has_no_other(found, scored):
    before = calibration.fits(found, scored, resamples=50)
    for each in found[2][1]:
        each.scores["score_llm"] = each.scores["score_llm"] / 2
    after = calibration.fits(found, scored, resamples=50)
    assert after["three", "weak"] == before["three", "weak"]
    assert after["three", "newcomer"] != before["three", "newcomer"]
    assert [m.weight for m in after["three", "newcomer"][0].values()] == [
        m.weight for m in before["three", "newcomer"][0].values()
    ]


def test_rows_and_measured_tables(found, scored):
    fitted = calibration.fits(found, scored, resamples=50)
    last, said = found[2]
    rows = calibration.rows(last, said, scored["three"], fitted)
    assert [row.family for row in rows if row.judge == "weak"] == [
        "LLM-only",
        "Ex-DRE",
        "SLIDE",
        "Rank average",
        "Calibrated",
    ]
    measured = calibration.measure(last, rows, fitted, resamples=50)
    line = measured["spearman"].set_index("judge").loc["weak"]
    by_seed, words = fitted["three", "weak"]
    expected = [
        by_seed[n].fuse(calibration.evidence(last, said[1], scored["three"][n])).set_index("pair_id")["score"].corr(
            last.human, method="spearman"
        )
        for n in by_seed
    ]  # fmt: skip
    assert line["Calibrated"] == pytest.approx(np.mean(expected)) and line["n"] == N
    assert line["weight"] == pytest.approx(np.mean([m.weight for m in by_seed.values()]))
    assert words == "this judge on one, two" and fitted["three", "newcomer"][1] == "2 other judges on one, two"
    together = calibration.together({"a": measured, "b": measured}, "pearson")
    assert len(together) == 6 and list(together)[-1] == "signature"
    assert together["signature"].str.contains("data:three@").all()


def test_halves_share_no_context_and_lose_no_pair():
    whole = domain("set", 0)
    first, second = calibration.halves(whole)
    assert len(first.items) + len(second.items) == N
    assert not set(first.items["context_id"]) & set(second.items["context_id"])
    assert first.label != second.label and first.against == whole.against


def by_hand(human, harmful):
    """Rows of one judge: the judge follows people, the SLM less so; one fusion is good, the other harmful or not."""
    rng = np.random.default_rng(1)
    judge, weak = human + rng.normal(size=N), human + 2.5 * rng.normal(size=N)
    spoilt = rng.normal(size=N) if harmful else judge
    series = {"LLM-only": judge, "SLM": weak, "Ex-DRE": spoilt, "Calibrated": human + 0.2 * rng.normal(size=N)}
    names = {"LLM-only": "LLM-only (j)", "SLM": "SLM", "Ex-DRE": "Ex-DRE (j)", "Calibrated": "Calibrated (j)"}
    ids = [f"set/{i}" for i in range(N)]
    return [Row(names[k], k, pd.Series(v, ids), judge="" if k == "SLM" else "j") for k, v in series.items()]


def test_harm_and_help_are_found_and_said():
    d = domain("set", 3)
    rows = by_hand(d.items["human"].to_numpy(), harmful=True)
    table = harm.tests([(d, rows)], resamples=200, permutations=1000).set_index("method")
    assert list(table["better_part"].unique()) == ["judge"]
    judge, fused = rows[0].score.corr(d.human, method="spearman"), rows[2].score.corr(d.human, method="spearman")
    assert table.loc["Ex-DRE", "difference"] == pytest.approx(fused - judge) == table.loc["Ex-DRE", "difference_llm"]
    assert list(table["answer"]) == ["worse", "better"]
    text = harm.words(table.reset_index(), harm.pooled([(d, rows)], table.reset_index(), 50))
    assert (
        "**Ex-DRE**, against the better of its two parts, in 1 pairs of set and judge: better in 0, worse in 1" in text
    )
    assert "**Never significantly worse than the better of its parts:** kept." in text
    swapped = table.reset_index().replace({"method": {"Ex-DRE": "Calibrated", "Calibrated": "Ex-DRE"}})
    assert "parts:** broken; it loses with −" in harm._verdict(swapped[swapped["method"] == "Calibrated"])


def test_the_better_part_may_be_the_slm():
    d = domain("set", 3)
    rows = by_hand(d.items["human"].to_numpy(), harmful=False)
    exchanged = [
        Row(r.method, r.family, s, judge=r.judge)
        for r, s in zip(rows, [rows[1].score, rows[0].score, rows[1].score, rows[3].score])
    ]
    table = harm.tests([(d, exchanged)], resamples=50, permutations=200).set_index("method")
    assert list(table["better_part"].unique()) == ["SLM"]
    assert table.loc["Ex-DRE", "difference"] < 0 and table.loc["Ex-DRE", "difference_llm"] == 0


def test_pooled_gains_are_means_over_weak_judges():
    d = domain("set", 4)
    human = d.items["human"].to_numpy()
    rng = np.random.default_rng(0)
    ids = d.items["pair_id"]
    rows = [Row("SLM", "SLM", pd.Series(human + 4 * rng.normal(size=N), ids))]
    for name in ("a", "b"):
        rows.append(Row(f"LLM-only ({name})", "LLM-only", pd.Series(human + 5 * rng.normal(size=N), ids), judge=name))
        rows.append(Row(f"Calibrated ({name})", "Calibrated", pd.Series(human + rng.normal(size=N), ids), judge=name))
    table = harm.tests([(d, rows)], resamples=100, permutations=100)
    gains = harm.pooled([(d, rows)], table, resamples=100).iloc[0]
    assert (table["llm"] < harm.WEAK).all() and gains["judges"] == 2
    assert gains["gain"] == pytest.approx(table["difference"].mean())
    assert gains["gain_low"] < gains["gain"] < gains["gain_high"]
    strong = harm.pooled([(d, rows)], table.assign(llm=0.9), resamples=100)
    assert strong.empty and "gain_low" in strong
