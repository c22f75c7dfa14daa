"""``dre score`` and ``dre calibrate`` as a user runs them, and the metric from Python."""

import contextlib
import copy
import html.parser
import json
import re
import shutil
import sys
import time
from collections import Counter
from pathlib import Path

import judge_servers as servers
import numpy as np
import pandas as pd
import pytest
import tiny
import torch
from conftest import start_copy

from dre import DRE, fusion, progress
from dre.calibrated import Calibrated
from dre.commands.main import main
from dre.datasets.dialogues import load
from dre.errors import DreError
from dre.judges.ask import Run
from dre.score import metric as metrics
from dre.score import threads
from dre.slm import SLM, recipes

RECORDED = ("--judge", "recorded:claude-2026-11")
RESPONSES = {"alpha": "Only with milk, please.", "beta": "It was the train to my house."}


def saved_slm(folder, threshold=None):
    """The folder of an untrained SLM of the tiny encoder that is calibrated: enough to score."""
    torch.manual_seed(1)
    model = SLM.untrained(tiny.encoder(folder), recipes.get("paper"))
    model.provenance |= {"fingerprint": "f" * 64, "seed": 3, "encoder": "tiny"}
    model.set_range(load("mini", "dev"))
    if threshold:
        model.set_threshold(threshold)
    model.save(folder / "slm")
    return folder / "slm"


def records(n):
    """Records of n contexts, in each the response that either of two systems always gives."""
    return [
        {
            "id": f"c{i}",
            "system": system,
            "context": ["Do you like tea?", f"Number {i}?"],
            "response": response,
        }
        for i in range(n)
        for system, response in RESPONSES.items()
    ]


def rated_records(contexts):
    """Responses with the ratings of two people each, high for positives."""
    rows = []
    for number, context in enumerate(contexts):
        for kind, rating in (("p", 4), ("a", 2)):
            for i, response in enumerate(context.responses(kind)):
                row = {
                    "id": context.pair_id(kind, i),
                    "context": list(context.turns),
                    "response": response,
                    "human": [rating, rating + (number + i) % 2],
                }
                rows.append(row)
    return rows


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
    """Read a table of scores, by the ending."""
    if path.suffix == ".jsonl":
        return pd.read_json(path, lines=True)
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)


def dre(*words):
    return main([str(word) for word in words])


@pytest.fixture(scope="module")
def loaded():
    """Models by the files that they were read from."""
    return {}


@pytest.fixture(autouse=True)
def loaded_once(loaded, monkeypatch):
    """Each command takes a copy of a model that was read before, as long as its files are the same.

    How a model is read is tried in test_model.
    """
    load = SLM.load

    def load_once(path):
        files = [file for file in sorted(Path(path).rglob("*")) if file.is_file()]
        key = tuple((str(file), file.stat().st_mtime_ns) for file in files)
        if not key:
            return load(path)  # which says what is missing
        if key not in loaded:
            loaded[key] = load(path)
        return copy.deepcopy(loaded[key])

    monkeypatch.setattr(SLM, "load", load_once)


@pytest.fixture(scope="module")
def slm(tmp_path_factory):
    return saved_slm(tmp_path_factory.mktemp("score"))


@pytest.fixture
def responses(tmp_path, monkeypatch):
    """A file of pairs to score, and a key for a judge."""
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    return write(records(12), tmp_path / "in.jsonl")


def judge(server, tmp_path, method="non_dre"):
    """The options that name a judge on a server."""
    store = tmp_path / "s.sqlite"
    options = ("--method", method, "--judge", "openai:m")
    return (*options, "--base-url", server.url, "--store", store)


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_a_file_of_each_form_gets_the_scores_of_the_model(slm, tmp_path, capsys, ending):
    rows = records(12)
    renamed = [row | {"answer": row["response"], "response": "?"} for row in rows]
    source = write(renamed, tmp_path / f"in{ending}")
    output = tmp_path / f"out{ending}"

    assert dre("score", source, "-o", output, "--slm", slm, "--field", "response=answer") == 0

    printed = capsys.readouterr().out
    assert printed.startswith("dre:small|model:ffffffffffff|recipe:paper|seed:3|encoder:tiny|data:")
    assert "Difference a - b" in printed
    assert "24 scores written" in printed
    table = read(output)
    expected = SLM.load(slm).score(pd.DataFrame(rows).assign(pair_id=range(24)))
    names = [[row["id"], row["system"]] for row in rows]
    assert table[["id", "system"]].to_numpy().tolist() == names
    numbers = ["distance", "scaled_distance", "fits", "score_slm"]
    papers_names = ["distance", "s_d", "s_p", "score_slm"]
    np.testing.assert_allclose(table[numbers], expected[papers_names], atol=1e-5)
    assert table["score"].equals(table["score_slm"])
    assert set(table["status"]) == {"ok"}
    summary = json.loads(Path(f"{output}.summary.json").read_text())
    means = {row["system"]: row["score"] for row in summary["systems"]}
    assert summary["contexts"] == 12
    assert means == pytest.approx(table.groupby("system")["score"].mean().to_dict())


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["tables", "json"])
def test_a_finished_run_is_shown_again(form, slm, responses, tmp_path, capsys):
    output = tmp_path / "o.csv"
    run = ("score", responses, "-o", output, "--slm", slm, *form)
    assert dre(*run) == 0
    printed, written_at = capsys.readouterr().out, output.stat().st_mtime_ns

    assert dre(*run) == 0
    assert capsys.readouterr().out == printed
    assert output.stat().st_mtime_ns == written_at


def test_the_output_of_another_run_is_not_written_over(
    slm, responses, tmp_path, monkeypatch, capsys
):
    output = tmp_path / "o.csv"
    options = ("-o", output, "--slm", slm)
    assert dre("score", responses, *options) == 0

    other_responses = write(records(3), tmp_path / "b.jsonl")
    assert dre("score", other_responses, *options) == 2
    expected = r"o.csv is of another run \(data \w{12}, now \w{12}\): name .*--force$"
    assert re.search(expected, capsys.readouterr().err)

    monkeypatch.setattr("dre.slm.encoder.native_bf16", lambda: True)
    assert dre("score", responses, *options, "--bf16") == 2
    assert "(precision None, now bf16)" in capsys.readouterr().err


@pytest.mark.parametrize("torn", ["[]", "{"])
def test_an_output_with_a_torn_summary_is_written_over_by_force_alone(
    torn, slm, responses, tmp_path, capsys
):
    output = tmp_path / "o.csv"
    run = ("score", responses, "-o", output, "--slm", slm)
    assert dre(*run) == 0
    printed = capsys.readouterr().out
    Path(f"{output}.summary.json").write_text(torn)

    assert dre(*run) == 2
    assert "nothing says that this command made it" in capsys.readouterr().err
    assert dre(*run, "--force") == 0
    assert capsys.readouterr().out == printed


FIRST_LINE, *GOOD_LINES = [json.dumps(record) for record in records(2)]
BAD_LINES = {
    "{torn": "no JSON: Expecting property name enclosed in double quotes at column 2",
    '{"context": "a", "response": ""}': "response is ''",
    '{"context": "a", "response": "half \\ud83d"}': "response is 'half",
    '{"context": ["a", 5], "response": "b"}': "context: turn 2 is 5: expected texts alone",
    "[" * 100_000: "no JSON: maximum recursion depth exceeded",
    json.dumps({"context": "[" + "-" * 200_000 + "1]", "response": " "}): "response is ' '",
    FIRST_LINE: "id 'c0' is line 1's",
}


def test_a_bad_line_stops_the_run_or_is_set_aside_and_counted(slm, tmp_path, capsys):
    source = tmp_path / "holed.jsonl"
    source.write_text("\n".join(["\ufeff" + FIRST_LINE, *BAD_LINES, *GOOD_LINES]))
    output = tmp_path / "o.csv"
    run = ("score", source, "-o", output, "--slm", slm)

    assert dre(*run) == 2
    error = capsys.readouterr().err
    assert f"\n  {source}:2: no JSON: Expecting property name" in error
    *_, second_to_last, last = error.splitlines()
    assert f"error: 7 of {8 + len(GOOD_LINES)} records cannot be used; --field says" in error
    assert second_to_last.startswith(f"  {source}:6: ")
    assert last == "  and 2 more"
    assert list(tmp_path.iterdir()) == [source]

    assert dre(*run, "--skip-bad") == 0
    assert "7 bad record(s) not scored" in capsys.readouterr().err
    lines = Path(f"{output}.bad.jsonl").read_text().splitlines()
    bad_records = [json.loads(line) for line in lines]
    assert [record["line"] for record in bad_records] == [2, 3, 4, 5, 6, 7, 8]
    assert bad_records[0]["content"] == "{torn"
    for record, reason in zip(bad_records, BAD_LINES.values(), strict=True):
        assert record["reason"].startswith(reason)
    assert list(read(output)["line"]) == [1, 9, 10, 11]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("in.jsonl --method slide", "method slide needs a judge: give judge"),
        (
            "in.jsonl --method slm --judge recorded:claude-2026-11",
            "method small has no use for judge: leave it out, or choose",
        ),
        ("in.jsonl --accuracies 88,98", "expected those of SLM and LLM in [0, 1]"),
        ("in.jsonl --max-usd 1", "--max-usd: there is no judge to use it"),
        ("in.jsonl --workers 2", "--workers is of --engine ray"),
        ("in.jsonl --field context", "expected NAME=COLUMN"),
        (
            "in.jsonl --field system=modle",
            "--field names modle: expected a column, the records have ",
        ),
        ("new.csv --method non_dre --judge recorded:claude-2026-11", "does not know pair 2"),
        ("two.csv --judge recorded:claude-2026-11", "make ids unique, also between systems"),
        ("none.jsonl", "none.jsonl: cannot be read (No such file"),
        (
            "in.jsonl --slm mini",
            "there is no SLM 'mini': expected a folder with one, or owner/name on the Hub",
        ),
    ],
)
def test_what_does_not_fit_or_cannot_be_read_is_one_sentence(
    responses, monkeypatch, capsys, line, message
):
    monkeypatch.chdir(responses.parent)
    Path("new.csv").write_text("context,response\na,b\n")
    Path("two.csv").write_text("id,system,context,response\n1,s,a,b\n1,t,a,b\n")
    assert dre("score", "-o", "o.csv", *line.split()) == 2
    assert message in capsys.readouterr().err


def test_texts_that_are_cut_are_counted_and_named(slm, tmp_path, capsys):
    rows = [
        {"context": ["Hi."], "response": "!" * 127},
        {"context": ["Hi."], "response": "Yes."},
        {"context": ["tea " * 130], "response": "a"},
    ]
    source, output = write(rows, tmp_path / "in.jsonl"), tmp_path / "o.csv"
    assert dre("score", source, "-o", output, "--slm", slm) == 0
    notes = capsys.readouterr().err
    assert "1 responses are longer than the encoder reads; only their beginning" in notes
    assert "1 contexts are longer than the encoder reads; only their end counts" in notes
    assert read(output)["reason"].fillna("").tolist() == [
        "the response is cut after 128 tokens",
        "",
        "the context is cut: only its last 128 tokens count",
    ]


def test_what_a_threshold_accepts_is_said_where_it_is_asked_for(tmp_path, capsys):
    texts = ["Yes.", "Only with milk.", "It was the train to my house."]
    rows = [{"context": ["Hi."], "response": text} for text in texts]
    source, output = write(rows, tmp_path / "in.jsonl"), tmp_path / "o.csv"
    slm = saved_slm(tmp_path, threshold=0.8)

    assert dre("score", source, "-o", output, "--slm", slm) == 0
    assert "ccepted" not in "".join(capsys.readouterr())
    assert "accepted" not in read(output)

    output = tmp_path / "accepted.csv"
    assert dre("score", source, "-o", output, "--slm", slm, "--accepted") == 0
    notes = capsys.readouterr().err
    share = r"accepts \d+% of good replies, \d+% of good replies to another context"
    assert re.search(share, notes)
    table = read(output)
    assert table["accepted"].equals(table["score_slm"] >= 0.8)
    summary = json.loads(Path(f"{output}.summary.json").read_text())
    assert summary["threshold"] == 0.8
    assert summary["systems"][0]["accepted"] == table["accepted"].mean()

    metric = DRE.load(slm)
    accepted = metric.accepted(metric.score([["Hi."]], ["Yes."])).iloc[0]
    assert type(accepted) is bool


def test_of_a_system_that_is_not_read_no_share_is_accepted(tmp_path, capsys):
    replies = {
        "english": "Only with milk, please.",
        "chinese": "\u6211\u5f88\u559c\u6b22\u559d\u8336\u3002",
    }
    rows = []
    for system, reply in replies.items():
        rows.append({"context": ["Do you like tea?"], "response": reply, "system": system})
    output = tmp_path / "o.csv"

    assert dre("score", write(rows, tmp_path / "in.jsonl"), "-o", output, "--accepted") == 0

    assert "of 'chinese' have no score" in capsys.readouterr().err
    summary = json.loads(Path(f"{output}.summary.json").read_text())
    shares = {row["system"]: row["accepted"] for row in summary["systems"]}
    assert shares["english"] in (0, 1)
    assert shares["chinese"] is None
    assert read(output)["accepted"].notna().tolist() == [True, False]


def test_without_a_threshold_nothing_can_be_accepted(slm, responses, capsys):
    assert dre("score", responses, "--slm", slm, "--accepted") == 2
    assert "stores a threshold" in capsys.readouterr().err


QUESTIONS = (
    "Did you water the plants by the door today?",
    "Which train goes to the old harbour?",
    "Who made soup?",
)
REPLIES = {
    "good": (
        "I did, before breakfast.",
        "The one at ten from platform two.",
        "My brother did, with fresh leeks.",
    ),
    "echo": QUESTIONS,
    "salad": ("door the by water you", "harbour the old to goes", "soup made who"),
    "deutsch": (
        "Ja, schon vor dem Frühstück gegossen.",
        "Der nächste fährt gegen zehn Uhr vom Bahnsteig zwei.",
        "Mein jüngerer Bruder, mit frischem Lauch und Kartoffeln.",
    ),
}


def test_replies_that_repeat_their_context_or_are_in_another_language_are_said(tmp_path, capsys):
    rows = [
        {"system": system, "context": [question], "response": reply}
        for system, replies in REPLIES.items()
        for question, reply in zip(QUESTIONS, replies)
    ]
    assert dre("score", write(rows, tmp_path / "in.jsonl"), "-o", tmp_path / "o.csv") == 0
    notes = capsys.readouterr().err.splitlines()
    expected = [
        "3 pairs of 'deutsch' have no score: the small model cannot read them",
        "2 of 3 replies of 'echo' only repeat words of their context",
        "2 of 3 replies of 'salad' only repeat words of their context",
    ]
    notes = [note for note in notes if not note.startswith("only 0 of 3 contexts have a score")]
    assert [note[: len(start)] for note, start in zip(notes, expected)] == expected
    assert len(notes) == len(expected)
    table = read(tmp_path / "o.csv")
    unread = table["status"] == "other_language"
    assert table["system"][unread].tolist() == ["deutsch"] * 3
    assert table["score"].isna().equals(unread)


@pytest.mark.parametrize("method", ["slide", "ex_dre", "in_dre", "dre", "non_dre"])
def test_every_method_is_its_equation(slm, responses, tmp_path, method):
    def reply(request):
        values = {"score": sum(request.raw) % 51 / 10, "influence": 0.5}
        schema = request.body["response_format"]["json_schema"]["schema"]
        return servers.openai(json.dumps({name: values[name] for name in schema["required"]}))

    output = tmp_path / "o.csv"
    options = ["--accuracies", "0.9,0.8"]
    if method != "non_dre":
        options += ["--slm", slm]
    with servers.Server(reply) as server:
        judge_options = judge(server, tmp_path, method)
        assert dre("score", responses, "-o", output, *judge_options, *options) == 0
        bodies = [request.raw.decode() for request in server.requests]

    table = read(output)
    slm_scores, judge_scores = table["score_slm"], table["score_llm"]
    expected = {
        "slide": fusion.slide(slm_scores, judge_scores),
        "ex_dre": slm_scores * judge_scores,
        "dre": slm_scores * judge_scores,
        "in_dre": judge_scores,
        "non_dre": judge_scores,
    }
    np.testing.assert_allclose(table["score"], expected[method])
    assert len(bodies) == 24
    assert judge_scores.nunique() > 5
    if method in ("in_dre", "dre"):
        assert all("- SLM: 90.0%" in body and "- LLM: 80.0%" in body for body in bodies)
        assert any(f"{table['fits'][0]:.3f}" in body for body in bodies)


class ListeningJudge:
    """A judge as a function: it stores the pairs, and gives scores from the lowest up."""

    spec = signature = "own:ear"
    last = Run()
    max_usd = pairs = None

    def score(self, pairs, prompt):
        self.pairs = pairs
        lowest, highest = prompt.scale
        scores = np.linspace(lowest, highest, len(pairs))
        return pd.DataFrame({"score_llm": scores, "s_inf": 0.5, "status": "ok", "reason": ""})


def test_a_prompt_is_shown_the_slms_numbers_within_their_range(slm):
    """Some recipes leave the range from 0 to 1. Here the range of the training is small."""
    own_judge = ListeningJudge()
    metric = DRE.load(slm, judge=own_judge, method="dre", accuracies=[0.9, 0.8])
    pairs = pd.DataFrame(records(3)).assign(pair_id=range(6))
    distances = metric.slm.score(pairs)["distance"]
    metric.slm.provenance["d_min"] = distances.quantile(0.4)
    metric.slm.provenance["d_max"] = distances.quantile(0.6)

    table = metric.score(list(pairs["context"]), list(pairs["response"]))

    assert list(table["distance"]) == pytest.approx(list(distances))
    assert table["scaled_distance"].min() < 0
    assert table["scaled_distance"].max() > 1
    s_d, s_p = own_judge.pairs["s_d"], own_judge.pairs["s_p"]
    assert (s_d.min(), s_d.max()) == (0, 1)
    assert (own_judge.pairs["score_slm"] == (1 - s_d + s_p).round(6)).all()
    expected = (1 - table["scaled_distance"] + table["fits"]) * table["score_llm"]
    np.testing.assert_allclose(table["score"], expected)


def test_the_scale_of_a_prompt_becomes_0_to_5():
    metric = DRE.load(judge=ListeningJudge(), prompt="geval_coherence")  # of 1 to 3
    assert metric.score([["Hi."]] * 3, ["Ho."] * 3)["score"].tolist() == [0, 2.5, 5]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methd": "slide"}, "no option 'methd': did you mean method?"),
        (
            {"judge": ListeningJudge(), "accuracy": [1, 1]},
            "no option 'accuracy': did you mean accuracies?",
        ),
        ({"temperature": 0}, "no option 'temperature': only a judge that is named"),
        ({"method": "ex_dre"}, "method product needs a judge: give judge"),
        (
            {"method": "dre", "judge": ListeningJudge()},
            "needs a judge and the accuracies of SLM and LLM: give accuracies",
        ),
        (
            {"judge": "recorded:claude-2026-11", "method": "slm"},
            "has no use for judge: leave it out",
        ),
        ({"judge": "recorded:claude-2026-11", "slm": "my-slm"}, "method judge has no use for slm"),
        ({"fusion": "f.json"}, "no use for fusion"),
        ({"prompt": "llm_only"}, "no use for prompt"),
    ],
)
def test_options_that_mean_nothing_are_refused_in_words_for_python(options, message):
    with pytest.raises(DreError, match=re.escape(message)) as error:
        DRE.load(**options)
    assert "--" not in str(error.value)


@pytest.mark.parametrize("options", [{}, {"method": "judge"}, {"method": "non_dre"}])
def test_a_judge_without_a_method_is_the_judge_alone_under_either_name(options):
    signature = DRE.load(judge=ListeningJudge(), **options).signature()
    assert str(signature).startswith("dre:judge|judge:own:ear|")


def test_a_function_may_judge():
    metric = DRE.load(judge=lambda context, response: len(context) + (response == "Ho."))
    table = metric.score([["Hi."], ["Hi.", "Oh?"]], ["Ho.", "No."])
    assert table["score"].tolist() == [2, 2]


def test_an_interrupted_run_does_not_go_on_with_another_servers_judge(responses, tmp_path, capsys):
    def always(score):
        return lambda request: servers.openai(json.dumps({"score": score}), tokens=(1000, 1000))

    output = tmp_path / "o.csv"
    run = ("score", responses, "-o", output, "--price", "1,2", "--concurrency", "1")
    with servers.Server(always(1)) as first, servers.Server(always(5)) as second:
        # The first server's run ends after a few pairs, and the second's asks for all of them.
        assert dre(*run, *judge(first, tmp_path), "--max-usd", "0.05") == 1
        assert "stopped before $0.05 would be passed" in capsys.readouterr().err
        assert 0 < len(first.requests) < 24
        assert not output.exists()
        assert dre(*run, *judge(second, tmp_path)) == 0
        assert set(read(output)["score"]) == {5.0}
        assert len(second.requests) == 24

        # The second's summary is not shown as the first's, which goes on where it was.
        assert dre(*run, *judge(first, tmp_path)) == 2
        assert f"base_url={second.url}" in capsys.readouterr().err
        output.unlink()
        assert dre(*run, *judge(first, tmp_path)) == 0
        assert set(read(output)["score"]) == {1.0}
        assert len(first.requests) == 24


def sometimes(request):
    """Reply with a score or something else; refuse a request without a schema, as old models do."""
    if "response_format" not in request.body:
        return servers.error("openai", 400, "no prompt for me")
    return servers.openai("no idea" if sum(request.raw) % 3 == 0 else '{"score": 3}')


def test_replies_without_a_score_are_counted(slm, responses, tmp_path, capsys):
    output = tmp_path / "o.csv"
    with servers.Server(sometimes) as server:
        judge_options = judge(server, tmp_path, "ex_dre")
        assert dre("score", responses, "-o", output, "--slm", slm, *judge_options) == 0

    table, notes = read(output), capsys.readouterr().err
    is_malformed = table["status"] == "malformed"
    assert 0 < is_malformed.sum() < 24
    assert table["score"].isna().equals(is_malformed)
    assert table["reason"][is_malformed].notna().all()
    for system, rows in table[is_malformed].groupby("system"):
        expected = f"{len(rows)} pairs of '{system}' have no score: the judge's reply is malformed"
        assert expected in notes
    n_shared = (~is_malformed).groupby(table["context_id"]).all().sum()
    assert f"only {n_shared} of 12 contexts have a score of every system" in notes


def test_without_any_score_nothing_is_written(slm, responses, tmp_path, capsys):
    few_responses = write(records(2), tmp_path / "few.jsonl")
    output = tmp_path / "none.csv"
    with servers.Server(sometimes) as server:
        options = ("--slm", slm, *judge(server, tmp_path, "ex_dre"), "--plain")
        assert dre("score", few_responses, "-o", output, *options) == 1
    expected = (
        "nothing was written: 2 pairs of 'alpha' have no score: the judge's reply is error "
        "(first alpha/c0: Error code: 400 - "
    )
    assert expected in capsys.readouterr().err
    assert not list(tmp_path.glob("none.csv*"))


def test_score_and_compute_give_the_same_scores(slm):
    metric = DRE.load(slm)
    contexts = [["Do you like tea?"], "Is it late?\nIt is."]
    texts = ["With milk.", "I see."]

    table = metric.score(contexts, texts, systems=["a", "b"])
    result = metric.compute(predictions=texts, contexts=contexts)

    assert list(table["id"]) == ["1", "2"]
    assert list(table["system"]) == ["a", "b"]
    assert "line" not in table
    assert result["scores"] == pytest.approx(table["score"].tolist())
    assert result["score"] == pytest.approx(table["score"].mean())
    assert result["n_missing"] == 0
    exchanged = metric.compute(predictions=texts[::-1], contexts=contexts)
    assert exchanged["signature"] != result["signature"]


def test_sequences_of_different_lengths_are_refused(slm):
    with pytest.raises(DreError, match=r"sequences of lengths \[1, 2\]"):
        DRE.load(slm).score([["Do you like tea?"], ["Is it late?"]], ["With milk."])


@pytest.fixture(scope="module")
def sets(slm, tmp_path_factory):
    """Two rated files, each with the scores that dre score made of it.

    People agree with the judge in the first set, and with the SLM in the second.
    """
    folder = tmp_path_factory.mktemp("sets")
    contexts = load("mini", "test")[:8]
    first_rows = rated_records(contexts[:4])
    first_rows[0]["human"] = None  # nobody has rated it
    second_rows = rated_records(contexts[4:])
    table = DRE.load(slm).score(
        [row["context"] for row in second_rows], [row["response"] for row in second_rows]
    )
    for row, slm_score in zip(second_rows, table["score"]):
        row["human"] = slm_score

    first = write(first_rows, folder / "one.jsonl"), folder / "one-scores.csv"
    second = write(second_rows, folder / "two.jsonl"), folder / "two-scores.parquet"
    for source, scores in (first, second):
        run = ("score", source, "-o", scores, "--slm", slm, "--method", "ex_dre", *RECORDED)
        assert dre(*run) == 0
    return [first, second]


@pytest.fixture
def learned(sets, tmp_path):
    """The file of a fusion that was learned on both sets."""
    path = tmp_path / "fusion.json"
    assert dre("calibrate", "--set", *sets[0], "--set", *sets[1], "-o", path) == 0
    return path


def fused_run(source, slm, fusion_path):
    """The command that scores a file with a fusion, apart from its output."""
    options = ("--slm", slm, *RECORDED, "--method", "calibrated", "--fusion", fusion_path)
    return ("score", source, *options, "-o")


def test_a_fusion_is_measured_on_each_set_by_what_the_other_set_says(sets, tmp_path, capsys):
    path = tmp_path / "fusion.json"
    assert dre("calibrate", "--set", *sets[0], "--set", *sets[1], "-o", path) == 0
    printed = capsys.readouterr().out
    weight = Calibrated.load(path).weight
    expected = (
        f"weight {weight:.2f} (0: the judge alone, 1: the SLM alone), learned from 76 rated pairs"
    )
    assert expected in printed
    weights = re.findall(r"\.jsonl \|.* ([\d.]+) \|$", printed, re.MULTILINE)
    assert weights == ["1.00", "0.00"]
    assert 0 < weight < 1


def test_a_fusion_is_used(slm, sets, learned, tmp_path, capsys):
    (source, scores), fused_path = sets[0], tmp_path / "fused.jsonl"
    capsys.readouterr()
    assert dre(*fused_run(source, slm, learned), fused_path) == 0

    calibrated = Calibrated.load(learned)
    assert f"|fusion:{calibrated.sha256[:12]}|data:" in capsys.readouterr().out
    table, weight = read(fused_path), calibrated.weight
    z_slm = calibrated.slm(read(scores)["score_slm"])
    np.testing.assert_allclose(table["z_slm"], z_slm, atol=1e-5)
    expected = (1 - weight) * table["z_llm"] + weight * table["z_slm"]
    np.testing.assert_allclose(table["score"], expected, atol=1e-9)


def test_a_fusion_is_held_to_its_model(slm, sets, learned, tmp_path, capsys):
    learned.write_text(learned.read_text().replace("f" * 12, "e" * 12))
    assert dre(*fused_run(sets[0][0], slm, learned), tmp_path / "fused.csv") == 2
    assert "was learned with model eeeeeeeeeeee, not with ffff" in capsys.readouterr().err


@pytest.mark.parametrize(
    "fault",
    [
        {"weight": 7.5},
        {"weight": float("nan")},
        {"slm": {"at": [1], "z": [0]}},
        {"llm": {"at": [], "z": []}},
        {"slm": {"at": [0, 1, 2], "z": [0, 1]}},
        {"slm": {"at": [0, 1, 2], "z": [1, 0, -1]}},
    ],
)
def test_a_damaged_fusion_is_refused(fault, slm, sets, learned, tmp_path, capsys):
    learned.write_text(json.dumps(json.loads(learned.read_text()) | fault))
    assert dre(*fused_run(sets[0][0], slm, learned), tmp_path / "fused.csv") == 2
    assert "is not a saved fusion" in capsys.readouterr().err


def test_scores_of_other_data_teach_nothing(sets, tmp_path, capsys):
    (_, scores), (other_source, _) = sets
    assert dre("calibrate", "--set", other_source, scores, "-o", tmp_path / "f.json") == 2
    assert "one-scores.csv was made by method product from data" in capsys.readouterr().err


def test_scores_by_different_models_teach_nothing(sets, tmp_path, capsys):
    source, scores = sets[0]
    other_scores, output = tmp_path / "other.csv", tmp_path / "f.json"
    shutil.copy(scores, other_scores)
    summary = Path(f"{scores}.summary.json").read_text()
    Path(f"{other_scores}.summary.json").write_text(summary.replace("f" * 64, "e" * 64))
    learn = ("calibrate", "--set", source, scores, "--set", source, other_scores)
    assert dre(*learn, "-o", output) == 2
    assert "scored with different models" in capsys.readouterr().err
    assert not output.exists()


def test_a_file_that_dre_score_did_not_write_teaches_nothing(sets, tmp_path, capsys):
    source, scores = sets[0]
    other_scores, output = tmp_path / "other.csv", tmp_path / "f.json"
    learn = ("calibrate", "--set", source, other_scores, "-o", output)
    expected = "expected what dre score wrote, with the summary beside it"

    read(scores).to_csv(other_scores, index=False)
    assert dre(*learn) == 2
    assert expected in capsys.readouterr().err

    shutil.copy(f"{scores}.summary.json", f"{other_scores}.summary.json")
    read(scores).drop(columns="line").to_csv(other_scores, index=False)
    assert dre(*learn) == 2
    assert expected in capsys.readouterr().err


def test_a_fusion_is_not_written_over_what_it_is_learned_from(sets):
    source, scores = sets[0]
    assert dre("calibrate", "--set", source, scores, "-o", source) == 2


@pytest.fixture
def page(slm, responses, tmp_path):
    """The page on eight contexts and two systems, made twice.

    The judge gives b's reply to context i the score i / 2, and a's always 4.
    """
    rows = [
        {"context": [f"turn <{i}>?"], "system": system, "response": f"{system} says {i} & more"}
        for i in range(8)
        for system in "ab"
    ]
    write(rows, responses)

    def reply(request):
        text = request.body["messages"][-1]["content"]
        system, i = re.findall(r"([ab]) says (\d)", text)[-1]
        return servers.openai(json.dumps({"score": 4 if system == "a" else int(i) / 2}))

    with servers.Server(reply) as server:
        options = ("--slm", slm, *judge(server, tmp_path, "ex_dre"))
        run = ("score", responses, "-o", tmp_path / "o.csv", *options, "--report")
        assert dre(*run, tmp_path / "page.html") == 0
        assert dre(*run, tmp_path / "again.html") == 0
        assert dre(*run, tmp_path / "page.txt") == 2
        assert len(server.requests) == 16
    html = (tmp_path / "page.html").read_text()
    assert html == (tmp_path / "again.html").read_text()
    return html


def test_a_page_shows_the_worst_and_where_systems_and_judge_and_slm_disagree(page):
    _, _, worst, between_systems, between_models = page.split("<h2>")
    assert worst.count("<article>") == 16
    assert worst.index("b says 0 &amp; more") < worst.index("b says 1 &amp; more")
    first_card = between_systems.split("<article>")[1]
    assert "turn &lt;0&gt;?" in first_card
    assert first_card.index("b says 0") < first_card.index("a says 0")
    assert between_models.count("<article>") == 10
    assert "small model <b>" in between_models
    assert "dre:product" in between_models


def test_a_page_is_small_and_escapes_what_it_shows(page):
    assert "<8>" not in page
    assert "turn <0>" not in page
    assert len(page) < 30_000


class Reading(html.parser.HTMLParser):
    """A page as a browser reads it: its tags with their attributes, and its tables."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.headers = []  # of each table
        self.is_header = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "table":
            self.headers.append([])
        self.is_header = tag == "th"

    def handle_data(self, data):
        if self.is_header:
            self.headers[-1].append(data.strip())
            self.is_header = False

    def of(self, name, **attributes):
        """Return the attributes of the tags of a name that have some attributes."""
        found = [attrs for tag, attrs in self.tags if tag == name]
        return [attrs for attrs in found if attributes.items() <= attrs.items()]


def test_a_page_of_one_system_has_a_picture_and_no_column_twice(slm, tmp_path):
    rows = [row for row in records(12) if row["system"] == "alpha"]
    source, page = write(rows, tmp_path / "in.jsonl"), tmp_path / "p.html"
    assert dre("score", source, "--slm", slm, "-o", tmp_path / "o.csv", "--report", page) == 0
    text = page.read_text()
    reading = Reading(text)
    expected = ["system", "n", "missing", "score", "scaled distance", "fits", "length", "echo"]
    assert reading.headers == [expected]
    assert "Comparisons" not in text
    assert "over 12 contexts" in text

    # A stroke stands for each reply, further right where the score is higher, all in the picture.
    strokes = [attrs["x1"] for attrs in reading.of("line", **{"class": "one"})]
    places = [float(stroke.removesuffix("%")) for stroke in strokes]
    scores = read(tmp_path / "o.csv")["score"]
    assert len(places) == 12
    assert all(0 <= place <= 100 for place in places)
    assert np.corrcoef(places, scores)[0, 1] > 0.999
    mean = float(reading.of("circle")[0]["cx"].removesuffix("%"))
    assert mean == pytest.approx(np.mean(places), abs=0.02)
    (interval,) = reading.of("line", **{"class": "range"})
    assert float(interval["x1"][:-1]) <= mean <= float(interval["x2"][:-1])


def test_a_page_of_one_context_and_equal_scores_gives_no_interval(slm, tmp_path):
    rows = [{"context": ["Tea?"], "response": "With milk.", "id": str(i)} for i in range(2)]
    source, page = write(rows, tmp_path / "in.jsonl"), tmp_path / "p.html"
    assert dre("score", source, "--slm", slm, "--report", page) == 0
    text = page.read_text()
    assert "There is one context, so no interval can be given" in text
    assert "Intervals" not in text
    assert not Reading(text).of("line", **{"class": "range"})


MARKUP = "<script>alert('\"x\"')</script><img src=http://h/x.png onerror=alert(1)>{{ 7 * 7 }}&amp;"


def test_nothing_in_a_file_is_markup_on_its_page(tmp_path):
    rows = [
        {"context": [MARKUP, "Is it late?"], "response": reply, "system": MARKUP, "id": str(i)}
        for i, reply in enumerate([f"Yes {MARKUP} {MARKUP}", "Is it late?", "<b>Ten</b>", "no"])
    ]
    rows.append({**rows[0], "context": ["Who is here?"], "system": "other"})
    source = write(rows, tmp_path / "<b>in.jsonl")
    page = tmp_path / "p.html"
    assert dre("score", source, "-o", tmp_path / "o.csv", "--report", page) == 0
    text = page.read_text()
    names = {tag for tag, _ in Reading(text).tags}
    assert not names & {"script", "img", "b>", "a", "link", "iframe"}
    assert "{{ 7 * 7 }}" in text
    assert "Not read, since it repeats the context: Is it late?" in text
    shown_scores = Reading(text).of("b")
    assert len(shown_scores) == text.count("<b>")
    assert "&lt;b&gt;Ten&lt;/b&gt;" in text


def test_the_scores_of_a_few_replies_are_printed_and_those_of_many_are_not(slm, tmp_path, capsys):
    few = write(records(10), tmp_path / "few.jsonl")
    many = write(records(11), tmp_path / "many.jsonl")
    run = ("score", few, "--slm", slm, "-o", tmp_path / "o.csv")
    assert dre(*run) == 0
    printed = capsys.readouterr().out
    table = read(tmp_path / "o.csv")
    for row in table.itertuples():
        cells = f"| {row.id} | {row.system} | {RESPONSES[row.system]} | {row.score:.2f} |"
        assert cells in printed
    assert dre(*run) == 0
    assert capsys.readouterr().out == printed
    assert dre("score", many, "--slm", slm) == 0
    assert RESPONSES["alpha"] not in capsys.readouterr().out


def test_one_context_gets_no_word_on_intervals(slm, tmp_path, capsys):
    source = write(records(1), tmp_path / "in.jsonl")
    assert dre("score", source, "--slm", slm) == 0
    means = capsys.readouterr().out.split("**Mean scores**")[1].split("**Comparisons**")[0]
    assert "Interval" not in means


def test_what_is_said_of_copies_is_true_of_the_model_in_use(slm, tmp_path, capsys):
    """The package's model does not read copies; one that was trained as in the papers does."""
    rows = [{"context": [question], "response": question} for question in QUESTIONS[:2]]
    source = write(rows, tmp_path / "in.jsonl")
    assert dre("score", source) == 0
    of_package = capsys.readouterr()
    assert "2 of 2 replies only repeat words of their context" in of_package.err
    assert "the small model does not read what is repeated" in of_package.err
    assert "reward" not in of_package.err
    assert dre("score", source, "--slm", slm) == 0
    of_papers = capsys.readouterr()
    assert "2 of 2 replies only repeat words of their context: an SLM may reward" in of_papers.err


SENTENCES = {
    "Arabic": ["نعم، من فضلك مع الحليب.", "القطار يغادر غدا في الصباح."],
    "Hebrew": ["כן, עם חלב בבקשה.", "הרכבת יוצאת מחר בבוקר."],
    "Cyrillic": ["Да, пожалуйста, с молоком.", "Поезд уходит завтра утром."],
    "Cjk": ["好的，请加牛奶。", "火车明天早上出发。"],
}


@pytest.mark.parametrize("script", SENTENCES)
def test_a_reply_in_a_script_that_the_model_does_not_know_has_no_score(script, tmp_path, capsys):
    replies = ["Only with milk, please.", *SENTENCES[script]]
    rows = [{"context": ["Do you like tea?"], "response": reply} for reply in replies]
    assert dre("score", write(rows, tmp_path / "in.jsonl"), "-o", tmp_path / "o.csv") == 0
    printed, notes = capsys.readouterr()
    assert "the small model does not know (" + script in notes
    assert "does not notice a reply that contradicts" in printed
    table = read(tmp_path / "o.csv")
    assert table["status"].tolist() == ["ok", "other_language", "other_language"]
    assert table["score"].notna().tolist() == [True, False, False]

    # With these alone there is nothing to print, and the file has to be mended.
    write(rows[1:], tmp_path / "in.jsonl")
    assert dre("score", tmp_path / "in.jsonl") == 2


def test_no_judge_is_paid_for_a_pair_that_the_small_model_cannot_read(slm, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    replies = ["Only with milk, please.", *SENTENCES["Arabic"]]
    rows = [{"context": ["Do you like tea?"], "response": reply} for reply in replies]
    source = write(rows, tmp_path / "in.jsonl")
    with servers.Server(servers.graded) as server:
        options = judge(server, tmp_path, "product")
        assert dre("score", source, "--slm", slm, "-o", tmp_path / "o.csv", *options) == 0
        assert len(server.requests) == 1
    table = read(tmp_path / "o.csv")
    assert table["score"].notna().tolist() == [True, False, False]


def test_english_with_numbers_names_and_emoji_is_no_other_language(tmp_path, capsys):
    context = [
        f"Turn {number}: platform {number * 37}, 😀 at 1{number % 10}:4{number % 10}."
        for number in range(60)
    ]
    rows = [{"context": context, "response": "Then I shall take the train with Zoë and André. 🚂"}]
    assert dre("score", write(rows, tmp_path / "in.jsonl"), "-o", tmp_path / "o.csv") == 0
    notes = capsys.readouterr().err
    assert "language" not in notes
    assert "script" not in notes


def test_speaker_tags_are_taken_off_and_said(slm, tmp_path, capsys):
    def score_of(turns, *options):
        rows = [{"context": turns, "response": "Then I must go."}]
        path = write(rows, tmp_path / "in.jsonl")
        assert dre("score", path, "--slm", slm, "--json", *options) == 0
        printed = capsys.readouterr()
        summary = json.loads(printed.out)
        return summary["scores"][0]["score"], summary["notes"], printed.err

    plain, _, _ = score_of(["Is it late?", "It is ten."])
    tagged = ["A: Is it late?", "B: It is ten."]
    score, notes, err = score_of(tagged)
    assert score == plain
    assert "tags (A:, B:) were taken off 2 turns and 0 responses" in notes[0]
    assert err.count("were taken off") == 1
    kept, notes, _ = score_of(tagged, "--keep-tags")
    assert kept != plain
    assert "2 of 2 turns begin with a speaker, such as 'A: Is it late?'" in notes[0]


def test_no_file_that_another_program_made_is_written_over(slm, responses, tmp_path, capsys):
    """Neither the page nor the records that were set aside nor the summary."""
    holed = tmp_path / "holed.jsonl"
    holed.write_text(responses.read_text() + "{torn\n")
    run = ("score", holed, "--slm", slm, "--skip-bad", "-o", tmp_path / "o.csv")
    page, bad_records = tmp_path / "keep.html", tmp_path / "o.csv.bad.jsonl"
    page.write_text("precious")
    assert dre(*run, "--report", page) == 2
    assert f"{page} is there, and nothing says that" in capsys.readouterr().err
    bad_records.write_text("precious")
    assert dre(*run) == 2
    assert f"{bad_records} is there, and nothing says that" in capsys.readouterr().err
    assert not (tmp_path / "o.csv").exists()
    summary = tmp_path / "o.csv.summary.json"
    summary.write_text("precious")
    assert dre(*run) == 2
    assert f"{summary}: this is not a summary that dre wrote" in capsys.readouterr().err
    assert not (tmp_path / "o.csv").exists()
    assert page.read_text() == bad_records.read_text() == summary.read_text() == "precious"

    assert dre(*run, "--report", page, "--force") == 0
    assert "<html" in page.read_text()
    assert "default-src 'none'; style-src 'unsafe-inline'\"" in page.read_text()
    assert json.loads(bad_records.read_text())["content"] == "{torn"


def test_the_same_command_with_a_page_runs_twice(slm, responses, tmp_path):
    run = (
        "score",
        responses,
        "--slm",
        slm,
        "-o",
        tmp_path / "o.csv",
        "--report",
        tmp_path / "p.html",
    )
    assert dre(*run) == 0
    before = (tmp_path / "p.html").read_bytes()
    assert dre(*run) == 0
    assert (tmp_path / "p.html").read_bytes() == before


def test_an_output_that_is_a_folder_is_said(slm, responses, tmp_path, capsys):
    (tmp_path / "folder.csv").mkdir()
    assert dre("score", responses, "--slm", slm, "-o", tmp_path / "folder.csv") == 2
    assert "folder.csv is a folder: expected the name of a file" in capsys.readouterr().err


def test_sets_that_share_contexts_are_refused_since_neither_is_new_to_the_other(
    sets, tmp_path, capsys
):
    """The replies of two systems to the same contexts, in two files."""
    source, scores = sets[0]
    copy, copied_scores = tmp_path / "copy.jsonl", tmp_path / "copy.csv"
    shutil.copy(source, copy)
    shutil.copy(scores, copied_scores)
    shutil.copy(f"{scores}.summary.json", f"{copied_scores}.summary.json")
    learn = ("calibrate", "--set", source, scores, "--set", copy, copied_scores)
    assert dre(*learn, "-o", tmp_path / "f.json") == 2
    assert f"{source} and {copy} share 4 contexts" in capsys.readouterr().err
    assert not (tmp_path / "f.json").exists()


def test_calibrate_typed_twice_writes_the_same_and_never_over_something_else(
    sets, tmp_path, capsys
):
    file = tmp_path / "fusion.json"
    learn = ("calibrate", "--set", *sets[0], "--set", *sets[1], "-o", file)
    assert dre(*learn) == 0
    printed, content = capsys.readouterr().out, file.read_bytes()
    assert dre(*learn) == 0
    assert capsys.readouterr().out == printed
    assert file.read_bytes() == content

    file.write_text("precious")
    assert dre(*learn) == 2
    assert "nothing says that this command made it" in capsys.readouterr().err
    assert file.read_text() == "precious"
    assert dre(*learn, "--force") == 0
    assert file.read_bytes() == content


def test_a_mean_is_printed_once_and_no_longer_than_it_is_sure(slm, tmp_path, capsys):
    write(records(1)[:1], tmp_path / "one.jsonl")
    assert dre("score", tmp_path / "one.jsonl", "--slm", slm) == 0
    out = capsys.readouterr().out
    headers = "| Rank | System | n | N missing | Score | Scaled distance | Fits | Length | Echo |"
    assert headers in out
    assert "Interval" not in out.partition("Mean scores")[2]
    assert "Systems that no test" not in out
    assert re.search(r"\| 0\.\d{3} \|", out)
    assert not re.search(r"\d\.\d{4}", out.partition("Mean scores")[2])


def test_two_plain_texts_are_no_lists_of_pairs(slm):
    with pytest.raises(DreError, match="contexts is a text: a list of contexts is expected"):
        DRE.load(slm).score("Do you like tea?", "With milk.")
    with pytest.raises(DreError, match="responses is a text: a list of responses is expected"):
        DRE.load(slm).score([["Do you like tea?"]], "With milk.")


def test_in_a_log_file_a_long_scoring_tells_now_and_then_how_far_it_is(
    slm, responses, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(metrics, "BLOCK", 10)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0)
    assert dre("score", responses, "-o", tmp_path / "blocks.csv", "--slm", slm) == 0
    printed = capsys.readouterr().err
    lines = [line for line in printed.splitlines() if " pairs, about" in line]
    assert re.fullmatch(r"10 of 24 pairs, about \d+ s left", lines[0])
    assert [line.split()[0] for line in lines] == ["10", "20", "24"]

    monkeypatch.setattr(metrics, "BLOCK", 1000)
    monkeypatch.setenv("DRE_CACHE", str(tmp_path / "other"))
    assert dre("score", responses, "-o", tmp_path / "whole.csv", "--slm", slm) == 0
    blocks, whole = read(tmp_path / "blocks.csv"), read(tmp_path / "whole.csv")
    np.testing.assert_allclose(blocks["score"], whole["score"], atol=1e-5)


def score_and_log(log_path, stderr_path, *words):
    """Run ``dre score`` in blocks of 20 pairs, and write down each pair that the model computes."""
    score = SLM.score

    def logged_score(self, pairs, progress=False):
        table = score(self, pairs, progress)
        with open(log_path, "a") as log:
            log.writelines(f"{pair_id}\n" for pair_id in pairs["pair_id"])
        time.sleep(0.1)
        return table

    metrics.BLOCK = 20
    SLM.score = logged_score
    with open(stderr_path, "w") as stderr, contextlib.redirect_stderr(stderr):
        sys.exit(dre("score", *words))


@pytest.mark.skipif(torch.cuda.is_available(), reason="a copy of a process cannot use its GPU")
def test_a_scoring_that_is_killed_twice_computes_each_pair_once(slm, tmp_path):
    """But for the block that was being computed when it was killed."""
    source = write(records(100), tmp_path / "in.jsonl")
    log = tmp_path / "log"
    stderr = tmp_path / "stderr"
    log.touch()
    for n_computed in (40, 120):
        run = start_copy(score_and_log, log, stderr, source, "--slm", slm)
        end = time.monotonic() + 120
        while len(log.read_text().splitlines()) < n_computed:
            assert run.is_alive() and time.monotonic() < end, stderr.read_text()
            time.sleep(0.01)
        run.kill()
        run.join()
    output = tmp_path / "o.csv"
    run = start_copy(score_and_log, log, stderr, source, "--slm", slm, "-o", output)
    run.join()
    assert run.exitcode == 0
    assert "of 200 pairs were scored before" in stderr.read_text()
    counts = Counter(log.read_text().split())
    assert len(counts) == 200
    assert counts.total() <= 200 + 2 * 20
    assert len(read(output)) == 200

    # The numbers are those of a scoring in one go.
    metric = DRE.load(slm)
    pairs = pd.DataFrame(records(100))
    scores = metric.score(pairs["context"], pairs["response"])["score"]
    np.testing.assert_allclose(read(output)["score"], scores, atol=1e-5)


def test_scores_are_kept_by_model_and_text_and_no_text_is_written(
    slm, responses, tmp_path, capsys, own_cache
):
    assert dre("score", responses, "--slm", slm) == 0
    assert "scored before" not in capsys.readouterr().err
    assert dre("score", responses, "--slm", slm) == 0
    assert "24 of 24 pairs were scored before" in capsys.readouterr().err
    other_slm = saved_slm(tmp_path, threshold=0.5)
    model = SLM.load(other_slm)
    model.head.classifier.weight.data += 1
    model.save(tmp_path / "changed")
    assert dre("score", responses, "--slm", tmp_path / "changed") == 0
    assert "scored before" not in capsys.readouterr().err
    for file in own_cache.iterdir():
        assert b"with milk" not in file.read_bytes()


def test_a_cache_that_cannot_be_written_is_said_and_costs_no_score(
    slm, responses, tmp_path, capsys, monkeypatch
):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("DRE_CACHE", str(tmp_path / "file" / "cache"))
    assert dre("score", responses, "--slm", slm) == 0
    assert "DRE_CACHE names another folder" in capsys.readouterr().err


def test_a_look_prints_the_means_and_writes_nothing(slm, responses, tmp_path, capsys):
    before = sorted(tmp_path.iterdir())
    assert dre("score", responses, "--slm", slm, "--limit", 5) == 0
    printed = capsys.readouterr().out
    assert "| alpha | 3 | 0 |" in printed
    assert "5 scores; nothing was written: give -o FILE.csv to have them" in printed
    assert sorted(tmp_path.iterdir()) == before

    assert dre("score", responses, "--slm", slm, "--limit", 5, "--json") == 0
    content = json.loads(capsys.readouterr().out)
    assert [row["n"] for row in content["systems"]] in ([3, 2], [2, 3])
    assert len(content["scores"]) == 5
    assert "limit:5" in content["signature"]


def test_the_papers_names_of_methods_are_taken(slm, responses, tmp_path, capsys):
    assert dre("score", responses, "--slm", slm, "-o", tmp_path / "o.csv") == 0
    for name in ("slm", "small"):
        assert (
            dre("score", responses, "--slm", slm, "-o", tmp_path / "o.csv", "--method", name) == 0
        )
    assert capsys.readouterr().out.count("dre:small|") == 3


@pytest.mark.parametrize(
    ("n_cores", "load", "n_threads"),
    [(8, 0.0, 8), (8, 3.2, 5), (2, 12.0, 1), (1, 0.0, 1), (4, 0.4, 4)],
)
def test_threads_are_as_many_as_cores_are_free(n_cores, load, n_threads):
    assert threads.suitable(n_cores, load) == n_threads
