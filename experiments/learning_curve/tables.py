"""Make the tables of the learning curve from the trainings that are finished.

Run ``python experiments/learning_curve/tables.py`` with the public data after ``train.py``: a
minute of one core. It reads what that left in ``build/curve``, and makes in ``results/curve``:

- ``trainings.csv``: a row for each training;
- ``slopes.csv``: how much twice as many contexts raise the agreement with people;
- ``changes.csv``: how much other changes raise it;
- copies of the files that notebooks 02 to 04 read of single trainings (`READ_ONE_BY_ONE`).
"""

import json
import shutil
from typing import NamedTuple

import numpy as np
import pandas as pd
from plan import EPOCHS, OWN_RATED_SET, RESULTS, ROOT, RUNS

from dre import stats
from dre.datasets import ratings
from dre.paper.profile import profile
from dre.slm.remembered import Recording

#: Which files notebooks read of single trainings.
READ_ONE_BY_ONE = "dailydialog-all-*seed*.json"
#: Trainings by the other recipes, whose scores notebook 04 shows, and what says how they were made.
OTHER_RECIPES = ("dailydialog-all-robust-seed0", "dailydialog-all-released-seed0")
MADE_OF = ("recipe", "seed", "encoder", "train_hash", "dev_hash", "d_min", "d_max")


class Change(NamedTuple):
    """A change of training: size and variant with it, and of the twin without it.

    Twins have the same data, domain and seed.
    """

    changed: tuple[str, str]
    unchanged: tuple[str, str]


CHANGES = {
    "model-written adversarials as well": Change(("all", ""), ("own", "")),
    "balanced, not the papers' request": Change(("balanced", ""), ("same", "")),
    "disentangling": Change(("all", ""), ("all", "plain")),
    "Eq. 12 on robust parts": Change(("all", "robust"), ("all", "")),
    "the authors' stages": Change(("all", "released"), ("all", "")),
    "another encoder, 110 M": Change(("own", "mpnet"), ("own", "")),
}


class Agreement(NamedTuple):
    """Spearman correlations with people: the data and n resamples (rows), trainings (columns).

    ``in_domain`` is the agreement on the rated set of the same domain, ``everywhere`` the mean over
    seven sets.
    """

    in_domain: np.ndarray
    everywhere: np.ndarray


def load_trainings() -> dict[str, dict]:
    """Return what is recorded of each training, by name."""
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(RUNS.glob("*-seed*.json"))
    }


def agreement_with_people(trainings, settings) -> Agreement:
    """Return the agreement of each training with people."""
    columns = []
    for name in trainings:
        table = pd.read_csv(RUNS / f"{name}.csv.gz", index_col="pair_id")
        columns.append(1 - table["s_d"] + table["s_p"])
    scores = pd.concat(columns, axis=1)
    draws_by_set = {}
    for name in settings.rated:
        rated = ratings.rated(name)
        draws_by_set[name] = stats.draws(
            scores.loc[rated["pair_id"]].to_numpy(),
            rated["human"],
            rated["context_id"],
            n=settings.resamples,
        )
    in_domain = []
    for i, training in enumerate(trainings.values()):
        rated_set = OWN_RATED_SET[training["domain"]]
        in_domain.append(draws_by_set[rated_set][:, i])
    everywhere = np.mean(list(draws_by_set.values()), axis=0)
    return Agreement(np.stack(in_domain, axis=1), everywhere)


def training_row(training: dict) -> dict:
    """Return what the figure shows of a training, in percent, without agreement."""
    on_dev = [point for point in training["curves"] if point["split"] == "dev"]
    triplets = [100 * point["triplet_accuracy"] for point in on_dev]
    classes = [100 * point["classification_accuracy"] for point in on_dev]
    kept_epoch = (training["kept"] or {}).get("joint")
    # The curves have one point more than epochs, since they begin with the untrained model.
    has_all_epochs = len(on_dev) == EPOCHS + 1
    return {
        "domain": training["domain"],
        "size": training["size"],
        "contexts": training["contexts"],
        "seed": training["seed"],
        "variant": training["variant"],
        "triplets": triplets[kept_epoch] if kept_epoch else np.nan,
        "classes": classes[kept_epoch] if kept_epoch else np.nan,
        "fifth_epoch": triplets[5] - triplets[4] if has_all_epochs else np.nan,
        "accuracy": training["test"]["overall"],
        "rejects_random": training["test"]["random_rejected"],
        "falls": training["falls"]["mean"],
        "epoch": kept_epoch,
    }


def slope_per_doubling(draws: np.ndarray, sizes: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return the slope of agreement on log2(contexts), in the data and in each resample: (1 + n,).

    ``draws`` (1 + n, trainings) has resamples of contexts; the trainings of one size are resampled,
    too.
    """
    rng = np.random.default_rng(seed)
    doublings = []
    means = []
    for size in np.unique(sizes):
        of_size = draws[:, sizes == size]
        n_trainings = of_size.shape[1]
        even = np.full(n_trainings, 1 / n_trainings)
        weights = rng.multinomial(n_trainings, even, size=len(of_size)) / n_trainings
        weights[0] = 1 / n_trainings  # The first row is the data.
        doublings.append(np.log2(size))
        means.append((weights * of_size).sum(axis=1))
    centred = np.array(doublings) - np.mean(doublings)
    return np.stack(means, axis=1) @ centred / (centred @ centred)


def slope_rows(table, agreement, settings) -> tuple[list[dict], dict[str, list]]:
    """Return the rows of ``slopes.csv``, and the slopes of each domain by kind of agreement."""
    printed = pd.read_csv(ROOT / "data/paper/dre_table4.csv").set_index("metric")
    printed_slm = printed.loc["Ours (SLM-Dis and Prob)"]
    labels = {entry.key: entry.label for entry in settings.sets}
    slopes: dict[str, list] = {"own": [], "everywhere": []}
    rows = []
    for domain, trainings in table[is_on_curve(table)].groupby("domain", sort=False):
        columns = table.index.get_indexer(trainings.index)
        sizes = trainings["contexts"].to_numpy()
        is_largest = sizes == sizes.max()
        own_slope = slope_per_doubling(agreement.in_domain[:, columns], sizes)
        everywhere_slope = slope_per_doubling(agreement.everywhere[:, columns], sizes)
        slopes["own"].append(own_slope)
        slopes["everywhere"].append(everywhere_slope)
        at_largest = agreement.in_domain[:, columns[is_largest]]
        row = {
            "set": labels[domain],
            "contexts": sizes.max(),
            "trainings": len(trainings),
            "seeds": at_largest.shape[1],
            **stats.interval(at_largest, "agreement"),
            "fifth_epoch": trainings["fifth_epoch"][is_largest].mean(),
            **stats.interval(own_slope, "slope"),
            "printed": printed_slm[f"{domain}_spearman"],
        }
        # How often the contexts must double at least, to agree with people as the paper says.
        steepest = max(row["slope_high"], 1e-9)
        row["doublings"] = (row["printed"] - row["agreement"]) / steepest
        row.update(stats.interval(everywhere_slope, "slope_everywhere"))
        rows.append(row)
    return rows, slopes


def is_on_curve(table) -> pd.Series:
    """Tell which trainings make the learning curve: recipe paper on sets like the papers'.

    Of DailyDialog these have human-written contexts alone.
    """
    is_of_recipe = table["variant"] == ""
    is_of_size = ~table["size"].isin(["balanced", "same"])
    has_model_written = (table["domain"] == "dailydialog") & (table["size"] == "all")
    return is_of_recipe & is_of_size & ~has_model_written


def twins(table, change: Change) -> dict[tuple, tuple[int, int]]:
    """Return the columns of a changed training and its twin, by domain and seed."""
    column_by_training = {}
    for i, row in enumerate(table.itertuples()):
        column_by_training[row.size, row.variant, row.domain, row.seed] = i
    columns = {}
    for (size, variant, domain, seed), column in column_by_training.items():
        if (size, variant) != change.changed:
            continue
        twin = column_by_training.get((*change.unchanged, domain, seed))
        if twin is not None:
            columns[domain, seed] = column, twin
    return columns


def mean_difference(draws, columns, name) -> dict:
    """Return the mean difference of twins, with its interval.

    Contexts are resampled, and seeds, for all domains at once.
    """
    gains = {
        key: draws[:, changed] - draws[:, unchanged]
        for key, (changed, unchanged) in columns.items()
    }
    seeds = {seed for _, seed in gains}
    gain_by_seed = []
    for seed in seeds:
        of_seed = [gain for (_, gain_seed), gain in gains.items() if gain_seed == seed]
        gain_by_seed.append(np.mean(of_seed, axis=0))
    return stats.interval(np.stack(gain_by_seed, axis=1), name)


def main() -> None:
    """Write the three tables, and copy the files that notebooks read."""
    settings = profile("public")
    trainings = load_trainings()
    if not trainings:
        raise SystemExit(
            f"{RUNS}: found no training, expected two files of each: "
            "python experiments/learning_curve/train.py makes them"
        )
    for file in RUNS.glob(READ_ONE_BY_ONE):
        shutil.copyfile(file, RESULTS / file.name)
    rated = pd.concat([ratings.rated(name) for name in settings.rated], ignore_index=True)
    for name in OTHER_RECIPES:
        scores = pd.read_csv(RUNS / f"{name}.csv.gz", index_col="pair_id").loc[rated["pair_id"]]
        memory = Recording(name, provenance={key: trainings[name][key] for key in MADE_OF})
        memory.put(rated, scores[["s_d", "s_p"]].reset_index())
    agreement = agreement_with_people(trainings, settings)
    rows = [training_row(training) for training in trainings.values()]
    table = pd.DataFrame(rows, index=list(trainings)).rename_axis("name")
    table["own"] = agreement.in_domain[0]
    table["everywhere"] = agreement.everywhere[0]
    table.to_csv(RESULTS / "trainings.csv", float_format="%.4f")

    rows, slopes = slope_rows(table, agreement, settings)
    pd.DataFrame(rows).to_csv(RESULTS / "slopes.csv", index=False, float_format="%.4f")

    change_rows = [
        {
            "change": "twice the contexts",
            **stats.interval(np.mean(slopes["own"], axis=0), "own"),
            **stats.interval(np.mean(slopes["everywhere"], axis=0), "everywhere"),
            "pairs": int(is_on_curve(table).sum()),
        }
    ]
    for name, change in CHANGES.items():
        columns = twins(table, change)
        if columns:
            row = {
                "change": name,
                **mean_difference(agreement.in_domain, columns, "own"),
                **mean_difference(agreement.everywhere, columns, "everywhere"),
                "pairs": len(columns),
            }
            change_rows.append(row)
    pd.DataFrame(change_rows).to_csv(RESULTS / "changes.csv", index=False, float_format="%.4f")


if __name__ == "__main__":
    main()
