"""The two figures of notebook 04: scores over ratings, and gains by class of judge."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from dre.datasets import ratings
from dre.paper import plots
from dre.paper.methods import Method
from dre.paper.table4 import ALL, CLASSES, PARTS, STRENGTHS, RatedScores, classes

#: How classes of judges are called in the figure; a judge of no class has its own name.
LABELS = {"open": "open judges, 6-14 B", "middle": "middle judges", "strong": "the strong judge"}
_LOOKS = {
    "judge": (plots.BLUE, "o", "gain over the judge alone"),
    "small model": (plots.GREEN, "s", "gain over the small model alone"),
    "better part": (plots.ORANGE, "D", "gain over the better part"),
}


def rating_scatter(
    scores: RatedScores, method_of: Mapping[str, Method], by_people: Mapping[str, pd.Series]
) -> Figure:
    """Draw the scores of every reply over people's mean rating: a row of panels for each method.

    Parameters
    ----------
    scores : RatedScores
    method_of : dict
        By label, a method; its first training is drawn.
    by_people : dict
        By set, whether a reply was written by a person.
    """
    looks = (
        (False, plots.BLUE, "o", "by a machine, or not known (DailyDialog)"),
        (True, plots.ORANGE, "^", "written by a person"),
    )
    size = len(method_of)
    width = len(scores.items)
    height = 2.1 * size + 0.6
    fig, axes = plt.subplots(
        size, width, figsize=(7.6, height), sharex=True, sharey="row", squeeze=False
    )
    for row_of_axes, (label, method) in zip(axes, method_of.items()):
        for ax, (name, table) in zip(row_of_axes, scores.items.items()):
            if not scores.has(name, method):
                ax.set_title(f"{ratings.RATED[name]}: not run", fontweight="normal")
                continue
            score = scores.of(name, method).iloc[:, 0]
            people = table["human"]
            for is_person, colour, marker, legend in looks:
                is_drawn = by_people[name] == is_person
                ax.scatter(
                    people[is_drawn],
                    score[is_drawn],
                    s=9,
                    alpha=0.4,
                    c=colour,
                    marker=marker,
                    linewidths=0,
                    label=legend,
                )
            correlation = score.corr(people, "spearman")
            ax.set_title(f"{ratings.RATED[name]}: {correlation:.2f}", fontweight="normal")
        row_of_axes[0].set_ylabel(f"score: {label}")
    for ax in axes[-1]:
        ax.set_xlabel("people's mean rating")
    by_label = {}
    for ax in axes.flat:
        handles, labels = ax.get_legend_handles_labels()
        by_label |= dict(zip(labels, handles))
    fig.legend(
        by_label.values(), by_label.keys(), loc="outside lower center", ncols=2, markerscale=2
    )
    return fig


def class_gains(panels: Mapping[str, pd.DataFrame], parts: Sequence[str] = PARTS) -> Figure:
    """Draw what a fusion gains over its parts: a row for each class of judges, or judge of none.

    Parameters
    ----------
    panels : dict
        By title, what `dre.paper.table4.class_means` returned for one fusion.
    parts : list of str
        What it is compared with, some of `dre.paper.table4.PARTS`.
    """
    fig, grid = plt.subplots(
        1, len(panels), figsize=(8.6, 3.0), sharex=True, sharey=True, squeeze=False
    )
    axes = grid[0]
    pooled = {*CLASSES, ALL} - {*STRENGTHS}
    means_of_all = pd.concat(list(panels.values()))
    judges = [name for name in classes(means_of_all["judges"]) if name not in pooled]
    for ax, (title, means) in zip(axes, panels.items()):
        for i, part in enumerate(parts):
            colour, marker, legend = _LOOKS[part]
            is_shown = (means["less"] == part) & means["judges"].isin(judges)
            of_part = means.loc[is_shown, :]
            y = of_part["judges"].map(judges.index) + 0.22 * (i - 1)
            plots.whiskers(ax, of_part, y, colour, "gain", marker, legend)
        ax.axvline(0, color="0.3", linewidth=0.9)
        ax.set_title(title, fontweight="normal")
        ax.grid(axis="y", visible=False)
    axes[0].set_yticks(np.arange(len(judges)), [LABELS.get(name, name) for name in judges])
    axes[0].set_ylim(len(judges) - 0.5, -0.5)
    # Few ticks, so that those of neighbouring panels do not touch.
    axes[0].xaxis.set_major_locator(MultipleLocator(0.3))
    axes[len(axes) // 2].set_xlabel("gain in Spearman correlation with people")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return fig
