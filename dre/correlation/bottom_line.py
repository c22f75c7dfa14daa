"""What the notebooks found, on half a page: words made of their tables alone."""

import pandas as pd

from dre.correlation.calibration import CALIBRATED, RANK
from dre.correlation.harm import WEAK
from dre.report.cells import number

MAIN = "SLM (Prob & Dis)"
#: the tables that are read
NEEDED = (
    "table3", "audit", "audit_ratings", "table4_tests", "fusion_tests", "fusion_weak", "cascade", "fusion_spearman",
)  # fmt: skip
ENDS = ("_low", "_high", "_sd")


def words(results, against="people"):
    """Return the bottom line in Markdown, a bullet a question; one without its table is left out.

    Parameters
    ----------
    results : path
        Folder of the tables of notebooks 03, 04, 07 and 08.
    against : str
        What scores were correlated with.
    """
    tables = {path.stem: pd.read_csv(path) for path in results.glob("*.csv") if path.stem in NEEDED}
    bullets = [make(tables, against) for make in (_classified, _context, _alone, _fused, _learned, _advice)]
    return "\n".join(f"- {bullet}" for bullet in bullets if bullet)


def _percent(row, column):
    return f"{number(row[column], 1)} % [{number(row[f'{column}_low'], 1)}, {number(row[f'{column}_high'], 1)}]"


def _classified(tables, _):
    """Table 3: can the SLM tell positive from adversarial, and how far does one get without a context?"""
    table = tables["table3"].set_index(["source", "model"])
    ours, printed = table.loc[("ours", f"{MAIN}, paper")], table.loc[("published", MAIN)]
    blind = table.loc[("ours", "response only (TF-IDF)")]
    return (
        f"**Telling positive from adversarial responses (Table 3).** {MAIN} of recipe `paper` is right in "
        f"{_percent(ours, 'overall')} of cases; the paper prints {number(printed['overall'], 1)} %. A linear model "
        f"that sees the words of the response and no context gets {_percent(blind, 'overall')}."
    )


def _context(tables, _):
    """Notebook 07: is it the context that decides?"""
    audit = tables["audit"].set_index("model")
    told = [
        f"recipe `{model.removeprefix('SLM, ')}` {number(row['overall'], 1)} % with the true context and "
        f"{number(row['other_context'], 1)} % with another conversation's, {number(row['random_rejected'], 1)} % of "
        "replies to other conversations rejected"
        for model, row in audit.iterrows()
        if model.startswith("SLM, ")
    ]
    return f"**Reading the context (not in the paper).** Accuracy on a sample of the test contexts: {'; '.join(told)}."


def _alone(tables, against):
    """Notebook 07: correlation of the SLM alone, before and after training."""
    if "audit_ratings" not in tables:
        return None
    table = tables["audit_ratings"].drop_duplicates(["domain", "model"])
    told = []
    for model, part in table.groupby("model", sort=False):
        if model.startswith(("SLM, ", "encoder")):
            values = ", ".join(
                number(value, 2) + (f" ({answer})" if answer in ("better", "worse") else "")
                for value, answer in zip(part["spearman"], part["answer"])
            )
            told.append(f"{model.replace('SLM, ', 'recipe `') + '`' * model.startswith('SLM, ')} {values}")
    return (
        f"**Agreement of the SLM alone with {against}.** Spearman correlation on "
        f"{', '.join(table['domain'].unique())}: {'; '.join(told)} (*better*, *worse*: than the untrained encoder, "
        "after Holm's correction)."
    )


def _fused(tables, _):
    """Table 4: does adding the SLM help an LLM?"""
    table = tables.get("table4_tests")
    if table is None or table.empty:
        return None
    part, measured = table[table["against"] == "LLM"], set(table["method"])
    better, worse = (int((part["answer"] == answer).sum()) for answer in ("better", "worse"))
    text = (
        f"**SLM + LLM against the LLM alone (Table 4).** The papers' fusions ({', '.join(sorted(measured))}) are "
        f"significantly better in {better} and worse in {worse} of {len(part)} comparisons."
    )
    missing = [name for name in ("In-DRE", "DRE") if name not in measured]
    if missing:
        text += (
            f" {' and '.join(missing)} {'were' if len(missing) > 1 else 'was'} **not measured**: that takes a live "
            "model that is shown the SLM's numbers, and nobody has recorded one."
        )
    return text


def _learned(tables, _):
    """Notebook 08: a fusion whose weight was learned on other sets."""
    text = (
        "**A fusion that is learned on other data (ours).** Against the better of its two parts it is significantly "
        f"{_counts(tables, CALIBRATED)} pairs of judge and set."
    )
    weak = tables.get("fusion_weak")
    if weak is None or weak.empty:
        return text
    means = weak.groupby("method")["gain"].mean()
    return text + (
        f" With weak judges (below {WEAK:g} alone) it gains {number(means[CALIBRATED], 3)} over the better part on "
        f"average. A plain average of ranks gains {number(means[RANK], 3)} there, but over all judges it is "
        f"{_counts(tables, RANK)}."
    )


def _counts(tables, method):
    answers = tables["fusion_tests"].query("method == @method")["answer"]
    return f"worse in {(answers == 'worse').sum()} and better in {(answers == 'better').sum()} of {len(answers)}"


def _advice(tables, against):
    """What follows for somebody who has responses to score."""
    fused = tables["fusion_spearman"]
    strong, weak = (fused[part] for part in (fused["LLM-only"] >= WEAK, fused["LLM-only"] < WEAK))
    told = []
    if len(strong):
        weight = number(strong["weight"].mean(), 2)
        told.append(f"With a strong judge, the judge alone: the learned weight of the SLM is {weight} on average.")
    if len(weak):
        told.append("With a weak judge and some rated pairs of your own, `dre calibrate`.")
    domains = [name for name in tables["audit"] if name.startswith("spearman_") and not name.endswith(ENDS)]
    if domains:
        slms = tables["audit"][tables["audit"]["model"].str.startswith("SLM, ")]
        best = slms.loc[slms[domains].mean(axis=1).idxmax(), "model"].removeprefix("SLM, ")
        told.append(f"Without a judge, recipe `{best}`.")
    inner = tables["cascade"].dropna(subset="above")
    gain = number((inner["cascade"] - inner["random"]).mean(), 3)
    told.append(
        f"Asking the judge only where the SLM is unsure changes the correlation with {against} by {gain} on average "
        "against asking as many at random."
    )
    return f"**What to use.** {' '.join(told)}"
