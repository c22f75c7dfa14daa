"""Numbers in words: said by cells, from a table; shown by name in README, docs and prose."""

import json

import pytest
from test_paper import HERE, write

from dre.errors import DreError
from dre.paper import notebook, words
from dre.paper import run as paper
from dre.paper.headless import notebooks
from dre.paper.profile import profile

TABLE = 'model,seed,acc,acc_low,acc_high,d\n"SLM, paper",0,85.65,84.2,87.04,-0.5\nX,1,3,,,-0.001\nX,2,,,,0.25\n'
SAID = [
    (("SLM, paper",), "{acc:.1f} %", "85.7 %"),
    (("SLM, paper",), "{acc:.1f[]}", "85.7 [84.2, 87.0]"),
    (("X", "1"), "{model}: {d:+.1f}, n = {seed}", "X: 0.0, n = 1"),
    ((["SLM, paper", "2"],), "{d:+.2f}", "−0.50 / +0.25"),
]
FAULTS = [
    (("X",), "{d}", "t.csv: 2 of 3 rows have X, expected one"),
    (("X", "paper"), "{d}", "0 of 3 rows have X, paper"),
    (("X", "1"), "{bias}", "t.csv has no column 'bias', but model, seed, acc"),
    (("X", "2"), "{acc:.1f}", "t.csv, X, 2: cannot say {acc:.1f}: a value is missing"),
    (("X", "1"), "{acc:.1f[]}", "a value is missing"),
    (("X", "1"), "{d:.1q}", "cannot say {d:.1q}"),
]


@pytest.fixture
def book(tmp_path):
    write(
        tmp_path,
        {
            "results/public/t.csv": TABLE,
            "profiles/public.yaml": (HERE / "profiles/public.yaml").read_text(),
        },
    )
    return notebook.Book("04_correlation", profile("public", tmp_path))


def test_a_cell_names_numbers_of_one_row_and_only_profile_public_says_any(book, tmp_path):
    for number, (row, form, text) in enumerate(SAID):
        book.say("t", *row, **{f"n{number}": form, f"again{number}": form})
        assert (
            words.said(tmp_path)[f"04.n{number}"]
            == words.said(tmp_path)[f"04.again{number}"]
            == text
        )
    assert len(words.said(tmp_path)) == 2 * len(SAID)
    for row, form, fault in FAULTS:
        with pytest.raises(DreError) as error:
            book.say("t", *row, n=form)
        assert fault in str(error.value)
    with pytest.raises(
        DreError, match="there is no u.csv in .*: say a number after the cell that writes its table"
    ):
        book.say("u", "X", n="{d}")
    book.profile = book.profile.model_copy(update={"name": "mini"})
    book.say("u", "X", n="{d}")


def of(cells, name="04_correlation"):
    """Return a notebook: prose, but for cells that begin with "book"."""
    kinds = ["code" if text.startswith("book") else "markdown" for text in cells]
    cells = [
        {"cell_type": kind, "metadata": {}, "source": text} for kind, text in zip(kinds, cells)
    ]
    return {f"notebooks/{name}.ipynb": json.dumps({"cells": cells, "metadata": {}})}


def test_readme_docs_and_notebooks_show_what_is_said_and_only_what_is_stale_is_written(
    book, tmp_path
):
    book.say("t", "X", "1", accuracy="{acc:.1f}")
    own_place, other_place = "<!--accuracy-->old\nwords<!--/-->", "<!--04.accuracy--><!--/-->"
    docs = {
        "docs/a.md": f"| {other_place} |\n<!-- a | comment -->",
        "docs/b.md": "Nothing <!-- TODO --> <!--todo-->.\n",
    }
    write(
        tmp_path,
        docs
        | {"README.md": f"{other_place}\n<!--docs/a.md--><!--/-->"}
        | of([f"It is {own_place}.", f"book = '{own_place}'"]),
    )
    stale = [
        tmp_path / name for name in ("docs/a.md", "README.md", "notebooks/04_correlation.ipynb")
    ]
    assert words.fill(tmp_path, write=False) == stale == words.fill(tmp_path)
    assert words.fill(tmp_path, write=False) == [] == words.fill(tmp_path)
    filled = "<!--04.accuracy-->3.0<!--/-->"
    assert stale[0].read_text() == f"| {filled} |\n<!-- a | comment -->"
    assert stale[1].read_text() == f"{filled}\n<!--docs/a.md-->\n\n| 3.0 |\n\n<!--/-->"
    prose, code = json.loads(stale[2].read_text())["cells"]
    assert (
        prose["source"] == ["It is <!--accuracy-->3.0<!--/-->."]
        and code["source"] == f"book = '{own_place}'"
    )


@pytest.mark.parametrize(
    ("readme", "prose", "fault"),
    [
        (
            "",
            "<!--low--><!--/-->",
            r"04_correlation.ipynb: <!--low--> is no file, and no cell says it",
        ),
        (
            "<!--accuracy--><!--/-->",
            "",
            "README.md: <!--accuracy--> is no file, and no cell says it",
        ),
        ("<!--04.accuracy-->3", "", "README.md: <!--04.accuracy--> is half a place"),
        ("", "<!--accuracy-->3 <!--accuracy-->3<!--/-->", "<!--accuracy--> is half a place"),
        ("3<!--/-->", "", "README.md: <!--/--> is half a place"),
        ("", "book.say('t', 'X', d='', accuracy='')", "04.accuracy is said twice"),
    ],
)
def test_an_unknown_name_is_found_before_any_notebook_runs(
    readme, prose, fault, book, tmp_path, monkeypatch
):
    write(
        tmp_path, {"README.md": readme} | of(["book.say('t', 'X', '1', accuracy='{acc}')", prose])
    )
    monkeypatch.setattr(paper, "execute", lambda *_: pytest.fail("a notebook ran"))
    with pytest.raises(DreError) as error:
        paper.run(book.profile)
    assert fault in str(error.value)


def test_the_rows_of_a_csv_are_shown_as_a_table(book, tmp_path):
    write(tmp_path, {"docs/rows.md": "<!--results/public/t.csv--><!--/-->"})
    words.check(tmp_path, [])
    words.fill(tmp_path)
    text = (tmp_path / "docs/rows.md").read_text()
    assert (
        "| SLM, paper | 0 | 85.65 [84.20, 87.04] | −0.50 |" in text
        and "| X | 2 | — | 0.25 |" in text
    )
    assert words.fill(tmp_path, write=False) == []


def test_a_name_that_some_cell_says_may_be_shown_before_it_was_ever_run(tmp_path):
    write(
        tmp_path,
        {"README.md": "<!--04.d--><!--/-->"}
        | of(["book.say('t', 'X', '1', d='{d}')", "<!--d--><!--/-->"]),
    )
    words.check(tmp_path, notebooks(tmp_path))
