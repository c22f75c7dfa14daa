"""``dre judge``, files of prompts and replies, recordings, and that no key is written anywhere."""

import json
import logging
import socket

import judge_servers as servers
import pandas as pd
import pytest
from conftest import needs_data
from judge_servers import Server, pairs

import dre.judges
from dre.cli import main
from dre.errors import DreError
from dre.judges import compare, files, prompts
from dre.judges.recorded import FOLDER
from dre.judges.store import Store


@pytest.fixture
def work(tmp_path, monkeypatch, quick):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pairs(4)))
    return tmp_path


def dre_judge(action, *args, url=None, judge="openai:test-model"):
    where = ["--base-url", url] if url else []
    return main(["judge", action, *args, "--judge", judge, "--store", "s.sqlite", *where])


def test_run_estimate_status_and_replay(work, capsys, monkeypatch):
    with Server(servers.graded) as server:
        url = server.url
        assert dre_judge("estimate", "pairs.jsonl", url=url) == 0 and not server.requests
        assert dre_judge("run", "pairs.jsonl", "--price", "1,1", "-o", "out.csv", url=url) == 0
    out = capsys.readouterr().out
    assert "4 calls to make" in out and "4 pairs: 4 ok" in out and "4 calls, $0.0002 spent; store: s.sqlite" in out
    monkeypatch.setattr(socket.socket, "connect", None)  # from here on nobody is asked
    assert dre_judge("replay", "pairs.jsonl", "-o", "again.jsonl", url=url) == 0
    again = pd.read_json("again.jsonl", lines=True)
    assert list(again["score_llm"]) == list(pd.read_csv("out.csv")["score_llm"]) and len(again) == 4
    assert main(["judge", "status", "--store", "s.sqlite"]) == 0
    assert "ok: 4 (live; $0.0002; 200 tokens in, 40 out)" in capsys.readouterr().out
    assert dre_judge("replay", "pairs.jsonl", "--temperature", "0", url=url) == 2
    assert "replies to 4 pairs are not stored, first own/0" in capsys.readouterr().err


FAULTS = {
    "bad.jsonl:2: no JSON object": ["run", "bad.jsonl"],
    "no prompt 'none'": ["run", "pairs.jsonl", "--prompt", "none"],
    "expected a name that ends in .csv or .jsonl": ["run", "pairs.jsonl", "-o", "out.txt"],
    "no price is known": ["run", "pairs.jsonl", "--max-usd", "1"],
    "expected NAME=JSON": ["run", "pairs.jsonl", "--param", "seed"],
    "would break the count of money": ["run", "pairs.jsonl", "--param", "n=5"],
    "no rated set 'fed'": ["compare", "--sets", "fed"],
}


@pytest.mark.parametrize("said", FAULTS)
def test_faults_are_said_before_anything_is_asked(work, capsys, said):
    (work / "bad.jsonl").write_text('{"pair_id": "a"}\n{"pair_id": \n')
    assert dre_judge(*FAULTS[said], url="http://127.0.0.1:1") == 2 and said in capsys.readouterr().err


def batch(path, change=lambda line: line, reply='{"score": 2.5}', model="test-model-2026-01-01"):
    """Answer exported prompts as a batch API does."""
    body, answered = servers.openai(reply, model=model).body, []
    for _, line in files.read_jsonl(path):
        answer = {"custom_id": line["custom_id"], "response": {"status_code": 200, "body": body}, "error": None}
        answered.append(json.dumps(change(answer)) + "\n")
    path.with_name("replies.jsonl").write_text("".join(answered))


def test_prompts_go_out_and_replies_come_back_at_the_batch_price(work, capsys):
    gpt, out = "openai:gpt-4o-mini", work / "prompts.jsonl"
    assert dre_judge("export", "pairs.jsonl", "-o", "prompts.jsonl", judge=gpt) == 0
    lines = [line for _, line in files.read_jsonl(out)]
    assert len({line["custom_id"] for line in lines}) == 4 and all(len(line["custom_id"]) <= 64 for line in lines)
    assert lines[0]["url"] == "/v1/chat/completions" and lines[0]["body"]["max_completion_tokens"] == 1024
    assert dre_judge("export", "pairs.jsonl", "--param", "num_ctx=4096", "-o", "o.jsonl", judge="ollama:llama3") == 0
    assert "num_ctx" not in (work / "o.jsonl").read_text()
    batch(out, model="gpt-4o-mini-2024-07-18", reply="I cannot say.")
    assert dre_judge("import", "replies.jsonl", "pairs.jsonl", judge=gpt) == 0
    assert "4 malformed" in capsys.readouterr().out
    assert dre_judge("export", "pairs.jsonl", "-o", "prompts.jsonl", "--retry", "malformed", judge=gpt) == 0
    batch(out, model="gpt-4o-mini-2024-07-18")
    for count in (4, 0):
        assert dre_judge("import", "replies.jsonl", "pairs.jsonl", "-o", "out.csv", judge=gpt) == 0
        assert f"{count} replies stored, {4 - count} were stored before, 0 requests failed" in capsys.readouterr().out
    table = pd.read_csv("out.csv")
    assert (table["score_llm"] == 2.5).all()
    assert table["cost"].sum() == pytest.approx(4 * (50 * 0.15 + 10 * 0.6) / 2 / 1e6)
    assert dre_judge("export", "pairs.jsonl", "-o", "prompts.jsonl", judge=gpt) == 0 and out.read_text() == ""


@pytest.mark.parametrize("change", [{"custom_id": "x"}, {"response": {"body": {}}}, {"custom_id": "same"}, None])
def test_a_file_that_does_not_belong_is_refused_whole(work, change):
    assert dre_judge("export", "pairs.jsonl", "-o", "prompts.jsonl") == 0
    changes = iter([change or {}, {}, {}, change or {}])
    model = "test-model-2026-01-01" if change else "another-model"
    batch(work / "prompts.jsonl", lambda line: line | next(changes), model=model)
    assert dre_judge("import", "replies.jsonl", "pairs.jsonl") == 2 and Store("s.sqlite").summary() == []


def test_failed_requests_stay_missing(work, capsys):
    assert dre_judge("export", "pairs.jsonl", "-o", "prompts.jsonl") == 0
    bad = iter([{"error": {"message": "no"}}, {"response": {"status_code": 500}}, {"response": None}, {}])
    batch(work / "prompts.jsonl", lambda line: line | next(bad))
    assert dre_judge("import", "replies.jsonl", "pairs.jsonl") == 1
    assert "1 replies stored, 0 were stored before, 3 requests failed" in capsys.readouterr().out


def test_the_committed_recording_is_a_judge_like_any_other():
    one = dre.judges.open("recorded:claude-2026-11", store="unused", max_usd=1)
    known = pd.DataFrame({"pair_id": ["dailydialog-zhao/0", "dailydialog-zhao/1"]})
    assert list(one.score(known, retry=["malformed"], first=0)["score_llm"]) == [4.9, 1.6]
    for prompt in ("dre", "dre_other"):
        assert one.score(known, prompt)["s_inf"].between(0, 1).all()
    other = dre.judges.open("recorded:claude-2026-11", repeat=1).score(known)
    assert (other["status"] == "ok").all() and one.last.calls == 0 and one.signature
    lines = [line for _, line in files.read_jsonl(FOLDER / "claude-2026-11/judgements.jsonl")]
    label = next(line for line in lines if "label" in line)
    assert one.score([label], "classify")["label"][0] == label["label"] in ("Positive", "Negative")
    assert all(0 <= line.get("score", 0) <= 5 and 0 <= line.get("influence", 0) <= 1 for line in lines)
    more = pd.concat([known, pd.DataFrame({"pair_id": ["x"]})])
    assert list(one.score(more, ask=False)["status"]) == ["ok", "ok", "missing"]
    pytest.raises(DreError, one.score, more).match("lacks prompt llm_only.* for 1 of 3 pairs, first x")
    pytest.raises(DreError, dre.judges.open, "recorded:none").match("no recording 'none': .*claude-2026-11")


@pytest.mark.parametrize("provider", list(servers.KEYS))
def test_a_key_is_nowhere_in_what_is_written_and_printed(provider, work, capsys, caplog, monkeypatch):
    canary = "sk-canary-0123456789abcdef"
    monkeypatch.setenv(servers.KEYS[provider], canary)
    caplog.set_level(logging.DEBUG)
    spec = f"{provider}:test-model"

    def script(request):
        if b"number 1?" in request.raw:
            return servers.error(provider, 400, f"bad request with {canary}")
        return servers.REPLIES[provider]('{"score": 3}')

    with Server(script) as server:
        assert dre_judge("run", "pairs.jsonl", "-o", "out.csv", url=server.url, judge=spec) == 1
        assert canary in str(server.requests[0].headers)
        dre_judge("export", "pairs.jsonl", "-o", "prompts.jsonl", url=server.url, judge=spec)
    with Server(lambda request: servers.error(provider, 401, f"wrong key {canary}")) as server:
        assert dre_judge("run", "pairs.jsonl", url=server.url, judge=spec) == 2
    said, written = capsys.readouterr(), [path for path in work.rglob("*") if path.is_file()]
    assert len(written) >= 5 and "wrong key [key]" in said.err
    logged = [record.getMessage() for record in caplog.records if record.name.startswith("dre")]
    texts = [said.out, said.err, str(logged), *(path.read_bytes().decode("latin-1") for path in written)]
    assert not any(canary in text for text in texts)


@needs_data
def test_a_live_judge_stands_beside_the_recorded_ones_on_the_same_sample(work, capsys):
    """The server answers what the recorded judge said of the pair, once with a reply that cannot be read."""
    claude, prompt, said = dre.judges.open("recorded:claude-2026-11"), prompts.load("llm_only"), {}
    sets = ("personachat-usr", "topicalchat-usr")
    drawn = [compare.sample(name, 15) for name in sets]
    for rows in drawn:
        for row, score in zip(rows.to_dict("records"), claude.score(rows)["score_llm"]):
            said[prompt.render(row)[-1]["content"]] = json.dumps({"score": score})
    broken = next(iter(said))
    said[broken] = "no idea"
    with Server(lambda request: servers.openai(said[request.body["messages"][-1]["content"]])) as server:
        options = ["--sets", ",".join(sets), "--n", "30", "--price", "1,1", "-o", "table.csv"]
        assert dre_judge("compare", *options, url=server.url) == 0
        assert len(server.requests) == 60
    out, table = capsys.readouterr().out, pd.read_csv("table.csv").set_index("judge")
    expected = []
    for name, rows in zip(sets, drawn):
        score = claude.score(rows)["score_llm"].tolist()
        if name == sets[0]:
            score[0] = None
        expected.append(pd.Series(score).corr(rows["human"].reset_index(drop=True), method="spearman"))
    assert table["spearman"].iloc[:2].tolist() == pytest.approx([sum(expected) / 2] * 2, abs=1e-5)
    assert table.index[:3].tolist() == ["openai:test-model", "claude-2026-11", "Claude-3-haiku"]
    gap = table.loc["Claude-3-haiku"]
    assert gap["difference"] == pytest.approx(gap["spearman"] - sum(expected) / 2, abs=1e-5) and gap["pairs"] > 100
    assert "29 of 30 pairs" in out and "replies): 1.00" in out and "without a score: 3.3%" in out
    assert "dollars per 1,000 replies: 0.06" in out and "60 calls, $0.0036" in out
