"""Figure 1: the architecture, drawn from code (DRE 3.3 and 3.4; SLIDE)."""

from dre.report.figure import COLOURS

POSITIVE, NEGATIVE, PULL, CLASSIFY, PUSH = COLOURS[:5]
BLACK, GREY = "#000000", "#57606a"


def architecture():
    """Draw Figure 1: SLM training on the left, evaluation by SLIDE and DRE on the right.

    Returns
    -------
    matplotlib.figure.Figure
    """
    import matplotlib.pyplot as plt

    ratios = {"width_ratios": [11.2, 10.8]}
    fig, (left, right) = plt.subplots(1, 2, figsize=(13.6, 5.4), gridspec_kw=ratios)
    for ax, title, width in ((left, "Training the SLM", 11.2), (right, "Evaluating a response", 10.8)):
        ax.set(xlim=(0, width), ylim=(0, 8.2), aspect="equal")
        ax.axis("off")
        ax.set_title(title, fontsize=12, loc="left")
    _training(left)
    _evaluation(right)
    return fig


def _training(ax):
    colours = {"p": POSITIVE, "c": BLACK, "a": NEGATIVE}
    names = {"p": "positive $p$", "c": "context $c$", "a": "adversarial\nnegative $a$"}
    rows = {"p": 6.5, "c": 4.2, "a": 1.9}
    for key, y in rows.items():
        _box(ax, 0.95, y, 1.7, 0.9, names[key], colours[key])
        _arrow(ax, (1.8, y), (2.3, y))
        _arrow(ax, (3.2, y), (3.7, y))
        _box(ax, 4.1, y, 0.8, 0.7, f"$h_{key}$", colours[key], fill=0.16)
    _box(ax, 2.75, 4.2, 0.9, 5.5, "encoder (shared)", GREY, rotation=90)

    parts = {"pn": 7.4, "pr": 5.6, "ar": 2.8, "an": 1.0}
    for key in "pa":
        _arrow(ax, (4.5, rows[key]), (4.95, rows[key]))
        _box(ax, 5.3, rows[key], 0.7, 0.7, "sep", GREY)
    for part, y in parts.items():
        robust = part.endswith("r")
        _arrow(ax, (5.65, rows[part[0]]), (6.3, y))
        _box(ax, 6.75, y, 0.9, 0.66, f"$h_{{{part}}}$", colours[part[0]], fill=0.16 if robust else 0.0)
        _arrow(ax, (7.2, y), (8.85, y))
        label = {"pr": "class 1", "ar": "class 0"}.get(part, "class 2")
        ax.text(8.72, y + 0.08, label, fontsize=8, color=GREY, ha="right", va="bottom")
    _arrow(ax, (4.5, rows["c"]), (8.85, rows["c"]))
    _box(ax, 9.3, 4.2, 0.9, 7.06, "classifier: softmax(linear($h_c$, $h_{res}$))", GREY, rotation=90)
    _arrow(ax, (9.75, 4.2), (10.2, 4.2))
    _label(ax, 10.25, 4.2, "$L_{cls}$\n(15)", CLASSIFY)

    # A loss stands between the two vectors it compares.
    _between(ax, (4.1, rows["c"] + 0.35), (4.1, rows["p"] - 0.35), PULL)
    _between(ax, (4.1, rows["a"] + 0.35), (4.1, rows["c"] - 0.35), PUSH)
    _label(ax, 4.22, 5.35, "$L_{out}$ (12)", PULL)
    _label(ax, 4.22, 3.05, "$L_{out}$ (12)", PUSH)
    _between(ax, (6.75, parts["pr"] + 0.33), (6.75, parts["pn"] - 0.33), PUSH)
    _between(ax, (6.75, parts["ar"] + 0.33), (6.75, parts["pr"] - 0.33), PUSH)
    _between(ax, (6.75, parts["an"] + 0.33), (6.75, parts["ar"] - 0.33), PUSH)
    _label(ax, 6.87, 6.5, r"$L_{ins}^{\,pos}$ (13)", PUSH)
    _label(ax, 6.87, 4.75, r"$L_{out}^{\,robust}$ (13)", PUSH)
    _label(ax, 6.87, 1.9, r"$L_{ins}^{\,neg}$ (13)", PUSH)
    total = r"$L = L_{out} + L_{ins}^{\,pos} + L_{ins}^{\,neg} + L_{out}^{\,robust} + L_{cls}$   (16)"
    ax.text(0.1, 0.05, total, fontsize=9.5, va="bottom")
    for x, text, colour in ((5.9, "pull together", PULL), (8.2, "push apart", PUSH)):
        _between(ax, (x, 0.17), (x + 0.45, 0.17), colour)
        _label(ax, x + 0.52, 0.17, text, colour)


def _evaluation(ax):
    for y, height, name in ((5.0, 3.1, "SLIDE"), (0.1, 3.3, "DRE")):
        _box(ax, 6.55, y + height / 2, 8.3, height, "", GREY, fill=0.09, edge=False)
        ax.text(2.6, y + height - 0.3, name, fontsize=11, weight="bold", va="center")
    _box(ax, 0.95, 4.2, 1.7, 1.1, "context $c$,\nresponse $r$", BLACK)
    for y, text, colour in ((6.5, "LLM", NEGATIVE), (4.2, "SLM", POSITIVE), (1.55, "LLM", NEGATIVE)):
        _arrow(ax, (1.8, 4.2 + 0.25 * ((y > 4.2) - (y < 4.2))), (2.75, y))
        _box(ax, 3.3, y, 1.1, 0.8, text, colour, fill=0.16, size=11)
        _arrow(ax, (3.85, y), (4.4, y))
    _box(ax, 5.4, 6.5, 2.0, 0.8, "Score$_{LLM}$", NEGATIVE)
    scores = "distance $s_d$, probability $s_p$\n" + r"Score$_{SLM} = 1 - s_d + s_p$ (17–19)"
    _box(ax, 6.0, 4.2, 3.2, 1.1, scores, POSITIVE)
    _box(ax, 5.4, 1.55, 2.0, 0.8, "Score$_{LLM}$, $s_{Inf}$", NEGATIVE)
    ax.text(3.3, 5.72, "LLM-only\nprompt", fontsize=8, color=GREY, ha="center", va="center")

    _box(ax, 8.35, 6.5, 2.1, 1.5, "by a rule (23):\nSLM's, LLM's,\nor their mean", GREY)
    _arrow(ax, (6.4, 6.5), (7.3, 6.5))
    _arrow(ax, (7.3, 4.75), (7.9, 5.75))
    refined = "exterior refinement:\n$c = s_c \\cdot s_{Inf}$ (25)\n$c\\;\\cdot$ Score$_{LLM}$ (26)"
    _box(ax, 8.35, 1.55, 2.1, 1.5, refined, GREY, size=8.5)
    _arrow(ax, (6.4, 1.55), (7.3, 1.55))
    _arrow(ax, (7.3, 3.65), (7.9, 2.3))
    ax.text(7.75, 2.95, "$s_c =$ Score$_{SLM}$", fontsize=9, ha="left", va="center")
    _arrow(ax, (4.75, 3.62), (3.75, 1.95))
    interior = "interior refinement:\n$s_d$, $s_p$ in the prompt"
    ax.text(4.5, 2.75, interior, fontsize=8.5, color=GREY, ha="left", va="center")
    for y in (6.5, 1.55):
        _arrow(ax, (9.4, y), (9.85, y))
        ax.text(9.92, y, "Score", fontsize=10, va="center")


def _box(ax, x, y, width, height, text, colour, fill=0.03, rotation=0, size=9, edge=True):
    """Draw a rounded box centred on (x, y), filled with its colour at opacity `fill`."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import FancyBboxPatch

    corner, shape = (x - width / 2, y - height / 2), "round,pad=0,rounding_size=0.12"
    style = {"fc": (*to_rgb(colour), fill), "ec": colour if edge else "none", "lw": 1.2}
    ax.add_patch(FancyBboxPatch(corner, width, height, boxstyle=shape, **style))
    ax.text(x, y, text, ha="center", va="center", rotation=rotation, fontsize=size, linespacing=1.35)


def _arrow(ax, start, end):
    _line(ax, start, end, "-|>", GREY, 1.1)


def _between(ax, start, end, colour):
    _line(ax, start, end, "<->", colour, 1.5)


def _line(ax, start, end, head, colour, width):
    props = {"arrowstyle": head, "color": colour, "lw": width, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", end, start, arrowprops=props)


def _label(ax, x, y, text, colour):
    ax.text(x, y, text, color=colour, fontsize=9, ha="left", va="center")
