"""The figure style, and the plots that several notebooks share (each takes a table)."""

from collections.abc import Sequence
from typing import NamedTuple

import matplotlib
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes

# Okabe and Ito (2008), without the yellow that vanishes on white; black last.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
BLUE, ORANGE, GREEN, PURPLE = COLOURS[:4]


class Look(NamedTuple):
    """How something is drawn in every figure: in grey, marker and line tell it from others."""

    colour: str
    marker: str
    line: str


#: Kinds of replies.
KIND_LOOKS = {
    "context": Look("#000000", "*", "-"),
    "positive": Look(BLUE, "o", "-"),
    "adversarial": Look(ORANGE, "^", "--"),
    "random": Look(PURPLE, "s", "-."),
}
#: Classes of judges.
JUDGE_LOOKS = {
    "open": Look(GREEN, "o", "-"),
    "middle": Look(PURPLE, "s", "--"),
    "strong": Look(BLUE, "^", "-."),
}
_STYLE = {
    "axes.edgecolor": "0.3",
    "axes.linewidth": 0.8,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "figure.titlesize": 10,
    "figure.titleweight": "bold",
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "grid.color": "0.9",
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.6,
    "figure.constrained_layout.use": True,
    "figure.dpi": 110,
}


def style() -> None:
    """Set the style of every figure; colour-blind people can tell its colours apart."""
    matplotlib.rcdefaults()  # a user's own settings, such as usetex, may need what is not here
    seaborn.set_theme(
        context="paper", style="whitegrid", palette=list(COLOURS), font="DejaVu Sans", rc=_STYLE
    )


def whiskers(
    ax: Axes,
    table: pd.DataFrame,
    y: Sequence[float] | np.ndarray | pd.Series | pd.Index,
    colour: str | Sequence[str] | pd.Series = BLUE,
    value: str = "value",
    marker: str = "o",
    label: str | None = None,
    upright: bool = False,
    filled: bool = True,
) -> None:
    """Draw a number with its interval for each row of a table.

    Parameters
    ----------
    ax : Axes
    table : DataFrame
        With the columns ``<value>``, ``<value>_low`` and ``<value>_high``.
    y : sequence of float
        The height of each row; with `upright` its place from left to right.
    colour : str or sequence of str
        One colour, or one for each row.
    upright : bool
        Whether the intervals are vertical.
    filled : bool
        Whether the marks are full, or hollow.
    """
    colours = [colour] * len(table) if isinstance(colour, str) else list(colour)
    low = table[f"{value}_low"]
    high = table[f"{value}_high"]
    look = {"s": 18, "marker": marker, "label": label, "zorder": 3, "edgecolors": colours}
    look["facecolors"] = colours if filled else "white"
    if upright:
        ax.vlines(y, low, high, colors=colours, linewidth=1.1)
        ax.scatter(y, table[value], **look)
    else:
        ax.hlines(y, low, high, colors=colours, linewidth=1.1)
        ax.scatter(table[value], y, **look)
