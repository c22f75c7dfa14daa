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

A model's value is the mean of the six. Three things were not chosen by these measures: likeness
counts twice, quotes and replies without words of their own are left out, and recipe ``ours`` learns
from copies of the context alone. All came from a look at the seven rated sets, so the agreement
with people on these sets is not untouched.

Run with the public data, and with the folders of a model's trainings in the order of their seeds:

    python experiments/small_model/measure.py measure NAME FOLDER ...
    python experiments/small_model/measure.py fooled NAME FOLDER ...
    python experiments/small_model/measure.py agreement NAME FOLDER ...
    python experiments/small_model/measure.py length NAME FOLDER ...

The files are in results/choices/small_model. Each step puts the rows of a model into its files, and
takes some minutes of one core for a training. Intervals are over contexts and, where a model has
several trainings, over seeds.

- ``measure`` writes the measures of each training (measures.csv), and their means with intervals
  (measure_intervals.csv). Both have several readings: how often likeness counts, and whether quotes
  are left out.
- ``fooled`` writes, for the same readings, how often a good reply is preferred to one that is made
  to fool (fooled.csv). The contexts are those of DailyDialog++ test.
- ``agreement`` writes Spearman's correlation with people on the seven rated sets (agreement.csv).
  The scores are those that `dre.slm.SLM.score` gives. They are recorded in rated_scores.csv.gz, so
  that the weights are not needed again. Without a folder, the step reads the recorded scores of the
  model: for ``ours``, the trainings of profile ``public``, those of notebook 08.
- ``length`` writes how the three answers, the score and people's ratings rise with the number of
  words of a reply, on the same sets (length.csv).

"Ours" are the three trainings of recipe ``ours``, of which seed 0 is shipped. "Ours, taught quotes"
are three trainings of an earlier recipe, which also learned from quotes: a turn of the context with
a wrong reply before or behind it. The code has this recipe no more.
"""

import argparse
import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from choose import GAP, HUMAN_WRITTEN
from sklearn.metrics import roc_auc_score

from dre import metrics, stats
from dre.audit import kinds
from dre.audit import measures as audit
from dre.datasets import ratings, recordings
from dre.datasets.dialogues import load, pairs
from dre.files import replace
from dre.paper.contexts import contexts, extra
from dre.paper.profile import Profile, profile, root
from dre.paper.trainings import seeds, trained
from dre.slm import SLM
from dre.slm.ours import Ours, graded_table, without_quotes
from dre.slm.provenance import Extra

OUTPUT = root() / "results" / "choices" / "small_model"
#: The six measures, whose mean is the value of a model.
MEASURES = ("grades", "adversarial", "random", "exchanged", "audit", "corpus")
#: The recipe of the shipped model, by its trainings. Their scores of the rated sets are those of
#: profile ``public``.
SHIPPED = "ours"
#: The scores of further models on the rated sets: ``model, seed, pair_id, score``.
RATED_SCORES = OUTPUT / "rated_scores.csv.gz"
#: The name of the mean over the rated sets in agreement.csv.
MEAN_OF_SETS = "mean of the sets"
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
        grades = recordings.graded()
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

    def outcomes(self, scores: Mapping[str, np.ndarray]) -> pd.DataFrame:
        """Return how often each context, or pair of replies, is in the right order.

        Parameters
        ----------
        scores : those of the rows of each table in ``tables``.

        Returns
        -------
        DataFrame ``measure, kind, context_id, share``. ``share`` is 0, 0.5 or 1 for a pair of
        replies, or a mean of these for a context. ``kind`` is that of the audit, else empty. The
        rows are the same for all trainings.
        """
        labelled = self.tables["labelled"]
        exchanged = self.tables["exchanged"]
        score_of_pair = dict(zip(labelled["pair_id"], scores["labelled"]))
        # The id of an exchanged pair begins with that of the pair in its own context.
        original_ids = exchanged["pair_id"].str.partition("|")[0]
        falls = audit.falls(original_ids.map(score_of_pair), scores["exchanged"])

        audited = pd.Series(scores["audit"], self.tables["audit"]["pair_id"])
        right = self.cases["right"].map(audited)
        rival = self.cases["rival"].map(audited)
        preferred = audit.falls(right, rival, audited.std())

        outcomes_of_measures = {
            "grades": grades_in_order(self.tables["grades"], scores["grades"]),
            "adversarial": right_first(labelled, scores["labelled"], "a"),
            "random": right_first(labelled, scores["labelled"], "r"),
            "exchanged": exchanged[["context_id"]].assign(share=falls),
            "audit": self.cases[["kind", "context_id"]].assign(share=preferred),
            "corpus": right_first(self.tables["corpus"], scores["corpus"], "a"),
        }
        outcomes = pd.concat(outcomes_of_measures, names=["measure", "row"])
        outcomes = outcomes.reset_index("measure").reset_index(drop=True)
        outcomes["kind"] = outcomes["kind"].fillna("")
        return outcomes[["measure", "kind", "context_id", "share"]]


def grades_in_order(table: pd.DataFrame, scores: np.ndarray) -> pd.DataFrame:
    """Return whether two replies to a context are in the order of their grades.

    It is about grades that are at least `GAP` apart. Returns ``context_id, share``, a row for each
    pair of replies; equal scores count half.
    """
    grades = table["score"].to_numpy(np.float32)
    context_ids = table["context_id"].to_numpy()
    is_same_context = context_ids[:, None] == context_ids
    is_better = is_same_context & (grades[:, None] - grades >= GAP)
    better, worse = np.nonzero(is_better)
    signs = np.sign(scores[better] - scores[worse])
    return pd.DataFrame({"context_id": context_ids[better], "share": (1 + signs) / 2})


def right_first(table: pd.DataFrame, scores: np.ndarray, kind: str) -> pd.DataFrame:
    """Return how often a right response is above one of a kind of its context.

    Returns ``context_id, share``, a row for each context that has both.
    """
    rows = []
    for context_id, positions in table.reset_index(drop=True).groupby("context_id").groups.items():
        kinds_of_rows = table["kind"].to_numpy()[positions]
        if kind not in kinds_of_rows:
            continue
        compared = np.isin(kinds_of_rows, ["p", kind])
        is_right = kinds_of_rows[compared] == "p"
        share = roc_auc_score(is_right, scores[positions][compared])
        rows.append({"context_id": context_id, "share": share})
    return pd.DataFrame(rows)


def measure_draws(outcomes: pd.DataFrame, shares: np.ndarray) -> dict[str, np.ndarray]:
    """Return the value, the six measures and the kinds of the audit, in percent.

    Parameters
    ----------
    outcomes : what was compared, as `Measures.outcomes` returns it.
    shares : (rows of ``outcomes``, seeds), the ``share`` of each training.

    Returns
    -------
    By name a (1 + n, seeds) array, in the data (first line) and in resamples of contexts. A context
    that has a part in several measures is drawn for all of them together.
    """
    weights = stats.context_weights(outcomes["context_id"])
    draws_of_kinds = {}
    draws = {"value": np.nan}
    for measure in MEASURES:
        is_of_measure = outcomes["measure"] == measure
        draws_of_measure = []
        for kind in outcomes.loc[is_of_measure, "kind"].unique():
            is_counted = (is_of_measure & (outcomes["kind"] == kind)).to_numpy()
            weights_of_rows = weights[:, is_counted]
            n_rows = weights_of_rows.sum(axis=1, keepdims=True)
            of_kind = 100 * (weights_of_rows @ shares[is_counted]) / n_rows
            draws_of_measure.append(of_kind)
            if kind:
                draws_of_kinds[kind] = of_kind
        draws[measure] = np.mean(draws_of_measure, axis=0)
    draws["value"] = np.mean([draws[measure] for measure in MEASURES], axis=0)
    return draws | draws_of_kinds


class Scorer:
    """The scores of one training under all `READINGS`.

    Parameters
    ----------
    slm : the training.
    graded : the graded pairs on which the three answers are standardised.
    """

    def __init__(self, slm: Ours, graded: pd.DataFrame):
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
    """Return a training of recipe ``ours``, which gives three answers."""
    slm = SLM.load(folder)
    assert isinstance(slm, Ours), f"{folder} has recipe {slm.recipe.name}"
    return slm


def measure(name: str, folders: list[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the six measures of each training and reading, and their means with intervals."""
    data = load_data()
    measures = Measures(data)
    graded = graded_table(data.further.graded)
    outcomes_by_reading = {}
    for scorer in scorers(name, folders, graded):
        scores = {}
        for table_name, table in measures.tables.items():
            for reading, values in scorer.scores(table).items():
                scores.setdefault(reading, {})[table_name] = values
        for reading, scores_of_tables in scores.items():
            outcomes = measures.outcomes(scores_of_tables)
            outcomes_by_reading.setdefault(reading, []).append(outcomes)
    return measure_tables(name, outcomes_by_reading)


def measure_tables(
    name: str, outcomes_by_reading: Mapping[str, list[pd.DataFrame]]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of a model in measures.csv and in measure_intervals.csv.

    ``outcomes_by_reading`` has a list for each reading, with the outcomes of each training.
    """
    rows = []
    means = []
    for reading, trainings in outcomes_by_reading.items():
        shares = np.column_stack([outcomes["share"] for outcomes in trainings])
        draws = measure_draws(trainings[0], shares)
        for seed in range(len(trainings)):
            row = {"model": name, "seed": seed, "reading": reading}
            rows.append(row | {measure: values[0, seed] for measure, values in draws.items()})
        for measure, values in draws.items():
            mean = stats.interval(values, "share", seed=[0, 1])
            row = {"model": name, "reading": reading, "measure": measure, "seeds": len(trainings)}
            means.append(row | mean)
    by_training = pd.DataFrame(rows).sort_values("seed", kind="stable")
    return by_training, pd.DataFrame(means)


def fooled(name: str, folders: list[str]) -> pd.DataFrame:
    """Return how often a model prefers a good reply to a worse one, for each reading and kind.

    The contexts are those of DailyDialog++ test. Intervals (95 %) are over contexts and, where a
    model has several trainings, over seeds. A column for each training has its own share.
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
    for reading, scores_of_seeds in scores_by_reading.items():
        scores = np.column_stack(scores_of_seeds)
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
                "seeds": len(scores_of_seeds),
                "value": share["mean"],
                "low": share["low"],
                "high": share["high"],
                "sd": share["sd"],
                "n": len(context_ids),
            }
            of_seeds = wins[is_kind].mean(axis=0)
            row |= {f"seed {seed}": wins_of_seed for seed, wins_of_seed in enumerate(of_seeds)}
            rows.append(row)
    return pd.DataFrame(rows)


def rated_scores(name: str, folders: list[str]) -> pd.DataFrame:
    """Return the scores of a model's trainings on the rated sets, as they are recorded."""
    tables = []
    for seed, folder in enumerate(folders):
        slm = _load(folder)
        for rated_name in ratings.RATED:
            table = slm.score(ratings.rated(rated_name))
            scores = pd.DataFrame({"pair_id": table["pair_id"], "score": table["score_slm"]})
            tables.append(scores.assign(model=name, seed=seed))
    return pd.concat(tables)[["model", "seed", "pair_id", "score"]]


def length(name: str, folders: list[str]) -> pd.DataFrame:
    """Return how answers and people's ratings rise with the number of words of a reply.

    Returns
    -------
    DataFrame ``model, set, answer, seeds, r, r_low, r_high, r_sd`` and the correlation (Spearman)
    of each training, such as ``seed 0``. An ``answer`` is likeness, fit or quality, the ``score``
    that they make, or ``people``. Intervals (95 %) are over contexts and seeds. The responses are
    read as the model reads them, without quotes, and their words are counted as they were written.
    """
    settings = profile("public")
    slms = [_load(folder) for folder in folders]
    rows = []
    for number, (rated_name, title) in enumerate(ratings.RATED.items()):
        rated = ratings.rated(rated_name)
        n_words = metrics.length(rated["response"])
        columns = {"people": rated[["human"]].to_numpy()}
        answers = [slm.answers(without_quotes(slm.readable(rated))[0]) for slm in slms]
        for answer in ("likeness", "fit", "quality"):
            columns[answer] = np.column_stack([table[answer] for table in answers])
        columns["score"] = np.column_stack([slm.score(rated)["score_slm"] for slm in slms])
        for answer, values in columns.items():
            draws = stats.draws(
                values, n_words, rated["context_id"], n=settings.resamples, seed=number
            )
            row = {"model": name, "set": title, "answer": answer, "seeds": draws.shape[1]}
            row |= stats.interval(draws, "r", settings.seed)
            rows.append(row | {f"seed {seed}": r for seed, r in enumerate(draws[0])})
    return pd.DataFrame(rows)


def recorded_scores(name: str) -> pd.DataFrame:
    """Return the recorded scores of a model on the rated sets, by pair id: a column for a seed."""
    if name == SHIPPED:
        public = profile("public")
        rated = pd.concat([ratings.rated(rated_name) for rated_name in ratings.RATED])
        key = public.main_set
        columns = {}
        for seed in seeds(public, key, SHIPPED):
            scored = trained(public, key, SHIPPED, seed).score(rated)
            columns[seed] = scored.set_index("pair_id")["score_slm"]
        return pd.DataFrame(columns)
    recorded = pd.read_csv(RATED_SCORES, dtype={"pair_id": str})
    of_model = recorded[recorded["model"] == name]
    assert len(of_model), f"{RATED_SCORES.name} has no scores of {name}: give its folders"
    return of_model.pivot(index="pair_id", columns="seed", values="score")


def agreement(name: str, scores: pd.DataFrame) -> pd.DataFrame:
    """Return a model's correlation (Spearman) with people on each rated set, and the sets' mean.

    The statistics are those of notebook 08: sets are fixed, and intervals (95 %) are over contexts
    and seeds.

    Parameters
    ----------
    name : of the model.
    scores : by pair id, a column for each seed, higher is better.

    Returns
    -------
    DataFrame ``model, set, seeds, r, r_low, r_high, r_sd`` (standard deviation over seeds), the
    correlation of each training, such as ``seed 0``, and, for another model than the shipped one,
    ``gain, gain_low, gain_high, gain_sd``: how far it is above the shipped model.
    """
    settings = profile("public")
    draws = _draws_of_sets(scores, settings.resamples)
    if name != SHIPPED:
        shipped = _draws_of_sets(recorded_scores(SHIPPED), settings.resamples)
    rows = []
    for title, of_set in draws.items():
        row = {"model": name, "set": title, "seeds": of_set.shape[1]}
        row |= stats.interval(of_set, "r", settings.seed)
        row |= {f"seed {seed}": r for seed, r in enumerate(of_set[0])}
        if name != SHIPPED:
            row |= stats.interval(of_set - shipped[title], "gain", settings.seed)
        rows.append(row)
    return pd.DataFrame(rows)


def _draws_of_sets(scores, n_resamples):
    """Return correlations with people in the data and in resamples, by set and for their mean.

    A set's contexts are drawn alike for all models.
    """
    draws = {}
    for number, (rated_name, title) in enumerate(ratings.RATED.items()):
        rated = ratings.rated(rated_name)
        scores_of_set = scores.loc[rated["pair_id"]].to_numpy()
        people = rated["human"], rated["context_id"]
        draws[title] = stats.draws(scores_of_set, *people, n=n_resamples, seed=number)
    draws[MEAN_OF_SETS] = np.mean(list(draws.values()), axis=0)
    return draws


def add_rows(file: Path, table: pd.DataFrame) -> None:
    """Put the rows of models into a file, in the place of those that it had of the same models.

    Models are in alphabetical order.
    """
    if file.exists():
        old_rows = pd.read_csv(file)
        is_replaced = old_rows["model"].isin(table["model"])
        table = pd.concat([old_rows[~is_replaced], table], ignore_index=True)
        table = table.sort_values("model", kind="stable")
    # Scores have five digits, as in results/public/scores; percentages have four decimals.
    digits = "%.5g" if file == RATED_SCORES else "%.4f"
    text = table.to_csv(index=False, float_format=digits, lineterminator="\n")
    if file.suffix == ".gz":
        # Without the time, equal scores give equal bytes.
        replace(file, gzip.compress(text.encode(), mtime=0))
    else:
        replace(file, text)


def main() -> None:
    """Measure one model and add its rows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("step", choices=("measure", "fooled", "agreement", "length"))
    parser.add_argument(
        "name", help="of the model; untrained is cosine and length, without a folder"
    )
    parser.add_argument("folders", nargs="*", help="its trainings, in the order of their seeds")
    args = parser.parse_args()
    OUTPUT.mkdir(parents=True, exist_ok=True)
    if args.step == "measure":
        table, intervals = measure(args.name, args.folders)
        add_rows(OUTPUT / "measures.csv", table)
        add_rows(OUTPUT / "measure_intervals.csv", intervals)
    elif args.step == "fooled":
        table = fooled(args.name, args.folders)
        add_rows(OUTPUT / "fooled.csv", table)
    elif args.step == "length":
        table = length(args.name, args.folders)
        add_rows(OUTPUT / "length.csv", table)
    else:
        if args.folders:
            add_rows(RATED_SCORES, rated_scores(args.name, args.folders))
        table = agreement(args.name, recorded_scores(args.name))
        add_rows(OUTPUT / "agreement.csv", table)
    print(table.round(3).to_string())


if __name__ == "__main__":
    main()
