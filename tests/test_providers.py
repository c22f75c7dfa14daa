"""Each provider's real SDK against a local server that speaks its wire format."""

import json
import math
import os
import ssl
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import judge_servers as servers
import pytest
from judge_servers import KEYS, REPLIES, Answer, Server, error, pairs

import dre.judges
from dre.commands.main import main
from dre.errors import DreError
from dre.judges import asking, connection, failures, prices
from dre.judges.provider import certificates
from dre.judges.providers import PROVIDERS
from dre.judges.store import Store

GOOD = '{"score": 4.5}'
KEY = "canary-0123456789-abcdefghij"
RETIRED = "gemini by google-generativeai"
pytestmark = pytest.mark.usefixtures("quick")


def use_retired_gemini(monkeypatch):
    """Let google-genai be missing, so that the retired google-generativeai is taken."""
    monkeypatch.setitem(sys.modules, "google.genai", None)


@pytest.fixture(params=[*KEYS, RETIRED])
def provider(request, monkeypatch):
    """A provider's name, and its SDK made the one that is used: Gemini has two."""
    if request.param == RETIRED:
        use_retired_gemini(monkeypatch)
        return "gemini"
    return request.param


@pytest.fixture(params=["google-genai", "google-generativeai"])
def gemini_sdk(request, monkeypatch):
    """One of Gemini's two SDKs, made the one that is used."""
    if request.param == "google-generativeai":
        use_retired_gemini(monkeypatch)
    return request.param


def open_judge(provider, server, **options):
    """A judge at a local server, with a store of its own in memory."""
    options = {"store": ":memory:", "base_url": server.url, **options}
    return dre.judges.open(f"{provider}:test-model", **options)


def stops_at_once(provider, answer, message, **options):
    """Assert that this answer ends a run at its first call; returns the error's message."""
    with Server(lambda request: answer) as server, pytest.raises(DreError, match=message) as raised:
        open_judge(provider, server, concurrency=1, **options).score(pairs(5))
    assert len(server.requests) == 1
    return str(raised.value)


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_provider_is_told_whole_and_stands_in_help_and_messages(name, capsys):
    provider_class = PROVIDERS[name]
    assert provider_class.key_variables and provider_class.less_thinking
    assert provider_class.host.endswith(provider_class.domains)
    with pytest.raises(SystemExit):
        main(["judge", "run", "--help"])
    assert f"{name}:<model>" in capsys.readouterr().out.replace("\n", " ")
    with pytest.raises(DreError, match=f"{name}:<model>"):
        dre.judges.open("nobody:model")
    for path in provider_class.endpoints:
        with pytest.raises(DreError, match=f"ends in /{path}, which is added"):
            dre.judges.open(f"{name}:model", base_url=f"http://127.0.0.1:9/{path}")


# Replies


def test_a_reply_is_read_with_its_tokens_and_paid_for(provider):
    with Server(lambda request: REPLIES[provider](GOOD)) as server:
        judge = open_judge(provider, server, price="2,10")
        row = judge.score(pairs(1)).iloc[0]
    assert (row["status"], row["score_llm"]) == ("ok", 4.5)
    assert row["cost"] == judge.last.spent == pytest.approx((50 * 2 + 10 * 10) / 1e6)


FILTERED = Answer(
    {"error": {"message": "filtered", "code": "content_filter", "type": "x", "param": None}}, 400
)
BLOCKED = Answer(
    {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 5}}
)
REFUSAL = "I cannot help with that. Score: 3"
OUTCOMES = [  # the provider's own word goes before the text
    ("truncated", "openai", servers.openai(GOOD, "length")),
    ("truncated", "anthropic", servers.anthropic(GOOD, "max_tokens")),
    ("truncated", "anthropic", servers.anthropic(GOOD, "pause_turn")),
    ("truncated", "anthropic", servers.anthropic(GOOD, "model_context_window_exceeded")),
    ("truncated", "ollama", servers.ollama(GOOD, "length")),
    ("refused", "openai", servers.openai(GOOD, "content_filter")),
    ("refused", "openai", servers.openai(None, refusal=REFUSAL)),
    ("refused", "openai", FILTERED),
    ("refused", "anthropic", servers.anthropic(GOOD, "refusal")),
    *(("empty", name, reply("")) for name, reply in REPLIES.items()),
    *(("malformed", name, reply("I would rather not say.")) for name, reply in REPLIES.items()),
]


@pytest.mark.parametrize("outcome, provider, answer", OUTCOMES)
def test_what_is_no_score_is_an_outcome_of_its_own_and_never_0(outcome, provider, answer):
    with Server(lambda request: answer) as server:
        table = open_judge(provider, server).score(pairs(1))
    assert table["status"][0] == outcome
    assert table["score_llm"].isna()[0]


GEMINI_OUTCOMES = [
    ("truncated", servers.gemini(GOOD, "MAX_TOKENS")),
    ("refused", servers.gemini(GOOD, "SAFETY")),
    ("refused", servers.gemini(GOOD, "RECITATION")),
    ("refused", BLOCKED),
    ("empty", servers.gemini("")),
]


@pytest.mark.parametrize("outcome, answer", GEMINI_OUTCOMES)
def test_what_gemini_does_not_finish_is_no_score_by_either_sdk(outcome, answer, gemini_sdk):
    with Server(lambda request: answer) as server:
        table = open_judge("gemini", server).score(pairs(1))
    assert table["status"][0] == outcome
    assert table["score_llm"].isna()[0]


def test_gemini_names_the_model_that_answered(gemini_sdk, capsys):
    with Server(lambda request: servers.gemini(GOOD)) as server:
        judge = dre.judges.open("gemini:flash-latest", store=":memory:", base_url=server.url)
        judge.score(pairs(1))
        [(_, reply)] = judge.replies(pairs(1))
    assert reply.model == "test-model"
    assert "flash-latest was asked, and test-model answered" in capsys.readouterr().err


def test_a_newer_version_and_latest_are_names_of_one_model():
    assert connection.is_same_model("claude-3-5-haiku-latest", "claude-3-5-haiku-20241022")
    assert connection.is_same_model("gpt-4o-latest", "gpt-4o")
    assert not connection.is_same_model("gpt-4o", "gpt-4o-mini")


# What a reply costs


def cost_of(provider, answer, price):
    """The dollars that are booked for one answer."""
    with Server(lambda request: answer) as server:
        judge = open_judge(provider, server, price=price)
        judge.score(pairs(1))
    return judge.last.spent


@pytest.mark.parametrize(
    ("usd", "most_usd", "words"),
    [
        (0.0, 0.0, "nothing"),
        (0.001, 0.0042, "less than $0.01, at most $0.01"),
        (0.69, 5.371, "about $0.69, at most $5.38"),
    ],
)
def test_an_estimate_names_no_sum_that_looks_like_nothing(usd, most_usd, words):
    assert prices.in_words(usd, most_usd) == words


PRICE = prices.Price(input=4.0, output=10.0, cached=1.0)


def test_gemini_is_paid_for_its_thoughts(gemini_sdk):
    answer = servers.gemini(GOOD)
    answer.body["usageMetadata"].update(thoughtsTokenCount=40, totalTokenCount=100)
    assert cost_of("gemini", answer, PRICE) == pytest.approx((50 * 4 + 50 * 10) / 1e6)


def test_thinking_that_is_counted_in_the_total_alone_is_paid():
    answer = servers.openai(GOOD, tokens=(50, 10))
    answer.body["usage"]["total_tokens"] = 100
    assert cost_of("openai", answer, PRICE) == pytest.approx((50 * 4 + 50 * 10) / 1e6)


def test_input_from_a_cache_costs_its_own_price():
    openai = servers.openai(GOOD, tokens=(50, 10))
    openai.body["usage"]["prompt_tokens_details"] = {"cached_tokens": 30}
    assert cost_of("openai", openai, PRICE) == pytest.approx((20 * 4 + 30 * 1 + 10 * 10) / 1e6)

    gemini = servers.gemini(GOOD)
    gemini.body["usageMetadata"]["cachedContentTokenCount"] = 30
    assert cost_of("gemini", gemini, PRICE) == pytest.approx((20 * 4 + 30 * 1 + 10 * 10) / 1e6)

    anthropic = servers.anthropic(GOOD)  # whose cached tokens come on top of the others
    anthropic.body["usage"]["cache_read_input_tokens"] = 30
    assert cost_of("anthropic", anthropic, PRICE) == pytest.approx((50 * 4 + 30 + 100) / 1e6)


def test_what_claude_writes_to_a_cache_costs_a_quarter_more():
    answer = servers.anthropic(GOOD)
    answer.body["usage"]["cache_creation_input_tokens"] = 40
    assert cost_of("anthropic", answer, PRICE) == pytest.approx((100 * 4 + 10 * 10) / 1e6)


def test_what_openai_writes_to_a_cache_costs_a_quarter_more():
    answer = servers.openai(GOOD, tokens=(50, 10))
    answer.body["usage"]["prompt_tokens_details"] = {"cache_write_tokens": 40}
    assert cost_of("openai", answer, PRICE) == pytest.approx((60 * 4 + 10 * 10) / 1e6)


def test_counts_that_are_floats_are_counts():
    answer = servers.openai(GOOD, tokens=(50.0, 10.0))
    assert cost_of("openai", answer, "4,10") == pytest.approx((50 * 4 + 10 * 10) / 1e6)
    broken = servers.openai(GOOD, tokens=(50.5, 10))
    assert cost_of("openai", broken, "4,10") > (50.5 * 4 + 10 * 10) / 1e6  # at most, when unknown


THINKING = [
    "gpt-oss-20b",
    "openai/gpt-oss-120b",
    "grok-4",
    "claude-opus-4-8",
    "gemini-flash-latest",
    "gemini-pro-latest",
    "kimi-k3",
    "hunyuan-t1",
    "seed-oss-36b-instruct",
    "exaone-deep-7.8b",
    "smollm3-3b",
]


@pytest.mark.parametrize("model", THINKING)
def test_models_that_think_first_get_room_for_it(model):
    assert prices.longest("score", "openai", model) == 8192


@pytest.mark.parametrize("model", ["gpt-4o", "claude-3-haiku-20240307", "gemini-1.5-flash-latest"])
def test_models_that_answer_at_once_get_no_room_for_thinking(model):
    assert prices.longest("score", "openai", model) == 1024


def test_a_parameter_that_turns_thinking_on_gives_room_for_it():
    params = {"thinking_config": {"thinking_budget": 500}}
    assert prices.longest("score", "gemini", "gemini-2.0-flash", params) == 8192


def test_the_papers_models_have_a_price():
    turbo = prices.find("openai", "gpt-3.5-turbo-1106")
    haiku = prices.find("anthropic", "claude-3-haiku-20240307")
    flash = prices.find("gemini", "gemini-1.5-flash")
    assert (turbo.input, turbo.output) == (1.0, 2.0)
    assert (haiku.input, haiku.output) == (0.25, 1.25)
    assert (flash.input, flash.output) == (0.075, 0.3)


def test_no_price_is_known_elsewhere_or_of_other_models():
    assert prices.find("openai", "gpt-4o", base_url="http://127.0.0.1:8000/v1") is None
    assert prices.find("openai", "gpt-4o-of-mine") is None
    assert prices.find("anthropic", "claude-nova-9") is None
    assert prices.find("ollama", "gpt-oss:120b-cloud") is None


def test_tokens_from_a_cache_are_billed_at_their_own_price():
    # Printed per million tokens: 0.30 of input, 0.03 of input from a cache, 2.50 of output.
    flash = prices.find("gemini", "gemini-2.5-flash")
    assert flash.cost(2_000_000, 1_000_000, cached=1_000_000) == pytest.approx(0.30 + 0.03 + 2.50)
    assert flash.cost(2_000_000, 0, batch=True) == pytest.approx(0.30)


# Failures


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
    first = error(provider, bad) if isinstance(bad, int) else bad
    answers = [first, REPLIES[provider](GOOD)]
    with Server(lambda request: answers[min(1, len(server.requests) - 1)]) as server:
        judge = open_judge(provider, server)
        assert judge.score(pairs(1))["score_llm"][0] == 4.5
    assert len(server.requests) == judge.last.calls == 2  # the SDK's own retries are off


CANNOT = [
    (401, "bad key", ""),
    (402, "pay first", ""),
    (403, "no", ""),
    (429, "insufficient_quota", ""),
    (400, "credit balance", ""),
    (500, "logprobs is not supported for models with logits_all=False", "leave logprobs out"),
    (422, "response_format: unknown", "give --plain"),
]


@pytest.mark.parametrize("status, message, advice", CANNOT)
def test_what_cannot_pass_stops_the_run(provider, status, message, advice):
    answer = error(provider, status, message)
    stops_at_once(provider, answer, f"HTTP {status}.*{advice}.*{message}.*no further call")


LONG = [  # llama-cpp-python's, vLLM's (two), llama.cpp's, Claude's and Gemini's words
    "could not broadcast input array from shape (128,) into shape (77,)",
    "This model's maximum context length is 512 tokens. However, you requested 1543 tokens",
    "This model's maximum context length is 512 tokens and your request has 519 input tokens",
    "the request exceeds the available context size. try increasing the context size",
    "prompt is too long: 210000 tokens > 200000 maximum",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
]


@pytest.mark.parametrize("message", LONG)
def test_a_prompt_longer_than_the_servers_context_costs_its_row_alone(message):
    def script(request):
        if b"number 1?" in request.raw:
            return error("openai", 400, message)
        return servers.openai(GOOD)

    with Server(script) as server:
        table = open_judge("openai", server).score(pairs(3))
    assert list(table["status"]) == ["ok", "error", "ok"]
    assert len(server.requests) == 3
    assert "longer than the server's context" in table["reason"][1]
    assert "--plain" not in table["reason"][1]


def test_a_request_larger_than_a_rate_limit_costs_its_row_alone():
    message = "Request too large for m on tokens per min: Limit 300, Requested 400"

    def script(request):
        if b"number 1?" in request.raw:
            return error("openai", 429, message)
        return servers.openai(GOOD)

    with Server(script) as server:
        table = open_judge("openai", server).score(pairs(3))
    assert list(table["status"]) == ["ok", "error", "ok"]
    assert len(server.requests) == 3
    assert message in table["reason"][1]


@pytest.mark.parametrize("status", [400, 422])
def test_a_bad_request_is_an_error_of_its_row_in_the_providers_words(provider, status):
    def script(request):
        if b"number 0" in request.raw:
            return error(provider, status, "the schema has too many fields")
        return REPLIES[provider](GOOD)

    with Server(script) as server:
        table = open_judge(provider, server).score(pairs(2))
    assert list(table["status"]) == ["error", "ok"]
    assert len(server.requests) == 2
    assert "the schema has too many fields" in table["reason"][0]
    assert "--plain" in table["reason"][0]
    assert table["score_llm"].isna()[0]


REFUSED_TEMPERATURE = {
    "openai": "Unsupported value: 'temperature' does not support 0.5 with this model. "
    "Only the default (1) value is supported.",
    "anthropic": "temperature: Extra inputs are not permitted",
    "gemini": 'Invalid JSON payload received. Unknown name "temperature" at generation_config',
    "ollama": "invalid option temperature",
}


def test_a_parameter_that_the_model_refuses_stops_the_run_in_the_providers_words(provider):
    message = REFUSED_TEMPERATURE[servers.protocol_of(provider)]
    answer = error(provider, 400, message)
    reason = stops_at_once(provider, answer, "does not take this temperature", temperature=0.5)
    assert message in reason
    assert "--plain" not in reason


def test_a_parameter_that_the_server_names_in_a_field_of_its_own_stops_the_run():
    answer = error("openai", 400, "not with this one")
    answer.body["error"]["param"] = "top_p"
    stops_at_once("openai", answer, "does not take this top_p", top_p=0.5)


def test_an_ordinary_word_that_is_also_a_parameter_stops_no_run():
    def script(request):
        if b"number 1?" in request.raw:
            return error("openai", 400, "this must stop: the seed of all evil")
        return servers.openai(GOOD)

    with Server(script) as server:
        table = open_judge("openai", server, stop="|", seed=1).score(pairs(3))
    assert list(table["status"]) == ["ok", "error", "ok"]


def test_a_validation_error_that_echoes_the_request_is_read_by_its_own_words():
    def script(request):
        if b"number 1?" not in request.raw:
            return servers.openai(GOOD)
        problem = {"loc": ["body", "messages", 0], "msg": "too odd", "input": request.body}
        return Answer({"detail": [problem]}, 422)

    with Server(script) as server:
        table = open_judge("openai", server).score(pairs(3))
    assert list(table["status"]) == ["ok", "error", "ok"]  # though the echo has response_format
    assert "body.messages.0: too odd" in table["reason"][1]


def test_an_error_that_quotes_the_dialogue_is_no_word_about_the_context():
    pair = pairs(1)[0]
    pair["response"] = "The maximum context length is what I water, whatever the temperature."

    def script(request):
        return error("openai", 400, f"this text was flagged: {pair['response']}")

    with Server(script) as server:
        table = open_judge("openai", server, temperature=0.5).score([pair])
    assert table["status"][0] == "error"
    assert "longer than" not in table["reason"][0]
    assert "this text was flagged" in table["reason"][0]


def test_a_long_error_is_cut_where_it_is_repeated(monkeypatch, capsys):
    monkeypatch.setattr(asking, "HEARTBEAT", 0.1)
    answers = [error("openai", 400, "so wrong " * 40), servers.openai(GOOD, delay=0.5)]
    with Server(lambda request: answers[len(server.requests) - 1]) as server:
        open_judge("openai", server, concurrency=1).score(pairs(2))
    lines = [line for line in capsys.readouterr().err.splitlines() if "last trouble" in line]
    troubles = [line.partition("last trouble: ")[2] for line in lines]
    assert troubles
    assert all(trouble.startswith("HTTP 400: so wrong") for trouble in troubles)
    assert all(len(trouble) <= 100 for trouble in troubles)


def test_no_server_is_said_soon(provider):
    with Server(lambda request: None) as server:
        judge = open_judge(provider, server, concurrency=1, timeout=5)
    with pytest.raises(DreError, match="no server answers"):
        judge.score(pairs(3))


# Waiting


def test_retry_after_is_heeded():
    answers = [error("openai", 429, headers={"retry-after": "0.4"}), servers.openai(GOOD)]
    start = time.monotonic()
    with Server(lambda request: answers[len(server.requests) - 1]) as server:
        open_judge("openai", server).score(pairs(1))
    assert len(server.requests) == 2
    assert time.monotonic() - start >= 0.4


def test_a_long_retry_after_ends_the_run():
    stops_at_once("openai", error("openai", 429, headers={"retry-after": "3600"}), "60 minutes")


def test_the_wait_in_milliseconds_goes_before_the_one_in_seconds():
    headers = {"retry-after-ms": "1500", "retry-after": "2"}
    assert failures.of_status(429, "slow", headers).wait == 1.5


def test_geminis_wait_stands_in_the_body():
    assert failures.of_status(429, "retry_delay { seconds: 17 }").wait == 17
    body = json.dumps({"error": {"message": "no", "details": [{"retryDelay": "17s"}]}})
    assert failures.of_status(429, "no", body=body).wait == 17


def test_a_date_to_wait_for_is_compared_with_the_servers_clock():
    an_hour_ahead = datetime.now(UTC) + timedelta(hours=1)
    headers = {
        "date": format_datetime(an_hour_ahead, usegmt=True),
        "retry-after": format_datetime(an_hour_ahead + timedelta(seconds=4), usegmt=True),
    }
    assert failures.of_status(429, "slow", headers).wait == 4


def test_without_the_servers_clock_a_date_makes_wait_a_minute_at_most():
    an_hour_ahead = datetime.now(UTC) + timedelta(hours=1)
    headers = {"retry-after": format_datetime(an_hour_ahead, usegmt=True)}
    assert failures.of_status(429, "slow", headers).wait == 60


# Parameters


def test_parameters_and_schema_reach_the_server(provider):
    with Server(lambda request: REPLIES[provider](GOOD)) as server:
        open_judge(provider, server, max_tokens=77, temperature=0.5, top_p=0.9).score(pairs(1))
        open_judge(provider, server, plain=True).score(pairs(1))
    sent, plain = (str(request.body) for request in server.requests)
    for text in ("77", "0.5", "0.9", "ferns", "properties"):
        assert text in sent
    assert "properties" not in plain


def test_a_server_of_others_knows_the_limit_by_its_older_name():
    with Server(lambda request: servers.openai(GOOD)) as server:
        open_judge("openai", server, max_tokens=77).score(pairs(1))
    assert server.requests[0].body["max_tokens"] == 77


def test_ollamas_window_has_room_for_prompt_and_reply_unless_it_is_given():
    with Server(lambda request: servers.ollama(GOOD)) as server:
        open_judge("ollama", server, max_tokens=77, num_ctx=4096).score(pairs(1))
        open_judge("ollama", server).score(pairs(1))
    explicit, default = (request.body["options"] for request in server.requests)
    assert explicit == {"num_ctx": 4096, "num_predict": 77}
    assert default == {"num_ctx": 8192 + 8192, "num_predict": 8192}


def test_effort_is_a_field_of_claudes_output_config_beside_the_schema():
    with Server(lambda request: servers.anthropic(GOOD)) as server:
        open_judge("anthropic", server, effort="low").score(pairs(1))
        open_judge("anthropic", server, effort="low", plain=True).score(pairs(1))
        open_judge("anthropic", server).score(pairs(1))
    effort_and_schema, effort, schema = (
        request.body["output_config"] for request in server.requests
    )
    assert effort_and_schema["effort"] == "low"
    assert effort_and_schema["format"]["type"] == "json_schema"
    assert effort == {"effort": "low"}
    assert list(schema) == ["format"]
    assert "effort" not in server.requests[0].body


def test_geminis_thinking_seed_and_safety_reach_the_server():
    safety = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    with Server(lambda request: servers.gemini(GOOD)) as server:
        open_judge(
            "gemini",
            server,
            thinking_config={"thinking_budget": 0},
            seed=7,
            safety_settings=safety,
            price="1,1",
            max_usd=1,
        ).score(pairs(1))
    sent = server.requests[0].body
    config = sent["generationConfig"]
    assert config["thinkingConfig"] == {"thinking_budget": 0}
    assert config["seed"] == 7
    assert sent["safetySettings"] == safety
    assert config["responseMimeType"] == "application/json"
    assert "properties" in str(config["responseJsonSchema"])


def test_geminis_log_probabilities_make_a_score():
    answer = servers.gemini("3")
    likeliest = [
        {"token": "3", "logProbability": math.log(0.6)},
        {"token": "1", "logProbability": math.log(0.2)},
    ]
    answer.body["candidates"][0]["logprobsResult"] = {
        "chosenCandidates": [likeliest[0]],
        "topCandidates": [{"candidates": likeliest}],
    }
    with Server(lambda request: answer) as server:
        table = open_judge("gemini", server, logprobs=True).score(pairs(1), "quality_overall")
    config = server.requests[0].body["generationConfig"]
    assert (config["responseLogprobs"], config["logprobs"]) == (True, 20)
    assert table["score_llm"][0] == pytest.approx((3 * 0.6 + 1 * 0.2) / 0.8)


def test_the_retired_gemini_sdk_cannot_limit_thinking_and_says_so(monkeypatch):
    use_retired_gemini(monkeypatch)
    with Server(lambda request: servers.gemini(GOOD)) as server:
        judge = open_judge("gemini", server, thinking_config={"thinking_budget": 0})
        with pytest.raises(DreError, match="gemini takes no parameter thinking_config"):
            judge.score(pairs(1))
    assert server.requests == []


REFUSED = [
    ("anthropic", "temperature", 0.5),
    ("anthropic", "top_p", 0.5),
    ("anthropic", "top_k", 5),
    ("openai", "effort", "low"),
    ("openai", "top_k", 5),
    ("gemini", "effort", "low"),
    ("ollama", "effort", "low"),
]


@pytest.mark.parametrize("provider, name, value", REFUSED)
def test_what_an_api_does_not_take_is_refused_by_name_before_a_call(
    provider, name, value, monkeypatch
):
    monkeypatch.setenv(KEYS[provider], KEY)
    judge = dre.judges.open(f"{provider}:test-model", store=":memory:", **{name: value})
    with pytest.raises(DreError, match=f"{provider} takes no parameter {name}: leave it out"):
        judge.score(pairs(1))
    assert judge.last.calls == 0


def test_a_value_that_geminis_sdk_does_not_know_is_refused_before_a_call():
    with Server(lambda request: servers.gemini(GOOD)) as server:
        judge = open_judge("gemini", server, thinking_config={"budget": 0})
        with pytest.raises(DreError, match="thinking_config.budget"):
            judge.score(pairs(1))
    assert server.requests == []


def test_a_server_of_others_may_take_more_parameters():
    with Server(lambda request: servers.openai(GOOD)) as server:
        table = open_judge("openai", server, top_k=5).score(pairs(1))
    assert table["status"][0] == "ok"
    assert server.requests[0].body["top_k"] == 5


def test_openais_store_is_a_parameter_beside_the_option_of_this_name(tmp_path):
    store = Store(tmp_path / "replies.sqlite")
    with Server(lambda request: servers.openai(GOOD)) as server:
        judge = open_judge("openai", server, store=store, api_params={"store": False})
        judge.score(pairs(1))
    assert server.requests[0].body["store"] is False
    assert store.path.exists()


def test_the_command_takes_openais_store_as_a_parameter(tmp_path):
    pairs_path = tmp_path / "pairs.jsonl"
    store_path = tmp_path / "replies.sqlite"
    pairs_path.write_text("".join(json.dumps(pair) + "\n" for pair in pairs(1)))
    with Server(lambda request: servers.openai(GOOD)) as server:
        command = ["judge", "run", str(pairs_path), "--judge", "openai:m", "--base-url", server.url]
        command += ["--store", str(store_path), "--param", "store=false"]
        assert main(command) == 0
    assert server.requests[0].body["store"] is False
    assert store_path.exists()


# Keys


OWN = [
    ("openai", "https://api.openai.com/v1"),
    ("openai", "https://api.openai.com:443/v1"),
    ("anthropic", "https://api.anthropic.com"),
    ("gemini", "https://generativelanguage.googleapis.com"),
    ("ollama", "https://ollama.com"),
]
FOREIGN = [
    ("openai", "https://evilopenai.com/v1"),
    ("openai", "https://api.openai.com.evil.org/v1"),
    ("openai", "https://evil.org/api.openai.com/v1"),
    ("openai", "https://files.openai.com/v1"),
    ("openai", "http://api.openai.com/v1"),
    ("openai", "https://api.openai.com:8443/v1"),
    ("openai", "https://api.anthropic.com"),
    ("anthropic", "https://evilanthropic.com"),
    ("gemini", "https://storage.googleapis.com"),
    ("ollama", "http://127.0.0.1:11434"),
    ("ollama", "https://evilollama.com"),
]


@pytest.mark.parametrize("provider, address", OWN)
def test_a_providers_own_host_gets_its_key(provider, address):
    assert connection.is_own_host(provider, address)


@pytest.mark.parametrize("provider, address", FOREIGN)
def test_no_other_host_gets_the_key(provider, address):
    assert not connection.is_own_host(provider, address)


def test_a_host_that_only_sounds_like_a_providers_is_no_public_service():
    assert connection.is_public_service("https://mine.openai.azure.com/v1")
    assert not connection.is_public_service("https://evilopenai.com/v1")


def test_a_providers_host_is_not_asked_without_https():
    with pytest.raises(DreError, match="by https only"):
        dre.judges.open("openai:m", base_url="http://api.openai.com/v1")


@pytest.mark.parametrize("address", ["http://host:port/v1", "http://host:99999/v1", "host:80"])
def test_an_address_of_another_form_is_refused(address):
    with pytest.raises(DreError, match="must look like http://host:port/path"):
        dre.judges.open("openai:m", base_url=address)


ORGANISATION = {
    "OPENAI_ORG_ID": "org-of-mine",
    "OPENAI_PROJECT_ID": "proj-of-mine",
    "OPENAI_CUSTOM_HEADERS": f"X-Mine: secret-of-mine\nAuthorization: Bearer {KEY}",
    "ANTHROPIC_CUSTOM_HEADERS": f"X-Mine: secret-of-mine\nX-Api-Key: {KEY}",
    "ANTHROPIC_AUTH_TOKEN": KEY,
}


def test_a_server_of_others_gets_neither_key_nor_organisation(provider, monkeypatch):
    for name in KEYS.values():
        monkeypatch.setenv(name, KEY)
    for name, value in ORGANISATION.items():
        monkeypatch.setenv(name, value)
    with Server(lambda request: REPLIES[provider](GOOD)) as server:
        assert open_judge(provider, server).score(pairs(1))["status"][0] == "ok"
    headers = str(server.requests[0].headers)
    assert KEY not in headers
    assert "of-mine" not in headers


def test_a_server_of_others_gets_the_key_that_is_meant_for_it(provider, monkeypatch):
    for name, value in ORGANISATION.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MY_KEY", "key-for-this-server")
    with Server(lambda request: REPLIES[provider](GOOD)) as server:
        open_judge(provider, server, key_env="MY_KEY").score(pairs(1))
    headers = str(server.requests[0].headers)
    assert "key-for-this-server" in headers
    assert KEY not in headers


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_redirect_is_followed(provider, status, monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    with Server(lambda request: REPLIES[provider](GOOD)) as elsewhere:
        answer = Answer(b"", status, headers={"location": f"{elsewhere.url}/other"})
        reason = stops_at_once(provider, answer, "passes calls on to another", key_env="MY_KEY")
    assert elsewhere.requests == []
    assert KEY not in reason


def test_a_reply_that_repeats_the_key_is_stored_without_it(provider, monkeypatch, tmp_path):
    text = json.dumps({"reason": f"you sent {KEY}, thank you", "score": 4.5})
    monkeypatch.setenv("MY_KEY", KEY)
    store = Store(tmp_path / "replies.sqlite")
    with Server(lambda request: REPLIES[provider](text)) as server:
        judge = open_judge(provider, server, store=store, key_env="MY_KEY", plain=True)
        row = judge.score(pairs(1)).iloc[0]
        [(_, reply)] = judge.replies(pairs(1))
    store.close()
    assert row["score_llm"] == 4.5
    assert reply.text == text.replace(KEY, "[key]")
    assert KEY.encode() not in b"".join(
        path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
    )


@pytest.mark.parametrize("key", ["hal9000x", "d41d8cd98f00b204e9800998ecf8427e"])
@pytest.mark.parametrize("status", [200, 400, 401, 500])
def test_a_key_of_no_known_form_is_in_no_error(provider, key, status, monkeypatch, capsys):
    """Such as that of a server of one's own, or of Azure."""
    if status == 200 and sys.modules.get("google.genai", "") is None:
        pytest.skip("the retired SDK drops what is no answer of Gemini's")
    monkeypatch.setenv("MY_OWN", key)
    answer = error(provider, status, f"what is {key} to me?")
    with Server(lambda request: answer) as server:
        judge = open_judge(provider, server, key_env="MY_OWN", attempts=2, concurrency=1)
        try:
            said = judge.score(pairs(1))["reason"][0]
        except DreError as stopped:
            said = str(stopped)
    assert "what is [key] to me?" in said
    assert key not in said + capsys.readouterr().err


@pytest.mark.parametrize("key", ["3", "score", "4.5"])
def test_a_short_key_damages_no_reply(provider, key, monkeypatch):
    monkeypatch.setenv("MY_KEY", key)
    with Server(lambda request: REPLIES[provider](GOOD)) as server:
        judge = open_judge(provider, server, key_env="MY_KEY")
        assert judge.score(pairs(1))["score_llm"][0] == 4.5


def test_a_missing_sdk_is_named_with_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.genai", None)
    monkeypatch.setitem(sys.modules, "google.generativeai", None)
    with pytest.raises(DreError, match="google-genai is not installed.*'.\\[judges\\]'"):
        connection.connect("gemini", "m", "http://127.0.0.1:9")


@pytest.mark.parametrize("provider, name", KEYS.items())
def test_a_providers_own_host_is_not_asked_without_a_key(provider, name):
    host = PROVIDERS[provider].host
    judge = dre.judges.open(f"{provider}:m", store=":memory:", base_url=f"https://{host}")
    with pytest.raises(DreError, match=f"{name}.* is not set: export it with your key"):
        judge.score(pairs(1))
    assert judge.last.calls == 0


def test_every_client_verifies_the_certificate_and_the_name_of_its_server():
    context = certificates()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context is certificates()


ASKING = """
import sys
from dre import judges
judge = judges.open("openai:any", store=":memory:", base_url=sys.argv[1], price="1,2")
judge.score([{"pair_id": "a", "context": ["Tea?"], "response": "Yes."}])
print("httpx" in sys.modules)
"""


def test_what_the_sdk_of_another_judge_imports_is_there_before_the_first_call():
    # OpenAI's SDK takes it as it finds it, also in the middle of its import in another thread.
    with Server(servers.graded) as server:
        command = [sys.executable, "-c", ASKING, server.url]
        environment = os.environ | {"OPENAI_API_KEY": "a-key"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split() == ["True"]
