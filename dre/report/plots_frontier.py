"""Figures of notebook 08: what each fusion gains over the better of its parts, and what a correlation costs."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from dre.report.figure import COLOURS

MARKERS = "osD^vPX<>*"
#: choice -> is its mark filled?
CHOICES = {"judge alone": False, "fusion": True}
#: where "free" and "no list price" stand beside a logarithmic axis, in decades from its ends
ASIDE = 1.1


def gains(table, xlabel, ylabel, weak):
    """Draw each fusion's difference from the better of its parts over the strength of the judge, one panel a fusion.

    Parameters
    ----------
    table : DataFrame
        ``method, domain, llm`` (the judge alone), ``difference, difference_low, difference_high``.
    weak : float
        Below it a judge counts as weak.
    """
    methods, sets = list(dict.fromkeys(table["method"])), list(dict.fromkeys(table["domain"]))
    rows = -(-len(methods) // 2)
    # A row has its own range: a fusion that loses much must not hide what happens near 0.
    fig, axes = plt.subplots(rows, 2, figsize=(7.2, 0.7 + 2.5 * rows), sharex=True, sharey="row", squeeze=False)
    for ax in axes.flat[len(methods) :]:
        ax.set_visible(False)
    for ax, method in zip(axes.flat, methods):
        for k, name in enumerate(sets):
            part = table[(table["method"] == method) & (table["domain"] == name)]
            ends = part["difference"] - part["difference_low"], part["difference_high"] - part["difference"]
            ax.errorbar(
                part["llm"], part["difference"], np.abs(ends), fmt=MARKERS[k], color=COLOURS[k], markersize=4,
                elinewidth=0.9, label=name,
            )  # fmt: skip
        ax.axhline(0, color="0.3", linewidth=0.9)
        ax.axvline(weak, color="0.7", linewidth=0.9, linestyle="--")
        ax.set(title=method)
    for ax in axes[-1]:
        ax.set_xlabel(xlabel)
    for ax in axes[:, 0]:
        ax.set_ylabel(ylabel)
    axes[0, 0].annotate("weak | strong judges", (weak, 0.03), xycoords=("data", "axes fraction"), ha="center",
                        fontsize=7, color="0.35")  # fmt: skip
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=len(sets))
    return fig


def frontier(choices, sweeps, ylabel):
    """Draw what there is to choose from: above against dollars, below against the share of responses the judge sees.

    Parameters
    ----------
    choices : DataFrame
        ``domain, judge, choice`` (those of `CHOICES`, and the SLM alone with ``judge`` empty), ``dollars`` (for 1,000
        responses; NaN where unknown) with ``dollars_low, dollars_high`` (bounds, where it is unknown), ``spearman``
        with its interval.
    sweeps : DataFrame
        ``domain, judge, share, cascade, random``.
    """
    sets = list(dict.fromkeys(choices["domain"]))
    judges = [name for name in dict.fromkeys(choices["judge"]) if name]
    style = {name: _style(k) for k, name in enumerate(judges)}
    size = (1.0 + 2.9 * len(sets), 5.8 + 0.15 * (len(judges) // 5))
    fig, axes = plt.subplots(2, len(sets), figsize=size, sharey="col", squeeze=False)
    limits = _limits(choices[choices["choice"].isin(CHOICES)], sweeps.loc[sweeps["share"] > 0, "share"].min())
    for (above, below), name in zip(axes.T, sets):
        part, swept = (table[table["domain"] == name] for table in (choices, sweeps))
        _against_dollars(above, part, swept, style, limits)
        _against_share(below, swept, style)
        above.set(title=name, xlabel="dollars per 1,000 responses")
        below.set(xlabel="share of responses the judge sees")
    for ax in axes[:, 0]:
        ax.set_ylabel(ylabel)
    fig.legend(handles=_legend(style), loc="outside lower center", ncols=5 if len(sets) > 2 else 3, fontsize=7)
    return fig


def _style(k):
    return {
        "color": COLOURS[k % len(COLOURS)],
        "marker": MARKERS[k % len(MARKERS)],
        "dash": "-" if k < len(COLOURS) else "--",
    }


def _limits(choices, least):
    """Lowest dollars (where the judge sees the least share) and highest, as powers of ten; 0.01 and 10 without any."""
    known = [choices["dollars"], choices["dollars"] * least, choices["dollars_low"], choices["dollars_high"]]
    known = pd.concat(known).dropna()
    known = known[known > 0]
    if known.empty:
        return -2.0, 1.0
    return float(np.floor(np.log10(known.min()))), float(np.ceil(np.log10(known.max())))


def _against_dollars(ax, part, sweeps, style, limits):
    """Points at the logarithm of their dollars; what is free stands on the left, what has no price on the right."""
    low, high = limits
    free, unpriced = low - ASIDE, high + ASIDE
    ax.axvspan(high + 0.25, unpriced + 0.85, color="0.95", zorder=0)
    ax.axvspan(free - 0.5, low - 0.25, color="0.95", zorder=0)
    slm = part[part["judge"] == ""].iloc[0]
    ax.axhspan(slm["spearman_low"], slm["spearman_high"], color="0.85", alpha=0.6, zorder=0.5)
    ax.plot(free, slm["spearman"], "s", color="black", markersize=5)
    both = part[part["choice"].isin(CHOICES)].set_index(["judge", "choice"])
    aside = both[both["dollars"].isna() & both["dollars_low"].isna()].index.unique("judge")
    for judge in both.index.unique("judge"):
        fused, kind = both.loc[(judge, "fusion")], style[judge]
        if judge in aside:
            place = unpriced + 0.6 * _spread(list(aside), judge)
        elif np.isnan(fused["dollars"]):
            ends = np.log10([fused["dollars_low"], fused["dollars_high"]])
            ax.plot(ends, [fused["spearman"]] * 2, ":|", color=kind["color"], linewidth=1.1)
            place = ends.mean()
        else:
            place = np.log10(fused["dollars"])
            swept = sweeps[(sweeps["judge"] == judge) & (sweeps["share"] > 0)]
            at = place + np.log10(swept["share"])
            ax.plot(at, swept["cascade"], kind["dash"], color=kind["color"], linewidth=1.1)
        for choice, shift in (("judge alone", -0.06), ("fusion", 0.06)):
            _point(ax, place + shift, both.loc[(judge, choice)], kind, CHOICES[choice])
    ticks = np.arange(low, high + 1)
    names = [f"${10**tick:g}" for tick in ticks]
    ax.set_xticks([free, *ticks, unpriced], ["free", *names, "no list\nprice"], fontsize=7)
    ax.set_xlim(free - 0.5, unpriced + 0.85)
    ax.grid(axis="x", visible=False)


def _spread(names, name):
    """A place from -1 to 1 for each of some judges side by side."""
    return 0.0 if len(names) < 2 else 2 * names.index(name) / (len(names) - 1) - 1


def _point(ax, x, row, kind, filled):
    colour = kind["color"]
    ax.plot([x, x], [row["spearman_low"], row["spearman_high"]], color=colour, linewidth=0.9)
    face = colour if filled else "white"
    ax.plot(x, row["spearman"], kind["marker"], color=colour, markerfacecolor=face, markersize=4.5)


def _against_share(ax, sweeps, style):
    for judge, part in sweeps.groupby("judge", sort=False):
        kind = style[judge]
        ax.plot(part["share"], part["random"], ":", color=kind["color"], linewidth=0.9)
        ax.plot(part["share"], part["cascade"], kind["dash"], color=kind["color"], linewidth=1.2)
        last = part.iloc[-1]
        ax.plot(last["share"], last["cascade"], kind["marker"], color=kind["color"], markersize=4)
    ticks = np.linspace(0, 1, 5)
    ax.set_xticks(ticks, [f"{tick:.0%}" for tick in ticks])


def _legend(style):
    def line(label, **kind):
        return plt.Line2D([], [], label=label, **({"color": "0.3", "linewidth": 1.2, "markersize": 4.5} | kind))

    judges = [
        line(name, color=kind["color"], marker=kind["marker"], linestyle=kind["dash"]) for name, kind in style.items()
    ]
    return judges + [
        line("SLM alone (band: interval)", color="black", marker="s", linestyle="none"),
        line("judge alone", marker="o", markerfacecolor="white", linestyle="none"),
        line("calibrated fusion", marker="o", linestyle="none"),
        line("cascade: asked where the SLM is unsure"),
        line("as many asked at random", linestyle=":", linewidth=0.9),
    ]
