"""The runner behind `make paper`, on small real projects: real kernels, real papermill, no torch."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dre import paper
from dre.errors import DreError
from dre.pipeline import preflight
from dre.pipeline.profile import root

HERE = Path(__file__).parents[1]


def write_notebook(folder, name, code, needs=(), outputs=(), parameters='profile = "mini"'):
    cells = [
        {"cell_type": "markdown", "id": "title", "metadata": {}, "source": f"# Title of {name}"},
        {"cell_type": "code", "id": "par", "metadata": {"tags": ["parameters"]}, "source": parameters},
        *({"cell_type": "code", "id": f"c{i}", "metadata": {}, "source": source} for i, source in enumerate(code)),
    ]
    for cell in cells[1:]:
        cell |= {"outputs": [], "execution_count": None}
    notebook = {
        "cells": cells,
        "metadata": {
            "dre": {"needs": list(needs), "outputs": list(outputs)},
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path = folder / "notebooks" / f"{name}.ipynb"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(notebook))
    return path


def writes(name, text):
    """Code that writes `text` (an expression) into results/<profile>/<name>."""
    return (
        "import os, pathlib\n"
        "folder = pathlib.Path(os.environ['DRE_ROOT'], 'results', profile)\n"
        "folder.mkdir(parents=True, exist_ok=True)\n"
        f"(folder / '{name}').write_text(str({text}))"
    )


@pytest.fixture
def project(tmp_path):
    """Three notebooks: 01 imports dre.used, 02 needs 01, 03 imports dre.other through dre.between."""
    for name, text in {
        "dre/__init__.py": "",
        "dre/used.py": "VALUE = 1\n",
        "dre/other.py": "VALUE = 2\n",
        "dre/between.py": "def value():\n    from dre.other import VALUE\n    return VALUE\n",
        "requirements.lock": "x==1\n",
        "profiles/mini.yaml": (HERE / "profiles" / "mini.yaml").read_text(),
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    out = "results/{profile}/"
    write_notebook(tmp_path, "01_a", [f"from dre.used import VALUE\n{writes('a.txt', 'VALUE')}"], (), [out + "a.txt"])
    write_notebook(tmp_path, "02_b", [writes("b.txt", "'b'")], ["01_a"], [out + "b.txt"])
    write_notebook(
        tmp_path,
        "03_c",
        [f"from dre.between import value\n{writes('c.txt', 'value()')}"],
        (),
        [out + "c.txt"],
    )
    return tmp_path


def run(project, **options):
    return paper.run(paper.profile("mini", project), **options)


def test_runs_what_changed_and_what_depends_on_it_and_nothing_else(project, capsys):
    assert run(project) == ["01_a", "02_b", "03_c"]
    assert (project / "results/mini/c.txt").read_text() == "2"
    assert (project / "results/mini/index.html").exists()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("[")]
    assert len(lines) == 3 and all("done in" in line for line in lines), "one line a notebook"

    assert run(project) == []

    (project / "dre/used.py").write_text("VALUE = 10\n")
    assert run(project) == ["01_a", "02_b"]
    assert (project / "results/mini/a.txt").read_text() == "10"

    (project / "dre/other.py").write_text("VALUE = 20\n")  # reached through another module, inside a function
    assert run(project) == ["03_c"]

    (project / "results/mini/b.txt").unlink()
    (project / "results/mini/c.txt").write_text("edited by hand")
    assert run(project) == ["02_b", "03_c"]
    assert (project / "results/mini/c.txt").read_text() == "20"

    path = project / "notebooks/03_c.ipynb"
    notebook = json.loads(path.read_text())
    notebook["cells"][2]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x"}]
    path.write_text(json.dumps(notebook, indent=2))
    assert run(project) == [], "outputs are no part of a notebook's source"
    notebook["cells"][0]["source"] = "# Another title"
    path.write_text(json.dumps(notebook))
    assert run(project) == ["03_c"]

    (project / "requirements.lock").write_text("x==2\n")
    assert len(run(project)) == 3


def test_a_second_run_is_quick_and_loads_neither_torch_nor_papermill(project):
    run(project)
    code = (
        "import sys; from dre import paper; status = paper.main(['--profile', 'mini']);"
        "sys.exit(status or 10 * bool({'torch', 'papermill', 'pandas'} & set(sys.modules)))"
    )
    start = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=HERE,
        env=os.environ | {"DRE_ROOT": str(project)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "nothing to do" in ended.stdout
    assert time.monotonic() - start < 5


def test_a_failing_cell_stops_the_run_names_itself_and_keeps_what_succeeded(project, capsys, monkeypatch):
    monkeypatch.setenv("DRE_ROOT", str(project))
    good = (project / "notebooks/02_b.ipynb").read_text()
    write_notebook(
        project,
        "02_b",
        ["first = 1", "\n# the second cell\nprint('before')\nraise ValueError('no such thing')"],
        ["01_a"],
    )
    assert paper.main(["--profile", "mini"]) == 1
    error = capsys.readouterr().err
    assert "02_b.ipynb failed in cell 4 of 4" in error
    assert "# the second cell" in error and "ValueError: no such thing" in error
    executed = project / "build/mini/notebooks/02_b.ipynb"
    assert str(executed.relative_to(project)) in error and "before" in executed.read_text()
    assert not (project / "results/mini/c.txt").exists(), "nothing runs after the failure"

    (project / "notebooks/02_b.ipynb").write_text(good)
    assert run(project) == ["02_b", "03_c"]


def test_a_kernel_that_dies_is_reported_with_its_cell(project):
    write_notebook(project, "01_a", ["x = 1", "import os\nos._exit(3)"])
    with pytest.raises(paper.CellFailed, match=r"01_a.ipynb failed in cell 4 of 4(.|\n)*import os(.|\n)*[Dd]ied"):
        run(project)


def test_an_output_that_was_declared_but_not_written_is_an_error(project):
    write_notebook(project, "01_a", ["x = 1"], outputs=["results/{profile}/never.csv"])
    with pytest.raises(DreError, match=r"01_a.ipynb ended without writing results/mini/never.csv"):
        run(project)


def test_parameters_reach_the_notebooks_that_declare_them_and_unknown_ones_run_nothing(project, capsys, monkeypatch):
    monkeypatch.setenv("DRE_ROOT", str(project))
    write_notebook(project, "02_b", [writes("b.txt", "limit * 2")], ["01_a"], parameters='profile = "mini"\nlimit = 1')
    assert paper.main(["-p", "limt", "3"]) == 2
    assert "unknown parameter 'limt'" in (error := capsys.readouterr().err) and "limit" in error
    assert not (project / "build/mini/notebooks").exists()
    run(project)
    assert run(project, parameters={"limit": 21}) == ["02_b"]
    assert (project / "results/mini/b.txt").read_text() == "42"
    with pytest.raises(DreError, match="PROFILE=name"):
        run(project, parameters={"profile": "public"})


def test_a_torn_state_file_means_running_again(project):
    run(project)
    state = project / "build/mini/state/01_a.json"
    state.write_text(state.read_text()[:40])
    assert run(project) == ["01_a"]
    state.write_text('["something else"]')
    assert run(project) == ["01_a"]


def test_a_killed_run_goes_on_where_it_stopped_and_leaves_no_kernel_behind(project):
    slow = f"import os, time\n{writes('pid.txt', 'os.getpid()')}\ntime.sleep(0 if (folder / 'go').exists() else 600)"
    write_notebook(project, "02_b", [slow, writes("b.txt", "1")], ["01_a"])
    command = [sys.executable, "-m", "dre.paper", "--profile", "mini"]
    runner = subprocess.Popen(command, cwd=HERE, env=os.environ | {"DRE_ROOT": str(project)}, stdout=subprocess.DEVNULL)
    pid_file = project / "results/mini/pid.txt"
    try:
        wait_for(lambda: pid_file.exists() and pid_file.read_text())
        with pytest.raises(DreError, match="another run of profile mini is under way"):
            run(project)
    finally:
        runner.send_signal(signal.SIGKILL)
        runner.wait()
    wait_for(lambda: not Path("/proc", pid_file.read_text()).exists())
    (project / "results/mini/go").touch()
    assert run(project) == ["02_b", "03_c"]


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.1)


def test_what_the_profile_needs_is_said_before_anything_runs(project, capsys, monkeypatch):
    monkeypatch.setattr(preflight, "gpu", lambda: None)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    text = (project / "profiles/mini.yaml").read_text().replace("gpu: false", "gpu: true")
    (project / "profiles/mini.yaml").write_text(text.replace("recorded:claude-2026-11", "openai:some-model"))
    with pytest.raises(DreError, match=r"cannot run in full here \(2 missing.*--anyway"):
        run(project)
    out = capsys.readouterr().out
    assert "no GPU" in out and "OPENAI_API_KEY" in out and not (project / "build/mini/notebooks").exists()
    assert len(run(project, anyway=True)) == 3


def test_results_that_cannot_be_written_are_an_error_of_one_line(project, capsys, monkeypatch):
    monkeypatch.setenv("DRE_ROOT", str(project))
    (project / "build").write_text("a file where a folder should be")
    assert paper.main([]) == 2
    assert capsys.readouterr().err.startswith("error: cannot use ")


def test_the_manifest_of_a_notebook_that_is_gone_is_dropped(project):
    run(project)
    stale = project / "results/mini/manifest/09_gone.json"
    stale.parent.mkdir(exist_ok=True)
    stale.write_text('{"items": [], "not_run": []}')
    run(project)
    assert not stale.exists()


def test_committed_outputs_say_nothing_of_this_machine_and_keep_the_source(project):
    code = f"import sys\nprint(os.environ['DRE_ROOT'], profile)\nprint('warning', file=sys.stderr)\n{'os.getcwd()'}"
    path = write_notebook(project, "02_b", ["import os\n" + code], ["01_a"])
    path.write_text(json.dumps(json.loads(path.read_text()) | {"nbformat_minor": 5}))
    before = json.loads(path.read_text())
    run(project)
    profile = paper.profile("mini", project)
    from dre.pipeline.graph import discover

    changed = paper.commit_outputs(discover(project / "notebooks"), profile)
    after = json.loads(path.read_text())
    assert path in changed
    assert [c["source"] for c in after["cells"]] == [c["source"] for c in before["cells"]]
    assert [c["id"] for c in after["cells"]] == [c["id"] for c in before["cells"]]
    outputs = after["cells"][2]["outputs"]
    assert [o["output_type"] for o in outputs] == ["stream", "execute_result"]
    assert "".join(outputs[0]["text"]) == ". mini\n"
    assert str(project) not in path.read_text() and "papermill" not in path.read_text()
    assert after["metadata"]["dre"]["executed"]["profile"] == "mini"
    assert paper.commit_outputs(discover(project / "notebooks"), profile) == [], "the same outputs give the same bytes"
    assert run(project) == [], "writing outputs makes nothing out of date"


def test_the_root_is_where_the_profiles_are(monkeypatch, tmp_path):
    monkeypatch.delenv("DRE_ROOT", raising=False)
    assert root() == HERE
    monkeypatch.setenv("DRE_ROOT", str(tmp_path))
    with pytest.raises(DreError, match="no profiles/"):
        root()
