"""The website that `make book` builds of README, notebooks and docs."""

import json
import re
from pathlib import Path

import pytest

from dre.errors import DreError
from dre.paper import website
from dre.paper.profile import profile

HERE = Path(__file__).parents[1]
PROSE = "# Four\n\nBack to [a heading](../docs/score.md#The-heading,-here).\n\n$$a = b \\tag{12}$$"
CELL = {"cell_type": "markdown", "id": "a", "metadata": {}, "source": PROSE}
TEXTS = {
    "README.md": "# Home\n\n[04](notebooks/04_x.ipynb), [d](data/d.csv) <!--04.x-->0.5<!--/-->\n",
    "docs/score.md": "# Score\n\n## The heading, here\n\n[Home](../README.md)\n",
    "notebooks/04_x.ipynb": json.dumps(
        {"cells": [CELL], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    ),
    **dict.fromkeys(["CONTRIBUTING.md", "CHANGELOG.md", "dre/slm/default/README.md"], "# Page\n"),
    **dict.fromkeys(["CITATION.cff", "LICENSE", "data/d.csv", "figures/f", "results/r"], ""),
}
SETTINGS = ("docs/conf.py", "docs/_toc.yml", "docs/_static/book.css")
PROFILES = ("profiles/public.yaml", "profiles/mini.yaml")


@pytest.fixture
def project(tmp_path):
    """A small project with a page of each kind, and this project's settings."""
    if not website.is_installed():
        pytest.skip("needs the packages of extra book")
    copies = {name: (HERE / name).read_text(encoding="utf-8") for name in SETTINGS + PROFILES}
    for name, text in {**TEXTS, **copies}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_links_lead_to_pages_and_formulas_keep_the_numbers_of_the_paper(project):
    website.build(profile("public", project))
    book = project / "build/book"
    paths = [path for path in book.rglob("*.html") if "_static" not in path.parts]
    pages = {path.relative_to(book).as_posix(): path.read_text("utf-8") for path in paths}
    for page, text in pages.items():
        links = re.findall(r'href="([^"#:?]+)["#?]', text)
        assert [link for link in links if not (book / page).parent.joinpath(link).exists()] == []
    home = pages["README.html"].split("</article>")[0].split("<article")[1]
    assert 'href="notebooks/04_x.html"' in home and "d.csv" in home and "&lt;!--" not in home
    assert 'href="../docs/score.html#the-heading-here"' in pages["notebooks/04_x.html"]
    assert 'id="the-heading-here"' in pages["docs/score.html"]
    assert r"\[a = b \tag{12}\]" in pages["notebooks/04_x.html"]


def test_a_link_that_leads_nowhere_is_named(project):
    (project / "docs/score.md").write_text("# Score\n\n[gone](gone.md)\n", encoding="utf-8")
    with pytest.raises(DreError, match=r"score\.md.*gone\.md"):
        website.build(profile("public", project))


def test_a_notebook_that_was_not_executed_does_not_keep_a_profile_from_its_book(project):
    settings = profile("mini", project)
    website.build(settings)
    assert (website.folder(settings) / "index.html").is_file()
    assert not (website.folder(settings) / "notebooks").exists()


@pytest.mark.parametrize("path", sorted(HERE.glob("notebooks/*.ipynb")), ids=lambda path: path.stem)
def test_a_formula_with_a_number_has_no_line_break_that_takes_the_number_away(path):
    # Sphinx puts a formula with \\ into an environment that takes no \tag; \cr breaks lines, too.
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        for formula in re.findall(r"\$\$.+?\$\$", "".join(cell["source"]), flags=re.DOTALL):
            assert not (r"\tag" in formula and r"\\" in formula), formula
