"""``dre judge``, files of prompts and replies, recordings, and that no key is written anywhere."""

import json
import logging
import re
import socket

import judge_servers as servers
import numpy as np
import pandas as pd
import pytest
from conftest import needs_data
from judge_servers import Server, pairs

import dre.judges
from dre.audit import judge_agreement, kinds
from dre.commands.main import main
from dre.datasets.registry import read_jsonl, repository_file
from dre.errors import DreError
from dre.judges import prompts
from dre.judges.store import Store


@pytest.fixture
def work(tmp_path, monkeypatch, quick):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pairs(4)))
    return tmp_path


def dre_judge(action, *args, url="", judge="openai:test-model"):
    return main(
        ["judge", action, "--judge", judge, "--store", "s.sqlite", "--base-url", url, *args]
    )


def test_run_estimate_status_and_replay(work, capsys, monkeypatch):
    with Server(servers.graded) as server:
        url = server.url
        assert (
            dre_judge("estimate", "pairs.jsonl", "--price", "1,10", url=url) == 0
            and not server.requests
        )
        assert dre_judge("run", "pairs.jsonl", "--price", "1,1", "-o", "out.csv", url=url) == 0
        assert dre_judge("estimate", "pairs.jsonl", url=url) == 0
    out = capsys.readouterr().out
    assert "4 calls to make" in out and "at most 1,024 per reply" in out and "at most $0.05" in out
    assert (
        "4 pairs: 4 ok" in out
        and f"4 calls, $0.0002 spent; store: {work / 's.sqlite'}" in out
        and "0 calls to make" in out
    )
    monkeypatch.setattr(socket.socket, "connect", None)  # from here on nobody is asked
    assert dre_judge("replay", "pairs.jsonl", "-o", "again.jsonl", url=url) == 0
    again = pd.read_json("again.jsonl", lines=True)
    assert list(again["score_llm"]) == list(pd.read_csv("out.csv")["score_llm"]) and len(again) == 4
    assert main(["judge", "status", "--store", "s.sqlite"]) == 0
    assert "ok: 4 (live; $0.0002; 200 tokens in, 40 out)" in capsys.readouterr().out
    assert dre_judge("replay", "pairs.jsonl", "--temperature", "0", url=url) == 2
    assert "replies to 4 pairs are not stored, first own/0" in capsys.readouterr().err


def test_what_a_call_without_a_reply_may_have_cost_is_told_apart(work, capsys):
    """A page in place of a reply may have been billed: 4 replies cost 4 x 60 tokens for certain."""
    page = servers.Answer(b"<html>busy</html>")
    with Server(
        lambda request: page if len(server.requests) == 1 else servers.graded(request)
    ) as server:
        assert dre_judge("run", "pairs.jsonl", "--price", "1,1", url=server.url) == 0
    out = capsys.readouterr().out
    told = re.search(r"5 calls, \$0\.0002 spent, and at most \$(\S+) more for calls without", out)
    assert 0.001 < float(told[1]) < 0.01  # 1,024 tokens of a reply and the prompt
    assert main(["judge", "status", "--store", "s.sqlite"]) == 0
    out = capsys.readouterr().out
    assert f"unanswered: 1 (live; at most ${told[1]}; " in out
    assert "ok: 4 (live; $0.0002; " in out
    # Replies that are stored already are not in the accounts of another run.
    assert dre_judge("run", "pairs.jsonl", "--price", "1,1", url=server.url) == 0
    assert "0 calls, $0.0000 spent; store" in capsys.readouterr().out


def test_a_server_of_ones_own_is_asked_for_the_first_pairs_to_say_how_long_all_take(work, capsys):
    (work / "many.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pairs(25)))
    with Server(servers.graded) as server:
        assert (
            dre_judge("estimate", "many.jsonl", url=server.url) == 0 and len(server.requests) == 10
        )
        out = capsys.readouterr().out
        assert "25 calls to make" in out and "10 pairs: 10 ok" in out
        assert re.search(
            r"10 calls, now stored, took \d+ seconds: the other 15 take about \d+ seconds", out
        )
        assert dre_judge("run", "many.jsonl", url=server.url) == 0 and len(server.requests) == 25


FAULTS = {
    "bad.jsonl:2: found [['pair_id', 'x']], expected an object with context": ["bad.jsonl"],
    "twice.jsonl:5: id 'own/0' is line 1's": ["twice.jsonl"],
    "empty.csv: there is no pair (0 bad record(s))": ["empty.csv"],
    "--param 'spec=\"x\"': expected a parameter without an option of its own": [
        "pairs.jsonl",
        "--param",
        'spec="x"',
    ],
    "logprobs is 'x': expected a number above 0": ["pairs.jsonl", "--param", 'logprobs="x"'],
    "timeout is nan: expected a number above 0": ["pairs.jsonl", "--timeout", "nan"],
    "OPENAI_API_KEY is not set": ["pairs.jsonl"],
    "without user name, password": ["pairs.jsonl", "--base-url", "http://user:pass@host"],
    "no price is known": [
        "pairs.jsonl",
        "--max-usd",
        "1",
        "--judge",
        "openai:gpt-5-mini",
        "--base-url",
        "http://h",
    ],
    "would break the count of money": ["pairs.jsonl", "--param", "n=5"],
}


@pytest.mark.parametrize("said", FAULTS)
def test_faults_are_said_before_anything_is_asked(work, capsys, said):
    (work / "bad.jsonl").write_text(
        '{"pair_id": "a", "context": "Hi.", "response": "Ho."}\n[["pair_id", "x"]]\n'
    )
    (work / "empty.csv").write_text("pair_id,context,response\n\n")
    (work / "twice.jsonl").write_text((work / "pairs.jsonl").read_text() * 2)
    assert dre_judge("run", *FAULTS[said]) == 2 and said in capsys.readouterr().err


def batch(path, change=lambda line: line, reply='{"score": 2.5}', model="test-model-2026-01-01"):
    """Answer exported prompts as a batch API does."""
    body, answered = servers.openai(reply, model=model).body, []
    for line in read_jsonl(path):
        answer = {
            "custom_id": line["custom_id"],
            "response": {"status_code": 200, "body": body},
            "error": None,
        }
        answered.append(json.dumps(change(answer)) + "\n")
    path.with_name("replies.jsonl").write_text("".join(answered))


def test_prompts_go_out_and_replies_come_back_at_the_batch_price(work, capsys):
    gpt, served, out = "openai:gpt-4o-mini", "gpt-4o-mini-2024-07-18", work / "prompts.jsonl"
    assert dre_judge("export", "pairs.jsonl", "-o", "prompts.jsonl", judge=gpt) == 0
    lines = read_jsonl(out)
    assert len({line["custom_id"] for line in lines}) == 4 and all(
        len(line["custom_id"]) <= 64 for line in lines
    )
    assert (
        lines[0]["url"] == "/v1/chat/completions"
        and lines[0]["body"]["max_completion_tokens"] == 1024
    )
    changes = iter(
        [{"error": {"message": "no"}}, {"response": {"status_code": 500}}, {"response": None}, {}]
    )
    batch(out, lambda line: line | next(changes), reply="I cannot say.", model=served)
    assert dre_judge("import", "replies.jsonl", "pairs.jsonl", judge=gpt) == 1
    said = capsys.readouterr().out
    assert (
        "1 replies stored, 0 were stored before, 3 requests failed" in said
        and "3 missing, 1 malformed" in said
    )
    assert (
        dre_judge("export", "pairs.jsonl", "-o", "prompts.jsonl", "--retry", "malformed", judge=gpt)
        == 0
    )
    batch(out, model=served)
    for count in (4, 0):
        assert dre_judge("import", "replies.jsonl", "pairs.jsonl", "-o", "out.csv", judge=gpt) == 0
        assert (
            f"{count} replies stored, {4 - count} were stored before, 0 requests failed"
            in capsys.readouterr().out
        )
    table = pd.read_csv("out.csv")
    assert (table["score_llm"] == 2.5).all()
    assert table["cost"].sum() == pytest.approx(4 * (50 * 0.15 + 10 * 0.6) / 2 / 1e6)


@pytest.mark.parametrize(
    "change", [{"custom_id": "x"}, {"response": {"body": {}}}, {"custom_id": "same"}, None]
)
def test_a_file_that_does_not_belong_is_refused_whole(work, change):
    assert dre_judge("export", "pairs.jsonl", "-o", "prompts.jsonl") == 0
    changes = iter([change or {}, {}, {}, change or {}])
    model = "test-model-2026-01-01" if change else "another-model"
    batch(work / "prompts.jsonl", lambda line: line | next(changes), model=model)
    assert (
        dre_judge("import", "replies.jsonl", "pairs.jsonl") == 2
        and Store("s.sqlite").summary() == []
    )


@pytest.fixture
def cases():
    """Six pairs that were recorded and whose texts are ours."""
    records = map(
        json.loads, repository_file("cases.jsonl").read_text(encoding="utf-8").splitlines()[:3]
    )
    rows = [
        (one["id"], n, tuple(one["context"]), said)
        for one in records
        for n, said in enumerate(one["responses"])
    ]
    return pd.DataFrame(
        [
            {"pair_id": f"cases/{i}/{n + 1}", "context": c, "response": said}
            for i, n, c, said in rows
        ]
    )


def test_the_committed_recording_is_a_judge_like_any_other(cases):
    one = dre.judges.open("recorded:claude-2026-11", store="unused", max_usd=1)
    assert list(one.score(cases)["score_llm"]) == [4.6, 4.8, 4.6, 4.6, 4.2, 4.7]
    assert one.score(cases, "dre")["s_inf"].between(0, 1).all()
    new = cases.tail(1).assign(pair_id="x")
    assert list(one.score(pd.concat([cases[:1], new]), ask=False)["status"]) == ["ok", "missing"]
    pytest.raises(DreError, one.score, new).match(
        "lacks prompt llm_only.* for 1 of 1 pairs, first x"
    )
    pytest.raises(DreError, one.score, cases, first=7).match(r"repeats \[7\], for 6 of 6 pairs")


def test_a_recording_answers_for_the_texts_and_the_prompt_it_was_made_with_alone(
    cases, work, capsys
):
    one, spaced = (
        dre.judges.open("recorded:claude-2026-11"),
        cases.assign(response="  " + cases["response"] + "\n"),
    )
    assert one.score(spaced).equals(one.score(cases))
    other = cases.assign(response=["Another reply.", *cases["response"][1:]])
    pytest.raises(DreError, one.score, other).match(
        f"pair {cases['pair_id'][0]} has other texts here"
    )
    pytest.raises(DreError, one.score, cases.drop(columns="context"), ask=False).match(
        "has other texts here"
    )
    built_in = (prompts.FOLDER / "llm_only.txt").read_text(encoding="utf-8")
    for name, text in {
        "same": built_in,
        "scale": built_in.replace("scale: [0.0, 5.0]", "scale: [0, 10]"),
    }.items():
        (work / name).mkdir()
        (work / name / "llm_only.txt").write_text(text)
    assert one.score(cases, "same/llm_only.txt").equals(one.score(cases))
    pytest.raises(DreError, one.score, cases, work / "scale/llm_only.txt").match(
        "prompt llm_only has other words, scales or labels here"
    )
    cases.to_json("cases.jsonl", orient="records", lines=True)
    run = ("cases.jsonl", "--prompt", "scale/llm_only.txt")
    assert dre_judge("run", *run, judge="recorded:claude-2026-11") == 2
    assert (
        main(
            ["score", "cases.jsonl", "-o", "o.csv", *run[1:], "--judge", "recorded:claude-2026-11"]
        )
        == 2
    )
    assert capsys.readouterr().err.count("prompt llm_only has other words") == 2
    recording = repository_file("recorded", "claude-2026-11", "judgements.jsonl").parent
    for file in ("manifest.json", "judgements.jsonl"):  # no hashes
        (work / "mine").mkdir(exist_ok=True)
        (work / "mine" / file).write_bytes((recording / file).read_bytes())
    pytest.raises(DreError, dre.judges.open("recorded:mine").score, cases).match(
        "expected hashes of what"
    )


IN_A_RECORDING = {  # changes of a line -> what is said of it
    "score is 5.5, expected a number from 0 to 5": {"score": 5.5},
    "influence is nan, expected a number from 0 to 1": {"influence": float("nan")},
    "shown is 'a/9', expected a pair of the same set": {"shown": "a/9"},
    "shown is 'b/1', expected a pair of the same set": {"shown": "b/1"},
    "expected a prompt of the manifest and a pair_id, once a repeat": {"pair_id": "a/1"},
    "status is 'odd', expected one of malformed, refused": {"status": "odd"},
}


@pytest.mark.parametrize("said", IN_A_RECORDING)
def test_a_recording_with_a_fault_is_refused_with_file_and_line(said, work):
    lines = [
        {"pair_id": f"{name}/{n}", "prompt": "dre", "score": n, "influence": 0.5}
        for name in "ab"
        for n in (1, 2)
    ]
    lines[1] |= {"shown": "a/1"} | IN_A_RECORDING[said]
    (work / "mine").mkdir()
    (work / "mine/manifest.json").write_text(json.dumps({"prompts": {"dre": {}}, "judgements": 5}))
    path, good, mine = (
        work / "mine/judgements.jsonl",
        lines[:1] + lines[2:],
        f"recorded:{work}/mine",
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    pytest.raises(DreError, dre.judges.open, mine).match(
        re.escape(f"mine/judgements.jsonl:2: {said}")
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in good))
    pytest.raises(DreError, dre.judges.open, mine).match(
        "found 3 judgements, but its manifest says 5"
    )


@pytest.mark.parametrize("provider", list(servers.KEYS))
def test_a_key_is_nowhere_in_what_is_written_and_printed(
    provider, work, capsys, caplog, monkeypatch
):
    canary, spec = "sk-canary-0123456789abcdef", f"{provider}:test-model"
    monkeypatch.setenv(servers.KEYS[provider], canary)
    caplog.set_level(logging.DEBUG)

    bad = servers.error(provider, 400, f"bad request with {canary}")
    good = servers.REPLIES[provider]('{"score": 3}')
    key = ("--key-env", servers.KEYS[provider])
    with Server(lambda request: bad if b"number 1?" in request.raw else good) as server:
        assert (
            dre_judge("run", "pairs.jsonl", "-o", "out.csv", *key, url=server.url, judge=spec) == 1
        )
        assert canary in str(server.requests[0].headers)
        dre_judge("export", "pairs.jsonl", "-o", "prompts.jsonl", url=server.url, judge=spec)
    with Server(
        lambda request: servers.error(provider, 401, f"wrong key {canary}, Bearer 12345678")
    ) as server:
        assert dre_judge("run", "pairs.jsonl", *key, url=server.url, judge=spec) == 2
    said, written = capsys.readouterr(), [path for path in work.rglob("*") if path.is_file()]
    assert len(written) >= 5 and "wrong key [key], [key]" in said.err
    logged = [record.getMessage() for record in caplog.records if record.name.startswith("dre")]
    texts = [
        said.out,
        said.err,
        str(logged),
        *(path.read_bytes().decode("latin-1") for path in written),
    ]
    assert not any(canary in text for text in texts)


@needs_data
def test_a_live_judge_stands_beside_the_recorded_ones_on_the_same_sample(work, capsys):
    """The server answers what the recorded judge said of the pair, once with a reply that cannot be read."""
    sets, claude, prompt = (
        ("personachat-usr", "topicalchat-usr"),
        "claude-2026-11",
        prompts.load("llm_only"),
    )
    replies, samples = {}, []
    for name in sets:
        rows = judge_agreement.draw_sample(name, 15)
        rows["score"] = dre.judges.open(f"recorded:{claude}").score(rows)["score_llm"].to_numpy()
        for row in rows.to_dict("records"):
            replies[prompt.render(row)[-1]["content"]] = json.dumps({"score": row["score"]})
        samples.append(rows)
    replies[next(iter(replies))], samples[0] = "no idea", samples[0][1:]
    with Server(
        lambda request: servers.openai(replies[request.body["messages"][-1]["content"]])
    ) as server:
        options = ["--sets", ",".join(sets), "--n", "30", "--price", "1,1", "-o", "table.csv"]
        assert dre_judge("compare", *options, url=server.url) == 0 and len(server.requests) == 60
    out, table = capsys.readouterr().out, pd.read_csv("table.csv").set_index("judge")
    expected = np.mean([rows["score"].corr(rows["human"], method="spearman") for rows in samples])
    assert table["spearman"][["openai:test-model", claude]].tolist() == pytest.approx(
        [expected] * 2, abs=1e-5
    )
    gap = table.loc["Claude-3-haiku"]
    assert gap["difference"] == pytest.approx(gap["spearman"] - expected, abs=1e-5)
    standard_error = (
        (gap["difference_high"] - gap["difference_low"]) / 2 / 1.96
    )  # which 2.8 of must be 0.05
    assert gap["pairs"] == pytest.approx(29 * (2.8 * standard_error / 0.05) ** 2, rel=0.15)
    assert not judge_agreement.draw_sample(sets[0], 15, seed=1).index.equals(
        judge_agreement.draw_sample(sets[0], 15).index
    )
    assert "29 of 30 pairs" in out and "replies): 1.00" in out and "without a score: 3.3%" in out
    assert "dollars per 1,000 replies: 0.06" in out and "60 calls, $0.0036" in out
    machine = [
        rows[~rows["system"].isin(["Original Ground Truth", "New Human Generated"])]
        for rows in samples
    ]
    expected = np.mean([rows["score"].corr(rows["human"], method="spearman") for rows in machine])
    assert table["machine"][claude] == pytest.approx(expected, abs=1e-5)
    inside = [
        rows[["score", "human"]] - rows.groupby("system")[["score", "human"]].transform("mean")
        for rows in samples
    ]
    expected = np.mean([rows["score"].corr(rows["human"], method="spearman") for rows in inside])
    assert table["within"][claude] == pytest.approx(expected, abs=1e-5)


def test_a_judge_is_tried_on_ones_own_ratings(work, capsys):
    rng = np.random.default_rng(0)
    rated = [(c, system, rng.normal(system == "a")) for c in range(40) for system in "ab"]
    rated = pd.DataFrame(rated, columns=["c", "system", "human"]).assign(
        response=lambda t: t["system"] + t.index.astype(str)
    )
    rated["context"] = [[f"turn {c}"] for c in rated["c"]]
    rated.to_json("mine.jsonl", orient="records", lines=True)
    score = (rated["human"].round(1) + 2.5 + rng.normal(0, 0.3, 80)).clip(0, 5)
    replies = dict(zip(rated["response"], score))

    def answer(request):
        text = request.body["messages"][-1]["content"]
        return servers.openai(
            json.dumps(
                {"score": next(replies[r] for r in reversed(replies) if f"{r}\n" in f"{text}\n")}
            )
        )

    with Server(answer) as server:
        options = ("compare", "--rated", "mine.jsonl", "--n", "80", "--repeats", "1")
        assert dre_judge(*options, "--json", url=server.url) == 0
        found = json.loads(capsys.readouterr().out)
        assert dre_judge(*options, "--sets", "fed-turn", url=server.url) == 2
        rated.assign(human="good").to_json("mine.jsonl", orient="records", lines=True)
        assert dre_judge(*options, url=server.url) == 2 and len(server.requests) == 80
    assert "mine.jsonl:1: human is 'good': expected a number, a list" in capsys.readouterr().err
    (row,) = found["agreement"]
    assert (
        row["spearman"] == pytest.approx(score.corr(rated["human"], method="spearman"))
        and "machine" not in row
    )
    gaps = score - score.groupby(rated["system"]).transform("mean")
    sd = (gaps[rated["system"] == "a"].to_numpy() - gaps[rated["system"] == "b"].to_numpy()).std(
        ddof=1
    )
    assert found["contexts"]["0.2"] == np.ceil((2.8 * sd / 0.2) ** 2) and found["tokens"] > 0
    assert found["level_low"] <= found["level"] <= found["level_high"] and found["retest"] is None


@needs_data
def test_a_judge_that_always_says_the_same_gets_its_row_and_a_reason(work, capsys):
    with Server(lambda request: servers.openai('{"score": 2.5}')) as server:
        options = [
            "--sets",
            "personachat-usr,topicalchat-usr",
            "--n",
            "18",
            "--repeats",
            "1",
            "-o",
            "t.csv",
        ]
        assert dre_judge("compare", *options, url=server.url) == 0
        assert dre_judge("compare", *options, url=server.url) == 2  # which would write over it
    said, table = capsys.readouterr(), pd.read_csv("t.csv").set_index("judge")
    assert "| openai:test-model | — | — | — |" in said.out and "t.csv is there" in said.err
    assert (
        "openai:test-model gave every pair of topicalchat-usr the score 2.5, which correlates"
        in said.out
    )
    assert table.loc["claude-2026-11", "spearman"] > 0.5 and table["difference"].isna().all()
    assert "contexts that show a difference of 0.05: unknown" in said.out
    assert "contexts that show a difference of 0.2: unknown" in said.out


@needs_data
def test_a_passport_sets_recorded_judges_on_all_their_pairs_beside_the_sample(work, capsys):
    options = ["--repeats", "1", "--json"]
    assert dre_judge("compare", *options, judge="recorded:claude-2026-11") == 0
    passport = json.loads(capsys.readouterr().out)
    judges = [row["judge"] for row in passport["agreement"]]
    assert judges[:2] == ["recorded:claude-2026-11", "Claude-3-haiku"]
    assert "claude-2026-11" not in judges  # the judge asked has one row
    claude, haiku = passport["agreement"][:2]

    # What notebook 08 measures on all pairs of these three sets.
    assert haiku["all_pairs"] == pytest.approx(0.501, abs=0.001)
    assert haiku["spearman"] == pytest.approx(0.66, abs=0.005)  # of the sample: too high by chance
    assert haiku["all_pairs_low"] < haiku["all_pairs"] < haiku["all_pairs_high"] < 0.57
    assert claude["all_pairs"] == pytest.approx(0.759, abs=0.005)

    # 120 pairs move a correlation by 0.15, which is said below the table.
    assert 0.1 < passport["draws_differ_by"] < 0.2
    assert dre_judge("compare", *options[:2], judge="recorded:claude-2026-11") == 0
    assert "note: with 120 pairs drawn at random, a recorded judge's" in capsys.readouterr().out


def write_own_ratings(path):
    """Write 12 pairs with ids, each rated by two or three people."""
    records = []
    for i in range(12):
        ratings = [i, i + 1] if i % 2 else [i, i + 1, i + 2]
        records.append(
            {
                "id": f"mine-{i}",
                "context": ["How was it?", f"It was number {i}."],
                "response": f"I like number {i}.",
                "system": "ab"[i % 2],
                "human": ratings,
            }
        )
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return records


def test_all_calls_of_a_passport_are_estimated_and_another_model_is_noted_once(work, capsys):
    write_own_ratings(work / "mine.jsonl")

    def answer(request):
        text = request.body["messages"][-1]["content"]
        score = float(re.search(r"I like number (\d+)", text)[1]) / 5 if "I like" in text else 1.0
        return servers.openai(json.dumps({"score": score}), model="another-model")

    with Server(answer) as server:
        options = ("compare", "--rated", "mine.jsonl", "--audit", "--price", "1,1")
        assert dre_judge(*options, url=server.url) == 0
        printed = capsys.readouterr()
        assert dre_judge(*options, "--repeats", "3", url=server.url) == 0
        printed_again = capsys.readouterr()
        audit_pairs = len(kinds.tables(kinds.corpus())[1])
        assert len(server.requests) == 3 * 12 + audit_pairs
    calls = 2 * 12 + audit_pairs
    assert f"12 rated pairs, each asked for 2 times, and {audit_pairs} pairs" in printed.err
    assert f"{calls:,} calls to make" in printed.err
    assert "each asked for 3 times" in printed_again.err
    assert "\n12 calls to make" in printed_again.err  # the others are stored
    assert printed.err.count("openai:test-model was asked, and another-model answered") == 1
    assert printed.out.endswith("|\n") or printed.out.endswith(".\n")
    assert not printed.out.endswith("\n\n")


def test_a_ceiling_holds_for_a_passport_as_a_whole(work, capsys):
    """A run of 12 pairs costs $0.0007 and may cost $0.0024 more: two runs and the audit do not fit."""
    write_own_ratings(work / "mine.jsonl")
    with Server(lambda request: servers.openai('{"score": 1}')) as server:
        options = ("compare", "--rated", "mine.jsonl", "--audit", "--price", "1,1")
        assert dre_judge(*options, "--max-usd", "0.0032", url=server.url) == 1
        printed = capsys.readouterr()
        assert 12 < len(server.requests) < 36
        assert f"asked now: {len(server.requests)} calls, $0.00" in printed.out
        assert "stopped (budget); what was answered is stored" in printed.err

        # The same command with more money asks for the rest, and counts the audit's calls, too.
        before = len(server.requests)
        assert dre_judge(*options, "--max-usd", "1", url=server.url) == 0
        now = len(server.requests) - before
        assert f"asked now: {now} calls, " in capsys.readouterr().out


def test_a_judge_that_gives_no_score_at_all_gets_a_passport_that_says_so(work, capsys):
    write_own_ratings(work / "mine.jsonl")
    with Server(lambda request: servers.openai("I cannot say.")) as server:
        assert dre_judge("compare", "--rated", "mine.jsonl", url=server.url) == 0
    out = capsys.readouterr().out
    assert "0 of 12 pairs" in out and "| openai:test-model | — |" in out
    assert "replies without a score: 100.0%" in out
    assert out.count("unknown") >= 4 and "nan" not in out


def test_ones_own_ratings_may_be_lists_and_have_ids(work, capsys):
    records = write_own_ratings(work / "mine.jsonl")
    scores = [0.5, 0.1, 1.5, 1.2, 2.0, 1.0, 2.5, 3.0, 3.5, 3.2, 4.0, 5.0]
    with Server(
        lambda request: servers.openai(
            json.dumps(
                {"score": scores[int(re.search(r"I like number (\d+)", request.raw.decode())[1])]}
            )
        )
    ) as server:
        options = ("compare", "--rated", "mine.jsonl", "--json", "--repeats", "1")
        assert dre_judge(*options, url=server.url) == 0
    passport = json.loads(capsys.readouterr().out)
    (row,) = passport["agreement"]
    human = pd.Series([np.mean(record["human"]) for record in records])
    assert row["spearman"] == pytest.approx(human.corr(pd.Series(scores), method="spearman"))
    assert passport["pairs"] == "12 of 12"
    assert "all_pairs" not in row and passport["draws_differ_by"] is None


def test_what_was_not_asked_or_is_not_a_batch_is_said(work, cases, capsys):
    cases.to_json("cases.jsonl", orient="records", lines=True)
    recorded = {"judge": "recorded:claude-2026-11"}
    assert dre_judge("run", "cases.jsonl", "--max-usd", "1", **recorded) == 0
    said = capsys.readouterr()
    assert "6 pairs: 6 ok" in said.out and "no table was written: give -o FILE.csv" in said.out
    assert "is a recording, for which --max-usd does nothing" in said.err
    assert (
        dre_judge("show", "cases/creative-1/2", "cases.jsonl", "--prompt", "dre", **recorded) == 0
    )
    assert (
        "slot s" in (said := capsys.readouterr().out)
        and "status: ok\nscore_llm: " in said
        and "s_inf: " in said
    )
    assert dre_judge("run", "pairs.jsonl", **recorded) == 2
    said = capsys.readouterr()
    assert "0 calls to make" not in said.out and "for 4 of 4 pairs" in said.err
    for action in ("export", "import"):
        words = (["replies.jsonl"] if action == "import" else []) + ["pairs.jsonl", "-o", "p.jsonl"]
        assert dre_judge(action, *words, **recorded) == 2
        assert "is a recording, which takes and gives no batch" in capsys.readouterr().err


RUN = ["--judge", "openai:m", "--store", "s.sqlite", "-o"]
OUTPUTS = {  # command -> the ending of what it writes
    ("judge", "run", "in.jsonl", *RUN): ".jsonl",
    ("judge", "export", "in.jsonl", *RUN): ".jsonl",
    ("augment", "generate", "in.jsonl", *RUN): ".jsonl",
    ("judge", "compare", *RUN): ".csv",
    ("score", "in.jsonl", "--judge", "openai:m", "-o"): ".jsonl",
}


@pytest.mark.parametrize("command", OUTPUTS, ids=lambda words: " ".join(words[:2]))
def test_nothing_is_written_over_an_input_or_what_someone_else_wrote(command, work, capsys):
    given = "".join(json.dumps({"id": row["pair_id"]} | row) + "\n" for row in pairs(2))
    (work / "in.jsonl").write_text(given)
    precious = f"keep{OUTPUTS[command]}"
    (work / precious).write_text("precious")
    faults = {precious: "nothing says that this command made it: name another file, delete it, or"}
    faults |= {"in.jsonl": "in.jsonl is an input: name another"} if "in.jsonl" in command else {}
    faults |= {
        "a.txt": "expected a name that ends in",
        f"none/a{OUTPUTS[command]}": "in a folder that can be written to",
    }
    for path, said in faults.items():
        assert main([*command, path]) == 2 and said in capsys.readouterr().err
    assert (work / precious).read_text() == "precious" and (work / "in.jsonl").read_text() == given
