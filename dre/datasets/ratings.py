"""Responses that people rated."""

import functools
import io
import json
import math
import re
from collections.abc import Sequence
from numbers import Real
from typing import Any

import pandas as pd

from dre.datasets.registry import fetch

#: The rated sets, and what tables call them.
RATED = {
    "dailydialog-zhao": "DailyDialog",
    "personachat-usr": "PersonaChat",
    "topicalchat-usr": "TopicalChat",
    "fed-turn": "FED turns",
    "dailydialog-gupta": "DailyDialog-Gupta",
    "dailydialog-grade": "DailyDialog-GRADE",
    "empathetic-grade": "Empathetic-GRADE",
}
#: The languages that are used here, of the ten that xDial-Eval has.
LANGUAGES = {"en": "english", "es": "spanish", "zh": "chinese"}
_USR_FILES = {
    "personachat-usr": "usr_percona_chat.json",
    "topicalchat-usr": "usr_topical_chat.json",
}
_FED_FILE = "data/fed_data.json"
_USR_CRITERIA = ("Understandable", "Natural", "Maintains Context", "Engaging", "Uses Knowledge")
# FED writes the speaker before each turn. Turns are text only in every set.
_SPEAKER = re.compile("^(User|System):", re.MULTILINE)


def rated(name: str) -> pd.DataFrame:
    """Return the responses of a set with their human ratings, one row each.

    Parameters
    ----------
    name : one of `RATED`.

    Returns
    -------
    Columns ``pair_id``; ``context_id``, the unit of resampling; ``set``; ``system``, empty where
    the source does not say; ``context`` (tuple of turns); ``response``; ``reference``; ``ratings``,
    the overall value of each rater; ``human``, their mean; and the mean of every other criterion.
    The USR sets also have ``knowledge``, the persona or the facts that a response may use.
    Where a rater wrote no number, the value is NaN and in no mean. PersonaChat-USR and
    TopicalChat-USR have three raters (overall 1-5), FED turns five (0-4), the others only the mean
    overall (1-5).

    Notes
    -----
    The reference of the USR sets is the response of the system "Original Ground Truth". That of
    DailyDialog-Zhao is the first of the nine responses: wherever DailyDialog++ shows how one of
    these dialogues went on, it is what followed. Both are rated themselves, so a metric that
    compares with the reference should leave them out. The other sets have no reference (None).
    """
    if name == "fed-turn":
        turns, _ = _fed_tables()
        return turns
    read = _usr if name in _USR_FILES else _xdial
    file = fetch(_USR_FILES.get(name, f"{name}.csv"))
    return read(name, file.read_bytes()).copy()


def translated(name: str) -> dict[str, pd.DataFrame]:
    """Return `rated` of a set in the `LANGUAGES` that xDial-Eval has of it.

    Returns
    -------
    A table by language code, with the same rows in each. ``context`` and ``response`` are in that
    language, machine-translated but for English. TopicalChat-USR is not there.
    """
    table = rated(name)
    file_name = "persona-usr" if name == "personachat-usr" else name
    columns = [f"{language}_{text}" for language in LANGUAGES.values() for text in ("ctx", "res")]
    file = pd.read_csv(fetch(f"/{file_name}.csv"), keep_default_na=False, usecols=columns)
    file = file.map(str.strip)

    # Its rows are in another order than those of the USR file, and some have the same text.
    rows_by_text = {}
    for row, text in enumerate(zip(table["context"], table["response"])):
        rows_by_text.setdefault(text, []).append(row)
    texts = zip(file["english_ctx"].map(turns_of), file["english_res"])
    rows = [rows_by_text[text].pop(0) for text in texts]
    file = file.set_index(pd.Index(rows)).sort_index()

    tables = {}
    for code, language in LANGUAGES.items():
        contexts = file[f"{language}_ctx"].map(turns_of)
        tables[code] = table.assign(context=contexts, response=file[f"{language}_res"])
    return tables


def fed_dialogues() -> pd.DataFrame:
    """Return FED's 125 whole dialogues as `rated` does.

    Instead of context and response they have ``turns`` (tuple). They share the context ids of their
    turns.
    """
    _, dialogues = _fed_tables()
    return dialogues


def fed_qualities() -> pd.DataFrame:
    """Return FED's qualities with every rater: nine of each turn, eleven of each dialogue.

    Returns
    -------
    One row for each quality of an item. Columns ``item``, a ``pair_id`` of ``rated("fed-turn")`` or
    `fed_dialogues`; ``level`` (turn or dialogue); ``context_id``, the dialogue, which is the unit
    of resampling; ``quality``, as FED spells it; ``ratings``, five values (0-2; 0-1 for
    Understandable and Consistent; 0-4 for Overall; NaN where a rater wrote a reason instead); and
    ``human``, the mean of those that are numbers.
    """
    context_ids = pd.concat(_fed_tables()).set_index("pair_id")["context_id"].to_dict()
    rows = []
    for i, record in enumerate(json.loads(fetch(_FED_FILE).read_bytes())):
        item = f"{_set_in_fed(record)}/{i}"
        level = "turn" if "response" in record else "dialogue"
        for quality, values in _annotations(record).items():
            row = {
                "item": item,
                "level": level,
                "context_id": context_ids[item],
                "quality": quality,
                "ratings": values,
                "human": mean(values),
            }
            rows.append(row)
    return pd.DataFrame(rows)


def rated_tables(names: Sequence[str] = tuple(RATED)) -> list[pd.DataFrame]:
    """Return the tables that training must share no utterance with.

    These are the rated sets, and with FED's turns its whole dialogues, too.
    """
    tables = [rated(name) for name in names]
    if "fed-turn" in names:
        tables.append(fed_dialogues())
    return tables


def ids_by_text(name: str) -> dict[tuple[tuple[str, ...], str, str], str]:
    """Return the pair id of every response of a rated set by (context, system, response).

    The system is part of the key since two systems may give the same response.
    """
    table = rated(name)
    keys = zip(table["context"], table["system"], table["response"])
    return dict(zip(keys, table["pair_id"]))


def turns_of(text: str) -> tuple[str, ...]:
    """Return the turns of a context that is written with a turn on each line.

    They are stripped, and empty lines are left out.
    """
    return tuple(line.strip() for line in text.split("\n") if line.strip())


# Tables are asked for again and again, so each is made once of the content of its file. Whoever
# asks gets a copy.
@functools.lru_cache(maxsize=8)
def _usr(name, content):
    """Return the table of one of the two USR sets."""
    rows = []
    for i, record in enumerate(json.loads(content)):
        turns = turns_of(record["context"])
        replies = record["responses"]
        response_by_system = {reply["model"]: reply["response"].strip() for reply in replies}
        for k, response in enumerate(replies):
            row = {
                "pair_id": f"{name}/{i}/{k}",
                "context_id": f"{name}/{i}",
                "set": name,
                "system": response["model"],
                "context": turns,
                "response": response_by_system[response["model"]],
                "reference": response_by_system["Original Ground Truth"],
                "knowledge": record["fact"].strip(),
                "ratings": response["Overall"],
                "human": mean(response["Overall"]),
                **_criteria_means({name: response[name] for name in _USR_CRITERIA}),
            }
            rows.append(row)
    return pd.DataFrame(rows)


@functools.lru_cache(maxsize=8)
def _xdial(name, content):
    """Return the table of a set of xDial-Eval, which has the mean rating of each response.

    Its contexts have no ids; distinct ones are numbered as they come.
    """
    columns = ["english_ctx", "english_res", "ratings"]
    file = pd.read_csv(io.BytesIO(content), keep_default_na=False, usecols=columns)
    turns = file["english_ctx"].map(turns_of)
    responses = file["english_res"].str.strip()
    context_numbers, _ = pd.factorize(turns)
    first_responses = responses.groupby(context_numbers).transform("first")
    return pd.DataFrame(
        {
            "pair_id": [f"{name}/{i}" for i in file.index],
            "context_id": [f"{name}/context-{number}" for number in context_numbers],
            "set": name,
            "system": "",
            "context": turns,
            "response": responses,
            "reference": first_responses if name == "dailydialog-zhao" else None,
            "ratings": [[rating] for rating in file["ratings"]],
            "human": file["ratings"],
        }
    )


def _fed_tables():
    """Return two tables: FED's turns and its dialogues."""
    content = fetch(_FED_FILE).read_bytes()
    turns, dialogues = _fed(content)
    return turns.copy(), dialogues.copy()


@functools.lru_cache(maxsize=2)
def _fed(content):
    """Return the tables of turns and dialogues of the file.

    In the file a dialogue follows its turns, so the file is read from its end. A dialogue and its
    turns share a context id, which has the dialogue's index.
    """
    rows = {"fed-turn": [], "fed-dialog": []}
    context_id = None
    records = list(enumerate(json.loads(content)))
    for i, record in reversed(records):
        set_name = _set_in_fed(record)
        spoken = turns_of(_SPEAKER.sub("", record["context"]))
        qualities = _annotations(record)
        overall = qualities.pop("Overall")
        if set_name == "fed-turn":
            response = _SPEAKER.sub("", record["response"]).strip()
            texts = {"context": spoken, "response": response, "reference": None}
        else:
            context_id = f"fed-turn/dialogue-{i}"
            texts = {"turns": spoken}
        row = {
            "pair_id": f"{set_name}/{i}",
            "context_id": context_id,
            "set": set_name,
            "system": record["system"],
            **texts,
            "ratings": overall,
            "human": mean(overall),
            **_criteria_means(qualities),
        }
        rows[set_name].append(row)
    turns, dialogues = (pd.DataFrame(own_rows[::-1]) for own_rows in rows.values())
    return turns, dialogues


def _set_in_fed(record):
    """Return the set of a record of FED, which is a turn or a whole dialogue."""
    return "fed-turn" if "response" in record else "fed-dialog"


def _annotations(record):
    """Return the raters' values of each quality of a record of FED.

    NaN where a rater wrote a reason in words instead of a number.
    """
    return {
        quality: [math.nan if isinstance(value, str) else float(value) for value in values]
        for quality, values in record["annotations"].items()
    }


def _criteria_means(values_by_criterion):
    """Return the mean of each criterion, by its name as a column."""
    means = {}
    for name, values in values_by_criterion.items():
        column = name.lower().replace(" ", "_")
        means[column] = mean(values)
    return means


def mean(values: Sequence[Any]) -> float:
    """Return the mean of those values that are numbers, NaN if there are none."""
    numbers = [value for value in values if isinstance(value, Real) and not math.isnan(value)]
    return math.fsum(numbers) / len(numbers) if numbers else math.nan
