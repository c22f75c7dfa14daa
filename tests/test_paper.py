"""`make paper`: which notebooks run again, failures, committed outputs, and the `Book`."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import matplotlib.pyplot as plt
import pandas as pd
import psutil
import pytest
from conftest import writable_copy
from filelock import FileLock

from dre.datasets import registry
from dre.errors import DreError
from dre.paper import headless, notebook, state
from dre.paper import run as paper
from dre.paper.profile import profile

HERE = Path(__file__).parents[1]
ABSENT = registry.absent  # before a test takes its place
PARAMETERS = 'profile = "mini"\nn = 1'
SETUP = headless.source(
    json.loads((HERE / "notebooks/03_classification.ipynb").read_text())["cells"][2]
)


@pytest.fixture
def root(tmp_path, monkeypatch):
    """The root of a new project: profiles, a lock, no notebooks yet."""
    writable_copy(HERE / "profiles", tmp_path / "profiles")
    write(tmp_path, {"requirements.lock": "a==1\n", "data/some.txt": "data\n"})
    values = {
        "DRE_ROOT": str(tmp_path),
        "PYTHONPATH": str(HERE),
        "RETRAIN": "",
        "OMP_NUM_THREADS": "1",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)  # restored after a run that sets them
    # These notebooks read no public data, which are fetched before notebooks run.
    monkeypatch.setattr(registry, "absent", lambda names=None: [])
    return tmp_path


def write(root, texts):
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def edit(path, old, new):
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


# Cells are written here as plain dicts, since importing nbformat takes four seconds.
def code_cell(text, *tags):
    metadata = {"tags": list(tags)} if tags else {}
    cell = {"cell_type": "code", "source": text, "metadata": metadata}
    return cell | {"outputs": [], "execution_count": None}


def prose_cell(text):
    return {"cell_type": "markdown", "source": text, "metadata": {}}


def notebook_text(cells, **metadata):
    """Return the text of a notebook's file."""
    cells = [cell | {"id": f"cell-{number}"} for number, cell in enumerate(cells)]
    content = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def book(root, name, *texts, **metadata):
    """Write a notebook: parameters, then a cell for each text.

    A text that begins with "# " and a capital letter is prose, any other is code.
    """
    cells = [code_cell(PARAMETERS, "parameters")]
    for text in texts:
        is_prose = text.startswith("# ") and text[2].isupper()
        cells.append(prose_cell(text) if is_prose else code_cell(text))
    write(root, {f"notebooks/{name}.ipynb": notebook_text(cells, dre=metadata)})


@contextlib.contextmanager
def watched(file, root):
    """As in a kernel that the runner started, but for the hook."""
    with mock.patch.object(state, "active", state.Watch(file, root)):
        yield


@pytest.fixture
def quick(root, monkeypatch):
    """Four notebooks, executed without a kernel.

    Files that `text` reads are noted, as the hook in a kernel does.
    """

    def execute(notebook_file, profile, file):
        target = profile.build / "notebooks" / notebook_file.path.name
        write(root, {target: notebook_file.path.read_text()})
        with watched(file, root):
            state.note("read", root / state.LOCK)
            run_by_hand(root, notebook_file.name)
        return target

    monkeypatch.setattr(paper, "execute", execute)
    book(root, "00_start", "text('data/some.txt')")
    book(
        root,
        "01_a",
        "# fast\nbook.table(pd.DataFrame({'a': [1]}), 'a', 'A')",
        "book.data(pd.DataFrame({'d': [0]}), 'd', 'D')",
        "text('profiles/public.yaml')",
    )
    book(root, "02_b", "text('results/public/a.csv')", needs=["01_a"])
    book(root, "03_c", "import os\ntext('data/small-models/x.json', os.environ['RETRAIN'])")
    write(root, {"data/small-models/x.json": "[0]"})
    return root


def run_by_hand(root, name, cells=slice(None)):
    """Run cells of a notebook as a reader does, without a runner that notes what they read."""

    def text(name, add=""):
        state.note("read", root / name)
        if "small-models/" in name:
            state.note("read", (root / name).parent)
        if add:
            (root / name).write_text((root / name).read_text() + add)

    names = {"book": notebook.Book(name, profile("public", root)), "pd": pd, "text": text}
    content = json.loads((root / f"notebooks/{name}.ipynb").read_text())
    _, *code_cells = headless.code_cells(content)
    for cell in code_cells[cells]:
        exec(headless.source(cell), names)


def run(root, jobs=1):
    return [name[:2] for name in sorted(paper.run(profile("public", root), jobs))]


def test_all_notebooks_run_once_those_that_others_need_first(quick, capsys):
    assert run(quick) == ["00", "01", "02", "03"]
    started = re.findall("(..)_.* running", capsys.readouterr().out)
    assert started == ["01", "00", "02", "03"]
    assert run(quick) == []


def test_a_comment_or_a_blank_line_makes_no_notebook_stale(quick):
    run(quick)
    path = quick / "notebooks/01_a.ipynb"
    edit(path, "# fast", "\\n# very fast\\n\\n# indeed")
    edit(quick / "profiles/public.yaml", "name: public\n", "# a comment\nname: public\n")
    assert run(quick) == []
    assert "very fast" in path.read_text()


def test_a_notebook_runs_again_when_its_code_changes(quick, capsys):
    run(quick)
    edit(quick / "notebooks/00_start.ipynb", "')", "') and '''\\n# no comment\\n'''")
    assert run(quick) == ["00"]
    assert "00_start" in capsys.readouterr().out


def test_a_notebook_runs_again_when_a_file_that_it_read_changes(quick, capsys):
    run(quick)
    write(quick, {"data/some.txt": "more"})
    assert run(quick) == ["00"]
    assert "running: data/some.txt has changed" in capsys.readouterr().out

    write(quick, {"data/small-models/y.json": "recorded"})
    assert run(quick) == ["03"]


def test_a_notebook_runs_again_when_a_table_that_it_needs_changes(quick):
    run(quick)
    edit(quick / "profiles/public.yaml", "resamples: ", "resamples: 9")
    assert run(quick) == ["01"], "its table is the same, so 02 has nothing to do"
    edit(quick / "notebooks/01_a.ipynb", "[1]", "[2]")
    assert run(quick) == ["01", "02"]


def test_a_notebook_runs_again_when_its_record_is_damaged(quick):
    run(quick)
    write(quick, {"build/public/state/00_start": "torn"})
    assert run(quick) == ["00"]


def test_all_notebooks_run_again_when_a_locked_version_changes(quick):
    run(quick)
    edit(quick / "requirements.lock", "1", "2")
    assert run(quick) == ["00", "01", "02", "03"]


def test_retrain_runs_all_notebooks_one_after_another(quick, monkeypatch):
    run(quick)
    monkeypatch.setenv("RETRAIN", "1")
    with mock.patch.object(paper, "ThreadPoolExecutor", wraps=paper.ThreadPoolExecutor) as pool:
        assert run(quick, jobs=2) == ["00", "01", "02", "03"]
    pool.assert_called_once_with(1)
    assert run(quick) == [], "scores that a run itself has recorded are no change"


MODULE = '''"""What the module is for."""


def double(x):
    """Return twice the value."""
    return 2 * x  # a comment
'''


def test_what_is_written_for_people_makes_no_notebook_stale(quick):
    module = quick / "data/module.py"
    profile_file = quick / "profiles/public.yaml"
    lock = quick / state.LOCK
    write(quick, {module: MODULE})
    edit(quick / "notebooks/00_start.ipynb", "data/some.txt", "data/module.py")
    run(quick)

    edit(module, "a comment", "another comment")
    edit(module, "Return twice the value.", "Double.")
    edit(module, "What the module is for.", "A module.\n\nWith two paragraphs.")
    edit(module, "\n\n\ndef", "\n\ndef")
    edit(profile_file, "title: public data", "title: Public data")
    edit(profile_file, "some minutes", "minutes")
    edit(lock, "a==1\n", "\na==1 \n\n")
    assert run(quick) == []

    edit(module, "2 * x", "3 * x")
    assert run(quick) == ["00"]
    edit(module, "return 3", "x = '''no docstring'''\n    return 3")
    assert run(quick) == ["00"]


@pytest.mark.parametrize("content", [None, "edited"], ids=["deleted", "edited"])
@pytest.mark.parametrize(
    "name",
    [
        "results/public/a.csv",
        "results/public/manifest/01_a.json",
        "build/public/notebooks/01_a.ipynb",
    ],
)
def test_a_file_that_a_notebook_wrote_is_restored(quick, name, content):
    def results():
        return {path: path.read_bytes() for path in (quick / "results").rglob("*.*")}

    run(quick)
    results_of_first_run = results()
    path = quick / name
    if content is None:
        path.unlink()
    else:
        path.write_text(content)

    assert run(quick) == ["01"]
    assert results() == results_of_first_run
    assert run(quick) == []


def test_cells_run_by_hand_lose_nothing(quick):
    table = quick / "results/public/a.csv"
    run(quick)
    run_by_hand(quick, "01_a", slice(1, 2))
    assert run(quick) == []
    assert table.exists()

    edit(quick / "notebooks/01_a.ipynb", "[1]", "[2]")
    run_by_hand(quick, "01_a")
    edit(quick / "notebooks/01_a.ipynb", "[2]", "[1]")
    assert run(quick) == ["01"]
    assert table.read_text() == "a\n1\n"


def test_a_table_of_a_failed_run_and_the_one_before_it_are_deleted_when_a_run_succeeds(quick):
    tables = quick / "results/public"
    run(quick)
    edit(quick / "notebooks/01_a.ipynb", "'a', 'A')", "'b', 'B')\\n1 / 0")
    edit(quick / "notebooks/02_b.ipynb", "a.csv", "b.csv")
    with pytest.raises(ZeroDivisionError):
        run(quick)
    assert (tables / "a.csv").exists()
    assert (tables / "b.csv").exists()

    edit(quick / "notebooks/01_a.ipynb", "'b', 'B')\\n1 / 0", "'c', 'C')")
    edit(quick / "notebooks/02_b.ipynb", "b.csv", "c.csv")
    assert run(quick) == ["01", "02"]
    assert sorted(path.stem for path in tables.glob("*.csv")) == ["c", "d"]


def test_files_of_a_deleted_notebook_are_deleted_and_those_of_a_reader_are_not(quick):
    tables = quick / "results/public"
    figure = quick / "figures/public/mine.png"
    run(quick)
    write(quick, {tables / "my_scores.csv": "x", figure: "x"})
    write(quick, {tables / "a.csv": "a reader's"})
    for name in ("01_a", "02_b"):
        (quick / f"notebooks/{name}.ipynb").unlink()

    assert run(quick) == []
    assert run(quick) == []
    assert (tables / "my_scores.csv").exists()
    assert figure.exists()
    assert (tables / "a.csv").exists(), "a reader has written over it"
    assert not (tables / "d.csv").exists()


def listed(root):
    """Return the README of the results, and what it lists: file -> notebook."""
    text = (root / "results/public/README.md").read_text()
    links = re.findall(r"^\| \[(.*?)\]\(\1\) \| (?:\[(.*?)\]|—)", text, re.MULTILINE)
    return text, dict(links)


def test_the_readme_of_results_lists_every_table_and_no_other_after_any_run(quick):
    run(quick)
    text, files = listed(quick)
    expected = {"a.csv": "01_a", "d.csv": "01_a", "manifest": ""}
    assert files == expected
    assert "| [a.csv](a.csv) | [01_a](../../notebooks/01_a.ipynb) | A |" in text
    assert not (quick / "results/public/a.md").exists()

    # A second run changes nothing, nor does one of a notebook that has no table.
    assert run(quick) == []
    edit(quick / "notebooks/02_b.ipynb", "')", "') or 1")
    assert run(quick) == ["02"]
    name_notebooks(quick, "00_start")
    run(quick)
    assert listed(quick) == (text, files)

    # A table that is not written any more is not listed, nor that of a notebook which is gone.
    name_notebooks(quick, "")
    edit(quick / "notebooks/01_a.ipynb", "{'a': [1]}), 'a', 'A')", "{'a': [1]}), 'b', 'B|')")
    edit(quick / "notebooks/02_b.ipynb", "a.csv", "b.csv")
    run(quick)
    text, files = listed(quick)
    assert files == {"b.csv": "01_a", "d.csv": "01_a", "manifest": ""}
    assert "| B\\| |" in text
    (quick / "notebooks/02_b.ipynb").unlink()
    (quick / "notebooks/01_a.ipynb").unlink()
    run(quick)
    assert listed(quick)[1] == {"manifest": ""}


def name_notebooks(root, names):
    """Let profile public name the notebooks that are run."""
    path = root / "profiles/public.yaml"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("notebooks")]
    path.write_text("\n".join([*lines, f"notebooks: [{names}]", ""]))


def files_of_results(root):
    folders = ("results/public", "build/public/notebooks", "build/public/state")
    return {path for folder in folders for path in (root / folder).rglob("*") if path.is_file()}


def test_results_of_notebooks_that_a_profile_does_not_name_stay(quick):
    run(quick)
    files = files_of_results(quick)
    name_notebooks(quick, "00_start")
    edit(quick / "notebooks/00_start.ipynb", "')", "') or 1")
    assert run(quick) == ["00"]
    assert files_of_results(quick) == files
    # What such a notebook wrote once and writes no more goes when it runs again, not before.
    name_notebooks(quick, "")
    assert run(quick) == []
    assert files_of_results(quick) == files


def test_numbers_of_notebooks_that_a_profile_does_not_name_may_stand_in_the_readme(quick):
    edit(quick / "notebooks/01_a.ipynb", "# fast", "book.note('Two.', two='2')")
    write(quick, {"README.md": "It is <!--01.two--><!--/-->.\n"})
    run(quick)
    name_notebooks(quick, "00_start")
    assert run(quick) == []
    assert (quick / "README.md").read_text() == "It is <!--01.two-->2<!--/-->.\n"


def test_a_notebook_is_refused_before_anything_runs_if_what_it_needs_is_neither_named_nor_there(
    quick, capsys
):
    name_notebooks(quick, "00_start, 02_b")
    message = "public.yaml: 02_b needs the results of 01_a, .*: add 01_a to 'notebooks'"
    with pytest.raises(DreError, match=message):
        run(quick)
    assert paper.main(["--profile", "public", "--estimate"]) == 1
    assert "add 01_a" in capsys.readouterr().err
    assert not (quick / "results/public/a.csv").exists()

    name_notebooks(quick, "01_a, 02_b")
    assert run(quick) == ["01", "02"]
    name_notebooks(quick, "02_b")
    assert run(quick) == [], "its results are there, from an earlier run"
    edit(quick / "notebooks/01_a.ipynb", "[1]", "[2]")
    with pytest.raises(DreError, match="needs the results of 01_a, .*its code.* has changed"):
        run(quick)


def test_a_file_that_changes_while_notebooks_run_is_named_and_the_notebook_runs_again(quick):
    added = "['RETRAIN'])\\ntext('data/some.txt', 'added')"
    edit(quick / "notebooks/03_c.ipynb", "['RETRAIN'])", added)
    message = "00_start.ipynb: data/some.txt has changed after it was executed"
    with pytest.raises(DreError, match=message):
        run(quick)

    edit(quick / "notebooks/03_c.ipynb", "'added'", "''")
    assert run(quick) == ["00", "03"]


def test_a_cell_that_is_not_python_is_named_before_anything_runs(quick):
    edit(quick / "notebooks/02_b.ipynb", "text(", "text((")
    message = r"02_b.ipynb .*: cell \[2\], line 1: '\(' was never closed"
    with pytest.raises(DreError, match=message):
        run(quick)


def test_a_copy_of_a_notebook_is_not_run(quick, capsys):
    write(quick, {"notebooks/01_a-Copy1.ipynb": "{}"})
    assert run(quick) == ["00", "01", "02", "03"]
    assert "not run, since its name" in capsys.readouterr().out


def test_two_runs_at_once_are_refused(quick):
    run(quick)
    lock = FileLock(quick / "build/paper.lock")
    with lock, pytest.raises(DreError, match="another make paper is under way"):
        run(quick)


def test_a_figure_is_saved_without_the_date_and_the_program(quick):
    results_book = notebook.Book("00_start", profile("public", quick))
    with watched(quick / "state", quick):
        picture = results_book.figure(plt.figure(), "f", "A figure")

    png = (quick / "figures/public/f.png").read_bytes()
    pdf = (quick / "figures/public/f.pdf").read_bytes()
    assert picture._repr_png_() == png
    for word in (b"Software", b"Date", b"Producer"):
        assert word not in png
        assert word not in pdf


def test_a_manifest_has_tables_figures_and_what_was_not_run(quick):
    results_book = notebook.Book("00_start", profile("public", quick))
    with watched(quick / "state", quick):
        results_book.table(pd.DataFrame({"claim": ["a|b"]}), "t", "Claims *and*")
        results_book.figure(plt.figure(), "f", "A figure")
        results_book.not_run("the end", "no time")
    book(quick, "00_start", "# Start")
    [start, *_] = headless.notebooks(quick)
    registered = headless.manifest(start, results_book.profile)
    names = [(item["kind"], item["name"]) for item in registered["items"]]
    assert names == [("table", "t"), ("figure", "f")]
    assert registered["not_run"] == [{"what": "the end", "why": "no time"}]


PRINTING = """import os, sys
print("profile mini · Python 3.99.1+ · torch 2.13.0+cu130 · numpy 2.4.6")
print("dre:small|version:0.3.0|torch:2.13.0+cpu|transformers:5.23.0")
print("in", os.path.dirname(os.getcwd()))
print("noise", file=sys.stderr)
print(os.environ["DRE_DATA_HOME"])
n"""


def test_failing_cells_are_named_and_a_run_is_committed_without_traces_of_the_machine(
    root, monkeypatch, capfd
):
    monkeypatch.setenv("DRE_DATA_HOME", os.path.relpath(root / "mine"))
    book(root, "00_start", "# Title", "# a comment\nassert n > 1", PRINTING)
    book(root, "01_other", "n\n1 / (n - 1)")
    book(root, "02_end", needs=["00_start"])
    path = root / "notebooks/00_start.ipynb"

    assert paper.main(["--profile", "public"]) == 1

    assert (root / "build/public/notebooks/00_start.ipynb").exists()
    printed = capfd.readouterr()
    failure = "00_start.ipynb failed in cell [2] at 'assert n > 1': AssertionError: assert n > 1"
    assert failure in printed.err
    assert "01_other.ipynb failed in cell [2] at '1 / (n - 1)': ZeroDivisionError" in printed.err
    assert "02_end" not in printed.out

    edit(path, "n > 1", "n")
    edit(root / "notebooks/01_other.ipynb", "n - 1", "n")
    assert paper.main(["--profile", "public"]) == 0

    printed = capfd.readouterr()
    assert "00_start | noise" in printed.err
    assert "MB of memory" in printed.out
    committed = path.read_bytes()
    assert paper.run(profile("public", root)) == []
    assert path.read_bytes() == committed
    parameters, _, _, cell = json.loads(committed)["cells"]
    stream, _ = cell["outputs"]
    assert parameters["source"] == PARAMETERS
    assert "".join(stream["text"]) == (
        "profile mini · torch 2.13.0 · numpy 2.4.6\n"
        "dre:small|version:0.3.0|torch:2.13.0|transformers:5.23.0\n"
        "in .\n$DRE_DATA_HOME\n"
    )


@pytest.mark.parametrize("home", ["/home/me", r"C:\Users\me", "data"])
def test_names_of_folders_are_left_out_of_texts_and_of_nothing_else(root, monkeypatch, home):
    monkeypatch.setattr(Path, "home", lambda: home)
    lines = (
        f"{home} {home}/a,b 'file://{home}/b'",
        repr(home),
        f"{home}2 {home}-too https://x{home}/y 0.1 / 0.2",
    )
    book(root, "00_start", "x")
    path = root / "notebooks/00_start.ipynb"
    executed = json.loads(path.read_text())
    data = {"text/plain": list(lines), "data": home}
    executed["cells"][1]["outputs"] = [{"output_type": "display_data", "data": data}]
    write(root, {"build/public/notebooks/00_start.ipynb": json.dumps(executed)})

    headless.commit(path, profile("public", root))

    data = json.loads(path.read_text())["cells"][1]["outputs"][0]["data"]
    assert data == {"text/plain": ["~ ~/a,b 'file://~/b''~'" + lines[2]], "data": home}


def test_a_notebook_that_runs_long_shows_its_cell_and_what_its_kernel_prints(
    root, monkeypatch, capfd
):
    monkeypatch.setattr(headless, "SIGN_OF_LIFE", 0.5)
    loud = "import sys, time\nprint('epoch 1', file=sys.stderr, flush=True)\ntime.sleep(2)"
    book(root, "00_start", "n", loud, "n")

    paper.run(profile("public", root))

    lines = capfd.readouterr().err.splitlines()
    assert "00_start | epoch 1" in lines
    assert "00_start: cell 3 of 4, 0 min" in lines


@pytest.fixture
def without_data(monkeypatch, tmp_path_factory):
    """A machine that has no public data, and a network that takes no connection."""
    folder = tmp_path_factory.mktemp("no-data")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        closed_port = listener.getsockname()[1]
    monkeypatch.setenv("DRE_DATA_HOME", str(folder))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(registry, "RAW", f"http://127.0.0.1:{closed_port}/")
    monkeypatch.setattr(registry, "absent", ABSENT)
    return folder


def test_a_run_without_data_and_network_says_what_is_absent_before_any_notebook_runs(
    quick, without_data, capsys
):
    assert paper.main(["--profile", "public"]) == 1

    printed = capsys.readouterr()
    assert "no notebook was run" in printed.err
    assert f"{without_data}: 50 files, 64 MB, of " in printed.err
    assert "dailydialog++ (2)" in printed.err
    assert "dre data fetch" in printed.err and "DRE_DATA_HOME" in printed.err
    assert "running:" not in printed.out
    assert not list((quick / "build/public").glob("notebooks/*"))


def test_a_run_of_the_embedded_corpus_asks_for_no_public_data(quick, without_data, capsys):
    paper.main(["--profile", "mini", "--jobs", "1"])
    assert "public data" not in "".join(capsys.readouterr())


def test_a_first_run_is_not_called_a_failure_and_a_second_announces_nothing(quick, capsys):
    run(quick)
    first = capsys.readouterr().out
    run(quick)
    second = capsys.readouterr().out

    assert "00_start                           running: not run yet\n" in first
    assert "brought up to date: notebooks/00_start.ipynb" in first
    assert "brought up to date" not in second


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_gives_an_error_with_the_path_and_advice(root, capfd):
    executed = root / "build/public/notebooks/00_start.ipynb"
    executed.parent.mkdir(parents=True)
    executed.symlink_to("/dev/full")
    book(root, "00_start", "n")

    assert paper.main(["--profile", "public"]) == 1

    message = f"error: {executed}: cannot be written (No space left on device): free space, then"
    assert message in capfd.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_record_that_cannot_be_written_names_itself(root):
    watch = state.Watch("/dev/full", root)

    with pytest.raises(DreError, match=r"/dev/full: cannot be written \(No space left"):
        watch.note("read", root / state.LOCK)


def test_the_numbers_of_a_note_stand_in_readme(quick):
    note = 'gain = 0.0649\nbook.note(f"The gain is *{gain:+.2f}*.", gain=f"{gain:+.2f}", n=3)'
    book(quick, "00_start", note)
    write(
        quick, {"README.md": "It gains <!--00.gain--><!--/--> with <!--00.n--><!--/--> judges.\n"}
    )

    run(quick)

    readme = (quick / "README.md").read_text()
    assert re.sub("<!--.*?-->", "", readme) == "It gains +0.06 with 3 judges.\n"
    assert run(quick) == []


def test_a_note_of_another_profile_is_shown_and_keeps_no_number(root, capsys):
    results_book = notebook.Book("00_start", profile("mini", root))

    results_book.note("The gain is 0.06.", gain=0.06)

    assert "Markdown" in capsys.readouterr().out
    assert not (root / "results").exists()


def test_another_python_runs_every_notebook_again(quick, monkeypatch, capsys):
    run(quick)
    monkeypatch.setattr(sys, "version", "3.99.0")

    assert run(quick) == ["00", "01", "02", "03"]
    assert "its code, Python or RETRAIN has changed" in capsys.readouterr().out


@pytest.mark.parametrize("folder", ["data/recorded/small-models", "results/curve"])
def test_a_notebook_that_reads_a_recording_depends_on_the_names_of_all_in_its_folder(root, folder):
    write(root, {f"{folder}/a.json": "{}"})
    state.Watch(root / "record", root).note_read(str(root / folder / "a.json"))
    files_read = state.load(root / "record")["read"]
    assert files_read.keys() == {folder, f"{folder}/a.json"}

    write(root, {f"{folder}/b.json": "{}"})

    assert state.digest(root / folder) != files_read[folder]


def test_notebooks_that_run_together_share_the_cores(root, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    book(root, "00_start", 'import os\nprint(os.environ["OMP_NUM_THREADS"], "threads")')

    run(root, jobs=2)

    assert "4 threads" in (root / "notebooks/00_start.ipynb").read_text()


WAITING = """import os, pathlib, time
pathlib.Path(f"../data/{os.getpid()}.pid").touch()
time.sleep(60)"""


def process_ids(root, n, timeout):
    """Wait until n kernels have written their process ids, and return these."""
    end = time.monotonic() + timeout
    ids = []
    while len(ids) < n and time.monotonic() < end:
        time.sleep(0.05)
        ids = [int(path.stem) for path in root.glob("data/*.pid")]
    return ids


def test_a_project_that_cannot_be_written_to_is_one_sentence(root, capsys):
    book(root, "00_start", "n")
    write(root, {"build": "a file where a folder is expected"})

    assert paper.main(["--profile", "public"]) == 1

    message = f"error: {root} cannot be written to (Not a directory), and results are written there"
    assert message in capsys.readouterr().err


def test_an_interrupt_ends_both_kernels_and_starts_no_other(root):
    for name in ("00_a", "01_b", "02_c"):
        book(root, name, WAITING)
    # A profile of this name that reads no public data, which its own process would fetch.
    mini = (root / "profiles/mini.yaml").read_text()
    (root / "profiles/public.yaml").write_text(mini.replace("name: mini", "name: public"))
    command = [sys.executable, "-m", "dre.paper", "--profile", "public", "--jobs", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    kernels = process_ids(root, n=2, timeout=60)

    process.terminate()  # as by Ctrl-C
    output, _ = process.communicate(timeout=30)

    assert process.returncode == 130
    assert "interrupted: finished notebooks are kept" in output
    assert "02_c" not in output
    assert len(kernels) == 2
    assert not any(psutil.pid_exists(kernel) for kernel in kernels)


READING_AND_WRITING = """import pandas as pd
pd.read_csv("../data/small-models/a.csv.gz")
open("../data/some.txt").read()
open("../data/own.txt", "w")
table = book.table(pd.DataFrame({"a": [1]}), "table3", "A table")
open("../results/mini/table3.csv").read()
table"""


def test_in_a_kernel_the_setup_gives_a_book_and_a_notebook_may_end_itself(root):
    (root / "dre").symlink_to(HERE / "dre")
    scores = root / "data/small-models"
    write(root, {scores / "b.npz": ""})
    pd.DataFrame({"a": [1]}).to_csv(scores / "a.csv.gz")
    # .ci/run tries an older IPython as well.
    check = f"import IPython\nassert IPython.__version__ == {version('ipython')!r}\n"
    book(
        root,
        "00_start",
        SETUP.replace("03_classification", "00_start"),
        check + READING_AND_WRITING,
        'book.note(f"The gain is *{0.0649:+.2f}*.")',
        "import matplotlib.pyplot as plt\nfig = plt.figure()",
        'book.figure(fig, "f", "A figure")',
        'book.skip_to("part two", "no ratings yet")',
        "1 / 0",
        "# part two\nprint('goes on')",
        'book.needs_public("no ratings")',
        "1 / 0",
    )

    assert paper.run(profile("mini", root)) == ["00_start"]
    assert paper.run(profile("mini", root)) == []

    content = json.loads((root / "build/mini/notebooks/00_start.ipynb").read_text())
    outputs = [cell["outputs"] for cell in headless.code_cells(content)]
    _, setup, table, note, open_figure, figure, skip, skipped, part_two, end, after_end = outputs
    assert "profile mini · Python" in "".join(setup[0]["text"])
    table_file = root / "results/mini/table3.md"
    assert "".join(table[0]["data"]["text/markdown"]) == table_file.read_text()
    assert "".join(note[0]["data"]["text/markdown"]) == "The gain is *+0.06*."
    assert not open_figure, "a figure is only shown by the book"
    assert "image/png" in figure[0]["data"]
    told = "not run: what comes before part two (no ratings yet)\n"
    assert "".join(skip[0]["text"]) == told and not skipped
    assert "".join(part_two[0]["text"]) == "goes on\n"
    assert "make paper PROFILE=public" in "".join(end[0]["text"])
    assert not after_end

    record = state.load(root / "build/mini/state/00_start")
    modules = {name for name in record["read"] if name.startswith("dre/")}
    for name in ("__init__", "paper/state", "tables", "paper/plots"):
        assert f"dre/{name}.py" in modules
    assert "dre/commands/main.py" not in modules
    assert record["read"].keys() - modules == {
        "data/some.txt",
        "profiles/mini.yaml",
        "data/small-models",
        "data/small-models/a.csv.gz",
        state.LOCK,
    }
    names_written = {os.path.basename(path) for path in record["wrote"]}
    files = {"00_start.ipynb", "00_start.json", "f.pdf", "f.png", "table3.csv", "table3.md"}
    assert names_written == files


def test_a_notebook_that_is_begun_anew_leaves_out_nothing(root, monkeypatch):
    transforms = []
    shell = SimpleNamespace(input_transformers_cleanup=transforms)
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    notebook.Book("00_start", profile("mini", root)).skip_to("Part two", "no ratings")
    (left_out,) = transforms
    assert left_out(["1 / 0\n", "# Part two\n"]) == left_out([]) == []
    first_cell = ['profile = "mini"\n']
    assert left_out(first_cell) == first_cell and transforms == []


def test_without_a_clone_one_sentence_says_that_notebooks_need_one(tmp_path, monkeypatch, capsys):
    writable_copy(HERE / "profiles", tmp_path / "profiles")  # all that a wheel has
    monkeypatch.setenv("DRE_ROOT", str(tmp_path))
    advice = "notebooks need a clone of the project, .*: git clone https://github.com/dre-companion"

    with pytest.raises(DreError, match=advice):
        notebook.setup("04_correlation", "public")

    assert paper.main([]) == 1
    assert re.match(f"error: {advice}", capsys.readouterr().err)


def test_the_runner_is_imported_without_packages_of_the_extras():
    code = "import dre.paper.run, sys; print({'sphinx', 'psutil', 'papermill'} & set(sys.modules))"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout == "set()\n"


def test_the_setup_cell_takes_no_other_folder_for_the_clone_and_stops_where_pip_fails(tmp_path):
    # Next to the reader's folder is one called dre, which is not this project. A git of our own
    # replaces the network: it makes the folder of a clone, with nothing in it to install.
    (tmp_path / "dre").mkdir()
    (tmp_path / "work").mkdir()
    git = tmp_path / "bin/git"
    write(tmp_path, {"bin/git": "#!/bin/sh\nmkdir -p dre-companion/notebooks\necho cloned\n"})
    git.chmod(0o755)
    code = f"""
import importlib.util
from IPython.core.interactiveshell import InteractiveShell
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "dre" else find_spec(name, *more)
result = InteractiveShell.instance().run_cell({SETUP!r})
print(repr(result.error_in_exec))
"""
    path = os.pathsep.join([str(git.parent), os.environ["PATH"]])
    process = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / "work",
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "cloned" in process.stdout
    assert "RuntimeError('pip could not install the package" in process.stdout
