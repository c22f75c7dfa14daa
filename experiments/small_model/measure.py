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

Run ``python experiments/small_model/measure.py NAME FOLDER ...`` with the public data, and with the
folders of a model's trainings in the order of their seeds. ``untrained`` has no folder. It takes
some minutes of one core for a training, and puts the rows of the model into the files of
results/choices/small_model, which notebook 08 reads. Intervals are over contexts and, where a model
has several trainings, over seeds.

- measures.csv and measure_intervals.csv: the measures of each training, and their means, for
  several `READINGS`;
- fooled.csv: for the same readings, how often a good reply is preferred to one that is made to
  fool, in contexts of DailyDialog++ test;
- agreement.csv: Spearman's correlation with people on the seven rated sets.

"Ours" are the three trainings of recipe ``ours``, of which seed 0 is shipped. The other models in
the files are of recipes that the code has no more. So are length.csv, and rated_scores.csv.gz, from
which their rows in agreement.csv follow (README.md in experiments/).
"""

import sys
from collections.abc import Mapping

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from dre import metrics, stats
from dre.audit import kinds
from dre.audit import measures as audit
from dre.datasets import ratings, recordings
from dre.datasets.dialogues import load, pairs
from dre.files import replace
from dre.paper.contexts import contexts, extra
from dre.paper.profile import Profile, profile, root
from dre.slm import SLM
from dre.slm.heads import GAP
from dre.slm.ours import graded_table, without_quotes

OUTPUT = root() / "results" / "choices" / "small_model"
#: The six measures, whose mean is the value of a model.
MEASURES = ("grades", "adversarial", "random", "exchanged", "audit", "corpus")
#: Kinds of graded replies that people wrote.
HUMAN_WRITTEN = ("reference", "retrieved", "random")
#: Kinds of the audit that copy the context, then kinds that no training and no choice has seen.
FOOLING = ("echo_last", "echo_other", "quoted", "quoted_last", "shuffle")
FOOLING += ("other_context", "other_turn", "longer", "injection")
#: By reading, how often likeness counts (fit and quality count once), and whether quotes are read.
READINGS = {
    "likeness twice": (2, False),
    "likeness one and a half times": (1.5, False),
    "likeness once": (1, False),
    "likeness twice, quotes read": (2, True),
}


def tables_to_measure(settings: Profile) -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    """Return the tables of pairs that the measures score, and the graded pairs of the training.

    The audit's cases are the table ``cases``, those of DailyDialog++ test ``fooling cases``.
    """
    held_out = []
    for entry in settings.sets:
        held_out += contexts(entry, settings.rated, more=True)[1]
    grades = recordings.graded()
    grades = grades[grades["for_choice"] & grades["kind"].isin(HUMAN_WRITTEN)]
    labelled = pairs(held_out, "par").drop_duplicates("pair_id")
    right = labelled[labelled["kind"] == "p"].reset_index(drop=True)
    good = right.drop_duplicates("context_id")[["context_id", "context", "response"]]
    cases = kinds.make_cases(good) + kinds.graded()
    cases = [case for case in cases if "choose" in kinds.KINDS[case.kind].use]
    test = pairs(load("dailydialog++", "test"), "p").drop_duplicates("context_id")
    fooling = [case for case in kinds.make_cases(test) if case.kind in FOOLING]
    tables = {
        "grades": grades.assign(pair_id=[f"grade/{i}" for i in range(len(grades))]),
        "labelled": labelled,
        "exchanged": audit.exchange(right, 1),
        "corpus": pairs(load("mini", "test"), "pa"),
    }
    tables["cases"], tables["audit"] = kinds.tables(cases)
    tables["fooling cases"], tables["fooling"] = kinds.tables(fooling)
    return tables, graded_table(extra(settings, held_out).graded)


def scores_by_reading(slm, table: pd.DataFrame, graded: pd.DataFrame | None) -> dict:
    """Return the scores (n,) of a table's rows by reading.

    Three answers are standardised on the graded pairs. Without these, ``slm`` is the untrained
    encoder; beside its cosine stands the number of words.
    """
    if graded is None:
        cosine = 1 - slm.distances(table)["distance"].to_numpy()
        return {"cosine": cosine, "length": metrics.length(table["response"])}
    of_graded = slm.answers(graded)
    table = slm.readable(table)
    z_by_quotes = {}
    for reads_quotes in (True, False):
        read = table if reads_quotes else without_quotes(table)[0]
        z_by_quotes[reads_quotes] = (slm.answers(read) - of_graded.mean()) / of_graded.std()
    scores = {}
    for reading, (likeness, reads_quotes) in READINGS.items():
        z = z_by_quotes[reads_quotes]
        scores[reading] = (likeness * z["likeness"] + z["fit"] + z["quality"]).to_numpy()
    return scores


def outcomes(tables: Mapping[str, pd.DataFrame], scores: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return how often each context, or pair of replies, is in the right order.

    Parameters
    ----------
    tables : as of `tables_to_measure`.
    scores : those of the rows of each table.

    Returns
    -------
    DataFrame ``measure, kind, context_id, share``. ``share`` is 0, 0.5 or 1 for a pair of replies,
    or a mean of these for a context. ``kind`` is that of the audit, else empty. The rows are the
    same for all trainings.
    """
    labelled = tables["labelled"]
    exchanged = tables["exchanged"]
    score_of_pair = dict(zip(labelled["pair_id"], scores["labelled"]))
    # The id of an exchanged pair begins with that of the pair in its own context.
    original_ids = exchanged["pair_id"].str.partition("|")[0]
    falls = audit.falls(original_ids.map(score_of_pair), scores["exchanged"])
    preferred = prefers(tables["cases"], tables["audit"], scores["audit"])
    by_measure = {
        "grades": grades_in_order(tables["grades"], scores["grades"]),
        "adversarial": right_first(labelled, scores["labelled"], "a"),
        "random": right_first(labelled, scores["labelled"], "r"),
        "exchanged": exchanged[["context_id"]].assign(share=falls),
        "audit": tables["cases"][["kind", "context_id"]].assign(share=preferred),
        "corpus": right_first(tables["corpus"], scores["corpus"], "a"),
    }
    table = pd.concat(by_measure, names=["measure", "row"]).reset_index("measure")
    table["kind"] = table["kind"].fillna("")
    return table.reset_index(drop=True)[["measure", "kind", "context_id", "share"]]


def prefers(cases: pd.DataFrame, table: pd.DataFrame, scores: np.ndarray) -> np.ndarray:
    """Return for each case whether the right reply is above its rival: 0, 0.5 or 1."""
    score_of_pair = pd.Series(scores, table["pair_id"])
    right = cases["right"].map(score_of_pair)
    rival = cases["rival"].map(score_of_pair)
    return audit.falls(right, rival, score_of_pair.std())


def grades_in_order(table: pd.DataFrame, scores: np.ndarray) -> pd.DataFrame:
    """Return whether two replies to a context are in the order of their grades.

    It is about grades that are at least `GAP` apart. Returns ``context_id, share``, a row for each
    pair of replies; equal scores count half.
    """
    grades = table["score"].to_numpy(np.float32)
    context_ids = table["context_id"].to_numpy()
    is_better = (context_ids[:, None] == context_ids) & (grades[:, None] - grades >= GAP)
    better, worse = np.nonzero(is_better)
    signs = np.sign(scores[better] - scores[worse])
    return pd.DataFrame({"context_id": context_ids[better], "share": (1 + signs) / 2})


def right_first(table: pd.DataFrame, scores: np.ndarray, kind: str) -> pd.DataFrame:
    """Return how often a right response is above one of a kind of its context.

    Returns ``context_id, share``, a row for each context that has both.
    """
    compared = table[["context_id", "kind"]].assign(score=scores)
    compared = compared[compared["kind"].isin(["p", kind])]
    rows = []
    for context_id, of_context in compared.groupby("context_id"):
        if of_context["kind"].nunique() == 2:
            share = roc_auc_score(of_context["kind"] == "p", of_context["score"])
            rows.append({"context_id": context_id, "share": share})
    return pd.DataFrame(rows)


def measure_draws(table: pd.DataFrame, shares: np.ndarray) -> dict[str, np.ndarray]:
    """Return the value, the six measures and the kinds of the audit, in percent.

    Parameters
    ----------
    table : what was compared, as `outcomes` returns it.
    shares : (rows of ``table``, seeds), the ``share`` of each training.

    Returns
    -------
    By name a (1 + n, seeds) array, in the data (first line) and in resamples of contexts. A context
    that has a part in several measures is drawn for all of them together.
    """
    weights = stats.context_weights(table["context_id"])
    draws_of_kinds = {}
    draws = {"value": np.array([])}
    for measure in MEASURES:
        of_measure = table[table["measure"] == measure]
        draws_of_measure = []
        for kind, rows in of_measure.groupby("kind", sort=False).groups.items():
            weights_of_rows = weights[:, rows]
            n_rows = weights_of_rows.sum(axis=1, keepdims=True)
            of_kind = 100 * (weights_of_rows @ shares[rows]) / n_rows
            draws_of_measure.append(of_kind)
            if kind:
                draws_of_kinds[kind] = of_kind
        draws[measure] = np.mean(draws_of_measure, axis=0)
    draws["value"] = np.mean([draws[measure] for measure in MEASURES], axis=0)
    return draws | draws_of_kinds


def measure_tables(name: str, by_reading: Mapping[str, list]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of a model in measures.csv and in measure_intervals.csv.

    ``by_reading`` has a list for each reading, with the `outcomes` of each training.
    """
    rows = []
    means = []
    for reading, trainings in by_reading.items():
        shares = np.column_stack([of_training["share"] for of_training in trainings])
        draws = measure_draws(trainings[0], shares)
        for seed in range(len(trainings)):
            row = {"model": name, "seed": seed, "reading": reading}
            rows.append(row | {measure: values[0, seed] for measure, values in draws.items()})
        for measure, values in draws.items():
            row = {"model": name, "reading": reading, "measure": measure, "seeds": len(trainings)}
            means.append(row | stats.interval(values, "share", seed=[0, 1]))
    return pd.DataFrame(rows).sort_values("seed", kind="stable"), pd.DataFrame(means)


def fooled_table(name: str, cases: pd.DataFrame, by_reading: Mapping[str, list]) -> pd.DataFrame:
    """Return how often a model prefers a good reply to a worse one, for each reading and kind.

    ``by_reading`` has a list for each reading, with what `prefers` returns of each training.
    """
    rows = []
    for reading, trainings in by_reading.items():
        wins = 100 * np.column_stack(trainings)
        for kind in FOOLING:
            is_kind = (cases["kind"] == kind).to_numpy()
            share = stats.mean(wins[is_kind], cases["context_id"].to_numpy()[is_kind])
            row = {"model": name, "reading": reading, "kind": kind, "seeds": len(trainings)}
            row |= {"value": share["mean"]} | {end: share[end] for end in ("low", "high", "sd")}
            row["n"] = is_kind.sum()
            of_seeds = wins[is_kind].mean(axis=0)
            rows.append(row | {f"seed {seed}": share for seed, share in enumerate(of_seeds)})
    return pd.DataFrame(rows)


def agreement(name: str, slms: list, settings: Profile) -> pd.DataFrame:
    """Return a model's correlation (Spearman) with people on each rated set, and the sets' mean.

    The statistics are those of notebook 08: sets are fixed, and contexts are drawn alike for all
    models.
    """
    draws = {}
    for number, (rated_name, title) in enumerate(ratings.RATED.items()):
        rated = ratings.rated(rated_name)
        scores = np.column_stack([slm.score(rated)["score_slm"] for slm in slms])
        people = (rated["human"], rated["context_id"])
        draws[title] = stats.draws(scores, *people, n=settings.resamples, seed=number)
    draws["mean of the sets"] = np.mean(list(draws.values()), axis=0)
    rows = []
    for title, of_set in draws.items():
        row = {"model": name, "set": title, "seeds": len(slms)}
        row |= stats.interval(of_set, "r", settings.seed)
        rows.append(row | {f"seed {seed}": r for seed, r in enumerate(of_set[0])})
    return pd.DataFrame(rows)


def add_rows(file_name: str, table: pd.DataFrame) -> None:
    """Put the rows of a model into a file, in the place of those that it had of the same model.

    Models are in alphabetical order.
    """
    file = OUTPUT / file_name
    old_rows = pd.read_csv(file)
    is_replaced = old_rows["model"].isin(table["model"])
    table = pd.concat([old_rows[~is_replaced], table], ignore_index=True)
    table = table.sort_values("model", kind="stable")
    replace(file, table.to_csv(index=False, float_format="%.4f", lineterminator="\n"))


def main(name: str, *folders: str) -> None:
    """Measure one model and add its rows."""
    settings = profile("public")
    slms = [SLM.load(folder) for folder in folders] or [SLM.untrained()]
    tables, graded = tables_to_measure(settings)
    outcomes_by_reading: dict[str, list] = {}
    preferred_by_reading: dict[str, list] = {}
    for slm in slms:
        scores: dict[str, dict] = {}
        for table_name in ("grades", "labelled", "exchanged", "audit", "corpus", "fooling"):
            of_table = scores_by_reading(slm, tables[table_name], graded if folders else None)
            for reading, values in of_table.items():
                scores.setdefault(reading, {})[table_name] = values
        for reading, of_reading in scores.items():
            measured = outcomes(tables, of_reading)
            outcomes_by_reading.setdefault(reading, []).append(measured)
            preferred = prefers(tables["fooling cases"], tables["fooling"], of_reading["fooling"])
            preferred_by_reading.setdefault(reading, []).append(preferred)
    by_training, intervals = measure_tables(name, outcomes_by_reading)
    add_rows("measures.csv", by_training)
    add_rows("measure_intervals.csv", intervals)
    fooled = fooled_table(name, tables["fooling cases"], preferred_by_reading)
    add_rows("fooled.csv", fooled)
    if folders:
        add_rows("agreement.csv", agreement(name, slms, settings))


if __name__ == "__main__":
    main(*sys.argv[1:])
