"""The metric: a trained SLM, a judge, or both fused, as Table 4 names the methods."""

import hashlib
import json
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd

from dre import __version__, judges
from dre import fusion as fusions
from dre.calibrated import Calibrated
from dre.errors import DreError
from dre.fetch import REPOSITORY
from dre.judges import prompts
from dre.score import io
from dre.slm.model import DEFAULT, SLM, native_bf16

#: method -> what it needs
METHODS = {
    "slm": ("slm",),
    "slide": ("slm", "judge"),
    "ex_dre": ("slm", "judge"),
    "in_dre": ("slm", "judge", "accuracies"),
    "dre": ("slm", "judge", "accuracies"),
    "calibrated": ("slm", "judge", "fusion"),
    "non_dre": ("judge",),
}
COLUMNS = (
    "line id system context_id distance s_d s_p score_slm score_llm s_inf s_c case z_slm z_llm score status reason"
)
DIGITS = 6  # of the SLM's numbers in a prompt, so that the last bits cannot cost a second reply
BLOCK = 16_384  # distinct pairs that the SLM scores at once, which bounds memory


class DRE:
    """A metric for responses in a dialogue: ``DRE.load().score([["Do you like tea?"]], ["With milk."])``."""

    def __init__(self, method, slm=None, judge=None, prompt=None, accuracies=None, fusion=None, bf16=False):
        self.method, self.slm, self.judge, self.prompt = method, slm, judge, prompt
        self.accuracies, self.fusion, self.bf16 = accuracies, fusion, bf16

    @classmethod
    def load(cls, slm=None, judge=None, method="slm", prompt=None, accuracies=None, fusion=None, bf16=False, **options):
        """Load the metric; DreError if something is not given, not there or damaged.

        `METHODS` says what a method needs. ``slm`` is what `find` finds, None the one that comes with the package;
        ``judge`` what `dre.judges.open` takes, with
        ``options``, or returns; ``prompt`` the name or file of another than the method's own; ``accuracies`` are
        those of SLM and LLM in [0, 1]; ``fusion`` is a file that ``dre calibrate`` wrote; with ``bf16`` embeddings are
        made in bfloat16: faster where the hardware multiplies it itself, and less exact.
        """
        check(method, judge, prompt, accuracies, fusion, bf16)
        learned = Calibrated.load(fusion) if fusion else None
        if judge:
            prompt = prompts.load(prompt or ("dre" if "accuracies" in METHODS[method] else "llm_only"))
            if prompt.kind != "score":
                raise DreError(f"prompt {prompt.name!r} asks for a {prompt.kind}: expected one that asks for a score")
            judge = judges.open(judge, **options)
        model = SLM.load(find(slm)) if "slm" in METHODS[method] else None
        if bf16:
            if not native_bf16():
                raise DreError("this machine does not multiply bfloat16 itself, which makes it slower: leave bf16 out")
            model.encoder.bfloat16()  # the head beside it stays exact
        metric = cls(method, model, judge, prompt, accuracies, learned, bf16)
        if learned:
            learned.check(**metric.parts())
        return metric

    def score(self, contexts, responses, references=None, ids=None, systems=None):
        """Score pairs, given as sequences of one length, as `score_pairs` does; a recorded judge needs ``ids``."""
        return self.score_pairs(_pairs(contexts, responses, references, ids, systems)).drop(columns="line")

    def compute(self, predictions, contexts, references=None):
        """Score responses in the manner of Hugging Face's ``evaluate``.

        Returns a dict: ``score``, the mean; ``scores``, one per prediction, None where there is none; ``n_missing``;
        ``signature``.
        """
        pairs = _pairs(contexts, predictions, references)
        found = self.score_pairs(pairs)["score"]
        text = json.dumps([list(pairs[name]) for name in ("context", "response", "reference")], ensure_ascii=False)
        return {
            "score": float(found.mean()) if found.notna().any() else None,
            "scores": found.astype(object).where(found.notna(), None).tolist(),
            "n_missing": int(found.isna().sum()),
            "signature": self.signature(hashlib.sha256(text.encode()).hexdigest()),
        }

    def score_pairs(self, pairs, progress=False):
        """Score a table of pairs that `dre.score.io` made; DreError if the judge stops before the end.

        Returns one row per pair, in their order, with `COLUMNS` and, of a model that stores a threshold, ``accepted``.
        ``status`` is ``ok``, or what became of the judge's reply (``malformed, refused, truncated, empty, error``),
        which leaves ``score`` missing; ``reason`` says why, or that a text was cut.
        """
        table = pairs.assign(status="ok", reason="")
        if self.slm is not None:
            table = self._small(table, progress)
        if self.judge is not None:
            table = self._large(table)
        table = self._fused(table).reindex(columns=COLUMNS.split())
        if self.slm is not None and "threshold" in self.slm.provenance:
            table["accepted"] = table["score_slm"] >= self.slm.provenance["threshold"]
        return table

    def _small(self, table, progress):
        """Add the SLM's numbers: of each distinct pair once, equal contexts together, in blocks."""
        distinct = table.drop_duplicates(["context", "response"]).sort_values("context_id")
        blocks = [distinct.iloc[start : start + BLOCK] for start in range(0, len(distinct), BLOCK)]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r".*response\(s\) have more than")  # the reason says it
            scored = [self.slm.score(block, progress=progress and sys.stderr.isatty()) for block in blocks]
        said = f"the response is cut after {self.slm.encoder.max_seq_length} tokens"
        scored = pd.concat(scored).assign(reason=np.where(self.slm.cut(distinct["response"]), said, ""))
        scored = distinct[["pair_id", "context", "response"]].merge(scored).drop(columns="pair_id")
        return table.drop(columns="reason").merge(scored, on=["context", "response"], how="left")

    def _large(self, table):
        """Add the judge's numbers, and what became of its replies."""
        shown = table
        if self.slm is not None:
            shown = table.assign(s_d=table["s_d"].round(DIGITS), s_p=table["s_p"].round(DIGITS))
            shown["score_slm"] = (1 - shown["s_d"] + shown["s_p"]).round(DIGITS)
        if self.accuracies:
            shown = shown.assign(slm_accuracy=self.accuracies[0], llm_accuracy=self.accuracies[1])
        if self.judge.spec.startswith("recorded:"):
            if shown["id"].duplicated().any():
                raise DreError(f"{self.judge.spec} knows a pair by its id: make ids unique, also between systems")
            shown = shown.assign(pair_id=shown["id"])
        said = self.judge.score(shown, self.prompt).set_index(table.index)
        if self.judge.last.stopped == "budget":
            raise DreError(f"{self.judge.last.why}; what was answered is stored")
        llm = fusions.to_llm_scale(said["score_llm"].where(said["status"] == "ok"), *self.prompt.scale)
        reason = said["reason"].where(said["reason"].fillna("") != "", table["reason"])
        return table.assign(score_llm=llm, s_inf=said["s_inf"], status=said["status"], reason=reason)

    def _fused(self, table):
        """Add ``score``, and what the method shows beside it."""
        if self.method in ("slm", "non_dre", "in_dre"):
            return table.assign(score=table["score_slm" if self.method == "slm" else "score_llm"])
        slm, llm, s_d, s_p = (table[name] for name in ("score_slm", "score_llm", "s_d", "s_p"))
        if self.method == "slide":
            return table.assign(score=fusions.slide(slm, llm), case=fusions.slide_case(slm, llm))
        if self.method == "calibrated":
            z_slm, z_llm = self.fusion.slm(slm), self.fusion.llm(llm)
            return table.assign(z_slm=z_slm, z_llm=z_llm, score=self.fusion.fuse(slm, llm))
        fuse = fusions.ex_dre if self.method == "ex_dre" else fusions.dre
        return table.assign(s_c=fusions.s_c(s_d, s_p), score=fuse(s_d, s_p, llm))

    def parts(self, data=None):
        """Return what decides a score, name -> text in the order of the signature; ``data`` is a sha256."""
        found = {"dre": self.method}
        if self.slm is not None:
            about = self.slm.provenance
            found |= {"slm": about["name"]} if "name" in about else {}
            found |= {"model": about.get("fingerprint", "unknown")[:12], "recipe": self.slm.recipe.name}
            found |= {"seed": about.get("seed"), "encoder": Path(str(about.get("encoder"))).name}
            found |= {"precision": "bf16"} if self.bf16 else {}
        if self.judge is not None:
            found |= {"judge": self.judge.signature, "prompt": self.prompt.sha256[:12]}
        found |= {"accuracies": ",".join(f"{value:g}" for value in self.accuracies)} if self.accuracies else {}
        found |= {"fusion": self.fusion.sha256[:12]} if self.fusion else {}
        found |= {"data": data[:12]} if data else {}
        found |= {"version": __version__}
        found |= {name: version(name) for name in ("torch", "sentence-transformers", "transformers")}
        return {name: " ".join(str(text).replace("|", "/").split()) for name, text in found.items()}

    def signature(self, data=None):
        """Return the line to print beside a score."""
        return "|".join(f"{name}:{text}" for name, text in self.parts(data).items())


def check(method, judge=None, prompt=None, accuracies=None, fusion=None, bf16=False):
    """Refuse settings that do not fit together, before anything is loaded."""
    if method not in METHODS:
        raise DreError(f"method is {method!r}: expected one of {', '.join(METHODS)}")
    needs, given = METHODS[method], {"judge": judge, "accuracies": accuracies or prompt, "fusion": fusion}
    lacking = [name for name in needs if name in given and not given[name]]
    idle = [name for name in ("judge", "fusion") if given[name] and name not in needs]
    idle += ["bf16"] if bf16 and ("slm" not in needs or "accuracies" in needs) else []  # no SLM, or shown its numbers
    if lacking or idle:
        what = f"give --{lacking[0]}" if lacking else f"leave --{idle[0]} out"
        wants = ", ".join(f"--{name}" for name in needs if name in given) or "nothing else"
        raise DreError(f"method {method} needs {wants}: {what}")
    if accuracies and not (len(accuracies) == 2 and all(0 <= one <= 1 for one in accuracies)):
        raise DreError(f"accuracies are {accuracies}: expected those of SLM and LLM in [0, 1], such as 0.88,0.98")


def find(name):
    """Return the folder that a folder's name, or the beginning of a model's in ``build``, names; else a Hub id.

    Without a name it is the SLM that comes with the package.
    """
    name = str(name or DEFAULT)
    if Path(name).is_dir():
        return Path(name).resolve()
    roots = {Path.cwd().resolve(), REPOSITORY}
    trained = [path.parent for root in roots for path in root.glob("build/*/models/*/slm.json")]
    found = sorted(path for path in trained if path.name.startswith(name))
    if len(found) == 1:
        return found[0]
    if not found and name.count("/") == 1 and not name.startswith((".", "/", "~")):
        return name
    there = ", ".join(f"{path.name} ({path.parent.parent.name})" for path in found or sorted(trained))
    what = "a folder, owner/name on the Hub, or the beginning of one of"
    raise DreError(f"{len(found)} SLMs are named {name!r}: expected {what}: {there or 'none is trained'}")


def _pairs(contexts, responses, references=None, ids=None, systems=None):
    """Checked pairs of sequences from Python, as `dre.score.io.pairs` makes them of a file."""
    given = {"context": contexts, "response": responses, "reference": references, "id": ids, "system": systems}
    given = {name: list(values) for name, values in given.items() if values is not None}
    if len(lengths := {len(values) for values in given.values()}) > 1 or not given["response"]:
        raise DreError(f"sequences of lengths {sorted(lengths)}: expected one of each per pair, and one pair at least")
    pairs, bad = io.pairs(enumerate(dict(zip(given, values)) for values in zip(*given.values())))
    if bad:
        raise DreError(f"pair {bad[0]['line']}: {bad[0]['reason']}")
    return pairs
