"""From a provider's reply to a stored judgement, and from a stored judgement to its verdict."""

import functools
import hashlib
import inspect
import json
from datetime import UTC, datetime
from pathlib import Path

from dre.judges import parse
from dre.judges.parse import Verdict
from dre.judges.store import Judgement


@functools.cache
def parser_version():
    """Return a hash of the parser's source: a verdict that another version read is read again."""
    used = {parse, *(module for module in map(inspect.getmodule, vars(parse).values()) if module)}
    own = sorted(module.__file__ for module in used if module.__name__.startswith("dre.judges."))
    source = b"".join(Path(file).read_bytes() for file in own)
    return hashlib.sha256(source).hexdigest()[:16]


def mark(prompt):
    """Return what a stored verdict hangs on: the parser's version, and how the prompt has replies read."""
    return f"{parser_version()}-{prompt.reading}"


def judgement(prompt, key, pair_id, row, reply, *, cost, seconds, source):
    """Return the `Judgement` to store for a `dre.judges.providers.base.Reply`."""
    verdict = _verdict(prompt, reply.outcome, reply.text, row, "")
    return Judgement(
        messages_sha256=key[0],
        repeat=key[1],
        pair_id=pair_id,
        reply=reply.text,
        outcome=reply.outcome,
        logprobs=json.dumps(reply.logprobs) if reply.logprobs else None,
        served_model=reply.served_model,
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
        cost=cost,
        seconds=seconds,
        source=source,
        created=datetime.now(UTC).isoformat(),
        **_fields(prompt, verdict),
    )


def current(prompt, stored, row):
    """Return a stored judgement with its verdict, read again if the parser or the prompt's header has changed since."""
    if stored.parser == mark(prompt):
        return stored
    return stored._replace(**_fields(prompt, _verdict(prompt, stored.outcome, stored.reply, row, stored.reason)))


def _verdict(prompt, outcome, text, row, reason):
    if outcome == "ok":
        return prompt.parse(text, row)
    return Verdict(outcome, reason=reason or f"the provider says {outcome}")  # its word goes before the parser's


def _fields(prompt, verdict):
    names = ("status", "reason", "score_llm", "s_inf", "label")
    responses = json.dumps(verdict.responses, ensure_ascii=False) if verdict.responses else None
    return {name: getattr(verdict, name) for name in names} | {
        "responses": responses,
        "parser": mark(prompt),
    }
