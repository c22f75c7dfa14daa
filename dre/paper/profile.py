"""Profiles: data, encoder and judges of a run; ``profiles/mini.yaml`` explains the keys."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    PositiveInt,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from dre.datasets import ratings
from dre.datasets.registry import PROJECT
from dre.environment import ADDRESS
from dre.errors import DreError

#: The profile whose outputs the committed notebooks have, and whose numbers README and docs show.
COMMITTED = "public"
RECORDED = "recorded:"  # how the name of a recording begins
#: The two models that every profile has: the papers' small model, and ours.
PAPER = "paper"
OURS = "ours"
#: The rated sets of the papers' Table 4, and how columns of their tables begin.
TABLE_4 = {
    "dailydialog-zhao": "dailydialog",
    "personachat-usr": "personachat",
    "topicalchat-usr": "topicalchat",
}


def _whole_path(name: str, info: ValidationInfo) -> str:
    """Return the whole path of a file of the project: notebooks run in a folder of their own."""
    path = (info.context or Path()) / name
    return str(path) if name and path.exists() else name


#: A name, or a file of the project by its path from the project's folder.
FileName = Annotated[StrictStr, AfterValidator(_whole_path)]
#: Name and split, as `dre.datasets.dialogues.load` takes them.
Split = tuple[FileName, StrictStr]


class TrainingSet(BaseModel, extra="forbid", frozen=True):
    """One set an SLM is trained, tuned and tested on.

    Where train and dev are the same contexts, the share ``dev_share`` of them is kept from
    training, for thresholds. The papers' recipes learn from ``train``; ``more`` are the splits that
    recipe ``ours`` adds to it. ``rated_by`` is the rated set on which people judged replies to
    dialogues of this kind: a model of the papers that was trained on the set is measured there.
    """

    key: StrictStr
    label: StrictStr
    rated_by: StrictStr | None = None
    train: Split
    more: StrictStr | None = None
    dev: Split
    test: Split
    dev_share: float = Field(0.0, ge=0, lt=1)


class Model(BaseModel, extra="forbid", frozen=True):
    """One SLM: its recipe, and how it is trained.

    ``epochs`` are those of all stages alike, or of each; ``keep`` says which epoch is kept. What is
    None is as in the recipe.
    """

    recipe: StrictStr
    epochs: PositiveInt | tuple[PositiveInt, ...] | None = None
    keep: Literal["last", "best"] = "last"
    batch_contexts: PositiveInt | None = None
    learning_rate: float | None = Field(None, gt=0)
    head_learning_rate: float | None = Field(None, gt=0)
    text_length: int | None = Field(None, ge=8, serialization_alias="max_seq_length")

    @property
    def changes(self) -> dict[str, Any]:
        """What replaces fields of the recipe, as `dre.slm.recipes.replace` takes it."""
        return self.model_dump(by_alias=True, exclude_none=True, exclude={"recipe", "epochs"})


class Sources(BaseModel, extra="forbid", frozen=True):
    """What recipe ``ours`` learns from besides labelled contexts.

    Both are names: of sets of dialogues, and of recorded grades.
    """

    dialogues: tuple[StrictStr, ...]
    graded: tuple[StrictStr, ...]


class PCAFSettings(BaseModel, extra="forbid", frozen=True):
    """How PCAF's Tables 7 and 8 are trained on DSTC11: encoders, and how much of its corpora.

    ``archive`` is the path of DSTC11's archive; by default it is fetched. ``ideas`` are the
    dialogues that are taken of each corpus; None means all.
    """

    encoder: StrictStr
    english_encoder: StrictStr
    archive: FileName | None = None
    ideas: PositiveInt | None = None
    epochs: tuple[PositiveInt, PositiveInt] = (10, 10)
    batch_ideas: PositiveInt = 32


class Examples(BaseModel, extra="forbid", frozen=True):
    """How many rated examples ``huynh`` shows: with FED's qualities, and with a yes-no question."""

    qualities: tuple[PositiveInt, ...] = Field(default=(3,), min_length=1)
    good_response: tuple[PositiveInt, ...] = Field(default=(4,), min_length=1)


class JudgeSettings(BaseModel, extra="forbid", frozen=True):
    """One judge of a profile: its model, and where, how and for how much money it is asked.

    ``logprobs`` has the answers to `dre.paper.plan.BY_TOKEN` scored by log-probabilities: True, or
    how many of the likeliest ratings count.
    """

    model: StrictStr
    name: StrictStr = ""
    base_url: StrictStr = ""
    key_env: StrictStr | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    repeats: PositiveInt = 1
    concurrency: PositiveInt | None = None
    max_usd: float | None = Field(default=None, ge=0, serialization_alias="max_usd_judge")
    price: StrictStr | None = None
    plain: bool = False
    logprobs: StrictBool | PositiveInt = False

    @property
    def is_live(self) -> bool:
        """Whether a model is asked, and not a recording read."""
        return not self.model.startswith(RECORDED)

    @property
    def label(self) -> str:
        """What tables call the judge: its name, or else its model without ``recorded:``."""
        return self.name or self.model.removeprefix(RECORDED)

    @property
    def connection(self) -> dict[str, Any]:
        """How a live judge is reached and for how much money, as `dre.judges.open` takes it."""
        not_of_it = {"model", "name", "temperature", "repeats", "logprobs"}
        return self.model_dump(by_alias=True, exclude=not_of_it)

    @model_validator(mode="after")
    def _a_recording_is_not_asked(self):
        settings = self.model_fields_set - {"model", "name"}
        if settings and not self.is_live:
            raise ValueError(f"a recording is not asked, so it takes no {min(settings)}")
        return self


class Profile(BaseModel, extra="forbid", frozen=True):
    """One profile: the keys of its file, and the project's folder as ``root``."""

    name: StrictStr
    title: StrictStr
    needs: StrictStr
    encoder: FileName
    recipes: tuple[StrictStr, ...] = Field(min_length=1)
    seeds: tuple[StrictInt, ...] = Field(min_length=1)
    models: dict[str, Model]
    controls: StrictStr
    extra: Sources
    sets: tuple[TrainingSet, ...] = Field(min_length=1)
    main_set: StrictStr
    rated: tuple[StrictStr, ...]
    judges: tuple[StrictStr | JudgeSettings, ...] = Field(min_length=1)
    main_judge: StrictStr = ""
    resamples: PositiveInt
    optional_prompts: tuple[Literal["geval", "analyse_rate", "slide_a1", "huynh"], ...] = ()
    samples: PositiveInt = 20
    labels_per_kind: PositiveInt | None = 300
    pairs_per_set: PositiveInt | None = None
    prompts: dict[str, StrictStr] = {}
    notebooks: tuple[StrictStr, ...] = ()
    pcaf: PCAFSettings | None = None
    examples: Examples = Examples()
    metrics: dict[StrictStr, FileName] = {}
    cases: FileName = ""
    root: Path

    @model_validator(mode="after")
    def _parts_fit(self):
        labels = [judge.label for judge in self.judge_settings]
        keys = [entry.key for entry in self.sets]
        rated_by = [entry.rated_by for entry in self.sets if entry.rated_by]
        _check_names("judges", labels)
        _check_names("main_judge", [self.main_label], labels)
        _check_names("sets", keys)
        _check_names("main_set", [self.main_set], keys)
        _check_names("rated", self.rated, ratings.RATED)
        _check_names("rated_by", rated_by, ratings.RATED)
        _check_names("recipes", self.recipes, self.models)
        _check_names("controls", [self.controls], self.models)
        for name in (PAPER, OURS):
            if name not in self.recipes:
                raise ValueError(f"'recipes' lacks {name}, which tables compare with the others")
        for name in self.table_4:
            if name not in rated_by:
                raise ValueError(
                    f"'rated' names {name}, and no set says 'rated_by: {name}': tables 4 and 5 "
                    "measure the model that was trained on the set which says so"
                )
        if "huynh" in self.optional_prompts and "fed-turn" not in self.rated:
            raise ValueError("'optional_prompts' names huynh, which asks about fed-turn in 'rated'")
        return self

    @property
    def judge_settings(self) -> tuple[JudgeSettings, ...]:
        """The judges in their order, those that the file names by a text alone among them."""
        return tuple(
            JudgeSettings(model=judge) if isinstance(judge, str) else judge for judge in self.judges
        )

    @property
    def main(self) -> TrainingSet:
        """The set that Table 3 is about, and whose training Table 5 carries over to others."""
        return next(entry for entry in self.sets if entry.key == self.main_set)

    @property
    def table_4(self) -> tuple[str, ...]:
        """The rated sets of Table 4 that this profile has, in the papers' order."""
        return tuple(name for name in TABLE_4 if name in self.rated)

    @property
    def table_5(self) -> tuple[str, ...]:
        """Those of them whose kind of dialogue the training on the main set has not seen."""
        return tuple(name for name in self.table_4 if name != self.main.rated_by)

    def training_set(self, rated: str) -> TrainingSet:
        """Return the set whose training is measured on a rated set, one of `table_4`."""
        return next(entry for entry in self.sets if entry.rated_by == rated)

    @property
    def main_label(self) -> str:
        """The label of the judge that main tables and figures show: by default the first."""
        return self.main_judge or self.judge_settings[0].label

    @property
    def has_live_judge(self) -> bool:
        """Whether a run asks a model."""
        return any(judge.is_live for judge in self.judge_settings)

    @property
    def reads_public_data(self) -> bool:
        """Whether the profile names anything that is neither embedded nor a file of the user."""
        names = {*self.rated, *self.extra.dialogues, *self.extra.graded}
        for entry in self.sets:
            names |= {name for name, _ in (entry.train, entry.dev, entry.test)}
        return any(name != "mini" and not name.endswith((".json", ".jsonl")) for name in names)

    @property
    def results(self) -> Path:
        """The folder of tables and of recorded SLM scores."""
        return self.root / "results" / self.name

    @property
    def figures(self) -> Path:
        """The folder of figures."""
        return self.root / "figures" / self.name

    @property
    def build(self) -> Path:
        """The folder of models and executed notebooks, which are never committed."""
        return self.root / "build" / self.name

    @property
    def seed(self) -> int:
        """The first seed: that of everything that is done once."""
        return self.seeds[0]


def _check_names(key, names, known=None):
    """Raise a ValueError if a name stands there twice, or is none of those that are known."""
    for number, name in enumerate(names):
        if name in names[:number]:
            raise ValueError(f"'{key}' names {name} twice: each needs a name of its own")
        if known is not None and name not in known:
            raise ValueError(f"'{key}' names {name}, expected one of {', '.join(known)}")


def check_clone(folder: Path) -> None:
    """Raise a DreError if a folder has no notebooks, as that of a package which pip installed."""
    if not (folder / "notebooks").is_dir():
        raise DreError(
            f"notebooks need a clone of the project, and {folder} has none: "
            f"git clone {ADDRESS}, then run this in the clone or set DRE_ROOT to it"
        )


def root() -> Path:
    """Return the folder with ``profiles/``: ``DRE_ROOT``, or where this package is."""
    folder = Path(os.environ.get("DRE_ROOT") or PROJECT)
    if not (folder / "profiles").is_dir():
        raise DreError(
            f"no profiles/ in {folder}: clone the whole project, and set DRE_ROOT to the clone"
        )
    return folder


def profile(name: str, folder: Path | str | None = None) -> Profile:
    """Return the profile of a name, which is that of a file in ``profiles/``.

    Parameters
    ----------
    name : str
    folder : path, optional
        The folder of the project, by default `root()`.

    Raises
    ------
    DreError
        If there is no such profile, or if its file has a fault; the message names the key.
    """
    folder = Path(folder or root())
    profile_names = sorted(path.stem for path in folder.glob("profiles/*.yaml"))
    if name not in profile_names:
        raise DreError(
            f"unknown profile '{name}': the profiles are {', '.join(profile_names) or 'none'} "
            "(files in profiles/)"
        )
    file = f"profiles/{name}.yaml"
    try:
        values = yaml.safe_load((folder / file).read_text(encoding="utf-8"))
        new_profile = Profile.model_validate({**values, "root": folder}, context=folder)
    except (yaml.YAMLError, TypeError) as error:
        raise DreError(f"{file}: no YAML with keys and values: {error}") from error
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, details['loc']))}: {details['msg']}" for details in error.errors()
        ]
        raise DreError(f"{file}: {'; '.join(faults)} (mini.yaml explains every key)") from error
    if new_profile.name != name:
        raise DreError(f"{file}: 'name' is '{new_profile.name}', expected '{name}', as the file's")
    return new_profile
