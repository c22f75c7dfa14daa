"""Scores from log-probabilities: by hand, and through the real SDKs."""

import math

import judge_servers as servers
import pytest
from judge_servers import Server, pairs

import dre.judges
from dre.errors import DreError
from dre.judges import likelihoods, prompts
from dre.judges.parse import Verdict

RATED, ASKED = prompts.load("quality_overall"), prompts.load("good_response")


def test_tokens_that_say_the_same_add_up_and_others_say_nothing():
    tokens = {"2": 0.3, " 2": 0.2, "3.": 0.1, "5": 0.1, "two": 0.1, "-1": 0.05, "": 0.1, "2/4": 0.05}
    found = likelihoods.probabilities({token: math.log(p) for token, p in tokens.items()}, RATED)
    assert found == pytest.approx({2: 0.5, 3: 0.1})  # 5 is off the scale
    words = {"Yes": 0.4, " yes": 0.2, "YES": 0.1, "no": 0.1, "Not": 0.1}
    found = likelihoods.probabilities({token: math.log(p) for token, p in words.items()}, ASKED)
    assert found == pytest.approx({"Positive": 0.7, "Negative": 0.1})


def kept(*places):
    """Places as a store keeps them; each: what was said, and {token: probability}."""
    logs = [{token: math.log(p) for token, p in tokens.items()} for _, tokens in places]
    given = [{"token": said, "logprob": log.pop(said)} | {"top_logprobs": [
        {"token": t, "logprob": v} for t, v in log.items()]} for (said, _), log in zip(places, logs)]  # fmt: skip
    return likelihoods.keep(given)


def test_read_is_the_place_where_the_reply_says_its_verdict():
    top = kept(("Rating", {"Rating": 0.9, "4": 0.1}), (":", {":": 1.0}), (" 3", {" 3": 0.6, " 1": 0.2}))
    assert likelihoods.read(top, Verdict("ok", 3.0), RATED).score_llm == pytest.approx((3 * 0.6 + 0.2) / 0.8)
    odd = kept(("3", {"3": 0.5, "2": 0.5}), (".", {".": 1.0}), ("5", {"5": 1.0}))
    said = likelihoods.read(odd, Verdict("ok", 3.5), RATED)
    assert said.status == "malformed" and said.score_llm is None and "whole number" in said.reason
    none = likelihoods.read(None, Verdict("ok", 3.0), RATED)
    assert none.status == "malformed" and "openai:, ollama:" in none.reason and "repeats" in none.reason
    refused = Verdict("refused", reason="no")
    assert likelihoods.read(None, refused, RATED) == refused
    answer = likelihoods.read(kept(("Yes", {"Yes": 0.6, "No": 0.2})), Verdict("ok", label="Positive"), ASKED)
    assert (answer.score_llm, answer.label) == (pytest.approx(0.75), "Positive")
    assert likelihoods.keep([]) is None and likelihoods.keep(None) is None


@pytest.mark.parametrize("provider", ["anthropic", "gemini"])
def test_a_provider_without_log_probabilities_is_refused_with_what_to_use_instead(provider):
    with pytest.raises(DreError, match=f"{provider} gives no log-probabilities: .*openai:, ollama:.*repeats"):
        dre.judges.open(f"{provider}:m", store=":memory:", logprobs=True)


def answered(provider, said, tokens):
    """A reply with its log-probabilities in the provider's wire format."""
    top = [{"token": token, "logprob": math.log(p), "bytes": [*token.encode()]} for token, p in tokens.items()]
    place = next(one for one in top if one["token"] == said) | {"top_logprobs": top}
    answer = servers.REPLIES[provider](said)
    if provider == "openai":
        answer.body["choices"][0]["logprobs"] = {"content": [place], "refusal": None}
    else:
        answer.body["logprobs"] = [place]
    return answer


@pytest.mark.parametrize("provider", ["openai", "ollama"])
def test_log_probabilities_are_asked_for_kept_and_read(provider, tmp_path):
    tokens = {"2": 0.5, "3": 0.2, "4": 0.1, "0": 0.05}
    with Server(lambda request: answered(provider, "3", tokens)) as server:
        path = tmp_path / "s.sqlite"

        def score(prompt="quality_overall", ask=True, **options):
            judge = dre.judges.open(f"{provider}:m", store=path, base_url=server.url, **options)
            return judge.score(pairs(1), prompt, ask=ask).iloc[0]

        assert score(logprobs=True)["score_llm"] == pytest.approx((2 * 0.5 + 3 * 0.2 + 4 * 0.1) / 0.8)
        assert score(logprobs=2, ask=False)["score_llm"] == pytest.approx((2 * 0.5 + 3 * 0.2) / 0.7)  # kept
        assert score(logprobs=0, ask=False)["status"] == "missing"  # another setting
        server.script = lambda request: answered(provider, "No", {"Yes": 0.3, "No": 0.6})
        row = score("good_response", logprobs=True)
        assert (row["score_llm"], row["label"]) == (pytest.approx(1 / 3), "Negative")
        server.script = lambda request: servers.REPLIES[provider]("1")  # a server that leaves them out
        row = score("quality_fluent", logprobs=True)
        assert row["status"] == "malformed" and "no log-probabilities" in row["reason"]
    sent = server.requests[0].body
    assert (sent["logprobs"], sent["top_logprobs"]) == (True, 20) and "logprobs" not in sent.get("options", {})
    signature = dre.judges.open(f"{provider}:m", store=":memory:", logprobs=True).signature
    assert "logprobs=3" in signature
