"""The figure style, and the plots that several notebooks share (each takes a table)."""

from collections.abc import Mapping, Sequence
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


def gain_curves(
    ax: Axes,
    grid: pd.DataFrame,
    value: str,
    looks: Mapping[str, Look],
    levels: Mapping[str, float] | None = None,
    line: str = "-",
    with_band: bool = True,
) -> None:
    """Draw what a fusion gains by how well its small model agrees with people.

    Parameters
    ----------
    ax : Axes
    grid : DataFrame
        With the columns ``judges`` (a class of judges), ``level`` and the gain; every pair of a set
        and a judge counts alike.
    value : str
        The column of the gain.
    looks : dict
        By class of judges: a colour, and a marker on the line.
    levels : dict, optional
        By name, where real small models are: dotted lines.
    line : str
        A line style of matplotlib.
    with_band : bool
        Whether a band shows the middle 80 % of draws, sets and judges.
    """
    for judges, rows in grid.groupby("judges", sort=False):
        by_level = rows.groupby("level")[value]
        means = pd.Series(by_level.mean())
        x = np.asarray(means.index)
        colour, marker, _ = looks[str(judges)]
        label = f"{judges} judge{'' if judges == 'strong' else 's'}"
        marks = {"marker": marker, "markersize": 4, "markevery": max(1, len(x) // 5)}
        ax.plot(x, np.asarray(means), line, color=colour, linewidth=1.4, label=label, **marks)
        if with_band:
            low = np.asarray(by_level.quantile(0.1))
            high = np.asarray(by_level.quantile(0.9))
            ax.fill_between(x, low, high, color=colour, alpha=0.13, linewidth=0)
    ax.axhline(0, color="0.3", linewidth=0.9)
    for name, level in (levels or {}).items():
        ax.axvline(level, color="0.55", linewidth=0.8, linestyle=":")
        ax.annotate(
            name,
            (level, 0.02),
            xycoords=("data", "axes fraction"),
            xytext=(3, 0),
            textcoords="offset points",
            fontsize=8,
            color="0.35",
        )
