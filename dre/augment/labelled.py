"""Contexts with labelled responses as JSON Lines, in the form of DailyDialog++ and of the embedded corpus."""

import json

from dre.data import load, parse
from dre.data.records import Context
from dre.data.sets import CONTEXTS, SPLITS
from dre.data.sets import contexts as public
from dre.errors import DreError
from dre.judges.files import write_atomically

FIELDS = {
    "positives": "positive_responses",
    "adversarials": "adversarial_negative_responses",
    "randoms": "random_negative_responses",
}


def named(name):
    """Return contexts by name: a public pool, ``<data set>:<split>``, or the path of a file that `read` reads."""
    if name in CONTEXTS:
        return public(name)
    data_set, colon, split = name.partition(":")
    if colon and data_set in SPLITS:
        return load(data_set, split)
    return read(name)


def read(path):
    """Read contexts with responses.

    A line holds ``id`` (a text or a number), ``context`` (list of turns, oldest first), ``positive_responses`` and,
    if there are any, ``adversarial_negative_responses, random_negative_responses, split`` (default ``train``),
    ``domain`` and ``set`` (default: the file's name without its ending).

    Raises
    ------
    DreError
        With the line, if a field is absent or of another type, or an id stands there twice.
    """
    from pathlib import Path

    found, seen = [], {}
    for where, record in parse.read_jsonl(path):
        id = str(parse.field(record, "id", (str, int), where))
        if id in seen:
            raise DreError(f"{where}: id {id!r} was at {seen[id]} already: make it unique")
        seen[id] = where
        own = {name: record.get(name, default) for name, default in (("split", "train"), ("domain", "daily"))}
        own["set"] = record.get("set", Path(path).stem)
        for name, value in own.items():
            parse.check(value, str, f"field {name!r}", where)
        texts = {kind: parse.texts(record, field, where) for kind, field in FIELDS.items() if record.get(field)}
        found.append(Context(id=id, turns=parse.texts(record, "context", where), **own, **texts))
    if not found:
        raise DreError(f"{path}: no contexts: write an object a line with id, context and positive_responses")
    return found


def write(path, contexts):
    """Write contexts as `read` reads them; returns how many."""
    lines = []
    for context in contexts:
        record = {"id": context.id, "set": context.set, "domain": context.domain, "split": context.split}
        record |= {"context": context.turns} | {field: getattr(context, kind) for kind, field in FIELDS.items()}
        lines.append(json.dumps(record, ensure_ascii=False))
    write_atomically(path, lines)
    return len(lines)
