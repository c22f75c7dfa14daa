"""Which cells of a notebook are folded: all that are neither an equation nor show their result.

The website folds a cell by a tag, and Colab by the field ``cellView`` of its metadata, which
`dre.paper.headless.commit` writes. A cell with tag ``formula`` or ``shown`` stays open. So does a
cell that prints what it computes, such as an exercise.
"""

import re

OPEN = frozenset({"formula", "shown"})
#: Code whose result the package, matplotlib or a file shows: a reader needs the result alone.
_SHOWN_BY_BOOK = re.compile(
    r"book\.(table|figure|data|note|say|not_run)\(|\bplt\.|\bax(es)?[.\[]|\bsetup\("
    r"|\bconversation\.show\(|\bImage\("
)


def folded_part(cell: dict) -> str:
    """Return which part of a code cell is folded.

    Parameters
    ----------
    cell : dict
        An executed code cell of a notebook's file.

    Returns
    -------
    ``"input"`` where the code is folded and the outputs are not, ``"cell"`` where there is no
    output, and ``""`` where nothing is folded.
    """
    if OPEN & set(cell["metadata"].get("tags", ())):
        return ""
    outputs = [output for output in cell["outputs"] if output.get("name") != "stderr"]
    if not outputs:
        return "cell"
    return "input" if _SHOWN_BY_BOOK.search("".join(cell["source"])) else ""


def with_colab_view(cell: dict) -> dict:
    """Return the metadata of an executed code cell, with the field that folds it on Colab."""
    metadata = {key: value for key, value in cell["metadata"].items() if key != "cellView"}
    is_setting = "parameters" in metadata.get("tags", ())  # a reader may change it there
    if folded_part(cell) and not is_setting:
        metadata["cellView"] = "form"
    return metadata
