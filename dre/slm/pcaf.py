"""PCAF (Wang et al., DSTC11): a metric that gives one idea one score, in whatever wording or language; its Eq. 1-10.

An idea is a context with a response, in V parallel versions (translations, paraphrases). Of B ideas, ``v, v_bar``
(B, V, d) are the representations of right and wrong responses, ``s, s_bar`` (B, V) their scores.

It differs from print where nothing hangs on it or two cores do not do more: the encoder's mean over tokens for XLM-R's
pooled output (Eq. 1), AdamW with a rate of its own for the MLP and a warm-up for Adam (`Recipe`).
"""

import copy
import json
import math
import random
from dataclasses import asdict, dataclass, replace

import pandas as pd
import torch
import torch.nn.functional as F
from torch import nn
from transformers import get_linear_schedule_with_warmup

from dre.errors import DreError
from dre.slm.data import TRAINING, default
from dre.slm.model import Reader, context_text, keep_end, load_encoder, native_bf16
from dre.slm.train import MAX_NORM, distinct, embed, groups


@dataclass(frozen=True)
class Idea:
    """A dialogue in parallel versions, each (turns, response); ``wrong``: a wrong response for each, where there is."""

    versions: tuple
    wrong: tuple = ()


@dataclass(frozen=True)
class Recipe:
    """Choices of a training. In print: 10 and 10 epochs, batches of 32, Adam at 5e-6 throughout, XLM-R-Large."""

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


#: of the trainings of Table 7 that experiments/pcaf.py records: half of the tokens, a third of the time
TABLE7 = Recipe(max_seq_length=64)
VARIANTS = {"align": TABLE7, "align-distil": TABLE7}
VARIANTS |= dict.fromkeys(("plain", "distil"), replace(TABLE7, align=False))
#: what the recorded scores of the parallel corpus are made of, ``pcaf-parallel.npz``
PARALLEL = {name: asdict(Recipe(align=align)) for name, align in {"PCAF": True, "PCAF, not aligned": False}.items()}
PARALLEL |= {"SLM graded, aligned": {"epochs": 2, "batch": 8, "rate": 5e-4}, "training": TRAINING, "of": default()}


def recorded(folder, variant, seed):
    """Return the scores of one of `VARIANTS` that are recorded in a folder, and what made them, a dict.

    The table has a column for each language, by ``pair_id``. DreError if another recipe made them.
    """
    path = folder / f"pcaf-{variant}-seed{seed}.json"
    about = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    asked = {"recipe": json.loads(json.dumps(asdict(VARIANTS[variant]))), "seed": seed, "training": TRAINING}
    if differ := [key for key in asked if about.get(key) != asked[key]]:
        wrong = f"are of another training, with other {', '.join(differ)}" if about else "are missing"
        raise DreError(f"recorded scores of {path.stem} {wrong}: python experiments/pcaf.py records them")
    return pd.read_csv(path.with_suffix(".csv.gz")).set_index("pair_id"), about


def similarity_all(v, v_bar, temperature=0.05):
    """S_all, Eq. 3: exp(cos / tau) of every version of idea i with every one of a later idea m; -> scalar.

    As printed: right with right, wrong with wrong, and wrong (of i) with right (of m), but not right with wrong.
    """
    flat = [F.normalize(each, dim=-1).flatten(0, 1) for each in (v, v_bar)]
    idea = torch.arange(len(v), device=v.device).repeat_interleave(v.shape[1])
    later = idea[:, None] < idea[None, :]
    right, wrong = flat
    return sum(
        torch.exp(a @ b.T / temperature)[later].sum() for a, b in ((right, right), (wrong, right), (wrong, wrong))
    )


def similarity_within(v, temperature=0.05):
    """S_P, Eq. 4: exp(cos / tau) summed over the pairs of versions of each idea; (B, V, d) -> (B,)."""
    v = F.normalize(v, dim=-1)
    j, k = torch.triu_indices(v.shape[1], v.shape[1], offset=1, device=v.device)
    return torch.exp((v[:, j] * v[:, k]).sum(dim=-1) / temperature).sum(dim=1)


def alignment(v, v_bar, temperature=0.05):
    """l_align, Eq. 5: -sum over ideas of log(S_P / S_all); needs two ideas and two versions. It can be negative."""
    return -torch.log(similarity_within(v, temperature) / similarity_all(v, v_bar, temperature)).sum()


def right_and_wrong(s, s_bar):
    """(1 - s)^2 + s_bar^2, the term that Eq. 6 (l_mse) sums over ideas and versions, and Eq. 8; any shape, kept."""
    return (1 - s) ** 2 + s_bar**2


def distillation(s, s_bar, teacher, teacher_bar):
    """l_kd, Eq. 9: the teacher's scores, and its mean over the versions of an idea, as targets; (B, V) x 4 -> (B, V).

    The mean's sum runs over k, its term is printed s_ti: read as s_tk.
    """
    mean = teacher.mean(dim=-1, keepdim=True)
    return (teacher - s) ** 2 + (teacher_bar - s_bar) ** 2 + (mean - s) ** 2


def student(s, s_bar, teacher, teacher_bar, alpha=0.2):
    """L_GEN_KD, Eq. 10: the mean over versions of alpha Eq. 8 + (1 - alpha) Eq. 9; (B, V) x 4 -> (B,)."""
    soft = distillation(s, s_bar, teacher, teacher_bar)
    return (alpha * right_and_wrong(s, s_bar) + (1 - alpha) * soft).mean(dim=-1)


class PCAF:
    """An encoder over context and response together (Eq. 1) with a three-layer MLP (Eq. 2); scores about 0 to 1."""

    def __init__(self, encoder, recipe=None):
        self.encoder, self.recipe, d = encoder, recipe or Recipe(), encoder.get_embedding_dimension()
        layers = (nn.Linear(d, d), nn.GELU(), nn.Linear(d, d // 2), nn.GELU(), nn.Linear(d // 2, 1))
        self.head = nn.Sequential(*layers).to(encoder.device)

    @classmethod
    def untrained(cls, encoder="minilm", recipe=None, seed=0):
        """Return a metric before training; ``encoder`` as for `dre.slm.model.load_encoder`, in print XLM-RoBERTa."""
        torch.manual_seed(seed)
        recipe = recipe or Recipe()
        return cls(load_encoder(encoder, recipe.max_seq_length), recipe)

    def text(self, turns, response):
        """Return the one text that is read: turns and response, joined; the end of it where it is too long."""
        tokenizer = self.encoder.tokenizer
        text = context_text((*turns, response), tokenizer.sep_token or "\n")
        return keep_end(text, tokenizer, self.encoder.max_seq_length)

    @torch.no_grad()
    def features(self, pairs):
        """Return v_r of Eq. 1 for a table with ``context`` (turns) and ``response``: (n, d), float32, on the CPU."""
        texts = [self.text(*each) for each in zip(pairs["context"], pairs["response"])]
        with torch.autocast(self.encoder.device.type, torch.bfloat16, enabled=native_bf16()):
            return Reader(self.encoder)(texts).cpu()

    @torch.no_grad()
    def score(self, pairs):
        """Return s of Eq. 2 for the rows of a table, (n,); trained towards 1 (right) and 0 (wrong), not bounded."""
        self.head.eval()
        return self.head(self.features(pairs).to(self.encoder.device)).squeeze(-1).cpu().numpy()

    def batch(self, ideas, wrong):
        """Return v, v_bar, s, s_bar of ideas with these wrong responses, (B, V) each; a distinct text is read once."""
        right = [[self.text(*version) for version in idea.versions] for idea in ideas]
        other = [[self.text(turns, r) for (turns, _), r in zip(idea.versions, rs)] for idea, rs in zip(ideas, wrong)]
        texts, place = distinct(text for rows in (right, other) for row in rows for text in row)
        index = torch.tensor([[[place[text] for text in row] for row in rows] for rows in (right, other)])
        with torch.autocast(self.encoder.device.type, torch.bfloat16, enabled=native_bf16()):
            h = embed(self.encoder, texts)
        h = h.float()
        v, s = h[index.to(h.device)], self.head(h).squeeze(-1)[index.to(h.device)]
        return v[0], v[1], s[0], s[1]


def exchanged(ideas, draw):
    """Return for each idea its wrong responses; where it has none, the right ones of another idea, in all versions."""
    order = draw.sample(range(len(ideas)), len(ideas))
    after = {i: order[(place + 1) % len(order)] for place, i in enumerate(order)}
    return [idea.wrong or tuple(r for _, r in ideas[after[i]].versions) for i, idea in enumerate(ideas)]


def train(metric, ideas, seed, teacher=None):
    """Train through one stage: alignment (Eq. 7) or, with a ``teacher``, distillation (Eq. 10); return losses by step.

    Eq. 5-7 are sums over ideas; a step takes their mean, which scales them. Wrong responses are drawn for every epoch.
    """
    recipe, stage = metric.recipe, 0 if teacher is None else 1
    steps, found = max(math.ceil((len(ideas) - 1) / recipe.batch_ideas), 1) * recipe.epochs[stage], []
    optimizer = torch.optim.AdamW(groups(metric))
    schedule = get_linear_schedule_with_warmup(optimizer, math.ceil(recipe.warmup * steps), steps)
    for epoch in range(recipe.epochs[stage]):
        draw = random.Random(f"{seed}/{stage}/{epoch}")
        torch.manual_seed(draw.getrandbits(32))
        wrong, order = exchanged(ideas, draw), draw.sample(range(len(ideas)), len(ideas))
        metric.encoder.train(), metric.head.train()
        for start in range(0, len(order) - 1, recipe.batch_ideas):  # Eq. 3 needs a second idea: no batch has one
            places = order[start : start + recipe.batch_ideas]
            loss = _loss(metric, teacher, [ideas[i] for i in places], [wrong[i] for i in places])
            loss.backward()
            torch.nn.utils.clip_grad_norm_([*metric.encoder.parameters(), *metric.head.parameters()], MAX_NORM)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            found.append(loss.item())
    metric.encoder.eval(), metric.head.eval()
    return found


def _loss(metric, teacher, ideas, wrong):
    v, v_bar, s, s_bar = metric.batch(ideas, wrong)
    if teacher is not None:
        with torch.no_grad():
            _, _, *targets = teacher.batch(ideas, wrong)
        return student(s, s_bar, *targets, metric.recipe.alpha).mean()
    loss = right_and_wrong(s, s_bar).sum()
    if metric.recipe.align:
        loss = loss + alignment(v, v_bar, metric.recipe.temperature)
    return loss / len(ideas)


def fit(first, more, recipe=None, seed=0, encoder="minilm"):
    """Return (teacher, student): trained on ideas ``first``, then a copy of it distilled on ``more``."""
    teacher = PCAF.untrained(encoder, recipe, seed)
    train(teacher, first, seed)
    student = copy.deepcopy(teacher)
    train(student, more, seed, teacher)
    return teacher, student
