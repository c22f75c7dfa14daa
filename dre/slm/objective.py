"""The training objective: encode a batch once, then apply the terms of Eq. 16 that a stage asks for."""

import torch
from torch import nn

from dre.slm import losses
from dre.slm.mixed_terms import mixture_terms


def triplet_terms(head, h, triplets, names, recipe):
    """Compute loss terms for triplets of embeddings.

    Parameters
    ----------
    head : Head
    h : dict of str to Tensor
        ``sentence_embedding``, ``anchor``, ``robust``, ``non_robust`` (None without sep), each (n, d).
    triplets : (m, 3) int Tensor
        Rows of ``h``: context, positive, adversarial.
    names : sequence of str
        Which of :data:`dre.slm.recipes.TERMS`.

    Returns
    -------
    dict of str to (m,) or (4 m,) Tensor
        Unreduced values, in the order of ``names``.
    """
    c, p, a = triplets.unbind(dim=1)
    h_c, h_pr, h_ar = h["anchor"][c], h["robust"][p], h["robust"][a]
    whole = h["sentence_embedding"]
    compute = {
        "L_out": lambda: losses.contrastive(
            *((whole[c], whole[p], whole[a]) if recipe.contrast == "whole" else (h_c, h_pr, h_ar)),
            recipe.margin,
        ),
        "L_in_batch": lambda: _in_batch(whole, c, p, a),
        "L_ins_same_pos": lambda: losses.separation(losses.distance(h_pr, h["non_robust"][p]), margin=recipe.margin),
        "L_ins_same_neg": lambda: losses.separation(losses.distance(h_ar, h["non_robust"][a]), margin=recipe.margin),
        "L_out_robust": lambda: losses.separation(losses.distance(h_pr, h_ar), margin=recipe.margin),
        "L_cls": lambda: losses.classification(*class_logits(head, h, triplets)),
    }
    return {name: compute[name]() for name in names}


def class_logits(head, h, triplets):
    """Logits and labels of Eq. 15 for triplets: robust positives 1, robust adversarials 0, non-robust parts 2."""
    c, p, a = triplets.unbind(dim=1)
    parts = [(h["robust"][p], losses.POSITIVE), (h["robust"][a], losses.ADVERSARIAL)]
    if h["non_robust"] is not None:
        parts += [(h["non_robust"][p], losses.NON_ROBUST), (h["non_robust"][a], losses.NON_ROBUST)]
    h_c = h["anchor"][c]
    logits = torch.cat([head.logits(h_c, part) for part, _ in parts])
    labels = torch.cat([torch.full((len(c),), label, device=logits.device) for _, label in parts])
    return logits, labels


def _in_batch(whole, c, p, a):
    pairs = torch.unique(torch.stack([c, p], dim=1), dim=0)
    candidates = torch.unique(torch.cat([p, a]))
    target = torch.searchsorted(candidates, pairs[:, 1].contiguous())
    # Another positive of the same context is no negative.
    is_positive = torch.zeros(len(whole), len(whole), dtype=torch.bool, device=whole.device)
    is_positive[pairs[:, 0], pairs[:, 1]] = True
    excluded = is_positive[pairs[:, 0]][:, candidates]
    excluded[torch.arange(len(pairs), device=whole.device), target] = False
    return losses.in_batch(whole[pairs[:, 0]], whole[candidates], target, excluded)


class Objective(nn.Module):
    """Eq. 16, or the terms of recipe ``context``, as a Sentence-Transformers loss.

    It returns a dict of scalars, so the trainer logs every term.

    Parameters
    ----------
    model : SentenceTransformer
        Transformer, pooling and :class:`dre.slm.head.Head`.
    recipe, stage : Recipe, Stage
    """

    def __init__(self, model, recipe, stage):
        super().__init__()
        self.model, self.recipe, self.stage = model, recipe, stage

    def forward(self, features, labels):
        """Features: one dict a chunk of texts; labels: (m, 3) triplets over the concatenated chunks, or, for a mixture,
        the rows of :class:`dre.slm.mixing.Mixed`."""
        frozen = "encoder" not in self.stage.trains
        outputs = [self._encode(chunk, frozen) for chunk in self._with_word_vectors(features)]
        h = {
            key: _cat([out[key] for out in outputs]) for key in ("sentence_embedding", "anchor", "robust", "non_robust")
        }
        head = _unwrap(self.model)[-1]
        if self.recipe.mixture is not None:
            return mixture_terms(head, h, labels, self.stage.terms)
        terms = triplet_terms(head, h, labels, self.stage.terms, self.recipe)
        return {name: value.mean() for name, value in terms.items()}

    def _with_word_vectors(self, features):
        """Look up the word vectors of all chunks at once.

        The gradient of a lookup is as large as the vocabulary, whatever the number of tokens: one lookup a chunk
        would write it once a chunk, a fifth of a step's time.
        """
        words = _unwrap(self.model)[0].model.get_input_embeddings()
        ids = [chunk["input_ids"] for chunk in features]
        vectors = words(torch.cat([i.flatten() for i in ids])).split([i.numel() for i in ids])
        return [
            {key: value for key, value in chunk.items() if key != "input_ids"} | {"inputs_embeds": v.view(*i.shape, -1)}
            for chunk, i, v in zip(features, ids, vectors)
        ]

    def _encode(self, chunk, frozen):
        if not frozen:
            return self.model(chunk)
        model = _unwrap(self.model)
        with torch.no_grad():
            for module in list(model)[:-1]:
                module.eval()  # no dropout in an encoder that does not learn
                chunk = module(chunk)
        return model[-1](chunk)


def _unwrap(model):
    return getattr(model, "module", model)


def _cat(tensors):
    return None if tensors[0] is None else torch.cat(tensors)
