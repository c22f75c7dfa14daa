"""Dialogue contexts with labelled responses: what an SLM is trained and tested on, and public dialogues."""

import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pandas as pd

from dre.datasets import readers
from dre.datasets.registry import fetch, read_jsonl, read_lines, repository_file
from dre.errors import DreError

KINDS = {"p": "positives", "a": "adversarials", "r": "randoms"}
#: these lists in a file, as DailyDialog++ calls them
FIELDS = dict(
    zip(
        KINDS.values(),
        ("positive_responses", "adversarial_negative_responses", "random_negative_responses"),
    )
)
REQUESTS = (
    "paper",
    "balanced",
    "adversarials only",
)  # on which responses were written; splits of their own
SPLITS = {
    "mini": ("train", "dev", "test"),
    "dailydialog++": ("train", "dev", "test", "adversarials only"),
    "dailydialog++-positives": ("train",),
    "convai2-augmented": ("train", "test", "paper", "balanced"),
    "topicalchat-augmented": ("train", "test", "paper", "balanced"),
}
#: conversations without adversarial responses: the set and the domain of their contexts
PUBLIC = {"convai2-valid": ("convai2", "persona")}
PUBLIC |= dict.fromkeys(
    ("topicalchat-valid_freq", "topicalchat-test_freq"), ("topicalchat", "topical")
)
POOLS = {"convai2-augmented": "convai2-valid", "topicalchat-augmented": "topicalchat-valid_freq"}
VERSIONS = (
    "original",
    "paraphrase",
    "es",
    "zh",
)  # of the embedded corpus: English in other words, Spanish, Chinese
TURNS = 3  # of a public context: the last utterance before it, the reply to that, the utterance to answer


@dataclass(frozen=True)
class Context:
    """A dialogue context (turns, oldest first) and its labelled responses.

    ``positives`` fit; ``adversarials`` share words but do not fit; ``randoms`` come from other contexts. ``id`` is that
    of the source, ``split`` train, dev or test, ``domain`` daily, persona or topical; ``facts`` the speaker's persona.
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
        """Id unique over all sets: ``dailydialog++-test/7``, ``mini/mini-daily-000``, ``convai2-valid/1``."""
        if "/" in self.id:  # which names its source
            return self.id
        if self.set == "dailydialog++":  # ids restart at 0 in every split
            return f"{self.set}-{self.split}/{self.id}"
        return f"{self.set}/{self.id}"

    def pair_id(self, kind: str, i: int) -> str:
        """Return the id of response `i` (from 0) of `kind` (``p``, ``a``, ``r``), as judgements record it."""
        separator = "" if self.set.startswith("dailydialog++") else "/"
        return f"{self.context_id}{separator}{kind}{i}"

    def responses(self, kind: str) -> tuple[str, ...]:
        """Return the responses of `kind` (``p``, ``a`` or ``r``)."""
        return getattr(self, KINDS[kind])


def pairs(contexts: Iterable[Context], kinds: str = "pa") -> pd.DataFrame:
    """Return a table with one row per (context, response) pair, of the responses of `kinds` (any of ``par``).

    Its columns are ``pair_id, context_id, set, context`` (tuple of turns), ``response, kind``.
    """
    rows = [
        (context.pair_id(kind, i), context.context_id, context.set, context.turns, response, kind)
        for context in contexts
        for kind in kinds
        for i, response in enumerate(context.responses(kind))
    ]
    return pd.DataFrame(
        rows, columns=["pair_id", "context_id", "set", "context", "response", "kind"]
    )


def data_hash(contexts: Iterable[Context]) -> str:
    """Return the sha256 (64 hex digits) of the records as canonical JSON, in the order given."""
    options = {"sort_keys": True, "ensure_ascii": False, "separators": (",", ":")}
    lines = (json.dumps(vars(context), **options) + "\n" for context in contexts)
    return hashlib.sha256("".join(lines).encode("utf-8")).hexdigest()


def context_sha256(turns: Iterable[str]) -> str:
    """Return the sha256 of the turns, stripped and joined by newline: how recorded files name a context or a text."""
    return hashlib.sha256(
        "\n".join(turn.strip() for turn in turns).strip().encode("utf-8")
    ).hexdigest()


def load(name: str, split: str) -> list[Context]:
    """Return the list of the contexts of a split (train, dev, test) of a data set; `SPLITS` says which set has which.

    The embedded corpus (74, 14, 32 contexts); DailyDialog++ (dev 1,028, test 1,142; five responses of each kind); its
    further contexts with positives only (7,641); ConvAI2's and Topical-Chat's with those of Algorithm 1 (150, 50 each).
    Further contexts for training are splits named by the request on which their responses were written (`REQUESTS`):
    ``paper`` (ConvAI2 630, Topical-Chat 540), ``balanced`` (630 each: borrowed words, length and questions tell
    nothing), and 800 of DailyDialog++'s contexts with positives, ``adversarials only``. ``train+paper`` is both.
    """
    if "+" in split:
        return [context for part in split.split("+") for context in load(name, part)]
    if split not in SPLITS.get(name, ()):
        raise DreError(f"no split {split!r} of a data set {name!r}: use one of {SPLITS}")
    if split in REQUESTS or name in POOLS:
        return _written(name, split)
    if name == "mini":
        return [context for context in _mini() if context.split == split]
    file, key = (
        (f"dataset/{split}.json", "id")
        if name == "dailydialog++"
        else ("data_positives.json", "dialog_id")
    )
    return [_context(record, name, str(record[key]), split) for record in read_jsonl(fetch(file))]


def parallel(split: str) -> dict[str, list[Context]]:
    """Return a split of the embedded corpus in parallel `VERSIONS`: version -> list of contexts, same order and ids.

    Each has two positive and two adversarial responses; an adversarial's wordplay is another one where it does not
    translate, so that negatives are parallel in kind rather than word for word.
    """
    records = {
        record["id"]: record for record in read_jsonl(repository_file("mini", "parallel.jsonl"))
    }
    original = [
        replace(c, positives=c.positives[:2], adversarials=c.adversarials[:2], randoms=())
        for c in _mini()
    ]
    original, found = [context for context in original if context.split == split], {}
    for version in VERSIONS[1:]:
        of = [(context, records[context.id][version]) for context in original]
        found[version] = [
            replace(c, turns=tuple(record["context"]), **_responses(record)) for c, record in of
        ]
    return {"original": original} | found


def public_contexts(name: str) -> list[Context]:
    """Return contexts of one of `PUBLIC`: the last three turns before a reply, which is their one positive."""
    set, domain = PUBLIC[name]
    return [
        Context(set, id, "train", turns[-TURNS:], (reply,), domain=domain, facts=facts)
        for id, (_, turns, reply, facts) in histories(name).items()
        if len(turns) >= TURNS
    ]


@cache  # several read them, one after the other
def histories(name: str) -> dict[str, tuple[str, tuple[str, ...], str, str]]:
    """Return whole conversations of one of `PUBLIC`: context id -> (conversation, all turns before, reply, facts).

    ``conversation`` is the id that all replies of one share, the first ones among them, which make no context. ConvAI2
    has a persona (``facts``) and the last utterance on each line, separated by tabs, and the reply in a second file;
    consecutive lines with one persona are one conversation.
    """
    found, conversation, before, said = {}, "", None, []
    if name == "convai2-valid":
        replies = [line.strip() for line in read_lines(fetch("no_cands_target.txt"))]
        for i, line in enumerate(read_lines(fetch("no_cands_source.txt"))):
            *persona, last = line.rstrip("\r").split("\t")
            if persona != before:
                conversation, before, said = f"{name}/{i}", persona, []
            said.append(last.strip())
            facts = "\n".join(fact.strip() for fact in persona)
            found[f"{name}/{i}"] = conversation, tuple(said), replies[i], facts
            said.append(replies[i])
        return found
    file = fetch(f"conversations/{name.removeprefix('topicalchat-')}.json")
    for id, record in json.loads(file.read_bytes()).items():
        said = [turn["message"].strip() for turn in record["content"]]
        for k in range(1, len(said)):
            found[f"{name}/{id}/{k}"] = f"{name}/{id}", tuple(said[:k]), said[k], ""
    return found


def _context(record, set, id, split, domain="daily"):
    return Context(set, id, split, tuple(record["context"]), **_responses(record), domain=domain)


def _responses(record):
    return {kind: tuple(record.get(key, ())) for kind, key in FIELDS.items()}


def _mini():
    """Read the embedded corpus; random negatives of a context are replies to others of its split and domain."""
    records = read_jsonl(repository_file("mini", "corpus.jsonl"))
    found = [
        _context(record, "mini", record["id"], record["split"], record["domain"])
        for record in records
    ]
    replies = defaultdict(set)
    for context in found:
        replies[context.split, context.domain].update(context.positives)
    for i, context in enumerate(found):
        others = sorted(
            replies[context.split, context.domain] - {*context.positives, *context.adversarials}
        )
        drawn = random.Random(f"0/{context.context_id}").sample(
            others, 5
        )  # no draw depends on another
        found[i] = replace(context, randoms=tuple(drawn))
    return found


def _written(name, split):
    """Join what a model wrote with the public contexts that its ids name; a record that does not fit is a DreError."""
    requested = split in REQUESTS
    file = "augmented_more.jsonl" if requested else "augmented.jsonl"
    file, found = repository_file("recorded", "claude-2026-11", file), []
    if name == "dailydialog++":
        public = load("dailydialog++-positives", "train")
    else:
        public = [
            replace(context, set=name, positives=()) for context in public_contexts(POOLS[name])
        ]
    public = {context.context_id: context for context in public}
    for line, record in enumerate(read_jsonl(file), 1):
        if requested and record.get("request") not in REQUESTS:
            raise DreError(
                f"{file}:{line}: request {record.get('request')!r}, expected one of {', '.join(REQUESTS)}"
            )
        own = public.get(record["id"])
        if (
            own is None or record["request" if requested else "split"] != split
        ):  # of another set, or another split
            continue
        if context_sha256(own.turns) != record["context_sha256"]:
            raise DreError(
                f"{file}:{line}: {own.context_id} is another context here: run `dre data fetch` again"
            )
        written = {kind: texts or getattr(own, kind) for kind, texts in _responses(record).items()}
        own = replace(own, split=record["split"], **written)
        if min(len(own.positives), len(own.adversarials)) < 5:
            raise DreError(
                f"{file}:{line}: {own.context_id} has fewer than five responses of a kind"
            )
        found.append(own)
    return found


def named(name):
    """Return contexts by name: a public pool, ``<data set>:<split>``, or the path of a file that `read` reads."""
    if name in PUBLIC:
        return public_contexts(name)
    data_set, _, split = str(name).partition(":")
    return load(data_set, split) if split and data_set in SPLITS else read(name)


def read(path):
    """Read contexts from JSON Lines; DreError names file and line of a faulty one.

    A line holds ``id``, ``context`` (a list of turns, oldest first, or one text with one turn per line) and, as far as
    there are any, the lists of `FIELDS`, ``split`` (``train``), ``domain`` (``daily``), ``set`` (the file's name).
    """
    found, default = {}, {"set": Path(path).stem, "split": "train", "domain": "daily"}
    for line, record in readers.records(path):
        try:
            own = {
                name: str(value)
                for name, value in (default | record).items()
                if name in (*default, "id")
            }
            texts = {kind: tuple(record[name]) for kind, name in FIELDS.items() if record.get(name)}
            texts["turns"] = readers.turns_of(record["context"])
            if own["id"] in found or not all(
                map(str.strip, ["".join(texts["turns"]), *sum(texts.values(), ())])
            ):
                raise ValueError("a text is empty, or the id stands there twice")
        except (ValueError, TypeError, KeyError) as error:
            expected = "an object with an id of its own, context (turns) and lists of responses"
            raise DreError(f"{path}:{line}: {error!r}: expected {expected}") from None
        found[own["id"]] = Context(**own, **texts)
    return list(found.values())
