"""PCAF's metric (Wang et al., Eq. 1 and 2), its training, and its Tables 7 and 8 on DSTC11's sets.

`PCAF` and `fit` are shared with experiments/pcaf/train_pcaf.py, which trains on public sets. What
follows them trains on DSTC11's own corpora, as the paper does, for a profile that has ``pcaf``.
"""

import copy
import functools
import hashlib
import itertools
import json
import math
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.decomposition import PCA
from torch import nn
from transformers import get_linear_schedule_with_warmup

from dre.datasets import dstc11
from dre.datasets.dialogues import Context
from dre.datasets.overlap import without_overlap
from dre.paper import pcaf_losses
from dre.paper.profile import Profile
from dre.paper.trainings import hash_of_texts
from dre.slm.encoder import Reader, Tokens, context_text, load_encoder, native_bf16
from dre.slm.provenance import TRAINING
from dre.slm.train import MAX_NORM, parameter_groups
from dre.slm.triplets import distinct, embed


@dataclass(frozen=True)
class Idea:
    """A dialogue in parallel versions.

    Attributes
    ----------
    versions : (turns, response) of each version.
    wrong : a wrong response for each version, or none.
    """

    versions: tuple
    wrong: tuple = ()


class Batch(NamedTuple):
    """What is computed of ideas, (B, V, ...) each: representations and scores, right and wrong."""

    v: torch.Tensor
    v_bar: torch.Tensor
    s: torch.Tensor
    s_bar: torch.Tensor


class PCAF:
    """An encoder over context and response together (Eq. 1) with a three-layer MLP (Eq. 2).

    Its scores are about 0 to 1.
    """

    def __init__(self, encoder, recipe):
        self.encoder = encoder
        self.recipe = recipe
        self.tokens = Tokens(encoder)
        d = encoder.get_embedding_dimension()
        head = nn.Sequential(
            nn.Linear(d, d),
            nn.GELU(),
            nn.Linear(d, d // 2),
            nn.GELU(),
            nn.Linear(d // 2, 1),
        )
        self.head = head.to(encoder.device)

    @classmethod
    def untrained(cls, encoder="minilm", recipe=None, seed=0):
        """Return a metric before training.

        ``encoder`` is as for `load_encoder`. In the paper it is XLM-RoBERTa.
        """
        torch.manual_seed(seed)
        recipe = recipe or pcaf_losses.PcafRecipe()
        return cls(load_encoder(encoder, recipe.max_seq_length), recipe)

    def text(self, turns: Sequence[str], response: str) -> str:
        """Return turns and response joined to one text. Where it is too long, its end is read."""
        tokenizer = self.encoder.tokenizer
        text = context_text((*turns, response), tokenizer.sep_token or "\n")
        return self.tokens.ends([text])[0]

    def autocast(self):
        """Compute in bfloat16 where the device has it."""
        return torch.autocast(self.encoder.device.type, torch.bfloat16, enabled=native_bf16())

    @torch.no_grad()
    def features(self, table: pd.DataFrame) -> torch.Tensor:
        """Return v_r of Eq. 1 for ``context`` (turns) and ``response`` of a table.

        It is (n, d), float32, on the CPU.
        """
        texts = [*map(self.text, table["context"], table["response"])]
        with self.autocast():
            return Reader(self.encoder, self.tokens)(texts).cpu()

    @torch.no_grad()
    def score(self, table: pd.DataFrame) -> np.ndarray:
        """Return s of Eq. 2 for the rows of a table, (n,).

        It is trained towards 1 (right) and 0 (wrong), and not bounded.
        """
        self.head.eval()
        features = self.features(table).to(self.encoder.device)
        return self.head(features).squeeze(-1).cpu().numpy()

    def batch(self, ideas: Sequence[Idea], wrong: Sequence[Sequence[str]]) -> Batch:
        """Return representations and scores of ideas with these wrong responses.

        A distinct text is read once.
        """
        all_texts = []
        for idea in ideas:
            all_texts += [self.text(*version) for version in idea.versions]
        for idea, responses in zip(ideas, wrong):
            turns_of_versions = [turns for turns, _ in idea.versions]
            all_texts += map(self.text, turns_of_versions, responses)
        texts, position = distinct(all_texts)
        with self.autocast():
            embeddings = embed(self.encoder, texts, self.tokens)
        embeddings = embeddings.float()
        index = torch.tensor([position[text] for text in all_texts], device=embeddings.device)
        index = index.reshape(2, len(ideas), -1)
        v, v_bar = embeddings[index]
        s, s_bar = self.head(embeddings).squeeze(-1)[index]
        return Batch(v, v_bar, s, s_bar)


def wrong_responses(ideas: Sequence[Idea], draw: random.Random) -> list[tuple]:
    """Return wrong responses for each idea, in all versions.

    They are its own wrong responses, or else the right ones of another idea.
    """
    order = draw.sample(range(len(ideas)), len(ideas))
    following = dict(zip(order, order[1:] + order[:1]))
    responses = []
    for i, idea in enumerate(ideas):
        of_next = tuple(response for _, response in ideas[following[i]].versions)
        responses.append(idea.wrong or of_next)
    return responses


def train(metric: PCAF, ideas: Sequence[Idea], seed: int, teacher: PCAF | None = None) -> list:
    """Train through one stage: alignment (Eq. 7) or, with a teacher, distillation (Eq. 10).

    Eq. 5 to 7 are sums over ideas; a step takes their mean, which scales them. Wrong responses are
    drawn for every epoch.

    Returns
    -------
    The loss of each step.
    """
    recipe = metric.recipe
    stage = 0 if teacher is None else 1
    n_epochs = recipe.epochs[stage]
    # Eq. 3 needs a second idea, so that no batch has one.
    steps_per_epoch = max(math.ceil((len(ideas) - 1) / recipe.batch_ideas), 1)
    n_steps = steps_per_epoch * n_epochs
    optimizer = torch.optim.AdamW(parameter_groups(metric))  # pyright: ignore[reportArgumentType]
    warmup_steps = math.ceil(recipe.warmup * n_steps)
    schedule = get_linear_schedule_with_warmup(optimizer, warmup_steps, n_steps)
    parameters = [*metric.encoder.parameters(), *metric.head.parameters()]
    losses = []
    for epoch in range(n_epochs):
        draw = random.Random(f"{seed}/{stage}/{epoch}")
        torch.manual_seed(draw.getrandbits(32))
        wrong = wrong_responses(ideas, draw)
        order = draw.sample(range(len(ideas)), len(ideas))
        metric.encoder.train()
        metric.head.train()
        for start in range(0, len(order) - 1, recipe.batch_ideas):
            chosen = order[start : start + recipe.batch_ideas]
            chosen_ideas = [ideas[i] for i in chosen]
            chosen_wrong = [wrong[i] for i in chosen]
            loss = _loss(metric, teacher, chosen_ideas, chosen_wrong)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, MAX_NORM)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    metric.encoder.eval()
    metric.head.eval()
    return losses


def _loss(metric, teacher, ideas, wrong):
    """Return the loss of a batch: Eq. 10 with a teacher, else Eq. 6 or 7."""
    batch = metric.batch(ideas, wrong)
    if teacher is not None:
        with torch.no_grad():
            targets = teacher.batch(ideas, wrong)
        return pcaf_losses.student(
            batch.s, batch.s_bar, targets.s, targets.s_bar, metric.recipe.alpha
        ).mean()
    loss = pcaf_losses.right_and_wrong(batch.s, batch.s_bar).sum()
    if metric.recipe.align:
        loss = loss + pcaf_losses.alignment(batch.v, batch.v_bar, metric.recipe.temperature)
    return loss / len(ideas)


def fit(first, further, recipe=None, seed=0, encoder="minilm") -> tuple[PCAF, PCAF]:
    """Return a teacher trained on ``first``, and a copy of it that is distilled on ``further``."""
    teacher = PCAF.untrained(encoder, recipe, seed)
    train(teacher, first, seed)
    student = copy.deepcopy(teacher)
    train(student, further, seed, teacher)
    return teacher, student


def write(table: pd.DataFrame, folder, name: str, origin: dict | None = None) -> None:
    """Write ids and numbers (four digits), and to a second file what made them.

    The same numbers give the same bytes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.csv.gz"
    compression = {"method": "gzip", "mtime": 0}
    table.to_csv(path, index=False, float_format="%.4g", compression=compression)
    if origin:
        text = json.dumps(origin, indent=1, sort_keys=True) + "\n"
        path.with_name(f"{name}.json").write_text(text, encoding="utf-8")


# Tables 7 and 8 on DSTC11

#: The corpus of the first stage, and those of distillation.
FIRST_CORPUS = "DAILYD"
#: The rows of Table 7, as printed: the variant of `pcaf_losses.VARIANTS`, and the corpora that its
#: student learns from (none: the teacher itself).
TABLE_7 = {
    "PCAF": ("align-distil", tuple(dstc11.TRAINING)),
    "kd on DailyDialog": ("align-distil", (FIRST_CORPUS,)),
    "w/o kd": ("align", ()),
    "w/o kd & align": ("plain", ()),
}
#: The rows of Table 8: the versions that are learned from, and the corpora of distillation.
_ORIGINAL = "en"
_PARAPHRASE = "paraphrase"
_BACK = "back-translation"
TABLE_8 = {
    "ori": ((_ORIGINAL,), ()),
    "para": ((_PARAPHRASE,), ()),
    "bt": ((_BACK,), ()),
    "ori + para": ((_ORIGINAL, _PARAPHRASE), ()),
    "ori + bt": ((_ORIGINAL, _BACK), ()),
    "ori + para + bt": ((_ORIGINAL, _PARAPHRASE, _BACK), ()),
    "ori + para + kd": ((_ORIGINAL, _PARAPHRASE), tuple(dstc11.TRAINING)),
}
#: The row of Table 7 whose teacher Figure 2 draws, by what the picture calls it.
FIGURE_2 = {"align": "w/o kd", "plain": "w/o kd & align"}
_IDEAS_OF_FIGURE = 100
#: What each table is tested on, by the columns of the printed table.
TESTED_ON = {
    "pcaf_table7": {"en": "en", "zh": "zh", "es": "es"},
    "pcaf_table8": {
        "original": _ORIGINAL,
        "paraphrase": _PARAPHRASE,
        "back_translation": _BACK,
    },
}


class Training(NamedTuple):
    """What a row of Table 7 or 8 is trained on: the versions, and how."""

    table: str
    row: str
    versions: tuple[str, ...]
    align: bool
    further: tuple[str, ...]


def check(settings: Profile) -> list[str]:
    """Read the rated sets of DSTC11's archive, and return a line for each."""
    assert settings.pcaf is not None
    archive = dstc11.archive(settings.pcaf.archive)
    return [archive.rated(name).in_words() for name in archive.rated_names()]


def trainings() -> list[Training]:
    """Return the rows of both tables as they are printed."""
    rows = []
    for row, (variant, further) in TABLE_7.items():
        align = pcaf_losses.VARIANTS[variant]
        rows.append(Training("pcaf_table7", row, dstc11.LANGUAGES, align, further))
    for row, (versions, further) in TABLE_8.items():
        # One version has nothing to be aligned with.
        rows.append(Training("pcaf_table8", row, versions, len(versions) > 1, further))
    return rows


def rated_sets(settings: Profile) -> list[dstc11.RatedSet]:
    """Return the rated sets of DSTC11 in all versions, each cut to the profile's pairs.

    Parameters
    ----------
    settings : a profile that has ``pcaf``.
    """
    assert settings.pcaf is not None, "asked only where the profile has it"
    archive = dstc11.archive(settings.pcaf.archive)
    n = settings.pairs_per_set  # None: all of them
    sets = []
    for rated in map(archive.rated, archive.rated_names()):
        versions = {version: table[:n] for version, table in rated.versions.items()}
        sets.append(replace(rated, ratings=rated.ratings[:n], versions=versions))
    return sets


def ideas_of_corpus(settings: Profile, name: str, versions: Sequence[str]) -> list[Idea]:
    """Return replies of a training corpus with the turns before them, in some versions.

    One reply of each dialogue is drawn, and of these as many as the profile takes. Dialogues that
    repeat what people rated are left out. The paper does not say which replies it takes.

    Parameters
    ----------
    settings : a profile that has ``pcaf``.
    name : of `dre.datasets.dstc11.TRAINING`.
    versions : of `dre.datasets.dstc11.VERSIONS`.
    """
    assert settings.pcaf is not None, "asked only where the profile has it"
    ideas = []
    for dialogue, k in _drawn_replies(settings.pcaf.archive, name, settings.seed):
        if all(version in dialogue.versions for version in versions):
            spoken = [dialogue.versions[version] for version in versions]
            ideas.append(Idea(tuple((turns[:k], turns[k]) for turns in spoken)))
    return ideas[: settings.pcaf.ideas]


@functools.lru_cache  # every row of both tables asks for them
def _drawn_replies(path, name, seed):
    """Return the dialogues of a corpus that nobody rated, in a drawn order, each with a reply."""
    archive = dstc11.archive(path)
    draw = random.Random(f"{seed}/{name}")
    dialogues = []
    contexts = []
    for turns in archive.parallel(name, "train"):
        english = turns.versions["en"]
        if len(english) > 1:
            dialogues.append(turns)
            contexts.append(Context(name, turns.uid, "train", english))
    reserved = [archive.rated(rated).versions["en"] for rated in archive.rated_names()]
    clean = {context.id for context in without_overlap(contexts, reserved)}
    chosen = [turns for turns in dialogues if turns.uid in clean]
    draw.shuffle(chosen)
    return [(turns, draw.randrange(1, len(turns.versions["en"]))) for turns in chosen]


def dstc11_agreement(settings: Profile) -> pd.DataFrame:
    """Return Tables 7 and 8 of a profile that has ``pcaf``: trained here, or recorded before.

    The scores of each training are written into ``build/<profile>/pcaf`` as soon as they are there,
    so that a run that was ended goes on with the next training.

    Returns
    -------
    A row for each row of both tables, each seed and each version that it was tested on: ``table``,
    ``row``, ``seed``, ``tested`` (the column of the printed table) and ``spearman``: the mean over
    the qualities of a set, and then over sets, in [-1, 1].
    """
    tested = rated_sets(settings)
    rows = []
    for seed, training in itertools.product(settings.seeds, trainings()):
        columns = TESTED_ON[training.table]
        scores = _scores(settings, training, seed, tested, columns)
        for column, version in columns.items():
            by_set = []
            for rated in tested:
                if version in rated.versions:
                    values = scores.loc[rated.ratings["pair_id"], column]
                    by_set.append(_mean_of_qualities(rated, values))
            rows.append((training.table, training.row, seed, column, np.nanmean(by_set)))
    return pd.DataFrame(rows, columns=["table", "row", "seed", "tested", "spearman"])


def figure2(settings: Profile) -> dict[str, pd.DataFrame]:
    """Return what Figure 2 draws: ideas of DailyDialog in three languages, in the plane.

    The models are those of Table 7 with the first seed, trained here or recorded before.

    Parameters
    ----------
    settings : a profile that has ``pcaf``.

    Returns
    -------
    By ``align``, ``plain`` and ``untrained`` what `principal_components` returns.
    """
    tested = rated_sets(settings)
    columns = TESTED_ON["pcaf_table7"]
    ideas = ideas_of_corpus(settings, FIRST_CORPUS, dstc11.LANGUAGES)[:_IDEAS_OF_FIGURE]
    points = {}
    for name, row in FIGURE_2.items():
        (training,) = (training for training in trainings() if training.row == row)
        _scores(settings, training, settings.seed, tested, columns)
        points[name] = pd.read_csv(_folder(settings) / f"figure2-{name}.csv.gz")
    encoder = _encoder(settings, "pcaf_table7")
    untrained = PCAF.untrained(encoder, pcaf_losses.TABLE7_OF_XLM_R, settings.seed)
    points["untrained"] = principal_components(untrained, ideas)
    return points


def principal_components(metric: PCAF, ideas: Sequence[Idea]) -> pd.DataFrame:
    """Return the first two principal components of the features of ideas in three languages.

    Returns
    -------
    A row for each language and idea: ``idea`` (its number), ``language``, ``first, second``, and
    the shares of the variance that the components have, the same in all rows.
    """
    rows = []
    for k, language in enumerate(dstc11.LANGUAGES):
        rows += [(number, language, *idea.versions[k]) for number, idea in enumerate(ideas)]
    spoken = pd.DataFrame(rows, columns=["idea", "language", "context", "response"])
    pca = PCA(n_components=2)
    points = spoken.drop(columns=["context", "response"])
    features = [metric.features(table) for _, table in spoken.groupby("language", sort=False)]
    points[["first", "second"]] = pca.fit_transform(np.concatenate(features))
    points[["share_first", "share_second"]] = pca.explained_variance_ratio_
    return points


def _mean_of_qualities(rated, scores):
    """Return the mean Spearman correlation of scores with the qualities of a set."""
    ratings = rated.ratings[rated.qualities]
    return ratings.corrwith(scores.set_axis(ratings.index), method="spearman").mean()


def _scores(settings, training, seed, tested, columns):
    """Return the scores of a training by pair id, a column for each column of its table."""
    first = ideas_of_corpus(settings, FIRST_CORPUS, training.versions)
    further = []
    for name in training.further:
        further += ideas_of_corpus(settings, name, training.versions)
    encoder = _encoder(settings, training.table)
    recipe = replace(
        pcaf_losses.TABLE7_OF_XLM_R,
        align=training.align,
        epochs=settings.pcaf.epochs,
        batch_ideas=settings.pcaf.batch_ideas,
    )
    texts = json.dumps([[idea.versions for idea in ideas] for ideas in (first, further)])
    tested_texts = [
        hash_of_texts(rated.versions[version])
        for rated in tested
        for version in columns.values()
        if version in rated.versions
    ]
    origin = {
        "recipe": json.loads(json.dumps(asdict(recipe))),
        "seed": seed,
        "encoder": encoder,
        "ideas": [len(first), len(further)],
        "ideas_hash": hashlib.sha256(texts.encode()).hexdigest(),
        "tested": tested_texts,
        "training": TRAINING,
    }
    folder = _folder(settings)
    signs = "".join(sign if sign.isalnum() else "-" for sign in training.row)
    name = f"{training.table.replace('_', '-')}-{signs}-seed{seed}"
    recorded = _recorded(folder / name, origin, tested, columns)
    if recorded is not None:
        return recorded

    print(f"{training.table}, {training.row}, seed {seed}: {len(first)} ideas", flush=True)
    metric = PCAF.untrained(encoder, recipe, seed)
    train(metric, first, seed)
    _record_figure2(settings, training, seed, metric, first)
    if further:
        teacher = metric
        metric = copy.deepcopy(teacher)
        train(metric, further, seed, teacher)
    tables = []
    for rated in tested:
        table = rated.ratings[["pair_id"]].copy()
        for column, version in columns.items():
            if version in rated.versions:
                table[column] = metric.score(rated.versions[version])
        tables.append(table)
    scores = pd.concat(tables, ignore_index=True)
    write(scores, folder, name, origin)
    # What is read back has the digits that a later run will read.
    recorded = _recorded(folder / name, origin, tested, columns)
    assert recorded is not None, "it was just written"
    return recorded


def _folder(settings):
    """Return where trainings are recorded: beside the models.

    A notebook depends on the files in ``results``, and this one writes them while it runs.
    """
    return settings.build / "pcaf"


def _record_figure2(settings, training, seed, metric, ideas):
    """Write the points of Figure 2 of a teacher that it draws."""
    for name, row in FIGURE_2.items():
        if training.row == row and seed == settings.seed:
            points = principal_components(metric, ideas[:_IDEAS_OF_FIGURE])
            write(points, _folder(settings), f"figure2-{name}")


def _recorded(path, origin, tested, columns):
    """Return recorded scores if the same training made them for the same pairs, else None."""
    file = path.with_name(f"{path.name}.json")
    table_file = path.with_name(f"{path.name}.csv.gz")
    if not file.is_file() or not table_file.is_file():
        return None
    if json.loads(file.read_text(encoding="utf-8")) != origin:
        return None
    scores = pd.read_csv(table_file).set_index("pair_id")
    pair_ids = [pair_id for rated in tested for pair_id in rated.ratings["pair_id"]]
    is_same = list(scores.index) == pair_ids and set(columns) >= set(scores.columns)
    return scores if is_same else None


def _encoder(settings, table):
    """Return the encoder of a table: of many languages for Table 7, of English for Table 8."""
    if table == "pcaf_table7":
        return settings.pcaf.encoder
    return settings.pcaf.english_encoder


def beside_print(agreement: pd.DataFrame, table: str, root: Path) -> pd.DataFrame:
    """Return one of the tables beside the printed one, in percent as it is printed.

    Parameters
    ----------
    agreement : what `dstc11_agreement` returned.
    table : ``pcaf_table7`` or ``pcaf_table8``.
    root : the project's folder.

    Returns
    -------
    A row for each printed row: its name and, for each column, ours (mean of seeds), ``<column>_sd``
    over seeds, and ``<column>_printed``.
    """
    printed = pd.read_csv(root / "data/paper" / f"{table}.csv", index_col=0)
    cells = agreement[agreement["table"] == table].set_index(["row", "tested"])["spearman"]
    rows = []
    for name in printed.index:
        row = {"row": name}
        for column in TESTED_ON[table]:
            values = 100 * cells.loc[[(name, column)]]
            row |= {column: values.mean(), f"{column}_sd": values.std(ddof=0)}
            row[f"{column}_printed"] = printed.loc[name, column]
        rows.append(row)
    return pd.DataFrame(rows)
