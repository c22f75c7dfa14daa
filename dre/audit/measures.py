"""What does a score read, and what fools it?

Three measures: how often a score falls in another context, which shares of its variance are due to
the response, the context and their interaction, and how often it prefers a good reply to one that
was made to fool it.
"""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dre.audit.kinds import KINDS

SHARES = ("response", "context", "interaction")
_ROUNDING = 1e-5  # differences up to this many standard deviations of a score are ties


def exchange(pairs: pd.DataFrame, swaps: int, seed: int = 0) -> pd.DataFrame:
    """Put each response into other contexts of the table; a score that reads contexts should fall.

    Parameters
    ----------
    pairs : DataFrame
        ``pair_id, context_id, context`` and any other columns.
    swaps : int
        Other contexts for each pair, less than there are distinct contexts.
    seed : int
        Of the draw.

    Returns
    -------
    DataFrame
        ``swaps`` rows for each pair, one after the other, with the columns of `pairs`: ``context``
        is the other one, ``pair_id`` becomes ``<pair_id>|<other context_id>``, and ``context_id``
        stays the pair's own, the unit of resampling. ``row`` is the pair's position in `pairs`.
    """
    distinct = pairs.drop_duplicates("context")
    contexts = list(distinct["context"])
    context_ids = list(distinct["context_id"])
    own_numbers = pd.factorize(pairs["context"])[0]  # each pair's own context, among `contexts`

    # Draw among one context less than there are. From the own context on, each drawn number means
    # the next context, so that the own one is never taken and all others are equally likely.
    rng = np.random.default_rng(seed)
    draws = [rng.choice(len(contexts) - 1, swaps, replace=False) for _ in own_numbers]
    other_numbers = np.stack(draws)
    other_numbers = other_numbers + (other_numbers >= own_numbers[:, None])
    other_numbers = other_numbers.ravel()

    rows = np.repeat(np.arange(len(pairs)), swaps)
    pair_ids = [
        f"{pair_id}|{context_ids[number]}"
        for pair_id, number in zip(pairs["pair_id"].to_numpy()[rows], other_numbers)
    ]
    other_contexts = [contexts[number] for number in other_numbers]
    exchanged = pairs.iloc[rows].assign(pair_id=pair_ids, context=other_contexts, row=rows)
    return exchanged.reset_index(drop=True)


def falls(before: ArrayLike, after: ArrayLike, sd: ArrayLike | None = None) -> np.ndarray:
    """Return 1 where a score falls, 0 where it rises, and 0.5 where it stays the same.

    Parameters
    ----------
    before, after : array
        Scores of the same rows, (rows,) or (rows, seeds), in any unit. Infinite scores compare as
        any other: two equal infinities are the same.
    sd : float or array, optional
        The score's standard deviation, by default that of `before` over rows. Differences of at
        most 1e-5 of it are rounding.
    """
    before = np.asarray(before, float)
    after = np.asarray(after, float)
    if sd is None:
        sd = _finite_sd(before)
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        fall = before - after
    is_same = (before == after) | (np.abs(fall) <= _ROUNDING * np.asarray(sd))
    return np.where(is_same, 0.5, fall > 0)


def _finite_sd(scores):
    """Return the standard deviation over rows of the scores that are finite, 0 if there is none."""
    finite = pd.DataFrame(scores).replace([np.inf, -np.inf], np.nan)
    sd = np.nan_to_num(finite.std(ddof=0).to_numpy())
    return sd if scores.ndim > 1 else sd[0]


def grid(pairs: pd.DataFrame, size: int, seed: int = 0) -> pd.DataFrame:
    """Put one response of each of some contexts into every one of them, for `shares`.

    Parameters
    ----------
    pairs : DataFrame
        ``pair_id, context_id, context, response, kind``.
    size, seed : int
        Contexts to draw, at most, and the seed of the draw.

    Returns
    -------
    DataFrame
        ``pair_id`` (``<pair_id>|<context_id>``), ``context_id, context, response, owner``: size
        times size rows, one response after the other. ``owner`` is the context that a response
        was written for; half of the responses are of kind p, half of kind a.
    """
    contexts = pairs.drop_duplicates("context_id").set_index("context_id")["context"]
    size = min(size, len(contexts))
    context_rng = np.random.default_rng(seed)
    positions = context_rng.choice(len(contexts), size, replace=False)
    contexts = contexts.iloc[np.sort(positions)]

    # One response of each context: of half of them of kind p, of the others of kind a.
    rng = np.random.default_rng(seed)
    equally_many = ["p", "a"] * ((size + 1) // 2)
    kinds = rng.permutation(equally_many)
    responses_everywhere = []
    for owner, kind in zip(contexts.index, kinds):
        candidates = pairs[(pairs["context_id"] == owner) & (pairs["kind"] == kind)]
        chosen = candidates.iloc[rng.integers(len(candidates))]
        everywhere = contexts.reset_index().assign(response=chosen["response"], owner=owner)
        pair_ids = [f"{chosen['pair_id']}|{context_id}" for context_id in contexts.index]
        everywhere.insert(0, "pair_id", pair_ids)
        responses_everywhere.append(everywhere)
    return pd.concat(responses_everywhere, ignore_index=True)


def shares(matrix: ArrayLike, weights: ArrayLike | None = None) -> np.ndarray:
    """Return the shares of a score's variance by response, by context and by their interaction.

    x_rc = mean + response_r + context_c + interaction_rc, and the sums of squares of the last
    three terms add up to the total. There is one value per cell, so interaction is all that is no
    main effect. Whether a response fits its context can only show there.

    Parameters
    ----------
    matrix : array (n, n)
        Scores; response i (row) was written for context i (column).
    weights : array (B, n), optional
        How often each context, and with it its response, is in each resample
        (`dre.stats.context_weights`). Without them each is taken once, and B is 1.

    Returns
    -------
    array (B, 3)
        Shares between 0 and 1 in the order of `SHARES`, whose sum is 1; NaN where nothing varies.
    """
    x = np.asarray(matrix, float)
    x = x - x.mean()  # which changes no share and keeps the sums below exact
    w = np.ones((1, len(x))) if weights is None else np.asarray(weights, float)
    n = w.sum(axis=1)  # rows, and columns, of each resample

    # Means of each response over contexts, of each context over responses, and of all cells.
    n_column = n[:, None]
    response_means = w @ x.T / n_column
    context_means = w @ x / n_column
    weighted_means = w * response_means
    mean = weighted_means.sum(axis=1) / n

    # Sums of squares: of all cells, of responses and of contexts. The interaction is what is left.
    square_of_mean = (n * mean) ** 2
    sum_of_squares = np.einsum("br,rc,bc->b", w, x**2, w, optimize=True)
    total = sum_of_squares - square_of_mean
    n_mean_squared = n * mean**2
    squares_of_responses = (w * response_means**2).sum(axis=1)
    squares_of_contexts = (w * context_means**2).sum(axis=1)
    by_response = n * (squares_of_responses - n_mean_squared)
    by_context = n * (squares_of_contexts - n_mean_squared)
    interaction = total - by_response - by_context
    sums = np.stack([by_response, by_context, interaction], axis=1)

    # What is nothing but rounding counts as zero.
    sums[sums < 1e-12 * total[:, None]] = 0
    mean_square = (x**2).mean()
    smallest = np.maximum(n**2 * mean_square, np.finfo(float).tiny)
    varies = total > 1e-12 * smallest
    divisor = np.where(varies, total, 1)
    return np.where(varies[:, None], sums / divisor[:, None], np.nan)


def preferred(cases: pd.DataFrame, scores: pd.Series) -> pd.DataFrame:
    """Return by kind how often a score prefers the right pair of a case.

    Parameters
    ----------
    cases : DataFrame
        As `dre.audit.kinds.tables` makes them.
    scores : Series
        By pair id, in any unit, higher is better; NaN where there is none.

    Returns
    -------
    DataFrame
        One row for each of `dre.audit.kinds.KINDS` in `cases`: ``kind, what, source, use,
        expected`` (percent), ``n`` (cases with both scores), ``share`` (percent in which the right
        pair is preferred; a tie counts half, of ``injection_gain`` as right) with its interval
        ``share_low, share_high`` (95 %, Wilson 1927), and ``gain``: by how much the rival
        scores higher on average, in the score's unit. NaN where ``n`` is 0.
    """
    right_scores = scores.reindex(cases["right"]).to_numpy(float)
    rival_scores = scores.reindex(cases["rival"]).to_numpy(float)
    finite_scores = scores.replace([np.inf, -np.inf], np.nan)
    sd = np.nan_to_num(finite_scores.std())
    has_both_scores = ~np.isnan(right_scores) & ~np.isnan(rival_scores)
    rows = []
    for name, kind in KINDS.items():
        is_kind = cases["kind"] == name
        if not is_kind.any():
            continue
        scored = is_kind & has_both_scores
        right = right_scores[scored]
        rival = rival_scores[scored]
        wins = falls(right, rival, sd)
        wins[wins == 0.5] = kind.tie
        row = {
            "kind": name,
            "what": kind.what,
            "source": cases.loc[is_kind, "source"].iloc[0],
            "use": ", ".join(kind.use) or "report",
            "expected": 50 if kind.equal else 100,
            "n": int(scored.sum()),
            **wilson(wins),
            "gain": _mean_gain(right, rival),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _mean_gain(right, rival):
    """Return by how much the rivals' scores are higher, on average; NaN of no pair."""
    if not len(right):
        return np.nan
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        gains = np.where(right == rival, 0.0, rival - right)
        return float(gains.mean())


def wilson(wins: np.ndarray) -> dict[str, float]:
    """Return the ``share`` of wins (1, 0, or 0.5 for a tie) and its 95 % interval, in percent.

    Wilson's interval (1927) stays between 0 and 100 and has a width where all cases are won, too.
    Ties count half, so wins need not be whole. NaN where there is no case.
    """
    n = len(wins)
    if not n:
        return {"share": np.nan, "share_low": np.nan, "share_high": np.nan}
    z = 1.96
    share = wins.mean()
    middle = share + z**2 / (2 * n)
    variance = share * (1 - share) / n
    half_width = z * np.sqrt(variance + z**2 / (4 * n**2))
    scale = 1 + z**2 / n
    low = (middle - half_width) / scale
    high = (middle + half_width) / scale
    return {"share": 100 * share, "share_low": 100 * low, "share_high": 100 * high}
