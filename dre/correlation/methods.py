"""Every score of Table 4 as a row: which published rows it fills, and how it was made."""

from dataclasses import dataclass

import pandas as pd

from dre import baselines, fusion
from dre.baselines.overlap import METEOR
from dre.correlation.opinions import counts

#: published row -> our column
REFERENCE_BASED = {
    **{name: name for name in ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-1", "ROUGE-2", "ROUGE-L")},
    "METEOR": METEOR,
    "Extrema": "Embedding Extrema",
    "Greedy": "Embedding Greedy",
    "Average": "Embedding Average",
    "BERTScore": "BERTScore",
}
SLM_ROWS = {
    "SLM (Prob)": "SLM (Prob only)",
    "SLM (Dis)": "SLM (Dis only)",
    "SLM (Prob & Dis)": "SLM (Dis and Prob)",
}
HOW = {
    "LLM-only": "the judge's score alone (Non-DRE); the table of judges says how each was asked",
    "In-DRE": "Eq. 24: the judge's score when its prompt shows the SLM's numbers",
    "Ex-DRE": "Eq. 25-26: s_c times the judge's score alone",
    "DRE": "Eq. 24-26: s_c, as printed, times the score of In-DRE",
    "SLIDE": "Eq. 23 at half of both ranges, the first case that holds",
}
STAGES = tuple(HOW)
#: the stages whose prompt shows the SLM
INTERIOR = ("In-DRE", "DRE")


@dataclass(frozen=True, eq=False)
class Row:
    """One method on one domain.

    Attributes
    ----------
    method : str
    family : str
        ``reference``, ``trained``, ``slm``, ``none`` (reads neither context nor reference), or a stage of `STAGES`.
    score : Series or DataFrame
        By pair_id, NaN where there is none; a DataFrame has one column a training seed of the SLM.
    published : tuple of str
        Rows of Table 4 it fills, as `dre.correlation.table4.published_rows` names them.
    how : str
        What was computed, in a few words.
    judge, prompt : str
        A judge and what it was asked.
    replies, malformed : int or None
        Of a judge's replies: how many, and how many without a usable score.
    incomparable : str
        Why it cannot be held against the published number, "" if it can.
    slms : tuple of SLM
        Those behind it, one a seed, where they are not those of the other rows.
    """

    method: str
    family: str
    score: pd.Series | pd.DataFrame
    published: tuple = ()
    how: str = ""
    judge: str = ""
    prompt: str = ""
    replies: int | None = None
    malformed: int | None = None
    incomparable: str = ""
    slms: tuple = ()


def rows(domain, scored, trained_on, opinions, encoder="minilm"):
    """Return all rows of a domain.

    Parameters
    ----------
    domain : Domain
    scored : dict of int to DataFrame
        Training seed -> that SLM's table for ``domain.pairs``; the first is the one whose numbers a prompt shows.
    trained_on : str
    opinions : list of Opinion
    encoder : str
        Of the embedding metrics and of the untrained baseline.
    """
    found = reference_rows(domain, encoder) + recorded_metrics(domain)
    found += [untrained(domain, encoder), length(domain)] + slm_rows(scored, trained_on)
    for opinion in opinions:
        found += judge_rows(opinion, scored)
    return found


def reference_scores(domain, encoder="minilm"):
    """Return the reference-based metrics by pair_id, and whether a response is the reference itself."""
    items = domain.items
    metrics = [baselines.bleu, baselines.rouge, baselines.meteor]
    tables = [metric(items) for metric in metrics]
    tables += [baselines.embedding(items, encoder), baselines.bertscore(items, encoder)]
    scores = pd.concat([table.drop(columns="reason").set_index("pair_id") for table in tables], axis=1)
    return scores, (items["response"] == items["reference"]).to_numpy()


def reference_rows(domain, encoder="minilm"):
    """Return the rows of metrics that compare with a reference; the reference itself is left out of its own test."""
    if "reference" not in domain.items:
        return []
    scores, is_reference = reference_scores(domain, encoder)
    scores.loc[is_reference] = float("nan")
    how = baselines.signatures(encoder)
    why = "" if domain.set.endswith("-usr") else "the set names no reference; its first response stands for it"
    return [
        Row(column, "reference", scores[column], (published,), how[column], incomparable=why)
        for published, column in REFERENCE_BASED.items()
    ]


def recorded_metrics(domain):
    """Return the rows of trained metrics whose authors released predictions: UniEval on TopicalChat-USR."""
    if domain.set != "topicalchat-usr":
        return []
    from dre.data import thirdparty

    score = thirdparty.judge_scores(thirdparty.UNIEVAL).set_index("pair_id")["score"]
    return [
        Row(
            "UniEval",
            "trained",
            score.reindex(domain.items["pair_id"]),
            ("Unieval",),
            "overall, its authors' predictions",
        )
    ]


def length(domain):
    """Return the row of the number of words."""
    table = baselines.length(domain.items).set_index("pair_id")
    return Row("Response length", "none", table["Response length"], how="number of words; reads no context")


def untrained(domain, encoder="minilm"):
    """Return the row of the untrained encoder: cosine of context and response."""
    from dre.slm.model import SLM

    cosine = 1 - SLM.untrained(encoder).distances(domain.pairs).set_index("pair_id")["distance"]
    return Row("Encoder, untrained", "none", cosine, how=f"cosine of {encoder}, context and response")


def slm_rows(scored, trained_on, recipe="", slms=()):
    """Return the SLM's three rows: s_p, 1 - s_d, and their sum (Eq. 19).

    With a ``recipe`` that is not the paper's the rows are named for it and fill no published one; ``slms`` made them.
    """
    from dre.classification import variants

    found = {seed: variants(table.set_index("pair_id")) for seed, table in scored.items()}
    how = f"trained on {trained_on}"
    return [
        Row(f"{name}, {recipe}", "slm", _by_seed(found, name), (), how, slms=tuple(slms))
        if recipe
        else Row(name, "slm", _by_seed(found, name), (SLM_ROWS[name],), how)
        for name in next(iter(found.values()))
    ]


def _by_seed(found, name):
    return pd.DataFrame({seed: scores[name] for seed, scores in found.items()})


def judge_rows(opinion, scored):
    """Return the rows of a judge: LLM-only, Ex-DRE and SLIDE, and In-DRE and DRE where it was shown the SLM.

    Ex-DRE and SLIDE are made once with each seed's SLM. A prompt shows the numbers of the first seed's, so In-DRE and
    DRE are of that one.
    """
    made = {}
    if opinion.scores is not None:
        made |= _exterior(opinion.scores[["pair_id", "score_llm", "status"]], scored)
    if opinion.refined is not None:
        made |= _interior(opinion.refined, next(iter(scored.values())))
    return [
        Row(
            f"{stage} ({opinion.name})",
            stage,
            made[stage],
            _published(stage, opinion),
            opinion.how if stage == "LLM-only" else HOW[stage],
            opinion.name,
            opinion.refined_prompt if stage in INTERIOR else opinion.prompt,
            *(counts(opinion.refined) if stage in INTERIOR else (opinion.replies, opinion.malformed)),
        )
        for stage in STAGES
        if stage in made
    ]


def _exterior(llm, scored):
    """What the LLM-only prompt gives: its own score, and the two fusions with each seed's SLM."""
    tables = {seed: llm.merge(table, on="pair_id", how="right") for seed, table in scored.items()}
    fused = {
        seed: {"Ex-DRE": _score(fusion.ex_dre(table)), "SLIDE": _score(fusion.slide(table))}
        for seed, table in tables.items()
    }
    alone = _score(fusion.non_dre(next(iter(tables.values()))))
    return {"LLM-only": alone} | {stage: _by_seed(fused, stage) for stage in ("Ex-DRE", "SLIDE")}


def _interior(refined, scored):
    """What the prompt that shows the SLM gives; s_d and s_p are the SLM's own where they are not frozen beside it."""
    if "s_d" not in refined:
        refined = refined.merge(scored[["pair_id", "s_d", "s_p"]], on="pair_id", how="left")
    return {"In-DRE": _score(fusion.in_dre(refined)), "DRE": _score(fusion.dre(refined))}


def _score(table):
    return table.set_index("pair_id")["score"]


def _published(stage, opinion):
    rows = opinion.published if stage == "LLM-only" else ()
    if opinion.paper:
        names = {"LLM-only": ("LLMs-only", "Non-DRE")}.get(stage, (stage,))
        rows += tuple(f"{name} ({opinion.paper})" for name in names)
    return rows


def legend(found):
    """Return how the methods were computed: ``method, domains, how``; a stage stands for all its judges.

    Parameters
    ----------
    found : dict of str to list of Row
        Label of the domain -> its rows.
    """
    where, names = {}, {}
    for label, part in found.items():
        for row in part:
            name, how = (row.family, HOW[row.family]) if row.family in HOW else (row.method, row.how)
            where.setdefault((name, how), []).append(label)
    for (name, how), labels in where.items():
        names.setdefault((", ".join(dict.fromkeys(labels)), how), []).append(name)
    rows = [(", ".join(methods), labels, how) for (labels, how), methods in names.items()]
    return pd.DataFrame(rows, columns=["method", "domains", "how"])


def table(found):
    """Return the scores of rows as one DataFrame with two levels of columns: method, training seed."""
    return pd.concat({row.method: pd.DataFrame(row.score) for row in found}, axis=1)
