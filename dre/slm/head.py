"""The head on the encoder: sep() of Eq. 17 and the classifier of Eq. 15."""

import torch
import torch.nn.functional as F
from torch import nn


class Head(nn.Module):
    """Separates embeddings and classifies pairs; ``sep`` and ``kind`` are a recipe's ``sep`` and ``head``."""

    def __init__(self, dimension, sep="maps", kind="linear"):
        super().__init__()
        self.sep, self.kind = sep, kind
        if sep == "maps":
            self.robust, self.non_robust = nn.Linear(dimension, dimension), nn.Linear(dimension, dimension)
            # Starting from the identity keeps delta(h_c, h_robust) the encoder's own distance at step 0.
            nn.init.eye_(self.robust.weight)
            nn.init.zeros_(self.robust.bias)
        elif sep == "halves":
            self.project = nn.Linear(dimension, dimension)
        if kind == "linear":
            self.classifier = nn.Linear(2 * dimension, 2 if sep == "none" else 3)
        else:  # adversarial, positive, grade
            layers = (nn.Linear(4 * dimension, dimension), nn.GELU(), nn.Dropout(0.1), nn.Linear(dimension, 3))
            self.classifier = nn.Sequential(*layers)

    def forward(self, h):
        """Return h (n, d) and its parts by name: those of `separate` are ``anchor``, ``robust``, ``non_robust``."""
        return dict(zip(("sentence_embedding", "anchor", "robust", "non_robust"), (h, *self.separate(h))))

    def separate(self, h):
        """Return (h as a context, robust part, non-robust part or None), each (n, d); sep() of Eq. 17."""
        if self.sep == "maps":
            return h, self.robust(h), self.non_robust(h)
        if self.sep == "halves":
            projected, half = self.project(h), h.shape[-1] // 2
            non_robust, robust = projected[:, :half], projected[:, half:]
            return projected, F.pad(robust, (0, half)), F.pad(non_robust, (0, h.shape[-1] - half))
        return h, h, None

    def logits(self, h_c, h_res):
        """Linear(concat(h_c, h_res)) of Eq. 15, or what stands for it: (n, d), (n, d) -> (n, classes)."""
        if self.kind == "linear":
            return self.classifier(torch.cat([h_c, h_res], dim=-1))
        return self._interaction(h_c, h_res)[:, :2]

    def grades(self, h_c, h_res):
        """Return what a judge would give, 0 to 2 as Eq. 19 has it: (n, d), (n, d) -> (n,); only with interaction."""
        return 2 * torch.sigmoid(self._interaction(h_c, h_res)[:, 2])

    def _interaction(self, h_c, h_res):
        """Unlike a linear function of the two, products and differences can say that they belong together."""
        h_c, h_res = (4 * F.normalize(h, dim=-1) for h in (h_c, h_res))  # entries of a size that suits a linear layer
        return self.classifier(torch.cat([h_c, h_res, (h_c - h_res).abs(), h_c * h_res], dim=-1))
