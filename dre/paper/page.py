"""The report page of a profile: verdicts, sentences, tables and figures."""

import json
import os
import re
from collections import deque
from pathlib import Path

from dre.files import replace
from dre.paper.headless import Notebook, is_note, notebooks, source
from dre.paper.profile import COMMITTED, Profile

_VERDICTS_TITLE = "What the papers say, and what came out"


def path(profile: Profile) -> Path:
    """Return where the report page of a profile is."""
    return profile.results / "index.html"


def write(profile: Profile) -> bool:
    """Write the report page of a profile if that changes it, and return whether it did."""
    html = _html(profile)
    page = path(profile)
    if page.is_file() and page.read_text(encoding="utf-8") == html:
        return False
    replace(page, html)
    return True


def manifest(book: Notebook, profile: Profile) -> dict:
    """Return what a notebook registered when it last ran, as `dre.paper.notebook.Book` says.

    Its keys are ``items``, a list of dicts with ``kind, name, caption, files``, and ``not_run``,
    a list of dicts with ``what, why``.
    """
    file = profile.results / "manifest" / f"{book.name}.json"
    if not file.is_file():
        return {"items": [], "not_run": []}
    return json.loads(file.read_text(encoding="utf-8"))


def _html(profile):
    import mistune

    books = notebooks(profile.root)
    verdicts = profile.root / "docs" / "verdicts.md"
    has_verdicts = profile.name == COMMITTED and verdicts.exists()

    contents = []
    if has_verdicts:
        contents.append(f"- [{_VERDICTS_TITLE}](#verdicts)")
    for book in books:
        contents.append(f"- [{_title(book)}](#{book.name})")

    blocks = [
        f"# DRE and SLIDE: results\n\nProfile **{profile.name}**: {profile.title}",
        "\n".join(contents),
    ]
    if has_verdicts:
        text = verdicts.read_text(encoding="utf-8")
        blocks.append(f'<h2 id="verdicts">{_VERDICTS_TITLE}</h2>')
        blocks.append(re.sub("<!--.*?-->", "", text))
    for book in books:
        blocks.append(f'<h2 id="{book.name}">{_title(book)}</h2>')
        blocks.extend(_section(book, profile))

    template = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    return template.replace("BODY", str(mistune.html("\n\n".join(blocks))))


def _title(book):
    for cell in book.content["cells"]:
        if cell["cell_type"] == "markdown":
            return source(cell).partition("\n")[0].removeprefix("# ")
    return book.name


def _section(book, profile):
    """Return what the page shows of a notebook, as blocks of Markdown in the order of its cells."""
    registered = manifest(book, profile)
    tables, figures, data = deque(), deque(), []
    for item in registered["items"]:
        files = [os.path.relpath(profile.root / name, profile.results) for name in item["files"]]
        if item["kind"] == "table":
            tables.append(_table(profile, *files))
        elif item["kind"] == "figure":
            figures.append(_figure(item, *files))
        elif item["kind"] == "data":
            data.append(f"[{item['caption']}]({files[0]})")

    # Sentences with numbers hold for the committed profile, so other profiles show none of them.
    blocks = []
    if profile.name == COMMITTED:
        for cell in book.content["cells"]:
            if cell["cell_type"] == "markdown" and "<!--" in source(cell):
                blocks.append(_prose(cell, book, profile))
            for output in cell.get("outputs", ()):
                blocks.extend(_shown_by(output, tables, figures))

    blocks.extend(tables)
    blocks.extend(figures)
    if data:
        blocks.append(f"Further tables: {', '.join(data)}")
    for left_out in registered["not_run"]:
        blocks.append(f"Not run: {left_out['what']} ({left_out['why']})")
    return blocks


def _shown_by(output, tables, figures):
    """Return what an output shows: a note, or the next table or figure, taken from its queue."""
    formats = output.get("data", {})
    if is_note(output):
        return ["".join(formats["text/markdown"])]
    if "text/markdown" in formats and tables:
        return [tables.popleft()]
    if "image/png" in formats and figures:
        return [figures.popleft()]
    return []


def _table(profile, csv, markdown):
    text = (profile.results / markdown).read_text(encoding="utf-8")
    return f"{text}\n[CSV]({csv})"


def _figure(item, png, pdf):
    return f"![{item['name']}]({png})\n\n{item['caption']} ([PDF]({pdf}))"


def _prose(cell, book, profile):
    """Return a text without places, badge and title, and with links as seen from the page."""
    folder = os.path.relpath(book.path.parent, profile.results)
    text = re.sub(r"(?s)<!--[\w/]+\.(?:md|csv)-->.*?<!--/-->", "", source(cell))  # included files
    text = re.sub(r"<!--.*?-->|\[!\[.*|^# .*", "", text)
    text = re.sub(r"\]\((?!http|#)", f"]({folder}/", text)
    text = re.sub(r"\]\(#[^)]*", f"](#{book.name}", text)
    text = re.sub("^#+ ", "### ", text, flags=re.MULTILINE)
    return _without_latex(text)


def _without_latex(text):
    """Return Markdown whose inline formulas are HTML, since the page has no renderer for LaTeX.

    Displayed formulas are left out: the notebooks show them.
    """
    text = re.sub(r"(?s)\$\$.*?\$\$", "", text)
    inline_formula = r"\$(?=\S)([^$\n]*\S)\$(?!\d)"
    return re.sub(inline_formula, lambda match: f"<i>{_formula(match[1])}</i>", text)


def _formula(latex):
    """Return a short LaTeX formula as HTML."""
    latex = re.sub(r"\\(?:mathrm|mathcal|bar)\s*(?:\{([^{}]*)\}|(\w))", r"\1\2", latex)
    latex = re.sub(r"\\[,;]", " ", latex)
    latex = re.sub(r"_(?:\{([^{}]*)\}|(\w))", r"<sub>\1\2</sub>", latex)
    latex = re.sub(r"\^(?:\{([^{}]*)\}|(\w))", r"<sup>\1\2</sup>", latex)
    symbols = {"cdot": "·", "kappa": "κ"}
    return re.sub(r"\\(\w+)", lambda match: symbols.get(match[1], match[1]), latex)
