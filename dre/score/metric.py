"""The metric: a trained SLM, a judge, or both fused, as Table 4 names the methods."""

import difflib
import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from dre import __version__, judges
from dre import fusion as fusions
from dre.calibrated import Calibrated
from dre.datasets import readers
from dre.errors import DreError
from dre.judges import prompts
from dre.signature import Signature
from dre.slm.provenance import DEFAULT

#: method -> what it needs, and what its scores are; as the papers call them, but for the judge alone (their Non-DRE)
METHODS = {
    "slm": (("slm",), "about 0 to 2"),
    "judge": (("judge",), "0 to 5"),
    "slide": (("slm", "judge"), "0 to 2"),
    "ex_dre": (("slm", "judge"), "about 0 to 10"),
    "in_dre": (("slm", "judge", "accuracies"), "0 to 5"),
    "dre": (("slm", "judge", "accuracies"), "about 0 to 10"),
    "calibrated": (("slm", "judge", "fusion"), "in standard deviations, 0 is an ordinary pair"),
}
ALIASES = {"non_dre": "judge"}
WORDS = {
    "judge": "a judge",
    "accuracies": "the accuracies of SLM and LLM",
    "fusion": "a fusion that was learned",
}
COLUMNS = "line id system context_id distance s_d s_p score_slm score_llm s_inf s_c case z_slm z_llm score status reason"
DIGITS = 6  # of the SLM's numbers in a prompt, so that the last bits cannot cost a second reply
BLOCK = 16_384  # distinct pairs that the SLM scores at once, which bounds memory


class DRE:
    """A metric for responses in a dialogue: ``DRE.load().score([["Do you like tea?"]], ["With milk."])``."""

    def __init__(
        self, method, slm=None, judge=None, prompt=None, accuracies=None, fusion=None, bf16=False
    ):
        self.method, self.slm, self.judge, self.prompt = method, slm, judge, prompt
        self.accuracies, self.fusion, self.bf16 = accuracies, fusion, bf16

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
        """Load the metric; DreError if something is not given, not there or damaged.

        `METHODS` says what a method needs; without one it is the judge alone if there is a judge, else the SLM.
        ``slm`` is what `find` finds, None the one that comes with the package; ``judge`` what `dre.judges.open` takes
        (a name with ``options``, or a function); ``prompt`` the name or file of another than the method's own;
        ``accuracies`` are those of SLM and LLM in [0, 1]; ``fusion`` is a file that ``dre calibrate`` wrote; with
        ``bf16`` embeddings are made in bfloat16: faster where the hardware multiplies it itself, and less exact.
        """
        for name in options:
            near = difflib.get_close_matches(
                name, (*WORDS, "slm", "method", "prompt", "bf16"), 1, 0.75
            )
            if near or not isinstance(judge, str):
                what = (
                    f"did you mean {near[0]}?"
                    if near
                    else "only a judge that is named takes other options"
                )
                raise DreError(f"there is no option {name!r}: {what}")
        method = check(method, judge, prompt, accuracies, fusion, bf16)
        learned = Calibrated.load(fusion) if fusion else None
        if judge:
            prompt = prompts.load(
                prompt or ("dre" if "accuracies" in METHODS[method][0] else "llm_only")
            )
            if prompt.kind != "score":
                raise DreError(
                    f"prompt {prompt.name!r} asks for a {prompt.kind}: expected one that asks for a score"
                )
            judge = judges.open(judge, **options)
        model = None
        if "slm" in METHODS[method][0]:
            from dre.slm.encoder import native_bf16  # torch, which a judge alone does not need
            from dre.slm.model import SLM

            model = SLM.load(find(slm))
        if bf16:
            if not native_bf16():
                raise DreError(
                    "this machine does not multiply bfloat16 itself, which makes it slower: leave bf16 out"
                )
            model.bfloat16()
        metric = cls(method, model, judge, prompt, accuracies, learned, bf16)
        if learned:
            learned.check(metric.signature())
        return metric

    def score(
        self,
        contexts: Iterable[str | Sequence],
        responses: Iterable[str],
        references: Iterable[str | None] | None = None,
        ids: Iterable | None = None,
        systems: Iterable[str] | None = None,
    ) -> pd.DataFrame:
        """Score pairs, given as sequences of one length, as `score_pairs` does; a recorded judge needs ``ids``."""
        return self.score_pairs(_pairs(contexts, responses, references, ids, systems)).drop(
            columns="line"
        )

    def compute(
        self,
        predictions: Iterable[str],
        contexts: Iterable[str | Sequence],
        references: Iterable[str | None] | None = None,
    ) -> dict:
        """Score responses in the manner of Hugging Face's ``evaluate``.

        Returns ``score``, the mean; ``scores``, one per prediction, None where there is none;
        ``n_missing``; ``signature``.
        """
        pairs = _pairs(contexts, predictions, references)
        found = self.score_pairs(pairs)["score"]
        text = json.dumps(
            [list(pairs[name]) for name in ("context", "response", "reference")], ensure_ascii=False
        )
        return {
            "score": float(found.mean()) if found.notna().any() else None,
            "scores": found.astype(object).where(found.notna(), None).tolist(),
            "n_missing": int(found.isna().sum()),
            "signature": str(self.signature(hashlib.sha256(text.encode()).hexdigest())),
        }

    def score_pairs(self, pairs: pd.DataFrame, progress: bool = False) -> pd.DataFrame:
        """Score a table of pairs that `dre.datasets.readers` made; DreError if the judge stops before the end.

        Returns one row per pair, in their order, with `COLUMNS` and, of a model that stores a threshold, ``accepted``.
        ``status`` is ``ok``, or what became of the judge's reply (``malformed, refused, truncated, empty, error``),
        which leaves ``score`` missing; ``reason`` says why, or that texts were cut.
        """
        table = pairs.assign(status="ok", reason="")
        if self.slm is not None:
            table = self._small(table, progress)
        if self.judge is not None:
            table = self._large(table)
        table = self._fused(table).reindex(columns=COLUMNS.split())
        if self.slm is not None and "threshold" in self.slm.provenance:
            accepted = table["score_slm"] >= self.slm.provenance["threshold"]
            table["accepted"] = accepted.astype("bool[pyarrow]")  # whose values are Python's
        return table

    def _small(self, table, progress):
        """Add the SLM's numbers: of each distinct pair once, equal contexts together, in blocks."""
        distinct = table.drop_duplicates(["context", "response"]).sort_values("context_id")
        blocks = [distinct.iloc[start : start + BLOCK] for start in range(0, len(distinct), BLOCK)]
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", message=r".*response\(s\) have more than"
            )  # the reason says it
            scored = [
                self.slm.score(block, progress=progress and sys.stderr.isatty()) for block in blocks
            ]
        scored = pd.concat(scored).assign(reason=self._cut(distinct))
        scored = distinct[["pair_id", "context", "response"]].merge(scored).drop(columns="pair_id")
        return table.drop(columns="reason").merge(scored, on=["context", "response"], how="left")

    def _cut(self, pairs):
        """What the SLM does not read of each pair, in words."""
        from dre.slm.encoder import context_text

        tokenizer, limit = self.slm.encoder.tokenizer, self.slm.encoder.max_seq_length
        separator = getattr(tokenizer, "sep_token", None) or "\n"
        distinct = pairs["context"].unique()
        cut = {
            turns: self.slm.context(turns) != context_text(turns, separator, sys.maxsize)
            for turns in distinct
        }
        of_context = np.where(
            pairs["context"].map(cut), f"the context is cut: only its last {limit} tokens count", ""
        )
        of_response = np.where(
            self.slm.cut(pairs["response"]), f"the response is cut after {limit} tokens", ""
        )
        return ["; ".join(filter(None, parts)) for parts in zip(of_response, of_context)]

    def _large(self, table):
        """Add the judge's numbers, and what became of its replies."""
        shown = table
        if self.slm is not None:  # a distance and a probability for the prompt, whatever the recipe
            s_d, s_p = (table[name].clip(0, 1).round(DIGITS) for name in ("s_d", "s_p"))
            shown = table.assign(s_d=s_d, s_p=s_p, score_slm=(1 - s_d + s_p).round(DIGITS))
        if self.accuracies:
            shown = shown.assign(slm_accuracy=self.accuracies[0], llm_accuracy=self.accuracies[1])
        if self.judge.spec.startswith("recorded:") and shown["id"].duplicated().any():
            raise DreError(
                f"{self.judge.spec} knows a pair by its id: make ids unique, also between systems"
            )
        said = self.judge.score(shown, self.prompt).set_index(table.index)
        if self.judge.last.stopped == "budget":
            raise DreError(f"{self.judge.last.why}; what was answered is stored")
        llm = fusions.to_llm_scale(
            said["score_llm"].where(said["status"] == "ok"), *self.prompt.scale
        )
        reason = said["reason"].where(said["reason"].fillna("") != "", table["reason"])
        return table.assign(
            score_llm=llm, s_inf=said["s_inf"], status=said["status"], reason=reason
        )

    def _fused(self, table):
        """Add ``score``, and what the method shows beside it."""
        if self.method in ("slm", "judge", "in_dre"):
            return table.assign(score=table["score_slm" if self.method == "slm" else "score_llm"])
        slm, llm, s_d, s_p = (table[name] for name in ("score_slm", "score_llm", "s_d", "s_p"))
        if self.method == "slide":
            return table.assign(score=fusions.slide(slm, llm), case=fusions.slide_case(slm, llm))
        if self.method == "calibrated":
            z_slm, z_llm = self.fusion.slm(slm), self.fusion.llm(llm)
            return table.assign(z_slm=z_slm, z_llm=z_llm, score=self.fusion.fuse(slm, llm))
        fuse = fusions.ex_dre if self.method == "ex_dre" else fusions.dre
        return table.assign(s_c=fusions.s_c(s_d, s_p), score=fuse(s_d, s_p, llm))

    def signature(self, data: str | None = None) -> Signature:
        """Return what decides a score, to be quoted beside it; ``data`` is the sha256 of the input."""
        fields = {"method": self.method}
        if self.slm is not None:
            provenance = self.slm.provenance
            fields["slm"] = provenance.get("name")
            fields["model"] = provenance.get("fingerprint", "unknown")
            fields["recipe"] = self.slm.recipe.name
            fields["seed"] = provenance.get("seed")
            fields["encoder"] = Path(str(provenance.get("encoder"))).name
            fields["precision"] = "bf16" if self.bf16 else None
        if self.judge is not None:
            fields["judge"] = self.judge.signature
            fields["prompt"] = self.prompt.reading()
        fields["accuracies"] = list(self.accuracies) if self.accuracies else None
        fields["fusion"] = self.fusion.sha256 if self.fusion else None
        fields["data"] = data
        fields["version"] = __version__
        if self.slm is not None:
            for package in ("torch", "sentence-transformers", "transformers"):
                fields[package] = version(package)
        return Signature.of(**fields)

    @property
    def scale(self) -> str:
        """What the scores are, in words."""
        threshold = self.slm.provenance.get("threshold") if self.slm is not None else None
        said = "" if threshold is None else f"; accepted: score slm from {threshold:.3f} on"
        return f"{METHODS[self.method][1]}, higher is better{said}"


def check(
    method: str | None = None,
    judge: object = None,
    prompt: object = None,
    accuracies: Sequence[float] | None = None,
    fusion: object = None,
    bf16: bool = False,
) -> str:
    """Return the method that is meant; DreError for settings that do not fit together, before anything is loaded."""
    method = ALIASES.get(method, method) or ("judge" if judge else "slm")
    if method not in METHODS:
        raise DreError(f"method is {method!r}: expected one of {', '.join(METHODS)}")
    needs, given = (
        METHODS[method][0],
        {"judge": judge, "accuracies": accuracies or prompt, "fusion": fusion},
    )
    if lacking := [name for name in needs if name in given and not given[name]]:
        wants = " and ".join(WORDS[name] for name in needs if name in given)
        raise DreError(f"method {method} needs {wants}: give {lacking[0]}")
    uses = {name: name in needs for name in ("judge", "fusion")} | {"prompt": "judge" in needs}
    uses["bf16"] = (
        "slm" in needs and "accuracies" not in needs
    )  # else there is no SLM, or its numbers are shown
    for name, value in {"judge": judge, "prompt": prompt, "fusion": fusion, "bf16": bf16}.items():
        if value and not uses[name]:
            raise DreError(
                f"method {method} has no use for {name}: leave it out, or choose of {', '.join(METHODS)}"
            )
    if accuracies and not (len(accuracies) == 2 and all(0 <= one <= 1 for one in accuracies)):
        raise DreError(
            f"accuracies are {accuracies}: expected those of SLM and LLM in [0, 1], such as 0.88,0.98"
        )
    return method


def find(name: str | Path | None) -> str | Path:
    """Return the folder of an SLM, by default that of the one that comes with the package, or its id on the Hub."""
    name = str(name or DEFAULT)
    if Path(name).is_dir():
        return Path(name).resolve()
    if name.count("/") == 1 and not name.startswith((".", "/", "~")):
        return name
    raise DreError(
        f"there is no SLM {name!r}: expected a folder with one, or owner/name on the Hub"
    )


def _pairs(contexts, responses, references=None, ids=None, systems=None):
    """Checked pairs of sequences from Python, as `dre.datasets.readers.pairs` makes them of a file."""
    given = {
        "context": contexts,
        "response": responses,
        "reference": references,
        "id": ids,
        "system": systems,
    }
    for name in ("context", "response", "reference"):
        if isinstance(given[name], str):
            raise DreError(f"{name}s is a text: a list of {name}s is expected, one for each pair")
    given = {name: list(values) for name, values in given.items() if values is not None}
    if len(lengths := {len(values) for values in given.values()}) > 1 or not given["response"]:
        raise DreError(
            f"sequences of lengths {sorted(lengths)}: expected one of each per pair, and one pair at least"
        )
    records = (dict(zip(given, values)) for values in zip(*given.values()))
    pairs, bad = readers.pairs(enumerate(records, 1))
    if bad:
        raise DreError(f"pair {bad[0]['line']}: {bad[0]['reason']}")
    return pairs
