"""The report page and the manifests it is made of."""

import re

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from dre.errors import DreError
from dre.notebook import Book
from dre.pipeline.profile import Profile
from dre.report import Table
from dre.report.page import page, provenance


@pytest.fixture
def profile(tmp_path):
    return Profile(
        name="mini", title="a <small> one", needs="nothing", network=False, gpu=False, encoder="minilm", recipes=("paper",),
        seeds=(0,), epochs={"paper": 1}, beside={"dialogues": (), "graded": ()}, sets=(), rated=(), judges=(), resamples=10, root=tmp_path,
    )  # fmt: skip


@pytest.fixture
def filled(profile):
    book = Book("03_classification", profile)
    fig, ax = plt.subplots()
    ax.plot([0, 1])
    rows = {"model": ["GPT-4", "SLM"], "source": ["published", "ours"], "overall": [88.91, None]}
    book.table(Table("table3", pd.DataFrame(rows), "Table 3. Accuracy", empty={"*": "not here"}))
    book.figure(fig, "figure6", "Figure 6. Thresholds")
    book.table(Table("figure6", pd.DataFrame({"x": [1]}), "The numbers of Figure 6"))
    book.not_run("TopicalChat", "its files are not here")
    return profile


BOOKS = [("00_start", "Start"), ("03_classification", "Classification & more")]


def test_the_page_holds_everything_in_one_file(filled):
    text = page(filled, BOOKS).read_text()
    assert re.search(r'<img width="[1-9]\d\d" src="data:image/png;base64,', text)
    assert text.count("data:image/png;base64,") == 1 and "Figure 6. Thresholds" in text
    assert '<tr class="published">' in text and "88.91" in text and "not here" in text
    assert "TopicalChat" in text and "its files are not here" in text
    assert "a &lt;small&gt; one" in text and "Classification &amp; more" in text
    assert not re.search(r'(src|href)="(https?:|/)', text), "nothing is loaded from elsewhere"
    assert "<script" not in text and "nan" not in re.sub(r"base64,[^\"]*", "", text).lower().split()


def test_every_link_of_the_page_leads_somewhere(filled):
    path = page(filled, BOOKS)
    text = path.read_text()
    ids = set(re.findall(r'id="([^"]+)"', text))
    links = re.findall(r'href="([^"]+)"', text)
    assert len(ids) == len(re.findall(r'id="', text)), "ids are unique"
    assert {"table3.csv", "../../figures/mini/figure6.pdf", "#table-table3"} <= set(links)
    for link in links:
        assert link[1:] in ids if link.startswith("#") else (path.parent / link).exists(), link


def test_the_same_results_give_the_same_page(filled):
    assert page(filled, BOOKS).read_bytes() == page(filled, BOOKS).read_bytes()


def test_a_page_without_results_says_so(profile):
    text = page(profile, [("00_start", "Start")]).read_text()
    assert "keeps no table or figure" in text and "Everything this profile covers was run" in text


def test_the_provenance_states_commit_lock_and_versions(tmp_path):
    (tmp_path / "requirements.lock").write_text("x==1\n")
    found = dict(provenance(tmp_path))
    assert found["Commit"] == "not a git checkout"
    assert len(found["Lock file (sha256)"]) == 16
    assert found["torch"][0].isdigit()


def test_registering_a_table_again_replaces_it(profile):
    for value in (1.0, 2.0):
        book = Book("03_classification", profile)
        book.table(Table("t", pd.DataFrame({"x": [value]}), "c"))
        book.table(Table("t", pd.DataFrame({"x": [value]}), "c"))
    text = page(profile, BOOKS).read_text()
    assert text.count('id="table-t"') == 1 and "2.00" in text and "1.00" not in text


def test_setup_refuses_an_unknown_profile():
    from dre import notebook

    with pytest.raises(DreError, match="unknown profile"):
        notebook.setup("00_start_here", "larg")


def test_setup_prints_one_line_with_versions(capsys):
    from dre import notebook

    book = notebook.setup("00_start_here", "mini")
    out = capsys.readouterr().out
    assert out.count("\n") == 1 and "torch" in out and "numpy" in out and "mini" in out
    assert book.profile.name == "mini"


def test_what_is_missing_is_named_and_torch_and_numpy_are_left_alone(tmp_path):
    from dre.notebook import unmet

    path = tmp_path / "pyproject.toml"
    path.write_text('[project]\ndependencies = ["numpy>=1", "no-such-package>=2", "pandas>=999", "scipy>=1"]\n')
    assert unmet(path) == ["no-such-package>=2", "pandas>=999"]
    path.write_text(
        '[project]\ndependencies = []\n[project.optional-dependencies]\nbaselines = ["no-such-package>=2"]\nother = ["none"]\n'
    )
    assert unmet(path) == ["no-such-package>=2"]
    path.write_text('[project]\ndependencies = ["torch>=999"]\n')
    with pytest.raises(DreError, match="needs torch>=999"):
        unmet(path)
