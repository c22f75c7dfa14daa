"""How the fusions depend on what the papers leave open (SPEC section 8), and which reading is nearest to print."""

import itertools

import numpy as np
import pandas as pd

from dre import fusion
from dre.correlation.table4 import published_rows
from dre.report.cells import number, signed

#: where d_min and d_max of Eq. 18 come from
RANGES = ("training data", "evaluated set")
PUBLISHED_ALONE = {"SLIDE": "LLMs-only", "Ex-DRE": "Non-DRE", "DRE": "Non-DRE", "In-DRE": "Non-DRE"}


def normalised(scored, where):
    """Return the SLM's table with s_d and score_slm under a reading of d_min and d_max.

    Parameters
    ----------
    scored : DataFrame
        ``pair_id, distance, s_d, s_p, score_slm`` of `dre.slm.model.SLM.score`, which uses the training data.
    where : {"training data", "evaluated set"}
    """
    if where == "training data":
        return scored
    d = scored["distance"]
    out = scored.assign(s_d=(d - d.min()) / (d.max() - d.min()))
    return out.assign(score_slm=1 - out["s_d"] + out["s_p"])


def published_gains():
    """Return the published gains in Spearman over the LLM alone, mean over the paper's judges.

    Returns
    -------
    DataFrame
        Index ``method`` (SLIDE, In-DRE, Ex-DRE, DRE), a column a domain key.
    """
    rows = published_rows().set_index("method")
    keys = [name.removesuffix("_spearman") for name in rows if name.endswith("_spearman")]
    gains = {}
    for method, alone in PUBLISHED_ALONE.items():
        of = [name for name in rows.index if name.startswith(f"{method} (")]
        parts = [name.replace(f"{method} (", f"{alone} (", 1) for name in of]
        gains[method] = {
            k: float(np.mean(rows.loc[of, f"{k}_spearman"].values - rows.loc[parts, f"{k}_spearman"].values))
            for k in keys
        }
    return pd.DataFrame(gains).T


def gains(domain, scored, opinions):
    """Return the gain over the LLM alone of every reading, judge by judge.

    Parameters
    ----------
    domain : Domain
    scored : dict of int to DataFrame
        Training seed -> the SLM's table, with ``distance``.
    opinions : list of Opinion

    Returns
    -------
    DataFrame
        ``domain, judge, seed, method, reading, d_range, alone, spearman, gain``: Spearman with people. DRE is there
        for the first seed only, whose numbers the prompts show.
    """
    out = []
    for where, (seed, by_seed) in itertools.product(RANGES, scored.items()):
        slm = normalised(by_seed, where)
        for opinion in (each for each in opinions if each.scores is not None):
            table = opinion.scores[["pair_id", "score_llm", "status"]].merge(slm, on="pair_id")
            alone = _spearman(fusion.non_dre(table), domain)
            shown = opinion.refined if seed == next(iter(scored)) else None
            for method, reading, score in _scores(table, shown, slm):
                value = _spearman(score, domain)
                line = {"domain": domain.key, "judge": opinion.name, "seed": seed, "method": method, "reading": reading}
                out.append(line | {"d_range": where, "alone": alone, "spearman": value, "gain": value - alone})
    columns = ["domain", "judge", "seed", "method", "reading", "d_range", "alone", "spearman", "gain"]
    return pd.DataFrame(out, columns=columns)


def _scores(table, refined, slm):
    for reading, options in fusion.READINGS["slide"].items():
        yield "SLIDE", reading, fusion.slide(table, **options)
    yield "Ex-DRE", "s_c as printed", fusion.ex_dre(table)
    yield "Ex-DRE", "LLM score shifted to start at 1", _shifted(table)
    if refined is not None:
        refined = refined.drop(columns=["s_d", "s_p"], errors="ignore").merge(slm, on="pair_id")
        for reading, options in fusion.READINGS["dre"].items():
            yield "DRE", f"coefficient {reading}", fusion.dre(refined, **options)


def _shifted(table):
    """Ex-DRE with the LLM's score on 1-5 instead of 0-5: a product, unlike a rank, depends on where a scale starts."""
    score = fusion.non_dre(table)["score"]
    onto = table.assign(score_llm=1 + score * 4 / fusion.LLM_MAX, status="ok")
    return fusion.ex_dre(onto.assign(status=score.notna().map({True: "ok", False: "missing"})))


def _spearman(scored, domain):
    score = scored.set_index("pair_id")["score"]
    return score.corr(domain.human.reindex(score.index), method="spearman")


def summary(found):
    """Return one row a reading: its mean gain in each domain, and how far that is from the published pattern.

    The measure is the mean, over domains, of the absolute difference between our mean gain over the LLM alone (over
    our judges and seeds) and the published one (over the paper's judges), in Spearman. Readings with a smaller
    distance come closer to what was printed; no reading is made better by it.

    Parameters
    ----------
    found : DataFrame
        Of `gains`, of all domains.

    Returns
    -------
    DataFrame
        ``method, reading, d_range, gain_<domain>, ..., distance, nearest`` in the order of the readings; after those of
        a method, the published gains.
    """
    if found.empty:
        return pd.DataFrame(columns=["method", "reading", "d_range", "distance", "nearest"])
    printed = published_gains()
    keys = ["method", "reading", "d_range"]
    mean = found.groupby([*keys, "domain"], sort=False)["gain"].mean().unstack("domain")
    mean = mean[list(dict.fromkeys(found["domain"]))]
    known = [key for key in printed if key in mean]
    out = mean.add_prefix("gain_").reset_index()
    if not known:
        return out
    out["distance"] = np.abs(mean[known].to_numpy() - printed.loc[out["method"], known].to_numpy()).mean(axis=1)
    best = out.groupby("method")["distance"].transform("min")
    out["nearest"] = np.where(out["distance"] == best, "yes", "no")
    frames = []
    for method, part in out.groupby("method", sort=False):
        line = {"method": method, "reading": "published"} | {f"gain_{key}": printed.loc[method, key] for key in known}
        frames += [part, pd.DataFrame([line])]
    return pd.concat(frames, ignore_index=True)


def words(table, labels):
    """Return in Markdown which reading of each method comes closest to the published gains.

    Parameters
    ----------
    table : DataFrame
        Of `summary`.
    labels : dict of str to str
        Domain key -> label.
    """
    if "distance" not in table:
        return "These items carry labels, not ratings, so there is no published pattern to compare the readings with."
    lines = []
    for method, part in table.groupby("method", sort=False):
        ours = part[part["distance"].notna()]
        best, default = ours.loc[ours["distance"].idxmin()], ours.iloc[0]
        known = {key: label for key, label in labels.items() if f"gain_{key}" in part}
        gain = ", ".join(f"{label} {signed(best[f'gain_{key}'], 3)}" for key, label in known.items())
        lines.append(
            f"- **{method}:** of {len(ours)} readings, *{best['reading']}* with d_min and d_max from the "
            f"{best['d_range']} comes closest to print (distance {number(best['distance'], 3)}; the default reading "
            f"{number(default['distance'], 3)}); its mean gains are {gain}. Readings with a gain in every domain: "
            f"{int((ours.filter(like='gain_') > 0).all(axis=1).sum())}."
        )
    return "\n".join(lines)
