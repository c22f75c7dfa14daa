"""Case studies: Table 6 and SLIDE's Table 3, on cases written for this project (``data/cases.jsonl``).

A case is a context, a reference and two responses, made to one of three designs. Response 1 always fits; response 2
fits in the first design only:

``creative``       Table 6, case 1: response 1 is the reference, response 2 as valid, but unlike it.
``contradiction``  Table 6, case 2: response 2 is fluent, and contradicts the facts of the context.
``slide``          SLIDE, Table 3: response 1 is valid and far from the reference, response 2 adversarial.
"""

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd

from dre import published
from dre.data import parse
from dre.data.mini import REPOSITORY
from dre.errors import DreError

CASES = REPOSITORY / "data" / "cases.jsonl"
#: design -> lowest and highest score of its scale, whether response 2 fits
DESIGNS = {"creative": ((0, 5), True), "contradiction": ((0, 5), False), "slide": ((1, 5), False)}
BLEU = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4")
LLM = ("Non-DRE", "In-DRE", "Ex-DRE", "DRE", "SLIDE")
#: metric -> what it is, and how it is brought to [0, 1]; a scale from a to b then reads a + (b - a) x
UNIT = {
    "BLEU": ("sentence BLEU against the reference, in [0, 1]", "as it is"),
    "BERTScore": ("F1 against the reference, in [-1, 1]", "as it is; below 0 counts as 0"),
    "SLM (Prob)": ("s_p, in [0, 1]", "as it is"),
    "SLM (Dis)": ("1 - s_d, about [0, 1]", "as it is; outside [0, 1] counts as the nearer end"),
    "SLM (Prob & Dis)": ("1 - s_d + s_p, about [0, 2]", "divided by 2"),
    "Non-DRE, In-DRE": ("Score_LLM, in [0, 5]", "divided by 5"),
    "Ex-DRE, DRE": ("s_c x Score_LLM, in [0, 10]", "divided by 10"),
    "SLIDE": ("Eq. 23, in [0, 2]", "divided by 2"),
}
_PUBLISHED = {"BertScore": "BERTScore", "SLM(prob-only)": "SLM (Prob)", "Ours (w/o LLM)": "SLIDE (without LLM)"} | {
    f"{m[0].lower()}{m[1:]}": m for m in LLM[:3]
}


def load(path=CASES):
    """Return the cases, one row a response.

    Returns
    -------
    pandas.DataFrame
        Columns ``pair_id`` (``cases/<case>/<1 or 2>``), ``case, design, number`` (1 or 2), ``fits``, ``context``
        (tuple of turns), ``reference, response``.

    Raises
    ------
    DreError
        On a malformed line, an unknown design, or other than two responses.
    """
    rows = []
    for where, record in parse.read_jsonl(Path(path)):
        case, design, reference = (parse.field(record, name, str, where) for name in ("id", "design", "reference"))
        if design not in DESIGNS:
            raise DreError(f"{where}: design {design!r}, expected one of {', '.join(DESIGNS)}")
        context, responses = parse.texts(record, "context", where), parse.texts(record, "responses", where, least=2)
        if len(responses) != 2:
            raise DreError(f"{where}: {len(responses)} responses, expected 2")
        for number, response in enumerate(responses, 1):
            fits = number == 1 or DESIGNS[design][1]
            rows.append((f"cases/{case}/{number}", case, design, number, fits, context, reference, response))
    columns = ["pair_id", "case", "design", "number", "fits", "context", "reference", "response"]
    return pd.DataFrame(rows, columns=columns)


def texts(responses):
    """Return one row a case, with its texts: ``case, context, reference, response_1, response_2``."""
    wide = responses.pivot(index="case", columns="number", values="response").add_prefix("response_")
    first = responses.drop_duplicates("case").set_index("case")
    context = first["context"].map(" / ".join)
    return pd.DataFrame({"context": context, "reference": first["reference"]}).join(wide).reset_index()


def metrics(responses, slm, encoder="minilm"):
    """Score the responses with every metric that needs no judge, each brought to [0, 1] as `UNIT` says.

    Parameters
    ----------
    responses : DataFrame
        From `load`.
    slm : dre.slm.SLM
    encoder : str
        Of BERTScore.

    Returns
    -------
    pandas.DataFrame
        ``pair_id`` and one column a metric, in [0, 1].
    """
    from dre.baselines import bertscore, bleu
    from dre.classification import variants

    scores = variants(slm.score(responses))
    scores["SLM (Prob & Dis)"] = scores["SLM (Prob & Dis)"] / 2
    table = bleu(responses)[["pair_id", *BLEU]].merge(bertscore(responses, encoder)[["pair_id", "BERTScore"]])
    for name in ("SLM (Prob)", "SLM (Dis)", "SLM (Prob & Dis)"):
        table[name] = scores[name].to_numpy()
    columns = table.columns.drop("pair_id")
    return table.assign(**table[columns].clip(0, 1))


def scored(responses, unit):
    """Return one row a response and metric, on the scale of its design.

    Parameters
    ----------
    responses : DataFrame
        From `load`.
    unit : DataFrame
        ``pair_id`` and metrics in [0, 1], as `metrics` gives them.

    Returns
    -------
    pandas.DataFrame
        Columns ``pair_id, case, design, number, fits, metric, score, accepted`` (1.0 from half of the scale on, else
        0.0; NaN where there is no score).
    """
    long = unit.melt("pair_id", var_name="metric", value_name="x")
    long = responses[["pair_id", "case", "design", "number", "fits"]].merge(long, on="pair_id")
    low, high = (long["design"].map({d: ends[i] for d, (ends, _) in DESIGNS.items()}) for i in (0, 1))
    accepted = (long["x"] >= 0.5).astype(float).where(long["x"].notna())
    return long.assign(score=low + (high - low) * long["x"], accepted=accepted).drop(columns="x")


def by_case(long):
    """Return one row a response with its scores on the scale of its design: ``case, number``, a column a metric."""
    names = list(dict.fromkeys(long["metric"]))
    wide = long.pivot(index=["case", "number"], columns="metric", values="score")[names]
    order = long.drop_duplicates(["case", "number"])[["case", "number"]]
    return order.merge(wide.reset_index(), on=["case", "number"]).reset_index(drop=True)


def signature(responses, slm):
    """Return the signature of our rows: the cases, the SLM, versions; a judge's name is in its row's."""
    from dre.report.signature import named
    from dre.report.signature import signature as signed
    from dre.slm.provenance import versions
    from dre.slm.runs import identity

    texts = responses[["pair_id", "context", "reference", "response"]].to_csv(index=False)
    data = named("cases", hashlib.sha256(texts.encode("utf-8")).hexdigest())
    return signed(data=data, **identity([slm]), versions=versions())


def table6(long, missing=None, made=""):
    """Return Table 6: the published scores beside the means of ours, in [0, 5].

    Parameters
    ----------
    long : DataFrame
        From `scored`.
    missing : dict of str to str
        Metric -> why it was not run.
    made : str
        The signature of our rows.

    Returns
    -------
    pandas.DataFrame
        Columns ``metric, source, n`` (cases a design), ``creative_1, creative_2, contradiction_1, contradiction_2,
        why, signature``.
    """
    paper = published.published("dre_table6").rename(
        columns=lambda c: c.replace("case1_response", "creative_").replace("case2_response", "contradiction_")
    )
    paper["metric"] = paper["metric"].replace(_PUBLISHED)
    return _beside(paper, _means(long, ("creative", "contradiction")), missing, made)


def slide_table(long, missing=None, made=""):
    """Return SLIDE's cases, published beside ours, in [1, 5]: ``metric, source, n, slide_1, slide_2, why, signature``.

    Arguments are those of `table6`.
    """
    paper = published.published("slide_table3").rename(columns={"case1": "slide_1", "case2": "slide_2"})
    paper["metric"] = paper["metric"].replace(_PUBLISHED)
    return _beside(paper, _means(long, ("slide",)), missing, made)


def _means(long, designs):
    part = long[long["design"].isin(designs)]
    columns = part["design"] + "_" + part["number"].astype(str)
    means = part.assign(column=columns).groupby(["metric", "column"], sort=False)["score"].mean().unstack("column")
    counts = part.dropna(subset="score").groupby(["metric", "design"])["case"].nunique().groupby("metric").min()
    return means.assign(n=counts).reset_index()


def _beside(paper, ours, missing, made):
    missing = missing or {}
    paper = paper.assign(source=published.SOURCE, n=1)
    table = pd.concat([paper, ours.assign(source="ours"), pd.DataFrame({"metric": list(missing), "source": "ours"})])
    names = dict.fromkeys(map(_base, [*ours["metric"], *paper["metric"], *LLM]))
    by = (
        table["metric"]
        .map(_base)
        .map({name: i for i, name in enumerate([n for n in names if n not in LLM] + list(LLM))})
    )
    table["why"] = table["metric"].map(missing).where(table["source"] == "ours")
    table["n"] = table["n"].astype("Int64")
    table["signature"] = np.where((table["source"] == "ours") & table["n"].notna(), made, "")
    columns = ["metric", "source", "n", *paper.columns.drop(["metric", "source", "n"]), "why", "signature"]
    # "published" sorts after "ours", and is to stand first.
    return table.assign(by=by).sort_values(["by", "source"], ascending=[True, False], kind="stable")[columns]


def _base(metric):
    """Return a judge's row without the judge: ``DRE (gpt-4o)`` is a row of ``DRE``."""
    name = metric.partition(" (")[0]
    return name if name in LLM else metric
