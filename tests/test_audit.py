import numpy as np
import pandas as pd
import pytest

from dre import audit, stats


def test_every_exchanged_context_is_another_one():
    rows = [(f"c{c}/{kind}", f"c{c}", ("hello", f"number {c}"), kind) for c in range(12) for kind in "pa"]
    pairs = pd.DataFrame(rows, columns=["pair_id", "context_id", "context", "kind"])
    swapped = audit.exchange(pairs, swaps=11, seed=1)
    own = pairs.loc[swapped["row"]].reset_index(drop=True)
    assert (swapped["context"] != own["context"]).all()
    assert (swapped.groupby("row")["context"].nunique() == 11).all()
    assert (swapped[["context_id", "kind"]] == own[["context_id", "kind"]]).all(axis=None)
    assert swapped["pair_id"].is_unique


def test_a_score_that_reads_no_context_falls_in_half_of_the_swaps():
    before = np.array([0.1, 0.7, 0.9])
    assert audit.falls(before, before + 1e-9).tolist() == [0.5, 0.5, 0.5]
    assert audit.falls(before, [0.0, 0.8, 0.9]).tolist() == [1, 0, 0.5]
    two = audit.falls(np.column_stack([before, 100 * before]), np.column_stack([before - 1, 100 * before]))
    assert two.tolist() == [[1, 0.5]] * 3  # each seed has its own unit


def test_shares_in_a_resample_are_those_of_the_rows_and_columns_repeated():
    matrix = np.random.default_rng(0).normal(size=(6, 6))
    assert np.isnan(audit.shares(np.ones((3, 3)))).all()
    weights = stats.context_weights(range(6), n=5, seed=4)
    for found, line in zip(audit.shares(matrix, weights), weights.astype(int)):
        again = np.repeat(np.arange(6), line)
        assert found == pytest.approx(audit.shares(matrix[np.ix_(again, again)])[0])
