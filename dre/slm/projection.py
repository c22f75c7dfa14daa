"""Figure 5: contexts and responses in the plane, before and after disentanglement."""

import numpy as np
import pandas as pd
import torch


def project(slm, contexts, seed=0):
    """t-SNE of each context with its positives and adversarials, one projection a context and view.

    Parameters
    ----------
    slm : SLM
    contexts : list of Context
        Five positives and five adversarials each make 11 points, few for t-SNE: read it as an illustration.

    Returns
    -------
    DataFrame
        ``context_id, view`` ("Normal": whole embeddings; "Disentangled": context and robust parts),
        ``kind`` ("c", "p", "a"), ``x, y`` (in [-1, 1]), ``distance`` (cosine distance to the context).
    """
    rows = []
    for context in contexts:
        kinds = ["c", *"p" * len(context.positives), *"a" * len(context.adversarials)]
        h = slm.encode([slm.context(context.turns), *context.positives, *context.adversarials])
        after = torch.cat([h["anchor"][:1], h["robust"][1:]])
        for view, points in (("Normal", h["sentence_embedding"]), ("Disentangled", after)):
            plane, distance = _plane(points.cpu().numpy(), seed)
            rows += [
                {"context_id": context.context_id, "view": view, "kind": k, "x": x, "y": y, "distance": d}
                for k, (x, y), d in zip(kinds, plane, distance)
            ]
    return pd.DataFrame(rows)


def _plane(points, seed):
    from sklearn.manifold import TSNE

    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    distance = 1 - unit @ unit[0]
    plane = TSNE(metric="cosine", perplexity=4, init="random", random_state=seed).fit_transform(unit)
    plane = plane - plane.mean(axis=0)
    return plane / np.abs(plane).max(), distance
