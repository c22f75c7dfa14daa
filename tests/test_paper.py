"""`make paper`: which notebooks run, what a failure stops, committed outputs, and the `Book`."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import papermill
import psutil
import pytest
from conftest import HERE, heed_interrupts, writable_copy
from filelock import FileLock

from dre import judges
from dre.datasets import registry
from dre.errors import DreError
from dre.judges.providers import Reply
from dre.paper import books, notebook, verdicts
from dre.paper import run as paper
from dre.paper.profile import profile

[SETUP] = [
    books.source(cell)
    for cell in json.loads((HERE / "notebooks/03_classification.ipynb").read_text())["cells"]
    if "notebook.setup(" in books.source(cell)
]


def code(text, **metadata):
    cell = {"cell_type": "code", "id": f"c{abs(hash(text))}"[:9], "source": text}
    return cell | {"metadata": metadata, "outputs": [], "execution_count": None}


def prose(text, *tags):
    return {"cell_type": "markdown", "id": text[:8], "source": text, "metadata": {"tags": tags}}


def write(root, name, *cells, needs=()):
    content = {"cells": cells, "metadata": {"dre": {"needs": list(needs)}}}
    content |= {"nbformat": 4, "nbformat_minor": 5}
    (root / f"notebooks/{name}.ipynb").write_text(json.dumps(content))


def edit(path, old, new):
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A project without notebooks, whose runs need no data and no judge."""
    writable_copy(HERE / "profiles", tmp_path / "profiles")
    for name in ("notebooks", "data", "dre"):
        (tmp_path / name).mkdir()
    (tmp_path / "dre/a.py").write_text("a = 1")
    (tmp_path / "data/some.txt").write_text("some")
    (tmp_path / "requirements.lock").write_text("a==1")
    (tmp_path / "results/curve").mkdir(parents=True)
    (tmp_path / "results/curve/a.json").write_text("1")
    values = {"DRE_ROOT": str(tmp_path), "PYTHONPATH": str(HERE), "RETRAIN": ""}
    for name, value in (values | {notebook.RUN: "", "OMP_NUM_THREADS": "1"}).items():
        monkeypatch.setenv(name, value)  # restored after a run that sets them
    monkeypatch.delenv(notebook.RUN)
    monkeypatch.setattr(registry, "absent", lambda names=None: [])
    monkeypatch.setattr(paper, "_prepare", lambda settings: [])
    monkeypatch.setattr(verdicts, "write", lambda settings: "")
    monkeypatch.setenv("DRE_STORE", str(tmp_path / "replies.sqlite"))
    return tmp_path


@pytest.fixture
def quick(root, monkeypatch):
    """Three notebooks that are executed without a kernel: a line of code is run by `exec`."""

    def execute(source, target, parameters, **options):
        content = json.loads(Path(source).read_text())
        name = Path(target).stem
        settings = profile(parameters["profile"], root)
        log.append(("start", name))
        names = {"book": notebook.Book(name, settings), "time": time}
        for cell in books.code_cells(content):
            printed = f"{root}/x torch 2.1.0+cpu"
            try:
                exec(books.source(cell), names)
            except ZeroDivisionError as error:
                Path(target).write_text(json.dumps(content))
                raise RuntimeError("ZeroDivisionError") from error
            cell["outputs"] = [
                {"output_type": "stream", "name": "stdout", "text": printed},
                {"output_type": "stream", "name": "stderr", "text": "noise"},
            ]
        log.append(("end", name))
        Path(target).write_text(json.dumps(content))

    log = []
    table = "import pandas as pd\nbook.table(pd.DataFrame({'a': [1]}), '%s', 'A table')"
    write(root, "00_start", code(table % "start"))
    heading = prose("## What follows")  # over results alone
    of_results = prose("It gains.", "public")
    write(
        root,
        "01_a",
        code(table % "a"),
        prose("# A"),
        heading,
        of_results,
        prose("## End"),
        code("1"),
    )
    write(root, "02_b", code("2"), needs=["01_a"])
    monkeypatch.setattr(papermill, "execute_notebook", execute)
    return SimpleNamespace(root=root, log=log)


def run(root, name="public", jobs=1, **changes):
    ran = paper.run(profile(name, root).model_copy(update=changes), jobs)
    return [book[:2] for book in ran]


def test_a_second_run_has_nothing_to_do(quick):
    assert run(quick.root) == ["00", "01", "02"]
    assert run(quick.root) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "stale"),
    [
        ("notebooks/01_a.ipynb", "[1]", "[2]", ["01", "02"]),
        ("dre/a.py", "1", "2", ["00", "01", "02"]),
        ("requirements.lock", "1", "2", ["00", "01", "02"]),
        ("data/some.txt", "some", "other", ["00", "01", "02"]),
        ("results/curve/a.json", "1", "2", ["00", "01", "02"]),
        ("profiles/public.yaml", "resamples: ", "resamples: 9", ["00", "01", "02"]),
        ("profiles/public.yaml", "title: ", "title: a ", []),
        ("notebooks/01_a.ipynb", "It gains.", "It loses.", []),
    ],
)
def test_a_notebook_runs_again_when_what_it_depends_on_has_changed(quick, file, old, new, stale):
    run(quick.root)
    edit(quick.root / file, old, new)
    assert run(quick.root) == stale


def test_a_notebook_runs_again_when_a_folder_that_the_profile_names_has_changed(quick):
    for name in ("encoder", "mine"):
        (quick.root / name).mkdir()
        (quick.root / name / "a.txt").write_text("a")
    edit(quick.root / "profiles/mini.yaml", "encoder: minilm", "encoder: encoder")
    edit(quick.root / "profiles/mini.yaml", 'recorded:claude-2026-11"]', 'recorded:mine"]')
    run(quick.root, "mini")
    for name in ("encoder", "mine"):
        (quick.root / name / "a.txt").write_text("b")
        assert run(quick.root, "mini") == ["00", "01", "02"]
    assert run(quick.root, "mini") == []


def test_what_a_killed_run_left_half_written_is_run_again(quick):
    run(quick.root)
    (quick.root / "build/public/notebooks/00_start.ipynb").write_text('{"cells": [')
    (quick.root / "build/public/notebooks/00_start.mark").unlink()  # as soon as it runs
    assert run(quick.root) == ["00"]


def test_a_notebook_runs_again_when_a_model_is_trained_or_a_file_that_it_wrote_is_gone(quick):
    run(quick.root)
    (quick.root / "results/public/a.csv").unlink()
    assert run(quick.root) == ["01"]
    (quick.root / "build/public/notebooks/02_b.ipynb").unlink()
    assert run(quick.root) == ["02"]
    model = quick.root / "build/public/models/m/slm.json"
    model.parent.mkdir(parents=True)
    model.write_text("{}")
    assert run(quick.root) == ["00", "01", "02"]


def test_a_retraining_runs_every_notebook_and_one_at_a_time_since_it_records(quick, monkeypatch):
    run(quick.root)
    quick.log.clear()
    monkeypatch.setenv("RETRAIN", "1")
    edit(
        quick.root / "notebooks/00_start.ipynb", "import pandas", "time.sleep(0.3)\\nimport pandas"
    )
    assert run(quick.root, jobs=3) == ["00", "01", "02"]
    assert [what for what, _ in quick.log] == ["start", "end"] * 3


def test_a_reply_that_is_stored_makes_the_notebooks_of_live_judges_run_again(quick):
    live = {"judges": ("openai:any",)}
    assert run(quick.root, "mini", **live) == ["00", "01", "02"]
    judge = judges.open("openai:any")
    pairs = [{"pair_id": "a", "context": ("Hello.",), "response": "Hi."}]
    judge.store.put(*judge.requests(pairs, "llm_only"), Reply('{"score": 3}', "ok"), 0.1, 1)
    assert run(quick.root, "mini", **live) == ["00", "01", "02"]
    assert run(quick.root, "mini", **live) == []


def test_beside_each_other_a_notebook_waits_for_those_that_it_needs(quick):
    edit(quick.root / "notebooks/01_a.ipynb", "import pandas", "time.sleep(0.3)\\nimport pandas")
    run(quick.root, "mini", jobs=3)
    assert quick.log.index(("end", "01_a")) < quick.log.index(("start", "02_b"))


def test_a_notebook_that_fails_stops_only_those_that_need_it(quick):
    edit(quick.root / "notebooks/01_a.ipynb", "import pandas", "1 / 0\\nimport pandas")
    write(quick.root, "03_c", code("3"))
    with pytest.raises(DreError, match=r"01_a.ipynb failed.*\n.*02_b was not run: it needs 01_a"):
        run(quick.root)
    assert [name for what, name in quick.log if what == "end"] == ["00_start", "03_c"]
    edit(quick.root / "notebooks/01_a.ipynb", "1 / 0", "")
    assert run(quick.root) == ["01", "02"]


def test_a_notebook_that_was_not_run_keeps_the_outputs_of_the_code_that_made_them(quick):
    run(quick.root)
    edit(quick.root / "notebooks/01_a.ipynb", "import pandas", "1 / 0\\nimport pandas")
    edit(quick.root / "notebooks/02_b.ipynb", '"2"', '"3"')
    with pytest.raises(DreError):
        run(quick.root)
    book = books.Notebook(quick.root / "notebooks/02_b.ipynb")
    assert book.content["metadata"]["dre"]["executed"]["code"] != book.code_hash


def test_a_notebook_that_is_changed_while_it_runs_keeps_the_change_and_gets_no_outputs(quick):
    path = quick.root / "notebooks/00_start.ipynb"
    changed = path.read_text().replace("[1]", "[2]")
    write(quick.root, "00_start", code(f"open({str(path)!r}, 'w').write({changed!r})"))
    run(quick.root)
    assert path.read_text() == changed


def test_any_fault_of_one_notebook_leaves_the_others_alone(quick):
    edit(quick.root / "notebooks/00_start.ipynb", "import pandas", "{}[1]\\nimport pandas")
    with pytest.raises(DreError, match="00_start.ipynb failed.*KeyError"):
        run(quick.root)
    assert [name for what, name in quick.log if what == "end"] == ["01_a", "02_b"]


def test_one_notebook_runs_after_those_that_it_needs_if_they_are_stale(quick):
    assert paper.main(["--only", "02"]) == 0
    assert [name for what, name in quick.log if what == "end"] == ["01_a", "02_b"]
    assert paper.main(["--only", "9"]) == 1


def test_what_a_needed_notebook_reads_is_trained_and_asked_as_well(quick, monkeypatch):
    prepared = []
    monkeypatch.setattr(paper, "_prepare", lambda settings: prepared.extend(settings.notebooks))
    run(quick.root, notebooks=("02_b",))
    assert prepared == ["01_a", "02_b"]


def test_what_did_not_come_is_told_at_the_end_and_asked_again(quick, monkeypatch):
    monkeypatch.setattr(paper, "_prepare", lambda settings: ["my-judge: 2 replies did not come"])
    with pytest.raises(DreError, match="my-judge: 2 replies"):
        run(quick.root)
    monkeypatch.setattr(paper, "_prepare", lambda settings: [])
    assert run(quick.root) == ["00", "01", "02"]


def test_the_index_lists_what_notebooks_wrote_and_what_none_writes_any_more_is_deleted(quick):
    root = quick.root
    run(root)
    own = root / "results/public/own.csv"
    own.write_text("of a reader")
    edit(root / "notebooks/01_a.ipynb", "'a', 'A table'", "'b', 'A table'")
    run(root)
    index = (root / "results/public/index.csv").read_text().splitlines()
    assert index[1:] == [
        "results/public/start.csv,00_start,A table",
        "results/public/b.csv,01_a,A table",
    ]
    assert own.exists() and not (root / "results/public/a.csv").exists()
    (root / "notebooks/00_start.ipynb").unlink()
    edit(root / "notebooks/02_b.ipynb", '"2"', '"1 / 0"')
    with pytest.raises(DreError):
        run(root)
    assert (root / "results/public/start.csv").exists(), "a run that failed deletes nothing"
    edit(root / "notebooks/02_b.ipynb", "1 / 0", "2")
    run(root)
    assert not (root / "results/public/start.csv").exists()


def test_a_run_of_one_notebook_deletes_nothing_of_another_that_had_failed(quick):
    run(quick.root)
    edit(quick.root / "notebooks/00_start.ipynb", "import pandas", "1 / 0\\nimport pandas")
    with pytest.raises(DreError):
        run(quick.root)
    run(quick.root, notebooks=("01_a",))
    assert (quick.root / "results/public/start.csv").exists()
    assert "start.csv" in (quick.root / "results/public/index.csv").read_text()


def test_in_a_new_clone_one_notebook_leaves_what_others_committed(quick):
    run(quick.root)
    shutil.rmtree(quick.root / "build")
    run(quick.root, notebooks=("01_a",))
    assert (quick.root / "results/public/start.csv").exists()
    assert "start.csv" in (quick.root / "results/public/index.csv").read_text()


def test_committed_outputs_have_no_trace_of_the_machine(quick):
    run(quick.root)
    cells = json.loads((quick.root / "notebooks/00_start.ipynb").read_text())["cells"]
    assert [output["text"] for output in cells[0]["outputs"]] == [["./x torch 2.1.0"]]


def test_another_profile_leaves_out_prose_about_results_and_the_notebook_itself_keeps_it(quick):
    before = (quick.root / "notebooks/01_a.ipynb").read_text()
    run(quick.root, "mini")
    executed = json.loads((quick.root / "build/mini/notebooks/01_a.ipynb").read_text())
    assert [cell["source"] for cell in executed["cells"][1:]] == ["# A", "## End", "1"]
    assert (quick.root / "notebooks/01_a.ipynb").read_text() == before


def test_under_another_profile_a_notebook_that_fails_has_no_prose_about_results_either(quick):
    edit(quick.root / "notebooks/01_a.ipynb", "import pandas", "1 / 0\\nimport pandas")
    with pytest.raises(DreError):
        run(quick.root, "mini")
    executed = quick.root / "build/mini/notebooks/01_a.ipynb"
    assert "# A" in executed.read_text() and "It gains." not in executed.read_text()


def test_two_runs_at_once_are_refused(quick):
    (quick.root / "build").mkdir()
    with (
        FileLock(quick.root / "build/paper.lock"),
        pytest.raises(DreError, match="another make paper is under way"),
    ):
        run(quick.root)


def test_a_project_that_cannot_be_written_to_is_one_sentence(quick, capsys):
    (quick.root / "build").write_text("a file where a folder is expected")
    assert paper.main([]) == 1
    assert "error: " in capsys.readouterr().err


# With a kernel


CHECK = f"import IPython\nassert IPython.__version__ == {version('ipython')!r}"  # in .ci: an older


def test_in_a_kernel_the_setup_gives_a_book_and_a_notebook_may_end_itself(root, capsys):
    (root / "dre/a.py").unlink()
    (root / "dre").rmdir()
    (root / "dre").symlink_to(HERE / "dre")
    parameters = code('profile = "public"', tags=["parameters"])
    setup = SETUP.replace("03_classification", "00_start")
    figure = "fig = plt.figure()"
    cells = [CHECK, "import matplotlib.pyplot as plt\nplt.rcParams['axes.titlesize']", figure]
    cells += ['book.figure(fig, "f", "A figure")', 'book.needs_public("no ratings")', "1 / 0"]
    write(root, "00_start", parameters, code(setup), *map(code, cells))
    write(root, "01_fails", parameters, code("n = 1\nn / 0"))
    (root / "matplotlibrc").write_text("text.usetex: True")  # of a user, who has LaTeX elsewhere
    os.environ["MATPLOTLIBRC"] = str(root / "matplotlibrc")
    try:
        with pytest.raises(DreError, match=r"cell \[2\] at 'n / 0': ZeroDivisionError"):
            run(root, "mini", jobs=2)
    finally:
        del os.environ["MATPLOTLIBRC"]
    assert run_log(capsys) == ["00_start"]

    content = json.loads((root / "build/mini/notebooks/00_start.ipynb").read_text())
    _, begun, _, size, open_figure, figure, end = [  # and nothing behind the end
        cell["outputs"] for cell in books.code_cells(content)
    ]
    assert "profile mini · Python" in "".join(begun[0]["text"])
    assert "are left out of what make paper writes" in "".join(begun[0]["text"])
    assert "".join(size[0]["data"]["text/plain"]) == "10.0"
    assert not open_figure, "a figure is only shown by the book"
    assert "image/png" in figure[0]["data"]
    assert "make paper PROFILE=public" in "".join(end[0]["text"])
    assert len(end) == 1
    assert "figures/mini/f.png,00_start,A figure" in (root / "results/mini/index.csv").read_text()


def run_log(capsys):
    """Return the notebooks that a run called done."""
    lines = capsys.readouterr().out.splitlines()
    return [line.partition(":")[0] for line in lines if ": done in" in line]


def test_a_notebook_runs_by_papermill_alone_and_leaves_no_list(tmp_path):
    name = "04_correlation"
    executed = tmp_path / "out.ipynb"
    command = [sys.executable, "-m", "papermill", f"{name}.ipynb", str(executed)]
    listed = HERE / f"build/mini/files/{name}.json"
    before = listed.read_bytes() if listed.exists() else None
    environment = os.environ | {"PYTHONPATH": str(HERE)}
    subprocess.run(
        [*command, "-p", "profile", "mini"],
        cwd=HERE / "notebooks",
        env=environment,
        check=True,
        capture_output=True,
    )
    assert "profile mini" in executed.read_text()
    assert (listed.read_bytes() if listed.exists() else None) == before


WAITING = """import os, pathlib, time
pathlib.Path(f"../data/{os.getpid()}.pid").touch()
time.sleep(60)"""


def test_an_interrupt_ends_both_kernels_and_starts_no_other(root):
    for name in ("00_a", "01_b", "02_c"):
        write(root, name, code('profile = "mini"', tags=["parameters"]), code(WAITING))
    command = [
        sys.executable,
        "-c",
        """
from dre.paper import run
run._prepare = lambda settings: []
import sys
sys.exit(run.main(["--profile", "mini", "--jobs", "2"]))""",
    ]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=heed_interrupts,
    )
    end = time.monotonic() + 60
    kernels = []
    while len(kernels) < 2 and time.monotonic() < end:
        time.sleep(0.05)
        kernels = [int(path.stem) for path in root.glob("data/*.pid")]

    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)

    assert process.returncode == 130
    assert "interrupted: finished notebooks are kept" in output and "02_c" not in output
    assert len(kernels) == 2
    assert not any(psutil.pid_exists(kernel) for kernel in kernels)


def test_without_a_clone_one_sentence_says_that_notebooks_need_one(tmp_path, monkeypatch, capsys):
    writable_copy(HERE / "profiles", tmp_path / "profiles")  # all that a wheel has
    monkeypatch.setenv("DRE_ROOT", str(tmp_path))
    assert paper.main([]) == 1
    assert "error: notebooks need a clone of the project" in capsys.readouterr().err


def test_the_runner_is_imported_without_packages_of_the_extras():
    code = "import dre.paper.run, sys; print({'sphinx', 'psutil', 'papermill'} & set(sys.modules))"
    command = [sys.executable, "-c", code]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert process.stdout == "set()\n"


def test_the_setup_cell_stops_where_pip_fails_and_takes_no_other_folder_for_the_clone(tmp_path):
    # Next to the reader's folder is one called dre, which is not this project. A git of our own
    # replaces the network: it makes the folder of a clone, with nothing in it to install.
    (tmp_path / "dre").mkdir()
    (tmp_path / "work").mkdir()
    git = tmp_path / "bin/git"
    git.parent.mkdir()
    git.write_text("#!/bin/sh\nmkdir -p dre-companion/notebooks\necho cloned\n")
    git.chmod(0o755)
    script = f"""
import sys
sys.modules["dre"] = None  # not installed
from IPython.core.interactiveshell import InteractiveShell
result = InteractiveShell.instance().run_cell({SETUP!r})
print(repr(result.error_in_exec))
"""
    path = os.pathsep.join([str(git.parent), os.environ["PATH"]])
    process = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path / "work",
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "cloned" in process.stdout
    assert "pip could not install the package" in process.stdout
