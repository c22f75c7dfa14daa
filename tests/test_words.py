"""Places in README and docs show cells and tables of results/public."""

import pytest

from dre.errors import DreError
from dre.files import replace
from dre.paper import words

TABLE = """\
model,seed,acc,acc_low,acc_high,d
"SLM, paper",0,85.65,84.2,87.04,-0.5
X: a,1,3,,,-0.001
X: a,2,,,,0.25
"""


@pytest.fixture
def page(tmp_path):
    replace(tmp_path / "results/public/t.csv", TABLE)
    replace(tmp_path / "results/u.csv", TABLE)
    return tmp_path / "docs/a.md"


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("t: SLM, paper: acc .1f", "85.7"),
        ("t: SLM, paper: acc .1f[]", "85.7 [84.2, 87.0]"),
        ("t: SLM, paper: d +.2f", "−0.50"),
        ("t: X: a; 1: d +.1f", "0.0"),
        ("t: X: a; 2: model", "X: a"),
    ],
)
def test_a_place_shows_a_cell_as_it_says(page, place, text):
    replace(page, f"It has | <!--{place}-->old\nwords<!--/--> <!-- TODO -->.")
    assert words.fill(page.parents[1]) == [page]
    assert page.read_text() == f"It has | <!--{place}-->{text}<!--/--> <!-- TODO -->."
    assert words.fill(page.parents[1]) == []


@pytest.mark.parametrize("place", ["t", "results/u.csv"])
def test_a_place_of_a_table_shows_all_its_rows(page, place):
    replace(page, f"<!--{place}--><!--/-->")
    words.fill(page.parents[1])
    assert "| SLM, paper | 0 | 85.65 [84.20, 87.04] | −0.50 |\n" in page.read_text()
    assert "| X: a | 2 | — | 0.25 |\n" in page.read_text()
    assert words.fill(page.parents[1]) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("<!--v: X: d--><!--/-->", "v: X: d: there is no table v.csv"),
        ("<!--v--><!--/-->", "v: there is no table v.csv"),
        ("<!--t: X: a: d--><!--/-->", "2 of 3 rows have these values"),
        ("<!--t: Y: d--><!--/-->", "0 of 3 rows have these values"),
        ("<!--t: X: a; 1: bias .2f--><!--/-->", "no value in 'bias'"),
        ("<!--t: X: a; 2: acc .1f--><!--/-->", "no value in 'acc'"),
        ("<!--t: X: a; 1: acc .1f[]--><!--/-->", "no value in 'acc_low'"),
        ("<!--t: X: a; 1: d .1f-->3", "half a place"),
        ("3<!--/-->", "<!--/--> is half a place"),
    ],
)
def test_what_no_table_has_is_an_error_that_names_file_and_place(page, text, fault):
    replace(page, text)
    with pytest.raises(DreError, match="^a.md: ") as error:
        words.fill(page.parents[1])
    assert fault in str(error.value)
