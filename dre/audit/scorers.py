"""What is audited: anything that gives a table of pairs one score a pair, for one or several training seeds."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dre.classification import variants
from dre.errors import DreError
from dre.scoring.cache import Embeddings

#: kinds of scorer: they read no context, were not trained here, or are SLMs
FAMILIES = ("blind", "untrained", "slm")


@dataclass(frozen=True, eq=False)
class Scorer:
    """Something that scores pairs of context and response; higher is better.

    Attributes
    ----------
    model : str
        How tables call it.
    family : str
        One of `FAMILIES`.
    score : callable
        A table of pairs (``pair_id, context, response``) -> {name of the score: (seeds, n) array}, the main score
        first.
    slms : tuple of SLM
        Those behind it, one a seed; empty for others.
    """

    model: str
    family: str
    score: Callable
    slms: tuple = ()

    def __call__(self, pairs):
        """Return {name: (seeds, n) array} for `pairs`.

        Raises
        ------
        DreError
            If a score is missing or infinite, or there is not one a pair.
        """
        found = {name: np.atleast_2d(np.asarray(values, float)) for name, values in self.score(pairs).items()}
        for name, values in found.items():
            if values.shape[1] != len(pairs):
                raise DreError(
                    f"{self.model} gave {values.shape[1]} scores ({name}) for {len(pairs)} pairs: expected one a pair"
                )
            if not np.isfinite(values).all():
                raise DreError(f"{self.model} gave a score ({name}) that is missing or infinite: expected numbers")
        return found


def trained(model, slms):
    """Return the SLMs of one recipe, one a seed, as a scorer with the scores Prob & Dis (Eq. 19), Dis and Prob.

    Each SLM embeds a text once, whatever pairs it comes in.
    """
    slms = tuple(slms)
    if not slms:
        raise DreError(f"no SLM for {model}: expected at least one seed")
    caches = [Embeddings() for _ in slms]

    def score(pairs):
        by_seed = [variants(slm.score(pairs, cache=cache)) for slm, cache in zip(slms, caches)]
        names = sorted(by_seed[0], key=lambda name: "&" not in name)  # the whole score first
        return {
            name.removeprefix("SLM ").strip("()"): np.stack([one[name].to_numpy(float) for one in by_seed])
            for name in names
        }

    return Scorer(model, "slm", score, slms)


def untrained(model, encoder="minilm"):
    """Return the encoder before any training as a scorer: the cosine of context and response.

    Context and response are made into the strings an SLM reads.
    """
    from dre.slm.model import SLM

    plain, cache = SLM.untrained(encoder), Embeddings()
    return Scorer(
        model, "untrained", lambda pairs: {"cosine": 1 - plain.distances(pairs, cache=cache)["distance"].to_numpy()}
    )


def blind(model, name, baseline, train):
    """Return a rule that sees the response only as a scorer.

    Parameters
    ----------
    model, name : str
        Of the scorer and of its score.
    baseline : callable
        :func:`dre.classification.length_only` or :func:`dre.classification.response_only`.
    train : DataFrame of pairs
        What it is fitted on.
    """
    known = {}

    def score(pairs):
        new = pairs[~pairs["response"].isin(known)].drop_duplicates("response")
        if len(new):
            known.update(zip(new["response"], baseline(train, new, new)[1]))
        return {name: pairs["response"].map(known).to_numpy(float)}

    return Scorer(model, "blind", score)
