"""Choose the small model that comes with the package, by a rule that sees no human rating.

The rule, fixed on 23 November 2026, before the first of these trainings. Six measures, each a share of pairs in the
right order (ties half), in percent:

``grades``       held-out grades of replies that people wrote (reference, retrieved, random): two of one context, at
                 least half a point apart
``adversarial``  right and adversarial responses of held-out labelled contexts of three sets
``random``       the same with random ones, of DailyDialog++
``exchanged``    right responses in their own held-out context and in another one
``audit``        mean of the kinds that a choice may use (`dre.audit.kinds.KINDS`) on held-out contexts
``corpus``       right and adversarial responses of the embedded corpus, which no variant learns from

A variant's value is the mean of the six, mean over its seeds. Only those count that prefer the good reply to each of
the audit's kinds in at least 75 %. The highest value is taken; where it leads a cheaper variant (seconds of one core
for 1,000 pairs) by less than half a point, that one; and where it leads today's default by less than one point, the
default stays. No rated set is read but by `dre.ratings.held_out`, which gives their texts, to be kept out of training.

What the variants are made of was known from earlier looks at the seven rated sets: that a likeness to the dialogue,
grades and contrast help there. So what those sets say of the winner is not untouched; three of the six measures
(``exchanged``, ``audit``, ``corpus``) never took part in a choice before.

``graded``  recipe ``graded`` on more labelled contexts (both requests), with copies of the context among the
            adversarial responses: a turn, a turn with words left out, shuffled words
``cross``   a cross-encoder: context and response read together, by MiniLM adapted by low-rank matrices, which learned
            from the same what fits and what a judge would give

A variant has several readings, of its parts alone or of the mean of parts standardised on the graded training pairs.

Run ``python experiments/small_model.py [--only TEXT ...]``: it trains what has no result yet and writes
results/choices/small_model/<variant>-seed<k>.json, one for each training; models stay in build/small_model.
"""

import argparse
import copy
import dataclasses
import json
import random
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from torch import nn
from transformers import get_linear_schedule_with_warmup

from dre import audit, ratings
from dre.audit import kinds
from dre.dialogues import load, pairs
from dre.profile import profile
from dre.report import replace
from dre.slm import SLM, contexts, extra, fit, recipes
from dre.slm.data import DEFAULT
from dre.slm.encoder import load_encoder, native_bf16
from dre.slm.heads import GAP, LowRank, grade_loss

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "results" / "choices" / "small_model"
LEAST = 75  # percent, of each of the audit's kinds
SETS = {  # domain -> splits of its set that are learned from
    "dailydialog": "dev+adversarials only",
    "personachat": "train+paper+balanced",
    "topicalchat": "train+paper+balanced",
}
PEOPLE = ("reference", "retrieved", "random")  # kinds of graded replies that people wrote


def data():
    """Return (labelled, held out, further): contexts to learn from and not to; dialogues and grades to learn from."""
    settings = profile("public")
    labelled, held_out = [], []
    for entry in settings.sets:
        entry = entry.model_copy(update={"train": (entry.train[0], SETS[entry.key]), "further": None})
        train, dev, _ = contexts(entry, settings.rated, version=2)
        labelled += train
        held_out += dev
    return labelled, held_out, extra(settings, held_out, version=2)


class Rule:
    """The six measures of what gives pairs a score."""

    def __init__(self, held_out):
        grades = ratings.graded()
        grades = grades[grades["for_choice"] & grades["kind"].isin(PEOPLE)]
        labelled = pairs(held_out, "par").drop_duplicates("pair_id")
        positives = labelled[labelled["kind"] == "p"].reset_index(drop=True)
        good = positives.drop_duplicates("context_id")[["context_id", "context", "response"]]
        cases = [case for case in kinds.made(good) + kinds.graded() if "choose" in kinds.KINDS[case[0]].use]
        self.cases, audited = kinds.tables(cases)
        self.tables = {
            "grades": grades.assign(pair_id=[f"grade/{i}" for i in range(len(grades))]),
            "labelled": labelled,
            "exchanged": audit.exchange(positives, 1),
            "audit": audited,
            "corpus": pairs(load("mini", "test"), "pa"),
        }

    def measure(self, score):
        """Return the six measures, their mean as ``value`` and each of the audit's kinds; ``score``: pairs -> (n,)."""
        said = {name: np.asarray(score(table), float) for name, table in self.tables.items()}
        labelled, corpus = self.tables["labelled"], self.tables["corpus"]
        own = dict(zip(labelled["pair_id"], said["labelled"]))
        before = self.tables["exchanged"]["pair_id"].str.partition("|")[0].map(own)
        of = audit.preferred(self.cases, pd.Series(said["audit"], self.tables["audit"]["pair_id"]))
        found = {
            "grades": ordered(said["grades"], self.tables["grades"]),
            "adversarial": within(labelled, said["labelled"], "a"),
            "random": within(labelled, said["labelled"], "r"),
            "exchanged": 100 * audit.falls(before, said["exchanged"]).mean(),
            "audit": of["share"].mean(),
            "corpus": within(corpus, said["corpus"], "a"),
        }
        return found | {"value": np.mean(list(found.values())), "kinds": dict(zip(of["kind"], of["share"]))}


def ordered(found, table):
    """Share of pairs of one context, at least `GAP` apart in grade, that are in the right order, in percent."""
    right = []
    for rows in table.reset_index(drop=True).groupby("context_id").groups.values():
        score, grade = found[rows], table["score"].to_numpy()[rows]
        better = grade[:, None] - grade >= GAP
        right.append(((1 + np.sign(score[:, None] - score)) / 2)[better])
    return 100 * np.concatenate(right).mean()


def within(table, found, kind):
    """Share of pairs of a right response and one of a kind, of the same context, in the right order, in percent."""
    shares = []
    for rows in table.reset_index(drop=True).groupby("context_id").groups.values():
        kinds_of = table["kind"].to_numpy()[rows]
        if kind in kinds_of:
            some = np.isin(kinds_of, ["p", kind])
            shares.append(roc_auc_score(kinds_of[some] == "p", found[rows][some]))
    return 100 * np.mean(shares)


def choose(found, default):
    """Return the name of the variant that the rule takes.

    ``found``: name -> (measures of each seed, seconds for 1,000 pairs); ``default``: the measures of today's.
    """
    means = {name: np.mean([one["value"] for one in seeds]) for name, (seeds, _) in found.items()}
    least = {
        name: min(np.mean([one["kinds"][kind] for one in seeds]) for kind in seeds[0]["kinds"])
        for name, (seeds, _) in found.items()
    }
    left = [name for name in found if least[name] >= LEAST]
    if not left or max(means[name] for name in left) - default["value"] < 1:
        return "default"
    best = max(means[name] for name in left)
    return min((name for name in left if best - means[name] < 0.5), key=lambda name: found[name][1])


class Cross(nn.Module):
    """A cross-encoder: context and response read together, by an encoder that low-rank matrices adapt.

    Two answers to a pair: does the response fit (a logit), and how good is it (a logit of the grade over 5).
    """

    def __init__(self, encoder="minilm", rank=32, length=128):
        super().__init__()
        base = load_encoder(encoder, length)
        self.tokenizer, self.length = base.tokenizer, length
        self.tokenizer.truncation_side = "left"  # the end of a dialogue matters most
        self.model = copy.deepcopy(base[0].model).requires_grad_(False)
        layers = getattr(self.model, "encoder", self.model)
        for name, layer in [(name, each) for name, each in layers.named_modules() if isinstance(each, nn.Linear)]:
            parent, _, own = name.rpartition(".")
            setattr(layers.get_submodule(parent), own, LowRank(layer, rank))
        self.answers = nn.Linear(self.model.config.hidden_size, 2)

    def forward(self, texts):
        """Return (n, 2) logits of (context, response) texts."""
        tokens = self.tokenizer(
            *map(list, zip(*texts)), truncation="longest_first", max_length=self.length, padding=True,
            return_tensors="pt",
        )  # fmt: skip
        h = self.model(**tokens).last_hidden_state
        mask = tokens["attention_mask"][..., None]
        return self.answers((h * mask).sum(1) / mask.sum(1))

    @torch.no_grad()
    def score(self, table):
        """Return (n, 2) answers for a table of pairs."""
        self.eval()
        texts = [(" [SEP] ".join(turns), response) for turns, response in zip(table["context"], table["response"])]
        order = sorted(range(len(texts)), key=lambda i: sum(map(len, texts[i])))
        found = torch.zeros(len(texts), 2)
        for start in range(0, len(order), 32):
            places = order[start : start + 32]
            found[places] = self([texts[i] for i in places])
        return found.numpy()


def judged(labelled, dialogues, seed, number):
    """Yield for each pass what fit is learned from: (turns, response, 1 or 0)."""
    draw = random.Random(seed)
    for _ in range(number):
        rows = []
        for one in labelled:
            other = draw.choice(labelled)
            rows += [(one.turns, r, 1.0) for r in one.positives]
            rows += [(one.turns, r, 0.0) for r in one.adversarials]
            rows += [(other.turns, r, 0.0) for r in one.positives if other.turns != one.turns]
            rows += [(one.turns, copied, 0.0) for copied in copies(one.turns, draw)]
        some = draw.sample(dialogues, min(len(labelled), len(dialogues)))
        for one, other in zip(some, draw.sample(some, len(some))):
            turns = one.turns[-draw.choice((1, 2, 3, 4)) :]
            rows.append((turns, one.positives[0], 1.0))
            if other is not one:
                rows.append((turns, other.positives[0], 0.0))
        yield draw.sample(rows, len(rows))


def copies(turns, draw):
    """Return replies that are taken from the context: a turn, a turn with words left out, its words shuffled."""
    turn = draw.choice(turns)
    words, every = turn.split(), " ".join(turns).split()
    near = " ".join(word for word in words if draw.random() > 0.2) or turn
    return turn, near, " ".join(draw.sample(every, min(len(every), draw.randint(4, 14))))


def train_cross(labelled, further, seed, passes=2, batch=64, grades=16):
    """Train a `Cross` on what fits and, in every batch, on some graded pairs."""
    torch.manual_seed(seed)
    model, draw = Cross(), random.Random(seed)
    adapters = [p for name, p in model.named_parameters() if p.requires_grad and not name.startswith("answers")]
    optimizer = torch.optim.AdamW(
        [{"params": adapters, "lr": 5e-4}, {"params": model.answers.parameters(), "lr": 1e-3}], weight_decay=0.01
    )
    rows = list(judged(labelled, further.dialogues, seed, passes))
    total = sum(len(one) // batch for one in rows)
    schedule = get_linear_schedule_with_warmup(optimizer, total // 20, total)
    by_context = [list(own) for _, own in pd.DataFrame(further.graded).groupby(0).groups.items()]
    for one in rows:
        for start in range(0, len(one) - batch + 1, batch):
            model.train()
            some = sorted(one[start : start + batch], key=lambda row: len(" ".join(row[0])) + len(row[1]))
            chosen = []
            while len(chosen) < grades:
                chosen += draw.choice(by_context)
            graded = [further.graded[i] for i in chosen[: 2 * grades]]
            with torch.autocast("cpu", torch.bfloat16, enabled=native_bf16()):
                found = [model([(" [SEP] ".join(t), r) for t, r, _ in some[i : i + 16]]) for i in range(0, batch, 16)]
                quality = model([(" [SEP] ".join(g[1]), g[2]) for g in graded])[:, 1]
            fits = torch.tensor([label for _, _, label in some])
            loss = F.binary_cross_entropy_with_logits(torch.cat(found)[:, 0].float(), fits)
            score = torch.tensor([float(g[3]) for g in graded])
            code = torch.from_numpy(pd.factorize(pd.Series([g[0] for g in graded]))[0])
            loss = loss + grade_loss(quality.float(), score, code)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    return model


def default(labelled, held_out, further, seed):
    """Return the readings of the model that comes with the package today, and of its untrained encoder."""
    slm, plain = SLM.load(DEFAULT), SLM.untrained()
    return {
        "default": lambda table: slm.score(table)["score_slm"],
        "cosine": lambda table: -plain.distances(table)["distance"],
    }


def graded(labelled, held_out, further, seed):
    """Return the readings of recipe ``graded``, with copies of the context among the adversarial responses."""
    draw = random.Random(seed)
    train = [dataclasses.replace(c, adversarials=(*c.adversarials, *copies(c.turns, draw))) for c in labelled]
    out = ROOT / "build" / "small_model" / f"graded-seed{seed}"
    slm = fit(train, held_out, out, recipes.get("graded"), seed, progress=False, extra=further)
    units = standard(slm.parts(table_of(further.graded)))
    return {
        "graded": lambda table: slm.score(table)["score_slm"],
        "graded, fit and quality": lambda table: together(slm.parts(table), units, ["fit", "quality"]),
        "graded, fit": lambda table: slm.parts(table)["fit"],
    }


def cross(labelled, held_out, further, seed):
    """Return the readings of a cross-encoder."""
    out = ROOT / "build" / "small_model" / f"cross-seed{seed}.pt"
    if out.exists():
        model = Cross()
        model.load_state_dict(torch.load(out))
    else:
        model = train_cross(labelled, further, seed)
        out.parent.mkdir(parents=True, exist_ok=True)
        torch.save(model.state_dict(), out)

    def parts(table):
        return pd.DataFrame(model.score(table), columns=["fit", "quality"])

    units = standard(parts(table_of(further.graded)))
    return {
        "cross": lambda table: together(parts(table), units, ["fit", "quality"]),
        "cross, fit": lambda table: parts(table)["fit"],
        "cross, quality": lambda table: parts(table)["quality"],
    }


def table_of(graded):
    """The graded pairs as a table."""
    table = pd.DataFrame(graded, columns=["context_id", "context", "response", "score"])
    return table.assign(pair_id=range(len(table)))


def standard(parts):
    """Mean and spread of each part over the graded training pairs."""
    return {name: (values.mean(), values.std()) for name, values in parts.items()}


def together(parts, units, names):
    """The mean of standardised parts."""
    return np.mean([(parts[name] - units[name][0]) / units[name][1] for name in names], axis=0)


VARIANTS = {"default": (default, (0,)), "graded": (graded, (0, 1, 2)), "cross": (cross, (0, 1, 2))}


def main():
    """Train and measure what has no result yet."""
    parser = argparse.ArgumentParser(description="variants of the small model, and the rule that chooses")
    parser.add_argument("--only", nargs="+", default=[""], help="trainings whose name has one of these in it")
    only = parser.parse_args().only
    plan = [(name, seed) for seed in range(3) for name, (_, seeds) in VARIANTS.items() if seed in seeds]
    left = [(name, seed, OUT / f"{name}-seed{seed}.json") for name, seed in plan]
    left = [one for one in left if not one[2].exists() and any(text in one[2].name for text in only)]
    given = data() if left else ()
    rule = Rule(given[1]) if left else None
    OUT.mkdir(parents=True, exist_ok=True)
    for name, seed, file in left:
        began, rows = time.process_time(), {}
        for reading, score in VARIANTS[name][0](*given, seed).items():
            started = time.process_time()
            rows[reading] = rule.measure(score)
            seconds = time.process_time() - started
            rows[reading]["seconds_1000"] = 1000 * seconds / sum(map(len, rule.tables.values()))
        about = {"variant": name, "seed": seed, "labelled": len(given[0]), "held_out": len(given[1])}
        about |= {"dialogues": len(given[2].dialogues), "grades": len(given[2].graded)}
        about["seconds"] = round(time.process_time() - began)
        replace(file, json.dumps(about | {"readings": rows}, indent=1) + "\n")
        print(file.name, {reading: round(row["value"], 1) for reading, row in rows.items()}, flush=True)


if __name__ == "__main__":
    main()
