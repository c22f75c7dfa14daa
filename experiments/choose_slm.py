"""Choose a small model on graded pairs: features of two views of a context, first frozen, then trained jointly.

Every variant scores a response by what an encoder makes of the whole context, of the context's last turn and of the
response: by likeness (cosines), by a head trained on grades, and by the mean of both, each standardised on training
pairs, so that no weight is chosen. It is measured on graded contexts of conversations held out from all training, and
on the turns of FED; no other rated set is loaded except to keep it out of training. The rule, fixed before the run:
the highest mean of ``graded`` and ``fed`` (Spearman correlations with the recorded judge and with people) over seeds;
where it leads by less than 0.01, the cheaper variant.

Run ``python experiments/choose_slm.py [--joint]``. It appends one row for each variant, reading and seed to
results/choices/slm.csv and leaves out what is there already; embeddings and unfinished trainings are kept in
build/choices/slm.
"""

import argparse
import hashlib
import json
import random
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import nn

from dre import ratings
from dre.dialogues import Context, apart
from dre.profile import profile
from dre.slm import SLM, beside, contexts, recipes, train

ROOT = Path(__file__).resolve().parents[1]
OUT, BUILD = ROOT / "results" / "choices" / "slm.csv", ROOT / "build" / "choices" / "slm"
HELD_OUT = 0.2  # share of the graded conversations on which variants are compared
GAP = 0.5  # of two grades of a context from which on their order counts
SCALE = 20.0  # inverse temperature of the contrast
SAVE = 50  # steps of a joint training between checkpoints


@dataclass(frozen=True)
class Variant:
    """What is trained, and how; a variant with ``steps`` trains the encoder, too."""

    name: str
    head: bool = True  # else only cosines, of which nothing is trained
    rank: float = 0.0  # weight of the ranking within a context, beside squared error
    masked: bool = False  # balanced draws and final punctuation stripped at random
    more: bool = False  # the 2,050 grades of training_scores.jsonl as well
    epochs: int = 15  # over the graded pairs, on the frozen encoder
    steps: int = 0  # of joint training, each with the following
    dialogues: int = 16
    labelled: int = 2  # contexts, each with one positive and two adversarials
    graded: int = 2  # contexts, with all their graded responses
    learning_rate: float = 5e-5  # of the encoder; that of the head is 1e-3


FROZEN = (
    Variant("cosines", head=False),
    Variant("squared error"),
    Variant("ranked", rank=1.0),
    Variant("ranked, masked", rank=1.0, masked=True),
    Variant("ranked, masked, more grades", rank=1.0, masked=True, more=True),
    Variant("ranked, more grades", rank=1.0, more=True),
)
JOINT = (
    Variant("joint", rank=1.0, masked=True, steps=650),
    Variant("joint, longer", rank=1.0, masked=True, steps=1300),
)


@dataclass(frozen=True, eq=False)
class Data:
    """Graded pairs (``context_id, context, response, score``) for training and held out, and what is beside them."""

    graded: pd.DataFrame
    more: pd.DataFrame
    held_out: pd.DataFrame
    fed: pd.DataFrame  # with ``score``, the mean human rating
    dialogues: list
    labelled: list


def data():
    """Read everything; what shares a conversation with a rated set or a held-out context is not trained on."""
    public, table = profile("public"), ratings.graded()
    rated = ratings.held_out()
    table = table[table["context_id"].isin(_apart(table, rated))]
    out = table["conversation"].map(is_held_out)
    held_out = table[out]
    kept = [Context("graded", id, "dev", turns) for id, turns in zip(held_out["context_id"], held_out["context"])]
    more = ratings.training_scores()
    more = more[more["context_id"].isin(_apart(more, [*rated, *kept]))]
    labelled = contexts(public.sets[0], public.rated)[0]
    fed = ratings.rated("fed-turn").rename(columns={"human": "score"})
    return Data(table[~out], more, held_out, fed, beside(public, kept).dialogues, apart(labelled, kept))


def is_held_out(conversation):
    """Whether a conversation is held out: decided by its id alone, whatever else is loaded."""
    return int(hashlib.sha256(conversation.encode()).hexdigest()[:8], 16) < HELD_OUT * 16**8


def _apart(table, held_out):
    rows = zip(table["set"], table["context_id"], table["context"], table["response"])
    asked = [Context(set, id, "train", turns, (response,)) for set, id, turns, response in rows]
    return {context.id for context in apart(asked, held_out)}


def bare(response):
    """Return a response without its final punctuation, which follows the kind a little."""
    return response.rstrip(" .!?\u2026") or response


def balanced(table, bins=5):
    """Return the probability of drawing each pair: in every fifth of lengths all fifths of grades are alike."""
    length = pd.qcut(table["response"].str.split().str.len(), bins, labels=False, duplicates="drop").to_numpy()
    grade = pd.qcut(table["score"], bins, labels=False, duplicates="drop").to_numpy()
    cells = pd.DataFrame({"length": length, "grade": grade})
    of_length = cells.groupby("length")["grade"].transform
    weights = of_length("size") / of_length("nunique") / cells.groupby(["length", "grade"])["grade"].transform("size")
    return (weights / weights.sum()).to_numpy()


def texts_of(slm, table):
    """Return the whole context, its last turn, the response and the bare response of each pair, four lists."""
    whole = {turns: (slm.context(turns), slm.context(turns[-1:])) for turns in set(table["context"])}
    both = [whole[turns] for turns in table["context"]]
    return *map(list, zip(*both)), list(table["response"]), [bare(response) for response in table["response"]]


def embedded(slm, table):
    """Return (n, 4, d): what the encoder makes of `texts_of`, each distinct text read once."""
    columns = texts_of(slm, table)
    h = slm.encode([text for column in columns for text in column])["sentence_embedding"]
    return h.view(4, len(table), -1).transpose(0, 1)


def cached(slm, table, folder):
    """`embedded` by the encoder before any training, kept in `folder`."""
    file = folder / f"{hashlib.sha256(repr(texts_of(slm, table)).encode()).hexdigest()[:16]}.npy"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        np.save(file, embedded(slm, table).cpu().numpy())
    return torch.from_numpy(np.load(file))


def cosines(h):
    """Return (n, 2): the cosines of whole context and of last turn with the response, of (n, >= 3, d)."""
    return F.cosine_similarity(h[:, :2], h[:, 2:3], dim=-1)


class Quality(nn.Sequential):
    """Two layers on [c; l; r; products; differences] of context, last turn and response: (n, >= 3, d) -> (n,)."""

    def __init__(self, dimension, hidden=256):
        super().__init__(nn.Linear(7 * dimension, hidden), nn.GELU(), nn.Dropout(0.2), nn.Linear(hidden, 1))

    def forward(self, h):
        """Return an unbounded score; a sigmoid makes a grade of it."""
        c, l, r = (4 * F.normalize(h[:, :3], dim=-1)).unbind(dim=1)  # noqa: E741
        return super().forward(torch.cat([c, l, r, c * r, l * r, (c - r).abs(), (l - r).abs()], dim=-1)).squeeze(-1)


def grade_loss(found, score, context, rank):
    """Squared error against the grade, 0 to 1, and the order of grades at least `GAP` apart within a context."""
    loss = F.mse_loss(torch.sigmoid(found), score / 5)
    ordered = (context[:, None] == context) & (score[:, None] - score >= GAP)
    if rank and ordered.any():
        loss = loss + rank * F.softplus((found - found[:, None])[ordered]).mean()
    return loss


def numbers(table):
    """Return the grades of a table's pairs and a number for the context of each, tensors (n,)."""
    score = torch.tensor(table["score"].to_numpy(), dtype=torch.float32)
    return score, torch.from_numpy(pd.factorize(table["context_id"])[0])


def train_head(variant, h, table, seed):
    """Train a `Quality` on embedded pairs (n, 4, d) and their grades."""
    torch.manual_seed(seed)
    draw = np.random.default_rng(seed)
    head, (score, context) = Quality(h.shape[-1]), numbers(table)
    chance = balanced(table) if variant.masked else None
    optimizer = torch.optim.AdamW(head.parameters(), lr=5e-4, weight_decay=0.05)
    for _ in range(variant.epochs):
        chosen = draw.choice(len(h), len(h), p=chance, replace=variant.masked)
        places = draw.permutation(int(context.max()) + 1)[context[chosen].numpy()]
        for batch in np.array_split(chosen[np.argsort(places, kind="stable")], max(len(h) // 128, 1)):
            shown = h[batch]
            if variant.masked:
                stripped = torch.from_numpy(draw.random(len(batch)) < 0.5)
                shown[stripped, 2] = shown[stripped, 3]
            optimizer.zero_grad()
            grade_loss(head(shown), score[batch], context[batch], variant.rank).backward()
            optimizer.step()
    return head.eval()


def joint_loss(variant, slm, head, weights, rows, draw):
    """In-batch contrast in both directions, adversarials as further negatives, grades; of the rows of a step."""
    dialogues, labelled, pairs = rows
    shown = recipes.Mixture().last_turns
    asked = [(one.turns[-draw.choice(shown) :], draw.choice(one.positives)) for one in (*dialogues, *labelled)]
    wrong = [text for one in labelled for text in draw.sample(one.adversarials, 2)]
    graded = [bare(r) if variant.masked and draw.random() < 0.5 else r for r in pairs["response"]]
    context = [(slm.context(turns), slm.context(turns[-1:])) for turns in (*(t for t, _ in asked), *pairs["context"])]
    columns = [*zip(*context), [*(r for _, r in asked), *wrong, *graded]]
    texts, place = train._distinct(text for column in columns for text in column)
    h, n, m = train._embed(slm.encoder, texts), len(asked), len(asked) + len(wrong)
    c, l, r = (h[[place[text] for text in column]] for column in columns)  # noqa: E741
    parts = [F.normalize(view[:n], dim=-1) @ F.normalize(r[:m], dim=-1).T for view in (c, l)]
    logits = SCALE * sum(weight * part for weight, part in zip(torch.softmax(weights, 0), parts))
    own = torch.arange(n, device=logits.device)
    contrast = (F.cross_entropy(logits, own) + F.cross_entropy(logits[:, :n].T, own)) / 2
    score, number = numbers(pairs)
    found = head(torch.stack([c[n:], l[n:], r[m:]], dim=1))
    return contrast + grade_loss(found, score.to(found.device), number.to(found.device), variant.rank)


def train_joint(variant, encoder, given, seed, checkpoint):
    """Train encoder, head and the weights of two likenesses; goes on from `checkpoint`. Returns them and seconds."""
    torch.manual_seed(seed)
    slm = SLM.untrained(encoder, recipes.get("paper"))
    head = Quality(slm.encoder.get_embedding_dimension()).to(slm.encoder.device)
    weights = nn.Parameter(torch.zeros(2, device=slm.encoder.device))
    slm.encoder[0].model.get_input_embeddings().requires_grad_(False)
    learned = [p for p in slm.encoder.parameters() if p.requires_grad]
    groups = [{"params": learned, "lr": variant.learning_rate}, {"params": [*head.parameters(), weights], "lr": 1e-3}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: min((k + 1) / 50, 1 - k / (variant.steps + 1)))
    chance = balanced(given.graded) if variant.masked else 1.0
    by_context = [part for _, part in given.graded.assign(chance=chance).groupby("context_id")]
    parts = {"encoder": slm.encoder, "head": head, "optimizer": optimizer, "rates": rates}
    start, spent = 0, 0.0
    if checkpoint.exists():
        kept = torch.load(checkpoint, slm.encoder.device, weights_only=True)
        start, spent, weights.data = kept["step"], kept["spent"], kept["weights"]
        for name, part in parts.items():
            part.load_state_dict(kept[name])
    began = time.process_time()
    for step in range(start, variant.steps):
        draw = random.Random(f"{seed}/{step}")  # of each step its own, so that an interrupted training draws the same
        torch.manual_seed(draw.randrange(2**31))
        slm.encoder.train()
        head.train()
        dialogues, labelled = (draw.sample(pool, k) for pool, k in
                               ((given.dialogues, variant.dialogues), (given.labelled, variant.labelled)))  # fmt: skip
        pairs = [part.sample(len(part), replace=variant.masked, weights="chance", random_state=draw.randrange(2**31))
                 for part in draw.sample(by_context, variant.graded)]  # fmt: skip
        rows = dialogues, labelled, pd.concat(pairs)
        optimizer.zero_grad()
        joint_loss(variant, slm, head, weights, rows, draw).backward()
        torch.nn.utils.clip_grad_norm_([p for group in groups for p in group["params"]], train.MAX_NORM)
        optimizer.step()
        rates.step()
        if (step + 1) % SAVE == 0 or step + 1 == variant.steps:
            state = {name: part.state_dict() for name, part in parts.items()} | {"weights": weights.data}
            checkpoint.parent.mkdir(parents=True, exist_ok=True)
            partial = checkpoint.with_suffix(".partial")
            torch.save(state | {"step": step + 1, "spent": spent + time.process_time() - began}, partial)
            partial.replace(checkpoint)
    return slm, head.eval(), torch.softmax(weights.detach(), 0).cpu(), spent + time.process_time() - began


def spearman(found, score):
    """Return the rank correlation of two columns."""
    return pd.Series(np.asarray(found)).corr(pd.Series(np.asarray(score)), method="spearman")


def ordered(found, table):
    """Return the share of pairs of a context, at least `GAP` apart in grade, that are in the right order; ties half."""
    found, (score, context) = torch.as_tensor(found), numbers(table)
    apart = (context[:, None] == context) & (score[:, None] - score >= GAP)
    return ((1 + torch.sign(found[:, None] - found)[apart]) / 2).mean().item()


def readings(variant, h, head, weights):
    """Return the scores of each table of embedded pairs by every reading; the first table standardises."""
    with torch.no_grad():
        parts = {"context": [cosines(x)[:, 0] for x in h], "last turn": [cosines(x)[:, 1] for x in h]}
        parts = {"likeness": [(cosines(x) * weights).sum(-1) for x in h]} | ({} if variant.head else parts)
        if variant.head:
            parts["head"] = [head(x.to(next(head.parameters()).device)).cpu() for x in h]
            both = [[(x - part[0].mean()) / part[0].std() for x in part] for part in parts.values()]
            parts["both"] = [sum(of_table) for of_table in zip(*both)]
    return parts


def run(variants, given, out, build, seeds=(0, 1, 2), encoder="minilm"):
    """Train and measure what `out` lacks, appending a row for each reading; return the whole table."""
    done = pd.read_csv(out) if out.exists() else pd.DataFrame({"variant": [], "settings": [], "seed": []})
    known = set(zip(done["variant"], done["settings"], done["seed"]))
    frozen = SLM.untrained(encoder, recipes.get("paper"))
    for variant in variants:
        settings = json.dumps({"encoder": encoder} | asdict(variant), sort_keys=True)
        for seed in seeds if variant.head else seeds[:1]:
            if (variant.name, settings, seed) in known:
                continue
            graded = pd.concat([given.graded, given.more]) if variant.more else given.graded
            tables, head, weights = (graded, given.held_out, given.fed), None, torch.tensor([0.5, 0.5])
            if variant.steps:
                key = hashlib.sha256(f"{settings}{seed}".encode()).hexdigest()[:12]
                slm, head, weights, spent = train_joint(variant, encoder, given, seed, build / f"joint-{key}.pt")
                h = [embedded(slm, table).cpu() for table in tables]
            else:
                h, began = [cached(frozen, table, build) for table in tables], time.process_time()
                head = train_head(variant, h[0], graded, seed) if variant.head else None
                spent = time.process_time() - began
            rows = []
            for reading, (_, *found) in readings(variant, h, head, weights).items():
                length = spearman(found[0], given.held_out["response"].str.len())
                rows.append({"variant": variant.name, "reading": reading, "settings": settings, "seed": seed,
                             "graded": spearman(found[0], given.held_out["score"]),
                             "graded_pairs": ordered(found[0], given.held_out),
                             "fed": spearman(found[1], given.fed["score"]), "with_length": length,
                             "cpu_seconds": spent})  # fmt: skip
            out.parent.mkdir(parents=True, exist_ok=True)
            options = {"index": False, "float_format": "%.4f", "lineterminator": "\n"}
            pd.DataFrame(rows).to_csv(out, mode="a", header=not out.exists(), **options)
            print(pd.DataFrame(rows).drop(columns="settings").to_string(index=False), flush=True)
    return pd.read_csv(out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="choose a small model on graded pairs and FED's turns")
    parser.add_argument("--joint", action="store_true", help="also train encoder and head jointly: hours")
    args = parser.parse_args()
    run((*FROZEN, *(JOINT if args.joint else ())), data(), OUT, BUILD)
