"""The judgements recorded for this project (``data/recorded/<name>``), as tables."""

import pandas as pd

from dre.data import parse, sets
from dre.data.augmented import context_sha256, text_sha256
from dre.data.mini import REPOSITORY
from dre.data.records import KINDS
from dre.errors import DreError

RECORDED = REPOSITORY / "data" / "recorded"
NAME = "claude-2026-11"


def judgements(name=NAME):
    """Return the recorded judgements.

    Returns
    -------
    pandas.DataFrame
        Columns ``pair_id, prompt`` (``llm_only`` or ``classify``), ``score`` (0-5; NaN for classify),
        ``label`` (``Positive`` or ``Negative``; None for llm_only).
    """
    rows = []
    for where, record in parse.read_jsonl(_file(name, "judgements.jsonl")):
        pair_id, prompt = (parse.field(record, key, str, where) for key in ("pair_id", "prompt"))
        if prompt not in ("llm_only", "classify"):
            raise DreError(f"{where}: prompt {prompt!r}, expected llm_only or classify")
        score = label = None
        if prompt == "llm_only":
            score = parse.number(record.get("score"), "the score", where)
        else:
            label = parse.field(record, "label", str, where)
        rows.append((pair_id, prompt, score, label))
    table = pd.DataFrame(rows, columns=["pair_id", "prompt", "score", "label"])
    return table.astype({"score": "float64"})


def training_scores(name=NAME):
    """Return the recorded scores of pairs on training contexts, joined with their texts (for distillation).

    Needs DailyDialog++ dev and positives, ConvAI2 and Topical-Chat. The sha256 of every context and response
    is compared with the recorded one.

    Returns
    -------
    pandas.DataFrame
        Columns ``pair_id`` (``<context id> <- <response id>``), ``context_id, set, context`` (tuple of
        turns), ``response, response_id, score`` (0-5), ``domain``. A response id is the id of the record the
        text comes from (``<set>/<id><p|a|r><index>``, or a context id whose reply it is), or
        ``generic-<number>``.
    """
    known, replies = _training_texts()
    generic = {}
    rows = []
    for where, record in parse.read_jsonl(_file(name, "training_scores.jsonl")):
        context_id, response_id = (parse.field(record, key, str, where) for key in ("context", "response"))
        if response_id == "generic":
            response = parse.field(record, "text", str, where)
            response_id = f"generic-{generic.setdefault(response, len(generic))}"
        else:
            response = _lookup(replies, response_id, where)
        context = _lookup(known, context_id, where)
        _compare(context_sha256(context.turns), record, "context_sha256", where)
        _compare(text_sha256(response), record, "response_sha256", where)
        score = parse.number(record.get("score"), "the score", where)
        ids = (f"{context_id} <- {response_id}", context_id, context.set)
        rows.append((*ids, context.turns, response, response_id, score, context.domain))
    columns = ["pair_id", "context_id", "set", "context", "response", "response_id", "score", "domain"]
    return pd.DataFrame(rows, columns=columns)


def _training_texts():
    labelled = sets.load("dailydialog++", "dev") + sets.load("dailydialog++-positives", "train")
    public = sets.contexts("convai2-valid") + sets.contexts("topicalchat-valid_freq")
    known = {context.context_id: context for context in labelled + public}
    replies = {c.pair_id(k, i): text for c in labelled for k in KINDS for i, text in enumerate(c.responses(k))}
    return known, replies | {context.context_id: context.positives[0] for context in public}


def _lookup(table, key, where):
    if key not in table:
        raise DreError(f"{where}: {key!r} names no record of the public data")
    return table[key]


def _compare(found, record, name, where):
    expected = parse.field(record, name, str, where)
    if found != expected:
        raise DreError(f"{where}: the text has sha256 {found}, but {name} is {expected}")


def _file(name, file):
    path = RECORDED / name / file
    if not path.is_file():
        there = ", ".join(sorted(p.parent.name for p in RECORDED.glob(f"*/{file}"))) or "none"
        raise DreError(f"{path} is not there: recorded with this file are {there}")
    return path
