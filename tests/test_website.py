"""What `make book` makes of README, notebooks and docs."""

import json
import re
from pathlib import Path

import pytest
from test_paper import code_cell, notebook_text, prose_cell

from dre.environment import ADDRESS
from dre.errors import DreError
from dre.paper import website
from dre.paper.profile import profile

HERE = Path(__file__).parents[1]
README = """# Home

See [the page](docs/a.md#Some-heading,-here), [04](notebooks/04_x.ipynb) and [data](data/d.csv).

![A picture](figures/p.png)

| claim | verdict |
|:--|:--|
| it helps | **not shown** |

```
[not a link](nowhere.md)
```
"""


@pytest.fixture
def project(tmp_path):
    """A small project: README, one page of docs, one executed notebook, a picture and data."""
    setup = code_cell('book = notebook.setup("04_x", "public")')
    equation = prose_cell(
        "> **Verdict.** <!--verdict.it_helps-->with *ours* **not supported**<!--/-->\n\n"
        "# Four\n\n[![Colab](https://b)](https://c)\n\n$$a = b$$\n\n$$c \\tag{12}$$\n\n$$d$$"
    )
    formula = code_cell("assert 1", "formula")
    table = code_cell("book.table(df)")
    markdown = {"text/markdown": "[a](../docs/a.md)\n\n| x |\n|:--|\n| **smaller** |"}
    table["outputs"] = [
        {"output_type": "stream", "name": "stderr", "text": "progress"},
        {"output_type": "display_data", "data": markdown, "metadata": {}},
    ]
    merging = code_cell("df = df.merge(other)")
    printing = code_cell("print(1 + 1)")
    printing["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "2\n"}]
    algorithm = code_cell("def f(x): ...", "shown")
    another = code_cell("df = df.dropna()")
    cells = [equation, setup, formula, table, merging, another, printing, algorithm]
    texts = {
        "README.md": README,
        "docs/a.md": "# A\n\n## Some heading, here\n\n[Home](../README.md)\n",
        "docs/conf.py": 'extensions = ["myst_nb"]\nnb_execution_mode = "off"\n'
        'nb_render_markdown_format = "myst"\nmyst_enable_extensions = ["dollarmath"]\n'
        "myst_heading_anchors = 3\n",
        "data/d.csv": "a\n",
        "figures/p.png": "",
        "notebooks/04_x.ipynb": notebook_text(cells),
        "profiles/public.yaml": (HERE / "profiles/public.yaml").read_text(),
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def prepared(project):
    website.prepare(profile("public", project), project / "source")
    return project / "source"


def cells_of(folder):
    return json.loads((folder / "notebooks/04_x.ipynb").read_text())["cells"]


def test_links_lead_to_pages_of_the_website_or_to_files_of_the_repository(prepared):
    home = (prepared / "index.md").read_text()
    assert "[the page](docs/a.md#some-heading-here)" in home
    assert f"[data]({ADDRESS}/blob/main/data/d.csv)" in home
    assert "[not a link](nowhere.md)" in home
    assert "(../index.md)" in (prepared / "docs/a.md").read_text()
    assert (prepared / "figures/p.png").is_file()


def test_every_page_is_in_the_list_of_pages(prepared):
    home = (prepared / "index.md").read_text()
    assert "\nnotebooks/04_x\n" in home and "\ndocs/a\n" in home


def test_verdicts_in_tables_have_a_class_for_their_colour(prepared):
    assert '<span class="status not-shown">not shown</span>' in (prepared / "index.md").read_text()
    box = '> **Verdict.** with *ours* <span class="status not-supported">not supported</span>'
    assert box in cells_of(prepared)[0]["source"]
    text = cells_of(prepared)[3]["outputs"][0]["data"]["text/markdown"]
    assert '<span class="status smaller">smaller</span>' in text


def test_equations_have_the_number_of_the_paper_or_of_their_notebook(prepared):
    text = cells_of(prepared)[0]["source"]
    assert [r"\tag{4.1}" in text, r"\tag{12}" in text, r"\tag{4.2}" in text] == [True] * 3
    assert text.count(r"\tag") == 3 and "Colab" not in text


def test_a_cell_is_folded_that_is_no_equation_and_shows_no_result_of_its_own(prepared):
    tags = [cell["metadata"].get("tags", []) for cell in cells_of(prepared)]
    assert tags[:3] == [[], ["hide-cell"], ["formula"]]
    assert tags[3:] == [["hide-input"], ["hide-cell"], [], ["shown"]]
    assert len(cells_of(prepared)[3]["outputs"]) == 1
    # Two that follow one another are one bar.
    assert cells_of(prepared)[4]["source"] == "df = df.merge(other)\n\ndf = df.dropna()"


def test_a_link_that_leads_nowhere_names_its_page(project):
    (project / "docs/a.md").write_text("# A\n\n[gone](gone.md)\n")
    with pytest.raises(DreError, match="docs/a.md: a link leads to docs/gone.md"):
        website.prepare(profile("public", project), project / "source")


def test_what_is_gone_leaves_the_sources_and_an_unchanged_page_keeps_its_date(project, prepared):
    date = (prepared / "index.md").stat().st_mtime_ns
    (prepared / "docs/old.md").write_text("# Old\n")
    website.prepare(profile("public", project), prepared)
    assert not (prepared / "docs/old.md").exists()
    assert (prepared / "index.md").stat().st_mtime_ns == date


def test_without_its_packages_a_book_says_how_to_get_them(project, monkeypatch):
    monkeypatch.setattr(website, "is_installed", lambda: False)
    with pytest.raises(DreError, match="the book needs sphinx, .*: make book, or pip install"):
        website.build(profile("public", project))


def test_a_book_is_built_once_and_again_after_a_change(project):
    if not website.is_installed():
        pytest.skip("needs the packages of extra book")
    settings = profile("public", project)
    assert website.build(settings)
    assert "hide" in (project / "build/book/notebooks/04_x.html").read_text()
    assert not website.build(settings)
    (project / "README.md").write_text(README.replace("# Home", "# New"))
    assert website.build(settings)


def test_a_book_needs_no_network_and_numbers_formulas_of_several_lines(project):
    if not website.is_installed():
        pytest.skip("needs the packages of extra book")
    for name in ("docs/conf.py", "docs/_static/book.css"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text((HERE / name).read_text())
    path = project / "notebooks/04_x.ipynb"
    cases = r"\\begin{cases}1 & x \\\\ 2 & y\\end{cases}"
    path.write_text(path.read_text().replace("$$d$$", f"$${cases}$$"))
    website.build(profile("public", project))
    pages = list((project / "build/book").rglob("*.html"))
    assert pages
    for page in pages:
        text = page.read_text()
        assert not re.findall(r'<(?:script|link|img)\b[^>]*(?:src|href)="(?:https?:)?//', text)
    formulas = (project / "build/book/notebooks/04_x.html").read_text()
    assert "_static/mathjax/tex-chtml.js" in formulas
    assert (project / "build/book/_static/mathjax/tex-chtml.js").is_file()
    assert "cases" in formulas and r"\tag{4.2}" in formulas
    assert r"\begin{split}" not in formulas


def test_a_warning_of_sphinx_fails_the_build(project):
    if not website.is_installed():
        pytest.skip("needs the packages of extra book")
    (project / "docs/a.md").write_text("# A\n\n## Some heading, here\n\n[b](#no-heading)\n")
    settings = profile("public", project)
    for _ in range(2):  # a failed build is not taken for a finished one
        with pytest.raises(DreError, match="(?s)the book has warnings:.*no-heading"):
            website.build(settings)


def test_the_runner_says_in_a_line_how_to_get_the_book(project, monkeypatch, capsys):
    from dre.paper.run import _build_book_if_possible

    monkeypatch.setattr(website, "is_installed", lambda: False)
    _build_book_if_possible(profile("public", project))
    assert capsys.readouterr().out.count("\n") == 1
    (project / "docs/conf.py").unlink()
    _build_book_if_possible(profile("public", project))
    assert capsys.readouterr().out == ""
