"""The statistics reproduce the known correlations of recorded judges with public human ratings."""

import pytest

from dre.stats import compare, correlate


def ratings(name):
    from dre.data import rated, rated_table

    return rated_table(rated(name)).set_index("pair_id")


def claude_2026_11():
    from dre.data.recorded import judgements

    return judgements().query("prompt == 'llm_only'").set_index("pair_id")["score"]


def claude_3_haiku():
    from dre.data.thirdparty import judge_scores

    return judge_scores("claude-3-haiku").set_index("pair_id")["score"]


@pytest.mark.parametrize("name, spearman", [("topicalchat-usr", 0.494), ("personachat-usr", 0.453)])
def test_claude_3_haiku(data_home, name, spearman):
    people = ratings(name)
    scores = people[[]].assign(haiku=claude_3_haiku())
    got = correlate(scores, people["human"], people["context_id"], ("spearman",)).iloc[0]
    assert round(got["value"], 3) == spearman
    assert got["low"] < got["value"] < got["high"] and got["n_missing"] == 0


@pytest.mark.parametrize(
    "name, pearson, spearman, n",
    [
        ("topicalchat-usr", 0.870, 0.864, 360),
        ("personachat-usr", 0.824, 0.816, 300),
        ("dailydialog-zhao", 0.785, 0.788, 900),
    ],
)
def test_claude_2026_11(data_home, name, pearson, spearman, n):
    people = ratings(name)
    scores = people[[]].assign(claude=claude_2026_11())
    got = correlate(scores, people["human"], people["context_id"]).set_index("statistic")
    assert (round(got.loc["pearson", "value"], 3), round(got.loc["spearman", "value"], 3)) == (
        pearson,
        spearman,
    )
    assert set(got["n"]) == {n}


def test_a_strong_judge_beats_a_weak_one(data_home):
    people = ratings("topicalchat-usr")
    scores = people[[]].assign(strong=claude_2026_11(), weak=claude_3_haiku())
    got = compare(scores, people["human"], people["context_id"], [("strong", "weak")]).iloc[0]
    assert got["low"] > 0.2 and got["p_holm"] < 0.001
