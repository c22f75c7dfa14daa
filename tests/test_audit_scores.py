"""The audit's tests of a score, on scorers whose answers are known by hand."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dre import classification
from dre.audit import alter, blind, subjects, swap, variance
from dre.audit.scorers import Scorer
from dre.audit.scorers import blind as blind_scorer
from dre.data import Context, pairs
from dre.errors import DreError

N = 8


def contexts(n=N):
    """Context i speaks of thing{i}; its positives name it, its adversarials are long, its randoms name the next one."""
    return [
        Context(
            "toy", str(i), "test", (f"is this thing{i} yours", "or " + "very " * i + "someone else's"),
            positives=(f"thing{i} is mine", f"I do own thing{i}"),
            adversarials=(f"no one has ever seen such a stone number {i}", f"a long walk is what we both need in week {i}"),
            randoms=(f"thing{(i + 1) % n} is mine",),
        )
        for i in range(n)
    ]  # fmt: skip


def thing(text):
    return next((word for word in text.split() if word.startswith("thing")), "")


def scorer(function, model="m", family="slm"):
    """A scorer of one seed made of a function of (context, response)."""
    return Scorer(model, family, lambda t: {"score": [function(c, r) for c, r in zip(t["context"], t["response"])]})


def length(context, response):
    return -len(response.split())


def overlap(context, response):
    return float(thing(response) != "" and thing(response) in " ".join(context))


def context_only(context, response):
    return len(" ".join(context))


def additive(context, response):
    return 0.01 * len(" ".join(context)) - len(response)


def subject(function, model="m", family="slm"):
    table = pairs(contexts(), kinds="par")
    return subjects.examine(scorer(function, model, family), table, table)


def test_a_score_that_ignores_the_context_falls_in_exactly_half_of_the_swaps():
    row = swap.table([subject(length)], swaps=3, resamples=50).iloc[0]
    assert (row["falls"], row["falls_low"], row["falls_high"]) == (50, 50, 50)
    assert row["fall"] == 0 and row["own"] == row["other"] == 100
    assert row["n"] == N * 2 * 3


def test_a_score_that_reads_the_context_falls_always_and_by_the_known_amount():
    one = subject(overlap)
    row = swap.table([one], swaps=3, resamples=50).iloc[0]
    p = 2 / 5  # share of pairs that score 1; the randoms name another thing
    assert row["falls"] == 100 and row["own"] == 100 and row["other"] == 0
    assert row["fall"] == pytest.approx(1 / np.sqrt(p * (1 - p)))


@pytest.mark.parametrize("function", [context_only, additive])
def test_a_bonus_for_a_context_is_no_reading_of_it(function):
    # with every other context in turn, each exchange has its opposite
    assert swap.table([subject(function)], swaps=N - 1, resamples=50).iloc[0]["falls"] == 50


def test_rounding_is_no_fall():
    before, sd = np.array([[1.0, 1.0, 1.0]]), np.array([[0.1]])
    np.testing.assert_array_equal(swap.falling(before, before + [[1e-8, -1e-3, 1e-3]], sd), [[0.5, 1, 0]])
    np.testing.assert_array_equal(swap.falling(before, before, np.array([[np.nan]])), [[0.5] * 3])


def test_an_exchange_gives_each_pair_other_contexts_and_keeps_everything_else():
    table = pairs(contexts(), kinds="pa")
    made = swap.exchange(table, 4, seed=1)
    assert made.equals(swap.exchange(table, 4, seed=1)) and not made.equals(swap.exchange(table, 4, seed=2))
    np.testing.assert_array_equal(made["row"], np.repeat(np.arange(len(table)), 4))
    own = table.iloc[made["row"]].reset_index(drop=True)
    pd.testing.assert_frame_equal(made.drop(columns=["row", "context"]), own.drop(columns="context"))
    assert (made["context"] != own["context"]).all()
    assert (made.groupby("row")["context"].nunique() == 4).all()
    drawn = swap.exchange(table, N - 1)
    assert set(drawn["context"]) == set(table["context"]), "all contexts can be drawn, the first and the last too"


@pytest.mark.parametrize("swaps", [0, N])
def test_more_swaps_than_other_contexts_are_an_error(swaps):
    with pytest.raises(DreError, match=f"{swaps} swaps of {N} contexts"):
        swap.exchange(pairs(contexts()), swaps)


def test_variance_by_hand():
    x = np.zeros((4, 4))
    x[0, 0] = x[1, 1] = 1
    np.testing.assert_allclose(variance.shares(x), [[1 / 7, 1 / 7, 5 / 7]])


@pytest.mark.parametrize(
    "function, expected",
    [(length, (100, 0, 0)), (context_only, (0, 100, 0))],
)
def test_what_reads_one_side_only_has_no_interaction(function, expected):
    row = variance.table([subject(function)], size=N, resamples=50).iloc[0]
    np.testing.assert_allclose(row[list(variance.SHARES)].astype(float), expected, atol=1e-9)
    assert row["interaction_high"] == pytest.approx(0, abs=1e-9) and row["contexts"] == N


def test_a_sum_of_both_sides_has_no_interaction_and_an_overlap_has_the_known_one():
    row = variance.table([subject(additive)], size=N, resamples=50).iloc[0]
    assert row["interaction"] == 0 and row["response"] > 0 and row["context"] > 0
    row = variance.table([subject(overlap)], size=4, resamples=50).iloc[0]
    np.testing.assert_allclose(row[list(variance.SHARES)].astype(float), [100 / 7, 100 / 7, 500 / 7])


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 7), st.integers(0, 10_000))
def test_shares_add_up_and_main_effects_add_no_interaction(n, seed):
    rng = np.random.default_rng(seed)
    x, rows, columns = rng.normal(size=(n, n)), rng.normal(size=(n, 1)), rng.normal(size=(1, n))
    assert variance.shares(x).sum() == pytest.approx(1)
    # the interaction's sum of squares does not change, only the total it is a share of
    total = lambda m: ((m - m.mean()) ** 2).sum()  # noqa: E731
    both = x + rows + columns
    assert variance.shares(both)[0, 2] * total(both) == pytest.approx(variance.shares(x)[0, 2] * total(x))
    assert variance.shares(rows + columns)[0, 2] == pytest.approx(0, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=3, max_size=6), st.integers(0, 10_000))
def test_a_weight_is_a_context_and_its_response_repeated(weights, seed):
    x = np.random.default_rng(seed).normal(size=(len(weights), len(weights)))
    if sum(w > 0 for w in weights) < 2:
        return
    repeated = np.repeat(np.repeat(x, weights, axis=0), weights, axis=1)
    np.testing.assert_allclose(variance.shares(x, np.array([weights])), variance.shares(repeated), atol=1e-9)


def test_a_constant_has_no_shares_and_what_is_no_grid_is_an_error():
    assert np.isnan(variance.shares(np.ones((3, 3)))).all()
    for bad in (np.ones((2, 3)), np.ones((1, 1)), np.array([[1.0, np.nan], [0.0, 1.0]])):
        with pytest.raises(DreError, match="expected finite scores"):
            variance.shares(bad)


def test_the_grid_has_one_response_of_each_context_half_of_them_positive():
    table = pairs(contexts(), kinds="par")
    cells = variance.grid(table, 6, seed=3)
    responses = cells.iloc[::6]
    assert len(cells) == 36 and cells["pair_id"].is_unique
    assert responses["owner"].is_unique and sorted(responses["kind"]) == list("aaappp")
    contexts_ = [tuple(cells["context"][i : i + 6]) for i in range(0, 36, 6)]
    assert len(set(contexts_)) == 1, "contexts in one order in every row"
    owner = dict(zip(table["context_id"], table["context"]))
    assert [owner[o] for o in responses["owner"]] == list(contexts_[0]), "response i was written for context i"
    with pytest.raises(DreError, match="no response of kind a"):
        variance.grid(table[table["kind"] != "a"], 6)


def test_altered_contexts_are_permutations_and_the_same_for_all_pairs_of_a_context():
    table = pairs(contexts(), kinds="pa")
    for how in alter.ALTERED:
        made = alter.alter(table, how, seed=0)
        assert (made.groupby("context_id")["context"].nunique() == 1).all()
        pd.testing.assert_frame_equal(made.drop(columns="context"), table.drop(columns="context"))
        assert (made["context"] != table["context"]).all(), how
    by_turns, by_words, cut = (alter.alter(table, how) for how in alter.ALTERED)
    for own, a, b, c in zip(table["context"], by_turns["context"], by_words["context"], cut["context"]):
        assert sorted(a) == sorted(own) and c == own[-1:]
        assert sorted(" ".join(b).split()) == sorted(" ".join(own).split())
        assert [len(turn.split()) for turn in b] == [len(turn.split()) for turn in own]
    with pytest.raises(DreError, match="unknown alteration 'backwards'"):
        alter.alter(table, "backwards")


def test_one_turn_has_no_other_order_and_counts_as_unchanged():
    table = pairs(contexts(), kinds="par").assign(context=[("yes",)] * 3 + [("no",)] * (N * 5 - 3))
    one = subjects.examine(scorer(length), table, table)
    found = alter.table([one], resamples=20).set_index("shown")
    assert found.loc["turns in another order", "changed"] == 0
    assert np.isnan(found.loc["turns in another order", "change"])


def test_a_bag_of_words_does_not_mind_their_order_and_a_reader_loses_its_accuracy_elsewhere():
    found = alter.table([subject(overlap, "overlap"), subject(length, "length")], resamples=50)
    found = found.set_index(["model", "shown"])
    assert found.loc[("overlap", "words in another order"), "change"] == 0
    assert found.loc[("overlap", alter.OWN), "overall"] == 100
    assert found.loc[("overlap", "the last turn only"), "positive"] == 0  # the thing is named in the first
    elsewhere = found.loc[("overlap", alter.OTHER)]
    assert (elsewhere["positive"], elsewhere["adversarial"], elsewhere["overall"]) == (0, 100, 50)
    for how in (*alter.ALTERED, alter.OTHER):
        assert found.loc[("length", how), "change"] == 0
        assert found.loc[("length", how), "overall"] == found.loc[("length", alter.OWN), "overall"] == 100
    assert np.isnan(found.loc[("length", alter.OWN), "change"]) and found.loc[("length", alter.OTHER), "changed"] == N


def test_random_negatives_are_what_a_blind_scorer_cannot_reject():
    found = blind.accuracies([subject(length, "blind"), subject(overlap, "reads")], resamples=50).set_index("model")
    assert list(found["overall"]) == [100, 100]
    assert list(found["random_rejected"]) == [0, 100]


def test_agreement_with_the_response_alone_by_hand():
    reader = subject(length, "reader", "blind")
    same, opposite = subject(length, "same"), subject(lambda c, r: -length(c, r), "opposite")
    found = blind.agreement([reader, same, opposite], reader, resamples=50).set_index("model")
    assert list(found.index) == ["same", "opposite"]
    assert found.loc["same", "same"] == 100
    for kind in ("spearman", "spearman_positive", "spearman_adversarial"):
        assert found.loc["same", kind] == pytest.approx(1) and found.loc["opposite", kind] == pytest.approx(-1)
    # "opposite" accepts no positive alone: its best threshold accepts everything or nothing
    assert found.loc["opposite", "same"] == 50


def test_the_sample_is_fixed_by_its_seed_in_the_order_of_the_contexts():
    some = subjects.sample(contexts(), 3, seed=5)
    assert some == subjects.sample(contexts(), 3, seed=5) and len(some) == 3
    assert [int(c.id) for c in some] == sorted(int(c.id) for c in some)
    assert subjects.sample(contexts(), 100) == contexts()
    with pytest.raises(DreError, match="at least 2"):
        subjects.sample(contexts(), 1)


def test_means_over_seeds_by_hand():
    row = subjects.over_seeds("x", [[0, 1, np.nan, 1], [1, 1, 1, 1]], list("aabb"), resamples=50)
    assert row["x"] == pytest.approx((0.5 + 1 + 1) / 3)
    assert row["x_sd"] == pytest.approx(np.std([2 / 3, 1], ddof=1))
    assert np.isnan(subjects.over_seeds("x", [1, 2], ["a", "b"])["x_sd"])


def test_scores_that_cannot_be_used_are_refused():
    table = pairs(contexts())
    for values, message in (([1.0], "1 scores .score. for 32 pairs"), ([np.nan] * 32, "missing or infinite")):
        with pytest.raises(DreError, match=message):
            Scorer("m", "slm", lambda t, values=values: {"score": values})(table)


def test_a_blind_scorer_is_the_baseline_of_table_3_and_never_asks_for_a_context():
    table = pairs(contexts(), kinds="par")
    score = blind_scorer("length only", "words", classification.length_only, table)
    expected = classification.length_only(table, table, table)[1]
    np.testing.assert_array_equal(score(table)["words"], [expected])
    np.testing.assert_array_equal(score(table.drop(columns="context"))["words"], [expected])
    new = table.head(3).assign(response=["one", "one two", "one"])
    np.testing.assert_array_equal(np.abs(score(new)["words"]), [[1, 2, 1]])
