"""The fitted fusion, and the plain average of ranks that it is compared with."""

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from dre import fusion
from dre.calibrated import weight as weights
from dre.calibrated.scale import Scale
from dre.errors import DreError

#: Q: the level at which a loss would be called significant
LEVEL = 0.05
COLUMNS = ("pair_id", "context_id", "score_slm", "score_llm", "human")


@dataclass(frozen=True)
class Calibrated:
    """A fitted fusion.

    Attributes
    ----------
    weight : float
        w in [0, 1]: 0 is the judge alone, 1 the SLM alone.
    slm, llm : Scale
    slope_slm, slope_fused : float
        Expected normal score of people for each unit of z_SLM, and of the fused score; 0 or more. They bring a pair
        whose judge was not asked, and one whose judge was, to one scale.
    made_with : dict
        ``model, judge, prompt`` that gave the scores it was learned from, as a signature names them; empty if unknown.
    """

    weight: float
    slm: Scale
    llm: Scale
    slope_slm: float
    slope_fused: float
    made_with: dict = field(default_factory=dict)

    @classmethod
    def fit(cls, tables, llm_scores=None, level=LEVEL, resamples=1000, seed=0):
        """Learn the weight and the scales from rated sets.

        Parameters
        ----------
        tables : sequence of DataFrame
            One a rated set and judge: ``pair_id, context_id, score_slm, score_llm`` (0-5), ``human`` (any unit), and
            ``status`` where there is one. Pairs that lack a number are left out. Give those of the judge to be fused,
            or, where it was never rated beside people, those of other judges.
        llm_scores : array-like, optional
            Scores of the judge to be fused, no ratings, from which its scale is learned; default: those in ``tables``.
            Needed where the tables are other judges'.
        level : float
            Of the quantile Q.
        resamples, seed : int
            Of contexts, for each table.

        Raises
        ------
        DreError
            No table, a column missing, fewer than three complete pairs, or a score or rating that does not vary.
        """
        tables = [complete(table) for table in tables]
        if not tables:
            raise DreError("found no rated table to learn from; expected at least one")
        covariances = [weights.covariances(table, resamples, seed) for table in tables]
        weight = weights.best(np.concatenate([drawn for _, drawn in covariances]), level)
        seen = [whole for whole, _ in covariances]
        scores = pd.concat([table["score_llm"] for table in tables]) if llm_scores is None else llm_scores
        return cls(
            weight,
            Scale.fit(pd.concat([table["score_slm"] for table in tables])),
            Scale.fit(scores),
            weights.slope(seen, 1.0),
            weights.slope(seen, weight),
        )

    def fuse(self, table):
        """Return the table with ``z_slm, z_llm`` and ``score`` = (1 - w) z_LLM + w z_SLM.

        Parameters
        ----------
        table : DataFrame with pair_id, score_slm, score_llm (0-5) and, if it has one, status

        Returns
        -------
        DataFrame : ``score`` in standard deviations, 0 an ordinary pair of the training sets; NaN where the judge or
        the SLM gave none.
        """
        llm = fusion.non_dre(table)
        if "score_slm" not in table:
            raise DreError(f"the table lacks 'score_slm'; it has {', '.join(map(str, table.columns))}")
        z_slm, z_llm = self.slm(table["score_slm"]), self.llm(llm["score"])
        return llm.assign(z_slm=z_slm, z_llm=z_llm, score=(1 - self.weight) * z_llm + self.weight * z_slm)

    def unsure(self, table, share):
        """Return which pairs to ask the judge about: the ``share`` (0-1) whose z_SLM lies nearest to the middle, 0.

        Returns
        -------
        ndarray of bool, shape (n,)
        """
        if not 0 <= share <= 1:
            raise DreError(f"the share to ask is {share}; expected a number from 0 to 1")
        order = np.argsort(np.abs(self.slm(table["score_slm"])), kind="stable")
        chosen = np.zeros(len(table), bool)
        chosen[order[: round(share * len(table))]] = True
        return chosen

    def cascade(self, table, asked):
        """Return the table with ``asked`` and ``score``: fused where the judge was asked, else of the SLM alone.

        Both are brought to the normal score that people are expected to give. A score of the judge is looked at only
        where ``asked`` (bool, shape (n,)) holds; where it is missing there, ``score`` is NaN.
        """
        fused = self.fuse(table)
        score = np.where(asked, self.slope_fused * fused["score"], self.slope_slm * fused["z_slm"])
        return fused.assign(asked=asked, score=score)

    def save(self, path):
        """Write the fusion as JSON."""
        path = Path(path)
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        os.replace(part, path)

    @property
    def sha256(self):
        """Hash of all that it holds."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    @classmethod
    def load(cls, path):
        """Read a fusion that `save` wrote."""
        try:
            found = json.loads(Path(path).read_text(encoding="utf-8"))
            scales = {name: Scale(tuple(found[name]["at"]), tuple(found[name]["z"])) for name in ("slm", "llm")}
            return cls(**found | scales)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DreError(
                f"{path} is no saved fusion ({type(error).__name__}: {error}); write one with save"
            ) from None


def rank_average(table):
    """Return the table with ``score``: the mean of the two scores' ranks among its pairs, as shares in (0, 1].

    The plain way to add two scales. Pairs that lack a score have none and rank none; a score depends on all pairs.
    """
    llm = fusion.non_dre(table)
    both = llm["score"].notna() & table["score_slm"].notna()
    ranks = [scores.where(both).rank(pct=True) for scores in (table["score_slm"], llm["score"])]
    return llm.assign(score=(ranks[0] + ranks[1]) / 2)


def complete(table):
    """The rated pairs of a table that lack nothing."""
    absent = [name for name in COLUMNS if name not in table]
    if absent:
        raise DreError(f"a rated table lacks {absent[0]!r}; expected {', '.join(COLUMNS)}")
    table = table.assign(score_llm=fusion.non_dre(table)["score"])
    table = table[table[["score_slm", "score_llm", "human"]].notna().all(axis=1)]
    if len(table) < 3:
        raise DreError(f"a rated table has {len(table)} complete pairs; expected at least 3")
    for name in ("score_slm", "score_llm", "human"):
        if table[name].nunique() < 2:
            raise DreError(f"{name!r} is the same for all {len(table)} complete pairs of a rated table: nothing to fit")
    return table
