"""Figures of notebooks 04 and 05: correlations with intervals, judges through the stages, transfer."""

import matplotlib.pyplot as plt
import numpy as np

from dre.report.figure import COLOURS

FAMILIES = {  # family -> (heading, colour)
    "none": ("no training", "0.45"),
    "reference": ("against a reference", COLOURS[4]),
    "trained": ("trained metric", COLOURS[5]),
    "slm": ("SLM", COLOURS[2]),
    "LLM-only": ("LLM-only", COLOURS[0]),
    "In-DRE": ("In-DRE", COLOURS[5]),
    "Ex-DRE": ("Ex-DRE", COLOURS[1]),
    "DRE": ("DRE", COLOURS[6]),
    "SLIDE": ("SLIDE", COLOURS[3]),
}
PALE = ("none", "reference", "trained", "In-DRE")  # too light for letters
MARKERS = "osD^vPX<>*"
ROW = 0.155  # inches a line of a forest plot


def forest(panels, xlabel="Spearman correlation with people"):
    """Draw every method with its 95 % interval, one panel a domain, lines shared; published values as diamonds.

    Parameters
    ----------
    panels : dict of str to DataFrame
        Title -> ``family`` (a key of `FAMILIES`), ``label``, ``value, low, high`` and ``published`` (NaN where none).
    """
    lines = _lines(panels)
    height = max(2.2, ROW * len(lines) + 0.9)
    fig, axes = plt.subplots(
        1, len(panels), figsize=(2.3 + 2.5 * len(panels), height), sharex=True, sharey=True, squeeze=False
    )
    for ax, (title, frame) in zip(axes[0], panels.items()):
        rows = frame.set_index(["family", "label"])
        for y, (family, label) in enumerate(lines):
            if label is not None and (family, label) in rows.index:
                _whisker(ax, y, rows.loc[(family, label)], FAMILIES[family][1])
        ax.axvline(0, color="0.4", linewidth=0.8)
        ax.set(title=title, xlabel=xlabel if len(panels) == 1 else xlabel.replace(" with", "\nwith"))
        ax.grid(axis="y", visible=False)
    names = [label if label is not None else FAMILIES[family][0] for family, label in lines]
    axes[0, 0].set_yticks(range(len(lines)), names, fontsize=6.5)
    for tick, (family, label) in zip(axes[0, 0].get_yticklabels(), lines):
        tick.set_color(FAMILIES[family][1] if label is None and family not in PALE else "0.25")
        tick.set_fontweight("bold" if label is None else "normal")
    axes[0, 0].set_ylim(len(lines) - 0.4, -0.6)
    if any(frame["published"].notna().any() for frame in panels.values()):
        ours = axes[0, 0].plot([], [], "o-", color="0.3", markersize=3, linewidth=1, label="ours, 95 % interval")
        printed = axes[0, 0].plot([], [], "D", color="none", markeredgecolor="0.2", markersize=4, label="published")
        fig.legend(handles=ours + printed, loc="outside lower center", ncols=2)
    return fig


def _lines(panels):
    """(family, label) of every line from top to bottom; a family begins with a line of its own, label None."""
    lines = []
    for family in FAMILIES:
        labels = dict.fromkeys(
            label for frame in panels.values() for label in frame.loc[frame["family"] == family, "label"]
        )
        if labels:
            lines += [(family, None), *((family, label) for label in labels)]
    return lines


def _whisker(ax, y, row, colour):
    if not np.isnan(row["published"]):
        ax.plot(row["published"], y, "D", color="none", markeredgecolor="0.2", markeredgewidth=0.8, markersize=4)
    ax.plot([row["low"], row["high"]], [y, y], color=colour, linewidth=1.1)
    ax.plot(row["value"], y, "o", color=colour, markersize=3)


def stages(panels, order, rows=("paper", "ours"), ylabel="Spearman"):
    """Draw each judge from the LLM alone through the refinements to SLIDE; a column a domain, a row a source.

    Parameters
    ----------
    panels : dict of (str, str) to DataFrame
        (source, domain) -> ``judge, stage, value``.
    order : sequence of str
        The stages from left to right; a judge that lacks one is drawn across it.
    """
    sources = [source for source in rows if any(key[0] == source for key in panels)]
    domains = list(dict.fromkeys(domain for _, domain in panels))
    size = (1.6 + 2.5 * len(domains) + 1.6, 0.7 + 2.5 * len(sources))
    fig, axes = plt.subplots(len(sources), len(domains), figsize=size, squeeze=False, sharex=True, sharey=True)
    for i, source in enumerate(sources):
        style = _styles([panels[key] for key in panels if key[0] == source])
        for j, domain in enumerate(domains):
            ax = axes[i, j]
            if (source, domain) in panels:
                _journeys(ax, panels[source, domain], order, style)
            ax.axhline(0, color="0.4", linewidth=0.8)
            ax.set_xticks(range(len(order)), order, rotation=35, ha="right")
            if i == 0:
                ax.set_title(domain)
            if j == 0:
                ax.set_ylabel(f"{source}: {ylabel}")
        handles = [
            plt.Line2D([], [], label=judge, markersize=4, linewidth=1.1, **kind) for judge, kind in style.items()
        ]
        axes[i, -1].legend(handles=handles, loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=7)
    return fig


def _journeys(ax, frame, order, style):
    for judge, part in frame.groupby("judge", sort=False):
        at = sorted((order.index(stage), value) for stage, value in zip(part["stage"], part["value"]))
        ax.plot(*zip(*at), markersize=4, linewidth=1.1, **style[judge])


def _styles(frames):
    """Colour, marker and dash for each judge, the same in all panels of a row."""
    judges = dict.fromkeys(judge for frame in frames for judge in frame["judge"])
    return {
        judge: {
            "color": COLOURS[k % len(COLOURS)],
            "marker": MARKERS[k % len(MARKERS)],
            "linestyle": "-" if k < len(COLOURS) else "--",
        }
        for k, judge in enumerate(judges)
    }


def transfer(panels, labels, xlabel="Spearman correlation with people"):
    """Draw each method under SLMs trained on different data, one panel a domain: Table 5.

    Parameters
    ----------
    panels : dict of str to DataFrame
        Title -> ``method`` and one column a key of ``labels``; each with ``_low`` and ``_high``.
    labels : dict of str to str
        Column -> text of the legend.
    """
    height = max(2.4, 0.24 * max(map(len, panels.values())) + 1.2)
    size = (1.6 + 3.4 * len(panels), height)
    fig, axes = plt.subplots(1, len(panels), figsize=size, squeeze=False, sharex=True)
    for ax, (title, frame) in zip(axes[0], panels.items()):
        for k, (column, text) in enumerate(labels.items()):
            y = np.arange(len(frame)) + (k - (len(labels) - 1) / 2) * 0.24
            ax.hlines(y, frame[f"{column}_low"], frame[f"{column}_high"], color=COLOURS[k], linewidth=1)
            ax.plot(frame[column], y, MARKERS[k], color=COLOURS[k], markersize=3.5, label=text)
        ax.axvline(0, color="0.4", linewidth=0.8)
        ax.set_yticks(range(len(frame)), frame["method"], fontsize=6.5)
        ax.set(title=title, xlabel=xlabel, ylim=(len(frame) - 0.4, -0.6))
        ax.grid(axis="y", visible=False)
        # A faint band under every other method keeps the markers of a method together.
        for y in range(0, len(frame), 2):
            ax.axhspan(y - 0.5, y + 0.5, color="0.96", zorder=0)
    handles, texts = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, texts, loc="outside lower center", ncols=3)
    return fig
