"""Training a small model: stages and epochs, and going on after the last finished epoch."""

import copy
import io
import math
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import get_linear_schedule_with_warmup

from dre.classification import choose_threshold
from dre.datasets.dialogues import Context, pairs
from dre.errors import DreError
from dre.files import replace
from dre.progress import Progress
from dre.slm import curves, losses, recipes
from dre.slm.encoder import native_bf16
from dre.slm.model import SLM, class_for
from dre.slm.provenance import MEASURED, Extra, describe
from dre.slm.triplets import distinct, embed, training_rows, triplet_batch

#: Longest gradient of a step; a longer one is shortened to it.
MAX_NORM = 1.0


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
    """Train a small model, or load it if folder ``out`` holds the result of exactly this call.

    After each epoch a checkpoint is written, ``<out>.checkpoint``. After an interruption the same
    call goes on from there. On a CPU, with as many threads, it ends with the same weights as a
    training without interruption. Where two processes train the same model at once, one of them
    writes it, and the other one loads that.

    Parameters
    ----------
    train : labelled contexts to learn from.
    dev : held-out contexts, or none. The curves are measured on them, and a threshold is chosen.
    out : folder of the model.
    recipe : a recipe or its name; see `dre.slm.recipes`.
    seed : of everything that is drawn at random.
    encoder : name, Hub id or folder; see `dre.slm.encoder.load_encoder`.
    progress : show how far it has come, on standard error. In a terminal this is a
        bar. Elsewhere, as in a notebook that a runner executes, it is one line with epoch, loss
        and time left, now and then.
    extra : what our own recipes learn from besides labelled contexts.

    Raises
    ------
    DreError
        If ``out`` holds another model, data are missing, the encoder cannot be read, or a
        checkpoint or the model cannot be written.
    """
    recipe = recipes.get(recipe)
    extra = extra or Extra()
    if recipe.mixture and not (extra.dialogues and extra.graded):
        raise DreError(
            f"recipe {recipe.name} learns from dialogues and graded pairs as well: "
            f"there are {len(extra.dialogues)} dialogues and {len(extra.graded)} graded pairs"
        )
    out = Path(out)
    provenance = describe(train, dev, recipe, seed, encoder, extra if recipe.mixture else None)
    if out.exists():
        return _load_same(out, provenance)
    torch.manual_seed(seed)
    slm = class_for(recipe).untrained(encoder, recipe)
    slm.provenance = provenance
    examples = slm.examples(train)
    checkpoint = Path(f"{out}.checkpoint")
    # Attention is computed plainly on a CPU, where the gradient of torch's fused one is slow.
    model = slm.encoder[0].model
    usual_attention = model.config._attn_implementation
    if slm.encoder.device.type == "cpu":
        model.set_attn_implementation("eager")
    started = _train_stages(slm, examples, dev, seed, extra, checkpoint, progress)
    model.set_attn_implementation(usual_attention)
    slm.finish(examples, extra, seed)
    measured: dict = {"training": _measure(slm, started), "scoring": None}
    slm.provenance[MEASURED] = measured
    if dev:
        negatives = "ar" if any(context.randoms for context in dev) else "a"
        table = pairs(dev, kinds="p" + negatives)
        slm.forget()  # nothing is read that training has read already
        started = time.monotonic()
        scores = slm.score(table)["score_slm"]
        measured["scoring"] = {"pairs": len(table), **_measure(slm, started)}
        slm.set_threshold(choose_threshold(scores, table["kind"], negatives))
    try:
        slm.save(out)
    except DreError:
        if not out.exists():
            raise
        slm = _load_same(out, provenance)  # another process was faster
    checkpoint.unlink(missing_ok=True)
    return slm


def _load_same(out, provenance):
    """Return the model in a folder, if it is the one that this training would end with."""
    slm = SLM.load(out)
    if slm.provenance.get("fingerprint") != provenance["fingerprint"]:
        raise DreError(f"{out} holds another model: delete it, or train into another folder")
    return slm


def _measure(slm, started):
    """Return seconds since a start, the most memory of a GPU since the last call, and the device.

    Memory is None on a CPU.
    """
    device = slm.encoder.device
    values = {"seconds": time.monotonic() - started, "gpu_gib": None, "device": device.type}
    if device.type == "cuda":
        values["gpu_gib"] = torch.cuda.max_memory_allocated(device) / 2**30
        values["device"] = torch.cuda.get_device_name(device)
        torch.cuda.reset_peak_memory_stats(device)
    return values


def _train_stages(slm, train, dev, seed, extra, checkpoint, progress):
    """Take a fresh SLM through the stages of its recipe, from its last checkpoint if there is one.

    Its provenance gets the ``curves`` (`dre.slm.curves.measure`), and if the best epoch of a stage
    is kept instead of the last one, under ``kept`` which epoch that is. The moment is returned at
    which it would have started without an interruption.
    """
    rows = training_rows(train, slm.context)
    contexts_to_measure = curves.contexts_to_measure(train, dev, seed)
    n_steps = math.ceil(len(rows) / slm.recipe.batch_contexts)
    epochs = [
        (number, stage, epoch)
        for number, stage in enumerate(slm.recipe.stages)
        for epoch in range(1, stage.epochs + 1)
    ]
    state = _read(checkpoint, slm)
    started = time.monotonic() - state["seconds"]
    if not state["epochs_done"]:
        _write(checkpoint, slm, state)  # what cannot be written is known at once
    done = n_steps * state["epochs_done"]
    name = f"training {slm.recipe.name}"
    bar = Progress(n_steps * len(epochs), "steps", done, is_silent=not progress, name=name)
    optimizer: Any = None
    schedule: Any = None
    for number, stage, epoch in epochs[state["epochs_done"] :]:
        title = f"{stage.name}, epoch {epoch} of {stage.epochs}"
        if state["epochs_done"] and optimizer is None:
            bar.say(f"goes on in {title}")
        if epoch == 1 or optimizer is None:
            is_mixed = slm.recipe.mixture is not None
            n = stage.epochs
            passes = slm.passes(train, extra, n, seed) if is_mixed else [rows] * n
            vectors = _prepare(slm, stage, rows)
            optimizer = torch.optim.AdamW(parameter_groups(slm), fused=True)
            steps = n_steps * stage.epochs
            warmup_steps = math.ceil(slm.recipe.warmup * steps)
            schedule = get_linear_schedule_with_warmup(optimizer, warmup_steps, steps)
            if epoch == 1:
                state["best"] = None
                state["curves"] += curves.measure(slm, contexts_to_measure, stage.name, 0)
            else:
                optimizer.load_state_dict(state["optimizer"])
                schedule.load_state_dict(state["schedule"])

        # The seed of an epoch does not depend on the epochs before. So a training that goes on
        # draws the same numbers as one without an interruption.
        sequence = np.random.SeedSequence([seed, number, epoch - 1])
        torch.manual_seed(int(sequence.generate_state(1)[0]))
        batches = [passes[epoch - 1][i] for i in torch.randperm(len(rows))]
        slm.encoder.train("encoder" in stage.trains)  # else it has no dropout
        slm.head.train()
        for loss in learn_epoch(slm, batches, stage.terms, vectors, optimizer, schedule):
            # Only where a line is due the loss is fetched, for which a GPU stops.
            bar.update(line=partial("{}, loss {:.4f}".format, title, loss))
        state["epochs_done"] += 1
        state["curves"] += curves.measure(slm, contexts_to_measure, stage.name, epoch)
        if slm.recipe.keep == "best":
            # By the last point, that of held-out contexts; of equally good epochs the later one.
            point = state["curves"][-1]
            best = state["best"]
            if best is None or point["triplet_accuracy"] >= best["triplet_accuracy"]:
                best = state["best"] = point | {"weights": copy.deepcopy(slm.parts.state_dict())}
            if epoch == stage.epochs:
                slm.parts.load_state_dict(best["weights"])
                state["kept"][stage.name] = best["epoch"]
        state["optimizer"] = optimizer.state_dict()
        state["schedule"] = schedule.state_dict()
        state["seconds"] = time.monotonic() - started
        _write(checkpoint, slm, state)
    bar.close()

    slm.parts.requires_grad_(False).eval()
    slm.forget()  # what was embedded in the precision of training
    slm.provenance["curves"] = state["curves"]
    if state["kept"]:
        slm.provenance["kept"] = state["kept"]
    return started


def _prepare(slm, stage, rows):
    """Let learn what a stage trains, and return the function that embeds texts in it."""
    slm.learns(stage.trains)
    if "encoder" in stage.trains:
        return partial(embed, slm.encoder)
    # An encoder that does not learn reads each text once.
    texts, position = distinct(text for row in rows for text in row.texts())
    embeddings = slm.reader(texts)
    return lambda texts: embeddings[[position[text] for text in texts]]


def learn_epoch(
    slm: SLM, rows: Sequence, terms: Sequence[str], vectors: Callable, optimizer: Any, schedule: Any
) -> Iterator[torch.Tensor]:
    """Take one step for each batch of rows; yield the loss (Eq. 16) that each step started from."""
    batch_size = slm.recipe.batch_contexts
    for start in range(0, len(rows), batch_size):
        loss = batch_loss(slm, rows[start : start + batch_size], terms, vectors)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(slm.parts.parameters(), MAX_NORM)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        yield loss.detach()


def batch_loss(slm: Any, rows: Sequence, terms: Sequence[str], vectors: Callable) -> torch.Tensor:
    """Return the loss of a batch (Eq. 16); ``vectors`` embeds every distinct text once."""
    device = slm.encoder.device
    with torch.autocast(device.type, torch.bfloat16, enabled=native_bf16()):
        if slm.recipe.mixture:
            return slm.loss(rows, vectors)
        texts, triplets = triplet_batch(rows)
        h = slm.head(vectors(texts))
        values = losses.triplet_terms(slm.head, h, triplets.to(device), terms, slm.recipe)
        return losses.total(values)


def parameter_groups(slm: Any) -> list[dict]:
    """Return the parameters that learn, in groups for an optimizer.

    The head has another learning rate than the encoder. Biases and weights of norms do not decay.
    """
    recipe = slm.recipe
    groups = []
    modules = ((slm.encoder, recipe.learning_rate), (slm.head, recipe.head_learning_rate))
    for module, rate in modules:
        decaying = {"params": [], "lr": rate, "weight_decay": recipe.weight_decay}
        other = {"params": [], "lr": rate, "weight_decay": 0.0}
        for name, parameter in module.named_parameters():
            is_exempt = name.endswith("bias") or "norm" in name.lower()
            if parameter.requires_grad:
                (other if is_exempt else decaying)["params"].append(parameter)
        groups += [decaying, other]
    return groups


def _write(checkpoint, slm, state):
    """Write how far a training has come, in one piece: a torn checkpoint is never read."""
    content = io.BytesIO()
    fingerprint = slm.provenance["fingerprint"]
    weights = slm.parts.state_dict()
    torch.save({"fingerprint": fingerprint, "weights": weights, "state": state}, content)
    replace(checkpoint, content.getbuffer())


def _read(checkpoint, slm):
    """Return how far this training has come, and load its weights; never another training's.

    DreError if the checkpoint is damaged.
    """
    fresh = {"epochs_done": 0, "seconds": 0.0, "curves": [], "kept": {}, "best": None}
    if not checkpoint.exists():
        return fresh
    # A damaged file makes torch, pickle and zipfile raise errors of many classes.
    try:
        # A checkpoint is a zip file. It has checksums, at which torch does not look.
        with zipfile.ZipFile(checkpoint) as file:
            if damaged := file.testzip():
                raise zipfile.BadZipFile(damaged)
        content = torch.load(checkpoint, slm.encoder.device, weights_only=True)
        if content["fingerprint"] != slm.provenance["fingerprint"]:
            return fresh
        slm.parts.load_state_dict(content["weights"])
        return content["state"]
    except Exception as error:
        raise DreError(
            f"the checkpoint {checkpoint} is damaged ({type(error).__name__}): delete it and give "
            "the same command again. The training then begins anew"
        ) from error
