"""A file of pairs becomes a file of scores: in blocks, resumable after a kill at any moment."""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from dre.errors import DreError
from dre.report.signature import signature as line
from dre.scoring import forms, readers, signature
from dre.scoring.journal import Journal, finished
from dre.scoring.rows import Bad

BLOCK = 2048


@dataclass(frozen=True)
class Input:
    """A file that was read through once: its rows, its bad records, its sha256, and when it was last changed."""

    path: Path
    names: dict
    rows: int
    bad: int
    sha256: str
    changed: int


def score_file(source, output, settings, names=None, skip_bad=False, engine=None, block=BLOCK, progress=True):
    """Score every row of a file.

    Parameters
    ----------
    source, output : path
        ``.jsonl``, ``.csv`` or ``.parquet``.
    settings : dre.scoring.scorer.Settings
    names : dict, optional
        Our field -> the file's.
    skip_bad : bool
        Write records that cannot be scored to ``<output>.bad.jsonl`` instead of stopping at the first.
    engine : callable, optional
        From `dre.scoring.readers.Blocks` (lists of `Row`) to an iterator of their tables, in the same order. None:
        one after the other in this process.
    block : int
        Rows of a block.
    progress : bool
        Show bars on a terminal.

    Returns
    -------
    dict
        The summary, as ``<output>.summary.json`` has it; see `dre.scoring.summary.Tally`.

    Raises
    ------
    DreError
        On input that cannot be scored, or an output that belongs to something else.
    """
    output = Path(output)
    forms.check(output)
    given = examine(source, output, names or {}, skip_bad, progress)
    scorer = settings.open()
    found = signature.parts(scorer, given.sha256)
    mark = {"signature": line(**found), "names": given.names, "skip_bad": bool(skip_bad)}
    done = finished(output, mark)
    if done is not None:
        return done
    with Journal(output, mark) as journal:
        blocks = readers.Blocks(given.path, given.names, block, journal.rows)
        tables = engine(blocks) if engine else map(scorer.score_block, blocks)
        with _bar(given.rows, progress, "scoring", "pair", journal.rows) as bar:
            for table in tables:
                journal.add(table)
                bar.update(len(table))
        if journal.rows != given.rows or given.path.stat().st_mtime_ns != given.changed:
            raise DreError(f"{given.path} was changed while it was read: delete {journal.path} and start again")
        return journal.finish(scorer.columns, {"input": given.path.name, "bad": given.bad})


def examine(source, output, names, skip_bad, progress=True):
    """Read a file through before anything is paid for: every record is checked, and the bad ones written aside.

    Returns
    -------
    Input

    Raises
    ------
    DreError
        At the first bad record, unless they are to be skipped; or if no row is left.
    """
    source, aside = Path(source), Path(f"{output}.bad.jsonl")
    draft = aside.with_name(f"{aside.name}.{os.getpid()}.tmp")
    try:
        with open(draft, "w", encoding="utf-8", errors="backslashreplace") as file:
            rows, bad = _counted(source, names, file if skip_bad else None, progress)
        if not rows:
            raise DreError(f"{source}: there is no pair to score ({bad} bad record(s)): expected at least one")
        if bad:
            os.replace(draft, aside)
        else:
            aside.unlink(missing_ok=True)
    finally:
        draft.unlink(missing_ok=True)
    with open(source, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Input(source, names, rows, bad, digest, source.stat().st_mtime_ns)


def _counted(source, names, aside, progress):
    """How many rows and bad records there are; these go to ``aside``, or where there is none the first is an error."""
    rows = bad = 0
    with _bar(None, progress, "checking", "pair") as bar:
        for found in readers.read(source, names):
            bar.update()
            if not isinstance(found, Bad):
                rows += 1
                continue
            if aside is None:
                where = readers.place(source, found.line)
                raise DreError(f"{where}: {found.reason}; --skip-bad leaves such records out, and says so")
            bad += 1
            aside.write(json.dumps(found._asdict(), ensure_ascii=False, default=str) + "\n")
    return rows, bad


def _bar(total, progress, what, unit, initial=0):
    from tqdm import tqdm

    return tqdm(total=total, initial=initial, desc=what, unit=unit, disable=None if progress else True)
