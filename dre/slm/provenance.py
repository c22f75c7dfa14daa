"""What a small model is trained on, and what identifies its training."""

import functools
import hashlib
import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import dre
from dre.datasets import dialogues, overlap, ratings
from dre.datasets.dialogues import Context, data_hash
from dre.datasets.overlap import without_overlap

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import Tensor

    from dre.slm.recipes import Recipe

#: The folder of the small model that comes with the package.
DEFAULT = Path(__file__).with_name("default")
#: Version of the code that trains. We raise it by hand when the same data and recipe give other
#: weights, which tests/test_train.py notices. Older recorded scores are then refused. Twice it was
#: not raised, and recordings stayed as other draws of the same training. First, dropout draws other
#: numbers on a CPU since attention is computed plainly there. Second, recipe graded ends with other
#: weights since two contexts with the same right response are no longer negatives of each other.
TRAINING = 1
#: Under which key a provenance says what training and scoring took. It identifies nothing.
MEASURED = "measured"
#: Numbers of a model that are not in its weights.
_NUMBERS = ("d_min", "d_max", "threshold")
#: What decides the weights of a training, apart from the machine. Recorded scores must agree in it.
DECISIVE = ("train_hash", "dev_hash", "recipe", "seed", "encoder", "extra", "training")


@dataclass(frozen=True, eq=False)
class Extra:
    """What our own recipes learn from besides labelled contexts."""

    #: Contexts with right responses alone. The responses of all others are wrong ones.
    dialogues: Sequence[Context] = ()
    #: Context id, turns, response, and a judge's score from 0 to 5.
    graded: Sequence[tuple] = ()


@functools.lru_cache  # every training of a set asks for the same contexts
def contexts(entry, rated_names=(), seed=0, more=False):
    """Return the contexts of ``entry``, one of ``profile.sets``: (train, dev, test), as tuples.

    Train are the contexts that the papers' recipes learn from (``entry.train``). With ``more``,
    there are also those that recipe ``ours`` adds (``entry.more``). Where the contexts of dev are
    among those of train, a share of them is drawn as dev (``entry.dev_share``, with ``seed``), and
    the rest is train.

    Three kinds of conversations are left out of train:

    - those that repeat what people rated (`dre.datasets.overlap.without_overlap`), so that no
      correlation is measured on what was learned;
    - those that have a context of dev or test. A stock phrase in common does not count. In sets
      whose ids tell no conversations, these are found by their text;
    - those with a graded context that small models are chosen by.
    """
    name, splits = entry.train
    if more and entry.more:
        splits = f"{splits}+{entry.more}"
    train = dialogues.load(name, splits)
    dev, test = held_out(entry, seed)
    if entry.dev_share:
        set_of_dev = set(dev)
        train = [context for context in train if context not in set_of_dev]

    rated = ratings.rated_tables(rated_names)
    # Leave out whole conversations of dev and test, and those that small models are chosen by.
    ids = [context.context_id for context in (*train, *dev, *test)]
    conversation_of = overlap.conversations(ids)
    sources = {context.context_id.partition("/")[0] for context in train}
    reserved = ratings.conversations_for_choice(sources)
    reserved |= {conversation_of(context.context_id) for context in (*dev, *test)}
    train = [context for context in train if conversation_of(context.context_id) not in reserved]
    train = without_overlap(train, rated)
    if not dialogues.names_its_conversations(name):
        train = overlap.without_near(train, [*dev, *test])
    return tuple(train), dev, test


def held_out(entry, seed=0):
    """Return the contexts of ``entry`` that nothing is trained on: (dev, test), as tuples.

    They are those of `contexts`. Rated sets and graded conversations, which only train has to be
    compared with, are not read.
    """
    dev = dialogues.load(*entry.dev)
    test = dialogues.load(*entry.test)
    if entry.dev_share:
        order = np.random.default_rng(seed).permutation(len(dev))
        size = round(entry.dev_share * len(dev))
        dev = [dev[i] for i in sorted(order[:size])]
    return tuple(dev), tuple(test)


def extra(profile, dev):
    """Return the `Extra` that ``profile.extra`` names.

    Conversations are left out if they share an utterance with a rated set, with the contexts
    ``dev``, with a test set of the profile, or with a graded context that small models are chosen
    by.
    """
    tests = tuple(entry.test for entry in profile.sets)
    return _extra(profile.extra, tuple(dev), tests, profile.rated)


@functools.lru_cache  # every seed asks for the same
def _extra(names, dev, tests, rated_names):
    """Return what `extra` does; arguments are hashable, so that a second call costs nothing."""
    # Held-out contexts and rated sets must not be learned.
    reserved = [*dev]
    for test in tests:
        reserved += dialogues.load(*test)
    reserved += ratings.rated_tables(rated_names)
    # Nor must the turns of the graded pairs that small models are chosen by. (Their replies may
    # come from other conversations.)
    graded_tables = [ratings.graded(name) for name in names.graded]
    for table in graded_tables:
        for_choice = table[table["for_choice"]]
        ids = set(zip(for_choice["context_id"], for_choice["context"]))
        reserved += [Context("graded", id, "dev", turns) for id, turns in ids]

    pool = []
    for name in names.dialogues:
        if name in dialogues.SPLITS:
            pool += dialogues.load(name, "train")
        else:
            pool += dialogues.public_contexts(name)

    graded = []
    columns = ["context_id", "context", "response", "score"]
    for name, table in zip(names.graded, graded_tables):
        for rows in (table[~table["for_choice"]], ratings.training_scores(name)):
            clean = table_without_overlap(rows, reserved)
            graded += zip(*(clean[column] for column in columns))
    return Extra(without_overlap(pool, reserved), graded)


def table_without_overlap(table, reserved):
    """Return the rows of a table of graded pairs whose conversations repeat nothing reserved.

    ``reserved`` is as for `dre.datasets.overlap.without_overlap`.
    """
    contexts_of_pairs = []
    columns = ["set", "context_id", "context", "response"]
    for name, id, turns, response in zip(*(table[column] for column in columns)):
        contexts_of_pairs.append(Context(name, id, "train", turns, (response,)))
    clean = without_overlap(contexts_of_pairs, reserved)
    clean_ids = {context.id for context in clean}
    return table[table["context_id"].isin(clean_ids)]


def describe(
    train: Sequence[Context],
    dev: Sequence[Context],
    recipe: "Recipe",
    seed: int,
    encoder: str,
    extra: Extra | None = None,
) -> dict:
    """Return everything that decides a training, and its ``fingerprint``.

    The fingerprint (sha256) identifies a training on this kind of machine. ``base``, the hash of
    the encoder's weights, is part of it: the encoder's name alone may mean other weights tomorrow.
    DreError if the encoder cannot be read.
    """
    from dre.slm.encoder import load_encoder, native_bf16

    data_hashes = hashes(train, dev, extra)
    description = decisive(data_hashes, recipe, seed, encoder)
    description["bf16"] = native_bf16()
    description["base"] = weights_hash(load_encoder(encoder))
    text = json.dumps(description, sort_keys=True)
    description["fingerprint"] = hashlib.sha256(text.encode()).hexdigest()
    versions = {"python": platform.python_version(), "dre": dre.__version__}
    for package in ("torch", "transformers", "sentence-transformers", "numpy"):
        versions[package] = version(package)
    description["versions"] = versions
    description["contexts"] = {"train": len(train), "dev": len(dev)}
    return description


def weights_hash(encoder: "SentenceTransformer") -> str:
    """Return the first 16 digits of the sha256 of an encoder's weights."""
    digest = hashlib.sha256()
    transformer: Any = encoder[0].model
    weights_by_name = transformer.state_dict()
    for _, weights in sorted(weights_by_name.items()):
        array = weights.float().cpu().numpy()
        digest.update(array.tobytes())
    return digest.hexdigest()[:16]


def check_finite(weights_by_name: Mapping[str, "Tensor"]) -> None:
    """Raise ValueError if weights are not finite numbers."""
    for name, weights in weights_by_name.items():
        if weights.is_floating_point() and not weights.isfinite().all():
            raise ValueError(f"weights {name} are not all finite numbers")


def check_files(folder: Path, sha256_by_name: Mapping[str, str]) -> None:
    """Raise ValueError if a file of a folder is not the one with the sha256 that is given."""
    for name, sha256 in sha256_by_name.items():
        found = file_hash(folder / name)
        if found != sha256:
            raise ValueError(f"{name} has sha256 {found[:12]}...: expected {sha256[:12]}...")


def file_hash(path: Path) -> str:
    """Return the sha256 of a file, in hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_numbers(provenance: Mapping[str, Any]) -> None:
    """Raise ValueError if the numbers that make a score of a model's answers make no sense.

    These are ``d_min`` and ``d_max``, ``scales`` (a mean and a unit for each answer) and
    ``threshold``. A model may lack them.
    """
    numbers = {name: provenance[name] for name in _NUMBERS if name in provenance}
    scales = provenance.get("scales", {})
    if not isinstance(scales, Mapping):
        raise ValueError(f"slm.json has scales {scales!r}: expected a mean and a unit by answer")
    for name, scale in scales.items():
        if not isinstance(scale, list) or len(scale) != 2:
            raise ValueError(f"slm.json has scales of {name} {scale!r}: expected a mean and a unit")
        numbers[f"the mean of {name}"], numbers[f"the unit of {name}"] = scale
    for name, value in numbers.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value):
            raise ValueError(f"slm.json has {value!r} as {name}: expected a finite number")
    for name in scales:
        if numbers[f"the unit of {name}"] == 0:
            raise ValueError(f"slm.json has 0 as the unit of {name}: expected another number")
    if "d_min" in numbers and numbers["d_min"] >= numbers.get("d_max", -math.inf):
        raise ValueError(
            f"slm.json has d_min {numbers['d_min']} and d_max {numbers.get('d_max')}: "
            "expected d_max above d_min"
        )


def decisive(hashes: Mapping, recipe: "Recipe", seed: int, encoder: str) -> dict:
    """Return what decides the trained weights on any machine, as JSON types.

    Its keys are those of `DECISIVE`.
    """
    return {
        **hashes,
        "seed": seed,
        "encoder": encoder,
        "training": TRAINING,
        "recipe": json.loads(json.dumps(recipe.as_dict())),
    }


def default() -> dict[str, str]:
    """Return ``name`` and ``fingerprint`` of the small model that comes with the package."""
    text = (DEFAULT / "slm.json").read_text(encoding="utf-8")
    provenance = json.loads(text)["provenance"]
    return {"name": provenance["name"], "fingerprint": provenance["fingerprint"]}


def hashes(train: Sequence[Context], dev: Sequence[Context], extra: Extra | None = None) -> dict:
    """Return the hashes of what is learned from and held out, as JSON types."""
    by_name: dict[str, Any] = {"train_hash": data_hash(train), "dev_hash": data_hash(dev)}
    if extra is not None:
        graded = json.dumps(extra.graded, ensure_ascii=False)
        by_name["extra"] = {
            "dialogues": len(extra.dialogues),
            "dialogues_hash": data_hash(extra.dialogues),
            "graded": len(extra.graded),
            "graded_hash": hashlib.sha256(graded.encode()).hexdigest(),
        }
    return by_name
