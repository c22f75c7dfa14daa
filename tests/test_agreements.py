"""Ways to agree with people and their ceilings: by hand, and beside a plain second computation."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import pearsonr, rankdata, spearmanr

from dre import stats

#: Two contexts of three replies. In the first the scores swap two of them; in the second people
#: and scores tie the same two.
HUMAN = [1, 2, 3, 3, 3, 5]
SCORES = [1, 3, 2, 5, 5, 6]
CONTEXTS = ["a", "a", "a", "b", "b", "b"]


def rated_set(rows=60, contexts=12, systems=4, seed=0):
    """Return ratings, scores of two seeds, contexts and systems, with many ties."""
    rng = np.random.default_rng(seed)
    human = rng.integers(1, 6, rows) / 2
    scores = np.column_stack([human + rng.integers(-3, 4, rows) for _ in range(2)])
    context_numbers = rng.permutation(np.arange(rows) % contexts)
    return human, scores, context_numbers, np.arange(rows) % systems


def share_in_order(x, y, contexts):
    """Try every threshold, and count the pairs of each context that are ordered or tied rightly."""
    pairs_by_context = [
        list(combinations(np.flatnonzero(contexts == context), 2)) for context in set(contexts)
    ]
    gaps = [0.0, *(abs(x[i] - x[j]) for pairs in pairs_by_context for i, j in pairs)]

    def share(threshold):
        of_contexts = []
        for pairs in filter(None, pairs_by_context):
            gap = np.array([x[i] - x[j] for i, j in pairs])
            answers = np.where(abs(gap) <= threshold, 0, np.sign(gap))
            of_contexts.append(np.mean(answers == [np.sign(y[i] - y[j]) for i, j in pairs]))
        return np.mean(of_contexts)

    return max(map(share, gaps))


def without_group_means(x, groups):
    ranks = pd.Series(rankdata(x))
    return ranks - ranks.groupby(groups).transform("mean")


def test_agreements_by_hand():
    by_measure = stats.agreements(SCORES, HUMAN, CONTEXTS, n=3)
    # Ranks of people 1 2 4 | 4 4 6, of scores 1 3 2 | 4.5 4.5 6, minus the mean of their context.
    assert by_measure["within_contexts"][0, 0] == pytest.approx(3 / (22 / 3 * 3.5) ** 0.5)
    # Two of three pairs of context a, all three of b.
    assert by_measure["ordered_pairs"][0, 0] == pytest.approx(5 / 6)
    assert np.isnan(by_measure["within_systems"]).all()


def test_scores_that_differ_by_little_are_tied_where_that_is_right_more_often():
    by_measure = stats.agreements([0.1, 0.2, 0.15, 0.9], [1, 1, 1, 4], ["a"] * 4, n=0)
    assert by_measure["ordered_pairs"] == 1
    # Of two pairs that differ by as much both are tied or none, so one of three pairs is wrong.
    by_measure = stats.agreements([0, 1, 2], [1, 1, 2], ["a"] * 3, n=0)
    assert by_measure["ordered_pairs"] == pytest.approx(2 / 3)


def test_a_score_that_knows_the_group_alone_has_no_agreement_within_it():
    systems = np.repeat(["bad", "good"], 4)
    human = [1.0, 2, 1, 2, 4, 5, 4, 5]
    by_measure = stats.agreements(systems == "good", human, systems, systems, n=0)
    assert by_measure["overall"] > 0.8
    assert np.isnan([by_measure["within_systems"], by_measure["within_contexts"]]).all()


@pytest.mark.parametrize("seed", range(3))
def test_every_way_in_every_resample_is_what_a_plain_computation_gives(seed):
    human, scores, contexts, systems = rated_set(seed=seed)

    by_measure = stats.agreements(scores, human, contexts, systems, n=3, seed=seed)

    weights = stats.context_weights(contexts, n=3, seed=seed).astype(int)
    for line, counts in enumerate(weights):
        # A context that was drawn twice has its pairs twice, not pairs between its two copies.
        rows = np.concatenate([np.flatnonzero(counts > copy) for copy in range(counts.max())])
        copies = np.concatenate([np.full((counts > c).sum(), c) for c in range(counts.max())])
        x = scores[rows, 1]
        y = human[rows]
        expected = {"overall": spearmanr(x, y).statistic}
        for measure, groups in {"within_contexts": contexts, "within_systems": systems}.items():
            centred = [without_group_means(values, groups[rows]) for values in (x, y)]
            expected[measure] = pearsonr(*centred).statistic
        expected["ordered_pairs"] = share_in_order(x, y, contexts[rows] + 100 * copies)
        assert {measure: r[line, 1] for measure, r in by_measure.items()} == pytest.approx(expected)


def test_gains_are_differences_of_agreements_on_the_rows_that_both_scored():
    human, scores, contexts, systems = rated_set()
    a, b = (pd.Series(column) for column in scores.T)

    gain = stats.agreement_gains(a.where(a.index > 5), b, human, contexts, systems, n=5)

    about = [values[6:] for values in (scores, human, contexts, systems)]
    for measure, agreement in stats.agreements(*about, n=0).items():
        assert gain[measure][0, 0] == pytest.approx(agreement[0, 0] - agreement[0, 1]), measure


def test_the_ceiling_is_the_root_of_the_reliability_of_the_mean_rating():
    human, scores, contexts, systems = rated_set()
    ratings = np.column_stack([human, scores])
    gappy = np.vstack([ratings, [3, np.nan, 1]])  # a row that a rater left out does not count

    ceiling = stats.ceilings(gappy, [*contexts, 0], [*systems, 0], n=2)

    r = np.mean([spearmanr(*pair).statistic for pair in combinations(ratings.T, 2)])
    assert ceiling["overall"][0] == pytest.approx((3 * r / (1 + 2 * r)) ** 0.5)
    assert set(ceiling) == {"overall", "within_contexts", "within_systems"}
    opposite = np.column_stack([HUMAN, np.negative(HUMAN)])
    assert np.isnan(stats.ceilings(opposite, CONTEXTS, n=0)["overall"])


def test_one_rater_against_the_rest_is_the_mean_over_raters():
    ratings = np.array([[1, 1, 1], [2, 2, 3], [3, 3, 2], [4, 4, 4], [5, 5, 5.0]])
    of_first = spearmanr(ratings[:, 0], ratings[:, 1:].mean(axis=1)).statistic
    alone = stats.one_against_rest(ratings, list("abcde"), n=0)["overall"]
    # The third rater swaps two of five, which is a correlation of 0.9 with the others.
    assert alone == pytest.approx((2 * of_first + 0.9) / 3)


@pytest.mark.parametrize(
    ("scores", "human", "contexts", "systems", "accuracy"),
    [
        ([5, 1] * 9, [5, 1] * 9, np.repeat(range(9), 2), "ab" * 9, 1),
        ([1, 5] * 9, [5, 1] * 9, np.repeat(range(9), 2), "ab" * 9, 0),
        # People like the first system in all of three contexts, the score in two by as much. Of
        # eight swaps one does as well as people's ratings, four as well as the scores.
        ([2, 1, 2, 1, 1, 2], [2, 1, 2, 1, 2, 1], [0, 0, 1, 1, 2, 2], "ababab", 1 - (4 / 8 - 1 / 8)),
        # Nobody is compared with a third system, in a context of its own.
        ([1, 5] * 9 + [7], [5, 1] * 9 + [7], [*np.repeat(range(9), 2), 9], "ab" * 9 + "c", 0),
        ([1, 2], [2, 1], [0, 1], "ab", np.nan),
        ([1, np.nan], [2, 1], [0, 0], "ab", np.nan),
    ],
)
def test_a_soft_accuracy_by_hand(scores, human, contexts, systems, accuracy):
    measured = stats.soft_pairwise_accuracy(scores, human, contexts, list(systems), 20_000)
    assert measured == pytest.approx(accuracy, abs=0.02, nan_ok=True)


def test_two_rows_do_not_correlate():
    by_measure = stats.agreements([1.0, 2.0], [1.0, 2.0], ["a", "a"], n=0)
    assert np.isnan(by_measure["overall"]).all()
    assert by_measure["ordered_pairs"] == 1
