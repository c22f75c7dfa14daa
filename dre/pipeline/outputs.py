"""Putting the outputs of a complete run into the committed notebooks, without traces of the machine."""

import json
import os
import sys
from pathlib import Path

from dre.errors import DreError
from dre.pipeline.fingerprint import digest
from dre.pipeline.graph import parse

COMMITTED = "public"  # the profile whose outputs the committed notebooks carry
INJECTED = "injected-parameters"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def commit_outputs(books, profile):
    """Write the outputs of the executed notebooks of `profile` into the notebooks themselves.

    Source, order and ids of the cells stay as they are. Timings, injected parameters and messages on stderr
    are left out, and paths of this machine are shortened, so two runs with equal results give the same bytes.

    Parameters
    ----------
    books : list of Notebook
    profile : Profile
        Its run must be complete.

    Returns
    -------
    list of Path
        The notebooks whose file changed.
    """
    changed = []
    for book in books:
        executed = json.loads((profile.build / "notebooks" / book.path.name).read_text(encoding="utf-8"))
        before = book.path.read_text(encoding="utf-8")
        after = _merged(json.loads(before), executed, book.path.name, profile)
        if after != before:
            part = book.path.with_suffix(".part")
            part.write_text(after, encoding="utf-8")
            os.replace(part, book.path)
            changed.append(book.path)
    return changed


def code_hash(cells):
    """Return a hash of what the code cells of a notebook (raw JSON cells) say.

    Comments and layout do not count: outputs stay true when only those, or the prose around, change.
    """
    import ast

    sources = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return digest([ast.dump(parse(source, "a cell")) for source in sources])


def _merged(notebook, executed, name, profile):
    ran = [cell for cell in executed["cells"] if INJECTED not in cell["metadata"].get("tags", ())]
    if ["".join(c["source"]) for c in ran] != ["".join(c["source"]) for c in notebook["cells"]]:
        raise DreError(f"{name} was edited after it was executed: run the same command again")
    count = 0
    for cell, source in zip(notebook["cells"], ran):
        if cell["cell_type"] != "code":
            continue
        count += 1
        cell["execution_count"] = count
        cell["outputs"] = [_clean(output, count, profile) for output in source["outputs"] if not _noise(output)]
        cell["metadata"] = {key: value for key, value in cell["metadata"].items() if key == "tags"}
    metadata = notebook["metadata"]
    metadata["dre"]["executed"] = {"profile": profile.name, "code": code_hash(notebook["cells"])}
    notebook["metadata"] = {"dre": metadata["dre"], "kernelspec": KERNEL, "language_info": {"name": "python"}}
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def _noise(output):
    return output["output_type"] == "stream" and output["name"] == "stderr"


def _clean(output, count, profile):
    output = _shortened(output, profile)
    output.pop("transient", None)
    if "execution_count" in output:
        output["execution_count"] = count
    return output


def _shortened(value, profile):
    """Return `value` (JSON types) with the folders of this machine taken out of every string."""
    if isinstance(value, dict):
        return {key: _shortened(part, profile) for key, part in value.items()}
    if isinstance(value, list):
        return [_shortened(part, profile) for part in value]
    if isinstance(value, str):
        data = os.environ.get("DRE_DATA_HOME")
        folders = {str(profile.root): ".", sys.prefix: "<python>", str(Path.home()): "~"}
        if data:
            folders = {data: "$DRE_DATA_HOME", str(Path(data).resolve()): "$DRE_DATA_HOME"} | folders
        for folder, short in folders.items():
            value = value.replace(folder, short) if len(folder) > 1 else value
    return value
