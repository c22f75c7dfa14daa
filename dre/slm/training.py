"""Training an SLM: stages of the Sentence-Transformers trainer, with checkpoints, resume and per-epoch curves."""

import contextlib
import hashlib
import json
import shutil
import tempfile
from pathlib import Path

import torch
from datasets import Dataset
from safetensors import SafetensorError
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.base.evaluation import BaseEvaluator
from transformers import PrinterCallback, set_seed

from dre.data import data_hash
from dre.errors import DreError
from dre.slm import recipes
from dre.slm.batching import Collator, training_rows
from dre.slm.curves import curve_point
from dre.slm.encoder import load_encoder
from dre.slm.head import Head
from dre.slm.model import SLM
from dre.slm.objective import Objective
from dre.slm.precision import native_bf16
from dre.slm.provenance import versions


def fit(train, dev, out, recipe="paper", seed=0, encoder="minilm", epochs=None, disentangled=True, progress=True):
    """Train an SLM, or load it when ``out`` already holds the result of exactly this call.

    Parameters
    ----------
    train, dev : list of Context
        ``dev`` is only measured (curves); thresholds are chosen on it elsewhere. It may be empty.
    out : path
        Folder of the finished model; ``<out>.work`` holds the checkpoints while training. A training that was
        interrupted goes on from its last complete epoch and ends with the same curve.
    recipe, epochs, disentangled
        See :func:`dre.slm.recipes.get`.
    seed : int
    encoder : str
        See :func:`dre.slm.encoder.load_encoder`.

    Returns
    -------
    SLM

    Raises
    ------
    DreError
        On bad data or settings, or when ``out`` holds a different model.
    """
    recipe = recipes.get(recipe, epochs=epochs, disentangled=disentangled)
    out, work = Path(out), Path(f"{out}.work")
    provenance = describe(train, dev, recipe, seed, encoder)
    if (out / "slm.json").exists():
        return _load_same(out, provenance)
    with _disk_errors(out):
        work.mkdir(parents=True, exist_ok=True)
        model, curves = _run_stages(train, dev, work, recipe, seed, encoder, provenance, progress)
        slm = SLM(model, recipe, provenance | {"curves": curves})
        slm.calibrate(train)
        slm.save(out)
        shutil.rmtree(work)
    return slm


def describe(train, dev, recipe, seed, encoder):
    """Everything that decides the trained weights, as JSON types; its ``fingerprint`` identifies a training."""
    decisive = {
        "train_hash": data_hash(train),
        "dev_hash": data_hash(dev),
        "recipe": recipe.as_dict(),
        "seed": seed,
        "encoder": encoder,
        "bf16": native_bf16(),
    }
    text = json.dumps(decisive, sort_keys=True)
    return decisive | {
        "fingerprint": hashlib.sha256(text.encode()).hexdigest(),
        "contexts": {"train": len(train), "dev": len(dev)},
        "versions": versions(),
    }


def _load_same(out, provenance):
    slm = SLM.load(out)
    found = slm.provenance.get("fingerprint")
    if found != provenance["fingerprint"]:
        raise DreError(
            f"{out} holds another model (fingerprint {str(found)[:12]}, expected {provenance['fingerprint'][:12]}: "
            "other data, recipe, seed or encoder); train into another folder or delete this one"
        )
    return slm


def _run_stages(train, dev, work, recipe, seed, encoder, provenance, progress):
    set_seed(seed)
    base = load_encoder(encoder, recipe.max_seq_length)
    head = Head(base.get_embedding_dimension(), recipe.sep)
    model = SentenceTransformer(modules=[*base, head])
    model.to(base.device)
    rows = Dataset.from_list(training_rows(train, SLM(model, recipe).separator()))
    measured = {"train": _sample(train, seed), "dev": dev}
    curves = []
    for index, stage in enumerate(recipe.stages):
        folder = work / f"{provenance['fingerprint'][:12]}-{index}-{stage.name}"
        curves += _run_stage(model, rows, measured, folder, recipe, stage, seed + index, progress)
    return model, curves


def _sample(contexts, seed, size=200):
    """A fixed sample of training contexts for the curves: measuring all of them would cost as much as an epoch."""
    if len(contexts) <= size:
        return contexts
    chosen = torch.randperm(len(contexts), generator=torch.Generator().manual_seed(seed))[:size]
    return [contexts[i] for i in sorted(chosen.tolist())]


class _Curves(BaseEvaluator):
    """Measure the curves at the end of every epoch; the trainer keeps them in its checkpointed log."""

    def __init__(self, measured, recipe):
        super().__init__()
        self.measured, self.recipe = measured, recipe

    def __call__(self, model, output_path=None, epoch=-1, steps=-1):
        point = {}
        for split, contexts in self.measured.items():
            if contexts:
                values = curve_point(SLM(model, self.recipe), contexts)
                point |= {f"{split}/{name}": value for name, value in values.items()}
        return point


class _Trainer(SentenceTransformerTrainer):
    """The stock trainer without its model card."""

    def add_model_card_callback(self, default_args_dict):
        """Skip it: ``slm.json`` says what the model is, and collecting examples for the card costs time."""


def _run_stage(model, rows, measured, folder, recipe, stage, seed, progress):
    for name, module in (("encoder", list(model)[:-1]), ("head", [model[-1]])):
        for part in module:
            part.requires_grad_(name in stage.trains)
    trainer = _Trainer(
        model=model,
        args=_arguments(folder, recipe, stage, seed, progress),
        train_dataset=rows,
        loss=Objective(model, recipe, stage),
        evaluator=_Curves(measured, recipe),
        data_collator=Collator(model.preprocess, recipe.pairs),
    )
    trainer.remove_callback(PrinterCallback)
    checkpoint = last_checkpoint(folder)
    before = _before(folder / "before.json", trainer, model, checkpoint)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    model.requires_grad_(True)
    return _history([before, *trainer.state.log_history], stage)


def _before(file, trainer, model, checkpoint):
    """Measure the curves before the first step (epoch 0); a resumed stage reads what was measured then."""
    if checkpoint is not None and file.exists():
        return json.loads(file.read_text())
    point = {f"eval_{key}": value for key, value in trainer.evaluator(model).items()} | {"epoch": 0}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(point))
    return point


def _arguments(folder, recipe, stage, seed, progress):
    return SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        num_train_epochs=stage.epochs,
        per_device_train_batch_size=recipe.batch_contexts,
        learning_rate=recipe.learning_rate,
        learning_rate_mapping={r"classifier|robust|project": recipe.head_learning_rate},
        warmup_steps=recipe.warmup,
        weight_decay=recipe.weight_decay,
        seed=seed,
        data_seed=seed,
        bf16=native_bf16(),
        use_cpu=not torch.cuda.is_available(),
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=2,
        logging_strategy="epoch",
        report_to="none",
        disable_tqdm=not progress,
        dataloader_pin_memory=torch.cuda.is_available(),
    )


def last_checkpoint(folder):
    """Return the newest complete checkpoint of a stage, or None.

    The trainer writes ``trainer_state.json`` last; a checkpoint without a readable one was cut short and is removed.
    """
    found = sorted(Path(folder).glob("checkpoint-*"), key=lambda p: int(p.name.split("-")[1]), reverse=True)
    for checkpoint in found:
        try:
            json.loads((checkpoint / "trainer_state.json").read_text())
            return checkpoint
        except (OSError, json.JSONDecodeError):
            shutil.rmtree(checkpoint, ignore_errors=True)
    return None


def _history(log, stage):
    """The per-epoch rows of a stage: {stage, epoch, split, contrastive_loss, triplet_accuracy, ...}."""
    rows = {}
    for entry in log:
        epoch = round(entry.get("epoch") or 0)
        for key, value in entry.items():
            if key.startswith("eval_") and "/" in key:
                split, name = key.removeprefix("eval_").split("/")
                rows.setdefault((epoch, split), {})[name] = value
    return [{"stage": stage.name, "epoch": e, "split": s} | values for (e, s), values in sorted(rows.items())]


@contextlib.contextmanager
def _disk_errors(out):
    try:
        yield
    except (OSError, SafetensorError, RuntimeError) as error:
        # Tensor writers report a full disk as errors of their own; what they have in common is that the
        # file system refuses the next write, too.
        reason = getattr(error, "strerror", None) or _refuses_writes(out)
        if reason is None:
            raise
        raise DreError(
            f"cannot write the model to {out} ({reason}): free some space or name a writable folder; "
            "finished epochs are kept, and the same call goes on from there"
        ) from error


def _refuses_writes(out, size=1 << 20):
    """Return why a file of ``size`` bytes cannot be written beside ``out``, or None if it can."""
    try:
        with tempfile.TemporaryFile(dir=Path(out).parent) as file:
            file.write(bytes(size))
            file.flush()
    except OSError as error:
        return error.strerror
    return None
