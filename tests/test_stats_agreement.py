"""Agreement: scikit-learn, Krippendorff's published example, missing ratings, the ceiling on public ratings."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from dre.errors import DreError
from dre.stats import agreement, cohen_kappa, human_ceiling, krippendorff_alpha

X = np.nan
#: Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability", section C: four observers, twelve units
KRIPPENDORFF = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, X, X, X],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, X, 3],
        [X, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, X],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, X],
    ]
).T


@pytest.mark.parametrize("level, published", [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_on_krippendorffs_published_example(level, published):
    assert round(krippendorff_alpha(KRIPPENDORFF, level), 3) == published


def test_alpha_ignores_items_with_a_single_rating_and_the_order_of_raters():
    alone = np.vstack([KRIPPENDORFF, [X, X, 1, X]])
    for level in ("nominal", "ordinal", "interval"):
        expected = krippendorff_alpha(KRIPPENDORFF, level)
        assert krippendorff_alpha(alone, level) == pytest.approx(expected)
        assert krippendorff_alpha(KRIPPENDORFF[:, ::-1], level) == pytest.approx(expected)


def test_alpha_of_perfect_and_of_chance_agreement():
    rng = np.random.default_rng(0)
    same = np.repeat(rng.integers(1, 6, (50, 1)), 3, axis=1)
    assert krippendorff_alpha(same, "ordinal") == 1
    assert abs(krippendorff_alpha(rng.integers(1, 6, (3000, 3)), "nominal")) < 0.03


@pytest.mark.parametrize("weights", ["none", "linear", "quadratic"])
def test_kappa_equals_scikit_learn(weights):
    rng = np.random.default_rng(1)
    a = rng.integers(1, 6, 200)
    b = np.clip(a + rng.integers(-1, 2, 200), 1, 5)
    expected = cohen_kappa_score(a, b, weights=None if weights == "none" else weights)
    assert cohen_kappa(a, b, weights) == pytest.approx(expected, abs=1e-12)


def test_kappa_on_a_two_by_two_table_worked_by_hand():
    a = [1] * 25 + [0] * 25
    b = [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15
    assert cohen_kappa(a, b) == pytest.approx(0.4)  # observed 0.7, expected 0.5


def test_kappa_leaves_out_what_one_rater_left_out():
    assert cohen_kappa([1, 2, X, 1], [1, 2, 2, X]) == 1


def test_undefined_agreement_is_nan():
    assert np.isnan(cohen_kappa([2, 2], [2, 2]))
    assert np.isnan(krippendorff_alpha([[2, 2], [2, 2]]))
    assert np.isnan(krippendorff_alpha([[2, X], [X, 3]]))
    assert np.isnan(krippendorff_alpha([[X, X]]))


def test_ceiling_equals_scipy_averaged_over_raters():
    rng = np.random.default_rng(2)
    ratings = rng.integers(1, 6, (90, 1)) + rng.integers(-1, 2, (90, 3))
    each = [stats.spearmanr(ratings[:, r], np.delete(ratings, r, axis=1).mean(axis=1)).statistic for r in range(3)]
    got = human_ceiling(ratings, np.arange(90) // 6, resamples=300)
    assert got["value"] == pytest.approx(np.mean(each), abs=1e-12)
    assert got["low"] < got["value"] < got["high"] and got["raters"] == 3


@pytest.mark.parametrize("name, published", [("topicalchat-usr", 0.773), ("personachat-usr", 0.725)])
def test_ceiling_on_public_ratings(data_home, name, published):
    from dre.data import rated

    items = rated(name)
    overall = np.array([item.ratings["overall"] for item in items])
    got = human_ceiling(overall, [item.context_id for item in items])
    assert round(got["value"], 3) == published
    assert got["low"] < published < got["high"]


def test_the_table_has_every_coefficient_with_an_interval_around_it():
    rng = np.random.default_rng(3)
    ratings = (rng.integers(1, 6, (80, 1)) + rng.integers(-1, 2, (80, 3))).astype(float)
    ratings[5, 1] = X
    got = agreement(ratings, np.arange(80) // 4, resamples=300).set_index("coefficient")
    assert len(got) == 7
    assert ((got["low"] < got["value"]) & (got["value"] < got["high"])).all()
    assert got.loc["alpha (ordinal)", "value"] == pytest.approx(krippendorff_alpha(ratings, "ordinal"))
    pairs = [cohen_kappa(ratings[:, i], ratings[:, j], "linear") for i, j in [(0, 1), (0, 2), (1, 2)]]
    assert got.loc["kappa (linear)", "value"] == pytest.approx(np.mean(pairs))


def test_one_context_gives_values_without_intervals():
    got = agreement(KRIPPENDORFF, np.zeros(12), resamples=10)
    assert got["value"].notna().sum() >= 6 and got[["low", "high"]].isna().all(axis=None)


@pytest.mark.parametrize("ratings", [[1, 2, 3], [[1], [2]], np.zeros((0, 3))])
def test_a_table_without_two_raters_is_refused(ratings):
    with pytest.raises(DreError, match="at least two raters"):
        krippendorff_alpha(ratings)
    with pytest.raises(DreError, match="unknown level"):
        krippendorff_alpha([[1, 2]], "ratio")
