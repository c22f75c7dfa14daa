"""Refusing a profile that cannot be carried out, before anything is asked, fetched or trained."""

from pathlib import Path
from typing import Any

from dre import judges
from dre.datasets import dialogues, recordings
from dre.errors import DreError
from dre.judges import prompts, released
from dre.paper import printed_cases, printed_metrics
from dre.paper.profile import COMMITTED, RECORDED, JudgeSettings, Profile
from dre.slm import recipes


def check(settings: Profile) -> None:
    """Raise a DreError that says all that a profile names and nobody has.

    What a file in ``profiles/`` may say at all is checked when it is read. Nothing is fetched here.

    Parameters
    ----------
    settings : the profile.
    """
    faults = [*_faults(settings)]
    if faults:
        raise DreError(
            f"profiles/{settings.name}.yaml: {'; '.join(faults)}. Nothing was asked, fetched or "
            "trained"
        )


def _faults(settings):
    """Yield in words what cannot be carried out."""
    for name, model in settings.models.items():
        yield from _fault_of(f"models.{name}", recipes.get, model.recipe, model.epochs)
    for entry in settings.sets:
        for split_name in ("train", "dev", "test"):
            yield from _split_fault(settings, entry, split_name)
    for name in settings.extra.dialogues:
        if name not in dialogues.PUBLIC and "train" not in dialogues.SPLITS.get(name, ()):
            expected = ", ".join([*dialogues.PUBLIC, "dailydialog++-positives"])
            yield f"extra.dialogues names {name}, expected some of {expected}"
    graded = [name for name in settings.extra.graded if not recordings.exists(name)]
    yield from _unknown("extra.graded", graded, recordings.names())
    for judge in settings.judge_settings:
        yield from _judge_fault(settings, judge)
    yield from _unknown("prompts", settings.prompts, prompts.names())
    for name, file in settings.prompts.items():
        if name in prompts.names():
            yield from _fault_of(f"prompts.{name}", prompts.load, settings.root / file)
    for entry in settings.augment:
        yield from _augmentation_fault(settings, entry)
    yield from _unknown("metrics", settings.metrics, printed_metrics.MODELS)
    if settings.cases and settings.name == COMMITTED:
        yield f"cases: profile {COMMITTED} reads recorded scores of small models, take another one"
    elif settings.cases:
        yield from _fault_of("cases", printed_cases.read, settings.cases)
    if "huynh" in settings.optional_prompts and "fed-turn" not in settings.rated:
        yield "optional_prompts names huynh, whose items are those of fed-turn: name it in rated"


def _unknown(key, names, known):
    """Yield what a key of the profile names and nobody knows."""
    for name in names:
        if name not in known:
            yield f"{key} names {name}, expected some of {', '.join(known)}"


def _fault_of(key, function, *arguments):
    """Yield what a call has to object, with the key of the profile that it is about."""
    try:
        function(*arguments)
    except (DreError, OSError) as error:
        yield f"{key}: {error}"


def _split_fault(settings, entry, split_name):
    """Yield a fault if a set or its split does not exist, and no judge writes it."""
    name, joined_splits = getattr(entry, split_name)
    key = f"sets.{entry.key}.{split_name}"
    if name.endswith((".json", ".jsonl")):
        written = {str(settings.root / augmented.file) for augmented in settings.augment}
        if name not in written and not Path(name).is_file():
            yield f"{key}: there is no file {name}, and augment does not write it"
        return
    splits = joined_splits.split("+")
    if split_name == "train" and entry.more:
        splits += entry.more.split("+")
    known = dialogues.SPLITS.get(name)
    if known is None:
        yield f"{key}: there is no data set {name}, expected one of {', '.join(dialogues.SPLITS)}"
        return
    for split in splits:
        if split not in known:
            yield f"{key}: {name} has no split {split}, expected one of {', '.join(known)}"


def _judge_fault(settings, judge: JudgeSettings):
    """Yield a fault if a judge is none that can be opened."""
    if judge.is_live:
        yield from _fault_of("judges", _open, judge)
        return
    name = judge.model.removeprefix(RECORDED)
    is_there = recordings.exists(name) or recordings.exists(str(settings.root / name))
    if not is_there and released.name_of(name) is None:
        expected = ", ".join([*recordings.names(), *released.NAMES])
        yield (
            f"judges: there is no recording {name}, expected a folder with judgements.jsonl or "
            f"one of {expected}"
        )


def _open(judge: JudgeSettings) -> None:
    """Open a live judge and close it again: its model, options and price are checked."""
    options = {"temperature": judge.temperature, "logprobs": judge.logprobs}
    opened: Any = judges.open(judge.model, **options, **judge.connection)
    opened.close()


def _augmentation_fault(settings, entry):
    """Yield what keeps a training set from being written."""
    key = f"augment.{entry.file}"
    data_set, _, split = entry.contexts.partition(":")
    is_known = entry.contexts in dialogues.PUBLIC or split in dialogues.SPLITS.get(data_set, ())
    if not is_known and not Path(entry.contexts).is_file():
        expected = ", ".join(dialogues.PUBLIC)
        yield f"{key}: there are no contexts {entry.contexts}, expected {expected} or <set>:<split>"
    if entry.judge.is_live:
        yield from _fault_of(key, _open, entry.judge)
    else:
        yield f"{key}: its judge, {entry.judge.label}, is a recording, which writes nothing"
