"""Recordings: what judges said of our pairs, and the hashes of the prompts and texts they read.

A recording is a folder. ``judgements.jsonl`` has a `Judgement` a line, ``manifest.json`` the
prompts, and other files have what was asked in other forms. The texts that a judge was shown are
not all in the repository. ``hashes.json.gz`` has the beginning of a sha256 for each prompt, by
name, and for each pair, by id. A recording answers for these alone. ``python
experiments/recordings/hash_recording.py`` writes the file.
"""

import functools
import gzip
import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, Self

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dre.datasets import ratings, readers
from dre.datasets.dialogues import PUBLIC, TURNS, Context, context_sha256, histories, load, pairs
from dre.datasets.overlap import conversations
from dre.datasets.registry import PROJECT, fetch, read_jsonl
from dre.errors import DreError
from dre.files import sha256

FOLDER = PROJECT / "data" / "recorded"
FILE = "hashes.json.gz"
_HASH_LENGTH = 24  # characters
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
# The share of graded conversations that nothing is trained on, so that models can be chosen by it.
_SHARE_FOR_CHOICE = 0.2
_ABSENT: Any = None  # None itself is no number


class Judgement(BaseModel):
    """A line of ``judgements.jsonl``: what a judge said of a pair, or why it said nothing.

    Descriptions of fields say in an error what was expected.
    """

    model_config = ConfigDict(strict=True)

    pair_id: str = Field(description="the id of a pair")
    prompt: str = Field(description="a prompt of the manifest")
    #: which of several replies to the same prompt this is
    repeat: int = Field(0, ge=0, description="a whole number from 0 on")
    score: float = Field(_ABSENT, ge=0, le=5, description="a number from 0 to 5")
    influence: float = Field(_ABSENT, ge=0, le=1, description="a number from 0 to 1")
    label: Literal["Positive", "Negative"] | None = Field(None, description="Positive or Negative")
    #: why there is neither score nor label
    status: Literal["ok", "malformed", "refused", "truncated", "empty"] = Field(
        _ABSENT, description="one of malformed, refused, truncated, empty"
    )
    #: whose numbers of a small model the judge was shown, if another pair's
    shown: Any = None

    @model_validator(mode="after")
    def _has_one_outcome(self) -> Self:
        has_verdict = self.score is not None or self.label is not None
        if self.status is None and not has_verdict:
            raise ValueError("expected a score, a label, or a status that says why there is none")
        self.status = self.status or "ok"
        if (self.status == "ok") != has_verdict:
            raise ValueError(
                "expected either a score or a label, or a status that says why there is none; "
                f"status is {self.status!r}, and there is {'one' if has_verdict else 'neither'}"
            )
        return self


def judgements(folder: Path) -> list[tuple[str, Judgement]]:
    """Return the lines of ``judgements.jsonl``, each with its place: ``<file>:<line>``.

    DreError if a line or the manifest is not as it should be.
    """
    path = folder / "judgements.jsonl"
    manifest = _manifest(folder / "manifest.json")
    lines = []
    keys = set()
    for line, record in readers.records(path):
        location = f"{path}:{line}"
        try:
            judgement = Judgement.model_validate(record)
        except ValidationError as error:
            raise DreError(f"{location}: {_fault(error.errors()[0])}") from None
        key = (judgement.prompt, judgement.repeat, judgement.pair_id)
        if judgement.prompt not in manifest["prompts"] or key in keys:
            problem = "is there twice" if key in keys else f"has prompt {judgement.prompt!r:.60}"
            raise DreError(
                f"{location}: expected a prompt of the manifest and a pair_id, once a repeat; "
                f"{judgement.pair_id} {problem}"
            )
        keys.add(key)
        lines.append((location, judgement))

    # Whose numbers were shown is only known when all lines are.
    for location, judgement in lines:
        source_id = judgement.shown
        if source_id is None:
            continue
        is_text = isinstance(source_id, str)
        is_judged = is_text and (judgement.prompt, judgement.repeat, source_id) in keys
        own_set = judgement.pair_id.partition("/")[0]
        if not is_judged or source_id.partition("/")[0] != own_set:
            raise DreError(
                f"{location}: shown is {source_id!r:.60}, expected a pair of the same set that was "
                "judged by this prompt, too"
            )

    n_expected = manifest.get("judgements", len(lines))
    if len(lines) != n_expected:
        in_words = f"{n_expected:,}" if isinstance(n_expected, int) else repr(n_expected)
        raise DreError(
            f"{path}: found {len(lines):,} judgements, but its manifest says {in_words}: "
            "get the file again"
        )
    return lines


def _fault(details):
    """Return in words what is wrong with a line, from what pydantic found."""
    if details["type"] == "value_error":
        return details["msg"].removeprefix("Value error, ")
    if not details["loc"]:
        return "expected an object with prompt, pair_id and a score"
    (name,) = details["loc"]
    value = None if details["type"] == "missing" else details["input"]
    return f"{name} is {value!r:.60}, expected {Judgement.model_fields[name].description}"


def names() -> list[str]:
    """Return the names of the recordings of this project."""
    return sorted(path.parent.name for path in FOLDER.glob("*/judgements.jsonl"))


def exists(name: str) -> bool:
    """Return whether there is a recording of this name or path."""
    return (_path_of(name) / "judgements.jsonl").is_file()


def folder(name: str) -> Path:
    """Return the folder of a recording by its name or path; raise `DreError` if there is none."""
    if exists(name):
        return _path_of(name)
    if names():
        advice = f"or one of {', '.join(names())}"
    else:
        advice = "or run from a clone of the repository, which has one"
    raise DreError(f"no recording {name!r}: give a folder with judgements.jsonl, {advice}")


def _path_of(name):
    path = FOLDER / name
    return path if path.is_dir() else Path(name)


def hash_of(prompt_or_row: Any) -> str:
    """Return the hash of a prompt or a pair, by which a recording recognises it.

    Parameters
    ----------
    prompt_or_row : dre.judges.prompts.Prompt or dict
        A prompt, of which the text, the scales and the labels count; or a row with ``context`` (a
        sequence of turns) and ``response`` (a text; a whole dialogue has none), of which the words
        count and the spaces do not, since no judge sees them.

    Returns
    -------
    str
        The first 24 hexadecimal digits of a sha256.
    """
    if not isinstance(prompt_or_row, Mapping):
        contents = [
            prompt_or_row.template,
            prompt_or_row.scale,
            prompt_or_row.influence,
            prompt_or_row.labels,
        ]
    else:
        turns = prompt_or_row.get("context") or ()
        response = prompt_or_row.get("response")
        contents = [
            [" ".join(turn.split()) for turn in turns],
            " ".join(response.split()) if isinstance(response, str) else "",
        ]
    text = json.dumps(contents, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return digest[:_HASH_LENGTH]


def check_hash(folder: Path, name: str, prompt_or_row: Any) -> None:
    """Raise `DreError` unless a prompt or a row is the one that was recorded under a name.

    Parameters
    ----------
    folder : Path
        The folder of the recording.
    name : str
        The name of the prompt, or the id of the pair.
    prompt_or_row : dre.judges.prompts.Prompt or dict
        As for `hash_of`.
    """
    if _load_hashes(folder).get(name) == hash_of(prompt_or_row):
        return
    if hasattr(prompt_or_row, "template"):
        difference = f"prompt {name} has other words, scales or labels"
    else:
        difference = f"pair {name} has other texts"
    raise DreError(
        f"{difference} here than those that {folder.name} was shown under this name: a recording "
        "has scores for the recorded texts alone, so ask a live judge"
    )


@functools.lru_cache(maxsize=4)
def _load_hashes(folder):
    """The hashes of a recording by the name of a prompt or the id of a pair."""
    path = folder / FILE
    try:
        hashes = json.loads(gzip.decompress(path.read_bytes()))
        if not isinstance(hashes, dict):
            raise ValueError("not an object")
    except (OSError, EOFError, ValueError):
        raise DreError(
            f"{path}: expected hashes of what the judge was shown: "
            "python experiments/recordings/hash_recording.py makes them"
        ) from None
    return hashes


def _lines(name, file_name):
    """Return the records of a JSON Lines file of a recording."""
    return read_jsonl(folder(name) / file_name)


def fed_judged(name: str = NAME) -> pd.DataFrame:
    """Return the ratings that a recorded judge gave FED's qualities.

    All qualities of an item were rated in one reply, so these are not verdicts of the prompts
    ``quality_...``.

    Returns
    -------
    Columns ``item`` and ``quality`` as in `dre.datasets.ratings.fed_qualities`, ``examples`` (one
    of `SHOWN`) and ``score``. Items that were shown as examples to all others are missing from it.
    """
    dialogues = ratings.fed_dialogues().rename(columns={"turns": "context"}).assign(response="")
    _check_recorded_texts(name, ratings.rated("fed-turn"), dialogues)
    rows = [
        (record["item"], record["examples"], quality, float(score))
        for record in _lines(name, "fed_qualities.jsonl")
        for quality, score in record["ratings"].items()
    ]
    return pd.DataFrame(rows, columns=["item", "examples", "quality", "score"])


def criteria(name: str = NAME) -> pd.DataFrame:
    """Return the ratings by criterion that a recorded judge gave.

    They are on the scales of the prompts ``geval_...`` and ``analyse_rate_...``, but all criteria
    of a pair were rated in one reply.

    Returns
    -------
    Columns ``pair_id``, ``prompt`` (the family of prompts), and one for each criterion.
    """
    records = _lines(name, "criteria.jsonl")
    table = pd.DataFrame(records).drop(columns="analysis")
    sets = table["pair_id"].str.partition("/")[0].unique()
    _check_recorded_texts(name, *(ratings.rated(set_name) for set_name in sets))
    return table


def _check_recorded_texts(name, *tables):
    """Raise DreError if texts of pairs are not those that were shown to the recorded judge."""
    own_folder = folder(name)
    for row in pd.concat(tables).to_dict("records"):
        check_hash(own_folder, row["pair_id"], row)


def numbers_shown(name: str = NAME, file_name: str = "dre_inputs.csv") -> pd.DataFrame:
    """Return the numbers of a small model that a recorded judge was shown.

    Returns
    -------
    ``s_d`` and ``s_p`` by ``pair_id``.
    """
    numbers = pd.read_csv(folder(name) / file_name, index_col="pair_id")
    return numbers.loc[:, ["s_d", "s_p"]]


def classifier(name: str) -> pd.Series:
    """Return the released scores of a classifier on DailyDialog++ test.

    Parameters
    ----------
    name : one of `CLASSIFIERS`.

    Returns
    -------
    Scores in [0, 1] by ``pair_id``; a response counts as positive from 0.5.
    """
    scores_by_id = json.loads(fetch(f"{name} (random + adversarial negatives)*.json").read_bytes())
    scores = pd.Series(scores_by_id, dtype=float, name=name)
    return scores.add_prefix("dailydialog++-test/").rename_axis("pair_id")


def labels(name: str = NAME) -> pd.Series:
    """Return the recorded class labels, ``Positive`` or ``Negative``, by ``pair_id``."""
    table = pd.DataFrame(_lines(name, "judgements.jsonl"))
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
    contexts, responses = _training_texts()
    generic_numbers = {}
    rows = []
    for record in _lines(name, "training_scores.jsonl"):
        context_id = record["context"]
        context = contexts[context_id]
        is_public = context_id.partition("/")[0] in PUBLIC
        turns = context.turns[-TURNS:] if is_public else context.turns
        response_id = record["response"]
        if response_id == "generic":
            response = record["text"]
            number = generic_numbers.setdefault(response, len(generic_numbers))
            response_id = f"generic-{number}"
        else:
            response = responses.get(response_id)
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
    contexts, responses = _training_texts()
    conversation_of = conversations(contexts)
    rows = []
    for record in _lines(name, "graded.jsonl"):
        context_id = record["context"]
        kind = record["kind"]
        conversation = conversation_of(context_id)
        turns = contexts[context_id].turns[-record["turns"] :]
        if kind == "echo":
            response = turns[record["turn"]]
        elif "text" in record:
            response = record["text"]
        else:
            response = responses[record["response"]]
        if kind == "truncated":
            response = " ".join(response.split()[: record["words"]])
        _check_scored_texts(record, turns, response)
        row = {
            "context_id": context_id,
            "conversation": conversation,
            "set": context_id.partition("/")[0],
            "context": turns,
            "response": response,
            "kind": kind,
            "score": float(record["score"]),
            "for_choice": _is_for_choice(conversation),
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
    context_ids = {record["context"] for record in _lines(name, "graded.jsonl")}
    chosen_ids = [id for id in context_ids if id.partition("/")[0] in sources]
    return set(filter(_is_for_choice, map(conversations(chosen_ids), chosen_ids)))


def _is_for_choice(conversation):
    """Tell whether a conversation is in the fifth for choice, by its id alone."""
    first_digits = sha256(conversation)[:8]
    return int(first_digits, 16) < _SHARE_FOR_CHOICE * 16**8


def _check_scored_texts(record, turns, response):
    """Raise DreError if the texts of a pair are not those that were scored."""
    present = {
        "context_sha256": context_sha256(turns),
        "response_sha256": context_sha256([response]),
    }
    if any(record.get(name, digest) != digest for name, digest in present.items()):
        raise DreError(
            f"{record['context']}: these are not the texts that were graded; "
            "run `dre data fetch` again"
        )


def _training_texts() -> tuple[dict[str, Context], dict[str, str]]:
    """Return the contexts and responses, by id, that recorded scores of training pairs may name.

    Public contexts have all turns of their conversation before the reply.
    """
    labelled = load("dailydialog++", "dev") + load("dailydialog++-positives", "train")
    contexts = {context.context_id: context for context in labelled}
    table = pairs(labelled, "par")
    responses = dict(zip(table["pair_id"], table["response"]))
    for source, (set_name, domain) in PUBLIC.items():
        for id, history in histories(source).items():
            contexts[id] = Context(set_name, id, "train", history.turns, domain=domain)
            responses[id] = history.reply
    return contexts, responses


def _manifest(path):
    """The manifest of a recording as a dict, whose ``prompts`` are a dict too."""
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise DreError(
            f"{path}: there is no such file, or it cannot be opened; a recording needs it: "
            "get the recording again"
        ) from None
    except ValueError as error:  # also another encoding
        raise DreError(f"{path}: expected JSON in UTF-8 ({error}): get the file again") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("prompts"), dict):
        raise DreError(
            f'{path}: expected an object with a key "prompts", which has a key for each prompt: '
            "get the file again"
        )
    return manifest
