"""The judgement store: one SQLite file, one committed row for each reply, under all that can change the reply.

Texts of dialogues are not stored, only the hash of the messages. Reading is free at any time; whoever asks holds a lock
that the kernel frees when the process ends, however it ends.
"""

import contextlib
import hashlib
import json
import os
import socket
import sqlite3
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import platformdirs
from filelock import FileLock, Timeout

from dre.errors import DreError

SCHEMA = """CREATE TABLE IF NOT EXISTS reply (
    key TEXT PRIMARY KEY, judge TEXT NOT NULL, base_url TEXT NOT NULL, prompt TEXT NOT NULL, params TEXT NOT NULL,
    pair_id TEXT NOT NULL, repeat INTEGER NOT NULL, text TEXT NOT NULL, outcome TEXT NOT NULL, model TEXT NOT NULL,
    input_tokens INTEGER, output_tokens INTEGER, cost REAL, seconds REAL, source TEXT NOT NULL, created TEXT NOT NULL,
    top TEXT
) WITHOUT ROWID"""


class Reply(NamedTuple):
    """A provider's answer: its text, ok, refused or truncated, the model that gave it, what it took; None: unknown.

    ``top``: the likeliest tokens of its first places, if log-probabilities were asked for (`dre.judges.likelihoods`).
    """

    text: str
    outcome: str = "ok"
    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    source: str = "live"
    top: str | None = None


class Asked(NamedTuple):
    """What a reply answers: its key, and what is kept beside it for people to read."""

    key: str
    judge: str
    base_url: str
    prompt: str
    params: str
    pair_id: str
    repeat: int


def messages_sha256(messages):
    """Return the sha256 of rendered messages; the lengths in front make it unambiguous."""
    text = "".join(f"{one['role']}:{len(one['content'])}:{one['content']}" for one in messages)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def setting_sha256(judge, base_url, prompt_sha256, params):
    """Return the hash of who is asked and how: what all replies of a run share."""
    return hashlib.sha256(json.dumps([judge, base_url, prompt_sha256, params], sort_keys=True).encode()).hexdigest()


def key_of(setting, messages, repeat):
    """Return the key of a reply from its setting's hash, its messages' hash and its repeat index."""
    return hashlib.sha256(f"{setting} {messages} {repeat}".encode()).hexdigest()[:40]


class Store:
    """Open a store, creating it if it is not there; ``:memory:`` keeps it in memory.

    Without a path: ``DRE_STORE``, or a file in the user's data folder, the same from every working directory.
    """

    def __init__(self, path=None):
        default = platformdirs.user_data_path("dre", appauthor=False) / "replies.sqlite"
        path = path or os.environ.get("DRE_STORE") or default
        self.path = path if path == ":memory:" else Path(path).expanduser()
        self._thread = threading.RLock()
        with self._explained():
            if self.path != ":memory:":
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, timeout=60, isolation_level=None, check_same_thread=False)
            if self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'judgement'").fetchone():
                new = f"`dre judge import {self.path} --store NEW.sqlite`"
                raise DreError(f"{self.path}: a store of an earlier version: bring its replies over once with {new}")
            # WAL and FULL: a committed reply outlives a kill and a power cut.
            self._db.executescript(f"PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; {SCHEMA};")
            if "top" not in {column[1] for column in self._db.execute("PRAGMA table_info(reply)")}:
                self._db.execute("ALTER TABLE reply ADD COLUMN top TEXT")  # a store from before log-probabilities

    def close(self):
        """Close the file."""
        self._db.close()

    @contextlib.contextmanager
    def held(self):
        """Hold the store for writing: one process at a time, with as many threads and judges as it likes."""
        if self.path == ":memory:":
            yield
            return
        holder = Path(f"{self.path.resolve()}.holder")
        try:
            with FileLock(f"{self.path.resolve()}.lock", timeout=0, is_singleton=True, thread_local=False):
                since = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
                holder.write_text(f"process {os.getpid()} on {socket.gethostname()}, since {since}")
                yield
        except Timeout:
            who = holder.read_text() if holder.exists() else "another process"
            raise DreError(f"{self.path}: {who}, is writing this store: let it end, or give another --store") from None

    def get(self, keys):
        """Return ``{key: Reply}`` of those that are stored."""
        sql = f"SELECT key, {', '.join(Reply._fields)} FROM reply WHERE key IN (SELECT value FROM json_each(?))"
        with self._thread, self._explained():
            return {row[0]: Reply._make(row[1:]) for row in self._db.execute(sql, (json.dumps(list(keys)),))}

    def put(self, rows):
        """Commit ``(Asked, Reply)`` pairs, all or none; each replaces what is stored under its key."""
        created = datetime.now(UTC).isoformat(timespec="seconds")
        names = (*Asked._fields, *Reply._fields, "created")
        sql = f"REPLACE INTO reply ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
        with self._thread, self._explained():
            self._db.execute("BEGIN IMMEDIATE")
            with self._db:  # commits, or rolls back
                self._db.executemany(sql, [(*asked, *reply, created) for asked, reply in rows])

    def summary(self):
        """Return rows (judge, base_url, prompt, params, outcome, source, replies, dollars, tokens in, tokens out)."""
        groups = "judge, base_url, prompt, params, outcome, source"
        sums = "COUNT(*), SUM(cost), SUM(input_tokens), SUM(output_tokens)"
        with self._thread, self._explained():
            return self._db.execute(f"SELECT {groups}, {sums} FROM reply GROUP BY {groups}").fetchall()

    @contextlib.contextmanager
    def _explained(self):
        try:
            yield
        except (sqlite3.DatabaseError, OSError) as error:
            what = "free space or mend the file, or give another --store; what is stored is kept"
            raise DreError(f"{self.path}: the store cannot be opened or written ({error}): {what}") from None
