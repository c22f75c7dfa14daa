"""The README holds no number of its own."""

import pytest

from dre.errors import DreError
from dre.pipeline.profile import root
from dre.pipeline.readme import BLOCK, fill, filled


def test_blocks_are_filled_from_their_files_and_only_then_change(tmp_path):
    (tmp_path / "t.md").write_text("| a |\n")
    (tmp_path / "README.md").write_text("before\n<!-- include t.md -->\nold\n<!-- end -->\nafter\n")
    assert fill(tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert text == "before\n<!-- include t.md -->\n\n| a |\n\n<!-- end -->\nafter\n"
    assert not fill(tmp_path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DreError, match=r"README.md includes t.md, which does not exist"):
        filled("<!-- include t.md -->\n<!-- end -->", tmp_path)


def test_the_readme_agrees_with_the_results():
    text = (root() / "README.md").read_text(encoding="utf-8")
    assert BLOCK.search(text), "the README shows no result"
    assert filled(text, root()) == text
