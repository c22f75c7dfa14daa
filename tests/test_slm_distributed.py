"""Training by two processes under torchrun: the steps of one process, faults, and resuming."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
import tiny
import torch

from dre.errors import DreError
from dre.slm import distributed, sharing
from dre.slm.model import SLM

# Contexts have one to five adversarials, so means over triplets differ from part to part of a batch. No warm-up, so
# that the first step moves. Every step's gradients are kept: AdamW's first step hides their scale.
TRAIN = """
import sys
from dataclasses import replace
import torch
import dre.slm.precision
from torch.optim.optimizer import register_optimizer_step_pre_hook
dre.slm.precision.native_bf16 = lambda: False
from dre.data import load
from dre.slm import distributed, head, recipes
from dre.slm.training import fit

head.DROPOUT = 0.0
out, encoder, *cases = sys.argv[1:]
steps = []
def keep(optimizer, args, kwargs):
    steps.append([p.grad.clone() for group in optimizer.param_groups for p in group["params"] if p.grad is not None])
register_optimizer_step_pre_hook(keep)
for case in cases:
    name, n = case.split("-")[0], int(case.split("-")[-1])
    contexts = [replace(c, adversarials=c.adversarials[: 1 + i % 5]) for i, c in enumerate(load("mini", "train")[:n])]
    recipe = recipes.get(name, epochs=1, disentangled="plain" not in case)
    recipe = replace(recipe, batch_contexts=4, warmup=0)
    steps.clear()
    fit(contexts, load("mini", "dev")[:2], f"{out}/{case}", recipe, 0, encoder, progress=False)
    if distributed.rank() == 0:
        torch.save(steps, f"{out}/{case}.pt")
"""
#: recipe and number of contexts, in batches of four; nine end with a batch of one
CASES = {"paper-4": 1, "paper-9": 3, "released-4": 3, "released-plain-4": 2, "context-4": 1}
REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """Without dropout: which random numbers it draws is all that may differ."""
    path = tiny.encoder(tmp_path_factory.mktemp("tiny"))
    config = Path(path) / "config.json"
    chances = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config.write_text(json.dumps(json.loads(config.read_text()) | chances))
    return path


def start(processes, *command, **options):
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    env = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    launcher = torchrun if processes > 1 else []
    return subprocess.Popen([sys.executable, *launcher, *map(str, command)], env=env, text=True, **options)


@pytest.fixture(scope="module")
def trained(encoder, tmp_path_factory):
    """Folders of what one process trains, and of what two train together."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "train.py").write_text(TRAIN)
    for processes in (1, 2):
        assert start(processes, folder / "train.py", folder / str(processes), encoder, *CASES).wait() == 0
    return folder / "1", folder / "2"


@pytest.mark.parametrize("case", CASES)
def test_every_gradient_of_two_processes_is_that_of_one(trained, case):
    one, two = (torch.load(folder / f"{case}.pt") for folder in trained)
    assert len(one) == len(two) == CASES[case]
    for step, (ours, theirs) in enumerate(zip(one, two)):
        assert len(ours) == len(theirs)
        # Later steps start from parameters that differ by the rounding of earlier ones.
        tolerance = (1e-5 if step == 0 or "released" in case else 1e-3) * max(g.norm() for g in ours)
        assert max(float((a - b).norm()) for a, b in zip(ours, theirs)) < tolerance


@pytest.mark.parametrize("case", ["paper-4", "released-4", "released-plain-4"])
def test_the_parameters_after_a_step_are_those_of_one_process(trained, case):
    one, two = (SLM.load(folder / case) for folder in trained)
    theirs = two.model.state_dict()
    for name, value in one.model.state_dict().items():
        if ".key.bias" in name:  # attention ignores it: its gradient is rounding alone, which AdamW divides by itself
            continue
        assert float((value - theirs[name]).norm()) <= 2e-6 * float(value.norm()), name


def test_the_model_is_the_same_training_and_says_how_many_trained_it(trained):
    one, two = (json.loads((folder / "paper-9" / "slm.json").read_text())["provenance"] for folder in trained)
    assert one["fingerprint"] == two["fingerprint"]
    assert (one["processes"], two["processes"]) == (1, 2)
    assert two["d_min"] == pytest.approx(one["d_min"], abs=1e-5)
    ours, theirs = (pd.DataFrame(about["curves"]) for about in (one, two))
    measured = ["contrastive_loss", "classification_loss"]  # accuracies count: rounding may turn a triplet over
    pd.testing.assert_frame_equal(ours[measured], theirs[measured], atol=2e-3)
    assert not list(trained[1].glob("*.work"))


def test_a_killed_process_ends_all_and_the_same_command_goes_on(encoder, tmp_path):
    out = tmp_path / "slm"
    command = ["-m", "dre", "slm", "train", "--train", "mini:train", "--encoder", encoder, "--epochs", "3"]
    run = start(2, *command, "--out", out, stderr=subprocess.PIPE)
    while not list(Path(f"{out}.work").glob("*/checkpoint-*/trainer_state.json")):
        assert run.poll() is None
        time.sleep(0.02)
    second = next(p for p in psutil.Process(run.pid).children() if p.environ().get("RANK") == "1")
    second.send_signal(signal.SIGKILL)
    _, told = run.communicate(timeout=120)
    assert run.returncode != 0 and "exitcode  : -9" in told
    assert not out.exists()
    again = start(2, *command, "--out", out, stdout=subprocess.PIPE)
    told, _ = again.communicate()
    assert again.returncode == 0 and "74 contexts" in told and told.count("trained by 2 process(es)") == 1
    assert start(1, *command, "--out", tmp_path / "one").wait() == 0
    curves = [pd.DataFrame(SLM.load(path).provenance["curves"]) for path in (tmp_path / "one", out)]
    assert list(curves[0]["epoch"]) == list(curves[1]["epoch"]) == [0, 1, 2, 3]
    pd.testing.assert_series_equal(*(curve["contrastive_loss"] for curve in curves), atol=0.02)


def test_an_error_is_told_once(encoder, tmp_path):
    command = ["-m", "dre", "slm", "train", "--train", "mini:nothing", "--encoder", encoder, "--out", tmp_path / "slm"]
    run = start(2, *command, stderr=subprocess.PIPE)
    _, told = run.communicate()
    assert run.returncode != 0 and told.count("error: mini has no split 'nothing'") == 1


@pytest.mark.parametrize(("n", "size"), [(8, 2), (5, 2), (5, 3), (1, 4)])
def test_shares_are_of_one_length_and_hold_every_row_in_order(monkeypatch, n, size):
    monkeypatch.setattr(distributed, "size", lambda: size)
    shares = []
    for rank in range(size):
        monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
        shares.append(sharing.share(n))
    assert len({len(own) for own in shares}) == 1
    assert torch.stack(shares, dim=1).flatten()[:n].tolist() == list(range(n))


def test_more_processes_than_gpus_are_refused(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(DreError, match=r"process 2 of this machine finds 1 GPU\(s\): set --nproc-per-node to 1"):
        distributed.join()


def test_one_process_needs_no_group():
    assert (distributed.active(), distributed.rank(), distributed.size()) == (False, 0, 1)
    assert distributed.on_first(lambda: 7) == 7
    distributed.require_shared("no such folder")  # nobody else has to see it
