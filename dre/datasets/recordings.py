"""Recordings: what judges said of our pairs, and the hashes of the prompts and texts they read.

A recording is a folder. ``judgements.jsonl`` has a verdict a line (see `judgements`),
``manifest.json`` what was asked, and other files have what was asked in other forms. The texts that
a judge was shown are not all in the repository. ``hashes.json.gz`` has the beginning of a sha256
for each prompt, by name, and for each pair, by id. A recording answers for these alone. ``python
experiments/recordings/hash_recording.py`` writes the file.
"""

import functools
import gzip
import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from dre.datasets import ratings
from dre.datasets.dialogues import PUBLIC, TURNS, Context, histories, load, pairs
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


def judgements(folder: Path) -> tuple[list[dict], str]:
    """Return the lines of ``judgements.jsonl`` and the sha256 of the file.

    A line has ``pair_id``, ``prompt`` and either a score, in [0, 5], a label or a ``status`` that
    says why there is none; it may have ``repeat`` and ``influence``, in [0, 1]. DreError if one has
    something else, or if the file has not the sha256 that the manifest names.
    """
    path = folder / "judgements.jsonl"
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    try:
        expected = json.loads((folder / "manifest.json").read_bytes()).get("sha256", sha256)
    except (OSError, ValueError, AttributeError) as error:
        raise DreError(f"{folder}: a recording needs a manifest.json ({error})") from None
    if sha256 != expected:
        raise DreError(f"{path} has sha256 {sha256}, expected {expected}: get the file again")
    lines = read_jsonl(path)
    for number, line in enumerate(lines, 1):
        try:
            has_verdict = line.get("score") is not None or line.get("label") is not None
            is_right = line["pair_id"] and line["prompt"] and 0 <= (line.get("score") or 0) <= 5
            if not is_right or has_verdict != (line.get("status", "ok") == "ok"):
                raise ValueError("either a score from 0 to 5, a label, or a status")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DreError(f"{path}:{number}: found {line!r:.80}: expected {error}") from None
    return lines, sha256


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
    raise DreError(
        f"no recording {name!r}: give a folder with judgements.jsonl, or one of {names()}"
    )


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
    if isinstance(prompt_or_row, Mapping):
        texts = [*(prompt_or_row.get("context") or ()), prompt_or_row.get("response")]
        *turns, response = [" ".join(t.split()) if isinstance(t, str) else "" for t in texts]
        contents: Any = [turns, response]
    else:
        prompt = prompt_or_row
        contents = [prompt.template, prompt.scale, prompt.influence, prompt.labels]
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
    is_prompt = hasattr(prompt_or_row, "template")
    what = "prompt {} has other words, scales or labels" if is_prompt else "pair {} has other texts"
    raise DreError(
        f"{what.format(name)} here than those that {folder.name} was shown under this name: a "
        "recording has scores for the recorded texts alone, so ask a live judge"
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
    """
    contexts, responses = _training_texts()
    generic_numbers = {}
    rows = []
    for record in _lines(name, "training_scores.jsonl"):
        context = contexts[record["context"]]
        is_public = context.context_id.partition("/")[0] in PUBLIC
        response_id = record["response"]
        response = record.get("text") or responses[response_id]
        if response_id == "generic":
            number = generic_numbers.setdefault(response, len(generic_numbers))
            response_id = f"generic-{number}"
        row = {
            "pair_id": f"{record['context']} <- {response_id}",
            "context_id": record["context"],
            "set": context.set,
            "context": context.turns[-TURNS:] if is_public else context.turns,
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
