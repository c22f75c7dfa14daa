"""Before and after training: correlation with people's overall ratings, against the untrained encoder's."""

import numpy as np
import pandas as pd

from dre import stats


def table(scorers, domains, resamples=1000, seed=0, permutations=10_000):
    """Correlate every score of every scorer with people, and compare each with the untrained encoder.

    Parameters
    ----------
    scorers : list of Scorer
        One of family ``untrained``.
    domains : list of dre.correlation.domains.Domain

    Returns
    -------
    DataFrame
        ``domain, key, model, family, score``; ``spearman``: mean over seeds, with ``_low, _high`` by bootstrap over
        contexts and ``_sd`` over seeds; ``difference`` to the untrained encoder with its paired interval; ``p`` of the
        permutation test, ``p_holm`` over the whole table; ``n``; ``answer``: ``better`` or ``worse`` where p_holm is
        below 0.05, else ``not shown``, and empty for the untrained encoder itself.
    """
    frames = [_one(scorers, domain, resamples, seed, permutations) for domain in domains]
    found = pd.concat(frames, ignore_index=True)
    found["p_holm"] = stats.holm(found["p"])
    return found.assign(answer=stats.verdicts(found["difference"], found["p_holm"]))


def _one(scorers, domain, resamples, seed, permutations):
    scores, families, base = {}, {}, None
    for scorer in scorers:
        for name, values in scorer(domain.pairs).items():
            scores[scorer.model, name] = pd.DataFrame(values.T, index=domain.items["pair_id"])
            families[scorer.model, name] = scorer.family
            base = (scorer.model, name) if scorer.family == "untrained" else base
    keys = list(scores)
    names = {key: str(i) for i, key in enumerate(keys)}  # stats takes one level of names, and seeds below
    together = pd.concat({names[key]: frame for key, frame in scores.items()}, axis=1)
    arguments = (together, domain.human, domain.contexts)
    alone = stats.correlate(*arguments, statistics=("spearman",), resamples=resamples, seed=seed).set_index("method")
    asked = [(names[key], names[base]) for key in keys if key != base]
    paired = stats.compare(*arguments, asked, permutations=permutations, resamples=resamples, seed=seed).set_index("a")
    rows = []
    for key in keys:
        one = alone.loc[names[key]]
        row = {"domain": domain.label, "key": domain.key, "model": key[0], "family": families[key], "score": key[1]}
        row |= {"spearman": one["value"]} | {f"spearman_{end}": one[end] for end in ("low", "high", "sd")}
        other = paired.loc[names[key]] if key != base else dict.fromkeys(paired.columns, np.nan)
        row |= {"difference": other["difference"], "difference_low": other["low"], "difference_high": other["high"]}
        rows.append(row | {"p": other["p_permutation"], "p_holm": np.nan, "n": one["n"]})
    return pd.DataFrame(rows)
