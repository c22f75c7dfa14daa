"""The metric: a trained SLM, a judge, or both fused, as Table 4 names the methods."""

import difflib
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pandas as pd

from dre import fusion, judges
from dre.calibrated import Calibrated
from dre.datasets import readers
from dre.environment import VERSION
from dre.errors import DreError, TryLater
from dre.files import sha256
from dre.judges import prompts
from dre.progress import Progress
from dre.score import language
from dre.signature import Signature
from dre.slm import remembered
from dre.slm.provenance import find_slm

if TYPE_CHECKING:
    from dre.slm.model import SLM


class Scoring(NamedTuple):
    """A way to score: what it needs (an SLM, a judge, ...), and which numbers its scores are."""

    needs: tuple[str, ...]
    scale: str


#: The methods by name. Those that the papers' names say better keep them.
METHODS = {
    "small": Scoring(("slm",), "about 0 to 2"),
    "judge": Scoring(("judge",), "0 to 5"),
    "product": Scoring(("slm", "judge"), "about 0 to 10"),
    "slide": Scoring(("slm", "judge"), "0 to 2"),
    "in_dre": Scoring(("slm", "judge", "accuracies"), "0 to 5"),
    "dre": Scoring(("slm", "judge", "accuracies"), "about 0 to 10"),
    "calibrated": Scoring(
        ("slm", "judge", "fusion"), "in standard deviations, 0 is an ordinary pair"
    ),
}
#: The papers' names of methods.
ALIASES = {"slm": "small", "non_dre": "judge", "ex_dre": "product"}
#: What a method may need besides an SLM, in the words of an error.
_NEEDS_IN_WORDS = {
    "judge": "a judge",
    "accuracies": "the accuracies of SLM and LLM",
    "fusion": "a fusion that was learned",
}
OPTIONS = (*_NEEDS_IN_WORDS, "slm", "method", "prompt", "bf16")
COLUMNS = (
    "line",
    "id",
    "system",
    "context_id",
    "distance",
    "scaled_distance",
    "fits",
    "score_slm",
    "score_llm",
    "s_inf",
    "s_c",
    "case",
    "z_slm",
    "z_llm",
    "score",
    "status",
    "reason",
    "left_out",
)
#: What the table of scores calls the numbers of the papers: s_d is the distance, scaled to the
#: distances of the training; s_p says how well the response fits its context.
_PLAIN_NAMES = {"s_d": "scaled_distance", "s_p": "fits"}
#: Decimals of the SLM's numbers in a prompt: the last bits of a float must not cost another reply.
_PROMPT_DECIMALS = 6
#: Why a pair has no score that was computed all the same.
_NOT_FINITE = "the score is not a finite number: the small model may be damaged"
BLOCK = 256  # distinct pairs that are scored and kept together; a kill loses no more of them


@dataclass(eq=False, repr=False)
class DRE:
    """A metric for responses in a dialogue: ``DRE.load().score([["Tea?"]], ["With milk."])``.

    Attributes
    ----------
    method : str
        One of `METHODS`.
    slm, judge, prompt, accuracies, fusion
        What the method needs, as `load` finds it; else None.
    bf16 : bool
        Whether embeddings are made in bfloat16.
    """

    method: str
    slm: "SLM | None" = None
    judge: judges.AnyJudge | None = None
    prompt: prompts.Prompt | None = None
    accuracies: Sequence[float] | None = None
    fusion: Calibrated | None = None
    bf16: bool = False

    @classmethod
    def load(
        cls,
        slm: str | Path | None = None,
        judge: str | Callable[..., float] | judges.AnyJudge | None = None,
        method: str | None = None,
        prompt: str | Path | None = None,
        accuracies: Sequence[float] | None = None,
        fusion: str | Path | None = None,
        bf16: bool = False,
        **options: Any,
    ) -> Self:
        """Load the metric.

        Parameters
        ----------
        slm
            What `find_slm` finds; None for the model that comes with the package.
        judge
            What `dre.judges.open` takes: a name, a function, or a judge.
        method
            One of `METHODS`, each with what it needs. By default the judge alone if there is a
            judge, else the SLM alone.
        prompt
            The name or file of another prompt than the method's own.
        accuracies
            The accuracies of SLM and LLM, in [0, 1], which the prompt of some methods shows.
        fusion
            A file that ``dre calibrate`` wrote.
        bf16
            Make embeddings in bfloat16: faster where the hardware multiplies it itself, and less
            exact.
        options
            Further options of a judge that is given by its name.

        Raises
        ------
        DreError
            If something is not given, not there, damaged, or of no use to the method.
        """
        _check_names(options, judge)
        method = check_options(method, judge, prompt, accuracies, fusion, bf16, slm)
        needs = METHODS[method].needs
        metric = cls(method, accuracies=accuracies, bf16=bf16)
        if fusion:
            metric.fusion = Calibrated.load(fusion)
        if judge:
            own_prompt = "dre" if "accuracies" in needs else "llm_only"
            metric.prompt = prompts.load(prompt or own_prompt)
            if metric.prompt.kind != "score":
                raise DreError(
                    f"prompt {metric.prompt.name!r} asks for a {metric.prompt.kind}: expected one "
                    "that asks for a score"
                )
            metric.judge = judges.open(judge, **options)
        if "slm" in needs:
            metric.slm = _load_slm(slm, bf16)
        if metric.fusion:
            metric.fusion.check_signature(metric.signature())
        return metric

    def score(
        self,
        contexts: Iterable[str | Sequence],
        responses: Iterable[str],
        references: Iterable[str | None] | None = None,
        ids: Iterable | None = None,
        systems: Iterable[str] | None = None,
    ) -> pd.DataFrame:
        """Score pairs that are given as sequences of one length.

        Parameters
        ----------
        contexts
            The turns before each response, oldest first: a list of texts or of chat messages, or
            one text with a turn on each line.
        responses
            The texts to score.
        references
            A human's replies, for prompts that show one.
        ids
            Names of the pairs, which a recorded judge needs; by default their number, from 1.
        systems
            The name of the system that wrote each response.

        Returns
        -------
        DataFrame
            One row per pair, see `score_pairs`.
        """
        table = self.score_pairs(_pairs(contexts, responses, references, ids, systems))
        return table.drop(columns="line")

    def compute(
        self,
        predictions: Iterable[str],
        contexts: Iterable[str | Sequence],
        references: Iterable[str | None] | None = None,
    ) -> dict:
        """Score responses in the manner of Hugging Face's ``evaluate``.

        Returns
        -------
        dict
            ``score``, the mean; ``scores``, one per prediction, None where there is none;
            ``n_missing``, the number of these; ``signature``, the line to quote beside them.
        """
        pairs = _pairs(contexts, predictions, references)
        scores = pd.Series(self.score_pairs(pairs)["score"])
        columns = [list(pairs[name]) for name in ("context", "response", "reference")]
        text = json.dumps(columns, ensure_ascii=False)
        signature = self.signature(sha256(text))
        has_score = scores.notna()
        return {
            "score": float(scores.mean()) if has_score.any() else None,
            "scores": scores.astype(object).where(has_score, None).tolist(),
            "n_missing": int((~has_score).sum()),
            "signature": str(signature),
        }

    def score_pairs(
        self, pairs: pd.DataFrame, progress: bool = False, keep: bool = False
    ) -> pd.DataFrame:
        """Score a table of pairs that `dre.datasets.readers.pairs` made.

        Parameters
        ----------
        pairs
            The pairs.
        progress
            Whether to say how far it is: a bar in a terminal, else a line every half a minute.
        keep
            Whether to take what the small model computed earlier from the user's cache folder, and
            to keep there what it computes now.

        Returns
        -------
        DataFrame
            One row per pair, in their order, with `COLUMNS`. ``status`` is ``ok``; or
            ``other_language`` for a text that the small model cannot read; or what became of the
            judge's reply (``malformed``, ``refused``, ``truncated``, ``empty``, ``error``). Where
            it is not ``ok``, ``score`` is missing. ``reason`` says why, or that a text was cut.

        Raises
        ------
        DreError
            If the judge stops before the end.
        """
        table = pairs.assign(status="ok", reason="")
        if self.slm:
            table = self._with_slm_scores(table, progress, keep)
        if self.judge:
            table = self._with_judge_scores(table)
        table = self._with_scores(table).rename(columns=_PLAIN_NAMES)
        has_no_score = (table["status"] == "ok") & ~np.isfinite(table["score"].astype(float))
        table.loc[has_no_score, ["status", "reason"]] = "error", _NOT_FINITE
        table["score"] = table["score"].mask(has_no_score)
        return table.reindex(columns=list(COLUMNS))

    def accepted(self, table: pd.DataFrame) -> pd.Series:
        """Return for each row of scores whether ``score_slm`` reaches the model's threshold.

        It is missing where the small model could not read the pair. DreError if the model stores no
        threshold.
        """
        if self.threshold is None:
            raise DreError(
                "this small model stores no threshold: train it with --dev, or leave --accepted out"
            )
        scores = table["score_slm"]
        accepted = (scores >= self.threshold).astype("bool[pyarrow]")  # whose values are Python's
        return pd.Series(accepted.where(scores.notna()))

    def _with_slm_scores(self, table, progress, keep):
        """Add the SLM's numbers. Equal pairs are scored once, equal contexts together."""
        assert self.slm, "this method needs a small model"
        columns = ["context", "response"]
        table["reason"] = language.what_is_not_read(table, self.slm.encoder.tokenizer)
        is_read = table["reason"] == ""
        table.loc[~is_read, "status"] = language.STATUS
        distinct = table[is_read].drop_duplicates(columns).sort_values("context_id")
        scores = self._scores_in_blocks(distinct, progress, keep)
        scores[columns] = distinct[columns]
        table = table.merge(scores.drop(columns="pair_id"), on=columns, how="left")
        # The same texts may be those of a system that is not read as a whole.
        unread = table["status"] == language.STATUS
        table["reason"] = table["reason"].where(unread, table.pop("what_is_cut"))
        is_finite = np.isfinite(table[remembered.NUMBERS]).all(axis=1)
        is_damaged = ~unread & ~is_finite
        table.loc[is_damaged, ["status", "reason"]] = "error", _NOT_FINITE
        table.loc[~is_finite | unread, remembered.NUMBERS] = np.nan
        return table

    def _scores_in_blocks(self, pairs, progress, keep):
        """Score pairs block by block, by their index; a block is kept before the next begins.

        ``left_out`` are the words of a response that repeat its context, and ``what_is_cut`` says
        in words what is too long for the model.
        """
        from dre.slm.ours import Ours, without_quotes

        assert self.slm, "this method needs a small model"
        cache = remembered.Cache(remembered.signature_of(self.slm, self.bf16) if keep else None)
        tables = [cache.get(pairs)]
        n_known = len(tables[0])
        missing = pairs.drop(index=tables[0].index)
        if progress and n_known:
            print(f"{n_known:,} of {len(pairs):,} pairs were scored before", file=sys.stderr)

        bar = Progress(len(pairs), "pairs", n_known, is_silent=not progress)
        with bar, warnings.catch_warnings():
            # The column `reason` says what is cut.
            warnings.filterwarnings("ignore", message=r".*response\(s\) have more than")
            for first in range(0, len(missing), BLOCK):
                block = missing.iloc[first : first + BLOCK]
                scores = self.slm.score(block).filter(["pair_id", *remembered.NUMBERS])
                tables.append(scores.set_index(block.index))
                if keep:
                    cache.put(block, scores)
                bar.update(len(block))
        cache.close()

        pairs = self.slm.readable(pairs)
        limit = self.slm.encoder.max_seq_length
        is_cut = {
            f"the response is cut after {limit} tokens": self.slm.cut(pairs["response"]),
            f"the context is cut: only its last {limit} tokens count": self.slm.cut_contexts(
                pairs["context"]
            ),
        }
        scores = pd.concat(tables).reindex(pairs.index)
        if isinstance(self.slm, Ours):
            scores["left_out"] = without_quotes(pairs)[1]
        notes = []
        for row in zip(*is_cut.values()):
            notes.append("; ".join(compress(is_cut, row)))
        scores["what_is_cut"] = notes
        return scores

    def _with_judge_scores(self, table):
        """Add the judge's numbers, and what became of its replies."""
        assert self.judge, "this method needs a judge"
        assert self.prompt, "a judge has its prompt"
        assert self.prompt.scale, "the prompt asks for a score"
        if judges.is_recording(self.judge.spec) and table["id"].duplicated().any():
            raise DreError(
                f"{self.judge.spec} knows a pair by its id: make ids unique, also between systems"
            )
        # No judge is paid for a pair that the small model cannot read, since no score would follow.
        is_read = table["status"] == "ok"
        readable = table[is_read]
        if not len(readable):
            return table.assign(score_llm=np.nan, s_inf=np.nan)
        replies = self.judge.score(self._for_prompt(readable), self.prompt)
        replies = replies.set_index(readable.index)
        if self.judge.last.stopped == "budget":
            raise TryLater(f"{self.judge.last.why}; what was answered is stored")
        judge_scores = pd.Series(replies["score_llm"]).where(replies["status"] == "ok")
        has_reason = replies["reason"].fillna("") != ""
        reasons = replies["reason"].where(has_reason, readable["reason"])
        score_llm = fusion.to_llm_scale(judge_scores, *self.prompt.scale)
        return table.assign(
            score_llm=pd.Series(score_llm, readable.index).reindex(table.index),
            s_inf=replies["s_inf"].reindex(table.index),
            status=table["status"].where(~is_read, replies["status"].reindex(table.index)),
            reason=table["reason"].where(~is_read, reasons.reindex(table.index)),
        )

    def _for_prompt(self, table):
        """Return the table with the numbers that a prompt may show."""
        if self.slm:
            # A prompt speaks of a distance and a probability, also where a recipe leaves 0 to 1.
            s_d = table["s_d"].clip(0, 1).round(_PROMPT_DECIMALS)
            s_p = table["s_p"].clip(0, 1).round(_PROMPT_DECIMALS)
            score_slm = (1 - s_d + s_p).round(_PROMPT_DECIMALS)
            table = table.assign(s_d=s_d, s_p=s_p, score_slm=score_slm)
        if self.accuracies:
            slm_accuracy, llm_accuracy = self.accuracies
            table = table.assign(slm_accuracy=slm_accuracy, llm_accuracy=llm_accuracy)
        return table

    def _with_scores(self, table):
        """Add ``score``, and what the method shows beside it."""
        if self.method == "small":
            return table.assign(score=table["score_slm"])
        if self.method in ("judge", "in_dre"):
            return table.assign(score=table["score_llm"])
        slm = table["score_slm"]
        llm = table["score_llm"]
        if self.method == "slide":
            return table.assign(score=fusion.slide(slm, llm), case=fusion.slide_case(slm, llm))
        if self.method == "calibrated":
            assert self.fusion, "this method needs a fusion"
            return table.assign(
                z_slm=self.fusion.slm(slm),
                z_llm=self.fusion.llm(llm),
                score=self.fusion.fuse(slm, llm),
            )
        s_d = table["s_d"]
        s_p = table["s_p"]
        fuse = fusion.ex_dre if self.method == "product" else fusion.dre
        return table.assign(s_c=fusion.s_c(s_d, s_p), score=fuse(s_d, s_p, llm))

    @property
    def scale(self) -> str:
        """Which numbers the scores are, in words."""
        return f"{METHODS[self.method].scale}, higher is better"

    @property
    def threshold(self) -> float | None:
        """The score_slm from which on a response counts as accepted, if the SLM stores one."""
        return None if self.slm is None else self.slm.provenance.get("threshold")

    def signature(self, data: str | None = None) -> Signature:
        """Return what decides a score, to be quoted beside it.

        ``data`` is the sha256 of the pairs that are scored, in hex digits.
        """
        fields: dict = {"method": self.method}
        if self.slm:
            provenance = self.slm.provenance
            fields["slm"] = provenance.get("name")
            fields["model"] = provenance.get("fingerprint", "unknown")
            fields["recipe"] = self.slm.recipe.name
            fields["seed"] = provenance.get("seed")
            fields["encoder"] = Path(str(provenance.get("encoder"))).name
            fields["precision"] = "bf16" if self.bf16 else None
        if self.judge:
            assert self.prompt, "a judge has its prompt"
            fields["judge"] = self.judge.signature
            fields["prompt"] = self.prompt.reading()
        fields["accuracies"] = list(self.accuracies) if self.accuracies else None
        fields["fusion"] = self.fusion.sha256 if self.fusion else None
        fields["data"] = data
        fields["version"] = VERSION
        if self.slm:
            for package in ("torch", "sentence-transformers", "transformers"):
                fields[package] = version(package)
        return Signature.of(**fields)


def _check_names(options, judge):
    """Raise DreError for options that nobody takes, with the nearest that there is."""
    for name in options:
        nearest = difflib.get_close_matches(name, OPTIONS, 1, 0.75)
        if nearest:
            raise DreError(f"there is no option {name!r}: did you mean {nearest[0]}?")
        if not isinstance(judge, str):
            raise DreError(
                f"there is no option {name!r}: only a judge that is named takes other options"
            )


def _load_slm(name, bf16):
    """Load an SLM by its name. It needs torch, which a judge alone does not."""
    from dre.slm.encoder import native_bf16
    from dre.slm.model import SLM

    model = SLM.load(find_slm(name))
    if bf16:
        if not native_bf16():
            raise DreError(
                "this machine does not multiply bfloat16 itself, which makes it slower: leave bf16 "
                "out"
            )
        model.bfloat16()
    return model


def check_options(
    method: str | None = None,
    judge: object = None,
    prompt: object = None,
    accuracies: Sequence[float] | None = None,
    fusion: object = None,
    bf16: bool = False,
    slm: str | Path | None = None,
) -> str:
    """Return the method that is meant; the parameters are those of `DRE.load`.

    Nothing is loaded. Raises DreError for options that do not fit together.
    """
    if not method:
        method = "judge" if judge else "small"
    method = ALIASES.get(method, method)
    if method not in METHODS:
        raise DreError(f"method is {method!r}: expected one of {', '.join(METHODS)}")
    needs = METHODS[method].needs

    # What the method needs is given. A prompt of one's own may do without the accuracies.
    has = {"slm": True, "judge": judge, "accuracies": accuracies or prompt, "fusion": fusion}
    lacking = [name for name in needs if not has[name]]
    if lacking:
        wanted = [_NEEDS_IN_WORDS[name] for name in needs if name in _NEEDS_IN_WORDS]
        raise DreError(f"method {method} needs {' and '.join(wanted)}: give {lacking[0]}")

    # What is given is of use. With bf16 numbers in a prompt would be others: replies are lost.
    has_use = {
        "judge": "judge" in needs,
        "fusion": "fusion" in needs,
        "prompt": "judge" in needs,
        "bf16": "slm" in needs and "accuracies" not in needs,
        "slm": "slm" in needs,
    }
    options = {"judge": judge, "prompt": prompt, "fusion": fusion, "bf16": bf16, "slm": slm}
    for name, value in options.items():
        if value and not has_use[name]:
            raise DreError(
                f"method {method} has no use for {name}: leave it out, or choose of "
                f"{', '.join(METHODS)}"
            )
    if accuracies and not (len(accuracies) == 2 and all(0 <= share <= 1 for share in accuracies)):
        raise DreError(
            f"accuracies are {accuracies}: expected those of SLM and LLM in [0, 1], such as "
            "0.88,0.98"
        )
    return method


def _pairs(contexts, responses, references=None, ids=None, systems=None):
    """Return the pairs of sequences as `dre.datasets.readers.pairs` makes them of a file."""
    sequences = {
        "context": contexts,
        "response": responses,
        "reference": references,
        "id": ids,
        "system": systems,
    }
    for name in ("context", "response", "reference"):
        if isinstance(sequences[name], str):
            raise DreError(f"{name}s is a text: a list of {name}s is expected, one for each pair")
    columns = {name: list(values) for name, values in sequences.items() if values is not None}
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1 or not columns["response"]:
        raise DreError(
            f"sequences of lengths {sorted(lengths)}: expected one of each per pair, and one pair "
            "at least"
        )
    records = [dict(zip(columns, values)) for values in zip(*columns.values())]
    pairs, bad_records = readers.pairs(enumerate(records, 1))
    if bad_records:
        raise DreError(f"pair {bad_records[0]['line']}: {bad_records[0]['reason']}")
    return pairs
