"""The SLM that comes with the package, whose scores are kept while a paper is built.

Six notebooks of profile ``mini`` ask it about the same pairs, each in a process of its own.
"""

import hashlib
import io
import json
from pathlib import Path

import pandas as pd

from dre.datasets.recordings import hash_of
from dre.files import replace
from dre.slm.provenance import DEFAULT


class PackageModel:
    """Scores pairs as `dre.slm.SLM` does, and no pair twice: what it has scored is in a file.

    The file is named by the model's weights, its rows by the texts of a pair, so that neither
    another model nor other texts find them. The model is loaded for the first new pair.
    """

    def __init__(self, folder: Path, model: Path = DEFAULT):
        about = (model / "slm.json").read_bytes()
        weights = (model / "adapter.safetensors").read_bytes()
        digest = hashlib.sha256(about + weights).hexdigest()
        self.provenance = json.loads(about)["provenance"]
        self._model = model
        self._file = folder / f"package-model-{digest[:16]}.csv"
        self._slm = None

    def score(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return what `dre.slm.SLM.score` does."""
        texts = pairs.loc[:, ["context", "response"]]
        hashes = [hash_of(row) for row in texts.to_dict("records")]
        known = self._read()
        is_new = ~pd.Series(hashes, index=pairs.index).isin(known.index)
        if is_new.any():
            known = self._add(pairs.assign(pair_id=hashes)[is_new])
        scored = known.loc[hashes].reset_index(drop=True)
        scored.insert(0, "pair_id", list(pairs["pair_id"]))
        return scored

    def distances(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return what `dre.slm.SLM.distances` does."""
        return self.score(pairs).loc[:, ["pair_id", "distance", "s_p", "left_out"]]

    def _read(self):
        """Return what is kept, by the hash of a pair."""
        if not self._file.exists():
            return pd.DataFrame(index=pd.Index([], name="pair_id"))
        return pd.read_csv(self._file, index_col="pair_id", keep_default_na=False)

    def _add(self, pairs):
        """Score new pairs and keep what came of it; return all that is kept."""
        if self._slm is None:
            from dre.slm.model import SLM  # torch

            self._slm = SLM.load(self._model)
        new = self._slm.score(pairs.drop_duplicates("pair_id")).set_index("pair_id")
        # Another process may have added pairs in the meantime.
        kept = self._read()
        kept = pd.concat([kept, new[~new.index.isin(kept.index)]])
        text = io.StringIO()
        kept.to_csv(text, lineterminator="\n")
        replace(self._file, text.getvalue())
        return kept
