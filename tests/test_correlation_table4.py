"""Table 4: every published row is there with a verdict, and ours are those of the methods named."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from dre import fusion
from dre.correlation import claims, domains, methods, opinions, panels, people, readings, signatures, table4
from dre.correlation.methods import Row
from dre.correlation.opinions import Opinion
from dre.pipeline.profile import profile
from dre.published import published

N, CONTEXTS = 60, 12


@pytest.fixture
def domain():
    """Sixty items of twelve contexts; the ratings follow the row number."""
    rng = np.random.default_rng(0)
    items = pd.DataFrame(
        {
            "pair_id": [f"own/{i}" for i in range(N)],
            "context_id": [f"own/context-{i % CONTEXTS}" for i in range(N)],
            "context": [("Where shall we eat?", f"Near number {i % CONTEXTS}.") for i in range(N)],
            "response": [f"The place at number {i} is open." for i in range(N)],
            "human": np.linspace(1, 5, N) + rng.normal(0, 0.3, N),
        }
    )
    return domains.Domain("topicalchat", "TopicalChat", "own", items)


@pytest.fixture
def scored(domain):
    """The tables of two training seeds."""
    return {seed: one_seed(domain, seed) for seed in (1, 2)}


def one_seed(domain, seed):
    rng = np.random.default_rng(seed)
    s_d, s_p = rng.uniform(0, 1, N), rng.uniform(0, 1, N)
    table = pd.DataFrame({"pair_id": domain.items["pair_id"], "distance": 0.2 + 0.5 * s_d, "s_d": s_d, "s_p": s_p})
    return table.assign(score_slm=1 - s_d + s_p)


@pytest.fixture
def judge(domain):
    noise = np.random.default_rng(2).normal(0, 0.4, N)
    score = (domain.items["human"] + noise).clip(0, 5)
    table = pd.DataFrame({"pair_id": domain.items["pair_id"], "score_llm": score, "status": "ok"})
    table.loc[3, ["score_llm", "status"]] = [np.nan, "malformed"]
    return Opinion("Claude-3-haiku", "own prompt", table, N, 1, paper="Claude3")


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("Ours (LLMs-only (GPT-3.5))", "LLMs-only (GPT-3.5)"),
        ("SLIDE (GPT-3.5))", "SLIDE (GPT-3.5)"),
        ("Ours (SLM-Dis and Prob)", "SLM (Dis and Prob)"),
        ("Non-DRE(llama3.3-70B)", "Non-DRE (llama3.3-70B)"),
        ("G-EVAL (Claude3)", "G-EVAL (Claude3)"),
        ("BLEU-1", "BLEU-1"),
    ],
)
def test_published_names_lose_only_their_slips(printed, name):
    assert table4.row_name(printed) == name


def test_published_rows_stay_apart_when_their_names_are_mended():
    names = table4.published_rows()["method"]
    assert names.is_unique and len(names) == len(published("dre_table4"))


def test_every_row_that_a_method_says_it_fills_is_in_print(domain, scored, judge):
    rows = methods.slm_rows(scored, "own") + methods.judge_rows(judge, scored)
    filled = {name for row in rows for name in row.published} | set(methods.REFERENCE_BASED)
    filled |= {row for _, row in opinions.GPT35.values() if row}
    assert filled <= set(table4.published_rows()["method"])


@pytest.mark.parametrize("key", domains.RATED)
def test_every_published_row_has_its_numbers_and_a_verdict_even_where_nothing_was_measured(key):
    table = table4.assemble(key, [], [], "no ratings here")
    printed = published("dre_table4")
    assert list(table["published_pearson"]) == list(printed[f"{key}_pearson"])
    assert list(table["published_spearman"]) == list(printed[f"{key}_spearman"])
    assert set(table["verdict"]) == {"not run"} and set(table["reason"]) == {"no ratings here"}
    assert table["spearman"].isna().all()


def test_a_judge_fills_both_names_the_paper_has_for_the_llm_alone(domain, scored, judge):
    rows = methods.judge_rows(judge, scored)
    measured = table4.measure(domain, rows, resamples=100)
    table = table4.assemble("topicalchat", rows, measured).set_index("method")
    alone = table.loc[["LLMs-only (Claude3)", "Non-DRE (Claude3)"]]
    assert alone["spearman"].nunique() == 1 and (alone["n"] == N - 1).all() and (alone["malformed"] == 1).all()
    assert table.loc["In-DRE (Claude3)", "reason"] == table4.NO_DRE
    assert table.loc["Ex-DRE (Gemini)", "reason"] == table4.NO_JUDGE
    assert "not in the paper" not in set(table["reason"])


def test_rows_with_an_slm_are_means_over_seeds_and_the_judges_own_row_is_not(domain, scored, judge):
    rows = methods.slm_rows(scored, "own") + methods.judge_rows(judge, scored)
    measured = table4.measure(domain, rows, resamples=50).set_index("method")
    of_seeds = [
        pd.Series(fusion.ex_dre(judge.scores.merge(table, on="pair_id"))["score"].to_numpy(), index=domain.human.index)
        for table in scored.values()
    ]
    values = [score.corr(domain.human, method="spearman") for score in of_seeds]
    ex_dre = measured.loc["Ex-DRE (Claude-3-haiku)"]
    assert ex_dre["spearman"] == pytest.approx(np.mean(values))
    assert ex_dre["spearman_sd"] == pytest.approx(np.std(values, ddof=1)) and ex_dre["seeds"] == 2
    assert measured.loc["LLM-only (Claude-3-haiku)", "seeds"] == 1
    assert np.isnan(measured.loc["LLM-only (Claude-3-haiku)", "spearman_sd"])


def test_a_signature_names_items_judge_and_the_slms_behind_a_row(domain, scored, judge):
    rows = methods.slm_rows(scored, "own") + methods.judge_rows(judge, scored)
    provenance = {"recipe": {"name": "paper"}, "encoder": "minilm"}
    slms = [SimpleNamespace(provenance=provenance | {"seed": s, "fingerprint": str(s) * 64}) for s in (1, 2)]
    made = signatures.of_rows(domain, rows, slms)
    data = f"data:own@{domain.sha256[:8]}|"
    assert all(text.startswith(data) and "|versions:python=" in text for text in made.values())
    assert "|slm:11111111+22222222|recipe:paper|seeds:1,2|encoder:minilm|" in made["SLM (Dis)"]
    assert "|judge:Claude-3-haiku|slm:11111111+22222222|" in made["Ex-DRE (Claude-3-haiku)"]
    assert "|slm:" not in made["LLM-only (Claude-3-haiku)"]
    other = domains.Domain("topicalchat", "TopicalChat", "own", domain.items.assign(human=1.0))
    assert other.sha256 != domain.sha256
    table = table4.assemble("topicalchat", rows, table4.measure(domain, rows, resamples=50, slms=slms))
    assert table.set_index("method").loc["SLM (Dis only)", "signature"] == made["SLM (Dis)"]


def test_another_version_of_a_model_does_not_pass_for_the_papers():
    assert opinions.paper_name("claude-3-haiku-20240307") == "Claude3"
    assert opinions.paper_name("llama3.3:70b-instruct-q4_K_M") == "llama3.3-70B"
    for other in ("gpt-3.5-turbo-0613", "claude-3-5-haiku-20241022", "claude-2026-11", "qwen2.5:7b", "llama3.1:70b"):
        assert opinions.paper_name(other) is None


def line(low, high, printed=(0.5, 0.5)):
    bounds = {f"{s}_{end}": v for s in table4.STATISTICS for end, v in (("low", low), ("high", high))}
    return bounds | {"published_pearson": printed[0], "published_spearman": printed[1]}


def test_verdicts():
    assert table4.verdict(line(0.4, 0.6)) == "agrees"
    assert table4.verdict(line(0.1, 0.3)) == "differs: lower"
    assert table4.verdict(line(0.6, 0.8)) == "differs: higher"
    assert table4.verdict(line(0.4, 0.6, (0.5, 0.7))) == "differs: Spearman lower"
    assert table4.verdict(line(0.4, 0.6, (0.7, 0.3))) == "differs: Pearson lower, Spearman higher"
    assert table4.verdict(line(0.4, 0.6), "another reference") == "not comparable"
    assert table4.verdict(line(np.nan, np.nan)) == "not comparable"


def test_verdicts_are_counted_by_their_first_word(domain, scored, judge):
    rows = methods.judge_rows(judge, scored)
    table = table4.assemble("topicalchat", rows, table4.measure(domain, rows, resamples=100))
    counted = table4.counts({"TopicalChat": table}).iloc[0]
    assert counted["rows"] == len(published("dre_table4"))
    assert counted["agrees"] + counted["differs"] == 4  # two names of the LLM alone, Ex-DRE, SLIDE
    assert counted["not run"] == counted["rows"] - 4


def test_a_reference_that_rates_itself_is_seen_with_and_without(domain):
    items = domain.items.assign(reference=domain.items["response"].where(domain.items.index % 5 == 0, "A park nearby."))
    own = domains.Domain("topicalchat", "TopicalChat", "own-usr", items)
    is_reference = (items["response"] == items["reference"]).to_numpy()
    scores = pd.DataFrame({"BLEU-1": np.linspace(0, 1, N)}, index=items["pair_id"])
    both = table4.with_and_without(own, scores, is_reference).iloc[0]
    assert both["n_with"] == N and both["n_without"] == N - is_reference.sum()
    kept = scores["BLEU-1"][~is_reference]
    assert both["spearman_without"] == pytest.approx(kept.corr(own.human[kept.index], method="spearman"))


def test_fusions_are_tested_against_their_own_parts_with_one_correction(domain, scored, judge):
    rows = methods.slm_rows(scored, "own") + methods.judge_rows(judge, scored)
    tests = claims.tests([(domain, rows), (domain, rows)], resamples=50, permutations=200)
    assert list(zip(tests["method"], tests["against"]))[:4] == [
        ("Ex-DRE", "LLM"), ("Ex-DRE", "SLM"), ("SLIDE", "LLM"), ("SLIDE", "SLM"),
    ]  # fmt: skip
    assert (tests["p_holm"] >= tests["p"]).all() and len(tests) == 8
    assert tests.loc[0, "p_holm"] == pytest.approx(min(1, tests.loc[0, "p"] * 8))  # the smallest of eight
    assert tests.loc[0, "answer"] == "worse"  # random s_c on a good judge
    assert "speaks against the claim" in claims.words(tests)


def test_words_turn_with_the_numbers(domain, scored, judge):
    rows = methods.slm_rows(scored, "own") + methods.judge_rows(judge, scored)
    tests = claims.tests([(domain, rows)], resamples=50, permutations=200)
    better = tests.assign(answer="better")
    assert "supports the claim" in claims.words(better)
    assert "neither supports nor contradicts" in claims.words(tests.assign(answer="not shown"))
    assert "DRE** was not measured" in claims.words(tests)
    assert "cannot be tested" in claims.words(claims.tests([(domain, methods.slm_rows(scored, "own"))]))


def test_readings_change_what_they_name_and_nothing_else(domain, scored, judge):
    first = scored[1]
    assert readings.normalised(first, "training data") is first
    other = readings.normalised(first, "evaluated set")
    assert other["s_d"].min() == 0 and other["s_d"].max() == 1 and (other["s_p"] == first["s_p"]).all()
    assert other["score_slm"].to_numpy() == pytest.approx((1 - other["s_d"] + other["s_p"]).to_numpy())
    found = readings.gains(domain, scored, [judge])
    default = found.iloc[0]
    rows = {row.method: row.score for row in methods.judge_rows(judge, scored)}
    expected = rows["SLIDE (Claude-3-haiku)"][1].corr(domain.human, method="spearman")
    assert (default["method"], default["d_range"]) == ("SLIDE", "training data")
    assert default["spearman"] == pytest.approx(expected)
    assert set(found["seed"]) == {1, 2}
    assert found["gain"].to_numpy() == pytest.approx((found["spearman"] - found["alone"]).to_numpy())


def test_the_published_gains_are_means_over_judges():
    printed = published("dre_table4").set_index("metric")["topicalchat_spearman"]
    names = {"SLIDE (GPT-3.5))": "GPT-3.5", "SLIDE (Gemini)": "Gemini", "SLIDE (Claude3)": "Claude3"}
    gains = [printed[slide] - printed[f"Ours (LLMs-only ({judge}))"] for slide, judge in names.items()]
    assert readings.published_gains().loc["SLIDE", "topicalchat"] == pytest.approx(np.mean(gains))


def test_the_nearest_reading_is_the_one_with_the_smallest_distance(domain, scored, judge):
    table = readings.summary(readings.gains(domain, scored, [judge]))
    ours = table[table["distance"].notna()]
    for _, part in ours.groupby("method"):
        assert part.loc[part["nearest"] == "yes", "distance"].min() == part["distance"].min()
    assert (table["reading"] == "published").sum() == table["method"].nunique()
    labels = domains.Domain("label", "Own label", "own", domain.items)
    assert "distance" not in readings.summary(readings.gains(labels, scored, [judge]))


def test_panels_show_every_row_and_the_published_value_beside_it(domain, scored, judge):
    rows = methods.slm_rows(scored, "own") + methods.judge_rows(judge, scored)
    measured = table4.measure(domain, rows, resamples=50)
    panel = panels.forest(domain, rows, measured)
    assert len(panel) == len(rows)
    printed = published("dre_table4").set_index("metric")["topicalchat_spearman"]
    assert panel["published"].iloc[0] == printed["Ours (SLM-Dis-only)"]
    assert set(panels.published_stages("topicalchat")["stage"]) == set(methods.STAGES)
    hidden = [Row(r.method, r.family, r.score, r.published, incomparable="another reference") for r in rows[:1]]
    assert panels.forest(domain, hidden, measured)["published"].isna().all()


def test_a_set_with_one_value_an_item_has_no_agreement(domain):
    assert people.agreement(domain).empty
    assert people.with_published([people.agreement(domain)])["value"].tolist() == [people.PUBLISHED_KAPPA]


def test_items_with_a_label_are_the_same_ones_each_time():
    settings = profile("mini")
    one, two = domains.labelled(settings), domains.labelled(settings)
    assert one.items["pair_id"].tolist() == two.items["pair_id"].tolist()
    assert set(one.human) == {0.0, 1.0} and domains.rated(settings) == []


def test_llm_only_rows_match_the_published_checks_to_a_thousandth(data_home):
    """The values that the recordings' own descriptions give, and the judges' scores join without a gap."""
    expected = {
        ("topicalchat", "Claude-3-haiku"): (0.494, None),
        ("personachat", "Claude-3-haiku"): (0.453, None),
        ("topicalchat", "claude-2026-11"): (0.864, 0.870),
        ("personachat", "claude-2026-11"): (0.816, 0.824),
        ("dailydialog", "claude-2026-11"): (0.788, 0.785),
    }
    for domain in domains.rated(profile("public")):
        for opinion in opinions.opinions(profile("public"), domain):
            assert opinion.scores["pair_id"].is_unique
            if (domain.key, opinion.name) not in expected:
                continue
            score = opinion.scores.set_index("pair_id")["score_llm"].reindex(domain.items["pair_id"])
            human = domain.human.reindex(score.index)
            spearman, pearson = expected.pop((domain.key, opinion.name))
            assert score.corr(human, method="spearman") == pytest.approx(spearman, abs=0.001)
            assert pearson is None or score.corr(human) == pytest.approx(pearson, abs=0.001)
    assert not expected


def test_gpt35_means_of_four_criteria_correlate_as_known(data_home):
    """One criterion at a time, analyse then rate, mean of four: 0.66 on TopicalChat-USR."""
    domain = next(d for d in domains.rated(profile("public")) if d.key == "topicalchat")
    found = {each.name: each for each in opinions.gpt35(domain)}
    score = found["GPT-3.5-0613 analyse-rate"].scores.set_index("pair_id")["score_llm"]
    assert score.corr(domain.human.reindex(score.index), method="spearman") == pytest.approx(0.66, abs=0.005)
    assert all(0 < each.malformed < each.replies / 100 for each in found.values())
