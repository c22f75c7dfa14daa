"""What every notebook begins with: `setup` checks the machine and returns the `Book` of its results.

`progress` shows how far a long loop is.
"""

import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version

from dre.errors import DreError
from dre.pipeline.profile import profile as read_profile
from dre.pipeline.profile import root
from dre.pipeline.progress import progress
from dre.pipeline.state import write_json

__all__ = ["Book", "progress", "setup", "unmet"]
HEAVY = ("torch", "numpy")  # never installed or changed from a notebook: Colab's own fit its driver


def setup(notebook, profile):
    """Check versions, find the GPU, set the figure style, and print one line.

    What is missing (on Colab, say) is installed, with torch and numpy held at the versions that are there.

    Parameters
    ----------
    notebook : str
        Name of the notebook, such as ``03_classification``.
    profile : str
        The notebook's parameter.

    Returns
    -------
    Book
        Where the notebook puts its tables and figures, and its profile.

    Raises
    ------
    DreError
        Unknown profile; Python too old; torch or numpy missing or too old; or an installation that failed.
    """
    book = Book(notebook, read_profile(profile))
    _install(unmet(root() / "pyproject.toml"))
    from dre.pipeline.preflight import gpu
    from dre.report.figure import style

    style()
    found = " · ".join(f"{name} {version(name)}" for name in HEAVY)
    print(f"profile {profile} · Python {sys.version.split()[0]} · {found} · {gpu() or 'no GPU'}")
    return book


class Book:
    """The results of one notebook: saved as files, and registered for the report page in a manifest."""

    def __init__(self, name, profile):
        self.name, self.profile = name, profile
        self._manifest = {"notebook": name, "items": [], "not_run": []}

    def table(self, table):
        """Save a `dre.report.Table` into ``results/<profile>/``, register it, and return it for display."""
        files = table.save(self.profile.results)
        self._register("table", table.name, table.caption, files, html=table.html())
        return table

    def figure(self, fig, name, caption):
        """Save a matplotlib figure as PDF and PNG, register it, and return what displays it."""
        from dre.report.figure import save_figure

        saved = save_figure(fig, name, self.profile.figures)
        self._register("figure", name, caption, [saved.pdf, saved.png])
        return saved

    def text(self, markdown, name, caption):
        """Save prose made from numbers as ``results/<profile>/<name>.md``, register it, and return it for display."""
        from IPython.display import Markdown
        from nbconvert.filters import markdown2html

        path = self.profile.results / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(markdown.strip() + "\n", encoding="utf-8")
        self._register("text", name, caption, [path], html=markdown2html(markdown))
        return Markdown(markdown)

    def not_run(self, what, why):
        """Say on the report page that `what` was not run, and why; prints it, too."""
        self._manifest["not_run"].append({"what": what, "why": why})
        self._write()
        print(f"not run: {what} ({why})")

    def _register(self, kind, name, caption, files, **more):
        names = [path.relative_to(self.profile.root).as_posix() for path in files]
        items = [item for item in self._manifest["items"] if (item["kind"], item["name"]) != (kind, name)]
        self._manifest["items"] = [
            *items,
            {"kind": kind, "name": name, "caption": caption, "files": names, **more},
        ]
        self._write()

    def _write(self):
        write_json(self.profile.results / "manifest" / f"{self.name}.json", self._manifest)


def unmet(pyproject):
    """Return what the notebooks need of the dependencies in `pyproject` and is not met here, as lines pip understands.

    That is the package's own dependencies and its extra ``baselines``.

    Raises
    ------
    DreError
        If torch or numpy are among them.
    """
    from packaging.requirements import Requirement

    lines = []
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    for line in project["dependencies"] + project.get("optional-dependencies", {}).get("baselines", []):
        need = Requirement(line)
        try:
            met = need.specifier.contains(version(need.name), prereleases=True)
        except PackageNotFoundError:
            met = False
        if not met and need.name in HEAVY:
            raise DreError(f"this notebook needs {need}, which is not here: install it as your platform asks for")
        if not met:
            lines.append(line)
    return lines


def _install(lines):
    if not lines:
        return
    pins = [f"{name}=={version(name)}" for name in HEAVY]
    print(f"installing {', '.join(lines)}; {' and '.join(pins)} stay")
    # Naming the pins beside the rest keeps them: pip fails rather than change them.
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", *lines, *pins]
    if subprocess.run(command, stdin=subprocess.DEVNULL).returncode:
        raise DreError(f"pip could not install {', '.join(lines)}; its messages are above")
