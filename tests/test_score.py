"""``dre score`` and ``dre calibrate`` as a user runs them, and the metric from Python."""

import json
import re
from pathlib import Path

import judge_servers as servers
import numpy as np
import pandas as pd
import pytest
import tiny
import torch

from dre import DRE, fusion
from dre.calibrated import Calibrated
from dre.cli import main
from dre.dialogues import load
from dre.errors import DreError
from dre.score import api, io
from dre.slm import SLM, recipes

RECORDED = ("--judge", "recorded:claude-2026-11")
CONTEXTS = [["Do you like tea?"], "Where is the train?\nIt is late."]
RESPONSES = ["Only with milk.", "Then we walk."]


def saved_slm(folder, threshold=None):
    """The folder of an untrained SLM of the tiny encoder that is calibrated: enough to score."""
    torch.manual_seed(1)
    model = SLM.untrained(tiny.encoder(folder), recipes.get("paper"))
    model.provenance |= {"fingerprint": "f" * 64, "seed": 3, "encoder": "tiny"}
    model.calibrate(load("mini", "dev"))
    if threshold:
        model.set_threshold(threshold)
    model.save(folder / "slm")
    return folder / "slm"


def records(n, systems=("alpha", "beta")):
    """Records of n contexts, each another, with a response of every system."""
    contexts, found = load("mini", "train") + load("mini", "test"), []
    for i in range(n):
        context = contexts[i % len(contexts)]
        turns = [*context.turns[:-1], f"{context.turns[-1]} I am at {i}."]
        for j, system in enumerate(systems):
            response = f"{(context.positives + context.adversarials)[(i + j) % 10]} That was number {i}."
            found.append({"id": f"c{i}", "system": system, "context": turns, "response": response})
    return found


def rated_records(contexts):
    """Responses with a rating each, high for positives, by two raters."""
    return [
        {"id": one.pair_id(kind, i), "context": list(one.turns), "response": response}
        | {"human": [rating, rating + (number + i) % 2]}
        for number, one in enumerate(contexts)
        for kind, rating in (("p", 4), ("a", 2))
        for i, response in enumerate(one.responses(kind))
    ]


def write(rows, path):
    """Write records as JSON Lines, CSV (turns on lines of a cell) or Parquet, by the ending."""
    table = pd.DataFrame(rows)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".parquet":
        table.to_parquet(path)
    else:
        table.assign(context=table["context"].map("\n".join)).to_csv(path, index=False)
    return path


def read(path):
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    return pd.read_json(path, lines=True) if path.suffix == ".jsonl" else pd.read_csv(path)


def dre(*words):
    return main([str(word) for word in words])


@pytest.fixture(scope="module")
def slm(tmp_path_factory):
    return saved_slm(tmp_path_factory.mktemp("score"))


@pytest.fixture
def given(tmp_path):
    return write(records(12), tmp_path / "in.jsonl")


@pytest.fixture
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")


def judge(server, tmp_path, method="non_dre"):
    return ("--method", method, "--judge", "openai:m", "--base-url", server.url, "--store", tmp_path / "s.sqlite")


# --- files in and out


def test_every_form_gives_the_scores_of_the_model(slm, tmp_path, capsys):
    rows, tables = records(12), []
    for ending in (".jsonl", ".csv", ".parquet"):
        output = tmp_path / f"out{ending}"
        given = write([row | {"answer": row["response"]} for row in rows], tmp_path / f"in{ending}")
        assert dre("score", given, "-o", output, "--slm", slm, "--field", "response=answer") == 0
        said = capsys.readouterr().out
        assert said.startswith("dre:slm|model:ffffffffffff|recipe:paper|seed:3|encoder:tiny|data:")
        assert "Difference a - b" in said and "24 scores written" in said
        tables.append(read(output))
    expected = SLM.load(slm).score(pd.DataFrame(rows).assign(pair_id=range(24)))
    for table in tables:
        assert list(table.columns) == api.COLUMNS.split() and set(table["status"]) == {"ok"}
        assert list(table["id"]) == [row["id"] for row in rows] and list(table["system"]) == ["alpha", "beta"] * 12
        for name in ("distance", "s_d", "s_p", "score_slm"):
            np.testing.assert_allclose(table[name], expected[name], atol=1e-5)
    summary, means = json.loads((tmp_path / "out.csv.summary.json").read_text()), tables[0].groupby("system")["score"]
    assert {row["system"]: row["score"] for row in summary["systems"]} == pytest.approx(means.mean().to_dict())
    assert summary["contexts"] == 12 and not list(tmp_path.glob("*.part"))


def test_a_finished_run_is_shown_again_and_never_written_over(slm, given, tmp_path, capsys):
    run, output = ("score", given, "-o", tmp_path / "o.csv", "--slm", slm), tmp_path / "o.csv"
    assert dre(*run) == 0
    said, before = capsys.readouterr().out, output.stat().st_mtime_ns
    assert dre(*run) == 0
    assert output.stat().st_mtime_ns == before and capsys.readouterr().out == said
    assert dre("score", write(records(3), tmp_path / "b.jsonl"), *run[2:]) == 2
    assert "o.csv is of another run ({'signature': 'dre:slm|" in capsys.readouterr().err
    (tmp_path / "mine.csv").write_text("precious")
    assert dre("score", given, "-o", tmp_path / "mine.csv", "--slm", slm) == 2
    assert (tmp_path / "mine.csv").read_text() == "precious"


def test_a_bad_line_stops_the_run_or_is_set_aside_and_counted(slm, tmp_path, capsys):
    rows, holed = records(4), tmp_path / "holed.jsonl"
    lines = [json.dumps(row) for row in rows]
    lines[1:1] = ["{torn", json.dumps(rows[0] | {"response": ""}), json.dumps(rows[0])]
    holed.write_text("\n".join(lines))
    run, output = ("score", holed, "-o", tmp_path / "o.csv", "--slm", slm), tmp_path / "o.csv"
    assert dre(*run) == 2
    said = capsys.readouterr().err
    assert f"error: {holed}:2: no record: expected one JSON object per line" in said and "--skip-bad" in said
    assert [path.name for path in tmp_path.iterdir()] == ["holed.jsonl"]
    assert dre(*run, "--skip-bad") == 0
    assert "3 bad record(s) not scored" in capsys.readouterr().err
    aside = [json.loads(line) for line in Path(f"{output}.bad.jsonl").read_text().splitlines()]
    assert [one["line"] for one in aside] == [2, 3, 4] and aside[0]["content"] == "{torn"
    assert aside[1]["reason"].startswith("response is ''") and "id 'c0' is line 1's" in aside[2]["reason"]
    assert list(read(output)["line"]) == [1, 5, 6, 7, 8, 9, 10, 11]


def test_a_bad_line_is_named_and_the_next_is_read(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '\ufeff{"context": "a", "response": "b"}\n[1, 2]\r\n\r\n{"context": "a"}\n{"context": "a", "response": 5}\n'
        '{"context": "a", "response": "half \\ud83d"}\n{"context": ["a", null], "response": "a"}\n'
        '{"context": ["", " "], "response": "a"}\n{"context": "a", "response": "a", "id": [1]}\n'
    )
    pairs, bad = io.pairs(io.records(tmp_path / "a.jsonl"))
    reasons = ["no record", "response is None: expected a text; --field response=NAME", "response is 5"]
    reasons += [
        "response is 'h",
        "context is ('a', None): expected turns, oldest first",
        "context is ('', ' ')",
        "id is [1]",
    ]
    assert list(pairs["line"]) == [1] and [one["line"] for one in bad] == [2, *range(4, 10)]
    assert [one["reason"][: len(reason)] for one, reason in zip(bad, reasons, strict=True)] == reasons
    # a line of CSV is where a record begins
    (tmp_path / "a.csv").write_text('context,response\n"two\nlines",ok\na\na,b,c\na,\nx,y\n')
    pairs, bad = io.pairs(io.records(tmp_path / "a.csv"))
    assert [one["line"] for one in bad] == [4, 5, 6] and list(pairs["response"]) == ["ok", "y"]


def test_contexts_are_lists_lists_written_out_or_one_turn_per_line():
    turns = ("Hi there.", 'It\'s me, "Bo".')
    for value in (turns, "\n".join(turns), "\r\n\r\n".join(turns), str(list(turns)), np.array(turns)):
        assert io.turns_of(value) == turns
    assert io.turns_of("[laughs] Hi there.") == ("[laughs] Hi there.",) and io.turns_of("[1, 2]") == ("[1, 2]",)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--method", "best", "--slm", "x"], "method is 'best': expected one of slm, slide, ex_dre, in_dre, dre"),
        ([], "method slm needs --slm: give --slm"),
        (["--slm", "x", "--judge", "openai:m"], "method slm needs --slm: leave --judge out"),
        (["--method", "dre", "--slm", "x", "--judge", "openai:m"], "give --accuracies"),
        (["--slm", "x", "--accuracies", "88,98"], r"expected those of SLM and LLM in \[0, 1\]"),
        (["--slm", "x", "--field", "answer=x"], "expected NAME=COLUMN with one of context, response"),
        (["--slm", "./none"], "0 SLMs are named './none'"),
        (["--method", "non_dre", *RECORDED, "--bf16"], "leave --bf16 out"),
        (["--slm", "x", "-o", "o.xlsx"], "ends in .jsonl, .csv, .parquet"),
        (["--slm", "x", "-o", "no/o.csv"], "in a folder that can be written to"),
    ],
)
def test_settings_that_do_not_fit_are_one_sentence(given, tmp_path, capsys, more, message):
    assert dre("score", given, "-o", tmp_path / "o.csv", *more) == 2
    assert re.search(message, capsys.readouterr().err)


def test_files_that_cannot_be_read_are_one_sentence(tmp_path, capsys):
    (tmp_path / "bad.csv").write_bytes(b"context,response\na,\xff")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    (tmp_path / "empty.jsonl").write_text("\n")
    expected = {"no.jsonl": "No such file", "a.txt": "name ends in", "bad.parquet": "bad.parquet: cannot be read ("}
    for name, message in (expected | {"bad.csv": "bad.csv:2: not UTF-8", "empty.jsonl": "no pair to score"}).items():
        assert dre("score", tmp_path / name, "-o", tmp_path / "o.csv", "--slm", "any") == 2
        assert message in capsys.readouterr().err


def test_a_threshold_accepts_bfloat16_moves_scores_a_little_and_a_cut_response_is_said(
    tmp_path, given, monkeypatch, capsys
):
    slm = saved_slm(tmp_path, threshold=0.8)
    for name, more in (("exact", ()), ("half", ("--bf16",))):
        monkeypatch.setattr(api, "native_bf16", lambda: True)
        assert dre("score", given, "-o", tmp_path / f"{name}.parquet", "--slm", slm, *more) == 0
        assert ("|encoder:tiny|precision:bf16|data:" in capsys.readouterr().out) == (name == "half")
    exact, half = (read(tmp_path / f"{name}.parquet") for name in ("exact", "half"))
    assert exact["accepted"].equals(exact["score_slm"] >= 0.8)
    assert 1e-6 < (half["score"] - exact["score"]).abs().max() < 0.1
    long = write([{"context": ["Hi."], "response": text} for text in ("!" * 127, "Yes.")], tmp_path / "long.jsonl")
    assert dre("score", long, "-o", tmp_path / "long.csv", "--slm", slm) == 0
    assert "1 responses are longer than the encoder reads" in capsys.readouterr().err
    assert read(tmp_path / "long.csv")["reason"].notna().tolist() == [True, False]
    monkeypatch.setattr(api, "native_bf16", lambda: False)
    assert dre("score", given, "-o", tmp_path / "o.csv", "--slm", slm, "--bf16") == 2
    assert "does not multiply bfloat16 itself" in capsys.readouterr().err


# --- judges


@pytest.mark.parametrize("method", ["slide", "ex_dre", "in_dre", "dre", "non_dre"])
def test_every_method_is_its_equation(slm, given, tmp_path, key, method):
    def both(request):
        return servers.openai(json.dumps({"score": sum(request.raw) % 51 / 10, "influence": 0.5}))

    more = ["--accuracies", "0.9,0.8", *([] if method == "non_dre" else ["--slm", slm])]
    with servers.Server(both) as server:
        assert dre("score", given, "-o", tmp_path / "o.csv", *judge(server, tmp_path, method), *more) == 0
        bodies = [request.raw.decode() for request in server.requests]
    table = read(tmp_path / "o.csv")
    small, llm = table["score_slm"], table["score_llm"]
    expected = {"slide": fusion.slide(small, llm), "in_dre": llm, "non_dre": llm}
    np.testing.assert_allclose(table["score"], expected.get(method, small * llm))
    assert len(bodies) == 24 and llm.nunique() > 5
    if method in ("in_dre", "dre"):
        assert all("90.0%" in body and "80.0%" in body for body in bodies)
        assert any(f"{table['s_p'][0]:.3f}" in body for body in bodies)


def test_an_interrupted_run_does_not_go_on_with_another_servers_judge(given, tmp_path, key, capsys):
    """A budget ends the first run after a few pairs; another server is then asked for all of them."""

    def scores(number):
        return lambda request: servers.openai(json.dumps({"score": number}), tokens=(1000, 1000))

    with servers.Server(scores(1)) as one, servers.Server(scores(5)) as two:
        run = ("score", given, "-o", tmp_path / "o.csv", "--price", "1,2", "--concurrency", "1")
        assert dre(*run, *judge(one, tmp_path), "--max-usd", "0.05") == 1
        assert "stopped before $0.05 would be passed" in capsys.readouterr().err
        assert 0 < len(one.requests) < 24 and not (tmp_path / "o.csv").exists()
        assert dre(*run, *judge(two, tmp_path)) == 0
        assert set(read(tmp_path / "o.csv")["score"]) == {5.0} and len(two.requests) == 24
        assert dre(*run, *judge(one, tmp_path)) == 2  # its summary is not shown for the other's
        assert f"base_url={two.url}" in capsys.readouterr().err
        (tmp_path / "o.csv").unlink()
        assert dre(*run, *judge(one, tmp_path)) == 0
        assert set(read(tmp_path / "o.csv")["score"]) == {1.0} and len(one.requests) == 24  # none was asked twice


def test_replies_without_a_score_are_counted_and_without_any_nothing_is_written(slm, given, tmp_path, key, capsys):
    def some(request):
        if "response_format" not in request.body:  # an old model
            return servers.error("openai", 400, "no prompt for me")
        return servers.openai("no idea" if sum(request.raw) % 3 == 0 else '{"score": 3}')

    with servers.Server(some) as server:
        run = ("score", given, "-o", tmp_path / "o.csv", "--slm", slm, *judge(server, tmp_path, "ex_dre"))
        assert dre(*run) == 0
        few = write(records(2), tmp_path / "few.jsonl")
        assert dre("score", few, "-o", tmp_path / "none.csv", *judge(server, tmp_path), "--plain") == 1
    table, said = read(tmp_path / "o.csv"), capsys.readouterr()
    assert "nothing was written: 4 pairs have no score: the judge's reply is error (HTTP 400" in said.err
    assert not list(tmp_path.glob("none.csv*"))
    bad = table["status"] == "malformed"
    assert 0 < bad.sum() < 24 and table["score"].isna().equals(bad) and table["reason"][bad].notna().all()
    assert f"{bad.sum()} pairs have no score: the judge's reply is malformed (" in said.err


def test_a_recording_answers_by_id(slm, tmp_path, capsys):
    rows = rated_records(load("mini", "test")[:1])
    more = (*RECORDED, "--method", "slide", "--slm", slm)
    assert dre("score", write(rows, tmp_path / "in.jsonl"), "-o", tmp_path / "o.csv", *more) == 0
    assert "|judge:recorded:claude-2026-11 " in capsys.readouterr().out
    assert read(tmp_path / "o.csv")["case"].isin(["slm", "llm", "mean"]).all()
    rows[0]["id"] = "unknown"
    assert dre("score", write(rows, tmp_path / "b.jsonl"), "-o", tmp_path / "b.csv", *more) == 2
    assert "for 1 of 10 pairs" in capsys.readouterr().err


# --- from Python


def test_score_and_compute(slm):
    metric = DRE.load(slm)
    table = metric.score(CONTEXTS, RESPONSES, systems=["a", "b"])
    assert list(table["id"]) == ["0", "1"] and list(table["system"]) == ["a", "b"] and "line" not in table
    found = metric.compute(predictions=RESPONSES, references=["Yes.", "No."], contexts=CONTEXTS)
    assert found["scores"] == pytest.approx(table["score"].tolist())
    assert found["score"] == pytest.approx(sum(found["scores"]) / 2) and found["n_missing"] == 0
    assert metric.compute(predictions=RESPONSES[::-1], contexts=CONTEXTS)["signature"] != found["signature"]
    json.dumps(found)
    for contexts, responses, message in (
        (CONTEXTS, RESPONSES[:1], r"sequences of lengths \[1, 2\]"),
        ([], [], "one pair at least"),
        (CONTEXTS, ["fine", ""], "pair 1: response is ''"),
        ([["Hi."], 5], RESPONSES, "pair 1: context is 5: expected turns"),
    ):
        with pytest.raises(DreError, match=message):
            metric.score(contexts, responses)


def test_a_model_is_found_by_the_beginning_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(api, "REPOSITORY", tmp_path)
    for name in ("mini/models/m-seed0-aaaa", "mini/models/m-seed1-bbbb", "public/models/dd-seed0-cccc"):
        (tmp_path / "build" / name).mkdir(parents=True)
        (tmp_path / "build" / name / "slm.json").write_text("{}")
    assert api.find("dd-").name == "dd-seed0-cccc" and api.find("m-seed1").name == "m-seed1-bbbb"
    assert api.find(tmp_path) == tmp_path and api.find("owner/name") == "owner/name"
    with pytest.raises(DreError, match=r"2 SLMs are named 'm'.*: m-seed0-aaaa \(mini\), m-seed1-bbbb \(mini\)"):
        api.find("m")


# --- a fusion that is learned


@pytest.fixture(scope="module")
def sets(slm, tmp_path_factory):
    """Two rated files with the scores that dre score made of them."""
    folder, contexts, made = tmp_path_factory.mktemp("sets"), load("mini", "test")[:8], []
    for name, part, ending in (("one", contexts[:4], "csv"), ("two", contexts[4:], "parquet")):
        source, scores = write(rated_records(part), folder / f"{name}.jsonl"), folder / f"{name}-scores.{ending}"
        assert dre("score", source, "-o", scores, "--slm", slm, "--method", "ex_dre", *RECORDED) == 0
        made.append((source, scores))
    return made


def test_a_fusion_is_learned_measured_and_used_and_held_to_its_model(slm, sets, tmp_path, capsys):
    file, (source, scores) = tmp_path / "fusion.json", sets[0]
    assert dre("calibrate", "--set", *sets[0], "--set", *sets[1], "-o", file) == 0
    said, learned = capsys.readouterr().out, Calibrated.load(file)
    assert f"weight {learned.weight:.2f} (0: the judge alone, 1: the SLM alone), learned from 80 rated pairs" in said
    assert "one.jsonl" in said and "two.jsonl" in said and learned.made_with["model"] == "f" * 12
    for i in (0, 1):  # each set is measured with what the other says
        assert dre("calibrate", "--set", *sets[1 - i], "-o", tmp_path / f"{i}.json") == 0
        row = next(line for line in said.splitlines() if str(sets[i][0]) in line)
        assert f"| {Calibrated.load(tmp_path / f'{i}.json').weight:.4f} |" in row
    run = ("score", source, "-o", tmp_path / "fused.jsonl", "--slm", slm, *RECORDED, "--method", "calibrated")
    capsys.readouterr()
    assert dre(*run, "--fusion", file) == 0
    assert f"|fusion:{learned.sha256[:12]}|data:" in capsys.readouterr().out
    fused, before, w = read(tmp_path / "fused.jsonl"), read(scores), learned.weight
    np.testing.assert_allclose(fused["z_slm"], learned.slm(before["score_slm"]), atol=1e-5)
    np.testing.assert_allclose(fused["score"], (1 - w) * fused["z_llm"] + w * fused["z_slm"], atol=1e-9)
    Calibrated(**(learned.__dict__ | {"made_with": learned.made_with | {"model": "e" * 12}})).save(file)
    assert dre(*run[:3], tmp_path / "other.csv", *run[4:], "--fusion", file) == 2
    assert "was learned with model eeeeeeeeeeee, not with ffff" in capsys.readouterr().err


def test_what_cannot_be_learned_from_is_one_sentence(sets, tmp_path, capsys):
    (source, scores), other = sets[0], tmp_path / "other.csv"
    other.write_text(scores.read_text())
    summary = Path(f"{scores}.summary.json").read_text().replace("model:ffffffffffff", "model:eeeeeeeeeeee")
    Path(f"{other}.summary.json").write_text(summary)
    for more, message in (
        ((sets[1][0], scores), "one-scores.csv was made by method ex_dre from data"),
        ((source, tmp_path / "no.csv"), "no.csv: expected the rated file, and the summary"),
        ((source, scores, "--human", "stars"), "0 pairs have both scores and a rating 'stars'"),
        ((source, scores, "--human", "response"), ":1: response is '"),
        ((source, scores, "--set", source, other), "scored with different models"),
    ):
        assert dre("calibrate", "--set", *more, "-o", tmp_path / "f.json") == 2
        assert message in capsys.readouterr().err and not (tmp_path / "f.json").exists()
