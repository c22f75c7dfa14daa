"""Tables in their forms, and numbers filled into words."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from test_paper import write

from dre import words
from dre.errors import DreError
from dre.report import COLUMNS, ROWS, Table, number

NUMBERS = {(85.65, 1): "85.7", (85.649999999999991, 1): "85.7", (-0.004, 2): "0.00", (-0.5, 1): "−0.5", (-3, 0): "−3"}
NUMBERS |= {(np.int64(12345678901), 2): "12,345,678,901", ("-0.001", "+.1f"): "0.0", ("85.65", "+,.1f"): "+85.7"}
DF = pd.DataFrame({"model": ["a", "b|c", None], "n": [1, 20000, 3], "n_sd": [0.53, None, None]})
DF = DF.assign(acc=[88.05, np.nan, 70], acc_low=[87.0, 1, None], acc_high=[89.0, 2, 71], x_low=[1.0, 2.0, 3.0])


def test_numbers_are_rounded_as_they_read():
    assert {value: number(*value) for value in NUMBERS} == NUMBERS


def grid(table):
    lines = [line.strip("| ") for line in table.markdown().splitlines() if line.startswith("|")]
    return [line.split(" | ") for line in (lines[0], *lines[2:])]


def test_what_belongs_to_a_value_is_printed_with_it_and_gaps_are_dashes():
    table = Table(DF, "t", "Caption", "A note.", digits={"acc": 1, "x_low": 0}, headers={"n": "Pairs"})
    body = [["a", "1 ± 0.53", "88.1 [87.0, 89.0]", "1"], ["b\\|c", "20,000", "—", "2"], ["—", "3", "70.0", "3"]]
    assert grid(table) == [["Model", "Pairs", "Acc", "X low"], *body]
    lines = repr(table).splitlines()
    assert lines[0] == "**Caption**" and lines[-1] == "A note." and lines[3] == "| :-- | --: | --: | --: |"
    assert table.csv().splitlines()[:2] == ["model,n,n_sd,acc,acc_low,acc_high,x_low", "a,1,0.53,88.05,87,89,1"]
    assert grid(Table(pd.DataFrame({"a": ["<b> *x* $1"]}), "t", "Caption"))[1] == ["\\<b> \\*x\\* \\$1"]


def test_a_long_table_is_cut_and_says_where_the_rest_is(tmp_path):
    df = pd.DataFrame({f"c{i}": range(40) for i in range(9)})
    table = Table(df, "t", "Caption")
    assert (len(grid(table)), len(grid(table)[0])) == (ROWS + 1, COLUMNS)
    assert table.below == "(15 of 40 rows; all are in t.csv)"
    assert "7 of 9 columns" in Table(df.head(3), "t", "Caption").below
    assert len(table.save(tmp_path / "new")[0].read_text().splitlines()) == 41
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["t.csv", "t.md"]


def test_rows_and_columns_are_chosen_and_one_that_is_not_there_is_named():
    for rows in (2, [0, 1], pd.Series([True, True, False]), [True, True, False], DF.index < 2):
        shown = grid(Table(DF, "t", "Caption", rows=rows, columns=["n", "model"]))
        assert shown == [["n", "Model"], ["1 ± 0.53", "a"], ["20,000", "b\\|c"]]
    for fault in ({"digits": {"no": 1}}, {"headers": {"no": "No"}}, {"columns": ["no"]}):
        with pytest.raises(DreError, match="table t has no column 'no': its columns are model, n, acc, x_low"):
            Table(DF, "t", "Caption", **fault)


FILES = {
    "results/public/t.csv": 'model,seed,acc,d\n"SLM (Prob & Dis), paper",0,85.65,-0.5\nX,1,3,-0.001\nX,2,,\n',
    "results/public/t.md": "| a |\n",
    "results/public/one.csv": "calls\n500\n",
}
SAID = {
    "t | model=SLM (Prob & Dis), paper | {acc:.1f} % [{d:+.1f}]": "85.7 % [−0.5]",
    "t | model=SLM (Prob & Dis), paper, seed=0 | {model}: {acc:.0f}": "SLM (Prob & Dis), paper: 86",
    "t | model=X, seed=1 | {d:+.1f} %": "0.0 %",
    "one | | {calls:,.0f} calls": "500 calls",
    "include results/public/t.md": "\n\n| a |\n\n",
}
FAULTS = {
    "t | model=X | {d}": "select 2 rows of 3, expected exactly one",
    "t | model=X, seed=2 | {d:.1f}": "this value is missing",
    "t | seed=1 | {q:.1f}": "no column 'q', but model, seed, acc, d",
    "include results/public/u.md": "there is no results/public/u.md",
    "t | seed=1 | {d} --> <!-- t | seed=0 | {d}": "each place needs one end",
}


@pytest.fixture
def root(tmp_path):
    write(tmp_path, FILES)
    return tmp_path


def test_a_place_is_filled_from_one_row_and_then_stays_or_is_an_error_that_names_the_file(root):
    for place, said in SAID.items():
        text = f"Before <!-- {place} --><!-- end --> after, <!-- {place} -->an old\nvalue<!-- end -->."
        once = words.filled(text, root, "README.md")
        assert once == f"Before <!-- {place} -->{said}<!-- end --> after, <!-- {place} -->{said}<!-- end -->."
        assert words.filled(once, root, "README.md") == once
    for place, fault in FAULTS.items():
        with pytest.raises(DreError, match=f"README.md.*{re.escape(fault)}"):
            words.filled(f"<!-- {place} --><!-- end -->", root, "README.md")


def test_readme_docs_and_notebooks_are_filled_alike_and_only_what_is_stale_is_written(root):
    place = "<!-- t | seed=0 | {acc:.1f} -->"
    cells = [{"cell_type": kind, "source": ["It is\n", f"{place}?<!-- end -->."]} for kind in ("markdown", "code")]
    write(root, {"README.md": f"It is {place}?<!-- end -->.\n", "docs/use.md": "Nothing.\n"})
    write(root, {"notebooks/00_a.ipynb": json.dumps({"cells": cells}), "notebooks/01_b.ipynb": '{"cells": []}'})
    expected = [root / "README.md", root / "notebooks/00_a.ipynb"]
    assert words.fill(root, write=False) == expected and words.fill(root) == expected
    assert words.fill(root, write=False) == [] == words.fill(root)
    assert (root / "README.md").read_text() == f"It is {place}85.7<!-- end -->.\n"
    made = json.loads((root / "notebooks/00_a.ipynb").read_text())["cells"]
    assert made[0]["source"] == ["It is\n", f"{place}85.7<!-- end -->."] and made[1] == cells[1]
    (root / "results/public/t.csv").write_text("model,seed,acc,d\nX,0,85.64,1\n")
    assert words.fill(root, write=False) == expected
