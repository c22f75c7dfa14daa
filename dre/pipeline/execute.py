"""Executing one notebook with papermill, by the interpreter that runs this, and saying what failed."""

import json
import logging
import os
import re
import sys
import warnings

from dre.errors import DreError
from dre.pipeline.progress import VARIABLE
from dre.pipeline.state import write_json

KERNEL = "dre-this-python"
PROGRESS = "progress.json"  # below build/<profile>/: how far the running cell is
INJECTED = "injected-parameters"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class CellFailed(DreError):
    """A cell raised, or its kernel died; the message names notebook, cell, error and executed notebook."""


def kernel(profile):
    """Register a kernel of this very interpreter below ``build/`` for this process, and return its name."""
    env = {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(profile.root), os.environ.get("PYTHONPATH")])),
        "DRE_ROOT": str(profile.root),
        "TOKENIZERS_PARALLELISM": "false",
        "TQDM_DISABLE": "1",  # progress bars would be kept in the notebook, with their timings
        VARIABLE: str(profile.build / PROGRESS),
    }
    if not profile.network:
        env |= {"HF_HUB_OFFLINE": "1"}
    spec = {
        "argv": [
            sys.executable,
            "-Xfrozen_modules=off",
            "-m",
            "ipykernel_launcher",
            "-f",
            "{connection_file}",
            "--log-level=ERROR",
        ],
        "display_name": "Python 3",
        "language": "python",
        "env": env,
    }
    folder = profile.build / "jupyter"
    write_json(folder / "kernels" / KERNEL / "kernel.json", spec)
    others = [path for path in os.environ.get("JUPYTER_PATH", "").split(os.pathsep) if path and path != str(folder)]
    os.environ["JUPYTER_PATH"] = os.pathsep.join([str(folder), *others])
    return KERNEL


def execute(book, profile, parameters):
    """Execute `book` into ``build/<profile>/notebooks/``.

    Raises
    ------
    CellFailed
        If a cell fails; what was executed so far stays there for inspection.
    """
    import papermill
    from papermill.exceptions import PapermillExecutionError

    logging.getLogger("papermill").setLevel(logging.ERROR)
    target = profile.build / "notebooks" / book.path.name
    target.parent.mkdir(parents=True, exist_ok=True)
    given = {key: value for key, value in parameters.items() if key in book.parameters}
    target.unlink(missing_ok=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            papermill.execute_notebook(
                str(book.path),
                str(target),
                parameters=given,
                kernel_name=kernel(profile),
                language="python",
                progress_bar=False,
                cwd=str(book.path.parent),
            )
    except PapermillExecutionError as error:
        index = error.cell_index - _injected_before(target, error.cell_index)
        raise CellFailed(_message(book, target, profile, index, f"{error.ename}: {error.evalue}")) from None
    except Exception as error:
        # The kernel died (out of memory, killed) or never started: the last cell that began is where.
        if not target.exists():
            raise
        index = _last_begun(target)
        raise CellFailed(_message(book, target, profile, index, f"{type(error).__name__}: {error}")) from error


def _cells(target):
    return json.loads(target.read_text(encoding="utf-8"))["cells"]


def _tagged(cell, tag):
    return tag in cell["metadata"].get("tags", ())


def _injected_before(target, index):
    cells = [cell for cell in _cells(target) if not _tagged(cell, "papermill-error-cell-tag")]
    return sum(_tagged(cell, INJECTED) for cell in cells[:index])


def _last_begun(target):
    begun = [
        i
        for i, c in enumerate(_cells(target))
        if c["metadata"].get("papermill", {}).get("status", "pending") != "pending"
    ]
    index = begun[-1] if begun else 0
    return index - _injected_before(target, index)


def _message(book, target, profile, index, error):
    """Return the report of a failure in the cell at `index` (from 0) of the notebook in notebooks/."""
    source = book.cells[index][1] if index < len(book.cells) else ""
    first = next((line.strip() for line in source.splitlines() if line.strip()), "")
    short = " ".join(COLOUR.sub("", error).split())
    short = short if len(short) <= 600 else short[:600] + " ..."
    return (
        f"{book.path.name} failed in cell {index + 1} of {len(book.cells)}, which begins with\n"
        f"    {first[:120]}\n"
        f"  {short}\n"
        f"  the executed notebook, for inspection: {target.relative_to(profile.root)}"
    )
