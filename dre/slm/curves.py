"""The quantities of Figures 3 and 4, measured on a set of contexts with the model as it stands."""

import torch

from dre.slm import losses
from dre.slm.batching import training_rows, triplets
from dre.slm.objective import class_logits
from dre.slm.precision import native_bf16


def curve_point(slm, contexts):
    """Measure one point of Figures 3 and 4, over all 25 triplets of each context.

    Returns
    -------
    dict of str to float
        ``contrastive_loss``: mean L_out (Eq. 12) between context and robust parts, the distance Eq. 18 scores with;
        ``triplet_accuracy``: share of triplets with delta(h_c, h_p) < delta(h_c, h_a), same distance;
        ``classification_loss``: mean L_cls (Eq. 15);
        ``classification_accuracy``: share of positives and adversarials whose own class among these two has the
        higher probability.
    """
    rows = training_rows(contexts, slm.context)
    texts, index = [], []
    for row in rows:
        start = len(texts)
        positives, adversarials = row["positives"], row["adversarials"]
        texts += [row["context"], *positives, *adversarials]
        index += [
            (start, start + 1 + p, start + 1 + len(positives) + a)
            for p, a in triplets(len(positives), len(adversarials), "all")
        ]
    # In the precision of the training itself: float32 would double the cost of every epoch's end.
    with torch.autocast(slm.model.device.type, torch.bfloat16, enabled=native_bf16()):
        h = {name: part if part is None else part.float() for name, part in slm.encode(texts).items()}
    index = torch.tensor(index, device=h["anchor"].device)
    c, p, a = index.unbind(dim=1)
    h_c, h_p, h_a = h["anchor"][c], h["robust"][p], h["robust"][a]
    with torch.no_grad():
        logits, labels = class_logits(slm.head, h, index)
        two = labels != losses.NON_ROBUST
        right = logits[two][:, :2].argmax(dim=-1) == labels[two]
        return {
            "contrastive_loss": losses.contrastive(h_c, h_p, h_a, slm.recipe.margin).mean().item(),
            "triplet_accuracy": (losses.distance(h_c, h_p) < losses.distance(h_c, h_a)).float().mean().item(),
            "classification_loss": losses.classification(logits, labels).mean().item(),
            "classification_accuracy": right.float().mean().item(),
        }
