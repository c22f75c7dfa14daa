"""What `make paper` does: what reruns, failures, committed outputs, and the `Book` of a notebook."""

import json
import shutil
from importlib.metadata import version
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from filelock import FileLock
from nbformat import v4

from dre import headless, notebook, paper
from dre.errors import DreError
from dre.profile import profile

HERE = Path(__file__).parents[1]
PARAMETERS = 'profile = "mini"\nn = 1'
SETUP = headless.source(json.loads((HERE / "notebooks/03_classification.ipynb").read_text())["cells"][2])


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A project of its own: profiles, a lock, no notebooks yet."""
    shutil.copytree(HERE / "profiles", tmp_path / "profiles")
    write(tmp_path, {"requirements.lock": "a==1\n", "data/some.txt": "data\n"})
    for name, value in {"DRE_ROOT": str(tmp_path), "PYTHONPATH": "", "RETRAIN": ""}.items():
        monkeypatch.setenv(name, value)  # restored after what `execute` sets
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


@pytest.fixture
def quick(root, monkeypatch):
    def execute(each, profile):
        names = {"book": notebook.Book(each.name, profile), "pd": pd}
        for code in headless.code_cells(each.content)[1:]:
            exec(headless.source(code), names)

    monkeypatch.setattr(paper, "execute", execute)
    write(root, {"dre/__init__.py": 'LAZY = {"DRE": "dre.b"}', "dre/a.py": "import dre.slm", "dre/b.py": ""})
    write(root, {"dre/slm/__init__.py": 'LAZY = {"fit": "train"}', "dre/slm/train.py": "", "dre/slm/scores.py": ""})
    book(root, "00_start", "import os")
    book(root, "01_a", "# fast\nbook.table(pd.DataFrame({'a': [1]}), 'a', 'A')", "if 0:\n    from dre import a")
    book(root, "02_b", "1 + 1", needs=["01_a"])
    book(root, "03_c", "if 0:\n    from dre.slm.scores import trained")
    return root


def run(root):
    return [each[:2] for each in paper.run(profile("mini", root))]


def test_only_what_changed_runs_again(quick, monkeypatch):
    assert run(quick) == ["00", "01", "02", "03"] and run(quick) == []
    edit(quick / "notebooks/01_a.ipynb", "# fast", "# very fast")
    assert run(quick) == [], "a comment"
    write(quick, {"dre/slm/train.py": "x = 1"})
    assert run(quick) == ["01", "02", "03"], "a module that is used by another or by name, and what needs its user"
    write(quick, {"dre/b.py": "x = 1"})
    assert run(quick) == [], "a module that only the package itself names"
    (quick / "results/mini/a.csv").unlink()
    write(quick, {"build/mini/state/00_start": "torn"})
    assert run(quick) == ["00", "01"], "a missing file, a torn state"
    for path in ("data/some.txt", "requirements.lock", "profiles/mini.yaml"):
        edit(quick / path, "\n", "\n# more\n")
        assert run(quick) == ["00", "01", "02", "03"], path
    write(quick, {"results/mini/scores/x.csv.gz": "recorded"})
    assert run(quick) == ["03"], "recorded scores, for who reads them"
    monkeypatch.setenv("RETRAIN", "1")
    assert run(quick) == ["00", "01", "02", "03"]


def test_one_run_at_a_time_and_a_complete_one_deletes_what_no_notebook_wrote_but_recorded_scores(quick):
    stale, kept = ["results/mini/old.csv", "figures/mini/old.png"], ["results/mini/scores/s.json", "results/mini/note"]
    write(quick, dict.fromkeys((*stale, *kept), "x"))
    assert run(quick) and not any((quick / name).exists() for name in stale)
    assert all((quick / name).exists() for name in (*kept, "results/mini/a.csv", "results/mini/index.html"))
    with FileLock(quick / "build/paper.lock"), pytest.raises(DreError, match="another make paper is under way"):
        run(quick)


def test_a_book_saves_figures_without_a_date_and_the_page_shows_them_and_what_was_not_run(quick):
    made = notebook.Book("00_start", profile("public", quick))
    made.table(pd.DataFrame({"claim": ["a|b"]}), "t", "Claims *and*")
    shown = made.figure(plt.figure(), "f", "A figure")
    png, pdf = ((quick / f"figures/public/f.{ending}").read_bytes() for ending in ("png", "pdf"))
    assert shown._repr_png_() == png and not any(word in png + pdf for word in (b"Software", b"Date", b"Producer"))
    made.not_run("the end", "no time")
    book(quick, "00_start", "# Start\n\n[![badge](x)](y)\n\nThe model *does not* <!--read-->read<!--/-->.")
    text = paper.page(made.profile).read_text()
    parts = ("<h2>Start", "<em>does not</em> read.", "a|b", 'href="t.csv"', 'src="../../figures/public/f.png"', "f.pdf")
    where = [text.index(part) for part in (*parts, "Not run: the end (no time)", "<h2>01_a")]
    assert where == sorted(where) and "badge" not in text and text.count("f.png") == 1


def test_a_failing_cell_in_a_kernel_is_named_and_a_run_is_committed_without_traces_of_the_machine(root, capfd):
    code = 'import sys, pathlib\nprint("in", pathlib.Path.cwd().parent)\nprint("noise", file=sys.stderr)\nn'
    book(root, "00_start", "# Title", "# a comment\nx = 1 / (n - 1)", code)
    public, path = profile("public", root), root / "notebooks/00_start.ipynb"
    assert paper.main(["--profile", "public"]) == 1 and (root / "build/public/notebooks/00_start.ipynb").exists()
    said = "00_start.ipynb failed in cell [2], which begins '# a comment': ZeroDivisionError: division by zero"
    assert said in capfd.readouterr().err
    edit(path, "n - 1", "n")
    assert paper.run(public) == ["00_start"] and "noise" in capfd.readouterr().err
    written = path.read_bytes()
    assert paper.run(public) == [] and path.read_bytes() == written
    parameters, _, _, cell = json.loads(written)["cells"]
    stream, _ = cell["outputs"]
    assert parameters["source"] == PARAMETERS and "".join(stream["text"]) == "in .\n"
    edit(path, "noise", "silence")
    with pytest.raises(DreError, match="was edited after it was executed"):
        headless.commit(path, public)


def test_in_a_kernel_setup_gives_a_book_and_a_notebook_may_end_itself_before_it_wrote_all(root):
    (root / "dre").symlink_to(HERE / "dre")
    table = f"import IPython\nassert IPython.__version__ == {version('ipython')!r}\n"  # .ci/run tries an older one, too
    table += 'import pandas as pd\nbook.table(pd.DataFrame({"a": [1]}), "t", "A table")'
    figure = ("import matplotlib.pyplot as plt\nfig = plt.figure()", 'book.figure(fig, "f", "A figure")')
    setup = SETUP.replace("03_classification", "00_start")
    book(root, "00_start", setup, table, *figure, 'book.needs_public("no ratings")', "1 / 0")
    assert paper.run(profile("mini", root)) == ["00_start"] and paper.run(profile("mini", root)) == []
    cells = headless.code_cells(json.loads((root / "build/mini/notebooks/00_start.ipynb").read_text()))
    said, table, opened, figure, end, after = (cell["outputs"] for cell in cells[1:])
    assert "profile mini · Python" in "".join(said[0]["text"])
    assert "".join(table[0]["data"]["text/markdown"]) == (root / "results/mini/t.md").read_text()
    assert not opened and "image/png" in figure[0]["data"], "an open figure is shown once"
    assert "make paper PROFILE=public" in "".join(end[0]["text"]) and not after
