"""Profiles: the sizes at which one and the same code runs, read from ``profiles/<name>.yaml``."""

import os
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path

import yaml

from dre.errors import DreError


def root():
    """Return the folder of the project: ``DRE_ROOT`` if set, else the one this package was installed from.

    Raises
    ------
    DreError
        If that folder has no ``profiles/``: the package was installed without the rest of the project.
    """
    folder = Path(os.environ.get("DRE_ROOT") or Path(__file__).parents[2])
    if not (folder / "profiles").is_dir():
        raise DreError(
            f"no profiles/ in {folder}: the notebooks need the whole project; clone it and install it with "
            "'pip install -e .', or set DRE_ROOT to the clone"
        )
    return folder


@dataclass(frozen=True)
class TrainingSet:
    """One set an SLM is trained, tuned and tested on.

    Parameters
    ----------
    key, label : str
        The set in file names and in tables.
    train, dev, test : tuple of (str, str)
        Name and split, as ``dre.data.load(name, split)`` takes them. Where `train` and `dev` are the same
        contexts, `held_out` says which share of them is kept from training to choose thresholds on.
    held_out : float
        That share, in [0, 1); 0 where `dev` is a split of its own.
    """

    key: str
    label: str
    train: tuple
    dev: tuple
    test: tuple
    held_out: float = 0.0


@dataclass(frozen=True)
class Profile:
    """One profile; the attributes are the keys of its yaml file, explained in ``profiles/mini.yaml``."""

    name: str
    title: str
    needs: str
    network: bool
    gpu: bool
    encoder: str
    recipes: tuple
    seeds: tuple
    epochs: Mapping
    beside: Mapping
    sets: tuple
    rated: tuple
    judges: tuple
    resamples: int
    root: Path

    @property
    def results(self):
        """Folder of the tables and the report page."""
        return self.root / "results" / self.name

    @property
    def figures(self):
        """Folder of the figures."""
        return self.root / "figures" / self.name

    @property
    def build(self):
        """Folder of what can be rebuilt and is never committed: models, executed notebooks, state."""
        return self.root / "build" / self.name

    @property
    def seed(self):
        """The first seed: of everything that is done once."""
        return self.seeds[0]


def names(folder):
    """Return the names of the profiles in `folder` (the project's root)."""
    return sorted(path.stem for path in (Path(folder) / "profiles").glob("*.yaml"))


def profile(name, folder=None):
    """Read the profile `name`.

    Parameters
    ----------
    name : str
        "mini", "public" or "full", or any other file in ``profiles/``.
    folder : Path, optional
        The project's root, by default `root()`.

    Raises
    ------
    DreError
        If there is no such profile, or its file has a missing, unknown or malformed key.
    """
    folder = root() if folder is None else Path(folder)
    known = names(folder)
    if name not in known:
        raise DreError(f"unknown profile '{name}': the profiles are {', '.join(known) or 'none'} (files in profiles/)")
    path = folder / "profiles" / f"{name}.yaml"
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise DreError(f"profiles/{name}.yaml is not valid YAML: {' '.join(str(error).split())}") from error
    where = f"profiles/{name}.yaml"
    values = _check(raw, Profile, where, given=("root",))
    if values["name"] != name:
        raise DreError(f"{where}: 'name' is '{values['name']}', expected '{name}', as the file is called")
    values["sets"] = tuple(_training_set(entry, f"{where}, sets[{i}]") for i, entry in enumerate(values["sets"]))
    values["epochs"] = _epochs(values["epochs"], values["recipes"], where)
    values["beside"] = _beside(values["beside"], where)
    for key in ("recipes", "seeds", "rated", "judges"):
        values[key] = tuple(values[key])
    if not values["seeds"] or not all(type(seed) is int for seed in values["seeds"]):
        raise DreError(f"{where}: 'seeds' is {list(values['seeds'])}, expected at least one whole number")
    return Profile(root=folder, **values)


def overview(folder=None):
    """Return one row a profile (mini, public, full, others): what each can show and what it needs.

    Returns
    -------
    pandas.DataFrame
        Columns ``profile, title, trained_on, human_ratings, encoder, seeds, needs``; texts.
    """
    import pandas as pd

    folder = root() if folder is None else folder
    order = ("mini", "public", "full")
    found = sorted(names(folder), key=lambda name: (order.index(name) if name in order else len(order), name))
    rows = [
        {
            "profile": each.name,
            "title": each.title,
            "trained_on": ", ".join(f"{entry.label} ({entry.train[1]})" for entry in each.sets),
            "human_ratings": ", ".join(each.rated),
            "encoder": each.encoder,
            "seeds": len(each.seeds),
            "needs": each.needs,
        }
        for each in (profile(name, folder) for name in found)
    ]
    return pd.DataFrame(rows)


TYPES = {
    "name": str, "title": str, "needs": str, "encoder": str, "network": bool, "gpu": bool, "resamples": int,
    "recipes": list, "seeds": list,
    "sets": list, "rated": list, "judges": list, "epochs": (int, dict), "beside": dict,
    "key": str, "label": str, "train": list, "dev": list, "test": list, "held_out": (int, float),
}  # fmt: skip


def _check(raw, cls, where, given=()):
    """Return the mapping `raw` if its keys and types are those of the dataclass `cls`, or raise DreError."""
    if not isinstance(raw, dict):
        raise DreError(f"{where}: found {type(raw).__name__}, expected a mapping of keys to values")
    wanted = {field.name: field for field in fields(cls) if field.name not in given}
    missing = [key for key, field in wanted.items() if key not in raw and field.default is MISSING]
    unknown = [key for key in raw if key not in wanted]
    if missing or unknown:
        found = [f"missing: {', '.join(missing)}"] * bool(missing)
        found += [f"unknown: {', '.join(map(str, unknown))}"] * bool(unknown)
        raise DreError(f"{where}: keys {'; '.join(found)}; expected exactly {', '.join(wanted)}")
    for key, value in raw.items():
        expected = TYPES[key]
        if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
            name = " or ".join(t.__name__ for t in (expected if isinstance(expected, tuple) else (expected,)))
            raise DreError(f"{where}: '{key}' is {value!r}, expected {name}")
    return dict(raw)


def _training_set(entry, where):
    values = _check(entry, TrainingSet, where)
    for key in ("train", "dev", "test"):
        if len(values[key]) != 2 or not all(isinstance(part, str) for part in values[key]):
            raise DreError(f"{where}: '{key}' is {values[key]!r}, expected [name, split]")
        values[key] = tuple(values[key])
    if not 0 <= values.get("held_out", 0) < 1:
        raise DreError(f"{where}: 'held_out' is {values['held_out']}, expected a share in [0, 1)")
    return TrainingSet(**values)


def _epochs(value, recipes, where):
    """Return epochs per recipe: one number stands for all."""
    epochs = dict.fromkeys(recipes, value) if isinstance(value, int) else value
    if set(epochs) != set(recipes) or not all(type(n) is int and n > 0 for n in epochs.values()):
        raise DreError(
            f"{where}: 'epochs' is {value!r}, expected a number > 0, or one for each of {', '.join(recipes)}"
        )
    return epochs


def _beside(value, where):
    """Return the names of what a recipe with a mixture learns from beside labelled contexts."""
    if set(value) != {"dialogues", "graded"} or not all(isinstance(names, list) for names in value.values()):
        raise DreError(f"{where}: 'beside' is {value!r}, expected two lists of names, dialogues and graded")
    return {key: tuple(names) for key, names in value.items()}
