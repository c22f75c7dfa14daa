"""What to do with a damaged store: keep it aside, and carry over what can still be read."""

import contextlib
import os
import sqlite3
import time
from pathlib import Path


def keep_aside(path, why):
    """Rename a damaged store, copy its readable rows into a new one, and return the sentence that says so."""
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
    try:
        for suffix in ("", "-wal", "-shm"):
            if Path(f"{path}{suffix}").exists():
                os.rename(f"{path}{suffix}", f"{aside}{suffix}")
    except OSError as error:
        return f"{path}: the store is damaged ({why}) and cannot be renamed ({error.strerror}): move it away"
    saved = _carry_over(aside, path)
    return (
        f"{path}: the store is damaged ({why}): it is kept as {aside.name}, and the {saved} judgements that "
        "could be read are in a new store in its place; run the same command again to go on with those"
    )


def _carry_over(damaged, path):
    from dre.judges.settings import Setting
    from dre.judges.store import FIELDS, Judgement, Store

    saved = 0
    with Store(path) as store, contextlib.closing(sqlite3.connect(damaged)) as old:
        # Without this SQLite reads nothing at all from a file that is shorter than its header says.
        old.execute("PRAGMA writable_schema = ON")
        names = "id, provider, base_url, model, prompt, prompt_sha256, params"
        settings = {row[0]: Setting(*row[1:]) for row in _readable(old, "setting", names)}
        found = {}
        for number, *row in _readable(old, "judgement", "setting, " + ", ".join(FIELDS)):
            if number in settings:
                found.setdefault(number, []).append(Judgement(*row))
        for number, judgements in found.items():
            store.add(settings[number], judgements)
            saved += len(judgements)
    return saved


def _readable(db, table, columns):
    """Yield the rows that can be read, in order of id; after an unreadable page go on behind it."""
    last, step = 0, 1
    while step < 1 << 40:
        try:
            for identifier, *row in db.execute(
                f"SELECT id, {columns} FROM {table} NOT INDEXED WHERE id >= ? ORDER BY id", (last,)
            ):
                last, step = identifier + 1, 1
                yield row
            return
        except sqlite3.DatabaseError:
            last, step = last + step, step * 2  # leap further each time: pages hold an unknown number of rows
