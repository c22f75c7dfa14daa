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
    gaps = [0.0]
    for context in set(contexts):
        gaps += [abs(a - b) for a, b in combinations(x[contexts == context], 2)]
    shares = []
    for threshold in gaps:
        of_contexts = []
        for context in set(contexts):
            pairs = combinations(np.flatnonzero(contexts == context), 2)
            answers = []
            for i, j in pairs:
                gap = x[i] - x[j]
                answer = 0 if abs(gap) <= threshold else np.sign(gap)
                answers.append(answer == np.sign(y[i] - y[j]))
            if answers:
                of_contexts.append(np.mean(answers))
        shares.append(np.mean(of_contexts))
    return max(shares)


def without_group_means(x, groups):
    ranks = pd.Series(rankdata(x))
    return ranks - ranks.groupby(groups).transform("mean")


def test_within_contexts_only_differences_between_replies_to_one_context_count():
    by_measure = stats.agreements(SCORES, HUMAN, CONTEXTS, n=0)

    # Ranks of people 1 2 4 | 4 4 6, of scores 1 3 2 | 4.5 4.5 6, minus the mean of their context.
    assert by_measure["within_contexts"][0, 0] == pytest.approx(3 / (22 / 3 * 3.5) ** 0.5)
    assert by_measure["overall"][0, 0] == pytest.approx(spearmanr(SCORES, HUMAN).statistic)


def test_pairs_are_in_order_where_the_scores_order_or_tie_them_as_people_do():
    by_measure = stats.agreements(SCORES, HUMAN, CONTEXTS, n=0)

    # Two of three pairs of context a, all three of b.
    assert by_measure["ordered_pairs"][0, 0] == pytest.approx(5 / 6)


def test_scores_that_differ_by_little_are_tied_where_that_is_right_more_often():
    human = [1, 1, 1, 4]
    scores = [0.1, 0.2, 0.15, 0.9]

    by_measure = stats.agreements(scores, human, ["a"] * 4, n=0)

    assert by_measure["ordered_pairs"][0, 0] == 1


def test_within_systems_a_score_that_knows_the_system_alone_has_no_agreement():
    human = np.array([1.0, 2, 1, 2, 4, 5, 4, 5])
    systems = np.repeat(["bad", "good"], 4)
    scores = np.where(systems == "good", 1.0, 0.0)

    by_measure = stats.agreements(scores, human, list("abcdabcd"), systems, n=0)

    assert by_measure["overall"][0, 0] > 0.8
    assert np.isnan(by_measure["within_systems"][0, 0])


def test_without_systems_agreement_within_them_is_unknown():
    by_measure = stats.agreements(SCORES, HUMAN, CONTEXTS, n=3)
    assert np.isnan(by_measure["within_systems"]).all()


@pytest.mark.parametrize("seed", range(4))
def test_every_way_in_every_resample_is_what_a_plain_computation_gives(seed):
    human, scores, contexts, systems = rated_set(seed=seed)

    by_measure = stats.agreements(scores, human, contexts, systems, n=3, seed=seed)

    weights = stats.context_weights(contexts, n=3, seed=seed).astype(int)
    for line, counts in enumerate(weights):
        rows = np.repeat(np.arange(len(human)), counts)
        for column in range(2):
            x = scores[rows, column]
            y = human[rows]
            overall = spearmanr(x, y).statistic
            assert by_measure["overall"][line, column] == pytest.approx(overall)
            for measure, groups in {"within_contexts": contexts, "within_systems": systems}.items():
                centred = [without_group_means(values, groups[rows]) for values in (x, y)]
                expected = pearsonr(*centred).statistic
                assert by_measure[measure][line, column] == pytest.approx(expected), measure

        # A context that was drawn twice has its pairs twice, not pairs between its two copies.
        shares = []
        for context in set(contexts):
            times = counts[contexts == context][0]
            shares += [context] * times
        copies = np.concatenate([np.flatnonzero(contexts == context) for context in shares])
        copy_ids = np.repeat(np.arange(len(shares)), [(contexts == c).sum() for c in shares])
        expected = share_in_order(scores[copies, 0], human[copies], copy_ids)
        assert by_measure["ordered_pairs"][line, 0] == pytest.approx(expected)


def test_gains_are_differences_of_agreements_on_the_rows_that_both_scored():
    human, scores, contexts, systems = rated_set()
    a = pd.Series(scores[:, 0]).where(np.arange(60) > 5)
    b = pd.Series(scores[:, 1])

    gain = stats.agreement_gains(a, b, human, contexts, systems, n=5)

    rows = slice(6, None)
    of_both = stats.agreements(scores[rows], human[rows], contexts[rows], systems[rows], n=0)
    for measure, agreement in of_both.items():
        assert gain[measure][0, 0] == pytest.approx(agreement[0, 0] - agreement[0, 1]), measure
    assert gain["overall"] == pytest.approx(stats.gains(a, b, human, contexts, n=5))


def test_the_ceiling_is_the_root_of_the_reliability_of_the_mean_rating():
    human, scores, contexts, systems = rated_set()
    ratings = np.column_stack([human, scores])

    ceiling = stats.ceilings(ratings, contexts, systems, n=2)

    r = np.mean(
        [spearmanr(ratings[:, i], ratings[:, j]).statistic for i, j in [(0, 1), (0, 2), (1, 2)]]
    )
    assert ceiling["overall"][0] == pytest.approx((3 * r / (1 + 2 * r)) ** 0.5)
    assert set(ceiling) == {"overall", "within_contexts", "within_systems"}


def test_raters_who_disagree_leave_no_ceiling():
    opposite = np.column_stack([HUMAN, np.negative(HUMAN)])
    assert np.isnan(stats.ceilings(opposite, CONTEXTS, n=0)["overall"][0])


def test_one_rater_against_the_rest_is_the_mean_over_raters():
    ratings = np.array([[1, 1, 5], [2, 2, 4], [3, 3, 3], [4, 4, 2], [5, 5, 1.0]])

    alone = stats.one_against_rest(ratings, list("abcde"), n=0)["overall"][0]

    # The third rater is opposed to both others, whose mean with the third says nothing.
    assert np.isnan(alone)
    ratings[:, 2] = [1, 3, 2, 4, 5]
    others_of_first = ratings[:, 1:].mean(axis=1)
    expected = 2 * spearmanr(ratings[:, 0], others_of_first).statistic + 0.9
    alone = stats.one_against_rest(ratings, list("abcde"), n=0)["overall"][0]
    assert alone == pytest.approx(expected / 3)


def test_rows_that_a_rater_left_out_do_not_count_for_ceilings():
    human, scores, contexts, _ = rated_set()
    ratings = np.column_stack([human, scores])
    gappy = ratings.copy()
    gappy[:6, 1] = np.nan

    assert stats.ceilings(gappy, contexts, n=0)["overall"] == pytest.approx(
        stats.ceilings(ratings[6:], contexts[6:], n=0)["overall"]
    )


def test_scores_that_rank_systems_as_people_do_have_a_soft_accuracy_of_1_and_the_reverse_of_0():
    contexts = np.repeat(np.arange(20), 2)
    systems = np.tile(["one", "other"], 20)
    human = np.where(systems == "one", 5.0, 1.0) + contexts % 3

    assert stats.soft_pairwise_accuracy(human, human, contexts, systems) == 1
    assert stats.soft_pairwise_accuracy(-human, human, contexts, systems) < 0.01


def test_a_soft_accuracy_by_hand():
    # Three contexts: people like the first system in all, the score in two of three by as much.
    contexts = [0, 0, 1, 1, 2, 2]
    systems = ["one", "other"] * 3
    human = [2, 1, 2, 1, 2, 1]
    scores = [2, 1, 2, 1, 1, 2]

    accuracy = stats.soft_pairwise_accuracy(scores, human, contexts, systems, 40_000)

    # Of eight swaps one does as well as people's ratings, four as well as the scores (1/8, 4/8).
    assert accuracy == pytest.approx(1 - (4 / 8 - 1 / 8), abs=0.02)


def test_seeds_of_two_numbers_that_are_drawn_apart_vary_on_their_own():
    draws = np.tile([0.0, 1.0], (4001, 1))

    alone = stats.drawn_seeds(draws, seed=1)
    other = stats.drawn_seeds(draws, seed=2)

    assert alone[0] == 0.5
    assert alone[1:].std() == pytest.approx(0.5 / 2**0.5, abs=0.02)
    assert np.corrcoef(alone[1:], other[1:])[0, 1] == pytest.approx(0, abs=0.06)


def test_the_smallest_effect_that_is_seen_is_2_8_standard_errors():
    assert stats.smallest_seen(-1.96, 1.96) == pytest.approx(2.8)


def test_two_rows_do_not_correlate_overall():
    by_measure = stats.agreements([1.0, 2.0], [1.0, 2.0], ["a", "a"], n=0)
    assert np.isnan(by_measure["overall"]).all()
    assert by_measure["ordered_pairs"].item() == 1
