"""The paper's central claim, tested: does a fusion beat its own LLM alone, and its own SLM alone?"""

import pandas as pd

from dre import stats
from dre.correlation.methods import STAGES
from dre.correlation.methods import table as score_table
from dre.report.cells import number, signed, with_interval
from dre.stats.multiple import LEVEL, holm, verdicts

SLM = "SLM (Prob & Dis)"
FUSIONS = tuple(stage for stage in STAGES if stage != "LLM-only")
COLUMNS = [
    "domain", "judge", "method", "against", "spearman", "spearman_against", "difference", "difference_low",
    "difference_high", "p", "p_holm", "n", "answer",
]  # fmt: skip


def tests(found, resamples=1000, permutations=10_000, seed=0):
    """Compare each fusion with its own LLM alone and its own SLM alone, paired, by context; Holm over all rows.

    Parameters
    ----------
    found : list of (Domain, list of Row)

    Returns
    -------
    DataFrame
        One row a comparison: Spearman of both on the items both have scored, their difference with a 95 % interval
        (bootstrap over contexts), the permutation test's two-sided p, Holm's p over the whole table, and ``answer``:
        ``better`` or ``worse`` where Holm's p is below 0.05, else ``not shown``.
    """
    frames = []
    for domain, rows in found:
        asked = _comparisons(rows)
        if asked:
            scores = score_table(rows)
            table = stats.compare(
                scores,
                domain.human,
                domain.contexts,
                [(row.method, against) for row, _, against in asked],
                permutations=permutations,
                resamples=resamples,
                seed=seed,
            )
            table["domain"], table["judge"] = domain.label, [row.judge for row, _, _ in asked]
            table["method"], table["against"] = [row.family for row, _, _ in asked], [short for _, short, _ in asked]
            frames.append(table)
    if not frames:
        return pd.DataFrame(columns=COLUMNS)
    table = pd.concat(frames, ignore_index=True)
    names = {"r_a": "spearman", "r_b": "spearman_against", "low": "difference_low", "high": "difference_high"}
    table = table.rename(columns=names | {"p_permutation": "p"})
    table["p_holm"] = holm(table["p"])
    table["answer"] = verdicts(table["difference"], table["p_holm"])
    return table[COLUMNS]


def _comparisons(rows):
    """(fusion row, what it is compared with in short, that method's name) for every judge."""
    names = {row.method for row in rows}
    asked = []
    for row in rows:
        if row.family in FUSIONS:
            alone = f"LLM-only ({row.judge})"
            asked += [(row, "LLM", alone)] if alone in names else []
            asked += [(row, "SLM", SLM)] if SLM in names and row.family != "In-DRE" else []
    return asked


def words(table):
    """Return the answer in Markdown, from the numbers of `tests` alone."""
    if table.empty:
        return "No judge has scored these items, so the claim cannot be tested with this profile."
    lines = [
        f"Does a fusion beat its parts? {len(table)} paired comparisons by Spearman correlation, Holm's correction "
        f"over all of them, level {LEVEL:g}:",
        "",
    ]
    for (method, against), part in table.groupby(["method", "against"], sort=False):
        lines.append(f"- **{method} against its {against} alone:** {_count(part)}.")
    lines.append("")
    for method, part in table[table["against"] == "LLM"].groupby("method", sort=False):
        lines.append(_extremes(method, part))
    for method in FUSIONS:
        if method not in set(table["method"]):
            lines.append(f"- **{method}** was not measured: there is no recording of the prompt that shows the SLM.")
    lines += ["", _verdict(table[table["against"] == "LLM"])]
    return "\n".join(lines)


def _count(part):
    n = part["answer"].value_counts()
    return (
        f"better in {n.get('better', 0)} of {len(part)} comparisons, worse in {n.get('worse', 0)}, no difference "
        f"shown in {n.get('not shown', 0)}; median difference {signed(part['difference'].median(), 3)}"
    )


def _extremes(method, part):
    if len(part) < 3:
        return f"- **{method}** moves its LLM: {'; '.join(_one(row) for _, row in part.iterrows())}."
    best, worst = part.loc[part["difference"].idxmax()], part.loc[part["difference"].idxmin()]
    strength = part["difference"].corr(part["spearman_against"], method="spearman")
    return (
        f"- **{method}** is, against its LLM alone, best with {_one(best)} and worst with {_one(worst)}. Over the "
        f"{len(part)} judges and domains, difference and strength of the LLM alone correlate by {signed(strength, 2)} "
        "(Spearman)."
    )


def _one(row):
    return (
        f"{row['judge']} on {row['domain']} ({number(row['spearman_against'], 3)} to {number(row['spearman'], 3)}, "
        f"{with_interval(row, 'difference', 3, signed)})"
    )


def _verdict(part):
    if part.empty:
        return "**Answer.** No judge was asked for its score alone, so no fusion can be compared with its own LLM."
    better, worse = int((part["answer"] == "better").sum()), int((part["answer"] == "worse").sum())
    if better and not worse:
        said = "supports the claim that adding the SLM helps"
    elif worse and not better:
        said = "speaks against the claim that adding the SLM helps, for this SLM and these ratings"
    elif better and worse:
        said = "makes the claim depend on judge and domain: adding this SLM helps some and harms others"
    else:
        said = "neither supports nor contradicts the claim"
    return (
        f"**Answer.** Against the LLM alone, a fusion is better in {better} and worse in {worse} of {len(part)} "
        f"comparisons, which {said}."
    )
