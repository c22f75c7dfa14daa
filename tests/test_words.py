"""Numbers in words: of rows of tables, and named by cells to be shown in README and docs."""

import json

import pytest
from test_paper import HERE, write

from dre.errors import DreError
from dre.paper import notebook, words
from dre.paper import run as paper
from dre.paper.headless import notebooks
from dre.paper.profile import profile
from dre.paper.sentences import in_words

TABLE = """\
model,seed,acc,acc_low,acc_high,d
"SLM, paper",0,85.65,84.2,87.04,-0.5
X,1,3,,,-0.001
X,2,,,,0.25
"""


@pytest.fixture
def book(tmp_path):
    texts = {
        "results/public/t.csv": TABLE,
        "profiles/public.yaml": (HERE / "profiles/public.yaml").read_text(),
    }
    write(tmp_path, texts)
    return notebook.Book("04_correlation", profile("public", tmp_path))


@pytest.mark.parametrize(
    ("row", "form", "text"),
    [
        (("SLM, paper",), "{acc:.1f} %", "85.7 %"),
        (("SLM, paper",), "{acc:.1f[]}", "85.7 [84.2, 87.0]"),
        (("X", "1"), "{model}: {d:+.1f}, n = {seed}", "X: 0.0, n = 1"),
        ((["SLM, paper", "2"],), "{d:+.2f}", "−0.50 / +0.25"),
    ],
)
def test_a_sentence_has_numbers_of_one_row(book, tmp_path, row, form, text):
    assert in_words(tmp_path / "results/public/t.csv", row, form) == text


def test_names_of_several_cells_add_up(book, tmp_path):
    book.note("The first.", first=0.125)
    book.note("The second.", second="+0.25")
    assert words.said(tmp_path) == {"04.first": "0.13", "04.second": "+0.25"}


def test_a_number_that_rounds_to_zero_has_no_sign_in_a_sentence(book, monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda text, **_: shown.append(text.data))
    book.note(
        f"From {-0.001:+.2f} to {0.0004:+.2f}, not {-0.03:+.2f}, {-0.0072:+.3f} or {-0.5:.1f}."
    )
    assert shown == ["From 0.00 to 0.00, not −0.03, −0.007 or −0.5."]


@pytest.mark.parametrize(
    ("row", "form", "fault"),
    [
        (("X",), "{d}", "t.csv: 2 of 3 rows have X, expected one"),
        (("X", "paper"), "{d}", "0 of 3 rows have X, paper"),
        (("X", "1"), "{bias}", "t.csv has no column 'bias': its columns are model, seed, acc"),
        (
            ("X", "2"),
            "{acc:.1f}",
            "t.csv, X, 2: the row does not fit '{acc:.1f}' (a value is missing",
        ),
        (("X", "1"), "{acc:.1f[]}", "a value is missing"),
        (("X", "1"), "{d:.1q}", "does not fit '{d:.1q}'"),
    ],
)
def test_what_cannot_be_said_is_an_error_in_words(book, tmp_path, row, form, fault):
    with pytest.raises(DreError) as error:
        in_words(tmp_path / "results/public/t.csv", row, form)
    assert fault in str(error.value)


def test_a_number_of_a_table_that_is_not_written_yet_is_an_error(tmp_path):
    with pytest.raises(DreError, match="there is no u.csv in "):
        in_words(tmp_path / "u.csv", ("X",), "{d}")


def test_only_profile_public_keeps_any_number(book, tmp_path):
    book.profile = book.profile.model_copy(update={"name": "mini"})
    book.note("A sentence.", n="0.25")
    assert words.said(tmp_path) == {}


def notebook_file(cells, name="04_correlation"):
    """Return a notebook as text by path: all prose, but for cells that begin with "book"."""
    content = {"cells": [], "metadata": {}}
    for text in cells:
        cell_type = "code" if text.startswith("book") else "markdown"
        content["cells"].append({"cell_type": cell_type, "metadata": {}, "source": text})
    return {f"notebooks/{name}.ipynb": json.dumps(content)}


CODE = "book = '<!--docs/a.md-->old\nwords<!--/-->'"


@pytest.fixture
def stale_paths(book, tmp_path):
    """The files of a project that show a number which is kept by now; another file shows none."""
    book.note("It is right.", accuracy="3.0")
    unfilled = "<!--04.accuracy--><!--/-->"
    write(
        tmp_path,
        {
            "docs/a.md": f"| {unfilled} |\n<!-- a | comment -->",
            "docs/b.md": "Nothing <!-- TODO --> <!--todo-->.\n",
            "README.md": f"{unfilled}\n<!--docs/a.md--><!--/-->",
        },
    )
    write(tmp_path, notebook_file(["<!--docs/a.md-->old\nwords<!--/-->", CODE]))
    return [
        tmp_path / "docs/a.md",
        tmp_path / "README.md",
        tmp_path / "notebooks/04_correlation.ipynb",
    ]


def test_files_that_show_old_words_are_stale_until_they_are_filled(stale_paths, tmp_path):
    assert words.fill(tmp_path, write=False) == stale_paths
    assert words.fill(tmp_path) == stale_paths
    assert words.fill(tmp_path, write=False) == []
    assert words.fill(tmp_path) == []


def test_readme_and_docs_show_what_is_kept_and_notebooks_show_files(stale_paths, tmp_path):
    words.fill(tmp_path)

    page, readme, book_file = stale_paths
    filled = "<!--04.accuracy-->3.0<!--/-->"
    assert page.read_text() == f"| {filled} |\n<!-- a | comment -->"
    assert readme.read_text() == f"{filled}\n<!--docs/a.md-->\n\n| 3.0 |\n\n<!--/-->"
    prose, code = json.loads(book_file.read_text())["cells"]
    assert "".join(prose["source"]) == "<!--docs/a.md-->\n\n| 3.0 |\n\n<!--/-->"
    assert code["source"] == CODE


@pytest.mark.parametrize(
    ("readme", "prose", "fault"),
    [
        (
            "<!--04.low--><!--/-->",
            "",
            "README.md: <!--04.low--> is not a file, and no cell names it",
        ),
        ("<!--accuracy--><!--/-->", "", "README.md: <!--accuracy--> is not a file"),
        ("", "<!--accuracy--><!--/-->", "04_correlation.ipynb: <!--accuracy--> is not a file"),
        ("<!--04.accuracy-->3", "", "README.md: <!--04.accuracy--> is half a place"),
        ("3<!--/-->", "", "README.md: <!--/--> is half a place"),
        ("", "book.note('It is.', accuracy='')", "04.accuracy is named twice"),
    ],
)
def test_an_unknown_name_is_reported_before_any_notebook_runs(
    readme, prose, fault, book, tmp_path, monkeypatch
):
    write(tmp_path, {"README.md": readme})
    write(tmp_path, notebook_file(["book.note('It is.', accuracy='3.0')", prose]))
    monkeypatch.setattr(paper, "execute", lambda *_: pytest.fail("a notebook ran"))

    with pytest.raises(DreError) as error:
        paper.run(book.profile)

    assert fault in str(error.value)


def test_the_rows_of_a_csv_are_shown_as_a_table(book, tmp_path):
    write(tmp_path, {"docs/rows.md": "<!--results/public/t.csv--><!--/-->"})

    words.check_names(tmp_path, [])
    words.fill(tmp_path)

    text = (tmp_path / "docs/rows.md").read_text()
    assert "| SLM, paper | 0 | 85.65 [84.20, 87.04] | −0.50 |" in text
    assert "| X | 2 | — | 0.25 |" in text
    assert words.fill(tmp_path, write=False) == []


def test_a_name_that_some_cell_has_may_be_shown_before_it_was_ever_run(tmp_path):
    write(tmp_path, {"README.md": "<!--04.d--><!--/-->"})
    write(tmp_path, notebook_file(["book.note('It is.', d='1')", "Prose."]))
    words.check_names(tmp_path, notebooks(tmp_path))
