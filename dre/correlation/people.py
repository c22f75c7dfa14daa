"""How well people agree with one another on the rated sets, beside the paper's kappa."""

import numpy as np
import pandas as pd

from dre import stats

#: DRE section 4.3: Cohen's kappa of its three annotators, on average, and the range it prints
PUBLISHED_KAPPA = 0.53
PUBLISHED_NOTE = "The paper prints an average Cohen's kappa of 0.53 and, in the same sentence, a range of 0.53 to 0.80."


def agreement(domain, resamples=1000, seed=0):
    """Return the agreement of annotators on the overall rating, with 95 % intervals (bootstrap over contexts).

    Returns
    -------
    DataFrame
        ``domain, coefficient, value, value_low, value_high, n, raters``; empty where each item has one value only,
        as in DailyDialog-Zhao, whose file holds means.
    """
    columns = ["domain", "coefficient", "value", "value_low", "value_high", "n", "raters"]
    if not domain.ratings or min(len(each.ratings["overall"]) for each in domain.ratings) < 2:
        return pd.DataFrame(columns=columns)
    ratings = np.array([each.ratings["overall"] for each in domain.ratings], float)
    contexts = [each.context_id for each in domain.ratings]
    table = stats.agreement(ratings, contexts, resamples=resamples, seed=seed)
    table = table.rename(columns={"low": "value_low", "high": "value_high"}).assign(domain=domain.label)
    return table[columns]


def with_published(tables):
    """Return the agreement of all domains below the paper's kappa."""
    printed = {"domain": "paper, all three sets", "coefficient": "kappa", "value": PUBLISHED_KAPPA, "raters": 3}
    table = pd.concat([pd.DataFrame([printed]), *[t for t in tables if len(t)]], ignore_index=True)
    columns = ["domain", "coefficient", "value", "value_low", "value_high", "n", "raters"]
    return table.reindex(columns=columns).astype({"n": "Int64"})
