"""Run every setup cell as a hosted notebook does: from an empty folder, in a new kernel.

The first cell clones and installs the package into the environment of this interpreter, the others
find it there. Fails where that changes a package that a running kernel has loaded: the kernel would
have to be restarted, and the notebook begun anew.
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
ADDRESS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Repository"]
LOADED_BY_KERNELS = ("torch", "numpy", "ipython", "ipykernel", "pyzmq", "tornado")
PRINT_VERSIONS = """
import importlib.metadata, sys
for name in sys.argv[1:]:
    print(name, importlib.metadata.version(name), end="; ")
"""


def source(cell):
    """Return the text of a cell."""
    return "".join(cell["source"])


def installed_versions():
    """Return the versions of `LOADED_BY_KERNELS`, as a new process sees them."""
    command = [sys.executable, "-c", PRINT_VERSIONS, *LOADED_BY_KERNELS]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def run_setup(paths, folder):
    """Run parameters and setup of notebooks, in one kernel; return what they printed."""
    code = []
    for path in paths:
        cells = json.loads(path.read_text())["cells"]
        parameters, setup = [cell for cell in cells if cell["cell_type"] == "code"][:2]
        code.append(source(parameters).replace('"public"', '"mini"'))
        code.append(source(setup))
    code.append("import dre; print(dre.__file__)")

    cells = [nbformat.v4.new_code_cell(text) for text in code]
    book = nbformat.v4.new_notebook(cells=cells)
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(book, kernel_name="python3", resources=resources).execute()
    outputs = [output for cell in book.cells for output in cell.outputs]
    return "".join(output.get("text", "") for output in outputs)


def main(folder):
    """Run them all from an empty folder; their address leads to this repository's last commit."""
    folder = Path(folder).resolve()
    folder.mkdir(parents=True)
    assert find_spec("dre") is None, "the package is there already: nothing would be installed"
    os.environ["GIT_CONFIG_COUNT"] = "1"
    os.environ["GIT_CONFIG_KEY_0"] = f"url.file://{ROOT}.insteadOf"
    os.environ["GIT_CONFIG_VALUE_0"] = ADDRESS
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"

    first, *later = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
    versions_before = installed_versions()
    print(f"before: {versions_before}")
    for paths in ([first], later):
        output = run_setup(paths, folder)
        assert output.count("profile mini · Python") == len(paths), output
        assert f"{folder}/dre-companion/dre/__init__.py" in output, output

        versions = installed_versions()
        print(f"after {len(paths)} notebook(s): {versions}")
        if versions != versions_before:
            return "the setup cell changes a package that the kernel has loaded"
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
