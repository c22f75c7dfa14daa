"""Training an SLM, in one process or in several that ``torchrun`` starts."""

import hashlib
import json
import shutil
from pathlib import Path

from dre.data import data_hash
from dre.errors import DreError
from dre.slm import distributed, recipes
from dre.slm.disk import disk_errors
from dre.slm.model import SLM
from dre.slm.precision import native_bf16
from dre.slm.provenance import versions
from dre.slm.stages import run_stages


def fit(
    train,
    dev,
    out,
    recipe="paper",
    seed=0,
    encoder="minilm",
    epochs=None,
    disentangled=True,
    progress=True,
    beside=None,
):
    """Train an SLM, or load it when ``out`` already holds the result of exactly this call.

    Processes started by ``torchrun`` train one model together when each makes the same call: process 0 writes, and
    a step is the step a single process would take (see :mod:`dre.slm.sharing`).

    Parameters
    ----------
    train, dev : list of Context
        ``dev`` is only measured (curves); thresholds are chosen on it elsewhere. It may be empty.
    out : path
        Folder of the finished model; ``<out>.work`` holds the checkpoints while training. A training that was
        interrupted goes on from its last complete epoch and ends with the same curve.
    recipe, epochs, disentangled
        See :func:`dre.slm.recipes.get`.
    seed : int
    encoder : str
        See :func:`dre.slm.encoder.load_encoder`.
    beside : dre.slm.mixing.Beside, optional
        For a recipe with a mixture: dialogues and graded pairs; it learns from labelled contexts alone without.

    Returns
    -------
    SLM

    Raises
    ------
    DreError
        On bad data or settings, or when ``out`` holds a different model.
    """
    recipe = recipes.get(recipe, epochs=epochs, disentangled=disentangled)
    out, work = Path(out), Path(f"{out}.work")
    distributed.join()
    provenance = describe(train, dev, recipe, seed, encoder, beside)
    if distributed.on_first((out / "slm.json").exists):
        return _load_same(out, provenance)
    with disk_errors(out):
        distributed.on_first(lambda: work.mkdir(parents=True, exist_ok=True))
        distributed.require_shared(work)
        model, curves = run_stages(train, dev, work, recipe, seed, encoder, provenance["fingerprint"], progress, beside)
        slm = SLM(model, recipe, provenance | {"curves": curves})
        slm.provenance = distributed.on_first(lambda: _finish(slm, train, out, work))
    return slm


def _finish(slm, train, out, work):
    slm.calibrate(train)
    slm.save(out)
    shutil.rmtree(work)
    return slm.provenance


def describe(train, dev, recipe, seed, encoder, beside=None):
    """Everything that decides the trained weights, as JSON types; its ``fingerprint`` identifies a training."""
    if beside is not None and recipe.mixture is None:
        raise DreError(f"recipe {recipe.name} learns from labelled contexts alone: leave the rest out")
    decisive = {
        "train_hash": data_hash(train),
        "dev_hash": data_hash(dev),
        "recipe": recipe.as_dict(),
        "seed": seed,
        "encoder": encoder,
        "bf16": native_bf16(),
    } | ({} if beside is None else {"beside": beside.describe()})
    if recipe.mixture is None:
        decisive["long_contexts"] = "end kept"  # sets these models apart from older ones, which read the beginning
    text = json.dumps(decisive, sort_keys=True)
    return decisive | {
        "fingerprint": hashlib.sha256(text.encode()).hexdigest(),
        "contexts": {"train": len(train), "dev": len(dev)},
        "processes": distributed.size(),
        "versions": versions(),
    }


def _load_same(out, provenance):
    slm = SLM.load(out)
    found = slm.provenance.get("fingerprint")
    if found != provenance["fingerprint"]:
        raise DreError(
            f"{out} holds another model (fingerprint {str(found)[:12]}, expected {provenance['fingerprint'][:12]}: "
            "other data, recipe, seed or encoder); train into another folder or delete this one"
        )
    return slm
