"""What every notebook begins with (the cell after its parameters): `setup` returns the `Book` of its results."""

import io
import json
import sys
import warnings
from importlib.metadata import version

from dre.files import replace
from dre.paper import state
from dre.paper.profile import COMMITTED, check_clone
from dre.paper.profile import profile as read_profile
from dre.paper.profile import root as project_root
from dre.paper.sentences import in_words
from dre.tables import Table


def setup(notebook, profile):
    """Set the figure style, print profile and versions, and return the `Book` of the notebook with this name.

    From then on a figure is shown by `Book.figure` (or ``plt.show()``), not by every cell that leaves it open.
    """
    check_clone(project_root())
    import matplotlib.pyplot as plt

    from dre.paper.plots import style

    book = Book(notebook, read_profile(profile))
    style()
    warnings.filterwarnings("ignore", message="IProgress not found")  # plain progress bars do
    plt.switch_backend(
        plt.get_backend()
    )  # of a kernel; it would turn the interactive mode on with the first figure
    plt.ioff()
    found = " · ".join(f"{name} {version(name)}" for name in ("torch", "numpy"))
    print(f"profile {profile} · Python {sys.version.split()[0]} · {found}")
    return book


class Ended(Exception):
    """Ends a notebook before its last cell, without being an error: papermill takes it for success."""

    def _render_traceback_(self):
        return ["The notebook ends here."]  # what IPython shows in place of a traceback


Ended.__name__ = (
    "SystemExit"  # by this name, without a message, papermill knows an end that was meant
)


class Book:
    """The results of one notebook: saved as files and, when the runner executes it, registered in a manifest."""

    def __init__(self, name, profile):
        self.name, self.profile = name, profile
        self._manifest, self._said = {"notebook": name, "items": [], "not_run": []}, {}

    def table(self, df, name, caption, note="", **shown):
        """Save a table, register it, and return it (a `dre.tables.Table`) for display.

        ``results/<profile>/<name>.csv`` holds all of `df` but its index, with six significant digits. The notebook, the
        report page and ``<name>.md`` show a part of it, with ``x_low``, ``x_high`` and ``x_sd`` joined to column ``x``:
        ``88.1 ± 0.3 [87.2, 89.0]``. NaN, None and "" are printed as an em dash.

        ``shown``: ``digits``, decimals of all columns, or a dict by column (others 2); ``headers``, printed names by
        column, by default the name with spaces for underscores; ``rows``, the first n (15 unless told), a list of
        positions, a mask, or ``{column: names}``, each of which must be there; ``columns``, the names of those that are
        shown, in this order, by default the first 7.
        """
        table = Table(df, name, caption, note, **shown)
        self._register("table", name, caption, table.save(self.profile.results))
        return table

    def data(self, df, name, caption):
        """Save what figures and sentences are made of, without showing it, as ``results/<profile>/<name>.csv``."""
        path = self.profile.results / f"{name}.csv"
        replace(path, Table(df, name, caption).csv())
        self._register("data", name, caption, [path])

    def say(self, table, *values, **names):
        """Name numbers that prose shows: each name is a format of a row of ``<table>.csv`` (`dre.paper.sentences.in_words`).

        ``book.say("table4", "SLM", alone="{DailyDialog:.2f}")`` is shown by ``<!--alone--><!--/-->`` in a markdown cell
        (`dre.paper.words`). Prose has the numbers of one profile, `dre.paper.profile.COMMITTED`: others say nothing.
        """
        if self.profile.name == COMMITTED:
            path = self.profile.results / f"{table}.csv"
            self._said |= {name: in_words(path, values, form) for name, form in names.items()}
            path = self.profile.results / "words" / f"{self.name}.json"
            replace(path, json.dumps(self._said, indent=1, ensure_ascii=False) + "\n")
            self._register("words", "words", "Numbers in words", [path])

    def figure(self, fig, name, caption):
        """Save a matplotlib figure as ``figures/<profile>/<name>.pdf`` and ``.png``, close it, and return its picture.

        No date and no version goes into the files: the same figure gives the same bytes.
        """
        import matplotlib.pyplot as plt

        paths = [self.profile.figures / f"{name}.{ending}" for ending in ("png", "pdf")]
        for path, dates in zip(paths, (["Software"], ["CreationDate", "Producer", "Creator"])):
            how = {"bbox_inches": "tight", "dpi": 160, "metadata": dict.fromkeys(dates)}
            fig.savefig(picture := io.BytesIO(), format=path.suffix[1:], **how)
            replace(path, picture.getvalue())
        plt.close(fig)
        self._register("figure", name, caption, paths)
        return _Picture(name, paths[0].read_bytes())

    def not_run(self, what, why):
        """Say here and on the report page that `what` was not run, and why."""
        self._manifest["not_run"].append({"what": what, "why": why})
        self._write()
        print(f"not run: {what} ({why})")

    def needs_public(self, why):
        """End the notebook here, with one line that says `why`, if the profile has no sets with human ratings."""
        if not self.profile.rated:
            self.not_run("the rest of this notebook", f"{why}: make paper PROFILE=public")
            raise Ended

    def _register(self, kind, name, caption, files):
        # The hashes let a test hold files to the run that made them.
        hashes = {
            path.relative_to(self.profile.root).as_posix(): state.note("wrote", path)
            for path in files
        }
        kept = [
            item for item in self._manifest["items"] if (item["kind"], item["name"]) != (kind, name)
        ]
        self._manifest["items"] = [
            *kept,
            {"kind": kind, "name": name, "caption": caption, "files": hashes},
        ]
        self._write()

    def _write(self):
        if state.active is not None:  # by hand, some cells run, in any order
            path = self.profile.results / "manifest" / f"{self.name}.json"
            replace(path, json.dumps(self._manifest, indent=1, ensure_ascii=False) + "\n")
            state.note("wrote", path)


class _Picture:
    """A saved figure as a notebook shows it."""

    def __init__(self, name, content):
        self.name, self.content = name, content

    def __repr__(self):
        return self.name

    def _repr_png_(self):
        return self.content
