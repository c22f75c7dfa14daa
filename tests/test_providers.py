"""Each provider's real SDK against a local server that speaks its wire format."""

import json
import time

import judge_servers as servers
import pytest
from judge_servers import KEYS, REPLIES, Answer, Server, error, pairs

import dre.judges
from dre.errors import DreError
from dre.judges import failures

GOOD = '{"score": 4.5}'
pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture(params=list(KEYS))
def provider(request):
    return request.param


def judge(provider, server, **options):
    return dre.judges.open(
        f"{provider}:test-model", store=":memory:", base_url=server.url, **options
    )


def test_a_reply_is_read_with_its_tokens_and_paid_for(provider):
    with Server(lambda request: REPLIES[provider](GOOD)) as server:
        asked = judge(provider, server, price="2,10")
        row = asked.score(pairs(1)).iloc[0]
    assert (row["status"], row["score_llm"]) == ("ok", 4.5)
    assert row["cost"] == asked.last.spent == pytest.approx((50 * 2 + 10 * 10) / 1e6)


BROKEN = [
    Answer(b"{"),
    Answer(b"<html>busy</html>"),
    Answer(b"{}"),
    Answer(b"[]"),
    Answer(b"", drop=True),
]


@pytest.mark.parametrize(
    "bad", [408, 409, 429, 500, 503, 529, *BROKEN], ids=lambda bad: str(getattr(bad, "body", bad))
)
def test_what_may_pass_is_tried_again_once_per_attempt(provider, bad):
    answers = [error(provider, bad) if isinstance(bad, int) else bad, REPLIES[provider](GOOD)]
    with Server(lambda request: answers[min(1, len(server.requests) - 1)]) as server:
        asked = judge(provider, server)
        assert asked.score(pairs(1))["score_llm"][0] == 4.5
    assert len(server.requests) == asked.last.calls == 2  # the SDK's own retries are off


def stops_at_once(provider, answer, said):
    with Server(lambda request: answer) as server, pytest.raises(DreError, match=said):
        judge(provider, server, concurrency=1).score(pairs(5))
    assert len(server.requests) == 1


CANNOT = [(401, "bad key"), (403, "no"), (429, "insufficient_quota"), (400, "credit balance")]
CANNOT += [
    (500, "logprobs is not supported for models created with logits_all=False"),
    (422, "response_format: unknown"),
]


@pytest.mark.parametrize("status, said", CANNOT)
def test_what_cannot_pass_stops_the_run(provider, status, said):
    advice = {500: "leave logprobs out", 422: "give --plain"}.get(status, "")
    stops_at_once(
        provider, error(provider, status, said), f"HTTP {status}.*{advice}.*no further call"
    )


LONG = [  # llama-cpp-python's (two), llama.cpp's and vLLM's words for a prompt that is too long
    "could not broadcast input array from shape (128,) into shape (77,)",
    "This model's maximum context length is 512 tokens. However, you requested 1543 tokens",
    "the request exceeds the available context size. try increasing the context size or enable context shift",
    "This model's maximum context length is 512 tokens and your request has 519 input tokens",
]


@pytest.mark.parametrize("said", LONG)
def test_a_prompt_longer_than_the_servers_context_costs_its_row_alone(said):
    def script(request):
        return error("openai", 400, said) if b"number 1?" in request.raw else servers.openai(GOOD)

    with Server(script) as server:
        table = judge("openai", server).score(pairs(3))
    assert list(table["status"]) == ["ok", "error", "ok"] and len(server.requests) == 3
    assert (
        "longer than the server's context" in table["reason"][1]
        and "--plain" not in table["reason"][1]
    )


@pytest.mark.parametrize("status", [400, 422])
def test_a_bad_request_is_an_error_of_its_row_and_names_plain(provider, status):
    def script(request):
        return (
            error(provider, status, "no schema")
            if b"number 0" in request.raw
            else REPLIES[provider](GOOD)
        )

    with Server(script) as server:
        table = judge(provider, server).score(pairs(2))
    assert list(table["status"]) == ["error", "ok"] and len(server.requests) == 2
    assert "--plain" in table["reason"][0] and table["score_llm"].isna()[0]


FILTERED = Answer(
    {"error": {"message": "filtered", "code": "content_filter", "type": "x", "param": None}}, 400
)
BLOCKED = Answer(
    {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 5}}
)
OUTCOMES = [  # the provider's own word goes before the text
    ("truncated", "openai", servers.openai(GOOD, "length")),
    ("truncated", "anthropic", servers.anthropic(GOOD, "max_tokens")),
    ("truncated", "anthropic", servers.anthropic(GOOD, "pause_turn")),
    ("truncated", "anthropic", servers.anthropic(GOOD, "model_context_window_exceeded")),
    ("truncated", "gemini", servers.gemini(GOOD, "MAX_TOKENS")),
    ("truncated", "ollama", servers.ollama(GOOD, "length")),
    ("refused", "openai", servers.openai(GOOD, "content_filter")),
    ("refused", "openai", servers.openai(None, refusal="I cannot help with that. Score: 3")),
    ("refused", "openai", FILTERED),
    ("refused", "anthropic", servers.anthropic(GOOD, "refusal")),
    ("refused", "gemini", servers.gemini(GOOD, "SAFETY")),
    ("refused", "gemini", BLOCKED),
    *(("empty", name, reply("")) for name, reply in REPLIES.items()),
    *(("malformed", name, reply("I would rather not say.")) for name, reply in REPLIES.items()),
]


@pytest.mark.parametrize("outcome, provider, answer", OUTCOMES)
def test_what_is_no_score_is_an_outcome_of_its_own_and_never_0(outcome, provider, answer):
    with Server(lambda request: answer) as server:
        table = judge(provider, server).score(pairs(1))
    assert table["status"][0] == outcome and table["score_llm"].isna()[0]


def test_parameters_and_schema_reach_the_server(provider):
    with Server(lambda request: REPLIES[provider](GOOD)) as server:
        window = {"num_ctx": 4096} if provider == "ollama" else {}
        judge(provider, server, max_tokens=77, temperature=0.5, top_p=0.9, **window).score(pairs(1))
        judge(provider, server, plain=True).score(pairs(1))
    sent, plain = (json.loads(request.raw) for request in server.requests)
    assert all(text in str(sent) for text in ("77", "0.5", "0.9", "ferns", "properties"))
    assert "properties" not in str(plain)
    if provider == "openai":
        assert sent["max_tokens"] == 77  # servers of others know the bound by its older name
    if provider == "ollama":
        assert sent["options"] == {
            "num_ctx": 4096,
            "num_predict": 77,
            "temperature": 0.5,
            "top_p": 0.9,
        }
        assert plain["options"] == {"num_ctx": 8192 + 8192, "num_predict": 8192}


def test_no_server_is_said_soon(provider):
    with Server(lambda request: None) as server:
        asked = judge(provider, server, concurrency=1, timeout=5)
    pytest.raises(DreError, asked.score, pairs(3)).match("no server answers")


def test_retry_after_is_heeded_and_a_long_one_ends_the_run():
    answers, start = (
        [error("openai", 429, headers={"retry-after": "0.4"}), servers.openai(GOOD)],
        time.monotonic(),
    )
    with Server(lambda request: answers[len(server.requests) - 1]) as server:
        judge("openai", server).score(pairs(1))
    assert len(server.requests) == 2 and time.monotonic() - start >= 0.4
    stops_at_once("openai", error("openai", 429, headers={"retry-after": "3600"}), "60 minutes")
    assert failures.of_status(429, "retry_delay { seconds: 17 }").wait == 17
