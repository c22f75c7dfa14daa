"""Committed results, documents and packaging agree, without texts of others or local paths."""

import ast
import json
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions

import pandas as pd
import pytest
import yaml
from conftest import HERE, needs_data
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from dre import __version__
from dre.commands import main as cli
from dre.datasets import dialogues, ratings
from dre.environment import ADDRESS, how_to_install
from dre.paper.books import notebooks, source
from dre.paper.profile import COMMITTED, profile

PUBLIC = profile(COMMITTED)
BOOKS = notebooks(HERE)
NAMES = {book.name for book in BOOKS}
NUMBERS = {name[:2] for name in NAMES}
PYPROJECT = tomllib.loads((HERE / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]


def tracked(*folders):
    """Return the files of these folders that git knows, or, in an archive without git, all."""
    command = ["git", "-C", str(HERE), "ls-files", "-z", "--", *folders]
    process = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    paths = [HERE / name for name in process.stdout.split("\0") if name]
    if not paths:
        for folder in folders:
            paths += [HERE / folder, *(HERE / folder).rglob("*")]
    return sorted(path for path in paths if path.is_file())


def committed():
    """Yield path and text of committed files, except pictures. Lines of notebooks are joined."""
    folders = "results notebooks docs README.md CONTRIBUTING.md dre tests experiments benchmarks"
    for path in tracked(*folders.split()):
        if path.suffix in (".csv", ".md", ".json", ".html", ".ipynb", ".py", ".txt", ".yaml"):
            text = path.read_text(encoding="utf-8")
            if path.suffix == ".ipynb":
                text = re.sub(r'"image/png": "[^"]*"|\\n",\s+"', "\n", text)
            yield path.relative_to(HERE).as_posix(), text


# Documents

PAGES = "README.md CHANGELOG.md CONTRIBUTING.md CITATION.cff docs notebooks results data dre"
TEXTS = tracked(*PAGES.split(), "experiments", "benchmarks", "profiles")
DOCUMENTS = [path for path in TEXTS if path.suffix in (".md", ".ipynb")]
each_document = pytest.mark.parametrize(
    "path", DOCUMENTS, ids=lambda path: path.relative_to(HERE).as_posix()
)


def prose(path):
    """Return the Markdown of a page, or of a notebook's cells and outputs, without code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        texts = [source(cell) for cell in cells if cell["cell_type"] == "markdown"]
        outputs = [output for cell in cells for output in cell.get("outputs", ())]
        texts += ["".join(output.get("data", {}).get("text/markdown", "")) for output in outputs]
        text = "\n\n".join(texts)
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(path):
    """Return what a link may have after ``#``: headings as GitHub and Jupyter name them."""
    headings = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    joined = [
        re.sub(r"\[([^\]]*)\]\([^)]*\)|`", r"\1", text).replace(" ", "-") for text in headings
    ]
    if path.suffix == ".ipynb":
        return joined
    return [re.sub(r"[^\w-]", "", text.lower()) for text in joined]


def dead_links(path):
    """Return the relative links of a page to files and headings that are not there."""
    dead = []
    for link in re.findall(r"\]\(((?:[^()\s]|\([^()\s]*\))+)\)", prose(path)):
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if ":" in name:
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    return dead


@each_document
def test_links_lead_to_files_and_headings_that_exist(path):
    assert dead_links(path) == []


def test_a_dead_link_is_found(tmp_path):
    page, book = tmp_path / "a.md", tmp_path / "b.ipynb"
    cell = {"cell_type": "markdown", "source": ["# One\n", "\n", "## Is it, or not?"]}
    book.write_text(json.dumps({"cells": [cell]}))
    alive = "# A page, of `x`\n[a](#a-page-of-x) [b](b.ipynb#Is-it,-or-not?) [c](https://x.y)\n"
    page.write_text(alive)
    assert dead_links(page) == []
    page.write_text(f"{alive}[d](c.md) [e](#a) ![f](f.png)\n\n[g](b.ipynb#is-it-or-not)\n")
    assert dead_links(page) == ["c.md", "#a", "f.png", "b.ipynb#is-it-or-not"]


#: A notebook's file, known by its number or by its name, and a number in words or in a link.
_FILE = re.compile(rf"\b\d\d_(?:{'|'.join(book.name[3:] for book in BOOKS)})\b|\b\d\d_\w+\.ipynb\b")
_NUMBERS = re.compile(r"\b[Nn]otebooks? (\d\d(?:(?:,? and |, | to )\d\d)*)\b")
_LABEL = re.compile(r"\[(?:[Nn]otebook )?(\d\d)\b[^\]]*\]\([^)]*?(\d\d)_\w+\.ipynb")


def unknown_notebooks(text):
    """Return what a text says of notebooks that do not exist, or calls by the number of others."""
    files = [name for name in _FILE.findall(text) if name.partition(".")[0] not in NAMES]
    numbers = re.findall(r"\d\d", " ".join(_NUMBERS.findall(text)))
    numbers += re.findall(r'"(\d\d)_"', text)  # how code names one by its beginning
    labels = [label for label, number in _LABEL.findall(text) if label != number]
    return files + [number for number in numbers if number not in NUMBERS] + labels


def test_notebooks_are_called_by_the_numbers_that_they_have():
    named = 0
    for path in TEXTS:
        is_text = path.suffix in (".md", ".ipynb", ".py", ".yaml", ".csv", ".json", ".cff")
        if not is_text:
            continue
        text = path.read_text(encoding="utf-8")
        if path.name == "CHANGELOG.md":  # earlier versions have the numbers of their time
            text = text[: text.index("\n## ", text.index("\n## ") + 1)]
        named += len(_FILE.findall(text)) + len(_NUMBERS.findall(text))
        assert unknown_notebooks(text) == [], path
    assert named > 200
    wrong = "Notebooks 01, 14 and 03, [Notebook 02](x/03_classification.ipynb), 09_classification"
    assert unknown_notebooks(f'{wrong}, 99_x.ipynb, "12_"') == [
        *("09_classification", "99_x.ipynb", "14", "12", "02")
    ]


@each_document
def test_commands_are_taken_as_typed(path):
    # The embedded corpus stands in for a set that would have to be downloaded.
    text = path.read_text().replace("\\\n", "").replace("dailydialog++:", "mini:")
    for line in re.findall(r"^(?:CUDA_VISIBLE_DEVICES=\d )?dre ([^$\n]+)$", text, re.MULTILINE):
        arguments = shlex.split(line, comments=True)
        cli._parser(arguments[0]).parse_args(arguments)


def test_the_limits_of_all_usual_steps_of_integration_add_up_to_at_most_88_minutes():
    script = (HERE / ".ci" / "run").read_text()
    limits = dict(re.findall(r'^\s*(?:if )?step "([^"]+)" (\d+) ', script, re.MULTILINE))
    assert len(limits) == script.count('step "')
    extra = ("llama.cpp", "variants of the rehearsal")
    usual = [int(limit) for name, limit in limits.items() if not name.startswith(extra)]
    assert sum(usual) <= 88 * 60


def test_advice_to_install_names_a_place_that_has_the_package():
    """It is on no index, where anybody may register its name."""
    for path, text in committed():
        if path.startswith("tests/"):
            continue
        for advice in re.findall(r"pip install +['\"]dre-companion[^\n]*", text):
            assert "@ git+" in advice or "{" in advice, (path, advice)
    command = shlex.split(how_to_install("slm").partition(", in a clone ")[0])
    requirement = Requirement(command[-1])
    assert command[:-1] == ["pip", "install"]
    assert requirement.url == f"git+{PROJECT['urls']['Repository']}"
    assert requirement.extras <= PROJECT["optional-dependencies"].keys()


def test_make_help_names_every_target():
    makefile = (HERE / "Makefile").read_text()
    [phony] = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    [described] = re.findall(r"^define HELP\n(.*?)^endef", makefile, re.MULTILINE | re.DOTALL)
    for target in set(phony.split()) - {"help"}:
        assert f"make {target} " in described


# Results


def test_every_file_of_results_and_figures_is_written_by_one_notebook():
    index = pd.read_csv(PUBLIC.results / "index.csv")
    assert {*index["notebook"]} <= NAMES and not index["file"].duplicated().any()
    written = {HERE / name for name in index["file"]}
    of_runner = {"index.csv", "verdicts.csv", "verdict_counts.csv"}
    written |= {PUBLIC.results / name for name in of_runner}
    assert {*tracked(f"results/{COMMITTED}", f"figures/{COMMITTED}")} == written


def test_the_strong_judge_has_one_name_in_the_results():
    other_name = re.compile(r"\bcurrent\b")
    tables = [path for path in tracked("results") if path.suffix == ".csv"]
    assert len(tables) > 50
    found_in = [path.name for path in tables if other_name.search(path.read_text())]
    assert found_in == []


# What must not be committed


def test_no_path_of_a_machine_is_committed():
    paths = re.compile(r"(?<![\w.~/])/(home|Users|root|work|mnt)/\w")
    found_in_files = [
        name for name, text in committed() if not name.startswith("tests/") and paths.search(text)
    ]
    assert found_in_files == []


def test_nothing_advises_to_install_the_foreign_project_that_is_called_dre_on_the_package_index():
    foreign = re.compile(r"""pip install[^\n]*[\s'"]dre([\s'"\[{=]|$)""", re.MULTILINE)
    assert foreign.search("pip install 'dre[slm]'") and foreign.search("pip install dre")

    advising = [name for name, text in committed() if foreign.search(text)]
    assert advising == ["tests/test_repository.py"]
    assert PROJECT["name"] == "dre-companion"


def public_texts():
    """Yield every text of the public data but for those of the embedded corpus."""
    contexts = []
    for name, splits in dialogues.SPLITS.items():
        for split in splits:
            is_ours = name == "mini" or split in dialogues.REQUESTS  # written for this project
            is_fetched_by_name = (name, split) in [
                ("dailydialog++", "train"),
                *dialogues.GPT4_FILES,
            ]
            if not is_ours and not is_fetched_by_name:
                contexts += dialogues.load(name, split)
    for name in dialogues.PUBLIC:
        contexts += dialogues.public_contexts(name)
    for context in contexts:
        yield from context.turns
        yield from context.positives
        yield from context.adversarials
        yield from context.randoms
    for name in ratings.RATED:
        table = ratings.rated(name)
        for column in ("context", "response", "reference"):
            yield from table[column].explode().dropna()


def sentences_by_start(texts):
    """Return the sentences of texts, as tuples of words, by their first five words."""
    fragments = {fragment for text in texts for fragment in re.split(r"(?<=[.!?])\s+|\n", text)}
    sentences = {}
    for fragment in fragments:
        sentence = tuple(re.findall(r"\w+", fragment.lower()))
        if len(sentence) >= 5:
            sentences.setdefault(sentence[:5], set()).add(sentence)
    return sentences


def sentences_within(text, sentences):
    """Return those of some sentences, given by their first five words, that occur in a text."""
    text_words = re.findall(r"\w+", text.lower())
    starts = zip(*(text_words[n:] for n in range(5)))
    occurring = []
    for i, start in enumerate(starts):
        for sentence in sentences.get(start, ()):
            if tuple(text_words[i : i + len(sentence)]) == sentence:
                occurring.append(sentence)
    return occurring


@needs_data
def test_no_third_party_sentence_is_committed():
    sentences = sentences_by_start(public_texts())
    embedded_corpus = "\n".join(path.read_text() for path in (HERE / "data/mini").rglob("*.jsonl"))
    for sentence in sentences_within(embedded_corpus, sentences):
        sentences[sentence[:5]].discard(sentence)

    # The search itself finds what it should.
    longest = max((sentence for group in sentences.values() for sentence in group), key=len)
    assert len(sentences) > 50_000
    assert longest in sentences_within(f"Before. {' '.join(longest).upper()}! After.", sentences)

    for name, text in committed():
        shortest = 6 if name.startswith("tests/") else 5  # our own small talk is anyone's
        copied = [s for s in sentences_within(text, sentences) if len(s) >= shortest]
        assert copied == [], name


# Packaging


def requirements(*extras):
    """Return what the package and some of its extras need: version specifiers by name."""
    lines = list(PROJECT["dependencies"])
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    return {canonicalize_name(need.name): need.specifier for need in map(Requirement, lines)}


def test_the_lock_fits_pyproject_and_names_no_host_or_local_build():
    lines = (HERE / "requirements.lock").read_text()
    lines += (HERE / "requirements-book.lock").read_text()
    pins = re.findall(r"^([^#=\s]+)==(.*)$", lines, re.MULTILINE)
    locked = {canonicalize_name(name): version for name, version in pins}

    # Some platforms lack Ray, and only profile full asks for the metrics.
    extras = PROJECT["optional-dependencies"].keys() - {"ray", "metrics"}
    needed = requirements(*extras)
    needed.pop("dre-companion", None)  # an extra that takes another one
    for name, allowed in needed.items():
        assert allowed.contains(locked[name]), name
    assert all(re.fullmatch(r"[\w.]+", version) for version in locked.values())
    assert locked.keys().isdisjoint({"ray", "bert-score", "gensim", "sentencepiece"})


def test_the_conda_environment_takes_the_lock_and_a_python_that_fits():
    environment = yaml.safe_load((HERE / "environment.yml").read_text())
    python, _, pip = environment["dependencies"]

    assert SpecifierSet(PROJECT["requires-python"]).contains(python.removeprefix("python="))
    assert pip == {"pip": ["-r requirements.lock", "-e .[slm,judges,notebooks,paper]"]}


def test_one_version_number_holds_for_package_distribution_citation_and_archive():
    citation = yaml.safe_load((HERE / "CITATION.cff").read_text())
    archive = json.loads((HERE / ".zenodo.json").read_text())

    assert citation["version"] == archive["version"] == __version__
    assert "version" not in PROJECT and "version" in PROJECT["dynamic"]
    source = PYPROJECT["tool"]["setuptools"]["dynamic"]["version"]
    assert source == {"attr": "dre.environment.VERSION"}


def test_licence_and_address_are_the_same_everywhere():
    citation = yaml.safe_load((HERE / "CITATION.cff").read_text())

    assert citation["license"] == PROJECT["license"] == "MIT"
    assert citation["repository-code"] == PROJECT["urls"]["Repository"] == ADDRESS


def test_a_wheel_has_every_folder_of_the_package():
    folders = {path.parent.relative_to(HERE) for path in HERE.glob("dre/**/*.py")}
    packages = {".".join(folder.parts) for folder in folders}
    assert {*PYPROJECT["tool"]["setuptools"]["packages"]} == packages | {"dre.data", "dre.profiles"}


def test_a_wheel_has_the_data_and_profiles_that_a_clone_has_beside_the_package():
    packed = set()
    for package, patterns in PYPROJECT["tool"]["setuptools"]["package-data"].items():
        folder = HERE / package.removeprefix("dre.")
        for pattern in patterns:
            packed |= set(folder.glob(pattern))

    needed = {path for path in tracked("dre", "profiles") if path.suffix != ".py"}
    needed |= set(tracked("data/mini", "data/recorded"))
    assert needed <= packed


def imported_packages(path):
    """Return the packages of others that a module imports, in its functions as well."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module)
    return {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"dre"}


def test_what_is_imported_is_declared():
    distributions = packages_distributions()
    declared = set(requirements(*PROJECT["optional-dependencies"]))
    for path in (HERE / "dre").rglob("*.py"):
        for package in imported_packages(path):
            names = map(canonicalize_name, distributions.get(package, [package]))
            assert declared.intersection(names), f"{path}: {package}"


def test_installing_the_package_restarts_no_kernel():
    kernel = {"ipykernel", "ipython", "papermill", "jupyterlab"}
    assert not requirements().keys() & kernel
