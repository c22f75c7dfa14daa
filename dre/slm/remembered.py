"""Scores of small models, remembered once: what was scored, who scored it, the value.

What was scored is a pair of context and response. Who scored it is a small model, known by its
signature. There are two kinds of file for it. A `Cache` is a SQLite file of one user, under hashes
of the texts; many runs may use it at once, and it may be deleted at any time. A `Recording` is
committed with the project: a table by pair id, with a hash of the texts and five digits of each
score, and what made the model beside it. It answers for the recorded texts alone.
`Remembered` scores as a small model does, and asks the model only for what its file lacks.
"""

import contextlib
import functools
import gzip
import hashlib
import io
import json
import os
import sqlite3
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
import platformdirs

from dre.datasets.recordings import hash_of
from dre.errors import DreError
from dre.files import replace
from dre.slm.provenance import DECISIVE, DEFAULT

if TYPE_CHECKING:
    from dre.slm.model import SLM

#: What a small model gives a pair.
NUMBERS = ["distance", "s_d", "s_p", "score_slm"]
_KEY_BYTES = 20
_HASH_LENGTH = 8  # characters of a hash in a recording: one in four billion is that of another text
_BUSY_SECONDS = 60  # how long a statement waits for another run that writes
_TABLE = """CREATE TABLE IF NOT EXISTS score (
    key BLOB PRIMARY KEY, distance REAL, s_d REAL, s_p REAL, score_slm REAL
) WITHOUT ROWID"""
_INSERT = "INSERT OR REPLACE INTO score VALUES (?, ?, ?, ?, ?)"
_SELECT = "SELECT * FROM score WHERE key IN (SELECT unhex_key(value) FROM json_each(?))"


class Remembered:
    """A small model that scores no pair twice, in whichever process.

    Parameters
    ----------
    memory : where its scores are.
    provenance : that of the model, as `dre.slm.SLM` has it.
    model : returns the model, when the first pair comes that is not remembered; None if none may
        be asked.
    name : what ``RETRAIN`` calls it.
    command : what makes scores anew; by default a run with ``RETRAIN``.
    """

    def __init__(
        self,
        memory: "Cache | Recording",
        provenance: Mapping,
        model: "Callable[[], SLM] | None" = None,
        name: str = "",
        command: str = "",
    ):
        self.provenance = dict(provenance)
        self.name = name
        self._command = command or f"RETRAIN={name}"
        self.can_score = model is not None
        self._memory = memory
        self._model = model

    @classmethod
    def recorded(cls, file: str | Path, command: str = "") -> Self:
        """Return the recorded scores of a model, in the place of the model itself."""
        recording = Recording(file)
        return cls(recording, recording.provenance, name=recording.name, command=command)

    def score(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return what `dre.slm.SLM.score` does, without what was left out.

        Of an encoder that was not trained there are ``pair_id`` and ``distance`` alone. DreError if
        a pair was not recorded, or with other texts, and no model may be asked.
        """
        pairs = pairs.reset_index(drop=True)
        # Known pairs are not scored again, since rounding depends on the batch.
        scores = self._memory.get(pairs)
        new_pairs = pairs.drop(index=scores.index)
        if not len(new_pairs):
            return scores
        if self._model is None:
            raise DreError(self._refusal(new_pairs, len(pairs)))
        slm = self._model()
        compute = slm.score if "d_min" in self.provenance else slm.distances
        self._memory.put(new_pairs, compute(new_pairs))
        return self._memory.get(pairs)

    def _refusal(self, new_pairs, n_pairs):
        """Say in words why pairs have no score, and what would give them one."""
        changed_ids = list(new_pairs["pair_id"][self._memory.knows(new_pairs)])
        ids = changed_ids or list(new_pairs["pair_id"])
        problem = f"have no score of {self.name}"
        if changed_ids:
            problem = f"have other texts here than those that {self.name} scored under these ids"
        return (
            f"{len(ids)} of {n_pairs} pairs (such as {ids[0]}) {problem}: "
            f"{self._command} trains the model and records them"
        )

    def distances(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return what `dre.slm.SLM.distances` does, without ``s_p`` for an untrained encoder."""
        return self.score(pairs).filter(["pair_id", "distance", "s_p"])


class Cache:
    """The scores of one model, kept in a SQLite file under hashes of model, context and response.

    Texts are not stored. Where the file cannot be opened or written, a note says so once, and
    scores are kept in memory alone. Scoring goes on all the same.

    Parameters
    ----------
    signature : that of the model; None to keep its scores in memory alone.
    folder : where the file is; by default `folder`.
    """

    def __init__(self, signature: str | None, folder: Path | None = None):
        self._signature = signature
        self._folder = folder or default_folder()
        self._connection = _connection(":memory:")
        if signature is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._connection = _connection(self._folder / f"{signature[:16]}.sqlite")
        except (OSError, sqlite3.Error) as error:
            self._go_on_in_memory(error)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def get(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return ``pair_id`` and `NUMBERS` of those pairs that are kept, by their index."""
        keys = self._keys(pairs)
        marks = json.dumps([key.hex() for key in keys])
        try:
            rows = self._connection.execute(_SELECT, [marks]).fetchall()
        except sqlite3.Error as error:
            self._go_on_in_memory(error)
            rows = []
        numbers_by_key = {key: numbers for key, *numbers in rows}
        kept_pairs = pairs[np.array([key in numbers_by_key for key in keys], dtype=bool)]
        kept_numbers = [numbers_by_key[key] for key in keys if key in numbers_by_key]
        table = pd.DataFrame(kept_numbers, kept_pairs.index, NUMBERS, dtype=float)
        table.insert(0, "pair_id", kept_pairs["pair_id"])
        return table

    def put(self, pairs: pd.DataFrame, scores: pd.DataFrame) -> None:
        """Keep scores, which are row by row those of ``pairs``, all or none."""
        numbers = scores[NUMBERS].to_numpy(float).tolist()
        rows = [(key, *row) for key, row in zip(self._keys(pairs), numbers)]
        try:
            self._insert(rows)
        except sqlite3.Error as error:
            self._go_on_in_memory(error)
            self._insert(rows)

    def knows(self, pairs: pd.DataFrame) -> np.ndarray:
        """Tell of pairs whether something is kept under their ids: it is kept under texts alone."""
        return np.zeros(len(pairs), dtype=bool)

    def _insert(self, rows):
        self._connection.execute("BEGIN IMMEDIATE")
        with self._connection:
            self._connection.executemany(_INSERT, rows)

    def _keys(self, pairs: pd.DataFrame) -> list[bytes]:
        """Return the key of each pair."""
        keys = []
        for turns, response in zip(pairs["context"], pairs["response"]):
            text = json.dumps([self._signature, list(turns), response])
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
            keys.append(digest[:_KEY_BYTES])
        return keys

    def _go_on_in_memory(self, error):
        """Say why the file cannot be used, and keep in memory what comes from now on."""
        print(
            f"note: scores are not kept in {self._folder} ({error}), so an interrupted run would "
            "begin again; DRE_CACHE names another folder",
            file=sys.stderr,
        )
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()
        self._connection = _connection(":memory:")


class Recording:
    """The scores of one model in a file of the project, with what made the model.

    ``<name>.csv.gz`` has ``pair_id``, ``texts`` (see `hashes_of`), and ``s_d, s_p``; of an encoder
    that was not trained ``distance``. ``<name>.json`` beside it is the provenance of the model.

    Parameters
    ----------
    file : the table.
    provenance : that of the model whose scores will be put there. Scores of another model are
        deleted at once. Without it, the scores are only read.
    """

    def __init__(self, file: str | Path, provenance: Mapping | None = None):
        self.file = Path(file)
        self.name = self.file.name.removesuffix(".csv.gz")
        self.provenance: dict = {}
        self._json = self.file.with_name(f"{self.name}.json")
        self._table = pd.DataFrame({"pair_id": [], "texts": []}).set_index("pair_id")
        if self._json.exists():
            self.provenance = json.loads(self._json.read_bytes())
            types: Any = {"pair_id": str, "texts": str}
            table = pd.read_csv(self.file, dtype=types, keep_default_na=False)
            self._table = table.set_index("pair_id")
        if provenance is not None:
            # Every training ends with another range of distances, which tells models apart.
            for key in (*DECISIVE, "d_min", "d_max"):
                if self.provenance.get(key) != provenance.get(key):
                    self._table = self._table.iloc[:0]
            self.provenance = dict(provenance)
            # Write even if no score follows: notebooks show the curves in the provenance.
            self._write()

    def get(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return the scores of those pairs that are recorded with these texts, by their index."""
        recorded = self._table.reindex(pairs["pair_id"])
        is_recorded = (recorded.pop("texts") == hashes_of(pairs)).to_numpy()
        table = recorded[is_recorded].reset_index()
        table.index = pairs.index[is_recorded]
        if "s_d" in table:
            low = self.provenance["d_min"]
            high = self.provenance["d_max"]
            table.insert(1, "distance", low + (high - low) * table["s_d"])
            table["score_slm"] = 1 - table["s_d"] + table["s_p"]
        return table

    def put(self, pairs: pd.DataFrame, scores: pd.DataFrame) -> None:
        """Record scores, which are row by row those of ``pairs``, rounded to five digits."""
        columns = ["s_d", "s_p"] if "d_min" in self.provenance else ["distance"]
        rows = scores.drop_duplicates("pair_id").set_index("pair_id").loc[:, columns]
        rows = rows.map(lambda value: float(f"{value:.5g}"))
        hash_by_id = dict(zip(pairs["pair_id"], hashes_of(pairs)))
        rows.insert(0, "texts", rows.index.map(hash_by_id))
        others = self._table.drop(rows.index, errors="ignore")
        self._table = pd.concat([others, rows]) if len(others) else rows
        self._write()

    def knows(self, pairs: pd.DataFrame) -> np.ndarray:
        """Tell of pairs whether a score is recorded under their ids, of whichever texts: (n,)."""
        return self._table.index.get_indexer(list(pairs["pair_id"])) >= 0

    def _write(self):
        """Write scores and provenance, so that they are never of two different models."""
        text = self._table.to_csv(float_format="%.5g", lineterminator="\n")
        # Without the time, equal scores give equal bytes.
        compressed = gzip.compress(text.encode(), mtime=0)
        provenance_text = json.dumps(self.provenance, indent=1, sort_keys=True) + "\n"
        self._json.unlink(missing_ok=True)
        replace(self.file, compressed)
        replace(self._json, provenance_text)


def hashes_of(pairs: pd.DataFrame) -> list[str]:
    """Return a hash of the texts of each pair, (n,): the beginning of that of a judge's recording.

    Words count, and the spaces between them do not.
    """
    return [
        hash_of({"context": turns, "response": response})[:_HASH_LENGTH]
        for turns, response in zip(pairs["context"], pairs["response"])
    ]


def record_arrays(file: Path, made_from: Mapping, by_name: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name into an ``.npz`` file, and what they are made of."""
    content = io.BytesIO()
    named_arrays: dict = dict(by_name)
    np.savez_compressed(content, made_of=json.dumps(made_from, sort_keys=True), **named_arrays)
    replace(file, content.getvalue())


def recorded_arrays(file: Path, made_from: Mapping) -> dict[str, np.ndarray] | None:
    """Return what `record_arrays` wrote; None if there is no file, or it is of something else."""
    by_name = dict(np.load(file)) if file.exists() else {}
    text = str(by_name.pop("made_of", ""))
    return by_name if text == json.dumps(made_from, sort_keys=True) else None


def package_model(folder: Path, model: Path = DEFAULT) -> Remembered:
    """Return the small model in the package, whose scores are kept in a folder.

    It is loaded when the first new pair comes. A hash of its weights is its signature.
    """
    description = (model / "slm.json").read_bytes()
    weights = (model / "adapter.safetensors").read_bytes()
    digest = hashlib.sha256(description + weights).hexdigest()

    @functools.cache
    def load():
        from dre.slm.model import SLM  # imports torch, which takes seconds

        return SLM.load(model)

    return Remembered(Cache(digest, folder), json.loads(description)["provenance"], load)


def signature_of(slm: "SLM") -> str:
    """Return the hash of all that decides a model's scores, apart from the texts."""
    from torch.nn import ModuleDict  # takes seconds

    digest = hashlib.sha256()
    weights = ModuleDict({"encoder": slm.encoder, "head": slm.head}).state_dict()
    for name in sorted(weights):
        digest.update(name.encode())
        digest.update(weights[name].float().cpu().numpy().tobytes())
    facts = {
        "recipe": slm.recipe.as_dict(),
        "provenance": slm.provenance,
        "class": type(slm).__name__,
        "device": slm.encoder.device.type,
        "length": slm.encoder.max_seq_length,
        "versions": [version(name) for name in ("torch", "transformers", "dre-companion")],
    }
    digest.update(json.dumps(facts, sort_keys=True, default=str).encode())
    return digest.hexdigest()


def default_folder() -> Path:
    """Return where scores are kept: ``DRE_CACHE``, or a folder among the user's caches."""
    chosen = os.environ.get("DRE_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return platformdirs.user_cache_path("dre", appauthor=False) / "scores"


def _connection(path):
    """Open a cache, and make its table if there is none."""
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    connection.executescript(f"PRAGMA journal_mode = WAL; {_TABLE};")
    connection.create_function("unhex_key", 1, bytes.fromhex, deterministic=True)
    return connection
