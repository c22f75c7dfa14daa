"""What every notebook begins with: `setup` returns the `Book` of its results."""

import contextlib
import io
import json
import os
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd

from dre.files import replace
from dre.paper.profile import COMMITTED, Profile, check_clone
from dre.paper.profile import profile as read_profile
from dre.paper.profile import root as project_root
from dre.tables import Table

#: The environment variable by which kernels know that `dre.paper.run` has started them.
RUN = "DRE_RUN"


def setup(notebook: str, profile: str) -> "Book":
    """Set the figure style, print profile and versions, and return the `Book` of a notebook.

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
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    # A figure is shown by `Book.figure`, and not by every cell that leaves it open.
    plt.switch_backend(plt.get_backend())
    plt.ioff()
    versions = [f"{package} {version(package)}" for package in ("torch", "numpy")]
    python = sys.version.split()[0]
    print(f"profile {profile} · Python {python} · {' · '.join(versions)}")
    if profile != COMMITTED:
        print(
            f"Tables and figures are those of profile {profile}. Paragraphs that state results are "
            f"about profile {COMMITTED}, and are left out of what make paper writes."
        )
    return book


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


def _list_file(profile, notebook):
    return profile.build / "files" / f"{notebook}.json"


def files_of(profile: Profile, notebook: str) -> list[dict[str, str]]:
    """Return what a notebook wrote when the runner last ran it.

    Each file is a dict with ``file, notebook, caption``.
    """
    path = _list_file(profile, notebook)
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


class Book:
    """The results of one notebook, saved as files in ``results/`` and ``figures/``."""

    def __init__(self, name: str, profile: Profile):
        self.name = name
        self.profile = profile
        self._files = {}  # name of a file -> its caption
        self._write_list()

    def table(self, df: pd.DataFrame, name: str, caption: str, note: str = "", **options) -> Table:
        """Save a table and return it for display.

        ``results/<profile>/<name>.csv`` holds all of `df` but its index, with six significant
        digits. The notebook shows a part of it, with ``x_low``, ``x_high`` and ``x_sd`` joined to
        column ``x``: ``88.1 ± 0.3 [87.2, 89.0]``. NaN, None and "" are printed as an em dash.

        Parameters
        ----------
        df, name, caption, note
            As `dre.tables.Table` takes them.
        **options
            ``digits``, ``headers``, ``rows`` and ``columns`` of `dre.tables.Table`: what is
            printed, and how.
        """
        table = Table(df, name, caption, note, **options)
        self._register(table.save(self.profile.results), caption)
        return table

    def data(self, df: pd.DataFrame, name: str, caption: str) -> None:
        """Save ``results/<profile>/<name>.csv`` without showing it."""
        self.table(df, name, caption)

    def figure(self, fig, name: str, caption: str, alt: str = "") -> Any:
        """Save a matplotlib figure, close it, show it, and return its caption for display.

        The file is ``figures/<profile>/<name>.png``; the same figure gives the same bytes.

        Parameters
        ----------
        fig, name, caption
            The figure, the name of its file, and the sentence that belongs to it.
        alt
            What it shows, in words, for those who do not see it.
        """
        import matplotlib.pyplot as plt
        from IPython.display import Image, Markdown, display

        picture = io.BytesIO()
        fig.savefig(picture, bbox_inches="tight", dpi=160, metadata={"Software": None})
        plt.close(fig)
        path = self.profile.figures / f"{name}.png"
        replace(path, picture.getvalue())
        self._register(path, caption)
        display(Image(picture.getvalue(), metadata={"alt": alt or caption}))
        return Markdown(caption)

    def verdicts(self) -> Table:
        """Return the claims of the papers that this notebook measures, with the verdicts."""
        from dre.paper import verdicts

        claims = verdicts.of_notebook(self.profile, self.name[:2])
        headers = {"printed": "in print"}
        if "ours" in claims:
            headers |= {"ours_measured": "with ours", "ours": "verdict with ours"}
        caption = f"What the papers claim, and what profile {self.profile.name} says of it"
        note = ""
        if "not run" in {*claims["verdict"]}:
            note = "Not run: the profile lacks a table or a number that the claim needs."
        return Table(claims, "verdicts", caption, note, headers=headers, rows=len(claims))

    def ask(self) -> None:
        """Ask live judges what this notebook reads of them, in a reader's own kernel.

        First it prints what that takes, and at the end what did not come. The runner asks for all
        notebooks before it executes them, so there this does nothing.
        """
        if RUN in os.environ or not self.profile.has_live_judge:
            return
        from dre.paper import ask, estimate

        takes = estimate.of_notebook(self.profile, self.name)
        print(takes or "judges: all that this notebook reads is stored")
        for sentence in ask.ask(self.profile, self.name):
            print(sentence)

    def not_run(self, what: str, why: str) -> None:
        """Say here that something was not run, and why."""
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

    def _register(self, path: Path, caption: str) -> None:
        """Add a file to the list that the runner reads."""
        self._files[path.relative_to(self.profile.root).as_posix()] = caption
        self._write_list()

    def _write_list(self) -> None:
        if RUN not in os.environ:  # in a reader's own kernel, where cells run in any order
            return
        entries = []
        for file, caption in self._files.items():
            entries.append({"file": file, "notebook": self.name, "caption": caption})
        replace(_list_file(self.profile, self.name), json.dumps(entries, indent=1))
