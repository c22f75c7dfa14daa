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
from dre.datasets import dialogues, overlap, ratings
from dre.datasets.dialogues import Context, data_hash
from dre.datasets.overlap import without_overlap

DEFAULT = Path(__file__).with_name("default")  # the SLM that comes with the package
#: of the code that trains: raised by hand where the same data and recipe would end with other weights, which
#: tests/test_train.py finds; scores that were recorded before are then refused
#: (Since attention is computed plainly on a CPU, dropout draws other numbers there: recordings of before are kept, as
#: other draws of one training. Since two contexts with the same right response are no longer each other's negatives,
#: recipe graded ends with other weights, too: the recordings of graded-2026-11 are kept, since a judge was shown them.)
TRAINING = 1
#: what decides a training's weights, apart from the machine: recorded scores are held to it
DECISIVE = ("train_hash", "dev_hash", "recipe", "seed", "encoder", "extra", "training")


@dataclass(frozen=True, eq=False)
class Extra:
    """What our own recipes learn from besides labelled contexts."""

    dialogues: list = ()  # contexts with positives alone, those of all others being their negatives
    graded: list = ()  # (context id, turns, response, score 0-5 of a judge)


@functools.lru_cache  # every training of a set asks for the same contexts
def contexts(entry, rated_names=(), seed=0, version=1):
    """Return (train, dev, test) contexts of ``entry``, one of ``profile.sets``, as tuples.

    Where dev's contexts are among train's, a ``entry.dev_share`` of them, drawn with ``seed``, becomes dev, and train
    is the rest. Training conversations that share an utterance with a rated set are left out
    (`dre.datasets.overlap.without_overlap`): no correlation is measured on what was learned. ``version`` 2 adds
    ``entry.further`` to train and also leaves out those that repeat a rated context in edited words, and those that
    hold a context of dev or test or a graded one that SLMs are chosen by; 3 is the same with ``entry.most``. By none is
    a stock phrase left out that test says, too.
    """
    name, splits = entry.train
    if added := {2: entry.further, 3: entry.most}.get(version):
        splits = f"{splits}+{added}"
    train, dev, test = (dialogues.load(*part) for part in ((name, splits), entry.dev, entry.test))
    if entry.dev_share:
        order = np.random.default_rng(seed).permutation(len(dev))
        dev = [dev[i] for i in sorted(order[: round(entry.dev_share * len(dev))])]
        train = [context for context in train if context not in {*dev}]
    rated = ratings.rated_tables(rated_names)
    if version == 1:
        return tuple(without_overlap(train, rated, near=None)), tuple(dev), tuple(test)
    of = overlap.conversations(context.context_id for context in (*train, *dev, *test))
    reserved = {
        of(context.context_id) for context in (*dev, *test)
    } | ratings.conversations_for_choice()
    train = [context for context in train if of(context.context_id) not in reserved]
    return tuple(without_overlap(train, rated)), tuple(dev), tuple(test)


def extra(profile, dev, version=1):
    """Return the `Extra` that ``profile.extra`` names.

    Conversations that share an utterance with a rated set, the contexts `dev`, a test set of the profile or a graded
    context that SLMs are chosen by are left out.
    """
    near = None if version == 1 else overlap.NEAR
    return _extra(
        profile.extra, tuple(dev), tuple(entry.test for entry in profile.sets), profile.rated, near
    )


@functools.lru_cache  # every seed asks for the same
def _extra(names, dev, tests, rated_names, near=None):
    reserved = [*dev, *(context for test in tests for context in dialogues.load(*test))]
    reserved += ratings.rated_tables(rated_names)
    tables = [ratings.graded(name) for name in names.graded]
    for table in tables:  # their turns; the replies may be those of other conversations
        table = table[table["for_choice"]]
        ids = set(zip(table["context_id"], table["context"]))
        reserved += [Context("graded", id, "dev", turns) for id, turns in ids]
    pool = []
    for name in names.dialogues:
        pool += (
            dialogues.load(name, "train")
            if name in dialogues.SPLITS
            else dialogues.public_contexts(name)
        )
    graded = []
    for name, table in zip(names.graded, tables):
        for one in (table[~table["for_choice"]], ratings.training_scores(name)):
            one = pairs_without_overlap(one, reserved, near)
            graded += zip(one["context_id"], one["context"], one["response"], one["score"])
    return Extra(without_overlap(pool, reserved, near), graded)


def pairs_without_overlap(table, reserved, near=overlap.NEAR):
    """Return the graded pairs of a table whose conversations share no utterance with what is reserved."""
    rows = zip(table["set"], table["context_id"], table["context"], table["response"])
    asked = [Context(set, id, "train", turns, (response,)) for set, id, turns, response in rows]
    return table[
        table["context_id"].isin({context.id for context in without_overlap(asked, reserved, near)})
    ]


def describe(train, dev, recipe, seed, encoder, extra=None):
    """Return everything that decides a training; its ``fingerprint`` (sha256) identifies it on this kind of machine.

    ``base`` is the hash of the encoder's weights: its name alone may mean other weights tomorrow. DreError if the
    encoder cannot be read.
    """
    from dre.slm.encoder import load_encoder, native_bf16

    found = decisive(hashes(train, dev, extra), recipe, seed, encoder) | {"bf16": native_bf16()}
    found["base"] = weights_hash(load_encoder(encoder))
    about = {"fingerprint": hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()}
    about["versions"] = {"python": platform.python_version(), "dre": dre.__version__}
    about["versions"] |= {
        name: version(name) for name in ("torch", "transformers", "sentence-transformers", "numpy")
    }
    return found | about | {"contexts": {"train": len(train), "dev": len(dev)}}


def weights_hash(encoder):
    """Return the beginning of the sha256 of the weights of an encoder, a SentenceTransformer."""
    digest = hashlib.sha256()
    for _, weights in sorted(encoder[0].model.state_dict().items()):
        digest.update(weights.float().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


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
        graded_hash = hashlib.sha256(
            json.dumps(extra.graded, ensure_ascii=False).encode()
        ).hexdigest()
        found["extra"] = {
            "dialogues": len(extra.dialogues),
            "dialogues_hash": data_hash(extra.dialogues),
        }
        found["extra"] |= {"graded": len(extra.graded), "graded_hash": graded_hash}
    return found
