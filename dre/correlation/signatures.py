"""The signature of each row of Tables 4 and 5: items, judge and prompt, SLMs, versions."""

from dre.correlation.methods import INTERIOR
from dre.report.signature import named, signature
from dre.slm.provenance import versions

WITH_SLM = ("slm", "SLM", "Ex-DRE", "SLIDE", "Rank average", "Calibrated", *INTERIOR)
METRICS = ("reference", "trained", "none")


def of_rows(domain, rows, slms=()):
    """Return the signatures of a domain's rows: ``{method: signature}``.

    Parameters
    ----------
    domain : Domain
    rows : list of Row
    slms : sequence of SLM
        Those of the training seeds, the first one first; a prompt shows the numbers of that one.
    """
    data, made = named(domain.set, domain.sha256), versions()
    return {row.method: signature(data=data, **_parts(row, slms), versions=made) for row in rows}


def _parts(row, slms):
    parts = {"metric": row.how if row.family in METRICS else "", "judge": row.judge, "prompt": row.prompt}
    slms = list(row.slms) or slms
    if slms and row.family in WITH_SLM:
        from dre.slm.runs import identity

        parts |= identity(slms[:1] if row.family in INTERIOR else slms)
    return parts
