"""Recorded SLM scores: what a trained model says of every pair that the notebooks show, kept by pair id.

``results/<profile>/scores/<key>-<recipe>[-plain]-seed<k>.csv.gz`` holds ``pair_id, s_d, s_p``, the ``.json`` beside it
what made the model. So the notebooks of profile ``public`` need no training.
"""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd

from dre.errors import DreError
from dre.report import replace
from dre.slm import recipes
from dre.slm.data import DECISIVE, beside, contexts, decisive, describe


class Scores:
    """The recorded scores of one SLM, which answers for the pairs it knows as the model would.

    Given the model itself (``slm``), whatever is asked is scored and recorded: a replay gives the same digits.
    """

    def __init__(self, file, slm=None):
        self.file, self.slm = Path(file), slm
        self.name = self.file.name.removesuffix(".csv.gz")
        self._json = self.file.with_name(f"{self.name}.json")
        recorded = json.loads(self._json.read_text(encoding="utf-8")) if self._json.exists() else {}
        self.provenance = recorded if slm is None else slm.provenance
        table = pd.DataFrame({"pair_id": []})
        # Two trainings of one recipe end with ranges of their own: d_min and d_max tell which model scored.
        same = recorded and all(recorded.get(key) == self.provenance.get(key) for key in (*DECISIVE, "d_min", "d_max"))
        if same:
            table = pd.read_csv(self.file, dtype={"pair_id": str}, keep_default_na=False)
        self._table = table.set_index("pair_id")
        if slm is not None and not same:  # of a model that is asked for no score its curves are still shown
            self._write()

    def score(self, pairs):
        """Return ``pair_id, distance, s_d, s_p, score_slm`` as `dre.slm.SLM.score`; DreError if a pair is not known."""
        found = self._look_up(pairs)
        low, high = self.provenance["d_min"], self.provenance["d_max"]
        found.insert(1, "distance", low + (high - low) * found["s_d"])
        return found.assign(score_slm=1 - found["s_d"] + found["s_p"])

    def distances(self, pairs):
        """Return ``pair_id, distance`` and, of a trained model, ``s_p``, as `dre.slm.SLM.distances` does."""
        return self.score(pairs)[["pair_id", "distance", "s_p"]] if "d_min" in self.provenance else self._look_up(pairs)

    def _look_up(self, pairs):
        if self.slm is not None:
            self._record(pairs)
        places = self._table.index.get_indexer(pairs["pair_id"])  # by an index that is made once
        if len(unknown := pairs["pair_id"][places < 0]):
            said = f"{len(unknown)} of {len(pairs)} pairs (such as {unknown.iloc[0]}) have no score of {self.name}"
            raise DreError(f"{said}: RETRAIN=1 trains the model and records them")
        return self._table.take(places).reset_index()

    def _record(self, pairs):
        pairs = pairs[self._table.index.get_indexer(pairs["pair_id"]) < 0].drop_duplicates("pair_id")
        if not len(pairs):  # what is recorded stays: another batch would round it otherwise
            return
        trained = "d_min" in self.provenance
        new = self.slm.score(pairs)[["pair_id", "s_d", "s_p"]] if trained else self.slm.distances(pairs).iloc[:, :2]
        new = new.set_index("pair_id").map(lambda value: float(f"{value:.5g}"))
        self._table = pd.concat([self._table, new])
        self._write()

    def _write(self):
        self.file.parent.mkdir(parents=True, exist_ok=True)
        partial = self.file.with_name(self.file.name + ".partial")  # renamed when complete: no half file is ever read
        # Without a time stamp, so that the same scores are the same bytes.
        self._table.to_csv(partial, float_format="%.5g", compression={"method": "gzip", "mtime": 0})
        self._json.unlink(missing_ok=True)  # scores and provenance of two models never lie side by side
        os.replace(partial, self.file)
        replace(self._json, json.dumps(self.provenance, indent=1, sort_keys=True) + "\n")


def trained(profile, key, recipe, seed, disentangled=True):
    """Return the SLM of one training of a profile, or what was recorded of it.

    For profile ``public`` these are the recorded `Scores`, DreError if they are another model's; with ``RETRAIN=1`` the
    model, found in or trained into the build folder, whose scores are recorded. For others it is the SLM itself; of
    recipe ``graded``, where a profile has nothing for it to learn from, the one that comes with the package.
    ``key`` is that of one of ``profile.sets``, or several joined by ``+``; for the rest see `dre.slm.fit`.
    """
    recipe = recipes.get(recipe, epochs=profile.epochs.get(recipe), disentangled=disentangled)
    if recipe.mixture and not profile.beside.dialogues:
        from dre.slm.model import DEFAULT, SLM

        return SLM.load(DEFAULT)
    entries = {entry.key: entry for entry in profile.sets}
    parts = [contexts(entries[one], profile.rated) for one in key.split("+")]
    train, dev = ([context for part in parts for context in part[i]] for i in (0, 1))
    extra = None if recipe.mixture is None else beside(profile, dev)
    made_of = (train, dev, recipe, seed, profile.encoder, extra)
    file = _file(profile, key, recipe, seed, disentangled)
    if _recorded(profile):
        return _read(file, decisive(*made_of))
    from dre.slm.train import fit

    fingerprint = describe(*made_of)["fingerprint"]
    out = profile.build / "models" / f"{file.name.removesuffix('.csv.gz')}-{fingerprint[:12]}"
    slm = fit(train, dev, out, recipe, seed, profile.encoder, progress=False, beside=extra)
    return Scores(file, slm) if profile.name == "public" else slm


def seeds(profile, key, recipe, disentangled=True):
    """Return the seeds that `trained` has an answer for: those of a profile, of ``public`` the recorded ones."""
    files = {seed: _file(profile, key, recipes.get(recipe), seed, disentangled) for seed in profile.seeds}
    return [seed for seed, file in files.items() if file.exists() or not _recorded(profile)]


def untrained(profile):
    """Return the encoder before any training, or its recorded cosine distances; ask it for ``distances(pairs)``."""
    file, made_of = profile.results / "scores" / "encoder-untrained.csv.gz", {"encoder": profile.encoder}
    if _recorded(profile):
        return _read(file, made_of)
    from dre.slm.model import SLM

    slm = SLM.untrained(profile.encoder)
    slm.provenance = made_of
    return Scores(file, slm) if profile.name == "public" else slm


def kept(profile, name, make):
    """Return arrays by name: those of ``make()``, or for profile ``public``, without ``RETRAIN=1``, the recorded ones.

    They are recorded beside the scores, as ``<name>.npz``.
    """
    file = profile.results / "scores" / f"{name}.npz"
    if _recorded(profile):
        with np.load(file) as found:
            return dict(found)
    found = make()
    if profile.name == "public":
        np.savez_compressed(partial := file.with_suffix(".partial.npz"), **found)
        os.replace(partial, file)
    return found


def _recorded(profile):
    """Whether a profile lives on recorded scores."""
    return profile.name == "public" and os.environ.get("RETRAIN", "0") in ("", "0")


def _file(profile, key, recipe, seed, disentangled):
    return profile.results / "scores" / f"{key}-{recipe.name}{'' if disentangled else '-plain'}-seed{seed}.csv.gz"


def _read(file, made_of):
    """Return recorded scores if their model was made of what is asked for."""
    found = Scores(file)
    if differ := [key for key in DECISIVE if found.provenance.get(key) != made_of.get(key)]:
        wrong = f"are those of another model, with other {', '.join(differ)}" if found.provenance else "are missing"
        raise DreError(f"recorded scores of {found.name} {wrong}: RETRAIN=1 trains the one asked for and records them")
    return found
