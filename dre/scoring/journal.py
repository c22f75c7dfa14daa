"""What is finished of a run, kept so that a kill at any moment loses no block and doubles no row.

``<output>.partial`` holds finished rows as JSON Lines, whatever the output is; ``<output>.partial.json`` says how many
bytes of it are valid and which input and settings they belong to. A block's rows are flushed to the disk before that
note is replaced, so what a kill leaves behind the noted length is cut off by the next run, which scores it again.
"""

import contextlib
import json
import os
from pathlib import Path

from dre.errors import DreError
from dre.pipeline.state import write_json
from dre.scoring import forms
from dre.scoring.summary import Tally

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


class Journal:
    """The finished rows of one run; a context manager.

    Parameters
    ----------
    output : Path
    mark : dict
        What the rows depend on, as JSON types. What is there must have the same.
    """

    def __init__(self, output, mark):
        self.output, self.mark = output, mark
        self.path, self.note = Path(f"{output}.partial"), Path(f"{output}.partial.json")
        self.rows = self.bytes = 0

    def __enter__(self):
        if self.path.exists():
            self._check()
        else:
            self._write_note()
        self._file = open(self.path, "ab")
        if fcntl is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._file.close()
                raise DreError(f"another process is writing {self.path}: wait for it, or stop it") from None
        self._file.truncate(self.bytes)
        return self

    def __exit__(self, *exc):
        self._file.close()

    def _check(self):
        there = _read(self.note)
        if there is None or self.path.stat().st_size < there.get("bytes", float("inf")):
            raise DreError(f"{self.path} cannot be continued ({self.note.name} is missing or damaged): delete both")
        if there["mark"] != self.mark:
            raise DreError(f"{self.path} belongs to another run ({_apart(there['mark'], self.mark)}): {_ADVICE}")
        self.rows, self.bytes = there["rows"], there["bytes"]

    def add(self, table):
        """Append the rows of a table; they are on the disk when this returns."""
        data = forms.jsonl(table).encode()
        try:
            self._file.write(data)
            self._file.flush()
            os.fsync(self._file.fileno())
            self.rows, self.bytes = self.rows + len(table), self.bytes + len(data)
            self._write_note()
        except OSError as error:
            raise DreError(
                f"{self.path}: cannot be written ({error.strerror}): free some space, run it again"
            ) from None

    def finish(self, columns, more):
        """Write the output and its summary, the output last; returns the summary."""
        draft, tally = Path(f"{self.output}.tmp"), Tally()
        with forms.writer(draft, self.output.suffix, columns) as write:
            for table in forms.tables(self.path, columns):
                tally.add(table)
                write(table)
        summary = {"signature": self.mark["signature"]} | more | tally.summary() | {"run": self.mark}
        write_json(Path(f"{self.output}.summary.json"), summary)
        os.replace(draft, self.output)
        _forget(self.path, self.note)
        return summary

    def _write_note(self):
        write_json(self.note, {"mark": self.mark, "rows": self.rows, "bytes": self.bytes})


_ADVICE = "delete it, or name another output"


def finished(output, mark):
    """Return the summary if the output is there and was made by exactly this run, None if it is not there.

    Raises
    ------
    DreError
        If the output belongs to something else.
    """
    if not output.exists():
        return None
    summary = _read(Path(f"{output}.summary.json"))
    if summary is None or "run" not in summary:
        raise DreError(f"{output} exists already, and nothing says that it is this run's: {_ADVICE}")
    if summary["run"] != mark:
        raise DreError(f"{output} is of another run ({_apart(summary['run'], mark)}): {_ADVICE}")
    _forget(Path(f"{output}.partial"), Path(f"{output}.partial.json"))
    return summary


def _apart(there, ours):
    """What differs between two runs, in a few words."""
    old, new = (mark.get("signature", "").split("|") for mark in (there, ours))
    differ = [f"{a} there, {b} now" for a, b in zip(old, new) if a != b][:3]
    return "; ".join(differ) or "other options"


def _read(path):
    with contextlib.suppress(FileNotFoundError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else None
    return None


def _forget(*paths):
    for path in paths:
        path.unlink(missing_ok=True)
