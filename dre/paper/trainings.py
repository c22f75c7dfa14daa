"""The small models of a profile: which there are, what they learn from, and what they score.

Profile ``public`` needs no training, since ``data/recorded/small-models`` has the scores of every
pair that notebooks use, by ``<key>-<model>[-plain]-seed<k>`` (`dre.slm.remembered.Recording`).
`trained` returns recorded scores or a real model, as the profile and the environment variable
``RETRAIN`` demand.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dre import metrics
from dre.datasets import registry
from dre.errors import DreError
from dre.files import replace
from dre.paper import contexts
from dre.paper.profile import COMMITTED, Profile
from dre.slm import provenance, recipes, remembered
from dre.slm.provenance import DECISIVE
from dre.slm.remembered import Recording, Remembered

if TYPE_CHECKING:
    from dre.slm.model import SLM

#: What ``RETRAIN`` and the recording call the model in the package.
PACKAGE = "package"
#: The files of modules that choose a training's contexts, and say how these are hashed.
_CHOOSING = (
    *sorted(Path(registry.__file__).parent.glob("*.py")),
    Path(contexts.__file__),
    Path(provenance.__file__),
)


def trained(
    profile: Profile, key: str, name: str, seed: int, disentangled: bool = True
) -> "SLM | Remembered":
    """Return the small model of one training of a profile, or its recorded scores.

    Profile ``public`` trains and records anew what ``RETRAIN`` names: one of ``profile.models``, a
    recording such as ``dailydialog-paper-seed0``, several of these with commas, or 1 for all.
    ``package`` records anew what was recorded of the model in the package, and trains nothing.

    Parameters
    ----------
    profile, key, name, seed, disentangled : as of `load_or_train`.

    Raises
    ------
    DreError
        If the recorded scores are missing, or are those of another model.
    """
    # Where the profile has nothing that our recipes could learn from, the package's model is used.
    if _is_packaged(profile, name):
        return package_model(profile)

    # Where RETRAIN does not ask for new scores, the recorded ones are used.
    stem = _stem(profile, key, name, seed, disentangled)
    if _reads_recorded(profile, stem, name):
        return _checked(profile, stem, made_of(profile, key, name, seed, disentangled))

    # Otherwise the model is trained, and its scores are recorded if the profile is ``public``.
    slm = load_or_train(profile, key, name, seed, disentangled)
    return _recording(profile, stem, slm)


def package_model(profile: Profile) -> Remembered:
    """Return the small model in the package, which scores each pair once for all notebooks.

    In profile ``public`` its scores are recorded: the sixth digit depends on the processor.
    """
    if profile.name != COMMITTED:
        return remembered.package_model(profile.build / "scores")
    if _reads_recorded(profile, PACKAGE):
        return _checked(profile, PACKAGE, provenance.of_package())
    made_of_package = provenance.of_package()
    memory = Recording(PACKAGE, folder(profile), made_of_package)
    return Remembered(memory, made_of_package, remembered.loader())


def folder(profile: Profile) -> Path:
    """Return the folder of the recorded scores."""
    return profile.root / "data" / "recorded" / remembered.SMALL_MODELS.name


def load_or_train(
    profile: Profile, key: str, name: str, seed: int, disentangled: bool = True
) -> "SLM":
    """Return the small model of one training of a profile.

    It comes from the build folder, or is trained into it. Nothing is recorded.

    Parameters
    ----------
    profile : a profile of the notebooks.
    key : that of one of ``profile.sets``.
    name : one of ``profile.models``.
    seed, disentangled : see `dre.slm.fit` and `dre.slm.recipes.get`.
    """
    from dre.slm.train import fit

    recipe = _recipe(profile, name, disentangled)
    train, dev, extra = learned_from(profile, key, recipe)
    description = provenance.describe(train, dev, recipe, seed, profile.encoder, extra)
    stem = _stem(profile, key, name, seed, disentangled)
    out = profile.build / "models" / f"{stem}-{description['fingerprint'][:12]}"
    return fit(train, dev, out, recipe, seed, profile.encoder, extra=extra)


def training_table(provenances: Mapping[str, Sequence[Mapping]]) -> pd.DataFrame:
    """Return how small models were trained, a row for each label.

    Parameters
    ----------
    provenances : dict
        By label, the provenances of models of one recipe: several seeds, and perhaps several sets.
    """
    rows = []
    for label, of_models in provenances.items():
        first = of_models[0]
        recipe = first["recipe"]
        n_contexts = dict.fromkeys(f"{one['contexts']['train']:,}" for one in of_models)
        row = {
            "model": label,
            "recipe": recipe["name"],
            "encoder": Path(first["encoder"]).name,
            "contexts": " / ".join(n_contexts),
            "seeds": len({one["seed"] for one in of_models}),
            "epochs": ", ".join(f"{stage['name']} {stage['epochs']}" for stage in recipe["stages"]),
            "epoch kept": recipe.get("keep", "last"),
            "rate of the encoder": recipe["learning_rate"],
            "rate of the head": recipe["head_learning_rate"],
            "contexts a step": recipe["batch_contexts"],
            "tokens of a text": recipe["max_seq_length"],
        }
        rows.append(row)
    return pd.DataFrame(rows)


def made_of(profile: Profile, key: str, name: str, seed: int, disentangled: bool = True) -> dict:
    """Return what decides the small model that `trained` returns, without training it.

    The keys are those of `dre.slm.provenance.DECISIVE`.
    """
    if _is_packaged(profile, name):
        of_package = provenance.of_package()
        return {"name": of_package["name"], "fingerprint": of_package["fingerprint"]}
    recipe = _recipe(profile, name, disentangled)
    hashes = _hashes(profile, key, recipe)
    return provenance.decisive(hashes, recipe, seed, profile.encoder)


def seeds(profile: Profile, key: str, name: str, disentangled: bool = True) -> list[int]:
    """Return the seeds that `trained` has a model for: in profile ``public`` the recorded ones."""
    recorded = remembered.recorded_models(folder(profile))
    stems = {seed: _stem(profile, key, name, seed, disentangled) for seed in profile.seeds}
    return [
        seed
        for seed, stem in stems.items()
        if stem in recorded or not _reads_recorded(profile, stem, name)
    ]


def untrained(profile: Profile) -> "SLM | Remembered":
    """Return the encoder before any training, or its recorded distances.

    Use its ``distances(pairs)``.
    """
    stem = "encoder-untrained"
    expected = {"encoder": profile.encoder}
    if _reads_recorded(profile, stem):
        return _checked(profile, stem, expected)
    from dre.slm.model import SLM

    slm = SLM.untrained(profile.encoder)
    slm.provenance = expected
    return _recording(profile, stem, slm)


def arrays(
    profile: Profile, name: str, made_from: Mapping, make: Callable[[], dict] | None = None
) -> dict[str, np.ndarray]:
    """Return arrays by name: those of ``make()``, or for profile ``public`` the recorded ones.

    Parameters
    ----------
    profile : a profile of the notebooks.
    name : of the recording, ``<name>.npz``.
    made_from : JSON types that say what the arrays are made of: the model, as `made_of` does, and
        the texts, as `hash_of_texts`.
    make : a function that makes them; without it, they are always the recorded ones.

    Raises
    ------
    DreError
        If the recorded arrays are missing, or made of something else.
    """
    file = folder(profile) / f"{name}.npz"
    if make is not None and not _reads_recorded(profile, name):
        by_name = make()
        if profile.name == COMMITTED:
            remembered.record_arrays(file, made_from, by_name)
        return by_name

    recorded = remembered.recorded_arrays(file, made_from)
    if recorded is None:
        source = f"RETRAIN={name} makes" if make else "its script in experiments/ makes"
        raise DreError(
            f"recorded {name} is missing, or of other models or texts than those asked for: "
            f"{source} it anew"
        )
    return recorded


def hash_of_texts(table: pd.DataFrame, columns: Sequence[str] = ("context", "response")) -> str:
    """Return a sha256 of the texts of pairs in their order, for what is recorded by position."""
    texts = json.dumps([list(table[column]) for column in columns])
    return hashlib.sha256(texts.encode()).hexdigest()


def reference_based(profile: Profile, items: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the reference-based metrics of rated sets by name, those of references included.

    In profile ``public`` they are recorded; see `arrays`.
    """

    def make():
        from dre.slm.encoder import load_encoder

        encoder = load_encoder(profile.encoder, 512)
        scores_by_set = {}
        for name, table in items.items():
            scores = metrics.reference_based(table, encoder, itself=True)
            scores_by_set[name] = scores[metrics.COLUMNS].to_numpy()
        return scores_by_set

    columns = ("context", "response", "reference")
    texts = {name: hash_of_texts(table, columns) for name, table in items.items()}
    made_from = {"encoder": profile.encoder, "metrics": metrics.VERSION, "texts": texts}
    by_set = arrays(profile, "reference-metrics", made_from, make)
    return {name: pd.DataFrame(by_set[name], columns=metrics.COLUMNS) for name in by_set}


def _reads_recorded(profile, stem, model=None):
    """Return whether a recording is used: in profile ``public``, unless RETRAIN names it."""
    names = os.environ.get("RETRAIN", "").split(",")
    return profile.name == COMMITTED and {"1", stem, model}.isdisjoint(names)


def _is_packaged(profile, name):
    """Return whether the package's model replaces a model of our recipes.

    That is so where the profile has nothing extra to learn from.
    """
    recipe = recipes.get(profile.models[name].recipe)
    return recipe.mixture is not None and not profile.extra.dialogues


def _recording(profile, stem, slm):
    """Return a model, or in profile ``public`` one whose scores are recorded as it gives them."""
    if profile.name != COMMITTED:
        return slm
    memory = Recording(stem, folder(profile), slm.provenance)
    return Remembered(memory, slm.provenance, lambda: slm)


def _checked(profile, stem, expected):
    """Return recorded scores if their model was made as expected, else raise DreError.

    The hash of the encoder's weights is not compared, since recorded scores must work without the
    encoder.
    """
    scores = Remembered.recorded(stem, folder(profile))
    different = [key for key in DECISIVE if scores.provenance.get(key) != expected.get(key)]
    if not different:
        return scores
    problem = "are missing"
    if scores.provenance:
        problem = f"are those of another model, with other {', '.join(different)}"
    raise DreError(
        f"recorded scores of {stem} {problem}: RETRAIN={stem} trains the one asked for and records "
        "them"
    )


def _recipe(profile, name, disentangled):
    """Return the recipe of a model as the profile has it."""
    model = profile.models[name]
    recipe = recipes.get(model.recipe, model.epochs, disentangled)
    return recipes.replace(recipe, **model.changes)


def learned_from(profile, key, recipe):
    """Return the contexts to train on, those held out, and what our own recipes learn besides.

    A recipe of the papers learns from one set of a profile. Recipe ``ours`` learns
    from all of them, and from what the profile adds for it.
    """
    entries = {entry.key: entry for entry in profile.sets}
    train = []
    dev = []
    for key_of_set in entries if recipe.takes_all_sets else [key]:
        splits = contexts.contexts(entries[key_of_set], profile.rated, more=recipe.takes_all_sets)
        train += splits[0]
        dev += splits[1]
    extra = contexts.extra(profile, dev) if recipe.mixture else None
    return train, dev, extra


def _stem(profile, key, name, seed, disentangled):
    """Return what one training is called, in recordings and folders."""
    if recipes.get(profile.models[name].recipe).takes_all_sets:
        key = "all"
    return f"{key}-{name}{'' if disentangled else '-plain'}-seed{seed}"


def _hashes(profile, key, recipe):
    """Return `dre.slm.provenance.hashes` of a training.

    They take seconds to compute, so they are stored in the build folder. The name of the file
    depends on the profile, the code that chooses the contexts, and the data files.
    """
    data_of_profile = profile.model_dump_json(include={"sets", "rated", "extra"})
    arguments = json.dumps([data_of_profile, key, recipe.takes_all_sets, bool(recipe.mixture)])
    digest = hashlib.sha256(arguments.encode())
    data_files = sorted(registry.REPOSITORY.glob("data/*/**/*.jsonl"))
    names = {name for entry in profile.sets for name, _ in (entry.train, entry.dev, entry.test)}
    named_files = [Path(name) for name in sorted(names) if Path(name).is_file()]
    for path in (*_CHOOSING, registry.REGISTRY, *data_files, *named_files):
        digest.update(path.read_bytes())
    file = profile.build / "hashes" / f"{digest.hexdigest()[:16]}.json"
    if not file.exists():
        hashes = provenance.hashes(*learned_from(profile, key, recipe))
        replace(file, json.dumps(hashes))
    return json.loads(file.read_text(encoding="utf-8"))
