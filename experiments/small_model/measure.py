"""Which training of the package's model is best, and what fools it?

The six measures were fixed on 23 November 2026. None of them sees a human rating. The texts of the
rated sets are read, but only to keep them out of training. Each measure is a share of pairs in the
right order, in percent, on contexts that nothing was trained on. Ties count half.

``grades``
    replies that people wrote, in the order of a judge's grades, where these are half a point apart
``adversarial``
    right and adversarial responses of labelled contexts
``random``
    right and random responses of labelled contexts of DailyDialog++
``exchanged``
    right responses in their own context and in another one
``audit``
    good replies and those kinds of the audit that a choice may use, mean over kinds
``corpus``
    right and adversarial responses of the embedded corpus

A model's value is the mean of the six. The training with the highest value is shipped. Two things
were not chosen by these measures: likeness counts twice, and quotes and replies without words of
their own are left out. Both came from an outside look at the seven rated sets, and three further
public sets confirmed them.

Run with the public data, and with the folders of a model's trainings in the order of their seeds:

    python experiments/small_model/measure.py measure NAME FOLDER ...
    python experiments/small_model/measure.py fooled NAME FOLDER ...

``measure`` adds the rows of a model to results/choices/small_model/measures.csv, under several
readings: how often likeness counts, and whether quotes are left out. ``fooled`` does the same for
fooled.csv: how often a good reply is preferred to one that is made to fool, on contexts of
DailyDialog++ test. Each takes some minutes of one core for a training.

The weights of "ours, taught quotes", which was measured and is not shipped, are in
results/choices/small_model/taught_quotes.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from choose import HUMAN_WRITTEN, share_in_order
from sklearn.metrics import roc_auc_score

from dre import metrics, stats
from dre.audit import kinds
from dre.audit import measures as audit
from dre.datasets import ratings
from dre.datasets.dialogues import load, pairs
from dre.files import replace
from dre.paper.profile import Profile, profile, root
from dre.slm import SLM, contexts, extra
from dre.slm.graded import Graded, graded_table
from dre.slm.ours import without_quotes
from dre.slm.provenance import Extra

OUTPUT = root() / "results" / "choices" / "small_model"
#: The six measures, whose mean is the value of a model.
MEASURES = ("grades", "adversarial", "random", "exchanged", "audit", "corpus")
#: Kinds of the audit that copy the context, then kinds that no training and no choice has seen.
FOOLING = ("echo_last", "echo_other", "quoted", "quoted_last", "shuffle")
FOOLING += ("other_context", "other_turn", "longer", "injection")


class Reading(NamedTuple):
    """How three answers become a score.

    Attributes
    ----------
    name : of the reading in the tables.
    likeness : how often likeness counts, where fit and quality count once.
    leaves_quotes_out : whether words that repeat the context are left out first.
    """

    name: str
    likeness: float
    leaves_quotes_out: bool


READINGS = (
    Reading("likeness twice", 2, True),
    Reading("likeness one and a half times", 1.5, True),
    Reading("likeness once", 1, True),
    Reading("likeness twice, quotes read", 2, False),
)


class TrainingData(NamedTuple):
    """Labelled contexts to learn from, those held out, and further dialogues and grades."""

    labelled: list
    held_out: list
    further: Extra


def load_data(settings: Profile | None = None) -> TrainingData:
    """Return what the package's model is trained on, and the contexts that are held out."""
    settings = settings or profile("public")
    labelled = []
    held_out = []
    for entry in settings.sets:
        train, dev, _ = contexts(entry, settings.rated, more=True)
        labelled += train
        held_out += dev
    return TrainingData(labelled, held_out, extra(settings, held_out))


class Measures:
    """The six measures, and the tables of pairs that a model has to score for them."""

    def __init__(self, data: TrainingData):
        grades = ratings.graded()
        grades = grades[grades["for_choice"] & grades["kind"].isin(HUMAN_WRITTEN)]
        labelled = pairs(data.held_out, "par").drop_duplicates("pair_id")
        right = labelled[labelled["kind"] == "p"].reset_index(drop=True)
        good = right.drop_duplicates("context_id")[["context_id", "context", "response"]]
        cases = kinds.make_cases(good) + kinds.graded()
        cases = [case for case in cases if "choose" in kinds.KINDS[case.kind].use]
        self.cases, audited = kinds.tables(cases)
        self.tables = {
            "grades": grades.assign(pair_id=[f"grade/{i}" for i in range(len(grades))]),
            "labelled": labelled,
            "exchanged": audit.exchange(right, 1),
            "audit": audited,
            "corpus": pairs(load("mini", "test"), "pa"),
        }

    def row(self, scores: dict[str, np.ndarray]) -> dict[str, float]:
        """Return the six measures, their mean ``value``, and the share for each kind of the audit.

        ``scores`` are those of the rows of each table in ``tables``.
        """
        labelled = self.tables["labelled"]
        exchanged = self.tables["exchanged"]
        corpus = self.tables["corpus"]
        score_of_pair = dict(zip(labelled["pair_id"], scores["labelled"]))
        # The id of an exchanged pair begins with that of the pair in its own context.
        original_ids = exchanged["pair_id"].str.partition("|")[0]
        falls = audit.falls(original_ids.map(score_of_pair), scores["exchanged"])
        audited = pd.Series(scores["audit"], self.tables["audit"]["pair_id"])
        share_by_kind = audit.preferred(self.cases, audited)
        measured = {
            "grades": 100 * share_in_order(scores["grades"], self.tables["grades"]),
            "adversarial": right_first(labelled, scores["labelled"], "a"),
            "random": right_first(labelled, scores["labelled"], "r"),
            "exchanged": 100 * falls.mean(),
            "audit": share_by_kind["share"].mean(),
            "corpus": right_first(corpus, scores["corpus"], "a"),
        }
        value = np.mean([measured[name] for name in MEASURES])
        row = {"value": value, **measured}
        row.update(zip(share_by_kind["kind"], share_by_kind["share"]))
        return row


def right_first(table: pd.DataFrame, scores: np.ndarray, kind: str) -> float:
    """Return how often a right response is above one of a kind of its context, in percent."""
    shares = []
    for rows in table.reset_index(drop=True).groupby("context_id").groups.values():
        kinds_of_rows = table["kind"].to_numpy()[rows]
        if kind not in kinds_of_rows:
            continue
        compared = np.isin(kinds_of_rows, ["p", kind])
        is_right = kinds_of_rows[compared] == "p"
        shares.append(roc_auc_score(is_right, scores[rows][compared]))
    return 100 * np.mean(shares)


class Scorer:
    """The scores of one training under all `READINGS`.

    Parameters
    ----------
    slm : the training.
    graded : the graded pairs on which the three answers are standardised.
    """

    def __init__(self, slm: Graded, graded: pd.DataFrame):
        self.slm = slm
        answers = slm.answers(graded)
        self.mean = answers.mean()
        self.sd = answers.std()

    def scores(self, table: pd.DataFrame) -> dict[str, np.ndarray]:
        """Return the scores of a table's rows by reading, in standard deviations."""
        table = self.slm.readable(table)
        z_as_it_is = self._standardised(table)
        z_without_quotes = self._standardised(without_quotes(table)[0])
        scores = {}
        for reading in READINGS:
            z = z_without_quotes if reading.leaves_quotes_out else z_as_it_is
            score = reading.likeness * z["likeness"] + z["fit"] + z["quality"]
            scores[reading.name] = score.to_numpy()
        return scores

    def _standardised(self, table):
        return (self.slm.answers(table) - self.mean) / self.sd


class UntrainedScorer:
    """Two scores that nobody trained: the encoder's cosine, and the number of words."""

    def __init__(self):
        self.encoder = SLM.untrained()

    def scores(self, table: pd.DataFrame) -> dict[str, np.ndarray]:
        """Return the scores of a table's rows by reading."""
        distances = self.encoder.distances(table)["distance"]
        return {
            "cosine": 1 - distances.to_numpy(),
            "length": metrics.length(table["response"]),
        }


def scorers(name: str, folders: list[str], graded: pd.DataFrame) -> list:
    """Return a scorer for each folder of a model's trainings. ``untrained`` has no folder."""
    if name == "untrained":
        return [UntrainedScorer()]
    return [Scorer(_load(folder), graded) for folder in folders]


def _load(folder):
    """Return a training of recipe ``graded`` or ``ours``, which give three answers."""
    slm = SLM.load(folder)
    assert isinstance(slm, Graded), f"{folder} has recipe {slm.recipe.name}"
    return slm


def measure(name: str, folders: list[str]) -> pd.DataFrame:
    """Return a row of the six measures for each training and reading of a model."""
    data = load_data()
    measures = Measures(data)
    graded = graded_table(data.further.graded)
    rows = []
    for seed, scorer in enumerate(scorers(name, folders, graded)):
        scores = {}
        for table_name, table in measures.tables.items():
            for reading, values in scorer.scores(table).items():
                scores.setdefault(reading, {})[table_name] = values
        for reading, scores_of_tables in scores.items():
            training = {"model": name, "seed": seed, "reading": reading}
            rows.append({**training, **measures.row(scores_of_tables)})
    return pd.DataFrame(rows)


def fooled(name: str, folders: list[str]) -> pd.DataFrame:
    """Return how often a model prefers a good reply to a worse one, for each reading and kind.

    The contexts are those of DailyDialog++ test. Intervals (95 %) are over contexts and, where a
    model has several trainings, over seeds.
    """
    graded = graded_table(load_data().further.graded)
    good = pairs(load("dailydialog++", "test"), "p").drop_duplicates("context_id")
    cases = [case for case in kinds.make_cases(good) if case.kind in FOOLING]
    cases, table = kinds.tables(cases)
    scores_by_reading = {}
    for scorer in scorers(name, folders, graded):
        for reading, scores in scorer.scores(table).items():
            scores_by_reading.setdefault(reading, []).append(scores)
    row_of_pair = pd.Series(range(len(table)), table["pair_id"])
    rows = []
    for reading, seeds in scores_by_reading.items():
        scores = np.column_stack(seeds)
        right = scores[cases["right"].map(row_of_pair)]
        rival = scores[cases["rival"].map(row_of_pair)]
        wins = 100 * audit.falls(right, rival, scores.std(axis=0))
        for kind in FOOLING:
            is_kind = (cases["kind"] == kind).to_numpy()
            context_ids = cases["context_id"].to_numpy()[is_kind]
            share = stats.mean(wins[is_kind], context_ids)
            row = {
                "model": name,
                "reading": reading,
                "kind": kind,
                "seeds": len(seeds),
                "value": share["mean"],
                "low": share["low"],
                "high": share["high"],
                "n": len(context_ids),
            }
            rows.append(row)
    return pd.DataFrame(rows)


def add_rows(file: Path, table: pd.DataFrame) -> None:
    """Put the rows of models into a file, in the place of those that it had of the same models."""
    if file.exists():
        old_rows = pd.read_csv(file)
        is_replaced = old_rows["model"].isin(table["model"])
        table = pd.concat([old_rows[~is_replaced], table], ignore_index=True)
    replace(file, table.to_csv(index=False, float_format="%.4f", lineterminator="\n"))


def main() -> None:
    """Measure one model and add its rows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("step", choices=("measure", "fooled"))
    parser.add_argument(
        "name", help="of the model; untrained is cosine and length, without a folder"
    )
    parser.add_argument("folders", nargs="*", help="its trainings, in the order of their seeds")
    args = parser.parse_args()
    OUTPUT.mkdir(parents=True, exist_ok=True)
    if args.step == "measure":
        table = measure(args.name, args.folders)
        file = OUTPUT / "measures.csv"
    else:
        table = fooled(args.name, args.folders)
        file = OUTPUT / "fooled.csv"
    add_rows(file, table)
    print(table.round(2).to_string())


if __name__ == "__main__":
    main()
