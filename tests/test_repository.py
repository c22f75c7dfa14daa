"""What is committed: notebooks, results, words and the lock agree; no one else's text, no path of a machine is in it."""

import ast
import base64
import dataclasses
import hashlib
import inspect
import json
import pkgutil
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import needs_data
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from scipy.stats import spearmanr
from test_paper import HERE, SETUP

from dre import __version__
from dre.commands import main as cli
from dre.datasets import dialogues, ratings
from dre.paper import words
from dre.paper.headless import code_cells, code_hash, notebooks, source
from dre.paper.profile import COMMITTED, profile
from dre.paper.page import manifest
from dre.paper.sentences import in_words
from dre.paper.state import SCORES

PUBLIC, BOOKS = profile(COMMITTED), notebooks(HERE)


def imports(book):
    """Return the cells of a notebook that only import, after its setup, as one text."""
    cells, only = (
        [source(cell) for cell in code_cells(book.content)[2:]],
        {ast.Import, ast.ImportFrom},
    )
    return "\n".join(
        text for text in cells if {type(node) for node in ast.parse(text).body} <= only
    )


def formulas(book):
    """Yield the name of what a formula cell shows, and the cell with the imports of its notebook."""
    for cell in code_cells(book.content):
        if "formula" in cell["metadata"].get("tags", ()):
            for name in cell["metadata"]["dre"]["shows"]:
                yield name, f"{imports(book)}\n{source(cell)}"


SHOWN = [each for book in BOOKS for each in formulas(book)]
PROJECT = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
SLUG = PROJECT["urls"]["Repository"].removeprefix("https://github.com/")
each_notebook = pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.name)


@each_notebook
def test_a_notebook_begins_with_title_badge_parameters_and_setup_and_its_lines_fit(book):
    title, parameters, setup = book.content["cells"][:3]
    badge = f"https://colab.research.google.com/github/{SLUG}/blob/main/notebooks/{book.path.name}"
    assert (
        title["cell_type"] == "markdown"
        and source(title).startswith("# ")
        and badge in source(title)
    )
    assert parameters["metadata"]["tags"] == ["parameters"] and source(parameters).startswith(
        "profile = "
    )
    assert (
        source(setup) == SETUP.replace("03_classification", book.name)
        and f"github.com/{SLUG} " in SETUP
    )
    for number, cell in enumerate(code_cells(book.content), 1):
        lines = [line for line in source(cell).splitlines() if line.strip()]
        assert max(map(len, lines), default=0) <= 100, f"cell [{number}]"


@each_notebook
def test_outputs_come_from_a_run_of_this_code_and_are_those_in_results(book):
    own, cells = book.content["metadata"]["dre"], code_cells(book.content)
    assert own.get("executed") == {"profile": COMMITTED, "code": code_hash(book.content)}, (
        "run make paper again"
    )
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert not [
        out for out in outputs if out["output_type"] == "error" or out.get("name") == "stderr"
    ]
    assert " at 0x" not in str(outputs), "an address of memory is another one in every run"
    hashes = {
        name: digest
        for item in manifest(book, PUBLIC)["items"]
        for name, digest in item["files"].items()
    }
    contents = {name: (HERE / name).read_bytes() for name in hashes}
    assert {
        name: hashlib.sha256(content).hexdigest() for name, content in contents.items()
    } == hashes
    for kind, ending, decode in (
        ("text/markdown", ".md", str.encode),
        ("image/png", ".png", base64.b64decode),
    ):
        shown = [
            decode("".join(out["data"][kind])) for out in outputs if kind in out.get("data", {})
        ]
        assert set(shown) == {
            content for name, content in contents.items() if name.endswith(ending)
        }


def moved(value):
    """Return what a function gave, a little changed: numbers by one percent, else one truth value or one text."""
    if isinstance(value, tuple | list):
        return type(value)(map(moved, value))
    if isinstance(value, pd.DataFrame):
        columns = value.select_dtypes("float").columns
        if columns.empty:
            return value.assign(response=["something else", *value["response"][1:]])
        return value.assign(**{column: value[column] * 1.01 for column in columns})
    if hasattr(value, "weight"):
        return dataclasses.replace(value, weight=value.weight + 0.01)
    if getattr(value, "dtype", None) == np.dtype(bool):
        return value ^ (np.arange(len(value)) == 0)
    return value * 1.01


@pytest.mark.parametrize(("name", "code"), SHOWN, ids=[name for name, _ in SHOWN])
def test_a_formula_cell_runs_by_itself_and_fails_where_what_it_shows_changes(
    name, code, monkeypatch
):
    exec(code, {})
    owner, original = pkgutil.resolve_name(name.rpartition(".")[0]), pkgutil.resolve_name(name)

    def other(*args, **kwargs):
        return moved(original(*args, **kwargs))

    monkeypatch.setattr(
        owner, original.__name__, staticmethod(other) if inspect.ismethod(original) else other
    )
    with pytest.raises(AssertionError):
        exec(code, {})


LESS = np.linspace(0, 1, 101)
EXERCISES = {  # what the check of a notebook's exercise needs besides its imports and formulas
    "08_a_fusion_that_should_not_hurt": {
        "COUNTS": "few",
        "curves": {"few": LESS - LESS**2, "claude-2026-11": -LESS},
    },
    "09_how_a_judge_is_asked": {},
}


@pytest.mark.parametrize("name", EXERCISES)
def test_the_check_of_an_exercise_takes_its_answer_and_nothing_before(name, capsys):
    book = next(book for book in BOOKS if book.name == name)
    cells, given = book.content["cells"], dict(EXERCISES[name])
    exec(
        "\n".join(
            [
                imports(book),
                *(source(c) for c in cells if "formula" in c["metadata"].get("tags", ())),
            ]
        ),
        given,
    )
    at = next(i for i, cell in enumerate(cells) if "<details>" in source(cell))
    exec(source(cells[at + 1]), given)
    assert "that is it" not in capsys.readouterr().out
    exec(re.search("```python\n(.*?)```", source(cells[at]), re.DOTALL)[1], given)
    assert capsys.readouterr().out.count("that is it") == len(given.get("curves", "1"))


def tracked(*folders):
    """Return the files of these folders that git knows, or, in an archive without git, all."""
    command = ["git", "-C", str(HERE), "ls-files", "-z", "--", *folders]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    paths = [HERE / name for name in done.stdout.split("\0") if name]
    paths = paths or [
        path for folder in folders for path in (HERE / folder, *(HERE / folder).rglob("*"))
    ]
    return sorted(path for path in paths if path.is_file())


@pytest.mark.parametrize(
    "path", tracked("README.md", "docs", "notebooks"), ids=lambda path: path.name
)
def test_links_lead_somewhere_and_commands_are_taken_as_typed(path):
    text = (
        path.read_text().replace("\\\n", "").replace("dailydialog++:", "mini:")
    )  # which needs no download
    links = re.findall(r"\]\(([\w./-]+\.(?:md|ipynb|png|csv))[)#]", text)
    assert [link for link in links if not (path.parent / link).exists()] == []
    for line in re.findall(r"^(?:CUDA_VISIBLE_DEVICES=\d )?dre ([^$\n]+)$", text, re.MULTILINE):
        words = shlex.split(line, comments=True)
        cli._parser(words[0]).parse_args(words)


def test_every_file_of_results_and_figures_is_written_by_one_notebook_and_tables_are_few_and_small():
    names = [
        name for book in BOOKS for item in manifest(book, PUBLIC)["items"] for name in item["files"]
    ]
    assert len(set(names)) == len(names)
    own = {PUBLIC.results / "manifest" / f"{book.name}.json" for book in BOOKS} | {
        HERE / name for name in names
    }
    paths = (
        set(tracked(f"results/{COMMITTED}", f"figures/{COMMITTED}"))
        - own
        - {PUBLIC.results / "index.html"}
    )
    assert [path.name for path in paths if path.parent.name != SCORES] == []
    tables = [(HERE / name).read_text() for name in names if name.endswith(".md")]
    rows = [[line for line in table.splitlines() if line.startswith("|")] for table in tables]
    assert len(tables) <= 40 and all(
        len(lines) <= 17 and lines[1].count("--") <= 7 for lines in rows
    )


def test_every_number_in_words_is_that_of_its_table_and_is_shown():
    said, shown = {}, ""
    for book in BOOKS:
        number, prose = (
            book.name[:2],
            [cell for cell in book.content["cells"] if cell["cell_type"] == "markdown"],
        )
        shown += re.sub(r"<!--(\w+)-->", rf"<!--{number}.\1-->", "".join(map(source, prose)))

        def say(table, *values, **names):
            path = PUBLIC.results / f"{table}.csv"
            said.update(
                {f"{number}.{name}": in_words(path, values, form) for name, form in names.items()}
            )  # noqa: B023

        for cell in code_cells(book.content):
            if "words" in cell["metadata"].get("tags", ()):
                exec(source(cell), {"book": SimpleNamespace(say=say)})
    assert said == words.said(HERE) and words.fill(HERE, write=False) == [], (
        "run make paper PROFILE=public"
    )
    shown += "".join(
        path.read_text(encoding="utf-8") for path in (HERE / "README.md", *HERE.glob("docs/*.md"))
    )
    assert [name for name in said if f"<!--{name}-->" not in shown] == []


def test_the_page_is_light_and_leads_somewhere():
    text = (PUBLIC.results / "index.html").read_text()
    links = [
        link for link in re.findall(r'(?:src|href)="([^"#]+)"', text) if not link.startswith("http")
    ]
    assert (
        len(text) < 300_000
        and [link for link in links if not (PUBLIC.results / link).exists()] == []
    )


@needs_data
def test_rows_of_table_4_are_what_plain_scipy_makes_of_the_recorded_judgements():
    judge, folder = "claude-2026-11", HERE / "data/recorded/claude-2026-11"
    said = pd.read_json(folder / "judgements.jsonl", lines=True).fillna({"repeat": 0})
    said = said.set_index(["prompt", "repeat", "pair_id"])["score"].sort_index()
    shown = pd.read_csv(folder / "dre_inputs.csv").set_index("pair_id")
    table4 = pd.read_csv(PUBLIC.results / "table4.csv").set_index("method")
    dealt = pd.read_csv(folder / "dre_as_printed.csv").set_index("pair_id")
    forms = (
        pd.read_json(folder / "criteria.jsonl", lines=True)
        .query("prompt == 'geval'")
        .set_index("pair_id")
    )
    assert np.allclose(dealt[["s_d", "s_p"]], shown.loc[dealt["shown"], ["s_d", "s_p"]], atol=1e-6)
    for name, title in list(ratings.RATED.items())[:3]:
        rated = ratings.rated(name).set_index("pair_id")
        again, told = (
            said[prompt, repeat][rated.index] for prompt, repeat in (("llm_only", 1), ("dre", 0))
        )
        s_c = (1 - shown["s_d"] + shown["s_p"])[rated.index]
        rows = {f"LLM-only ({judge}), again": again, f"In-DRE ({judge}), as shown": told}
        rows |= {f"DRE ({judge}), as shown": s_c * told}
        rows[f"Ex-DRE ({judge}), as shown"] = s_c * said["llm_only", 0][rated.index]
        rows[f"In-DRE ({judge}), graded shown"] = said["dre_graded", 0][rated.index]
        s_c, told = (
            (1 - dealt["s_d"] + dealt["s_p"])[rated.index],
            said["dre_as_printed", 0][rated.index],
        )
        rows[f"DRE ({judge}), as printed"] = s_c * told
        parts = (
            forms[["coherence", "engagingness", "naturalness"]] - 1
        ) / 2  # 1-3; groundedness is 0-1
        rows[f"G-EVAL ({judge}), one reply"] = (parts.sum(axis=1) + forms["groundedness"]).round(6)[
            rated.index
        ]
        for method, score in rows.items():
            assert table4.loc[method, title] == pytest.approx(
                spearmanr(score, rated["human"]).statistic, abs=1e-5
            )


def committed():
    """Yield (path, text) of what is committed of notebooks, results, docs, code and tests, without pictures."""
    for path in tracked(
        "results", "notebooks", "docs", "README.md", "dre", "tests", "experiments", "benchmarks"
    ):
        if path.suffix in (".csv", ".md", ".json", ".html", ".ipynb", ".py", ".txt", ".yaml"):
            text = path.read_text(
                encoding="utf-8"
            )  # of notebooks, lines are joined and pictures left out
            joined = (
                re.sub(r'"image/png": "[^"]*"|\\n",\s+"', "\n", text)
                if path.suffix == ".ipynb"
                else text
            )
            yield path.relative_to(HERE).as_posix(), joined


def test_no_path_of_a_machine_is_committed():
    paths = re.compile(r"(?<![\w.~/])/(home|Users|root|work|mnt)/\w")
    assert [
        name for name, text in committed() if not name.startswith("tests/") and paths.search(text)
    ] == []


def third_party():
    """Return the sentences of the public data by their first five words, but for those of the embedded corpus."""
    splits = [
        (name, split)
        for name, splits in dialogues.SPLITS.items()
        for split in splits
        if name != "mini"
    ]
    ours = dialogues.REQUESTS  # written for this project, on public contexts that are read below
    pools = [
        dialogues.load(*each)
        for each in splits
        if each != ("dailydialog++", "train") and each[1] not in ours
    ]
    contexts = sum([*pools, *map(dialogues.public_contexts, dialogues.PUBLIC)], [])
    texts = [
        text for c in contexts for text in (*c.turns, *c.positives, *c.adversarials, *c.randoms)
    ]
    for rows in map(ratings.rated, ratings.RATED):
        texts += [
            text
            for c in ("context", "response", "reference")
            for text in rows[c].explode().dropna()
        ]
    wanted = {}
    for part in {part for text in texts for part in re.split(r"(?<=[.!?])\s+|\n", text)}:
        sentence = tuple(re.findall(r"\w+", part.lower()))
        if len(sentence) >= 5:
            wanted.setdefault(sentence[:5], set()).add(sentence)
    ours = "\n".join(path.read_text() for path in (HERE / "data/mini").rglob("*.jsonl"))
    for sentence in found_in(ours, wanted):
        wanted[sentence[:5]].discard(sentence)
    return wanted


def found_in(text, wanted):
    """Return the sentences in `wanted` (by their first five words) that occur in `text`."""
    there = re.findall(r"\w+", text.lower())
    starts = ((i, wanted.get(tuple(there[i : i + 5]), ())) for i in range(len(there) - 4))
    return [
        sentence
        for i, some in starts
        for sentence in some
        if tuple(there[i : i + len(sentence)]) == sentence
    ]


@needs_data
def test_no_third_party_sentence_is_committed():
    wanted = third_party()
    longest = max((sentence for some in wanted.values() for sentence in some), key=len)
    assert len(wanted) > 50_000 and longest in found_in(
        f"Before. {' '.join(longest).upper()}! After.", wanted
    )
    for name, text in committed():
        least = 6 if name.startswith("tests/") else 5  # our own small talk is anyone's
        assert not [sentence for sentence in found_in(text, wanted) if len(sentence) >= least], name


def requirements(*extras):
    lines = [
        *PROJECT["dependencies"],
        *(line for name in extras for line in PROJECT["optional-dependencies"][name]),
    ]
    return {canonicalize_name(need.name): need.specifier for need in map(Requirement, lines)}


def test_lock_environment_and_citation_fit_pyproject_and_the_lock_names_no_host_or_local_build():
    pins = re.findall(r"^([^#=\s]+)==(.*)$", (HERE / "requirements.lock").read_text(), re.MULTILINE)
    locked = {canonicalize_name(name): version for name, version in pins}
    for name, allowed in requirements(*PROJECT["optional-dependencies"].keys() - {"ray"}).items():
        assert allowed.contains(locked[name]), name
    assert (
        all(re.fullmatch(r"[\w.]+", version) for version in locked.values()) and "ray" not in locked
    )
    python, _, conda = yaml.safe_load((HERE / "environment.yml").read_text())["dependencies"]
    assert SpecifierSet(PROJECT["requires-python"]).contains(python.removeprefix("python="))
    assert conda == {"pip": ["-r requirements.lock", "-e .[slm,judges,notebooks,paper]"]}
    citation = yaml.safe_load((HERE / "CITATION.cff").read_text())
    assert citation["license"] == PROJECT["license"] == "MIT"
    assert citation["repository-code"] == f"https://github.com/{SLUG}"


def test_one_version_number_holds_for_package_distribution_citation_and_archive():
    citation = yaml.safe_load((HERE / "CITATION.cff").read_text())
    archive = json.loads((HERE / ".zenodo.json").read_text())
    pyproject = tomllib.loads((HERE / "pyproject.toml").read_text())

    assert citation["version"] == archive["version"] == __version__
    assert "version" not in pyproject["project"] and "version" in pyproject["project"]["dynamic"]
    assert pyproject["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "dre.__version__"}


def test_nothing_advises_to_install_the_foreign_project_that_is_called_dre_on_the_package_index():
    assert PROJECT["name"] == "dre-companion"
    foreign = re.compile(r"""pip install[^\n]*[\s'"]dre([\s'"\[{=]|$)""", re.MULTILINE)
    assert foreign.search("pip install 'dre[slm]'") and foreign.search("pip install dre")
    assert [name for name, text in committed() if foreign.search(text)] == [
        "tests/test_repository.py"
    ]


def test_a_wheel_has_every_folder_of_the_package_and_what_a_clone_has_beside_it():
    built = tomllib.loads((HERE / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {
        path.parent.relative_to(HERE).as_posix().replace("/", ".")
        for path in HERE.glob("dre/**/*.py")
    }
    assert {*built["packages"]} == folders | {"dre.data", "dre.profiles"}
    data = [
        (HERE / name.removeprefix("dre."), each)
        for name, some in built["package-data"].items()
        for each in some
    ]
    found = [path for folder, each in data for path in folder.glob(each)]
    other = {path for path in tracked("dre", "profiles") if path.suffix != ".py"} | {
        *tracked("data/mini", "data/recorded")
    }
    assert other <= {*found}


def test_what_is_imported_is_declared_and_the_kernel_is_no_dependency_of_the_package():
    owners, names = packages_distributions(), set(requirements(*PROJECT["optional-dependencies"]))
    for path in (HERE / "dre").rglob("*.py"):
        every = ast.walk(ast.parse(path.read_text()))
        nodes = [node for node in every if isinstance(node, ast.Import | ast.ImportFrom)]
        tops = {
            getattr(node, "module", None) or alias.name for node in nodes for alias in node.names
        }
        for top in {top.split(".")[0] for top in tops} - sys.stdlib_module_names - {"dre"}:
            assert {canonicalize_name(name) for name in owners.get(top, [top])} & names, (
                f"{path}: {top}"
            )
    assert not requirements().keys() & {"ipykernel", "ipython", "papermill", "jupyterlab"}, (
        "would restart a kernel"
    )
