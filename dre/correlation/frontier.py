"""The cost-quality frontier: SLM, judge, fusion, and a cascade that asks the judge only where the SLM is unsure."""

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from dre import stats
from dre.correlation.calibration import CALIBRATED, evidence
from dre.report.cells import number, signed, with_interval

SHARES = tuple(np.linspace(0, 1, 11).round(1).tolist())
#: shares whose correlation gets an interval
KEPT = (0.25, 0.5)
#: random choices of whom to ask, for each share
DRAWS = 40


def sweep(domain, opinion, scored, fitted, seed=0):
    """Return the cascade for every share of `SHARES`, beside asking the judge about as many at random.

    Parameters
    ----------
    scored : dict of int to DataFrame
        Training seed -> the SLM's table.
    fitted : dict of int to Calibrated

    Returns
    -------
    DataFrame
        ``domain, judge, share, cascade, random`` (Spearman, means over training seeds and random choices) and
        ``above`` (the share of random choices that the cascade beats; NaN where there is nothing to choose). Pairs
        without a score of the judge are left out.
    """
    by_seed = [
        _sweep(evidence(domain, opinion, scored[n]), fitted[n], np.random.default_rng([seed, n])) for n in scored
    ]
    mean = pd.concat(by_seed).groupby("share", as_index=False).mean()
    return mean.assign(domain=domain.label, judge=opinion.name)[
        ["domain", "judge", "share", "cascade", "random", "above"]
    ]


def _sweep(table, fitted, rng):
    table = table[fitted.fuse(table)["score"].notna() & table["human"].notna()]
    rows = []
    for share in SHARES:
        asked = fitted.unsure(table, share)
        choices = np.stack([asked, *(rng.permutation(asked) for _ in range(DRAWS))], axis=1)
        ends = [fitted.cascade(table, np.full(len(table), full))["score"].to_numpy() for full in (True, False)]
        r = _spearman(np.where(choices, ends[0][:, None], ends[1][:, None]), table["human"].to_numpy())
        row = {"share": share, "cascade": r[0], "random": r[1:].mean()}
        rows.append(row | {"above": (r[0] > r[1:]).mean() if 0 < share < 1 else np.nan})
    return pd.DataFrame(rows)


def _spearman(scores, human):
    """Spearman correlation of each column with human; 0 for a constant column, which ranks nothing."""
    ranks = rankdata(scores, axis=0) - (len(scores) + 1) / 2
    people = rankdata(human) - (len(human) + 1) / 2
    norms = np.sqrt((ranks**2).sum(axis=0) * (people**2).sum())
    return np.divide(people @ ranks, norms, out=np.zeros_like(norms), where=norms > 0)


def points(domain, found, said, scored, fitted, prices_of, slm_seconds, resamples=1000, seed=0):
    """Return what there is to choose from on a domain: the SLM, each judge, its fusion, and cascades of `KEPT` shares.

    Parameters
    ----------
    found : list of Row
        Of `dre.correlation.calibration.rows`.
    fitted : dict
        Of `dre.correlation.calibration.fits`.
    prices_of : DataFrame
        Of `dre.correlation.frontier_cost.dollars`.
    slm_seconds : float
        For 1,000 responses.

    Returns
    -------
    DataFrame
        ``domain, judge, choice, asked`` (share), ``dollars, dollars_low, dollars_high, seconds`` (for 1,000 responses),
        ``spearman, spearman_low, spearman_high, why`` (a number is missing).
    """
    columns = {row.method: pd.DataFrame(row.score) for row in found if row.family in ("SLM", "LLM-only", CALIBRATED)}
    lines = [("SLM", "", "SLM alone", 0.0)]
    for opinion in said:
        name = opinion.name
        lines += [(f"LLM-only ({name})", name, "judge alone", 1.0), (f"{CALIBRATED} ({name})", name, "fusion", 1.0)]
        for share in KEPT:
            method, choice = f"cascade {share} ({name})", f"cascade, {share:.0%} asked"
            columns[method] = _cascades(domain, opinion, scored, fitted[domain.label, name][0], share)
            lines.append((method, name, choice, share))
    measured = stats.correlate(
        pd.concat(columns, axis=1), domain.human, domain.contexts, ("spearman",), resamples=resamples, seed=seed
    ).set_index("method")
    taken = prices_of.set_index("judge")
    return pd.DataFrame([_point(domain, line, measured, taken, slm_seconds) for line in lines])


def _cascades(domain, opinion, scored, fitted, share):
    out = {}
    for seed, table in scored.items():
        rated = evidence(domain, opinion, table)
        out[seed] = fitted[seed].cascade(rated, fitted[seed].unsure(rated, share)).set_index("pair_id")["score"]
    return pd.DataFrame(out)


def _point(domain, line, measured, taken, slm_seconds):
    method, judge, choice, asked = line
    out = {"domain": domain.label, "judge": judge, "choice": choice, "asked": asked}
    own = 0.0 if choice == "judge alone" else slm_seconds
    if asked:
        for name in ("dollars", "dollars_low", "dollars_high", "seconds"):
            out[name] = asked * taken.loc[judge, name] + (own if name == "seconds" else 0)
        out["why"] = taken.loc[judge, "why"]
    else:
        out |= {"dollars": 0.0, "dollars_low": np.nan, "dollars_high": np.nan, "seconds": own, "why": ""}
    one = measured.loc[method]
    return out | {"spearman": one["value"], "spearman_low": one["low"], "spearman_high": one["high"]}


def words(choices, sweeps):
    """Return in Markdown what a practitioner may read from `points` and `sweep`, from their numbers alone."""
    lines = []
    for domain, part in choices.groupby("domain", sort=False):
        best = part.loc[part["spearman"].idxmax()]
        known = part[part["dollars"].notna()]
        free, paid = known[known["dollars"] == 0].iloc[0], known[known["dollars"] > 0]
        line = f"- **{domain}:** highest is {_choice(best)}; free of charge, the SLM alone gives "
        line += number(free["spearman"], 3)
        if len(paid):
            cheap = paid.loc[paid["spearman"].idxmax()]
            line += (
                f"; of what has a price, {_choice(cheap)} is highest, at ${cheap['dollars']:.2f} per 1,000 responses"
            )
        lines.append(line + ".")
    inner = sweeps[sweeps["above"].notna()]
    gain = inner["cascade"] - inner["random"]
    half = inner[inner["share"] == 0.5]
    lines += [
        "",
        "Asking the judge where the SLM is unsure rather than at random changes the correlation by "
        f"{signed(gain.mean(), 3)} on average over {len(inner)} (set, judge, share) triples, from "
        f"{signed(gain.min(), 3)} to {signed(gain.max(), 3)}; it is higher in {(gain > 0).sum()}. At half of the calls "
        f"it beats at least 95 % of random choices for {(half['above'] >= 0.95).sum()} of {len(half)} pairs of "
        f"set and judge, and at most 5 % for {(half['above'] <= 0.05).sum()}.",
    ]
    kept = _kept(sweeps)
    lines.append(
        f"With half of the calls the cascade keeps {kept.median():.0%} (median over sets and judges; {kept.min():.0%} "
        f"to {kept.max():.0%}) of what the judge adds to the SLM, where it adds at least 0.05."
        if len(kept)
        else "No judge adds 0.05 or more to the SLM."
    )
    return "\n".join(lines)


def _choice(row):
    who = f" ({row['judge']})" if row["judge"] else ""
    return f"{row['choice']}{who}, {with_interval(row, 'spearman', 3)}"


def _kept(sweeps):
    """How much of the rise from the SLM alone to the fusion is there at half of the calls."""
    wide = sweeps.pivot(index=["domain", "judge"], columns="share", values="cascade")
    rise = wide[1.0] - wide[0.0]
    return ((wide[0.5] - wide[0.0]) / rise)[rise >= 0.05]
