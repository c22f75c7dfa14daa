"""The figure style, and the plots that several notebooks share; each takes a table and returns a figure."""

import matplotlib.pyplot as plt
import numpy as np
import seaborn

# Okabe and Ito (2008), without the yellow that vanishes on white; black last.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
BLUE, ORANGE, GREEN, PURPLE = COLOURS[:4]
AXES = {"edgecolor": "0.3", "linewidth": 0.8, "titlesize": 10, "titleweight": "bold", "labelsize": 9}
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
MODELS = {True: ("with disentanglement", BLUE), False: ("without", ORANGE)}
KINDS = {"c": ("context", BLUE, "*", 110), "p": ("positive", ORANGE, "o", 26), "a": ("adversarial", GREEN, "s", 24)}
ACCURACIES = {
    "positive": ("positive accepted", BLUE, "-"),
    "adversarial": ("adversarial rejected", ORANGE, "-"),
    "overall": ("overall (mean of the two)", "black", "-"),
    "random_rejected": ("random negative rejected", PURPLE, "--"),
}


def style():
    """Set the style of every figure: white grid, colours that colour-blind people tell apart, thin spines."""
    seaborn.set_theme(context="paper", style="whitegrid", palette=list(COLOURS), font="DejaVu Sans", rc=STYLE)


def curves(table, loss, accuracy):
    """Draw a loss and an accuracy by epoch, one column per data set: Figures 3 and 4.

    ``table`` has ``set, disentangled`` (bool), ``split`` (train or dev), ``epoch``; ``loss`` and ``accuracy`` (a share,
    drawn in percent) are its column and the axis label. A line is the mean of an epoch's rows (seeds), the faint dots.
    """
    sets = table["set"].unique()
    fig, axes = plt.subplots(2, len(sets), squeeze=False, sharex="col", sharey="row")
    fig.set_size_inches(max(3.0 * len(sets), 4.2), 4.6)
    for (row, column), ax in np.ndenumerate(axes):
        name, label = (loss, accuracy)[row]
        values = table.assign(y=table[name] * (100 if row else 1))[table["set"] == sets[column]]
        for (disentangled, split), rows in values.groupby(["disentangled", "split"], sort=False):
            (text, colour), mean = MODELS[disentangled], rows.groupby("epoch")["y"].mean()
            ax.plot(rows["epoch"], rows["y"], ".", color=colour, markersize=4, alpha=0.35)
            line = "-" if split == "dev" else ":"
            ax.plot(mean.index, mean, line, color=colour, marker="o", markersize=3, label=f"{text}, {split}")
        ax.set_xticks(sorted(values["epoch"].unique()))
        axes[0, column].set_title(sets[column])
        axes[1, column].set_xlabel("epoch (0: before training)")
        axes[row, 0].set_ylabel(label)
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return fig


def projections(points):
    """Draw Figure 5 from ``context_id, view, kind`` (c, p or a), ``x, y`` (in [-1, 1]): a row of panels per view."""
    contexts, views = points["context_id"].unique(), points["view"].unique()
    size = (2.3 * len(contexts), 2.3 * len(views) + 0.3)
    fig, axes = plt.subplots(len(views), len(contexts), figsize=size, squeeze=False)
    for (row, column), ax in np.ndenumerate(axes):
        part = points[(points["view"] == views[row]) & (points["context_id"] == contexts[column])]
        for kind, (label, colour, marker, area) in KINDS.items():
            rows, shape = part[part["kind"] == kind], {"marker": marker, "edgecolors": "white", "linewidths": 0.5}
            ax.scatter(rows["x"], rows["y"], s=area, c=colour, label=label, zorder=4 if kind == "c" else 3, **shape)
        ax.set(xticks=[], yticks=[], xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), aspect="equal")
        ax.spines[["top", "right"]].set_visible(True)
        axes[0, column].set_title(contexts[column], fontsize=7, fontweight="normal")
        axes[row, 0].set_ylabel(views[row])
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return fig


def thresholds(curves, chosen, printed):
    """Draw Figure 6: accuracies over thresholds, one panel per score.

    By score: ``curves`` of ``dre.classification.threshold_curve``; ``chosen`` on dev, dotted; any ``printed``, dashed.
    """
    fig, axes = plt.subplots(1, len(curves), figsize=(3.1 * len(curves), 3.1), sharey=True, squeeze=False)
    for ax, (name, curve) in zip(axes[0], curves.items()):
        for column, (label, colour, line) in ACCURACIES.items():
            ax.plot(curve["threshold"], curve[column], line, color=colour, label=label)
        ax.axvline(chosen[name], color="0.4", linewidth=1, linestyle=":", label="chosen on dev")
        if name in printed:
            ax.axvline(printed[name], color="0.4", linewidth=1, linestyle="--", label="printed in the paper")
        ax.set(title=name, xlabel="threshold", ylim=(0, 100))
    axes[0, 0].set_ylabel("accuracy on test (%)")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return fig


def whiskers(ax, table, y, colour=BLUE, value="value", marker="o", label=None):
    """Draw a dot with its interval for each row of a table, at heights ``y``; ``colour``: one, or one per row.

    The interval is ``<value>_low, <value>_high`` or, where the table has no such columns, ``low, high``.
    """
    low, high = (f"{value}_{end}" if f"{value}_{end}" in table else end for end in ("low", "high"))
    colours = [colour] * len(table) if isinstance(colour, str) else list(colour)
    ax.hlines(y, table[low], table[high], colors=colours, linewidth=1.1)
    ax.scatter(table[value], y, c=colours, s=16, marker=marker, label=label, zorder=3)


def forest(panels, value="value", colours=None):
    """Draw correlations with their 95 % intervals, one panel per data set, lines shared; published ones as diamonds.

    ``panels``: title -> DataFrame of ``label``, ``value`` with its interval (see `whiskers`), ``family`` (whose rows
    share a colour) and, if any, ``published``. A label that a panel lacks is an empty line there.
    """
    rows = [row for table in panels.values() for row in zip(table["label"], table["family"])]
    labels, families = (list(dict.fromkeys(column)) for column in zip(*rows))
    colours = colours or {family: COLOURS[i % len(COLOURS)] for i, family in enumerate(families)}
    size = (2.3 + 2.5 * len(panels), max(2.2, 0.19 * len(labels) + 1.1))
    fig, axes = plt.subplots(1, len(panels), figsize=size, sharex=True, sharey=True, squeeze=False)
    for ax, (title, table) in zip(axes[0], panels.items()):
        y = table["label"].map(labels.index).to_numpy()
        whiskers(ax, table, y, [colours[family] for family in table["family"]], value)
        if "published" in table:
            ax.plot(table["published"], y, "D", color="none", markeredgecolor="0.2", markersize=4, label="published")
        ax.axvline(0, color="0.4", linewidth=0.8)
        ax.set(title=title, xlabel="Spearman correlation\nwith people")
        ax.grid(axis="y", visible=False)
    axes[0, 0].set_yticks(np.arange(len(labels)), labels, fontsize=7)
    axes[0, 0].set_ylim(len(labels) - 0.4, -0.6)
    marks = [plt.Line2D([], [], color=colours[f], marker="o", markersize=4, linewidth=1, label=f) for f in families]
    fig.legend(handles=marks + axes[0, 0].get_legend_handles_labels()[0], loc="outside lower center", ncols=3)
    return fig
