"""Prompts out and replies in, in the form of OpenAI's batch API."""

import json

from dre.datasets import readers
from dre.errors import DreError
from dre.files import replace
from dre.judges import prompts, providers
from dre.judges.judge import AGAIN


def export_prompts(judge, pairs, prompt, path, retry=()):
    """Write the prompts whose replies are missing, for any engine to answer; returns how many."""
    prompt = prompts.load(prompt)
    ours = (
        ("num_ctx", "think", "keep_alive") if judge.provider == "ollama" else ()
    )  # unknown to that protocol
    params = {name: value for name, value in judge.params.items() if name not in ours}
    params["max_tokens"] = judge.max_tokens(prompt)
    schema, lines = judge.schema(prompt), []
    base_url = judge.base_url if judge.provider == "openai" else "elsewhere"
    for asked in judge.missing(pairs, prompt, retry):
        body = providers.completion_body(judge.model, base_url, asked.messages, params, schema)
        line = {
            "custom_id": asked.key,
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": body,
        }
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    replace(path, "".join(lines))
    return len(lines)


def import_replies(judge, pairs, prompt, path):
    """Store the replies of a batch (``custom_id, response, error``) at its price; a file is taken whole or not at all.

    Returns how many were stored, were stored before, and failed. DreError if one does not belong to these pairs.
    """
    prompt = prompts.load(prompt)
    known = {asked.key: asked for asked, _ in judge.replies(pairs, prompt)}
    wanted = {
        asked.key for asked in judge.missing(pairs, prompt, AGAIN)
    }  # a score is never replaced
    new, failed, seen = [], 0, set()
    for number, line in readers.records(path):
        where, name = (
            f"{path}:{number}",
            str(line.get("custom_id")) if isinstance(line, dict) else "",
        )
        if name in seen or name not in known:
            same = "give the same pairs, prompt, judge and options as for the export, and one reply for each request"
            raise DreError(
                f"{where}: custom_id {name!r} is none of these pairs, or was in a line before: {same}"
            )
        seen.add(name)
        response = line.get("response")
        try:
            if line.get("error") or not response or response.get("status_code", 200) != 200:
                failed += 1
                continue
            reply = providers.parse_completion(response["body"])
        except (AttributeError, LookupError, TypeError):
            raise DreError(
                f"{where}: no chat completion, expected a line of a batch's output"
            ) from None
        if reply.model and not providers.is_same_model(judge.model, reply.model):
            raise DreError(f"{where}: answered by {reply.model}, but {judge.model} was to be asked")
        if known[name].key in wanted:
            cost = judge.price and judge.price.cost(
                reply.input_tokens, reply.output_tokens, True, reply.cached
            )
            new.append((known[name], reply._replace(cost=cost, source="batch")))
    with judge.store.held():
        judge.store.put(new)
    return len(new), len(seen) - failed - len(new), failed
