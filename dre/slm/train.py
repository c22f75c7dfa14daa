"""Training an SLM: the loop, the curves of Figures 3 and 4, going on after an interruption."""

import copy
import math
import os
import random
import shutil
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import torch
from tqdm.auto import tqdm
from transformers import get_linear_schedule_with_warmup

from dre.classification import choose_threshold
from dre.datasets.dialogues import Context, pairs
from dre.errors import DreError
from dre.slm import losses, recipes
from dre.slm.encoder import native_bf16
from dre.slm.graded import distinct
from dre.slm.model import SLM, class_for
from dre.slm.provenance import Extra, describe

CHUNK = 12  # texts of similar length that are encoded together: little of a chunk is padding
MAX_NORM = 1.0  # of the gradient of a step
SAMPLE = (
    200  # training contexts on which the curves are measured, at most; never more than are held out
)


def fit(
    train: Sequence[Context],
    dev: Sequence[Context],
    out: str | Path,
    recipe: str | recipes.Recipe = "paper",
    seed: int = 0,
    encoder: str = "minilm",
    progress: bool = True,
    extra: Extra | None = None,
) -> SLM:
    """Train an SLM, or load it when folder ``out`` already holds the result of exactly this call.

    ``dev``, which may be empty, is measured (curves), and the threshold is chosen on it.
    ``encoder``: see `dre.slm.encoder.load_encoder`; ``extra``: what our own recipes learn from
    as well. From ``<out>.work`` an interrupted training goes on after its last complete epoch.
    DreError if ``out`` holds another model, or data are missing.
    """
    recipe, extra = recipes.get(recipe), extra or Extra()
    if recipe.mixture and not (extra.dialogues and extra.graded):
        found = f"{len(extra.dialogues)} dialogues and {len(extra.graded)} graded pairs"
        raise DreError(
            f"recipe {recipe.name} learns from dialogues and graded pairs as well: there are {found}"
        )
    out, work = Path(out), Path(f"{out}.work")
    provenance = describe(train, dev, recipe, seed, encoder, extra if recipe.mixture else None)
    if out.exists():
        slm = SLM.load(out)
        if slm.provenance.get("fingerprint") != provenance["fingerprint"]:
            raise DreError(
                f"{out} holds another model: train into another folder or delete this one"
            )
        return slm
    work.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    slm = _one(train, dev, work, recipe, seed, encoder, progress, extra, provenance)
    if dev:
        negatives = "ar" if any(context.randoms for context in dev) else "a"
        table = pairs(dev, kinds="p" + negatives)
        slm.set_threshold(choose_threshold(slm.score(table)["score_slm"], table["kind"], negatives))
    slm.save(out)
    shutil.rmtree(work)
    return slm


def _one(train, dev, work, recipe, seed, encoder, progress, extra, provenance):
    """Return an SLM that was taken through all its stages, without a threshold."""
    slm = class_for(recipe).untrained(encoder, recipe)
    slm.provenance = provenance
    train = slm.examples(train)
    model = slm.encoder[0].model
    attention = model.config._attn_implementation
    if slm.encoder.device.type == "cpu":  # where torch's fused attention is slow on the way back
        model.set_attn_implementation("eager")
    slm.provenance["curves"] = _train(slm, train, dev, seed, extra, work / "epoch.pt", progress)
    model.set_attn_implementation(attention)
    slm.finish(train, extra, seed)
    return slm


def _train(slm, train, dev, seed, extra, checkpoint, progress):
    """Take a fresh SLM through the stages of its recipe; return the curves, one row per stage, epoch and split."""
    recipe, encoder, head = slm.recipe, slm.encoder, slm.head
    rows = training_rows(train, slm.context)
    size = min(SAMPLE, len(train), len(dev) or SAMPLE)
    measured = {"train": random.Random(seed).sample(train, size)} | ({"dev": dev} if dev else {})
    steps = math.ceil(len(rows) / recipe.batch_contexts)
    stored = _last_epoch(checkpoint, slm)
    curves, done = stored.get("curves", []), stored.get("done", 0)  # done: epochs, of all stages
    for number, stage in enumerate(recipe.stages):
        slm.learns(stage.trains)
        vectors = (
            partial(embed, encoder) if "encoder" in stage.trains else _looked_up(slm.reader, rows)
        )
        shown = [rows] * stage.epochs
        if recipe.mixture:
            shown = slm.passes(train, extra, stage.epochs, seed)
        optimizer = torch.optim.AdamW(groups(slm), fused=True)
        total = steps * stage.epochs
        schedule = get_linear_schedule_with_warmup(
            optimizer, math.ceil(recipe.warmup * total), total
        )
        before = sum(earlier.epochs for earlier in recipe.stages[:number])
        if done <= before:
            curves += _measure(slm, measured, stage.name, 0)
        elif done < before + stage.epochs:
            optimizer.load_state_dict(stored["optimizer"])
            schedule.load_state_dict(stored["schedule"])
        best = stored.get("best") if before < done <= before + stage.epochs else None
        for epoch in range(max(done - before, 0), stage.epochs):
            # Every epoch has random numbers of its own, so a training that goes on draws what it would have drawn.
            torch.manual_seed(
                int(np.random.SeedSequence([seed, number, epoch]).generate_state(1)[0])
            )
            order = torch.randperm(len(rows)).tolist()
            encoder.train("encoder" in stage.trains)  # no dropout in an encoder that does not learn
            head.train()
            name = f"{recipe.name}, {stage.name} {epoch + 1}/{stage.epochs}"
            with tqdm(total=steps, desc=name, disable=not progress, unit="step") as bar:
                for _ in learn(
                    slm, [shown[epoch][i] for i in order], stage.terms, vectors, optimizer, schedule
                ):
                    bar.update()
            curves += _measure(slm, measured, stage.name, epoch + 1)
            if recipe.keep == "best" and (
                best is None or curves[-1]["triplet_accuracy"] >= best["triplet_accuracy"]
            ):
                best = curves[-1] | copy.deepcopy(
                    {"encoder": encoder.state_dict(), "head": head.state_dict()}
                )
            parts = {"encoder": encoder, "head": head, "optimizer": optimizer, "schedule": schedule}
            state = {name: part.state_dict() for name, part in parts.items()} | {
                "curves": curves,
                "best": best,
            }
            state |= {"done": before + epoch + 1, "fingerprint": slm.provenance["fingerprint"]}
            torch.save(state, unfinished := checkpoint.with_suffix(".partial"))
            os.replace(unfinished, checkpoint)  # no half checkpoint is ever read
        if best is not None:
            encoder.load_state_dict(best["encoder"])
            head.load_state_dict(best["head"])
            slm.provenance.setdefault("kept", {})[stage.name] = best["epoch"]
    for part in (encoder, head):
        part.requires_grad_(False).eval()
    slm.forget()  # what was embedded in the precision of training
    return curves


def learn(slm, rows, terms, vectors, optimizer, schedule):
    """Take one step for each batch of rows, an epoch; yield the loss (Eq. 16) of each step before it was taken."""
    parameters = [*slm.encoder.parameters(), *slm.head.parameters()]
    for start in range(0, len(rows), slm.recipe.batch_contexts):
        loss = _loss(slm, rows[start : start + slm.recipe.batch_contexts], terms, vectors)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, MAX_NORM)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        yield loss.item()


def _loss(slm, rows, terms, vectors):
    """Eq. 16 on a batch of rows, of which every distinct text is embedded once."""
    head, device = slm.head, slm.encoder.device
    with torch.autocast(device.type, torch.bfloat16, enabled=native_bf16()):
        if slm.recipe.mixture:
            return slm.loss(rows, vectors)
        texts, index = triplet_batch(rows)
        return losses.total(
            losses.triplet_terms(head, head(vectors(texts)), index.to(device), terms, slm.recipe)
        )


def training_rows(contexts, text):
    """Return one row per context: ``text`` of its turns (as encoded), its positives, its adversarials; or DreError."""
    lacking = [
        context.context_id
        for context in contexts
        if not (context.positives and context.adversarials)
    ]
    if lacking or not contexts:
        what = f"{len(lacking)} of {len(contexts)} contexts lack positive or adversarial responses"
        raise DreError(
            f"{what} {lacking[:3]}: training needs at least one context, and one response of each kind"
        )
    return [(text(context.turns), context.positives, context.adversarials) for context in contexts]


def triplet_batch(rows):
    """Return the distinct texts of some rows, shortest first, and (m, 3) triplets of places among them.

    Five positives and five adversarials of a context make 25 triplets, but only 11 texts; encoded one by one, 75.
    """
    texts, place = distinct(
        text for c, positives, adversarials in rows for text in (c, *positives, *adversarials)
    )
    triplets = [
        (c, p, a)
        for c, positives, adversarials in rows
        for p, a in product(positives, adversarials)
    ]
    return texts, torch.tensor([[place[text] for text in triplet] for triplet in triplets])


def embed(encoder, texts):
    """(n, d) embeddings that a gradient can flow through, encoded in chunks."""
    # Word vectors are looked up at once: the gradient of a lookup is as large as the vocabulary, one per chunk is slow.
    chunks = [encoder.preprocess(texts[i : i + CHUNK]) for i in range(0, len(texts), CHUNK)]
    ids = [chunk.pop("input_ids").to(encoder.device) for chunk in chunks]
    words = encoder[0].model.get_input_embeddings()(torch.cat([i.flatten() for i in ids]))
    h = []
    for chunk, i, vectors in zip(chunks, ids, words.split([i.numel() for i in ids])):
        features = {
            key: value.to(encoder.device) for key, value in chunk.items() if torch.is_tensor(value)
        }
        h.append(
            encoder(features | {"inputs_embeds": vectors.view(*i.shape, -1)})["sentence_embedding"]
        )
    return torch.cat(h)


def _looked_up(reader, rows):
    """Return what embeds the texts of rows by looking them up: an encoder that does not learn reads each once."""
    texts, place = distinct(
        text for c, positives, adversarials in rows for text in (c, *positives, *adversarials)
    )
    h = reader(texts)
    return lambda texts: h[[place[text] for text in texts]]


def groups(slm):
    """The parameters that learn: the head at a rate of its own, biases and norms without decay."""
    groups = []
    for part, rate in (
        (slm.encoder, slm.recipe.learning_rate),
        (slm.head, slm.recipe.head_learning_rate),
    ):
        decayed, plain = [], []
        for name, parameter in part.named_parameters():
            if parameter.requires_grad:
                (plain if name.endswith("bias") or "norm" in name.lower() else decayed).append(
                    parameter
                )
        groups.append({"params": decayed, "lr": rate, "weight_decay": slm.recipe.weight_decay})
        groups.append({"params": plain, "lr": rate, "weight_decay": 0.0})
    return groups


@torch.no_grad()
def _measure(slm, measured, stage, epoch):
    """Return one point of the curves per split, over all triplets; of recipe ``graded`` the share ordered right."""
    points = []
    for split, contexts in measured.items():
        # In the precision of the training itself: float32 would double the cost of every epoch's end.
        with torch.autocast(slm.encoder.device.type, torch.bfloat16, enabled=native_bf16()):
            values = (
                slm.ordered(pairs(contexts, kinds="pa"))
                if slm.recipe.mixture
                else _terms(slm, contexts)
            )
        point = {name: value.float().mean().item() for name, value in values.items()}
        points.append({"stage": stage, "epoch": epoch, "split": split} | point)
    return points


def _terms(slm, contexts):
    """Eq. 12 and 15 and what is right by them; each term of the recipe in batches as in training, and where it acts."""
    size, names = (
        slm.recipe.batch_contexts,
        [name for stage in slm.recipe.stages for name in stage.terms],
    )
    rows = training_rows(contexts, slm.context)
    texts, index = triplet_batch(rows)
    h = {name: part if part is None else part.float() for name, part in slm.encode(texts).items()}
    index = index.to(slm.encoder.device)
    h_c, h_p, h_a = losses.contrasted(h, index, slm.recipe)
    logits, labels = losses.class_logits(slm.head, h, index)
    triplets = [len(positives) * len(adversarials) for _, positives, adversarials in rows]
    batches = index.split([sum(triplets[i : i + size]) for i in range(0, len(rows), size)])
    found = [losses.triplet_terms(slm.head, h, batch, names, slm.recipe) for batch in batches]
    terms = {name: torch.cat([one[name].reshape(-1) for one in found]) for name in names}
    two = labels != losses.NON_ROBUST
    return {
        "contrastive_loss": losses.contrastive(h_c, h_p, h_a, slm.recipe.margin),
        "triplet_accuracy": losses.distance(h_c, h_p) < losses.distance(h_c, h_a),
        "classification_loss": losses.classification(logits, labels),
        "classification_accuracy": logits[two][:, :2].argmax(-1) == labels[two],
        **terms,
        **{f"{name}_active": value > 0 for name, value in terms.items()},
    }


def _last_epoch(checkpoint, slm):
    """Take the model to where this training was interrupted and return the rest of its state; {} at the beginning."""
    stored = (
        torch.load(checkpoint, slm.encoder.device, weights_only=True) if checkpoint.exists() else {}
    )
    if stored.get("fingerprint") != slm.provenance["fingerprint"]:
        return {}
    slm.encoder.load_state_dict(stored["encoder"])
    slm.head.load_state_dict(stored["head"])
    return stored
