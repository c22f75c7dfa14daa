"""README and docs hold no number of their own."""

import pytest

from dre.errors import DreError
from dre.pipeline.profile import root
from dre.pipeline.readme import BLOCK, fill, filled, pages


def test_blocks_are_filled_from_their_files_and_only_then_change(tmp_path):
    (tmp_path / "t.md").write_text("| a |\n")
    (tmp_path / "README.md").write_text("before\n<!-- include t.md -->\nold\n<!-- end -->\nafter\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "more.md").write_text("<!-- include t.md -->\n<!-- end -->\n")
    assert [path.name for path in fill(tmp_path)] == ["README.md", "more.md"]
    text = (tmp_path / "README.md").read_text()
    assert text == "before\n<!-- include t.md -->\n\n| a |\n\n<!-- end -->\nafter\n"
    assert (tmp_path / "docs" / "more.md").read_text() == "<!-- include t.md -->\n\n| a |\n\n<!-- end -->\n"
    assert fill(tmp_path) == []


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DreError, match=r"README.md includes t.md, which does not exist"):
        filled("<!-- include t.md -->\n<!-- end -->", tmp_path)


def test_readme_and_docs_agree_with_the_results():
    texts = {path.name: path.read_text(encoding="utf-8") for path in pages(root())}
    assert BLOCK.search(texts["README.md"]), "the README shows no result"
    for name, text in texts.items():
        assert filled(text, root()) == text, f"{name} differs from the files it includes"
