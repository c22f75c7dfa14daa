"""Folders in environment variables stay the same when the working directory changes."""

import os
import subprocess
import sys

import pytest

CODE = """
import dre, os
os.chdir("elsewhere")
from dre.datasets import registry
from dre.judges.store import Store
print(registry.home())
print(Store().path)
print(os.environ["DRE_DATA_HOME"])
registry.RAW = "http://127.0.0.1:9/"
try:
    registry.fetch("dataset/train.json")
except dre.errors.DreError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("home", "store", "expected_store"),
    [("data/here", "s.sqlite", "{}/s.sqlite"), ("~/data/here", ":memory:", ":memory:")],
)
def test_a_folder_or_a_store_starts_where_the_user_typed_it(tmp_path, home, store, expected_store):
    """A tilde is the home folder; a file that cannot be fetched makes no folder elsewhere."""
    (tmp_path / "elsewhere").mkdir()
    variables = {"HOME": str(tmp_path), "DRE_DATA_HOME": home, "DRE_STORE": store}
    output = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=tmp_path,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    data_home, kept, seen_by_children, *message = output.splitlines()
    assert data_home == seen_by_children == str(tmp_path / "data/here")
    assert kept == expected_store.format(tmp_path)
    assert f"cannot fetch {tmp_path}/data/here/" in " ".join(message)
    assert list((tmp_path / "elsewhere").iterdir()) == []
