"""data/paper/items.csv says what became of every item of the papers, and where it is."""

import json

import pandas as pd

from dre.datasets.registry import PROJECT

ITEMS = pd.read_csv(PROJECT / "data/paper/items.csv", dtype=str, keep_default_na=False)
STATUSES = {"done", "partly", "printed only"}


def test_each_item_has_a_status_and_a_reason_where_it_is_not_done():
    assert not ITEMS.duplicated(["paper", "item"]).any()
    assert set(ITEMS["status"]) == STATUSES
    assert set(ITEMS["full_status"]) <= STATUSES | {""}
    assert (ITEMS["note"] != "")[ITEMS["status"] != "done"].all()
    assert (ITEMS["full_note"] != "")[ITEMS["full_status"] != ""].all()


def test_each_item_stands_in_the_notebook_that_it_names():
    in_notebooks = ITEMS[ITEMS["status"] != "printed only"]
    for item in in_notebooks.itertuples():
        [path] = PROJECT.glob(f"notebooks/{item.notebook}_*.ipynb")
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts = ["".join(cell["source"]) + json.dumps(cell["metadata"]) for cell in cells]
        assert item.cell_with and any(item.cell_with in text for text in texts), item.item


def test_each_test_that_runs_an_item_of_full_exists():
    for name in ITEMS["test"][ITEMS["test"] != ""]:
        file, _, function = name.partition("::")
        text = (PROJECT / file).read_text(encoding="utf-8")
        assert f"def {function}" in text, name
