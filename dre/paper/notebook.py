"""What every notebook begins with: `setup` returns the `Book` of its results."""

import contextlib
import hashlib
import io
import json
import os
import re
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

import pandas as pd

from dre.files import replace
from dre.paper import state
from dre.paper.profile import COMMITTED, Profile, check_clone
from dre.paper.profile import profile as read_profile
from dre.paper.profile import root as project_root
from dre.tables import Table, number

#: Tables that docs show, or tell readers to open: they are saved as Markdown as well.
AS_MARKDOWN = (
    *("table3", "table4", "table4_main", "table5_main", "table6", "slide_table2"),
    *("table6_own_replies", "slide_tables_own_replies", "cost_per_example"),
)
_NOT_A_NUMBER = re.compile(r"\bnan\b", re.IGNORECASE)


def setup(notebook: str, profile: str) -> "Book":
    """Set the figure style, print profile and versions, and return the `Book` of a notebook.

    From then on a figure is shown by `Book.figure` (or ``plt.show()``), not by every cell that
    leaves it open.

    Parameters
    ----------
    notebook, profile : str
        The name of the notebook's file without its ending, and that of a file in ``profiles/``.

    Raises
    ------
    DreError
        If the package was installed without a clone of the project, which has the notebooks' data.
    """
    check_clone(project_root())
    import matplotlib.pyplot as plt

    from dre.paper.plots import style

    book = Book(notebook, read_profile(profile))
    if book.profile.has_live_judge:
        _take_keys_from_colab()
    style()
    warnings.filterwarnings("ignore", message="IProgress not found")  # plain progress bars do
    warnings.formatwarning = _warning_in_words
    # Choose the backend now: a kernel's would turn the interactive mode on with the first figure.
    plt.switch_backend(plt.get_backend())
    plt.ioff()
    versions = [f"{package} {version(package)}" for package in ("torch", "numpy")]
    python = sys.version.split()[0]
    print(f"profile {profile} · Python {python} · {' · '.join(versions)}")
    if profile != COMMITTED:
        print(
            f"What paragraphs say of results holds for profile {COMMITTED}. Tables, figures, their "
            f"titles and the sentences below cells are those of profile {profile}."
        )
    return book


def _warning_in_words(message, category, filename, lineno, line=None) -> str:
    """Return a warning without the path and the line of the code that gave it."""
    return f"warning: {message}\n"


def _take_keys_from_colab() -> None:
    """Put the keys among Colab's secrets into the environment, where judges look for them."""
    try:
        from google.colab import userdata  # type: ignore[import-not-found]
    except ImportError:
        return
    from dre.judges.providers import PROVIDERS

    for provider in PROVIDERS.values():
        # A secret that is not there, or that this notebook may not read, raises an error.
        with contextlib.suppress(Exception):
            name = provider.key_variables[0]
            os.environ[name] = os.environ.get(name) or userdata.get(name)


class Ended(Exception):
    """Ends a notebook before its last cell; papermill takes it for success."""

    def _render_traceback_(self):
        return ["The notebook ends here."]  # what IPython shows in place of a traceback


# By this name, without a message, papermill knows an end that was meant.
Ended.__name__ = "SystemExit"


class Book:
    """The results of one notebook, saved as files; under the runner a manifest names them."""

    def __init__(self, name: str, profile: Profile):
        self.name = name
        self.profile = profile
        self._manifest = {"notebook": name, "items": [], "not_run": []}
        self._words = {}  # name -> text, for README and docs

    def table(self, df: pd.DataFrame, name: str, caption: str, note: str = "", **options) -> Table:
        """Save a table, register it, and return it for display.

        ``results/<profile>/<name>.csv`` holds all of `df` but its index, with six significant
        digits. The notebook shows a part of it, with ``x_low``, ``x_high`` and ``x_sd`` joined to
        column ``x``: ``88.1 ± 0.3 [87.2, 89.0]``. NaN, None and "" are printed as an em dash. What
        is shown of `AS_MARKDOWN` is ``<name>.md``, too.

        Parameters
        ----------
        df, name, caption, note
            As `dre.tables.Table` takes them.
        **options
            ``digits``, ``headers``, ``rows`` and ``columns`` of `dre.tables.Table`: what is
            printed, and how.
        """
        table = Table(df, name, caption, note, **options)
        files = table.save(self.profile.results, with_markdown=name in AS_MARKDOWN)
        # A test holds the table in the committed notebook to this hash.
        shown = hashlib.sha256(table.markdown().encode()).hexdigest()
        self._register("table", name, caption, files, shown=shown)
        return table

    def data(self, df: pd.DataFrame, name: str, caption: str) -> None:
        """Save ``results/<profile>/<name>.csv``, for figures and sentences, without showing it."""
        files = Table(df, name, caption).save(self.profile.results)
        self._register("data", name, caption, files)

    def note(self, text: str, /, **numbers: str | float) -> None:
        """Show a sentence as Markdown, and keep its numbers for README and docs by their names.

        ``book.note(f"The gain is {gain:+.2f}.", gain=f"{gain:+.2f}")`` shows the sentence below the
        cell. If the cell belongs to notebook 07, ``<!--07.gain--><!--/-->`` in README or docs is
        filled with the number. These have the numbers of the committed profile: in other profiles
        the sentence is shown, and nothing is kept.

        Parameters
        ----------
        text : str
            One or more sentences in Markdown.
            Where a number is missing (NaN), this is said in the place of the sentence.
        **numbers
            Texts, which are kept as they are, or numbers, which are kept with two decimals (whole
            ones with none), rounded as in tables.
        """
        from IPython.display import Markdown, display

        values = [text, *(value for value in numbers.values() if isinstance(value, str))]
        if any(_NOT_A_NUMBER.search(value) for value in values):
            self.not_run("a sentence", "this profile lacks some of its numbers")
            return
        text = re.sub(r"(?<![\w-])-(?=\d)", "−", text)  # a true minus sign, as in tables
        text = re.sub(r"(?<![\w.])[−+](?=0(\.0+)?(?![\d.]*\d))", "", text)  # no sign before zero
        # The mark tells sentences from tables, which are Markdown as well.
        display(Markdown(text), metadata={"dre": "note"})
        if self.profile.name == COMMITTED and numbers:
            for name, value in numbers.items():
                self._words[name] = value if isinstance(value, str) else number(value)
            path = self.profile.results / "words" / f"{self.name}.json"
            replace(path, json.dumps(self._words, indent=1, ensure_ascii=False) + "\n")
            self._register("words", "words", "Numbers in words", [path])

    def figure(
        self, fig, name: str, caption: str, alt: str = "", with_svg: bool = False
    ) -> "_Picture":
        """Save a matplotlib figure, close it, and return its picture for display.

        The files are ``figures/<profile>/<name>.pdf`` and ``.png``. No date and no version
        goes into the files: the same figure gives the same bytes.

        Parameters
        ----------
        fig, name, caption
            The figure, the name of its files, and the sentence that belongs to it.
        alt
            What it shows, in words, for those who do not see it.
        with_svg
            Whether there is an ``.svg``, too, which is sharp at every size.
        """
        import matplotlib.pyplot as plt

        metadata = {
            "png": {"Software": None},
            "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
        }
        if with_svg:
            metadata["svg"] = {"Date": None, "Creator": None}
        files = []
        for ending, fields in metadata.items():
            file = self.profile.figures / f"{name}.{ending}"
            replace(file, _rendered(fig, ending, fields))
            files.append(file)
        plt.close(fig)
        self._register("figure", name, caption, files)
        return _Picture(name, files[0].read_bytes(), alt)

    def ask(self) -> None:
        """Ask live judges what this notebook reads of them, in a reader's own kernel.

        First it prints what that takes. The runner asks for all notebooks before it executes them,
        so there this does nothing. Recorded judges are not asked.

        Raises
        ------
        DreError
            If what is asked about cannot be read.
        """
        if state.active is not None or not self.profile.has_live_judge:
            return
        from dre.paper import ask, estimate

        takes = estimate.of_notebook(self.profile, self.name)
        print(takes or "judges: all that this notebook reads is stored")
        for sentence in ask.ask(self.profile, self.name):
            print(f"not come: {sentence}")

    def not_run(self, what: str, why: str) -> None:
        """Say here that something was not run, and why."""
        self._manifest["not_run"].append({"what": what, "why": why})
        self._write_manifest()
        print(f"not run: {what} ({why})")

    def needs_public(self, why: str, among: Sequence[str] | None = None) -> None:
        """End the notebook here, and say why, if the profile has no sets with human ratings.

        Parameters
        ----------
        why : str
            What is missing.
        among : list of str, optional
            The rated sets of the profile that would do, by default all of them.
        """
        rated = self.profile.rated if among is None else among
        if not rated:
            self.end(f"{why}: make paper PROFILE=public")

    def end(self, why: str) -> NoReturn:
        """End the notebook here, and say why; a run counts it as complete."""
        self.not_run("the rest of this notebook", why)
        raise Ended

    def skip_to(self, part: str, why: str) -> None:
        """Leave out the cells that follow, up to the one that begins with ``# <part>``; say why.

        The kernel takes them for empty ones, also if it is a reader's own, until the notebook is
        begun anew by its first cell, which sets the profile.
        """
        from IPython import get_ipython

        self.not_run(f"what comes before {part}", why)
        transforms = get_ipython().input_transformers_cleanup
        beginnings = (f"# {part}\n", "profile = ")

        def left_out(lines: list[str]) -> list[str]:
            if not "".join(lines).startswith(beginnings):
                return []
            transforms.remove(left_out)
            return lines

        transforms.append(left_out)

    def _register(self, kind: str, name: str, caption: str, files: list[Path], **more: str) -> None:
        """Put files into the manifest, with hashes that hold them to the run that made them."""
        hashes = {}
        for path in files:
            relative_path = path.relative_to(self.profile.root).as_posix()
            hashes[relative_path] = state.note("wrote", path)

        # It takes the place of an earlier one of this kind and name.
        items = self._manifest["items"]
        items[:] = [item for item in items if (item["kind"], item["name"]) != (kind, name)]
        items.append({"kind": kind, "name": name, "caption": caption, "files": hashes, **more})
        self._write_manifest()

    def _write_manifest(self) -> None:
        # A reader runs some cells, in any order: only the runner's manifest is complete.
        if state.active is None:
            return
        path = self.profile.results / "manifest" / f"{self.name}.json"
        replace(path, json.dumps(self._manifest, indent=1, ensure_ascii=False) + "\n")
        state.note("wrote", path)


def _rendered(fig, ending, metadata) -> bytes:
    """Return a figure as the content of a file; metadata without a value are left out."""
    picture = io.BytesIO()
    fig.savefig(picture, format=ending, bbox_inches="tight", dpi=160, metadata=metadata)
    return picture.getvalue()


class _Picture:
    """A saved figure as a notebook shows it."""

    def __init__(self, name: str, content: bytes, alt: str = ""):
        self.name = name
        self.content = content
        self.alt = alt

    def __repr__(self):
        return self.name

    def _repr_png_(self):
        return (self.content, {"alt": self.alt}) if self.alt else self.content
