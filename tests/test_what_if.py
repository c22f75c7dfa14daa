"""Numbers dealt out anew: as good as asked for, of the same rows, and gaining what another implementation found."""

import numpy as np
import pandas as pd
import pytest
from conftest import needs_data
from scipy.stats import spearmanr

from dre import fusion, what_if
from dre.datasets import ratings
from dre.datasets.registry import repository_file
from dre.judges import released as others


def noisy(n=300, seed=0):
    rng = np.random.default_rng(seed)
    human = rng.integers(1, 6, n).astype(float)
    return human, np.clip(human - 1 + rng.normal(0, 1, n), 0, 5), rng.uniform(0, 1, (n, 2))


@pytest.mark.parametrize("shared", [0.0, 0.5])
@pytest.mark.parametrize("level", [0.0, 0.4, 0.8])
def test_the_rows_are_the_same_and_as_good_as_asked_for(level, shared):
    human, judge, rows = noisy()
    dealt = what_if.as_good_as(level, human, rows, 1, judge, shared)
    score = 1 - dealt[:, 0] + dealt[:, 1]
    assert spearmanr(score, human).statistic == pytest.approx(level, abs=0.005)
    assert sorted(map(tuple, dealt)) == sorted(map(tuple, rows))
    left = [
        np.linalg.lstsq(np.column_stack([human, np.ones(300)]), x)[0] @ [human, np.ones(300)] - x
        for x in (score, judge)
    ]
    assert (np.corrcoef(left)[0, 1] > 0.25) == (shared > 0)


def test_a_judge_that_knows_nothing_is_helped_by_anything_and_a_perfect_one_by_nothing():
    human, _, rows = noisy()
    blind = np.random.default_rng(3).uniform(2, 3, 300)
    assert what_if.break_even(human, human, np.arange(300), rows, n=20)["level"] == 1
    found = what_if.break_even(blind, human, np.arange(300), rows, n=50)
    assert found["level_low"] <= found["level"] <= found["level_high"] < 0.25


@needs_data
@pytest.mark.parametrize(
    ("name", "judge", "shared", "gains"),
    [
        ("personachat-usr", "Qwen-14B", 0.0, {0.2: (-0.069, -0.082), 0.5: (0.224, 0.210)}),
        ("dailydialog-zhao", "claude-2026-11", 0.25, {0.35: (-0.042, -0.429), 0.8: (0.042, 0.011)}),
    ],
)
def test_gains_are_those_of_another_implementation(name, judge, shared, gains):
    rated, score = ratings.rated(name), others.scores(name)[judge].to_numpy()
    inputs = pd.read_csv(
        repository_file("recorded", ratings.NAME, "dre_inputs.csv"), index_col="pair_id"
    )
    given = (
        score,
        rated["human"].to_numpy(),
        rated["context_id"],
        inputs.loc[rated["pair_id"], ["s_d", "s_p"]],
    )
    for i, fuse in enumerate(
        (fusion.ex_dre, lambda s_d, s_p, llm: fusion.slide(1 - s_d + s_p, llm))
    ):
        found = what_if.gains(*given, shared, levels=list(gains), fuse=fuse, n=1)[0]
        assert found == pytest.approx([pair[i] for pair in gains.values()], abs=0.005)


def test_resamples_in_which_a_judge_does_not_vary_are_left_out():
    gain = np.array(
        [what_if.LEVELS - 0.3, np.full(len(what_if.LEVELS), np.nan), what_if.LEVELS - 0.2]
    )
    assert what_if.crossing(gain) == pytest.approx(
        {"level": 0.3, "level_low": 0.2, "level_high": 0.2}
    )


def test_where_a_gain_is_above_zero_twice_the_first_time_counts():
    """A simulated gain wavers; a running maximum of it does not."""
    gain = np.where(what_if.LEVELS < 0.3, what_if.LEVELS - 0.175, -0.05)
    gain[what_if.LEVELS > 0.6] = 0.5
    crossings = what_if.crossing(np.stack([gain, gain]))
    assert crossings["level"] == pytest.approx(0.175)
