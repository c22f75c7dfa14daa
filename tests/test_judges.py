"""Live judges: what is asked and stored, what ends a run, what it costs, where a key goes."""

import gzip
import importlib.util
import json
import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from urllib.parse import quote

import conftest
import judge_servers as servers
import pytest
from judge_servers import Answer, Server, pairs

import dre.judges
from dre.commands.main import main
from dre.errors import DreError, TryLater
from dre.judges import providers
from dre.judges.ask import side_by_side
from dre.judges.providers import PROVIDERS
from dre.judges.store import Store

GOOD = '{"score": 4}'
KEY = "sk-secret/0123456789+abcdefgh"


@pytest.fixture(autouse=True)
def _quick(quick):
    pass


def judge(server, provider="openai", **options):
    options = {"store": ":memory:", "base_url": server.url, "price": "1,10", **options}
    return dre.judges.open(f"{provider}:m", **options)


def always(answer):
    return Server(lambda request: answer)


def error_of(answer, n=30, provider="openai", **options):
    """The error that ends a run where each call gets this answer, and how many were made."""
    with always(answer) as server, pytest.raises(DreError) as raised:
        judge(server, provider, **{"concurrency": 1, **options}).score(pairs(n))
    return raised.value, len(server.requests)


# What is asked and stored


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_second_run_asks_only_for_what_is_missing(provider):
    with always(servers.REPLIES[provider](GOOD)) as server:
        live = judge(server, provider)
        assert live.score(pairs(3))["score_llm"].tolist() == [4, 4, 4]
        assert live.last.spent == pytest.approx(3 * (50 + 10 * 10) / 1e6)
        assert (live.score(pairs(5))["status"] == "ok").all()
        assert len(server.requests) == 5
        assert live.last.calls == 2
        body = json.dumps(server.requests[0].body)
    assert "ferns by the door" in body
    assert "additionalProperties" in body  # the schema goes with it


def test_each_pair_gets_its_own_reply_also_where_many_are_in_flight():
    with Server(servers.graded, delay=0.01) as server:
        together = judge(server, concurrency=16).score(pairs(40))
        one_by_one = judge(server, concurrency=1).score(pairs(40))
    assert together.equals(one_by_one)
    assert together["score_llm"].nunique() > 5


def test_another_prompt_parameter_or_repeat_is_another_reply_and_a_longer_limit_is_not():
    store = Store(":memory:")
    with always(servers.openai(GOOD)) as server:
        judge(server, store=store).score(pairs(1))
        judge(server, store=store, max_tokens=99).score(pairs(1))
        assert len(server.requests) == 1
        judge(server, store=store, temperature=0.5).score(pairs(1))
        judge(server, store=store, plain=True).score(pairs(1))
        judge(server, store=store).score(pairs(1), first=1)
        judge(server, store=store).score(pairs(1), "quality_overall")
        assert len(server.requests) == 5
        table = judge(server, store=store, repeats=3).score(pairs(1))
        assert len(server.requests) == 6
    assert table["n_samples"].tolist() == [3]


def test_pairs_with_the_same_messages_share_a_reply_that_is_paid_once():
    same = [{**pairs(1)[0], "pair_id": name} for name in "ab"]
    with always(servers.openai(GOOD)) as server:
        table = judge(server).score(same)
        assert len(server.requests) == 1
    assert table["cost"].tolist() == [pytest.approx(150 / 1e6), 0]


def test_parameters_reach_the_server_as_they_are_and_wrong_ones_are_refused_before_a_call():
    with always(servers.openai(GOOD)) as server:
        judge(server, top_k=3, chat_template_kwargs={"a": False}).score(pairs(1))
        body = server.requests[0].body
        assert (body["top_k"], body["chat_template_kwargs"]) == (3, {"a": False})
        assert body["max_tokens"] == 2048
        for model in ("gpt-5-mini", "o3"):  # which know the limit by its newer name alone
            options = {"store": ":memory:", "base_url": server.url}
            dre.judges.open(f"openai:{model}", **options).score(pairs(1))
            assert server.requests[-1].body["max_completion_tokens"] == 2048
    for options in ({"n": 2}, {"repeats": 0}, {"timeout": -1}, {"max_usd": -1}, {"max_tokens": 0}):
        with pytest.raises(DreError, match=next(iter(options))):
            judge(server, **options)
    with pytest.raises(DreError, match="service_tier"):  # it makes tokens dearer
        judge(server, max_usd=1, service_tier="priority")
    with pytest.raises(DreError, match="expected one of openai:<model>"):
        dre.judges.open("gpt-5")


def test_a_parameter_that_an_sdk_does_not_take_ends_the_run_before_a_call():
    with always(servers.gemini(GOOD)) as server:
        with pytest.raises(DreError, match="no_such") as raised:
            judge(server, "gemini", no_such=1).score(pairs(20))
        assert not server.requests
    assert type(raised.value) is DreError


OUTCOMES = [
    ("openai", servers.openai(None, refusal="I cannot rate people."), "refused"),
    ("openai", servers.openai("", "content_filter"), "refused"),
    ("openai", servers.openai('{"sc', "length"), "truncated"),
    ("openai", servers.openai(""), "empty"),
    ("openai", servers.openai("<think>Four?"), "empty"),
    ("openai", servers.openai("About 4?"), "malformed"),
    ("openai", servers.openai('{"score": 4, "score": 1}'), "malformed"),
    ("openai", servers.openai("[" * 200_000), "malformed"),
    ("anthropic", servers.anthropic("", "refusal"), "refused"),
    ("anthropic", servers.anthropic('{"sc', "max_tokens"), "truncated"),
    ("gemini", servers.gemini("", "SAFETY"), "refused"),
    ("gemini", Answer({"promptFeedback": {"blockReason": "OTHER"}}), "refused"),
    ("gemini", servers.gemini('{"sc', "MAX_TOKENS"), "truncated"),
    ("ollama", servers.ollama('{"sc', "length"), "truncated"),
]


@pytest.mark.parametrize("provider, answer, status", OUTCOMES)
def test_what_is_no_score_is_a_status_and_is_asked_again_on_demand_alone(provider, answer, status):
    with always(answer) as server:
        live = judge(server, provider)
        live.score(pairs(1))
        table = live.score(pairs(1))
        assert (table["status"][0], len(server.requests)) == (status, 1)
        assert table["score_llm"].isna().all()
        server.script = lambda request: servers.REPLIES[provider](GOOD)
        assert live.score(pairs(1), retry=[status])["score_llm"].tolist() == [4]
        assert live.store.bill("judge")["replies"].tolist() == [2]  # both were paid
        assert live.store.spent() > live.last.spent
    with pytest.raises(DreError, match="expected a list of malformed, refused, truncated, empty"):
        live.score(pairs(1), retry=["ok"])


def test_a_truncated_reply_is_asked_again_under_a_larger_limit_alone():
    with always(servers.openai('{"sc', "length")) as server:
        store = Store(":memory:")
        for max_tokens in (100, 100, 50, 200, 200):
            table = judge(server, store=store, max_tokens=max_tokens).score(pairs(1))
        assert [request.body["max_tokens"] for request in server.requests] == [100, 200]
        assert "give a larger --max-tokens" in table["reason"][0]
        server.script = lambda request: servers.openai('{"score": ' + " " * 800, "length")
        table = judge(server, store=store, max_tokens=300).score(pairs(1))
    assert "--plain" in table["reason"][0]
    assert "--max-tokens" not in table["reason"][0]


def test_log_probabilities_make_a_score():
    answer = servers.with_logprobs(servers.openai("2"), {"2": 0.6, "1": 0.3, "0": 0.1})
    with always(answer) as server:
        table = judge(server, logprobs=True).score(pairs(1), "quality_overall")
        assert server.requests[0].body["top_logprobs"] == 20
    assert table["score_llm"][0] == pytest.approx(0.6 * 2 + 0.3)
    with pytest.raises(DreError, match="anthropic gives no log-probabilities"):
        dre.judges.open("anthropic:m", logprobs=True)


def test_tokens_are_billed_as_providers_count_them():
    usage = {"prompt_tokens": 1000, "completion_tokens": 5, "total_tokens": 1100}
    usage["prompt_tokens_details"] = {"cached_tokens": 400}
    openai = servers.openai(GOOD)
    openai.body["usage"] = usage
    anthropic = servers.anthropic(GOOD)
    anthropic.body["usage"] |= {"cache_read_input_tokens": 8, "cache_creation_input_tokens": 10}
    without = servers.openai(GOOD, tokens=None)
    odd = servers.openai(GOOD, tokens=(-3, 10))
    for provider, answer, tokens in (
        ("openai", openai, (1000, 100)),  # thinking that stands in the total only
        ("anthropic", anthropic, (50 + 8 + 13, 10)),  # 10 tokens for the cache are billed as 12.5
    ):
        with always(answer) as server:
            live = judge(server, provider)
            live.score(pairs(1))
        bill = live.store.bill("judge").iloc[0]
        assert (bill["input_tokens"], bill["output_tokens"]) == tokens
        assert bill["usd"] == pytest.approx((tokens[0] + 10 * tokens[1]) / 1e6)
    for answer in (without, odd):  # what is not counted costs at most
        with always(answer) as server:
            live = judge(server)
            live.score(pairs(1))
        assert live.store.spent() == live.last.spent > 2048 * 10 / 1e6


# What ends a run


@pytest.mark.parametrize(
    "answer, kind, most_calls, words",
    [
        (servers.error("openai", 401, "Incorrect key"), DreError, 1, "Incorrect key.*--key-env"),
        (servers.error("openai", 403, "not yours"), DreError, 1, "not yours.*--key-env"),
        (servers.error("openai", 404, "no model m"), DreError, 1, "no model m.*--base-url"),
        (servers.error("openai", 400, "response_format?"), DreError, 8, "--plain"),
        (servers.error("openai", 400, "max_tokens: context length"), DreError, 8, "--max-tokens"),
        (servers.error("openai", 429, "slow down"), TryLater, 16, "slow down"),
        (servers.error("openai", 500, "broken"), TryLater, 16, "broken"),
        (servers.openai("Well ..."), DreError, 10, "none of its first 10 replies.*'Well ...'"),
        (Answer(b"<html>log in</html>"), TryLater, 8, "no reply of openai's: <html>log in"),
        (Answer({"error": {"message": "no seat"}}), TryLater, 8, "no reply of openai's.*no seat"),
        (Answer({}, drop=True), TryLater, 8, "the connection was lost"),
    ],
)
def test_a_run_that_cannot_succeed_ends_soon_and_says_why(answer, kind, most_calls, words):
    error, n_calls = error_of(answer)
    assert type(error) is kind
    assert n_calls <= most_calls
    assert re.search(words, str(error)), error
    assert "what was answered is stored" in str(error)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("status", [401, 404])
def test_no_other_call_follows_a_wrong_key_or_address(provider, status):
    error, n_calls = error_of(servers.error(provider, status, "not like this"), provider=provider)
    assert n_calls == 1
    assert "not like this" in str(error)


def test_nobody_there_is_said_in_a_sentence():
    with Server(lambda request: None) as server:
        pass
    with pytest.raises(TryLater, match="what was answered is stored"):
        judge(server, concurrency=4).score(pairs(20))


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
def test_what_may_pass_is_tried_again_by_the_sdk(provider):
    def script(request):
        is_first = [other.raw for other in server.requests].count(request.raw) == 1
        return servers.error(provider, 503) if is_first else servers.REPLIES[provider](GOOD)

    with Server(script) as server:
        assert judge(server, provider).score(pairs(2))["status"].tolist() == ["ok", "ok"]
        assert len(server.requests) == 4


def test_a_pair_that_fails_alone_is_an_error_and_the_next_run_asks_for_it():
    def script(request):
        bad = b"number 3?" in request.raw
        return servers.error("openai", 400, "too long") if bad else servers.openai(GOOD)

    with Server(script) as server:
        live = judge(server)
        table = live.score(pairs(12))
        assert table["status"].value_counts().to_dict() == {"ok": 11, "error": 1}
        assert "too long" in table["reason"][3]
        bill = live.store.bill("judge").iloc[0]
        assert (bill["replies"], bill["errors"], bill["lost"]) == (11, 1, 0)
        server.script = lambda request: servers.openai(GOOD)
        assert (live.score(pairs(12))["status"] == "ok").all()
        assert live.last.calls == 1


def test_eight_failures_end_a_run_only_in_a_row():
    def script(request):
        number = int(re.search(rb"number (\d+)\?", request.raw)[1])
        return servers.openai(GOOD) if number % 8 == 7 else servers.error("openai", 400, "no")

    with Server(script) as server:
        table = judge(server, concurrency=1).score(pairs(24))
    assert table["status"].value_counts().to_dict() == {"error": 21, "ok": 3}


@pytest.mark.parametrize("concurrency", [1, 16])
def test_a_judge_that_cannot_be_read_is_paid_for_ten_replies_and_then_for_one_in_each_run(
    concurrency,
):
    with Server(lambda request: servers.openai("Hm."), delay=0.01) as server:
        live = judge(server, concurrency=concurrency)
        for n_calls in (10, 11, 12):
            with pytest.raises(DreError, match="none of its first 10 replies can be read"):
                live.score(pairs(60))
            assert len(server.requests) == n_calls
        server.script = lambda request: servers.openai(GOOD)
        table = live.score(pairs(60))
    assert table["status"].value_counts().to_dict() == {"ok": 48, "malformed": 12}


def test_a_refusal_can_be_read_so_the_run_goes_on():
    with always(servers.openai("", "content_filter")) as server:
        assert set(judge(server).score(pairs(30))["status"]) == {"refused"}


# Odd servers


def test_no_redirect_is_followed_so_a_key_stays_at_its_host(monkeypatch):
    monkeypatch.setenv("MINE", KEY)
    for provider in PROVIDERS:
        with always(servers.REPLIES[provider](GOOD)) as other:
            away = Answer({}, 307, {"location": f"{other.url}/v1/chat/completions"})
            error, n_calls = error_of(away, provider=provider, key_env="MINE", n=1 + 8)
            assert n_calls == 8
            assert not other.requests
            assert KEY not in str(error)
            assert f"a redirect to {other.url}" in str(error)


NESTED = b"[" * 200_000
BOMB = gzip.compress(gzip.compress(b" " * 300_000_000, 1))
ODD = [
    (Answer(NESTED), "no reply of"),
    (Answer(NESTED, 500), ""),
    (Answer(NESTED, 400), ""),
    (Answer(BOMB, headers={"content-encoding": "gzip, gzip"}), "packed twice"),
    (Answer(b"not packed", headers={"content-encoding": "gzip"}), "cannot be unpacked"),
    (Answer(b" " * 40_000_000), "more than 16 MB"),
    (Answer(b" " * 40_000_000, 500), "more than 16 MB"),
    (Answer(b""), "no reply of"),
    (Answer(b"\xff\xfe<p>"), "no reply of"),
    (Answer({"choices": [], "candidates": [], "content": 3, "message": 4}), "no reply of"),
]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_is_no_reply_is_one_sentence_and_little_memory(provider):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for answer, words in ODD:
        error, _ = error_of(answer, provider=provider)
        assert words in str(error), error
        assert len(str(error)) < 700
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 400_000  # kB


def test_an_answer_that_never_ends_is_cut_off_after_the_timeout_and_counts_at_its_most():
    def script(request):
        return Answer(b" " * 400, headers={"content-length": "4000"})

    with Server(script) as server:  # it promises more than it sends, and keeps the line open
        start = time.monotonic()
        live = judge(server, timeout=0.5, concurrency=4)
        table = live.score(pairs(4))
        assert time.monotonic() - start < 5
    assert set(table["status"]) == {"error"}
    assert "no whole answer within 0.5 s" in table["reason"][0]
    bill = live.store.bill("judge").iloc[0]
    assert (bill["replies"], bill["lost"], len(server.requests)) == (0, 4, 4)
    assert bill["usd"] == bill["usd_lost"] == pytest.approx(live.last.spent)
    assert bill["usd"] > 4 * 2048 * 10 / 1e6


def test_an_answer_that_comes_drop_by_drop_is_cut_off_after_the_timeout():
    def drops():
        while True:
            yield b" "
            time.sleep(0.05)

    with Server(lambda request: Answer(drops())) as server:
        start = time.monotonic()
        table = judge(server, timeout=0.5).score(pairs(2))
        assert time.monotonic() - start < 5
    assert "no whole answer within 0.5 s" in table["reason"][0]


def test_escape_sequences_of_a_server_do_not_reach_the_terminal():
    error, _ = error_of(servers.error("openai", 401, "bad \x1b[2J\x1b]0;x\x07 \u202e key"))
    assert str(error).isprintable()


# Keys


def test_a_key_goes_to_its_provider_alone(monkeypatch):
    for provider in PROVIDERS.values():
        for name in provider.key_variables:
            monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", KEY)
    monkeypatch.setenv("OPENAI_ORG_ID", KEY)
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"x-a: {KEY}")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", f"x-a: {KEY}")
    monkeypatch.setenv("MINE", " own-key\n")
    for name, provider in PROVIDERS.items():
        with always(servers.REPLIES[name](GOOD)) as server:
            judge(server, name).score(pairs(1))
            judge(server, name, key_env="MINE", temperature=1.0).score(pairs(1))
            keys = ["no-key", "own-key"]
            if provider.base_url_variable:
                monkeypatch.setenv(provider.base_url_variable, server.url)
                judge(server, name, base_url="", temperature=0.5).score(pairs(1))
                monkeypatch.delenv(provider.base_url_variable)
                keys.append("no-key")
        headers = [request.headers for request in server.requests]
        assert KEY not in str(headers)
        own = [header[provider.key_header] for header in headers]
        assert own == [provider.key_form.format(key) for key in keys]


@pytest.mark.parametrize(
    "address",
    [
        "https://api.openai.com.evil.org/v1",
        "https://api.openai.com:8443/v1",
        "https://api.openai.com./v1",
        "https://xapi.openai.com/v1",
        "https://\u0430pi.openai.com/v1",
        "http://localhost/api.openai.com",
    ],
)
def test_a_host_that_looks_like_the_providers_gets_no_key(address, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    client = providers.connect("openai", "m", providers.address_of("openai", address), None, 1)
    assert not client.key
    assert KEY not in str(client.http_options(__import__("httpx2")))


@pytest.mark.parametrize(
    "address",
    [
        "http://api.openai.com/v1",
        "https://user:pw@api.openai.com/v1",
        "https://api.openai.com/v1?x=1",
        "https://api.openai.com#/v1",
        "https://a b/v1",
        "http://x:99999/",
        "x",
    ],
)
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(DreError):
        dre.judges.open("openai:m", base_url=address)


@pytest.mark.parametrize("key", ["", "sk-abcd\u2014efgh", "sk-ab cd", "sk-ab\ncd"])
def test_a_key_that_cannot_be_sent_is_refused_by_its_variable_before_a_call(key, monkeypatch):
    monkeypatch.setenv("MINE", key)
    with always(servers.openai(GOOD)) as server:
        with pytest.raises(DreError, match="MINE") as raised:
            judge(server, key_env="MINE").score(pairs(3))
        assert not server.requests
    assert not key or key not in str(raised.value)
    with pytest.raises(DreError, match="OPENAI_API_KEY is not set"):
        dre.judges.open("openai:m", store=":memory:").score(pairs(1))


ESCAPED = json.dumps({"error": {"message": "x" * 290 + KEY}}).replace(
    KEY, "".join(f"\\u{ord(sign):04x}" for sign in KEY)
)


def spelled(text):
    """A reply whose tokens spell a text letter by letter, which stands in no field by itself."""
    answer = servers.with_logprobs(servers.openai("3"), {"3": 0.6, "2": 0.4})
    [token] = answer.body["choices"][0]["logprobs"]["content"]
    tokens = [token | {"token": sign} for sign in text]
    answer.body["choices"][0]["logprobs"]["content"] = [token, *tokens]
    return answer


@pytest.mark.parametrize(
    "answer",
    [
        servers.error("openai", 401, f"Incorrect key {KEY}"),
        servers.error("openai", 400, "x" * 280 + KEY),
        Answer(ESCAPED.encode(), 400),
        Answer(ESCAPED.encode()[:-2], 400),
        Answer(b"x" * 75 + KEY.encode()),
        Answer(b"x" * 390 + KEY.encode()),
        servers.openai(f"Your key is {KEY}"),
        servers.openai(GOOD, model=KEY),
        servers.error("openai", 400, "https://x/?key=" + quote(KEY)),
        servers.with_logprobs(servers.openai("3"), {"3": 0.6, KEY: 0.4}),
        spelled(KEY),
    ],
)
def test_no_key_is_in_a_message_or_a_store(answer, monkeypatch, tmp_path):
    monkeypatch.setenv("MINE", KEY)
    path = tmp_path / "s.sqlite"
    with always(answer) as server:
        live = judge(server, key_env="MINE", store=path, concurrency=1)
        said = ""
        try:
            said = live.score(pairs(12)).to_csv()
        except DreError as error:
            said = str(error)
    rows = str(sqlite3.connect(path).execute("SELECT * FROM call").fetchall())
    tokens = "".join(re.findall(r'\["(.)", ', rows))
    for text in (said, rows, tokens):
        for form in (KEY, KEY[:12], quote(KEY), KEY.replace("/", "\\/")):
            assert form not in text


@pytest.mark.parametrize("filling", [b"y", b" ", b"\\u0020"])
def test_a_key_is_taken_out_before_anything_is_cut(filling, monkeypatch):
    monkeypatch.setenv("MINE", KEY)
    for n in (30, 280, 295, 390, 4990):
        for status in (200, 400):
            answer = Answer(filling * n + KEY.encode() + b" ...", status)
            error, _ = error_of(answer, key_env="MINE")
            assert KEY[:4] not in str(error)


# What it costs


@pytest.mark.parametrize("concurrency", [1, 16])
def test_a_budget_holds_and_is_used_up(concurrency):
    answer = servers.openai('{"score": 3}', tokens=(2000, 900))
    with Server(lambda request: answer, delay=0.01) as server:
        live = judge(server, max_usd=0.2, concurrency=concurrency, max_tokens=1000)
        table = live.score(pairs(60))
    assert 0.2 - 0.014 < live.last.spent <= 0.2
    assert live.last.stopped == "budget"
    assert "stopped before $0.2 would be passed" in live.last.why
    assert set(table["status"]) == {"ok", "missing"}
    assert live.store.spent() == pytest.approx(live.last.spent)


def test_lost_calls_count_at_their_most_in_the_budget():
    with Server(lambda request: Answer({}, drop=True)) as server:
        live = judge(server, max_usd=0.05, concurrency=1)
        live.score(pairs(7))
    assert live.last.stopped == "budget"
    assert len(server.requests) == 2  # 2,048 tokens of a reply are two cents
    assert 0.04 < live.store.spent() <= 0.05


def test_a_budget_of_a_judge_counts_what_earlier_runs_spent():
    store = Store(":memory:")
    answer = servers.openai('{"score": 3}', tokens=(2000, 900))
    with always(answer) as server:
        for _ in range(3):
            live = judge(server, store=store, max_usd_judge=0.1, max_tokens=1000)
            live.score(pairs(60))
        assert 0.08 < store.spent() <= 0.1
        judge(server, store=store, max_usd=0.1, max_tokens=1000).score(pairs(60))
    assert 0.1 < store.spent() <= 0.2
    with pytest.raises(DreError, match="no price is known for openai:no-such.*max_usd"):
        dre.judges.open("openai:no-such", store=":memory:", base_url="http://x", max_usd=1.0)


def test_one_judge_in_two_settings_side_by_side_keeps_its_budget(tmp_path):
    answer = servers.openai('{"score": 3}', tokens=(2000, 900))
    store = tmp_path / "s.sqlite"
    with Server(lambda request: answer, delay=0.005) as server:
        opened = [
            judge(server, store=store, max_usd_judge=0.1, max_tokens=1000, temperature=t)
            for t in (0, 1)
        ]
        side_by_side([lambda live=live: live.score(pairs(30)) for live in opened])
    assert 0.08 < Store(store).spent() <= 0.1


CHILD = """
import sys
import dre.judges
from judge_servers import pairs
live = dre.judges.open("openai:m", store=sys.argv[2], base_url=sys.argv[1], concurrency=4,
                       price="1,10")
live.score(pairs(40))
"""


def start_child(server, store):
    command = [sys.executable, "-c", CHILD, server.url, str(store)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        command, env=environment, preexec_fn=conftest.heed_interrupts, stderr=subprocess.PIPE
    )


@pytest.mark.parametrize("sign, n_lost", [(signal.SIGKILL, 4), (signal.SIGINT, 0)])
def test_a_run_that_is_ended_goes_on_and_pays_for_nothing_twice(tmp_path, sign, n_lost):
    store = tmp_path / "s.sqlite"
    with Server(servers.graded, delay=0.1) as server:
        child = start_child(server, store)
        while len(server.requests) < 14:
            time.sleep(0.01)
        child.send_signal(sign)
        assert child.wait() != 0
        assert start_child(server, store).wait() == 0
        assert 40 <= len(server.requests) <= 40 + n_lost
        assert len({request.raw for request in server.requests}) == 40
    assert Store(store).bill("judge")["replies"].sum() == 40


COMMAND = """
import sys
from dre.commands.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_second_interrupt_ends_at_once(tmp_path):
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs(30)))
    with Server(servers.graded, delay=20) as server:
        words = ["judge", "run", "p.jsonl", "--judge", "openai:m", "--base-url", server.url]
        words += ["--store", "s.sqlite", "--price", "1,10"]
        command = [sys.executable, "-c", COMMAND, *words]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        child = subprocess.Popen(
            command, env=environment, cwd=tmp_path, preexec_fn=conftest.heed_interrupts
        )
        while not server.requests:
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        time.sleep(1)
        assert child.poll() is None  # the calls in flight may finish
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=10) == 130
        n_asked = len(server.requests)
    bill = Store(tmp_path / "s.sqlite").bill("judge").iloc[0]
    assert (bill["lost"], bill["replies"]) == (n_asked, 0)  # nothing is paid unseen
    assert bill["usd"] == bill["usd_lost"] > 0.02 * n_asked


SIDE_BY_SIDE = """
import os, sys
import dre.judges
from dre.judges.ask import drop_calls, side_by_side
from judge_servers import pairs
lives = [dre.judges.open(f"openai:{name}", store=sys.argv[2], base_url=sys.argv[1], concurrency=2,
                         price="1,10") for name in "ab"]
try:
    side_by_side([lambda live=live: live.score(pairs(40)) for live in lives])
except KeyboardInterrupt:
    os._exit(130 if drop_calls() else 1)
"""


def test_after_a_second_interrupt_no_judge_is_asked_further(tmp_path):
    with Server(servers.graded, delay=3) as server:
        command = [sys.executable, "-c", SIDE_BY_SIDE, server.url, str(tmp_path / "s.sqlite")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        child = subprocess.Popen(command, env=environment, preexec_fn=conftest.heed_interrupts)
        while len(server.requests) < 4:
            time.sleep(0.05)
        for _ in range(2):
            child.send_signal(signal.SIGINT)
            time.sleep(0.5)
        assert child.wait(timeout=20) == 130
        assert len(server.requests) == 4


# The store


def test_another_process_with_the_same_judge_is_refused_and_another_judge_is_not(tmp_path):
    store = tmp_path / "s.sqlite"
    with Server(servers.graded, delay=0.1) as server:
        child = start_child(server, store)
        while not server.requests:
            time.sleep(0.01)
        with pytest.raises(TryLater, match="another run asks openai:m now"):
            judge(server, store=store).score(pairs(50))
        other = dre.judges.open("openai:other", store=store, base_url=server.url)
        assert (other.score(pairs(2))["status"] == "ok").all()
        assert child.wait() == 0


def test_a_link_to_a_store_is_the_same_store(tmp_path):
    (tmp_path / "link.sqlite").symlink_to(tmp_path / "s.sqlite")
    with Server(servers.graded, delay=0.1) as server:
        child = start_child(server, tmp_path / "s.sqlite")
        while not server.requests:
            time.sleep(0.01)
        with pytest.raises(TryLater, match="another run asks"):
            judge(server, store=tmp_path / "link.sqlite").score(pairs(50))
        assert child.wait() == 0


def test_two_threads_with_the_same_judge_pay_for_each_reply_once(tmp_path):
    with Server(servers.graded, delay=0.01) as server:
        opened = [judge(server, store=tmp_path / "s.sqlite") for _ in range(2)]
        side_by_side([lambda live=live: live.score(pairs(20)) for live in opened])
        assert len(server.requests) == 20


@pytest.mark.parametrize("content", ["CREATE TABLE reply (key TEXT)", "PRAGMA user_version = 9"])
def test_a_store_of_another_form_is_refused_and_stays_as_it_is(content, tmp_path):
    path = tmp_path / "s.sqlite"
    connection = sqlite3.connect(path)
    connection.execute(content)
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with always(servers.openai(GOOD)) as server:
        with pytest.raises(DreError, match="a store of another form"):
            judge(server, store=path).score(pairs(2))
        assert not server.requests
    assert path.read_bytes() == before


def test_a_store_that_is_no_database_or_a_folder_is_said_before_a_call(tmp_path):
    (tmp_path / "text").write_text(
        "These are no replies, but more than a header of SQLite has." * 9
    )
    (tmp_path / "folder").mkdir()
    with always(servers.openai(GOOD)) as server:
        for name in ("text", "folder", "text/below"):
            with pytest.raises(DreError, match="the store cannot be used"):
                judge(server, store=tmp_path / name).score(pairs(2))
        assert not server.requests


def test_reading_makes_no_store_and_a_new_one_is_its_owners_alone(tmp_path):
    path = tmp_path / "below" / "s.sqlite"
    with always(servers.openai("Four: \ud83d half".encode("utf-8", "replace").decode())) as server:
        live = judge(server, store=path)
        assert live.score(pairs(1), ask=False)["status"].tolist() == ["missing"]
        assert "1 call to make" in live.estimate(pairs(1))
        assert not path.exists()
        live.score(pairs(1))
    assert path.stat().st_mode & 0o777 == 0o600
    text = sqlite3.connect(path).execute("SELECT * FROM call").fetchall()
    assert "ferns" not in str(text)  # texts of dialogues are not stored


def test_half_of_a_surrogate_pair_is_no_reason_to_lose_a_reply():
    half = servers.openai(GOOD, model="\ud83d")
    with_top = servers.with_logprobs(servers.openai("2"), {"2": 0.6, "\ud83d": 0.4})
    with always(half) as server:
        live = judge(server, concurrency=1)
        live.account = "\ud83d"
        table = live.score([pairs(1)[0], {**pairs(2)[1], "response": "\ud83d"}, *pairs(12)[2:]])
        assert table["status"].tolist() == ["ok", "error", *["ok"] * 10]
        assert "surrogates not allowed" in table["reason"][1]
        server.script = lambda request: with_top
        assert judge(server, logprobs=2).score(pairs(1), "quality_overall")["score_llm"][0] == 2


def test_what_has_no_price_is_not_called_free():
    with always(servers.openai(GOOD)) as server:
        live = judge(server, price=None)
        live.score(pairs(2))
        assert live.last.money == "price unknown"
        for price in ("1", "1,nan", "-1,1", (1, 10, 1)):
            with pytest.raises(DreError, match="expected IN,OUT"):
                judge(server, price=price)
    bill = live.store.bill("judge").iloc[0]
    assert (bill["replies"], bill["unpriced"]) == (2, 2)
    assert bill["usd"] != bill["usd"]


def test_the_bill_says_who_was_asked_for_what_in_which_run(tmp_path):
    with always(servers.openai(GOOD)) as server:
        live = judge(server, store=tmp_path / "s.sqlite", account="table 1")
        live.run = "first"
        live.score(pairs(2))
        live.run, live.account = "second", "table 2"
        live.score(pairs(3))
    bill = live.store.bill("judge", "account")
    assert bill[["account", "replies"]].to_numpy().tolist() == [["table 1", 2], ["table 2", 1]]
    assert live.store.bill("run", run="second")["replies"].tolist() == [1]
    assert live.store.spent(run="first") == pytest.approx(2 * 150 / 1e6)


# The command


def test_the_command_estimates_asks_shows_and_bills(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs(3)))
    with always(servers.openai(GOOD)) as server:
        words = ["p.jsonl", "--judge", "openai:m", "--store", "s.sqlite", "--price", "1,1"]
        words += ["--base-url", server.url]
        assert main(["judge", "estimate", *words]) == 0
        assert "3 calls to make" in capsys.readouterr().out
        assert not server.requests
        assert main(["judge", "run", *words, "-o", "o.csv"]) == 0
        assert main(["judge", "run", *words, "-o", "o.csv"]) == 0
        assert len(server.requests) == 3
        capsys.readouterr()
        assert main(["judge", "show", "own/1", *words]) == 0
        output = capsys.readouterr().out
        assert "The 1 ferns" in output
        assert "--- reply: ok, from test-model ---" in output
        assert "score_llm: 4.0" in output
        assert re.search(r"openai:m \| llm_only \| 3 .*\| 150 \| 30 \| 0.0002", output)
        assert f"Store: {tmp_path / 's.sqlite'}." in output
        assert main(["judge", "show", "own/9", *words]) == 2
        assert main(["judge", "run", *words, "-o", "o.csv", "--plain"]) == 2
        assert "o.csv is of another run" in capsys.readouterr().err
        assert main(["judge", "run", *words, "--prompt", "classify"]) == 2  # none can be read
        assert main(["judge", "run", *words, "--temperature", "1", "--max-usd", "0"]) == 1
        assert "stopped before $0 would be passed" in capsys.readouterr().out
        assert main(["judge", "run", *words, "--param", "store=1"]) == 2


def test_a_function_and_a_judge_without_a_name_need_no_server():
    live = dre.judges.open(lambda context, response: len(response) / 10)
    table = live.score(pairs(2) + [{**pairs(1)[0], "pair_id": "x", "response": "long" * 20}])
    assert table["score_llm"].tolist()[:2] == [2.4, 2.4]
    assert table["status"].tolist() == ["ok", "ok", "malformed"]
    with pytest.raises(DreError, match="options of a judge that is opened by its name"):
        dre.judges.open(len, repeats=2)


def test_the_retired_sdk_of_gemini_is_taken_where_the_new_one_is_not(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "google.genai" else find(name)
    )
    with always(servers.gemini(GOOD)) as server:
        live = judge(server, "gemini")
        assert type(live.client()).__name__ == "RetiredGemini"
        assert live.score(pairs(2))["score_llm"].tolist() == [4, 4]
        assert live.last.spent == pytest.approx(2 * 150 / 1e6)
        assert "responseSchema" in json.dumps(server.requests[0].body)
        server.script = lambda request: servers.error("gemini", 404, "no model m")
        with pytest.raises(DreError, match="no model m"):
            judge(server, "gemini", temperature=1).score(pairs(9))
