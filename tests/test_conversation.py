"""The dialogue that notebooks come back to: its text, its scores and its picture."""

import contextlib
import io
import itertools
import re

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from markdown_it import MarkdownIt

from dre import fusion
from dre.paper import conversation, judgements, plan, plots
from dre.paper.profile import COMMITTED, profile

PUBLIC = profile(COMMITTED)
CASE = plan.followed_case(PUBLIC)
JUDGE = judgements.main_judge(judgements.panel(PUBLIC))


@pytest.fixture(autouse=True)
def styled():
    plots.style()
    yield
    plt.close("all")


def texts_of(figure):
    return [text for axes in figure.axes for text in axes.texts if text.get_text()]


def test_the_scores_of_the_steps_are_those_of_the_recording_and_of_the_equations():
    steps, numbers = conversation.scores(JUDGE, CASE)
    recorded = JUDGE.scores(CASE)["score"].tolist()
    by_step = steps.set_index("who")[["A", "B"]]
    assert by_step.loc["judge alone"].tolist() == recorded
    product = fusion.ex_dre(numbers["s_d"], numbers["s_p"], numbers["plain"])
    assert by_step.loc["Ex-DRE"].tolist() == pytest.approx(product.tolist())
    assert steps["of"].tolist() == [2, 5, 2, 5, 10, 10]


class Unasked:
    """A judge that has said nothing of the case."""

    def numbers(self, case, slm, key):
        return None

    def scores(self, case, *more, **options):
        return None


class Likes:
    """A small model that likes a long reply."""

    def score(self, pairs):
        length = pairs["response"].str.len() / 200
        return pd.DataFrame({"s_d": 1 - length, "s_p": length, "score_slm": 2 * length})


def test_of_a_judge_that_was_not_asked_nothing_is_made_up():
    steps, numbers = conversation.scores(Unasked(), CASE, Likes(), "any")
    assert steps["who"].tolist() == ["small model, paper"]
    assert "plain" not in numbers
    assert numbers["score_slm"].tolist() == steps.loc[0, ["A", "B"]].tolist()


def test_without_a_small_model_and_a_judge_that_was_asked_there_is_no_row():
    steps, numbers = conversation.scores(Unasked(), CASE)
    assert steps.empty and numbers.empty
    assert list(steps)[:2] == ["who", "of"]


LONG = "Supercalifragilistic words and short ones go on " * 6


@pytest.mark.parametrize("shared", [True, False])
def test_every_word_is_in_the_picture_and_no_bubble_covers_another(shared):
    """Looked for in the drawn picture, whose sizes only a renderer knows."""
    others = ("Is the shop open?", "Only until noon.")
    pictured = [
        conversation.Column("A", ("Why?", LONG), "Because of the rain."),
        conversation.Column("B", ("Why?", LONG) if shared else others, LONG),
    ]
    table = conversation.steps({("judge", 5): (4.25, 0.5), ("a tie", 1): (0.5, 0.5)})
    figure = conversation.draw(pictured, table)
    figure.canvas.draw()
    [axes] = figure.axes
    joined = " ".join(text.get_text().replace("\n", " ") for text in axes.texts)
    for column in pictured:
        for text in (*column.turns, column.reply):
            assert " ".join(text.split()) in joined
    bubbles = [text.get_bbox_patch() for text in axes.texts if text.get_bbox_patch()]
    n_turns = 2 if shared else 4
    assert len(bubbles) == n_turns + 2
    edges = axes.get_window_extent()
    boxes = [part.get_window_extent() for part in (*axes.texts, *bubbles)]
    for box in boxes:
        assert edges.x0 <= box.x0 and box.x1 <= edges.x1
        assert edges.y0 <= box.y0 and box.y1 <= edges.y1
    for one, other in itertools.combinations(boxes[-len(bubbles) :], 2):
        assert not one.overlaps(other)


def test_the_higher_score_is_marked_by_more_than_a_colour_and_a_tie_is_not():
    table = conversation.steps({("judge", 5): (4.25, 0.5), ("a tie", 1): (0.3, 0.3)})
    figure = conversation.draw(conversation.columns(CASE), table)
    weights = {text.get_text(): text.get_weight() for text in texts_of(figure)}
    assert (weights["4.25"], weights["0.50"], weights["0.30"]) == ("bold", "normal", "normal")
    dots = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert len(dots) == 1


def test_the_words_of_a_picture_hold_its_texts_and_scores():
    table = conversation.steps({("judge", 5): (4.25, 0.5)})
    words = conversation.in_words(conversation.columns(CASE), table)
    assert "Reply B: Yes, and the encore" in words
    assert "judge, of 5: 4.25 for A and 0.50 for B." in words


def test_a_shown_dialogue_is_text_and_none_of_it_is_markup(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, metadata: shown.append(data.data))
    turns = ("# Is <b>this</b> *late*?", "1. [No](http://h)", "- `x` | $y$\nand ~more~")
    conversation.show(turns, [("good", "Yes, _now_.")])
    html = MarkdownIt("commonmark").render(shown[0])
    quote, reply = html.split("</blockquote>")
    assert quote.count("<p>") == 3
    for tag in ("<b>", "<em>", "<h1>", "<ol>", "<li>", "<a ", "<code>"):
        assert tag not in html
    assert "<strong>good</strong> Yes, _now_." in reply
    assert io.StringIO(shown[0]).readline() == "> \\# Is \\<b\\>this\\</b\\> \\*late\\*?\n"


def test_the_example_of_the_readme_prints_what_stands_there_and_the_wrong_reply_wins():
    """Within 0.02, since the sixth digit of a score depends on the processor."""
    readme = (PUBLIC.root / "README.md").read_text(encoding="utf-8")
    example, printed = re.search(
        r"```python\n(.*?)```\n\n```\n(.*?)```", readme, re.DOTALL
    ).groups()
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(example, {})
    rows = [line.split(maxsplit=2) for line in printed.splitlines()[1:]]
    computed = [line.split(maxsplit=2) for line in out.getvalue().splitlines()[1:]]
    assert [row[2:] for row in computed] == [row[2:] for row in rows]
    scores = [float(row[1]) for row in rows]
    assert [float(row[1]) for row in computed] == pytest.approx(scores, abs=0.02)
    assert scores[1] == max(scores)
