"""What `make paper` does: what reruns, failures, committed outputs, and the `Book` of a notebook."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from unittest import mock

import matplotlib.pyplot as plt
import pandas as pd
import psutil
import pytest
from filelock import FileLock
from nbformat import v4

from dre.errors import DreError
from dre.paper import headless, notebook, state
from dre.paper import run as paper
from dre.paper.profile import profile

HERE = Path(__file__).parents[1]
PARAMETERS = 'profile = "mini"\nn = 1'
SETUP = headless.source(
    json.loads((HERE / "notebooks/03_classification.ipynb").read_text())["cells"][2]
)


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A project of its own: profiles, a lock, no notebooks yet."""
    shutil.copytree(HERE / "profiles", tmp_path / "profiles")
    write(tmp_path, {"requirements.lock": "a==1\n", "data/some.txt": "data\n"})
    values = {
        "DRE_ROOT": str(tmp_path),
        "PYTHONPATH": str(HERE),
        "RETRAIN": "",
        "OMP_NUM_THREADS": "1",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)  # restored after what a run sets
    return tmp_path


def write(root, texts):
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def edit(path, old, new):
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def book(root, name, *texts, **metadata):
    """Write a notebook: parameters, then `texts`, of which one that begins with "# " and a capital is prose."""
    cells = [v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})]
    for text in texts:
        prose = text.startswith("# ") and text[2].isupper()
        cells.append(v4.new_markdown_cell(text) if prose else v4.new_code_cell(text))
    content = v4.new_notebook(cells=cells, metadata={"dre": metadata})
    write(root, {f"notebooks/{name}.ipynb": json.dumps(content, indent=1, sort_keys=True) + "\n"})


@contextlib.contextmanager
def watched(file, root):
    """As in a kernel that the runner started, but for the hook."""
    with mock.patch.object(state, "active", state.Watch(file, root)):
        yield


@pytest.fixture
def quick(root, monkeypatch):
    """Four notebooks, executed without a kernel; what `text` reads is noted as a kernel's hook does."""

    def execute(notebook_file, profile, file):
        target = profile.build / "notebooks" / notebook_file.path.name
        write(root, {target: notebook_file.path.read_text()})
        with watched(file, root):
            state.note("read", root / state.LOCK)
            run_by_hand(root, notebook_file.name)
        return target

    monkeypatch.setattr(paper, "execute", execute)
    book(root, "00_start", "text('data/some.txt')")
    tables = (
        "# fast\nbook.table(pd.DataFrame({'a': [1]}), 'a', 'A')",
        "book.data(pd.DataFrame({'d': [0]}), 'd', 'D')",
    )
    book(root, "01_a", *tables, "text('profiles/public.yaml')")
    book(root, "02_b", "text('results/public/a.csv')", needs=["01_a"])
    book(root, "03_c", "import os\ntext('results/public/scores/x.json', os.environ['RETRAIN'])")
    write(root, {"results/public/scores/x.json": "[0]"})
    return root


def run_by_hand(root, name, cells=slice(None)):
    """Run cells of a notebook as a reader does: nobody watches."""

    def text(name, add=""):
        state.note("read", root / name)
        if "scores/" in name:
            state.note("read", (root / name).parent)
        if add:
            (root / name).write_text((root / name).read_text() + add)

    names = {"book": notebook.Book(name, profile("public", root)), "pd": pd, "text": text}
    for code in headless.code_cells(json.loads((root / f"notebooks/{name}.ipynb").read_text()))[1:][
        cells
    ]:
        exec(headless.source(code), names)


def run(root, jobs=1):
    return [name[:2] for name in sorted(paper.run(profile("public", root), jobs))]


def test_only_what_changed_runs_again(quick, monkeypatch, capsys):
    assert run(quick) == ["00", "01", "02", "03"] and run(quick) == []
    assert re.findall("(..)_.* running", capsys.readouterr().out) == ["01", "00", "02", "03"], (
        "others wait for 01"
    )
    edit(quick / "notebooks/01_a.ipynb", "# fast", "\\n# very fast\\n\\n# indeed")
    assert run(quick) == [] and "very fast" in (quick / "notebooks/01_a.ipynb").read_text(), (
        "a comment, blank lines"
    )
    edit(quick / "notebooks/00_start.ipynb", "')", "') and '''\\n# no comment\\n'''")
    assert run(quick) == ["00"] and "00_start" in capsys.readouterr().out
    write(quick, {"data/some.txt": "more"})
    assert run(quick) == ["00"] and "running: data/some.txt has changed" in capsys.readouterr().out
    edit(quick / "profiles/public.yaml", "name: public\n", "# a comment\nname: public\n")
    assert run(quick) == []
    edit(quick / "profiles/public.yaml", "resamples: ", "resamples: 9")
    assert run(quick) == ["01"], "what it wrote is what it was: who needs it has nothing to do"
    edit(quick / "notebooks/01_a.ipynb", "[1]", "[2]")
    assert run(quick) == ["01", "02"], "and who needs it"
    write(quick, {"build/public/state/00_start": "torn"})
    assert run(quick) == ["00"]
    edit(quick / "requirements.lock", "1", "2")
    assert run(quick) == ["00", "01", "02", "03"]
    write(quick, {"results/public/scores/y.json": "recorded"})
    assert run(quick) == ["03"], "recorded scores, for who reads them"
    monkeypatch.setenv("RETRAIN", "1")
    with mock.patch.object(paper, "ThreadPoolExecutor", wraps=paper.ThreadPoolExecutor) as pool:
        assert run(quick, jobs=2) == ["00", "01", "02", "03"], "scores that a run itself records"
    pool.assert_called_once_with(1)
    assert run(quick) == []


MODULE = '''"""What the module is for."""


def double(x):
    """Return twice the value."""
    return 2 * x  # a comment
'''


def test_what_is_written_for_people_makes_no_notebook_stale(quick):
    module, profile_file, lock = (
        quick / name for name in ("data/module.py", "profiles/public.yaml", state.LOCK)
    )
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


@pytest.mark.parametrize("now", [None, "edited"])
@pytest.mark.parametrize(
    "name", ["results/public/a.csv", "results/public/manifest/01_a.json", "{build}/01_a.ipynb"]
)
def test_what_a_notebook_wrote_is_restored(quick, name, now):
    def results():
        return {path: path.read_bytes() for path in (quick / "results").rglob("*.*")}

    run(quick)
    before, path = results(), quick / name.format(build="build/public/notebooks")
    path.unlink() if now is None else path.write_text(now)
    assert run(quick) == ["01"] and results() == before and run(quick) == []


def test_cells_run_by_hand_lose_nothing(quick):
    run(quick)
    run_by_hand(quick, "01_a", slice(1, 2))
    assert run(quick) == [] and (quick / "results/public/a.csv").exists()
    edit(quick / "notebooks/01_a.ipynb", "[1]", "[2]")
    run_by_hand(quick, "01_a")
    edit(quick / "notebooks/01_a.ipynb", "[2]", "[1]")
    assert run(quick) == ["01"] and (quick / "results/public/a.csv").read_text() == "a\n1\n"


def test_what_no_notebook_writes_any_more_is_deleted_and_a_readers_own_file_is_not(quick):
    run(quick)
    readers_files = [
        "results/public/my_scores.csv",
        "figures/public/mine.png",
        "results/public/a.csv",
    ]
    write(quick, dict.fromkeys(readers_files[:2], "x"))
    edit(quick / "notebooks/01_a.ipynb", "'a', 'A')", "'b', 'B')\\n1 / 0")
    edit(quick / "notebooks/02_b.ipynb", "a.csv", "b.csv")
    with pytest.raises(ZeroDivisionError):
        run(quick)
    assert (quick / "results/public/a.csv").exists() and (quick / "results/public/b.csv").exists()
    edit(quick / "notebooks/01_a.ipynb", "'b', 'B')\\n1 / 0", "'c', 'C')")
    edit(quick / "notebooks/02_b.ipynb", "b.csv", "c.csv")
    assert run(quick) == ["01", "02"]
    assert sorted(path.stem for path in (quick / "results/public").glob("*.csv")) == [
        "c",
        "d",
        "my_scores",
    ], "half run"
    (quick / "results/public/c.csv").write_text("a reader's")
    for name in ("01_a", "02_b"):
        (quick / f"notebooks/{name}.ipynb").unlink()
    assert (
        run(quick) == []
        and run(quick) == []
        and all((quick / name).exists() for name in readers_files[:2])
    )
    assert (quick / "results/public/c.csv").exists() and not (
        quick / "results/public/c.md"
    ).exists()


def test_a_change_while_notebooks_run_is_not_taken_for_seen_and_one_run_at_a_time(quick, capsys):
    edit(
        quick / "notebooks/03_c.ipynb",
        "['RETRAIN'])",
        "['RETRAIN'])\\ntext('data/some.txt', 'added')",
    )
    with pytest.raises(
        DreError, match="00_start.ipynb: data/some.txt has changed after it was executed"
    ):
        run(quick)
    write(quick, {"notebooks/01_a-Copy1.ipynb": "{}"})
    edit(quick / "notebooks/02_b.ipynb", "text(", "text((")
    with pytest.raises(DreError, match=r"02_b.ipynb .*: cell \[2\], line 1: '\(' was never closed"):
        run(quick)
    edit(quick / "notebooks/02_b.ipynb", "text((", "text(")
    edit(quick / "notebooks/03_c.ipynb", "'added'", "''")
    assert run(quick) == ["00", "03"] and "not run, since its name" in capsys.readouterr().out
    with (
        FileLock(quick / "build/paper.lock"),
        pytest.raises(DreError, match="another make paper is under way"),
    ):
        run(quick)


def test_a_book_saves_figures_without_a_date_and_registers_what_was_not_run(quick):
    results_book = notebook.Book("00_start", profile("public", quick))
    with watched(quick / "state", quick):
        results_book.table(pd.DataFrame({"claim": ["a|b"]}), "t", "Claims *and*")
        picture = results_book.figure(plt.figure(), "f", "A figure")
        results_book.not_run("the end", "no time")
    png, pdf = ((quick / f"figures/public/f.{ending}").read_bytes() for ending in ("png", "pdf"))
    assert picture._repr_png_() == png and not any(
        word in png + pdf for word in (b"Software", b"Date", b"Producer")
    )
    book(quick, "00_start", "# Start")
    registered = headless.manifest(headless.notebooks(quick)[0], results_book.profile)
    names = [(item["kind"], item["name"]) for item in registered["items"]]
    assert names == [("table", "t"), ("figure", "f")]
    assert registered["not_run"] == [{"what": "the end", "why": "no time"}]


def test_two_failing_cells_in_kernels_are_named_and_a_run_is_committed_without_traces_of_the_machine(
    root, monkeypatch, capfd
):
    monkeypatch.setenv("DRE_DATA_HOME", os.path.relpath(root / "mine"))
    code = 'import os, sys\nprint("in", os.path.dirname(os.getcwd()))\nprint("noise", file=sys.stderr)\n'
    book(
        root,
        "00_start",
        "# Title",
        "# a comment\nassert n > 1",
        code + 'print(os.environ["DRE_DATA_HOME"])\nn',
    )
    book(root, "01_other", "n\n1 / (n - 1)")
    book(root, "02_end", needs=["00_start"])
    path = root / "notebooks/00_start.ipynb"
    assert (
        paper.main(["--profile", "public"]) == 1
        and (root / "build/public/notebooks/00_start.ipynb").exists()
    )
    printed = capfd.readouterr()
    assert (
        "00_start.ipynb failed in cell [2] at 'assert n > 1': AssertionError: assert n > 1"
        in printed.err
    )
    assert "01_other.ipynb failed in cell [2] at '1 / (n - 1)': ZeroDivisionError" in printed.err
    assert "02_end" not in printed.out
    edit(path, "n > 1", "n")
    edit(root / "notebooks/01_other.ipynb", "n - 1", "n")
    assert paper.main(["--profile", "public"]) == 0
    printed = capfd.readouterr()
    assert "00_start | noise" in printed.err and "MB of memory" in printed.out
    written = path.read_bytes()
    assert paper.run(profile("public", root)) == [] and path.read_bytes() == written
    parameters, _, _, cell = json.loads(written)["cells"]
    stream, _ = cell["outputs"]
    assert (
        parameters["source"] == PARAMETERS and "".join(stream["text"]) == "in .\n$DRE_DATA_HOME\n"
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
    path, copy = root / "notebooks/00_start.ipynb", "build/public/notebooks/00_start.ipynb"
    ran = json.loads(path.read_text())
    ran["cells"][1]["outputs"] = [
        {"output_type": "display_data", "data": {"text/plain": list(lines), "data": home}}
    ]
    write(root, {copy: json.dumps(ran)})
    headless.commit(path, profile("public", root))
    data = json.loads(path.read_text())["cells"][1]["outputs"][0]["data"]
    assert data == {"text/plain": ["~ ~/a,b 'file://~/b''~'" + lines[2]], "data": home}


def test_a_notebook_that_runs_long_shows_where_it_is_and_what_its_kernel_says(
    root, monkeypatch, capfd
):
    monkeypatch.setattr(headless, "SIGN_OF_LIFE", 0.5)
    loud = "import sys, time\nprint('epoch 1', file=sys.stderr, flush=True)\ntime.sleep(2)"
    book(root, "00_start", "n", loud, "n")

    paper.run(profile("public", root))

    lines = capfd.readouterr().err.splitlines()
    assert "00_start | epoch 1" in lines
    assert "00_start: cell 3 of 4, 0 min" in lines


def test_a_first_run_is_not_called_a_failure_and_a_second_announces_nothing(quick, capsys):
    run(quick)
    first = capsys.readouterr().out
    run(quick)
    second = capsys.readouterr().out

    assert "00_start                           running: not run yet\n" in first
    assert "brought up to date: notebooks/00_start.ipynb" in first
    assert "brought up to date" not in second


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_said_with_the_path_and_advice(root, capfd):
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


def test_a_note_is_shown_as_markdown_and_its_numbers_stand_in_readme(root):
    (root / "dre").symlink_to(HERE / "dre")
    note = 'gain = 0.0649\nbook.note(f"The gain is *{gain:+.2f}*.", gain=f"{gain:+.2f}", n=3)'
    book(root, "00_start", SETUP.replace("03_classification", "00_start"), note)
    edit(root / "notebooks/00_start.ipynb", "mini", "public")
    write(root, {"README.md": "It gains <!--00.gain--><!--/--> with <!--00.n--><!--/--> judges.\n"})
    public = profile("public", root)

    assert paper.run(public) == ["00_start"]

    *_, cell = headless.code_cells(headless.notebooks(root)[0].content)
    [output] = cell["outputs"]
    assert "".join(output["data"]["text/markdown"]) == "The gain is *+0.06*."
    readme = (root / "README.md").read_text()
    assert re.sub("<!--.*?-->", "", readme) == "It gains +0.06 with 3 judges.\n"
    assert paper.run(public) == []


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


@pytest.mark.parametrize("folder", ["results/public/scores", "results/curve"])
def test_who_reads_one_file_of_a_folder_of_recordings_depends_on_the_names_of_all(root, folder):
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


def test_an_interrupt_ends_both_kernels_and_starts_no_other(root):
    wait = "import os, pathlib, time\npathlib.Path(f'../data/{os.getpid()}.pid').touch()\ntime.sleep(60)"
    for name in ("00_a", "01_b", "02_c"):
        book(root, name, wait)
    command = [sys.executable, "-m", "dre.paper", "--profile", "public", "--jobs", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    until = time.monotonic() + 60
    while (
        len(pids := [int(path.stem) for path in root.glob("data/*.pid")]) < 2
        and time.monotonic() < until
    ):
        time.sleep(0.05)
    process.terminate()  # as by Ctrl-C
    output, _ = process.communicate(timeout=30)
    assert (
        process.returncode == 130
        and "interrupted: finished notebooks are kept" in output
        and "02_c" not in output
    )
    assert not any(map(psutil.pid_exists, pids)) and len(pids) == 2


def test_in_a_kernel_setup_gives_a_book_and_a_notebook_may_end_itself_before_it_wrote_all(root):
    (root / "dre").symlink_to(HERE / "dre")
    scores = root / "results/mini/scores"
    write(root, {scores / "b.npz": ""})
    pd.DataFrame({"a": [1]}).to_csv(scores / "a.csv.gz")
    table = f"import IPython\nassert IPython.__version__ == {version('ipython')!r}\n"  # .ci/run tries an older one, too
    table += """import pandas as pd
pd.read_csv(book.profile.results / "scores/a.csv.gz"), open("../data/some.txt").read(), open("../data/own.txt", "w")
table = book.table(pd.DataFrame({"a": [1]}), "t", "A table")
open("../results/mini/t.csv").read()
table"""
    figure = (
        "import matplotlib.pyplot as plt\nfig = plt.figure()",
        'book.figure(fig, "f", "A figure")',
    )
    setup = SETUP.replace("03_classification", "00_start")
    book(root, "00_start", setup, table, *figure, 'book.needs_public("no ratings")', "1 / 0")
    assert (
        paper.run(profile("mini", root)) == ["00_start"] and paper.run(profile("mini", root)) == []
    )
    cells = headless.code_cells(
        json.loads((root / "build/mini/notebooks/00_start.ipynb").read_text())
    )
    setup_output, table, opened, figure, end, after = (cell["outputs"] for cell in cells[1:])
    assert "profile mini · Python" in "".join(setup_output[0]["text"])
    assert "".join(table[0]["data"]["text/markdown"]) == (root / "results/mini/t.md").read_text()
    assert not opened and "image/png" in figure[0]["data"], "an open figure is shown once"
    assert "make paper PROFILE=public" in "".join(end[0]["text"]) and not after
    record = state.load(root / "build/mini/state/00_start")
    modules = {name for name in record["read"] if name.startswith("dre/")}
    assert {
        f"dre/{name}.py" for name in ("__init__", "paper/state", "tables", "paper/plots")
    } <= modules
    assert "dre/commands/main.py" not in modules
    files = {
        "data/some.txt",
        "profiles/mini.yaml",
        "results/mini/scores",
        "results/mini/scores/a.csv.gz",
        state.LOCK,
    }
    assert record["read"].keys() - modules == files
    wrote = {"00_start.ipynb", "00_start.json", "f.pdf", "f.png", "t.csv", "t.md"}
    assert set(map(os.path.basename, record["wrote"])) == wrote


def test_beside_an_installed_package_one_sentence_says_that_notebooks_need_a_clone(
    tmp_path, monkeypatch, capsys
):
    shutil.copytree(HERE / "profiles", tmp_path / "profiles")  # all that a wheel has
    monkeypatch.setenv("DRE_ROOT", str(tmp_path))
    advice = "notebooks need a clone of the project, .*: git clone https://github.com/dre-companion"

    with pytest.raises(DreError, match=advice):
        notebook.setup("04_correlation", "public")

    assert paper.main([]) == 1
    assert re.match(f"error: {advice}", capsys.readouterr().err)


def test_the_runner_is_imported_without_what_only_the_extras_install():
    code = "import dre.paper.run, sys; print({'sphinx', 'psutil', 'papermill'} & set(sys.modules))"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout == "set()\n"


def test_the_setup_cell_takes_no_other_folder_for_the_clone_and_stops_where_pip_fails(tmp_path):
    # Beside the reader's folder lies one called dre that is no project. A git of ours stands in
    # for the network: it makes the folder of a clone, in which there is nothing to install.
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
