"""Recipe ``both``: the mean of an SLM of recipe `graded` and one of `cross`, which make different mistakes.

Each counts in standard deviations of its score over the graded training pairs. The first learns from copies of the
context, too, as adversarial responses (`dre.slm.graded.with_copies`).
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from torch import nn

from dre.dialogues import Context
from dre.slm import recipes
from dre.slm.graded import graded_table, with_copies
from dre.slm.model import SLM, sets_of

UNIT = 1 / 6  # of s_d and of s_p, in a standard deviation: nearly all of a score lies in [0, 1]
MEMBERS = {"graded": recipes.get("graded", epochs=1), "cross": recipes.CROSS}


class Both(SLM):
    """An SLM of two: its ``s_p`` is the score of `cross`, its ``s_d`` that of `graded`, turned round."""

    def __init__(self, members, recipe, provenance=None):
        first = members["graded"]
        super().__init__(first.base.encoder, nn.Module(), recipe, provenance)
        self.members = members
        first.base = self.reader = Alone(members["cross"])

    @classmethod
    def train(cls, fit, contexts: Sequence[Context], folder: Path, recipe, provenance, extra) -> "Both":
        """Return a model whose members are trained into a folder by ``fit(contexts, folder, recipe)``."""
        own = {"graded": with_copies(contexts), "cross": contexts}
        slm = cls({name: fit(own[name], folder / name, one) for name, one in MEMBERS.items()}, recipe, provenance)
        table = graded_table(extra.graded)
        scores = {name: member.score(table)["score_slm"] for name, member in slm.members.items()}
        scales = {name: [float(of.mean()), float(of.std())] for name, of in scores.items()}
        slm.provenance |= {"scales": scales, "d_min": 0.0, "d_max": 1.0, "sets": sets_of(contexts)}
        slm.provenance["curves"] = [row for one in slm.members.values() for row in one.provenance["curves"]]
        return slm

    def bfloat16(self):
        """Let both embed in bfloat16."""
        for member in self.members.values():
            member.bfloat16()

    def forget(self):
        """Forget what was read."""
        for member in self.members.values():
            member.forget()

    def distances(self, pairs, progress=False):
        """Return ``pair_id, distance, s_p``, each 1/2 for an ordinary pair, farther by `UNIT` a standard deviation."""
        z = {}
        for name, (mean, sd) in self.provenance["scales"].items():
            z[name] = UNIT * (self.members[name].score(pairs, progress)["score_slm"] - mean) / sd
        found = {"pair_id": list(pairs["pair_id"]), "distance": 0.5 - z["graded"], "s_p": 0.5 + z["cross"]}
        return pd.DataFrame(found)

    def write(self, path):
        """Write both members into a folder."""
        for name, member in self.members.items():
            shutil.rmtree(path / name, ignore_errors=True)
            member.save(path / name)

    @classmethod
    def read(cls, path, recipe, provenance):
        """Read what `write` wrote."""
        return cls({name: SLM.load(path / name) for name in MEMBERS}, recipe, provenance)


class Alone:
    """The embeddings that a model of recipe `cross` has of texts read alone: no text is read twice by one encoder."""

    def __init__(self, cross):
        self.cross, self.encoder = cross, cross.tokens.encoder

    known = property(lambda self: self.cross.tokens.known)

    def __call__(self, texts, progress=False):
        """Return (n, d) float32 embeddings."""
        return self.cross.tokens(texts, progress)[1]
