"""``dre score`` as a user runs it: forms, interruptions, bad records, methods, judges."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import judge_servers as servers
import numpy as np
import pandas as pd
import pytest
import scoring_data

from dre.cli import main
from dre.errors import DreError
from dre.scoring import journal
from dre.scoring.run import score_file
from dre.scoring.scorer import COLUMNS, NUMBERS, Settings

TESTS = Path(__file__).parent


@pytest.fixture(scope="module")
def slm(tmp_path_factory):
    return scoring_data.saved(tmp_path_factory.mktemp("scoring"))


@pytest.fixture
def given(tmp_path):
    return scoring_data.write(scoring_data.records(12), tmp_path / "in.jsonl")


def dre(source, output, *more):
    return main(["score", str(source), "-o", str(output), *map(str, more)])


def test_every_form_gives_the_same_scores(slm, tmp_path, capsys):
    rows, tables = scoring_data.records(12), []
    for ending in (".jsonl", ".csv", ".parquet"):
        source = scoring_data.write(rows, tmp_path / f"in{ending}")
        output = tmp_path / f"out-of{ending}"
        assert dre(source, output, "--slm", slm) == 0
        said = capsys.readouterr().out
        assert said.startswith("dre:slm|model:ffffffffffff|recipe:paper|seed:3|encoder:tiny|data:")
        assert "Difference a - b" in said and "24 scores written" in said
        tables.append(scoring_data.read(output))
    for table in tables:
        assert list(table.columns) == list(COLUMNS)
        assert list(table["id"]) == [row["id"] for row in rows] and list(table["system"]) == ["alpha", "beta"] * 12
        np.testing.assert_allclose(table["score"], tables[0]["score"], atol=1e-6)
        np.testing.assert_allclose(table["score"], 1 - table["s_d"] + table["s_p"])
        assert set(table["status"]) == {"ok"}
    assert sorted(p.name for p in tmp_path.iterdir() if "partial" in p.name or "tmp" in p.name) == []


def test_scores_are_those_of_the_model(slm, given, tmp_path):
    from dre.slm.model import SLM

    score_file(given, tmp_path / "o.csv", Settings(str(slm)), block=5)
    rows = [json.loads(line) for line in given.read_text().splitlines()]
    table = pd.DataFrame(rows).assign(pair_id=range(24))
    expected = SLM.load(slm).score(table)
    np.testing.assert_allclose(scoring_data.read(tmp_path / "o.csv")["score"], expected["score_slm"], atol=1e-5)


def test_the_summary_says_what_the_scores_say(slm, given, tmp_path):
    summary = score_file(given, tmp_path / "o.csv", Settings(str(slm)))
    assert summary == json.loads((tmp_path / "o.csv.summary.json").read_text())
    means = scoring_data.read(tmp_path / "o.csv").groupby("system")["score"].mean()
    assert {row["system"]: pytest.approx(row["score"]) for row in summary["systems"]} == means.to_dict()
    assert summary["contexts"] == 12 and summary["comparisons"][0]["n_contexts"] == 12
    row = summary["systems"][0]
    assert row["score_low"] < row["score"] < row["score_high"]


CHILD = """
import sys, time
from dre.scoring.run import score_file
from dre.scoring.scorer import Settings

def slowly(blocks):
    scorer = settings.open()
    for block in blocks:
        time.sleep(0.05)
        yield scorer.score_block(block)

settings = Settings(sys.argv[3])
score_file(sys.argv[1], sys.argv[2], settings, engine=slowly, block=10)
"""


def kill_midway(source, output, slm, rows):
    """Run a scoring in a process of its own and kill it once so many rows are finished."""
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(source), str(output), str(slm)], cwd=TESTS.parent)
    note, end = Path(f"{output}.partial.json"), time.monotonic() + 300
    try:
        while time.monotonic() < end and child.poll() is None:
            if note.exists() and json.loads(note.read_text())["rows"] >= rows:
                break
            time.sleep(0.01)
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    assert child.returncode == -signal.SIGKILL and not output.exists()
    return json.loads(note.read_text())["rows"]


def test_a_killed_run_goes_on_and_loses_and_doubles_nothing(slm, tmp_path):
    source = scoring_data.write(scoring_data.records(300), tmp_path / "in.jsonl")
    output, partial = tmp_path / "o.csv", tmp_path / "o.csv.partial"
    first = kill_midway(source, output, slm, 20)
    with open(partial, "ab") as file:
        file.write(b'{"line": 99999, "torn')  # what a kill inside a write leaves
    assert 20 <= first < 600
    blocks = []

    def counting(found):
        scorer = Settings(str(slm)).open()
        for block in found:
            blocks.append(len(block))
            yield scorer.score_block(block)

    score_file(source, output, Settings(str(slm)), engine=counting)
    assert sum(blocks) == 600 - first
    table = scoring_data.read(output)
    assert list(table["line"]) == list(range(1, 601))
    score_file(source, tmp_path / "whole.csv", Settings(str(slm)))
    whole = scoring_data.read(tmp_path / "whole.csv")
    np.testing.assert_allclose(table[list(NUMBERS)], whole[list(NUMBERS)], atol=1e-5)
    assert not partial.exists()


def test_what_is_there_is_continued_only_for_the_same_input_and_settings(slm, given, tmp_path):
    def breaking(blocks):
        yield Settings(str(slm)).open().score_block(next(iter(blocks)))
        raise KeyboardInterrupt

    output = tmp_path / "o.jsonl"
    with pytest.raises(KeyboardInterrupt):
        score_file(given, output, Settings(str(slm)), engine=breaking, block=10)
    assert not output.exists() and len((tmp_path / "o.jsonl.partial").read_text().splitlines()) == 10
    other = scoring_data.write(scoring_data.records(13), tmp_path / "other.jsonl")
    with pytest.raises(DreError, match=r"o.jsonl.partial belongs to another run \(data:\w+ there, data:\w+ now\)"):
        score_file(other, output, Settings(str(slm)))
    score_file(given, output, Settings(str(slm)))
    assert [row["line"] for row in map(json.loads, output.read_text().splitlines())] == list(range(1, 25))


def test_a_finished_run_is_not_run_again_and_not_written_over(slm, given, tmp_path, capsys):
    output = tmp_path / "o.csv"
    assert dre(given, output, "--slm", slm) == 0
    first, said, before = output.stat(), capsys.readouterr().out, output.read_text()
    assert dre(given, output, "--slm", slm) == 0
    assert output.stat().st_mtime_ns == first.st_mtime_ns and capsys.readouterr().out == said
    assert dre(scoring_data.write(scoring_data.records(3), tmp_path / "b.jsonl"), output, "--slm", slm) == 2
    assert "is of another run" in capsys.readouterr().err and output.read_text() == before
    (tmp_path / "mine.csv").write_text("precious")
    assert dre(given, tmp_path / "mine.csv", "--slm", slm) == 2
    assert (tmp_path / "mine.csv").read_text() == "precious"


def test_two_processes_do_not_write_one_output(tmp_path):
    pytest.importorskip("fcntl")
    with (
        journal.Journal(tmp_path / "o.csv", {}),
        pytest.raises(DreError, match="another process"),
        journal.Journal(tmp_path / "o.csv", {}),
    ):
        pass


def test_a_damaged_partial_is_refused(tmp_path):
    (tmp_path / "o.csv.partial").write_text("{}\n")
    with pytest.raises(DreError, match="cannot be continued"), journal.Journal(tmp_path / "o.csv", {}):
        pass


@pytest.fixture
def holed(tmp_path):
    rows = scoring_data.records(4)
    lines = [json.dumps(row) for row in rows]
    lines[1:1] = ["{torn", json.dumps(rows[0] | {"response": ""}), json.dumps(rows[0])]
    path = tmp_path / "holed.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_a_bad_line_stops_the_run_before_anything_is_scored(slm, holed, tmp_path, capsys):
    assert dre(holed, tmp_path / "o.csv", "--slm", slm) == 2
    said = capsys.readouterr().err
    assert f"error: {holed}:2: not JSON" in said and "expected one JSON object a line" in said and "--skip-bad" in said
    assert [p.name for p in tmp_path.iterdir()] == ["holed.jsonl"]


def test_bad_lines_can_be_set_aside_and_are_counted(slm, holed, tmp_path, capsys):
    output = tmp_path / "o.csv"
    assert dre(holed, output, "--slm", slm, "--skip-bad") == 0
    assert "3 bad record(s) not scored" in capsys.readouterr().err
    aside = [json.loads(line) for line in Path(f"{output}.bad.jsonl").read_text().splitlines()]
    assert [one["line"] for one in aside] == [2, 3, 4] and aside[0]["content"] == "{torn"
    assert "id 'c0' of system 'alpha' was in line 1 already" in aside[2]["reason"]
    assert list(scoring_data.read(output)["line"]) == [1, 5, 6, 7, 8, 9, 10, 11]
    assert json.loads(Path(f"{output}.summary.json").read_text())["bad"] == 3


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_an_empty_file_is_said(slm, tmp_path, content, capsys):
    (tmp_path / "in.jsonl").write_text(content)
    assert dre(tmp_path / "in.jsonl", tmp_path / "o.csv", "--slm", slm) == 2
    assert "there is no pair to score" in capsys.readouterr().err


def test_emoji_and_ten_thousand_words_are_scored_and_said(slm, tmp_path, capsys):
    rows = [{"context": ["Hi."], "response": text} for text in ("😀🎉", "yes " * 10_000, "Привет!")]
    assert dre(scoring_data.write(rows, tmp_path / "in.jsonl"), tmp_path / "o.csv", "--slm", slm) == 0
    table = scoring_data.read(tmp_path / "o.csv")
    assert table["score"].notna().all() and list(table["reason"].notna()) == [False, True, False]
    assert "1 responses are longer than the encoder reads" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            ["--method", "best", "--slm", "x"],
            "method is 'best': expected one of slm, slide, ex_dre, in_dre, dre, calibrated, non_dre",
        ),
        ([], "method slm needs a small model"),
        (["--method", "ex_dre", "--slm", "x"], "method ex_dre needs a judge"),
        (["--slm", "x", "--judge", "openai:m"], "method slm asks no judge"),
        (["--method", "dre", "--slm", "x", "--judge", "openai:m"], "give --accuracies SLM,LLM"),
        (["--accuracies", "88,98"], "expected two numbers in \\[0, 1\\]"),
        (["--slm", "x", "--field", "answer=x"], "expected NAME=COLUMN with one of context, response"),
        (["--slm", "./none"], "no SLM './none'"),
    ],
)
def test_settings_that_do_not_fit_are_one_sentence(given, tmp_path, capsys, more, message):
    import re

    assert dre(given, tmp_path / "o.csv", *more) == 2
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.parametrize(("name", "message"), [("o.xlsx", "ends in .csv, .jsonl, .parquet"), ("no/o.csv", "not there")])
def test_an_output_that_cannot_be_written_is_refused_first(slm, given, tmp_path, capsys, name, message):
    assert dre(given, tmp_path / name, "--slm", slm) == 2
    assert message in capsys.readouterr().err


def live(server, tmp_path, *more):
    return ["--judge", "openai:m", "--base-url", server.url, "--store", tmp_path / "s.sqlite", *more]


@pytest.fixture
def key(monkeypatch):
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")


@pytest.mark.parametrize("method", ["slide", "ex_dre", "in_dre", "dre", "non_dre"])
def test_every_method_is_its_equation(slm, given, tmp_path, key, method):
    from dre import fusion

    def both(request):
        return servers.openai(json.dumps({"score": sum(request.raw) % 51 / 10, "influence": 0.5}))

    more = [] if method == "non_dre" else ["--slm", slm]
    with servers.Server(both) as server:
        assert (
            dre(
                given, tmp_path / "o.csv", "--method", method, *more, *live(server, tmp_path), "--accuracies", "0.9,0.8"
            )
            == 0
        )
        bodies = [request.raw.decode() for request in server.requests]
    table = scoring_data.read(tmp_path / "o.csv")
    assert len(bodies) == 24 and table["score_llm"].nunique() > 5
    expected = getattr(fusion, method)(table.drop(columns="score").rename(columns={"line": "pair_id"}))
    np.testing.assert_allclose(table["score"], expected["score"])
    if method in ("in_dre", "dre"):
        assert all("- SLM: 90.0%" in body and "- LLM: 80.0%" in body for body in bodies)
        shown = f"{table['s_p'][0]:.3f}"
        assert any(f"(0 to 1): {shown}" in body for body in bodies)


def test_replies_without_a_score_are_counted_not_lost(slm, given, tmp_path, key, capsys):
    def some(request):
        return servers.openai("no idea" if sum(request.raw) % 3 == 0 else '{"score": 3}')

    with servers.Server(some) as server:
        assert dre(given, tmp_path / "o.csv", "--method", "ex_dre", "--slm", slm, *live(server, tmp_path)) == 0
    table = scoring_data.read(tmp_path / "o.csv")
    bad = table["status"] == "malformed"
    assert 0 < bad.sum() < 24 and table["score"].isna().equals(bad) and table["reason"][bad].notna().all()
    assert f"{bad.sum()} pairs have no score: the judge's reply is malformed" in capsys.readouterr().err


def test_a_budget_is_for_the_whole_file_and_what_was_paid_is_kept(slm, given, tmp_path, key):
    options = {"store": tmp_path / "s.sqlite", "max_usd": 0.02, "concurrency": 1}
    from dre.judges import prices

    options["price"] = prices.given("1,2")

    def settings(url, **more):
        return Settings(judge="openai:m", method="non_dre", judge_options=options | {"base_url": url} | more)

    with servers.Server(lambda request: servers.openai('{"score": 3}', tokens=(1000, 1000))) as server:  # $0.003 a call
        with pytest.raises(DreError, match=r"stopped before \$0.02 would be passed"):
            score_file(given, tmp_path / "o.csv", settings(server.url), block=2)
        asked = len(server.requests)
        assert 0 < asked < 24
        score_file(given, tmp_path / "o.csv", settings(server.url, max_usd=1.0), block=2)
        assert len(server.requests) == 24  # nothing was asked twice
    assert list(scoring_data.read(tmp_path / "o.csv")["line"]) == list(range(1, 25))


def test_a_judge_without_a_key_is_said_before_a_row_is_written(slm, given, tmp_path, monkeypatch, capsys):
    pytest.importorskip("openai")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    more = ["--judge", "openai:m", "--method", "ex_dre", "--slm", slm, "--store", tmp_path / "s.sqlite"]
    assert dre(given, tmp_path / "o.csv", *more) == 2
    assert "OPENAI_API_KEY" in capsys.readouterr().err and not (tmp_path / "o.csv").exists()


def test_a_recording_answers_by_id(slm, tmp_path, capsys):
    from dre.data import load

    context = load("mini", "test")[0]
    rows = [
        {"id": context.pair_id(kind, i), "context": list(context.turns), "response": response}
        for kind in "pa"
        for i, response in enumerate(context.responses(kind))
    ]
    source = scoring_data.write(rows, tmp_path / "in.jsonl")
    more = ["--judge", "recorded:claude-2026-11", "--method", "slide", "--slm", slm]
    assert dre(source, tmp_path / "o.csv", *more) == 0
    assert "|judge:recorded:claude-2026-11|prompt:2e13516ba445|" in capsys.readouterr().out
    assert scoring_data.read(tmp_path / "o.csv")["case"].isin(["slm", "llm", "mean"]).all()
    rows[0]["id"] = "unknown"
    assert dre(scoring_data.write(rows, tmp_path / "b.jsonl"), tmp_path / "b.csv", *more) == 2
    assert "lacks prompt llm_only for 1 of 10 pairs" in capsys.readouterr().err


def test_a_model_with_a_threshold_says_what_it_accepts(tmp_path, given):
    model = scoring_data.slm(tmp_path)
    model.set_threshold(0.8)
    model.save(tmp_path / "with")
    summary = score_file(given, tmp_path / "o.parquet", Settings(str(tmp_path / "with")))
    table = pd.read_parquet(tmp_path / "o.parquet")
    assert table["accepted"].equals(table["score_slm"] >= 0.8)
    shares = table.groupby("system")["accepted"].mean().to_dict()
    assert {row["system"]: row["accepted"] for row in summary["systems"]} == shares


def test_bfloat16_moves_scores_a_little_and_is_said(slm, given, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("dre.slm.model.native_bf16", lambda: True)
    exact = score_file(given, tmp_path / "exact.csv", Settings(str(slm)))
    assert dre(given, tmp_path / "half.csv", "--slm", slm, "--bf16") == 0
    assert "|encoder:tiny|precision:bf16|data:" in capsys.readouterr().out and "precision" not in exact["signature"]
    half, whole = (scoring_data.read(tmp_path / f"{name}.csv")["score"].to_numpy() for name in ("half", "exact"))
    assert 1e-6 < np.abs(half - whole).max() < 0.1


def test_bfloat16_is_refused_where_it_would_be_slower_or_change_nothing(slm, given, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("dre.slm.model.native_bf16", lambda: False)
    assert dre(given, tmp_path / "o.csv", "--slm", slm, "--bf16") == 2
    assert "does not multiply bfloat16 itself" in capsys.readouterr().err
    assert dre(given, tmp_path / "o.csv", "--method", "non_dre", *("--judge", "recorded:claude-2026-11"), "--bf16") == 2
    assert "method non_dre embeds nothing: leave --bf16 out" in capsys.readouterr().err
    more = ("--slm", slm, "--method", "in_dre", "--judge", "recorded:claude-2026-11", "--accuracies", "0.9,0.9")
    assert dre(given, tmp_path / "o.csv", *more, "--bf16") == 2
    assert "replies might be paid for twice: leave --bf16 out" in capsys.readouterr().err
