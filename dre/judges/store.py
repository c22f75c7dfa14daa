"""The store of replies: one SQLite file, with one committed row for each call.

A row stands under a key that is made of all that decides the reply. Texts of dialogues are not
stored, only a hash of the messages. Reading is free at any time. Several runs may write at once.
Only two runs of one judge in one setting may not, since they would pay for the same replies. So
a run holds the lock of its setting, which the operating system frees when the process ends.

A call is in the store before it is made: as a row with the outcome ``pending``, at the most that
the call can cost. The reply replaces this row. A process that is killed leaves the rows of the
calls that were in flight.

So the store is the one ledger of money. Each row says in which run it was paid for, and on whose
account. Every ceiling, of a run, a judge or the whole store, is a sum over some of its rows.
"""

import contextlib
import functools
import hashlib
import json
import os
import secrets
import socket
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import platformdirs
from filelock import FileLock, Timeout

from dre.errors import DreError, TryLater
from dre.judges import prompts

_FORM = 1  # of the table, as ``PRAGMA user_version`` has it; another form is refused
_SCHEMA = """CREATE TABLE IF NOT EXISTS reply (
    key TEXT PRIMARY KEY, judge TEXT NOT NULL, base_url TEXT NOT NULL, prompt TEXT NOT NULL,
    params TEXT NOT NULL, pair_id TEXT NOT NULL, repeat INTEGER NOT NULL, text TEXT NOT NULL,
    outcome TEXT NOT NULL, model TEXT NOT NULL, input_tokens INTEGER, output_tokens INTEGER,
    cost REAL, seconds REAL, source TEXT NOT NULL, created TEXT NOT NULL, top TEXT,
    run TEXT NOT NULL, account TEXT NOT NULL
) WITHOUT ROWID"""
# With it a sum over the rows of a run, or over all rows, reads no text of a reply.
_INDEX = """CREATE INDEX IF NOT EXISTS money ON reply (
    run, judge, base_url, outcome, cost, input_tokens, output_tokens
)"""

_IN_MEMORY = ":memory:"
_BUSY_SECONDS = 60  # how long a statement waits for other connections
_CHECKPOINT_SECONDS = 2  # how long the end of a run waits for readers
_LARGEST_COUNT = 2**63 - 1  # the largest integer that SQLite stores
_LOCK_NAME = 16  # characters of a setting's hash in the name of its lock

# The lock of the thread that asks in a setting, for each file and setting of this process.
_writer_locks: dict[tuple[Any, str], Any] = {}
_table_lock = threading.Lock()  # of `_writer_locks`
# Connections of the parent process. SQLite forbids a child to use them, and also to close them.
_connections_of_parents: list[sqlite3.Connection] = []


class Reply(NamedTuple):
    """A provider's answer.

    Attributes
    ----------
    text : str
        What the model said.
    outcome : str
        ``ok``, ``refused``, ``truncated``, ``empty`` or ``malformed`` (larger than may be read). If
        it is not ``ok``, the text may be what came beside it (`dre.judges.outcomes`). Of a call
        without an answer ``pending`` (it is in
        flight, or was when its process was killed) or ``unanswered`` (it failed, and may have been
        billed).
    model : str
        The model that answered, as the provider names it.
    input_tokens, output_tokens : int or None
        Tokens of the prompt and of the reply; None if the provider does not say.
    cost : float or None
        US dollars; None if no price is known.
    seconds : float or None
        From the call to its reply. None of a reply from a batch, and of a call without a reply.
    source : str
        ``live``, ``batch``, or ``replaced``: paid for, and asked again since.
    top : str or None
        The likeliest tokens at the first places of the reply, if log-probabilities were asked for
        (`dre.judges.likelihoods`).
    cached : int
        Input tokens that the provider read from a cache. They are not stored, but their price is.
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
    cached: int = 0

    @classmethod
    def from_answer(
        cls,
        text: Any,
        outcome: str,
        model: Any,
        read: Any = None,
        written: Any = None,
        cached: Any = None,
        top: str | None = None,
    ) -> "Reply":
        """Return the reply that a provider's answer is, whatever its fields hold.

        Texts become texts that can be stored. Numbers of tokens become counts, or None where they
        are none.
        """
        input_tokens = count(read)
        cached_tokens = count(cached) or 0
        return cls(
            text=clean(text),
            outcome=outcome,
            model=clean(model),
            input_tokens=input_tokens,
            output_tokens=count(written),
            top=clean(top) if top else top,
            cached=min(cached_tokens, input_tokens or 0),
        )


class Request(NamedTuple):
    """What a reply answers.

    The fields up to ``repeat`` are stored beside the reply, for people to read, and so are ``run``
    and ``account``. The others are not stored.

    Attributes
    ----------
    key : str
        The key of the reply (`key_of`).
    judge, base_url, prompt, params : str
        Who is asked, where, by which prompt, and with which parameters (JSON).
    pair_id : str
        The pair that the reply is about.
    repeat : int
        Index of the reply among those to the same messages.
    row : dict
        The pair with all its fields.
    messages : list of dict
        What is sent.
    limits : dict
        The keys under which the reply may be stored, with the limit on tokens of each. The first is
        ``key``.
    run : str
        The run that pays for the reply (`new_run`); "" of what nobody was asked for yet.
    account : str
        What the reply is for, in the words of whoever asks: a bill has a row for each.
    """

    key: str
    judge: str
    base_url: str
    prompt: str
    params: str
    pair_id: str
    repeat: int
    row: dict
    messages: list[dict]
    limits: dict[str, int]
    run: str = ""
    account: str = ""


class CallGroup(NamedTuple):
    """Stored calls that are alike; dollars, tokens and seconds are sums, None if all are unknown.

    ``n_timed`` calls of them have seconds. ``uncertain_usd`` is the part of the dollars that may
    not have been billed: of calls without a reply, and of replies without a number of tokens.
    """

    judge: str
    base_url: str
    prompt: str
    params: str
    status: str
    source: str
    account: str
    n_calls: int
    n_timed: int
    n_priced: int
    cost_usd: float | None
    uncertain_usd: float
    input_tokens: int | None
    output_tokens: int | None
    seconds: float | None


class Paid(NamedTuple):
    """What calls cost, in US dollars, and how much of it may not have been billed."""

    usd: float
    uncertain_usd: float


class Ceiling(NamedTuple):
    """The most that some calls may cost together.

    Attributes
    ----------
    option : str
        What the user calls it, such as ``--max-usd``.
    usd : float
        US dollars.
    run : str or None
        Only the calls of this run count (None: those of all runs).
    is_of_judge : bool
        Only the calls of the judge that asks count.
    """

    option: str
    usd: float
    run: str | None = None
    is_of_judge: bool = False


_REPLY_COLUMNS = Reply._fields[: Reply._fields.index("cached")]
_REQUEST_COLUMNS = Request._fields[: Request._fields.index("row")]
_COLUMNS = (*_REQUEST_COLUMNS, *_REPLY_COLUMNS, "run", "account", "created")
_INSERT = f"INSERT INTO reply ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
_UNCERTAIN = "outcome IN ('pending', 'unanswered') OR input_tokens IS NULL OR output_tokens IS NULL"


def new_run() -> str:
    """Return an id for a run: when it began, and a part that no other run has."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def clean(value: Any) -> str:
    """Return a text that can be stored; an empty one of what is neither text nor list of parts.

    Half a surrogate pair becomes a question mark. Parts that hold a model's thoughts are left out.
    """
    if isinstance(value, list):
        texts = []
        for piece in value:
            if isinstance(piece, str):
                texts.append(clean(piece))
            elif isinstance(piece, dict) and not is_thought(piece):
                texts.append(clean(piece.get("text")))
        return "".join(texts)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return ""


def is_thought(part: dict[str, Any]) -> bool:
    """Return whether a part of a message holds a model's thoughts."""
    return bool(part.get("thought")) or part.get("type") in ("thinking", "reasoning")


def count(value: Any) -> int | None:
    """Return a number of tokens that can be stored, or None if the value is none."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, float) and value.is_integer():  # some servers count in floats
        value = int(value)
    if isinstance(value, int) and 0 <= value <= _LARGEST_COUNT:
        return value
    return None


def setting_sha256(judge: str, base_url: str, prompt_sha256: str, params: dict) -> str:
    """Return the hash of who is asked and how, which all replies of a run have in common."""
    setting = json.dumps([judge, base_url, prompt_sha256, params], sort_keys=True)
    return hashlib.sha256(setting.encode()).hexdigest()


def key_of(setting: str, messages: list[dict], repeat: int) -> str:
    """Return the key of a reply.

    Parameters
    ----------
    setting : str
        The hash of its setting (`setting_sha256`).
    messages : list of dict
        What is sent. Each message goes in with its length in front, so that no two lists give the
        same text.
    repeat : int
        Index of the reply among those to the same messages.
    """
    texts = []
    for message in messages:
        texts.append(f"{message['role']}:{len(message['content'])}:{message['content']}")
    joined_text = "".join(texts)
    messages_sha256 = hashlib.sha256(joined_text.encode("utf-8", "surrogatepass")).hexdigest()
    return hashlib.sha256(f"{setting} {messages_sha256} {repeat}".encode()).hexdigest()[:40]


class Store:
    """A store of replies.

    Parameters
    ----------
    path : str, Path or None
        The file, which is made when the first reply is stored. ``:memory:`` keeps all in memory.
        Without a path it is ``DRE_STORE``, or a file in the user's data folder, the same from every
        working directory.
    """

    def __init__(self, path: str | Path | None = None):
        default = platformdirs.user_data_path("dre", appauthor=False) / "replies.sqlite"
        path = path or os.environ.get("DRE_STORE") or default
        self.is_in_memory = path == _IN_MEMORY
        self.path = Path(path)
        if not self.is_in_memory:
            # A relative path means the same file after the working directory has changed.
            self.path = self.path.expanduser().absolute()
        self._connection: sqlite3.Connection | None = None
        self._is_prepared = False  # whether the connection may write
        self._process = os.getpid()
        self._thread_lock = threading.RLock()

    def _writer_lock(self, setting):
        """Return the lock that threads of this process share, for one setting."""
        with _table_lock:
            return _writer_locks.setdefault((self.identity, setting), threading.RLock())

    @property
    def identity(self) -> Any:
        """What two `Store`s of one file have in common."""
        return id(self) if self.is_in_memory else self.path.resolve()

    def close(self) -> None:
        """Close the file; the next use of the store opens it again."""
        self._leave_parent()
        with self._thread_lock:
            connection = self._connection
            self._connection = None
            if connection is not None:
                connection.close()

    # Writing

    @contextlib.contextmanager
    def held(self, setting: str = "") -> Iterator[None]:
        """Hold the store for asking a judge in one setting.

        One process can hold a setting, and in this process one thread. Other threads wait; other
        processes are refused. Runs in other settings write at the same time. When it is let go, the
        one file has all replies of this run.

        Parameters
        ----------
        setting : str
            Who is asked and how, as a hash. Runs that could share a reply have the same.

        Raises
        ------
        TryLater
            If another process asks the same judge in the same way.
        DreError
            If the store cannot be written.
        """
        self._leave_parent()
        with self._writer_lock(setting), contextlib.ExitStack() as file_lock:
            with self._opened(write=True) as connection:
                if not self.is_in_memory:
                    self._lock_file(file_lock, setting)
                # A store that cannot be written is noticed before anything is paid for.
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
            try:
                yield
            finally:
                self._checkpoint()

    def _lock_file(self, file_lock, setting):
        """Lock a setting, and write who holds the lock; `TryLater` if another process does."""
        folder = self._lock_folder()
        name = setting[:_LOCK_NAME] or "all"
        holder = folder / f"{name}.holder"
        lock = FileLock(
            str(folder / f"{name}.lock"),
            timeout=0,
            mode=0o600,
            is_singleton=True,
            thread_local=False,
        )
        try:
            file_lock.enter_context(lock)
        except Timeout:
            raise TryLater(
                f"{self.path}: {_text_of(holder) or 'another process'} asks the same judge in the "
                "same way: let it end, since its replies will be yours, too"
            ) from None
        now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
        _create_private(holder)
        holder.write_text(f"process {os.getpid()} on {socket.gethostname()}, since {now},")

    def _checkpoint(self):
        """Move what SQLite keeps in the file beside the store (``-wal``) into the store itself."""
        if self.is_in_memory:
            return
        with contextlib.suppress(DreError), self._opened() as connection:
            connection.execute(f"PRAGMA busy_timeout = {1000 * _CHECKPOINT_SECONDS}")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            connection.execute(f"PRAGMA busy_timeout = {1000 * _BUSY_SECONDS}")

    def put(self, replies: Iterable[tuple[Request, Reply]], ended_keys: Iterable[str] = ()) -> None:
        """Commit replies, all or none.

        Parameters
        ----------
        replies : iterable of (Request, Reply)
            A reply that stood under the same key before stays in the accounts, as ``replaced``.
        ended_keys : iterable of str
            Keys of rows that go in the same commit: those of calls that are no longer pending.
        """
        rows = _rows(replies)
        delete = "DELETE FROM reply WHERE key = ?"
        rename = (
            "UPDATE reply SET key = key || ':' || hex(randomblob(8)), source = 'replaced' "
            "WHERE key = ?"
        )
        with self._opened(write=True) as connection:
            connection.execute("BEGIN IMMEDIATE")
            with connection:  # commits, or rolls back
                connection.executemany(delete, [(key,) for key in ended_keys])
                connection.executemany(rename, [(row[0],) for row in rows])
                connection.executemany(_INSERT, rows)

    def put_within(
        self,
        ceilings: Sequence[Ceiling],
        replies: Iterable[tuple[Request, Reply]],
        price: Any,
        judge: str,
        base_urls: Collection[str],
    ) -> Ceiling | None:
        """Commit calls that are about to be made, unless a ceiling would then be passed.

        The sums are taken in the same transaction, so a ceiling holds for all runs together. The
        parameters behind ``replies`` are those of `spent`. Returns the first ceiling that would be
        passed; None if the calls were stored.
        """
        rows = _rows(replies)
        most_usd = sum(reply.cost or 0.0 for _, reply in replies)
        with self._opened(write=True) as connection:
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                for ceiling in ceilings:
                    question, values = _sum_question(
                        judge, base_urls, ceiling.run, ceiling.is_of_judge
                    )
                    spent_usd = _total_usd(connection.execute(question, values), price)
                    if spent_usd + most_usd > ceiling.usd:
                        return ceiling
                connection.executemany(_INSERT, rows)
        return None

    # Reading

    def get(self, keys: Collection[str], top: bool = True) -> dict[str, Reply]:
        """Return the stored replies of some keys, by key.

        Without `top` their log-probabilities, which are large, are not loaded.
        """
        columns = ", ".join(_REPLY_COLUMNS)
        if not top:
            columns = columns.replace("top", "NULL")
        rows = self._select(
            f"SELECT key, {columns} FROM reply WHERE key IN (SELECT value FROM json_each(?))",
            json.dumps(list(keys)),
        )
        return {row[0]: Reply(*row[1:]) for row in rows}

    def settings(self, judge: str) -> list[tuple[str, str]]:
        """Return the different ``(base_url, params)`` with which a judge was asked."""
        return self._select("SELECT DISTINCT base_url, params FROM reply WHERE judge = ?", judge)

    def spent(
        self, price: Any = None, judge: str | None = None, base_urls: Collection[str] = ()
    ) -> float:
        """Return the US dollars that all calls cost, those of other judges among them.

        Parameters
        ----------
        price : Price or None
            What calls of unknown cost count at, by their tokens (None: nothing).
        judge : str or None
            Only calls of this judge count at that price (None: all calls of unknown cost do).
        base_urls : collection of str
            The addresses at which the calls of this judge count.
        """
        question, values = _sum_question(judge, base_urls)
        return _total_usd(self._select(question, *values), price)

    def paid(self, run: str, judge: str | None = None, in_flight: bool = True) -> Paid:
        """Return what the calls of a run cost, at most where this is not known.

        Parameters
        ----------
        run : str
            The id of the run (`new_run`).
        judge : str or None
            Only the calls of this judge (None: those of all judges of the run).
        in_flight : bool
            Whether calls that have not ended count, at the most that they can cost.
        """
        condition, values = "run = ?", [run]
        if judge is not None:
            condition += " AND judge = ?"
            values.append(judge)
        if not in_flight:
            condition += " AND outcome <> 'pending'"
        sums = f"TOTAL(cost), TOTAL(cost) FILTER (WHERE {_UNCERTAIN})"
        rows = self._select(f"SELECT {sums} FROM reply WHERE {condition}", *values)
        return Paid(*rows[0]) if rows else Paid(0.0, 0.0)

    def has_calls_in_flight(self, seconds: float, run: str | None = None) -> bool:
        """Whether a call was begun in the last seconds and has not ended, in one run or any.

        A call that begins later than now was left by a clock that has been set back since.
        """
        now = datetime.now(UTC)
        since = now - timedelta(seconds=seconds)
        question = (
            "SELECT COUNT(*) FROM reply WHERE outcome = 'pending' AND created >= ? AND created <= ?"
        )
        values = [moment.isoformat(timespec="seconds") for moment in (since, now)]
        if run is not None:
            question += " AND run = ?"
            values.append(run)
        [(n_calls,)] = self._select(question, *values) or [(0,)]
        return n_calls > 0

    def summary(self, run: str | None = None) -> list[CallGroup]:
        """Return what is stored, as one row for each group of calls that are alike.

        With `run`, only the calls that this run paid for.

        The status is that of the verdict, read without the dialogue. It is ``answered`` for a reply
        to a prompt of one's own, which is not at hand here; ``unanswered`` for a call that may have
        been billed but brought no reply; and ``pending`` for a call that is in flight, or was when
        its process was killed.
        """
        sums = (
            "COUNT(*), COUNT(seconds), COUNT(cost), SUM(cost), "
            f"TOTAL(cost) FILTER (WHERE {_UNCERTAIN}), "
            "SUM(input_tokens), SUM(output_tokens), SUM(seconds)"
        )
        groups = "judge, base_url, prompt, params, status(outcome, prompt, text), source, account"
        condition, values = ("", []) if run is None else ("WHERE run = ?", [run])
        rows = self._select(
            f"SELECT {groups}, {sums} FROM reply {condition} GROUP BY 1, 2, 3, 4, 5, 6, 7", *values
        )
        return [CallGroup(*row) for row in rows]

    def _select(self, sql, *values):
        """Return the rows of a question: none where there is no store, or an empty file."""
        self._leave_parent()
        has_file = self.path.exists() and self.path.stat().st_size > 0
        if self._connection is None and not self.is_in_memory and not has_file:
            return []
        with self._opened(write=self.is_in_memory) as connection:
            try:
                return connection.execute(sql, values).fetchall()
            except sqlite3.OperationalError as error:
                if "no such table" in str(error):  # another run is just making it
                    return []
                raise

    # The connection

    @contextlib.contextmanager
    def _opened(self, write=False):
        """Give the connection to one thread at a time; what goes wrong becomes one sentence."""
        try:
            with self._thread_lock:
                if write and not self.is_in_memory:
                    self.path.parent.mkdir(parents=True, exist_ok=True)
                    _create_private(self.path)
                if self._connection is None:
                    self._connection = self._connect()
                    self._is_prepared = False
                if write and not self._is_prepared:
                    self._prepare(self._connection)
                    self._is_prepared = True
                yield self._connection
        except (sqlite3.DatabaseError, OSError) as error:
            raise DreError(f"{self.path}: {self._fault(error)}") from None

    def _fault(self, error):
        """Say what is wrong with the file, and what to do."""
        if "not a database" in str(error):
            return (
                f"the store cannot be opened, since the file is damaged or no store ({error}): "
                "give another --store, or a copy of the store from before"
            )
        if "malformed" in str(error) or "corrupt" in str(error):
            rescued = self.path.with_name(f"rescued-{self.path.name}")
            return (
                f"the store is damaged ({error}): copy the file, and rescue what can be read with "
                f"SQLite's own program: (sqlite3 {self.path} .dump | sed 's/^ROLLBACK.*/COMMIT;/'; "
                f"echo 'PRAGMA user_version = {_FORM};') | sqlite3 {rescued}"
                f"; then give --store {rescued}"
            )
        return (
            f"the store cannot be opened or written ({error}): free space, mend the right to write "
            "the file, or give another --store; what is stored is kept"
        )

    def _prepare(self, connection):
        """Make the table, if it is not there; runs that begin at once do so one after the other."""
        with contextlib.ExitStack() as lock:
            if not self.is_in_memory:
                path = str(self._lock_folder() / "prepare.lock")
                lock.enter_context(FileLock(path, timeout=_BUSY_SECONDS, mode=0o600))
            # Another run may have made a table since this connection was opened.
            self._check_form(connection)
            # WAL and FULL: a committed reply outlives a kill and a power cut.
            connection.executescript(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; "
                f"BEGIN IMMEDIATE; {_SCHEMA}; {_INDEX}; PRAGMA user_version = {_FORM}; COMMIT;"
            )

    def _check_form(self, connection):
        """Raise `DreError` if the file has tables, and they are not those of this version."""
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        names = [name for (name,) in tables]
        [(form,)] = connection.execute("PRAGMA user_version")
        if not names or (form == _FORM and "reply" in names):
            return
        if "reply" not in names:
            content = f"a database of something else, with a table {names[0]}"
            advice = "give another file as --store"
        elif form < _FORM:
            content = f"a store of form {form}, of a version before 0.4.0, which knows no runs"
            advice = (
                "give another --store, or move this file away: it stays as it is, and the version "
                "that wrote it still reads it"
            )
        else:
            content = f"a store of form {form}, of a newer version"
            advice = "install that version, or give another --store"
        raise DreError(f"{self.path}: found {content}; expected form {_FORM}: {advice}")

    def _lock_folder(self):
        folder = Path(f"{self.path.resolve()}.locks")
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def _connect(self):
        """Open the database, or read it as it is if nothing can be written beside it."""
        connection = _connection_to(self.path)
        try:
            self._check_form(connection)
        except sqlite3.OperationalError:
            # Where nothing can be written, not even SQLite's index of the -wal file, the store can
            # still be read without that file.
            connection.close()
            self._refuse_unread_replies()
            connection = _connection_to(f"{self.path.resolve().as_uri()}?immutable=1")
            self._check_form(connection)
        connection.create_function("status", 3, _status)
        return connection

    def _refuse_unread_replies(self):
        """Raise `DreError` if SQLite's ``-wal`` file has replies that cannot be read."""
        wal = Path(f"{self.path.resolve()}-wal")
        if wal.exists() and wal.stat().st_size > 0:
            raise DreError(
                f"{self.path}: the folder cannot be written, and some replies are still in "
                f"{wal.name}, which cannot be read there: copy both files to a folder that you "
                "can write, and give the copy as --store"
            )

    def _leave_parent(self):
        """After a fork: let go of the parent's connection and locks, which a child must not use."""
        if self._process == os.getpid() or self.is_in_memory:
            return
        if self._connection is not None:
            _connections_of_parents.append(self._connection)
        self._connection = None
        self._process = os.getpid()
        self._thread_lock = threading.RLock()


# In a child process no thread of the parent is left that could give a lock back.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_writer_locks.clear)


def _rows(replies):
    """Return replies as rows of the table, in its order: SQLite appends faster than it inserts."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    rows = []
    for request, reply in sorted(replies, key=lambda pair: pair[0].key):
        request_values = request[: len(_REQUEST_COLUMNS)]
        reply_values = reply[: len(_REPLY_COLUMNS)]
        rows.append((*request_values, *reply_values, request.run, request.account, created))
    return rows


def _sum_question(judge, base_urls, run=None, is_of_judge=False):
    """Return the question for known dollars and for tokens of unknown cost, with its values.

    Calls of unknown cost count if they are of the judge. All others count, too, unless only those
    of a run or of the judge are asked for.
    """
    of_judge = "TRUE"
    judge_values = []
    if judge is not None:
        of_judge = "(judge = ? AND base_url IN (SELECT value FROM json_each(?)))"
        judge_values = [judge, json.dumps(list(base_urls))]
    sums = ["TOTAL(cost)"]
    values = []
    for column in ("input_tokens", "output_tokens"):
        sums.append(f"TOTAL({column}) FILTER (WHERE cost IS NULL AND {of_judge})")
        values += judge_values
    conditions = ["TRUE"]
    if run is not None:
        conditions.append("run = ?")
        values.append(run)
    if is_of_judge:
        conditions.append(of_judge)
        values += judge_values
    return f"SELECT {', '.join(sums)} FROM reply WHERE {' AND '.join(conditions)}", values


def _total_usd(sums, price):
    """Return the dollars that the sums of `_sum_question` stand for."""
    total_usd = 0.0
    for known_usd, input_tokens, output_tokens in sums:
        total_usd += known_usd
        if price is not None:
            total_usd += price.cost(input_tokens, output_tokens)
    return total_usd


def _connection_to(database):
    return sqlite3.connect(
        database,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        uri=True,
    )


def _text_of(path):
    """Return the text of a small file; "" where there is none, or none yet."""
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""


def _create_private(path):
    """Make an empty file that its owner alone may read, unless there is one.

    SQLite makes the files beside it in the same way.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


@functools.lru_cache(4096)
def _status(outcome, prompt, text):
    """Return the status of a stored reply, for `Store.summary`."""
    if outcome != "ok":
        return outcome
    try:
        return prompts.load(prompt).parse(text).status
    except DreError:
        return "answered"
