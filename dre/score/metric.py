"""The metric: a trained SLM, a judge, or both fused, as Table 4 names the methods."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pandas as pd

from dre import fusion, judges
from dre.datasets import readers
from dre.datasets.readers import Form
from dre.environment import VERSION
from dre.errors import DreError, TryLater
from dre.judges import prompts
from dre.score import language
from dre.signature import Signature
from dre.slm import remembered
from dre.slm.provenance import find_slm

if TYPE_CHECKING:
    from dre.slm.model import SLM


class Method(NamedTuple):
    """A way to score.

    Attributes
    ----------
    needs : what it takes: ``slm``, ``judge``, ``accuracies``.
    scale : which numbers its scores are, in words.
    score : computes them from a table with ``s_d, s_p, score_slm`` and ``score_llm``.
    """

    needs: tuple[str, ...]
    scale: str
    score: Callable[[pd.DataFrame], Any]


#: The methods by name. Those that the papers' names say better keep them.
METHODS = {
    "small": Method(("slm",), "about 0 to 2", lambda t: t["score_slm"]),
    "judge": Method(("judge",), "0 to 5", lambda t: t["score_llm"]),
    "product": Method(
        ("slm", "judge"),
        "about 0 to 10",
        lambda t: fusion.ex_dre(t["s_d"], t["s_p"], t["score_llm"]),
    ),
    "slide": Method(
        ("slm", "judge"), "0 to 2", lambda t: fusion.slide(t["score_slm"], t["score_llm"])
    ),
    "in_dre": Method(("slm", "judge", "accuracies"), "0 to 5", lambda t: t["score_llm"]),
    "dre": Method(
        ("slm", "judge", "accuracies"),
        "about 0 to 10",
        lambda t: fusion.dre(t["s_d"], t["s_p"], t["score_llm"]),
    ),
}
#: The papers' names of methods.
ALIASES = {"slm": "small", "non_dre": "judge", "ex_dre": "product"}
COLUMNS = ["line", "id", "system", "context_id", "distance", "scaled_distance", "fits"]
COLUMNS += ["score_slm", "score_llm", "s_inf", "score", "status", "reason", "left_out"]
#: What the table of scores calls the numbers of the papers: s_d is the distance, scaled to the
#: distances of the training; s_p says how well the response fits its context.
_PLAIN_NAMES = {"s_d": "scaled_distance", "s_p": "fits"}
#: Decimals of the SLM's numbers in a prompt: the last bits of a float must not cost another reply.
_PROMPT_DECIMALS = 6
BLOCK = 256  # distinct pairs that are scored and kept together; a kill loses no more of them


@dataclass(eq=False, repr=False)
class DRE:
    """A metric for responses in a dialogue: ``DRE.load().score([["Tea?"]], ["With milk."])``.

    Attributes
    ----------
    method : one of `METHODS`.
    slm, judge, prompt, accuracies : what the method needs, as `load` finds it; else None.
    """

    method: str
    slm: "SLM | None" = None
    judge: judges.AnyJudge | None = None
    prompt: prompts.Prompt | None = None
    accuracies: Sequence[float] | None = None

    @classmethod
    def load(
        cls,
        slm: str | Path | None = None,
        judge: str | Callable[..., float] | judges.AnyJudge | None = None,
        method: str | None = None,
        prompt: str | Path | None = None,
        accuracies: Sequence[float] | None = None,
        **options: Any,
    ) -> Self:
        """Load the metric.

        Parameters
        ----------
        slm : what `find_slm` finds; None for the model that comes with the package.
        judge : what `dre.judges.open` takes: a name, a function, or a judge.
        method : one of `METHODS`. By default the judge alone if there is one, else the SLM alone.
        prompt : the name or file of another prompt than the method's own.
        accuracies : those of SLM and LLM, in [0, 1], which the prompt of some methods shows.
        options : further options of a judge that is given by its name.

        Raises
        ------
        DreError
            If something is not given, not there, damaged, or of no use to the method.
        """
        if options and not isinstance(judge, str):
            raise DreError(f"there is no option {', '.join(options)}: only named judges have some")
        method = check_options(method, judge, prompt, accuracies, slm)
        needs = METHODS[method].needs
        metric = cls(method, accuracies=accuracies)
        if judge:
            metric.prompt = prompts.load(prompt or ("dre" if "accuracies" in needs else "llm_only"))
            if metric.prompt.kind != "score":
                raise DreError(
                    f"prompt {metric.prompt.name!r} asks for a {metric.prompt.kind}: expected one "
                    "that asks for a score"
                )
            metric.judge = judges.open(judge, **options)
        if "slm" in needs:
            from dre.slm.model import SLM  # torch, which a judge alone does not need

            metric.slm = SLM.load(find_slm(slm))
        return metric

    def score(
        self,
        contexts: Iterable[Sequence],
        responses: Iterable[str],
        references: Iterable[str | None] | None = None,
        ids: Iterable | None = None,
        systems: Iterable[str] | None = None,
    ) -> pd.DataFrame:
        """Score pairs that are given as sequences of one length.

        Parameters
        ----------
        contexts : the turns before each response, oldest first: a list of texts or of messages.
        responses : the texts to score.
        references : a human's replies, for prompts that show one.
        ids : names of the pairs, which a recorded judge needs; by default their number, from 1.
        systems : the name of the system that wrote each response.

        Returns
        -------
        DataFrame
            One row per pair, see `score_pairs`.
        """
        table = self.score_pairs(_pairs(contexts, responses, references, ids, systems))
        return table.drop(columns="line")

    def score_pairs(
        self, pairs: pd.DataFrame, progress: bool = False, keep: bool = False
    ) -> pd.DataFrame:
        """Score a table of pairs that `dre.datasets.readers.pairs` made.

        Parameters
        ----------
        pairs : the pairs.
        progress : whether to say how far it is.
        keep : whether to take what the small model computed earlier from the user's cache folder,
            and to keep there what it computes now.

        Returns
        -------
        DataFrame
            One row per pair, in their order, with those of `COLUMNS` that the method has.
            ``status`` is ``ok``; or ``other_language`` for a text that the small model cannot read;
            or what became of the judge's reply (``malformed``, ``refused``, ``truncated``,
            ``empty``, ``error``). Where it is not ``ok``, ``score`` is missing. ``reason`` says
            why, or that a text was cut.

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
        table["score"] = METHODS[self.method].score(table).astype(float)
        table = table.rename(columns=_PLAIN_NAMES)
        return table.loc[:, [name for name in COLUMNS if name in table]]

    def _with_slm_scores(self, table, progress, keep):
        """Add the SLM's numbers. Equal pairs are scored once, equal contexts together.

        ``left_out`` are the words of a response that repeat its context.
        """
        from dre.slm.ours import Ours, without_quotes

        slm = self.slm
        assert slm, "this method needs a small model"
        columns = ["context", "response"]
        table["reason"] = language.what_is_not_read(table, slm.encoder.tokenizer)
        is_read = table["reason"] == ""
        table.loc[~is_read, "status"] = language.STATUS
        distinct = table[is_read].drop_duplicates(columns).sort_values("context_id")
        memory = remembered.cache_of(slm) if keep else remembered.Cache()
        model = remembered.Remembered(memory, slm.provenance, lambda: slm)
        scores = model.score(distinct, BLOCK, progress).set_axis(distinct.index)
        scores = scores.reindex(columns=["pair_id", *remembered.NUMBERS])
        scores[columns] = distinct[columns]
        read = slm.readable(distinct)
        limit = slm.encoder.max_seq_length
        is_cut = {
            f"the response is cut after {limit} tokens": slm.cut(read["response"]),
            f"the context is cut: only its last {limit} tokens count": slm.cut_contexts(
                read["context"]
            ),
        }
        scores["what_is_cut"] = ["; ".join(compress(is_cut, row)) for row in zip(*is_cut.values())]
        if isinstance(slm, Ours):
            scores["left_out"] = without_quotes(read)[1]
        # The same texts may be those of a system that is not read as a whole.
        scores["status"] = "ok"
        table = table.merge(scores.drop(columns="pair_id"), on=[*columns, "status"], how="left")
        table["reason"] = table["reason"].where(~is_read.to_numpy(), table.pop("what_is_cut"))
        is_damaged = is_read.to_numpy() & ~np.isfinite(table[remembered.NUMBERS]).all(axis=1)
        table.loc[is_damaged, remembered.NUMBERS] = np.nan
        reason = "the score is not a finite number: the small model may be damaged"
        table.loc[is_damaged, ["status", "reason"]] = "error", reason
        return table

    def _with_judge_scores(self, table):
        """Add the judge's numbers, and what became of its replies."""
        assert self.judge and self.prompt and self.prompt.scale, "this method needs a judge"
        if judges.is_recording(self.judge.spec) and table["id"].duplicated().any():
            raise DreError(
                f"{self.judge.spec} knows a pair by its id: make ids unique, also between systems"
            )
        # No judge is paid for a pair that the small model cannot read, since no score would follow.
        is_read = table["status"] == "ok"
        readable = table[is_read]
        if not len(readable):
            return table.assign(score_llm=np.nan)
        replies = self.judge.score(self._for_prompt(readable), self.prompt)
        replies = replies.set_index(readable.index)
        if self.judge.last.stopped == "budget":
            raise TryLater(f"{self.judge.last.why}; what was answered is stored")
        scores = pd.Series(replies["score_llm"]).where(replies["status"] == "ok")
        replies["score_llm"] = fusion.to_llm_scale(scores, *self.prompt.scale)
        if replies["s_inf"].isna().to_numpy().all():
            replies = replies.drop(columns="s_inf")
        has_reason = replies["reason"].fillna("") != ""
        replies["reason"] = replies["reason"].where(has_reason, readable["reason"])
        for column in ("score_llm", "s_inf", "status", "reason"):
            if column in replies:
                own = table.get(column, np.nan)
                table[column] = replies[column].reindex(table.index).where(is_read, own)
        return table

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

    @property
    def scale(self) -> str:
        """Which numbers the scores are, in words."""
        return f"{METHODS[self.method].scale}, higher is better"

    def signature(self) -> Signature:
        """Return what decides a score, to be quoted beside it."""
        fields: dict = {"method": self.method}
        if self.slm:
            provenance = self.slm.provenance
            fields["slm"] = provenance.get("name")
            fields["model"] = provenance.get("fingerprint", "unknown")
            fields["recipe"] = self.slm.recipe.name
            fields["seed"] = provenance.get("seed")
            fields["encoder"] = Path(str(provenance.get("encoder"))).name
        if self.judge and self.prompt:
            fields["judge"] = self.judge.signature
            fields["prompt"] = self.prompt.reading()
        fields["accuracies"] = list(self.accuracies) if self.accuracies else None
        fields["version"] = VERSION
        if self.slm:
            for package in ("torch", "sentence-transformers", "transformers"):
                fields[package] = version(package)
        return Signature.of(**fields)


def check_options(
    method: str | None = None,
    judge: object = None,
    prompt: object = None,
    accuracies: Sequence[float] | None = None,
    slm: str | Path | None = None,
) -> str:
    """Return the method that is meant; the parameters are those of `DRE.load`.

    Nothing is loaded. Raises DreError for options that do not fit together.
    """
    method = ALIASES.get(method or "", method) or ("judge" if judge else "small")
    if method not in METHODS:
        raise DreError(f"method is {method!r}: expected one of {', '.join(METHODS)}")
    needs = METHODS[method].needs
    # What the method needs is given; a prompt of one's own may do without the accuracies.
    has = {"slm": True, "judge": judge, "accuracies": accuracies or prompt}
    for name in needs:
        if not has[name]:
            raise DreError(f"method {method} needs {' and '.join(needs)}: give {name}")
    # What is given is of use.
    given = {"judge": judge, "prompt": prompt, "slm": slm, "accuracies": accuracies}
    for name, value in given.items():
        if value and (name if name != "prompt" else "judge") not in needs:
            raise DreError(f"method {method} has no use for {name}: leave it out")
    if accuracies and not (len(accuracies) == 2 and all(0 <= share <= 1 for share in accuracies)):
        raise DreError(
            f"accuracies are {accuracies}: expected those of SLM and LLM in [0, 1], such as "
            "0.88,0.98"
        )
    return method


def _pairs(contexts, responses, references=None, ids=None, systems=None):
    """Return the pairs of sequences as `dre.datasets.readers.read` makes them of a file."""
    sequences = {
        "context": contexts,
        "response": responses,
        "reference": references,
        "id": ids,
        "system": systems,
    }
    columns = {name: list(values) for name, values in sequences.items() if values is not None}
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1 or not columns["response"]:
        raise DreError(
            f"sequences of lengths {sorted(lengths)}: expected one of each per pair, and one pair "
            "at least"
        )
    for number, context in enumerate(columns["context"], 1):
        if isinstance(context, str):
            raise DreError(f"context {number} is one text, {context!r:.60}: expected its turns")
    columns["context"] = [list(turns) for turns in columns["context"]]
    records = [dict(zip(columns, values)) for values in zip(*columns.values())]
    pairs, bad_records = readers.pairs(enumerate(records, 1), Form(as_it_is=True))
    if bad_records:
        raise DreError(f"pair {bad_records[0]['line']}: {bad_records[0]['reason']}")
    return pairs
