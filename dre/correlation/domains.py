"""The rated sets of Table 4: their items, contexts and ratings, and which SLM belongs to each."""

import hashlib
import json
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dre import data
from dre.data.records import rated_table

#: domain -> (label, set with human ratings); the domain is also the column prefix in the published tables
RATED = {
    "dailydialog": ("DailyDialog", "dailydialog-zhao"),
    "personachat": ("PersonaChat", "personachat-usr"),
    "topicalchat": ("TopicalChat", "topicalchat-usr"),
}
#: pairs the paper rates in each data set (DRE section 4.3)
PAPER_SAMPLE = 600


@dataclass(frozen=True, eq=False)
class Domain:
    """Items of one set and what they are to correlate with.

    Attributes
    ----------
    key : str
        ``dailydialog``, ``personachat``, ``topicalchat``, the name of another rated set, or ``label`` where ``human``
        is a human-made label.
    label, set : str
    items : DataFrame
        ``pair_id, context_id, context, response, human``; rated sets also ``reference, system``.
    ratings : tuple
        The `dre.data.records.Rated` behind the items, empty for ``label``.
    """

    key: str
    label: str
    set: str
    items: pd.DataFrame
    ratings: tuple = ()

    @property
    def human(self):
        """Mean overall rating, or the label (1 positive, 0 adversarial), by pair_id."""
        return self.items.set_index("pair_id")["human"]

    @property
    def against(self):
        """What scores are correlated with, in words."""
        return "the label" if self.key == "label" else "people"

    @property
    def sha256(self):
        """Hash of the items as they are scored and rated: ids, contexts, responses, references, ratings."""
        names = ("pair_id", "context_id", "context", "response", "reference", "human")
        rows = self.items[[name for name in names if name in self.items]].to_dict("records")
        text = json.dumps(rows, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    @property
    def contexts(self):
        """The context of each pair, the unit of resampling, by pair_id."""
        return self.items.set_index("pair_id")["context_id"]

    @property
    def pairs(self):
        """What a model is shown: never a rating, a system's name or a reference."""
        return self.items[["pair_id", "context", "response"]]


def rated(profile):
    """Return the rated domains of a profile, in the order of Table 4; none if it compares with no ratings."""
    return [read(name) for _, name in RATED.values() if name in profile.rated]


def read(name):
    """Return a set with human ratings as a domain; one that Table 4 does not have goes by the set's name."""
    key, label = next(((key, label) for key, (label, own) in RATED.items() if own == name), (name, name))
    records = data.rated(name)
    return Domain(key, label, name, rated_table(records), tuple(records))


def labelled(profile):
    """Return the test pairs of the profile's first set with their human-made label: the paper's own protocol.

    The items are positive and adversarial negative responses that people wrote as such. Where a recording of the
    classification prompt knows enough of them, those are taken, so that every row is measured on the same pairs;
    otherwise 600 are drawn with the profile's seed. A set of fewer pairs is taken whole.
    """
    entry = profile.sets[0]
    items = data.pairs(data.load(*entry.test), kinds="pa")
    items["human"] = (items["kind"] == "p").astype(float)
    if len(items) > PAPER_SAMPLE:
        known = items["pair_id"].isin(recorded_labels().index)
        if known.sum() >= PAPER_SAMPLE:
            items = items[known]
        else:
            chosen = np.random.default_rng(profile.seed).choice(len(items), PAPER_SAMPLE, replace=False)
            items = items.iloc[np.sort(chosen)]
    return Domain("label", f"{entry.label} test", entry.test[0], items.reset_index(drop=True))


def recorded_labels():
    """Return the recorded class labels (1 Positive, 0 Negative) by pair_id."""
    from dre.data.recorded import judgements

    rows = judgements()
    rows = rows[rows["prompt"] == "classify"].set_index("pair_id")["label"]
    return (rows == "Positive").astype(float)


def entry(profile, domain):
    """Return the training set of a profile whose SLM scores a domain: its own, or else the first."""
    return next((each for each in profile.sets if each.key == domain.key), profile.sets[0])


def slms(profile, domain, recipe=None):
    """Return the SLMs of a domain: every seed of a recipe.

    The first recipe, which is the default, is trained on the domain's own training set; the others on the first set.

    Returns
    -------
    (dict of int to SLM, str)
        Seed -> model, the first seed first, and what they were trained on in words.
    """
    from dre.slm import runs

    first = recipe is None or recipe == profile.recipes[0]
    own, recipe = (entry(profile, domain), profile.recipes[0]) if first else (profile.sets[0], recipe)
    models = {seed: runs.train_or_load(profile, own, recipe, seed) for seed in profile.seeds}
    seeds = "seed" if len(models) == 1 else "seeds"
    return models, f"{own.label}, recipe {recipe}, {seeds} {', '.join(map(str, models))}"
