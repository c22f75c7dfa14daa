"""As a hosted notebook does it: run every notebook's setup cell, from an empty folder, in kernels of this interpreter.

The first clones and installs the package into the environment, the others find it there. Fails where that changes a
package that a running kernel has loaded: it would have to be restarted, and the notebook begun anew.
"""

import json
import os
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
HELD = ("torch", "numpy", "ipython", "ipykernel", "pyzmq", "tornado")
VERSIONS = "import sys, importlib.metadata as m; print(*(f'{n} {m.version(n)}' for n in sys.argv[1:]), sep=', ')"
ADDRESS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Repository"]


def source(cell):
    """Return the text of a cell."""
    return "".join(cell["source"])


def versions():
    """Return the installed versions, as a new process sees them."""
    return subprocess.run(
        [sys.executable, "-c", VERSIONS, *HELD], check=True, capture_output=True, text=True
    ).stdout


def run(paths, folder):
    """Run parameters and setup of notebooks, one after the other, in one kernel; return what they printed."""
    cells = [json.loads(path.read_text())["cells"][1:3] for path in paths]
    code = [text.replace('"public"', '"mini"') for each in cells for text in map(source, each)]
    code.append("import dre; print(dre.__file__)")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in code])
    NotebookClient(
        book, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    return "".join(output.get("text", "") for cell in book.cells for output in cell.outputs)


def main(folder):
    """Run them all from an empty `folder`; the address they clone leads to the last commit of this repository."""
    folder = Path(folder).resolve()
    folder.mkdir(parents=True)
    assert find_spec("dre") is None, "the package is there already: nothing would be installed"
    os.environ |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.file://{ROOT}.insteadOf"}
    os.environ |= {"GIT_CONFIG_VALUE_0": ADDRESS, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    first, *others = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
    before = versions()
    print(f"{'before':20}{before}", end="")
    for paths in ([first], others):
        said, after = run(paths, folder), versions()
        print(f"{f'after {len(paths)} notebook(s)':20}{after}", end="")
        installed = f"{folder}/dre-companion/dre/__init__.py"
        assert said.count("profile mini · Python") == len(paths) and installed in said, said
        if after != before:
            return "the setup cell changes a package that the kernel has loaded"
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
