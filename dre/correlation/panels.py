"""From tables of correlations to what the figures draw."""

import re

import numpy as np
import pandas as pd

from dre.correlation.methods import STAGES
from dre.correlation.table4 import published_rows


def forest(domain, rows, measured):
    """Return the panel of a domain for `dre.report.plots_correlation.forest`."""
    values = measured.set_index("method")
    printed = {}
    if f"{domain.key}_spearman" in published_rows():
        printed = published_rows().set_index("method")[f"{domain.key}_spearman"]
    out = []
    for row in rows:
        one = values.loc[row.method]
        known = [] if row.incomparable else [printed[name] for name in row.published if name in printed]
        out.append(
            {
                "family": row.family,
                "label": row.judge or row.method,
                "value": one["spearman"],
                "low": one["spearman_low"],
                "high": one["spearman_high"],
                "published": known[0] if known else np.nan,
            }
        )
    return pd.DataFrame(out)


def stages(domain, rows, measured):
    """Return (judge, stage, value) of our rows of a domain."""
    values = measured.set_index("method")["spearman"]
    found = [(row.judge, row.family, values[row.method]) for row in rows if row.judge]
    return pd.DataFrame(found, columns=["judge", "stage", "value"])


def published_stages(key):
    """Return (judge, stage, value) of the published rows of a domain; Non-DRE is the LLM alone."""
    found = []
    for row in published_rows().to_dict("records"):
        name, judge = re.fullmatch(r"(.*?)(?: \((.*)\))?", row["method"]).groups()
        stage = "LLM-only" if name == "Non-DRE" else name
        if judge and stage in STAGES:
            found.append((judge, stage, row[f"{key}_spearman"]))
    return pd.DataFrame(found, columns=["judge", "stage", "value"])
