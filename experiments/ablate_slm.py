"""What each part of recipe ``graded`` is worth: the same with something left out, on every rated set.

The choice (experiments/choose_slm.py) was made before. Every variant is a mean of its parts, each standardised on
held-out graded pairs; only what is named differs. "Without contrast" likeness and fit are on the encoder as it was.
Heads are trained anew where what they learn from differs; the contrast is that of the three models of profile
``public``, trained where they are not in build/.

Run ``python experiments/ablate_slm.py``: half an hour of one core. It writes results/choices/ablations.csv: one row for
each variant and set with Spearman correlations (mean over seeds; 95 % intervals over contexts and seeds).
"""

from itertools import product

import numpy as np
import pandas as pd
import torch

from dre import stats
from dre.datasets import ratings
from dre.paper.profile import profile, root
from dre.slm import contexts, extra, load_or_train
from dre.slm.heads import cosines

OUT = root() / "results" / "choices" / "ablations.csv"
WRITTEN = (
    "good",
    "bland",
    "off",
    "contradicts",
    "garbled",
)  # replies that were written for grading
SIZES = (1000, 2000, 4000)


def standard(values, reference):
    """Values in units of the spread of reference ones."""
    return (values - reference.mean()) / reference.std()


def subsets(graded, recording):
    """Return which graded pairs a head learns from, name -> row numbers; the smaller ones are whole contexts."""
    table = pd.DataFrame(graded, columns=["context_id", "context", "response", "score"])
    kinds = recording.drop_duplicates(["context_id", "response"]).set_index(
        ["context_id", "response"]
    )["kind"]
    kind = kinds.reindex(pd.MultiIndex.from_frame(table[["context_id", "response"]])).to_numpy()
    order = np.random.default_rng(0).permutation(table["context_id"].nunique())
    place = order[pd.factorize(table["context_id"])[0]]
    before = np.array([(place < limit).sum() for limit in range(len(order) + 1)])
    found = {
        "all grades": np.arange(len(table)),
        "without replies written for it": np.flatnonzero(~np.isin(kind, WRITTEN)),
    }
    return found | {
        f"{n:,} grades": np.flatnonzero(place < np.searchsorted(before, n)) for n in SIZES
    }


def main():
    """Score, train heads, write."""
    public = profile("public")
    train, dev, _ = contexts(
        public.sets[0], public.rated, version=public.models["graded-2026-11"].data
    )
    more, recording = (
        extra(public, dev),
        pd.concat([ratings.graded(name) for name in public.extra.graded]),
    )
    for_choice = recording[recording["for_choice"]].rename(columns={"score": "human"})
    tables = {name: ratings.rated(name) for name in public.rated}
    tables["held-out grades"] = for_choice.assign(pair_id=range(len(for_choice)))
    key = public.sets[0].key
    models = [load_or_train(public, key, "graded-2026-11", seed) for seed in public.seeds]
    papers = [load_or_train(public, key, "paper", seed) for seed in public.seeds]
    learned = pd.DataFrame(more.graded, columns=["context_id", "context", "response", "score"])
    fits, base = models[0].fitting(train, more.dialogues, public.seed), models[0].base
    h, h_fits = (
        models[0].views(one.assign(pair_id=range(len(one))), base) for one in (learned, fits)
    )
    frozen = {name: models[0].views(table, base) for name, table in tables.items()}
    plain = {name: cosines(x).mean(0).cpu().numpy() for name, x in frozen.items()}
    found, all_of_it = {}, ("likeness", "fit", "quality")
    for seed, slm, paper in zip(public.seeds, models, papers):
        said = {name: slm.parts(table) for name, table in tables.items()}
        parts = {
            part: {name: one[part].to_numpy() for name, one in said.items()} for part in all_of_it
        }
        parts |= {"plain": plain}
        parts["paper"] = {
            name: paper.score(table)["score_slm"].to_numpy() for name, table in tables.items()
        }
        right = np.flatnonzero(fits["fits"])
        for part, at in {"plain fit": slice(None), "plain fit, no adversarials": right}.items():
            slm.learn_fit(h_fits[:, at], fits["fits"][at], fits["context"][at], seed)
            with torch.no_grad():
                parts[part] = {
                    of: torch.sigmoid(slm.head.fit(x)).cpu().numpy() for of, x in frozen.items()
                }
        for part, at in subsets(more.graded, recording).items():
            slm.learn_quality(
                h[:, at], learned["score"].to_numpy()[at], learned["context_id"].iloc[at], seed
            )
            with torch.no_grad():
                parts[part] = {of: slm.head.quality(x).cpu().numpy() for of, x in frozen.items()}
        variants = {"graded": all_of_it}
        variants |= {f"without {part}": tuple({*all_of_it} - {part}) for part in all_of_it}
        variants |= {f"{part} alone": (part,) for part in all_of_it}
        variants["without contrast"] = "plain", "plain fit", "quality"
        variants["without contrast and adversarials"] = (
            "plain",
            "plain fit, no adversarials",
            "quality",
        )
        variants["the paper's SLM, and quality"] = "paper", "quality"
        variants |= {
            part: ("likeness", "fit", part)
            for part in subsets(more.graded, recording)
            if part != "all grades"
        }
        for (variant, of), name in product(variants.items(), tables):
            score = sum(standard(parts[part][name], parts[part]["held-out grades"]) for part in of)
            found.setdefault((variant, name), []).append(score)
    rows = []
    for (variant, name), scores in found.items():
        table = tables[name]
        scores = {variant: pd.DataFrame(np.column_stack(scores))}
        row = stats.correlate(
            scores,
            table["human"].reset_index(drop=True),
            table["context_id"].reset_index(drop=True),
        )
        rows.append({"variant": variant, "set": name, **row.iloc[0][["r", "low", "high", "n"]]})
    pd.DataFrame(rows).to_csv(OUT, index=False, float_format="%.4f", lineterminator="\n")
    print(pd.DataFrame(rows).pivot(index="variant", columns="set", values="r").round(3).to_string())


if __name__ == "__main__":
    main()
