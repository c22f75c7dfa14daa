"""The case studies, drawn from the table of their scores."""

import matplotlib.pyplot as plt

from dre.report.figure import COLOURS

RESPONSES = {1: ("response 1 (fits)", COLOURS[0], "o", -0.14), 2: ("response 2", COLOURS[1], "s", 0.14)}


def cases(long, titles, scales):
    """Draw every score: a panel a design, a row a metric, a mark a response; the line is half of the scale.

    Parameters
    ----------
    long : DataFrame
        ``design, metric, number`` (1 or 2), ``score``.
    titles : dict of str to str
        By design, in order.
    scales : dict of str to (float, float)
        Lowest and highest score by design.
    """
    metrics = list(dict.fromkeys(long["metric"]))
    size = (3.4 * len(titles), 0.36 * len(metrics) + 1.3)
    fig, axes = plt.subplots(1, len(titles), figsize=size, sharey=True, squeeze=False)
    for ax, (design, title) in zip(axes[0], titles.items()):
        part, (low, high) = long[long["design"] == design], scales[design]
        for number, (label, colour, marker, shift) in RESPONSES.items():
            rows = part[part["number"] == number]
            at = rows["metric"].map(metrics.index) + shift
            ax.scatter(rows["score"], at, s=20, c=colour, marker=marker, label=label, alpha=0.75, linewidths=0)
        ax.axvline((low + high) / 2, color="0.4", linewidth=1, linestyle=":", label="half of the scale")
        margin = 0.04 * (high - low)
        ax.set(title=title, xlim=(low - margin, high + margin), xlabel=f"score ({low} to {high})")
        ax.grid(axis="y", visible=False)
    axes[0, 0].set(yticks=range(len(metrics)), yticklabels=metrics, ylim=(len(metrics) - 0.5, -0.5))
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return fig
