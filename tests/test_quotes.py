"""What a response repeats of its context is left out before it is scored."""

import pytest

from dre.slm.quotes import EMPTY, own_words

CONTEXT = (
    "Do you like cats?",
    "Yes, I do. They are lovely animals.",
    "Have you got any of your own?",
)
LAST = CONTEXT[-1]
TYPOGRAPHIC = "I don\u2019t think that\u2019s Anna\u2019s."
SHUFFLED = "own you they animals cats do any like"
PLAIN = "I don't think that's Anna's."
#: Context, response, what is read of it, and what is left out.
CASES = [
    # An ordinary reply is read as it is.
    (CONTEXT, "Two of them.", "Two of them.", ""),
    (CONTEXT, "Yes, I've got two cats of my own.", "Yes, I've got two cats of my own.", ""),
    (CONTEXT, "How about you, have you got a dog?", "How about you, have you got a dog?", ""),
    (CONTEXT, "你好，今天怎么样？", "你好，今天怎么样？", ""),
    (CONTEXT, "They are lovely!", "They are lovely!", ""),  # three words of the context
    # A quoted turn is left out wherever it stands.
    (CONTEXT, f"{LAST} The train left.", "The train left.", LAST),
    (CONTEXT, f"The train left. {LAST}", "The train left.", LAST),
    (CONTEXT, "Do you like cats? No idea.", "No idea.", "Do you like cats?"),
    (CONTEXT, "have you got ANY of your own - two", "two", "have you got ANY of your own -"),
    (CONTEXT, f'You asked: "{LAST}" Two.', "You asked: Two.", f'"{LAST}"'),
    (
        CONTEXT,
        f"Do you like cats? Well. {LAST} Never.",
        "Well. Never.",
        f"{LAST} ... Do you like cats?",
    ),
    ((PLAIN,), f"{TYPOGRAPHIC} Good.", "Good.", TYPOGRAPHIC),
    # A turn of two words is no quote, and one of three is.
    (("Thank you.",), "Thank you. And now go home.", "Thank you. And now go home.", ""),
    (("How are you?",), "Fine. How are you?", "Fine.", "How are you?"),
    # Nothing is left of a mere echo, nor of a reply without words of its own.
    (CONTEXT, LAST, EMPTY, LAST),
    ((TYPOGRAPHIC,), PLAIN, EMPTY, PLAIN),
    (CONTEXT, SHUFFLED, EMPTY, SHUFFLED),
    (CONTEXT, "lovely cats do you", EMPTY, "lovely cats do you"),
]


@pytest.mark.parametrize(("context", "response", "rest", "left_out"), CASES)
def test_quotes_are_left_out(context, response, rest, left_out):
    assert own_words(context, response) == (rest, left_out)


def test_one_own_word_in_fourteen_is_too_few():
    response = "Do you got your lovely animals, they are cats of any own, yes I banana"
    assert own_words(CONTEXT, response) == (EMPTY, response)


def test_a_quote_that_appears_when_another_one_is_left_out_is_left_out_too():
    assert own_words(CONTEXT, "Do you Do you like cats? like cats? Never.").text == "Never."


@pytest.mark.parametrize(
    ("response", "is_quote"),
    [
        ("Have you got any of your. Never!", True),  # 6 of 7 words
        ("Have you got any of. Never!", False),  # 5 of 7 words
        ("Have you now got any at all of your own? Never!", True),  # within 10 words
        ("Have you, as we all ask, got any at all of your own? Never!", False),  # within 14 words
        ("Own your any got have you! Never!", False),  # in another order
    ],
)
def test_a_quote_has_most_words_of_a_turn_in_order_and_few_others(response, is_quote):
    assert bool(own_words(CONTEXT, response).left_out) == is_quote


def test_a_long_turn_is_searched_for_in_a_long_response_in_no_time():
    turn = " ".join(f"w{i % 97}" for i in range(400))
    response = " ".join(f"w{(7 * i) % 97}" for i in range(400))
    assert own_words((turn,), response).text == EMPTY
