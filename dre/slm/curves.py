"""The curves of Figures 3 and 4: losses and accuracies after each epoch.

They are measured on training contexts and on held-out ones.
"""

import random
from collections.abc import Mapping, Sequence

import torch

from dre.datasets.dialogues import Context, pairs
from dre.slm import losses
from dre.slm.encoder import native_bf16
from dre.slm.triplets import training_rows, triplet_batch

#: Training contexts on which the curves are measured, at most; never more than are held out.
SAMPLE = 200


def contexts_to_measure(
    train: Sequence[Context], dev: Sequence[Context], seed: int
) -> dict[str, Sequence[Context]]:
    """Return the contexts to measure the curves on, by split: a sample of train, all of dev."""
    size = min(SAMPLE, len(train), len(dev) or SAMPLE)
    sample = random.Random(seed).sample(train, size)
    return {"train": sample, "dev": dev} if dev else {"train": sample}


@torch.no_grad()
def measure(
    slm, contexts_by_split: Mapping[str, Sequence[Context]], stage: str, epoch: int
) -> list[dict]:
    """Return one point of the curves for each split, a mean over all its triplets.

    A point has ``stage, epoch, split`` and by name what `_of_triplets` measures, or for our own
    recipes the share of triplets whose order is right.
    """
    points = []
    for split, contexts in contexts_by_split.items():
        # In the precision of the training itself: float32 would double the time of the measurement.
        with torch.autocast(slm.encoder.device.type, torch.bfloat16, enabled=native_bf16()):
            if slm.recipe.mixture:
                values = slm.ordered(pairs(contexts, kinds="pa"))
            else:
                values = _of_triplets(slm, contexts)
        means = {name: value.float().mean().item() for name, value in values.items()}
        points.append({"stage": stage, "epoch": epoch, "split": split, **means})
    return points


def _of_triplets(slm, contexts):
    """Return losses and accuracies of the triplets of some contexts, a tensor by name.

    They are Eq. 12 and Eq. 15, the shares that these two get right, each term of the recipe's loss
    (in batches as in training), and as ``<term>_active`` where that term is above zero.
    """
    recipe = slm.recipe
    rows = training_rows(contexts, slm.context)
    texts, triplets = triplet_batch(rows)
    triplets = triplets.to(slm.encoder.device)
    h = {}
    for name, vectors in slm.encode(texts).items():
        h[name] = None if vectors is None else vectors.float()

    # Eq. 12, and whether the positive response is the nearer one.
    h_c, h_p, h_a = losses.contrasted(h, triplets, recipe)
    is_nearer = losses.distance(h_c, h_p) < losses.distance(h_c, h_a)
    # Eq. 15, and whether robust parts are classified right as positive or adversarial.
    logits, labels = losses.class_logits(slm.head, h, triplets)
    is_robust = labels != losses.NON_ROBUST
    logits_of_robust = logits[is_robust][:, :2]
    is_classified = logits_of_robust.argmax(-1) == labels[is_robust]
    measures = {
        "contrastive_loss": losses.contrastive(h_c, h_p, h_a, recipe.margin),
        "triplet_accuracy": is_nearer,
        "classification_loss": losses.classification(logits, labels),
        "classification_accuracy": is_classified,
    }

    terms = _terms_in_batches(slm, h, rows, triplets)
    return measures | terms | {f"{name}_active": value > 0 for name, value in terms.items()}


def _terms_in_batches(slm, h, rows, triplets):
    """Return each term of the recipe's loss for all triplets, by batches as in training."""
    names = [name for stage in slm.recipe.stages for name in stage.terms]
    batch_size = slm.recipe.batch_contexts
    triplets_of_row = [len(row.positives) * len(row.adversarials) for row in rows]
    starts = range(0, len(rows), batch_size)
    sizes = [sum(triplets_of_row[start : start + batch_size]) for start in starts]
    values = {name: [] for name in names}
    for batch in triplets.split(sizes):
        terms = losses.triplet_terms(slm.head, h, batch, names, slm.recipe)
        for name in names:
            values[name].append(terms[name].flatten())
    return {name: torch.cat(batches) for name, batches in values.items()}
