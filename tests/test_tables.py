"""Tables in their forms."""

import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dre.errors import DreError
from dre.files import replace
from dre.files import write as write_table
from dre.paper.table4 import printed_correlations
from dre.tables import Table, beside_print, named, number, spread


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
    (tmp_path / "data/paper").mkdir(parents=True)
    (tmp_path / "data/paper/t.csv").write_text(PRINTED_TABLE)

    by_key = printed_correlations(tmp_path, "t")

    assert by_key.loc["LLM"].mean().to_dict() == pytest.approx({"a": 0.3, "b": 0.6})
    assert by_key.loc[("LLM", "two"), "b"] == 0.7
    assert list(by_key.index) == [("LLM", "one"), ("LLM", "two")]
    assert printed_correlations(tmp_path, "t", "pearson").loc[("LLM", "two")].to_dict() == {"a": 9}


def cells_of(table):
    """Return the cells of a table in Markdown, row by row; the first row is the header."""
    lines = []
    for line in table.markdown().splitlines():
        if line.startswith("|"):
            lines.append(line.strip("| "))
    del lines[1]  # the rule below the header
    return [line.split(" | ") for line in lines]


@pytest.fixture
def results():
    columns = {
        "model": ["a", "b|<*$", None],
        "n": [1, 20000, 3],
        "n_sd": [0.53, None, None],
        "acc": [88.05, np.nan, 70],
        "acc_low": [87.0, 1, None],
        "acc_high": [89.0, 2, 71],
    }
    return pd.DataFrame(columns)


@pytest.fixture
def results_table(results):
    return Table(results, "t", "Caption", "A note.", digits={"acc": 1}, headers={"n": "Pairs"})


def test_what_belongs_to_a_value_is_printed_with_it_and_gaps_are_dashes(results_table):
    assert cells_of(results_table) == [
        ["Model", "Pairs", "Acc"],
        ["a", "1 ± 0.53", "88.1 [87.0, 89.0]"],
        ["b\\|\\<\\*\\$", "20,000", "—"],
        ["—", "3", "70.0"],
    ]


def test_a_table_is_printed_between_its_caption_and_its_note(results_table):
    lines = repr(results_table).splitlines()
    assert lines[0] == "**Caption**"
    assert lines[3] == "| :-- | --: | --: |"
    assert lines[-1] == "A note."


def test_the_csv_of_a_table_has_all_digits(results_table):
    assert results_table.csv().splitlines()[1] == "a,1,0.53,88.05,87,89"


def test_rows_and_columns_of_a_table_can_be_chosen(results):
    table = Table(results, "t", "Caption", rows=results.index < 1, columns=["n", "model"])
    assert cells_of(table) == [["n", "Model"], ["1 ± 0.53", "a"]]


@pytest.mark.parametrize("value", ["r", "mean", "difference"])
def test_what_statistics_return_becomes_the_columns_that_a_table_prints_as_one(value):
    statistics = {value: 0.5, "low": 0.25, "high": 0.75, "sd": np.nan, "p": 0.01}
    assert named("gain", statistics) == {"gain": 0.5, "gain_low": 0.25, "gain_high": 0.75}

    with_deviation = pd.Series(statistics | {"sd": 0.125})
    row = pd.DataFrame([named("gain", with_deviation)])
    cells = cells_of(Table(row, "t", "Caption"))
    assert cells == [["Gain"], ["0.50 ± 0.13 [0.25, 0.75]"]]


def test_a_long_table_is_cut_and_says_where_the_rest_is(tmp_path):
    df = pd.DataFrame({f"c{i}": range(40) for i in range(9)})

    table = Table(df, "t", "Caption")

    cells = cells_of(table)
    assert len(cells) == 1 + 15
    assert len(cells[0]) == 7
    assert table.below == "(15 of 40 rows; all are in t.csv)"
    csv_file = table.save(tmp_path / "new")
    assert len(csv_file.read_text().splitlines()) == 41


def test_a_file_is_only_replaced_by_the_whole_new_one(tmp_path):
    path = tmp_path / "a.csv"
    replace(path, "old")
    with pytest.raises(UnicodeEncodeError):
        replace(path, "new, but of half a character: \ud83d")
    assert path.read_text() == "old"


def test_rows_are_chosen_by_name_in_that_order():
    df = pd.DataFrame({"model": ["a", "b", "c", "b"], "n": range(4)})
    table = Table(df, "t", "Caption", rows={"model": ["b", "a"]})
    rows = cells_of(table)[1:]
    assert rows == [["b", "1"], ["b", "3"], ["a", "0"]]


def test_a_name_that_selects_no_row_is_an_error():
    df = pd.DataFrame({"model": ["a", "b", "c", "b"], "n": range(4)})
    with pytest.raises(DreError, match="table t has no row whose model is 'context'"):
        Table(df, "t", "Caption", rows={"model": ["a", "context"]})


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ({"model": ["a"], "n": [1]}, "names 2 columns; name one column"),
        ({}, "names 0 columns"),
        ({"name": ["a"]}, "table t has no column 'name': its columns are model, n"),
    ],
)
def test_a_choice_of_rows_by_anything_but_one_known_column_is_an_error_in_words(rows, fault):
    df = pd.DataFrame({"model": ["a", "b"], "n": [1, 2]})

    with pytest.raises(DreError, match=fault):
        Table(df, "t", "Caption", rows=rows)


LONG = pd.DataFrame(
    [
        {"method": "b", "set": "Y", "r": 0.1, "r_low": -0.9, "rows": 9},
        {"method": "a", "set": "Y", "r": 0.2, "r_low": -0.8, "rows": 9},
        {"method": "b", "set": "X", "r": 0.3, "r_low": -0.7, "rows": 9},
    ]
)
WIDE = pd.DataFrame(
    [
        {"method": "b", "Y": 0.1, "Y_low": -0.9, "X": 0.3, "X_low": -0.7},
        {"method": "a", "Y": 0.2, "Y_low": -0.8, "X": np.nan, "X_low": np.nan},
    ]
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


def test_a_method_that_is_printed_twice_is_an_error():
    in_print = pd.DataFrame({"method": ["a", "a"], "X": [0.5, 0.6]})
    with pytest.raises(pd.errors.MergeError):
        beside_print(WIDE, in_print, "method")


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


def test_a_full_disk_leaves_the_old_file_and_nothing_else(contents, tmp_path, monkeypatch):
    path = tmp_path / "a.txt"

    def refuse(self, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", refuse)

    with pytest.raises(DreError, match="No space left on device"):
        replace(path, "c")
    with pytest.raises(DreError, match="No space left on device"):
        write_table(pd.DataFrame({"a": [1]}), tmp_path / "b.parquet")
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes().decode() in contents
