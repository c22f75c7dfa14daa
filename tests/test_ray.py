"""Scoring on Ray: the rows of one process, in their order."""

import sys

import pandas as pd
import pytest
from test_score import RECORDED, saved_slm, score, write

from dre.datasets.dialogues import load, pairs
from dre.score import ray as ray_scoring


@pytest.fixture(scope="module")
def slm(tmp_path_factory):
    return saved_slm(tmp_path_factory.mktemp("ray"))


def recorded_pairs(contexts):
    """Pairs of contexts whose scores by a judge are recorded under their ids."""
    table = pairs(contexts).rename(columns={"pair_id": "id"})
    return table[["id", "context", "response"]].to_dict("records")


def test_the_command_writes_what_one_process_writes(slm, tmp_path, monkeypatch):
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'ray[data]==2.60.*'")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ray_scoring, "BLOCK", 7)
    write(recorded_pairs(load("mini", "test")[:4]), "in.jsonl")
    run = ("in.jsonl", "--slm", slm, "--method", "product", *RECORDED)

    assert score(*run, "-o", "local.csv") == 0
    assert score(*run, "-o", "ray.csv", "--engine", "ray") == 0

    local_scores = pd.read_csv("local.csv")
    assert len(local_scores) == 40
    assert local_scores["score"].nunique() > 10
    assert not ray.is_initialized()
    pd.testing.assert_frame_equal(local_scores, pd.read_csv("ray.csv"), atol=1e-5, rtol=1e-3)


CANNOT = {
    "leave --engine ray": ("--method", "slide", "--judge", "openai:any", "--store", "s.db"),
    "some methods have no small model: leave --engine ray out": RECORDED,
    "Ray is not installed: pip install 'ray[data]==2.60.*'": (),
}


@pytest.mark.parametrize("message", CANNOT)
def test_what_ray_cannot_do_is_said(slm, tmp_path, monkeypatch, capsys, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "ray", None)  # not installed
    write(recorded_pairs(load("mini", "test")[:1]), "in.jsonl")
    small = () if CANNOT[message] == RECORDED else ("--slm", slm)
    assert score("in.jsonl", "--engine", "ray", *small, *CANNOT[message]) == 2
    assert message in capsys.readouterr().err
