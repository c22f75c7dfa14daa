"""The judgement store: one SQLite file, one committed row for each call, under all that can change its reply.

Texts of dialogues are not stored, only the hash of the messages. Reading is free at any time and writes nothing;
whoever asks holds a lock that the kernel frees when the process ends, however it ends.
"""

import contextlib
import functools
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
from dre.judges import prompts

SCHEMA = """CREATE TABLE IF NOT EXISTS reply (
    key TEXT PRIMARY KEY, judge TEXT NOT NULL, base_url TEXT NOT NULL, prompt TEXT NOT NULL, params TEXT NOT NULL,
    pair_id TEXT NOT NULL, repeat INTEGER NOT NULL, text TEXT NOT NULL, outcome TEXT NOT NULL, model TEXT NOT NULL,
    input_tokens INTEGER, output_tokens INTEGER, cost REAL, seconds REAL, source TEXT NOT NULL, created TEXT NOT NULL,
    top TEXT
) WITHOUT ROWID"""
_OPEN = {"timeout": 60, "isolation_level": None, "check_same_thread": False, "uri": True}
_WRITERS = {}  # path -> the lock of the thread that writes there


class Reply(NamedTuple):
    """A provider's answer: its text, ok, refused or truncated, the model that gave it, what it took; None: unknown.

    ``source``: live, batch, or replaced (paid for, and asked again since). ``top``: the likeliest tokens of its first
    places, if log-probabilities were asked for (`dre.judges.likelihoods`).
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
    cached: int = (
        0  # input tokens that were read from a cache; what they cost is stored, they are not
    )

    @classmethod
    def of(cls, text, outcome, model, read=None, written=None, cached=None, top=None):
        """Return the reply that a provider's answer is, whatever it holds: texts can be stored, counts are counts."""
        read, cached, top = count(read), count(cached) or 0, top and clean(top)
        return cls(
            clean(text),
            outcome,
            clean(model),
            read,
            count(written),
            top=top,
            cached=min(cached, read or 0),
        )


class Asked(NamedTuple):
    """What a reply answers: its key, what is kept beside it for people to read, and what is not kept.

    ``limits``: keys under which it may be stored, the own one first, and the limits on tokens that they stand for.
    """

    key: str
    judge: str
    base_url: str
    prompt: str
    params: str
    pair_id: str
    repeat: int
    row: dict
    messages: list
    limits: dict


_COLUMNS, _ASKED = Reply._fields[:-1], Asked._fields[:-3]


def clean(value):
    """Return a text, or the texts in a list of parts, as a text that can be stored: half a surrogate becomes ``?``."""
    if isinstance(value, list):
        parts = [part for part in value if isinstance(part, dict) and not part.get("thought")]
        value = "".join(clean(part.get("text")) for part in parts)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def count(value):
    """Return a number of tokens that can be stored, or None if it is none."""
    value = (
        int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 20 else value
    )
    if (
        isinstance(value, float) and value.is_integer()
    ):  # some servers count in floats, such as 50.0
        value = int(value)
    return value if isinstance(value, int) and 0 <= value < 2**63 else None


def setting_sha256(judge, base_url, prompt_sha256, params):
    """Return the hash of who is asked and how: what all replies of a run share."""
    return hashlib.sha256(
        json.dumps([judge, base_url, prompt_sha256, params], sort_keys=True).encode()
    ).hexdigest()


def key_of(setting, messages, repeat):
    """Return the key of a reply from its setting's hash, its messages (their lengths in front) and its repeat index."""
    text = "".join(f"{one['role']}:{len(one['content'])}:{one['content']}" for one in messages)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return hashlib.sha256(f"{setting} {digest} {repeat}".encode()).hexdigest()[:40]


class Store:
    """A store of replies, whose file is made when the first is written; ``:memory:`` keeps them in memory.

    Without a path: ``DRE_STORE``, or a file in the user's data folder, the same from every working directory.
    """

    def __init__(self, path=None):
        default = platformdirs.user_data_path("dre", appauthor=False) / "replies.sqlite"
        path = path or os.environ.get("DRE_STORE") or default
        self.path = path if path == ":memory:" else Path(path).expanduser()
        self._db, self._thread, self._writer = None, threading.RLock(), threading.RLock()
        if self.path != ":memory:":
            self._writer = _WRITERS.setdefault(self.path.resolve(), self._writer)

    def close(self):
        """Close the file; what is asked of the store next opens it again."""
        with self._thread:
            db, self._db = self._db, None
            if db is not None:
                db.close()

    @contextlib.contextmanager
    def held(self):
        """Hold the store for writing: one process, in it one thread, with as many judges as it likes; others wait."""
        with self._writer, contextlib.ExitStack() as lock:
            with self._opened(write=True) as db:
                if self.path != ":memory:":
                    self._lock(lock)
                db.execute("BEGIN IMMEDIATE").execute(
                    "ROLLBACK"
                )  # what cannot be written is known before it is paid
            yield

    def _lock(self, until):
        name = str(self.path.resolve())
        holder, since = Path(f"{name}.holder"), f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
        try:
            until.enter_context(
                FileLock(f"{name}.lock", timeout=0, is_singleton=True, thread_local=False)
            )
        except Timeout:
            who = holder.read_text() if holder.exists() else "another process"
            raise DreError(
                f"{self.path}: {who}, is writing this store: let it end, or give another --store"
            ) from None
        holder.write_text(f"process {os.getpid()} on {socket.gethostname()}, since {since}")

    def get(self, keys):
        """Return ``{key: Reply}`` of those that are stored."""
        sql = f"SELECT key, {', '.join(_COLUMNS)} FROM reply WHERE key IN (SELECT value FROM json_each(?))"
        return {row[0]: Reply(*row[1:]) for row in self._read(sql, json.dumps(list(keys)))}

    def settings(self, judge):
        """Return the different ``(base_url, params)`` with which a judge was asked."""
        return self._read("SELECT DISTINCT base_url, params FROM reply WHERE judge = ?", judge)

    def spent(self, price=None):
        """Return the dollars that all calls cost; those of unknown price count at `price`, if given, by tokens."""
        of = "FILTER (WHERE cost IS NULL)"
        sums = f"TOTAL(cost), TOTAL(input_tokens) {of}, TOTAL(output_tokens) {of}"
        rows = self._read(f"SELECT {sums} FROM reply")
        return sum(cost + (price.cost(*tokens) if price else 0.0) for cost, *tokens in rows)

    def put(self, rows):
        """Commit ``(Asked, Reply)`` pairs, all or none; what stood under a key before stays in the accounts."""
        created, names = (
            datetime.now(UTC).isoformat(timespec="seconds"),
            (*_ASKED, *_COLUMNS, "created"),
        )
        new = f"INSERT INTO reply ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
        old = "UPDATE reply SET key = key || ':' || hex(randomblob(8)), source = 'replaced' WHERE key = ?"
        values = [(*asked[: len(_ASKED)], *reply[:-1], created) for asked, reply in rows]
        with self._opened(write=True) as db:
            db.execute("BEGIN IMMEDIATE")
            with db:  # commits, or rolls back
                db.executemany(old, [row[:1] for row in values])
                db.executemany(new, values)

    def summary(self):
        """Return rows (judge, base_url, prompt, params, status, source, calls, dollars, tokens in, tokens out).

        ``status`` is that of the verdict without the dialogue, or ``answered`` (a reply to a prompt of one's own), or
        ``unanswered`` (a call that may have been billed but brought no reply).
        """
        sums = "COUNT(*), SUM(cost), SUM(input_tokens), SUM(output_tokens)"
        groups = "judge, base_url, prompt, params, status(outcome, prompt, text), source"
        return self._read(f"SELECT {groups}, {sums} FROM reply GROUP BY 1, 2, 3, 4, 5, 6")

    def _read(self, sql, *values):
        """Return the rows of a question: none where there is no store, or an empty file."""
        memory = self.path == ":memory:"
        if not (self._db or memory or (self.path.exists() and self.path.stat().st_size)):
            return []
        with self._opened(write=memory) as db:
            return db.execute(sql, values).fetchall()

    @contextlib.contextmanager
    def _opened(self, write=False):
        """Give the database, for one thread at a time; what goes wrong becomes one sentence."""
        try:
            with self._thread:
                if write and self.path != ":memory:":
                    self.path.parent.mkdir(parents=True, exist_ok=True)
                self._db = self._db or self._connect()
                if write:  # WAL and FULL: a committed reply outlives a kill and a power cut
                    self._db.executescript(
                        f"PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; {SCHEMA};"
                    )
                yield self._db
        except (sqlite3.DatabaseError, OSError) as error:
            what = "free space, mend the file or the right to write it, or give another --store; what is stored is kept"
            raise DreError(
                f"{self.path}: the store cannot be opened or written ({error}): {what}"
            ) from None

    def _connect(self):
        db = sqlite3.connect(self.path, **_OPEN)
        try:
            db.execute("SELECT name FROM sqlite_master").fetchall()
        except (
            sqlite3.OperationalError
        ):  # where nothing can be written, not even WAL's index, it can still be read
            db = sqlite3.connect(f"{self.path.resolve().as_uri()}?immutable=1", **_OPEN)
        db.create_function("status", 3, _status)
        return db


@functools.lru_cache(4096)
def _status(outcome, prompt, text):
    try:
        return prompts.load(prompt).parse(text).status if outcome == "ok" else outcome
    except DreError:
        return "answered"
