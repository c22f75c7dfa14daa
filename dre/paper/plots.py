"""The figure style, and the plots that several notebooks share (each takes a table)."""

import matplotlib.pyplot as plt
import numpy as np
import seaborn

# Okabe and Ito (2008), without the yellow that vanishes on white; black last.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
BLUE, ORANGE, GREEN, PURPLE = COLOURS[:4]
AXES = {
    "edgecolor": "0.3",
    "linewidth": 0.8,
    "titlesize": 10,
    "titleweight": "bold",
    "labelsize": 9,
}
STYLE = {f"axes.{name}": value for name, value in AXES.items()} | {
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
    "pdf.fonttype": 42,  # TrueType: text in the PDF stays text
}


def style():
    """Set the style of every figure: white grid, colours that colour-blind people tell apart, thin spines."""
    seaborn.set_theme(
        context="paper", style="whitegrid", palette=list(COLOURS), font="DejaVu Sans", rc=STYLE
    )


def whiskers(ax, table, y, colour=BLUE, value="value", marker="o", label=None, upright=False):
    """Draw ``value`` with its interval, ``<value>_low`` to ``_high``, for each row of a table, at heights ``y``.

    ``colour``: one, or one per row. ``upright``: the intervals stand, at places ``y`` from left to right.
    """
    colours = [colour] * len(table) if isinstance(colour, str) else list(colour)
    lines, at = (ax.vlines, (y, table[value])) if upright else (ax.hlines, (table[value], y))
    lines(y, table[f"{value}_low"], table[f"{value}_high"], colors=colours, linewidth=1.1)
    ax.scatter(*at, c=colours, s=16, marker=marker, label=label, zorder=3)


def forest(panels, value=None, colours=None):
    """Draw correlations with their 95 % intervals, one panel per data set, lines shared; printed ones as diamonds.

    ``panels``: title -> DataFrame of ``label``, ``family`` (whose rows share a colour), ``value`` (by default the
    title) as `whiskers` takes it, and ``<value>_printed``, if any. A label that a panel lacks is an empty line there.
    """
    rows = [row for table in panels.values() for row in zip(table["label"], table["family"])]
    labels, families = (list(dict.fromkeys(column)) for column in zip(*rows))
    colours = colours or {family: COLOURS[i % len(COLOURS)] for i, family in enumerate(families)}
    across = min(4, len(panels))
    down = -(-len(panels) // across)
    size = (2.3 + 2.5 * across, max(2.2, 0.19 * len(labels) + 0.8) * down + 0.3)
    fig, axes = plt.subplots(down, across, figsize=size, sharex=True, sharey=True, squeeze=False)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    for ax in axes.flat[len(panels) - across : len(panels)]:
        ax.tick_params(labelbottom=True)
        ax.set_xlabel("Spearman correlation\nwith people")
    for ax, (title, table) in zip(axes.flat, panels.items()):
        y = table["label"].map(labels.index).to_numpy()
        column = value or title
        whiskers(ax, table, y, [colours[family] for family in table["family"]], column)
        if f"{column}_printed" in table:
            printed = table[f"{column}_printed"]
            ax.plot(
                printed, y, "D", color="none", markeredgecolor="0.2", markersize=4, label="in print"
            )
        ax.axvline(0, color="0.4", linewidth=0.8)
        ax.set(title=title)
        ax.grid(axis="y", visible=False)
        ax.tick_params(axis="y", labelsize=8 if len(labels) > 12 else 9)
    axes[0, 0].set_yticks(np.arange(len(labels)), labels)
    axes[0, 0].set_ylim(len(labels) - 0.4, -0.6)
    marks = [
        plt.Line2D([], [], color=colours[f], marker="o", markersize=4, linewidth=1, label=f)
        for f in families
    ]
    fig.legend(
        handles=marks + axes[0, 0].get_legend_handles_labels()[0],
        loc="outside lower center",
        ncols=3,
    )
    return fig
