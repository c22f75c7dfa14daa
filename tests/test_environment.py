"""Folders in environment variables stay the same when the working directory changes."""

import os
import subprocess
import sys

import pytest

AFTER_A_CHANGE_OF_DIRECTORY = """
import dre, os
os.chdir("elsewhere")
from dre.datasets import registry
from dre.judges.store import Store
print(registry.home())
print(Store().path)
print(os.environ["DRE_DATA_HOME"])
"""


@pytest.fixture
def in_a_new_process(tmp_path):
    """Return a function that runs code in a folder with the subfolder ``elsewhere``."""
    (tmp_path / "elsewhere").mkdir()

    def run(code, **variables):
        environment = os.environ | variables
        command = [sys.executable, "-c", code]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        ).stdout.splitlines()

    return run


def test_a_relative_data_folder_and_store_start_where_the_user_typed_them(
    in_a_new_process, tmp_path
):
    variables = {"DRE_DATA_HOME": "data/here", "DRE_STORE": "replies.sqlite"}

    data_home, store, seen_by_children = in_a_new_process(AFTER_A_CHANGE_OF_DIRECTORY, **variables)

    assert data_home == seen_by_children == str(tmp_path / "data/here")
    assert store == str(tmp_path / "replies.sqlite")


def test_a_tilde_is_the_home_folder_and_a_store_in_memory_is_no_path(in_a_new_process, tmp_path):
    variables = {"HOME": str(tmp_path), "DRE_DATA_HOME": "~/data", "DRE_STORE": ":memory:"}

    data_home, store, _ = in_a_new_process(AFTER_A_CHANGE_OF_DIRECTORY, **variables)

    assert data_home == str(tmp_path / "data")
    assert store == ":memory:"


def test_a_missing_file_makes_no_folder_in_the_new_working_directory(in_a_new_process, tmp_path):
    code = """
import dre, os
os.chdir("elsewhere")
from dre.datasets import registry
registry.RAW = "http://127.0.0.1:9/"
try:
    registry.fetch("dataset/train.json")
except dre.errors.DreError as error:
    print(error)
"""
    message = " ".join(in_a_new_process(code, DRE_DATA_HOME="data"))

    assert f"cannot fetch {tmp_path}/data/" in message
    assert list((tmp_path / "elsewhere").iterdir()) == []
