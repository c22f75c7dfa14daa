"""A block of rows becomes a table of scores: the one place where models and judges meet a user's data."""

import warnings
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd

from dre import fusion
from dre.errors import DreError
from dre.scoring.cache import Embeddings

COLUMNS = (
    "line", "id", "system", "context_id", "distance", "s_d", "s_p", "score_slm", "score_llm", "s_inf", "s_c", "case",
    "z_slm", "z_llm", "score", "status", "reason",
)  # fmt: skip
NUMBERS = ("distance", "s_d", "s_p", "score_slm", "score_llm", "s_inf", "s_c", "z_slm", "z_llm", "score")
#: the SLM's numbers are rounded before they go into a prompt, so that the last bits cannot cost a second reply
DIGITS = 6


class Method(NamedTuple):
    """What a method needs, and how it makes a score of it; None: as a fusion that was learned does."""

    slm: bool
    prompt: str | None
    fuse: object


METHODS = {
    "slm": Method(True, None, lambda table: table.assign(score=table["score_slm"])),
    "slide": Method(True, "llm_only", fusion.slide),
    "ex_dre": Method(True, "llm_only", fusion.ex_dre),
    "in_dre": Method(True, "dre", fusion.in_dre),
    "dre": Method(True, "dre", fusion.dre),
    "calibrated": Method(True, "llm_only", None),
    "non_dre": Method(False, "llm_only", fusion.non_dre),
}


@dataclass(frozen=True)
class Settings:
    """What decides a score, as plain values: they can be sent to another process, and `open` there.

    Attributes
    ----------
    slm : str or None
        A folder, a Hub id, or the name of a model trained by ``make paper``; None for ``non_dre``.
    judge : str or None
        ``provider:model`` or ``recorded:name``, as `dre.judges.open` takes it; None for ``slm``.
    method : str
        A name in `METHODS`.
    prompt : str or None
        Name or file of another prompt; None: the method's own.
    accuracies : (float, float) or None
        Of SLM and LLM in [0, 1], which the prompt of ``in_dre`` and ``dre`` states.
    judge_options : dict
        Further arguments of `dre.judges.open`.
    fusion : str or None
        File that ``dre calibrate`` wrote, for ``calibrated``.
    bf16 : bool
        Embed in bfloat16: faster where the hardware multiplies it itself, and less exact.
    """

    slm: str | None = None
    judge: str | None = None
    method: str = "slm"
    prompt: str | None = None
    accuracies: tuple[float, float] | None = None
    judge_options: dict = field(default_factory=dict)
    fusion: str | None = None
    bf16: bool = False

    def __post_init__(self):
        if self.method not in METHODS:
            raise DreError(f"method is {self.method!r}: expected one of {', '.join(METHODS)}")
        method = METHODS[self.method]
        if method.slm and not self.slm:
            raise DreError(f"method {self.method} needs a small model: name one with --slm (slm=...)")
        if method.prompt and not self.judge:
            raise DreError(f"method {self.method} needs a judge: name one with --judge (judge=...)")
        if self.judge and not method.prompt:
            named = ", ".join(name for name, other in METHODS.items() if other.prompt)
            raise DreError(f"method {self.method} asks no judge: leave --judge out, or choose one of {named}")
        if method.prompt == "dre" and not self.prompt and not self.accuracies:
            raise DreError(
                f"the prompt of {self.method} states how accurate SLM and LLM are: give --accuracies SLM,LLM, such as "
                "0.88,0.98, measured on labelled data (Table 3)"
            )
        if self.bf16 and not method.slm:
            raise DreError(f"method {self.method} embeds nothing: leave --bf16 out")
        if self.bf16 and method.prompt == "dre":
            raise DreError(
                f"the prompt of {self.method} shows the SLM's numbers, and in bfloat16 they depend on what else is "
                "embedded with a text, so that replies might be paid for twice: leave --bf16 out"
            )
        if method.fuse is None and not self.fusion:
            raise DreError(
                f"method {self.method} needs a fusion: learn one with dre calibrate and name it with --fusion"
            )
        if self.fusion and method.fuse is not None:
            raise DreError(f"method {self.method} learns no fusion: leave --fusion out, or choose method calibrated")

    def open(self):
        """Load the model, open the judge, and return the `Scorer`."""
        from dre.calibrated import Calibrated
        from dre.scoring.asking import Asking
        from dre.scoring.models import load

        method = METHODS[self.method]
        fusion = Calibrated.load(self.fusion) if self.fusion else None
        judge = Asking(self.judge, self.prompt or method.prompt, **self.judge_options) if method.prompt else None
        slm = load(self.slm) if method.slm else None
        if self.bf16:
            slm.faster()
        scorer = Scorer(self, slm, judge, fusion)
        if fusion is not None:
            _check_made_with(fusion, scorer)
        return scorer


def _check_made_with(fusion, scorer):
    """A fusion's scales are those of one model and one judge."""
    from dre.scoring.signature import parts

    here = parts(scorer)
    for part, there in fusion.made_with.items():
        if here[part] != there:
            raise DreError(
                f"{scorer.settings.fusion} was learned with {part} {there}, these scores are made with {here[part]}: "
                "use the same, or learn another with dre calibrate"
            )


class Scorer:
    """Scores blocks of rows.

    Parameters
    ----------
    settings : Settings
    slm : SLM or None
    judge : dre.scoring.asking.Asking or None
    fusion : dre.calibrated.Calibrated or None
    """

    def __init__(self, settings, slm=None, judge=None, fusion=None):
        self.settings, self.slm, self.judge, self.fusion = settings, slm, judge, fusion
        self.fuse = fusion.fuse if fusion is not None else METHODS[settings.method].fuse
        self.cache = Embeddings()
        self.threshold = slm.provenance.get("threshold") if slm is not None else None

    @property
    def columns(self):
        """Columns of the tables, in their order."""
        return COLUMNS if self.threshold is None else (*COLUMNS, "accepted")

    def score_block(self, rows):
        """Score some rows.

        A row's numbers do not depend on the other rows of the block (beyond rounding of about 1e-6, in
        bfloat16 1e-3).

        Parameters
        ----------
        rows : list of dre.scoring.rows.Row

        Returns
        -------
        DataFrame
            One row a row, in their order, with `columns`: what has no value is missing. ``status`` is ``ok``, or what
            became of the judge's reply (``malformed, refused, truncated, empty, missing, error``), which leaves
            ``score`` missing; ``reason`` says why, or that a text was cut.
        """
        table = pd.DataFrame(rows, columns=rows[0]._fields)
        table["pair_id"] = self._pair_ids(rows)
        table["context_id"] = [row.context_id for row in rows]
        table["status"], table["reason"] = "ok", ""
        if self.slm is not None:
            table = table.merge(self._small(table), on="pair_id", how="left", validate="1:1")
        if self.judge is not None:
            table = self._large(table)
        table = self.fuse(table)
        table = table.reindex(columns=list(COLUMNS))
        table[list(NUMBERS)] = table[list(NUMBERS)].astype(float)
        if self.threshold is not None:
            table["accepted"] = table["score_slm"] >= self.threshold
        return table

    def _pair_ids(self, rows):
        """A recording knows its pairs by their id; for all else the line tells them apart."""
        if self.judge is None or not self.judge.recorded:
            return [f"line {row.line}" for row in rows]
        ids = [row.id for row in rows]
        if len(set(ids)) < len(ids):
            raise DreError(f"{self.settings.judge} knows a pair by its id: expected another id for every pair")
        return ids

    def _small(self, table):
        limit = self.slm.model.max_seq_length
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r".*response\(s\) have more than")  # the reason says it
            scored = self.slm.score(table, cache=self.cache)
        cut = [len(text.split()) > limit for text in table["response"]]
        table["reason"] = np.where(cut, f"the response is cut after {limit} tokens", table["reason"])
        return scored

    def _large(self, table):
        shown = table
        if self.slm is not None:
            shown = table.assign(**{name: table[name].round(DIGITS) for name in ("s_d", "s_p")})
            shown["score_slm"] = (1 - shown["s_d"] + shown["s_p"]).round(DIGITS)
        if self.settings.accuracies:
            shown["slm_accuracy"], shown["llm_accuracy"] = self.settings.accuracies
        said = self.judge.ask(shown)
        known = table["reason"]
        table = table.drop(columns=["status", "reason"]).merge(said, on="pair_id", how="left", validate="1:1")
        return table.assign(reason=[a or b for a, b in zip(table["reason"].fillna(""), known)])
