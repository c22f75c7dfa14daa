"""Responses that people rated, and scores of them that were recorded for or before this project."""

import functools
import hashlib
import io
import json
import math
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

import pandas as pd

from dre.datasets import recordings
from dre.datasets.dialogues import KINDS, PUBLIC, TURNS, context_sha256, histories, load
from dre.datasets.overlap import conversations
from dre.datasets.registry import fetch, read_jsonl, repository_file
from dre.errors import DreError

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
#: Classifiers whose scores of DailyDialog++ test were released.
CLASSIFIERS = ("DEB", "RUBER-Large")
#: The recording that is read unless another one is named.
NAME = "claude-2026-11"
#: By name, the examples that the recorded judge was shown when it rated FED's qualities.
SHOWN = {
    "zero": "zero-shot",
    "random0": "random 1",
    "random1": "random 2",
    "random2": "random 3",
    "bm25": "BM25",
    "manual": "by hand",
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
# The share of graded conversations that nothing is trained on, so that models can be chosen by it.
_SHARE_FOR_CHOICE = 0.2


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
    if name in _USR_FILES:
        content = fetch(_USR_FILES[name]).read_bytes()
        return _usr(name, content).copy()
    if name == "fed-turn":
        turns, _ = _fed_tables()
        return turns
    content = fetch(f"{name}.csv").read_bytes()
    return _xdial(name, content).copy()


def translated(name: str) -> dict[str, pd.DataFrame]:
    """Return `rated` of a set in the `LANGUAGES` that xDial-Eval has of it.

    Returns
    -------
    A table by language code, with the same rows in each. ``context`` and ``response`` are in that
    language, machine-translated but for English. TopicalChat-USR is not there.
    """
    table = rated(name)
    file_name = "persona-usr" if name == "personachat-usr" else name
    columns = []
    for language in LANGUAGES.values():
        columns += [f"{language}_ctx", f"{language}_res"]
    file = pd.read_csv(fetch(f"/{file_name}.csv"), keep_default_na=False, usecols=columns)
    file = file.map(str.strip)

    # Its rows are in another order than those of the USR file, and some have the same text.
    rows_by_text: dict[tuple, list[int]] = {}
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
    for i, record in enumerate(_read_json(_FED_FILE)):
        if "response" in record:
            item = f"fed-turn/{i}"
            level = "turn"
        else:
            item = f"fed-dialog/{i}"
            level = "dialogue"
        for quality, values in _annotations(record).items():
            row = {
                "item": item,
                "level": level,
                "context_id": context_ids[item],
                "quality": quality,
                "ratings": values,
                "human": _mean(values),
            }
            rows.append(row)
    return pd.DataFrame(rows)


def fed_judged(name: str = NAME) -> pd.DataFrame:
    """Return the ratings that a recorded judge gave FED's qualities.

    All qualities of an item were rated in one reply, so these are not verdicts of the prompts
    ``quality_...``.

    Returns
    -------
    Columns ``item`` and ``quality`` as in `fed_qualities`, ``examples`` (one of `SHOWN`) and
    ``score``. Items that were shown as examples to all others are missing from it.
    """
    turns, dialogues = _fed_tables()
    dialogues = dialogues.rename(columns={"turns": "context"}).assign(response="")
    _check_recorded_texts(name, turns, dialogues)
    rows = []
    for record in read_jsonl(repository_file("recorded", name, "fed_qualities.jsonl")):
        for quality, score in record["ratings"].items():
            row = {
                "item": record["item"],
                "examples": record["examples"],
                "quality": quality,
                "score": float(score),
            }
            rows.append(row)
    return pd.DataFrame(rows)


def criteria(name: str = NAME) -> pd.DataFrame:
    """Return the ratings by criterion that a recorded judge gave.

    They are on the scales of the prompts ``geval_...`` and ``analyse_rate_...``, but all criteria
    of a pair were rated in one reply.

    Returns
    -------
    Columns ``pair_id``, ``prompt`` (the family of prompts), and one for each criterion.
    """
    records = read_jsonl(repository_file("recorded", name, "criteria.jsonl"))
    table = pd.DataFrame(records).drop(columns="analysis")
    sets = table["pair_id"].str.partition("/")[0].unique()
    _check_recorded_texts(name, *(rated(set_name) for set_name in sets))
    return table


def _check_recorded_texts(name, *tables):
    """Raise DreError if texts of pairs are not those that were shown to the recorded judge."""
    folder = recordings.folder(name)
    for row in pd.concat(tables).to_dict("records"):
        recordings.check_hash(folder, row["pair_id"], row)


def rated_tables(names: Sequence[str] = tuple(RATED)) -> list[pd.DataFrame]:
    """Return the tables that training must share no utterance with.

    These are the rated sets, and with FED's turns its whole dialogues, too.
    """
    tables = [rated(name) for name in names]
    if "fed-turn" in names:
        tables.append(fed_dialogues())
    return tables


def classifier(name: str) -> pd.Series:
    """Return the released scores of a classifier on DailyDialog++ test.

    Parameters
    ----------
    name : one of `CLASSIFIERS`.

    Returns
    -------
    Scores in [0, 1] by ``pair_id``; a response counts as positive from 0.5.
    """
    scores_by_id = _read_json(f"{name} (random + adversarial negatives)*.json")
    scores = pd.Series(scores_by_id, dtype=float, name=name)
    return scores.add_prefix("dailydialog++-test/").rename_axis("pair_id")


def labels(name: str = NAME) -> pd.Series:
    """Return the recorded class labels, ``Positive`` or ``Negative``, by ``pair_id``."""
    table = pd.DataFrame(read_jsonl(repository_file("recorded", name, "judgements.jsonl")))
    classified = table[table["prompt"] == "classify"]
    return pd.Series(classified.set_index("pair_id")["label"])


def training_scores(name: str = NAME) -> pd.DataFrame:
    """Return the recorded LLM-only scores of pairs on training contexts, for distillation.

    Returns
    -------
    Columns ``pair_id`` (``<context id> <- <response id>``); ``context_id, set``; ``context`` (tuple
    of turns); ``response``; ``response_id``; ``score`` (0-5); ``domain``. A response id is that of
    the record which the text comes from (a pair id, or the id of the context whose reply it is), or
    ``generic-<number>``.

    Raises
    ------
    DreError
        If a text is not the one that was scored.
    """
    texts = _training_texts()
    generic_numbers: dict[str, int] = {}
    rows = []
    for record in read_jsonl(repository_file("recorded", name, "training_scores.jsonl")):
        context_id = record["context"]
        context = texts.contexts[context_id]
        is_public = context_id.partition("/")[0] in PUBLIC
        turns = context.turns[-TURNS:] if is_public else context.turns
        response_id = record["response"]
        if response_id == "generic":
            response = record["text"]
            number = generic_numbers.setdefault(response, len(generic_numbers))
            response_id = f"generic-{number}"
        else:
            response = texts.responses.get(response_id)
        _check_scored_texts(record, turns, response)
        row = {
            "pair_id": f"{context_id} <- {response_id}",
            "context_id": context_id,
            "set": context.set,
            "context": turns,
            "response": response,
            "response_id": response_id,
            "score": float(record["score"]),
            "domain": context.domain,
        }
        rows.append(row)
    return pd.DataFrame(rows)


def graded(name: str = NAME) -> pd.DataFrame:
    """Return the recorded LLM-only scores of responses of ten kinds to training contexts.

    There are 5,468 pairs on 696 contexts of 1 to 17 turns. Five kinds were written for the purpose:
    good, bland, off, contradicts, garbled. The others are reference, retrieved, random, truncated
    (the first words of a response) and echo (a turn of the context).

    Returns
    -------
    Columns ``context_id``; ``conversation``, the unit to keep from training, which contexts of one
    ConvAI2 or Topical-Chat conversation share; ``set``; ``context`` (tuple of turns, of a
    conversation also those before the last three); ``response, kind``; ``score`` (0-5);
    ``for_choice``, whether the conversation belongs to the fifth that nothing is trained on and
    that models are chosen by. Ids alone decide that.

    Raises
    ------
    DreError
        If a text is not the one that was graded.
    """
    texts = _training_texts()
    rows = []
    for record in read_jsonl(repository_file("recorded", name, "graded.jsonl")):
        context_id = record["context"]
        kind = record["kind"]
        context = texts.contexts[context_id]
        turns = context.turns[-record["turns"] :]
        if kind == "echo":
            response = turns[record["turn"]]
        elif "text" in record:
            response = record["text"]
        else:
            response = texts.responses[record["response"]]
        if kind == "truncated":
            response = " ".join(response.split()[: record["words"]])
        _check_scored_texts(record, turns, response)
        row = {
            "context_id": context_id,
            "conversation": context.conversation,
            "set": context_id.partition("/")[0],
            "context": turns,
            "response": response,
            "kind": kind,
            "score": float(record["score"]),
            "for_choice": _is_for_choice(context.conversation),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def conversations_for_choice(sources: Collection[str], name: str = NAME) -> set[str]:
    """Return the ids of the graded conversations of some sources that nothing is trained on.

    Parameters
    ----------
    sources : the first parts of context ids, such as ``mini`` or ``convai2-valid``. The file of a
        public source is read, and fetched where it is absent; those of others are not.
    name : the recording.
    """
    records = read_jsonl(repository_file("recorded", name, "graded.jsonl"))
    context_ids = []
    for record in records:
        source = record["context"].partition("/")[0]
        if source in sources:
            context_ids.append(record["context"])
    conversation_of = conversations(context_ids)
    all_conversations = {conversation_of(context_id) for context_id in context_ids}
    return {conversation for conversation in all_conversations if _is_for_choice(conversation)}


def _is_for_choice(conversation):
    """Tell whether a conversation is in the fifth for choice, by its id alone."""
    first_digits = hashlib.sha256(conversation.encode()).hexdigest()[:8]
    return int(first_digits, 16) < _SHARE_FOR_CHOICE * 16**8


def _check_scored_texts(record, turns, response):
    """Raise DreError if the texts of a pair are not those that were scored."""
    present = {
        "context_sha256": context_sha256(turns),
        "response_sha256": context_sha256([response]),
    }
    for name, digest in present.items():
        if record.get(name, digest) != digest:
            raise DreError(
                f"{record['context']}: these are not the texts that were graded; "
                "run `dre data fetch` again"
            )


class _TrainingContext(NamedTuple):
    """A context that a judge was asked about: its conversation, turns, data set and domain."""

    conversation: str
    turns: tuple[str, ...]
    set: str
    domain: str


class _TrainingTexts(NamedTuple):
    """Training contexts by their ids, and the texts of responses by theirs."""

    contexts: dict[str, _TrainingContext]
    responses: dict[str, str]


def _training_texts():
    """Return the contexts and responses that recorded scores of training pairs may name."""
    contexts = {}
    responses = {}
    for context in load("dailydialog++", "dev") + load("dailydialog++-positives", "train"):
        contexts[context.context_id] = _TrainingContext(
            context.context_id, context.turns, context.set, context.domain
        )
        for kind in KINDS:
            for i, text in enumerate(context.responses(kind)):
                responses[context.pair_id(kind, i)] = text
    for source, (set_name, domain) in PUBLIC.items():
        for context_id, history in histories(source).items():
            contexts[context_id] = _TrainingContext(
                history.conversation, history.turns, set_name, domain
            )
            responses[context_id] = history.reply
    return _TrainingTexts(contexts, responses)


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


def _read_json(ending):
    return json.loads(fetch(ending).read_bytes())


# Tables are asked for again and again, so each is made once of the content of its file. Whoever
# asks gets a copy.
@functools.lru_cache(maxsize=8)
def _usr(name, content):
    """Return the table of one of the two USR sets."""
    rows = []
    for i, record in enumerate(json.loads(content)):
        turns = turns_of(record["context"])
        response_by_system = {}
        for response in record["responses"]:
            response_by_system[response["model"]] = response["response"].strip()
        for k, response in enumerate(record["responses"]):
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
                "human": _mean(response["Overall"]),
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
    context_numbers: dict[tuple, int] = {}
    first_responses: dict[tuple, str] = {}
    rows = []
    for i, record in enumerate(file.to_dict("records")):
        turns = turns_of(record["english_ctx"])
        response = record["english_res"].strip()
        rating = record["ratings"]
        context_number = context_numbers.setdefault(turns, len(context_numbers))
        first_response = first_responses.setdefault(turns, response)
        row = {
            "pair_id": f"{name}/{i}",
            "context_id": f"{name}/context-{context_number}",
            "set": name,
            "system": "",
            "context": turns,
            "response": response,
            "reference": first_response if name == "dailydialog-zhao" else None,
            "ratings": [rating],
            "human": _mean([rating]),
        }
        rows.append(row)
    return pd.DataFrame(rows)


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
    turns = []
    dialogues = []
    context_id = None
    records = list(enumerate(json.loads(content)))
    for i, record in reversed(records):
        spoken = turns_of(_SPEAKER.sub("", record["context"]))
        qualities = _annotations(record)
        overall = qualities.pop("Overall")
        is_turn = "response" in record
        if is_turn:
            row = {
                "pair_id": f"fed-turn/{i}",
                "context_id": context_id,
                "set": "fed-turn",
                "system": record["system"],
                "context": spoken,
                "response": _SPEAKER.sub("", record["response"]).strip(),
                "reference": None,
                "ratings": overall,
                "human": _mean(overall),
                **_criteria_means(qualities),
            }
            turns.append(row)
        else:
            context_id = f"fed-turn/dialogue-{i}"
            row = {
                "pair_id": f"fed-dialog/{i}",
                "context_id": context_id,
                "set": "fed-dialog",
                "system": record["system"],
                "turns": spoken,
                "ratings": overall,
                "human": _mean(overall),
                **_criteria_means(qualities),
            }
            dialogues.append(row)
    return pd.DataFrame(turns[::-1]), pd.DataFrame(dialogues[::-1])


def _annotations(record):
    """Return the raters' values of each quality of a record of FED.

    NaN where a rater wrote a reason in words instead of a number.
    """
    values_by_quality = {}
    for quality, values in record["annotations"].items():
        values_by_quality[quality] = [
            math.nan if isinstance(value, str) else float(value) for value in values
        ]
    return values_by_quality


def _criteria_means(values_by_criterion):
    """Return the mean of each criterion, by its name as a column."""
    return {
        name.lower().replace(" ", "_"): _mean(values)
        for name, values in values_by_criterion.items()
    }


def _mean(values):
    """Return the mean of those values that are numbers, NaN if there are none."""
    numbers = [value for value in values if not math.isnan(value)]
    return math.fsum(numbers) / len(numbers) if numbers else math.nan
