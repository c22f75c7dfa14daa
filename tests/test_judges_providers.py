"""Each provider's real SDK against a local server that speaks its wire format."""

import asyncio
import json
import sys

import judge_servers as servers
import pytest

from dre import judges
from dre.errors import DreError
from dre.judges import prices, prompts, providers
from dre.judges.estimate import estimate
from dre.judges.policy import Policy
from dre.judges.providers.base import Fatal, Rejected, Transient, failure, redact

GOOD = '{"score": 3.5}'
QUICK = Policy(concurrency=4, timeout=10, attempts=3, wait_initial=0.01, wait_max=0.02, wait_jitter=0.01)
NEEDED = {"openai": "openai", "anthropic": "anthropic", "gemini": "google.generativeai", "ollama": "ollama"}
SAME = tuple(NEEDED)
for package in NEEDED.values():
    pytest.importorskip(package)


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    for name in servers.KEYS.values():
        monkeypatch.setenv(name, "test-key-0123456789")


def ask(name, answers, policy=QUICK, pairs=1, **options):
    """Score pairs with a server that gives the answers in turn, the last one for ever."""
    left = list(answers)
    with servers.Server(lambda request: left.pop(0) if len(left) > 1 else left[0]) as server:
        base = server.url + ("/v1" if name == "openai" else "")
        judge = judges.open(f"{name}:test-model", store=":memory:", base_url=base, policy=policy, **options)
        frame = judge.score(servers.pairs(pairs))
    return frame, server.requests, judge


def reply(name, *args, **more):
    return servers.REPLIES[name](*args, **more)


def error(name, status, *args, **more):
    return servers.ERRORS[name](status, *args, **more)


@pytest.mark.parametrize("name", SAME)
def test_success(name):
    frame, requests, _ = ask(name, [reply(name, GOOD)], price=prices.Price(1, 2, "given"))
    (row,) = frame.to_dict("records")
    assert (row["score_llm"], row["status"], row["mode"], row["n_ok"]) == (3.5, "ok", "single", 1)
    assert row["cost"] == pytest.approx((50 * 1 + 10 * 2) / 1e6) and row["seconds"] > 0
    assert len(requests) == 1


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
def test_what_passes_is_tried_again(name, status):
    frame, requests, _ = ask(name, [error(name, status), error(name, status), reply(name, GOOD)])
    assert frame["score_llm"][0] == 3.5 and len(requests) == 3


@pytest.mark.parametrize("name", SAME)
def test_retries_end(name):
    frame, requests, _ = ask(name, [error(name, 500, "overloaded today")])
    assert (frame["status"][0], len(requests)) == ("error", 3)
    assert "HTTP 500" in frame["reason"][0] and "overloaded today" in frame["reason"][0]


@pytest.mark.parametrize("name", SAME)
def test_retry_after_goes_before_the_backoff(name, monkeypatch):
    slept, sleep = [], asyncio.sleep

    async def note(delay, *args):
        slept.append(delay)
        await sleep(delay, *args)

    monkeypatch.setattr(asyncio, "sleep", note)
    after = error(name, 429, headers={"retry-after": "0.3"})
    frame, _, _ = ask(name, [after, reply(name, GOOD)])
    assert frame["status"][0] == "ok"
    assert max(slept) >= 0.3  # waits of QUICK alone are below 0.04


def test_gemini_says_in_the_body_when_to_come_back():
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.05s"}]
    frame, requests, _ = ask("gemini", [error("gemini", 429, details=details), reply("gemini", GOOD)])
    assert frame["status"][0] == "ok" and len(requests) == 2


@pytest.mark.parametrize("name", SAME)
def test_a_wait_that_is_too_long_ends_the_run(name):
    with pytest.raises(DreError, match="asks to wait 120 minutes"):
        ask(name, [error(name, 429, headers={"retry-after": "7200"})])


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_bad_key_or_model_stops_the_run_at_once(name, status):
    answers = [error(name, status, "no such key")]
    left = []

    def script(request):
        left.append(request)
        return answers[0]

    with servers.Server(script) as server:
        base = server.url + ("/v1" if name == "openai" else "")
        judge = judges.open(f"{name}:m", store=":memory:", base_url=base, policy=QUICK)
        with pytest.raises(DreError, match=f"HTTP {status}.*no such key"):
            judge.score(servers.pairs(100))
    assert len(left) <= QUICK.concurrency


@pytest.mark.parametrize("name", SAME)
def test_a_bad_request_is_not_tried_again(name):
    frame, requests, _ = ask(name, [error(name, 400, "bad parameter"), reply(name, GOOD)], pairs=1)
    assert (frame["status"][0], len(requests)) == ("error", 1)
    assert "bad parameter" in frame["reason"][0]


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("status", [400, 422])
def test_a_model_that_refuses_a_schema_is_told_of_plain_and_the_mode_stays(name, status):
    frame, requests, _ = ask(name, [error(name, status, "no such format")])
    assert frame["reason"][0].endswith("no such format; if the model has no structured output, give --plain")
    assert len(requests) == 1
    frame, _, _ = ask(name, [error(name, status, "bad parameter")], plain=True)
    assert "--plain" not in frame["reason"][0]
    frame, _, _ = ask(name, [error(name, 413, "too large")])
    assert frame["status"][0] == "error" and "--plain" not in frame["reason"][0]


@pytest.mark.parametrize(
    "name, answer",
    [
        ("openai", servers.openai_error(429, "You exceeded your current quota", "insufficient_quota")),
        ("anthropic", servers.anthropic_error(400, "Your credit balance is too low", "invalid_request_error")),
        ("anthropic", servers.anthropic_error(402, "pay first", "billing_error")),
        ("gemini", servers.gemini_error(429, "Quota exceeded", details=[{"@type": "x", "quotaId": "RequestsPerDay"}])),
        ("gemini", servers.gemini_error(400, "API key not valid. Please pass a valid API key.")),
    ],
)
def test_spent_quota_and_bad_keys_under_other_numbers_stop_the_run(name, answer):
    with pytest.raises(DreError, match="no further call was made"):
        ask(name, [answer])


@pytest.mark.parametrize("name", SAME)
def test_a_hang_is_cut_short_and_tried_again(name):
    quick = Policy(concurrency=1, timeout=0.5, attempts=2, wait_initial=0.01, wait_max=0.02, wait_jitter=0.01)
    frame, requests, _ = ask(name, [reply(name, GOOD, delay=30), reply(name, GOOD)], quick)
    assert frame["status"][0] == "ok" and len(requests) == 2


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize(
    "broken",
    [
        servers.Answer(b'{"oops'),
        servers.Answer(b"<html>busy</html>"),
        servers.Answer({}),
        servers.Answer(b"", drop=True),
    ],
)
def test_an_answer_that_is_none_is_tried_again(name, broken):
    frame, requests, _ = ask(name, [broken, reply(name, GOOD)])
    assert frame["status"][0] == "ok" and len(requests) == 2


OUTCOMES = {
    "malformed": {name: reply(name, "It depends on what you like.") for name in SAME},
    "off the scale": {name: reply(name, '{"score": 11}') for name in SAME},
    "empty": {name: reply(name, "") for name in SAME},
    "truncated": {
        "openai": servers.openai('{"score": 3', "length"),
        "anthropic": servers.anthropic('{"score": 3', "max_tokens"),
        "gemini": servers.gemini('{"score": 3', "MAX_TOKENS"),
        "ollama": servers.ollama('{"score": 3', "length"),
    },
    "refused": {
        "openai": servers.openai(None, refusal="I can't help with that."),
        "anthropic": servers.anthropic("I can't", "refusal"),
        "gemini": servers.gemini(None, "SAFETY"),
        "ollama": servers.ollama("I'm sorry, but I cannot rate this."),
    },
    "filtered": {
        "openai": servers.openai("", "content_filter"),
        "anthropic": servers.anthropic(None, "refusal"),
        "gemini": servers.Answer(
            {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 5}}
        ),
        "ollama": servers.ollama("I can't assist with that."),
    },
}
MEANT = {"off the scale": "malformed", "filtered": "refused"}


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("what", OUTCOMES)
def test_replies_that_are_no_score_are_kept_as_what_they_are(name, what):
    frame, requests, judge = ask(name, [OUTCOMES[what][name]])
    assert frame["status"][0] == MEANT.get(what, what) and frame["reason"][0]
    assert frame["score_llm"].isna().all() and len(requests) == 1
    ((_, status, _, count, *_),) = judge.store.counts()
    assert (status, count) == (MEANT.get(what, what), 1)


def test_openais_filter_for_prompts_is_a_refusal():
    frame, _, _ = ask("openai", [servers.openai_error(400, "filtered", "content_filter")])
    assert frame["status"][0] == "refused"


@pytest.mark.parametrize("name", SAME)
def test_no_server_is_said_soon(name):
    with servers.Server(lambda request: None) as server:
        base = server.url
    judge = judges.open(f"{name}:m", store=":memory:", base_url=base, policy=QUICK)
    with pytest.raises(DreError, match="no server answers"):
        judge.score(servers.pairs(50))


def schema_of(name, body):
    return {
        "openai": lambda: body["response_format"]["json_schema"]["schema"],
        "anthropic": lambda: body["output_config"]["format"]["schema"],
        "gemini": lambda: body["generationConfig"]["responseSchema"],
        "ollama": lambda: body["format"],
    }[name]()


@pytest.mark.parametrize("name", SAME)
def test_structured_output_is_asked_for_and_plain_is_not(name):
    _, (request,), judge = ask(name, [reply(name, GOOD)])
    assert "score" in schema_of(name, request.body)["properties"]
    assert '"structured":"json_schema"' in judge.store.settings()[1].params
    _, (request,), judge = ask(name, [reply(name, GOOD)], plain=True)
    with pytest.raises(KeyError):
        schema_of(name, request.body)
    assert '"structured":"plain"' in judge.store.settings()[1].params


def limits(name, body):
    return {
        "openai": lambda: (body["max_tokens"], body["temperature"]),
        "anthropic": lambda: (body["max_tokens"], body["temperature"]),
        "gemini": lambda: (body["generationConfig"]["maxOutputTokens"], body["generationConfig"]["temperature"]),
        "ollama": lambda: (body["options"]["num_predict"], body["options"]["temperature"]),
    }[name]()


@pytest.mark.parametrize("name", SAME)
def test_parameters_are_sent(name):
    _, (request,), _ = ask(name, [reply(name, GOOD)], max_tokens=77, temperature=0.25)
    assert limits(name, request.body) == (77, 0.25)


@pytest.mark.parametrize("name", SAME)
def test_nothing_is_sent_for_what_is_not_given(name):
    _, (request,), _ = ask(name, [reply(name, GOOD)])
    assert "temperature" not in json.dumps(request.body) and "seed" not in json.dumps(request.body)


def test_openais_own_address_gets_the_newer_name_of_the_limit():
    body = providers.make("openai", "m").request([], {"max_tokens": 5, "structured": "plain"}, None)
    assert body["max_completion_tokens"] == 5 and "max_tokens" not in body


def test_further_parameters_are_sent_as_given():
    _, (request,), _ = ask("openai", [reply("openai", GOOD)], extra={"reasoning_effort": "low"})
    assert request.body["reasoning_effort"] == "low"
    _, (request,), _ = ask("ollama", [reply("ollama", GOOD)], extra={"num_ctx": 99, "think": False})
    assert request.body["options"]["num_ctx"] == 99 and request.body["think"] is False


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "n", "temperature", "num_predict"])
def test_a_further_parameter_cannot_undo_an_option(name):
    with pytest.raises(DreError, match=f"--param {name}"):
        judges.open("openai:m", store=":memory:", extra={name: 1}).plan(servers.pairs(1))


@pytest.mark.parametrize("name", ["anthropic", "gemini"])
def test_a_parameter_the_provider_lacks_is_refused(name):
    judge = judges.open(f"{name}:m", store=":memory:", seed=3)
    with pytest.raises(DreError, match="takes no seed"):
        judge.plan(servers.pairs(1))
    judge = judges.open(f"{name}:m", store=":memory:", mode="logprob")
    with pytest.raises(DreError, match="no log-probabilities"):
        judge.plan(servers.pairs(1))


THINK = [
    "o3",
    "gpt-5-mini",
    "gpt-6",
    "openai/gpt-oss-20b",
    "deepseek-r1:8b",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
    "qwen3:4b",
]
THINK += [
    "Qwen/QwQ-32B",
    "claude-opus-5-5",
    "claude-fable-5-1",
    "gemini-2.5-pro",
    "gemini-3.1-pro-preview",
    "magistral",
]
DO_NOT = [
    "gpt-4o-mini",
    "gpt-4.1",
    "gpt-3.5-turbo",
    "gpt-4o",
    "claude-3-5-haiku-20241022",
    "claude-sonnet-4-5",
    "claude-opus-4-8",
]
DO_NOT += [
    "gemini-1.5-flash",
    "meta-llama/Llama-3.1-8B-Instruct",
    "llama3.2",
    "mistral",
    "Qwen/Qwen2.5-7B-Instruct",
    "m",
]


@pytest.mark.parametrize("model, thinks", [(m, True) for m in THINK] + [(m, False) for m in DO_NOT])
def test_models_that_think_have_room_for_it(model, thinks):
    def most(judge="openai", prompt="llm_only", **options):
        return judges.open(f"{judge}:{model}", store=":memory:", **options).plan(servers.pairs(1), prompt).params

    assert most()["max_tokens"] == (8192 if thinks else 1024)
    assert most(prompt="generate")["max_tokens"] == (12288 if thinks else 4096)
    assert most(extra={"reasoning_effort": "low"})["max_tokens"] == 8192
    assert most(max_tokens=77)["max_tokens"] == 77
    assert most("ollama")["max_tokens"] == 8192
    assert most("ollama", max_tokens=100)["extra"]["num_ctx"] == 8292


def test_the_estimate_and_the_ceiling_count_on_the_longest_reply():
    price = prices.Price(0, 1000, "given")
    for model, longest, usual in (("gpt-4o", 1024, 20), ("o3", 8192, 1020)):
        judge = judges.open(f"openai:{model}", store=":memory:", price=price)
        plan = judge.plan(servers.pairs(3))
        found = estimate(plan, price, 2)
        assert found.most_usd == pytest.approx(3 * longest / 1000) and found.usd == pytest.approx(3 * usual / 1000)
        assert judge.most(plan, next(iter(plan.missing.values())), price) == pytest.approx(longest / 1000)
        assert f"at most {longest:,} a reply" in str(found)


def test_system_messages_go_where_each_api_has_them():
    messages = [{"role": "system", "content": "Judge."}, {"role": "user", "content": "This."}]
    params = {"max_tokens": 5, "structured": "plain", "extra": {}}
    body = providers.make("anthropic", "m").request(messages, params, None)
    assert body["system"] == "Judge." and len(body["messages"]) == 1
    body = providers.make("gemini", "m").request(messages, params, None)
    assert body["system_instruction"] == "Judge." and len(body["contents"]) == 1
    for name in ("openai", "ollama"):
        assert providers.make(name, "m").request(messages, params, None)["messages"] == messages


TOKEN = {
    "token": "4",
    "logprob": -0.1,
    "top_logprobs": [{"token": "4", "logprob": -0.1}, {"token": "2", "logprob": -2.5}],
}


@pytest.mark.parametrize("name", ["openai", "ollama"])
def test_log_probabilities_weigh_the_ratings(name):
    tokens = [dict(TOKEN, token='{"score": ', top_logprobs=[]), TOKEN, dict(TOKEN, token="}", top_logprobs=[])]
    logprobs = {"content": tokens} if name == "openai" else tokens
    frame, (request,), _ = ask(name, [reply(name, '{"score": 4}', logprobs=logprobs)], mode="logprob")
    assert request.body["logprobs"] is True and request.body["top_logprobs"] == 20
    four, two = 2.718281828**-0.1, 2.718281828**-2.5
    assert frame["score_llm"][0] == pytest.approx((4 * four + 2 * two) / (four + two))
    assert frame["mode"][0] == "logprob"


def test_a_reply_without_log_probabilities_is_no_score_in_that_mode():
    frame, _, _ = ask("openai", [reply("openai", '{"score": 4}')], mode="logprob")
    assert frame["status"][0] == "malformed" and frame["score_llm"].isna().all()


def test_only_replies_with_a_usable_rating_token_are_counted_in_that_mode():
    tokens = [dict(TOKEN, token='{"score": ', top_logprobs=[]), TOKEN, dict(TOKEN, token="}", top_logprobs=[])]
    good = reply("openai", '{"score": 4}', logprobs={"content": tokens})
    answers = [good, reply("openai", '{"score": 4}'), reply("openai", "hm"), good]
    frame, _, _ = ask("openai", answers, mode="logprob", repeats=4)
    (row,) = frame.to_dict("records")
    assert (row["status"], row["n_samples"], row["n_ok"]) == ("ok", 4, 2)
    alone, _, _ = ask("openai", [good], mode="logprob")
    assert row["score_llm"] == pytest.approx(alone["score_llm"][0]) and row["score_llm"] != 4


def test_repeats_are_asked_apart_and_averaged():
    answers = [reply("openai", f'{{"score": {score}}}') for score in (1, 2, 3)] + [reply("openai", "hm")]
    frame, requests, _ = ask("openai", answers, repeats=4)
    (row,) = frame.to_dict("records")
    assert len(requests) == 4 and row["mode"] == "mean"
    assert (row["score_llm"], row["n_samples"], row["n_ok"], row["status"]) == (2.0, 4, 3, "ok")


@pytest.mark.parametrize("name", ["openai", "anthropic", "gemini"])
def test_a_missing_key_is_said(name, monkeypatch):
    monkeypatch.delenv(servers.KEYS[name])
    with pytest.raises(DreError, match=f"{servers.KEYS[name]} is not set"):
        judges.open(f"{name}:m", store=":memory:").score(servers.pairs(1))


def test_the_key_may_be_in_another_variable(monkeypatch):
    monkeypatch.setenv("MY_KEY", "another-key-123456")
    _, (request,), _ = ask("openai", [reply("openai", GOOD)], key_env="MY_KEY")
    assert request.headers["authorization"] == "Bearer another-key-123456"


@pytest.mark.parametrize("name, package", [("openai", "openai"), ("anthropic", "anthropic"), ("ollama", "ollama")])
def test_a_missing_sdk_names_the_extra(name, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(DreError, match=r'pip install "dre\[judges\]"'):
        judges.open(f"{name}:m", store=":memory:").score(servers.pairs(1))


def test_gemini_without_either_sdk_names_the_extra(monkeypatch):
    monkeypatch.setattr("dre.judges.providers.gemini._installed", lambda name: False)
    with pytest.raises(DreError, match=r'pip install "dre\[judges\]"'):
        judges.open("gemini:m", store=":memory:").score(servers.pairs(1))


def test_gemini_through_google_genai(monkeypatch):
    pytest.importorskip("google.genai")
    monkeypatch.setattr("dre.judges.providers.gemini._installed", lambda name: name == "google.genai")
    frame, (request,), _ = ask("gemini", [reply("gemini", GOOD)])
    assert frame["score_llm"][0] == 3.5 and request.headers["x-goog-api-key"] == "test-key-0123456789"
    frame, requests, _ = ask("gemini", [error("gemini", 500), reply("gemini", GOOD)])
    assert frame["status"][0] == "ok" and len(requests) == 2
    frame, _, _ = ask("gemini", [reply("gemini", None, "SAFETY")])
    assert frame["status"][0] == "refused"
    with pytest.raises(DreError, match="HTTP 403"):
        ask("gemini", [error("gemini", 403)])


def test_an_unknown_provider_or_half_a_spec_is_refused():
    with pytest.raises(DreError, match="no provider 'cohere'"):
        judges.open("cohere:m", store=":memory:")
    with pytest.raises(DreError, match="expected provider:model"):
        judges.open("openai", store=":memory:")


@pytest.mark.parametrize(
    "status, message, kind",
    [(401, "", Fatal), (403, "", Fatal), (404, "", Fatal), (402, "", Fatal), (429, "", Transient), (408, "", Transient)]
    + [(409, "", Transient), (500, "", Transient), (529, "", Transient), (400, "", Rejected), (413, "", Rejected)]
    + [(422, "", Rejected), (429, "insufficient_quota", Fatal), (400, "credit balance is too low", Fatal)],
)
def test_what_a_status_means(status, message, kind):
    assert type(failure(status, message)) is kind


def test_keys_are_blotted_out(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "plainword99")
    said = redact("plainword99 sk-abcdef123456 AIzaSyA1234567890 Bearer abcdefgh12345")
    assert said == "[key] [key] [key] [key]"


def test_unknown_prices_are_unknown():
    assert prices.find("openai", "a-model-of-next-year") is None
    assert prices.find("openai", "gpt-4o-mini", "http://localhost:8000/v1") is None
    assert prices.find("openai", "gpt-4o-mini").source
    assert prices.find("ollama", "llama3.3:70b").input == 0
    for entry in prices.table()["providers"].values():
        assert entry["source"] and all(row["input"] <= row["output"] for row in entry["models"])


@pytest.mark.parametrize("text", ["", "1", "1,2,3", "a,b", "-1,2", "nan,1"])
def test_a_given_price_is_checked(text):
    with pytest.raises(DreError, match="expected IN,OUT"):
        prices.given(text)


def test_tokens_are_bounded_by_bytes():
    for text in ("plain words", "\u4f60\u597d", "\U0001f600" * 5, ""):
        assert prices.estimated_tokens(text) <= prices.most_tokens(text) == len(text.encode())


def test_prompts_render_for_every_provider():
    row = servers.pairs(1)[0] | {"context": ("One.",)}
    for name in SAME:
        provider, prompt = providers.make(name, "m"), prompts.load("llm_only")
        assert provider.request(prompt.render(row), provider.params(prompt, max_tokens=9), prompt.schema)
