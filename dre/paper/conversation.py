"""The dialogue that several notebooks come back to, as text and as a picture with scores.

Its replies are the case of Table 6 that `dre.paper.plan.followed_case` returns.
"""

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.layout_engine import PlaceHolderLayoutEngine

from dre import fusion
from dre.paper.judgements import PanelJudge, slm_scores
from dre.tables import number

#: What the two replies are called.
NAMES = ("A", "B")
#: Sizes in inches. The picture is narrow, so that its words can be read on a phone.
_WIDTH = 5.0
_LINE = 0.17
_PADDING = 0.17  # between the edge of a column and the words in a bubble
_CHARACTERS = 13  # that have room in an inch
_FONT = 10  # points
_SCORES_FROM = 3.35  # where the columns of scores are, and how far apart
_SCORES_APART = 1.05


class Column(NamedTuple):
    """A reply in a picture, with the turns before it and its name."""

    name: str
    turns: Sequence[str]
    reply: str


def columns(case: pd.DataFrame) -> list[Column]:
    """Return the replies of a case, with their `NAMES`."""
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
    plain, refined = pd.Series(alone["score"]), pd.Series(hinted["score"])
    s_d, s_p = pd.Series(shown["s_d"]), pd.Series(shown["s_p"])
    score_slm = pd.Series(shown["score_slm"])
    scores_by_step = {
        ("small model, paper", 2): score_slm,
        ("judge alone", 5): plain,
        ("SLIDE", 2): fusion.slide(score_slm, plain),
        ("judge, shown the numbers", 5): refined,
        ("Ex-DRE", 10): fusion.ex_dre(s_d, s_p, plain),
        ("DRE", 10): fusion.dre(s_d, s_p, refined),
    }
    return steps(scores_by_step), shown.assign(plain=plain, hinted=refined)


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
        rows.append((who, highest, *map(float, values)))
    return pd.DataFrame(rows, columns=["who", "of", *names])


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
    for column in pictured:
        turns = " – ".join(column.turns)
        if not sentences:
            sentences.append(f"A conversation: {turns}")
        elif column.turns != pictured[0].turns:
            sentences.append(f"Another one: {turns}")
        sentences.append(f"Reply {column.name}: {column.reply}")
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
    width = _WIDTH / len(pictured)
    lefts = [k * width for k in range(len(pictured))]
    conversations = [(column.turns, left, width) for column, left in zip(pictured, lefts)]
    if len({tuple(column.turns) for column in pictured}) == 1:
        conversations = [(pictured[0].turns, 0, _WIDTH)]
    ends = []
    for turns, left, room in conversations:
        y = 0.15
        for k, turn in enumerate(turns):
            y = _draw_bubble(ax, turn, left, y, room, "0.92", is_answer=k % 2 == 1)
        ends.append(y)
    y = max(ends)
    for column, left in zip(pictured, lefts):
        ax.text(left + _PADDING, y, column.name, size=_FONT, weight="bold", va="center")
        ends.append(_draw_bubble(ax, column.reply, left, y + 0.23, width, "white"))
    y = _draw_scores(ax, pictured, table, max(ends))
    figure.set_size_inches(_WIDTH, y)
    ax.set(xlim=(0, _WIDTH), ylim=(y, 0))
    return figure


def _draw_bubble(ax, text, left, y, room, fill, is_answer=False):
    """Draw a text in a speech bubble, an answer on the right, and return where the next begins."""
    lines = textwrap.wrap(text, int(_CHARACTERS * (room - 2 * _PADDING)))
    x = left + room - _PADDING if is_answer else left + _PADDING
    side = "right" if is_answer else "left"
    look = {"boxstyle": "round,pad=0.6", "facecolor": fill, "edgecolor": "0.25", "linewidth": 0.9}
    words = "\n".join(lines)
    ax.text(x, y, words, size=_FONT, ha=side, va="top", multialignment="left", bbox=look)
    return y + _LINE * len(lines) + 0.3


def _draw_scores(ax, pictured, table, y):
    """Draw the table of scores below a height, and return where it ends."""
    centres = [_SCORES_FROM + k * _SCORES_APART for k in range(len(pictured))]
    look = {"size": _FONT, "va": "center"}
    for column, x in zip(pictured, centres):
        ax.text(x, y, column.name, weight="bold", ha="center", **look)
    for row in table.to_dict("records"):
        y += 1.5 * _LINE
        ax.axhline(y - 0.75 * _LINE, color="0.8", linewidth=0.7)
        ax.text(_PADDING, y, f"{row['who']}, of {row['of']}", **look)
        values = [row[column.name] for column in pictured]
        for value, x in zip(values, centres):
            is_best = value == max(values) and values.count(value) == 1
            ax.text(
                x, y, number(value), weight="bold" if is_best else "normal", ha="center", **look
            )
            if is_best:
                ax.plot([x + 0.3], [y], "o", color="black", markersize=4.5)
    return y + _LINE
