"""Recipe ``both``: is a response like its dialogue, does it fit there, is it good, by recipes `graded` and `cross`.

The one reads context and response alone, the other reads them together, and they make different mistakes. Five answers
count alike, each in standard deviations over the graded training pairs: the likeness of the first, fit and quality of
both. The first learns from copies of the context, too, as adversarial responses (`dre.slm.graded.with_copies`).
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from torch import nn

from dre.datasets.dialogues import Context
from dre.slm import recipes
from dre.slm.cross import BLOCK
from dre.slm.graded import graded_table, with_copies
from dre.slm.model import SLM, sets_of

UNIT = 1 / 12  # of a score, in a standard deviation of an answer: nearly all scores lie in [0, 2]
MEMBERS = {"graded": recipes.get("graded", epochs=1), "cross": recipes.CROSS}


class Both(SLM):
    """An SLM of two: its distance is 1 less the likeness, its ``s_p`` says whether a response fits and is good."""

    def __init__(self, members, recipe, provenance=None):
        first = members["graded"]
        super().__init__(first.base.encoder, nn.Module(), recipe, provenance)
        self.members = members
        first.base = self.reader = Alone(members["cross"])

    @classmethod
    def train(
        cls, fit, contexts: Sequence[Context], folder: Path, recipe, provenance, extra
    ) -> "Both":
        """Return a model whose members are trained into a folder by ``fit(contexts, folder, recipe)``."""
        own = {"graded": with_copies(contexts), "cross": contexts}
        slm = cls(
            {name: fit(own[name], folder / name, one) for name, one in MEMBERS.items()},
            recipe,
            provenance,
        )
        parts = slm.parts(graded_table(extra.graded))
        scales = {name: [float(of.mean()), float(of.std())] for name, of in parts.items()}
        mean, sd = scales.pop(
            "likeness"
        )  # the distance of an ordinary pair is in the middle of its range
        near = {"d_min": 1 - mean - sd / UNIT / 2, "d_max": 1 - mean + sd / UNIT / 2}
        slm.provenance |= near | {"scales": scales, "sets": sets_of(contexts)}
        slm.provenance["curves"] = [
            row for one in slm.members.values() for row in one.provenance["curves"]
        ]
        return slm

    def bfloat16(self):
        """Let both embed in bfloat16."""
        for member in self.members.values():
            member.bfloat16()

    def forget(self):
        """Forget what was read."""
        for member in self.members.values():
            member.forget()

    def parts(self, pairs, progress=False):
        """Return ``likeness`` of each pair, and fit and quality by each member, as ``graded fit`` and so on."""
        blocks = [
            pairs.iloc[start : start + BLOCK] for start in range(0, max(len(pairs), 1), BLOCK)
        ]
        return pd.concat([self._block(block, progress) for block in blocks], ignore_index=True)

    def _block(self, pairs, progress):
        """The parts of pairs whose texts are held at once."""
        found = {name: member.parts(pairs, progress) for name, member in self.members.items()}
        answers = [of[["fit", "quality"]].add_prefix(f"{name} ") for name, of in found.items()]
        return pd.concat([found["graded"][["likeness"]], *answers], axis=1)

    def distances(self, pairs, progress=False):
        """Return ``pair_id, distance, s_p``: 1 - likeness, and the sum of fit and quality, 1/2 for an ordinary pair."""
        parts = self.parts(pairs, progress)
        s_p = 0.5 + UNIT * sum(
            (parts[name] - mean) / sd for name, (mean, sd) in self.provenance["scales"].items()
        )
        return pd.DataFrame(
            {"pair_id": list(pairs["pair_id"]), "distance": 1 - parts["likeness"], "s_p": s_p}
        )

    def write(self, path):
        """Write both members into a folder."""
        for name, member in self.members.items():
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
