"""The file behind the judgement store: its layout, its creation, and what its errors mean to a user."""

import contextlib
import os
import sqlite3
import threading
from pathlib import Path

from dre.errors import DreError

SCHEMA_VERSION = 1
SCHEMA = """
CREATE TABLE setting (
    id INTEGER PRIMARY KEY, provider TEXT NOT NULL, base_url TEXT NOT NULL, model TEXT NOT NULL,
    prompt TEXT NOT NULL, prompt_sha256 TEXT NOT NULL, params TEXT NOT NULL,
    UNIQUE (provider, base_url, model, prompt_sha256, params));
CREATE TABLE judgement (
    id INTEGER PRIMARY KEY, setting INTEGER NOT NULL REFERENCES setting, messages_sha256 TEXT NOT NULL,
    repeat INTEGER NOT NULL, pair_id TEXT NOT NULL, status TEXT NOT NULL, reason TEXT NOT NULL,
    reply TEXT NOT NULL, outcome TEXT NOT NULL, logprobs TEXT, served_model TEXT NOT NULL,
    input_tokens INTEGER, output_tokens INTEGER, cost REAL, seconds REAL, source TEXT NOT NULL,
    score_llm REAL, s_inf REAL, label TEXT, responses TEXT, parser TEXT NOT NULL, created TEXT NOT NULL,
    UNIQUE (setting, messages_sha256, repeat));
CREATE TABLE claim (
    setting INTEGER NOT NULL, messages_sha256 TEXT NOT NULL, repeat INTEGER NOT NULL,
    pid INTEGER NOT NULL, since REAL NOT NULL, PRIMARY KEY (setting, messages_sha256, repeat)) WITHOUT ROWID;
CREATE TABLE batch (
    id INTEGER PRIMARY KEY, setting INTEGER NOT NULL REFERENCES setting, token TEXT NOT NULL UNIQUE,
    remote_id TEXT NOT NULL, state TEXT NOT NULL, created TEXT NOT NULL, note TEXT NOT NULL);
CREATE TABLE batch_item (
    batch INTEGER NOT NULL REFERENCES batch, custom_id TEXT NOT NULL, messages_sha256 TEXT NOT NULL,
    repeat INTEGER NOT NULL, pair_id TEXT NOT NULL, PRIMARY KEY (batch, custom_id)) WITHOUT ROWID;
"""
_TABLES = {"setting", "judgement", "claim", "batch", "batch_item"}
_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full: free space and run again; what is stored is kept",
    sqlite3.SQLITE_READONLY: "it cannot be written: make it and its directory writable, or give another",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: check that its directory can be written, or give another",
    sqlite3.SQLITE_BUSY: "another process kept it locked for a minute: let that end, then run again",
    sqlite3.SQLITE_IOERR: "reading or writing failed (disk full?): what is stored is kept; run again",
}


class Damaged(Exception):
    """The file is a judgement store, but a broken one."""


def connect(path):
    """Open a connection that commits only where told to."""
    db = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
    # FULL: a committed reply outlives a power cut as well as a kill.
    db.execute("PRAGMA synchronous = FULL")
    return db


def lay_out(db):
    """Create the tables of an empty store."""
    db.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")


def create(path):
    """Make a new store beside its place and link it there: nobody ever sees one that is half made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.new-{os.getpid()}-{threading.get_ident()}")
    try:
        with contextlib.closing(connect(draft)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            lay_out(db)
        try:
            os.link(draft, path)
        except FileExistsError:
            pass  # another process was faster
        except OSError:  # a file system without hard links
            if not path.exists():
                os.rename(draft, path)
    finally:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{draft}{suffix}").unlink(missing_ok=True)


def check(db, path):
    """Refuse a file of another kind or a later layout; raise `Damaged` for a broken store."""
    version = db.execute("PRAGMA user_version").fetchone()[0]
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if version > SCHEMA_VERSION and tables >= _TABLES:
        raise DreError(
            f"{path}: written by a later version (layout {version}, this one knows {SCHEMA_VERSION}): "
            "update dre, or give another --store"
        )
    if version != SCHEMA_VERSION or not tables >= _TABLES:
        if path.stat().st_size == 0:
            raise Damaged("it is empty")
        raise DreError(f"{path}: an SQLite file, but not a judgement store: give another --store")
    found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise Damaged(found.splitlines()[-1])


@contextlib.contextmanager
def explained(path, close):
    """Turn SQLite's errors into ones a user can act on; keep a damaged file aside after ``close()``."""
    try:
        yield
    except OSError as error:
        raise DreError(f"{path}: the store cannot be created ({error.strerror}): give another --store") from None
    except Damaged as error:
        raise DreError(_kept_aside(path, close, str(error))) from None
    except sqlite3.DatabaseError as error:
        code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
        if code in _ADVICE:
            raise DreError(f"{path}: the store: {_ADVICE[code]}") from None
        if code == sqlite3.SQLITE_NOTADB and not _torn(path):
            raise DreError(f"{path}: not a judgement store (no SQLite file): give another --store") from None
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise DreError(_kept_aside(path, close, str(error))) from None
        raise


def _torn(path):
    """Whether a file that SQLite does not know was a store once: blanked, or its first bytes are SQLite's."""
    with open(path, "rb") as file:
        head = file.read(4096)
    return not head.strip(b"\0") or head.startswith(b"SQLite format 3\0")


def _kept_aside(path, close, why):
    from dre.judges.salvage import keep_aside

    close()
    return keep_aside(path, why)
