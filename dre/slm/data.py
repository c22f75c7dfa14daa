"""What an SLM is trained on, and what identifies a training."""

import functools
import hashlib
import json
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

import dre
from dre import dialogues, ratings
from dre.dialogues import Context, apart, data_hash

DEFAULT = Path(__file__).with_name("default")  # the SLM that comes with the package
#: of the code that trains: raised by hand where the same data and recipe would end with other weights, which
#: tests/test_train.py finds; scores that were recorded before are then refused
TRAINING = 1
#: what decides a training's weights, apart from the machine: recorded scores are held to it
DECISIVE = ("train_hash", "dev_hash", "recipe", "seed", "encoder", "extra", "training")


@dataclass(frozen=True, eq=False)
class Extra:
    """What recipe ``graded`` learns from besides labelled contexts."""

    dialogues: list = ()  # contexts with positives alone, those of all others being their negatives
    graded: list = ()  # (context id, turns, response, score 0-5 of a judge)


@functools.lru_cache  # every training of a set asks for the same contexts
def contexts(entry, rated_names=(), seed=0, filter=1):
    """Return (train, dev, test) contexts of ``entry``, one of ``profile.sets``, as tuples.

    Where dev's contexts are among train's, ``entry.held_out`` of them, drawn with ``seed``, become dev, and train is
    the rest. Training conversations that share an utterance with a rated set are left out (`dre.dialogues.apart`): no
    correlation is measured on what was learned. ``filter`` (a profile's) 2 also leaves out those that repeat a rated
    context in edited words, and those that hold a context of dev or test or a graded one that is held out.
    """
    train, dev, test = (dialogues.load(*part) for part in (entry.train, entry.dev, entry.test))
    if entry.held_out:
        order = np.random.default_rng(seed).permutation(len(dev))
        dev = [dev[i] for i in sorted(order[: round(entry.held_out * len(dev))])]
        kept = set(dev)
        train = [context for context in train if context not in kept]
    rated = ratings.held_out(rated_names)
    if filter == 1:
        return tuple(apart(train, rated, near=None)), tuple(dev), tuple(test)
    of = dialogues.conversations(context.context_id for context in (*train, *dev, *test))
    held_out = {of(context.context_id) for context in (*dev, *test)} | ratings.held_out_conversations()
    train = [context for context in train if of(context.context_id) not in held_out]
    return tuple(apart(train, rated)), tuple(dev), tuple(test)


def extra(profile, dev):
    """Return the `Extra` that ``profile.extra`` names.

    Conversations that share an utterance with a rated set, the held-out contexts `dev` or a test set of the profile
    are left out.
    """
    near = None if profile.filter == 1 else dialogues.NEAR
    return _extra(profile.extra, tuple(dev), tuple(entry.test for entry in profile.sets), profile.rated, near)


@functools.lru_cache  # every seed asks for the same
def _extra(names, dev, tests, rated_names, near=None):
    reserved = [*dev, *(context for test in tests for context in dialogues.load(*test))]
    reserved += ratings.held_out(rated_names)
    for table in held_out_grades(names.graded):  # their turns; the replies may be those of other conversations
        ids = set(zip(table["context_id"], table["context"]))
        reserved += [Context("graded", id, "dev", turns) for id, turns in ids]
    pool = []
    for name in names.dialogues:
        pool += dialogues.load(name, "train") if name in dialogues.SPLITS else dialogues.contexts(name)
    graded = []
    for name in names.graded:
        table = ratings.graded(name)
        for one in (table[~table["held_out"]], ratings.training_scores(name)):
            graded += _apart(one[["context_id", "set", "context", "response", "score"]], reserved, near)
    return Extra(apart(pool, reserved, near), graded)


def held_out_grades(names):
    """Return the graded pairs (tables) of conversations that are learned from by no model: SLMs are chosen on them."""
    return [table[table["held_out"]] for table in map(ratings.graded, names)]


def _apart(table, reserved, near):
    """The graded pairs of a table whose conversations share no utterance with what is reserved, as tuples."""
    asked = [Context(one.set, one.context_id, "train", one.context, (one.response,)) for one in table.itertuples()]
    ids = {context.id for context in apart(asked, reserved, near)}
    return [(one.context_id, *one[3:]) for one in table[table["context_id"].isin(ids)].itertuples()]


def describe(train, dev, recipe, seed, encoder, extra=None):
    """Return everything that decides a training; its ``fingerprint`` (sha256) identifies it on this kind of machine."""
    from dre.slm.encoder import native_bf16

    found = decisive(hashes(train, dev, extra), recipe, seed, encoder) | {"bf16": native_bf16()}
    versions = {"python": platform.python_version(), "dre": dre.__version__}
    versions |= {name: version(name) for name in ("torch", "transformers", "sentence-transformers", "numpy")}
    fingerprint = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
    sizes = {"train": len(train), "dev": len(dev)}
    return found | {"fingerprint": fingerprint, "contexts": sizes, "versions": versions}


def decisive(hashes, recipe, seed, encoder):
    """Return what decides the trained weights on any machine, as JSON types; `DECISIVE` names its possible keys."""
    found = {"seed": seed, "encoder": encoder, "training": TRAINING}
    return hashes | found | {"recipe": json.loads(json.dumps(recipe.as_dict()))}


def default():
    """Return what names the SLM that comes with the package, a dict."""
    about = json.loads((DEFAULT / "slm.json").read_text(encoding="utf-8"))["provenance"]
    return {key: about[key] for key in ("name", "fingerprint")}


def hashes(train, dev, extra=None):
    """Return the hashes of what is learned from and held out, as JSON types."""
    found = {"train_hash": data_hash(train), "dev_hash": data_hash(dev)}
    if extra is not None:
        graded_hash = hashlib.sha256(json.dumps(extra.graded, ensure_ascii=False).encode()).hexdigest()
        found["extra"] = {"dialogues": len(extra.dialogues), "dialogues_hash": data_hash(extra.dialogues)}
        found["extra"] |= {"graded": len(extra.graded), "graded_hash": graded_hash}
    return found
