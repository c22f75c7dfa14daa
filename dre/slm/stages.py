"""The stages of a recipe: one run of the Sentence-Transformers trainer each, with checkpoints and per-epoch curves."""

import json
import shutil
from pathlib import Path

import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.base.evaluation import BaseEvaluator
from transformers import PrinterCallback, set_seed

from dre.slm import distributed
from dre.slm.batching import Collator, training_rows
from dre.slm.curves import curve_point
from dre.slm.mixing import Beside, EpochOf, Mixed, bundles
from dre.slm.model import SLM
from dre.slm.objective import Objective
from dre.slm.precision import native_bf16
from dre.slm.sharing import SameBatches, SharedObjective, SharedTrainer


def run_stages(train, dev, work, recipe, seed, encoder, fingerprint, progress, beside=None):
    """Train a fresh model through the stages of a recipe, each from its last checkpoint in the folder ``work``.

    Returns
    -------
    model : SentenceTransformer
    curves : list of dict
        One row a stage, epoch and split.
    """
    set_seed(seed)
    model = SLM.untrained(encoder, recipe).model
    measured = {"train": _sample(train, seed), "dev": dev}
    curves = []
    for index, stage in enumerate(recipe.stages):
        folder = work / f"{fingerprint[:12]}-{index}-{stage.name}"
        data = _data(train, beside or Beside(), model, recipe, stage, seed + index)
        curves += _run_stage(model, data, measured, folder, recipe, stage, seed + index, progress)
    return model, curves


def _data(train, beside, model, recipe, stage, seed):
    """The rows of a stage, and what makes batches of them."""
    text = SLM(model, recipe).context
    if recipe.mixture is None:
        rows, collator = training_rows(train, text), Collator(model.preprocess, recipe.pairs)
    else:
        rows, collator = bundles(train, beside, text, recipe.mixture, stage.epochs, seed), Mixed(model.preprocess)
    return Dataset.from_list(rows), collator


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


class _TrainerOfSeveral(SharedTrainer, _Trainer):
    """The same, as one of several processes."""


def _run_stage(model, data, measured, folder, recipe, stage, seed, progress):
    rows, collator = data
    for name, module in (("encoder", list(model)[:-1]), ("head", [model[-1]])):
        for part in module:
            part.requires_grad_(name in stage.trains)
    if recipe.frozen_words:
        model[0].model.get_input_embeddings().requires_grad_(False)
    several = distributed.active()
    trainer = (_TrainerOfSeveral if several else _Trainer)(
        model=model,
        args=_arguments(folder, recipe, stage, seed, progress),
        train_dataset=rows,
        loss=(SharedObjective if several else Objective)(model, recipe, stage),
        evaluator=_Curves(measured, recipe),
        data_collator=collator,
        callbacks=[EpochOf(collator)] if recipe.mixture is not None else None,
    )
    trainer.remove_callback(PrinterCallback)
    if several:
        set_seed(seed + distributed.rank())  # dropout should differ between the shares of a batch
    checkpoint = distributed.on_first(lambda: last_checkpoint(folder))
    before = distributed.on_first(lambda: _before(folder / "before.json", trainer, model, checkpoint))
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
        # The trainer insists on drop_last for several processes; SameBatches says why there is no need.
        **({"batch_sampler": SameBatches, "dataloader_drop_last": True} if distributed.active() else {}),
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
