"""Training a small model: stages and epochs, checkpoints, and going on after an interruption."""

import contextlib
import copy
import math
import os
import shutil
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from transformers import get_linear_schedule_with_warmup

from dre.classification import choose_threshold
from dre.datasets.dialogues import Context, pairs
from dre.errors import DreError
from dre.progress import Progress
from dre.slm import curves, losses, recipes
from dre.slm.encoder import native_bf16
from dre.slm.measured import Meter
from dre.slm.model import SLM, class_for
from dre.slm.provenance import MEASURED, Extra, check_finite, describe
from dre.slm.triplets import Row, distinct, embed, training_rows, triplet_batch

#: Longest gradient of a step; a longer one is shortened to it.
MAX_NORM = 1.0
#: Seconds between two checkpoints within an epoch. Each end of an epoch writes one as well.
SECONDS_BETWEEN_CHECKPOINTS = 300


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

    Every `SECONDS_BETWEEN_CHECKPOINTS` seconds, and after each epoch, a checkpoint is written into
    ``<out>.work``. After an interruption the same call goes on from there, also within an epoch. On
    a CPU, with as many threads, it ends with the same weights as a training without interruption.

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
        If ``out`` holds another model, another process trains into it, data are missing, the
        encoder cannot be read, or the model cannot be written.
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
    with _only_process(out):
        if out.exists():  # another process has ended the same training in the meantime
            return _load_same(out, provenance)
        work = Path(f"{out}.work")
        torch.manual_seed(seed)
        slm = class_for(recipe).untrained(encoder, recipe)
        slm.provenance = provenance
        examples = slm.examples(train)
        checkpoints = _Checkpoints(work / "epoch.pt", slm)
        with _quick_attention(slm.encoder):
            _train_stages(slm, examples, dev, seed, extra, checkpoints, progress)
        slm.finish(examples, extra, seed)
        slm.provenance[MEASURED] = {"training": checkpoints.meter.values(), "scoring": None}
        if dev:
            slm.set_threshold(_threshold(slm, dev))
        _save(slm, out)
        shutil.rmtree(work, ignore_errors=True)
    return slm


def _load_same(out, provenance):
    """Return the model in a folder, if it is the one that this training would end with."""
    slm = SLM.load(out)
    if slm.provenance.get("fingerprint") != provenance["fingerprint"]:
        raise DreError(
            f"{out} holds another model: train into another folder, or delete this one first"
        )
    return slm


def _only_process(out):
    """Return what refuses, while it is held, to train into a folder in another process.

    The lock file stays: if it were deleted, a process that waits for it and one that makes it anew
    could both hold a lock.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        return FileLock(f"{out}.lock").acquire(timeout=0)
    except Timeout as error:
        raise DreError(
            f"another process is training into {out}: wait for it to end, or name another folder"
        ) from error


@contextlib.contextmanager
def _quick_attention(encoder):
    """Compute attention plainly on a CPU, where the gradient of torch's fused attention is slow."""
    model = encoder[0].model
    usual = model.config._attn_implementation
    if encoder.device.type == "cpu":
        model.set_attn_implementation("eager")
    yield
    model.set_attn_implementation(usual)


def _threshold(slm, dev):
    """Choose the score from which on a response is accepted, on held-out contexts.

    What scoring them takes is measured, and goes into the provenance.
    """
    negatives = "ar" if any(context.randoms for context in dev) else "a"
    table = pairs(dev, kinds="p" + negatives)
    slm.forget()  # nothing is read that training has read already
    meter = Meter(slm.encoder.device)
    scores = slm.score(table)["score_slm"]
    slm.provenance[MEASURED]["scoring"] = {"pairs": len(table), **meter.values()}
    return choose_threshold(scores, table["kind"], negatives)


def _save(slm, out):
    """Save a trained model; if it cannot be written, its checkpoint stays for another attempt."""
    try:
        slm.save(out)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(f"{out}.partial", ignore_errors=True)
        raise DreError(
            f"{out} cannot be written ({error}): free space, or make the folder above it writable, "
            "and give the same command again. It goes on after the last epoch"
        ) from error


def _train_stages(
    slm: SLM,
    train: Sequence[Context],
    dev: Sequence[Context],
    seed: int,
    extra: Extra,
    checkpoints: "_Checkpoints",
    progress: bool,
) -> None:
    """Take a fresh SLM through the stages of its recipe, from its last checkpoint if there is one.

    Its provenance gets the ``curves`` (`dre.slm.curves.measure`), and if the best epoch of a stage
    is kept instead of the last one, under ``kept`` which epoch that is. The meter of checkpoints
    goes on from what was measured before an interruption.
    """
    rows = training_rows(train, slm.context)
    measured = curves.contexts_to_measure(train, dev, seed)
    steps_in_epoch = math.ceil(len(rows) / slm.recipe.batch_contexts)
    state = checkpoints.read()
    checkpoints.meter = Meter(slm.encoder.device, state.seconds, state.gpu_gib)
    epochs_in_all = sum(stage.epochs for stage in slm.recipe.stages)
    steps_done = steps_in_epoch * state.epochs_done + state.steps_done
    bar = Progress(
        steps_in_epoch * epochs_in_all,
        "steps",
        steps_done,
        is_silent=not progress,
        name=f"training {slm.recipe.name}",
    )

    epochs_before = 0
    for number, stage in enumerate(slm.recipe.stages):
        # After an interruption in a later stage there is nothing left to do in this one.
        if (state.epochs_done, state.steps_done) <= (epochs_before + stage.epochs, 0):
            passes = [rows] * stage.epochs
            if slm.recipe.mixture:
                passes = slm.passes(train, extra, stage.epochs, seed)
            vectors = _prepare(slm, stage, rows)
            optimizer, schedule = _optimizer(slm, steps_in_epoch * stage.epochs)

            finished_epochs = state.epochs_done - epochs_before
            if finished_epochs == 0 and state.steps_done == 0:
                state.best = None
                state.curves += curves.measure(slm, measured, stage.name, 0)
            elif finished_epochs < stage.epochs:
                optimizer.load_state_dict(state.optimizer)
                schedule.load_state_dict(state.schedule)
            for epoch in range(finished_epochs, stage.epochs):
                order = _seed_and_draw_order(seed, number, epoch, len(rows))
                batches = [passes[epoch][i] for i in order]
                slm.encoder.train("encoder" in stage.trains)  # else it has no dropout
                slm.head.train()
                scaler = _gradient_scaler(slm.encoder.device)
                if state.steps_done > 0:
                    if state.scaler:  # empty where the device that began has no need of one
                        scaler.load_state_dict(state.scaler)
                    _set_random_states(state.random_states)
                    batches = batches[state.steps_done * slm.recipe.batch_contexts :]

                title = f"{stage.name}, epoch {epoch + 1} of {stage.epochs}"
                if 0 < steps_done == bar.n_done:
                    steps = f"{state.steps_done} of {steps_in_epoch} steps"
                    bar.say(f"goes on in {title}, after {steps}")
                write = partial(checkpoints.write, state, optimizer, schedule, scaler)
                step_losses = learn_epoch(
                    slm, batches, stage.terms, vectors, optimizer, schedule, scaler
                )
                for _ in _shown(step_losses, bar, title, steps_in_epoch):
                    state.steps_done += 1
                    if checkpoints.is_due():
                        write()

                state.epochs_done += 1
                state.steps_done = 0
                state.curves += curves.measure(slm, measured, stage.name, epoch + 1)
                if slm.recipe.keep == "best":
                    state.best = _better(state.best, slm, state.curves[-1])
                write()
            if state.best is not None:
                slm.encoder.load_state_dict(state.best["encoder"])
                slm.head.load_state_dict(state.best["head"])
                state.kept[stage.name] = state.best["epoch"]
        epochs_before += stage.epochs
    bar.say_if_due("all epochs are done, the scale of the scores is set")
    bar.close()

    for module in (slm.encoder, slm.head):
        module.requires_grad_(False).eval()
    slm.forget()  # what was embedded in the precision of training
    slm.provenance["curves"] = state.curves
    if state.kept:
        slm.provenance["kept"] = state.kept


def _shown(step_losses, bar, title, steps_in_epoch):
    """Yield the losses of an epoch's steps, and show how far it is."""
    loss_sum = torch.zeros(())
    n_steps = 0

    def line():
        # Only where a line is due the loss is fetched, for which a GPU has to stop.
        step = (bar.n_done - 1) % steps_in_epoch + 1
        mean_loss = loss_sum.item() / n_steps
        return f"{title}, step {step} of {steps_in_epoch}, loss {mean_loss:.4f}"

    for loss in step_losses:
        loss_sum = loss_sum.to(loss.device) + loss
        n_steps += 1
        bar.update(line=line)
        yield loss


def _prepare(slm, stage, rows):
    """Let learn what a stage trains, and return the function that embeds texts in it."""
    slm.learns(stage.trains)
    if "encoder" in stage.trains:
        return partial(embed, slm.encoder, tokens=slm.reader.tokens)
    # An encoder that does not learn reads each text once.
    texts, position = distinct(text for row in rows for text in row.texts())
    embeddings = slm.reader(texts)
    return lambda texts: embeddings[[position[text] for text in texts]]


def _optimizer(slm, steps):
    """Return the optimizer of a stage, and the schedule of its rates, which rise, then fall."""
    optimizer = torch.optim.AdamW(parameter_groups(slm), fused=True)
    warmup_steps = math.ceil(slm.recipe.warmup * steps)
    return optimizer, get_linear_schedule_with_warmup(optimizer, warmup_steps, steps)


def _seed_and_draw_order(seed, stage_number, epoch, rows):
    """Seed torch for one epoch, and draw the order of its rows.

    The seed is different for each epoch and does not depend on the epochs before. So a training
    that goes on after an interruption draws the same numbers as one without.
    """
    sequence = np.random.SeedSequence([seed, stage_number, epoch])
    torch.manual_seed(int(sequence.generate_state(1)[0]))
    return torch.randperm(rows).tolist()


def _gradient_scaler(device):
    """Return what scales up the loss of an epoch where gradients are in float16.

    They would vanish there. Elsewhere it changes nothing.
    """
    return torch.amp.GradScaler(device.type, enabled=_precision(device) is torch.float16)


def _random_states(device):
    """Return the states of torch's random number generators, by kind of device.

    In an epoch, dropout alone draws from them. The CPU's also draws the order of rows.
    """
    states = {"cpu": torch.get_rng_state()}
    if device.type != "cpu":
        states[device.type] = torch.get_device_module(device).get_rng_state()
    return states


def _set_random_states(states):
    """Let the random number generators go on from their `_random_states`."""
    for name, random_state in states.items():
        module = torch if name == "cpu" else torch.get_device_module(name)
        module.set_rng_state(random_state.cpu())


def _better(best, slm, point):
    """Return the better of the best epoch so far and this one; of equally good ones this one.

    An epoch is its point of the curve together with the weights after it.
    """
    if best is not None and point["triplet_accuracy"] < best["triplet_accuracy"]:
        return best
    weights = {"encoder": slm.encoder.state_dict(), "head": slm.head.state_dict()}
    return point | copy.deepcopy(weights)


def learn_epoch(
    slm: SLM,
    rows: Sequence,
    terms: Sequence[str],
    vectors: Callable,
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    scaler: torch.amp.GradScaler,
) -> Iterator[torch.Tensor]:
    """Take one step for each batch of rows; yield the loss (Eq. 16) that each step started from."""
    parameters = [*slm.encoder.parameters(), *slm.head.parameters()]
    batch_size = slm.recipe.batch_contexts
    for start in range(0, len(rows), batch_size):
        loss = batch_loss(slm, rows[start : start + batch_size], terms, vectors)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(parameters, MAX_NORM)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        optimizer.zero_grad()
        yield loss.detach()


def batch_loss(
    slm: SLM, rows: Sequence[Row], terms: Sequence[str], vectors: Callable
) -> torch.Tensor:
    """Return the loss of a batch (Eq. 16); ``vectors`` embeds every distinct text once."""
    device = slm.encoder.device
    precision = _precision(device)
    with torch.autocast(device.type, precision, enabled=precision is not None):
        if slm.recipe.mixture:
            return slm.loss(rows, vectors)
        texts, triplets = triplet_batch(rows)
        h = slm.head(vectors(texts))
        values = losses.triplet_terms(slm.head, h, triplets.to(device), terms, slm.recipe)
        return losses.total(values)


def _precision(device):
    """Return the numbers of 16 bits that are multiplied faster than float32, or None.

    A GPU that has no bfloat16 of its own, such as a T4, has float16. That was not run on a GPU yet.
    """
    if native_bf16():
        return torch.bfloat16
    return torch.float16 if device.type == "cuda" else None


def parameter_groups(slm: SLM) -> list[dict]:
    """Return the parameters that learn, in groups for an optimizer.

    The head has another learning rate than the encoder. Biases and weights of norms do not decay.
    """
    recipe = slm.recipe
    groups = []
    for module, rate in (
        (slm.encoder, recipe.learning_rate),
        (slm.head, recipe.head_learning_rate),
    ):
        learning = [named for named in module.named_parameters() if named[1].requires_grad]
        for decays, weight_decay in ((True, recipe.weight_decay), (False, 0.0)):
            parameters = [
                parameter
                for name, parameter in learning
                if decays != (name.endswith("bias") or "norm" in name.lower())
            ]
            groups.append({"params": parameters, "lr": rate, "weight_decay": weight_decay})
    return groups


@dataclass
class _State:
    """How far a training has come; a checkpoint holds this and the weights."""

    epochs_done: int = 0  # of all stages together
    curves: list[dict] = field(default_factory=list)
    kept: dict[str, int] = field(default_factory=dict)  # the best epoch of each finished stage
    best: dict | None = None  # the best epoch of the present stage, see `_better`
    seconds: float = 0.0  # that the training took until the checkpoint
    gpu_gib: float | None = None  # the most memory of a GPU until then
    optimizer: dict = field(default_factory=dict)
    schedule: dict = field(default_factory=dict)
    # Of the present epoch:
    steps_done: int = 0
    scaler: dict = field(default_factory=dict)
    random_states: dict[str, torch.Tensor] = field(default_factory=dict)


class _Checkpoints:
    """The file from which an interrupted training goes on."""

    def __init__(self, path: Path, slm: SLM):
        self.path = path
        self.slm = slm
        self.last_write = time.monotonic()
        self.meter = Meter(slm.encoder.device)

    def is_due(self) -> bool:
        """Tell whether the last checkpoint is long ago."""
        return time.monotonic() - self.last_write >= SECONDS_BETWEEN_CHECKPOINTS

    def write(
        self,
        state: _State,
        optimizer: torch.optim.Optimizer,
        schedule: torch.optim.lr_scheduler.LRScheduler,
        scaler: torch.amp.GradScaler,
    ) -> None:
        """Write a checkpoint in one piece: a torn one is never read."""
        state.optimizer = optimizer.state_dict()
        state.schedule = schedule.state_dict()
        state.scaler = scaler.state_dict()
        state.random_states = _random_states(self.slm.encoder.device)
        measured = self.meter.values()
        state.seconds = measured["seconds"]
        state.gpu_gib = measured["gpu_gib"]
        content = {
            "fingerprint": self.slm.provenance["fingerprint"],
            "encoder": self.slm.encoder.state_dict(),
            "head": self.slm.head.state_dict(),
            "state": vars(state),
        }
        unfinished = self.path.with_suffix(".partial")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            torch.save(content, unfinished)
            os.replace(unfinished, self.path)
        except (OSError, RuntimeError) as error:  # torch says by a RuntimeError that a disk is full
            unfinished.unlink(missing_ok=True)
            raise DreError(
                f"the checkpoint {self.path} cannot be written ({str(error).splitlines()[0]}): "
                "free space and give the same command again. It goes on after the last checkpoint"
            ) from error
        self.last_write = time.monotonic()

    def read(self) -> _State:
        """Return how far this training had come, and load its weights; never another training's.

        DreError if the checkpoint is damaged.
        """
        if not self.path.exists():
            return _State()
        # A damaged file makes torch, pickle and zipfile raise errors of many classes.
        try:
            # A checkpoint is a zip file. It has checksums, at which torch does not look.
            with zipfile.ZipFile(self.path) as file:
                damaged = file.testzip()
            if damaged:
                raise zipfile.BadZipFile(damaged)
            content = torch.load(self.path, self.slm.encoder.device, weights_only=True)
            if content["fingerprint"] != self.slm.provenance["fingerprint"]:
                return _State()
            check_finite(content["encoder"] | content["head"])
            self.slm.encoder.load_state_dict(content["encoder"])
            self.slm.head.load_state_dict(content["head"])
            return _State(**content["state"])
        except Exception as error:
            raise DreError(
                f"the checkpoint {self.path} is damaged ({type(error).__name__}): delete the "
                f"folder {self.path.parent} and give the same command again. The training then "
                "begins anew"
            ) from error
