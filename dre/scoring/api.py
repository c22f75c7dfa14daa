"""Scoring from Python."""

import hashlib
import json

import pandas as pd

from dre.errors import DreError
from dre.report.signature import signature as line
from dre.scoring import readers, signature
from dre.scoring.rows import Unfit, row_of
from dre.scoring.run import BLOCK
from dre.scoring.scorer import Settings


class DRE:
    """A metric for responses in a dialogue: a trained SLM, a judge, or both fused.

    >>> from dre import DRE
    >>> metric = DRE.load("my-slm")
    >>> metric.score([["Do you like tea?"]], ["Only with milk."])

    Parameters
    ----------
    scorer : dre.scoring.scorer.Scorer
        `load` makes one.
    """

    def __init__(self, scorer):
        self.scorer = scorer

    @classmethod
    def load(
        cls, slm=None, judge=None, method="slm", prompt=None, accuracies=None, fusion=None, bf16=False, **judge_options
    ):
        """Load the metric.

        Parameters
        ----------
        slm : str or path
            A folder, a Hub id, or the beginning of a model trained by ``make paper``; not needed for ``non_dre``.
        judge : str
            As `dre.judges.open` takes it; with ``judge_options`` for it.
        method : {"slm", "slide", "ex_dre", "in_dre", "dre", "calibrated", "non_dre"}
        prompt : str
            Name or file of another prompt than the method's own.
        accuracies : (float, float)
            Of SLM and LLM in [0, 1]; the prompt of ``in_dre`` and ``dre`` states them.
        fusion : str or path
            Of ``calibrated``: a file that ``dre calibrate`` wrote.
        bf16 : bool
            Embed in bfloat16: faster where the hardware multiplies it itself, and less exact.

        Raises
        ------
        DreError
            If something needed is not given, not there or damaged.
        """
        slm, fusion = (str(path) if path else None for path in (slm, fusion))
        return cls(Settings(slm, judge, method, prompt, accuracies, judge_options, fusion, bf16).open())

    def score(self, contexts, responses, references=None, ids=None, systems=None):
        """Score pairs.

        Parameters
        ----------
        contexts : sequence
            Of each pair: the turns, oldest first, or a text with one turn a line.
        responses : sequence of str
        references, ids, systems : sequence, optional
            ``ids`` are needed for a recorded judge only.

        Returns
        -------
        DataFrame
            One row a pair, in their order; see `dre.scoring.scorer.Scorer.score_block`.

        Raises
        ------
        DreError
            If the sequences differ in length, or naming the first pair that cannot be scored.
        """
        rows = _rows(contexts, responses, references, ids, systems)
        tables = [self.scorer.score_block(block) for block in readers.blocks(rows, BLOCK)]
        return pd.concat(tables, ignore_index=True).drop(columns="line")

    def compute(self, predictions, contexts, references=None):
        """Score responses in the manner of Hugging Face's ``evaluate``.

        Parameters
        ----------
        predictions : sequence of str
            The responses.
        contexts, references
            As for `score`.

        Returns
        -------
        dict
            ``score``: the mean of the scores there are; ``scores``: one a response, None where there is none;
            ``n_missing``; ``signature``.
        """
        found = self.score(contexts, predictions, references)["score"]
        there = found.notna()
        return {
            "score": float(found.mean()) if there.any() else None,
            "scores": found.astype(object).where(there, None).tolist(),
            "n_missing": int((~there).sum()),
            "signature": self.signature(_rows(contexts, predictions, references)),
        }

    def signature(self, rows=None):
        """Return the line to print beside a score; with ``rows``, it names what was scored, too."""
        return line(**signature.parts(self.scorer, _sha256(rows) if rows else None))


def _rows(contexts, responses, references=None, ids=None, systems=None):
    given = {"context": contexts, "response": responses, "reference": references, "id": ids, "system": systems}
    given = {name: list(values) for name, values in given.items() if values is not None}
    lengths = {name: len(values) for name, values in given.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{count} of {name}" for name, count in lengths.items())
        raise DreError(f"the sequences differ in length ({told}): expected one of each a pair")
    if not lengths["response"]:
        raise DreError("there are no pairs: give at least one context and response")
    rows = []
    for i in range(lengths["response"]):
        try:
            rows.append(row_of({name: values[i] for name, values in given.items()}, i))
        except Unfit as error:
            raise DreError(f"pair {i}: {error}") from None
    return rows


def _sha256(rows):
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps([row.context, row.response, row.reference], ensure_ascii=False).encode() + b"\n")
    return digest.hexdigest()
