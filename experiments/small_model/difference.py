"""Keep a training of recipe ``paper`` as its difference to MiniLM, at most 8 MB.

    python experiments/small_model/difference.py write FOLDER    # dre/slm/paper of a training
    python experiments/small_model/difference.py restore FOLDER  # the model in dre/slm/paper

FOLDER of ``write`` is build/public/models/dailydialog-paper-seed0-..., which is made by
``dre.paper.trainings.load_or_train(profile("public"), "dailydialog", "paper", 0)``: ten to thirty
minutes of two cores. The rest takes seconds.

``difference.npz`` has, by the name of a tensor:

- of a matrix, the difference in four bits: whole numbers from -7 to 7 in groups of 32, two in a
  byte, times a scale for each group (half precision, relative to the largest of the tensor);
- of the word embeddings, this for the rows that the training read, and for all others one factor,
  since they only decayed;
- of a vector, the difference in half precision;
- the head itself, in half precision.

Tensors that did not change are left out. Adding the differences to MiniLM's weights gives back the
model. ``slm.json`` is that of the training.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import torch
from pydantic import TypeAdapter

from dre.errors import DreError
from dre.slm import SLM, recipes
from dre.slm.provenance import DEFAULT

PAPER = DEFAULT.with_name("paper")
FILE = "difference.npz"
GROUP = 32
MOST = 7  # of a whole number in four bits
HEAD = "head."
#: A row that differs from a multiple of the encoder's by less than this only decayed.
DECAYED = 1e-6


def pack(difference: np.ndarray) -> dict[str, np.ndarray]:
    """Return a difference of any shape in four bits: ``bits, scales, largest``."""
    groups = np.pad(difference.ravel(), (0, -difference.size % GROUP)).reshape(-1, GROUP)
    largest_of_group = np.abs(groups).max(axis=1)
    largest = largest_of_group.max()
    scales = (largest_of_group / largest).astype(np.float16)
    unit = scales.astype(np.float32)[:, None] * largest / MOST
    whole = np.rint(np.divide(groups, unit, out=np.zeros_like(groups), where=unit > 0))
    nibbles = (np.clip(whole, -MOST, MOST) + 8).astype(np.uint8).ravel()
    return {"bits": nibbles[::2] | nibbles[1::2] << 4, "scales": scales, "largest": largest}


def unpack(packed: dict[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Return the difference that `pack` was given, in float32, as far as four bits say it."""
    nibbles = np.stack([packed["bits"] & 15, packed["bits"] >> 4], axis=1)
    whole = nibbles.reshape(-1, GROUP).astype(np.float32) - 8
    unit = packed["scales"].astype(np.float32)[:, None] * packed["largest"] / MOST
    return (whole * unit).ravel()[: np.prod(shape)].reshape(shape)


def differences(trained: dict, base: dict) -> dict[str, np.ndarray]:
    """Return what ``difference.npz`` has of the encoder's tensors.

    Parameters
    ----------
    trained, base : float32 arrays by name, of the trained encoder and of MiniLM.
    """
    arrays = {}
    for name, before in base.items():
        difference = trained[name] - before
        if not difference.any():
            continue
        if before.ndim == 1:
            arrays[name] = difference.astype(np.float16)
            continue
        if name.endswith("word_embeddings.weight"):
            factor = np.median((trained[name] * before).sum(axis=1) / (before**2).sum(axis=1))
            is_read = np.abs(trained[name] - factor * before).max(axis=1) > DECAYED
            arrays[f"{name}.rows"] = np.packbits(is_read)
            arrays[f"{name}.factor"] = np.float32(factor)
            difference = difference[is_read]
        arrays.update({f"{name}.{part}": array for part, array in pack(difference).items()})
    return arrays


def add(arrays: dict[str, np.ndarray], base: dict) -> dict[str, np.ndarray]:
    """Return the trained encoder's tensors: those of MiniLM and what `differences` returned."""
    tensors = {}
    for name, before in base.items():
        tensors[name] = before.copy()
        if name in arrays:
            tensors[name] += arrays[name]
        if f"{name}.bits" not in arrays:
            continue
        packed = {part: arrays[f"{name}.{part}"] for part in ("bits", "scales", "largest")}
        is_read = np.ones(len(before), bool)
        if f"{name}.rows" in arrays:
            is_read = np.unpackbits(arrays[f"{name}.rows"], count=len(before)).astype(bool)
            tensors[name][~is_read] *= arrays[f"{name}.factor"]
        tensors[name][is_read] += unpack(packed, (int(is_read.sum()), before.shape[1]))
    return tensors


def arrays_of(module: torch.nn.Module) -> dict[str, np.ndarray]:
    """Return the tensors of a module by name."""
    return {name: tensor.numpy() for name, tensor in module.state_dict().items()}


def hash_of(base: dict[str, np.ndarray]) -> str:
    """Return a sha256 of an encoder's tensors."""
    digest = hashlib.sha256()
    for name in sorted(base):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(base[name]).tobytes())
    return digest.hexdigest()


def write(folder: str) -> None:
    """Put the difference of a training to its encoder into the package."""
    trained = SLM.load(folder)
    base = arrays_of(SLM.untrained(trained.provenance["encoder"], trained.recipe).encoder)
    arrays = differences(arrays_of(trained.encoder), base)
    for name, weights in arrays_of(trained.head).items():
        arrays[HEAD + name] = weights.astype(np.float16)
    PAPER.mkdir(exist_ok=True)
    np.savez_compressed(PAPER / FILE, **arrays)
    description = json.loads((Path(folder) / "slm.json").read_text())
    description["encoder_sha256"] = hash_of(base)
    description["sha256"] = {FILE: hashlib.sha256((PAPER / FILE).read_bytes()).hexdigest()}
    (PAPER / "slm.json").write_text(json.dumps(description, indent=1, sort_keys=True) + "\n")


def restored() -> SLM:
    """Return the model in ``dre/slm/paper``: MiniLM with the differences added."""
    description = json.loads((PAPER / "slm.json").read_text())
    recipe = TypeAdapter(recipes.Recipe).validate_python(description["recipe"])
    slm = SLM.untrained(description["provenance"]["encoder"], recipe)
    base = arrays_of(slm.encoder)
    if hash_of(base) != description["encoder_sha256"]:
        raise DreError("MiniLM has other weights here than where this model was trained")
    with np.load(PAPER / FILE) as file:
        arrays = dict(file)
    tensors = add(arrays, base)
    head = {name: arrays[HEAD + name].astype(np.float32) for name in slm.head.state_dict()}
    slm.encoder.load_state_dict({name: torch.from_numpy(x) for name, x in tensors.items()})
    slm.head.load_state_dict({name: torch.from_numpy(x) for name, x in head.items()})
    slm.forget()
    slm.encoder.eval()
    slm.provenance = description["provenance"]
    return slm


def main(action: str, folder: str) -> None:
    """Do one of ``write`` and ``restore``."""
    if action == "write":
        write(folder)
    else:
        restored().save(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
