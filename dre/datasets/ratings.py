"""Responses that people rated, and scores of them that were recorded for or before this project."""

import hashlib
import json
import math
import re
from collections.abc import Sequence

import pandas as pd

from dre.datasets import recordings as recording
from dre.datasets.dialogues import KINDS, PUBLIC, TURNS, context_sha256, histories, load
from dre.datasets.overlap import conversations
from dre.datasets.registry import fetch, read_jsonl, repository_file
from dre.errors import DreError

RATED = {
    "dailydialog-zhao": "DailyDialog",
    "personachat-usr": "PersonaChat",
    "topicalchat-usr": "TopicalChat",
    "fed-turn": "FED turns",
    "dailydialog-gupta": "DailyDialog-Gupta",
    "dailydialog-grade": "DailyDialog-GRADE",
    "empathetic-grade": "Empathetic-GRADE",
}
CLASSIFIERS = ("DEB", "RUBER-Large")
NAME = "claude-2026-11"
_USR = {"personachat-usr": "usr_percona_chat.json", "topicalchat-usr": "usr_topical_chat.json"}
_CRITERIA = ("Understandable", "Natural", "Maintains Context", "Engaging", "Uses Knowledge")
#: what the recorded judge was shown when it rated FED's qualities
SHOWN = {
    "zero": "zero-shot",
    "random0": "random 1",
    "random1": "random 2",
    "random2": "random 3",
    "bm25": "BM25",
}
LANGUAGES = {"en": "english", "es": "spanish", "zh": "chinese"}  # of the ten that xDial-Eval has
_SPEAKER = re.compile(
    "^(User|System):", re.MULTILINE
)  # before each turn of FED; turns are text only in every set


def rated(name: str) -> pd.DataFrame:
    """Return the responses of a set (one of `RATED`) with their human ratings, one row each.

    Columns ``pair_id, context_id`` (the unit of resampling), ``set, system`` (empty where the source does not say),
    ``context`` (tuple of turns), ``response, reference, ratings`` (the raters' overall values), ``human`` (their mean),
    and the mean of every other criterion; what a rater wrote instead of a number is NaN and in no mean. PersonaChat-USR
    and TopicalChat-USR have three raters, overall 1-5; FED turns five, 0-4; the others the mean overall only, 1-5.

    The reference of the USR sets is the response of the system "Original Ground Truth", that of DailyDialog-Zhao the
    first of the nine responses (wherever DailyDialog++ shows how one of these dialogues went on, it is what followed).
    Both are rated themselves, so a metric that compares with the reference should leave them out. The other sets have
    none (None).
    """
    if name in _USR:
        return _usr(name)
    return _fed()[0] if name == "fed-turn" else _xdial(name)


def translated(name: str) -> dict[str, pd.DataFrame]:
    """Return `rated` of a set in the `LANGUAGES` that xDial-Eval has of it: language -> table with the same rows.

    ``context, response`` are in that language (machine-translated but for English). TopicalChat-USR is not there.
    """
    table, ending = rated(name), {"personachat-usr": "persona-usr"}.get(name, name)
    columns = [f"{language}_{part}" for language in LANGUAGES.values() for part in ("ctx", "res")]
    file = pd.read_csv(fetch(f"/{ending}.csv"), keep_default_na=False, usecols=columns).map(
        str.strip
    )
    places = {}  # its rows are in another order than those of the USR file; some have one text
    for i, key in enumerate(zip(table["context"], table["response"])):
        places.setdefault(key, []).append(i)
    keys = zip(file["english_ctx"].map(turns_of), file["english_res"])
    file = file.set_index(pd.Index([places[key].pop(0) for key in keys])).sort_index()
    return {
        code: table.assign(
            context=file[f"{language}_ctx"].map(turns_of), response=file[f"{language}_res"]
        )
        for code, language in LANGUAGES.items()
    }


def fed_dialogues() -> pd.DataFrame:
    """Return FED's 125 whole dialogues as `rated` does, with ``turns`` (tuple) and the context ids of their turns."""
    return _fed()[1]


def fed_qualities() -> pd.DataFrame:
    """Return FED's qualities with every rater: nine of each turn, eleven of each dialogue, one row for each.

    Columns ``item`` (a ``pair_id`` of ``rated("fed-turn")`` or `fed_dialogues`), ``level`` (turn or dialogue),
    ``context_id`` (the dialogue, the unit of resampling), ``quality`` (as FED spells it), ``ratings`` (five: 0-2, 0-1
    for Understandable and Consistent, 0-4 for Overall; NaN where a rater wrote a reason instead) and ``human``, the
    mean of those that are numbers.
    """
    known, rows = pd.concat(_fed()).set_index("pair_id")["context_id"], []
    for i, one in enumerate(_json("data/fed_data.json")):
        item, level = (
            (f"fed-turn/{i}", "turn") if "response" in one else (f"fed-dialog/{i}", "dialogue")
        )
        found = _annotated(one).items()
        rows += [
            (item, level, known[item], quality, values, _mean(values)) for quality, values in found
        ]
    return pd.DataFrame(
        rows, columns=["item", "level", "context_id", "quality", "ratings", "human"]
    )


def fed_judged(name: str = NAME) -> pd.DataFrame:
    """Return the recorded judge's ratings of FED's qualities: ``item, examples, quality, score``, as `fed_qualities`.

    ``examples`` is one of `SHOWN`; the items that a random draw showed are missing from it. All qualities of an item
    were rated in one reply, so these are no verdicts of the prompts ``quality_...``.
    """
    rows, (turns, dialogues) = [], _fed()
    _check_shown(name, turns, dialogues.rename(columns={"turns": "context"}).assign(response=""))
    for record in read_jsonl(repository_file("recorded", name, "fed_qualities.jsonl")):
        about = record["item"], record["examples"]
        rows += [(*about, quality, float(score)) for quality, score in record["ratings"].items()]
    return pd.DataFrame(rows, columns=["item", "examples", "quality", "score"])


def criteria(name: str = NAME) -> pd.DataFrame:
    """Return the recorded judge's ratings by criterion: ``pair_id, prompt`` (the family) and one column for each.

    On the scales of the prompts ``geval_...`` and ``analyse_rate_...``, but all of a pair were rated in one reply.
    """
    table = pd.DataFrame(read_jsonl(repository_file("recorded", name, "criteria.jsonl"))).drop(
        columns="analysis"
    )
    _check_shown(name, *map(rated, table["pair_id"].str.partition("/")[0].unique()))
    return table


def _check_shown(name, *tables):
    """Raise DreError if texts of pairs are not those that were shown to the recorded judge."""
    for row in pd.concat(tables).to_dict("records"):
        recording.check(recording.folder(name), row["pair_id"], row)


def rated_tables(names: Sequence[str] = tuple(RATED)) -> list[pd.DataFrame]:
    """Return the tables that training must share no utterance with: rated sets, of FED its whole dialogues, too."""
    return [*map(rated, names), *([fed_dialogues()] if "fed-turn" in names else [])]


def classifier(name: str) -> pd.Series:
    """Return the released scores (0-1, positive from 0.5) of one of `CLASSIFIERS` on DailyDialog++ test, by pair_id."""
    scores = pd.Series(
        _json(f"{name} (random + adversarial negatives)*.json"), dtype=float, name=name
    )
    return scores.add_prefix("dailydialog++-test/").rename_axis("pair_id")


def labels(name: str = NAME) -> pd.Series:
    """Return the recorded class labels (``Positive`` or ``Negative``): a Series by pair_id."""
    table = pd.DataFrame(read_jsonl(repository_file("recorded", name, "judgements.jsonl")))
    return table[table["prompt"] == "classify"].set_index("pair_id")["label"]


def training_scores(name: str = NAME) -> pd.DataFrame:
    """Return the recorded LLM-only scores of pairs on training contexts, joined with their texts (for distillation).

    Columns ``pair_id`` (``<context id> <- <response id>``), ``context_id, set, context`` (tuple of turns), ``response,
    response_id, score`` (0-5), ``domain``. A response id is that of the record the text comes from (a pair id, or a
    context id whose reply it is), or ``generic-<number>``.
    """
    known, replies = _training_texts()
    generic, rows = {}, []
    for record in read_jsonl(repository_file("recorded", name, "training_scores.jsonl")):
        id, response_id = record["context"], record["response"]
        _, turns, set, domain = known[id]
        turns, response = (
            turns[-TURNS:] if id.partition("/")[0] in PUBLIC else turns,
            replies.get(response_id),
        )
        if response_id == "generic":
            response = record["text"]
            response_id = f"generic-{generic.setdefault(response, len(generic))}"
        _check(record, turns, response)
        pair_id, score = f"{id} <- {response_id}", float(record["score"])
        rows.append((pair_id, id, set, turns, response, response_id, score, domain))
    columns = [
        "pair_id",
        "context_id",
        "set",
        "context",
        "response",
        "response_id",
        "score",
        "domain",
    ]
    return pd.DataFrame(rows, columns=columns)


def graded(name: str = NAME) -> pd.DataFrame:
    """Return the recorded LLM-only scores of responses of ten kinds to training contexts, joined with their texts.

    One row per pair: 5,468 on 696 contexts of 1 to 17 turns. Columns ``context_id, conversation`` (the unit to keep
    from training: contexts of one ConvAI2 or Topical-Chat conversation share it), ``set, context`` (tuple of turns, of
    a conversation also those before the last three), ``response, kind, score`` (0-5), ``for_choice``: a fifth of the
    conversations, that nothing is trained on and SLMs are chosen by (decided by their ids alone). Kinds: good, bland,
    off, contradicts, garbled (written for the purpose); reference, retrieved, random; truncated (the first words of a
    response), echo (a turn of the context). DreError where a text is not the one that was graded.
    """
    known, replies = _training_texts()
    rows = []
    for record in read_jsonl(repository_file("recorded", name, "graded.jsonl")):
        id, kind = record["context"], record["kind"]
        conversation, turns, *_ = known[id]
        turns = turns[-record["turns"] :]
        if kind == "echo":
            response = turns[record["turn"]]
        else:
            response = record["text"] if "text" in record else replies[record["response"]]
        if kind == "truncated":
            response = " ".join(response.split()[: record["words"]])
        _check(record, turns, response)
        rows.append(
            (id, conversation, id.partition("/")[0], turns, response, kind, float(record["score"]))
        )
    columns = ["context_id", "conversation", "set", "context", "response", "kind", "score"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(for_choice=table["conversation"].map(_is_for_choice))


def conversations_for_choice(name: str = NAME) -> set[str]:
    """Return the ids of the graded conversations that nothing is trained on, a set."""
    ids = [
        record["context"]
        for record in read_jsonl(repository_file("recorded", name, "graded.jsonl"))
    ]
    return {
        conversation
        for conversation in map(conversations(ids), ids)
        if _is_for_choice(conversation)
    }


def _is_for_choice(conversation):
    """A fifth of all conversations, by their ids alone."""
    return int(hashlib.sha256(conversation.encode()).hexdigest()[:8], 16) < 0.2 * 16**8


def _check(record, turns, response):
    """Raise DreError if the texts of a pair are not those that were graded."""
    found = {"context_sha256": context_sha256(turns), "response_sha256": context_sha256([response])}
    if any(record.get(name, found[name]) != found[name] for name in found):
        raise DreError(
            f"{record['context']}: these are not the texts that were graded; run `dre data fetch` again"
        )


def _training_texts():
    """Return id -> (conversation, turns, set, domain) of training contexts, and the texts of responses by their ids."""
    labelled = load("dailydialog++", "dev") + load("dailydialog++-positives", "train")
    known = {one.context_id: (one.context_id, one.turns, one.set, one.domain) for one in labelled}
    replies = {
        c.pair_id(k, i): text
        for c in labelled
        for k in KINDS
        for i, text in enumerate(c.responses(k))
    }
    for source in PUBLIC:
        for id, (conversation, turns, reply, _) in histories(source).items():
            known[id], replies[id] = (conversation, turns, *PUBLIC[source]), reply
    return known, replies


def ids_by_text(name: str) -> dict[tuple[tuple[str, ...], str, str], str]:
    """Return the pair id of every response of a rated set by (context, system, response): systems may agree in text."""
    table = rated(name)
    return dict(zip(zip(table["context"], table["system"], table["response"]), table["pair_id"]))


def turns_of(text: str) -> tuple[str, ...]:
    """Return the turns of a context written with one turn on each line, stripped, without empty lines."""
    return tuple(line.strip() for line in text.split("\n") if line.strip())


def _json(ending):
    return json.loads(fetch(ending).read_bytes())


def _usr(name):
    rows = []
    for i, one in enumerate(_json(_USR[name])):
        texts = {"context": turns_of(one["context"])}
        spoken = {response["model"]: response["response"].strip() for response in one["responses"]}
        for k, response in enumerate(one["responses"]):
            ids = (f"{name}/{i}/{k}", f"{name}/{i}", name, response["model"])
            texts |= {
                "response": spoken[response["model"]],
                "reference": spoken["Original Ground Truth"],
            }
            rows.append(_row(ids, texts, response["Overall"], {c: response[c] for c in _CRITERIA}))
    return pd.DataFrame(rows)


def _xdial(name):
    """Read a set of xDial-Eval, which has the mean rating of each response; distinct contexts are numbered."""
    file = pd.read_csv(
        fetch(f"{name}.csv"),
        keep_default_na=False,
        usecols=["english_ctx", "english_res", "ratings"],
    )
    numbers, references, rows = {}, {}, []
    for row, (text, response, rating) in enumerate(
        zip(file["english_ctx"], file["english_res"], file["ratings"])
    ):
        turns, response = turns_of(text), response.strip()
        number = numbers.setdefault(turns, len(numbers))
        reference = references.setdefault(turns, response) if name == "dailydialog-zhao" else None
        ids = (f"{name}/{row}", f"{name}/context-{number}", name, "")
        rows.append(
            _row(ids, {"context": turns, "response": response, "reference": reference}, [rating])
        )
    return pd.DataFrame(rows)


def _fed():
    """Return FED's turns and its dialogues. A dialogue follows its turns, so they share its index as context id."""
    turns, dialogues, dialogue = [], [], None
    for i, one in reversed(list(enumerate(_json("data/fed_data.json")))):
        said, qualities = turns_of(_SPEAKER.sub("", one["context"])), _annotated(one)
        overall = qualities.pop("Overall")
        if "response" not in one:
            dialogue = f"fed-turn/dialogue-{i}"
            ids = (f"fed-dialog/{i}", dialogue, "fed-dialog", one["system"])
            dialogues.append(_row(ids, {"turns": said}, overall, qualities))
        else:
            texts = {
                "context": said,
                "response": _SPEAKER.sub("", one["response"]).strip(),
                "reference": None,
            }
            turns.append(
                _row(
                    (f"fed-turn/{i}", dialogue, "fed-turn", one["system"]),
                    texts,
                    overall,
                    qualities,
                )
            )
    return pd.DataFrame(turns[::-1]), pd.DataFrame(dialogues[::-1])


def _annotated(one):
    """The raters' values of each quality of a record of FED; a reason in words instead of a number is NaN."""
    return {
        c: [math.nan if isinstance(v, str) else float(v) for v in vs]
        for c, vs in one["annotations"].items()
    }


def _row(ids, texts, overall, others=None):
    """Return a row of a table: ids, texts, the overall ratings and their mean, the mean of each other criterion."""
    means = {
        name.lower().replace(" ", "_"): _mean(values) for name, values in (others or {}).items()
    }
    ids = dict(zip(("pair_id", "context_id", "set", "system"), ids))
    return ids | texts | {"ratings": overall, "human": _mean(overall)} | means


def _mean(values):
    numbers = [value for value in values if not math.isnan(value)]
    return math.fsum(numbers) / len(numbers) if numbers else math.nan
