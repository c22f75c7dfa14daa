"""What identifies a training of a small model, and where a model is."""

import hashlib
import itertools
import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from dre.datasets.dialogues import Context, data_hash
from dre.environment import VERSION
from dre.errors import DreError
from dre.files import sha256
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
#: What decides the weights of a training, apart from the machine. Recorded scores must agree in it.
DECISIVE = ("train_hash", "dev_hash", "recipe", "seed", "encoder", "extra", "training")


@dataclass(frozen=True, eq=False)
class Extra:
    """What our own recipes learn from besides labelled contexts."""

    #: Contexts with right responses alone. The responses of all others are wrong ones.
    dialogues: Sequence[Context] = ()
    #: Context id, turns, response, and a judge's score from 0 to 5.
    graded: Sequence[tuple] = ()


def describe(
    train: Sequence[Context],
    dev: Sequence[Context],
    recipe: Recipe,
    seed: int,
    encoder: str,
    extra: Extra | None = None,
) -> dict:
    """Return everything that decides a training, and its ``fingerprint``.

    The fingerprint (sha256) identifies a training on this kind of machine. ``base``, the hash of
    the encoder's weights, is part of it: the encoder's name alone may mean other weights tomorrow.
    DreError if the encoder cannot be read.
    """
    from dre.slm.encoder import load_encoder, native_bf16, weights_hash

    description = decisive(hashes(train, dev, extra), recipe, seed, encoder)
    description["bf16"] = native_bf16()
    description["base"] = weights_hash(load_encoder(encoder))
    text = json.dumps(description, sort_keys=True)
    packages = ("torch", "transformers", "sentence-transformers", "numpy")
    versions = {package: version(package) for package in packages}
    return {
        **description,
        "fingerprint": sha256(text),
        "versions": {"python": platform.python_version(), "dre": VERSION, **versions},
        "contexts": {"train": len(train), "dev": len(dev)},
    }


def hashes_of_files(folder: Path) -> dict[str, str]:
    """Return the sha256 of each file of a model by its name, without what only people read.

    ``slm.json``, which holds these hashes, is left out, too.
    """
    digests = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name not in ("slm.json", "README.md") and not name.startswith("."):
            with path.open("rb") as file:
                digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def check_numbers(provenance: Mapping) -> None:
    """Raise ValueError if numbers of a model that are not in its weights make no sense.

    ``scales`` have a mean and a standard deviation for each answer. A model may lack any of them.
    """
    low, high = provenance.get("d_min", 0), provenance.get("d_max", 1)
    scales = provenance.get("scales", {}).values()
    numbers = [low, high, provenance.get("threshold", 0), *itertools.chain(*scales)]
    is_finite = all(type(x) in (int, float) and math.isfinite(x) for x in numbers)
    if not is_finite or low >= high or not all(sd > 0 for _, sd in scales):
        raise ValueError(
            "slm.json has numbers that are not finite, no d_max above d_min, or no standard "
            "deviation above 0"
        )


def decisive(hashes: Mapping, recipe: Recipe, seed: int, encoder: str) -> dict:
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


def of_package() -> dict:
    """Return what made the small model that comes with the package."""
    return json.loads((DEFAULT / "slm.json").read_bytes())["provenance"]


def hashes(train: Sequence[Context], dev: Sequence[Context], extra: Extra | None = None) -> dict:
    """Return the hashes of what is learned from and held out, as JSON types."""
    by_name: dict = {"train_hash": data_hash(train), "dev_hash": data_hash(dev)}
    if extra is not None:
        graded = json.dumps(extra.graded, ensure_ascii=False)
        by_name["extra"] = {
            "dialogues": len(extra.dialogues),
            "dialogues_hash": data_hash(extra.dialogues),
            "graded": len(extra.graded),
            "graded_hash": sha256(graded),
        }
    return by_name


def find_slm(name: str | Path | None) -> str | Path:
    """Return where an SLM is: the absolute path of a folder, or an id on the Hub.

    None is the model that comes with the package. DreError if there is no such folder.
    """
    name = str(name or DEFAULT)
    if Path(name).is_dir():
        return Path(name).resolve()
    is_hub_id = name.count("/") == 1 and not name.startswith((".", "/", "~"))
    if is_hub_id and not Path(name).parent.is_dir():
        return name
    raise DreError(f"there is no SLM {name!r}: expected a folder, or owner/name on the Hub")
