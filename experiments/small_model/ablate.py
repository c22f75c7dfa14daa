"""What is each answer of recipe ``graded`` worth? The same model with something left out.

The choice of what it counts was made before, by choose.py. Every variant here is a mean of its
answers, each standardised on held-out graded pairs; only what its name says is different. "Without
contrast" means that likeness and fit are those of the encoder before it was adapted. Where a head
learns from something else than usual, it is trained on from the head of the model. The adapted
encoders are those of the three models of profile ``public``.

Run ``python experiments/small_model/ablate.py`` with the public data: half an hour of one core, and
hours more where the models are still to be trained. It makes results/choices/ablations.csv, a row
for each variant and rated set: Spearman correlations with people (mean over seeds; 95 % intervals
over contexts and seeds).
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from dre import stats
from dre.datasets import ratings
from dre.paper.profile import Profile, profile, root
from dre.slm import SLM, contexts, extra, load_or_train
from dre.slm.graded import Graded, graded_table
from dre.slm.heads import cosines

OUTPUT = root() / "results" / "choices" / "ablations.csv"
MODEL = "graded-2026-11"
#: Kinds of replies that were written for grading.
WRITTEN_FOR_GRADING = ("good", "bland", "off", "contradicts", "garbled")
#: Numbers of grades that a smaller quality head learns from.
SIZES = (1000, 2000, 4000)
ANSWERS = ("likeness", "fit", "quality")
#: The table on which answers are standardised.
REFERENCE = "held-out grades"

#: Scores (n,) by the name of a table.
ScoresByTable = dict[str, np.ndarray]


class Data(NamedTuple):
    """What heads learn from, and what is scored.

    Attributes
    ----------
    tables : the rated sets by name, and `REFERENCE`, with people's or the judge's ``human``.
    fits : labelled pairs, with ``fits``.
    grades : graded pairs of the training data, with ``score``.
    grades_by_subset : by name, the row numbers of those grades that a quality head learns from.
    """

    tables: dict[str, pd.DataFrame]
    fits: pd.DataFrame
    grades: pd.DataFrame
    grades_by_subset: dict[str, np.ndarray]


def load_data(public: Profile, slm: Graded) -> Data:
    """Return what heads learn from, for one of the models, and what is scored."""
    version = public.models[MODEL].data
    train, dev, _ = contexts(public.sets[0], public.rated, version=version)
    further = extra(public, dev)
    recording = pd.concat([ratings.graded(name) for name in public.extra.graded])

    tables = {name: ratings.rated(name) for name in public.rated}
    held_out = recording[recording["for_choice"]].rename(columns={"score": "human"})
    tables[REFERENCE] = held_out.assign(pair_id=range(len(held_out)))

    fits = slm.fitting(train, further.dialogues, public.seed)
    grades = graded_table(further.graded)
    return Data(
        tables=tables,
        fits=fits.assign(pair_id=range(len(fits))),
        grades=grades,
        grades_by_subset=grades_by_subset(grades, recording),
    )


def grades_by_subset(grades: pd.DataFrame, recording: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the row numbers of the grades in each subset. The smaller ones are whole contexts."""
    keys = ["context_id", "response"]
    kind_by_reply = recording.drop_duplicates(keys).set_index(keys)["kind"]
    kinds = kind_by_reply.reindex(pd.MultiIndex.from_frame(grades[keys])).to_numpy()
    is_written = np.isin(kinds, WRITTEN_FOR_GRADING)
    subsets = {
        "all grades": np.arange(len(grades)),
        "without replies written for it": np.flatnonzero(~is_written),
    }

    # Contexts in random order, and how many grades the first ones have together.
    order = np.random.default_rng(0).permutation(grades["context_id"].nunique())
    rank = order[pd.factorize(grades["context_id"])[0]]
    n_grades = np.array([(rank < n_contexts).sum() for n_contexts in range(len(order) + 1)])
    for size in SIZES:
        n_contexts = np.searchsorted(n_grades, size)
        subsets[f"{size:,} grades"] = np.flatnonzero(rank < n_contexts)
    return subsets


def answers_by_variant(subsets: dict[str, np.ndarray]) -> dict[str, tuple[str, ...]]:
    """Return the answers whose mean each variant is."""
    variants: dict[str, tuple[str, ...]] = {"graded": ANSWERS}
    for answer in ANSWERS:
        variants[f"without {answer}"] = tuple(name for name in ANSWERS if name != answer)
    for answer in ANSWERS:
        variants[f"{answer} alone"] = (answer,)
    variants["without contrast"] = ("plain", "plain fit", "quality")
    variants["without contrast and adversarials"] = (
        "plain",
        "plain fit, no adversarials",
        "quality",
    )
    variants["the paper's SLM, and quality"] = ("paper", "quality")
    for subset in subsets:
        if subset != "all grades":
            variants[subset] = ("likeness", "fit", subset)
    return variants


class Frozen(NamedTuple):
    """Embeddings by the encoder before it was adapted.

    Each tensor (3, n, d) has contexts, last turns and responses.
    """

    tables: dict[str, torch.Tensor]
    fits: torch.Tensor
    grades: torch.Tensor


def embed(data: Data, slm: Graded) -> Frozen:
    """Return what the encoder before it was adapted makes of all texts."""
    return Frozen(
        tables={name: slm.views(table, slm.base) for name, table in data.tables.items()},
        fits=slm.views(data.fits, slm.base),
        grades=slm.views(data.grades, slm.base),
    )


def score_answers(
    data: Data, frozen: Frozen, slm: Graded, paper: SLM, seed: int
) -> dict[str, ScoresByTable]:
    """Return the scores of every answer of the variants, by its name and the name of the table."""
    answers_by_table = {name: slm.answers(table) for name, table in data.tables.items()}
    scores: dict[str, ScoresByTable] = {}
    for answer in ANSWERS:
        scores[answer] = {}
        for name, answers in answers_by_table.items():
            scores[answer][name] = answers[answer].to_numpy()
    scores["plain"] = {}
    scores["paper"] = {}
    for name, table in data.tables.items():
        scores["plain"][name] = cosines(frozen.tables[name]).mean(0).cpu().numpy()
        scores["paper"][name] = paper.score(table)["score_slm"].to_numpy()

    # Heads that learn fit on the encoder before it was adapted.
    fits = data.fits["fits"]
    rows_of_fits = {
        "plain fit": np.arange(len(fits)),
        "plain fit, no adversarials": np.flatnonzero(fits),
    }
    for answer, rows in rows_of_fits.items():
        slm.learn_fit(frozen.fits[:, rows], fits[rows], data.fits["context"][rows], seed)
        scores[answer] = {}
        for name, h in frozen.tables.items():
            with torch.no_grad():
                scores[answer][name] = torch.sigmoid(slm.head.fit(h)).cpu().numpy()

    # Heads that learn quality from fewer grades.
    for answer, rows in data.grades_by_subset.items():
        grades = data.grades.iloc[rows]
        slm.learn_quality(frozen.grades[:, rows], grades["score"], grades["context_id"], seed)
        scores[answer] = {}
        for name, h in frozen.tables.items():
            with torch.no_grad():
                scores[answer][name] = slm.head.quality(h).cpu().numpy()
    return scores


def standardised(values: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return values in standard deviations of reference values, from their mean."""
    return (values - reference.mean()) / reference.std()


def agreement(table: pd.DataFrame, scores_by_seed: list[np.ndarray]) -> dict[str, float]:
    """Return the correlation of a variant with people on one set, with its interval."""
    correlations = stats.correlate(
        {"variant": pd.DataFrame(np.column_stack(scores_by_seed))},
        table["human"].reset_index(drop=True),
        table["context_id"].reset_index(drop=True),
    )
    return dict(correlations.loc["variant", ["r", "low", "high", "n"]])


def main() -> None:
    """Score, train heads, and write the table."""
    public = profile("public")
    key = public.sets[0].key
    models = [load_or_train(public, key, MODEL, seed) for seed in public.seeds]
    papers = [load_or_train(public, key, "paper", seed) for seed in public.seeds]
    data = load_data(public, models[0])
    frozen = embed(data, models[0])
    variants = answers_by_variant(data.grades_by_subset)

    scores_by_seed: dict[tuple[str, str], list[np.ndarray]] = {
        (variant, name): [] for variant in variants for name in data.tables
    }
    for seed, slm, paper in zip(public.seeds, models, papers):
        scores = score_answers(data, frozen, slm, paper, seed)
        for variant, answers in variants.items():
            for name in data.tables:
                z = [
                    standardised(scores[answer][name], scores[answer][REFERENCE])
                    for answer in answers
                ]
                scores_by_seed[variant, name].append(sum(z))

    rows = []
    for (variant, name), seeds in scores_by_seed.items():
        rows.append({"variant": variant, "set": name, **agreement(data.tables[name], seeds)})
    table = pd.DataFrame(rows)
    table.to_csv(OUTPUT, index=False, float_format="%.4f", lineterminator="\n")
    print(table.pivot(index="variant", columns="set", values="r").round(3).to_string())


if __name__ == "__main__":
    main()
