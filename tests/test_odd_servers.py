"""What servers of the world send in place of a reply, and what a user is then told to do."""

import json
import math

import judge_servers as servers
import pytest
from judge_servers import Server, pairs

import dre.judges
from dre.commands.main import main
from dre.errors import DreError

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
