"""The variants among which experiments/small_model.py chooses: how each is made, and what its readings count.

``default``       ``default-1``, which came with the package when the rule was made; beside it the encoders before any
                  training (``cosine``, ``mpnet-cosine``) and the number of words (``length``)
``graded``        recipe ``graded`` on more labelled contexts (both requests), with copies of the context among the
                  adversarial responses of contrast and fit: a turn, a turn with words left out, shuffled words
``mpnet``         its heads on all-mpnet-base-v2 as it is (110 M parameters)
``mpnet-adapted`` the same with its contrast, on some of the contexts, which is what a night allows
``cross``         recipe ``cross`` on the same: context and response read together by the upper half of MiniLM's layers
``both``          ``graded`` and ``cross``, their parts together
``large``         ``mpnet`` and ``cross``, their parts together

A variant has several readings, of its parts alone or of the mean of parts standardised on the graded training pairs:
"fit and quality" is without likeness.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from uuid import uuid4

import numpy as np
import pandas as pd
import torch

from dre import metrics
from dre.paper.profile import profile
from dre.slm import SLM, fit, graded, load_or_train, recipes
from dre.slm.encoder import Reader, native_bf16

ROOT = Path(__file__).resolve().parents[1]
BUILD, OUT = ROOT / "build" / "small_model", ROOT / "results" / "choices" / "small_model"
KEPT = 4096  # texts whose embeddings are kept in one file
ADAPTED = 1500  # labelled contexts that all-mpnet-base-v2 is adapted to, at 4 seconds each
GRADED = recipes.get(
    "graded", epochs=1
)  # so many contexts make more steps in one epoch than 870 did in two


class Kept(Reader):
    """Reads with an encoder that does not learn and keeps all embeddings in a folder: once for every seed and table.

    all-mpnet-base-v2 multiplies in bfloat16 for it where the processor does that itself: in half the time.
    """

    def __init__(self, folder, encoder):
        super().__init__(encoder)
        self.folder, self.kept, self.fast = folder, {}, native_bf16() and "mpnet" in folder.name
        folder.mkdir(parents=True, exist_ok=True)
        for file in sorted(folder.glob("*.pt")):
            part = torch.load(file)
            self.kept.update(zip(part["texts"], part["h"]))

    def __call__(self, texts, progress=False):
        """Return (n, d) float32 embeddings."""
        new = [text for text in dict.fromkeys(texts) if text not in self.kept]
        for start in range(0, len(new), KEPT):
            part = new[start : start + KEPT]
            with torch.autocast(self.encoder.device.type, torch.bfloat16, enabled=self.fast):
                h = super().__call__(part)
            torch.save(
                {"texts": part, "h": h}, unfinished := self.folder / f"{uuid4().hex}.partial"
            )
            unfinished.rename(unfinished.with_suffix(".pt"))
            self.kept.update(zip(part, h))
            self.known.clear()
        return torch.stack([self.kept[text] for text in texts])


def default(given, **_):
    """Return pairs -> score of ``default-1``, the first training of recipe ``graded`` in profile ``public``."""
    slm = load_or_train(profile("public"), "dailydialog", "graded", 0)
    return lambda table: slm.score(table)[["score_slm"]]


def length(given, **_):
    """Return pairs -> number of words of the response."""
    return lambda table: pd.DataFrame({"length": metrics.length(table["response"])})


def cosine(given, encoder, kept=True, **_):
    """Return pairs -> cosine of context and response by an encoder before any training."""
    slm = SLM.untrained(encoder)
    slm.reader = reader(encoder, kept)(slm.encoder)
    return lambda table: 1 - slm.distances(table)[["distance"]]


def reader(encoder, kept):
    """What reads with an encoder as it was; with ``kept`` what was read before is looked up."""
    return partial(Kept, BUILD / "embeddings" / Path(encoder).name) if kept else Reader


def of_graded(given, name, seed, encoder, recipe=GRADED, most=None, kept=True):
    """Return pairs -> parts of a model of recipe ``graded`` on at most so many of the labelled contexts."""
    labelled = random.Random(seed).sample(given.labelled, most) if most else given.labelled
    graded.Reader = reader(
        encoder, kept
    )  # of the encoder as it was; the adapted one reads with another
    out = BUILD / f"{name}-seed{seed}"
    return fit(
        graded.with_copies(labelled),
        given.held_out,
        out,
        recipe,
        seed,
        encoder,
        False,
        given.further,
    ).parts


def of_cross(given, name, seed, encoder, **_):
    """Return pairs -> parts of a model of recipe ``cross``, and its score, the sum of two of them."""
    out = BUILD / f"{name}-seed{seed}"
    slm = fit(given.labelled, given.held_out, out, "cross", seed, encoder, False, given.further)

    def parts(table):
        found = slm.parts(table)
        return found.assign(score=found["fit"] + found["quality"])

    return parts


def of_both(given, seed, encoder, first="graded", **about):
    """Return pairs -> parts of ``graded`` (or another ``first``) and of ``cross``, which reads with MiniLM."""
    about |= {"given": given, "seed": seed}
    alone = VARIANTS[first].make(**about | {"name": first}, encoder=encoder)
    together = VARIANTS["cross"].make(**about | {"name": "cross"}, encoder="minilm")

    def parts(table):
        cross = together(table).add_prefix("cross ")
        return pd.concat([alone(table), cross[["cross fit", "cross quality"]]], axis=1)

    return parts


@dataclass(frozen=True)
class Variant:
    """What makes a variant, which parts each of its readings counts, with which seeds, on which encoder."""

    make: Callable  # of given, name, seed, encoder, kept: a function of pairs that returns a table of parts
    readings: dict
    seeds: tuple = (0, 1, 2)
    encoder: str = "minilm"

    def scores(self, parts, learned):
        """Return reading -> table -> (n,), the mean of its parts in standard deviations over the graded training pairs.

        ``parts``: table -> part -> (n,); ``learned``: those of the graded training pairs. The mean has a standard
        deviation of 1 over them, too.
        """
        found = {}
        for reading, names in self.readings.items():
            units = {name: (learned[name].mean(), learned[name].std()) for name in names}
            mean = {
                table: sum((of[name] - at) / sd for name, (at, sd) in units.items())
                for table, of in parts.items()
            }
            spread = sum((learned[name] - at) / sd for name, (at, sd) in units.items()).std()
            found[reading] = {table: of / spread for table, of in mean.items()}
        return found


def said(file, tables, make=None):
    """Return table -> part -> (n,): what is said of tables of pairs, kept in a file; ``make`` makes what says it."""
    if not file.exists():
        parts = make()
        found = {
            f"{name}/{part}": of
            for name, table in tables.items()
            for part, of in parts(table).items()
        }
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(file, **{key: of.to_numpy("float32") for key, of in found.items()})
    found = {name: {} for name in tables}
    for key, values in np.load(file).items():
        name, part = key.split("/")
        found[name][part] = values.astype(float)
    return found


def _readings(name, *of):
    return {name: of, f"{name}, fit and quality": ("fit", "quality"), f"{name}, fit": ("fit",)}


THREE = ("likeness", "fit", "quality")
FROZEN = replace(GRADED, stages=(), mixture=replace(GRADED.mixture, rank=0))
ON_SOME = partial(of_graded, most=ADAPTED)
CROSS = {
    "cross": ("score",),
    "cross and likeness": THREE,
    "cross, fit": ("fit",),
    "cross, quality": ("quality",),
}
BOTH = {"both": (*THREE, "cross fit", "cross quality"), "both, fit": ("fit", "cross fit")}
LARGE = {"large": BOTH["both"]}
BOTH["both, fit and quality"] = ("fit", "quality", "cross fit", "cross quality")
PLAIN = ("default", "length", "cosine", "mpnet-cosine")  # what the others stand beside
LARGER = (
    "mpnet",
    "large",
    "mpnet-adapted",
)  # not embedded: their encoder is fetched; their readings with likeness
VARIANTS = {
    "default": Variant(default, {"default": ("score_slm",)}, (0,)),
    "length": Variant(length, {"length": ("length",)}, (0,)),
    "cosine": Variant(cosine, {"cosine": ("distance",)}, (0,)),
    "graded": Variant(of_graded, _readings("graded", *THREE)),
    "cross": Variant(of_cross, CROSS),
    "both": Variant(of_both, BOTH, (0,)),
    "mpnet-cosine": Variant(cosine, {"mpnet-cosine": ("distance",)}, (0,), "mpnet"),
    "mpnet": Variant(
        partial(of_graded, recipe=FROZEN), _readings("mpnet", *THREE), encoder="mpnet"
    ),
    "large": Variant(partial(of_both, first="mpnet"), LARGE, (0,), "mpnet"),
    "mpnet-adapted": Variant(ON_SOME, _readings("mpnet-adapted", *THREE), (0,), "mpnet"),
}
