"""Scores of small models that are kept, so that a run which was ended goes on where it stopped.

They lie in a SQLite file of the user's cache folder, one for each model, under a hash of model,
context and response. Texts are not stored. The folder may be deleted at any time: what is not there
is computed again.
"""

import contextlib
import hashlib
import json
import os
import sqlite3
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import platformdirs

if TYPE_CHECKING:
    from dre.slm.model import SLM

COLUMNS = ("distance", "s_d", "s_p", "score_slm")
_KEY_BYTES = 20
_BUSY_SECONDS = 60  # how long a statement waits for another run that writes
_TABLE = """CREATE TABLE IF NOT EXISTS score (
    key BLOB PRIMARY KEY, distance REAL, s_d REAL, s_p REAL, score_slm REAL
) WITHOUT ROWID"""
_INSERT = "INSERT OR REPLACE INTO score VALUES (?, ?, ?, ?, ?)"


def folder() -> Path:
    """Return where scores are kept: ``DRE_CACHE``, or a folder among the user's caches."""
    chosen = os.environ.get("DRE_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return platformdirs.user_cache_path("dre", appauthor=False) / "scores"


def identity(slm: "SLM", is_bf16: bool) -> str:
    """Return the hash of all that decides a model's scores, apart from the texts."""
    digest = hashlib.sha256()
    weights: dict[str, Any] = {}
    for name, module in (("encoder", slm.encoder), ("head", slm.head)):
        for key, tensor in module.state_dict().items():
            weights[f"{name}.{key}"] = tensor
    for name in sorted(weights):
        digest.update(name.encode())
        digest.update(weights[name].float().cpu().numpy().tobytes())
    facts = {
        "recipe": slm.recipe.as_dict(),
        "provenance": slm.provenance,
        "class": type(slm).__name__,
        "bf16": is_bf16,
        "device": slm.encoder.device.type,
        "length": slm.encoder.max_seq_length,
        "versions": [version(name) for name in ("torch", "transformers", "dre-companion")],
    }
    digest.update(json.dumps(facts, sort_keys=True, default=str).encode())
    return digest.hexdigest()


class KeptScores:
    """The scores of one model that are kept in a file.

    Where the file cannot be opened or written, nothing is kept, and a note says so once. Scoring
    goes on all the same.
    """

    def __init__(self, model: str):
        self._model = model
        self._connection: sqlite3.Connection | None = None
        try:
            folder().mkdir(parents=True, exist_ok=True, mode=0o700)
            path = folder() / f"{model[:16]}.sqlite"
            self._connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
            self._connection.executescript(f"PRAGMA journal_mode = WAL; {_TABLE};")
        except (OSError, sqlite3.Error) as error:
            self._give_up(error)

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return the kept scores of pairs: ``pair_id`` and `COLUMNS`, without those not kept."""
        pair_id_by_key = dict(zip(self._keys(pairs), pairs["pair_id"]))
        rows = []
        if self._connection is not None:
            marks = json.dumps([key.hex() for key in pair_id_by_key])
            question = (
                "SELECT * FROM score WHERE key IN (SELECT unhex_key(value) FROM json_each(?))"
            )
            try:
                self._connection.create_function("unhex_key", 1, bytes.fromhex, deterministic=True)
                rows = self._connection.execute(question, [marks]).fetchall()
            except sqlite3.Error as error:
                self._give_up(error)
        kept_rows = [(pair_id_by_key[key], *scores) for key, *scores in rows]
        table = pd.DataFrame(kept_rows, columns=["pair_id", *COLUMNS])
        return table.astype(dict.fromkeys(COLUMNS, float))

    def put(self, pairs: pd.DataFrame, scores: pd.DataFrame) -> None:
        """Keep scores, which are row by row those of ``pairs``, all or none."""
        if self._connection is None:
            return
        numbers = scores[list(COLUMNS)].astype(float).to_numpy().tolist()
        rows = [(key, *row) for key, row in zip(self._keys(pairs), numbers)]
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            with self._connection:
                self._connection.executemany(_INSERT, rows)
        except sqlite3.Error as error:
            self._give_up(error)

    def _keys(self, pairs: pd.DataFrame) -> list[bytes]:
        """Return the key of each pair."""
        return [
            _key(self._model, turns, response)
            for turns, response in zip(pairs["context"], pairs["response"])
        ]

    def _give_up(self, error):
        """Print why scores cannot be kept, and keep none from now on."""
        print(
            f"note: scores are not kept in {folder()} ({error}), so an interrupted run would begin "
            "again; DRE_CACHE names another folder",
            file=sys.stderr,
        )
        with contextlib.suppress(sqlite3.Error):
            self.close()
        self._connection = None


def _key(model: str, turns: Sequence[str], response: str) -> bytes:
    text = json.dumps([model, list(turns), response])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:_KEY_BYTES]
