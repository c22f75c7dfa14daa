"""The paper's own items, as far as public data allow: positive and adversarial responses with their label."""

from dre.correlation.domains import recorded_labels
from dre.correlation.methods import Row, length, slm_rows, untrained
from dre.correlation.table4 import published_rows
from dre.data import recorded, thirdparty

CLASSIFIERS = ("DEB", "RUBER-Large")


def own_rows(domain, scored, trained_on, encoder="minilm"):
    """Return the rows that need no judge: the SLM's three, the untrained encoder, the response's length."""
    return [*slm_rows(scored, trained_on), untrained(domain, encoder), length(domain)]


def recorded_rows(domain):
    """Return the rows that recordings give: an LLM's labels, and on DailyDialog++ test the scores of DEB and RUBER."""
    found, ids = [], domain.items["pair_id"]
    labels = recorded_labels().reindex(ids)
    if labels.notna().any():
        found.append(Row("LLM labels", "LLM-only", labels, how=f"classification prompt, recorded: {recorded.NAME}"))
    if domain.set == "dailydialog++":
        for name in CLASSIFIERS:
            score = thirdparty.classifier_scores(name).set_index("pair_id")["score"].reindex(ids)
            found.append(Row(name, "trained", score, how="its authors' scores"))
    return found


def table(domain, measured, rows):
    """Return the measured rows; on DailyDialog++ with Table 4's DailyDialog column (ratings) beside those it has."""
    out = measured.copy()
    if domain.set == "dailydialog++":
        printed = published_rows().set_index("method")
        names = {row.method: next(iter(row.published), None) for row in rows}
        for statistic in ("pearson", "spearman"):
            column = printed[f"dailydialog_{statistic}"].reindex([names[method] for method in out["method"]])
            out.insert(list(out).index(statistic), f"published_{statistic}", column.to_numpy())
    middle = [name for name in out if name not in ("method", "malformed", "seeds", "how", "signature")]
    return out[["method", *middle, "how", "signature"]]
