"""What our recipes learn: matrices that adapt the encoder, and a head with three answers.

The answers are likeness, fit and quality.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dre.slm.losses import in_batch

#: Two replies to one context are ordered if their grades differ by at least so much.
GAP = 0.5
#: What a pair of a batch has: a right response, or an adversarial one.
FITS, FOOLS = 0, 1


class LowRank(nn.Module):
    """A linear layer that stays as it is, plus the product of two thin matrices, which learn."""

    #: The sum of both, once the thin matrices have learned.
    merged: Tensor | None

    def __init__(self, layer: nn.Linear, rank: int):
        super().__init__()
        self.layer = layer
        self.register_buffer("merged", None, persistent=False)
        self.down = nn.Parameter(torch.randn(rank, layer.in_features) / layer.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        """Return what the adapted layer makes of x: (..., inputs) -> (..., outputs)."""
        if self.merged is not None:
            return F.linear(x, self.merged, self.layer.bias)
        return self.layer(x) + F.linear(F.linear(x, self.down), self.up)

    def merge(self) -> None:
        """Compute with the sum of both matrices from now on, which is faster."""
        self.merged = (self.layer.weight + self.up @ self.down).detach()


def adapt(model: nn.Module, rank: int) -> None:
    """Replace every linear layer of a transformer by a `LowRank`, which changes nothing yet."""
    transformer = getattr(model, "encoder", model)
    for name, layer in list(transformer.named_modules()):
        if isinstance(layer, nn.Linear):
            parent_name, _, attribute = name.rpartition(".")
            parent = transformer.get_submodule(parent_name)
            setattr(parent, attribute, LowRank(layer, rank).to(layer.weight.device))


def _scorer(dimension, hidden):
    """Return two layers that make one number of what `_features` returns."""
    return nn.Sequential(
        nn.Linear(7 * dimension, hidden), nn.GELU(), nn.Dropout(0.2), nn.Linear(hidden, 1)
    )


def _features(h):
    """Return views, products and differences: (3, n, d) -> (n, 7 d)."""
    # Four times a unit vector has entries of a size that suits a linear layer.
    context, last_turn, response = 4 * F.normalize(h, dim=-1)
    features = [context, last_turn, response, context * response, last_turn * response]
    features += [(context - response).abs(), (last_turn - response).abs()]
    return torch.cat(features, dim=-1)


class GradedHead(nn.Module):
    """Weights of the two likenesses, and two scorers: ``layers`` for quality, ``fits`` for fit."""

    def __init__(self, dimension: int, hidden: int = 256):
        super().__init__()
        self.views = nn.Parameter(torch.zeros(2))
        self.layers = _scorer(dimension, hidden)
        self.fits = _scorer(dimension, hidden // 4)

    def forward(self, h: Tensor) -> dict[str, Tensor | None]:
        """Return h (n, d) by the names that `dre.slm.model.Head` gives its parts."""
        return {"sentence_embedding": h, "anchor": h, "robust": h, "non_robust": None}

    def likeness(self, h: Tensor) -> Tensor:
        """Return weighted cosines of context and last turn with the response: (3, n, d) -> (n,)."""
        return torch.softmax(self.views, 0) @ cosines(h)

    def quality(self, h: Tensor) -> Tensor:
        """Return an unbounded score, a sigmoid of which is the grade over 5: (3, n, d) -> (n,)."""
        return self.layers(_features(h)).squeeze(-1)

    def fit(self, h: Tensor) -> Tensor:
        """Return the logit of the probability that a response fits: (3, n, d) -> (n,)."""
        return self.fits(_features(h)).squeeze(-1)

    def contrast(self, h: Tensor, pairs: Tensor) -> Tensor:
        """Return the contrastive loss (InfoNCE) over the likeness, in both directions.

        Each context has to be nearer to its right responses than to all other responses of the
        batch, and each right response nearer to its context than to all other contexts. A response
        that is right for a context is never a negative of it. Every context counts alike, however
        many right responses it has.

        Parameters
        ----------
        h
            Embeddings of the distinct texts of a batch, (k, d).
        pairs
            One row a pair, (m, 4): `FITS` or `FOOLS`, and the places of whole context, last turn
            and response among the texts.

        Returns
        -------
        A scalar.
        """
        is_right = pairs[:, 0] == FITS
        right_pairs = torch.unique(pairs[is_right, 1:], dim=0)
        contexts, owner, responses_of_owner = right_pairs[:, :2].unique(
            dim=0, return_inverse=True, return_counts=True
        )
        candidates = torch.unique(pairs[:, 3])
        n_contexts = len(contexts)

        # The weighted mean of two cosines is the product of two concatenated vectors.
        unit = F.normalize(h.float(), dim=-1)
        root_weights = torch.softmax(self.views, 0).sqrt()[:, None]
        context_vectors = (unit[contexts] * root_weights).flatten(1)
        response_vectors = (unit[candidates][:, None] * root_weights).flatten(1)

        # Which candidate is the right response of a pair, and which candidates fit which context.
        is_own_response = right_pairs[:, 2:] == candidates
        own_response = is_own_response.int().argmax(dim=1)
        fits = torch.zeros(n_contexts, len(candidates), dtype=torch.bool, device=h.device)
        fits[owner, own_response] = True

        other_right_responses = fits[owner] & ~is_own_response
        to_response = in_batch(
            context_vectors[owner], response_vectors, own_response, other_right_responses
        )
        is_own_context = owner[:, None] == torch.arange(n_contexts, device=h.device)
        other_right_contexts = fits.T[own_response] & ~is_own_context
        to_context = in_batch(
            response_vectors[own_response], context_vectors, owner, other_right_contexts
        )
        share = 1 / (responses_of_owner[owner] * n_contexts)
        return ((to_response + to_context) / 2 * share).sum()


def cosines(h: Tensor) -> Tensor:
    """Return the cosines of contexts and of last turns with responses: (3, n, d) -> (2, n)."""
    return F.cosine_similarity(h[:2], h[2:], dim=-1)


def grade_loss(scores: Tensor, grades: Tensor, contexts: Tensor) -> Tensor:
    """Return how far scores are from grades, a scalar.

    It is the squared error of the sigmoid of a score against the grade over 5, and, for two replies
    to one context whose grades are at least `GAP` apart, how far they are from being in order.

    Parameters
    ----------
    scores, grades, contexts
        Unbounded scores, grades from 0 to 5, and the numbers of the contexts, (n,) each.
    """
    error = F.mse_loss(torch.sigmoid(scores), grades / 5)
    same_context = contexts[:, None] == contexts
    is_ordered = same_context & (grades[:, None] - grades >= GAP)
    if not is_ordered.any():
        return error
    worse_minus_better = (scores - scores[:, None])[is_ordered]
    return error + F.softplus(worse_minus_better).mean()
