"""Batch files: prompts out and replies in, in the form of OpenAI's batch API."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dre.datasets import readers
from dre.errors import DreError
from dre.files import replace
from dre.judges import connection, prompts
from dre.judges.judge import AGAIN, Judge
from dre.judges.prompts import Prompt
from dre.judges.providers import PROVIDERS, openai
from dre.judges.store import new_run


class Imported(NamedTuple):
    """How many replies of a file were stored, were stored before, and how many requests failed."""

    n_stored: int
    n_stored_before: int
    n_failed: int


def export_prompts(
    judge: Judge,
    pairs: pd.DataFrame | list[dict],
    prompt: str | Path | Prompt,
    path: str | Path,
    retry: Collection[str] = (),
) -> int:
    """Write the prompts whose replies are missing, for any engine to answer.

    Parameters
    ----------
    judge : Judge
        Under whose name the replies will be stored.
    pairs, prompt, retry
        As in `Judge.score`.
    path : str or Path
        The file to write.

    Returns
    -------
    int
        How many prompts are in the file.
    """
    prompt = prompts.load(prompt)
    schema = judge.schema(prompt)
    params = dict(judge.params)
    for name in PROVIDERS[judge.provider].own_parameters:
        params.pop(name, None)
    params["max_tokens"] = judge.max_tokens(prompt)
    is_openai = judge.provider == "openai" and connection.is_public_service(judge.address)

    lines = []
    for request in judge.unanswered(pairs, prompt, retry):
        body = openai.completion_body(
            judge.model, request.messages, params, schema, is_openai=is_openai
        )
        line = {
            "custom_id": request.key,
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": body,
        }
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    replace(path, "".join(lines))
    return len(lines)


def import_replies(
    judge: Judge,
    pairs: pd.DataFrame | list[dict],
    prompt: str | Path | Prompt,
    path: str | Path,
) -> Imported:
    """Store the replies of a batch, at the price of a batch; a score is never replaced.

    Parameters
    ----------
    judge, pairs, prompt
        The same as for `export_prompts`.
    path : str or Path
        The file, whose lines have ``custom_id``, ``response`` and ``error``. It is taken as a whole
        or not at all.

    Raises
    ------
    DreError
        If a line is not a reply to a prompt of these pairs, or another model answered.
    """
    prompt = prompts.load(prompt)
    requests = {request.key: request for request, _ in judge.replies(pairs, prompt)}
    wanted_keys = {request.key for request in judge.unanswered(pairs, prompt, AGAIN)}
    replies = []
    run = new_run()
    n_failed = 0
    keys = set()
    for number, line in readers.records(path):
        location = f"{path}:{number}"
        key = str(line.get("custom_id")) if isinstance(line, dict) else ""
        if key in keys or key not in requests:
            raise DreError(
                f"{location}: custom_id {key!r} is none of these pairs, or was in a line before: "
                "give the same pairs, prompt, judge and options as for the export, "
                "and one reply for each request"
            )
        keys.add(key)
        reply = _reply_in(line, location)
        if reply is None:
            n_failed += 1
            continue
        if reply.model and not connection.is_same_model(judge.model, reply.model):
            raise DreError(
                f"{location}: answered by {reply.model}, but {judge.model} was to be asked"
            )
        if key in wanted_keys:
            reply = reply._replace(source="batch")
            request = requests[key]._replace(run=run, account=judge.account)
            # Nobody knows when the batch service asked, so there are no seconds.
            replies.append((request, reply._replace(cost=judge.cost_usd(reply))))

    with judge.store.held(judge.lock_name(prompt)):
        judge.store.put(replies)
    n_stored_before = len(keys) - n_failed - len(replies)
    return Imported(len(replies), n_stored_before, n_failed)


def _reply_in(line, location):
    """Return the reply in a line of a batch's output, or None if the request failed."""
    try:
        response = line.get("response")
        if line.get("error") or not response or response.get("status_code", 200) != 200:
            return None
        return openai.parse_completion(response["body"])
    except (AttributeError, LookupError, TypeError):
        raise DreError(
            f"{location}: no chat completion, expected a line of a batch's output"
        ) from None
