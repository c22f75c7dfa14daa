"""Figures 3 to 6, drawn from tables."""

import matplotlib.pyplot as plt

from dre.report.figure import COLOURS

BLUE, ORANGE, GREEN, PURPLE = COLOURS[:4]
MODELS = {True: ("with disentanglement", BLUE), False: ("without", ORANGE)}
KINDS = {
    "c": ("context", BLUE, "*", 110),
    "p": ("positive", ORANGE, "o", 26),
    "a": ("adversarial", GREEN, "s", 24),
}
ACCURACIES = {
    "positive": ("positive accepted", BLUE, "-"),
    "adversarial": ("adversarial rejected", ORANGE, "-"),
    "overall": ("overall (mean of the two)", "black", "-"),
    "random_rejected": ("random negative rejected", PURPLE, "--"),
}


def training_curves(table, loss, accuracy, labels):
    """Draw a loss and an accuracy by epoch, one column a data set: Figures 3 and 4.

    Parameters
    ----------
    table : DataFrame
        ``set, disentangled, split`` (train or dev), ``epoch``, and the columns ``loss`` and ``accuracy``; several
        rows for one point (seeds) are averaged.
    loss, accuracy : (str, str)
        Column and axis label.
    """
    sets = list(dict.fromkeys(table["set"]))
    size = (max(3.0 * len(sets), 4.2), 4.6)
    fig, axes = plt.subplots(2, len(sets), figsize=size, squeeze=False, sharex="col", sharey="row")
    for j, name in enumerate(sets):
        part = table[table["set"] == name]
        for i, (column, label) in enumerate((loss, accuracy)):
            ax = axes[i, j]
            for (disentangled, split), rows in part.groupby(["disentangled", "split"], sort=False):
                text, colour = MODELS[disentangled]
                mean = rows.groupby("epoch")[column].mean() * (100 if i else 1)
                style = "-" if split == "dev" else ":"
                ax.plot(
                    mean.index,
                    mean,
                    style,
                    color=colour,
                    marker="o",
                    markersize=3,
                    label=f"{text}, {labels[split]}",
                )
            ax.set_xticks(sorted(part["epoch"].unique()))
            if j == 0:
                ax.set_ylabel(label)
        axes[0, j].set_title(name)
        axes[1, j].set_xlabel("epoch (0: before training)")
    handles, texts = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, texts, loc="outside lower center", ncols=2)
    return fig


def projections(points):
    """Draw Figure 5: a column a context, the top row before, the bottom row after disentanglement."""
    contexts = list(dict.fromkeys(points["context_id"]))
    views = ("Normal", "Disentangled")
    fig, axes = plt.subplots(2, len(contexts), figsize=(2.3 * len(contexts), 4.8), squeeze=False)
    for i, view in enumerate(views):
        for j, context in enumerate(contexts):
            ax, part = axes[i, j], points[(points["view"] == view) & (points["context_id"] == context)]
            for kind, (label, colour, marker, size) in KINDS.items():
                rows = part[part["kind"] == kind]
                ax.scatter(
                    rows["x"],
                    rows["y"],
                    s=size,
                    c=colour,
                    marker=marker,
                    label=label,
                    edgecolors="white",
                    linewidths=0.5,
                    zorder=4 if kind == "c" else 3,
                )
            ax.set(xticks=[], yticks=[], xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), aspect="equal")
            ax.spines[["top", "right"]].set_visible(True)
            if i == 0:
                ax.set_title(context, fontsize=7, fontweight="normal")
            if j == 0:
                ax.set_ylabel(view)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=3)
    return fig


def thresholds(curves, chosen):
    """Draw Figure 6: accuracies over thresholds, a panel a score.

    Parameters
    ----------
    curves : dict of str to DataFrame
        For each score the table of ``dre.classification.threshold_curve``.
    chosen : dict of str to float
        The threshold chosen on dev, drawn as a vertical line.
    """
    fig, axes = plt.subplots(1, len(curves), figsize=(3.1 * len(curves), 3.1), sharey=True, squeeze=False)
    for ax, (name, curve) in zip(axes[0], curves.items()):
        for column, (label, colour, style) in ACCURACIES.items():
            ax.plot(curve["threshold"], curve[column], style, color=colour, label=label)
        ax.axvline(chosen[name], color="0.4", linewidth=1, linestyle=":", label="chosen on dev")
        ax.set(title=name, xlabel="threshold", ylim=(0, 100))
    axes[0, 0].set_ylabel("accuracy on test (%)")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=3)
    return fig
