"""``dre judge``, files of prompts and replies, recordings, and that no key is written anywhere."""

import json
import logging
import socket

import judge_servers as servers
import numpy as np
import pandas as pd
import pytest
from conftest import needs_data
from judge_servers import Server, pairs

import dre.judges
from dre.cli import main
from dre.errors import DreError
from dre.judges import compare, files, prompts
from dre.judges.store import Store


@pytest.fixture
def work(tmp_path, monkeypatch, quick):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pairs(4)))
    return tmp_path


def dre_judge(action, *args, url="", judge="openai:test-model"):
    return main(["judge", action, "--judge", judge, "--store", "s.sqlite", "--base-url", url, *args])


def test_run_estimate_status_and_replay(work, capsys, monkeypatch):
    with Server(servers.graded) as server:
        url = server.url
        assert dre_judge("estimate", "pairs.jsonl", "--price", "1,10", url=url) == 0 and not server.requests
        assert dre_judge("run", "pairs.jsonl", "--price", "1,1", "-o", "out.csv", url=url) == 0
        assert dre_judge("estimate", "pairs.jsonl", url=url) == 0
    out = capsys.readouterr().out
    assert "4 calls to make" in out and "at most 1,024 per reply" in out and "at most $0.05" in out
    assert "4 pairs: 4 ok" in out and "4 calls, $0.0002 spent; store: s.sqlite" in out and "0 calls to make" in out
    monkeypatch.setattr(socket.socket, "connect", None)  # from here on nobody is asked
    assert dre_judge("replay", "pairs.jsonl", "-o", "again.jsonl", url=url) == 0
    again = pd.read_json("again.jsonl", lines=True)
    assert list(again["score_llm"]) == list(pd.read_csv("out.csv")["score_llm"]) and len(again) == 4
    assert main(["judge", "status", "--store", "s.sqlite"]) == 0
    assert "ok: 4 (live; $0.0002; 200 tokens in, 40 out)" in capsys.readouterr().out
    assert dre_judge("replay", "pairs.jsonl", "--temperature", "0", url=url) == 2
    assert "replies to 4 pairs are not stored, first own/0" in capsys.readouterr().err


FAULTS = {
    "bad.jsonl:2: no JSON object": ["bad.jsonl"],
    "pair_id is 'own/0', expected a text that no other row has": ["twice.jsonl"],
    "OPENAI_API_KEY is not set": ["pairs.jsonl"],
    "without user name, password": ["pairs.jsonl", "--base-url", "http://user:pass@host"],
    "no price is known": ["pairs.jsonl", "--max-usd", "1"],
    "would break the count of money": ["pairs.jsonl", "--param", "n=5"],
}


@pytest.mark.parametrize("said", FAULTS)
def test_faults_are_said_before_anything_is_asked(work, capsys, said):
    (work / "bad.jsonl").write_text('{"pair_id": "a"}\n{"pair_id": \n')
    (work / "twice.jsonl").write_text((work / "pairs.jsonl").read_text() * 2)
    assert dre_judge("run", *FAULTS[said]) == 2 and said in capsys.readouterr().err


def batch(path, change=lambda line: line, reply='{"score": 2.5}', model="test-model-2026-01-01"):
    """Answer exported prompts as a batch API does."""
    body, answered = servers.openai(reply, model=model).body, []
    for _, line in files.read_jsonl(path):
        answer = {"custom_id": line["custom_id"], "response": {"status_code": 200, "body": body}, "error": None}
        answered.append(json.dumps(change(answer)) + "\n")
    path.with_name("replies.jsonl").write_text("".join(answered))


def test_prompts_go_out_and_replies_come_back_at_the_batch_price(work, capsys):
    gpt, served, out = "openai:gpt-4o-mini", "gpt-4o-mini-2024-07-18", work / "prompts.jsonl"
    assert dre_judge("export", "pairs.jsonl", "-o", "prompts.jsonl", judge=gpt) == 0
    lines = [line for _, line in files.read_jsonl(out)]
    assert len({line["custom_id"] for line in lines}) == 4 and all(len(line["custom_id"]) <= 64 for line in lines)
    assert lines[0]["url"] == "/v1/chat/completions" and lines[0]["body"]["max_completion_tokens"] == 1024
    changes = iter([{"error": {"message": "no"}}, {"response": {"status_code": 500}}, {"response": None}, {}])
    batch(out, lambda line: line | next(changes), reply="I cannot say.", model=served)
    assert dre_judge("import", "replies.jsonl", "pairs.jsonl", judge=gpt) == 1
    said = capsys.readouterr().out
    assert "1 replies stored, 0 were stored before, 3 requests failed" in said and "3 missing, 1 malformed" in said
    assert dre_judge("export", "pairs.jsonl", "-o", "prompts.jsonl", "--retry", "malformed", judge=gpt) == 0
    batch(out, model=served)
    for count in (4, 0):
        assert dre_judge("import", "replies.jsonl", "pairs.jsonl", "-o", "out.csv", judge=gpt) == 0
        assert f"{count} replies stored, {4 - count} were stored before, 0 requests failed" in capsys.readouterr().out
    table = pd.read_csv("out.csv")
    assert (table["score_llm"] == 2.5).all()
    assert table["cost"].sum() == pytest.approx(4 * (50 * 0.15 + 10 * 0.6) / 2 / 1e6)


@pytest.mark.parametrize("change", [{"custom_id": "x"}, {"response": {"body": {}}}, {"custom_id": "same"}, None])
def test_a_file_that_does_not_belong_is_refused_whole(work, change):
    assert dre_judge("export", "pairs.jsonl", "-o", "prompts.jsonl") == 0
    changes = iter([change or {}, {}, {}, change or {}])
    model = "test-model-2026-01-01" if change else "another-model"
    batch(work / "prompts.jsonl", lambda line: line | next(changes), model=model)
    assert dre_judge("import", "replies.jsonl", "pairs.jsonl") == 2 and Store("s.sqlite").summary() == []


def test_the_committed_recording_is_a_judge_like_any_other():
    one = dre.judges.open("recorded:claude-2026-11", store="unused", max_usd=1)
    known = pd.DataFrame({"pair_id": ["dailydialog-zhao/0", "dailydialog-zhao/1"]})
    assert list(one.score(known)["score_llm"]) == [4.9, 1.6]
    assert one.score(known, "dre")["s_inf"].between(0, 1).all()
    assert (one.score(known, first=1)["status"] == "ok").all()
    more = pd.concat([known, pd.DataFrame({"pair_id": ["x"]})])
    assert list(one.score(more, ask=False)["status"]) == ["ok", "ok", "missing"]
    pytest.raises(DreError, one.score, more).match("lacks prompt llm_only.* for 1 of 3 pairs, first x")


@pytest.mark.parametrize("provider", list(servers.KEYS))
def test_a_key_is_nowhere_in_what_is_written_and_printed(provider, work, capsys, caplog, monkeypatch):
    canary, spec = "sk-canary-0123456789abcdef", f"{provider}:test-model"
    monkeypatch.setenv(servers.KEYS[provider], canary)
    caplog.set_level(logging.DEBUG)

    bad = servers.error(provider, 400, f"bad request with {canary}")
    good = servers.REPLIES[provider]('{"score": 3}')
    key = ("--key-env", servers.KEYS[provider])
    with Server(lambda request: bad if b"number 1?" in request.raw else good) as server:
        assert dre_judge("run", "pairs.jsonl", "-o", "out.csv", *key, url=server.url, judge=spec) == 1
        assert canary in str(server.requests[0].headers)
        dre_judge("export", "pairs.jsonl", "-o", "prompts.jsonl", url=server.url, judge=spec)
    with Server(lambda request: servers.error(provider, 401, f"wrong key {canary}, Bearer 12345678")) as server:
        assert dre_judge("run", "pairs.jsonl", *key, url=server.url, judge=spec) == 2
    said, written = capsys.readouterr(), [path for path in work.rglob("*") if path.is_file()]
    assert len(written) >= 5 and "wrong key [key], [key]" in said.err
    logged = [record.getMessage() for record in caplog.records if record.name.startswith("dre")]
    texts = [said.out, said.err, str(logged), *(path.read_bytes().decode("latin-1") for path in written)]
    assert not any(canary in text for text in texts)


@needs_data
def test_a_live_judge_stands_beside_the_recorded_ones_on_the_same_sample(work, capsys):
    """The server answers what the recorded judge said of the pair, once with a reply that cannot be read."""
    sets, claude, prompt = ("personachat-usr", "topicalchat-usr"), "claude-2026-11", prompts.load("llm_only")
    replies, samples = {}, []
    for name in sets:
        rows = compare.sample(name, 15)
        rows["score"] = dre.judges.open(f"recorded:{claude}").score(rows)["score_llm"].to_numpy()
        for row in rows.to_dict("records"):
            replies[prompt.render(row)[-1]["content"]] = json.dumps({"score": row["score"]})
        samples.append(rows)
    replies[next(iter(replies))], samples[0] = "no idea", samples[0][1:]
    with Server(lambda request: servers.openai(replies[request.body["messages"][-1]["content"]])) as server:
        options = ["--sets", ",".join(sets), "--n", "30", "--price", "1,1", "-o", "table.csv"]
        assert dre_judge("compare", *options, url=server.url) == 0 and len(server.requests) == 60
    out, table = capsys.readouterr().out, pd.read_csv("table.csv").set_index("judge")
    expected = np.mean([rows["score"].corr(rows["human"], method="spearman") for rows in samples])
    assert table["spearman"][["openai:test-model", claude]].tolist() == pytest.approx([expected] * 2, abs=1e-5)
    gap = table.loc["Claude-3-haiku"]
    assert gap["difference"] == pytest.approx(gap["spearman"] - expected, abs=1e-5) and gap["pairs"] > 100
    assert "29 of 30 pairs" in out and "replies): 1.00" in out and "without a score: 3.3%" in out
    assert "dollars per 1,000 replies: 0.06" in out and "60 calls, $0.0036" in out
