"""The store of replies: one SQLite file with one table, to which rows are only ever added.

A row is a call: its reply, or why none came, and what it cost. It stands under a key, the hash of
all that decides the reply; of several replies with one key the last counts. Texts of dialogues are
not stored. What was answered, what was spent and the bill are questions to this table.
"""

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import platformdirs
from filelock import FileLock, Timeout

from dre.errors import DreError, TryLater
from dre.judges.providers import Reply

_FORM = 2  # of the table, as ``PRAGMA user_version`` has it; another form is refused
_COLUMNS = {
    **dict.fromkeys(("key", "judge", "address", "prompt", "pair_id", "account", "run"), "TEXT"),
    **dict.fromkeys(("text", "outcome", "model"), "TEXT"),
    **dict.fromkeys(("input_tokens", "output_tokens", "cached_tokens"), "INTEGER"),
    "top": "TEXT",
    **dict.fromkeys(("cost", "seconds"), "REAL"),
    "max_tokens": "INTEGER",
}
_TABLE = f"""BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS call (
    {", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())},
    created TEXT DEFAULT CURRENT_TIMESTAMP
);
CREATE INDEX IF NOT EXISTS by_key ON call (key, outcome);
CREATE INDEX IF NOT EXISTS by_judge ON call (judge, address, cost);
PRAGMA user_version = {_FORM}; COMMIT"""
_INSERT = f"INSERT INTO call ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
_REPLIES = "outcome NOT IN ('error', 'lost')"  # the other rows have no reply
_BUSY_SECONDS = 60  # how long a statement waits for other processes

_locks: dict[str, threading.Lock] = {}  # of the judges that are asked in this process


class Stored(NamedTuple):
    """A stored reply with what it cost in US dollars (None if no price is known) and took.

    ``max_tokens`` was the limit under which it was asked for.
    """

    reply: Reply
    cost: float | None
    seconds: float | None
    max_tokens: int


def key_of(*content: Any) -> str:
    """Return the key of a reply: the hash of all that decides it."""
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:40]


class Store:
    """A store of replies in one file, by default ``DRE_STORE`` or one in the user's data folder."""

    def __init__(self, path: str | Path | None = None):
        default = platformdirs.user_data_path("dre", appauthor=False) / "replies.sqlite"
        chosen = str(path or os.environ.get("DRE_STORE") or default)
        self._in_memory = chosen == ":memory:"
        self.path = Path(chosen).expanduser()
        if not self._in_memory:
            self.path = self.path.absolute()
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def put(self, request: Any, reply: Reply, cost: float | None, seconds: float) -> None:
        """Commit a call: a reply, or one of outcome ``error`` or ``lost`` with the reason as text.

        ``request`` is a `dre.judges.judge.Request`.
        """
        about = (request.key, request.judge, request.address, request.prompt, request.pair_id)
        top = None if reply.top is None else json.dumps(reply.top)
        values = (*about, *request.paid_by, *reply._replace(top=top), cost, seconds)
        values = (*values, request.max_tokens)
        # Half of a surrogate pair cannot be stored, and would lose what is paid for.
        values = [
            value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
            for value in values
        ]
        self._run(_INSERT, values)

    def get(self, keys: Collection[str]) -> dict[str, Stored]:
        """Return the stored replies of some keys, by key."""
        if not self._exists():
            return {}
        columns = ", ".join([*Reply._fields, *Stored._fields[1:]])
        rows = self._run(
            f"SELECT key, {columns} FROM call WHERE rowid IN (SELECT MAX(rowid) FROM call WHERE "
            f"key IN (SELECT value FROM json_each(?)) AND {_REPLIES} GROUP BY key)",
            (json.dumps(list(keys)),),
        )
        stored = {}
        for key, *fields, top, cost, seconds, max_tokens in rows:
            reply = Reply(*fields, top=json.loads(top) if top else None)
            stored[key] = Stored(reply, cost, seconds, max_tokens)
        return stored

    def spent(
        self, judge: str | None = None, address: str | None = None, run: str | None = None
    ) -> float:
        """Return the US dollars that calls cost: all, or those of a judge, an address, a run."""
        if not self._exists():
            return 0.0
        [(usd,)] = self._run(
            "SELECT TOTAL(cost) FROM call WHERE (?1 IS NULL OR judge = ?1) "
            "AND (?2 IS NULL OR address = ?2) AND (?3 IS NULL OR run = ?3)",
            (judge, address, run),
        )
        return usd

    def bill(self, *by: str, run: str | None = None) -> pd.DataFrame:
        """Return what calls took, with a line for each value of some columns, such as ``judge``.

        ``replies`` came; ``errors`` were sent by a server and cost nothing; of ``lost`` ones no
        whole answer came, and they count at the most that they can have cost. ``unpriced`` replies
        have no known price. ``usd`` are dollars, of all others; ``seconds`` are added up.
        """
        groups = ", ".join(by)
        sums = {
            "replies": f"SUM({_REPLIES})",
            "errors": "SUM(outcome = 'error')",
            "lost": "SUM(outcome = 'lost')",
            "unpriced": f"SUM({_REPLIES} AND cost IS NULL)",
            "input_tokens": "SUM(input_tokens)",
            "output_tokens": "SUM(output_tokens)",
            "usd": "SUM(cost)",
            "usd_lost": "TOTAL(CASE outcome WHEN 'lost' THEN cost END)",
            "seconds": f"TOTAL(CASE WHEN {_REPLIES} THEN seconds END)",
        }
        rows = []
        if self._exists():
            rows = self._run(
                f"SELECT {groups}, {', '.join(sums.values())} FROM call "
                f"WHERE ?1 IS NULL OR run = ?1 GROUP BY {groups} ORDER BY {groups}",
                (run,),
            )
        table = pd.DataFrame(rows, columns=[*by, *sums])
        return table.astype(dict.fromkeys(["usd", "input_tokens", "output_tokens"], float))

    @contextmanager
    def held(self, judge: str, address: str) -> Iterator[None]:
        """Hold a judge, so that no other run pays for the same replies.

        Within this process another run waits. `TryLater` if another process holds it.
        """
        if self._in_memory:
            yield
            return
        name = f"{self.path.resolve()}.{key_of(judge, address)[:12]}.lock"
        with _locks.setdefault(name, threading.Lock()):
            lock = FileLock(name)
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                lock.acquire(timeout=0)
            except Timeout:
                raise TryLater(
                    f"another run asks {judge} now, with the same store {self.path}: wait for its "
                    "end, or give another --store"
                ) from None
            except OSError as error:
                raise self._unusable(error) from None
            try:
                self._run("UPDATE call SET key = key WHERE 0")  # what is paid can be kept
                yield
            finally:
                lock.release()

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _exists(self):
        """Whether there is a table to read: reading makes no file."""
        return self._in_memory or self._connection is not None or self.path.exists()

    def _run(self, sql, values=()):
        """Run a statement in a transaction of its own, and return its rows."""
        try:
            with self._lock:
                if self._connection is None:
                    self._connection = self._open()
                with self._connection:
                    return self._connection.execute(sql, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(error) from None

    def _open(self):
        """Open the file; a new or empty one gets the table."""
        if not self._in_memory and not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch(mode=0o600)
        address = ":memory:" if self._in_memory else self.path.as_uri()
        if not self._in_memory and not os.access(self.path.parent, os.W_OK):
            address += "?immutable=1"  # a read-only folder: what is stored can be read
        connection = sqlite3.connect(
            address, timeout=_BUSY_SECONDS, check_same_thread=False, uri=not self._in_memory
        )
        try:
            [(form, n_tables)] = connection.execute(
                "SELECT (SELECT user_version FROM pragma_user_version), COUNT(*) FROM sqlite_master"
            )
            if not form and not n_tables:
                with suppress(sqlite3.OperationalError):  # another process is just doing the same
                    connection.execute("PRAGMA journal_mode = WAL")
                connection.executescript(_TABLE)
            elif form != _FORM:
                raise DreError(
                    f"{self.path} is a store of another form, by another version of dre or another "
                    "program: it stays as it is; give another --store, or set DRE_STORE"
                )
        except BaseException:
            connection.close()
            raise
        return connection

    def _unusable(self, error):
        return DreError(
            f"{self.path}: the store cannot be used ({error}): give another --store, or set "
            "DRE_STORE"
        )
