"""Does one idea get the same score in other words and languages? Trainings for notebook 11 on PCAF.

**Table 7 and Figure 2**, in English, Spanish and Chinese, with the data that are public. The first
stage learns from DailyDialog-Gupta and DailyDialog-GRADE, distillation from these and
Empathetic-GRADE. The right response of a context is the one that people rated highest. The wrong
one is the right response of another context, in all versions. Contexts that share an utterance with
a test set are left out. The test sets, by language, are DailyDialog-Zhao, PersonaChat-USR and the
turns of FED. All of this was fixed before the first test.

**Steadier scores.** PCAF's first stage is trained on the embedded parallel corpus, with alignment
and without. An earlier training of our recipe is trained on, so that it gives all versions of a
dialogue the same score. The scores of these three for the test pairs of the corpus are recorded.

Two things are different from the paper, since they matter little or two cores cannot do more. The
mean over tokens replaces XLM-R's pooled output (Eq. 1). AdamW with a warm-up, and another learning
rate for the MLP, replaces Adam (`pcaf_losses.PcafRecipe`). MiniLM has epochs, batches and a
learning rate that suit it. XLM-RoBERTa has the paper's.

Run ``python experiments/pcaf/train_pcaf.py [profile]``: ``public`` (default; MiniLM, 17 minutes of
one core a seed) or ``full`` (XLM-RoBERTa-base, of the paper's kind, from the Hub; a GPU). It makes
in `dre.paper.pcaf_losses.folder`, ``data/recorded/pcaf`` for profile public:

- a `dre.slm.remembered.Recording`: by ``<variant>-seed<k>`` a score for each language;
- ``ranks.csv.gz`` and ``components.csv.gz`` by model: see `neighbour_ranks` and
  `principal_components`;
- ``pcaf-parallel.npz``, always beside the recorded scores of ``public``, since it is of the
  embedded corpus and MiniLM.

What the same recipe has recorded there is not trained again.
"""

import argparse
import copy
import hashlib
import itertools
import json
import random
import time
from dataclasses import asdict
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from sklearn.decomposition import PCA

from dre.datasets import ratings
from dre.datasets.dialogues import Context, pairs, parallel
from dre.datasets.overlap import without_overlap
from dre.errors import DreError
from dre.paper import pcaf_losses
from dre.paper.pcaf import PCAF, Idea, fit, train, write
from dre.paper.profile import profile
from dre.paper.trainings import arrays, hash_of_texts, learned_from
from dre.slm import SLM, recipes
from dre.slm import fit as fit_slm
from dre.slm.encoder import native_bf16
from dre.slm.provenance import TRAINING
from dre.slm.remembered import SMALL_MODELS, Recording, record_arrays, recorded_models
from dre.slm.train import MAX_NORM, parameter_groups
from dre.slm.triplets import distinct, embed

FIRST_STAGE_SETS = ("dailydialog-gupta", "dailydialog-grade")
FURTHER_SETS = ("empathetic-grade",)
TEST_SETS = ("dailydialog-zhao", "personachat-usr", "fed-turn")
ENCODERS = {"public": "minilm", "full": "xlm-roberta-base"}
SEEDS = (0, 1, 2)
ALIGNED_SLM = "SLM graded, aligned"


class Variants(NamedTuple):
    """The names of what a training with or without alignment gives: teacher and student."""

    teacher: str
    student: str


WITH_ALIGNMENT = Variants("align", "align-distil")
WITHOUT_ALIGNMENT = Variants("plain", "distil")


class SetOfIdeas(NamedTuple):
    """The ideas of a rated set, and how many contexts were left out for the test sets."""

    ideas: list[Idea]
    n_left_out: int


def ideas_of_set(name: str) -> SetOfIdeas:
    """Return the highest-rated response of every context of a set, in all languages."""
    tables = ratings.translated(name)
    english = tables["en"]
    best_rows = english.groupby("context_id", sort=False)["human"].idxmax()
    contexts = [Context(name, str(row), "train", english["context"][row]) for row in best_rows]
    left = without_overlap(contexts, ratings.rated_tables(TEST_SETS))
    ideas = []
    for context in left:
        row = int(context.id)
        versions = tuple(
            (table["context"][row], table["response"][row]) for table in tables.values()
        )
        ideas.append(Idea(versions))
    return SetOfIdeas(ideas, len(best_rows) - len(left))


def test_tables() -> dict[str, pd.DataFrame]:
    """Return the rated responses of all test sets, by language."""
    tables_by_set = [ratings.translated(name) for name in TEST_SETS]
    return {
        language: pd.concat([tables[language] for tables in tables_by_set], ignore_index=True)
        for language in ratings.LANGUAGES
    }


def neighbours(features: torch.Tensor) -> dict[str, float]:
    """Return how well the versions of an idea find each other.

    ``features`` is (languages, n, d). The measures are how often the nearest idea in another
    language is the same idea, and the mean cosine with the same idea and with all others.
    """
    v = F.normalize(features, dim=-1)
    is_right = []
    cosines_same_idea = []
    cosines_other_idea = []
    for first, second in itertools.permutations(range(len(v)), 2):
        cosines = v[first] @ v[second].T
        n = len(cosines)
        is_right.append(cosines.argmax(dim=1) == torch.arange(n))
        cosines_same_idea.append(cosines.diag())
        mean_cosine = (cosines.sum() - cosines.trace()) / (cosines.numel() - n)
        cosines_other_idea.append(mean_cosine)
    measures = {
        "nearest_is_same_idea": is_right,
        "cosine_same_idea": cosines_same_idea,
        "cosine_other_idea": cosines_other_idea,
    }
    return {
        name: round(torch.stack(values).float().mean().item(), 4)
        for name, values in measures.items()
    }


def neighbour_ranks(features: torch.Tensor, ids) -> pd.DataFrame:
    """Return the rank of an idea among its neighbours in another language, 1 being the nearest.

    ``features`` of the versions are (languages, n, d), the ``ids`` of ideas (n,). There is a row
    for each idea and each pair of languages.
    """
    v = F.normalize(features, dim=-1)
    languages = list(ratings.LANGUAGES)
    tables = []
    for first, second in itertools.permutations(range(len(v)), 2):
        cosines = v[first] @ v[second].T
        n_nearer = (cosines > cosines.diag()[:, None]).sum(dim=1).numpy()
        table = {
            "idea": ids,
            "language": languages[first],
            "other": languages[second],
            "rank": 1 + n_nearer,
        }
        tables.append(pd.DataFrame(table))
    return pd.concat(tables)


def principal_components(features: torch.Tensor, ids) -> pd.DataFrame:
    """Return the first two principal components of features, as in Figure 2.

    ``features`` of the versions are (languages, n, d), the ``ids`` of ideas (n,). There is a row
    for each language and each idea. ``share_first`` and ``share_second`` are the shares of the
    variance that the components have, the same in all rows.
    """
    n_languages = len(features)
    pca = PCA(n_components=2)
    components = pca.fit_transform(features.flatten(0, 1).numpy())
    share_first, share_second = pca.explained_variance_ratio_
    table = {
        "idea": np.tile(ids, n_languages),
        "language": np.repeat(list(ratings.LANGUAGES)[:n_languages], len(ids)),
        "first": components[:, 0],
        "second": components[:, 1],
        "share_first": share_first,
        "share_second": share_second,
    }
    return pd.DataFrame(table)


def parallel_ideas() -> list[Idea]:
    """Return one idea for each training context of the parallel corpus.

    It has the context's first positive and its first adversarial response.
    """
    ideas = []
    for contexts in zip(*parallel("train").values()):
        versions = tuple((context.turns, context.positives[0]) for context in contexts)
        wrong = tuple(context.adversarials[0] for context in contexts)
        ideas.append(Idea(versions, wrong))
    return ideas


def aligned(slm, ideas, seed, epochs, batch, rate):
    """Return a copy of a small model that is trained to score all versions of an idea alike.

    The loss has two terms. The alignment of Eq. 5 pulls the versions of a context with its reply
    together, with [h_c; h_r] as representation. The other term takes the place of Eq. 9, whose
    target is a mean. It is the squared distance of each version's s_d, by the adapted encoder's
    likeness, to the s_d that the model gave the original before. Fit, quality, and the likeness of
    the untrained encoder are not in the loss.
    """
    student = copy.deepcopy(slm)
    student.recipe = pcaf_losses.PcafRecipe(learning_rate=rate, head_learning_rate=rate)
    student.learns(("encoder",))
    optimizer = torch.optim.AdamW(parameter_groups(student))
    for epoch in range(epochs):
        draw = random.Random(f"{seed}/{epoch}")
        order = draw.sample(ideas, len(ideas))
        student.encoder.train()
        student.head.eval()
        for start in range(0, len(order) - 1, batch):
            chosen = order[start : start + batch]
            originals = [Idea(idea.versions[:1], idea.wrong[:1]) for idea in chosen]
            with torch.no_grad():
                _, target = representations(slm, originals)
            h, s_d = representations(student, chosen)
            loss = pcaf_losses.alignment(*h) / len(chosen) + ((s_d - target) ** 2).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(student.encoder.parameters(), MAX_NORM)
            optimizer.step()
            optimizer.zero_grad()
    student.encoder.eval()
    student.recipe = slm.recipe
    return student


def representations(slm, ideas) -> tuple[torch.Tensor, torch.Tensor]:
    """Return [h_c; h_r] (2, B, V, 2 d) and s_d (2, B, V) of ideas, right responses first."""
    # Three texts are read for each version: context, last turn, response.
    right_texts = []
    wrong_texts = []
    for idea in ideas:
        right = [
            (slm.context(turns), slm.context(turns[-1:]), response)
            for turns, response in idea.versions
        ]
        right_texts.append(right)
        wrong_texts.append(
            [(whole, last, response) for (whole, last, _), response in zip(right, idea.wrong)]
        )
    texts, position = distinct(
        text
        for idea_texts in (right_texts, wrong_texts)
        for version_texts in idea_texts
        for views in version_texts
        for text in views
    )
    index = torch.tensor(
        [
            [
                [[position[text] for text in views] for views in version_texts]
                for version_texts in idea_texts
            ]
            for idea_texts in (right_texts, wrong_texts)
        ]
    )
    with torch.autocast(slm.encoder.device.type, torch.bfloat16, enabled=native_bf16()):
        embeddings = embed(slm.encoder, texts, slm.reader.tokens)
    whole_last_response = embeddings.float()[index].movedim(-2, 0)
    shape = whole_last_response.shape[1:4]
    likeness = slm.head.likeness(whole_last_response.flatten(1, 3)).view(shape)
    d_min = slm.provenance["d_min"]
    d_max = slm.provenance["d_max"]
    s_d = (1 - likeness - d_min) / (d_max - d_min)
    h_context = F.normalize(whole_last_response[0], dim=-1)
    h_response = F.normalize(whole_last_response[2], dim=-1)
    return torch.cat([h_context, h_response], dim=-1), s_d


def parallel_scores(table: pd.DataFrame) -> dict[str, np.ndarray]:
    """Score test pairs of the parallel corpus with three models, trained on its other contexts."""
    ideas = parallel_ideas()
    public = profile("public")
    recipe = recipes.replace(
        recipes.get("ours", epochs=2), name="graded", mixture=recipes.Mixture(copies=False)
    )
    learned, dev, extra = learned_from(public, "dailydialog", recipe)
    out = public.build / "models" / "graded-seed0"
    graded = fit_slm(learned, dev, out, recipe, 0, public.encoder, extra=extra)
    student = aligned(graded, ideas, 0, **pcaf_losses.PARALLEL[ALIGNED_SLM])
    scores = {ALIGNED_SLM: student.score(table)["score_slm"]}
    for name in ("PCAF", "PCAF, not aligned"):
        metric = PCAF.untrained("minilm", pcaf_losses.PcafRecipe(**pcaf_losses.PARALLEL[name]))
        train(metric, ideas, 0)
        scores[name] = metric.score(table)
    return {name: np.asarray(values, np.float32) for name, values in scores.items()}


def is_recorded(read, *arguments) -> bool:
    """Tell whether the same recipe is recorded. If it is not, ``read`` raises DreError."""
    try:
        return read(*arguments) is not None
    except DreError:
        return False


def main() -> None:
    """Train, score, write, and print what it cost."""
    parser = argparse.ArgumentParser(description="trainings for the notebook on PCAF")
    parser.add_argument("profile", nargs="?", default="public", choices=ENCODERS)
    settings = profile(parser.parse_args().profile)
    folder = pcaf_losses.folder(settings)
    encoder = ENCODERS[settings.name]

    public = profile("public")
    versions = [pairs(contexts) for contexts in parallel("test").values()]
    table = pd.concat(versions, ignore_index=True)
    made_from = pcaf_losses.PARALLEL | {"texts": hash_of_texts(table)}
    if not is_recorded(arrays, public, "pcaf-parallel", made_from):
        record_arrays(SMALL_MODELS / "pcaf-parallel.npz", made_from, parallel_scores(table))

    sets = {name: ideas_of_set(name) for name in (*FIRST_STAGE_SETS, *FURTHER_SETS)}
    first: list[Idea] = []
    for name in FIRST_STAGE_SETS:
        first += sets[name].ideas
    further = [*first]
    for name in FURTHER_SETS:
        further += sets[name].ideas
    left_out = [str(set_of_ideas.n_left_out) for set_of_ideas in sets.values()]
    print(
        f"{len(first)} and {len(further)} ideas; left out for the test sets: {', '.join(left_out)}"
    )
    record_table7(folder, encoder, first, further)
    record_figure2(folder, encoder, first)


class FigureRows(NamedTuple):
    """The dialogues of Figure 2: one response for each context of DailyDialog-Zhao."""

    tables: dict[str, pd.DataFrame]  # by language
    ids: pd.Index

    def features(self, metric: PCAF) -> torch.Tensor:
        """Return what a metric makes of them, (languages, n, d)."""
        return torch.stack([metric.features(table) for table in self.tables.values()])


def figure_rows(tables: dict[str, pd.DataFrame]) -> FigureRows:
    """Return the dialogues of Figure 2 among those of `test_tables`."""
    first_responses = tables["en"].drop_duplicates("context_id")
    is_of_zhao = first_responses["set"] == "dailydialog-zhao"
    is_in_figure = is_of_zhao & first_responses["reference"].notna()
    ids = first_responses[is_in_figure].index
    return FigureRows({language: table.loc[ids] for language, table in tables.items()}, ids)


def record_figure2(folder, encoder, first) -> None:
    """Write ranks and principal components of the teachers of seed 0, and before training."""
    rows = figure_rows(test_tables())
    if (folder / "components.csv.gz").exists():
        return
    ranks, components = {}, {}
    for name in ("untrained", WITH_ALIGNMENT.teacher, WITHOUT_ALIGNMENT.teacher):
        if name == "untrained":
            metric = PCAF.untrained(encoder, pcaf_losses.TABLE7)
        else:
            metric = PCAF.untrained(encoder, pcaf_losses.table7_recipe(name, encoder))
            train(metric, first, 0)
        features = rows.features(metric)
        ranks[name] = neighbour_ranks(features, rows.ids)
        components[name] = principal_components(features, rows.ids)
        print(f"Figure 2, {name}: {neighbours(features)}", flush=True)
    for file_name, by_model in {"ranks": ranks, "components": components}.items():
        write(pd.concat(by_model, names=["model"]).reset_index("model"), folder, file_name)


def record_table7(folder, encoder, first, further) -> None:
    """Train for every seed, with alignment and without, and write scores."""
    tables = test_tables()
    tested = pcaf_losses.in_all_languages(TEST_SETS)
    rows = figure_rows(tables)
    texts = json.dumps([idea.versions for idea in further], ensure_ascii=False)
    ideas_hash = hashlib.sha256(texts.encode()).hexdigest()

    if "cosine" not in recorded_models(folder):
        cosines = {}
        for language, table in tables.items():
            cosines[language] = 1 - SLM.untrained(encoder).distances(table)["distance"]
        features = rows.features(PCAF.untrained(encoder, pcaf_losses.TABLE7))
        memory = Recording("cosine", folder, neighbours(features))
        memory.put(tested, tested[["pair_id"]].assign(**cosines))

    for seed in SEEDS:
        for variants in (WITH_ALIGNMENT, WITHOUT_ALIGNMENT):
            if all(is_recorded(pcaf_losses.recorded, folder, name, seed) for name in variants):
                continue
            started = time.process_time()
            recipe = pcaf_losses.table7_recipe(variants.teacher, encoder)
            models = fit(first, further, recipe, seed, encoder)
            for name, metric in zip(variants, models):
                features = rows.features(metric)
                scores = {language: metric.score(table) for language, table in tables.items()}
                origin = {
                    "recipe": asdict(recipe),
                    "seed": seed,
                    "encoder": encoder,
                    "ideas": [len(first), len(further)],
                    "ideas_hash": ideas_hash,
                    "torch": torch.__version__,
                    "threads": torch.get_num_threads(),
                    "training": TRAINING,
                    **neighbours(features),
                    "cpu_seconds": round(time.process_time() - started),
                }
                memory = Recording(f"{name}-seed{seed}", folder, origin)
                memory.put(tested, tested[["pair_id"]].assign(**scores))
            seconds = time.process_time() - started
            print(f"seed {seed}, {variants.teacher}: {seconds:.0f} s of CPU", flush=True)


if __name__ == "__main__":
    main()
