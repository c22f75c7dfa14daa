"""Scoring on Ray: the rows of one process, in their order."""

import sys

import pandas as pd
import pytest
from test_score import RECORDED, dre, rated_records, saved_slm, write

from dre.datasets.dialogues import load
from dre.score import ray as ray_scoring


@pytest.fixture(scope="module")
def slm(tmp_path_factory):
    return saved_slm(tmp_path_factory.mktemp("ray"))


def test_the_command_writes_what_one_process_writes_with_a_recorded_judge_and_a_fusion(
    slm, tmp_path, monkeypatch
):
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'ray[data]==2.60.*'")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ray_scoring, "BLOCK", 7)
    write(rated_records(load("mini", "test")[:4]), tmp_path / "rated.jsonl")
    run = ("score", "rated.jsonl", "--slm", slm, *RECORDED)
    assert dre(*run, "-o", "parts.csv", "--method", "ex_dre") == 0
    assert dre("calibrate", "--set", "rated.jsonl", "parts.csv", "-o", "fusion.json") == 0
    fused = (*run, "--method", "calibrated", "--fusion", "fusion.json")

    assert dre(*fused, "-o", "local.csv") == 0
    assert dre(*fused, "-o", "ray.csv", "--engine", "ray", "--workers", "2") == 0

    local_scores = pd.read_csv("local.csv")
    ray_scores = pd.read_csv("ray.csv")
    assert len(local_scores) == 40
    assert local_scores["score"].nunique() > 10
    assert not ray.is_initialized()
    # z_slm is a place among 40 scores. Where two of them nearly meet, the last digit of a score
    # moves it more.
    pd.testing.assert_frame_equal(
        local_scores.drop(columns="z_slm"),
        ray_scores.drop(columns="z_slm"),
        atol=1e-5,
        rtol=1e-3,
    )


@pytest.fixture
def run(slm, tmp_path, monkeypatch):
    """A command that scores a file on Ray, which is not installed."""
    monkeypatch.setitem(sys.modules, "ray", None)
    responses = write(rated_records(load("mini", "test")[:1]), tmp_path / "in.jsonl")
    return ("score", responses, "-o", tmp_path / "o.csv", "--slm", slm, "--engine", "ray")


def test_a_live_judge_is_refused(run, tmp_path, capsys):
    judge = ("--method", "slide", "--judge", "openai:any", "--store", tmp_path / "s.sqlite")
    assert dre(*run, *judge) == 2
    assert "leave --engine ray out" in capsys.readouterr().err


def test_without_ray_it_says_what_to_install(run, capsys):
    assert dre(*run) == 2
    expected = "Ray is not installed: pip install 'ray[data]==2.60.*'"
    assert expected in capsys.readouterr().err
