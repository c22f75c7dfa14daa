"""The head on the encoder: sep() of Eq. 17 and the linear classifier of Eq. 15."""

import torch
import torch.nn.functional as F
from sentence_transformers.base.modules import Module
from torch import nn

#: of embeddings before they are multiplied: about what brings their entries near those a linear layer is made for
LENGTH = 4.0
DROPOUT = 0.1


class Head(Module):
    """Separate embeddings into robust and non-robust parts and classify (context, response) pairs.

    A Sentence-Transformers module that stands after pooling, so that the trainer optimises, wraps and checkpoints
    it together with the encoder. Embeddings are h of shape (n, d).

    Parameters
    ----------
    dimension : int
        d, the encoder's width.
    sep : {"maps", "halves", "none"}
    kind : {"linear", "interaction"}
        See :class:`dre.slm.recipes.Recipe`, ``sep`` and ``head``.
    """

    config_keys = ["dimension", "sep", "kind"]

    def __init__(self, dimension, sep="maps", kind="linear"):
        super().__init__()
        self.dimension, self.sep, self.kind = dimension, sep, kind
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
            layers = (nn.Linear(4 * dimension, dimension), nn.GELU(), nn.Dropout(DROPOUT), nn.Linear(dimension, 3))
            self.classifier = nn.Sequential(*layers)

    def forward(self, features):
        """Add ``anchor`` (h_c), ``robust`` and ``non_robust`` to the features; h itself is left as it is."""
        h = features["sentence_embedding"]
        features["anchor"], features["robust"], features["non_robust"] = self.separate(h)
        return features

    def separate(self, h):
        """Return (h as a context, robust part, non-robust part or None), each (n, d); sep() of Eq. 17."""
        if self.sep == "maps":
            return h, self.robust(h), self.non_robust(h)
        if self.sep == "halves":
            projected = self.project(h)
            half = self.dimension // 2
            non_robust, robust = projected[:, :half], projected[:, half:]
            return projected, _pad(robust, self.dimension), _pad(non_robust, self.dimension)
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
        h_c, h_res = (LENGTH * F.normalize(h, dim=-1) for h in (h_c, h_res))
        return self.classifier(torch.cat([h_c, h_res, (h_c - h_res).abs(), h_c * h_res], dim=-1))

    def get_embedding_dimension(self):
        """Return d; the embedding passes through unchanged."""
        return self.dimension

    def save(self, output_path, *args, safe_serialization=True, **kwargs):
        """Write config.json and model.safetensors to a folder."""
        self.save_config(output_path)
        self.save_torch_weights(output_path, safe_serialization=safe_serialization)

    @classmethod
    def load(cls, model_name_or_path, **kwargs):
        """Read what :meth:`save` wrote."""
        keys = ("subfolder", "token", "cache_folder", "revision", "local_files_only")
        hub = {key: kwargs[key] for key in keys if key in kwargs}
        head = cls(**cls.load_config(model_name_or_path, **hub))
        return cls.load_torch_weights(model_name_or_path, model=head, **hub)


def _pad(x, dimension):
    return F.pad(x, (0, dimension - x.shape[-1]))
