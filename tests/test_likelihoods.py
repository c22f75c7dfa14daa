"""Scores from log-probabilities, through the real SDKs."""

import math

import judge_servers as servers
import pytest
from judge_servers import Server, pairs

import dre.judges
from dre.errors import DreError
from dre.judges import likelihoods, prompts

PROVIDERS = pytest.mark.parametrize("provider", ["openai", "ollama"])


def answered(provider, places):
    """A reply with log-probabilities in the provider's wire format; of each place what was said, {token: probability}."""
    told = []
    for said, tokens in places:
        top = [
            {"token": token, "logprob": math.log(p), "bytes": [*token.encode()]}
            for token, p in tokens.items()
        ]
        told.append(next(one for one in top if one["token"] == said) | {"top_logprobs": top})
    answer = servers.REPLIES[provider]("".join(said for said, _ in places))
    if provider == "openai":
        answer.body["choices"][0]["logprobs"] = {"content": told, "refusal": None}
    else:
        answer.body["logprobs"] = told
    return answer


def score(provider, server, prompt="quality_overall", store=":memory:", ask=True, **options):
    judge = dre.judges.open(f"{provider}:m", store=store, base_url=server.url, **options)
    return judge.score(pairs(1), prompt, ask=ask).iloc[0]


CASES = [  # tokens that say the same add up, others say nothing: 5 is off the scale
    (
        "quality_overall",
        [("2", {"2": 0.3, " 2": 0.2, "3.": 0.1, "5": 0.1, "2/4": 0.1})],
        (2 * 0.5 + 3 * 0.1) / 0.6,
    ),
    (
        "quality_overall",
        [("Rating:", {"Rating:": 0.9, "4": 0.1}), (" 3", {" 3": 0.6, " 1": 0.2})],
        2.0 / 0.8,
    ),
    (
        "good_response",
        [("No", {"Yes": 0.2, " yes": 0.1, "No": 0.5, "NO": 0.1, "Not": 0.1})],
        0.3 / 0.9,
    ),
]
UNLIKELY = [  # how OpenAI writes that a token was out of question, though it was drawn
    ("quality_overall", {"2": -9999.0, "The": -0.1}, 2.0),
    ("quality_overall", {"2": -9999.0, "3": -math.inf}, 2.5),
    ("good_response", {"No": -9999.0, "The": -0.1}, 0.0),
]


@pytest.mark.parametrize("prompt, tokens, expected", UNLIKELY)
def test_a_verdict_that_was_very_unlikely_is_one(prompt, tokens, expected):
    prompt, (said, *_) = prompts.load(prompt), tokens
    top = [{"token": token, "logprob": logprob} for token, logprob in tokens.items()]
    kept = likelihoods.keep([top[0] | {"top_logprobs": top}])
    assert likelihoods.read(kept, prompt.parse(said), prompt).score_llm == pytest.approx(expected)


@PROVIDERS
@pytest.mark.parametrize("prompt, places, expected", CASES)
def test_the_place_where_a_reply_says_its_verdict_is_read(provider, prompt, places, expected):
    with Server(lambda request: answered(provider, places)) as server:
        assert score(provider, server, prompt, logprobs=True)["score_llm"] == pytest.approx(
            expected
        )


@PROVIDERS
def test_log_probabilities_are_asked_for_and_kept(provider, tmp_path):
    places = [("3", {"2": 0.5, "3": 0.2, "4": 0.1, "0": 0.05})]
    with Server(lambda request: answered(provider, places)) as server:
        kept = {"store": tmp_path / "s.sqlite", "ask": False}
        score(provider, server, store=kept["store"], logprobs=3)
        assert score(provider, server, **kept, logprobs=2)["score_llm"] == pytest.approx(
            (2 * 0.5 + 3 * 0.2) / 0.7
        )
        assert (
            score(provider, server, **kept, logprobs=0)["score_llm"] == 3
        )  # one asking serves both readings
        assert (
            score(provider, server, **kept, logprobs=0, top_p=0.5)["status"] == "missing"
        )  # another setting
    sent = server.requests[0].body
    assert (sent["logprobs"], sent["top_logprobs"]) == (True, 20) and "logprobs" not in sent.get(
        "options", {}
    )


@PROVIDERS
def test_a_reply_without_them_or_with_a_fraction_has_no_score(provider):
    fraction = answered(
        provider, [("3", {"3": 0.5, "2": 0.5}), (".", {".": 1.0}), ("5", {"5": 1.0})]
    )
    with Server(lambda request: fraction) as server:
        row = score(provider, server, logprobs=True)
    assert (
        row["status"] == "malformed"
        and math.isnan(row["score_llm"])
        and "a whole number" in row["reason"]
    )
    with Server(
        lambda request: servers.REPLIES[provider]("1")
    ) as server:  # which is found out before all are asked
        options = {"store": ":memory:", "base_url": server.url, "concurrency": 1}
        judge = dre.judges.open(f"{provider}:m", logprobs=True, **options)
        with pytest.raises(
            DreError, match="no log-probabilities came.*what was answered is stored"
        ):
            judge.score(pairs(9), "quality_overall")
        assert (
            len(server.requests) == 1
            and "no log-prob" in judge.score(pairs(1), "quality_overall")["reason"][0]
        )
