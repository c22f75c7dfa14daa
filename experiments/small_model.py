"""What speaks for one training of the package's model rather than another, and what fools it.

The six measures were fixed on 23 November 2026. None of them sees a human rating: of the rated sets
only the texts are read, to keep them out of training. Each is a share of pairs in the right order
(ties count half), in percent, on contexts that nothing was trained on:

``grades``       replies that people wrote, ordered as a judge graded them, half a point apart or more
``adversarial``  right and adversarial responses of labelled contexts
``random``       right and random responses of labelled contexts of DailyDialog++
``exchanged``    right responses in their own context and in another one
``audit``        good replies and the audit's kinds that a choice may use, mean over kinds
``corpus``       right and adversarial responses of the embedded corpus

A model's value is the mean of the six. The training with the higher value ships. What was not
chosen here: likeness counts twice, and quotes and replies without own words are left out. A look
from outside at the seven rated sets found both, and three further public sets confirmed them.

Run ``python experiments/small_model.py measure NAME FOLDER ...`` with the folders of a model's
trainings, in the order of their seeds: it adds the rows of that model to
results/choices/small_model/measures.csv, under several readings: how often likeness counts, and
whether quotes are left out. ``fooled NAME FOLDER ...`` does the same for fooled.csv: how often a
good reply is preferred to one that is made to fool, on contexts of DailyDialog++ test.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from choose_slm import PEOPLE, ordered
from sklearn.metrics import roc_auc_score

from dre import metrics, stats
from dre.audit import kinds
from dre.audit import measures as audit
from dre.datasets import ratings
from dre.datasets.dialogues import load, pairs
from dre.files import replace
from dre.paper.profile import Profile, profile, root
from dre.slm import SLM, contexts, extra
from dre.slm.graded import graded_table
from dre.slm.ours import without_quotes
from dre.slm.provenance import Extra

OUT = root() / "results" / "choices" / "small_model"
MEASURES = ("grades", "adversarial", "random", "exchanged", "audit", "corpus")
#: replies that copy the context, the audit's names; then kinds that no training and no choice has seen
FOOLING = ("echo_last", "echo_other", "quoted", "quoted_last", "shuffle")
FOOLING += ("other_context", "other_turn", "longer", "injection")


class Reading(NamedTuple):
    """How three answers become a score: how often likeness counts, and whether quotes are left out."""

    name: str
    likeness: float
    leaves_quotes_out: bool


READINGS = (
    Reading("likeness twice", 2, True),
    Reading("likeness one and a half times", 1.5, True),
    Reading("likeness once", 1, True),
    Reading("likeness twice, quotes read", 2, False),
)


class Given(NamedTuple):
    """Labelled contexts to learn from, those held out, and dialogues and grades besides."""

    labelled: list
    held_out: list
    further: Extra


def data(settings: Profile | None = None) -> Given:
    """Return what the package's model is trained on, and the contexts that are held out."""
    settings = settings or profile("public")
    labelled = []
    held_out = []
    for entry in settings.sets:
        train, dev, _ = contexts(entry, settings.rated, version=3)
        labelled += train
        held_out += dev
    return Given(labelled, held_out, extra(settings, held_out, version=3))


class Measures:
    """The six measures, and the tables of pairs that a model has to score for them."""

    def __init__(self, given: Given):
        grades = ratings.graded()
        grades = grades[grades["for_choice"] & grades["kind"].isin(PEOPLE)]
        labelled = pairs(given.held_out, "par").drop_duplicates("pair_id")
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
        """Return the six measures, their mean ``value``, and the share of each of the audit's kinds.

        ``scores`` has those of the rows of each of ``tables``.
        """
        labelled = self.tables["labelled"]
        exchanged = self.tables["exchanged"]
        corpus = self.tables["corpus"]
        score_of_pair = dict(zip(labelled["pair_id"], scores["labelled"]))
        own_pairs = exchanged["pair_id"].str.partition("|")[0]
        falls = audit.falls(own_pairs.map(score_of_pair), scores["exchanged"])
        audited = pd.Series(scores["audit"], self.tables["audit"]["pair_id"])
        of_kinds = audit.preferred(self.cases, audited)
        measured = {
            "grades": 100 * ordered(scores["grades"], self.tables["grades"]),
            "adversarial": right_first(labelled, scores["labelled"], "a"),
            "random": right_first(labelled, scores["labelled"], "r"),
            "exchanged": 100 * falls.mean(),
            "audit": of_kinds["share"].mean(),
            "corpus": right_first(corpus, scores["corpus"], "a"),
        }
        row = {"value": np.mean([measured[name] for name in MEASURES]), **measured}
        row.update(zip(of_kinds["kind"], of_kinds["share"]))
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
    """The scores of one training under all `READINGS`."""

    def __init__(self, slm: SLM, learned: pd.DataFrame):
        self.slm = slm
        parts = slm.parts(learned)
        self.mean = parts.mean()
        self.sd = parts.std()

    def scores(self, table: pd.DataFrame) -> dict[str, np.ndarray]:
        """Return reading -> scores of a table's rows, in standard deviations."""
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
        return (self.slm.parts(table) - self.mean) / self.sd


class Plain:
    """The scores of what has not learned: the encoder's cosine, and the number of words."""

    def __init__(self):
        self.encoder = SLM.untrained()

    def scores(self, table: pd.DataFrame) -> dict[str, np.ndarray]:
        """Return reading -> scores of a table's rows."""
        distances = self.encoder.distances(table)["distance"]
        return {
            "cosine": 1 - distances.to_numpy(),
            "length": metrics.length(table["response"]),
        }


def scorers(name: str, folders: list[str], learned: pd.DataFrame) -> list:
    """Return a scorer for each folder of a model's trainings; ``untrained`` has no folder."""
    if name == "untrained":
        return [Plain()]
    return [Scorer(SLM.load(folder), learned) for folder in folders]


def measure(name: str, folders: list[str]) -> pd.DataFrame:
    """Return a row of the six measures for each training and reading of a model."""
    given = data()
    measures = Measures(given)
    rows = []
    for seed, scorer in enumerate(scorers(name, folders, graded_table(given.further.graded))):
        scores = {}
        for table_name, table in measures.tables.items():
            for reading, values in scorer.scores(table).items():
                scores.setdefault(reading, {})[table_name] = values
        for reading, scores_of_tables in scores.items():
            row = {"model": name, "seed": seed, "reading": reading}
            rows.append(row | measures.row(scores_of_tables))
    return pd.DataFrame(rows)


def fooled(name: str, folders: list[str]) -> pd.DataFrame:
    """Return how often a model prefers a good reply to a worse one, a row for reading and kind.

    Contexts of DailyDialog++ test; 95 % intervals over contexts and, of several trainings, seeds.
    """
    learned = graded_table(data().further.graded)
    good = pairs(load("dailydialog++", "test"), "p").drop_duplicates("context_id")
    cases = [case for case in kinds.make_cases(good) if case.kind in FOOLING]
    cases, table = kinds.tables(cases)
    by_reading = {}
    for scorer in scorers(name, folders, learned):
        for reading, scores in scorer.scores(table).items():
            by_reading.setdefault(reading, []).append(scores)
    place = pd.Series(range(len(table)), table["pair_id"])
    rows = []
    for reading, seeds in by_reading.items():
        scores = np.column_stack(seeds)
        right = scores[cases["right"].map(place)]
        rival = scores[cases["rival"].map(place)]
        wins = 100 * audit.falls(right, rival, scores.std(axis=0))
        for kind in FOOLING:
            is_kind = (cases["kind"] == kind).to_numpy()
            context_ids = cases["context_id"].to_numpy()[is_kind]
            share = stats.mean(wins[is_kind], context_ids)
            row = {"model": name, "reading": reading, "kind": kind, "seeds": len(seeds)}
            row |= {"value": share["mean"], "low": share["low"], "high": share["high"]}
            rows.append(row | {"n": len(context_ids)})
    return pd.DataFrame(rows)


def add_rows(file: Path, table: pd.DataFrame) -> None:
    """Put the rows of one model into a file, in the place of what it had of that model."""
    if file.exists():
        before = pd.read_csv(file)
        others = before[~before["model"].isin(table["model"])]
        table = pd.concat([others, table], ignore_index=True)
    replace(file, table.to_csv(index=False, float_format="%.4f", lineterminator="\n"))


def main() -> None:
    """Measure one model and add its rows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("measure", "fooled"))
    parser.add_argument("name", help="of the model; untrained: cosine and length, without a folder")
    parser.add_argument("folders", nargs="*", help="its trainings, in the order of their seeds")
    args = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    if args.what == "measure":
        table = measure(args.name, args.folders)
        file = OUT / "measures.csv"
    else:
        table = fooled(args.name, args.folders)
        file = OUT / "fooled.csv"
    add_rows(file, table)
    print(table.round(2).to_string())


if __name__ == "__main__":
    main()
