"""Figures of notebook 07: contexts exchanged, the parts of a score's variance, before and after training."""

import matplotlib.pyplot as plt
import numpy as np

from dre.report.figure import COLOURS

FAMILIES = {"blind": "0.45", "untrained": COLOURS[4]}
RECIPES = (COLOURS[2], COLOURS[1], COLOURS[0], COLOURS[3])
PARTS = {  # column -> (words, colour, hatch)
    "response": ("the response alone", COLOURS[1], ""),
    "context": ("the context alone", COLOURS[5], "///"),
    "interaction": ("the two together", COLOURS[0], ""),
}
ROW = 0.27  # inches a line


def _colours(table):
    """The colour of each line: one for what reads no context, one for the untrained encoder, one for each SLM."""
    slms = list(dict.fromkeys(table.loc[table["family"] == "slm", "model"]))
    own = {model: RECIPES[i % len(RECIPES)] for i, model in enumerate(slms)}
    return [own.get(model) or FAMILIES[family] for model, family in zip(table["model"], table["family"])]


def _lines(ax, table):
    """Name the lines from top to bottom by model and score."""
    ax.set_yticks(range(len(table)), [f"{model}: {score}" for model, score in zip(table["model"], table["score"])])
    ax.set_ylim(len(table) - 0.4, -0.6)
    ax.grid(axis="y", visible=False)


def swaps(table):
    """Draw the swap test, a line a score: how often it falls, and what is accepted before and after.

    Parameters
    ----------
    table : DataFrame
        ``model, family`` (``blind``, ``untrained`` or ``slm``), ``score``; ``falls, own, other`` in percent, each
        with ``_low, _high``.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(8.2, ROW * len(table) + 1.4), sharey=True)
    at, colours = np.arange(len(table)), _colours(table)
    left.axvline(50, color="0.2", linewidth=1, linestyle="--")
    left.hlines(at, table["falls_low"], table["falls_high"], colors=colours)
    left.scatter(table["falls"], at, c=colours, s=22, zorder=3)
    left.set(title="Does the score fall?", xlabel="pairs whose score falls in another\nconversation (%)")
    left.set_xlim(min(40, table["falls_low"].min() - 2), 101)
    left.text(51, 0.0, "50 %: context not read", ha="left", va="center", fontsize=7, color="0.2")
    for shift, column, face in ((-0.12, "own", None), (0.12, "other", "white")):
        right.hlines(at + shift, table[f"{column}_low"], table[f"{column}_high"], colors=colours, linewidth=1)
        right.scatter(
            table[column], at + shift, s=22, zorder=3, edgecolors=colours, facecolors=face or colours, linewidths=1.1
        )
    right.set(title="Is the response accepted?", xlabel="positive responses accepted (%)", xlim=(-2, 102))
    _lines(left, table)
    right.grid(axis="y", visible=False)
    marks = [
        plt.Line2D(
            [], [], marker="o", linestyle="", color="0.3", markersize=4.5, label="right panel: in its own conversation"
        ),
        plt.Line2D(
            [],
            [],
            marker="o",
            linestyle="",
            color="0.3",
            markerfacecolor="white",
            markersize=4.5,
            label="right panel: in another",
        ),
    ]
    fig.legend(handles=marks, loc="outside lower center", ncols=2)
    return fig


def variance(table):
    """Draw the shares of variance, a bar a score.

    Parameters
    ----------
    table : DataFrame
        ``model, score``; ``response, context, interaction`` in percent.
    """
    fig, ax = plt.subplots(figsize=(7.2, ROW * len(table) + 1.2))
    left = np.zeros(len(table))
    for column, (label, colour, hatch) in PARTS.items():
        ax.barh(
            range(len(table)), table[column], left=left, height=0.68, color=colour, hatch=hatch, edgecolor="white",
            linewidth=0.5, label=label,
        )  # fmt: skip
        left += table[column].fillna(0).to_numpy()
    _lines(ax, table)
    ax.set(xlabel="share of the variance of the score (%)", xlim=(0, 100))
    fig.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return fig


def ratings(table):
    """Draw the correlation with people, a panel a domain; the dashed line is the untrained encoder's.

    Parameters
    ----------
    table : DataFrame
        ``domain, model, family`` (as for `swaps`), ``score``; ``spearman`` with ``_low, _high``; every domain has
        the same lines.
    """
    panels = list(table.groupby("domain", sort=False))
    size = (2.6 + 2.3 * len(panels), ROW * len(panels[0][1]) + 1.1)
    fig, axes = plt.subplots(1, len(panels), figsize=size, sharex=True, sharey=True, squeeze=False)
    for ax, (domain, rows) in zip(axes[0], panels):
        at, colours = np.arange(len(rows)), _colours(rows)
        ax.axvline(0, color="0.4", linewidth=0.8)
        for value in rows.loc[rows["family"] == "untrained", "spearman"]:
            ax.axvline(value, color=FAMILIES["untrained"], linewidth=1, linestyle="--")
        ax.hlines(at, rows["spearman_low"], rows["spearman_high"], colors=colours)
        ax.scatter(rows["spearman"], at, c=colours, s=20, zorder=3)
        ax.set(title=domain, xlabel="Spearman correlation\nwith people")
        ax.grid(axis="y", visible=False)
    _lines(axes[0, 0], panels[0][1])
    dashed = plt.Line2D([], [], color=FAMILIES["untrained"], linestyle="--", linewidth=1, label="encoder, untrained")
    fig.legend(handles=[dashed], loc="outside lower center")
    return fig
