"""Scoring on Ray: the rows of one process, in their order, although an actor is really killed."""

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import psutil
import pytest
import scoring_data

from dre.cli import main
from dre.data import load
from dre.errors import DreError
from dre.scoring import ray_engine
from dre.scoring.readers import Blocks
from dre.scoring.scorer import Settings


@pytest.fixture(scope="module")
def slm(tmp_path_factory):
    return scoring_data.saved(tmp_path_factory.mktemp("scoring"))


@pytest.fixture
def ray():
    return pytest.importorskip("ray", reason="Ray is not installed: pip install 'ray[data]==2.60.*'")


@dataclass(frozen=True)
class Watched(Settings):
    """Settings that leave a line in a folder, under the process id, when they are opened and for every block."""

    folder: str = ""

    def open(self):
        scorer, trace = super().open(), Path(self.folder) / str(os.getpid())
        score_block = scorer.score_block

        def traced(rows):
            _append(trace, "block")
            time.sleep(0.3)
            return score_block(rows)

        _append(trace, "opened")
        scorer.score_block = traced
        return scorer


def _append(path, line):
    with open(path, "a") as file:
        file.write(line + "\n")


def traces(folder):
    return {int(path.name): path.read_text().split() for path in Path(folder).iterdir()}


def test_a_killed_actor_loses_nothing_and_blocks_are_streamed_in_order(ray, slm, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))  # actors import Watched from here
    source = scoring_data.write(scoring_data.records(20), tmp_path / "in.jsonl")
    blocks = Blocks(source, {}, 2)
    here = Settings(slm=str(slm)).open()
    expected = pd.concat(map(here.score_block, blocks))
    n = len(list(blocks))
    (tmp_path / "trace").mkdir()
    settings = Watched(slm=str(slm), folder=str(tmp_path / "trace"))
    found, killed = [], None
    for table in ray_engine.engine(settings, workers=2)(blocks):
        found.append(table)
        if killed is None:
            seen = traces(settings.folder)
            assert sum(lines.count("block") for lines in seen.values()) < n, "all was scored before anything came back"
            killed = next(pid for pid, lines in seen.items() if "block" in lines)
            os.kill(killed, signal.SIGKILL)
    pd.testing.assert_frame_equal(pd.concat(found), expected, atol=1e-6)
    assert len(found) == n
    seen = traces(settings.folder)
    assert len(seen) == 3, "two actors, and the one that took the killed one's place"
    assert all(lines.count("opened") == 1 for lines in seen.values()), "a model is loaded once an actor"
    assert not psutil.pid_exists(killed) or psutil.Process(killed).status() == psutil.STATUS_ZOMBIE
    assert not ray.is_initialized()


def test_the_command_writes_what_one_process_writes(ray, slm, tmp_path, capsys):
    source = scoring_data.write(scoring_data.records(12), tmp_path / "in.jsonl")
    for engine in ("local", "ray"):
        more = ["--workers", "1"] if engine == "ray" else []
        output = tmp_path / f"{engine}.csv"
        assert main(["score", str(source), "-o", str(output), "--slm", str(slm), "--engine", engine, *more]) == 0
        assert "24 scores written" in capsys.readouterr().out
    one, other = (pd.read_csv(tmp_path / f"{engine}.csv") for engine in ("local", "ray"))
    pd.testing.assert_frame_equal(one, other, atol=1e-6)


def test_a_recorded_judge_and_a_fusion_named_from_here_reach_the_actors(ray, slm, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    scoring_data.write(scoring_data.rated(load("mini", "test")[:4]), tmp_path / "rated.jsonl")
    with_judge = ["--slm", str(slm), "--judge", "recorded:claude-2026-11"]
    assert main(["score", "rated.jsonl", "-o", "parts.csv", *with_judge, "--method", "ex_dre"]) == 0
    assert main(["calibrate", "--set", "rated.jsonl", "parts.csv", "-o", "fusion.json"]) == 0
    tables = []
    for engine, more in (("local", []), ("ray", ["--workers", "1"])):
        fused = ["--method", "calibrated", "--fusion", "fusion.json", "--engine", engine, *more]
        assert main(["score", "rated.jsonl", "-o", f"{engine}.csv", *with_judge, *fused]) == 0
        tables.append(pd.read_csv(f"{engine}.csv"))
    assert "40 scores written" in capsys.readouterr().out and tables[0]["score"].nunique() > 10
    pd.testing.assert_frame_equal(*tables, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "workers", "message"),
    [
        (Settings("m", "openai:any", "slide"), None, "leave --engine ray out, and raise --concurrency"),
        (Settings(None, "recorded:any", "non_dre"), None, "method non_dre has no small model"),
        (Settings("m"), 0, "workers is 0: expected at least 1"),
    ],
)
def test_what_ray_is_not_for_is_refused(settings, workers, message):
    with pytest.raises(DreError, match=message):
        ray_engine.engine(settings, workers)


def test_without_ray_the_way_to_it_is_told(slm, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DreError, match=r"Ray is not installed: pip install 'ray\[data\]==2.60.\*'"):
        ray_engine.engine(Settings(str(slm)))


def test_workers_belong_to_ray(slm, tmp_path, capsys):
    assert main(["score", "in.jsonl", "-o", str(tmp_path / "o.csv"), "--slm", str(slm), "--workers", "2"]) == 2
    assert "--workers is for --engine ray" in capsys.readouterr().err
