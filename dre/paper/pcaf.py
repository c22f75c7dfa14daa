"""PCAF (Wang et al., DSTC11): a metric that scores an idea, however it is worded.

An idea is a context with a response, in V parallel versions (translations or paraphrases). Of B
ideas, ``v, v_bar`` (B, V, d) are the representations of right and wrong responses, and ``s, s_bar``
(B, V) are their scores.

Eq. 3 to 10 come first, then the metric (Eq. 1 and 2) with its training. A profile that has ``pcaf``
trains Tables 7 and 8 and Figure 2 on DSTC11's corpora, as the paper does. Profile ``public`` shows
Table 7 on public sets instead, by scores that experiments/pcaf/train_pcaf.py has recorded.
"""

import copy
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
import torch.nn.functional as F
from sklearn.decomposition import PCA
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import get_linear_schedule_with_warmup

from dre import files
from dre.datasets import dstc11, ratings, recordings
from dre.datasets.dialogues import Context
from dre.datasets.overlap import without_overlap
from dre.errors import DreError
from dre.paper.profile import Profile
from dre.slm.encoder import Reader, context_text, ends, features, load_encoder, native_bf16
from dre.slm.provenance import TRAINING
from dre.slm.train import MAX_NORM, parameter_groups
from dre.slm.triplets import distinct

#: The recorded scores of Table 7 on public sets, by variant and seed.
RECORDED = recordings.FOLDER / "pcaf"
#: Texts that are embedded with gradient at once. A step keeps the activations of so many alone.
_CHUNK = {"cpu": 12, "gpu": 6}


@dataclass(frozen=True)
class Recipe:
    """The choices of a training.

    The paper trains XLM-R-Large for 10 and 10 epochs, in batches of 32, by Adam with a constant
    learning rate of 5e-6.
    """

    epochs: tuple[int, int] = (2, 2)  # of alignment, of distillation
    align: bool = True  # without, the first stage has Eq. 6 alone
    temperature: float = 0.05  # tau of Eq. 3 and 4
    alpha: float = 0.2  # of Eq. 10
    batch_ideas: int = 8  # with all their versions; the sums of Eq. 3-6 run over a batch
    learning_rate: float = 1e-4
    head_learning_rate: float = 1e-3
    warmup: float = 0.1
    weight_decay: float = 0.01
    max_seq_length: int = 128


#: That of the recorded scores. It reads half of the tokens, and so takes a third of the time.
ON_PUBLIC_SETS = Recipe(max_seq_length=64)
#: What the scores of the parallel corpus, ``pcaf-parallel.npz``, are recorded of.
PARALLEL = {
    "PCAF": asdict(Recipe(align=True)),
    "PCAF, not aligned": asdict(Recipe(align=False)),
    "training": TRAINING,
}


# Eq. 3 to 10


def similarity_all(v: torch.Tensor, v_bar: torch.Tensor, temperature: float = 0.05) -> torch.Tensor:
    """S_all, Eq. 3: exp(cos / tau), summed over versions of two ideas; (B, V, d) x 2 -> scalar.

    Every version of idea i is compared with every version of each later idea m. As printed these
    are right with right, wrong with wrong, and wrong (of i) with right (of m), but not right with
    wrong.
    """
    right = F.normalize(v, dim=-1).flatten(0, 1)
    wrong = F.normalize(v_bar, dim=-1).flatten(0, 1)
    idea = torch.arange(len(v), device=v.device).repeat_interleave(v.shape[1])
    is_later = idea[:, None] < idea[None, :]
    total = torch.zeros((), device=v.device)
    for x, y in ((right, right), (wrong, right), (wrong, wrong)):
        total = total + torch.exp(x @ y.T / temperature)[is_later].sum()
    return total


def similarity_within(v: torch.Tensor, temperature: float = 0.05) -> torch.Tensor:
    """S_P, Eq. 4: exp(cos / tau), summed over pairs of versions of an idea; (B, V, d) -> (B,)."""
    v = F.normalize(v, dim=-1)
    n_versions = v.shape[1]
    j, k = torch.triu_indices(n_versions, n_versions, offset=1, device=v.device)
    cosines = (v[:, j] * v[:, k]).sum(dim=-1)
    return torch.exp(cosines / temperature).sum(dim=1)


def alignment(v: torch.Tensor, v_bar: torch.Tensor, temperature: float = 0.05) -> torch.Tensor:
    """l_align, Eq. 5: minus the sum over ideas of log(S_P / S_all); (B, V, d) x 2 -> scalar.

    It needs at least two ideas and two versions. It can be negative.
    """
    within = similarity_within(v, temperature)
    ratios = within / similarity_all(v, v_bar, temperature)
    return -torch.log(ratios).sum()


def right_and_wrong(s: torch.Tensor, s_bar: torch.Tensor) -> torch.Tensor:
    """(1 - s)^2 + s_bar^2, which is Eq. 8, and what Eq. 6 (l_mse) sums; the shape is kept."""
    return (1 - s) ** 2 + s_bar**2


def distillation(
    s: torch.Tensor, s_bar: torch.Tensor, teacher: torch.Tensor, teacher_bar: torch.Tensor
) -> torch.Tensor:
    """l_kd, Eq. 9: the squared distance from the teacher's scores; (B, V) x 4 -> (B, V).

    The teacher's mean over the versions of an idea is a target, too. The sum of this mean runs over
    k, while its term is printed as s_ti: we read it as s_tk.
    """
    mean = teacher.mean(dim=-1, keepdim=True)
    return (teacher - s) ** 2 + (teacher_bar - s_bar) ** 2 + (mean - s) ** 2


def student(
    s: torch.Tensor,
    s_bar: torch.Tensor,
    teacher: torch.Tensor,
    teacher_bar: torch.Tensor,
    alpha: float = 0.2,
) -> torch.Tensor:
    """L_GEN_KD, Eq. 10: alpha Eq. 8 + (1 - alpha) Eq. 9, mean over versions; (B, V) x 4 -> (B,)."""
    hard = right_and_wrong(s, s_bar)
    soft = distillation(s, s_bar, teacher, teacher_bar)
    return (alpha * hard + (1 - alpha) * soft).mean(dim=-1)


# The metric, Eq. 1 and 2, and its training


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


class PCAF(nn.Module):
    """An encoder over context and response together (Eq. 1) with a three-layer MLP (Eq. 2).

    Its scores are about 0 to 1. ``encoder`` is as for `load_encoder`; in the paper it is
    XLM-RoBERTa.
    """

    def __init__(self, encoder: str, recipe: Recipe, seed: int = 0):
        super().__init__()
        torch.manual_seed(seed)
        self.recipe = recipe
        self.encoder = load_encoder(encoder, recipe.max_seq_length)
        d = self.encoder.get_embedding_dimension() or 0
        layers = nn.Linear(d, d), nn.GELU(), nn.Linear(d, d // 2), nn.GELU(), nn.Linear(d // 2, 1)
        self.head = nn.Sequential(*layers).to(self.encoder.device)

    def text(self, turns: Sequence[str], response: str) -> str:
        """Return turns and response joined to one text. Where it is too long, its end is read."""
        separator = self.encoder.tokenizer.sep_token or "\n"
        return ends(self.encoder, [context_text((*turns, response), separator)])[0]

    def autocast(self):
        """Compute in bfloat16 where the device has it."""
        return torch.autocast(self.encoder.device.type, torch.bfloat16, enabled=native_bf16())

    @torch.no_grad()
    def features(self, table: pd.DataFrame) -> torch.Tensor:
        """Return v_r of Eq. 1 for ``context`` (turns) and ``response``, (n, d) on the CPU."""
        texts = [*map(self.text, table["context"], table["response"])]
        with self.autocast():
            return Reader(self.encoder)(texts).cpu()

    @torch.no_grad()
    def score(self, table: pd.DataFrame) -> np.ndarray:
        """Return s of Eq. 2 for the rows of a table, (n,).

        It is trained towards 1 (right) and 0 (wrong), and not bounded.
        """
        features = self.features(table).to(self.encoder.device)
        return self.head(features).squeeze(-1).cpu().numpy()

    def embeddings(self, texts: Sequence[str]) -> torch.Tensor:
        """Return embeddings (n, d), float32, through which a gradient can flow.

        The losses need those of a whole batch at once, but the encoder need not keep how it made
        them: each chunk of texts is read again, with the same dropout, when its gradient is due.
        """
        device = self.encoder.device
        size = _CHUNK["cpu" if device.type == "cpu" else "gpu"]
        chunks = []
        with self.autocast():
            for start in range(0, len(texts), size):
                chunk = features(self.encoder, texts[start : start + size])
                # Dropout is repeated on the device of the tensors that are given here.
                chunks.append(checkpoint(self._read, chunk, use_reentrant=False))
        return torch.cat(chunks).float()

    def _read(self, features):
        """Return the embeddings of a chunk of texts; an encoder adds to the features it gets."""
        return self.encoder(dict(features))["sentence_embedding"]

    def forward(
        self, ideas: Sequence[Idea], wrong: Sequence[Sequence[str]]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return v, v_bar, s and s_bar of ideas with these wrong responses; (B, V, ...) each.

        A distinct text is read once.
        """
        right_texts = []
        wrong_texts = []
        for idea, responses in zip(ideas, wrong):
            for (turns, response), wrong_response in zip(idea.versions, responses):
                right_texts.append(self.text(turns, response))
                wrong_texts.append(self.text(turns, wrong_response))
        all_texts = right_texts + wrong_texts
        texts, position = distinct(all_texts)
        embeddings = self.embeddings(texts)
        index = torch.tensor([position[text] for text in all_texts], device=embeddings.device)
        index = index.reshape(2, len(ideas), -1)
        v, v_bar = embeddings[index]
        s, s_bar = self.head(embeddings).squeeze(-1)[index]
        return v, v_bar, s, s_bar


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
    starts = range(0, len(ideas) - 1, recipe.batch_ideas)
    n_steps = len(starts) * n_epochs
    optimizer = torch.optim.AdamW(parameter_groups(metric))  # pyright: ignore[reportArgumentType]
    warmup_steps = math.ceil(recipe.warmup * n_steps)
    schedule = get_linear_schedule_with_warmup(optimizer, warmup_steps, n_steps)
    losses = []
    for epoch in range(n_epochs):
        draw = random.Random(f"{seed}/{stage}/{epoch}")
        torch.manual_seed(draw.getrandbits(32))
        wrong = wrong_responses(ideas, draw)
        order = draw.sample(range(len(ideas)), len(ideas))
        metric.train()
        for start in starts:
            chosen = order[start : start + recipe.batch_ideas]
            loss = _loss(metric, teacher, [ideas[i] for i in chosen], [wrong[i] for i in chosen])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(metric.parameters(), MAX_NORM)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    metric.eval()
    return losses


def _loss(metric, teacher, ideas, wrong):
    """Return the loss of a batch: Eq. 10 with a teacher, else Eq. 6 or 7."""
    v, v_bar, s, s_bar = metric(ideas, wrong)
    if teacher is not None:
        with torch.no_grad():
            _, _, teacher_s, teacher_s_bar = teacher(ideas, wrong)
        return student(s, s_bar, teacher_s, teacher_s_bar, metric.recipe.alpha).mean()
    loss = right_and_wrong(s, s_bar).sum()
    if metric.recipe.align:
        loss = loss + alignment(v, v_bar, metric.recipe.temperature)
    return loss / len(ideas)


def fit(
    first: Sequence[Idea],
    further: Sequence[Idea],
    recipe: Recipe,
    seed: int = 0,
    encoder: str = "minilm",
) -> tuple[PCAF, PCAF]:
    """Return a teacher trained on ``first``, and a copy of it that is distilled on ``further``.

    Without further ideas the teacher is returned twice.
    """
    teacher = PCAF(encoder, recipe, seed)
    train(teacher, first, seed)
    if not further:
        return teacher, teacher
    student = copy.deepcopy(teacher)
    train(student, further, seed, teacher)
    return teacher, student


def components(metric: PCAF, tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the first two principal components of features, as Figure 2 draws them.

    Parameters
    ----------
    metric : whose features (Eq. 1).
    tables : by language, ``context`` and ``response`` of the same ideas, with the same index.

    Returns
    -------
    A row for each language and idea: ``idea`` (of the index), ``language``, ``first, second``, and
    the shares of the variance that the components have, the same in all rows.
    """
    features = [metric.features(table) for table in tables.values()]
    pca = PCA(n_components=2)
    points = pd.concat(
        [pd.DataFrame({"idea": table.index, "language": name}) for name, table in tables.items()],
        ignore_index=True,
    )
    points[["first", "second"]] = pca.fit_transform(np.concatenate(features))
    points[["share_first", "share_second"]] = pca.explained_variance_ratio_
    return points


def in_all_languages(names: Sequence[str]) -> pd.DataFrame:
    """Return the pairs of rated sets, each with its texts in all languages: so are scores recorded.

    ``context`` has the turns of every language, one after another, and ``response`` the replies, a
    line for each. A recorded row has the scores of all these texts.
    """
    tables = []
    for name in names:
        by_language = list(ratings.translated(name).values())
        contexts = zip(*(table["context"] for table in by_language))
        responses = zip(*(table["response"] for table in by_language))
        # A context begins with the pair's id: equal texts were scored in batches of their own.
        ids = by_language[0]["pair_id"]
        pairs = by_language[0].assign(
            context=[(id, *sum(versions, ())) for id, versions in zip(ids, contexts)],
            response=["\n".join(versions) for versions in responses],
        )
        tables.append(pairs)
    return pd.concat(tables, ignore_index=True)


# Tables 7 and 8 and Figure 2 on DSTC11


class Row(NamedTuple):
    """A row of Table 7 or 8, and what it is trained on: versions, and corpora of distillation."""

    table: str
    name: str
    versions: tuple[str, ...]
    align: bool = True
    further: tuple[str, ...] = ()


#: The corpus of the first stage.
FIRST_CORPUS = "DAILYD"
_ORIGINAL, _PARAPHRASE, _BACK = "en", "paraphrase", "back-translation"
#: The rows of both tables as they are printed. One version has nothing to be aligned with.
ROWS = (
    Row("pcaf_table7", "PCAF", dstc11.LANGUAGES, further=dstc11.TRAINING),
    Row("pcaf_table7", "kd on DailyDialog", dstc11.LANGUAGES, further=(FIRST_CORPUS,)),
    Row("pcaf_table7", "w/o kd", dstc11.LANGUAGES),
    Row("pcaf_table7", "w/o kd & align", dstc11.LANGUAGES, align=False),
    Row("pcaf_table8", "ori", (_ORIGINAL,), align=False),
    Row("pcaf_table8", "para", (_PARAPHRASE,), align=False),
    Row("pcaf_table8", "bt", (_BACK,), align=False),
    Row("pcaf_table8", "ori + para", (_ORIGINAL, _PARAPHRASE)),
    Row("pcaf_table8", "ori + bt", (_ORIGINAL, _BACK)),
    Row("pcaf_table8", "ori + para + bt", (_ORIGINAL, _PARAPHRASE, _BACK)),
    Row("pcaf_table8", "ori + para + kd", (_ORIGINAL, _PARAPHRASE), further=dstc11.TRAINING),
)
#: The versions that each table is tested on, by the columns of the printed table.
TESTED_ON = {
    "pcaf_table7": {"en": "en", "zh": "zh", "es": "es"},
    "pcaf_table8": {"original": _ORIGINAL, "paraphrase": _PARAPHRASE, "back_translation": _BACK},
}
#: How many ideas Figure 2 draws.
_IN_FIGURE = 100


class OnDSTC11:
    """A table for a profile that has ``pcaf``: what it takes of DSTC11's archive, and its training.

    One reply of each training dialogue is drawn; the paper does not say which it takes. Dialogues
    that repeat what people rated are left out.

    Parameters
    ----------
    settings : the profile.
    table : of `TESTED_ON`. Only the files of its versions are opened.

    Raises
    ------
    DreError
        If there are no rated replies, or fewer than two dialogues for the first stage.
    """

    def __init__(self, settings: Profile, table: str):
        assert settings.pcaf is not None, "asked only where the profile has it"
        self.settings = settings.pcaf
        self.encoder = self.settings.english_encoder
        if table == "pcaf_table7":
            self.encoder = self.settings.encoder
        # The MLP keeps our rate, since it starts from random weights.
        self.recipe = Recipe(
            self.settings.epochs, batch_ideas=self.settings.batch_ideas, learning_rate=5e-6
        )
        self.folder = settings.build / "pcaf"
        self.tested_on = TESTED_ON[table]
        self.versions = tuple(self.tested_on.values())

        archive = dstc11.Archive(self.settings.archive)
        names = archive.rated_names()
        self.rated = [archive.rated(name, self.versions) for name in names]
        self.lines = [rated.in_words() for rated in self.rated]
        reserved = [archive.responses(name) for name in names]
        self.drawn = {}
        for corpus in dstc11.TRAINING:
            dialogues = {}
            contexts = []
            for turns in archive.parallel(corpus, "train", self.versions):
                dialogues[turns.uid] = turns
                contexts.append(Context(corpus, turns.uid, "train", turns.versions["en"]))
            clean = without_overlap(contexts, reserved)
            chosen = [dialogues[context.id] for context in clean if len(context.turns) > 1]
            draw = random.Random(f"{settings.seed}/{corpus}")
            draw.shuffle(chosen)
            self.drawn[corpus] = [
                (turns, draw.randrange(1, len(turns.versions["en"]))) for turns in chosen
            ]
            self.lines.append(f"{corpus}: {len(chosen):,} dialogues in {', '.join(self.versions)}")
        self.rated = [rated for rated in self.rated if len(rated.ratings)]
        if not self.rated or len(self.drawn[FIRST_CORPUS]) < 2:
            raise DreError(f"{archive.path} has too little for {table}: {'; '.join(self.lines)}")

    def ideas(self, corpora: Sequence[str], versions: Sequence[str]) -> list[Idea]:
        """Return replies of corpora, at most as many of each as the profile takes."""
        ideas = []
        for corpus in corpora:
            for turns, k in self.drawn[corpus][: self.settings.ideas]:
                spoken = [turns.versions[version] for version in versions]
                ideas.append(Idea(tuple((texts[:k], texts[k]) for texts in spoken)))
        return ideas

    def in_words(self) -> str:
        """Say how much the table is of, for a note below it."""
        n = sum(len(rated.ratings) for rated in self.rated)
        learned = {corpus: drawn[: self.settings.ideas] for corpus, drawn in self.drawn.items()}
        corpora = ", ".join(f"{corpus} ({len(drawn):,})" for corpus, drawn in learned.items())
        return f"{n:,} replies of {len(self.rated)} sets. Dialogues to learn from: {corpora}."

    def make_first_steps(self) -> None:
        """Make a step of both stages with the longest ideas, which take the most memory."""
        ideas = self.ideas([FIRST_CORPUS], self.versions)
        ideas = sorted(ideas, key=lambda idea: len(str(idea.versions)), reverse=True)
        ideas = ideas[: self.recipe.batch_ideas]
        fit(ideas, ideas, replace(self.recipe, epochs=(1, 1)), 0, self.encoder)
        torch.cuda.empty_cache()

    def train(self, row: Row, seed: int) -> dict:
        """Train a row, and return its agreement by column and the points of its teacher.

        They are written into ``build/<profile>/pcaf``, so that a run that was ended goes on with
        the next training. The name of the file is a hash of all that they are made of.
        """
        first = self.ideas([FIRST_CORPUS], row.versions)
        further = self.ideas(row.further, row.versions)
        recipe = replace(self.recipe, align=row.align)
        tested = [
            table.to_csv()
            for rated in self.rated
            for table in (rated.ratings, *rated.versions.values())
        ]
        made_from = repr((recipe, seed, self.encoder, TRAINING, first, further, tested))
        name = hashlib.sha256(made_from.encode()).hexdigest()[:16]
        file = self.folder / f"{name}.json"
        if not file.exists():
            print(f"{row.table}, {row.name}, seed {seed}: {len(first):,} ideas", flush=True)
            teacher, metric = fit(first, further, recipe, seed, self.encoder)
            result = {
                "spearman": {
                    column: np.nanmean([_agreement(metric, rated, version) for rated in self.rated])
                    for column, version in self.tested_on.items()
                },
                "points": points_of_ideas(teacher, first, row.versions).to_dict("list"),
            }
            files.replace(file, json.dumps(result))
        return json.loads(file.read_text(encoding="utf-8"))


def check(settings: Profile) -> list[str]:
    """Read all that the trainings need, and make the first steps with each encoder.

    So the archive, an encoder or the memory fails here, and not when judges have been paid.

    Returns
    -------
    A line for each rated set and each training corpus of a table.
    """
    lines = []
    for table in TESTED_ON:
        on_dstc11 = OnDSTC11(settings, table)
        on_dstc11.make_first_steps()
        lines += on_dstc11.lines
    return lines


class Trained(NamedTuple):
    """Tables 7 and 8, and Figure 2.

    Attributes
    ----------
    agreement : a row for each row of both tables, each seed and each version that it was tested on:
        ``table``, ``row``, ``seed``, ``tested`` (the column of the printed table) and ``spearman``:
        the mean over the qualities of a set, and then over sets, in [-1, 1].
    points : what `components` returns of ideas of DailyDialog, by the row whose teacher made the
        features (first seed), and of Table 7's encoder ``untrained``.
    notes : by table, how much it is of.
    """

    agreement: pd.DataFrame
    points: dict[str, pd.DataFrame]
    notes: dict[str, str]


def train_tables(settings: Profile) -> Trained:
    """Train all rows of both tables, for a profile that has ``pcaf``, or read what was trained."""
    tables = {table: OnDSTC11(settings, table) for table in TESTED_ON}
    multilingual = tables["pcaf_table7"]
    ideas = multilingual.ideas([FIRST_CORPUS], dstc11.LANGUAGES)
    untrained = PCAF(multilingual.encoder, multilingual.recipe)
    points = {"untrained": points_of_ideas(untrained, ideas, dstc11.LANGUAGES)}
    cells = []
    for seed, row in itertools.product(settings.seeds, ROWS):
        result = tables[row.table].train(row, seed)
        if row.name not in points:
            points[row.name] = pd.DataFrame(result["points"])
        for column, value in result["spearman"].items():
            cells.append((row.table, row.name, seed, column, value))
    columns = ["table", "row", "seed", "tested", "spearman"]
    notes = {table: on_dstc11.in_words() for table, on_dstc11 in tables.items()}
    return Trained(pd.DataFrame(cells, columns=columns), points, notes)


def points_of_ideas(metric: PCAF, ideas: Sequence[Idea], versions: Sequence[str]) -> pd.DataFrame:
    """Return the `components` of the first ideas in some versions."""
    tables = {}
    for k, version in enumerate(versions):
        rows = [idea.versions[k] for idea in ideas[:_IN_FIGURE]]
        tables[version] = pd.DataFrame(rows, columns=["context", "response"])
    return components(metric, tables)


def _agreement(metric, rated, version):
    """Return the mean Spearman correlation of a metric with the qualities of a set."""
    scores = pd.Series(metric.score(rated.versions[version]))
    return rated.ratings.corrwith(scores, method="spearman").mean()


def beside_print(agreement: pd.DataFrame, table: str, root: Path) -> pd.DataFrame:
    """Return one of the tables beside the printed one, in percent as it is printed.

    Parameters
    ----------
    agreement : that of `train_tables`.
    table : ``pcaf_table7`` or ``pcaf_table8``.
    root : the project's folder.

    Returns
    -------
    A row for each printed row: its name and, for each column, ours (mean of seeds), ``<column>_sd``
    over seeds, NaN if there is one, and ``<column>_printed``. Table 7 has a column ``mean``.
    """
    printed = pd.read_csv(root / "data/paper" / f"{table}.csv", index_col=0)
    cells = agreement[agreement["table"] == table]
    ours = 100 * cells.pivot(index=["row", "seed"], columns="tested", values="spearman")
    ours["mean"] = ours.mean(axis=1)
    by_row = ours.groupby("row")
    beside = pd.DataFrame({"row": printed.index}, index=printed.index)
    for column in printed.columns.intersection(ours.columns):
        beside[column] = by_row[column].mean()
        beside[f"{column}_sd"] = by_row[column].std()
        beside[f"{column}_printed"] = printed[column]
    return beside.reset_index(drop=True)
