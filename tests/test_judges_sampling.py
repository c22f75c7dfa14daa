import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dre.errors import DreError
from dre.judges import prompts, sampling

LOG = math.log


def test_mean_leaves_out_what_gave_no_score():
    assert sampling.mean([1, 2, 2, 3]) == 2
    assert sampling.mean([4, None, float("nan"), 3]) == 3.5
    assert sampling.mean([None]) is None and sampling.mean([]) is None


def test_weighted_rating_by_hand():
    tokens = {"4": LOG(0.5), "5": LOG(0.3), "3": LOG(0.1), "2": LOG(0.05)}
    # the three most likely: (4 * 0.5 + 5 * 0.3 + 3 * 0.1) / 0.9
    assert sampling.weighted_rating(tokens, (0, 5)) == pytest.approx(3.8 / 0.9)
    assert sampling.weighted_rating(tokens, (0, 5), k=1) == 4
    assert sampling.weighted_rating(tokens, (0, 5), k=4) == pytest.approx(3.9 / 0.95)


def test_weighted_rating_adds_spellings_and_leaves_out_other_tokens():
    tokens = [(" 2", LOG(0.3)), ("2", LOG(0.1)), ("\uff11", LOG(0.4)), ("The", LOG(0.1)), ("7", LOG(0.1))]
    assert sampling.weighted_rating(tokens, (0, 2)) == pytest.approx((2 * 0.4 + 1 * 0.4) / 0.8)
    assert sampling.weighted_rating({"The": -0.1, "9": -3.0}, (0, 5)) is None
    with pytest.raises(DreError, match="k is 0"):
        sampling.weighted_rating(tokens, (0, 2), k=0)


def test_p_yes_by_hand():
    tokens = {"Yes": LOG(0.5), " yes": LOG(0.1), "No": LOG(0.2), "Maybe": LOG(0.2)}
    assert sampling.p_yes(tokens) == pytest.approx(0.6 / 0.8)
    assert sampling.p_yes({"Yes": LOG(0.9)}) == 1
    assert sampling.p_yes({"no": LOG(0.9)}) == 0
    assert sampling.p_yes({"Maybe": LOG(0.9)}) is None


def tokens(*texts, at=None, alternatives=()):
    found = [[text, -0.1, [[text, -0.1]]] for text in texts]
    if at is not None:
        token, logprob = alternatives[0]
        found[at] = [token, logprob, [list(item) for item in alternatives]]
    return found


def test_logprob_score_reads_the_position_of_the_rating():
    prompt = prompts.load("geval_coherence")
    options = (("2", LOG(0.6)), ("3", LOG(0.2)), ("1", LOG(0.1)), ("The", LOG(0.1)))
    expected = (2 * 0.6 + 3 * 0.2 + 1 * 0.1) / 0.9
    assert sampling.logprob_score(tokens("", at=0, alternatives=options), prompt) == pytest.approx(expected)
    form = tokens("-", " Coherence", ":", " ", "", at=4, alternatives=options)
    assert sampling.logprob_score(form, prompt) == pytest.approx(expected)
    json_reply = tokens('{"', "score", '":', " ", "", "}", at=4, alternatives=options)
    assert sampling.logprob_score(json_reply, prompt) == pytest.approx(expected)
    thought = tokens("<think>", "3", "</think>", "", at=3, alternatives=options)
    assert sampling.logprob_score(thought, prompt) == pytest.approx(expected)


def test_logprob_score_follows_the_verdict_not_any_number():
    options = (("2", LOG(0.6)), ("3", LOG(0.3)))
    explained = tokens("", " because", " of", " the", " 3", " dogs", at=0, alternatives=options)
    explained.insert(1, ["\n", -0.1, []])
    expected = (2 * 0.6 + 3 * 0.3) / 0.9
    assert sampling.logprob_score(explained, prompts.load("geval_coherence")) == pytest.approx(expected)
    analysed = tokens("Of", " 3", " dogs", "\n", "Rating", ":", "", at=6, alternatives=options)
    assert sampling.logprob_score(analysed, prompts.load("chiang_coherence")) == pytest.approx(expected)
    fraction = tokens("", "/", "2", at=0, alternatives=(("1", LOG(0.5)), ("2", LOG(0.25))))
    assert sampling.logprob_score(fraction, prompts.load("fed_interest")) == pytest.approx(4 / 3)


def test_logprob_score_of_a_number_over_several_tokens_is_none():
    prompt = prompts.load("llm_only")
    assert sampling.logprob_score(tokens("3", ".", "5"), prompt) is None
    assert sampling.logprob_score(tokens("1", "0"), prompt) is None
    assert sampling.logprob_score(tokens("-", "3"), prompt) is None
    assert sampling.logprob_score(tokens("good"), prompt) is None
    assert sampling.logprob_score([], prompt) is None


def test_logprob_score_of_a_label_is_the_probability_of_positive():
    options = ((" Yes", LOG(0.3)), (" No", LOG(0.6)))
    assert sampling.logprob_score(tokens("", at=0, alternatives=options), prompts.load("yes_no")) == pytest.approx(
        1 / 3
    )


@given(
    st.dictionaries(st.sampled_from(["0", "1", "2", "3", "4", "5", "6", "x"]), st.floats(-50, 0), max_size=8),
    st.integers(1, 6),
)
def test_weighted_rating_lies_between_the_ratings(items, k):
    score = sampling.weighted_rating(items, (0, 5), k)
    ratings = [float(token) for token in items if token in "012345"]
    assert (score is None) == (not ratings)
    assert score is None or min(ratings) - 1e-9 <= score <= max(ratings) + 1e-9
