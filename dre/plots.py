"""The figure style, the plots that several notebooks share (each takes a table), and Figure 1, drawn from code."""

import matplotlib.pyplot as plt
import numpy as np
import seaborn
from matplotlib.colors import to_rgb
from matplotlib.patches import FancyBboxPatch

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


def style():
    """Set the style of every figure: white grid, colours that colour-blind people tell apart, thin spines."""
    seaborn.set_theme(context="paper", style="whitegrid", palette=list(COLOURS), font="DejaVu Sans", rc=STYLE)


def whiskers(ax, table, y, colour=BLUE, value="value", marker="o", label=None):
    """Draw ``value`` with its interval, ``<value>_low`` to ``_high``, for each row of a table, at heights ``y``.

    ``colour``: one, or one per row.
    """
    colours = [colour] * len(table) if isinstance(colour, str) else list(colour)
    ax.hlines(y, table[f"{value}_low"], table[f"{value}_high"], colors=colours, linewidth=1.1)
    ax.scatter(table[value], y, c=colours, s=16, marker=marker, label=label, zorder=3)


def forest(panels, value="value", colours=None):
    """Draw correlations with their 95 % intervals, one panel per data set, lines shared; published ones as diamonds.

    ``panels``: title -> DataFrame of ``label``, ``value`` with its interval (see `whiskers`), ``family`` (whose rows
    share a colour) and, if any, ``published``. A label that a panel lacks is an empty line there.
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
        whiskers(ax, table, y, [colours[family] for family in table["family"]], value)
        if "published" in table:
            ax.plot(table["published"], y, "D", color="none", markeredgecolor="0.2", markersize=4, label="published")
        ax.axvline(0, color="0.4", linewidth=0.8)
        ax.set(title=title)
        ax.grid(axis="y", visible=False)
        ax.tick_params(axis="y", labelsize=7 if len(labels) > 12 else 9)
    axes[0, 0].set_yticks(np.arange(len(labels)), labels)
    axes[0, 0].set_ylim(len(labels) - 0.4, -0.6)
    marks = [plt.Line2D([], [], color=colours[f], marker="o", markersize=4, linewidth=1, label=f) for f in families]
    fig.legend(handles=marks + axes[0, 0].get_legend_handles_labels()[0], loc="outside lower center", ncols=3)
    return fig


POSITIVE, NEGATIVE, PULL, CLASSIFY, PUSH = COLOURS[:5]
BLACK, GREY = "#000000", "#57606a"


def architecture():
    """Draw Figure 1: SLM training on the left, evaluation by SLIDE and DRE (Eq. 26 with s_c) on the right."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(13.6, 5.4), width_ratios=[11.2, 10.8])
    for ax, title, width in ((left, "Training the SLM", 11.2), (right, "Evaluating a response", 10.8)):
        ax.set(xlim=(0, width), ylim=(0, 8.2), aspect="equal")
        ax.axis("off")
        ax.set_title(title, fontsize=12, loc="left")
    _training(left)
    _evaluation(right)
    return fig


def _training(ax):
    texts = {
        "p": ("positive $p$", POSITIVE, 6.5, (("pn", 7.4), ("pr", 5.6))),
        "c": ("context $c$", BLACK, 4.2, ()),
        "a": ("adversarial\nnegative $a$", NEGATIVE, 1.9, (("ar", 2.8), ("an", 1.0))),
    }
    for key, (name, colour, y, parts) in texts.items():
        _box(ax, 0.95, y, 1.7, 0.9, name, colour)
        _arrow(ax, (1.8, y), (2.3, y))
        _arrow(ax, (3.2, y), (3.7, y))
        _box(ax, 4.1, y, 0.8, 0.7, f"$h_{key}$", colour, fill=0.16)
        _arrow(ax, (4.5, y), (4.95 if parts else 8.85, y))
        if parts:
            _box(ax, 5.3, y, 0.7, 0.7, "sep", GREY)
        for part, at in parts:
            label, fill = {"pr": ("class 1", 0.16), "ar": ("class 0", 0.16)}.get(part, ("class 2", 0.0))
            _arrow(ax, (5.65, y), (6.3, at))
            _box(ax, 6.75, at, 0.9, 0.66, f"$h_{{{part}}}$", colour, fill)
            _arrow(ax, (7.2, at), (8.85, at))
            _text(ax, 8.72, at + 0.08, label, GREY, 8, ha="right", va="bottom")
    _box(ax, 2.75, 4.2, 0.9, 5.5, "encoder (shared)", GREY, rotation=90)
    _box(ax, 9.3, 4.2, 0.9, 7.06, "classifier: softmax(linear($h_c$, $h_{res}$))", GREY, rotation=90)
    _arrow(ax, (9.75, 4.2), (10.2, 4.2))
    _text(ax, 10.25, 4.2, "$L_{cls}$\n(15)", CLASSIFY)
    # A loss stands between the two vectors it compares, here from the lower to the upper one.
    for x, low, high, colour, at, loss in (
        (4.1, 4.55, 6.15, PULL, 5.35, "$L_{out}$ (12)"),
        (4.1, 2.25, 3.85, PUSH, 3.05, "$L_{out}$ (12)"),
        (6.75, 5.93, 7.07, PUSH, 6.5, r"$L_{ins}^{\,pos}$ (13)"),
        (6.75, 3.13, 5.27, PUSH, 4.75, r"$L_{out}^{\,robust}$ (13)"),
        (6.75, 1.33, 2.47, PUSH, 1.9, r"$L_{ins}^{\,neg}$ (13)"),
    ):
        _arrow(ax, (x, low), (x, high), "<->", colour, 1.5)
        _text(ax, x + 0.12, at, loss, colour)
    total = r"$L = L_{out} + L_{ins}^{\,pos} + L_{ins}^{\,neg} + L_{out}^{\,robust} + L_{cls}$   (16)"
    _text(ax, 0.1, 0.05, total, size=9.5, va="bottom")
    for x, text, colour in ((5.9, "pull together", PULL), (8.2, "push apart", PUSH)):
        _arrow(ax, (x, 0.17), (x + 0.45, 0.17), "<->", colour, 1.5)
        _text(ax, x + 0.52, 0.17, text, colour)


def _evaluation(ax):
    for y, height, name in ((5.0, 3.1, "SLIDE"), (0.1, 3.3, "DRE")):
        _box(ax, 6.55, y + height / 2, 8.3, height, "", GREY, fill=0.09, edge=False)
        _text(ax, 2.6, y + height - 0.3, name, size=11, weight="bold")
    scores = "distance $s_d$, probability $s_p$\n" + r"Score$_{SLM} = 1 - s_d + s_p$ (17–19)"
    rule = "by a rule (23):\nSLM's, LLM's,\nor their mean"
    refined = "exterior refinement:\n$s_c\\;\\cdot$ Score$_{LLM}$ (26)\nas it is read here"
    _box(ax, 0.95, 4.2, 1.7, 1.1, "context $c$,\nresponse $r$", BLACK)
    for y, start, colour in ((6.5, 4.45, NEGATIVE), (4.2, 4.2, POSITIVE), (1.55, 3.95, NEGATIVE)):
        _arrow(ax, (1.8, start), (2.75, y))
        _box(ax, 3.3, y, 1.1, 0.8, "SLM" if colour == POSITIVE else "LLM", colour, fill=0.16, size=11)
        _arrow(ax, (3.85, y), (4.4, y))
    _box(ax, 6.0, 4.2, 3.2, 1.1, scores, POSITIVE)
    for y, score, text, size in ((6.5, "Score$_{LLM}$", rule, 9), (1.55, "Score$_{LLM}$, $s_{Inf}$", refined, 8.5)):
        _box(ax, 5.4, y, 2.0, 0.8, score, NEGATIVE)
        _arrow(ax, (6.4, y), (7.3, y))
        _box(ax, 8.35, y, 2.1, 1.5, text, GREY, size=size)
        _arrow(ax, (9.4, y), (9.85, y))
        _text(ax, 9.92, y, "Score", size=10)
    _text(ax, 3.3, 5.72, "LLM-only\nprompt", GREY, 8, ha="center")
    _arrow(ax, (7.3, 4.75), (7.9, 5.75))
    _arrow(ax, (7.3, 3.65), (7.9, 2.3))
    _text(ax, 7.75, 2.95, "$s_c =$ Score$_{SLM}$")
    _arrow(ax, (4.75, 3.62), (3.75, 1.95))
    _text(ax, 4.5, 2.75, "interior refinement:\n$s_d$, $s_p$ in the prompt", GREY, 8.5)


def _box(ax, x, y, width, height, text, colour, fill=0.03, rotation=0, size=9, edge=True):
    """Draw a rounded box centred on (x, y), filled with its colour at opacity `fill`."""
    corner, shape = (x - width / 2, y - height / 2), "round,pad=0,rounding_size=0.12"
    style = {"fc": (*to_rgb(colour), fill), "ec": colour if edge else "none", "lw": 1.2}
    ax.add_patch(FancyBboxPatch(corner, width, height, boxstyle=shape, **style))
    ax.text(x, y, text, ha="center", va="center", rotation=rotation, fontsize=size, linespacing=1.35)


def _arrow(ax, start, end, head="-|>", colour=GREY, width=1.1):
    style = {"arrowstyle": head, "color": colour, "lw": width, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", end, start, arrowprops=style)


def _text(ax, x, y, text, colour=None, size=9, ha="left", va="center", **style):
    ax.text(x, y, text, color=colour, fontsize=size, ha=ha, va=va, **style)
