"""Numbers dealt out anew: as good as asked for, and gaining what another implementation found."""

import numpy as np
import pandas as pd
import pytest
from conftest import needs_data
from scipy.stats import spearmanr

from dre import fusion, what_if
from dre.datasets import ratings, recordings
from dre.datasets.registry import repository_file
from dre.judges import released

N = 300


def noisy_set(seed=0):
    """Return people's ratings, the scores of a noisy judge, and the small model's rows."""
    rng = np.random.default_rng(seed)
    human = rng.integers(1, 6, N).astype(float)
    judge_scores = np.clip(human - 1 + rng.normal(0, 1, N), 0, 5)
    slm_rows = rng.uniform(0, 1, (N, 2))
    return human, judge_scores, slm_rows


def slm_score(rows):
    return 1 - rows[:, 0] + rows[:, 1]


def residuals(x, human):
    """Return what is left of x without the part that is linear in people's ratings."""
    predictors = np.column_stack([human, np.ones(N)])
    coefficients = np.linalg.lstsq(predictors, x)[0]
    return x - predictors @ coefficients


@pytest.mark.parametrize("shared", [0.0, 0.5])
@pytest.mark.parametrize("level", [0.0, 0.4, 0.8])
def test_the_rows_are_the_same_and_as_good_as_asked_for(level, shared):
    human, judge_scores, rows = noisy_set()

    dealt_rows = what_if.as_good_as(level, human, rows, 1, judge_scores, shared)

    correlation = spearmanr(slm_score(dealt_rows), human).statistic
    assert correlation == pytest.approx(level, abs=0.005)
    assert sorted(map(tuple, dealt_rows)) == sorted(map(tuple, rows))


@pytest.mark.parametrize("level", [0.0, 0.4, 0.8])
@pytest.mark.parametrize(("shared", "is_shared"), [(0.0, False), (0.5, True)])
def test_errors_are_shared_with_the_judge_only_where_this_is_asked_for(level, shared, is_shared):
    human, judge_scores, rows = noisy_set()

    dealt_rows = what_if.as_good_as(level, human, rows, 1, judge_scores, shared)

    slm_errors = residuals(slm_score(dealt_rows), human)
    judge_errors = residuals(judge_scores, human)
    assert (np.corrcoef(slm_errors, judge_errors)[0, 1] > 0.25) == is_shared


def test_nothing_helps_a_perfect_judge():
    human, _, rows = noisy_set()
    break_even = what_if.break_even(human, human, np.arange(N), rows, n=20)
    assert break_even["level"] == 1


def test_anything_helps_a_judge_that_knows_nothing():
    human, _, rows = noisy_set()
    blind_judge = np.random.default_rng(3).uniform(2, 3, N)

    break_even = what_if.break_even(blind_judge, human, np.arange(N), rows, n=50)

    assert break_even["level_low"] <= break_even["level"]
    assert break_even["level"] <= break_even["level_high"]
    assert break_even["level_high"] < 0.25


def slide(s_d, s_p, llm_scores):
    return fusion.slide(1 - s_d + s_p, llm_scores)


@needs_data
@pytest.mark.parametrize(
    ("set_name", "judge", "shared", "fuse", "expected_gains"),
    [
        ("personachat-usr", "Qwen-14B", 0.0, fusion.ex_dre, {0.2: -0.069, 0.5: 0.224}),
        ("personachat-usr", "Qwen-14B", 0.0, slide, {0.2: -0.082, 0.5: 0.210}),
        ("dailydialog-zhao", "claude-2026-11", 0.25, fusion.ex_dre, {0.35: -0.042, 0.8: 0.042}),
        ("dailydialog-zhao", "claude-2026-11", 0.25, slide, {0.35: -0.429, 0.8: 0.011}),
    ],
)
def test_gains_are_those_of_another_implementation(set_name, judge, shared, fuse, expected_gains):
    rated = ratings.rated(set_name)
    judge_scores = released.scores(set_name)[judge].to_numpy()
    slm_file = repository_file("recorded", recordings.NAME, "dre_inputs.csv")
    slm_table = pd.read_csv(slm_file, index_col="pair_id")

    gains = what_if.gains(
        judge_scores,
        rated["human"].to_numpy(),
        rated["context_id"],
        slm_table.loc[rated["pair_id"], ["s_d", "s_p"]],
        shared,
        levels=list(expected_gains),
        fuse=fuse,
        n=1,
    )

    assert gains[0] == pytest.approx(list(expected_gains.values()), abs=0.005)


def test_resamples_in_which_a_judge_does_not_vary_are_left_out():
    missing = np.full(len(what_if.LEVELS), np.nan)
    gains = np.array([what_if.LEVELS - 0.3, missing, what_if.LEVELS - 0.2])

    crossing = what_if.crossing(gains)

    expected = {"level": 0.3, "level_low": 0.2, "level_high": 0.2}
    assert crossing == pytest.approx(expected)


def test_where_a_gain_is_above_zero_twice_the_first_time_counts():
    """A simulated gain wavers; a running maximum of it does not."""
    gain = np.where(what_if.LEVELS < 0.3, what_if.LEVELS - 0.175, -0.05)
    gain[what_if.LEVELS > 0.6] = 0.5
    crossing = what_if.crossing(np.stack([gain, gain]))
    assert crossing["level"] == pytest.approx(0.175)


def test_gains_over_parts_agree_with_gains_and_with_the_parts_themselves():
    rng = np.random.default_rng(3)
    human = rng.normal(size=N)
    judge = np.clip(2.5 + 0.3 * human + rng.normal(size=N), 0, 5)
    rows = rng.uniform(size=(N, 2))
    contexts = np.arange(N)

    over = what_if.gains_over_parts(judge, human, contexts, rows, level=0.6, n=20)

    gains = what_if.gains(judge, human, contexts, rows, levels=[0.6], n=20)
    assert np.allclose(over["judge alone"].mean(axis=1), gains[:, 0])
    # The small model agrees at 0.6 and the judge at less, so the small model is the better part.
    assert np.array_equal(over["better part"], over["small model alone"])
    r_judge = spearmanr(judge, human).statistic
    r_small_model = over["judge alone"][0] + r_judge - over["small model alone"][0]
    assert r_small_model == pytest.approx(0.6, abs=0.02)


def test_a_fusion_that_returns_the_small_model_gains_nothing_over_it():
    rng = np.random.default_rng(4)
    human = rng.normal(size=N)
    judge = rng.uniform(0, 5, size=N)
    rows = rng.uniform(size=(N, 2))

    over = what_if.gains_over_parts(
        judge, human, np.arange(N), rows, level=0.5, fuse=lambda s_d, s_p, llm: 1 - s_d + s_p, n=5
    )

    assert np.allclose(over["small model alone"], 0)
    assert (over["judge alone"][0] > 0).all()
