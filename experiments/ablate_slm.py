"""What each part of recipe ``graded`` is worth: the same with something left out, on every rated set.

The choice (experiments/choose_slm.py) was made before, on held-out grades and FED's turns alone. Every variant is a
mean of likeness and quality, each standardised on held-out graded pairs; only what is named differs. Heads are trained
anew; the contrast is that of the three models of profile ``public``, trained where they are not in build/.

Run ``python experiments/ablate_slm.py``: half an hour of one core. It writes results/choices/ablations.csv: one row for
each variant and set with Spearman correlations (mean over seeds; 95 % intervals over contexts and seeds).
"""

import os

os.environ["RETRAIN"] = "1"  # the models themselves are needed, not their recorded scores

import numpy as np
import pandas as pd
import torch

from dre import ratings, stats
from dre.profile import profile, root
from dre.slm import beside, contexts, trained
from dre.slm.data import held_out_grades

OUT = root() / "results" / "choices" / "ablations.csv"
WRITTEN = ("good", "bland", "off", "contradicts", "garbled")  # replies that were written for grading
SIZES = (1000, 2000, 4000)


def standard(values, reference):
    """Values in units of the spread of reference ones."""
    return (values - reference.mean()) / reference.std()


def subsets(graded, recording):
    """Return which graded pairs a head learns from, name -> row numbers; the smaller ones are whole contexts."""
    table = pd.DataFrame(graded, columns=["context_id", "context", "response", "score"])
    kinds = recording.drop_duplicates(["context_id", "response"]).set_index(["context_id", "response"])["kind"]
    kind = kinds.reindex(pd.MultiIndex.from_frame(table[["context_id", "response"]])).to_numpy()
    order = np.random.default_rng(0).permutation(table["context_id"].nunique())
    place = order[pd.factorize(table["context_id"])[0]]
    before = np.array([(place < limit).sum() for limit in range(len(order) + 1)])
    found = {
        "all grades": np.arange(len(table)),
        "without replies written for it": np.flatnonzero(~np.isin(kind, WRITTEN)),
    }
    return found | {f"{n:,} grades": np.flatnonzero(place < np.searchsorted(before, n)) for n in SIZES}


def main():
    """Score, train heads, write."""
    public = profile("public")
    train, dev, _ = contexts(public.sets[0], public.rated)
    extra, recording = beside(public, dev), pd.concat([ratings.graded(name) for name in public.beside.graded])
    held_out = pd.concat(held_out_grades(public.beside.graded)).rename(columns={"score": "human"})
    tables = {name: ratings.rated(name) for name in public.rated}
    tables["held-out grades"] = held_out.assign(pair_id=range(len(held_out)))
    key, recipe = public.sets[0].key, "graded"
    models = [trained(public, key, recipe, seed).slm for seed in public.seeds]
    papers = [trained(public, key, "paper", seed).slm for seed in public.seeds]
    learned = pd.DataFrame(extra.graded, columns=["context_id", "context", "response", "score"])
    with torch.no_grad(), models[0].as_it_was():
        h = models[0].views(learned.assign(pair_id=range(len(learned))))
        frozen = {name: models[0].views(table) for name, table in tables.items()}
    found = {}
    for seed, slm, paper in zip(public.seeds, models, papers):
        with torch.no_grad():
            plain = {name: torch.cosine_similarity(x[:2], x[2:], dim=-1).mean(0).numpy() for name, x in frozen.items()}
        likeness = {name: -slm.distances(table)["distance"].to_numpy() for name, table in tables.items()}
        papers_own = {name: paper.score(table)["score_slm"].to_numpy() for name, table in tables.items()}
        quality = {}
        for name, rows in subsets(extra.graded, recording).items():
            slm.learn_from(h[:, rows], learned["score"].to_numpy()[rows], learned["context_id"].to_numpy()[rows], seed)
            with torch.no_grad():
                quality[name] = {of: slm.head.quality(x).numpy() for of, x in frozen.items()}
        variants = {"without grades": (likeness,), "without contrast": (plain, quality["all grades"])}
        variants |= {"without either (untrained)": (plain,), "grades alone": (quality["all grades"],)}
        variants |= {"the paper's SLM for the likeness": (papers_own, quality["all grades"])}
        variants |= {name: (likeness, each) for name, each in quality.items()}
        for variant, parts in variants.items():
            for name in tables:
                score = sum(standard(part[name], part["held-out grades"]) for part in parts)
                found.setdefault((variant, name), []).append(score)
    rows = []
    for (variant, name), scores in found.items():
        table = tables[name]
        scores = {variant: pd.DataFrame(np.column_stack(scores))}
        row = stats.correlate(scores, table["human"].reset_index(drop=True), table["context_id"].reset_index(drop=True))
        rows.append({"variant": variant, "set": name, **row.iloc[0][["r", "low", "high", "n"]]})
    pd.DataFrame(rows).to_csv(OUT, index=False, float_format="%.4f", lineterminator="\n")
    print(pd.DataFrame(rows).pivot(index="variant", columns="set", values="r").round(3).to_string())


if __name__ == "__main__":
    main()
