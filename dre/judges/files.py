"""Prompts out and replies in as JSONL, in the form of OpenAI's batch API: any engine can answer them."""

import json
import os
from pathlib import Path
from typing import NamedTuple

from dre.errors import DreError
from dre.judges import verdicts
from dre.judges.plan import Plan
from dre.judges.prices import Price
from dre.judges.providers.anthropic_messages import Anthropic
from dre.judges.providers.base import Transient
from dre.judges.providers.openai_chat import OpenAI
from dre.judges.providers.outside import Outside
from dre.judges.store import Store

URL = "/v1/chat/completions"


def write_atomically(path, lines):
    """Write lines so that the file is never there in part."""
    path = Path(path)
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(draft, "w", encoding="utf-8") as file:
            for line in lines:
                file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise DreError(f"{path}: cannot be written ({error.strerror}): free space or give another place") from None


def requests(plan, keys=None):
    """Yield ``(custom_id, key, body)`` of what a plan lacks, each body a chat completion's."""
    setting = plan.setting
    form = OpenAI if setting.provider == "openai" else Outside
    provider = form(setting.model, setting.base_url)
    for key, task in plan.missing.items():
        if keys is None or key in keys:
            yield (
                setting.custom_id(*key),
                key,
                provider.request(task.messages, plan.params, plan.prompt.schema),
            )


def export(plan, path):
    """Write the prompts of what a plan, or each of several, lacks; returns how many."""
    bodies = {}
    for one in plan if isinstance(plan, list) else [plan]:
        bodies |= {name: body for name, _, body in requests(one)}  # two plans may lack the same reply
    lines = [
        json.dumps({"custom_id": name, "method": "POST", "url": URL, "body": body}, ensure_ascii=False)
        for name, body in bodies.items()
    ]
    write_atomically(path, lines)
    return len(lines)


def read_jsonl(path):
    """Return the objects of a JSONL file with their line numbers, and a note if its last line is cut off.

    What is cut off is written beside the file, as ``<name>.cut``; the file itself is left as it is.

    Raises
    ------
    DreError
        If the file cannot be read, or another line is not an object.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DreError(f"{path}: cannot be read ({error.strerror})") from None
    lines = data.split(b"\n")
    found, note = [], ""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            if not isinstance(value, dict):
                raise ValueError("no object")
        except ValueError as error:
            if number < len(lines):
                raise DreError(f"{path}:{number}: not a JSON object ({error}): mend or remove the line") from None
            note = _keep_cut(path, number, line)
        else:
            found.append((number, value))
    return found, note


def _keep_cut(path, number, line):
    aside = path.with_name(path.name + ".cut")
    try:
        aside.write_bytes(line)
        kept = f"kept as {aside.name}"
    except OSError as error:
        kept = f"not copied ({error.strerror})"
    return f"{path}:{number}: the last line is cut off and was not read; it is {kept}"


class Target(NamedTuple):
    """Where replies may belong: a plan, the store they go to, and the price they are booked at."""

    plan: Plan
    store: Store
    price: Price | None = None


def import_replies(plan, store, path, price=None):
    """Store the replies of a file that belong to a plan, and complete the plan; see `import_among`."""
    return import_among([Target(plan, store, price)], path)


def import_among(targets, path):
    """Store the replies of a file, each where it belongs among several plans, and complete the plans.

    Lines are OpenAI's batch output (``custom_id, response, error``; vLLM's ``run_batch`` writes it too) or
    Anthropic's batch results (``custom_id, result``). A file is taken whole or not at all.

    Parameters
    ----------
    targets : list of Target
    path : path

    Returns
    -------
    (int, int, int, str)
        Replies stored, replies that were stored before, requests that failed, and a note if the end is cut off.

    Raises
    ------
    DreError
        If a reply does not belong: unknown or repeated id, another prompt, another model.
    """
    known = {
        target.plan.setting.custom_id(*key): (index, key)
        for index, target in enumerate(targets)
        for key in [*target.plan.missing, *target.plan.judgements]
    }
    found, note = read_jsonl(path)
    seen, gained, failed, before = {}, [{} for _ in targets], 0, 0
    for number, line in found:
        where = f"{path}:{number}"
        index, key = _place(line, known, targets, seen, where)
        target = targets[index]
        seen[line["custom_id"]] = number
        reply = _reply(line, where)
        if reply is None:
            failed += 1
            continue
        _check_model(reply.served_model, target.plan.setting.model, where)
        if key in target.plan.missing:
            gained[index][key] = _judgement(target, key, reply)
        else:
            before += 1
    for target, judgements in zip(targets, gained):
        target.store.add(target.plan.setting, judgements.values())
        target.plan.complete(judgements)
    return sum(map(len, gained)), before, failed, note


def _judgement(target, key, reply):
    plan, price = target.plan, target.price
    task = plan.missing[key]
    cost = price.cost(reply.input_tokens, reply.output_tokens) if price else None
    how = {"cost": cost, "seconds": None, "source": "files"}
    return verdicts.judgement(plan.prompt, key, task.pair_id, task.row, reply, **how)


def _place(line, known, targets, seen, where):
    """Return the index of the target of a line, and its key there."""
    name = line.get("custom_id")
    if name in seen:
        raise DreError(f"{where}: custom_id {name} was in line {seen[name]} already: keep one reply a request")
    if name in known:
        return known[name]
    settings = [target.plan.setting for target in targets]
    prompts = {setting.prompt_sha256[:16]: setting.prompt for setting in settings}
    prompt = str(name).partition("-")[0]
    if prompt not in prompts and len(prompt) == 16:
        raise DreError(
            f"{where}: a reply to another wording of the prompt ({prompt}, not {', '.join(prompts)}): "
            f"export {', '.join(prompts.values())} again and ask again"
        )
    judges = dict.fromkeys(f"{setting.provider}:{setting.model}" for setting in settings)
    raise DreError(
        f"{where}: custom_id {name!r} is none of these pairs with {' or '.join(judges)} and these "
        "parameters: give the same pairs, judge and options as for the export"
    )


def _check_model(served, asked, where):
    """A provider may add a date to a model's name, or a path in front; nothing else."""
    if served and served != asked and not served.startswith(f"{asked}-") and not served.endswith(f"/{asked}"):
        raise DreError(f"{where}: answered by {served}, but {asked} was asked: import it under the right --judge")


def _reply(line, where):
    """Return the `Reply` of a line, or None if the request failed."""
    try:
        if isinstance(line.get("result"), dict):
            if line["result"].get("type") != "succeeded":
                return None
            return Anthropic("").read(line["result"]["message"])
        response = line.get("response")
        if not isinstance(response, dict) or line.get("error") or response.get("status_code", 200) != 200:
            return None
        return OpenAI("").read(response["body"])
    except (KeyError, Transient):
        raise DreError(f"{where}: neither a chat completion nor a message: expected a batch's output") from None
