"""Published and measured correlations side by side, each row with its verdict."""

import re

import numpy as np
import pandas as pd

from dre import stats
from dre.correlation import signatures
from dre.correlation.methods import REFERENCE_BASED
from dre.correlation.methods import table as score_table
from dre.correlation.opinions import PAPER
from dre.published import published
from dre.report.cells import number

STATISTICS = ("pearson", "spearman")
COLUMNS = [
    "method", "published_pearson", "pearson", "pearson_sd", "pearson_low", "pearson_high", "published_spearman",
    "spearman", "spearman_sd", "spearman_low", "spearman_high", "n", "malformed", "verdict", "reason",
    "signature",
]  # fmt: skip
SEEDS = (
    "A row with an SLM in it is the mean of the correlations of all training seeds, ± their standard deviation; its "
    "interval is that of this mean in a bootstrap over contexts, so it speaks of the items and not of the seeds."
)
SLM_NAMES = {
    "SLM-Prob-only": "SLM (Prob only)",
    "SLM-Dis-only": "SLM (Dis only)",
    "SLM-Dis and Prob": "SLM (Dis and Prob)",
}
NOT_RUN = {
    "BARTSCORE": "the weights of bart-large-cnn are not at hand; dre.baselines.bartscore runs them",
    "Unieval": "the weights of unieval-dialog are not at hand; dre.baselines.unieval runs them",
    "CMN": "not built here: a conditional VAE with next-sentence prediction, to be trained on each domain",
}
NO_DRE = "no recording of this judge with the dre prompt; name it in the profile, or export the prompts"
NO_CRITERIA = "no recording of this judge with these prompts, four criteria and 20 samples each; it is not asked live"
NO_JUDGE = "no recording of this judge with this prompt on this set; name it in the profile to ask it live"


def row_name(name):
    """Return a published row's name without slips of the pen: ``Ours (LLMs-only (Gemini))`` is ``LLMs-only (Gemini)``.

    The words ``Ours``, unbalanced brackets and missing blanks go; nothing else changes.
    """
    inner = re.fullmatch(r"Ours \((.*)\)", name)
    name = inner[1] if inner else name
    if name in SLM_NAMES:
        return SLM_NAMES[name]
    name = re.sub(r"(?<=\S)\(", " (", name)
    return name[:-1] if name.count(")") > name.count("(") else name


def published_rows(table="dre_table4"):
    """Return a published table with `row_name` as column ``method``."""
    frame = published(table).rename(columns={"metric": "method"})
    frame["method"] = frame["method"].map(row_name)
    return frame


def measure(domain, rows, resamples=1000, seed=0, slms=()):
    """Return the correlations of rows with people, one row a method.

    Columns ``method, how, malformed, n, seeds, signature`` (see `dre.correlation.signatures`, to which ``slms`` go)
    and, for each of `STATISTICS`, the value, ``_low, _high`` and, over the SLM's training seeds, ``_sd``: see `SEEDS`.
    """
    scores = score_table(rows)
    found = stats.correlate(scores, domain.human, domain.contexts, STATISTICS, resamples=resamples, seed=seed)
    made = signatures.of_rows(domain, rows, list(slms))
    out = []
    for row in rows:
        values = {"method": row.method, "how": row.how, "malformed": row.malformed, "signature": made[row.method]}
        for statistic in STATISTICS:
            one = found[(found["method"] == row.method) & (found["statistic"] == statistic)].iloc[0]
            ends = {f"{statistic}_{end}": one[end] for end in ("sd", "low", "high")}
            values |= {statistic: one["value"]} | ends | {"n": int(one["n"]), "seeds": int(one["seeds"])}
        out.append(values)
    return pd.DataFrame(out)


def assemble(key, rows, measured, instead=""):
    """Return Table 4 of a domain: every published row, then the rows only we have.

    Parameters
    ----------
    key : str
        Column prefix in the published table: ``dailydialog``, ``personachat`` or ``topicalchat``.
    rows : list of Row
    measured : DataFrame
        Of `measure`, for the same rows; may be empty.
    instead : str
        Why nothing at all was measured: the reason of every row.

    Returns
    -------
    DataFrame
        Columns `COLUMNS`. ``verdict`` is ``agrees``, ``differs: ...``, ``not comparable`` or ``not run``, and
        ``reason`` says why for the last two; rows of ours that the paper lacks have no verdict.
    """
    by_name = {name: row for row in rows for name in row.published}
    values = measured.set_index("method").to_dict("index") if len(measured) else {}
    out = []
    for each in published_rows().to_dict("records"):
        line = {f"published_{s}": each[f"{key}_{s}"] for s in STATISTICS}
        row = by_name.get(each["method"])
        if row is None:
            line |= {"verdict": "not run", "reason": instead or why_not(each["method"])}
        else:
            line |= values[row.method]
            line |= {"verdict": verdict(line, row.incomparable), "reason": row.incomparable}
        out.append(line | {"method": each["method"]})
    filled = {row.method for row in by_name.values()}
    ours = [row.method for row in rows if row.method not in filled]
    out += [{"method": name, "reason": "not in the paper"} | values[name] for name in ours]
    return pd.DataFrame(out).reindex(columns=COLUMNS).astype({"n": "Int64", "malformed": "Int64"})


def why_not(method):
    """Return why a published row has no number of ours."""
    if method in NOT_RUN:
        return NOT_RUN[method]
    name, judge = re.fullmatch(r"(.*?)(?: \((.*)\))?", method).groups()
    if name in ("In-DRE", "DRE"):
        return NO_DRE
    if name in ("G-EVAL", "LLM-Chiang"):
        return NO_CRITERIA
    if judge in PAPER:
        return NO_JUDGE
    return "nothing of it is public for this set"


def verdict(line, incomparable=""):
    """Return what the published numbers look like from ours.

    Parameters
    ----------
    line : mapping
        ``published_pearson, published_spearman`` and our intervals ``pearson_low, pearson_high, ...``.
    incomparable : str
        Why the two cannot be compared at all.

    Returns
    -------
    str
        ``agrees`` if both published numbers lie inside our 95 % intervals; ``differs`` and whether ours is lower or
        higher, for each that does not; ``not comparable``. People, items and SLM are others than the paper's, so
        agreement means only that public data do not speak against the printed number.
    """
    bounds = [line[f"{s}_{end}"] for s in STATISTICS for end in ("low", "high")]
    if incomparable or np.isnan(bounds).any():
        return "not comparable"
    sides = {}
    for s in STATISTICS:
        low, high, printed = line[f"{s}_low"], line[f"{s}_high"], line[f"published_{s}"]
        sides[s] = "lower" if high < printed else "higher" if low > printed else ""
    if not any(sides.values()):
        return "agrees"
    if len(set(sides.values())) == 1:
        return f"differs: {sides['pearson']}"
    return "differs: " + ", ".join(f"{s.capitalize()} {side}" for s, side in sides.items() if side)


def counts(tables):
    """Return how often each verdict was given: one row a domain.

    Parameters
    ----------
    tables : dict of str to DataFrame
        Label of the domain -> table of `assemble`.
    """
    kinds = ("agrees", "differs", "not comparable", "not run")
    rows = []
    for label, table in tables.items():
        first = table["verdict"].dropna().str.partition(":")[0].value_counts()
        rows.append({"domain": label, "rows": int(first.sum())} | {kind: int(first.get(kind, 0)) for kind in kinds})
    return pd.DataFrame(rows)


def side_by_side(tables):
    """Return Table 4 in the paper's layout: a row a method, for each domain the published and our Spearman.

    Parameters
    ----------
    tables : dict of str to DataFrame
        Domain key -> table of `assemble`.
    """
    order = dict.fromkeys(method for table in tables.values() for method in table["method"])
    wide = pd.DataFrame({"method": list(order)})
    for key, table in tables.items():
        part = table.set_index("method").reindex(order)
        wide[f"{key}_published"] = part["published_spearman"].to_numpy()
        for end in ("", "_sd", "_low", "_high"):
            wide[f"{key}_ours{end}"] = part[f"spearman{end}"].to_numpy()
    return wide


def with_and_without(domain, scores, is_reference):
    """Return the correlations of reference-based metrics with and without responses equal to the reference.

    Returns
    -------
    DataFrame
        ``domain, method, published_spearman``, then n, Pearson and Spearman with and without.
    """
    human = domain.human.reindex(scores.index)
    names = {ours: row for row, ours in REFERENCE_BASED.items()}
    printed = published_rows().set_index("method")[f"{domain.key}_spearman"]
    out = []
    for method in scores:
        line = {"domain": domain.label, "method": method, "published_spearman": printed[names[method]]}
        for suffix, keep in {"with": np.ones(len(scores), bool), "without": ~is_reference}.items():
            part, people = scores[method][keep], human[keep]
            line |= {
                f"n_{suffix}": int(part.notna().sum()),
                f"pearson_{suffix}": part.corr(people),
                f"spearman_{suffix}": part.corr(people, method="spearman"),
            }
        out.append(line)
    return pd.DataFrame(out)


def references_in_words(table):
    """Return in Markdown what `with_and_without` shows, and which of the two is nearer to print."""
    lines = []
    for domain, part in table.groupby("domain", sort=False):
        away = {s: (part[f"spearman_{s}"] - part["published_spearman"]).abs().mean() for s in ("with", "without")}
        nearer = min(away, key=away.get)
        lines.append(
            f"- **{domain}:** with the reference among the rated responses the mean Spearman correlation of these "
            f"{len(part)} metrics is {number(part['spearman_with'].mean(), 3)}, without it "
            f"{number(part['spearman_without'].mean(), 3)} (published: "
            f"{number(part['published_spearman'].mean(), 3)}). The mean distance from print is "
            f"{number(away['with'], 3)} with and {number(away['without'], 3)} without: *{nearer}* the reference is "
            "nearer."
        )
    return "\n".join(lines)
