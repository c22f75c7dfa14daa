"""A recorded run as a folder: ``judgements.jsonl`` and its ``manifest.json``, out of a store and into one."""

import hashlib
import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from dre.errors import DreError
from dre.judges.files import read_jsonl, write_atomically
from dre.judges.settings import Setting, canonical
from dre.judges.store import Judgement

FORMAT = "dre judgements 1"
_KEPT = (
    "messages_sha256",
    "outcome",
    "served_model",
    "input_tokens",
    "output_tokens",
    "cost",
    "seconds",
    "source",
)


def export(plan, mode, folder, template=None):
    """Write a plan's stored judgements; `dre.judges.recorded` replays the folder.

    No text of a dialogue is written, only ids and hashes, and the replies as they came.

    Parameters
    ----------
    template : str, optional
        The text of the prompt's file, where it is not one of ours.

    Returns
    -------
    int
        Judgements written.
    """
    folder = Path(folder)
    if plan.missing:
        raise DreError(f"{len(plan.missing)} judgements are missing: finish with `dre judge run`, then export")
    if (folder / "manifest.json").exists():
        raise DreError(f"{folder}: a recording is there already: give a new folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DreError(f"{folder}: cannot be created ({error.strerror})") from None
    lines = [
        json.dumps(_line(plan, row["pair_id"], plan.judgements[key]), ensure_ascii=False)
        for index, row in enumerate(plan.rows)
        for key in plan.keys(index)
    ]
    write_atomically(folder / "judgements.jsonl", lines)
    digest = hashlib.sha256("".join(line + "\n" for line in lines).encode()).hexdigest()
    manifest = _manifest(plan, mode, template) | {"judgements": len(lines), "judgements_sha256": digest}
    write_atomically(folder / "manifest.json", [json.dumps(manifest, indent=1, ensure_ascii=False)])
    return len(lines)


def load(folder, store):
    """Take a recording into a store.

    Returns
    -------
    (int, str)
        Judgements read, and a note if the last line is cut off.
    """
    folder = Path(folder)
    manifest = _read_manifest(folder / "manifest.json")
    path = folder / "judgements.jsonl"
    found, note = read_jsonl(path)
    if not note and hashlib.sha256(path.read_bytes()).hexdigest() != manifest["judgements_sha256"]:
        raise DreError(f"{path}: not the file that manifest.json describes (its sha256 differs): get both anew")
    try:
        setting = Setting(**manifest["setting"] | {"params": canonical(manifest["setting"]["params"])})
        store.add(setting, [_judgement(line) for _, line in found])
    except (KeyError, TypeError) as error:
        raise DreError(f"{folder}: {error} is missing or unknown: expected a folder of `dre judge export`") from None
    return len(found), note


def _line(plan, pair_id, one):
    line = {"pair_id": pair_id, "prompt": plan.prompt.name, "repeat": one.repeat, "reply": one.reply}
    if one.status != "ok":
        line |= {"status": one.status, "reason": one.reason}
    line |= {name: getattr(one, name) for name in _KEPT} | {"created": one.created}
    return line | ({"logprobs": json.loads(one.logprobs)} if one.logprobs else {})


def _judgement(line):
    kept = {name: line[name] for name in (*_KEPT, "created", "pair_id", "repeat", "reply")}
    logprobs = json.dumps(line["logprobs"]) if "logprobs" in line else None
    # No parser version: the reply is read again with its row when it is used.
    return Judgement(**kept, status=line.get("status", "ok"), reason=line.get("reason", ""), logprobs=logprobs)


def _manifest(plan, mode, template):
    setting = plan.setting
    judgements = [plan.judgements[key] for index in range(len(plan.rows)) for key in plan.keys(index)]
    names = ("provider", "base_url", "model", "prompt", "prompt_sha256")
    prompt = {"follows": plan.prompt.follows, "differs": plan.prompt.differs, "sha256": plan.prompt.sha256}
    return {
        "format": FORMAT,
        "judge": f"{setting.provider}:{setting.model}",
        "recorded": datetime.now(UTC).date().isoformat(),
        "repeats": plan.repeats,
        "mode": mode,
        "setting": {name: getattr(setting, name) for name in names} | {"params": plan.params},
        "served_models": sorted({one.served_model for one in judgements}),
        "statuses": dict(Counter(one.status for one in judgements)),
        "prompts": {plan.prompt.name: prompt | ({"template": template} if template else {})},
    }


def _read_manifest(path):
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DreError(f"{path}: not a readable manifest ({error})") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise DreError(
            f"{path}: not of the form {FORMAT!r}, so it has no keys to store: "
            f"replay it with --judge recorded:{path.parent}"
        )
    return manifest
