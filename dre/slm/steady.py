"""Does a score stay where it is when the same dialogue is said in other words? The embedded corpus, version by version.

Asked about its test contexts; recipe ``paper`` was trained on its training contexts, as in profile ``mini``.
"""

import copy
import random

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F

from dre.dialogues import pairs, parallel
from dre.profile import profile as read_profile
from dre.slm import pcaf
from dre.slm.model import native_bf16
from dre.slm.scores import kept, trained, untrained
from dre.slm.train import MAX_NORM, distinct, embed, groups

DEFAULT = "graded"  # the recipe of the SLM that comes with the package


def versions(profile):
    """Return the test pairs of the parallel corpus with a column for each score that a model gives.

    ``pair_id, context_id, kind, version``, ``context, response``, then the scores: those of profile ``public`` are
    recorded (``RETRAIN=1`` trains and records). What parallel training makes of a score takes minutes: not in ``mini``.
    """
    tables = {version: pairs(contexts).assign(version=version) for version, contexts in parallel("test").items()}
    table = pd.concat(tables.values(), ignore_index=True)
    return table.assign(**kept(profile, "parallel", lambda: _scores(profile, table)))


def _scores(profile, table):
    mini, slms = read_profile("mini", profile.root), {}
    for recipe in ("paper", DEFAULT):
        slms[f"SLM {recipe}"] = trained(mini, "mini", recipe, mini.seed)
    if profile.rated:
        slms[f"SLM {DEFAULT}, aligned"] = aligned(slms[f"SLM {DEFAULT}"], parallel("train"), mini.seed)
    found = {"cosine": 1 - untrained(mini).distances(table)["distance"]}
    found |= {name: slm.score(table)["score_slm"] for name, slm in slms.items()}
    for name, align in (("PCAF", True), ("PCAF, not aligned", False)) if profile.rated else ():
        metric = pcaf.PCAF.untrained(mini.encoder, pcaf.Recipe(align=align), mini.seed)
        pcaf.train(metric, ideas(parallel("train")), mini.seed)
        found[name] = metric.score(table)
    return {name: np.asarray(score, np.float32) for name, score in found.items()}


def ideas(found):
    """Return one idea for each context of `dre.dialogues.parallel`: its first positive, and its first adversarial."""
    return [
        pcaf.Idea(tuple((c.turns, c.positives[0]) for c in each), tuple(c.adversarials[0] for c in each))
        for each in zip(*found.values())
    ]


def aligned(slm, found, seed, epochs=2, batch=8, rate=5e-4):
    """Return a copy of an SLM of recipe ``graded``, trained on so that versions are told alike: does that steady it?

    Eq. 5 pulls the versions of a context with its reply together, [h_c; h_r] as representation; the squared distance of
    each version's s_d (by the adapted encoder's likeness) to that of the original, as given before, stands for Eq. 9
    (whose target is the mean). Quality, and likeness in the encoder as it was, stay what they are.
    """
    student, each = copy.deepcopy(slm), ideas(found)
    student.recipe = pcaf.Recipe(learning_rate=rate, head_learning_rate=rate)
    student.learns(("encoder",))
    optimizer = torch.optim.AdamW(groups(student))
    for epoch in range(epochs):
        draw = random.Random(f"{seed}/{epoch}")
        order = draw.sample(each, len(each))
        student.encoder.train(), student.head.eval()
        for start in range(0, len(order) - 1, batch):
            some = order[start : start + batch]
            with torch.no_grad():
                _, target = _read(slm, [pcaf.Idea(idea.versions[:1], idea.wrong[:1]) for idea in some])
            h, s_d = _read(student, some)
            loss = pcaf.alignment(*h) / len(some) + ((s_d - target) ** 2).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(student.encoder.parameters(), MAX_NORM)
            optimizer.step()
            optimizer.zero_grad()
    student.encoder.eval()
    student.recipe = slm.recipe
    return student


def _read(slm, some):
    """Return ([h_c; h_r], s_d) of ideas, right and wrong responses first: (2, B, V, 2 d) and (2, B, V)."""
    rows = [[(slm.context(turns), slm.context(turns[-1:]), r) for turns, r in idea.versions] for idea in some]
    wrong = [[(*views, r) for (*views, _), r in zip(row, idea.wrong)] for row, idea in zip(rows, some)]
    texts, place = distinct(text for each in (rows, wrong) for row in each for views in row for text in views)
    index = torch.tensor([[[[place[t] for t in views] for views in row] for row in each] for each in (rows, wrong)])
    with torch.autocast(slm.encoder.device.type, torch.bfloat16, enabled=native_bf16()):
        h = embed(slm.encoder, texts)
    h = h.float()[index].movedim(-2, 0)  # whole context, last turn, response
    low, high = slm.provenance["d_min"], slm.provenance["d_max"]
    s_d = (1 - slm.head.likeness(h.flatten(1, 3)).view(h.shape[1:4]) - low) / (high - low)
    return torch.cat([F.normalize(h[0], dim=-1), F.normalize(h[2], dim=-1)], dim=-1), s_d
