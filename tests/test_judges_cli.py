"""``dre judge ...`` as a user runs it."""

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import traceback
from pathlib import Path

import judge_servers as servers
import pandas as pd
import pytest

from dre import judges
from dre.cli import main
from dre.errors import DreError
from dre.judges import estimate, pairs
from dre.judges.store import Store

pytest.importorskip("openai")
CANARY = "canary-5f3a9c1e77d24b08"


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)


@pytest.fixture
def work(tmp_path):
    servers.write_pairs(tmp_path / "pairs.jsonl", 12)
    return tmp_path


def dre(action, work, url, *more):
    where = ["--base-url", url] if url else []
    base = [str(work / "pairs.jsonl"), "--judge", "openai:m", "--store", str(work / "s.sqlite"), *where]
    return main(["judge", *action.split(), *base, *map(str, more)])


def test_run_writes_the_scores_and_says_what_it_does(work, capsys):
    with servers.Server(servers.graded) as server:
        assert dre("run", work, server.url, "-o", work / "o.csv", "--price", "1,2") == 0
        said = capsys.readouterr()
        assert said.out.startswith("12 calls to make, 0 judgements stored\nabout ")
        assert "at most $" in said.out and "12 ok" in said.out and "mode single" in said.out
        assert "12/12" in said.err and "$0.0008" in said.err and "0 failed" in said.err
        assert dre("run", work, server.url, "-o", work / "o2.csv") == 0
        assert capsys.readouterr().out.startswith("0 calls to make, 12 judgements stored")
        assert len(server.requests) == 12
    frame = pd.read_csv(work / "o.csv")
    assert list(frame["pair_id"]) == [f"own/{i}" for i in range(12)] and frame["score_llm"].notna().all()
    assert (work / "o.csv").read_text() == (work / "o2.csv").read_text()


def test_output_as_jsonl(work):
    with servers.Server(servers.graded) as server:
        dre("run", work, server.url, "-o", work / "o.jsonl")
    rows = [json.loads(line) for line in (work / "o.jsonl").read_text().splitlines()]
    assert len(rows) == 12 and rows[0]["status"] == "ok" and rows[0]["cost"] is None


def test_a_ceiling_ends_the_run_with_status_1(work, capsys):
    with servers.Server(lambda request: servers.openai('{"score": 1}', tokens=(0, 100))) as server:
        limit = ["--price", "0,10", "--max-usd", "0.005", "--max-tokens", 100]
        assert dre("run", work, server.url, *limit, "-o", work / "o.csv") == 1
    assert len(server.requests) == 5
    assert "stopped before $0.005 would be passed" in capsys.readouterr().out
    assert pd.read_csv(work / "o.csv")["status"].value_counts().to_dict() == {"ok": 5, "missing": 7}


def test_failures_are_said_with_a_reason(work, capsys):
    with servers.Server(
        lambda request: servers.openai("hm") if b"The 3 ferns" in request.raw else servers.graded(request)
    ) as server:
        assert dre("run", work, server.url) == 0
        assert "malformed, e.g. own/3: no score in the reply" in capsys.readouterr().err
        assert dre("run", work, server.url, "--retry", "malformed,refused") == 0
        assert len(server.requests) == 13


def test_truncated_replies_and_those_left_out_of_scores_are_said(work, capsys):
    with servers.Server(lambda request: servers.openai('{"sc', "length")) as server:
        assert dre("run", work, server.url) == 0
    assert "truncated, e.g. own/0: the provider says truncated; give a larger --max-tokens" in capsys.readouterr().err
    at = {"token": "3", "logprob": -0.1, "top_logprobs": []}
    rated = servers.openai("3", logprobs={"content": [at]})
    calls = []

    def half(request):
        calls.append(request)
        return rated if len(calls) % 2 else servers.openai("3")

    with servers.Server(half) as server:
        dre("run", work, server.url, "--mode", "logprob", "--repeats", 12, "--concurrency", 1)
    assert "72 of 144 replies to scored pairs have no usable rating token" in capsys.readouterr().err


def test_estimate_asks_nothing(work, capsys):
    with servers.Server(servers.graded) as server:
        assert dre("estimate", work, server.url) == 0
        assert server.requests == []
    assert "12 calls to make" in capsys.readouterr().out


def test_times_are_said_in_words():
    said = [estimate.duration(seconds) for seconds in (0.2, 61, 150, 7100, 9000)]
    assert said == ["1 seconds", "61 seconds", "2 minutes", "118 minutes", "2 hours"]


def test_no_spend_is_shown_where_no_price_is_known(work, capsys):
    with servers.Server(servers.graded) as server:
        assert dre("run", work, server.url) == 0
    said = capsys.readouterr()
    assert "12 calls, 0 of them retries\n" in said.out and "$" not in said.out + said.err


def test_an_unknown_price_is_said_and_no_ceiling_is_promised(work, capsys):
    with servers.Server(servers.graded) as server:
        assert dre("run", work, server.url, "--max-usd", 1) == 2
        said = capsys.readouterr()
        assert (
            "price unknown" in said.out
            and "$0" not in said.out + said.err
            and "give --price IN,OUT" in said.err
            and server.requests == []
        )


def test_status_counts_what_is_stored(work, capsys):
    with servers.Server(servers.graded) as server:
        dre("run", work, server.url, "--repeats", 2)
    capsys.readouterr()
    assert main(["judge", "status", "--store", str(work / "s.sqlite")]) == 0
    assert "openai:m at http://127.0.0.1" in (out := capsys.readouterr().out) and "ok: 24 (live; cost unknown; " in out


def test_an_empty_store_says_so(work, capsys):
    main(["judge", "status", "--store", str(work / "s.sqlite")])
    assert "nothing is stored yet" in capsys.readouterr().out


def test_everything_in_replay_works_without_a_network(work, capsys, monkeypatch):
    with servers.Server(servers.graded) as server:
        url = server.url
        dre("run", work, url, "-o", work / "o.csv")
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setattr(socket, "socket", lambda *args, **kwargs: pytest.fail("a socket was opened"))
    assert dre("replay", work, url, "-o", work / "r.csv") == 0
    assert (work / "o.csv").read_text() == (work / "r.csv").read_text()
    assert dre("estimate", work, url) == 0 and main(["judge", "status", "--store", str(work / "s.sqlite")]) == 0
    assert dre("export", work, url, "--recorded", work / "run") == 0
    assert dre("export", work, url, "-o", work / "none.jsonl") == 0
    recorded = ["judge", "replay", str(work / "pairs.jsonl"), "--judge", f"recorded:{work / 'run'}"]
    assert main([*recorded, "-o", str(work / "r2.csv")]) == 0
    assert pd.read_csv(work / "r2.csv")["score_llm"].equals(pd.read_csv(work / "o.csv")["score_llm"])
    assert main(["judge", "import", "--recorded", str(work / "run"), "--store", str(work / "s2.sqlite")]) == 0
    with Store(work / "s2.sqlite") as store:
        assert sum(row[3] for row in store.counts()) == 12


def test_a_miss_in_replay_is_refused(work, capsys):
    assert dre("replay", work, "http://127.0.0.1:1") == 2
    assert "12 judgements are not stored, the first for own/0" in capsys.readouterr().err


def test_prompts_out_and_replies_in(work, capsys):
    assert dre("export", work, "", "-o", work / "out.jsonl") == 0
    lines = [json.loads(line) for line in (work / "out.jsonl").read_text().splitlines()]
    with open(work / "in.jsonl", "w") as file:
        for line in lines:
            body = servers.openai('{"score": 2}', model="m").body
            file.write(
                json.dumps({"custom_id": line["custom_id"], "response": {"status_code": 200, "body": body}}) + "\n"
            )
    assert dre("import", work, "", "--replies", work / "in.jsonl", "-o", work / "o.csv") == 0
    assert pd.read_csv(work / "o.csv")["score_llm"].tolist() == [2.0] * 12
    assert dre("run", work, "") == 0  # nothing left to ask, so no key and no network is needed


def test_malformed_replies_are_asked_again_through_files(work, capsys):
    def answer(text, to):
        lines = [json.loads(line) for line in (work / "out.jsonl").read_text().splitlines()]
        body = servers.openai(text, model="m").body
        replies = [{"custom_id": line["custom_id"], "response": {"status_code": 200, "body": body}} for line in lines]
        (work / to).write_text("".join(json.dumps(reply) + "\n" for reply in replies))
        return len(lines)

    dre("export", work, "", "-o", work / "out.jsonl")
    assert answer("hm", "bad.jsonl") == 12
    assert dre("import", work, "", "--replies", work / "bad.jsonl") == 0
    dre("export", work, "", "-o", work / "out.jsonl")
    assert answer("", "none.jsonl") == 0
    dre("export", work, "", "-o", work / "out.jsonl", "--retry", "malformed")
    assert answer('{"score": 2}', "good.jsonl") == 12
    dre("import", work, "", "--replies", work / "good.jsonl")
    assert "0 replies stored, 12 were stored before" in capsys.readouterr().out
    assert dre("import", work, "", "--replies", work / "good.jsonl", "--retry", "malformed", "-o", work / "o.csv") == 0
    assert pd.read_csv(work / "o.csv")["score_llm"].tolist() == [2.0] * 12


def test_a_recording_is_not_run(work, capsys):
    args = ["judge", "run", str(work / "pairs.jsonl"), "--judge", "recorded:claude-2026-11"]
    assert main(args) == 2 and "dre judge replay" in capsys.readouterr().err


def test_batches_by_the_command(work, capsys):
    args = [str(work / "pairs.jsonl"), "--judge", "ollama:m", "--store", str(work / "s.sqlite")]
    assert main(["judge", "batch", "submit", *args]) == 2
    assert "no batch API" in capsys.readouterr().err


def test_a_template_of_ones_own(work):
    (work / "own.txt").write_text(
        "---\nkind: score\nscale: [0, 5]\noutput: text\n---\n[user]\n{{notice}}\n{{context}}\n{{response}}\nScore it.\n"
    )
    with servers.Server(servers.graded) as server:
        assert dre("run", work, server.url, "--prompt-file", work / "own.txt") == 0
        assert "Score it." in server.requests[0].body["messages"][0]["content"]
        assert dre("run", work, server.url) == 0
    assert len(server.requests) == 24  # the template's hash keeps its judgements apart


@pytest.mark.parametrize(
    "line, said",
    [
        ('{"pair_id": "x", "context": ["a"]', r"p.jsonl:2: not JSON"),
        ('["x"]', r"p.jsonl:2: list, expected an object"),
        ('{"context": ["a"], "response": "b"}', r"p.jsonl:2: pair_id is None"),
        ('{"pair_id": "first", "context": ["a"], "response": "b"}', r"p.jsonl:2: pair_id 'first' was at .*p.jsonl:1"),
        ('{"pair_id": "x", "context": 3, "response": "b"}', r"p.jsonl:2: context is 3"),
        ('{"pair_id": "x", "context": [], "response": "b"}', r"p.jsonl:2: context is"),
        ('{"pair_id": "x", "context": ["a"], "response": 5}', r"p.jsonl:2: response is 5"),
    ],
)
def test_bad_lines_are_named(tmp_path, line, said):
    good = '{"pair_id": "first", "context": ["a"], "response": "b"}'
    (tmp_path / "p.jsonl").write_text(f"{good}\n{line}\n")
    with pytest.raises(DreError, match=said):
        pairs.read(tmp_path / "p.jsonl")


def test_a_context_may_be_a_text_of_lines(tmp_path):
    (tmp_path / "p.jsonl").write_text('{"pair_id": "x", "context": "one\\ntwo\\n", "response": "b"}\n\n')
    assert pairs.read(tmp_path / "p.jsonl")[0]["context"] == ("one", "two")


def test_no_file_no_pairs_no_prompt(work, tmp_path, capsys):
    (tmp_path / "empty.jsonl").write_text("\n")
    for path, said in ((tmp_path / "absent.jsonl", "cannot be read"), (tmp_path / "empty.jsonl", "there are no pairs")):
        assert main(["judge", "estimate", str(path), "--judge", "openai:m"]) == 2
        assert said in capsys.readouterr().err
    assert dre("estimate", work, "", "--prompt", "nonsense") == 2
    assert "nonsense" in capsys.readouterr().err


@pytest.mark.parametrize("more", [["--param", "x"], ["--param", "x=oops"], ["-o", "o.txt"], ["-o", "no/where/o.csv"]])
def test_bad_options_are_refused_before_anything_is_asked(work, more, capsys):
    with servers.Server(servers.graded) as server:
        assert dre("run", work, server.url, *more) == 2
        assert "expected" in (err := capsys.readouterr().err) or "not there" in err
        assert server.requests == []


@pytest.mark.parametrize("options", [{"repeats": 0}, {"mode": "median"}, {"repeats": 2, "mode": "single"}])
def test_modes_are_never_changed_silently(options):
    with pytest.raises(DreError):
        judges.open("openai:m", store=":memory:", **options)


def child(work, url, *more):
    """Start the command as a process of its own, with a shell's answer to Ctrl-C."""
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); from dre.cli import main; sys.exit(main(sys.argv[1:]))"
    base = [str(work / "pairs.jsonl"), "--judge", "openai:m", "--store", str(work / "s.sqlite"), "--base-url", url]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    return subprocess.Popen(
        [sys.executable, "-c", code, "judge", "run", *base, "--concurrency", "2", *more],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def wait_for_requests(server, n, process):
    import time

    end = time.monotonic() + 60
    while len(server.requests) < n and process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_the_command_goes_on_where_it_was_stopped(work, how, capsys):
    with servers.Server(servers.graded, delay=0.05) as server:
        process = child(work, server.url)
        wait_for_requests(server, 4, process)
        process.send_signal(how)
        _, err = process.communicate(timeout=60)
        if how == signal.SIGINT:
            assert process.returncode == 130 and "interrupted: what was finished is kept" in err
        before = len(server.requests)
        assert before < 12
        with Store(work / "s.sqlite") as store:
            kept = sum(row[3] for row in store.counts())
        assert before - kept <= (0 if how == signal.SIGINT else 2)
        assert dre("run", work, server.url, "-o", work / "o.csv") == 0
        assert len(server.requests) - before == 12 - kept
    assert pd.read_csv(work / "o.csv")["status"].tolist() == ["ok"] * 12


def everything_in(folder):
    return b"".join(path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file())


@pytest.mark.parametrize("name", ["openai", "anthropic", "gemini", "ollama"])
def test_a_key_is_nowhere_in_what_is_written_and_printed(name, work, capsys, caplog, monkeypatch):
    monkeypatch.setenv(servers.KEYS[name], CANARY)
    caplog.set_level(logging.DEBUG)
    errors = servers.ERRORS[name]
    answers = [
        errors(500, f"boom {CANARY}"),
        servers.REPLIES[name]('{"score": 3}'),
        errors(400, f"you sent {CANARY} as a key"),
        servers.REPLIES[name]("hm"),
        errors(401, f"Incorrect key provided: {CANARY}"),
    ]
    seen = []

    def script(request):
        seen.append(CANARY in json.dumps(request.headers))
        return answers[min(len(seen), len(answers)) - 1]

    shown = ""
    with servers.Server(script) as server:
        base = server.url + ("/v1" if name == "openai" else "")
        args = [
            str(work / "pairs.jsonl"),
            "--judge",
            f"{name}:m",
            "--base-url",
            base,
            "--store",
            str(work / "s.sqlite"),
        ]
        assert main(["judge", "run", *args, "--concurrency", "1", "-o", str(work / "o.csv")]) == 2
        judge = judges.open(f"{name}:m", store=work / "s.sqlite", base_url=base)
        try:
            judge.score(servers.pairs(3))
        except DreError as error:
            ours = error.__traceback__.tb_next  # the frames below this test, which knows the key
            shown += "".join(traceback.TracebackException(type(error), error, ours, capture_locals=True).format())
            shown += repr(vars(error))
        shown += repr(judge) + repr(judge.provider)
    assert seen and all(seen), "the key did not reach the server, so this proves nothing"
    main(["judge", "status", "--store", str(work / "s.sqlite")])
    main(["judge", "export", *args, "-o", str(work / "out.jsonl")])
    two = [*args[1:], str(servers.write_pairs(work / "two.jsonl", 1))]
    main(["judge", "export", *two, "--recorded", str(work / "run")])
    said = capsys.readouterr()
    assert CANARY not in said.out + said.err + shown
    assert "[key]" in said.err
    assert CANARY not in caplog.text + repr([record.__dict__ for record in caplog.records])
    assert (work / "run" / "manifest.json").exists() and CANARY.encode() not in everything_in(work)
