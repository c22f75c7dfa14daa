"""The small model that comes with the package, with a file of the scores that it has given.

Six notebooks of profile ``mini`` score the same pairs, each notebook in another process. So every
pair is scored once.
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
    """Scores pairs as `dre.slm.SLM` does, but looks up pairs that it has scored before.

    Scores are stored in a file. A hash of the model's weights is in its name, and hashes of the
    texts are the ids of its rows, so that another model or other texts never get these scores. The
    model is loaded when the first new pair comes.
    """

    def __init__(self, folder: Path, model: Path = DEFAULT):
        description = (model / "slm.json").read_bytes()
        weights = (model / "adapter.safetensors").read_bytes()
        digest = hashlib.sha256(description + weights).hexdigest()
        self.provenance = json.loads(description)["provenance"]
        self._model = model
        self._file = folder / f"package-model-{digest[:16]}.csv"
        self._slm = None

    def score(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return what `dre.slm.SLM.score` does."""
        texts = pairs.loc[:, ["context", "response"]]
        hashes = [hash_of(row) for row in texts.to_dict("records")]
        scores_by_hash = self._read_scores()
        is_new = ~pd.Series(hashes, index=pairs.index).isin(scores_by_hash.index)
        if is_new.any():
            new_pairs = pairs.assign(pair_id=hashes)[is_new]
            scores_by_hash = self._score_and_store(new_pairs)
        scored = scores_by_hash.loc[hashes].reset_index(drop=True)
        scored.insert(0, "pair_id", list(pairs["pair_id"]))
        return scored

    def distances(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return what `dre.slm.SLM.distances` does."""
        return self.score(pairs).loc[:, ["pair_id", "distance", "s_p", "left_out"]]

    def _read_scores(self):
        """Return the stored scores by the hash of a pair."""
        if not self._file.exists():
            return pd.DataFrame(index=pd.Index([], name="pair_id"))
        return pd.read_csv(self._file, index_col="pair_id", keep_default_na=False)

    def _score_and_store(self, pairs):
        """Score new pairs, store their scores, and return all that are stored."""
        if self._slm is None:
            from dre.slm.model import SLM  # imports torch, which takes seconds

            self._slm = SLM.load(self._model)
        new_scores = self._slm.score(pairs.drop_duplicates("pair_id")).set_index("pair_id")

        # Another process may have stored pairs in the meantime.
        stored = self._read_scores()
        is_stored = new_scores.index.isin(stored.index)
        stored = pd.concat([stored, new_scores[~is_stored]])
        text = io.StringIO()
        stored.to_csv(text, lineterminator="\n")
        replace(self._file, text.getvalue())
        return stored
