"""A fusion whose one weight is learned on rated sets, and used where nobody has rated.

Both scores become normal scores z, by fixed maps, so that a pair's score depends on no other pair:
score = (1 - w) z_LLM + w z_SLM. In a resample (over contexts) of a rated set it correlates with people by r(w); what w
costs there is its distance from the better part, and the weight is the one whose bad case is best: with Q the 5 %
quantile over all resamples of all sets, w* = argmax_w Q[r(w) - max(r(0), r(1))]. A judge that is clearly better keeps
w near 0, one that is clearly worse gets w near 1.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pydantic import Field, TypeAdapter

from dre.errors import DreError
from dre.files import replace
from dre.signature import Signature
from dre.stats import LEVEL, draws, normal_scores

GRID = np.linspace(0, 1, 101)
KNOTS = 101
#: what made the scores a fusion was learned from; the scores it is used on must be made with the same
MADE_WITH = ("model", "judge", "prompt")


@dataclass(frozen=True)
class Scale:
    """A fixed, rising map from scores ``at`` to normal scores ``z``: linear between them, its mean slope beyond."""

    at: tuple[float, ...]
    z: tuple[float, ...]

    def __post_init__(self):
        steps = np.diff(self.at), np.diff(self.z)
        if not len(self.at) == len(self.z) >= 2 or not all((step > 0).all() for step in steps):
            raise ValueError(
                f"a scale of {len(self.at)} scores and {len(self.z)} z: expected two or more, rising"
            )

    @classmethod
    def fit(cls, scores: ArrayLike) -> Self:
        """Learn the map: a score goes to the normal quantile of the share of ``scores`` below it (ties by half)."""
        from scipy.special import ndtri  # half a second of imports

        scores = np.asarray(scores, float)
        at, counts = np.unique(scores[~np.isnan(scores)], return_counts=True)
        z = ndtri((counts.cumsum() - counts / 2) / counts.sum())
        if len(z) > KNOTS:  # evenly in z, so that the tails are kept as well as the middle
            kept = np.unique(np.searchsorted(z, np.linspace(z[0], z[-1], KNOTS)))
            at, z = at[kept], z[kept]
        return cls(tuple(at.tolist()), tuple(z.tolist()))

    def __call__(self, scores: ArrayLike) -> np.ndarray:
        """Return the normal scores, shape as given; NaN stays NaN."""
        scores, low, high = np.asarray(scores, float), self.at[0], self.at[-1]
        beyond = np.minimum(scores - low, 0) + np.maximum(scores - high, 0)
        return np.interp(scores, self.at, self.z) + (self.z[-1] - self.z[0]) / (high - low) * beyond


@dataclass(frozen=True)
class Calibrated:
    """A fitted fusion: w in [0, 1] (0 is the judge alone), two scales, and what made the scores it was learned from."""

    weight: Annotated[float, Field(ge=0, le=1)]
    slm: Scale
    llm: Scale
    made_with: dict = field(default_factory=dict)

    @classmethod
    def fit(
        cls,
        tables: Iterable[pd.DataFrame],
        llm_scores: ArrayLike | None = None,
        resamples: int = 1000,
        seed: int = 0,
        made_with: dict[str, Any] | None = None,
    ) -> Self:
        """Learn the weight and the scales from rated sets; DreError where there is too little to learn from.

        ``tables``: one per rated set and judge, of ``context_id, score_slm, score_llm`` (0-5) and ``human`` (any unit);
        pairs that lack a number are left out. Give those of the judge to be fused or, if it was never rated, other
        judges' and beside them ``llm_scores`` of that judge, for its scale. ``resamples, seed``: of contexts, for each
        table. ``made_with``: what gave the scores, by the names in `MADE_WITH`; `check` compares with it.
        """
        tables = [
            table[["context_id", "score_slm", "score_llm", "human"]].dropna() for table in tables
        ]
        for table in tables:
            if len(table) < 3 or (table.drop(columns="context_id").nunique() < 2).any():
                what = "expected 3 or more, not all with one score or rating"
                raise DreError(f"a rated table has {len(table)} complete pairs: {what}")
        bad_case = np.quantile(
            np.concatenate([_gains(t, resamples, seed) for t in tables]), LEVEL, axis=0
        )
        every = pd.concat(tables)
        llm = Scale.fit(every["score_llm"] if llm_scores is None else llm_scores)
        # rounded: noise of the last digit must not decide between equals; of equals the one nearest the judge
        weight = float(GRID[bad_case.round(9).argmax()])
        return cls(weight, Scale.fit(every["score_slm"]), llm, dict(made_with or {}))

    def fuse(self, score_slm: ArrayLike, score_llm: ArrayLike) -> np.ndarray:
        """Return (1 - w) z_LLM + w z_SLM, shape as given; 0 is an ordinary pair, the unit one sd; NaN stays NaN."""
        return (1 - self.weight) * self.llm(score_llm) + self.weight * self.slm(score_slm)

    def check(self, signature: Signature) -> None:
        """Raise DreError if ``model, judge, prompt`` are not those the fusion was learned with."""
        if isinstance(self.made_with.get("prompt"), str):
            learned = Signature.from_texts(self.made_with)  # a fusion of version 0.2
        else:
            learned = Signature(self.made_with)
        known = {name: value for name, value in signature.fields.items() if name in learned.fields}
        for difference in learned.differences(Signature(known, signature.is_printed)):
            raise DreError(
                f"the fusion was learned with {difference.field} {difference.this}, not with "
                f"{difference.other}: use the same, or learn another: dre calibrate"
            )

    @property
    def sha256(self) -> str:
        """Hash of all that it holds."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def as_json(self) -> str:
        """Return the text that `save` writes."""
        return json.dumps(asdict(self), indent=1) + "\n"

    def save(self, path: str | Path) -> None:
        """Write the fusion as JSON."""
        replace(Path(path), self.as_json())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a fusion that `save` wrote, by this version or an earlier one."""
        try:
            return TypeAdapter(cls).validate_json(Path(path).read_bytes())
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise DreError(
                f"{path} is no saved fusion ({reason}): learn one with dre calibrate"
            ) from None


def _gains(table, resamples, seed):
    """Correlation with people of every weight less that of the better part, as normal scores: (resamples, weights)."""
    slm, llm, human = normal_scores(table[["score_slm", "score_llm", "human"]].to_numpy(float)).T
    mixed = slm[:, None] * GRID + llm[:, None] * (1 - GRID)
    r = draws(mixed, human, table["context_id"], "pearson", resamples, seed)[1:]
    r = np.nan_to_num(
        r
    )  # where parts cancel out, or a resample holds one rating only, nothing correlates
    return r - np.maximum(r[:, :1], r[:, -1:])
