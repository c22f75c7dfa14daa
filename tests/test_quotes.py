"""What a response repeats of its context is left out before it is scored."""

import pytest

from dre.slm.quotes import EMPTY, own_words

CONTEXT = (
    "Do you like cats?",
    "Yes, I do. They are lovely animals.",
    "Have you got any of your own?",
)
LAST_TURN = CONTEXT[-1]


@pytest.mark.parametrize(
    "response",
    [
        "Two of them.",
        "Yes, I've got two cats of my own at home.",
        "I do.",
        "How about you, have you got a dog?",
        "你好，今天怎么样？",
    ],
)
def test_an_ordinary_reply_is_read_as_it_is(response):
    assert own_words(CONTEXT, response) == (response, "")


@pytest.mark.parametrize(
    ("response", "rest", "left_out"),
    [
        (f"{LAST_TURN} The train left at nine.", "The train left at nine.", LAST_TURN),
        (f"The train left at nine. {LAST_TURN}", "The train left at nine.", LAST_TURN),
        ("Do you like cats? No idea.", "No idea.", "Do you like cats?"),
        ("have you got ANY of your own - two, sir", "two, sir", "have you got ANY of your own -"),
        (f'You asked: "{LAST_TURN}" Two.', "You asked: Two.", f'"{LAST_TURN}"'),
    ],
    ids=["before", "after", "an earlier turn", "other punctuation", "in quotation marks"],
)
def test_a_quoted_turn_is_left_out_wherever_it_stands(response, rest, left_out):
    assert own_words(CONTEXT, response) == (rest, left_out)


def test_two_quotes_are_both_left_out():
    response = "Do you like cats? Well. Have you got any of your own? Never."
    rest, left_out = own_words(CONTEXT, response)
    assert rest == "Well. Never."
    assert left_out in (
        "Have you got any of your own? ... Do you like cats?",
        "Do you like cats? ... Have you got any of your own?",
    )


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


def test_a_turn_of_two_words_is_never_a_quote_and_one_of_three_is():
    assert own_words(("Thank you.",), "Thank you. And now go home.").left_out == ""
    assert own_words(("How are you?",), "Fine. How are you?") == ("Fine.", "How are you?")


def test_nothing_is_left_of_a_mere_echo():
    assert own_words(CONTEXT, LAST_TURN) == (EMPTY, LAST_TURN)


@pytest.mark.parametrize(
    "response",
    [
        "own you they animals cats do any like",
        "lovely cats do you",
        "Do you got your lovely animals, they are cats of any own, yes I banana",
    ],
    ids=["shuffled", "four words", "one word in fourteen is its own"],
)
def test_a_reply_without_words_of_its_own_counts_as_empty(response):
    assert own_words(CONTEXT, response) == (EMPTY, response)


def test_a_quote_with_a_typographic_apostrophe_is_one():
    context = ("I don't think that's Anna's.",)
    response = "I don\u2019t think that\u2019s Anna\u2019s. Good."
    quote = "I don\u2019t think that\u2019s Anna\u2019s."
    assert own_words(context, response) == ("Good.", quote)
    assert own_words((response,), context[0]) == (EMPTY, context[0])


def test_three_words_of_the_context_are_a_reply():
    assert own_words(CONTEXT, "They are lovely!") == ("They are lovely!", "")


def test_a_long_turn_is_searched_for_in_a_long_response_in_no_time():
    turn = " ".join(f"w{i % 97}" for i in range(400))
    response = " ".join(f"w{(7 * i) % 97}" for i in range(400))
    assert own_words((turn,), response).text == EMPTY
