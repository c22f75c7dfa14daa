"""``dre judge``, files of prompts and replies, recordings, and that no key is written anywhere."""

import contextlib
import functools
import io
import json
import logging
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter

import judge_servers as servers
import numpy as np
import openai  # noqa: F401  (once, before processes are copied)
import pandas as pd
import pytest
from conftest import heed_interrupts, needs_data, start_copy
from judge_servers import Server, pairs

import dre.judges.judge
from dre.audit import kinds
from dre.commands.main import main
from dre.datasets import ratings
from dre.datasets.registry import read_jsonl, repository_file
from dre.errors import DreError
from dre.judges import passport as passports
from dre.judges import prompts, released
from dre.judges.store import Store

CLAUDE = "recorded:claude-2026-11"


def write_jsonl(path, records):
    lines = [json.dumps(record) + "\n" for record in records]
    path.write_text("".join(lines))


@pytest.fixture
def work(tmp_path, monkeypatch, quick):
    """An empty folder with four pairs in ``pairs.jsonl``, where no key is set."""
    monkeypatch.chdir(tmp_path)
    write_jsonl(tmp_path / "pairs.jsonl", pairs(4))
    return tmp_path


def dre_judge(action, *args, url="", judge="openai:test-model"):
    options = ["--judge", judge, "--store", "s.sqlite", "--base-url", url]
    return main(["judge", action, *options, *args])


def prompt_of(request):
    """Return the last message of a request to the server, a text."""
    return request.body["messages"][-1]["content"]


def score_reply(score):
    return servers.openai(json.dumps({"score": score}))


def spearman(table, scores="score", human="human"):
    return table[scores].corr(table[human], method="spearman")


def test_a_run_is_estimated_first_and_asks_for_each_pair_once(work, capsys):
    with Server(servers.graded) as server:
        assert dre_judge("estimate", "pairs.jsonl", "--price", "1,10", url=server.url) == 0
        assert not server.requests
        out = capsys.readouterr().out
        assert "4 calls to make" in out
        assert "at most 1,024 per reply" in out
        assert "at most $0.05" in out

        assert dre_judge("run", "pairs.jsonl", "--price", "1,1", url=server.url) == 0
        out = capsys.readouterr().out
        assert "4 pairs: 4 ok" in out
        assert f"4 calls, $0.0002 spent; store: {work / 's.sqlite'}" in out

        assert dre_judge("estimate", "pairs.jsonl", url=server.url) == 0
        assert "0 calls to make" in capsys.readouterr().out
        assert len(server.requests) == 4


def test_what_is_stored_is_counted_and_replayed_without_asking(work, capsys, monkeypatch):
    with Server(servers.graded) as server:
        options = ["pairs.jsonl", "--price", "1,1", "-o", "out.csv"]
        assert dre_judge("run", *options, url=server.url) == 0
    monkeypatch.setattr(socket.socket, "connect", None)  # from here on nobody can be asked

    assert dre_judge("replay", "pairs.jsonl", "-o", "replayed.jsonl", url=server.url) == 0
    replayed = pd.read_json("replayed.jsonl", lines=True)
    scored = pd.read_csv("out.csv")
    assert len(replayed) == 4
    assert list(replayed["score_llm"]) == list(scored["score_llm"])

    capsys.readouterr()
    assert main(["judge", "status", "--store", "s.sqlite"]) == 0
    out = capsys.readouterr().out
    assert "ok: 4 (live; $0.0002 spent; 200 tokens in, 40 out)" in out
    assert out.splitlines()[-1].startswith(
        f"openai:test-model at {server.url} in all: 4 calls, $0.0002 spent, "
        "200 tokens in, 40 tokens out, "
    )
    assert dre_judge("replay", "pairs.jsonl", "--temperature", "0", url=server.url) == 2
    assert "replies to 4 pairs are not stored, first own/0" in capsys.readouterr().err


def test_what_a_call_without_a_reply_may_have_cost_is_printed_apart(work, capsys):
    """A page in place of a reply may have been billed: 4 replies cost 4 x 60 tokens for certain."""

    def answer(request):
        if len(server.requests) == 1:
            return servers.Answer(b"<html>busy</html>")
        return servers.graded(request)

    with Server(answer) as server:
        assert dre_judge("run", "pairs.jsonl", "--price", "1,1", url=server.url) == 0
    out = capsys.readouterr().out
    line = r"5 calls, \$0\.0002 spent, and at most \$(\S+) more for calls without a reply"
    usd = re.search(line, out)[1]
    assert 0.001 < float(usd) < 0.01  # 1,024 tokens of a reply and the prompt

    assert main(["judge", "status", "--store", "s.sqlite"]) == 0
    out = capsys.readouterr().out
    assert f"unanswered: 1 (live; at most ${usd}; " in out
    assert "ok: 4 (live; $0.0002 spent; " in out

    # What an earlier run may have cost is not counted again.
    assert dre_judge("run", "pairs.jsonl", "--price", "1,1", url=server.url) == 0
    assert "0 calls, nothing spent; store" in capsys.readouterr().out


def test_a_server_of_ones_own_is_asked_for_the_first_pairs_to_say_how_long_all_take(work, capsys):
    write_jsonl(work / "many.jsonl", pairs(25))
    with Server(servers.graded) as server:
        assert dre_judge("estimate", "many.jsonl", url=server.url) == 0
        assert len(server.requests) == 10
        out = capsys.readouterr().out
        assert "25 calls to make" in out
        assert "10 pairs: 10 ok" in out
        times = r"10 calls, now stored, took \d+ seconds: the other 15 take about \d+ seconds"
        assert re.search(times, out)

        assert dre_judge("run", "many.jsonl", url=server.url) == 0
        assert len(server.requests) == 25


# Several judges


def run_judges(*args, url, judges=("openai:a", "openai:b", "openai:c")):
    """Run ``dre judge run`` with several judges at one server, in this process."""
    words = [word for judge in judges for word in ("--judge", judge)]
    return main(["judge", "run", *args, *words, "--store", "s.sqlite", "--base-url", url])


def scored_by_model(request):
    """A score that tells which model was asked."""
    return score_reply({"a": 1.0, "b": 2.0, "c": 3.0}[request.body["model"]])


def test_one_judge_scores_in_the_main_thread_where_an_interrupt_ends_it_at_once(work, monkeypatch):
    threads = []
    score = dre.judges.judge.Judge.score

    def noting(judge, *given, **options):
        threads.append(threading.current_thread())
        return score(judge, *given, **options)

    monkeypatch.setattr(dre.judges.judge.Judge, "score", noting)
    with Server(servers.graded) as server:
        assert dre_judge("run", "pairs.jsonl", "-o", "o.csv", url=server.url) == 0
    assert threads == [threading.main_thread()]


def test_several_judges_are_asked_side_by_side_and_stand_in_one_table(work, capsys):
    write_jsonl(work / "many.jsonl", pairs(12))
    lock = threading.Lock()
    models_in_flight = []
    most_models = 0

    def script(request):
        nonlocal most_models
        with lock:
            models_in_flight.append(request.body["model"])
            most_models = max(most_models, len(set(models_in_flight)))
        time.sleep(0.2)
        with lock:
            models_in_flight.remove(request.body["model"])
        return scored_by_model(request)

    with Server(script) as server:
        options = ["many.jsonl", "--concurrency", "2", "-o", "out.csv"]
        assert run_judges(*options, url=server.url) == 0
        assert len(server.requests) == 36
        assert most_models >= 2  # of three, which do not wait for each other
        out = capsys.readouterr().out
        assert "| openai:b | 12 | 12 | 2.00 | — | 12 |" in out
        assert "openai:c: 12 pairs: 12 ok" in out

        # Once more nothing is asked, and the output is one's own.
        assert run_judges(*options, url=server.url) == 0
        assert len(server.requests) == 36
    table = pd.read_csv("out.csv")
    assert table.groupby("judge")["score_llm"].unique().map(list).to_dict() == {
        "openai:a": [1.0],
        "openai:b": [2.0],
        "openai:c": [3.0],
    }


def test_a_price_or_an_address_may_be_that_of_one_judge_alone(work, capsys):
    with Server(scored_by_model) as server, Server(scored_by_model) as other:
        assert (
            main(
                f"judge run pairs.jsonl --judge openai:a --judge openai:b --store s.sqlite "
                f"--base-url {server.url} --base-url openai:b={other.url} "
                "--price openai:a=1,1 --price openai:b=10,10".split()
            )
            == 0
        )
        assert {request.body["model"] for request in server.requests} == {"a"}
        assert {request.body["model"] for request in other.requests} == {"b"}
    out = capsys.readouterr().out
    assert "openai:a: 4 calls, $0.0002 spent" in out
    assert "openai:b: 4 calls, $0.0024 spent" in out


def test_a_ceiling_on_a_run_holds_for_all_its_judges_together(work, capsys):
    write_jsonl(work / "many.jsonl", pairs(60))
    with Server(scored_by_model) as server:
        options = ["many.jsonl", "--price", "1,10", "--max-usd", "0.02"]
        assert run_judges(*options, url=server.url) == 1
    store = Store("s.sqlite")
    assert 0.005 < store.spent() <= 0.02
    assert "stopped before $0.02 would be passed" in capsys.readouterr().out


def test_a_judge_that_fails_does_not_lose_the_replies_of_the_others(work, capsys):
    def script(request):
        if request.body["model"] == "b":
            return servers.error("openai", 401, "wrong key")
        return scored_by_model(request)

    with Server(script) as server:
        assert run_judges("pairs.jsonl", "-o", "out.csv", url=server.url) == 2
        printed, error = capsys.readouterr()
        assert "error: openai:b: no key was sent" in error
        assert "| openai:b | 4 | 0 |" in printed
        assert "openai:c: 4 pairs: 4 ok" in printed
        statuses = pd.read_csv("out.csv").groupby("judge")["status"].unique().map(list)
        assert statuses["openai:b"] == ["missing"]
        judges = ("openai:a", "openai:c")
        assert run_judges("pairs.jsonl", url=server.url, judges=judges) == 0
    models = [request.body["model"] for request in server.requests]
    assert (models.count("a"), models.count("c")) == (4, 4)


@pytest.mark.parametrize(
    ("judges", "variables"),
    [
        (("openai:a", "openai:b"), ["OPENAI_API_KEY"]),
        (("openai:a", "anthropic:b"), ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"]),
    ],
)
def test_where_no_judge_can_be_asked_nothing_is_written(work, capsys, judges, variables):
    words = [word for judge in judges for word in ("--judge", judge)]
    run = ["judge", "run", "pairs.jsonl", *words, "--store", "s.sqlite", "-o", "out.csv"]
    assert main(run) == 2
    error = capsys.readouterr().err
    for variable in variables:
        assert error.count(f"{variable} is not set") == 1
    assert error.count("error: ") == 1
    assert not list(work.glob("out.csv*"))


def test_where_no_server_answers_any_judge_the_same_command_may_be_tried_later(work, capsys):
    with Server(scored_by_model) as server:
        gone = server.url
    assert (
        run_judges("pairs.jsonl", "-o", "out.csv", url=gone, judges=("openai:a", "openai:b")) == 1
    )
    error = capsys.readouterr().err
    assert "openai:a: no server answers" in error
    assert "openai:b: no server answers" in error
    assert not list(work.glob("out.csv*"))


def test_a_judge_that_is_named_twice_is_refused(work, capsys):
    assert run_judges("pairs.jsonl", url="", judges=("openai:a", "openai:a")) == 2
    assert "given twice" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["judge", "show", "x", "pairs.jsonl", "--judge", "openai:a", "--judge", "openai:b"])
    assert "this command takes one judge" in capsys.readouterr().err


def start_command(*words):
    """Start ``dre`` in a process of its own, which an interrupt reaches."""
    return subprocess.Popen(
        [sys.executable, "-m", "dre", *words],
        preexec_fn=heed_interrupts,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_command(output_path, *words):
    """Run ``dre`` with its output in a file, and end this process with its exit status."""
    with (
        open(output_path, "w") as output,
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
    ):
        sys.exit(main([*words]))


def wait_until(condition, seconds=240):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


@pytest.mark.parametrize("has_one_command", [False, True])
def test_three_judges_at_once_are_killed_and_go_on_and_pay_for_each_answer_once(
    work, has_one_command
):
    """In three processes or in one, on one store. What was in flight at a kill may come again."""
    n_pairs, n_in_flight = 60, 2
    write_jsonl(work / "many.jsonl", pairs(n_pairs))
    specs = ("openai:a", "openai:b", "openai:c")
    with Server(scored_by_model, delay=0.1) as server:
        options = ["--store", "s.sqlite", "--base-url", server.url, "--price", "1,10"]
        options += ["--max-usd-total", "5", "--concurrency", str(n_in_flight)]
        commands = [["judge", "run", "many.jsonl", "--judge", spec, *options] for spec in specs]
        if has_one_command:
            judges = [word for spec in specs for word in ("--judge", spec)]
            commands = [["judge", "run", "many.jsonl", *judges, *options]]
        n_kills = 2
        for kill in range(1, n_kills + 1):
            runs = [start_copy(run_command, "output", *command) for command in commands]
            n_wanted = 6 * kill
            wait_until(functools.partial(have_asked, server, specs, n_wanted))
            for run in runs:
                run.kill()
                run.join()
            time.sleep(0.5)  # the server ends what it was asked
        n_answered = n_answered_of()
        assert all(n_answered[spec] > 0 for spec in specs)
        assert n_answered.total() < len(specs) * n_pairs

        n_asked_before = n_asked_of(server)
        runs = []
        for i, command in enumerate(commands):
            runs.append(start_copy(run_command, f"{i}.txt", *command, "-o", f"{i}.csv"))
        for i, run in enumerate(runs):
            run.join(timeout=240)
            assert run.exitcode == 0, (work / f"{i}.txt").read_text()
        n_asked = n_asked_of(server)
        for spec in specs:
            assert n_asked[spec] - n_asked_before[spec] == n_pairs - n_answered[spec]
            assert n_asked[spec] <= n_pairs + n_kills * n_in_flight
    n_rows = sum(len(pd.read_csv(f"{i}.csv")) for i in range(len(commands)))
    assert n_rows == len(specs) * n_pairs


def have_asked(server, specs, n):
    """Whether each judge was asked so often."""
    n_asked = n_asked_of(server)
    return all(n_asked[spec] >= n for spec in specs)


def n_asked_of(server):
    """Return how many requests of each judge a server was sent as a whole."""
    n_asked = Counter()
    for request in list(server.requests):
        with contextlib.suppress(ValueError):  # its sender was killed in the middle
            n_asked[f"openai:{request.body['model']}"] += 1
    return n_asked


def n_answered_of():
    """Return how many scores of each judge the store has."""
    n_answered = Counter()
    with contextlib.closing(Store("s.sqlite")) as store:
        for group in store.summary():
            if group.status == "ok":
                n_answered[group.judge] += group.n_calls
    return n_answered


def test_commands_at_once_count_together_under_a_ceiling_of_the_store(work):
    write_jsonl(work / "many.jsonl", pairs(100))
    answer = servers.openai('{"score": 3}', tokens=(300, 100))
    with Server(lambda request: answer, delay=0.02) as server:
        options = ["--store", "s.sqlite", "--base-url", server.url, "--price", "1,10"]
        options += ["--max-usd-total", "0.1", "--concurrency", "2"]
        specs = ("openai:a", "openai:b", "openai:c")
        runs = []
        for spec in specs:
            words = ["judge", "run", "many.jsonl", "--judge", spec, *options]
            runs.append(start_copy(run_command, f"{spec}.txt", *words))
        for spec, run in zip(specs, runs):
            run.join(timeout=240)
            output = (work / f"{spec}.txt").read_text()
            assert run.exitcode == 1, output
            assert "raise --max-usd-total to go on" in output
    with contextlib.closing(Store("s.sqlite")) as store:
        spent_usd = store.spent()
    most_usd_of_a_call = (3500 + 10 * 1024) / 1e6
    assert 0.1 - 2 * most_usd_of_a_call < spent_usd <= 0.1


def test_an_interrupt_ends_all_judges_of_a_run(work):
    write_jsonl(work / "many.jsonl", pairs(60))
    with Server(scored_by_model, delay=0.2) as server:
        options = ["--store", "s.sqlite", "--base-url", server.url, "--concurrency", "2"]
        judges = ["--judge", "openai:a", "--judge", "openai:b"]
        run = start_command("judge", "run", "many.jsonl", *judges, *options)
        wait_until(lambda: len(server.requests) >= 8)
        run.send_signal(signal.SIGINT)
        output = run.communicate(timeout=60)[0]
        assert run.returncode == 130
        assert "Traceback" not in output
        n_asked = len(server.requests)
    with contextlib.closing(Store("s.sqlite")) as store:
        groups = store.summary()
    assert sum(group.n_calls for group in groups if group.status == "ok") == n_asked
    assert {group.judge for group in groups} == {"openai:a", "openai:b"}


# A look, and a criterion of one's own


def test_a_look_at_the_first_pairs_is_printed_as_json(work, capsys):
    with Server(scored_by_model) as server:
        options = ["pairs.jsonl", "--limit", "2", "--json"]
        assert run_judges(*options, url=server.url, judges=("openai:a",)) == 0
        assert len(server.requests) == 2
    content = json.loads(capsys.readouterr().out)
    (row,) = content["judges"]
    assert (row["judge"], row["scored"], row["mean_score"]) == ("openai:a", 2, 1.0)
    assert [score["pair_id"] for score in content["scores"]] == ["own/0", "own/1"]
    assert row["agrees_with_first"] is None


def test_a_criterion_is_asked_for_in_one_line_and_shares_replies_with_its_file(work, capsys):
    question = "How polite is the reply?"
    with Server(scored_by_model) as server:
        options = ["pairs.jsonl", "--criterion", question, "--write-prompt", "polite.txt"]
        assert run_judges(*options, url=server.url, judges=("openai:b",)) == 0
        assert "4 pairs: 4 ok" in capsys.readouterr().out
        request = server.requests[0]
        assert f"Question: {question}" in prompt_of(request)
        schema = request.body["response_format"]["json_schema"]["schema"]
        assert schema["properties"]["score"]["description"] == "the score, from 0 to 5"

        # The file is the same prompt, whose replies are stored.
        assert (
            run_judges("pairs.jsonl", "--prompt", "polite.txt", url=server.url, judges=["openai:b"])
            == 0
        )
        assert len(server.requests) == 4
        assert prompts.load("polite.txt").criterion == question


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--criterion", " ? "], "expected a question about the reply"),
        (["--criterion", "Is {{context}} polite?"], "expected a question about the reply"),
        (["--criterion", "Polite?", "--prompt", "dre"], "give one of them"),
        (["--write-prompt", "p.txt"], "writes the prompt of --criterion"),
        (["--criterion", "Polite?", "--write-prompt", "pairs.jsonl"], "expected a name that ends"),
        (["--limit", "0"], "expected a number of pairs above 0"),
    ],
)
def test_a_criterion_that_cannot_be_asked_is_refused(work, capsys, options, message):
    assert run_judges("pairs.jsonl", *options, url="http://127.0.0.1:1", judges=["openai:a"]) == 2
    assert message in capsys.readouterr().err


# A page of judged pairs


def test_a_page_shows_the_judged_pairs_worst_first_and_escapes_what_they_say(work, capsys):
    rows = pairs(4)
    rows[0]["response"] = "<script>alert(1)</script>"
    rows[1]["context"] = ["<img src=x onerror=alert(2)>", "\"'>& Tea?"]
    write_jsonl(work / "pairs.jsonl", rows)
    texts = ['{"score": 4}', '{"score": 1}', "<b>I would rather not</b>", '{"score": 2.5}']

    def script(request):
        n = next(i for i, row in enumerate(rows) if row["response"] in prompt_of(request))
        return servers.openai(texts[n])

    show = ("show", "pairs.jsonl", "--html", "replies.html")
    with Server(script) as server:
        assert dre_judge(*show, url=server.url) == 1  # nothing was judged yet
        assert not (work / "replies.html").exists()
        assert dre_judge("run", "pairs.jsonl", "--limit", "3", url=server.url) == 0
        assert dre_judge(*show, url=server.url) == 0
        assert "3 of 4 pairs were judged" in capsys.readouterr().out
        assert dre_judge("run", "pairs.jsonl", url=server.url) == 0
        # A page of its own is written anew, a file of others is not.
        assert dre_judge(*show, url=server.url) == 0
        content = (work / "replies.html").read_text()
        (work / "replies.html").write_text("precious")
        assert dre_judge(*show, url=server.url) == 2
        assert len(server.requests) == 4

    cards = re.findall('data-status="(.*?)" data-score="(.*?)"', content)
    assert cards == [("ok", "1"), ("ok", "2.5"), ("ok", "4"), ("malformed", "")]
    assert "4 pairs: 3 ok, 1 malformed" in content
    assert '<option value="malformed">malformed (1)</option>' in content
    # Prompt as sent, reply word by word.
    assert "the context of a conversation" in content
    assert "&lt;b&gt;I would rather not&lt;/b&gt;" in content
    for markup in ("<script>alert", "<img", "<b>", "\"'>&"):
        assert markup not in content
    assert not re.search(r"(src|href)=|url\(", content.split("<main>")[0])


def test_a_recording_has_a_page_without_replies(work, cases, capsys):
    cases.to_json("cases.jsonl", orient="records", lines=True)
    show = ["judge", "show", "cases.jsonl", "--judge", CLAUDE, "--html", "page.html"]
    assert main(show) == 0
    content = (work / "page.html").read_text()
    assert content.count("<article") == len(cases)


def test_without_a_pair_or_a_page_it_is_said_what_to_give(work, capsys):
    assert main(["judge", "show", "pairs.jsonl", "--judge", "openai:m"]) == 2
    assert "give the id of a pair before the file" in capsys.readouterr().err


# Exit statuses


@pytest.mark.parametrize("command", ["judge run", "score"])
def test_what_may_pass_has_another_exit_status_than_what_must_be_mended(work, capsys, command):
    options = ["pairs.jsonl", "--judge", "openai:m", "--store", "s.sqlite", "--timeout", "1"]

    def run(script):
        with Server(script) as server:
            words = [*command.split(), *options, "--base-url", server.url]
            return main(words)

    assert run(lambda request: servers.error("openai", 401, "wrong key")) == 2
    assert run(lambda request: servers.error("openai", 429, "insufficient_quota")) == 1
    assert run(lambda request: servers.error("openai", 404, "no such model")) == 2
    assert main([*command.split(), *options, "--base-url", "http://127.0.0.1:1"]) == 1
    assert "no server answers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("bad.jsonl", "bad.jsonl:2: found [['pair_id', 'x']], expected an object with context"),
        ("twice.jsonl", "twice.jsonl:5: id 'own/0' is line 1's"),
        ("empty.csv", "empty.csv: there is no pair in it: expected at least one"),
        (
            'pairs.jsonl --param spec="x"',
            "--param 'spec=\"x\"': expected a parameter without an option of its own",
        ),
        ('pairs.jsonl --param logprobs="x"', "logprobs is 'x': expected a number above 0"),
        ("pairs.jsonl --timeout nan", "timeout is nan: expected a number above 0"),
        ("pairs.jsonl", "OPENAI_API_KEY is not set"),
        ("pairs.jsonl --base-url http://user:pass@host", "without user name, password"),
        (
            "pairs.jsonl --max-usd 1 --judge openai:gpt-5-mini --base-url http://h",
            "--max-usd cannot be kept: give dollars, and with --price IN,OUT what a million",
        ),
        ("pairs.jsonl --param n=5", "would break the count of money"),
        ("pairs.jsonl --judge claude-3-haiku", "did you mean anthropic:claude-3-haiku?"),
        ("pairs.jsonl --judge llama-of-mine", "openai:<model> or recorded:<name>\n"),
    ],
)
def test_faults_are_reported_before_anything_is_asked(work, capsys, options, message):
    (work / "bad.jsonl").write_text(
        '{"pair_id": "a", "context": "Hi.", "response": "Ho."}\n[["pair_id", "x"]]\n'
    )
    (work / "empty.csv").write_text("pair_id,context,response\n\n")
    (work / "twice.jsonl").write_text((work / "pairs.jsonl").read_text() * 2)
    assert dre_judge("run", *options.split()) == 2
    assert message in capsys.readouterr().err


def answer_batch(path, changes=(), reply='{"score": 2.5}', model="test-model-2026-01-01"):
    """Answer exported prompts as a batch API does, into ``replies.jsonl``.

    ``changes``: for each line what its answer has in place of a good one.
    """
    body = servers.openai(reply, model=model).body
    answers = []
    for i, line in enumerate(read_jsonl(path)):
        answer = {
            "custom_id": line["custom_id"],
            "response": {"status_code": 200, "body": body},
            "error": None,
        }
        if changes:
            answer.update(changes[i])
        answers.append(answer)
    write_jsonl(path.with_name("replies.jsonl"), answers)


def test_exported_prompts_have_the_form_of_a_batch(work):
    assert (
        dre_judge("export", "pairs.jsonl", "-o", "prompts.jsonl", judge="openai:gpt-4o-mini") == 0
    )
    lines = read_jsonl(work / "prompts.jsonl")
    ids = {line["custom_id"] for line in lines}
    assert len(ids) == 4
    assert max(map(len, ids)) <= 64
    assert lines[0]["url"] == "/v1/chat/completions"
    assert lines[0]["body"]["max_completion_tokens"] == 1024


def test_replies_of_a_batch_come_back_at_its_price(work, capsys):
    judge = "openai:gpt-4o-mini"
    model = "gpt-4o-mini-2024-07-18"
    export = ["export", "pairs.jsonl", "-o", "prompts.jsonl"]
    assert dre_judge(*export, judge=judge) == 0
    changes = [
        {"error": {"message": "no"}},
        {"response": {"status_code": 500}},
        {"response": None},
        {},
    ]
    answer_batch(work / "prompts.jsonl", changes, reply="I cannot say.", model=model)
    assert dre_judge("import", "replies.jsonl", "pairs.jsonl", judge=judge) == 1
    out = capsys.readouterr().out
    assert "1 replies stored, 0 were stored before, 3 requests failed" in out
    assert "3 missing, 1 malformed" in out

    assert dre_judge(*export, "--retry", "malformed", judge=judge) == 0
    answer_batch(work / "prompts.jsonl", model=model)
    import_all = ["import", "replies.jsonl", "pairs.jsonl", "-o", "out.csv"]
    for n_stored in (4, 0):
        assert dre_judge(*import_all, judge=judge) == 0
        out = capsys.readouterr().out
        n_before = 4 - n_stored
        assert f"{n_stored} replies stored, {n_before} were stored before, 0 requests" in out
    table = pd.read_csv("out.csv")
    assert (table["score_llm"] == 2.5).all()
    usd_at_full_price = 4 * (50 * 0.15 + 10 * 0.6) / 1e6
    assert table["cost"].sum() == pytest.approx(usd_at_full_price / 2)


@pytest.mark.parametrize(
    "change", [{"custom_id": "x"}, {"response": {"body": {}}}, {"custom_id": "same"}]
)
def test_a_batch_that_does_not_belong_is_refused_whole(work, change):
    assert dre_judge("export", "pairs.jsonl", "-o", "prompts.jsonl") == 0
    answer_batch(work / "prompts.jsonl", [change, {}, {}, change])
    assert dre_judge("import", "replies.jsonl", "pairs.jsonl") == 2
    assert Store("s.sqlite").summary() == []


def test_a_batch_of_another_model_is_refused(work):
    assert dre_judge("export", "pairs.jsonl", "-o", "prompts.jsonl") == 0
    answer_batch(work / "prompts.jsonl", model="another-model")
    assert dre_judge("import", "replies.jsonl", "pairs.jsonl") == 2
    assert Store("s.sqlite").summary() == []


@pytest.fixture
def cases():
    """Six pairs that were recorded and whose texts are ours."""
    rows = []
    for record in read_jsonl(repository_file("cases.jsonl"))[:3]:
        for number, response in enumerate(record["responses"], 1):
            row = {
                "pair_id": f"cases/{record['id']}/{number}",
                "context": tuple(record["context"]),
                "response": response,
            }
            rows.append(row)
    return pd.DataFrame(rows)


def test_the_committed_recording_is_a_judge_like_any_other(cases):
    judge = dre.judges.open(CLAUDE, store="unused", max_usd=1)
    assert list(judge.score(cases)["score_llm"]) == [4.6, 4.8, 4.6, 4.6, 4.2, 4.7]
    assert judge.score(cases, "dre")["s_inf"].between(0, 1).all()


def test_a_recording_has_no_scores_of_pairs_and_repeats_that_it_lacks(cases):
    judge = dre.judges.open(CLAUDE)
    unknown = cases.tail(1).assign(pair_id="x")
    table = judge.score(pd.concat([cases[:1], unknown]), ask=False)
    assert list(table["status"]) == ["ok", "missing"]
    with pytest.raises(DreError, match="lacks prompt llm_only.* for 1 of 1 pairs, first x"):
        judge.score(unknown)
    with pytest.raises(DreError, match=r"repeats \[7\], for 6 of 6 pairs"):
        judge.score(cases, first=7)


def test_a_recording_answers_for_the_texts_it_was_made_with_alone(cases):
    judge = dre.judges.open(CLAUDE)
    with_spaces = cases.assign(response="  " + cases["response"] + "\n")
    assert judge.score(with_spaces).equals(judge.score(cases))
    changed = cases.assign(response=["Another reply.", *cases["response"][1:]])
    with pytest.raises(DreError, match=f"pair {cases['pair_id'][0]} has other texts here"):
        judge.score(changed)
    with pytest.raises(DreError, match="has other texts here"):
        judge.score(cases.drop(columns="context"), ask=False)


def test_a_recording_answers_for_the_prompt_it_was_made_with_alone(cases, work, capsys):
    judge = dre.judges.open(CLAUDE)
    built_in = (prompts.FOLDER / "llm_only.txt").read_text(encoding="utf-8")
    with_another_scale = built_in.replace("scale: [0.0, 5.0]", "scale: [0, 10]")
    for folder, text in (("same", built_in), ("scale", with_another_scale)):
        (work / folder).mkdir()
        (work / folder / "llm_only.txt").write_text(text)
    assert judge.score(cases, "same/llm_only.txt").equals(judge.score(cases))

    message = "prompt llm_only has other words, scales or labels here"
    with pytest.raises(DreError, match=message):
        judge.score(cases, work / "scale/llm_only.txt")
    cases.to_json("cases.jsonl", orient="records", lines=True)
    prompt = ["--prompt", "scale/llm_only.txt"]
    assert dre_judge("run", "cases.jsonl", *prompt, judge=CLAUDE) == 2
    assert main(["score", "cases.jsonl", "-o", "o.csv", *prompt, "--judge", CLAUDE]) == 2
    assert capsys.readouterr().err.count(message) == 2


def test_a_recording_without_hashes_of_its_texts_answers_for_none(cases, work):
    recording = repository_file("recorded", "claude-2026-11", "judgements.jsonl").parent
    (work / "mine").mkdir()
    for name in ("manifest.json", "judgements.jsonl"):
        (work / "mine" / name).write_bytes((recording / name).read_bytes())
    with pytest.raises(DreError, match="expected hashes of what"):
        dre.judges.open("recorded:mine").score(cases)


def lines_of_a_recording():
    lines = []
    for name in "ab":
        for number in (1, 2):
            line = {
                "pair_id": f"{name}/{number}",
                "prompt": "dre",
                "score": number,
                "influence": 0.5,
            }
            lines.append(line)
    return lines


def write_recording(folder, lines, count):
    """Write a recording of which the manifest says that it has so many judgements."""
    folder.mkdir()
    manifest = {"prompts": {"dre": {}}, "judgements": count}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    write_jsonl(folder / "judgements.jsonl", lines)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score": 5.5}, "score is 5.5, expected a number from 0 to 5"),
        ({"influence": float("nan")}, "influence is nan, expected a number from 0 to 1"),
        ({"shown": "a/9"}, "shown is 'a/9', expected a pair of the same set"),
        ({"shown": "b/1"}, "shown is 'b/1', expected a pair of the same set"),
        ({"pair_id": "a/1"}, "expected a prompt of the manifest and a pair_id, once a repeat"),
        ({"status": "odd"}, "status is 'odd', expected one of malformed, refused"),
    ],
)
def test_a_recording_with_a_fault_is_refused_with_file_and_line(change, message, work):
    lines = lines_of_a_recording()
    lines[1].update({"shown": "a/1", **change})
    write_recording(work / "mine", lines, count=4)
    with pytest.raises(DreError, match=re.escape(f"mine/judgements.jsonl:2: {message}")):
        dre.judges.open(f"recorded:{work}/mine")


def test_a_recording_that_lacks_lines_is_refused(work):
    write_recording(work / "mine", lines_of_a_recording()[1:], count=5)
    with pytest.raises(DreError, match="found 3 judgements, but its manifest says 5"):
        dre.judges.open(f"recorded:{work}/mine")


@pytest.mark.parametrize("provider", list(servers.KEYS))
def test_a_key_is_nowhere_in_what_is_written_and_printed(
    provider, work, capsys, caplog, monkeypatch
):
    key = "sk-canary-0123456789abcdef"
    judge = f"{provider}:test-model"
    monkeypatch.setenv(servers.KEYS[provider], key)
    caplog.set_level(logging.DEBUG)
    bad_request = servers.error(provider, 400, f"bad request with {key}")
    wrong_key = servers.error(provider, 401, f"wrong key {key}, Bearer 12345678")
    good = servers.REPLIES[provider]('{"score": 3}')
    run = ["run", "pairs.jsonl", "--key-env", servers.KEYS[provider]]

    with Server(lambda request: bad_request if b"number 1?" in request.raw else good) as server:
        assert dre_judge(*run, "-o", "out.csv", url=server.url, judge=judge) == 1
        assert key in str(server.requests[0].headers)
        dre_judge("export", "pairs.jsonl", "-o", "prompts.jsonl", url=server.url, judge=judge)
    with Server(lambda request: wrong_key) as server:
        assert dre_judge(*run, url=server.url, judge=judge) == 2

    printed = capsys.readouterr()
    assert "wrong key [key], [key]" in printed.err
    files = [path for path in work.rglob("*") if path.is_file()]
    assert len(files) >= 5
    texts = [path.read_bytes().decode("latin-1") for path in files]
    for record in caplog.records:
        if record.name.startswith("dre"):
            texts.append(record.getMessage())
    for text in [printed.out, printed.err, *texts]:
        assert key not in text


SETS = ("personachat-usr", "topicalchat-usr")
PEOPLE = ["Original Ground Truth", "New Human Generated"]


@pytest.fixture(scope="module")
def claude_in_disguise(tmp_path_factory):
    """What is printed and written of a live judge that answers what a recorded one said.

    It is asked for 30 pairs, and one reply is illegible. Returns the printed text, the table, the
    number of calls, and the pairs whose replies can be read, a table for each set.
    """
    prompt = prompts.load("llm_only")
    recorded = dre.judges.open(CLAUDE)
    replies = {}
    samples = []
    for name in SETS:
        sample = passports.draw_sample(name, 15)
        sample["score"] = recorded.score(sample)["score_llm"].to_numpy()
        for row in sample.to_dict("records"):
            text = prompt.render(row)[-1]["content"]
            replies[text] = json.dumps({"score": row["score"]})
        samples.append(sample)
    first_prompt = next(iter(replies))
    replies[first_prompt] = "no idea"
    samples[0] = samples[0][1:]

    folder = tmp_path_factory.mktemp("disguise")
    options = ["--sets", ",".join(SETS), "--n", "30", "--price", "1,1", "-o", "table.csv"]
    printed = io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        Server(lambda request: servers.openai(replies[prompt_of(request)])) as server,
        contextlib.redirect_stdout(printed),
    ):
        patch.chdir(folder)
        assert dre_judge("passport", *options, url=server.url) == 0
        n_calls = len(server.requests)
    table = pd.read_csv(folder / "table.csv").set_index("judge")
    return printed.getvalue(), table, n_calls, samples


@needs_data
def test_a_live_judge_stands_beside_the_recorded_ones_on_the_same_sample(claude_in_disguise):
    _, table, n_calls, samples = claude_in_disguise
    assert n_calls == 60

    expected = np.mean([spearman(sample) for sample in samples])
    for judge in ("openai:test-model", "claude-2026-11"):
        assert table.loc[judge, "spearman"] == pytest.approx(expected, abs=1e-5)
    haiku = table.loc["Claude-3-haiku"]
    assert haiku["difference"] == pytest.approx(haiku["spearman"] - expected, abs=1e-5)

    # So many pairs that 0.05 is 2.8 standard errors.
    standard_error = (haiku["difference_high"] - haiku["difference_low"]) / 2 / 1.96
    assert haiku["pairs"] == pytest.approx(29 * (2.8 * standard_error / 0.05) ** 2, rel=0.15)

    machine = [sample[~sample["system"].isin(PEOPLE)] for sample in samples]
    expected = np.mean([spearman(sample) for sample in machine])
    assert table.loc["claude-2026-11", "machine"] == pytest.approx(expected, abs=1e-5)

    correlations = []
    for sample in samples:
        numbers = sample[["score", "human"]]
        centred = numbers - numbers.groupby(sample["system"]).transform("mean")
        correlations.append(spearman(centred))
    expected = np.mean(correlations)
    assert table.loc["claude-2026-11", "within"] == pytest.approx(expected, abs=1e-5)


@needs_data
def test_a_passport_counts_replies_and_money(claude_in_disguise):
    out, _, _, _ = claude_in_disguise
    assert "29 of 30 pairs" in out
    assert "retest (Spearman of first and second replies): 1.00" in out
    assert "replies without a score: 3.3%" in out
    assert "dollars per 1,000 replies: 0.06" in out
    assert "asked now: 60 calls, $0.0036 spent" in out
    assert re.search(r"another 30 pairs may move a correlation by 0\.\d\d; a larger --n", out)


@needs_data
def test_another_seed_draws_another_sample():
    first = passports.draw_sample("personachat-usr", 15)
    second = passports.draw_sample("personachat-usr", 15, seed=1)
    assert not first.index.equals(second.index)


@pytest.fixture
def forty_rated_contexts(work):
    """Two systems' replies to 40 contexts with ratings in ``mine.jsonl``, and a judge's scores."""
    rng = np.random.default_rng(0)
    rows = []
    for number in range(40):
        for system in "ab":
            row = {
                "context": [f"turn {number}"],
                "system": system,
                "human": rng.normal(system == "a"),
                "response": f"{system}-{number:02d}.",
            }
            rows.append(row)
    rated = pd.DataFrame(rows)
    rated.to_json("mine.jsonl", orient="records", lines=True)
    noise = rng.normal(0, 0.3, len(rated))
    rated["score"] = (rated["human"] + 2.5 + noise).clip(0, 5)
    return rated


def test_a_judge_is_tried_on_ones_own_ratings(forty_rated_contexts, capsys):
    rated = forty_rated_contexts
    score_by_response = dict(zip(rated["response"], rated["score"]))

    def answer(request):
        response = re.search(r"[ab]-\d\d\.", prompt_of(request))[0]
        return score_reply(score_by_response[response])

    with Server(answer) as server:
        options = ["--rated", "mine.jsonl", "--n", "80", "--repeats", "1", "--json"]
        assert dre_judge("passport", *options, url=server.url) == 0
    passport = json.loads(capsys.readouterr().out)
    (row,) = passport["agreement"]
    assert row["spearman"] == pytest.approx(spearman(rated))
    assert "machine" not in row  # no system is called as people are
    assert passport["tokens"] > 0
    assert passport["level_low"] <= passport["level"] <= passport["level_high"]
    assert passport["retest"] is None  # there was one reply each

    # 0.2 between two systems is 2.8 standard errors of the mean difference.
    centred = rated["score"] - rated.groupby("system")["score"].transform("mean")
    gaps = centred[rated["system"] == "a"].to_numpy() - centred[rated["system"] == "b"].to_numpy()
    expected = np.ceil((2.8 * gaps.std(ddof=1) / 0.2) ** 2)
    assert passport["contexts"]["0.2"] == expected


@pytest.mark.parametrize(
    ("judge", "verdict"),
    [
        ("good", r"Verdict: its scores follow people's ratings well \(0\.9\d \[.*\]\)\."),
        (
            "constant",
            "Verdict: it cannot rank replies, or not on every set: where all get the same",
        ),
        ("random", "whether it agrees with people at all cannot be told from 80 pairs"),
        ("silent", "Verdict: it gave no score, so nothing can be said of it."),
    ],
)
def test_a_passport_ends_with_what_the_judge_is_good_for(
    forty_rated_contexts, capsys, judge, verdict
):
    rated = forty_rated_contexts
    score_by_response = dict(zip(rated["response"], rated["score"]))
    shuffled = np.random.default_rng(1).permutation(rated["score"])
    random_score_by_response = dict(zip(rated["response"], shuffled))

    def answer(request):
        response = re.search(r"[ab]-\d\d\.", prompt_of(request))[0]
        replies = {
            "good": score_reply(score_by_response[response]),
            "random": score_reply(random_score_by_response[response]),
            "constant": score_reply(2.5),
            "silent": servers.openai("I would rather not"),
        }
        return replies[judge]

    with Server(answer) as server:
        options = ["--rated", "mine.jsonl", "--n", "80", "--repeats", "1", "--keep-going"]
        status = dre_judge("passport", *options, url=server.url)
        assert status == (2 if judge == "silent" else 0)
        out = capsys.readouterr().out
        assert "asked now: 80 calls, cost unknown\n" in out
        end = out.split("\n\n")[-1]
        assert re.search(verdict, end)
        assert "Not known: whether it would say the same again; what it costs" in end
        has_weakness = {
            "random": "it may not rank replies of one system (",
            "silent": "100% of its",
        }
        assert has_weakness.get(judge, "Verdict") in end
        assert dre_judge("passport", *options, "--json", url=server.url) == status
        assert json.loads(capsys.readouterr().out)["verdict"][0] == end.split("\n")[0]


def test_ratings_of_ones_own_are_checked_before_anything_is_asked(forty_rated_contexts, capsys):
    with Server(servers.graded) as server:
        options = ["--rated", "mine.jsonl"]
        assert dre_judge("passport", *options, "--sets", "fed-turn", url=server.url) == 2
        assert "--sets are public rated pairs, --rated are your own" in capsys.readouterr().err
        rated = forty_rated_contexts.assign(human="good")
        rated.to_json("mine.jsonl", orient="records", lines=True)
        assert dre_judge("passport", *options, url=server.url) == 2
        message = "mine.jsonl:1: human is 'good': expected a number, a list"
        assert message in capsys.readouterr().err
        assert not server.requests


@needs_data
def test_a_judge_that_always_says_the_same_gets_its_row_and_a_reason(work, capsys):
    with Server(lambda request: score_reply(2.5)) as server:
        options = ["--sets", ",".join(SETS), "--n", "18", "--repeats", "1", "-o", "t.csv"]
        assert dre_judge("passport", *options, url=server.url) == 0
        out = capsys.readouterr().out
        assert dre_judge("passport", *options, url=server.url) == 2  # it would write over t.csv
        assert "t.csv is there" in capsys.readouterr().err
    assert "| openai:test-model | — | — | — |" in out
    reason = "openai:test-model gave every pair of topicalchat-usr the score 2.5, which correlates"
    assert reason in out
    assert "contexts that show a difference of 0.05: unknown" in out
    assert "contexts that show a difference of 0.2: unknown" in out
    table = pd.read_csv("t.csv").set_index("judge")
    assert table.loc["claude-2026-11", "spearman"] > 0.5
    assert table["difference"].isna().all()


@needs_data
def test_a_passport_sets_recorded_judges_on_all_their_pairs_beside_the_sample(work, capsys):
    assert dre_judge("passport", "--json", judge=CLAUDE) == 0
    passport = json.loads(capsys.readouterr().out)
    assert passport["retest"] > 0.9  # of the two sets for which second replies are recorded
    judges = [row["judge"] for row in passport["agreement"]]
    assert judges[:2] == [CLAUDE, "Claude-3-haiku"]
    assert "claude-2026-11" not in judges  # the judge asked has one row
    claude, haiku = passport["agreement"][:2]

    # What notebook 07 measures on all pairs of these three sets.
    assert haiku["all_pairs"] == pytest.approx(0.501, abs=0.001)
    assert haiku["spearman"] == pytest.approx(0.66, abs=0.005)  # of the sample: too high by chance
    assert haiku["all_pairs_low"] < haiku["all_pairs"] < haiku["all_pairs_high"] < 0.57
    assert claude["all_pairs"] == pytest.approx(0.759, abs=0.005)
    # How far 120 pairs drawn at random move the correlation of a recorded judge.
    assert 0.1 < passport["draws_differ_by"] < 0.2


@needs_data
def test_a_recording_of_others_has_a_passport_on_the_sets_that_it_knows(work, capsys):
    options = ["--n", "30", "--json"]
    assert dre_judge("passport", *options, judge="recorded:gpt-3.5-0613-g-eval") == 0
    passport = json.loads(capsys.readouterr().out)
    judges = [row["judge"] for row in passport["agreement"]]
    assert judges[:2] == ["recorded:GPT-3.5-0613 G-Eval", "claude-2026-11"]
    assert "GPT-3.5-0613 G-Eval" not in judges
    assert passport["retest"] is None
    assert passport["pairs"].endswith(" of 30")  # all of TopicalChat-USR
    assert 0.4 < passport["agreement"][0]["all_pairs"] < 0.7

    prompt = ["--prompt", "dre"]
    assert dre_judge("passport", *prompt, judge="recorded:Claude-3-haiku") == 2
    assert "was asked in the words of those who released it" in capsys.readouterr().err
    prompt = ["--prompt", "dialogue_overall"]
    assert dre_judge("passport", *prompt, judge="recorded:qwen2.5-coder-1.5b") == 2
    error = capsys.readouterr().err
    assert "It knows none with prompt dialogue_overall (it was asked with " in error


@needs_data
def test_a_recording_of_others_answers_for_the_texts_that_it_was_shown_alone(work, capsys):
    rated = ratings.rated("personachat-usr")[["pair_id", "context", "response"]][:3]
    rated.to_json("pairs.jsonl", orient="records", lines=True)
    judge = "recorded:Claude-3-haiku"
    assert dre_judge("run", "pairs.jsonl", "-o", "out.csv", judge=judge) == 0
    expected = released.scores("personachat-usr")["Claude-3-haiku"][:3]
    assert list(pd.read_csv("out.csv")["score_llm"]) == pytest.approx(list(expected))

    rated.assign(response="Yes.").to_json("pairs.jsonl", orient="records", lines=True)
    assert dre_judge("run", "pairs.jsonl", judge=judge) == 2
    assert (
        "has other texts here than those that recorded:Claude-3-haiku was"
        in capsys.readouterr().err
    )


def test_a_recording_that_is_not_there_is_answered_with_those_that_are(work, capsys):
    assert dre_judge("run", "pairs.jsonl", judge="recorded:nosuch") == 2
    error = capsys.readouterr().err
    names = "claude-2026-11, qwen2.5-coder-1.5b"
    assert f"no recording 'nosuch': there are {names}; from" in error
    assert "Claude-3-haiku, Llama2-13B, Qwen-14B" in error


def test_a_recording_takes_no_question_that_it_was_not_asked(work, capsys):
    criterion = ["--criterion", "How polite is the reply?", "--write-prompt", "p.txt"]
    assert dre_judge("run", "pairs.jsonl", *criterion, judge=CLAUDE) == 2
    assert main(["score", "pairs.jsonl", *criterion, "--judge", CLAUDE]) == 2
    message = "--criterion asks a new question, and recorded:claude-2026-11 only repeats what it"
    assert capsys.readouterr().err.count(message) == 2
    assert not (work / "p.txt").exists()


def write_own_ratings(path):
    """Write 12 pairs with ids, each rated by two or three people; return their mean ratings."""
    records = []
    for i in range(12):
        record = {
            "id": f"mine-{i}",
            "context": ["How was it?", f"It was number {i}."],
            "response": f"I like number {i}.",
            "system": "ab"[i % 2],
            "human": [i, i + 1] if i % 2 else [i, i + 1, i + 2],
        }
        records.append(record)
    write_jsonl(path, records)
    return [np.mean(record["human"]) for record in records]


def number_in(request):
    """Return the number that the rated response of a request names, None of other responses."""
    match = re.search(r"I like number (\d+)", prompt_of(request))
    return int(match[1]) if match else None


def test_ones_own_ratings_may_be_lists_and_have_ids(work, capsys):
    human = write_own_ratings(work / "mine.jsonl")
    scores = [0.5, 0.1, 1.5, 1.2, 2.0, 1.0, 2.5, 3.0, 3.5, 3.2, 4.0, 5.0]
    with Server(lambda request: score_reply(scores[number_in(request)])) as server:
        options = ["--rated", "mine.jsonl", "--json", "--repeats", "1"]
        assert dre_judge("passport", *options, url=server.url) == 0
    passport = json.loads(capsys.readouterr().out)
    (row,) = passport["agreement"]
    expected = spearman(pd.DataFrame({"score": scores, "human": human}))
    assert row["spearman"] == pytest.approx(expected)
    assert passport["pairs"] == "12 of 12"
    assert "all_pairs" not in row  # nothing is recorded of these
    assert passport["draws_differ_by"] is None


@pytest.fixture
def small_audit(monkeypatch):
    """The audit asks about the replies to two contexts instead of 32."""
    cases = kinds.corpus()
    context_ids = sorted({case.context_id for case in cases})[:2]
    few_cases = [case for case in cases if case.context_id in context_ids]
    monkeypatch.setattr(kinds, "corpus", lambda: few_cases)


@pytest.mark.usefixtures("small_audit")
def test_all_calls_of_a_passport_are_estimated(work, capsys):
    write_own_ratings(work / "mine.jsonl")

    def answer(request):
        return score_reply((number_in(request) or 0) / 5)

    with Server(answer) as server:
        options = ["--rated", "mine.jsonl", "--audit", "--price", "1,1"]
        assert dre_judge("passport", *options, url=server.url) == 0
        printed = capsys.readouterr()
        calls = len(server.requests)
        _, audit_pairs = kinds.tables(kinds.corpus())
        assert calls == 2 * 12 + len(audit_pairs)
        expected = f"12 rated pairs, each asked for twice, and {len(audit_pairs)} pairs"
        assert expected in printed.err
        assert f"{calls:,} calls to make" in printed.err
        assert f"asked now: {calls} calls" in printed.out
        assert not printed.out.endswith("\n\n")

        # A third reply is all that is lacking now.
        assert dre_judge("passport", *options, "--repeats", "3", url=server.url) == 0
        message = capsys.readouterr().err
        assert "each asked for 3 times" in message
        assert "\n12 calls to make" in message
        assert len(server.requests) == calls + 12


def test_that_another_model_answered_is_noted_once(work, capsys):
    write_own_ratings(work / "mine.jsonl")
    reply = servers.openai('{"score": 1}', model="another-model")
    with Server(lambda request: reply) as server:
        assert dre_judge("passport", "--rated", "mine.jsonl", url=server.url) == 0
        assert len(server.requests) == 24  # in two rounds
    note = "openai:test-model was asked, and another-model answered"
    assert capsys.readouterr().err.count(note) == 1


@pytest.mark.usefixtures("small_audit")
def test_a_ceiling_holds_for_a_passport_as_a_whole(work, capsys):
    """12 calls cost $0.0007, and one may cost $0.0024: two rounds are too many."""
    write_own_ratings(work / "mine.jsonl")
    with Server(lambda request: score_reply(1)) as server:
        options = ["--rated", "mine.jsonl", "--audit", "--price", "1,1"]
        assert dre_judge("passport", *options, "--max-usd", "0.0032", url=server.url) == 1
        printed = capsys.readouterr()
        calls = len(server.requests)
        assert 12 < calls < 24  # the second round was cut short
        assert f"asked now: {calls} calls, $0.00" in printed.out
        assert "stopped (budget); what was answered is stored" in printed.err

        # The same command with more money asks for the rest.
        assert dre_judge("passport", *options, "--max-usd", "1", url=server.url) == 0
        rest = len(server.requests) - calls
        assert f"asked now: {rest} calls, " in capsys.readouterr().out


def test_a_judge_that_gives_no_score_at_all_gets_a_passport(work, capsys):
    write_own_ratings(work / "mine.jsonl")
    with Server(lambda request: servers.openai("I cannot say.")) as server:
        options = ["--rated", "mine.jsonl", "--keep-going"]
        assert dre_judge("passport", *options, url=server.url) == 2
    out = capsys.readouterr().out
    assert "0 of 12 pairs" in out
    assert "| openai:test-model | — |" in out
    assert "replies without a score: 100.0%" in out
    assert out.count("unknown") >= 4
    assert "nan" not in out


def test_options_that_a_recording_has_no_use_for_are_noted(work, cases, capsys):
    cases.to_json("cases.jsonl", orient="records", lines=True)
    assert dre_judge("run", "cases.jsonl", "--max-usd", "1", judge=CLAUDE) == 0
    printed = capsys.readouterr()
    assert "6 pairs: 6 ok" in printed.out
    assert "no table was written: give -o FILE.csv" in printed.out
    assert "is a recording, for which --max-usd does nothing" in printed.err


def test_a_recorded_verdict_is_shown_without_the_numbers_of_its_prompt(work, cases, capsys):
    cases.to_json("cases.jsonl", orient="records", lines=True)
    show = ["show", "cases/creative-1/2", "cases.jsonl", "--prompt", "dre"]
    assert dre_judge(*show, judge=CLAUDE) == 0
    out = capsys.readouterr().out
    assert "slot s" in out
    assert "status: ok\nscore_llm: " in out
    assert "s_inf: " in out


def test_a_recording_that_lacks_pairs_ends_before_an_estimate(work, capsys):
    assert dre_judge("run", "pairs.jsonl", judge=CLAUDE) == 2
    printed = capsys.readouterr()
    assert "0 calls to make" not in printed.out
    assert "for 4 of 4 pairs" in printed.err


@pytest.mark.parametrize("action", [["export"], ["import", "replies.jsonl"]])
def test_a_recording_takes_and_gives_no_batch(action, work, capsys):
    assert dre_judge(*action, "pairs.jsonl", "-o", "p.jsonl", judge=CLAUDE) == 2
    assert "is a recording, which takes and gives no batch" in capsys.readouterr().err


RUN = ["--judge", "openai:m", "--store", "s.sqlite", "-o"]
ENDINGS = {  # command -> the ending of what it writes
    ("judge", "run", "in.jsonl", *RUN): ".jsonl",
    ("judge", "export", "in.jsonl", *RUN): ".jsonl",
    ("augment", "generate", "in.jsonl", *RUN): ".jsonl",
    ("judge", "passport", *RUN): ".csv",
    ("score", "in.jsonl", "--judge", "openai:m", "-o"): ".jsonl",
}


@pytest.mark.parametrize("command", ENDINGS, ids=lambda words: " ".join(words[:2]))
def test_nothing_is_written_over_an_input_or_a_file_of_others(command, work, capsys):
    records = [{"id": row["pair_id"], **row} for row in pairs(2)]
    write_jsonl(work / "in.jsonl", records)
    before = (work / "in.jsonl").read_text()
    ending = ENDINGS[command]
    precious = work / f"keep{ending}"
    precious.write_text("precious")
    messages = {
        precious.name: "nothing says that this command made it: name another file, delete it, or",
        "a.txt": "expected a name that ends in",
        f"none/a{ending}": "there is no folder",
    }
    if "in.jsonl" in command:
        messages["in.jsonl"] = "in.jsonl is an input: name another"
    for path, message in messages.items():
        assert main([*command, path]) == 2
        assert message in capsys.readouterr().err
    assert precious.read_text() == "precious"
    assert (work / "in.jsonl").read_text() == before
