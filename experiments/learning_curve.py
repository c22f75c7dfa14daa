"""How good would the papers' SLM be with more contexts? Recipe ``paper`` on sets of growing size, one by one.

For each of three domains the contexts of its training set (profile ``public``, version 2 of the training data:
nothing of dev, test, rated sets or held-out grades) and further ones, whose responses were written on the papers'
request; beside them sets written so that borrowed words tell nothing (``balanced``), and as many contexts of the
papers' request (``same``). Five epochs, of which the one with the best triplet accuracy on held-out contexts is kept.
A smaller set is the beginning of a random order of the largest one, another order for each seed. ``plain`` is the
control of Figures 3 and 4, without disentangling; ``adversarials`` of DailyDialog's are partly people's (its dev) and
partly written for this project (the others).

Beside recipe ``paper`` on MiniLM stand, on DailyDialog's largest set, ``paper-robust`` and ``released`` to its end,
and, on DailyDialog++ dev alone (``own``), ``paper`` on all-mpnet-base-v2 (110 M parameters, as many as the encoder of
the authors' notebook; two epochs). That encoder comes from the Hub (sentence-transformers/all-mpnet-base-v2);
``--mpnet FOLDER`` reads it from a folder whose model.safetensors has the sha256 `MPNET`.

Run ``python experiments/learning_curve.py [--only TEXT ...] [--list]``: it goes through `plan` and does what has no
result yet, so it can be cut off at any time. Each training leaves ``results/curve/<name>.json`` (its curves, accuracies
on DailyDialog++ test at a threshold chosen on held-out contexts, how often the score falls when the context is another
one, distances from context to response before and after ``sep``, and Spearman correlation with people on seven sets)
and ``<name>.csv.gz`` (its scores of the rated sets). Models stay in build/curve. About 30 seconds a context of one
core, in all.

``--tables``, and the end of every run, makes of them what notebook 02 shows: ``trainings.csv``, a line each;
``slopes.csv``, what twice the contexts add to agreement with people; ``changes.csv``, what other changes add; and
``dre_inputs_paper.csv``, the numbers of the largest sets' first trainings for a judge that is asked with prompt
``dre``, in the form of those that the recorded judge was shown.
"""

import argparse
import hashlib
import json
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd

from dre import classification, stats
from dre.audit import measures as audit
from dre.datasets import ratings
from dre.datasets.dialogues import load, pairs
from dre.files import replace
from dre.paper.profile import profile
from dre.slm import contexts, fit, losses, recipes

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "results" / "curve"
EPOCHS = 5
#: domain -> set, and its splits: all on the papers' request
LARGEST = {
    "dailydialog": ("dailydialog++", "dev+adversarials only"),
    "personachat": ("convai2-augmented", "train+paper"),
    "topicalchat": ("topicalchat-augmented", "train+paper"),
}
SIZES = {
    "dailydialog": (110, 220, 435, "own"),
    "personachat": (40, 110, 300),
    "topicalchat": (40, 110, 300),
}
WRITTEN = (
    "personachat",
    "topicalchat",
)  # the domains whose responses are all written for this project
#: how a training differs from recipe ``paper`` on MiniLM: recipe, epochs of each stage (None: the recipe's), encoder
VARIANTS = {
    "": ("paper", EPOCHS, "minilm"),
    "plain": ("paper", EPOCHS, "minilm"),  # without disentangling
    "robust": ("paper-robust", EPOCHS, "minilm"),
    "released": ("released", None, "minilm"),
    "mpnet": ("paper", 2, "sentence-transformers/all-mpnet-base-v2"),
}
BINS = np.linspace(0, 1.6, 33)  # of cosine distances; the share that is missing to 1 lies above
#: a change -> (size, variant) of a training with it and of its twin, which has the same data, domain and seed
CHANGES = {
    "balanced, not the papers' request": (("balanced", ""), ("same", "")),
    "disentangling": (("all", ""), ("all", "plain")),
    "Eq. 12 on robust parts": (("all", "robust"), ("all", "")),
    "the authors' stages": (("all", "released"), ("all", "")),
    "another encoder, 110 M": (("own", "mpnet"), ("own", "")),
}
#: the rated set of a domain
OWN = {
    "dailydialog": "dailydialog-zhao",
    "personachat": "personachat-usr",
    "topicalchat": "topicalchat-usr",
}
MPNET = "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"


def plan():
    """Return (domain, size, seed, variant) of every training, those that matter most first."""
    points = [(domain, "all") for domain in LARGEST] + [(domain, "balanced") for domain in WRITTEN]
    points += [(domain, "same") for domain in WRITTEN]
    smaller = [(domain, size) for domain, sizes in SIZES.items() for size in reversed(sizes)]
    wanted = [(*point, 0, "") for point in (*points, *smaller)]
    wanted += [(domain, "all", seed, "") for seed in (1, 2) for domain in LARGEST]
    wanted += [(*point, seed, "") for seed in (1, 2) for point in points]
    wanted += [("dailydialog", "own", 0, "mpnet")]
    wanted += [("dailydialog", "all", 0, variant) for variant in ("robust", "released")]
    wanted += [(*point, 1, "") for point in smaller]
    wanted += [(domain, "all", seed, "plain") for seed in range(3) for domain in LARGEST]
    wanted += [
        ("dailydialog", "all", seed, variant) for seed in (3, 4) for variant in ("", "plain")
    ]
    return list(
        dict.fromkeys([*wanted, *(("dailydialog", "all", seed, "robust") for seed in (1, 2))])
    )


def name_of(domain, size, seed, variant):
    """The name of a training."""
    return f"{domain}-{size}{variant and '-'}{variant}-seed{seed}"


def chosen(domain, size, seed, settings):
    """Return (train, dev, test) of a training; dev and test are those of the profile."""
    entry = next(entry for entry in settings.sets if entry.key == domain)
    name, splits = LARGEST[domain]
    if size == "balanced":
        splits = "balanced"
    elif size == "own":
        splits = "dev"
    entry = entry.model_copy(update={"train": (name, splits), "further": None})
    train, dev, test = contexts(entry, settings.rated, version=2)
    if size == "same":
        size = len(chosen(domain, "balanced", seed, settings)[0])
    if isinstance(size, int):
        order = np.random.default_rng(seed).permutation(len(train))[:size]
        train = [train[i] for i in sorted(order)]
    return list(train), list(dev), list(test)


def checked(encoder):
    """Return the folder or Hub id of all-mpnet-base-v2; a folder must hold the weights that the Hub has."""
    weights = Path(encoder) / "model.safetensors"
    if weights.exists() and hashlib.sha256(weights.read_bytes()).hexdigest() != MPNET:
        raise SystemExit(f"{weights} is another file than the Hub's: expected sha256 {MPNET}")
    return encoder


def measure(slm, dev, settings):
    """Return what a model reaches on DailyDialog++ test and with people, and its scores of the rated sets."""
    test = pairs(load("dailydialog++", "test"), "par")
    held_out = pairs(dev, "pa")
    threshold = classification.choose_threshold(slm.score(held_out)["score_slm"], held_out["kind"])
    before = slm.score(test)["score_slm"]
    decisions = classification.correct(test, before, threshold)
    row = {"test": classification.accuracy(test, decisions, settings.resamples), "people": {}}
    row["spaces"] = spaces(slm, test[test["kind"] != "r"])
    positives = test[test["kind"] == "p"]
    swapped = audit.exchange(positives, 3)
    fall = audit.falls(
        before[test["kind"] == "p"].to_numpy()[swapped["row"]], slm.score(swapped)["score_slm"]
    )
    found = stats.mean(fall, swapped["context_id"], settings.resamples)
    row["falls"] = {end: 100 * found[end] for end in ("mean", "low", "high")}
    scores = []
    for rated in settings.rated:
        table = ratings.rated(rated)
        scores.append(slm.score(table)[["pair_id", "s_d", "s_p"]])
        said = {"slm": 1 - scores[-1]["s_d"] + scores[-1]["s_p"]}
        agreement = stats.correlate(
            said, table["human"], table["context_id"], n=settings.resamples
        ).loc["slm"]
        row["people"][rated] = {end: float(agreement[end]) for end in ("r", "low", "high")}
    return row, pd.concat(scores)


def spaces(slm, test):
    """Return how far positives and adversarials are from their contexts, in whole embeddings and in what is scored."""
    contexts_, responses = slm.texts(test)
    h = slm.encode(contexts_ + responses)["sentence_embedding"]
    whole = losses.distance(h[: len(test)], h[len(test) :]).numpy()
    found = {"whole": whole, "scored": slm.distances(test)["distance"].to_numpy()}
    return {
        space: {kind: summary(d[test["kind"] == kind]) for kind in "pa"}
        for space, d in found.items()
    }


def summary(distances):
    """Return mean, standard deviation and a histogram (`BINS`, shares) of cosine distances."""
    counts = np.histogram(distances, BINS)[0] / len(distances)
    return {
        "mean": float(distances.mean()),
        "sd": float(distances.std()),
        "histogram": counts.round(4).tolist(),
    }


def tables(settings):
    """Write the three tables of all trainings that there are."""
    files = sorted(OUT.glob("*-seed*.json"))
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    scores = [pd.read_csv(path.with_suffix(".csv.gz"), index_col="pair_id") for path in files]
    scores = pd.concat([1 - one["s_d"] + one["s_p"] for one in scores], axis=1)
    people = {}  # set -> (1 + n, trainings): Spearman with people, in resamples of contexts
    for name in settings.rated:
        rated = ratings.rated(name)
        said = scores.loc[rated["pair_id"]].to_numpy()
        people[name] = stats.draws(said, rated["human"], rated["context_id"], n=settings.resamples)
    everywhere = np.mean(list(people.values()), axis=0)
    own = np.stack([people[OWN[run["domain"]]][:, i] for i, run in enumerate(runs)], axis=1)
    table = pd.DataFrame(
        [one_line(run) for run in runs], [path.stem for path in files]
    ).rename_axis("name")
    table["own"], table["everywhere"] = own[0], everywhere[0]
    table.to_csv(OUT / "trainings.csv", float_format="%.4f")
    curve = (table["variant"] == "") & ~table["size"].isin(["balanced", "same"])
    rows, slopes, labels = (
        [],
        {"own": [], "everywhere": []},
        {entry.key: entry.label for entry in settings.sets},
    )
    printed = (
        pd.read_csv(ROOT / "data/paper/dre_table4.csv")
        .set_index("metric")
        .loc["Ours (SLM-Dis and Prob)"]
    )
    for domain, of in table[curve].groupby("domain", sort=False):
        places, sizes = table.index.get_indexer(of.index), of["contexts"].to_numpy()
        for name, agreement in (("own", own), ("everywhere", everywhere)):
            slopes[name].append(per_doubling(agreement[:, places], sizes))
        most = own[:, places[sizes == sizes.max()]]
        row = {
            "set": labels[domain],
            "contexts": sizes.max(),
            "trainings": len(of),
            "seeds": most.shape[1],
        }
        row |= stats.interval(most, "agreement") | {
            "fifth_epoch": of["fifth_epoch"][sizes == sizes.max()].mean()
        }
        row |= stats.interval(slopes["own"][-1], "slope")
        row["printed"] = printed[f"{domain}_spearman"]
        row["doublings"] = (row["printed"] - row["agreement"]) / max(
            row["slope_high"], 1e-9
        )  # at the least
        rows.append(row | stats.interval(slopes["everywhere"][-1], "slope_everywhere"))
    pd.DataFrame(rows).to_csv(OUT / "slopes.csv", index=False, float_format="%.4f")
    both = {name: stats.interval(np.mean(of, axis=0), name) for name, of in slopes.items()}
    rows = [
        {
            "change": "twice the contexts",
            **both["own"],
            **both["everywhere"],
            "pairs": int(curve.sum()),
        }
    ]
    for change, (one, other) in CHANGES.items():
        if twins := matched(table, one, other):
            found = [
                difference(draws, twins, name)
                for draws, name in ((own, "own"), (everywhere, "everywhere"))
            ]
            rows.append({"change": change, **found[0], **found[1], "pairs": len(twins)})
    pd.DataFrame(rows).to_csv(OUT / "changes.csv", index=False, float_format="%.4f")
    inputs(dict(zip(table.index, runs)))


def inputs(runs):
    """Write what prompt ``dre`` shows of each rated pair: the SLM's numbers, both accuracies on DailyDialog++ test."""
    labels, test = ratings.labels(), pairs(load("dailydialog++", "test"), "pa")
    said = test["pair_id"].map((labels == "Positive").astype(float))
    llm = classification.accuracy(test, classification.correct(test, said, 0.5), n=0)["overall"]
    slm, parts = runs[name_of("dailydialog", "all", 0, "")]["test"]["overall"], []
    for domain, rated in OWN.items():
        name = name_of(domain, "all", 0, "")
        part = pd.read_csv(OUT / f"{name}.csv.gz")
        part = part[part["pair_id"].str.startswith(f"{rated}/")]
        score = 1 - part["s_d"] + part["s_p"]
        parts.append(part.assign(score_slm=score, slm_accuracy=slm / 100, llm_accuracy=llm / 100))
    pd.concat(parts).to_csv(OUT / "dre_inputs_paper.csv", index=False, float_format="%.6g")


def one_line(run):
    """Return what the figure shows of a training, in percent, without agreement."""
    dev, classes = (
        [100 * point[f"{name}_accuracy"] for point in run["curves"] if point["split"] == "dev"]
        for name in ("triplet", "classification")
    )
    joint = (run["kept"] or {}).get("joint")
    row = {key: run[key] for key in ("domain", "size", "contexts", "seed", "variant")}
    row |= {
        "triplets": dev[joint] if joint else np.nan,
        "classes": classes[joint] if joint else np.nan,
    }
    row["fifth_epoch"] = dev[5] - dev[4] if len(dev) == 6 else np.nan
    row |= {"accuracy": run["test"]["overall"], "rejects_random": run["test"]["random_rejected"]}
    return row | {"falls": run["falls"]["mean"], "epoch": joint}


def per_doubling(draws, sizes, seed=0):
    """Return (1 + n,): slope of agreement on log2(contexts); trainings of a size are resampled, too."""
    rng, z, means = np.random.default_rng(seed), [], []
    for size in np.unique(sizes):
        of = draws[:, sizes == size]
        share = (
            rng.multinomial(of.shape[1], np.full(of.shape[1], 1 / of.shape[1]), size=len(of))
            / of.shape[1]
        )
        share[0] = 1 / of.shape[1]  # the first line is of the data
        z.append(np.log2(size))
        means.append((share * of).sum(axis=1))
    z = np.array(z) - np.mean(z)
    return np.stack(means, axis=1) @ z / (z @ z)


def matched(table, one, other):
    """Return {(domain, seed): places of a training of kind ``one`` and its twin of the ``other``}: (size, variant)."""
    place = {
        row[1:]: i
        for i, row in enumerate(table[["size", "variant", "domain", "seed"]].itertuples())
    }
    pairs_ = {
        key[2:]: (i, place.get((*other, *key[2:]))) for key, i in place.items() if key[:2] == one
    }
    return {key: both for key, both in pairs_.items() if both[1] is not None}


def difference(draws, twins, name):
    """Return the mean difference of twins: contexts are resampled, and seeds, drawn once for all domains."""
    gains = {key: draws[:, i] - draws[:, j] for key, (i, j) in twins.items()}
    by_seed = [
        np.mean([gains[key] for key in gains if key[1] == seed], axis=0)
        for seed in {key[1] for key in gains}
    ]
    return stats.interval(np.stack(by_seed, axis=1), name)


def main():
    """Go through the plan."""
    parser = argparse.ArgumentParser(description="recipe paper on training sets of growing size")
    parser.add_argument(
        "--only", nargs="+", default=[""], help="trainings whose name has one of these in it"
    )
    parser.add_argument(
        "--list", action="store_true", help="say what there is and what is missing, and do nothing"
    )
    parser.add_argument(
        "--tables", action="store_true", help="make the tables of what there is, and train nothing"
    )
    parser.add_argument(
        "--mpnet", default=VARIANTS["mpnet"][2], help="folder or Hub id of all-mpnet-base-v2"
    )
    args, settings = parser.parse_args(), profile("public")
    OUT.mkdir(parents=True, exist_ok=True)
    for domain, size, seed, variant in [] if args.tables else plan():
        name = name_of(domain, size, seed, variant)
        result, lock = OUT / f"{name}.json", ROOT / "build" / "curve" / f"{name}.lock"
        if args.list:
            print("done   " if result.exists() else "missing", name)
            continue
        if result.exists() or not any(part in name for part in args.only):
            continue
        lock.parent.mkdir(parents=True, exist_ok=True)
        try:  # another process may be at it
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        started = time.process_time()
        try:
            train, dev, _ = chosen(domain, size, seed, settings)
            of, epochs, encoder = VARIANTS[variant]
            recipe = recipes.get(of, epochs, disentangled=variant != "plain")
            recipe = recipe if of == "released" else recipes.replace(recipe, keep="best")
            where = checked(args.mpnet) if variant == "mpnet" else encoder
            slm = fit(train, dev, lock.with_suffix(""), recipe, seed, where, progress=False)
            row, scores = measure(slm, dev, settings)
        finally:
            lock.unlink()
        about = {
            "domain": domain,
            "size": size,
            "contexts": len(train),
            "seed": seed,
            "variant": variant,
        }
        about |= {"recipe": of, "encoder": encoder}
        kept = {
            key: slm.provenance[key]
            for key in ("fingerprint", "train_hash", "dev_hash", "d_min", "d_max")
        }
        kept["kept"] = slm.provenance.get("kept")  # released keeps the last epoch of each stage
        gzip = {"method": "gzip", "mtime": 0}
        scores.to_csv(OUT / f"{name}.csv.gz", index=False, float_format="%.4g", compression=gzip)
        row = (
            about
            | kept
            | row
            | {"seconds": round(time.process_time() - started), "curves": slm.provenance["curves"]}
        )
        replace(result, json.dumps(row, indent=1) + "\n")
        print(
            f"{name}: {len(train)} contexts, {row['seconds']} s, {row['test']['overall']:.1f} %",
            *(f"{found['r']:.2f}" for found in row["people"].values()),
            flush=True,
        )
    if not args.list:
        tables(settings)


if __name__ == "__main__":
    main()
