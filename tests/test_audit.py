import numpy as np
import pandas as pd
import pytest

from dre import audit, stats


def made(contexts=12, per_context=4):
    rows = [
        (f"made/{c}{kind}{i}", f"made/{c}", (f"hello {c}", "one two three", "how are you"), f"reply {c} {i}", kind)
        for c in range(contexts)
        for i, kind in enumerate("pa" * (per_context // 2))
    ]
    return pd.DataFrame(rows, columns=["pair_id", "context_id", "context", "response", "kind"])


def test_every_exchanged_context_is_another_one():
    pairs = made()
    swapped = audit.exchange(pairs, swaps=3, seed=1)
    assert len(swapped) == 3 * len(pairs) and swapped["pair_id"].is_unique
    own = pairs.loc[swapped["row"]].reset_index(drop=True)
    assert (swapped["context"] != own["context"]).all()
    assert (swapped[["context_id", "response", "kind"]] == own[["context_id", "response", "kind"]]).all(axis=None)
    shown = dict(zip(pairs["context_id"], pairs["context"]))
    before, other = swapped["pair_id"].str.split("|", expand=True).to_numpy().T
    assert (before == own["pair_id"]).all() and [shown[name] for name in other] == swapped["context"].tolist()
    pd.testing.assert_frame_equal(swapped, audit.exchange(pairs, swaps=3, seed=1))
    assert (audit.exchange(pairs, swaps=11).groupby("row")["context"].nunique() == 11).all()


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
