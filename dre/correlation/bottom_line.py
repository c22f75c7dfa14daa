"""What the notebooks found, on half a page: words made of their tables alone."""

import pandas as pd

from dre.correlation.calibration import CALIBRATED, RANK
from dre.correlation.harm import WEAK
from dre.report.cells import number, percent, signed, with_interval

MAIN = "SLM (Prob & Dis)"
ENDS = ("_low", "_high", "_sd")
#: a mean weight of the SLM below it is next to none
LITTLE = 0.1


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
    found = (make(tables, against) for make, needs in QUESTIONS.items() if all(name in tables for name in needs))
    return "\n".join(f"- {bullet}" for bullet in found if bullet)


def _classified(tables, _):
    """Table 3: can the SLM tell positive from adversarial, and how far does one get without a context?"""
    table = tables["table3"].set_index(["source", "model"])
    name = next(model for source, model in table.index if source == "ours" and model.startswith(f"{MAIN}, "))
    ours, printed = table.loc[("ours", name)], table.loc[("published", MAIN)]
    blind = table.loc[("ours", "response only (TF-IDF)")]
    return (
        f"**Telling positive from adversarial responses (Table 3).** {MAIN} of recipe `{name.removeprefix(MAIN)[2:]}` "
        f"is right in {percent(ours, 'overall')} of cases; the paper prints {printed['overall']:.2f} %. A linear "
        f"model that sees the words of the response and no context gets {percent(blind, 'overall')}."
    )


def _disentangling(tables, _):
    """Notebook 03: is the paper's central idea what makes the SLM right?"""
    row = tables["disentangling"].set_index("score").loc[MAIN]
    return (
        "**Disentangling, the heart of the paper's SLM (Figures 3 and 4).** Trained with it instead of without it, the "
        f"accuracy of {MAIN} changes by {with_interval(row, 'overall', 1, signed)} percentage points."
    )


def _context(tables, _):
    """Notebook 07: is it the context that decides?"""
    audit = tables["audit"].set_index("model")
    told = [
        "recipe `{}` {} % with the true context and {} % with another conversation's, {} % of replies to other "
        "conversations rejected".format(
            model.removeprefix("SLM, "),
            *(number(float(row[name]), 1) for name in ("overall", "other_context", "random_rejected")),
        )
        for model, row in audit.iterrows()
        if model.startswith("SLM, ")
    ]
    return f"**Reading the context (not in the paper).** Accuracy on a sample of the test contexts: {'; '.join(told)}."


def _alone(tables, against):
    """Notebook 07: correlation of the SLM alone, before and after training."""
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
    table = tables["table4_tests"]
    if table.empty:
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
    gains = [_gain_with_weak(tables, method) for method in (CALIBRATED, RANK)]
    if pd.isna(gains).any():
        return text
    return text + (
        f" With weak judges (below {WEAK:g} alone) it gains {number(gains[0], 3)} over the better part on average. A "
        f"plain average of ranks gains {number(gains[1], 3)} there, and over all judges it is "
        f"{_counts(tables, RANK)}."
    )


def _gain_with_weak(tables, method=CALIBRATED):
    """Mean gain over the better part with weak judges, NaN where there are none."""
    weak = tables.get("fusion_weak", pd.DataFrame(columns=["method", "gain"]))
    return weak.loc[weak["method"] == method, "gain"].mean()


def _counts(tables, method):
    answers = tables["fusion_tests"].query("method == @method")["answer"]
    return f"worse in {(answers == 'worse').sum()} and better in {(answers == 'better').sum()} of {len(answers)}"


def _advice(tables, against):
    """What follows for somebody who has responses to score."""
    fused = tables["fusion_spearman"]
    told, weight = [], fused.loc[fused["LLM-only"] >= WEAK, "weight"].mean()
    if weight < LITTLE:
        told.append(
            f"With a strong judge, the judge alone: the learned weight of the SLM is {number(weight, 2)} on average."
        )
    if _gain_with_weak(tables) > 0:
        told.append("With a weak judge and some rated pairs of your own, `dre calibrate`.")
    audit = tables["audit"]
    domains = [name for name in audit if name.startswith("spearman_") and not name.endswith(ENDS)]
    if domains:
        best = audit.loc[audit[domains].mean(axis=1).idxmax(), "model"]
        best = f"recipe `{best.removeprefix('SLM, ')}`" if best.startswith("SLM, ") else f"the baseline *{best}*"
        told.append(f"Without a judge, {best}.")
    inner = tables["cascade"].dropna(subset="above")
    gain = number((inner["cascade"] - inner["random"]).mean(), 3)
    told.append(
        f"Asking the judge only where the SLM is unsure changes the correlation with {against} by {gain} on average "
        "against asking as many at random."
    )
    return f"**What to use.** {' '.join(told)}"


#: what is asked, and the tables that it takes to answer
QUESTIONS = {
    _classified: ("table3",),
    _disentangling: ("disentangling",),
    _context: ("audit",),
    _alone: ("audit_ratings",),
    _fused: ("table4_tests",),
    _learned: ("fusion_tests",),
    _advice: ("fusion_spearman", "audit", "cascade"),
}
#: and what is read where it is there
NEEDED = {name for needs in QUESTIONS.values() for name in needs} | {"fusion_weak"}
