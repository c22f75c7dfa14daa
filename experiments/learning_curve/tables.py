"""Make the tables of the learning curve from the trainings of ``train.py``.

Run ``python experiments/learning_curve/tables.py`` with the public data after ``train.py``: a
minute of one core. It reads what that left in ``build/curve``, and makes in ``results/curve``:

- ``trainings.csv``: a row for each training;
- ``slopes.csv``: how much twice as many contexts raise the agreement with people;
- ``changes.csv``: how much other changes raise it;
- copies of the files that notebooks 02 and 03 read of single trainings (`READ_ONE_BY_ONE`).

It records the scores of `OTHER_RECIPES` among those of the small models, for notebook 04.
"""

import json
import shutil

import numpy as np
import pandas as pd
from train import EPOCHS, RUNS, plan

from dre import stats
from dre.datasets import ratings
from dre.paper.profile import profile, root
from dre.slm.remembered import Recording

RESULTS = root() / "results" / "curve"
#: Which files notebooks read of single trainings.
READ_ONE_BY_ONE = "dailydialog-all-*seed*.json"
#: Trainings by the other recipes, whose scores notebook 04 shows, and what says how they were made.
OTHER_RECIPES = ("dailydialog-all-robust-seed0", "dailydialog-all-released-seed0")
MADE_OF = ("recipe", "seed", "encoder", "train_hash", "dev_hash", "d_min", "d_max")
#: Changes of training: size and variant with it, and of the twin without it. Twins have the same
#: data, domain and seed.
CHANGES = {
    "model-written adversarials as well": (("all", ""), ("own", "")),
    "balanced, not the papers' request": (("balanced", ""), ("same", "")),
    "disentangling": (("all", ""), ("all", "plain")),
    "Eq. 12 on robust parts": (("all", "robust"), ("all", "")),
    "the authors' stages": (("all", "released"), ("all", "")),
    "another encoder, 110 M": (("own", "mpnet"), ("own", "")),
}


def agreement_with_people(scores: pd.DataFrame, domains, settings) -> dict[str, np.ndarray]:
    """Return Spearman correlations with people: the data and resamples (rows), trainings (columns).

    ``own`` is the agreement on the rated set of the same domain, ``everywhere`` the mean over all.
    """
    draws_by_domain = {}
    draws_of_sets = []
    for name in settings.rated:
        rated = ratings.rated(name)
        values = scores.loc[rated["pair_id"]].to_numpy()
        of_set = stats.draws(values, rated["human"], rated["context_id"], n=settings.resamples)
        draws_of_sets.append(of_set)
        if name in settings.table_4:
            draws_by_domain[settings.training_set(name).key] = of_set
    own = [draws_by_domain[domain][:, i] for i, domain in enumerate(domains)]
    return {"own": np.stack(own, axis=1), "everywhere": np.mean(draws_of_sets, axis=0)}


def training_row(training: dict) -> dict:
    """Return what the figure shows of a training, in percent, without agreement."""
    on_dev = [point for point in training["curves"] if point["split"] == "dev"]
    triplets = [100 * point["triplet_accuracy"] for point in on_dev]
    classes = [100 * point["classification_accuracy"] for point in on_dev]
    kept_epoch = (training["kept"] or {}).get("joint")
    row = {key: training[key] for key in ("domain", "size", "contexts", "seed", "variant")}
    return row | {
        "triplets": triplets[kept_epoch] if kept_epoch else np.nan,
        "classes": classes[kept_epoch] if kept_epoch else np.nan,
        # The curves begin with the untrained model.
        "fifth_epoch": triplets[5] - triplets[4] if len(on_dev) == EPOCHS + 1 else np.nan,
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
    doublings = np.log2(np.unique(sizes))
    means = []
    for size in np.unique(sizes):
        of_size = draws[:, sizes == size]
        n_trainings = of_size.shape[1]
        even = np.full(n_trainings, 1 / n_trainings)
        weights = rng.multinomial(n_trainings, even, size=len(of_size)) / n_trainings
        weights[0] = 1 / n_trainings  # The first row is the data.
        means.append((weights * of_size).sum(axis=1))
    centred = doublings - doublings.mean()
    return np.stack(means, axis=1) @ centred / (centred @ centred)


def is_on_curve(table: pd.DataFrame) -> pd.Series:
    """Tell which trainings make the learning curve: recipe paper on sets like the papers'.

    Of DailyDialog these have human-written contexts alone.
    """
    is_of_recipe = (table["variant"] == "") & ~table["size"].isin(["balanced", "same"])
    return is_of_recipe & ~((table["domain"] == "dailydialog") & (table["size"] == "all"))


def slope_rows(table, agreement, settings) -> tuple[list[dict], dict]:
    """Return the rows of ``slopes.csv``, and of ``changes.csv`` that of their mean."""
    printed = pd.read_csv(root() / "data/paper/dre_table4.csv").set_index("metric")
    printed_slm = printed.loc["Ours (SLM-Dis and Prob)"]
    labels = {entry.key: entry.label for entry in settings.sets}
    slopes: dict[str, list] = {"own": [], "everywhere": []}
    rows = []
    for domain, trainings in table[is_on_curve(table)].groupby("domain", sort=False):
        columns = table.index.get_indexer(trainings.index)
        sizes = trainings["contexts"].to_numpy()
        is_largest = sizes == sizes.max()
        for name, of_domain in slopes.items():
            of_domain.append(slope_per_doubling(agreement[name][:, columns], sizes))
        row = {
            "set": labels[domain],
            "contexts": sizes.max(),
            "trainings": len(trainings),
            "seeds": is_largest.sum(),
            **stats.interval(agreement["own"][:, columns[is_largest]], "agreement"),
            "fifth_epoch": trainings["fifth_epoch"][is_largest].mean(),
            **stats.interval(slopes["own"][-1], "slope"),
            "printed": printed_slm[f"{domain}_spearman"],
        }
        # How often the contexts must double at least, to agree with people as the paper says.
        steepest = max(row["slope_high"], 1e-9)
        row["doublings"] = (row["printed"] - row["agreement"]) / steepest
        rows.append(row | stats.interval(slopes["everywhere"][-1], "slope_everywhere"))
    mean = {"change": "twice the contexts"}
    for name, of_domains in slopes.items():
        mean |= stats.interval(np.mean(of_domains, axis=0), name)
    return rows, {**mean, "pairs": int(is_on_curve(table).sum())}


def change_row(table, agreement, change: str) -> dict:
    """Return the mean difference of a change's twins; contexts and seeds are resampled."""
    numbered = table.assign(column=range(len(table)))
    changed, unchanged = (
        numbered[(numbered["size"] == size) & (numbered["variant"] == variant)]
        for size, variant in CHANGES[change]
    )
    twins = changed.merge(unchanged, on=["domain", "seed"], suffixes=("", "_of_twin"))
    row: dict = {"change": change}
    for name, draws in agreement.items():
        gains = draws[:, twins["column"]] - draws[:, twins["column_of_twin"]]
        of_seeds = [gains[:, rows].mean(axis=1) for rows in twins.groupby("seed").indices.values()]
        row |= stats.interval(np.stack(of_seeds, axis=1), name)
    return {**row, "pairs": len(twins)}


def main() -> None:
    """Write the three tables, and copy the files that notebooks read."""
    settings = profile("public")
    names = sorted(training.name for training in plan())
    trainings = {name: json.loads((RUNS / f"{name}.json").read_text()) for name in names}
    numbers = {
        name: pd.read_csv(RUNS / f"{name}.csv.gz", index_col="pair_id")[["s_d", "s_p"]]
        for name in names
    }
    for file in RUNS.glob(READ_ONE_BY_ONE):
        shutil.copyfile(file, RESULTS / file.name)
    rated = pd.concat([ratings.rated(name) for name in settings.rated], ignore_index=True)
    for name in OTHER_RECIPES:
        memory = Recording(name, provenance={key: trainings[name][key] for key in MADE_OF})
        memory.put(rated, numbers[name].loc[rated["pair_id"]].reset_index())

    scores = pd.DataFrame({name: 1 - of["s_d"] + of["s_p"] for name, of in numbers.items()})
    domains = [training["domain"] for training in trainings.values()]
    agreement = agreement_with_people(scores, domains, settings)
    rows = [training_row(training) for training in trainings.values()]
    table = pd.DataFrame(rows, index=names).rename_axis("name")
    for name, draws in agreement.items():
        table[name] = draws[0]
    slopes, doubled = slope_rows(table, agreement, settings)
    changes = [doubled, *(change_row(table, agreement, change) for change in CHANGES)]
    table.to_csv(RESULTS / "trainings.csv", float_format="%.4f")
    pd.DataFrame(slopes).to_csv(RESULTS / "slopes.csv", index=False, float_format="%.4f")
    pd.DataFrame(changes).to_csv(RESULTS / "changes.csv", index=False, float_format="%.4f")


if __name__ == "__main__":
    main()
