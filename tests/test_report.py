"""Tables in their forms, and numbers filled into words."""

import json
import re
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_paper import write

from dre import words
from dre.errors import DreError
from dre.report import Table, number, replace
from dre.report import write as report_write

NUMBERS = {(85.65, 1): "85.7", (85.649999999999991, 1): "85.7", (-0.004, 2): "0.00", (-0.5, 1): "−0.5", (-3, 0): "−3"}
NUMBERS |= {(np.int64(12345678901), 2): "12,345,678,901", ("-0.001", "+.1f"): "0.0", ("85.65", "+,.1f"): "+85.7"}


def test_numbers_are_rounded_as_they_read():
    assert {value: number(*value) for value in NUMBERS} == NUMBERS


def grid(table):
    lines = [line.strip("| ") for line in table.markdown().splitlines() if line.startswith("|")]
    return [line.split(" | ") for line in (lines[0], *lines[2:])]


def test_what_belongs_to_a_value_is_printed_with_it_and_gaps_are_dashes():
    df = pd.DataFrame({"model": ["a", "b|<*$", None], "n": [1, 20000, 3], "n_sd": [0.53, None, None]})
    df = df.assign(acc=[88.05, np.nan, 70], acc_low=[87.0, 1, None], acc_high=[89.0, 2, 71])
    table = Table(df, "t", "Caption", "A note.", digits={"acc": 1}, headers={"n": "Pairs"})
    body = [["a", "1 ± 0.53", "88.1 [87.0, 89.0]"], ["b\\|\\<\\*\\$", "20,000", "—"], ["—", "3", "70.0"]]
    assert grid(table) == [["Model", "Pairs", "Acc"], *body]
    lines = repr(table).splitlines()
    assert lines[0] == "**Caption**" and lines[-1] == "A note." and lines[3] == "| :-- | --: | --: |"
    assert table.csv().splitlines()[1] == "a,1,0.53,88.05,87,89"
    chosen = Table(df, "t", "Caption", rows=df.index < 1, columns=["n", "model"])
    assert grid(chosen) == [["n", "Model"], ["1 ± 0.53", "a"]]


def test_a_long_table_is_cut_and_says_where_the_rest_is(tmp_path):
    df = pd.DataFrame({f"c{i}": range(40) for i in range(9)})
    table = Table(df, "t", "Caption")
    assert (len(grid(table)), len(grid(table)[0])) == (1 + 15, 7)
    assert table.below == "(15 of 40 rows; all are in t.csv)"
    assert len(table.save(tmp_path / "new")[0].read_text().splitlines()) == 41


def test_a_file_is_only_replaced_by_the_whole_new_one(tmp_path):
    replace(tmp_path / "a.csv", "old")
    with pytest.raises(UnicodeEncodeError):
        replace(tmp_path / "a.csv", "new, but of half a character: \ud83d")
    assert (tmp_path / "a.csv").read_text() == "old"


def test_two_who_write_one_file_never_tear_it_and_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    path, texts = tmp_path / "a.txt", ["a\r\n" * 200_000, "b" * 500_000]
    replace(path, texts[0])
    writers = [threading.Thread(target=lambda text=text: [replace(path, text) for _ in range(20)]) for text in texts]
    for one in writers:
        one.start()
    while any(one.is_alive() for one in writers):
        assert path.read_bytes().decode() in texts
    assert list(tmp_path.iterdir()) == [path]

    def full(self, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    for write_it in (lambda: replace(path, "c"), lambda: report_write(pd.DataFrame({"a": [1]}), tmp_path / "b.parquet")):
        with pytest.raises(DreError, match="No space left on device"):
            write_it()
    assert list(tmp_path.iterdir()) == [path] and path.read_bytes().decode() in texts


FILES = {
    "results/public/t.csv": 'model,seed,acc,d\n"SLM (Prob & Dis), paper",0,85.65,-0.5\nX,1,3,-0.001\nX,2,,\n',
    "results/public/t.md": "| a |\n",
}
SAID = {
    "t | model=SLM (Prob & Dis), paper | {acc:.1f} % [{d:+.1f}]": "85.7 % [−0.5]",
    "t | model=X, seed=1 | {model}: {d:+.1f} %": "X: 0.0 %",
    "include results/public/t.md": "\n\n| a |\n\n",
}
FAULTS = {
    "t | model=X | {d}": "select 2 rows of 3, expected exactly one",
    "t | model=X, seed=2 | {d:.1f}": "this value is missing",
    "t | seed=1 | {d} --> <!-- t | seed=0 | {d}": "each place needs one end",
}


def test_a_place_is_filled_from_one_row_and_then_stays_or_is_an_error_that_names_the_file(tmp_path):
    write(tmp_path, FILES)
    for place, said in SAID.items():
        text = f"Before <!-- {place} --><!-- end --> after, <!-- {place} -->an old\nvalue<!-- end -->."
        once = words.filled(text, tmp_path, "README.md")
        assert once == f"Before <!-- {place} -->{said}<!-- end --> after, <!-- {place} -->{said}<!-- end -->."
        assert words.filled(once, tmp_path, "README.md") == once
    for place, fault in FAULTS.items():
        with pytest.raises(DreError, match=f"README.md.*{re.escape(fault)}"):
            words.filled(f"<!-- {place} --><!-- end -->", tmp_path, "README.md")


def test_readme_and_notebooks_are_filled_alike_and_only_what_is_stale_is_written(tmp_path):
    place = "<!-- t | seed=0 | {acc:.1f} -->"
    cells = [{"cell_type": kind, "source": ["It is\n", f"{place}?<!-- end -->."]} for kind in ("markdown", "code")]
    texts = {"README.md": f"It is {place}?<!-- end -->.\n", "docs/use.md": "Nothing.\n"}
    write(tmp_path, FILES | texts | {"notebooks/00_a.ipynb": json.dumps({"cells": cells})})
    stale = [tmp_path / "README.md", tmp_path / "notebooks/00_a.ipynb"]
    assert words.fill(tmp_path, write=False) == stale == words.fill(tmp_path)
    assert words.fill(tmp_path, write=False) == [] == words.fill(tmp_path)
    assert stale[0].read_text() == f"It is {place}85.7<!-- end -->.\n"
    prose, code = json.loads(stale[1].read_text())["cells"]
    assert prose["source"] == ["It is\n", f"{place}85.7<!-- end -->."] and code == cells[1]
