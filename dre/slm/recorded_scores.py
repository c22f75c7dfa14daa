"""Recorded SLM scores: what a trained model says of every pair that the notebooks show, kept by pair id.

``results/<profile>/scores/<key>-<recipe>[-plain]-seed<k>.csv.gz`` holds ``pair_id, s_d, s_p``, the ``.json`` beside it
what made the model. So the notebooks of profile ``public`` need no training. `Scores` reads, `Recorder` writes,
`load_or_train` does neither; `trained` takes what a profile and ``RETRAIN`` ask for.
"""

import gzip
import hashlib
import io
import json
import os
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from dre import metrics
from dre.datasets import dialogues, ratings
from dre.datasets import registry as fetch
from dre.errors import DreError
from dre.files import replace
from dre.slm import provenance as data
from dre.slm import recipes
from dre.slm.provenance import DECISIVE


class Scores:
    """The recorded scores of one SLM, which answers for the pairs it knows as the model would."""

    def __init__(self, file):
        self.file, self.name = Path(file), Path(file).name.removesuffix(".csv.gz")
        self._json = self.file.with_name(f"{self.name}.json")
        self.provenance, self._table = {}, pd.DataFrame({"pair_id": []}).set_index("pair_id")
        if self._json.exists():
            self.provenance = json.loads(self._json.read_text(encoding="utf-8"))
            table = pd.read_csv(self.file, dtype={"pair_id": str}, keep_default_na=False)
            self._table = table.set_index("pair_id")

    def score(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return what `dre.slm.SLM.score` does; DreError if a pair is not known."""
        found = self._look_up(pairs)
        low, high = self.provenance["d_min"], self.provenance["d_max"]
        found.insert(1, "distance", low + (high - low) * found["s_d"])
        return found.assign(score_slm=1 - found["s_d"] + found["s_p"])

    def distances(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return what `dre.slm.SLM.distances` does, of a model that was not trained without ``s_p``."""
        return (
            self.score(pairs)[["pair_id", "distance", "s_p"]]
            if "d_min" in self.provenance
            else self._look_up(pairs)
        )

    def _look_up(self, pairs):
        places = self._table.index.get_indexer(pairs["pair_id"])  # by an index that is made once
        if len(unknown := pairs["pair_id"][places < 0]):
            lacking = f"{len(unknown)} of {len(pairs)} pairs (such as {unknown.iloc[0]}) have no score of {self.name}"
            raise DreError(f"{lacking}: RETRAIN={self.name} trains the model and records them")
        return self._table.take(places).reset_index()


class Recorder(Scores):
    """An SLM whose scores are recorded as it gives them, for a replay to the same digits; another's are dropped."""

    def __init__(self, file, slm):
        super().__init__(file)
        before, self.slm, self.provenance = self.provenance, slm, slm.provenance
        # Two trainings of one recipe end with ranges of their own: d_min and d_max tell which model scored.
        if any(
            before.get(key) != self.provenance.get(key) for key in (*DECISIVE, "d_min", "d_max")
        ):
            self._table = self._table[:0]
        self._write()  # of a model that is asked for no score its curves are still shown

    def _look_up(self, pairs):
        new = pairs[self._table.index.get_indexer(pairs["pair_id"]) < 0].drop_duplicates("pair_id")
        if len(new):  # what is recorded stays: another batch would round it otherwise
            trained = "d_min" in self.provenance
            new = (
                self.slm.score(new)[["pair_id", "s_d", "s_p"]]
                if trained
                else self.slm.distances(new).iloc[:, :2]
            )
            new = new.set_index("pair_id").map(lambda value: float(f"{value:.5g}"))
            self._table = pd.concat([self._table, new]) if len(self._table) else new
            self._write()
        return super()._look_up(pairs)

    def _write(self):
        text = self._table.to_csv(float_format="%.5g", lineterminator="\n")
        self._json.unlink(
            missing_ok=True
        )  # scores and provenance of two models never lie side by side
        replace(
            self.file, gzip.compress(text.encode(), mtime=0)
        )  # the same scores are the same bytes
        replace(self._json, json.dumps(self.provenance, indent=1, sort_keys=True) + "\n")


def trained(profile, key, name, seed, disentangled=True):
    """Return the SLM of one training of a profile, or what was recorded of it; arguments as of `load_or_train`.

    For profile ``public`` these are the recorded `Scores`, DreError if they are another model's. ``RETRAIN``, one of
    ``profile.models`` or the name of a recording such as ``dailydialog-paper-seed0`` (several with commas; 1: all of
    them), trains what it names and records it. For other profiles it is the model itself; of a recipe of our own, where
    a profile has nothing extra to learn from, the one that comes with the package.
    """
    if _default(profile, name):
        from dre.slm.model import SLM

        return SLM.load(data.DEFAULT)
    file = _file(profile, key, name, seed, disentangled)
    if _recorded(profile, file, name):
        return _checked(Scores(file), made_of(profile, key, name, seed, disentangled))
    slm = load_or_train(profile, key, name, seed, disentangled)
    return Recorder(file, slm) if profile.name == "public" else slm


def load_or_train(profile, key, name, seed, disentangled=True):
    """Return the SLM of one training of a profile, found in the build folder or trained into it; it records nothing.

    ``key`` is that of one of ``profile.sets``, or several joined by ``+``; ``name`` one of ``profile.models``; for the
    rest see `dre.slm.fit`.
    """
    from dre.slm.train import fit

    recipe, version = _asked(profile, name, disentangled)
    train, dev = _split(profile, key, version)
    extra = data.extra(profile, dev, version) if recipe.mixture else None
    fingerprint = data.describe(train, dev, recipe, seed, profile.encoder, extra)["fingerprint"]
    stem = _file(profile, key, name, seed, disentangled).name.removesuffix(".csv.gz")
    out = profile.build / "models" / f"{stem}-{fingerprint[:12]}"
    return fit(train, dev, out, recipe, seed, profile.encoder, extra=extra)


def made_of(profile, key, name, seed, disentangled=True):
    """Return what decides the SLM that `trained` answers with (`DECISIVE`), a dict; nothing is trained."""
    if _default(profile, name):
        return data.default()
    recipe, version = _asked(profile, name, disentangled)
    return data.decisive(
        _hashes(profile, key, bool(recipe.mixture), version), recipe, seed, profile.encoder
    )


def seeds(profile, key, name, disentangled=True):
    """Return the seeds that `trained` has an answer for: those of a profile, of ``public`` the recorded ones."""
    files = {seed: _file(profile, key, name, seed, disentangled) for seed in profile.seeds}
    return [
        seed for seed, file in files.items() if file.exists() or not _recorded(profile, file, name)
    ]


def untrained(profile):
    """Return the encoder before any training, or its recorded cosine distances; ask it for ``distances(pairs)``."""
    file, asked = (
        profile.results / "scores" / "encoder-untrained.csv.gz",
        {"encoder": profile.encoder},
    )
    if _recorded(profile, file):
        return _checked(Scores(file), asked)
    from dre.slm.model import SLM

    slm = SLM.untrained(profile.encoder)
    slm.provenance = asked
    return Recorder(file, slm) if profile.name == "public" else slm


def arrays(profile, name, asked, make=None):
    """Return arrays by name: those of ``make()``, or for profile ``public`` the recorded ones, ``<name>.npz``.

    ``asked``, JSON types, is what they are made of, such as `made_of` returns: what was made of something else is
    refused. Without ``make`` they are always the recorded ones.
    """
    file = profile.results / "scores" / f"{name}.npz"
    if make is not None and not _recorded(profile, file):
        found = make()
        if profile.name == "public":
            record_arrays(file, asked, found)
        return found
    found = dict(np.load(file)) if file.exists() else {}
    if str(found.pop("made_of", "")) != json.dumps(asked, sort_keys=True):
        how = f"RETRAIN={name} makes" if make else "its script in experiments/ makes"
        raise DreError(
            f"recorded {name} is missing or of other models than those asked for: {how} it anew"
        )
    return found


def reference_based(profile, items):
    """Return the reference-based metrics of rated sets by name, their references rated, too; see `arrays`."""

    def make():
        from dre.slm.encoder import load_encoder

        made = partial(
            metrics.reference_based, encoder=load_encoder(profile.encoder, 512), itself=True
        )
        return {name: made(table)[metrics.COLUMNS].to_numpy() for name, table in items.items()}

    asked = {"encoder": profile.encoder, "metrics": metrics.VERSION, "sets": list(items)}
    found = arrays(profile, "reference-metrics", asked, make)
    return {name: pd.DataFrame(scores, columns=metrics.COLUMNS) for name, scores in found.items()}


def record_arrays(file, asked, found):
    """Write arrays by name, and what they are made of, for `arrays` to read."""
    np.savez_compressed(content := io.BytesIO(), made_of=json.dumps(asked, sort_keys=True), **found)
    replace(file, content.getvalue())


def _recorded(profile, file, model=None):
    """Whether a recording of profile ``public`` is read: ``RETRAIN`` does not ask for it, nor for its model."""
    retrain = os.environ.get("RETRAIN", "").split(",")
    return profile.name == "public" and not {"1", file.name.partition(".")[0], model}.intersection(
        retrain
    )


def _model(profile, name):
    if name not in profile.models:
        raise DreError(
            f"profile {profile.name} has no model {name!r}: expected {', '.join(profile.models)}"
        )
    return profile.models[name]


def _default(profile, name):
    """Whether the model that comes with the package stands in for one that has nothing extra to learn from."""
    return (
        recipes.get(_model(profile, name).recipe).mixture is not None
        and not profile.extra.dialogues
    )


def _asked(profile, name, disentangled):
    """The recipe of a model as the profile has it, and the version of its training data."""
    model = _model(profile, name)
    return recipes.replace(
        recipes.get(model.recipe, model.epochs, disentangled), keep=model.keep
    ), model.data


def _split(profile, key, version):
    """The contexts to train on and those held out, of one or several sets; of version 3 those of all sets."""
    entries = {entry.key: entry for entry in profile.sets}
    keys = entries if version == 3 else key.split("+")
    parts = [data.contexts(entries[one], profile.rated, version=version) for one in keys]
    return tuple([context for part in parts for context in part[i]] for i in (0, 1))


def _file(profile, key, name, seed, disentangled):
    key = "all" if _model(profile, name).data == 3 else key
    return (
        profile.results
        / "scores"
        / f"{key}-{name}{'' if disentangled else '-plain'}-seed{seed}.csv.gz"
    )


def _hashes(profile, key, mixture, version):
    """Return `dre.slm.provenance.hashes` of a training, kept in the build folder: making them takes seconds."""
    asked = profile.model_dump_json(include={"sets", "rated", "extra"})
    digest = hashlib.sha256(json.dumps([asked, key, mixture, version]).encode())
    code = [Path(module.__file__) for module in (dialogues, ratings, fetch, data)]
    for path in (*code, fetch.REGISTRY, *sorted(fetch.REPOSITORY.glob("data/*/**/*.jsonl"))):
        digest.update(path.read_bytes())
    file = profile.build / "hashes" / f"{digest.hexdigest()[:16]}.json"
    if not file.exists():
        train, dev = _split(profile, key, version)
        found = data.hashes(train, dev, data.extra(profile, dev, version) if mixture else None)
        replace(file, json.dumps(found))
    return json.loads(file.read_text(encoding="utf-8"))


def _checked(scores, asked):
    """Return recorded scores if their model was made of what is asked for."""
    if differ := [key for key in DECISIVE if scores.provenance.get(key) != asked.get(key)]:
        wrong = (
            f"are those of another model, with other {', '.join(differ)}"
            if scores.provenance
            else "are missing"
        )
        what = f"RETRAIN={scores.name} trains the one asked for and records them"
        raise DreError(f"recorded scores of {scores.name} {wrong}: {what}")
    return scores
