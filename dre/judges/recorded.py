"""Recorded judgements: a folder with ``manifest.json`` (what was asked by each prompt) and ``judgements.jsonl``.

Its lines hold ``pair_id``, ``prompt``, ``repeat`` (default 0), and what was given: ``score, influence`` or ``label``.
"""

import functools
import hashlib
import json
from pathlib import Path

from dre.errors import DreError
from dre.judges import files, parse, prices
from dre.judges.asking import Run
from dre.judges.judge import frame, rows_of

FOLDER = Path(__file__).parents[2] / "data" / "recorded"


class Recorded:
    """A judge that only repeats a recording: a folder of ``data/recorded``, or the path of one; asks nothing of anyone.

    ``repeat`` is the index of the first reply to take, ``repeats`` how many for each pair.
    """

    price, max_usd = prices.Price(0.0, 0.0, "a recording"), None

    def __init__(self, name, repeat=0, repeats=1):
        self.spec, self.repeat, self.repeats, self.last = f"recorded:{name}", repeat, repeats, Run()
        folder = FOLDER / name if (FOLDER / name).is_dir() else Path(name)
        if not (folder / "judgements.jsonl").is_file():
            there = ", ".join(sorted(path.parent.name for path in FOLDER.glob("*/judgements.jsonl")))
            raise DreError(f"no recording {name!r}: give a folder with judgements.jsonl, or one of {there}")
        self._records, self._sha256 = _read(folder)

    @property
    def signature(self):
        """All that can change a verdict besides the prompt and the pair, as one line of text."""
        return f"{self.spec} repeat={self.repeat} repeats={self.repeats} sha256={self._sha256[:12]}"

    def estimate(self, pairs, prompt="llm_only", retry=()):
        """Say that nothing would be asked."""
        return "0 calls to make: all is recorded"

    def score(self, pairs, prompt="llm_only", retry=(), first=0, ask=True, examples=None):
        """Return the table of recorded verdicts, as `Judge.score` does; what is missing is an error, if `ask`."""
        if examples is not None:
            raise DreError(f"{self.spec} was shown no examples that could be chosen here: use a live judge")
        ids = [row["pair_id"] for row in rows_of(pairs)]
        name = getattr(prompt, "name", None) or Path(prompt).stem
        repeats = list(range(self.repeat + first, self.repeat + first + self.repeats))
        known = [self._records.get((name, repeat), {}) for repeat in repeats]
        lacking = [pair_id for pair_id in ids if not all(pair_id in of_repeat for of_repeat in known)]
        if ask and lacking:
            which = f"prompt {name}, repeats {repeats}, for {len(lacking)} of {len(ids)} pairs, first {lacking[0]}"
            raise DreError(f"{self.spec} lacks {which}: score recorded pairs only, or use a live judge")
        said = {}
        for pair_id in ids:
            given = [of_repeat[pair_id].get for of_repeat in known if pair_id in of_repeat]
            verdicts = [parse.Verdict("ok", get("score"), get("influence"), get("label")) for get in given]
            said[pair_id] = (verdicts, [0.0] * len(verdicts), [])
        return frame(said)


@functools.lru_cache(maxsize=4)
def _read(folder):
    """``{(prompt, repeat): {pair_id: record}}``, and the sha256 of the judgements."""
    path = folder / "judgements.jsonl"
    manifest, records = json.loads((folder / "manifest.json").read_text(encoding="utf-8")), {}
    for where, record in files.read_jsonl(path):
        name, pair_id, repeat = record.get("prompt"), record.get("pair_id"), record.get("repeat", 0)
        of_repeat = records.setdefault((name, repeat), {})
        if name not in manifest["prompts"] or not isinstance(pair_id, str) or pair_id in of_repeat:
            raise DreError(f"{where}: expected a prompt of the manifest and a pair_id, each repeat of a pair once")
        of_repeat[pair_id] = record
    return records, hashlib.sha256(path.read_bytes()).hexdigest()
