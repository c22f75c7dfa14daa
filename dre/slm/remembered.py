"""Scores of small models, remembered once: by the model and by a hash of the texts.

There is one form of file, Parquet with ``model``, ``texts`` (see `hashes_of`) and numbers. A user's
`Cache` is a folder with a file for each block that was scored. Many runs may use it at once, and it
may be deleted at any time. A `Recording` is committed with the project: one file for all models,
and ``models.json`` says what made each. `Remembered` scores as a small model does, and asks the
model only for what is not remembered.
"""

import functools
import hashlib
import io
import json
import os
import secrets
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
import platformdirs
from filelock import FileLock

from dre.datasets.recordings import FOLDER, hash_of
from dre.errors import DreError
from dre.files import replace
from dre.progress import Progress
from dre.slm.provenance import DECISIVE, DEFAULT

if TYPE_CHECKING:
    from dre.slm.model import SLM

#: What a small model gives a pair.
NUMBERS = ["distance", "s_d", "s_p", "score_slm"]
#: The recorded scores of the profile whose results are committed.
SMALL_MODELS = FOLDER / "small-models"
_HASH_LENGTH = 16  # characters of a hash
_BLOCK = 4096  # pairs that are scored and kept together


class Cache:
    """The scores of one model, kept in a folder. Texts are not stored.

    Where the folder cannot be read or written, a note says so once, and scores are kept in memory
    alone. Scoring goes on all the same.

    Parameters
    ----------
    model : the name or the signature of the model.
    folder : where the files are; None to keep scores in memory.
    """

    #: Of a number, where it is rounded.
    digits: int | None = None

    def __init__(self, model: str = "", folder: Path | None = None):
        self.model = model
        self.folder = folder
        self.table = _read([], model)
        try:
            if folder is not None:
                self.table = _read(sorted(folder.glob("*.parquet")), model)
        except OSError as error:  # a damaged file is an OSError of pyarrow's, too
            self._go_on_in_memory(error)

    def get(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return ``pair_id`` and the numbers of those pairs that are known, by their index."""
        hashes = pd.Series(hashes_of(pairs), pairs.index, dtype=object)
        known: Any = hashes[hashes.isin(self.table.index)]
        numbers = self.table.loc[known].set_axis(known.index).dropna(axis=1, how="all")
        if "s_d" in numbers:
            numbers["score_slm"] = 1 - numbers["s_d"] + numbers["s_p"]
        numbers.insert(0, "pair_id", pairs.loc[known.index, "pair_id"])
        return numbers

    def put(self, pairs: pd.DataFrame, scores: pd.DataFrame) -> None:
        """Keep scores, which are row by row those of ``pairs``, all or none.

        What is known stays as it is. What was left out of a response is not kept.
        """
        numbers: Any = scores.filter(["distance", "s_d", "s_p"]).astype(float)
        if self.digits:
            numbers = numbers.map(lambda value: float(f"{value:.{self.digits}g}"))
        numbers = numbers.set_axis(pd.Index(hashes_of(pairs), name="texts"))
        self.table = _once(pd.concat([self.table, numbers]))
        self._write(_once(numbers))

    def _write(self, rows):
        """Write what is new into a file of its own."""
        try:
            if self.folder is not None:
                _write(self.folder / f"{secrets.token_hex(8)}.parquet", rows, self.model)
        except (OSError, DreError) as error:
            self._go_on_in_memory(error)

    def _go_on_in_memory(self, error):
        """Say why the folder cannot be used, and keep in memory what comes from now on."""
        print(
            f"note: scores are not kept in {self.folder} ({error}), so an interrupted run would "
            "begin again; DRE_CACHE names another folder",
            file=sys.stderr,
        )
        self.folder = None


class Recording(Cache):
    """The scores of one model among those of the project, with what made the model.

    They are rounded to seven digits, since the last bits depend on the processor.

    Parameters
    ----------
    model : the name of the model.
    folder : with ``scores.parquet`` and ``models.json``.
    provenance : that of the model whose scores will be put there. Scores of another model of this
        name are deleted at once. Without it, the scores are only read.
    """

    digits = 7

    def __init__(self, model: str, folder: Path = SMALL_MODELS, provenance: Mapping | None = None):
        self.provenance: dict = recorded_models(folder).get(model, {})
        super().__init__(model, folder)
        if provenance is None:
            return
        # Every training ends with another range of distances, which tells models apart.
        for key in (*DECISIVE, "d_min", "d_max"):
            if self.provenance.get(key) != provenance.get(key):
                self.table = self.table.iloc[:0]
        self.provenance = dict(provenance)
        # Write even if no score follows: notebooks show the curves in the provenance.
        self._write(self.table)

    def get(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return what `Cache.get` does; a distance that is not recorded follows from s_d."""
        numbers = super().get(pairs)
        if "s_d" in numbers and "distance" not in numbers:
            low, high = self.provenance["d_min"], self.provenance["d_max"]
            numbers.insert(1, "distance", low + (high - low) * numbers["s_d"])
        return numbers

    def _write(self, rows):
        """Write all scores and provenance beside those of other models; others may write, too."""
        folder: Any = self.folder
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            provenances = recorded_models(folder) | {self.model: self.provenance}
            content = json.dumps(provenances, indent=1, sort_keys=True)
            replace(folder / "models.json", content + "\n")
            _write(folder / "scores.parquet", self.table, self.model)


@dataclass(eq=False)
class Remembered:
    """A small model that scores no pair twice, in whichever process.

    Parameters
    ----------
    memory : where its scores are.
    provenance : that of the model, as `dre.slm.SLM` has it.
    model : returns the model, when the first pair comes that is not remembered; None if none may
        be asked.
    command : what makes scores anew; by default a run with ``RETRAIN``.
    """

    memory: Cache
    provenance: Mapping[str, Any]
    model: "Callable[[], SLM] | None" = None
    command: str = ""

    @classmethod
    def recorded(cls, model: str, folder: Path = SMALL_MODELS, command: str = "") -> Self:
        """Return the recorded scores of a model, in the place of the model itself."""
        recording = Recording(model, folder)
        return cls(recording, recording.provenance, command=command)

    def score(
        self,
        pairs: pd.DataFrame,
        block: int = _BLOCK,
        progress: bool = False,
        is_trained: bool = True,
    ) -> pd.DataFrame:
        """Return what `dre.slm.SLM.score` does, without what was left out.

        DreError if texts were not recorded, and no model may be asked.

        Parameters
        ----------
        pairs : as `dre.slm.SLM.score` takes them.
        block : how many pairs are scored and kept together; a kill loses no more of them.
        progress : whether to say how far it is.
        is_trained : if not, there are ``pair_id`` and ``distance`` alone.
        """
        pairs = pairs.reset_index(drop=True)
        # Known pairs are not scored again, since rounding depends on the batch.
        scores = self.memory.get(pairs)
        new_pairs = pairs.drop(index=scores.index)
        if progress and len(scores):
            print(f"{len(scores):,} of {len(pairs):,} pairs were scored before", file=sys.stderr)
        if not len(new_pairs):
            return scores
        if self.model is None:
            command = self.command or f"RETRAIN={self.memory.model}"
            raise DreError(
                f"{len(new_pairs)} of {len(pairs)} pairs (such as {new_pairs['pair_id'].iloc[0]}) "
                f"have no score of {self.memory.model} with these texts: {command} trains it and "
                "records them"
            )
        slm = self.model()
        with Progress(len(pairs), "pairs", len(scores), is_silent=not progress) as bar:
            for first in range(0, len(new_pairs), block):
                of_block = new_pairs.iloc[first : first + block]
                scores: Any = slm.score(of_block) if is_trained else slm.distances(of_block)
                self.memory.put(of_block, scores if is_trained else scores[["distance"]])
                bar.update(len(of_block))
        return self.memory.get(pairs)

    def distances(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return what `dre.slm.SLM.distances` does, without ``s_p`` for an untrained encoder."""
        scores = self.score(pairs, is_trained="d_min" in self.provenance)
        return scores.filter(["pair_id", "distance", "s_p"])


def hashes_of(pairs: pd.DataFrame) -> list[str]:
    """Return a hash of the texts of each pair, (n,): the beginning of that of a judge's recording.

    Words count, and the spaces between them do not.
    """
    return [
        hash_of({"context": turns, "response": response})[:_HASH_LENGTH]
        for turns, response in zip(pairs["context"], pairs["response"])
    ]


def _read(files, model):
    """Return the numbers of a model in Parquet files, by the hash of their texts."""
    tables = [pd.DataFrame({"texts": []})]
    for file in files:
        # Opened by Python, so that a run of notebooks sees what it reads.
        content = io.BytesIO(file.read_bytes())
        tables.append(pd.read_parquet(content, filters=[("model", "=", model)]))
    table = pd.concat([table for table in tables if len(table)] or tables[:1])
    return _once(table.drop(columns="model", errors="ignore").set_index("texts"))


def _once(table: Any) -> Any:
    """Return the first of the rows that have one index."""
    return table[~table.index.duplicated()]


def _write(file, rows, model):
    """Write the numbers of a model into a Parquet file, beside those of other models."""
    import pyarrow
    import pyarrow.parquet

    table: Any = rows.reset_index().assign(model=model)
    if file.exists():
        others = pd.read_parquet(io.BytesIO(file.read_bytes()))
        table = pd.concat([others[others["model"] != model], table])
    table = table.sort_values(by=["model", "texts"], kind="stable")
    arrow = pyarrow.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None)
    content = io.BytesIO()
    pyarrow.parquet.write_table(arrow, content, compression="zstd", compression_level=9)
    replace(file, content.getvalue())


def recorded_models(folder: Path = SMALL_MODELS) -> dict[str, dict]:
    """Return the recorded models by name: what made each."""
    file = folder / "models.json"
    return json.loads(file.read_bytes()) if file.exists() else {}


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

    It is loaded when the first new pair comes. Its description, which has a hash of its weights, is
    its signature.
    """
    description = (model / "slm.json").read_bytes()
    signature = hashlib.sha256(description).hexdigest()[:16]
    memory = Cache(signature, folder / signature)
    return Remembered(memory, json.loads(description)["provenance"], loader(model))


def loader(model: Path = DEFAULT) -> "Callable[[], SLM]":
    """Return a function that loads a model, once."""

    @functools.cache
    def load():
        from dre.slm.model import SLM  # imports torch, which takes seconds

        return SLM.load(model)

    return load


def cache_of(slm: "SLM") -> Cache:
    """Return the user's cache of a model as it was loaded; in memory if it was not."""
    if not slm.signature:
        return Cache()
    versions = [version(name) for name in ("torch", "transformers", "dre-companion")]
    facts = json.dumps([slm.signature, slm.encoder.device.type, *versions])
    signature = hashlib.sha256(facts.encode()).hexdigest()[:16]
    usual = platformdirs.user_cache_path("dre", appauthor=False) / "scores"
    folder = Path(os.environ.get("DRE_CACHE") or usual).expanduser().absolute()
    return Cache(signature, folder / signature)
