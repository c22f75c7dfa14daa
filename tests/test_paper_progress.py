"""Progress of long cells: shown on the notebook's line, and nowhere in the notebook."""

import io
import json
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dre import paper
from dre.notebook import progress
from dre.pipeline.line import Line, clock, said
from dre.pipeline.progress import VARIABLE

HERE = Path(__file__).parents[1]
LOOP = (
    "from dre.notebook import progress\n"
    "import time\n"
    "for item in progress(['a', 'b', 'c'], 'trainings', 'model'):\n"
    "    time.sleep(1)\n"
    "print('last', item)"
)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """One notebook with a loop of three seconds; the package is the real one."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")])))
    monkeypatch.setenv("DRE_ROOT", str(tmp_path))
    sources = {"par": 'profile = "mini"', "loop": LOOP}
    cells = [{"cell_type": "markdown", "id": "title", "metadata": {}, "source": "# A loop"}]
    cells += [
        {"cell_type": "code", "id": key, "metadata": {}, "source": text, "outputs": [], "execution_count": None}
        for key, text in sources.items()
    ]
    cells[1]["metadata"] = {"tags": ["parameters"]}
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    raw = {"cells": cells, "metadata": {"dre": {"needs": [], "outputs": []}, "kernelspec": kernel}}
    for name, text in {
        "notebooks/01_loop.ipynb": json.dumps(raw | {"nbformat": 4, "nbformat_minor": 5}),
        "profiles/mini.yaml": (HERE / "profiles" / "mini.yaml").read_text(),
    }.items():
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text(text)
    return tmp_path


def outputs(project):
    cells = json.loads((project / "build/mini/notebooks/01_loop.ipynb").read_text())["cells"]
    return [out for cell in cells for out in cell.get("outputs", ())]


def test_on_a_terminal_the_line_is_rewritten_and_the_notebook_keeps_nothing_of_it(project):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "dre.paper", "--profile", "mini"]
    runner = subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL, cwd=HERE)
    os.close(theirs)
    text = b""
    try:
        while chunk := os.read(ours, 4096):
            text += chunk
    except OSError:  # how a pty says that the other end is closed
        pass
    finally:
        os.close(ours)
        assert runner.wait(timeout=60) == 0
    shown = text.decode().split("\r\x1b[K")
    assert any(re.fullmatch(r"\[1/1\] 01_loop +\.\.\. trainings [12]/3, less than a minute left", s) for s in shown)
    assert re.match(r"\[1/1\] 01_loop +not run yet: running \.\.\. done in \d+\.\d s\r\n", shown[-1])
    assert [out["text"] for out in outputs(project)] in (["last c\n"], [["last c\n"]])
    assert not (project / "build/mini/progress.json").exists()


def test_a_short_loop_leaves_one_line_in_a_log(project, capsys):
    paper.run(paper.profile("mini", project))
    lines = [line for line in capsys.readouterr().out.splitlines() if "01_loop" in line or "trainings" in line]
    assert len(lines) == 1 and re.fullmatch(r"\[1/1\] 01_loop +not run yet: running \.\.\. done in .* s", lines[0])


def test_a_log_gets_one_line_an_item_and_a_last_one_with_the_name(tmp_path, monkeypatch):
    path, out = tmp_path / "state.json", io.StringIO()
    monkeypatch.setenv(VARIABLE, str(path))
    with Line("[1/1] 01_loop ", "changed", path, out, quiet=0) as line:
        for _ in progress(range(3), "trainings"):
            time.sleep(0.6)
        line.done()
    first, *items, last = out.getvalue().splitlines()
    assert first == "[1/1] 01_loop changed: running ... "
    assert [item.split(",")[0] for item in items] == ["    trainings 1/3", "    trainings 2/3"]
    assert re.fullmatch(r"\[1/1\] 01_loop changed: running \.\.\. done in 1\.\d s|.* done in 2\.\d s", last)


def test_a_failure_ends_the_line_with_stopped(tmp_path):
    out = io.StringIO()
    with pytest.raises(ValueError), Line("head ", "changed", tmp_path / "state", out):
        raise ValueError
    assert out.getvalue() == "head changed: running ... stopped\n"


def test_a_person_sees_a_bar_on_stderr(monkeypatch, capsys):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    assert list(progress([1, 2], "trainings", "model")) == [1, 2]
    shown = capsys.readouterr()
    assert "trainings: 100%" in shown.err and "model/s" in shown.err and not shown.out


def test_the_state_is_gone_after_the_loop_however_it_ends(tmp_path, monkeypatch):
    path = tmp_path / "state.json"
    monkeypatch.setenv(VARIABLE, str(path))
    with pytest.raises(ValueError):
        for item in progress([1, 2], "trainings"):
            assert json.loads(path.read_text())["done"] == item - 1
            if item == 2:
                raise ValueError
    assert not path.exists()


def test_progress_that_cannot_be_written_stops_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file" / "state.json"))
    assert list(progress([1, 2], "trainings")) == [1, 2]


def test_the_time_left_is_that_of_the_items_so_far():
    state = {"desc": "trainings", "done": 4, "total": 10, "start": 0.0, "now": 400.0}
    assert said(state, 400.0) == "trainings 4/10, 10 min left"
    assert said(state, 520.0) == "trainings 4/10, 8 min left", "it goes on falling within an item"
    assert said(state, 4000.0) == "trainings 4/10, less than a minute left"
    assert said(state | {"total": 200}, 400.0) == "trainings 4/200, 5.4 h left"
    assert said(state | {"done": 0, "now": 0.0}, 65.0) == "trainings 0/10, 1:05"
    assert said(state | {"total": None}, 400.0) == "trainings 4"
    assert clock(3605) == "60:05"
