"""Dialogue contexts with labelled responses: what a small model is trained and tested on."""

import hashlib
import json
import random
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from dre.datasets import authors, readers
from dre.datasets.readers import PLAIN, Form
from dre.datasets.registry import fetch, read_jsonl, read_lines, repository_file
from dre.errors import DreError
from dre.files import sha256

#: The kinds of responses by their letter in pair ids, and the field of `Context` that has them.
KINDS = {"p": "positives", "a": "adversarials", "r": "randoms"}
#: What DailyDialog++ calls these fields in its files.
FIELDS = {
    "positives": "positive_responses",
    "adversarials": "adversarial_negative_responses",
    "randoms": "random_negative_responses",
}
#: Splits that are named by the request on which a model wrote their responses.
REQUESTS = ("paper", "balanced", "adversarials only")
#: Which splits each data set has.
SPLITS = {
    "mini": ("train", "dev", "test"),
    "dailydialog++": ("train", "dev", "test", "adversarials only"),
    "dailydialog++-positives": ("train",),
    "convai2-augmented": ("train", "test", "paper", "balanced"),
    "topicalchat-augmented": ("train", "test", "paper", "balanced"),
    "personachat-gpt4": ("train", "test"),
    "topicalchat-gpt4": ("train", "test"),
}
#: The files of the sets that the papers' authors had GPT-4 write, and the domain of each set.
GPT4_FILES = {
    ("personachat-gpt4", "train"): "personachat_gpt4_both_train.json",
    ("personachat-gpt4", "test"): "personachat_gpt4_both_test.json",
    ("topicalchat-gpt4", "train"): "topicalchat_gpt4_both_trrain.json",
    ("topicalchat-gpt4", "test"): "topicalchat_gpt4_both_test.json",
}
_GPT4_DOMAINS = {"personachat-gpt4": "persona", "topicalchat-gpt4": "topical"}
#: Public conversations without adversarial responses: the data set and the domain of their
#: contexts.
PUBLIC = {
    "convai2-valid": ("convai2", "persona"),
    "topicalchat-valid_freq": ("topicalchat", "topical"),
    "topicalchat-test_freq": ("topicalchat", "topical"),
}
#: The public conversations that a set written by Algorithm 1 takes its contexts from.
POOLS = {"convai2-augmented": "convai2-valid", "topicalchat-augmented": "topicalchat-valid_freq"}
#: Versions of the embedded corpus: the original, English in other words, Spanish, Chinese.
VERSIONS = ("original", "paraphrase", "es", "zh")
#: Turns of a public context: an utterance, the reply to it, and the utterance to answer.
TURNS = 3
_RANDOM_RESPONSES = 5
RECORDING = "claude-2026-11"


@dataclass(frozen=True)
class Context:
    """A dialogue context and its labelled responses.

    Attributes
    ----------
    set : the data set, such as ``dailydialog++``.
    id : the id that the source gives it.
    split : train, dev or test.
    turns : the texts of the dialogue so far, oldest first.
    positives : responses that fit.
    adversarials : responses that share words with the context but do not fit.
    randoms : responses to other contexts.
    domain : daily, persona or topical.
    facts : the persona of the speaker, one fact a line, where the source has one.
    """

    set: str
    id: str
    split: str
    turns: tuple[str, ...]
    positives: tuple[str, ...] = ()
    adversarials: tuple[str, ...] = ()
    randoms: tuple[str, ...] = ()
    domain: str = "daily"
    facts: str = ""

    @property
    def context_id(self) -> str:
        """Id unique over all sets, such as ``dailydialog++-test/7`` or ``mini/mini-daily-000``."""
        id_names_its_source = "/" in self.id
        if id_names_its_source:
            return self.id
        if self.set == "dailydialog++":
            # Its ids start at 0 in every split.
            return f"{self.set}-{self.split}/{self.id}"
        return f"{self.set}/{self.id}"

    def pair_id(self, kind: str, i: int) -> str:
        """Return the id of response ``i`` (from 0) of a kind (``p``, ``a`` or ``r``)."""
        separator = "" if self.set.startswith("dailydialog++") else "/"
        return f"{self.context_id}{separator}{kind}{i}"

    def responses(self, kind: str) -> tuple[str, ...]:
        """Return the responses of a kind (``p``, ``a`` or ``r``)."""
        return getattr(self, KINDS[kind])


def pairs(contexts: Iterable[Context], kinds: str = "pa") -> pd.DataFrame:
    """Return a table with a row for each pair of a context and one of its responses.

    Parameters
    ----------
    contexts : the contexts.
    kinds : letters of the kinds of responses to take, any of ``par``.

    Returns
    -------
    Columns ``pair_id, context_id, set, context`` (tuple of turns), ``response, kind``.
    """
    columns = ["pair_id", "context_id", "set", "context", "response", "kind"]
    rows = [
        (context.pair_id(kind, i), context.context_id, context.set, context.turns, response, kind)
        for context in contexts
        for kind in kinds
        for i, response in enumerate(context.responses(kind))
    ]
    return pd.DataFrame(rows, columns=columns)


def data_hash(contexts: Iterable[Context]) -> str:
    """Return the sha256 (64 hex digits) of the contexts as canonical JSON, in the order given."""
    digest = hashlib.sha256()
    for context in contexts:
        line = json.dumps(vars(context), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        digest.update(f"{line}\n".encode())
    return digest.hexdigest()


def context_sha256(turns: Iterable[str]) -> str:
    """Return the sha256 of the stripped turns, joined by newlines.

    Recorded files name a context or a text by it.
    """
    text = "\n".join(turn.strip() for turn in turns).strip()
    return sha256(text)


def load(name: str, split: str) -> list[Context]:
    """Return the contexts of a split of a data set.

    Parameters
    ----------
    name : the data set, a key of `SPLITS`, or the path of a file. One that ``dre augment``
        wrote ends in ``.jsonl``. One in the form of the papers' sets
        (`dre.datasets.authors`) ends in ``.json``, and all of it is the split that is asked for.

        - ``mini``: the embedded corpus (74, 14, 32 contexts in train, dev, test);
        - ``dailydialog++``: five responses of each kind (dev 1,028, test 1,142 contexts);
        - ``dailydialog++-positives``: its further contexts, with positives only (7,641);
        - ``convai2-augmented``, ``topicalchat-augmented``: contexts of ConvAI2 and Topical-Chat
          with responses of Algorithm 1 (150 in train, 50 in test each);
        - ``personachat-gpt4``, ``topicalchat-gpt4``: the papers' own sets, from the Hub.

    split : train, dev or test; or, for further training contexts, the request on which a model
        wrote their responses (`REQUESTS`): ``paper`` (ConvAI2 630, Topical-Chat 540), ``balanced``
        (630 each; borrowed words, length and questions give nothing away), and ``adversarials
        only`` (800 contexts of DailyDialog++ with human-written positives). ``train+paper`` is
        both.

    Raises
    ------
    DreError
        If the set has no such split, a public file cannot be fetched, or too little of it can be
        used.
    """
    if "+" in split:
        contexts = []
        for single_split in split.split("+"):
            contexts += load(name, single_split)
        return contexts
    if name.endswith(".jsonl"):
        return _written_file(name, split)
    if name.endswith(".json") or (name, split) in GPT4_FILES:
        return _authors_contexts(name, split)
    if split not in SPLITS.get(name, ()):
        raise DreError(f"no split {split!r} of a data set {name!r}: use one of {SPLITS}")
    if split in REQUESTS or name in POOLS:
        return _model_written(name, split)
    if name == "mini":
        return [context for context in _embedded_corpus() if context.split == split]
    if name == "dailydialog++":
        file, id_field = f"dataset/{split}.json", "id"
    else:
        file, id_field = "data_positives.json", "dialog_id"
    records = read_jsonl(fetch(file))
    return [_context(record, name, str(record[id_field]), split) for record in records]


def parallel(split: str) -> dict[str, list[Context]]:
    """Return a split of the embedded corpus in its `VERSIONS`.

    Returns
    -------
    Contexts by version, in the same order and with the same ids. Each has two positive and two
    adversarial responses. Where the wordplay of an adversarial response does not translate, it has
    another one, so negatives are parallel in kind rather than word for word.
    """
    records = read_jsonl(repository_file("mini", "parallel.jsonl"))
    translations = {record["id"]: record for record in records}
    original = [
        replace(
            context,
            positives=context.positives[:2],
            adversarials=context.adversarials[:2],
            randoms=(),
        )
        for context in load("mini", split)
    ]
    contexts_by_version = {"original": original}
    for version in VERSIONS[1:]:
        contexts_by_version[version] = []
        for context in original:
            record = translations[context.id][version]
            translated = replace(context, turns=tuple(record["context"]), **_responses(record))
            contexts_by_version[version].append(translated)
    return contexts_by_version


@cache  # They are compared with every training set.
def public_contexts(name: str) -> tuple[Context, ...]:
    """Return the contexts of one of `PUBLIC`.

    Each has the last three turns before a reply, and that reply is its one positive response.
    """
    set_name, domain = PUBLIC[name]
    return tuple(
        Context(
            set_name,
            context_id,
            "train",
            history.turns[-TURNS:],
            positives=(history.reply,),
            domain=domain,
            facts=history.facts,
        )
        for context_id, history in histories(name).items()
        if len(history.turns) >= TURNS
    )


class History(NamedTuple):
    """A reply of a public conversation and all turns before it.

    Attributes
    ----------
    conversation : the id that all replies of one conversation share.
    turns : all turns before the reply, oldest first.
    reply : the reply.
    facts : the persona of the speaker, one fact a line, or "".
    """

    conversation: str
    turns: tuple[str, ...]
    reply: str
    facts: str


@cache  # Several callers read them, one after the other.
def histories(name: str) -> dict[str, History]:
    """Return every reply of the conversations of one of `PUBLIC`, by context id.

    Replies with fewer than three turns before them are here as well; they make no context.
    """
    if name == "convai2-valid":
        return _convai2_histories(name)
    return _topicalchat_histories(name)


def _convai2_histories(name):
    """Return a `History` for each line of ConvAI2, by context id.

    A line holds the facts of a persona and the utterance to answer, separated by tabs. The replies
    are in a second file. Consecutive lines with the same persona form one conversation.
    """
    replies = [line.strip() for line in read_lines(fetch("no_cands_target.txt"))]
    histories_by_id = {}
    conversation = ""
    previous_persona = None
    spoken = []
    for i, line in enumerate(read_lines(fetch("no_cands_source.txt"))):
        context_id = f"{name}/{i}"
        *persona, last_utterance = line.rstrip("\r").split("\t")
        if persona != previous_persona:
            conversation = context_id
            previous_persona = persona
            spoken = []
        spoken.append(last_utterance.strip())
        facts = "\n".join(fact.strip() for fact in persona)
        histories_by_id[context_id] = History(conversation, tuple(spoken), replies[i], facts)
        spoken.append(replies[i])
    return histories_by_id


def _topicalchat_histories(name):
    """Return a `History` for each reply of Topical-Chat's conversations, by context id."""
    file = fetch(f"conversations/{name.removeprefix('topicalchat-')}.json")
    histories_by_id = {}
    for id, record in json.loads(file.read_bytes()).items():
        spoken = [turn["message"].strip() for turn in record["content"]]
        conversation = f"{name}/{id}"
        for k in range(1, len(spoken)):
            history = History(conversation, tuple(spoken[:k]), spoken[k], "")
            histories_by_id[f"{conversation}/{k}"] = history
    return histories_by_id


def contexts_by_name(
    name: str | Path, form: Form = PLAIN, tell: Callable[[str], None] = warnings.warn
) -> list[Context]:
    """Return contexts by a name that a user gives.

    That is one of `PUBLIC`, ``<data set>:<split>``, or the path of a file for `read_contexts`,
    which takes ``form`` and ``tell``.
    """
    if name in PUBLIC:
        return list(public_contexts(str(name)))
    data_set, _, split = str(name).partition(":")
    if split and data_set in SPLITS:
        return load(data_set, split)
    return read_contexts(name, form, tell)


def read_contexts(
    path: str | Path, form: Form = PLAIN, tell: Callable[[str], None] = warnings.warn
) -> list[Context]:
    """Read contexts from a file of a form that `dre.datasets.readers` knows.

    A record holds a context as that of a pair (or in its place ``context_sha256`` of a context of
    `PUBLIC`). It may hold ``id`` (default: its line), the lists of `FIELDS` or one text of each,
    ``split`` (default: ``train``), ``domain`` (``daily``) and ``set`` (the name of the file). The
    response of a record without positive responses is its positive.

    Parameters
    ----------
    path : the file.
    form : what the user says about the form of the records; its fields may name those of `FIELDS`.
    tell : takes the notes on what was left out; by default each is a warning.

    Raises
    ------
    DreError
        With the file and the line, if a record has no context, a text is empty, or an id occurs
        twice.
    """
    try:
        records = [(line, _with_named_turns(row)) for line, row in readers.records(path)]
    except ValueError as error:
        raise DreError(f"{path}: {error}") from None
    reading = readers.read(records, form, ("context",), whole=True)
    for bad in reading.bad_records:
        raise DreError(f"{path}:{bad['line']}: {bad['reason']}")
    readers.refuse_doubts(reading.doubts, path)
    for note in reading.notes:
        tell(note)
    contexts = []
    for row in reading.pairs.to_dict("records"):
        try:
            contexts.append(_user_context(row, form, Path(path).stem))
        except ValueError as error:
            raise DreError(f"{path}:{row['line']}: {error}") from None
    return contexts


def _written_file(path, split):
    """Return the contexts of a split of a file that Algorithm 1 wrote.

    Raises DreError if there is no such file, or no context of the split in it.
    """
    if not Path(path).is_file():
        raise DreError(f"{path}: there is no such file yet: `dre augment` writes one")
    contexts = [context for context in read_contexts(path) if context.split == split]
    if not contexts:
        raise DreError(f"{path}: none of its contexts has the split {split!r}")
    return contexts


def names_its_conversations(name: str) -> bool:
    """Whether ids tell which contexts of a data set are of one conversation, as the authors' don't.

    Contexts of the other sets stand alone, or their ids name the conversation.
    """
    return not (name.endswith(".json") or name in _GPT4_DOMAINS)


def authors_reading(name: str, split: str) -> authors.Reading:
    """Return what can be used of a file of the papers' authors, and what cannot.

    Parameters
    ----------
    name, split : as for `load`.

    Raises
    ------
    DreError
        If there is no such file, it cannot be fetched, or too little of it can be used.
    """
    path = fetch(GPT4_FILES[name, split]) if (name, split) in GPT4_FILES else Path(name)
    if not path.is_file():
        raise DreError(f"{path}: there is no such file: name one in the form of the papers' sets")
    return authors.read(path)


def _authors_contexts(name, split):
    """Return the contexts of a file of the papers' authors, numbered as they come in it."""
    set_name = name if name in _GPT4_DOMAINS else Path(name).stem
    return [
        Context(
            set_name,
            f"{set_name}-{split}/{i}",
            split,
            entry.turns,
            positives=entry.positives,
            adversarials=entry.adversarials,
            domain=_GPT4_DOMAINS.get(name, "daily"),
        )
        for i, entry in enumerate(authors_reading(name, split).entries)
    ]


def _with_named_turns(record):
    """Return a record with the turns of the public conversation that it names, if it has none.

    Such a record names them by its id and their hash, so that the text of other people is not
    passed on.
    """
    if not isinstance(record, dict) or "context" in record or "context_sha256" not in record:
        return record
    context_id = str(record["id"])
    source = context_id.partition("/")[0]
    history = histories(source).get(context_id) if source in PUBLIC else None
    turns = history.turns[-TURNS:] if history else ()
    if context_sha256(turns) != record["context_sha256"] or not history:
        raise ValueError(f"no public context is called {context_id!r} and has its text")
    set_name, domain = PUBLIC[source]
    return {"context": list(turns), "set": set_name, "domain": domain, **record}


def _user_context(row, form, set_name):
    """Return the `Context` of a row that was read; ValueError if a response is blank or no text."""
    responses = {}
    for kind, field in FIELDS.items():
        texts: Any = readers.at(row, form.fields.get(field, field))
        texts = [] if readers.absent(texts) else texts
        if isinstance(texts, str):
            texts = json.loads(texts) if texts.startswith("[") else [texts]
        if not isinstance(texts, list) or not all(map(readers.is_text, texts)):
            raise ValueError(f"{field} is {texts!r:.60}: expected a list of texts")
        responses[kind] = tuple(texts)
    if not readers.absent(row["response"]) and not responses["positives"]:
        responses["positives"] = (row["response"],)
    names = {"set": set_name, "split": "train", "domain": "daily"}
    for field in names:
        if not readers.absent(row.get(field)):
            names[field] = str(row[field])
    return Context(id=row["id"], turns=row["context"], **names, **responses)


def _context(record, set_name, id, split, domain="daily"):
    """Return the context of a record in the form of DailyDialog++."""
    turns = tuple(record["context"])
    return Context(set_name, id, split, turns, domain=domain, **_responses(record))


def _responses(record) -> dict:
    return {kind: tuple(record.get(field, ())) for kind, field in FIELDS.items()}


def _embedded_corpus():
    """Read the embedded corpus and draw random negatives for each context.

    They are replies to other contexts of the same split and domain.
    """
    contexts = []
    for record in read_jsonl(repository_file("mini", "corpus.jsonl")):
        contexts.append(_context(record, "mini", record["id"], record["split"], record["domain"]))
    replies = defaultdict(set)
    for context in contexts:
        replies[context.split, context.domain].update(context.positives)

    complete = []
    for context in contexts:
        own_responses = {*context.positives, *context.adversarials}
        candidates = sorted(replies[context.split, context.domain] - own_responses)
        # A generator for each context, so that no draw depends on another.
        generator = random.Random(f"0/{context.context_id}")
        randoms = tuple(generator.sample(candidates, _RANDOM_RESPONSES))
        complete.append(replace(context, randoms=randoms))
    return complete


def _model_written(name, split):
    """Return public contexts with the responses that a language model wrote for them."""
    is_requested = split in REQUESTS
    file_name = "augmented_more.jsonl" if is_requested else "augmented.jsonl"
    if name == "dailydialog++":
        public = load("dailydialog++-positives", "train")
    else:
        public = public_contexts(POOLS[name])
    public_by_id = {context.context_id: context for context in public}
    contexts = []
    for record in read_jsonl(repository_file("recorded", RECORDING, file_name)):
        context = public_by_id.get(record["id"])
        if context is None or record["request" if is_requested else "split"] != split:
            continue  # of another set, or of another split
        if name in POOLS:
            context = replace(context, set=name, positives=())
        responses = {
            kind: texts or getattr(context, kind) for kind, texts in _responses(record).items()
        }
        contexts.append(replace(context, split=record["split"], **responses))
    return contexts
