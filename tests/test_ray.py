"""Scoring on Ray: the rows of one process, in their order."""

import sys

import pandas as pd
import pytest
from test_score import RECORDED, dre, rated_records, saved_slm, write

from dre.datasets.dialogues import load
from dre.score import ray as on_ray


@pytest.fixture(scope="module")
def slm(tmp_path_factory):
    return saved_slm(tmp_path_factory.mktemp("ray"))


def test_the_command_writes_what_one_process_writes_with_a_recorded_judge_and_a_fusion(
    slm, tmp_path, monkeypatch
):
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'ray[data]==2.60.*'")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(on_ray, "BLOCK", 7)
    write(rated_records(load("mini", "test")[:4]), tmp_path / "rated.jsonl")
    run = ("score", "rated.jsonl", "--slm", slm, *RECORDED)
    assert dre(*run, "-o", "parts.csv", "--method", "ex_dre") == 0
    assert dre("calibrate", "--set", "rated.jsonl", "parts.csv", "-o", "fusion.json") == 0
    for engine, more in (("local", ()), ("ray", ("--workers", "2"))):
        more += ("--method", "calibrated", "--fusion", "fusion.json", "--engine", engine)
        assert dre(*run, "-o", f"{engine}.csv", *more) == 0
    one, other = (pd.read_csv(f"{engine}.csv") for engine in ("local", "ray"))
    assert len(one) == 40 and one["score"].nunique() > 10 and not ray.is_initialized()
    # z_slm is a place among 40 scores: where two of them nearly meet, the last float digit of a score moves it more.
    pd.testing.assert_frame_equal(
        one.drop(columns="z_slm"), other.drop(columns="z_slm"), atol=1e-5, rtol=1e-3
    )


def test_a_live_judge_is_refused_and_without_ray_it_says_what_to_install(
    slm, tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "ray", None)
    given = write(rated_records(load("mini", "test")[:1]), tmp_path / "in.jsonl")
    run = ("score", given, "-o", tmp_path / "o.csv", "--slm", slm, "--engine", "ray")
    live = ("--method", "slide", "--judge", "openai:any", "--store", tmp_path / "s.sqlite")
    assert dre(*run, *live) == 2 and "leave --engine ray out" in capsys.readouterr().err
    assert (
        dre(*run) == 2
        and "Ray is not installed: pip install 'ray[data]==2.60.*'" in capsys.readouterr().err
    )
