"""Tables in their forms, and files that are written whole or not at all."""

import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dre.errors import DreError
from dre.files import replace
from dre.files import write as write_table
from dre.paper.table4 import printed_correlations
from dre.tables import Table, beside_print, named, number, show, spread, with_interval


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (85.65, 1, "85.7"),
        (85.649999999999991, 1, "85.7"),
        (-0.004, 2, "0.00"),
        (-0.5, 1, "−0.5"),
        (-3, 0, "−3"),
        (np.int64(12345678901), 2, "12,345,678,901"),
        ("-0.001", "+.1f", "0.0"),
        ("85.65", "+,.1f", "+85.7"),
    ],
)
def test_numbers_are_rounded_as_they_read(value, form, text):
    assert number(value, form) == text


PRINTED_TABLE = """\
group,metric,a_pearson,a_spearman,b_spearman,method,judge
x,LLM (one),9,0.2,0.5,LLM,one
x,LLM (two),9,0.4,0.7,LLM,two
x,no judge,9,9,9,BLEU,
"""


def test_what_a_paper_prints_is_found_by_method_and_judge(tmp_path):
    replace(tmp_path / "data/paper/t.csv", PRINTED_TABLE)

    by_key = printed_correlations(tmp_path, "t")

    assert list(by_key.index) == [("LLM", "one"), ("LLM", "two")]
    assert by_key.to_dict("list") == {"a": [0.2, 0.4], "b": [0.5, 0.7]}
    assert printed_correlations(tmp_path, "t", "pearson").loc[("LLM", "two")].to_dict() == {"a": 9}


def cells_of(table):
    """Return the cells of a table in Markdown, row by row; the first row is the header."""
    lines = [line for line in table.markdown().splitlines() if line.startswith("|")]
    del lines[1]  # the rule below the header
    return [line.strip("| ").split(" | ") for line in lines]


RESULTS = pd.DataFrame(
    {
        "model": ["a", "b|<*$", None],
        "n": [1, 20000, 3],
        "n_sd": [0.53, None, None],
        "acc": [88.05, np.nan, 70],
        "acc_low": [87.0, 1, None],
        "acc_high": [89.0, 2, 71],
    }
)


def test_a_table_prints_what_belongs_to_a_value_with_it_and_gaps_as_dashes(capsys):
    table = Table(RESULTS, "t", "Caption", "A note.", digits={"acc": 1}, headers={"n": "Pairs"})

    rows = [
        ["Model", "Pairs", "Acc"],
        ["a", "1 ± 0.53", "88.1 [87.0, 89.0]"],
        ["b\\|\\<\\*\\$", "20,000", "—"],
        ["—", "3", "70.0"],
    ]
    assert cells_of(table) == rows
    lines = repr(table).splitlines()
    assert (lines[0], lines[3], lines[-1]) == ("**Caption**", "| :-- | --: | --: |", "A note.")
    assert table.csv().splitlines()[1] == "a,1,0.53,88.05,87,89"
    show(RESULTS, "C", "N.", ["acc", "absent"], {"acc": "Right", "absent": "?"}, {"acc": 1})
    assert "| Right |\n| --: |\n| 88.1 [87.0, 89.0] |\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("rows", "models"),
    [
        (2, ["a", "b\\|\\<\\*\\$"]),
        (RESULTS.index > 1, ["—"]),
        ({"n": [3, 1]}, ["—", "a"]),  # in this order
    ],
)
def test_rows_and_columns_of_a_table_can_be_chosen(rows, models):
    table = Table(RESULTS, "t", "Caption", rows=rows, columns=["model"])
    assert cells_of(table) == [["Model"], *([model] for model in models)]
    assert table.below == f"({len(models)} of 3 rows; all are in t.csv)"


@pytest.mark.parametrize("choice", [{"rows": {"n": [1, 2]}}, {"columns": ["model", "name"]}])
def test_a_row_or_a_column_that_is_not_there_is_an_error(choice):
    with pytest.raises(KeyError):
        Table(RESULTS, "t", "Caption", **choice)


def test_a_long_table_is_cut_and_says_where_the_rest_is(tmp_path):
    table = Table(pd.DataFrame({f"c{i}": range(40) for i in range(9)}), "t", "Caption")
    assert np.shape(cells_of(table)) == (1 + 15, 7)
    assert table.below == "(15 of 40 rows; all are in t.csv)"
    assert len(table.save(tmp_path / "new").read_text().splitlines()) == 41


@pytest.mark.parametrize("value", ["r", "mean", "difference"])
def test_what_statistics_return_becomes_the_columns_that_a_table_prints_as_one(value):
    statistics = pd.Series({value: 0.5, "low": 0.25, "high": 0.75, "sd": np.nan, "p": 0.01})
    columns = named("gain", statistics)
    assert columns == {"gain": 0.5, "gain_low": 0.25, "gain_high": 0.75}
    assert with_interval(columns, "gain") == "+0.50 [+0.25, +0.75]"
    row = pd.DataFrame([named("gain", statistics.replace(np.nan, 0.125))])
    assert cells_of(Table(row, "t", "Caption")) == [["Gain"], ["0.50 ± 0.13 [0.25, 0.75]"]]


LONG = pd.DataFrame(
    [["b", "Y", 0.1, -0.9], ["a", "Y", 0.2, -0.8], ["b", "X", 0.3, -0.7]],
    columns=["method", "set", "r", "r_low"],
)
WIDE = pd.DataFrame(
    [["b", 0.1, -0.9, 0.3, -0.7], ["a", 0.2, -0.8, np.nan, np.nan]],
    columns=["method", "Y", "Y_low", "X", "X_low"],
)


def test_a_long_table_becomes_a_wide_one():
    wide = spread(LONG, ["method"], "set", {"": "r", "_low": "r_low"})
    pd.testing.assert_frame_equal(wide, WIDE)
    assert list(spread(LONG.head(0), ["method"], "set", {"": "r"})) == ["method"]


def test_the_printed_numbers_stand_beside_ours_and_their_rows_come_first():
    in_print = pd.DataFrame({"method": ["c", "a"], "X": [0.5, 0.6], "why": ["not run", None]})

    table = beside_print(WIDE, in_print, "method").set_index("method")

    assert list(table.index) == ["c", "a", "b"]
    assert table.loc["c", "why"] == "not run"
    assert table.loc[["c", "a"], "X_printed"].tolist() == [0.5, 0.6]
    assert table.loc["b", ["X", "Y_low"]].tolist() == [0.3, -0.9]
    with pytest.raises(pd.errors.MergeError):  # a method that is printed twice
        beside_print(WIDE, in_print.assign(method="a"), "method")


@pytest.fixture
def contents(tmp_path):
    """Two contents for one file; the file has the first."""
    texts = ["a\r\n" * 200_000, "b" * 500_000]
    replace(tmp_path / "a.txt", texts[0])
    return texts


def test_two_who_write_one_file_never_tear_it(contents, tmp_path):
    path = tmp_path / "a.txt"

    def write_often(text):
        for _ in range(20):
            replace(path, text)

    writers = [threading.Thread(target=write_often, args=[text]) for text in contents]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert path.read_bytes().decode() in contents
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes().decode() in contents


def test_what_cannot_be_written_leaves_the_old_file_and_nothing_else(
    contents, tmp_path, monkeypatch
):
    path = tmp_path / "a.txt"
    with pytest.raises(UnicodeEncodeError):
        replace(path, "of half a character: \ud83d")

    def refuse(self, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(DreError, match="No space left on device"):
        replace(path, "c")
    with pytest.raises(DreError, match="No space left on device"):
        write_table(pd.DataFrame({"a": [1]}), tmp_path / "b.parquet")
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes().decode() == contents[0]
