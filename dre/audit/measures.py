"""What does a score read, and what fools it? Contexts exchanged, parts of its variance, good replies preferred."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dre.audit.kinds import KINDS

SHARES = ("response", "context", "interaction")


def exchange(pairs: pd.DataFrame, swaps: int, seed: int = 0) -> pd.DataFrame:
    """Return each pair `swaps` times, each time with another context of the table; a score that reads it has to fall.

    As `pairs`, ``swaps`` rows per pair, one after the other: ``context`` is the other one, ``pair_id`` becomes
    ``<pair_id>|<other context_id>``, ``context_id`` stays the pair's own, the unit of resampling; ``row`` is the
    position of the pair in `pairs`.
    """
    once = pairs.drop_duplicates("context")
    contexts, names, own = (
        once["context"].tolist(),
        once["context_id"].tolist(),
        pd.factorize(pairs["context"])[0],
    )
    # others are drawn from a row that lacks the own context: whoever stands behind it moves up by one
    rng = np.random.default_rng(seed)
    drawn = np.stack([rng.choice(len(contexts) - 1, swaps, replace=False) for _ in own])
    others, row = (drawn + (drawn >= own[:, None])).ravel(), np.repeat(np.arange(len(pairs)), swaps)
    ids = [f"{pair}|{names[i]}" for pair, i in zip(pairs["pair_id"].to_numpy()[row], others)]
    shown = [contexts[i] for i in others]
    return pairs.iloc[row].assign(pair_id=ids, context=shown, row=row).reset_index(drop=True)


def falls(before: ArrayLike, after: ArrayLike, sd: ArrayLike | None = None) -> np.ndarray:
    """Return 1 where a score falls, 0 where it rises, 0.5 where it stays up to rounding: 1e-5 of its sd over rows."""
    fall = np.asarray(before, float) - np.asarray(after, float)
    sd = np.asarray(before, float).std(axis=0) if sd is None else sd
    return np.where(np.abs(fall) <= 1e-5 * sd, 0.5, fall > 0)


def grid(pairs: pd.DataFrame, size: int, seed: int = 0) -> pd.DataFrame:
    """Return up to ``size`` contexts of a table, each with one response of every one: for `shares`.

    ``pairs`` has ``pair_id, context_id, context, response, kind``; half of the responses drawn are
    of kind p, half a. Response i, row by row, belongs to context i: ``owner`` is its context,
    ``pair_id`` ``<its pair>|<context_id>``.
    """
    contexts = pairs.drop_duplicates("context_id").set_index("context_id")["context"]
    size = min(size, len(contexts))
    drawn = np.random.default_rng(seed).choice(len(contexts), size, replace=False)
    contexts = contexts.iloc[np.sort(drawn)]
    rng, rows = np.random.default_rng(seed), []
    for owner, kind in zip(contexts.index, rng.permutation(["p", "a"] * ((size + 1) // 2))):
        own = pairs[(pairs["context_id"] == owner) & (pairs["kind"] == kind)]
        pair_id, response = own[["pair_id", "response"]].iloc[rng.integers(len(own))]
        rows += [(f"{pair_id}|{c}", c, turns, response, owner) for c, turns in contexts.items()]
    return pd.DataFrame(rows, columns=["pair_id", "context_id", "context", "response", "owner"])


def shares(matrix: ArrayLike, weights: ArrayLike | None = None) -> np.ndarray:
    """Return the shares of variance of a score by response, context and their interaction.

    x_rc = mean + response_r + context_c + interaction_rc; the sums of squares of the three add up to the total. There
    is one value per cell: what is no main effect is interaction, and only there can fit be.

    ``matrix`` (n, n): response i (row) was written for context i (column). ``weights`` (B, n): how often each context,
    and with it its response, is in each resample (`dre.stats.context_weights`). Returns (B, 3) in the order of
    `SHARES`, adding up to 1; NaN where nothing varies; B = 1 without weights.
    """
    x = np.asarray(matrix, float)
    x = x - x.mean()
    w = np.ones((1, len(x))) if weights is None else np.asarray(weights, float)
    n = w.sum(axis=1)
    by_response, by_context = w @ x.T / n[:, None], w @ x / n[:, None]
    mean = (w * by_response).sum(axis=1) / n
    total = np.einsum("br,rc,bc->b", w, x**2, w, optimize=True) - (n * mean) ** 2
    response, context = (
        n * ((w * v**2).sum(axis=1) - n * mean**2) for v in (by_response, by_context)
    )
    parts = np.stack([response, context, total - response - context], axis=1)
    parts[parts < 1e-12 * total[:, None]] = 0  # nothing but rounding
    varies = total > 1e-12 * np.maximum(n**2 * (x**2).mean(), np.finfo(float).tiny)
    return np.where(varies[:, None], parts / np.where(varies, total, 1)[:, None], np.nan)


def preferred(cases: pd.DataFrame, scores: pd.Series) -> pd.DataFrame:
    """Return by kind how often the right pair is preferred: one row for each of `dre.audit.kinds.KINDS` among cases.

    ``cases`` as `dre.audit.kinds.tables` makes them; ``scores``: a Series by pair id, in any unit, higher is better,
    NaN where there is none. Columns ``kind, what, source, use, n`` (cases with both scores) and ``share`` (percent,
    ties by half) with its interval (95 %, Wilson 1927, which is one also where all are right); NaN where ``n`` is 0.
    """
    right, other = (cases[side].map(scores).to_numpy(float) for side in ("right", "other"))
    spread = np.nan_to_num(scores.std())
    rows = []
    for kind, about in KINDS.items():
        of = (cases["kind"] == kind).to_numpy()
        if of.any():
            seen = of & ~np.isnan(right) & ~np.isnan(other)
            won = falls(right[seen], other[seen], spread)
            row = {"kind": kind, "what": about.what, "source": cases.loc[of, "source"].iloc[0]}
            row |= {"use": ", ".join(about.use) or "report", "expected": 50 if about.equal else 100}
            rows.append(row | {"n": int(seen.sum())} | wilson(won))
    return pd.DataFrame(rows)


def wilson(won: np.ndarray) -> dict[str, float]:
    """Return ``share`` of what was won (1, 0, or 0.5 for a tie) with its interval, all in percent; NaN of nothing."""
    n, z = len(won), 1.96
    if not n:
        return dict.fromkeys(("share", "share_low", "share_high"), np.nan)
    p = won.mean()
    middle, half = p + z**2 / (2 * n), z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    low, high = ((middle + side * half) / (1 + z**2 / n) for side in (-1, 1))
    return {"share": 100 * p, "share_low": 100 * low, "share_high": 100 * high}
