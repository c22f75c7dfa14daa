"""Judges that ask no model: a recording, and a function of Python's.

A recording is a folder with ``manifest.json`` (what was asked by each prompt) and ``judgements.jsonl``, whose lines
hold ``pair_id``, ``prompt``, ``repeat`` (default 0), and what was given: ``score`` (0 to 5), ``influence`` (0 to 1) or
``label``, or in ``status`` why there is none; in ``shown`` whose numbers the judge saw, if another pair's. The manifest
may say how many lines there are. `dre.datasets.recordings` holds it to the prompts and texts that they are about.
"""

import functools
import hashlib
import json

from dre.datasets import recordings as recording
from dre.datasets.readers import records
from dre.errors import DreError
from dre.judges import parse, prices, prompts
from dre.judges.asking import Run
from dre.judges.judge import AGAIN, frame, rows_of


class Recorded:
    """A judge that only repeats a recording: a folder of ``data/recorded``, or the path of one; asks nothing of anyone.

    ``repeat`` is the index of the first reply to take, ``repeats`` how many for each pair.
    """

    price, max_usd = prices.Price(0.0, 0.0, "a recording"), None

    def __init__(self, name, repeat=0, repeats=1):
        self.spec, self.repeat, self.repeats, self.last = f"recorded:{name}", repeat, repeats, Run()
        self._folder = recording.folder(name)
        self._records, sha256 = _read(self._folder)
        self.signature = f"{self.spec} repeat={repeat} repeats={repeats} sha256={sha256[:12]}"

    def prompt(self, given):
        """Return a prompt by name, path or as it is; as a name alone one of no template, asked in another's words.

        DreError if there is none, or the recording knows its name with other words.
        """
        asked = {name for name, _ in self._records}
        if isinstance(given, str) and given in asked - {*prompts.names()}:
            return given
        prompt = prompts.load(given)
        if prompt.name in asked:
            recording.check(self._folder, prompt.name, prompt)
        return prompt

    def estimate(self, pairs, prompt="llm_only", retry=()):
        """Say that nothing would be asked; DreError if something would have to be."""
        self.score(pairs, prompt)
        return "0 calls to make: all is recorded"

    def score(self, pairs, prompt="llm_only", retry=(), first=0, ask=True, examples=None):
        """Return the table of recorded verdicts, as `Judge.score` does; what is missing is an error, if `ask`.

        So is a prompt or a text that is not the recorded one of its name.
        """
        if examples is not None:
            raise DreError(
                f"{self.spec} was shown no examples that could be chosen here: use a live judge"
            )
        rows, prompt = rows_of(pairs), self.prompt(prompt)
        name = prompt if isinstance(prompt, str) else prompt.name
        repeats = list(range(self.repeat + first, self.repeat + first + self.repeats))
        known = [self._records.get((name, repeat), {}) for repeat in repeats]
        said = {
            row["pair_id"]: [found[row["pair_id"]] for found in known if row["pair_id"] in found]
            for row in rows
        }
        lacking = [pair_id for pair_id, verdicts in said.items() if len(verdicts) < self.repeats]
        if ask and lacking:
            which = f"prompt {name}, repeats {repeats}, for {len(lacking)} of {len(rows)} pairs, first {lacking[0]}"
            sets = (
                ", ".join(
                    sorted({pair_id.partition("/")[0] for found in known for pair_id in found})
                )
                or "no set"
            )
            how = "score recorded pairs only (--sets, --repeats 1), or use a live judge"
            raise DreError(f"{self.spec} lacks {which} (it has some of {sets}): {how}")
        for row in rows:
            if said[row["pair_id"]]:
                recording.check(self._folder, row["pair_id"], row)
        return frame(
            {
                pair_id: [(verdict, 0.0) for verdict in verdicts]
                for pair_id, verdicts in said.items()
            }
        )


@functools.lru_cache(maxsize=4)
def _read(folder):
    """``{(prompt, repeat): {pair_id: Verdict}}``, and the sha256 of the judgements."""
    path, found, shown = folder / "judgements.jsonl", {}, []
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    for line, record in records(path):
        record = record if isinstance(record, dict) else {}
        name, pair_id, repeat = record.get("prompt"), record.get("pair_id"), record.get("repeat", 0)
        of_repeat = found.setdefault((name, repeat), {})
        if name not in manifest["prompts"] or not isinstance(pair_id, str) or pair_id in of_repeat:
            raise DreError(
                f"{path}:{line}: expected a prompt of the manifest and a pair_id, once a repeat"
            )
        for what, high in (("score", 5), ("influence", 1)):
            given = record.get(what, 0)
            if not isinstance(given, int | float) or not 0 <= given <= high:
                raise DreError(
                    f"{path}:{line}: {what} is {given!r:.60}, expected a number from 0 to {high}"
                )
        if (status := record.get("status", "ok")) not in ("ok", *AGAIN):
            raise DreError(
                f"{path}:{line}: status is {status!r:.60}, expected one of {', '.join(AGAIN)}"
            )
        of_repeat[pair_id] = parse.Verdict(
            status, *(record.get(what) for what in ("score", "influence", "label"))
        )
        if "shown" in record:
            shown.append((line, record["shown"], pair_id, of_repeat))
    for line, other, pair_id, pairs in shown:
        if other not in pairs or other.partition("/")[0] != pair_id.partition("/")[0]:
            what = "expected a pair of the same set that was judged by this prompt, too"
            raise DreError(f"{path}:{line}: shown is {other!r:.60}, {what}")
    lines = sum(map(len, found.values()))
    if lines != manifest.get("judgements", lines):
        what = f"{lines:,} judgements, but its manifest says {manifest['judgements']:,}"
        raise DreError(f"{path}: found {what}: get the file again")
    return found, hashlib.sha256(path.read_bytes()).hexdigest()


class Function:
    """Judge by ``f(context, response)``, which returns a score on the prompt's scale.

    ``context`` is a tuple of turns, oldest first. Nothing is stored; a pair for which it raises is an ``error``.
    """

    price, max_usd, repeats = prices.Price(0.0, 0.0, "a function"), None, 1

    def __init__(self, f):
        self.f, self.last = f, Run()
        self.spec = self.signature = (
            f"function:{f.__module__}.{getattr(f, '__qualname__', type(f).__qualname__)}"
        )

    def score(self, pairs, prompt="llm_only", retry=(), first=0, ask=True, examples=None):
        """Return the table of `dre.judges.judge.frame`."""
        prompt = prompts.load(prompt)
        if prompt.kind != "score" or examples is not None:
            raise DreError(f"{self.spec}: expected a prompt that asks for a score, and no examples")
        return frame(
            {row["pair_id"]: [(self._verdict(row, prompt), 0.0)] for row in rows_of(pairs)}
        )

    def _verdict(self, row, prompt):
        try:
            return parse.Verdict(
                "ok", parse.on_scale("score", self.f(row["context"], row["response"]), prompt)
            )
        except parse.Unclear as error:
            return parse.Verdict("malformed", reason=str(error))
        except Exception as error:
            return parse.Verdict("error", reason=repr(error))
