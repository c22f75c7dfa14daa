"""What identifies a training of a small model, and where a model is."""

import hashlib
import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dre.datasets.dialogues import Context, data_hash
from dre.environment import VERSION
from dre.errors import DreError
from dre.files import sha256

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
    for name, expected in sha256_by_name.items():
        digest = file_hash(folder / name)
        if digest != expected:
            raise ValueError(f"{name} has sha256 {digest[:12]}...: expected {expected[:12]}...")


def file_hash(path: Path) -> str:
    """Return the sha256 of a file, in hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_numbers(provenance: Mapping) -> None:
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
    is_path = name.startswith((".", "/", "~"))
    if name.count("/") == 1 and not is_path:
        return name
    raise DreError(
        f"there is no SLM {name!r}: expected a folder with one, or owner/name on the Hub"
    )
