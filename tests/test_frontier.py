"""The frontier: what a judge takes, the cascade between its two ends, and the figures with and without prices."""

import numpy as np
import pandas as pd
import pytest

from dre.calibrated import Calibrated
from dre.correlation import calibration, cost, frontier, frontier_cost
from dre.correlation.domains import Domain
from dre.correlation.opinions import Opinion
from dre.judges import prices
from dre.report import plots_frontier

N = 60
NAMES = ("claude-2026-11", "Claude-3-haiku", "Llama2-13B", "live-model")


def domain(name, seed):
    human = np.random.default_rng(seed).normal(size=N)
    items = pd.DataFrame(
        {
            "pair_id": [f"{name}/{i}" for i in range(N)],
            "context_id": [f"{name}/c{i // 4}" for i in range(N)],
            "context": [("Where shall we eat?",)] * N,
            "response": [f"The place at number {i} is open." for i in range(N)],
            "human": human,
        }
    )
    return Domain(name, name, name, items)


def opinion(domain, name, seed):
    score = domain.items["human"] + 0.3 * np.random.default_rng(seed).normal(size=N)
    scores = pd.DataFrame(
        {"pair_id": domain.items["pair_id"], "score_llm": (2.5 + score / 2).clip(0, 5), "status": "ok"}
    )
    scores.loc[5, ["score_llm", "status"]] = [np.nan, "malformed"]
    return Opinion(name, "own", scores, N, 1)


@pytest.fixture(scope="module")
def known():
    """Two sets, four judges, one SLM of one seed, all fitted."""
    found = [(d, [opinion(d, name, k) for k, name in enumerate(NAMES)]) for d in (domain("one", 1), domain("two", 2))]
    scored = {}
    for d, _ in found:
        part = d.items["human"] + 1.5 * np.random.default_rng(7).normal(size=N)
        s = (part - part.min()) / (part.max() - part.min())
        table = {"pair_id": d.items["pair_id"], "s_d": 1 - s, "s_p": s, "score_slm": 2 * s}
        scored[d.label] = {0: pd.DataFrame(table)}
    return found, scored, calibration.fits(found, scored, resamples=50)


@pytest.fixture(scope="module")
def paid(known):
    (first, said), *_ = known[0]
    items = first.items.merge(known[1]["one"][0], on="pair_id").assign(slm_accuracy=0.8, llm_accuracy=0.9)
    columns = ["domain", "judge", "prompt", "calls", "dollars", "seconds"]
    live = pd.DataFrame([("one", "live-model", "llm_only@1", 1000, 0.75, 900.0)], columns=columns)
    return items, frontier_cost.dollars(items, said, live).set_index("judge")


@pytest.fixture(scope="module")
def choices(known, paid):
    (first, said), *_ = known[0]
    rows = calibration.rows(first, said, known[1]["one"], known[2])
    prices_of = paid[1].reset_index()
    return frontier.points(first, rows, said, known[1]["one"], known[2], prices_of, 7.0, resamples=50)


@pytest.fixture(scope="module")
def sweeps(known):
    first, said = known[0][0]
    return pd.concat(
        [frontier.sweep(first, each, known[1]["one"], known[2]["one", each.name][0]) for each in said],
        ignore_index=True,
    )


def test_a_price_is_listed_or_bounded_or_missing_with_its_reason(paid):
    items, table = paid
    row = cost.of_judges(items).set_index("row").loc["LLM-only, Ex-DRE, SLIDE"]
    assert table.loc["Claude-3-haiku", "dollars"] == row["Claude-3-haiku"]
    tokens = row["input_tokens"], row["output_tokens"]
    listed = [p.cost(*tokens) for name, p in prices.named().items() if name.startswith("anthropic:")]
    unknown = table.loc["claude-2026-11"]
    assert np.isnan(unknown["dollars"]) and "version was not recorded" in unknown["why"]
    assert (unknown["dollars_low"], unknown["dollars_high"]) == (min(listed), max(listed))
    open_model = table.loc["Llama2-13B"]
    assert (
        open_model[["dollars", "dollars_low", "seconds"]].isna().all() and "without a list price" in open_model["why"]
    )
    assert (table.loc["live-model", "dollars"], table.loc["live-model", "seconds"]) == (0.75, 900)


def test_a_live_judge_without_a_price_says_so(known, paid):
    live = pd.DataFrame([("one", "live-model", "p", 1000, np.nan, 900.0)],
                        columns=["domain", "judge", "prompt", "calls", "dollars", "seconds"])  # fmt: skip
    line = frontier_cost.dollars(paid[0], [known[0][0][1][3]], live).iloc[0]
    assert line["why"] == "no price in the table" and line["seconds"] == 900


def test_the_cascade_runs_from_the_slm_to_the_fusion(known, sweeps):
    (first, said), scored, fitted = known[0][0], known[1]["one"], known[2]
    for each in said:
        part = sweeps[sweeps["judge"] == each.name].set_index("share")
        model = fitted["one", each.name][0][0]
        table = model.fuse(calibration.evidence(first, each, scored[0])).dropna(subset="score")
        assert len(table) == N - 1, "the pair without a score of the judge is left out"
        for share, column in ((0.0, "z_slm"), (1.0, "score")):
            expected = table[column].corr(table["human"], method="spearman")
            assert part.loc[share, "cascade"] == pytest.approx(expected) == part.loc[share, "random"]
            assert np.isnan(part.loc[share, "above"])
        assert part.loc[0.0, "random"] < part.loc[0.5, "random"] < part.loc[1.0, "random"]
        assert part.loc[0.1:0.9, "above"].between(0, 1).all() and list(part.index) == list(frontier.SHARES)


def test_where_the_slm_errs_in_the_middle_only_asking_there_beats_chance():
    human = np.linspace(-2, 2, 201)
    slm = np.where(np.abs(human) < 1, -human, human)
    items = pd.DataFrame({"pair_id": [f"own/{i}" for i in range(201)], "context_id": np.arange(201), "human": human})
    d = Domain("own", "own", "own", items)
    judge = Opinion("j", "", items[["pair_id"]].assign(score_llm=2.5 + human, status="ok"), 201, 0)
    model = Calibrated.fit([items.assign(score_llm=2.5 + human, score_slm=slm)], resamples=20)
    half = (
        frontier.sweep(d, judge, {0: items[["pair_id"]].assign(score_slm=slm)}, {0: model}).set_index("share").loc[0.5]
    )
    assert half["cascade"] > half["random"] + 0.02 and half["above"] == 1


def test_choices_cost_their_share(choices):
    assert len(choices) == 1 + 4 * len(NAMES)
    slm = choices.iloc[0]
    assert (slm["choice"], slm["dollars"], slm["seconds"]) == ("SLM alone", 0, 7)
    live = choices[choices["judge"] == "live-model"].set_index("choice")
    assert list(live["dollars"]) == pytest.approx([0.75, 0.75, 0.25 * 0.75, 0.5 * 0.75])
    assert list(live["seconds"]) == pytest.approx([900, 907, 232, 457]), "a fusion and a cascade take the SLM's, too"
    assert choices.loc[choices["judge"] == "Llama2-13B", "dollars"].isna().all()
    assert (choices["spearman_low"] <= choices["spearman_high"]).all() and choices["spearman"].notna().all()


def test_the_reading_says_what_the_numbers_say(choices, sweeps):
    text = frontier.words(choices, sweeps)
    best = choices.loc[choices["spearman"].idxmax()]
    assert f"highest is {best['choice']} ({best['judge']}), {best['spearman']:.3f}" in text
    inner = sweeps.dropna()
    assert f"by {(inner['cascade'] - inner['random']).mean():+.3f} on average over {len(inner)}" in text
    flat = sweeps.assign(cascade=0.3)
    assert "No judge adds 0.05 or more to the SLM." in frontier.words(choices, flat)


@pytest.mark.parametrize("priced", [True, False])
def test_the_figure_shows_every_judge_with_or_without_prices(choices, sweeps, priced):
    if not priced:
        choices = choices[choices["judge"].isin(["", "Llama2-13B"])]
        sweeps = sweeps[sweeps["judge"] == "Llama2-13B"]
    fig = plots_frontier.frontier(choices, sweeps, "Spearman")
    labels = [text.get_text() for text in fig.legends[0].get_texts()]
    judges = [name for name in choices["judge"].unique() if name]
    assert labels[: len(judges)] == judges and "SLM alone (band: interval)" in labels
    ticks = [tick.get_text() for tick in fig.axes[0].get_xticklabels()]
    assert ticks[0] == "free" and ticks[-1] == "no list\nprice"


def test_the_figure_of_gains_has_a_panel_a_method():
    lines = [
        {"method": m, "domain": d, "llm": 0.4, "difference": 0.1, "difference_low": 0.0, "difference_high": 0.2}
        for m in ("SLIDE", "Calibrated")
        for d in ("one", "two")
    ]
    fig = plots_frontier.gains(pd.DataFrame(lines), "x", "y", 0.5)
    assert [ax.get_title() for ax in fig.axes] == ["SLIDE", "Calibrated"]
