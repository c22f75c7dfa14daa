"""The longer trainings of notebook 10: PCAF's Table 7 and Figure 2 at the size of what is public, and steadier scores.

Table 7, in English, Spanish and Chinese. First stage: DailyDialog-Gupta and DailyDialog-GRADE; distillation: these and
Empathetic-GRADE. The response of each context that people rated highest is the right one, that of another context, in
all versions, the wrong one; contexts that share an utterance with a test set are left out. Tested by language on
DailyDialog-Zhao, PersonaChat-USR and FED turns. All of this was fixed before the first test.

Steadier scores: PCAF's first stage on the embedded parallel corpus, with and without alignment, and recipe graded
trained on so that versions of a dialogue are told alike; what these say of the corpus's test pairs.

It differs from print where nothing hangs on it or two cores do not do more: the encoder's mean over tokens for XLM-R's
pooled output (Eq. 1), AdamW with a rate of its own for the MLP and a warm-up for Adam (`dre.slm.pcaf.Recipe`).

Run ``python experiments/pcaf.py [profile]``: ``public`` (default; MiniLM, 17 minutes of one core a seed) or ``full``
(XLM-RoBERTa-base, of the paper's kind, from the Hub; a GPU). It writes ``pcaf-<variant>-seed<k>`` (``pair_id`` and a
score for each language, four digits) and ``pcaf-ranks-<variant>`` (`ranks`) into results/<profile>/scores, and
``pcaf-parallel.npz`` into those of ``public``, whatever the profile: it is of the embedded corpus and MiniLM. What the
same recipe recorded there is not done twice.
"""

import argparse
import copy
import hashlib
import itertools
import json
import math
import random
import time
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import nn
from transformers import get_linear_schedule_with_warmup

from dre.datasets import ratings
from dre.datasets.dialogues import Context, pairs, parallel
from dre.datasets.overlap import without_overlap
from dre.errors import DreError
from dre.paper.profile import profile
from dre.slm import SLM, arrays, pcaf
from dre.slm.encoder import Reader, context_text, keep_end, load_encoder, native_bf16
from dre.slm.provenance import TRAINING
from dre.slm.recorded_scores import load_or_train, record_arrays
from dre.slm.train import MAX_NORM, parameter_groups
from dre.slm.triplets import distinct, embed

FIRST, MORE = ("dailydialog-gupta", "dailydialog-grade"), ("empathetic-grade",)
TESTS = ("dailydialog-zhao", "personachat-usr", "fed-turn")
ENCODERS = {"public": "minilm", "full": "xlm-roberta-base"}
SEEDS = (0, 1, 2)
STAGES = {
    True: ("align", "align-distil"),
    False: ("plain", "distil"),
}  # of a training with alignment, and without


@dataclass(frozen=True)
class Idea:
    """A dialogue in parallel versions, each (turns, response); ``wrong``: a wrong response for each, where there is."""

    versions: tuple
    wrong: tuple = ()


class PCAF:
    """An encoder over context and response together (Eq. 1) with a three-layer MLP (Eq. 2); scores about 0 to 1."""

    def __init__(self, encoder, recipe=None):
        self.encoder, self.recipe, d = (
            encoder,
            recipe or pcaf.Recipe(),
            encoder.get_embedding_dimension(),
        )
        layers = (nn.Linear(d, d), nn.GELU(), nn.Linear(d, d // 2), nn.GELU(), nn.Linear(d // 2, 1))
        self.head = nn.Sequential(*layers).to(encoder.device)

    @classmethod
    def untrained(cls, encoder="minilm", recipe=None, seed=0):
        """Return a metric before training; ``encoder`` as for `load_encoder`, in print XLM-RoBERTa."""
        torch.manual_seed(seed)
        recipe = recipe or pcaf.Recipe()
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
        other = [
            [self.text(turns, r) for (turns, _), r in zip(idea.versions, rs)]
            for idea, rs in zip(ideas, wrong)
        ]
        texts, place = distinct(text for rows in (right, other) for row in rows for text in row)
        index = torch.tensor(
            [[[place[text] for text in row] for row in rows] for rows in (right, other)]
        )
        with torch.autocast(self.encoder.device.type, torch.bfloat16, enabled=native_bf16()):
            h = embed(self.encoder, texts)
        h = h.float()
        v, s = h[index.to(h.device)], self.head(h).squeeze(-1)[index.to(h.device)]
        return v[0], v[1], s[0], s[1]


def exchanged(ideas, draw):
    """Return for each idea its wrong responses; where it has none, the right ones of another idea, in all versions."""
    order = draw.sample(range(len(ideas)), len(ideas))
    after = {i: order[(place + 1) % len(order)] for place, i in enumerate(order)}
    return [
        idea.wrong or tuple(r for _, r in ideas[after[i]].versions) for i, idea in enumerate(ideas)
    ]


def train(metric, ideas, seed, teacher=None):
    """Train through one stage: alignment (Eq. 7) or, with a ``teacher``, distillation (Eq. 10); return losses by step.

    Eq. 5-7 are sums over ideas; a step takes their mean, which scales them. Wrong responses are drawn for every epoch.
    """
    recipe, stage = metric.recipe, 0 if teacher is None else 1
    steps, found = (
        max(math.ceil((len(ideas) - 1) / recipe.batch_ideas), 1) * recipe.epochs[stage],
        [],
    )
    optimizer = torch.optim.AdamW(parameter_groups(metric))
    schedule = get_linear_schedule_with_warmup(optimizer, math.ceil(recipe.warmup * steps), steps)
    for epoch in range(recipe.epochs[stage]):
        draw = random.Random(f"{seed}/{stage}/{epoch}")
        torch.manual_seed(draw.getrandbits(32))
        wrong, order = exchanged(ideas, draw), draw.sample(range(len(ideas)), len(ideas))
        metric.encoder.train(), metric.head.train()
        for start in range(
            0, len(order) - 1, recipe.batch_ideas
        ):  # Eq. 3 needs a second idea: no batch has one
            places = order[start : start + recipe.batch_ideas]
            loss = _loss(metric, teacher, [ideas[i] for i in places], [wrong[i] for i in places])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(
                [*metric.encoder.parameters(), *metric.head.parameters()], MAX_NORM
            )
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
        return pcaf.student(s, s_bar, *targets, metric.recipe.alpha).mean()
    loss = pcaf.right_and_wrong(s, s_bar).sum()
    if metric.recipe.align:
        loss = loss + pcaf.alignment(v, v_bar, metric.recipe.temperature)
    return loss / len(ideas)


def fit(first, more, recipe=None, seed=0, encoder="minilm"):
    """Return (teacher, student): trained on ideas ``first``, then a copy of it distilled on ``more``."""
    teacher = PCAF.untrained(encoder, recipe, seed)
    train(teacher, first, seed)
    student = copy.deepcopy(teacher)
    train(student, more, seed, teacher)
    return teacher, student


def ideas(name):
    """The highest-rated response of every context of a set, in all languages; (ideas, contexts left out)."""
    tables = ratings.translated(name)
    best = tables["en"].groupby("context_id", sort=False)["human"].idxmax()
    contexts = [Context(name, str(i), "train", tables["en"]["context"][i]) for i in best]
    kept = [int(context.id) for context in without_overlap(contexts, ratings.rated_tables(TESTS))]
    found = [
        tuple((table["context"][i], table["response"][i]) for table in tables.values())
        for i in kept
    ]
    return [Idea(versions) for versions in found], len(best) - len(kept)


def tests():
    """The rated responses of all test sets, by language."""
    found = [ratings.translated(name) for name in TESTS]
    return {
        language: pd.concat([one[language] for one in found], ignore_index=True)
        for language in ratings.LANGUAGES
    }


def neighbours(features):
    """Of versions (languages, n, d): how often an idea's nearest one in another language is itself, and cosines."""
    v = F.normalize(features, dim=-1)
    cosines = [v[i] @ v[j].T for i in range(len(v)) for j in range(len(v)) if i != j]
    own = torch.stack([each.diag() for each in cosines])
    other = torch.stack(
        [(each.sum() - each.trace()) / (each.numel() - len(each)) for each in cosines]
    )
    right = torch.stack([each.argmax(dim=1) == torch.arange(len(each)) for each in cosines])
    parts = {"nearest_is_same_idea": right, "cosine_same_idea": own, "cosine_other_idea": other}
    return {name: round(part.float().mean().item(), 4) for name, part in parts.items()}


def ranks(features, ids):
    """Which neighbour an idea is of itself in another language, 1 the nearest: a row for each two of them.

    ``features`` are those of versions, (languages, n, d), ``ids`` (n,) of the ideas.
    """
    v, codes, parts = F.normalize(features, dim=-1), list(ratings.LANGUAGES), []
    for i, j in itertools.permutations(range(len(v)), 2):
        cosines = v[i] @ v[j].T
        nearer = (cosines > cosines.diag()[:, None]).sum(dim=1).numpy()
        part = {"idea": ids, "language": codes[i], "other": codes[j], "rank": 1 + nearer}
        parts.append(pd.DataFrame(part))
    return pd.concat(parts)


def write(table, folder, name, about=None):
    """Write ids and numbers, four digits, the same bytes for the same numbers; what made them beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.csv.gz"
    table.to_csv(path, index=False, float_format="%.4g", compression={"method": "gzip", "mtime": 0})
    if about:
        path.with_name(f"{name}.json").write_text(
            json.dumps(about, indent=1, sort_keys=True) + "\n", encoding="utf-8"
        )


def parallel_ideas():
    """One idea for each training context of the parallel corpus: its first positive, and its first adversarial."""
    return [
        Idea(tuple((c.turns, c.positives[0]) for c in each), tuple(c.adversarials[0] for c in each))
        for each in zip(*parallel("train").values())
    ]


def aligned(slm, ideas, seed, epochs, batch, rate):
    """Return a copy of an SLM of recipe ``graded``, trained on so that versions are told alike: does that steady it?

    Eq. 5 pulls the versions of a context with its reply together, [h_c; h_r] as representation; the squared distance of
    each version's s_d (by the adapted encoder's likeness) to that of the original, as given before, stands for Eq. 9
    (whose target is the mean). Fit, quality, and likeness in the encoder as it was, have no part in the loss.
    """
    student = copy.deepcopy(slm)
    student.recipe = pcaf.Recipe(learning_rate=rate, head_learning_rate=rate)
    student.learns(("encoder",))
    optimizer = torch.optim.AdamW(parameter_groups(student))
    for epoch in range(epochs):
        draw = random.Random(f"{seed}/{epoch}")
        order = draw.sample(ideas, len(ideas))
        student.encoder.train(), student.head.eval()
        for start in range(0, len(order) - 1, batch):
            some = order[start : start + batch]
            with torch.no_grad():
                _, target = read(slm, [Idea(idea.versions[:1], idea.wrong[:1]) for idea in some])
            h, s_d = read(student, some)
            loss = pcaf.alignment(*h) / len(some) + ((s_d - target) ** 2).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(student.encoder.parameters(), MAX_NORM)
            optimizer.step()
            optimizer.zero_grad()
    student.encoder.eval()
    student.recipe = slm.recipe
    return student


def read(slm, some):
    """Return ([h_c; h_r], s_d) of ideas, right and wrong responses first: (2, B, V, 2 d) and (2, B, V)."""
    rows = [
        [(slm.context(turns), slm.context(turns[-1:]), r) for turns, r in idea.versions]
        for idea in some
    ]
    wrong = [
        [(*views, r) for (*views, _), r in zip(row, idea.wrong)] for row, idea in zip(rows, some)
    ]
    texts, place = distinct(
        text for each in (rows, wrong) for row in each for views in row for text in views
    )
    index = torch.tensor(
        [[[[place[t] for t in views] for views in row] for row in each] for each in (rows, wrong)]
    )
    with torch.autocast(slm.encoder.device.type, torch.bfloat16, enabled=native_bf16()):
        h = embed(slm.encoder, texts)
    h = h.float()[index].movedim(-2, 0)  # whole context, last turn, response
    low, high = slm.provenance["d_min"], slm.provenance["d_max"]
    s_d = (1 - slm.head.likeness(h.flatten(1, 3)).view(h.shape[1:4]) - low) / (high - low)
    return torch.cat([F.normalize(h[0], dim=-1), F.normalize(h[2], dim=-1)], dim=-1), s_d


def parallel_scores():
    """Scores of the test pairs of the parallel corpus, version after version, by three models trained on its others."""
    table = pd.concat(map(pairs, parallel("test").values()), ignore_index=True)
    ideas, slm = parallel_ideas(), "SLM graded, aligned"
    graded = load_or_train(profile("public"), "dailydialog", "graded", 0)
    found = {slm: aligned(graded, ideas, 0, **pcaf.PARALLEL[slm]).score(table)["score_slm"]}
    for name in ("PCAF", "PCAF, not aligned"):
        metric = PCAF.untrained("minilm", pcaf.Recipe(**pcaf.PARALLEL[name]))
        train(metric, ideas, 0)
        found[name] = metric.score(table)
    return {name: np.asarray(score, np.float32) for name, score in found.items()}


def known(read, *asked):
    """Whether the same recipe has been recorded."""
    try:
        return read(*asked) is not None
    except DreError:
        return False


def main():
    """Train, score, write; print what it cost."""
    parser = argparse.ArgumentParser(description="the longer trainings of notebook 10")
    parser.add_argument("profile", nargs="?", default="public", choices=ENCODERS)
    settings = profile(parser.parse_args().profile)
    folder, encoder = settings.results / "scores", ENCODERS[settings.name]
    public = profile("public")
    if not known(arrays, public, "pcaf-parallel", pcaf.PARALLEL):
        record_arrays(
            public.results / "scores" / "pcaf-parallel.npz", pcaf.PARALLEL, parallel_scores()
        )
    (one, out_one), (two, out_two), (three, out_three) = map(ideas, FIRST + MORE)
    first, more, tables = [*one, *two], [*one, *two, *three], tests()
    print(
        f"{len(first)} and {len(more)} ideas; left out for the test sets: {out_one}, {out_two}, {out_three}"
    )
    shown = tables["en"].drop_duplicates("context_id")
    shown = shown[(shown["set"] == "dailydialog-zhao") & shown["reference"].notna()].index
    digest = hashlib.sha256(
        json.dumps([idea.versions for idea in more], ensure_ascii=False).encode()
    ).hexdigest()
    ids = tables["en"][["pair_id"]]

    def drawn(metric):
        return torch.stack([metric.features(table.loc[shown]) for table in tables.values()])

    if not (folder / "pcaf-cosine.json").exists():
        cosines = {
            code: 1 - SLM.untrained(encoder).distances(table)["distance"]
            for code, table in tables.items()
        }
        features = drawn(PCAF.untrained(encoder, pcaf.TABLE7))
        write(ids.assign(**cosines), folder, "pcaf-cosine", neighbours(features))
        write(ranks(features, shown), folder, "pcaf-ranks-untrained")
    for seed in SEEDS:
        for align, names in STAGES.items():
            if all(known(pcaf.recorded, folder, name, seed) for name in names):
                continue
            spent, recipe = time.process_time(), pcaf.VARIANTS[names[0]]
            about = {
                "recipe": asdict(recipe),
                "seed": seed,
                "encoder": encoder,
                "ideas": [len(first), len(more)],
            }
            about |= {
                "ideas_hash": digest,
                "torch": torch.__version__,
                "threads": torch.get_num_threads(),
            }
            about |= {"training": TRAINING}
            for name, metric in zip(names, fit(first, more, recipe, seed, encoder)):
                features = drawn(metric)
                scores = {code: metric.score(table) for code, table in tables.items()}
                about |= neighbours(features) | {"cpu_seconds": round(time.process_time() - spent)}
                write(ids.assign(**scores), folder, f"pcaf-{name}-seed{seed}", about)
                if seed == 0 and name in ("align", "plain"):
                    write(ranks(features, shown), folder, f"pcaf-ranks-{name}")
            print(
                f"seed {seed}, alignment {align}: {time.process_time() - spent:.0f} s of CPU",
                flush=True,
            )


if __name__ == "__main__":
    main()
