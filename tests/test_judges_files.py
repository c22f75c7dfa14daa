"""Prompts out, replies in, and recorded runs as folders."""

import json
import re
import socket

import judge_servers as servers
import pytest

from dre import judges
from dre.errors import DreError
from dre.judges import files, recording
from dre.judges.store import Store

SAME = ["pair_id", "score_llm", "s_inf", "label", "status", "n_samples", "n_ok", "mode"]


def outside(n=4, model="an-engine", prompt="llm_only", **options):
    judge = judges.open(f"files:{model}", store=":memory:", **options)
    return judge, judge.plan(servers.pairs(n), prompt)


def answered(path, model="an-engine", text='{"score": 3.5}'):
    """Replies to exported prompts in the form of a batch's output, in another order."""
    lines = []
    for line in path.read_text().splitlines():
        body = servers.openai(text, model=model).body
        response = {"status_code": 200, "request_id": "r", "body": body}
        lines.append({"id": "x", "custom_id": json.loads(line)["custom_id"], "response": response, "error": None})
    return lines[::-1]


def write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def exported(tmp_path):
    judge, plan = outside()
    files.export(plan, tmp_path / "out.jsonl")
    return judge, plan, tmp_path / "out.jsonl"


def test_prompts_have_the_form_of_the_batch_api(exported):
    _, plan, path = exported
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 4 and len({line["custom_id"] for line in lines}) == 4
    for line in lines:
        assert set(line) == {"custom_id", "method", "url", "body"}
        assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", line["custom_id"])
        assert line["body"]["model"] == "an-engine" and line["body"]["max_tokens"] == 1024
        assert "ferns by the door" in line["body"]["messages"][-1]["content"]


def test_replies_come_back_by_id(exported, tmp_path):
    judge, plan, path = exported
    replies = write(tmp_path / "in.jsonl", answered(path))
    assert files.import_replies(plan, judge.store, replies) == (4, 0, 0, "")
    assert not plan.missing
    frame = judge.score(servers.pairs(4))
    assert frame["score_llm"].tolist() == [3.5] * 4 and frame["status"].tolist() == ["ok"] * 4


def test_only_what_is_missing_is_exported_and_importing_again_adds_nothing(exported, tmp_path):
    judge, plan, path = exported
    some = answered(path)[:3]
    replies = write(tmp_path / "in.jsonl", some)
    files.import_replies(plan, judge.store, replies)
    again = judge.plan(servers.pairs(4))
    assert files.export(again, path) == 1
    assert files.import_replies(again, judge.store, replies) == (0, 3, 0, "")


def test_repeats_are_requests_of_their_own(tmp_path):
    judge, plan = outside(2, repeats=3)
    assert files.export(plan, tmp_path / "out.jsonl") == 6


def test_failed_requests_stay_missing(exported, tmp_path):
    judge, plan, path = exported
    lines = answered(path)
    lines[0] |= {"response": {"status_code": 500, "body": {}}}
    lines[1] |= {"response": None, "error": {"message": "expired"}}
    assert files.import_replies(plan, judge.store, write(tmp_path / "in.jsonl", lines)) == (2, 0, 2, "")
    assert len(plan.missing) == 2


def test_replies_that_are_no_score_are_stored_as_such(exported, tmp_path):
    judge, plan, path = exported
    files.import_replies(plan, judge.store, write(tmp_path / "in.jsonl", answered(path, text="who knows")))
    assert judge.score(servers.pairs(4))["status"].tolist() == ["malformed"] * 4


def test_anthropics_results_are_read_too(tmp_path):
    judge, plan = outside(2, model="claude-x")
    files.export(plan, tmp_path / "out.jsonl")
    lines = []
    for line in (tmp_path / "out.jsonl").read_text().splitlines():
        message = servers.anthropic('{"score": 2}', model="claude-x").body
        result = {"type": "succeeded", "message": message}
        lines.append({"custom_id": json.loads(line)["custom_id"], "result": result})
    lines[1]["result"] = {"type": "expired"}
    assert files.import_replies(plan, judge.store, write(tmp_path / "in.jsonl", lines))[:3] == (1, 0, 1)


def spoil(lines, what):
    if what == "unknown":
        lines[2]["custom_id"] = lines[2]["custom_id"][:-4] + "beef"
    if what == "prompt":
        lines[2]["custom_id"] = "0123456789abcdef" + lines[2]["custom_id"][16:]
    if what == "duplicate":
        lines.append(lines[0])
    if what == "model":
        lines[2]["response"]["body"]["model"] = "another-engine"
    if what == "form":
        lines[2]["response"]["body"] = {"text": "3.5"}
    return lines


@pytest.mark.parametrize(
    "what, said",
    [
        ("unknown", "in.jsonl:3: custom_id .* is none of these pairs"),
        ("prompt", "in.jsonl:3: a reply to another wording of the prompt"),
        ("duplicate", "in.jsonl:5: custom_id .* was in line 1 already"),
        ("model", "in.jsonl:3: answered by another-engine, but an-engine was asked"),
        ("form", "in.jsonl:3: neither a chat completion nor a message"),
    ],
)
def test_a_file_that_does_not_match_is_refused_whole(exported, tmp_path, what, said):
    judge, plan, path = exported
    replies = write(tmp_path / "in.jsonl", spoil(answered(path), what))
    with pytest.raises(DreError, match=said):
        files.import_replies(plan, judge.store, replies)
    assert judge.store.counts() == []


def test_another_model_or_other_parameters_do_not_match(exported, tmp_path):
    _, _, path = exported
    replies = write(tmp_path / "in.jsonl", answered(path))
    for judge, plan in (outside(model="m2"), outside(max_tokens=5), outside(prompt="coherence")):
        with pytest.raises(DreError, match="none of these pairs|another wording"):
            files.import_replies(plan, judge.store, replies)


@pytest.mark.parametrize(
    "served, fine", [("an-engine-2026-01-01", True), ("org/an-engine", True), ("an-engineer", False)]
)
def test_a_model_may_come_back_with_a_date_or_a_path(exported, tmp_path, served, fine):
    judge, plan, path = exported
    replies = write(tmp_path / "in.jsonl", answered(path, model=served))
    if fine:
        assert files.import_replies(plan, judge.store, replies)[0] == 4
    else:
        with pytest.raises(DreError, match="answered by"):
            files.import_replies(plan, judge.store, replies)


def test_a_torn_tail_is_said_and_kept_aside(exported, tmp_path):
    judge, plan, path = exported
    replies = write(tmp_path / "in.jsonl", answered(path))
    whole = replies.read_bytes()
    replies.write_bytes(whole[:-40])
    stored, _, _, note = files.import_replies(plan, judge.store, replies)
    assert stored == 3 and "in.jsonl:4: the last line is cut off" in note
    assert replies.read_bytes() == whole[:-40]
    assert whole[:-40].endswith((tmp_path / "in.jsonl.cut").read_bytes())


def test_a_broken_line_in_the_middle_is_refused(exported, tmp_path):
    judge, plan, path = exported
    replies = write(tmp_path / "in.jsonl", answered(path))
    lines = replies.read_text().split("\n")
    replies.write_text("\n".join([lines[0], lines[1][:30], *lines[2:]]))
    with pytest.raises(DreError, match="in.jsonl:2: not a JSON object"):
        files.import_replies(plan, judge.store, replies)


def test_an_outside_engine_is_never_called():
    judge, _ = outside()
    with pytest.raises(DreError, match="dre judge export"):
        judge.score(servers.pairs(1))


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """A recording of a live run with one reply that is no score."""
    monkeypatch.setenv("OPENAI_API_KEY", "test-key-0123456789")

    def script(request):
        return servers.openai("no idea") if "The 2 ferns" in request.raw.decode() else servers.graded(request)

    with servers.Server(script) as server:
        judge = judges.open("openai:m", store=tmp_path / "live.sqlite", base_url=server.url, repeats=2)
        frame = judge.score(servers.pairs(5))
    plan = judge.plan(servers.pairs(5))
    assert recording.export(plan, judge.mode, tmp_path / "run") == 10
    return judge, frame, tmp_path / "run"


def test_a_recording_says_what_it_is_and_holds_no_dialogue(recorded):
    judge, _, folder = recorded
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["judge"] == "openai:m" and manifest["repeats"] == 2 and manifest["mode"] == "mean"
    assert manifest["statuses"] == {"ok": 8, "malformed": 2} and manifest["judgements"] == 10
    assert "ferns" not in (folder / "judgements.jsonl").read_text() + (folder / "manifest.json").read_text()


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)


def test_a_recording_replays_without_a_network(recorded, no_network):
    _, frame, folder = recorded
    replayed = judges.open(f"recorded:{folder}").score(servers.pairs(5))
    assert replayed[SAME].equals(frame[SAME])


def test_a_recording_taken_into_a_store_replays_without_a_network(recorded, tmp_path, no_network):
    judge, frame, folder = recorded
    with Store(tmp_path / "other.sqlite") as store:
        assert recording.load(folder, store) == (10, "")
        again = judges.open("openai:m", store=store, base_url=judge.provider.base_url, repeats=2)
        assert again.score(servers.pairs(5)).equals(frame)


def test_the_committed_recording_replays_without_a_network(no_network):
    ids = ["dailydialog-zhao/0", "topicalchat-usr/0/0"]
    judge = judges.open("recorded:claude-2026-11")
    frame = judge.score([{"pair_id": name} for name in ids])
    assert frame["pair_id"].tolist() == ids and frame["status"].tolist() == ["ok", "ok"]
    assert frame["score_llm"].between(0, 5).all()


def test_a_recording_takes_the_options_of_asking_and_no_others():
    assert judges.open("recorded:claude-2026-11", store=":memory:", max_usd=1).spec == "recorded:claude-2026-11"
    with pytest.raises(TypeError, match="temperature"):
        judges.open("recorded:claude-2026-11", temperature=1)


def test_a_miss_is_refused_or_kept_as_missing():
    judge = judges.open("recorded:claude-2026-11")
    rows = [{"pair_id": "dailydialog-zhao/0"}, {"pair_id": "not recorded"}]
    with pytest.raises(DreError, match="not recorded"):
        judge.score(rows)
    frame = judge.score(rows, missing="keep")
    assert frame["status"].tolist() == ["ok", "missing"] and frame["score_llm"].isna().tolist() == [False, True]


def test_an_unfinished_run_is_not_exported(recorded, tmp_path):
    judge, _, _ = recorded
    with pytest.raises(DreError, match="2 judgements are missing"):
        recording.export(judge.plan(servers.pairs(6)), "mean", tmp_path / "more")


def test_a_recording_is_not_written_over(recorded):
    judge, _, folder = recorded
    with pytest.raises(DreError, match="a recording is there already"):
        recording.export(judge.plan(servers.pairs(5)), "mean", folder)


def test_a_torn_recording_is_said_and_a_changed_one_refused(recorded, tmp_path):
    _, _, folder = recorded
    path = folder / "judgements.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    with Store(tmp_path / "torn.sqlite") as store:
        count, note = recording.load(folder, store)
    assert count == 9 and "cut off" in note and path.read_bytes() == whole[:-10]
    path.write_bytes(whole.replace(b'"repeat": 1', b'"repeat": 7', 1))
    with pytest.raises(DreError, match="its sha256 differs"):
        recording.load(folder, Store(":memory:"))


def test_a_recording_without_keys_is_refused_with_what_to_do():
    from dre.data.recorded import RECORDED

    with pytest.raises(DreError, match="replay it with --judge recorded:"):
        recording.load(RECORDED / "claude-2026-11", Store(":memory:"))
