"""What servers of the world send in place of a reply, and what a user is then told to do."""

import gzip
import json
import math
import re
import shutil
import ssl
import subprocess
import sys
import time
from pathlib import Path

import judge_servers as servers
import pytest
from judge_servers import Answer, Server, pairs

import dre.judges
from dre.commands.main import main
from dre.errors import DreError
from dre.judges.provider import certificates

pytestmark = pytest.mark.usefixtures("quick")

SCORE = '{"score": 4}'
BABBLE = "Well, that depends on the ferns."


def judge(server, provider="openai", **options):
    options = {"store": ":memory:", "base_url": server.url, "concurrency": 1, **options}
    return dre.judges.open(f"{provider}:m", **options)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working directory with files of 4, 9 and 60 pairs."""
    monkeypatch.chdir(tmp_path)
    for n in (4, 9, 60):
        lines = [json.dumps(pair) + "\n" for pair in pairs(n)]
        (tmp_path / f"{n}.jsonl").write_text("".join(lines))
    return tmp_path


def run(file, server, *options, command=("judge", "run"), judges=("openai:m",)):
    words = [*command, file, "--store", "s.sqlite", "--base-url", server.url, *options]
    for name in judges:
        words += ["--judge", name]
    return main(words)


# A judge that cannot be read


@pytest.mark.parametrize(
    "answer, status, advice",
    [
        (servers.openai(BABBLE), "malformed", "the last begins 'Well, that depends"),
        (servers.openai(""), "empty", "the reply is empty"),
        (servers.openai("The ferns", "length"), "truncated", "give a larger --max-tokens"),
    ],
)
@pytest.mark.parametrize("concurrency", ["1", "7"])
def test_a_judge_that_cannot_be_read_is_not_paid_to_the_end(
    folder, capsys, answer, status, advice, concurrency
):
    with Server(lambda request: answer, delay=0.01) as server:
        assert run("60.jsonl", server, "--concurrency", concurrency, "-o", "o.csv") == 2
        n_paid = len(server.requests)
    assert 10 <= n_paid < 10 + int(concurrency)
    error = capsys.readouterr().err
    assert f"openai:m: none of its first 10 replies can be read (10 {status})" in error
    assert advice in error
    assert "--keep-going" in error
    assert "what was answered is stored" in error
    assert not (folder / "o.csv").exists()


def test_a_run_that_is_given_again_pays_for_one_more_reply_of_a_judge_that_cannot_be_read(folder):
    with Server(lambda request: servers.openai(BABBLE)) as server:
        assert run("60.jsonl", server, "--concurrency", "1") == 2
        assert run("60.jsonl", server, "--concurrency", "1") == 2
        assert len(server.requests) == 11
        server.script = servers.graded  # it was mended
        assert run("60.jsonl", server) == 0
        assert len(server.requests) == 60


def test_keep_going_asks_for_all_and_the_exit_status_still_says_that_there_is_no_score(folder):
    with Server(lambda request: servers.openai(BABBLE)) as server:
        assert run("60.jsonl", server, "--keep-going", "-o", "o.csv") == 2
        assert len(server.requests) == 60
    assert (folder / "o.csv").exists()


def test_one_reply_among_the_first_ten_that_can_be_read_lets_a_run_go_on(folder):
    def script(request):
        return servers.openai(SCORE if b"number 9?" in request.raw else BABBLE)

    with Server(script) as server:
        assert run("60.jsonl", server, "--concurrency", "1") == 0
        assert len(server.requests) == 60
        # The others are asked again on demand: ten in a row that stay malformed end nothing.
        assert run("60.jsonl", server, "--concurrency", "1", "--retry", "malformed") == 0
        assert len(server.requests) == 60 + 59


def test_refusals_are_replies_that_can_be_read(folder):
    refusal = servers.openai(None, refusal="I cannot rate people.")
    with Server(lambda request: refusal) as server:
        assert run("60.jsonl", server) == 2  # and yet there is no score
        assert len(server.requests) == 60


@pytest.mark.parametrize(
    "commands",
    [
        [("judge", "run"), ("judge", "run"), ("judge", "replay")],
        [("judge", "estimate"), ("judge", "run")],
        [("score",), ("score",)],
        [("judge", "passport", "--rated")],
    ],
    ids=str,
)
def test_without_a_single_score_no_command_ends_with_status_0(folder, commands):
    rated = [json.dumps(pair | {"human": i % 5}) + "\n" for i, pair in enumerate(pairs(9))]
    (folder / "9.jsonl").write_text("".join(rated))
    with Server(lambda request: servers.openai(BABBLE)) as server:
        for command in commands:  # after the first one all is stored
            assert run("9.jsonl", server, command=command) == 2
        assert len(server.requests) == 18 if "passport" in commands[0] else 9


def test_of_several_judges_one_that_cannot_be_read_ends_alone(folder, capsys):
    def script(request):
        return servers.openai(SCORE if request.body["model"] == "good" else BABBLE)

    with Server(script) as server:
        names = ("openai:good", "openai:bad")
        assert run("60.jsonl", server, "-o", "o.csv", judges=names) == 2
        n_asked = [request.body["model"] for request in server.requests]
        assert n_asked.count("good") == 60
        assert n_asked.count("bad") < 20
        assert run("4.jsonl", server, judges=names) == 2  # without ten replies, too
    assert "openai:bad: none of its first" in capsys.readouterr().err


def test_a_judge_of_ones_own_program_stops_with_one_sentence():
    with Server(lambda request: servers.openai(BABBLE)) as server:
        message = "none of its first 10 replies can be read .10 malformed.*--keep-going"
        with pytest.raises(DreError, match=message):
            judge(server).score(pairs(30))
        table = judge(server, keep_going=True).score(pairs(12))
    assert set(table["status"]) == {"malformed"}


# Log-probabilities


def with_logprobs(text, *candidates):
    """A reply of one token; the likeliest tokens with their log-probabilities."""
    answer = servers.openai(text)
    tokens = [{"token": token, "logprob": logprob} for token, logprob in candidates]
    answer.body["choices"][0]["logprobs"] = {"content": [tokens[0] | {"top_logprobs": tokens}]}
    return answer


@pytest.mark.parametrize(
    "answer, reason",
    [
        (with_logprobs("2", ("2", math.nan), ("3", math.nan)), "no numbers up to 0 .nan"),
        (with_logprobs("2", ("2", math.inf), ("3", -0.5)), "no numbers up to 0 .inf"),
        (with_logprobs("2", ("2", -0.2), ("3", 1.5)), "no numbers up to 0 .1.5"),
        (with_logprobs("2", ("2", -0.2), ("3", "-1.5")), "no numbers up to 0 .'-1.5'"),
        (with_logprobs("2", ("2", -0.2)), "without alternatives.*top_logprobs"),
    ],
)
def test_log_probabilities_that_say_nothing_end_a_run_at_its_first_reply(answer, reason):
    with Server(lambda request: answer) as server:
        live_judge = judge(server, logprobs=True)
        with pytest.raises(DreError, match=reason):
            live_judge.score(pairs(9), "quality_overall")
        assert len(server.requests) == 1
        row = live_judge.score(pairs(1), "quality_overall").iloc[0]
    assert row["status"] == "malformed"
    assert math.isnan(row["score_llm"])


def test_one_reply_with_broken_log_probabilities_is_malformed_and_the_others_count():
    def script(request):
        broken = math.nan if b"number 1?" in request.raw else -0.1
        return with_logprobs("2", ("2", broken), ("0", -40.0))

    with Server(script) as server:
        table = judge(server, logprobs=True).score(pairs(3), "quality_overall")
    assert table["status"].tolist() == ["ok", "malformed", "ok"]
    assert table["score_llm"][0] == pytest.approx(2)


def test_a_token_with_the_sign_of_a_space_is_the_token():
    for space in ("\u2581", "\u0120"):
        answer = with_logprobs("2", (f"{space}2", math.log(0.5)), (f"{space}4", math.log(0.5)))
        with Server(lambda request, answer=answer: answer) as server:
            table = judge(server, logprobs=True).score(pairs(1), "quality_overall")
        assert table["score_llm"][0] == pytest.approx(3)


# Answers that are no reply


def chunk(**delta):
    """A chunk of a stream of chat completions."""
    finish = delta.pop("finish", None)
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"object": "chat.completion.chunk", "model": "m", "choices": [choice]}


def events(*pieces, end="data: [DONE]\n\n", newline="\n"):
    """Server-sent events."""
    text = "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces) + end
    return text.replace("\n", newline).encode()


WHOLE = [chunk(role="assistant", content=""), chunk(content='{"sco'), chunk(content='re": 4}')]
LAST = chunk(finish="stop")
USAGE = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5}}
EVENT_STREAM = {"content-type": "text/event-stream"}
REPLY = servers.openai(SCORE).body

READ = {
    "a stream": Answer(events(*WHOLE, LAST, USAGE), headers=EVENT_STREAM),
    "a stream as JSON, with signs of life": Answer(
        b": PROCESSING\n\n" + events(*WHOLE, LAST, newline="\r\n")
    ),
    "a stream without a reason for its end": Answer(events(*WHOLE), headers=EVENT_STREAM),
    "a stream of one whole message": Answer(events(REPLY, end="")),
    "a byte order mark": Answer(b"\xef\xbb\xbf" + json.dumps(REPLY).encode()),
    "plain text as its type": Answer(
        json.dumps(REPLY).encode(), headers={"content-type": "text/plain; charset=odd-1"}
    ),
    "blank lines before it": Answer(b"\n\n\n" + json.dumps(REPLY).encode()),
    "a list of one": Answer([REPLY]),
    "another reason for its end": servers.openai(SCORE, finish="eos_token"),
    "no reason for its end": servers.openai(SCORE, finish=None),
    "parts, of which one is thinking": servers.openai(
        [
            {"type": "thinking", "thinking": [{"type": "text", "text": '{"score": 1}'}]},
            {"type": "text", "text": SCORE},
        ]
    ),
    "an empty error beside it": Answer({**REPLY, "error": None}),
}


@pytest.mark.parametrize("form", READ)
def test_a_reply_in_an_odd_form_is_a_reply(form):
    with Server(lambda request: READ[form]) as server:
        live_judge = judge(server, price="1,1")
        assert live_judge.score(pairs(1))["score_llm"].tolist() == [4]
        assert len(server.requests) == 1
    if form == "a stream":
        assert live_judge.last.spent == pytest.approx(12e-6)


STREAMS_OF_OTHERS = {
    "anthropic": [
        {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 7}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}},
        {"type": "content_block_delta", "index": 0, "delta": {"thinking": '{"score": 1}'}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": SCORE}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
    ],
    "gemini": [
        {"candidates": [{"content": {"parts": [{"text": '{"score"'}]}}]},
        {"candidates": [{"content": {"parts": [{"text": ": 4}"}]}, "finishReason": "STOP"}]},
    ],
    "ollama": [
        {"model": "m", "message": {"role": "assistant", "content": '{"score"'}, "done": False},
        {"model": "m", "message": {"role": "assistant", "content": ": 4}"}, "done": False},
        {"model": "m", "message": {"content": ""}, "done": True, "done_reason": "stop"},
    ],
}


@pytest.mark.parametrize("provider", STREAMS_OF_OTHERS)
@pytest.mark.parametrize("form", ["events", "lines", "list"])
def test_streams_of_other_providers_are_put_together(provider, form):
    pieces = STREAMS_OF_OTHERS[provider]
    bodies = {
        "events": events(*pieces, end=""),
        "lines": "".join(json.dumps(piece) + "\n" for piece in pieces).encode(),
        "list": json.dumps(pieces).encode(),
    }
    with Server(lambda request: Answer(bodies[form])) as server:
        assert judge(server, provider).score(pairs(1))["score_llm"].tolist() == [4]
        server.script = lambda request: Answer(events(*pieces[:-1], end=""))
        table = judge(server, provider).score(pairs(1))
    assert table["status"].tolist() == ["error"]
    assert "a stream that broke off" in table["reason"][0]


PAGE = b"<!DOCTYPE html><html><head><title>Hotel WLAN</title><style>b{}</style></head>Log in</html>"
NO_REPLY = {
    "a page": (Answer(PAGE, headers={"content-type": "text/html"}), "a page .HTML.*Hotel WLAN Log"),
    "a page as JSON": (Answer(PAGE), "a page .HTML.*Hotel WLAN"),
    "nothing": (Answer(b""), "an empty body .HTTP 200"),
    "nothing to be sent": (Answer(b"", 204), "an empty body .HTTP 204"),
    "no choices": (Answer({"id": "x", "choices": []}), r"choices are \[\]"),
    "choices that are null": (Answer({"choices": None, "usage": None}), "choices are null"),
    "other keys": (Answer({"result": {"response": SCORE}}), "without choices .it has result"),
    "a message that is null": (
        Answer({"choices": [{"message": None, "finish_reason": "stop"}]}),
        "a choice without a message",
    ),
    "completions": (Answer({"choices": [{"text": SCORE}]}), "without a message .it has text"),
    "an object as content": (servers.openai({"score": 4}), "a content that is no text: .*score"),
    "a comma too many": (Answer(b'{"choices": [],}'), "what is no JSON .application/json.*choices"),
    "a text": (Answer(b"OK", headers={"content-type": "text/plain"}), "no JSON .text/plain.: 'OK'"),
    "a number": (Answer(b"42"), "JSON that is no object: '42'"),
    "a stream that breaks off": (Answer(events(*WHOLE, end="")), "a stream that broke off after"),
    "a stream cut within a word": (
        Answer(events(*WHOLE, end="")[:-9]),
        "a stream with what is no JSON",
    ),
    "an engine that gave up": (servers.openai("", finish="abort"), "broken off .finish_reason abo"),
}


@pytest.mark.parametrize("form", NO_REPLY)
def test_a_server_that_answers_is_not_told_to_be_silent(form):
    answer, words = NO_REPLY[form]
    with Server(lambda request: answer) as server:
        message = f"what answers at {server.url} is no judge: it answered with .*{words}"
        with pytest.raises(DreError, match=message):
            judge(server).score(pairs(9))
        assert len(server.requests) <= 4


ERRORS_IN_200 = {
    "a text that stops": ({"error": "Invalid API key provided"}, 1, "Invalid API key"),
    "a list": ({"errors": [{"code": 403, "message": "no seat for you"}]}, 1, "no seat for you"),
    "an object of its own": ({"object": "error", "message": "bad", "code": 401}, 1, "bad"),
    "a detail": ({"detail": "Not Found: no such endpoint"}, 1, "the address has no /v1"),
    "a choice": (
        {"choices": [{"error": {"code": "402", "message": "top up"}, "message": {}}]},
        1,
        "top up",
    ),
    "a status as text": ({"error": {"code": "404", "message": "gone"}}, 1, "gone"),
    "an unknown model": ({"error": "model 'm' not found, try pulling it"}, 1, "try pulling it"),
}


@pytest.mark.parametrize("form", ERRORS_IN_200)
def test_an_error_within_status_200_is_told_as_one(form):
    body, n_calls, words = ERRORS_IN_200[form]
    with Server(lambda request: Answer(body)) as server:
        with pytest.raises(DreError) as raised:
            judge(server).score(pairs(5))
        assert len(server.requests) == n_calls
    assert words in str(raised.value)
    assert "HTTP 200 with an error" in str(raised.value)
    assert "502" not in str(raised.value)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "Upstream had a hiccup", "code": None}},
        {"error": "worker restarted"},
        {"error": ["try it once more"]},
        {"error": {"code": 503, "message": "loading"}},
        {"error": {"message": "too many requests", "type": "rate_limit"}},
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        {"choices": [{"error": {"code": 502, "message": "x"}, "message": {"content": ""}}]},
    ],
)
def test_an_error_within_status_200_that_may_pass_is_tried_again(body):
    answers = [Answer(body), servers.openai(SCORE)]
    with Server(lambda request: answers[min(1, len(server.requests) - 1)]) as server:
        assert judge(server).score(pairs(1))["score_llm"].tolist() == [4]


# Addresses


@pytest.mark.parametrize(
    "answer",
    [
        Answer({"error": "Unexpected endpoint or method. (POST /chat/completions)"}),
        Answer({"detail": "Not Found"}, 404),
        Answer({"error": "method not allowed"}, 405),
        Answer(b"<html><title>404 Not Found</title></html>", 404),
        Answer(b"Cannot POST /chat/completions", 404),
    ],
)
def test_an_address_without_v1_is_told_at_the_first_call(answer):
    with Server(lambda request: answer) as server:
        with pytest.raises(DreError, match=f"has no /v1.*try {server.url}/v1"):
            judge(server).score(pairs(5))
        assert len(server.requests) == 1
        with pytest.raises(DreError) as raised:
            judge(server, base_url=f"{server.url}/v1").score(pairs(5))
    assert "has no /v1" not in str(raised.value)


def test_a_model_that_is_not_there_is_no_matter_of_the_address():
    missing = servers.error("openai", 404, "The model `m` does not exist.")
    with Server(lambda request: missing) as server, pytest.raises(DreError) as raised:
        judge(server).score(pairs(5))
    assert "does not exist" in str(raised.value)
    assert "/v1" not in str(raised.value)


@pytest.mark.parametrize(
    "provider, path",
    [("anthropic", "/v1"), ("ollama", "/v1"), ("ollama", "/api"), ("gemini", "/v1beta")],
)
def test_a_path_that_the_client_adds_itself_is_told(provider, path):
    message = f"leave {path} out of the address"
    answer = Answer(b"404 page not found", 404)
    with Server(lambda request: answer) as server, pytest.raises(DreError, match=message):
        judge(server, provider, base_url=server.url + path).score(pairs(3))


def test_an_address_with_the_path_of_a_call_is_refused_before_one():
    with pytest.raises(DreError, match="ends in /chat/completions.*leave that out"):
        dre.judges.open("openai:m", base_url="http://127.0.0.1:1/v1/chat/completions")


# Names of parameters


def refuses(name, message, **options):
    """A server that refuses a parameter, and answers without it."""

    def script(request):
        if name in request.body:
            return servers.error("openai", 400, message, **options)
        return servers.openai(SCORE)

    return script


@pytest.mark.parametrize(
    "model, refused, wanted, message",
    [
        (
            "m",
            "max_tokens",
            "max_completion_tokens",
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.",
        ),
        ("m", "max_tokens", "max_completion_tokens", "Unrecognized request argument: max_tokens"),
        (
            "gpt-5-own",
            "max_completion_tokens",
            "max_tokens",
            "extra fields not permitted: max_completion_tokens",
        ),
        ("o9", "max_completion_tokens", "max_tokens", "unknown field `max_completion_tokens`"),
    ],
)
@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_limit_is_sent_by_the_name_that_the_server_knows(
    model, refused, wanted, message, concurrency
):
    script = refuses(refused, message)
    with Server(script, delay=0.01) as server:
        options = {"store": ":memory:", "base_url": server.url, "max_tokens": 77}
        live_judge = dre.judges.open(f"openai:{model}", concurrency=concurrency, **options)
        assert (live_judge.score(pairs(12))["score_llm"] == 4).all()
        refusals = [request for request in server.requests if refused in request.body]
        assert 1 <= len(refusals) <= concurrency  # it is remembered for the run
        answered = [request.body for request in server.requests if refused not in request.body]
    assert len(answered) == 12
    assert {body[wanted] for body in answered} == {77}


def test_a_limit_is_renamed_by_a_list_of_validation_errors_too():
    """In the forms of Mistral and of FastAPI, which also repeat the request."""
    entry = {
        "type": "extra_forbidden",
        "loc": ["body", "max_tokens"],
        "msg": "Extra inputs are ...",
    }
    for body in ({"detail": [entry]}, {"object": "error", "message": {"detail": [entry]}}):

        def script(request, body=body):
            if "max_tokens" in request.body:
                return Answer(body | {"input": request.body}, 422)
            return servers.openai(SCORE)

        with Server(script) as server:
            assert (judge(server).score(pairs(3))["score_llm"] == 4).all()
            assert len(server.requests) == 4


def test_the_words_of_an_error_within_an_error_are_told():
    busy = Answer({"detail": {"msg": "Server is busy; come back later."}}, 503)
    with Server(lambda request: busy) as server:
        table = judge(server, attempts=2).score(pairs(1))
    assert table["reason"][0] == "HTTP 503: Server is busy; come back later."


def test_a_limit_that_is_refused_by_both_names_ends_the_run():
    def script(request):
        [name] = {"max_tokens", "max_completion_tokens"} & set(request.body)
        return servers.error("openai", 400, f"Unknown parameter: {name}")

    with Server(script) as server:
        with pytest.raises(DreError, match="Unknown parameter"):
            judge(server).score(pairs(5))
        assert len(server.requests) == 2


def test_a_limit_that_is_too_large_keeps_its_name():
    message = "max_tokens is too large: 9000. This model supports at most 4096 tokens"
    with Server(refuses("max_tokens", message)) as server:
        with pytest.raises(DreError, match="does not take this max_tokens.*too large"):
            judge(server, max_tokens=9000).score(pairs(5))
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "message, most",
    [
        ("top_logprobs must be less than or equal to 5.", 5),
        ("Requested sample logprobs of 20, which is greater than max allowed: 8", 8),
        ("Invalid value for 'top_logprobs': expected a number between 0 and 11", 11),
        ("top_logprobs should be less than 6", 5),
        ("`top_logprobs` must be in 0..=4, got 20", 4),
    ],
)
def test_fewer_alternatives_are_named_where_a_server_gives_fewer(message, most):
    answer = servers.error("openai", 400, message)
    advice = f"--param top_logprobs={most}:"
    with Server(lambda request: answer) as server, pytest.raises(DreError, match=advice):
        judge(server, logprobs=True).score(pairs(3), "quality_overall")


def test_a_model_without_log_probabilities_is_told_to_do_without():
    message = "logprobs is not supported with gpt-4.1-mini-2 (request 7)"
    answer = servers.error("openai", 400, message)
    advice = "leave logprobs out"
    with Server(lambda request: answer) as server, pytest.raises(DreError, match=advice):
        judge(server, logprobs=True).score(pairs(3), "quality_overall")


@pytest.mark.parametrize("status", [400, 422, 500])
@pytest.mark.parametrize(
    "message",
    [
        "failed to parse grammar",
        "Failed to compile json schema: xgrammar raised",
        "guided_json is not available for this backend",
        "Grammar error: Unimplemented keys",
        "structured outputs are off on this server",
    ],
)
def test_a_grammar_that_a_server_cannot_use_leads_to_plain(status, message):
    with Server(lambda request: servers.error("openai", status, message)) as server:
        with pytest.raises(DreError, match="give --plain"):
            judge(server).score(pairs(5))
        assert len(server.requests) == 1


# Quotas and sizes


@pytest.mark.parametrize(
    "message",
    [
        "Rate limit reached on requests per day (RPD): Limit 50, Used 50",
        "Rate limit exceeded: free-models-per-day",
        "You have used up your daily free allocation of neurons",
        "Tokens Per Day quota reached",
    ],
)
@pytest.mark.parametrize("status", [429, 403, 200])
def test_a_quota_for_a_day_ends_the_run_and_the_same_command_goes_on_later(
    folder, capsys, message, status
):
    answer = servers.error("openai", status, message)
    if status == 200:
        answer.body["error"]["code"] = 429
    with Server(lambda request: answer) as server:
        assert run("9.jsonl", server, "--concurrency", "1") == 1
        assert len(server.requests) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_reply_that_never_ends_is_malformed_and_not_asked_for_again(is_packed):
    body = b" " * 40_000_000
    headers = {}
    if is_packed:
        body = gzip.compress(body)
        headers = {"content-encoding": "gzip"}
    with Server(lambda request: Answer(body, headers=headers)) as server:
        live_judge = judge(server, price="1,1")
        table = live_judge.score(pairs(1))
        again = live_judge.score(pairs(1))
        assert len(server.requests) == 1
    assert table["status"].tolist() == again["status"].tolist() == ["malformed"]
    assert "larger than any verdict" in table["reason"][0]
    assert live_judge.last.calls == 0


def test_a_packed_reply_is_a_reply():
    body = gzip.compress(json.dumps(REPLY).encode())
    answer = Answer(body, headers={"content-encoding": "gzip"})
    with Server(lambda request: answer) as server:
        assert judge(server).score(pairs(1))["score_llm"].tolist() == [4]


# Replies without a text


def hidden(field, n, provider="openai", finish="stop"):
    """A reply whose text is empty; n characters came in another field."""
    answer = servers.REPLIES[provider]("", finish)
    message = answer.body["message"] if provider == "ollama" else None
    message = message or answer.body["choices"][0]["message"]
    message[field] = "hmm " * (n // 4)
    message["content"] = None if provider == "openai" else ""
    return answer


@pytest.mark.parametrize(
    "provider, field, advice",
    [
        ("openai", "reasoning_content", "enable_thinking"),
        ("openai", "reasoning", "enable_thinking"),
        ("ollama", "thinking", "--param think=false"),
    ],
)
@pytest.mark.parametrize("plain", [False, True])
def test_a_text_in_another_field_is_counted_shown_and_never_read(provider, field, advice, plain):
    answer = hidden(field, 2000, provider)
    with Server(lambda request: answer) as server:
        live_judge = judge(server, provider, plain=plain)
        table = live_judge.score(pairs(1))
        [(_, reply)] = live_judge.replies(pairs(1))
    assert table["status"].tolist() == ["empty"]
    assert f"2,000 characters came as {field}" in table["reason"][0]
    assert advice in table["reason"][0]
    assert "max-tokens" not in table["reason"][0]
    assert "hmm hmm" in reply.text


def test_a_verdict_in_the_thinking_alone_is_no_verdict():
    answer = hidden("reasoning_content", 4)
    answer.body["choices"][0]["message"]["reasoning_content"] = SCORE
    with Server(lambda request: answer) as server:
        table = judge(server).score(pairs(1))
        by_text = judge(server, plain=True).score(pairs(1))
    assert table["status"].tolist() == by_text["status"].tolist() == ["empty"]


def test_thinking_that_uses_up_the_limit_leads_to_a_larger_one():
    with Server(lambda request: hidden("reasoning", 800, finish="length")) as server:
        table = judge(server).score(pairs(1))
    assert table["status"].tolist() == ["truncated"]
    assert "give a larger --max-tokens" in table["reason"][0]
    assert "800 characters came as reasoning" in table["reason"][0]


def test_a_tool_that_is_called_in_place_of_an_answer_is_named():
    answer = servers.openai(None, finish="tool_calls")
    call = {"id": "1", "type": "function", "function": {"name": "rate_it", "arguments": SCORE}}
    answer.body["choices"][0]["message"]["tool_calls"] = [call]
    with Server(lambda request: answer) as server:
        table = judge(server).score(pairs(1))
    assert table["status"].tolist() == ["empty"]
    assert "the model called a tool" in table["reason"][0]
    assert "rate_it" in table["reason"][0]


def test_an_ollama_server_that_only_loads_its_model_is_asked_again():
    answers = [servers.ollama("", "load"), servers.ollama(SCORE)]
    with Server(lambda request: answers[min(1, len(server.requests) - 1)]) as server:
        assert judge(server, "ollama").score(pairs(1))["score_llm"].tolist() == [4]


@pytest.mark.parametrize(
    "provider, answer, words",
    [
        ("gemini", servers.gemini("", "SAFETY"), "finishReason: 'SAFETY'.*safety_settings"),
        ("gemini", Answer({"promptFeedback": {"blockReason": "OTHER"}}), "blockReason: 'OTHER'"),
        ("openai", servers.openai("", "content_filter"), "content_filter.*Azure"),
        ("openai", servers.openai(None, "SAFETY"), "finish_reason: 'SAFETY'"),
    ],
)
def test_a_refusal_says_in_the_providers_word_why_and_what_could_be_changed(
    provider, answer, words
):
    with Server(lambda request: answer) as server:
        table = judge(server, provider).score(pairs(1))
    assert table["status"].tolist() == ["refused"]
    assert re.search(words, table["reason"][0])


# Advice that helps


def reason_of(text, plain=False, tokens=(50, 10), finish="stop"):
    """The status and the reason of a reply."""
    with Server(lambda request: servers.openai(text, finish, tokens=tokens)) as server:
        row = judge(server, plain=plain).score(pairs(1)).iloc[0]
    return row["status"], row["reason"]


def test_plain_is_named_where_it_reads_the_reply_and_nowhere_else():
    for text in ("Score: 4", "4/5", '{"score": 4, "why": "it fits"}'):
        status, reason = reason_of(text)
        assert status == "malformed"
        assert "--plain reads it" in reason
        assert reason_of(text, plain=True)[0] == "ok"
    for text in (BABBLE, "<ponder>4</ponder>", "-1", "4 or 5"):
        assert "--plain" not in reason_of(text)[1]


def test_a_larger_limit_is_named_where_the_reply_was_cut_and_nowhere_else():
    advice = "give a larger --max-tokens"
    assert advice in reason_of('{"score"', finish="length")[1]
    assert advice in reason_of('{"score"', tokens=(50, 1024))[1]
    assert advice in reason_of('{"score"', tokens=None)[1]
    assert advice not in reason_of('{"score"')[1]
    assert advice not in reason_of(f"It fits, mostly.</think>{SCORE}")[1]
    assert advice not in reason_of("Hm.\n</think>\nIt is </think> 4", plain=True)[1]


def test_a_tag_that_is_not_in_the_table_leads_to_a_file_of_tags():
    for tag in ("<ponder>", "[REASON]", "<|plan|>"):
        assert f"if {tag} begins the model's thinking" in reason_of(f"{tag}4?")[1]


# Tags of thinking


def thought(begins, ends, answer_begins="", answer_ends=""):
    return f"{begins}Is it 1? Hardly.{ends}{answer_begins}{SCORE}{answer_ends}"


CHANNEL = "<|start|>assistant<|channel|>final<|message|>"
THOUGHT = [
    thought("<|channel|>analysis<|message|>", "<|end|>", CHANNEL, "<|return|>"),
    thought("<|channel|>analysis<|message|>", "", CHANNEL),
    thought("<|channel|>commentary<|message|>", "<|end|>", CHANNEL),
    thought("", "", "<|channel|>final <|constrain|>json<|message|>", "<|return|>")[16:],
    thought("analysis", "", "assistantfinal"),
    thought("[THINK]", "[/THINK]"),
    thought("", "\n[/THINK]\n"),
    thought("<seed:think>", "</seed:think>"),
    thought("<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    thought("", "<|END_THINKING|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    thought("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    thought("<think>", "</think>\n", "<answer>", "</answer>"),
    thought("<|begin_of_thought|>", "<|end_of_thought|>"),
    thought("Here is my thought process:\n", "\n\n", "Here is my response:\n"),
]


@pytest.mark.parametrize("reply", THOUGHT)
@pytest.mark.parametrize("plain", [False, True])
def test_thinking_in_the_tags_of_open_models_is_no_part_of_the_answer(reply, plain):
    with Server(lambda request: servers.openai(reply)) as server:
        row = pairs(1)[0]
        assert judge(server, plain=plain).score([row])["score_llm"].tolist() == [4]
        # A dialogue with such tags may be what the reply quotes.
        row["response"] += reply
        assert judge(server).score([row])["status"].tolist() == ["malformed"]


@pytest.mark.parametrize(
    "reply, status",
    [
        ("[THINK]It is 4", "truncated"),
        ("<|channel|>analysis<|message|>Score: 4", "truncated"),
        (f"[THINK]a[/THINK]{SCORE}[/THINK]", "truncated"),
        (f"<|START_RESPONSE|>{SCORE}<|END_RESPONSE|> and {CHANNEL}4", "malformed"),
        ("analysis of the reply:\n4", "ok"),
    ],
)
def test_what_is_left_of_tags_is_never_read(reply, status):
    assert reason_of(reply, plain=True)[0] == status


TAGS = """
- models: ours
  begins: ["{{plan}}", "Plan:"]
  ends: ["{{/plan}}"]
  answer_begins: ["Verdict follows."]
"""


def test_a_file_adds_tags_of_ones_own_and_asks_for_nothing_again(folder, capsys):
    (folder / "tags.yaml").write_text(TAGS)
    answers = [f"{{{{plan}}}}3?{{{{/plan}}}}{SCORE}", f"Plan: 3?\nVerdict follows.\n{SCORE}"]
    with Server(lambda request: servers.openai(answers[len(server.requests) % 2])) as server:
        assert run("4.jsonl", server, "-o", "before.csv") == 2
        assert run("4.jsonl", server, "-o", "after.csv", "--thinking-tags", "tags.yaml") == 0
        assert len(server.requests) == 4
        assert run("4.jsonl", server, "-o", "before.csv", "--thinking-tags", "tags.yaml") == 2
    assert "before.csv is of another run" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text, message",
    [
        ("- begins: [x]", "'ends' or 'answer_begins' is missing"),
        ("- {begins: [x], ends: ['']}", "a tag is empty"),
        ("- {begin: [x], ends: [y]}", "0.begin"),
        ("begins: [x]", "the file: .*list"),
        ("- {begins: x, ends: [y]}", "0.begins"),
        ("- [", "cannot be read as YAML"),
    ],
)
def test_a_file_of_tags_in_another_form_is_refused_before_a_call(folder, text, message):
    (folder / "tags.yaml").write_text(text)
    with pytest.raises(DreError, match=message):
        dre.judges.open("openai:m", thinking_tags="tags.yaml")
    with pytest.raises(DreError, match="no-such.yaml: cannot be read"):
        dre.judges.open("openai:m", thinking_tags="no-such.yaml")


# The way to a server


def test_a_socks_proxy_whose_package_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv("ALL_PROXY", "socks5://me:secret@127.0.0.1:9")
    for provider in ("openai", "anthropic", "gemini", "ollama"):
        with Server(lambda request: servers.openai(SCORE)) as server, pytest.raises(DreError) as e:
            judge(server, provider).score(pairs(1))
        assert "ALL_PROXY=socks5://127.0.0.1:9" in str(e.value)
        assert "pip install 'httpx[socks]'" in str(e.value)
        assert "not installed" not in str(e.value)
        assert "secret" not in str(e.value)


def test_a_proxy_that_no_client_knows_is_named(monkeypatch):
    monkeypatch.setenv("http_proxy", "gopher://127.0.0.1:9")
    with Server(servers.graded) as server, pytest.raises(DreError, match="http_proxy=gopher"):
        judge(server).score(pairs(1))


@pytest.mark.parametrize("is_there", [False, True])
def test_a_proxy_before_a_server_that_is_not_reached_is_named(monkeypatch, is_there):
    def refuse(request):
        return Answer(b"<html><title>Squid</title>Access denied</html>", 403)

    with Server(refuse) as proxy, Server(servers.graded) as server:
        address = proxy.url if is_there else "http://127.0.0.1:9"
        monkeypatch.setenv("HTTP_PROXY", address.replace("//", "//me:secret@"))
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        with pytest.raises(DreError, match=f"the proxy {address}.*NO_PROXY=127.0.0.1") as raised:
            judge(server).score(pairs(3))
        assert "secret" not in str(raised.value)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert judge(server).score(pairs(3))["status"].tolist() == ["ok"] * 3


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for 127.0.0.1 that signs itself, with its key, in one file."""
    path = tmp_path_factory.mktemp("certificate") / "both.pem"
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=ours", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", path, "-out", f"{path}.crt"], check=True)
    path.write_text(path.read_text() + Path(f"{path}.crt").read_text())
    return path


@pytest.fixture
def https(certificate):
    """A server that speaks https."""
    server = Server(servers.graded)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *details: None
    with server:
        yield server


@pytest.mark.parametrize("provider", ["openai", "anthropic", "ollama"])
def test_a_certificate_that_is_not_trusted_leads_to_the_variable_that_names_it(
    https, certificate, monkeypatch, provider
):
    address = https.url.replace("http://", "https://")
    message = "certificate is not accepted .self-signed certificate.*SSL_CERT_FILE"
    with pytest.raises(DreError, match=message):
        judge(https, provider, base_url=address).score(pairs(9))
    if provider == "openai":
        certificates.cache_clear()
        monkeypatch.setenv("SSL_CERT_FILE", f"{certificate}.crt")
        assert judge(https, base_url=address).score(pairs(1))["status"].tolist() == ["ok"]
        certificates.cache_clear()


def test_http_where_https_is_spoken_is_told_soon(https):
    start = time.monotonic()
    with pytest.raises(DreError, match="https://"):
        judge(https).score(pairs(9))
    assert time.monotonic() - start < 20


def test_https_where_http_is_spoken_is_told_at_once():
    with Server(servers.graded) as server, pytest.raises(DreError, match="write http://"):
        judge(server, base_url=server.url.replace("http://", "https://")).score(pairs(9))


def test_a_page_of_nginx_that_wants_https_is_understood():
    page = b"<html><title>400 The plain HTTP request was sent to HTTPS port</title></html>"
    with Server(lambda request: Answer(page, 400)) as server:
        with pytest.raises(DreError, match="write https://"):
            judge(server).score(pairs(9))
        assert len(server.requests) == 1
