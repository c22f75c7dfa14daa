"""The committed notebooks: their form, that their outputs are those of results/public, and that no one else's text is in them."""

import ast
import hashlib
import html.parser
import json
import re
from pathlib import Path

import pytest

from dre.data import contexts, load, rated
from dre.data.sets import CONTEXTS, RATED, SPLITS
from dre.pipeline.graph import discover, parse
from dre.pipeline.outputs import COMMITTED, code_hash

HERE = Path(__file__).parents[1]
RESULTS = HERE / "results" / COMMITTED
FIGURES = HERE / "figures" / COMMITTED
BOOKS = discover(HERE / "notebooks")
RAW = {book.name: json.loads(book.path.read_text()) for book in BOOKS}
each_notebook = pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.name)

needs_results = pytest.mark.skipif(
    not (RESULTS / "index.html").exists(),
    reason=f"no results/{COMMITTED} yet: make paper PROFILE={COMMITTED}",
)


@each_notebook
def test_a_notebook_is_narrative_and_defines_no_functions(book):
    for number, source in book.code:
        tree = parse(source, book.name)
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
        assert not any(isinstance(node, kinds) for node in ast.walk(tree)), f"cell {number}"
    assert sum(kind == "markdown" for kind, _, _ in book.cells) * 3 >= len(book.cells), "prose beside the code"


@each_notebook
def test_a_notebook_begins_with_title_parameters_and_setup(book):
    (first, title, _), (_, parameters, tags), (_, setup, _) = book.cells[:3]
    assert first == "markdown" and title.startswith("# ") and "colab-badge" in title
    assert tags == ("parameters",) and parameters.startswith('profile = "mini"')
    assert f'notebook.setup("{book.name}", profile)' in setup
    assert 'find_spec("dre") is None' in setup and "--no-deps" in setup
    assert setup.replace(book.name, "") == BOOKS[0].cells[2][1].replace(BOOKS[0].name, ""), "one setup cell for all"


@each_notebook
def test_cell_ids_are_there_and_unique(book):
    ids = [cell["id"] for cell in RAW[book.name]["cells"]]
    assert len(set(ids)) == len(ids)


@each_notebook
def test_links_between_notebooks_lead_somewhere(book):
    for _, source, _ in book.cells:
        for link in re.findall(r"\]\((\d\d_\w+\.ipynb)", source):
            assert (HERE / "notebooks" / link).exists(), link


def outputs(book):
    for cell in RAW[book.name]["cells"]:
        yield from cell.get("outputs", ())


@needs_results
@each_notebook
def test_outputs_come_from_a_run_of_this_code_with_the_committed_profile(book):
    executed = RAW[book.name]["metadata"]["dre"]["executed"]
    assert executed == {"profile": COMMITTED, "code": code_hash(RAW[book.name]["cells"])}
    assert not [out for out in outputs(book) if out["output_type"] == "error"]
    counts = [cell["execution_count"] for cell in RAW[book.name]["cells"] if cell["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1))


@needs_results
@each_notebook
def test_tables_and_figures_shown_are_those_in_results(book):
    manifest = json.loads((RESULTS / "manifest" / f"{book.name}.json").read_text())
    shown, texts = set(), set()
    for out in outputs(book):
        data = out.get("data", {})
        texts.add("".join(data.get("text/markdown", "")).strip())
        if mark := data.get("application/vnd.dre.table+json"):
            path = RESULTS / f"{mark['name']}.csv"
            assert grid("".join(data["text/html"])) == markdown_grid(path.with_suffix(".md").read_text()), path.name
        elif mark := data.get("application/vnd.dre.figure+json"):
            path = FIGURES / f"{mark['name']}.png"
        else:
            continue
        assert mark["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest(), path.name
        shown.add(mark["name"])
    for item in manifest["items"]:
        if item["kind"] == "text":
            assert (HERE / item["files"][0]).read_text().strip() in texts, item["name"]
            shown.add(item["name"])
    assert shown == {item["name"] for item in manifest["items"]}, "every table, figure and text is shown"
    for item in manifest["items"]:
        for name in item["files"]:
            assert (HERE / name).exists(), name
        if item["kind"] == "table":
            assert grid(item["html"]) == markdown_grid((RESULTS / f"{item['name']}.md").read_text())


class _Cells(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.rows = []
        self._open = False

    def handle_starttag(self, tag, attributes):
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self._open = True

    def handle_endtag(self, tag):
        self._open = self._open and tag not in ("td", "th")

    def handle_data(self, data):
        if self._open:
            self.rows[-1][-1] += data


def grid(text):
    """Return the rows of cells of an HTML table."""
    parser = _Cells()
    parser.feed(text)
    return [[" ".join(cell.split()) for cell in row] for row in parser.rows]


def markdown_grid(text):
    """Return the rows of cells of a Markdown table, without the row of dashes."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]
    plain = [
        [" ".join(re.sub(r"</?sup>", "", c).replace("\\|", "|").replace("\\\\", "\\").split()) for c in r] for r in rows
    ]
    return [plain[0], *plain[2:]]


def test_the_two_readers_agree_on_a_table_and_differ_when_a_number_does():
    import pandas as pd

    from dre.report import Table

    df = pd.DataFrame({"a|b": ["x\\y", "<z>"], "v": [1.0, None], "v_low": [0.5, None], "v_high": [1.5, None]})
    table, other = (
        Table("t", df, "c", empty={"*": "why"}),
        Table("t", df.assign(v=[1.01, None]), "c", empty={"*": "why"}),
    )
    assert grid(table.html()) == markdown_grid(table.markdown())
    assert grid(other.html()) != markdown_grid(table.markdown())


def committed_texts():
    """Yield (file, text) of everything a reader of the repository sees of the notebooks and results."""
    for book in BOOKS:
        yield book.path, "\n".join(strings(RAW[book.name]))
    for folder in (RESULTS, FIGURES):
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".csv", ".md", ".tex", ".json", ".html"):
                yield path, re.sub(r"base64,[^\"]*", "", path.read_text())


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        joined = value and all(isinstance(part, str) for part in value)
        yield from ["".join(value)] if joined else (text for part in value for text in strings(part))
    elif isinstance(value, dict):
        yield from (text for key, part in value.items() if key != "image/png" for text in strings(part))


def test_no_path_of_a_machine_is_committed():
    for path, text in committed_texts():
        assert not re.search(r"/(home|Users|root|tmp|work|mnt|opt|var|usr)/\w", text), path


def words(text):
    return re.findall(r"\w+", text.lower())


def sentences(text):
    return (words(part) for part in re.split(r"(?<=[.!?])\s+|\n", text))


def third_party():
    """Yield every sentence of at least five words of the public data."""
    texts = set()
    public = [(name, split) for name in SPLITS for split in SPLITS[name]]
    for name, split in public:
        if name != "mini" and (name, split) != ("dailydialog++", "train"):
            for c in load(name, split):
                texts |= {*c.turns, *c.positives, *c.adversarials, *c.randoms}
    for name in CONTEXTS:
        for c in contexts(name):
            texts |= {*c.turns, *c.positives, c.facts}
    for name in RATED:
        for r in rated(name):
            texts |= {*r.turns, r.response, r.reference or "", r.facts}
    own = {
        tuple(s)
        for split in SPLITS["mini"]
        for c in load("mini", split)
        for t in (*c.turns, *c.positives, *c.adversarials)
        for s in sentences(t)
    }
    return {tuple(s) for text in texts for s in sentences(text) if len(s) >= 5} - own


def found_in(text, wanted):
    """Return those of `wanted` (tuples of words) that occur in `text`."""
    there = words(text)
    places = {}
    for i in range(len(there) - 4):
        places.setdefault(tuple(there[i : i + 5]), []).append(i)
    return [s for s in wanted for i in places.get(s[:5], ()) if tuple(there[i : i + len(s)]) == s]


def test_no_third_party_sentence_is_committed(data_home):
    wanted = third_party()
    assert len(wanted) > 50_000
    some = max(wanted, key=len)
    assert found_in("Before. " + " ".join(some).upper() + "! After.", wanted), "the search finds what is there"
    for path, text in committed_texts():
        assert not found_in(text, wanted), path
