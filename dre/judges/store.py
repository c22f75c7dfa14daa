"""The judgement store: one SQLite file, one committed row a reply.

A reply is keyed by every field that can change it (`dre.judges.settings.Setting`, the sha256 of the rendered
messages, the repeat index). Texts of dialogues are not stored, only their hash; the model's reply is.
"""

import contextlib
import os
import threading
import time
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

from dre.judges import storefile
from dre.judges.settings import Setting

CLAIM_SECONDS = 3600  # a claim older than this is void, should its process id have been given to another process


class Judgement(NamedTuple):
    """One stored reply.

    Attributes
    ----------
    messages_sha256, repeat, pair_id
        What was asked; ``pair_id`` is that of the first pair which asked it.
    status, reason : str
        ``ok``, ``malformed``, ``refused``, ``truncated`` or ``empty``, as parsed when the reply came.
    reply, outcome : str
        The text as it came, and the provider's verdict on it (``ok, refused, truncated, empty``).
    logprobs : str or None
        JSON: a list of ``[token, logprob, [[token, logprob], ...]]``.
    cost, seconds : float or None
        US dollars and seconds; None where unknown.
    source : str
        ``live``, ``batch`` or ``files``.
    score_llm, s_inf, label, responses, parser
        The verdict (``responses`` as JSON), and the mark of the parser and header that read it.
    created : str
        ISO time in UTC.
    """

    messages_sha256: str = ""
    repeat: int = 0
    pair_id: str = ""
    status: str = "ok"
    reason: str = ""
    reply: str = ""
    outcome: str = "ok"
    logprobs: str | None = None
    served_model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    source: str = ""
    score_llm: float | None = None
    s_inf: float | None = None
    label: str | None = None
    responses: str | None = None
    parser: str = ""
    created: str = ""


FIELDS = Judgement._fields
_READ = ", ".join(FIELDS)
# A good reply is never replaced by one that is not.
_WRITE = (
    f"INSERT INTO judgement (setting, {_READ}) VALUES (?{', ?' * len(FIELDS)}) "
    "ON CONFLICT (setting, messages_sha256, repeat) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in FIELDS[2:])
    + " WHERE judgement.status != 'ok' OR excluded.status = 'ok'"
)
_FREE = "DELETE FROM claim WHERE setting = ? AND messages_sha256 = ? AND repeat = ?"


def default_path():
    """Return ``DRE_STORE``, or a file in the user's data directory: the same from every working directory."""
    if os.environ.get("DRE_STORE"):
        return Path(os.environ["DRE_STORE"]).expanduser()
    from platformdirs import user_data_path

    return user_data_path("dre", appauthor=False) / "judgements.sqlite"


class Store:
    """Open a store, creating it if it is not there; ``:memory:`` keeps it in memory.

    Safe to use from several threads and by several processes of one machine.

    Raises
    ------
    DreError
        If the file is damaged (it is then kept aside, and what could be read of it is in the new store), was
        written by a later version, or cannot be read or written.
    """

    def __init__(self, path=None):
        self.path = ":memory:" if path == ":memory:" else Path(path or default_path()).expanduser()
        self._lock = threading.RLock()
        self._ids = {}
        self._db = None
        with self._explained():
            if self.path != ":memory:" and not self.path.exists():
                storefile.create(self.path)
            self._db = storefile.connect(self.path)
            if self.path == ":memory:":
                storefile.lay_out(self._db)
            else:
                storefile.check(self._db, self.path)

    def close(self):
        """Close the file."""
        if self._db is not None:
            self._db.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    @contextlib.contextmanager
    def transaction(self):
        """Run statements as one committed transaction: ``with store.transaction() as db: ...``."""
        with self._lock, self._explained():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def query(self, sql, args=()):
        """Return all rows of a SELECT."""
        with self._lock, self._explained():
            return self._db.execute(sql, args).fetchall()

    def setting_id(self, setting, create=True):
        """Return the number of a setting in this store, or None if it is not there and not to be created."""
        if setting.key not in self._ids:
            where = "provider = ? AND base_url = ? AND model = ? AND prompt_sha256 = ? AND params = ?"
            found = self.query(f"SELECT id FROM setting WHERE {where}", setting.key)
            if not found and not create:
                return None
            if not found:
                with self.transaction() as db:
                    db.execute(
                        "INSERT OR IGNORE INTO setting "
                        "(provider, base_url, model, prompt, prompt_sha256, params) "
                        "VALUES (?, ?, ?, ?, ?, ?)",
                        (*setting.key[:3], setting.prompt, *setting.key[3:]),
                    )
                    found = db.execute(f"SELECT id FROM setting WHERE {where}", setting.key).fetchall()
            self._ids[setting.key] = found[0][0]
        return self._ids[setting.key]

    def settings(self):
        """Return ``{number: Setting}`` of everything stored."""
        names = ", ".join(field.name for field in fields(Setting))
        return {row[0]: Setting(*row[1:]) for row in self.query(f"SELECT id, {names} FROM setting ORDER BY id")}

    def judgements(self, setting):
        """Return ``{(messages_sha256, repeat): Judgement}`` of one setting."""
        number = self.setting_id(setting, create=False)
        if number is None:
            return {}
        ((count, last),) = self.query(
            "SELECT (SELECT COUNT(*) FROM judgement WHERE setting = ?), (SELECT MAX(id) FROM judgement)", (number,)
        )
        # Where most of the store is wanted, reading it in its own order takes half the time.
        order = "NOT INDEXED" if 3 * count > (last or 0) else ""
        rows = self.query(f"SELECT {_READ} FROM judgement {order} WHERE setting = ?", (number,))
        return {row[:2]: Judgement._make(row) for row in rows}

    def add(self, setting, judgements):
        """Commit judgements; a stored ``ok`` is kept where the new reply is not ``ok``."""
        number = self.setting_id(setting)
        rows = [(number, *one) for one in judgements]
        with self.transaction() as db:
            db.executemany(_WRITE, rows)
            db.executemany(_FREE, [row[:3] for row in rows])

    def claim(self, setting, keys):
        """Claim what is about to be asked, so that another process does not ask it too.

        Parameters
        ----------
        keys : dict
            ``{(messages_sha256, repeat): created}``: when the stored judgement that is to be asked again was
            created, or None where nothing is stored.

        Returns
        -------
        (list, dict)
            The keys that are now this process's to ask, and the judgements that others have stored since.
            What another living process is asking is in neither.
        """
        number, mine, stored = self.setting_id(setting), [], {}
        one = "WHERE setting = ? AND messages_sha256 = ? AND repeat = ?"
        with self.transaction() as db:
            for key, created in keys.items():
                args = (number, *key)
                row = db.execute(f"SELECT {_READ} FROM judgement {one}", args).fetchone()
                if row and row[-1] != created:
                    stored[key] = Judgement(*row)
                    continue
                claim = db.execute(f"SELECT pid, since FROM claim {one}", args).fetchone()
                if claim is None or not _held(*claim):
                    db.execute("REPLACE INTO claim VALUES (?, ?, ?, ?, ?)", (*args, os.getpid(), time.time()))
                    mine.append(key)
        return mine, stored

    def release(self, setting, keys):
        """Give up this process's claims on what was not asked after all."""
        number = self.setting_id(setting)
        with self.transaction() as db:
            db.executemany(f"{_FREE} AND pid = ?", [(number, *key, os.getpid()) for key in keys])

    def open_keys(self, number):
        """Return the keys that batches of a setting which are not collected ask for."""
        rows = self.query(
            "SELECT messages_sha256, repeat FROM batch_item JOIN batch ON batch.id = batch_item.batch "
            "WHERE setting = ? AND state IN ('submitting', 'submitted')",
            (number,),
        )
        return set(rows)

    def counts(self):
        """Return rows (setting number, status, source, judgements, dollars, seconds, tokens in and out)."""
        return self.query(
            "SELECT setting, status, source, COUNT(*), SUM(cost), SUM(seconds), SUM(input_tokens), "
            "SUM(output_tokens) FROM judgement GROUP BY setting, status, source "
            "ORDER BY setting, status, source"
        )

    def _explained(self):
        return storefile.explained(self.path, self.close)


def _held(pid, since):
    """Whether a claim still stands: its process lives, and it is not absurdly old."""
    age = time.time() - since
    if pid == os.getpid() or age > CLAIM_SECONDS:
        return False
    if os.name == "nt":  # os.kill would end the process there, so only time can tell
        return age < CLAIM_SECONDS / 12
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # not ours to signal, so it lives
        return True
    return True
