"""The trainings a profile asks for: which contexts, and where the models lie."""

import functools

import numpy as np

from dre.data import Context, load, rated
from dre.data import contexts as dialogues_of
from dre.data.overlap import disjoint
from dre.data.sets import SPLITS
from dre.slm import recipes


def contexts(entry, rated_names=(), seed=0):
    """Return (train, dev, test) contexts of one training set of a profile.

    Parameters
    ----------
    entry : TrainingSet
        Of ``profile.sets``. Where train and dev are the same contexts, ``entry.held_out`` of them, drawn with
        ``seed``, become dev and the rest train.
    rated_names : sequence of str
        Rated sets; training contexts that share an utterance with them are left out, so that no later correlation
        is measured on dialogues an SLM was trained on.
    """
    return tuple(list(part) for part in _contexts(entry, tuple(rated_names), seed))


@functools.lru_cache  # every training of a set asks for the same contexts, and the files are held to their hashes
def _contexts(entry, rated_names, seed):
    train = load(*entry.train)
    if entry.train == entry.dev:
        order = np.random.default_rng(seed).permutation(len(train))
        n_dev = round(entry.held_out * len(train))
        train, dev = [train[i] for i in sorted(order[n_dev:])], [train[i] for i in sorted(order[:n_dev])]
    else:
        dev = load(*entry.dev)
    for name in rated_names:
        train = disjoint(train, rated(name))
    return train, dev, load(*entry.test)


def beside(profile, dev):
    """Return what a recipe with a mixture learns from beside labelled contexts, as ``profile.beside`` names it.

    Dialogues that share an utterance with a rated set, with the held-out contexts `dev` or with a test set of the
    profile are left out, and so are graded pairs of such contexts.

    Returns
    -------
    dre.slm.mixing.Beside
    """
    tests = tuple(entry.test for entry in profile.sets)
    return _beside(*(tuple(profile.beside[key]) for key in ("dialogues", "graded")), tuple(dev), tests, profile.rated)


@functools.lru_cache  # every seed asks for the same
def _beside(dialogues, graded, dev, tests, rated_names):
    import pandas as pd

    from dre.data import recorded
    from dre.slm.mixing import Beside

    kept = [*dev, *(context for test in tests for context in load(*test))]
    kept += [record for name in rated_names for record in rated(name)]
    pool = [one for name in dialogues for one in (load(name, "train") if name in SPLITS else dialogues_of(name))]
    tables = []
    for name in graded:
        table = recorded.training_scores(name)
        asked = [Context(one.set, one.context_id, "train", one.context) for one in table.itertuples()]
        free = {context.id for context in disjoint(asked, kept)}
        tables.append(table[table["context_id"].isin(free)])
    return Beside(disjoint(pool, kept), pd.concat(tables, ignore_index=True) if tables else None)


def train_or_load(profile, entry, recipe, seed, disentangled=True, progress=False):
    """Return the SLM of one (set, recipe, seed) of a profile; train it unless it lies in the profile's build folder.

    The folder's name holds the fingerprint of data, recipe, seed, encoder and precision: change one of them and
    another model is trained, change nothing and none is.

    Returns
    -------
    SLM
    """
    train, dev, _ = contexts(entry, profile.rated)
    return _trained(profile, entry.key, train, dev, recipe, seed, disentangled, progress)


def train_or_load_jointly(profile, entries, recipe, seed, progress=False):
    """Return the SLM trained on several sets of a profile together; as `train_or_load` otherwise.

    Each set keeps its own held-out contexts, so a threshold may be chosen on those of any of them.
    """
    parts = [contexts(entry, profile.rated) for entry in entries]
    train, dev = ([context for part in parts for context in part[i]] for i in (0, 1))
    return _trained(profile, "+".join(entry.key for entry in entries), train, dev, recipe, seed, True, progress)


def identity(slms):
    """Return what says which SLMs made a score, the seeds of one training: ``{"slm", "recipe", "seeds", "encoder"}``.

    ``slm`` holds the first eight digits of each fingerprint, which covers data, recipe, seed, encoder and precision.
    """
    made = [slm.provenance for slm in slms]
    return {
        "slm": "+".join(each["fingerprint"][:8] for each in made),
        "recipe": made[0]["recipe"]["name"],
        "seeds": ",".join(str(each["seed"]) for each in made),
        "encoder": made[0]["encoder"],
    }


def _trained(profile, key, train, dev, recipe, seed, disentangled, progress):
    from dre.slm.training import describe, fit

    recipe = recipes.get(recipe, epochs=profile.epochs[recipe], disentangled=disentangled)
    extra = None if recipe.mixture is None else beside(profile, dev)
    fingerprint = describe(train, dev, recipe, seed, profile.encoder, extra)["fingerprint"]
    plain = "" if disentangled else "-plain"
    out = profile.build / "models" / f"{key}-{recipe.name}{plain}-seed{seed}-{fingerprint[:12]}"
    return fit(train, dev, out, recipe, seed, profile.encoder, progress=progress, beside=extra)
