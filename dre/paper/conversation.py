"""The dialogue that several notebooks come back to, as text and as a picture with scores.

Its replies are the case of Table 6 that `dre.paper.plan.followed_case` returns.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.layout_engine import PlaceHolderLayoutEngine
from matplotlib.patches import FancyBboxPatch
from matplotlib.textpath import text_to_path

from dre import fusion
from dre.paper.judgements import PanelJudge, slm_scores
from dre.tables import number

#: What replies are called.
NAMES = tuple("ABCDE")
#: Sizes in inches. The picture is narrow, so that its words can be read on a phone.
_WIDTH = 5.0
_LINE = 0.19
_PADDING = 0.1
_GAP = 0.13
_FONT = 10  # points
_POINTS = 72  # in an inch
_BUBBLE = 3.9
_SCORES_FROM = 3.35  # where the columns of scores are, and how far apart
_SCORES_APART = 1.05
_TURN_FILL = "0.92"
_REPLY_FILL = "white"
_EDGE = "0.25"


class Column(NamedTuple):
    """A reply in a picture, with the turns before it and its name."""

    name: str
    turns: Sequence[str]
    reply: str


def columns(case: pd.DataFrame) -> list[Column]:
    """Return the replies of a case, with the first of `NAMES`."""
    return [Column(*row) for row in zip(NAMES, case["context"], case["response"])]


def scores(
    judge: PanelJudge, case: pd.DataFrame, slm: Any = None, key: str = ""
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return what each step of the papers says of the replies of a case.

    Parameters
    ----------
    judge
        The judge. A recorded one saw the numbers of its recording, a live one those of `slm`.
    case
        With ``pair_id, context`` and ``response``.
    slm, key
        The papers' small model, and the set that it was trained on. A recorded judge that was
        asked does without them.

    Returns
    -------
    steps : DataFrame
        As `steps` returns it. Where the judge was not asked it has only the row of `slm`, or none.
    numbers : DataFrame
        A row for each reply: ``s_d, s_p, score_slm`` of the small model, and where the judge was
        asked ``plain`` and ``hinted``, its scores without these numbers and with them.
    """
    shown = judge.numbers(case, slm, key)
    alone = judge.scores(case)
    hinted = None if shown is None else judge.scores(case, "dre", numbers=shown)
    if shown is None or alone is None or hinted is None:
        if slm is None:
            return steps({}), pd.DataFrame()
        numbers = slm_scores(case, slm)
        return steps({("small model, paper", 2): numbers["score_slm"]}), numbers
    numbers = shown.assign(plain=alone["score"], hinted=hinted["score"])
    return steps(_by_step(numbers)), numbers


def _by_step(numbers):
    """Return the scores of each step for `steps`, from the numbers that `scores` returns."""
    s_d = numbers["s_d"]
    s_p = numbers["s_p"]
    score_slm = numbers["score_slm"]
    plain = numbers["plain"]
    hinted = numbers["hinted"]
    return {
        ("small model, paper", 2): score_slm,
        ("judge alone", 5): plain,
        ("SLIDE", 2): fusion.slide(score_slm, plain),
        ("judge, shown the numbers", 5): hinted,
        ("Ex-DRE", 10): fusion.ex_dre(s_d, s_p, plain),
        ("DRE", 10): fusion.dre(s_d, s_p, hinted),
    }


def steps(
    scores_by_step: Mapping[tuple[str, int], Iterable[float]], names: Sequence[str] = NAMES
) -> pd.DataFrame:
    """Return scores as the table that `draw` takes.

    Parameters
    ----------
    scores_by_step
        The scores of the replies, by who gives them and the highest score there is.
    names
        What the replies are called.

    Returns
    -------
    DataFrame
        ``who``, ``of`` (the highest score) and a column for each reply.
    """
    rows = []
    for (who, highest), values in scores_by_step.items():
        by_name = {name: float(value) for name, value in zip(names, values)}
        rows.append({"who": who, "of": highest, **by_name})
    if not rows:
        return pd.DataFrame(columns=["who", "of", *names])
    return pd.DataFrame(rows)


def show(turns: Sequence[str], replies: Iterable[tuple[str, str]] = ()) -> None:
    """Show a dialogue as text that wraps, not as a block that is cut.

    Parameters
    ----------
    turns
        Oldest first.
    replies
        Replies to it, each after its name or what is said of it.
    """
    from IPython.display import Markdown, display  # pyright: ignore[reportPrivateImportUsage]

    paragraphs = ["\n>\n".join(f"> {_plain(turn)}" for turn in turns)]
    for name, reply in replies:
        paragraphs.append(f"**{_plain(name)}** {_plain(reply)}")
    # The mark tells it from tables, which are Markdown as well.
    display(Markdown("\n\n".join(paragraphs)), metadata={"dre": "note"})


def _plain(text):
    """Return a text on one line in which nothing is Markdown."""
    one_line = " ".join(text.split())
    return re.sub(r"([\\`*_\[\]<>#$|~]|^[-+](?=\s)|^\d+(?=[.)]\s))", r"\\\1", one_line)


def in_words(pictured: Sequence[Column], table: pd.DataFrame) -> str:
    """Return what `draw` shows in words, for those who do not see it."""
    sentences = []
    shares_turns = len({tuple(column.turns) for column in pictured}) == 1
    if shares_turns:
        sentences.append(f"A conversation: {' – '.join(pictured[0].turns)}")
    for column in pictured:
        before = "" if shares_turns else f" to {' – '.join(column.turns)}"
        sentences.append(f"Reply {column.name}{before}: {column.reply}")
    for row in table.to_dict("records"):
        values = [f"{number(row[column.name])} for {column.name}" for column in pictured]
        sentences.append(f"{row['who']}, of {row['of']}: {' and '.join(values)}.")
    return " ".join(sentences)


def draw(pictured: Sequence[Column], table: pd.DataFrame) -> Figure:
    """Draw replies in speech bubbles, with their scores below.

    Parameters
    ----------
    pictured
        The replies. Turns that all of them share are drawn once, above.
    table
        ``who`` scores, ``of`` how much, and a column for each reply. The highest score of a row is
        bold and has a dot.
    """
    # Nothing moves what is placed here; without an engine, a PDF is laid out as the style says.
    figure = plt.figure(figsize=(_WIDTH, 1), layout=PlaceHolderLayoutEngine(True, True))
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set_axis_off()
    width = (_WIDTH - _GAP * (len(pictured) - 1)) / len(pictured)
    lefts = [k * (width + _GAP) for k in range(len(pictured))]
    bubbles = [(column.turns, left, width, 0.92 * width) for column, left in zip(pictured, lefts)]
    if len({tuple(column.turns) for column in pictured}) == 1:
        bubbles = [(pictured[0].turns, 0, _WIDTH, _BUBBLE)]
    y = max(_draw_turns(ax, *turns, 0.05) for turns in bubbles)
    ends = []
    for column, left in zip(pictured, lefts):
        ax.text(left + 0.04, y + 0.1, column.name, size=_FONT, weight="bold", va="center")
        bubble = _Bubble(column.reply, width)
        ends.append(bubble.draw(ax, left, y + 0.24, width, _REPLY_FILL))
    y = _draw_scores(ax, pictured, table, max(ends) + 0.12)
    figure.set_size_inches(_WIDTH, y)
    ax.set(xlim=(0, _WIDTH), ylim=(y, 0))
    return figure


def _draw_turns(ax, turns, left, width, widest, y):
    """Draw turns, every other one to the right, and return where they end."""
    for k, turn in enumerate(turns):
        bubble = _Bubble(turn, widest)
        x = left if k % 2 == 0 else left + width - bubble.width
        y = bubble.draw(ax, x, y, bubble.width, _TURN_FILL) + _GAP
    return y


class _Bubble:
    """A text in lines, and the width in inches of a bubble around it, which has a greatest one."""

    def __init__(self, text: str, widest: float):
        self.lines = _wrapped(text, widest - 2 * _PADDING)
        self.width = max(map(_width, self.lines)) + 2.5 * _PADDING

    def draw(self, ax: Axes, x: float, y: float, width: float, fill: str) -> float:
        """Draw the bubble with its upper left corner at (x, y), and return where it ends."""
        height = len(self.lines) * _LINE + 2 * _PADDING
        box = FancyBboxPatch(
            (x + 0.03, y),
            width - 0.06,
            height,
            boxstyle="round,pad=0,rounding_size=0.1",
            facecolor=fill,
            edgecolor=_EDGE,
            linewidth=0.9,
        )
        ax.add_patch(box)
        for k, line in enumerate(self.lines):
            middle = y + _PADDING + (k + 0.5) * _LINE
            ax.text(x + _PADDING, middle, line, size=_FONT, va="center")
        return y + height


def _wrapped(text, width):
    """Return a text in lines of at most so many inches, if no word is longer."""
    lines = []
    line = ""
    for word in text.split():
        longer = f"{line} {word}".strip()
        if line and _width(longer) > width:
            lines.append(line)
            longer = word
        line = longer
    return [*lines, line]


def _width(text):
    """Return how many inches wide a text is."""
    font = FontProperties(size=_FONT)
    points, _, _ = text_to_path.get_text_width_height_descent(text, font, False)
    return points / _POINTS


def _draw_scores(ax, pictured, table, y):
    """Draw the table of scores below a height, and return where it ends."""
    centres = [_SCORES_FROM + k * _SCORES_APART for k in range(len(pictured))]
    for column, x in zip(pictured, centres):
        ax.text(x, y + _LINE / 2, column.name, size=_FONT, weight="bold", ha="center", va="center")
    y += 1.25 * _LINE
    for row in table.to_dict("records"):
        ax.plot([0.03, _WIDTH - 0.03], [y, y], color="0.8", linewidth=0.7)
        middle = y + 0.65 * _LINE
        ax.text(0.04, middle, f"{row['who']}, of {row['of']}", size=_FONT, va="center")
        values = [row[column.name] for column in pictured]
        for value, x in zip(values, centres):
            is_best = value == max(values) and values.count(value) == 1
            weight = "bold" if is_best else "normal"
            ax.text(x, middle, number(value), size=_FONT, weight=weight, ha="center", va="center")
            if is_best:
                ax.plot([x + 0.3], [middle], "o", color="black", markersize=4.5)
        y += 1.3 * _LINE
    return y + 0.05
