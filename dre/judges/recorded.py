"""Recorded judgements: a folder with ``manifest.json`` and ``judgements.jsonl``, read like live replies.

A line of ``judgements.jsonl`` holds ``pair_id``, ``prompt``, optionally ``repeat`` (default 0), and either the
``reply`` as it came or what was kept of it (``score``, ``influence``, ``label``). Both go through the parser's
checks, so an off-scale score is malformed here too. A line may instead hold the ``status`` (and ``reason``) of a
reply that gave no verdict. ``manifest["prompts"]`` names each prompt with the sha256 of what was really asked;
that hash, not the one of our prompt of that name, is the recording's identity. Its ``template``, if given, says
how replies are read; otherwise they are read as those to our prompt of that name.
"""

import json
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dre.data import parse as jsonl
from dre.data.recorded import RECORDED
from dre.errors import DreError
from dre.judges import parse, prompts
from dre.judges.replies import Unclear

_VERDICT = ("score_llm", "s_inf", "label", "responses", "status", "reason")
COLUMNS = ("pair_id", "prompt", "repeat", "reply", "outcome", "logprobs", *_VERDICT)
_KEPT = ("score", "influence", "label")


class Recording(NamedTuple):
    """A recorded run.

    Attributes
    ----------
    table : pandas.DataFrame
        One row a reply: ``pair_id, prompt, repeat, reply`` (None where only its values were kept),
        ``outcome`` (the provider's word: ok, refused, truncated, empty), ``logprobs`` (JSON, as the store has
        them; None where not kept), ``score_llm`` (on the prompt's scale), ``s_inf, label, responses`` (JSON),
        ``status, reason``.
    manifest : dict
    name : str
    readings : dict
        Prompt name -> `dre.judges.prompts.Prompt` its replies are read with.
    """

    table: pd.DataFrame
    manifest: dict
    name: str
    readings: dict

    def prompt_sha256(self, prompt):
        """Sha256 of the prompt that was really asked."""
        return self.manifest["prompts"][self._known(prompt)]["sha256"]

    def replay(self, pairs, prompt="llm_only", repeats=1):
        """Return the recorded verdicts of pairs; nothing is asked of anyone.

        Parameters
        ----------
        pairs : pandas.DataFrame or iterable of str
            With a column ``pair_id``, or the ids. With ``context`` and ``response`` too, words that a recorded
            reply quotes from them are not taken for its verdict.
        prompt : str
        repeats : int
            Replies a pair: repeats 0 to ``repeats - 1``.

        Returns
        -------
        pandas.DataFrame
            The rows of `table` in the order of the pairs, their repeats in order.

        Raises
        ------
        DreError
            If a reply is not recorded.
        """
        self._known(prompt)
        ids = list(pairs["pair_id"] if isinstance(pairs, pd.DataFrame) else pairs)
        rows = self.table[self.table["prompt"] == prompt].set_index(["pair_id", "repeat"])
        wanted = [(pair_id, repeat) for pair_id in ids for repeat in range(repeats)]
        at = rows.index.get_indexer(pd.MultiIndex.from_tuples(wanted, names=["pair_id", "repeat"]) if wanted else [])
        missing = list(dict.fromkeys(pair_id for (pair_id, _), i in zip(wanted, at) if i < 0))
        if missing:
            raise DreError(
                f"recording {self.name} lacks prompt {prompt} for {len(missing)} of {len(set(ids))} pairs "
                f"({repeats} replies each), first {', '.join(missing[:3])}: score recorded pairs only, or use a "
                "live judge"
            )
        found = rows.iloc[at].reset_index()[list(COLUMNS)]
        if isinstance(pairs, pd.DataFrame) and "response" in pairs and found["reply"].notna().any():
            found = self._reread(found, pairs, repeats)
        return found

    def _reread(self, found, pairs, repeats):
        """Read the replies again, now that the texts they may quote are known."""
        items = [row for row in pairs.to_dict("records") for _ in range(repeats)]
        rows = []
        for record, row in zip(found.to_dict("records"), items):
            if isinstance(record["reply"], str) and record["outcome"] == "ok":
                verdict = parse.read(record["reply"], self.readings[record["prompt"]], row)
                record |= dict(zip(_VERDICT, _values(verdict)))
            rows.append(record)
        return _table(pd.DataFrame(rows, columns=COLUMNS))

    def _known(self, prompt):
        known = sorted(self.table["prompt"].unique())
        if prompt not in known:
            raise DreError(f"recording {self.name} has no prompt {prompt!r}, only {', '.join(known) or 'none'}")
        return prompt


def load(name_or_dir):
    """Load a recording of this project by name, or any folder of the same form.

    Returns
    -------
    Recording

    Raises
    ------
    DreError
        If it is not there, a line cannot be read, a reply stands there twice, or the manifest does not
        describe a prompt.
    """
    folder = _folder(name_or_dir)
    manifest = _manifest(folder / "manifest.json")
    readings = {}
    columns = {name: [] for name in COLUMNS}
    seen = set()
    for where, record in jsonl.read_jsonl(folder / "judgements.jsonl"):
        name = jsonl.field(record, "prompt", str, where)
        if name not in readings:
            readings[name] = _reading(name, manifest, folder)
        key = (jsonl.field(record, "pair_id", str, where), name, _repeat(record, where))
        if key in seen:
            raise DreError(f"{where}: pair {key[0]}, prompt {name}, repeat {key[2]} stands there twice: keep one")
        seen.add(key)
        outcome = _outcome(record, where)
        logprobs = json.dumps(record["logprobs"]) if record.get("logprobs") else None
        verdict = _verdict(record, outcome, readings[name], where)
        row = (*key, record.get("reply"), outcome, logprobs, *_values(verdict))
        for column, value in zip(columns.values(), row):
            column.append(value)
    return Recording(_table(pd.DataFrame(columns)), manifest, folder.name, readings)


def _table(table):
    return table.astype({"repeat": "int64", "score_llm": "float64", "s_inf": "float64"})


def _values(verdict):
    responses = json.dumps(verdict.responses, ensure_ascii=False) if verdict.responses else None
    return verdict.score_llm, verdict.s_inf, verdict.label, responses, verdict.status, verdict.reason


def _outcome(record, where):
    """What the provider said of the reply: ``ok`` unless the line says otherwise, as its word or as a status."""
    status = record.get("status", "ok")
    if status not in parse.STATUSES:
        raise DreError(f"{where}: status {status!r}, expected {', '.join(parse.STATUSES)}")
    return record.get("outcome", "ok" if status == "malformed" else status)


def _verdict(record, outcome, prompt, where):
    if outcome != "ok":  # its word goes before the parser's
        return parse.Verdict(outcome, reason=str(record.get("reason") or f"the provider says {outcome}"))
    if record.get("reply") is not None:
        return parse.read(record["reply"], prompt, {})
    if record.get("status", "ok") != "ok":
        return parse.Verdict(record["status"], reason=str(record.get("reason", "")))
    values = {key: record[key] for key in _KEPT if key in record}
    if not values:
        raise DreError(f"{where}: neither reply, status nor any of {', '.join(_KEPT)}")
    try:
        return parse.from_values(values, prompt)
    except Unclear as error:
        return parse.Verdict("malformed", reason=str(error))


def _repeat(record, where):
    repeat = record.get("repeat", 0)
    if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 0:
        raise DreError(f"{where}: repeat is {repeat!r}, expected 0, 1, 2, ...")
    return repeat


def _folder(name_or_dir):
    for folder in (RECORDED / str(name_or_dir), Path(name_or_dir)):
        if (folder / "judgements.jsonl").is_file():
            return folder
    there = ", ".join(sorted(p.parent.name for p in RECORDED.glob("*/judgements.jsonl"))) or "none"
    raise DreError(
        f"no recording {str(name_or_dir)!r}: give a folder with manifest.json and judgements.jsonl, or one of {there}"
    )


def _manifest(path):
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DreError(f"{path}: not a readable JSON manifest: {error}") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("prompts"), dict):
        raise DreError(f"{path}: no object 'prompts', expected each prompt's sha256 by name")
    return manifest


def _reading(name, manifest, folder):
    """How replies to a recorded prompt are read: as those to our prompt of that name, unless the manifest says."""
    entry = manifest["prompts"].get(name)
    if not isinstance(entry, dict) or "sha256" not in entry:
        raise DreError(f"{folder / 'manifest.json'}: prompts has no sha256 of {name!r}, which judgements.jsonl uses")
    if "template" in entry:
        return prompts.from_text(name, entry["template"])
    return prompts.load(name)
