"""The page that says what became of every item of the papers."""

import json
import re
from pathlib import Path

import pytest
from test_paper import book

from dre.errors import DreError
from dre.paper import coverage

HERE = Path(__file__).parents[1]
ITEMS = coverage.load(HERE)
HEADER = "paper,item,status,note,notebook,cell_with,full_status,full_note,test\n"


def items_file(folder, row):
    path = folder / coverage.ITEMS
    path.parent.mkdir(parents=True)
    path.write_text(HEADER + row)
    return folder


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("DRE,Table 9,,,04,x", "found status '', expected 'done' or 'partly'"),
        ("DRE,Table 9,nearly,,04,x", "found status 'nearly'"),
        ("DRE,Table 9,partly,,04,x", "found no note"),
        ("DRE,Table 9,done,,,x", "found no notebook"),
        ("DRE,Table 9,done,,04,x,nearly,,", "found full_status 'nearly', expected 'done'"),
        ("DRE,Table 9,done,,04,x,done,a note,", "found no test"),
        ("DRE,Table 9,done,,04,x,partly,,", "found no full_note"),
    ],
)
def test_an_item_without_a_status_or_a_reason_is_refused(tmp_path, row, message):
    with pytest.raises(DreError, match=f"'Table 9': {message}"):
        coverage.load(items_file(tmp_path, row + "\n"))


def test_no_item_is_listed_twice():
    assert not ITEMS.duplicated(["paper", "item"]).any()


def test_every_item_names_a_cell_that_exists():
    missing = []
    for row in ITEMS[ITEMS["notebook"] != ""].itertuples():
        _name, number = coverage.cell_of(HERE, row.notebook, row.cell_with)
        if number is None:
            missing.append((row.notebook, row.item, row.cell_with))
    assert missing == []


def test_every_test_that_runs_a_code_path_of_full_exists():
    named = [test for test in ITEMS["test"] if test]
    assert named
    for test in named:
        file, _, name = test.partition("::")
        text = (HERE / file).read_text(encoding="utf-8")
        assert not name or f"def {name}(" in text, test


def test_what_lies_on_the_hub_is_no_reason_to_be_out_of_reach_in_full():
    """These were said to be out of reach; a reader of profile full can have them."""
    rows = ITEMS[
        ITEMS["item"].str.contains("Table 8: originals|Table 7: agreement by l|on the Hub")
    ]
    assert len(rows) == 3 and set(rows["full_status"]) == {"done"}
    out_of_reach = ITEMS[["note", "full_note"]].agg(" ".join, axis=1)
    assert not out_of_reach.str.contains("DSTC11 are not public|no notebook takes data").any()


def test_a_cell_is_found_by_a_text_in_it_or_before_it(tmp_path):
    book(tmp_path, "04_x", "first", "# Table 9", "second", "third")

    assert coverage.cell_of(tmp_path, "04", "Table 9") == ("04_x.ipynb", 3)
    assert coverage.cell_of(tmp_path, "04", "third") == ("04_x.ipynb", 4)
    assert coverage.cell_of(tmp_path, "04", "fourth") == ("04_x.ipynb", None)
    with pytest.raises(DreError, match="found notebook 05"):
        coverage.cell_of(tmp_path, "05", "first")


def test_the_counts_are_those_of_the_items():
    text = coverage.markdown(HERE)
    total = re.search(r"\| all \| (\d+) \| (\d+) \| (\d+) \|", text)
    assert sum(map(int, total.groups())) == len(ITEMS)
    assert text.count("| **partly** |") == int(total[2])


def test_every_printed_table_is_read_by_a_notebook_or_a_module():
    code = "".join(path.read_text(encoding="utf-8") for path in HERE.glob("dre/**/*.py"))
    for path in HERE.glob("notebooks/*.ipynb"):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                code += "".join(cell["source"])
    # Notebook 10 reads some tables by their numbers.
    for number in re.findall(r"printed_table\((\d+)\)", code):
        code += f" huynh_table{number} "

    names = [path.stem for path in HERE.glob("data/paper/*_table*.csv")]
    unread = {name for name in names if not re.search(rf"{name}\b", code)}
    assert unread == set()
