"""Profiles: what ``make paper`` trains on, with which encoder and judges; ``profiles/mini.yaml`` explains every key."""

import os
from pathlib import Path
from typing import Literal

import yaml
from pydantic import (
    BaseModel,
    Field,
    PositiveInt,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

from dre.datasets.registry import PROJECT
from dre.errors import DreError

ADDRESS = "https://github.com/dre-companion/dre"
COMMITTED = "public"  # the profile whose outputs the committed notebooks carry, and whose numbers stand in words
Split = tuple[StrictStr, StrictStr]  # name and split, as `dre.datasets.dialogues.load` takes them


class TrainingSet(BaseModel, extra="forbid", frozen=True):
    """One set an SLM is trained, tuned and tested on.

    Where train and dev are the same contexts, the share ``dev_share`` of them is kept from training for thresholds.
    ``further``: splits that version 2 of the training data adds to train; ``most``: those that version 3 does.
    """

    key: StrictStr
    label: StrictStr
    train: Split
    further: StrictStr | None = None
    most: StrictStr | None = None
    dev: Split
    test: Split
    dev_share: float = Field(0.0, ge=0, lt=1)


class Model(BaseModel, extra="forbid", frozen=True):
    """One SLM: its recipe, epochs (of each stage; None: the recipe's), which is kept, and the version of its data."""

    recipe: StrictStr
    epochs: PositiveInt | None = None
    keep: Literal["last", "best"] = "last"
    data: Literal[1, 2, 3] = 1


class Sources(BaseModel, extra="forbid", frozen=True):
    """What recipe ``graded`` learns from besides labelled contexts: names of dialogues, and of recorded grades."""

    dialogues: tuple[StrictStr, ...]
    graded: tuple[StrictStr, ...]


class Profile(BaseModel, extra="forbid", frozen=True):
    """One profile: the keys of its file, and the project's folder as ``root``."""

    name: StrictStr
    title: StrictStr
    needs: StrictStr
    encoder: StrictStr
    recipes: tuple[StrictStr, ...] = Field(min_length=1)
    seeds: tuple[StrictInt, ...] = Field(min_length=1)
    models: dict[str, Model]
    controls: StrictStr
    extra: Sources
    sets: tuple[TrainingSet, ...] = Field(min_length=1)
    rated: tuple[StrictStr, ...]
    judges: tuple[StrictStr, ...]
    resamples: PositiveInt
    root: Path

    @model_validator(mode="after")
    def _a_model_for_each(self):
        if missing := {*self.recipes, self.controls} - set(self.models):
            raise ValueError(
                f"'models' lacks {', '.join(sorted(missing))}, which 'recipes' or 'controls' names"
            )
        return self

    results = property(
        lambda self: self.root / "results" / self.name,
        doc="Tables, report page, recorded SLM scores.",
    )
    figures = property(lambda self: self.root / "figures" / self.name, doc="Figures.")
    build = property(
        lambda self: self.root / "build" / self.name,
        doc="Models, executed notebooks: never committed.",
    )
    seed = property(
        lambda self: self.seeds[0], doc="The first seed: of everything that is done once."
    )


def check_clone(folder: Path) -> None:
    """Raise a DreError if a folder has no notebooks, as that of a package which pip installed."""
    if not (folder / "notebooks").is_dir():
        raise DreError(
            f"notebooks need a clone of the project, and {folder} has none: "
            f"git clone {ADDRESS}, then run this in the clone or set DRE_ROOT to it"
        )


def root():
    """Return the folder of the project, the one with ``profiles/``: ``DRE_ROOT``, or where this package lies."""
    folder = Path(os.environ.get("DRE_ROOT") or PROJECT)
    if not (folder / "profiles").is_dir():
        raise DreError(
            f"no profiles/ in {folder}: clone the whole project, and set DRE_ROOT to the clone"
        )
    return folder


def profile(name, folder=None):
    """Return the `Profile` of a name (a file in ``profiles/``); a fault in the file is a DreError that names the key.

    `folder` is the project's, by default `root()`.
    """
    folder, where = Path(folder or root()), f"profiles/{name}.yaml"
    known = sorted(path.stem for path in folder.glob("profiles/*.yaml"))
    if name not in known:
        raise DreError(
            f"unknown profile '{name}': the profiles are {', '.join(known) or 'none'} (files in profiles/)"
        )
    try:
        values = yaml.safe_load((folder / where).read_text(encoding="utf-8"))
        made = Profile.model_validate({**values, "root": folder})
    except (yaml.YAMLError, TypeError) as error:
        raise DreError(
            f"{where} is not valid YAML with keys and values: {' '.join(str(error).split())}"
        ) from error
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, each['loc'])) or 'profile'}: {each['msg']}"
            for each in error.errors()
        ]
        raise DreError(
            f"{where}: {'; '.join(faults)}; profiles/mini.yaml explains every key"
        ) from error
    if made.name != name:
        raise DreError(
            f"{where}: 'name' is '{made.name}', expected '{name}', as the file is called"
        )
    return made
