"""``dre score`` and ``dre calibrate`` as a user runs them, and the metric from Python."""

import json
import re
import shutil
from pathlib import Path

import judge_servers as servers
import numpy as np
import pandas as pd
import pytest
import tiny
import torch

from dre import DRE, fusion
from dre.calibrated import Calibrated
from dre.commands.main import main
from dre.datasets.dialogues import load
from dre.errors import DreError
from dre.judges.asking import Run
from dre.score import metric as metrics
from dre.slm import SLM, recipes

RECORDED = ("--judge", "recorded:claude-2026-11")


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
    """Records of n contexts, and in each the response that a system always gives, of two systems."""
    always = {"alpha": "Only with milk, please.", "beta": "It was the train to my house."}
    return [
        {
            "id": f"c{i}",
            "system": system,
            "context": ["Do you like tea?", f"Number {i}?"],
            "response": response,
        }
        for i in range(n)
        for system, response in always.items()
    ]


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
    if path.suffix == ".jsonl":
        return pd.read_json(path, lines=True)
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)


def dre(*words):
    return main([str(word) for word in words])


@pytest.fixture(scope="module")
def slm(tmp_path_factory):
    return saved_slm(tmp_path_factory.mktemp("score"))


@pytest.fixture
def given(tmp_path, monkeypatch):
    """Pairs to score, and a key for a judge."""
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    return write(records(12), tmp_path / "in.jsonl")


def judge(server, tmp_path, method="non_dre"):
    return (
        "--method",
        method,
        "--judge",
        "openai:m",
        "--base-url",
        server.url,
        "--store",
        tmp_path / "s.sqlite",
    )


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_a_file_of_each_form_gets_the_scores_of_the_model(slm, tmp_path, capsys, ending):
    rows, output = records(12), tmp_path / f"out{ending}"
    given = [row | {"answer": row["response"], "response": "?"} for row in rows]
    run = ("score", write(given, tmp_path / f"in{ending}"), "-o", output, "--slm", slm)
    assert dre(*run, "--field", "response=answer") == 0
    said = capsys.readouterr().out
    assert said.startswith("dre:slm|model:ffffffffffff|recipe:paper|seed:3|encoder:tiny|data:")
    assert "Difference a - b" in said and "24 scores written" in said
    table, expected = (
        read(output),
        SLM.load(slm).score(pd.DataFrame(rows).assign(pair_id=range(24))),
    )
    assert table[["id", "system"]].to_numpy().tolist() == [
        [row["id"], row["system"]] for row in rows
    ]
    numbers = ["distance", "s_d", "s_p", "score_slm"]
    np.testing.assert_allclose(table[numbers], expected[numbers], atol=1e-5)
    assert table["score"].equals(table["score_slm"]) and set(table["status"]) == {"ok"}
    summary = json.loads(Path(f"{output}.summary.json").read_text())
    means = {row["system"]: row["score"] for row in summary["systems"]}
    assert summary["contexts"] == 12 and means == pytest.approx(
        table.groupby("system")["score"].mean().to_dict()
    )


def test_a_finished_run_is_shown_again_and_never_written_over(
    slm, given, tmp_path, monkeypatch, capsys
):
    run, output = ("score", given, "-o", tmp_path / "o.csv", "--slm", slm), tmp_path / "o.csv"
    assert dre(*run) == 0
    said, before = capsys.readouterr().out, output.stat().st_mtime_ns
    assert dre(*run) == 0
    assert output.stat().st_mtime_ns == before and capsys.readouterr().out == said
    assert dre("score", write(records(3), tmp_path / "b.jsonl"), *run[2:]) == 2
    assert re.search(
        r"o.csv is of another run \(data \w{12}, now \w{12}\): name .*--force$",
        capsys.readouterr().err,
    )
    monkeypatch.setattr("dre.slm.encoder.native_bf16", lambda: True)
    assert dre(*run, "--bf16") == 2 and "(precision None, now bf16)" in capsys.readouterr().err
    for torn in ("[]", "{"):
        Path(f"{output}.summary.json").write_text(torn)
        assert (
            dre(*run) == 2 and "nothing says that this command made it" in capsys.readouterr().err
        )
    assert dre(*run, "--force") == 0 and capsys.readouterr().out == said


def test_a_bad_line_stops_the_run_or_is_set_aside_and_counted(slm, tmp_path, capsys):
    first, *others = map(json.dumps, records(2))
    reasons = {
        "{torn": "no JSON: Expecting property name enclosed in double quotes at column 2",
        '{"context": "a", "response": ""}': "response is ''",
        '{"context": "a", "response": "half \\ud83d"}': "response is 'half",
        '{"context": ["a", null], "response": "b"}': "context is ['a', None]: expected turns, oldest first",
        "[" * 100_000: "no JSON: maximum recursion depth exceeded",
        json.dumps({"context": "[" + "-" * 200_000 + "1]", "response": " "}): "response is ' '",
        first: "id 'c0' is line 1's",
    }
    holed, output = tmp_path / "holed.jsonl", tmp_path / "o.csv"
    holed.write_text("\n".join(["\ufeff" + first, *reasons, *others]))
    run = ("score", holed, "-o", output, "--slm", slm)
    assert dre(*run) == 2
    said = capsys.readouterr().err
    assert (
        f"error: {holed}:2: no JSON: Expecting property name" in said and "(and 6 more bad)" in said
    )
    assert list(tmp_path.iterdir()) == [holed]
    assert dre(*run, "--skip-bad") == 0
    assert "7 bad record(s) not scored" in capsys.readouterr().err
    aside = [json.loads(line) for line in Path(f"{output}.bad.jsonl").read_text().splitlines()]
    assert [one["line"] for one in aside] == [*range(2, 9)] and aside[0]["content"] == "{torn"
    assert all(
        one["reason"].startswith(reason)
        for one, reason in zip(aside, reasons.values(), strict=True)
    )
    assert list(read(output)["line"]) == [1, 9, 10, 11]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("in.jsonl --method slide", "method slide needs a judge: give judge"),
        (
            "in.jsonl --method slm --judge recorded:claude-2026-11",
            "method slm has no use for judge: leave it out, or choose",
        ),
        ("in.jsonl --accuracies 88,98", "expected those of SLM and LLM in [0, 1]"),
        ("in.jsonl --max-usd 1", "--max-usd: there is no judge to use it"),
        ("in.jsonl --workers 2", "--workers is of --engine ray"),
        ("in.jsonl --field context", "expected NAME=COLUMN"),
        (
            "in.jsonl --field system=modle",
            "--field names modle: expected a column, the records have ",
        ),
        ("new.csv --method non_dre --judge recorded:claude-2026-11", "for 1 of 1 pairs"),
        ("two.csv --judge recorded:claude-2026-11", "make ids unique, also between systems"),
        ("none.jsonl", "none.jsonl: cannot be read (No such file"),
        (
            "in.jsonl --slm mini",
            "there is no SLM 'mini': expected a folder with one, or owner/name on the Hub",
        ),
    ],
)
def test_what_does_not_fit_or_cannot_be_read_is_one_sentence(
    given, monkeypatch, capsys, line, message
):
    monkeypatch.chdir(given.parent)
    Path("new.csv").write_text("context,response\na,b\n")
    Path("two.csv").write_text("id,system,context,response\n1,s,a,b\n1,t,a,b\n")
    assert dre("score", "-o", "o.csv", *line.split()) == 2
    assert message in capsys.readouterr().err


def test_a_threshold_accepts_and_what_is_cut_is_said(tmp_path, capsys):
    texts = ["!" * 127, "Yes.", "Only with milk.", "It was the train to my house."]
    rows = [{"context": ["Hi."], "response": text} for text in texts] + [
        {"context": ["tea " * 130], "response": "a"}
    ]
    slm = saved_slm(tmp_path, threshold=0.8)
    assert (
        dre("score", write(rows, tmp_path / "in.jsonl"), "-o", tmp_path / "o.csv", "--slm", slm)
        == 0
    )
    said, table = capsys.readouterr(), read(tmp_path / "o.csv")
    assert "1 responses are longer than the encoder reads; only their beginning" in said.err
    assert "1 contexts are longer than the encoder reads; only their end counts" in said.err
    assert "Score: about 0 to 2, higher is better. Intervals" in said.out
    assert "ccepted" not in said.out  # a decision on a single reply is not shown as a result
    summary = json.loads((tmp_path / "o.csv.summary.json").read_text())
    assert summary["threshold"] == 0.8
    assert summary["systems"][0]["accepted"] == table["accepted"].mean()
    assert table["accepted"].equals(table["score_slm"] >= 0.8)
    reasons = [
        "the response is cut after 128 tokens",
        *[None] * 3,
        "the context is cut: only its last 128 tokens count",
    ]
    assert table["reason"].astype(object).where(table["reason"].notna(), None).tolist() == reasons
    assert type(DRE.load(slm).score([["Hi."]], ["Yes."]).iloc[0]["accepted"]) is bool


def test_replies_that_repeat_their_context_or_are_in_another_language_are_said(tmp_path, capsys):
    asked = [
        "Did you water the plants by the door today?",
        "Which train goes to the old harbour?",
        "Who made soup?",
    ]
    told = {
        "good": [
            "I did, before breakfast.",
            "The one at ten from platform two.",
            "My brother did, with fresh leeks.",
        ],
        "echo": asked,
        "salad": ["door the by water you", "harbour the old to goes", "soup made who"],
        "deutsch": [
            "Ja, schon vor dem Frühstück gegossen.",
            "Der nächste fährt gegen zehn Uhr vom Bahnsteig zwei.",
            "Mein jüngerer Bruder, mit frischem Lauch und Kartoffeln.",
        ],
    }
    rows = [
        {"system": name, "context": [turn], "response": one}
        for name in told
        for turn, one in zip(asked, told[name])
    ]
    assert dre("score", write(rows, tmp_path / "in.jsonl"), "-o", tmp_path / "o.csv") == 0
    said = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in said] == [
        "responses of 'deutsch' are in no language that the SLM knows (it makes 2.2 pieces of a word, of English 1.0)",
        "2 of 3 replies of 'echo' only repeat words of their context",
        "2 of 3 replies of 'salad' only repeat words of their context",
    ]


@pytest.mark.parametrize("method", ["slide", "ex_dre", "in_dre", "dre", "non_dre"])
def test_every_method_is_its_equation(slm, given, tmp_path, method):
    def reply(request):
        values = {"score": sum(request.raw) % 51 / 10, "influence": 0.5}
        schema = request.body["response_format"]["json_schema"]["schema"]
        return servers.openai(json.dumps({name: values[name] for name in schema["required"]}))

    more = ["--accuracies", "0.9,0.8", *([] if method == "non_dre" else ["--slm", slm])]
    with servers.Server(reply) as server:
        assert (
            dre("score", given, "-o", tmp_path / "o.csv", *judge(server, tmp_path, method), *more)
            == 0
        )
        bodies = [request.raw.decode() for request in server.requests]
    table = read(tmp_path / "o.csv")
    small, llm = table["score_slm"], table["score_llm"]
    expected = {"slide": fusion.slide(small, llm), "in_dre": llm, "non_dre": llm}
    np.testing.assert_allclose(table["score"], expected.get(method, small * llm))
    assert len(bodies) == 24 and llm.nunique() > 5
    if method in ("in_dre", "dre"):
        assert all("- SLM: 90.0%" in body and "- LLM: 80.0%" in body for body in bodies)
        assert any(f"{table['s_p'][0]:.3f}" in body for body in bodies)


class Heard:
    """A judge of one's own that keeps what it is shown, and gives the lowest score of its prompt's scale, or more."""

    spec, signature, last, max_usd, shown = "own:ear", "own:ear", Run(), None, None

    def score(self, pairs, prompt):
        self.shown, (low, high) = pairs, prompt.scale
        scores = np.linspace(low, high, len(pairs))
        return pd.DataFrame({"score_llm": scores, "s_inf": 0.5, "status": "ok", "reason": ""})


def test_a_prompt_is_shown_numbers_in_their_range_and_its_scale_becomes_0_to_5(slm):
    heard, metric = (
        Heard(),
        DRE.load(slm, judge=(one := Heard()), method="dre", accuracies=[0.9, 0.8]),
    )
    found, about = (
        metric.slm.score(pd.DataFrame(records(3)).assign(pair_id=range(6))),
        metric.slm.provenance,
    )
    about["d_min"], about["d_max"] = found["distance"].quantile(
        [0.4, 0.6]
    )  # recipe graded leaves 0 to 1, too
    said = metric.score(*(list(pd.DataFrame(records(3))[name]) for name in ("context", "response")))
    assert said["s_d"].min() < 0 and said["s_d"].max() > 1
    assert one.shown["s_d"].min() == 0 and one.shown["s_d"].max() == 1
    assert (one.shown["score_slm"] == (1 - one.shown["s_d"] + one.shown["s_p"]).round(6)).all()
    np.testing.assert_allclose(said["score"], (1 - said["s_d"] + said["s_p"]) * said["score_llm"])
    likert = DRE.load(judge=heard, prompt="geval_coherence").score(
        [["Hi."]] * 3, ["Ho."] * 3
    )  # 1 to 3
    assert likert["score"].tolist() == [0, 2.5, 5]


@pytest.mark.parametrize(
    "options, said",
    [
        ({"methd": "slide"}, "no option 'methd': did you mean method?"),
        ({"judge": Heard(), "accuracy": [1, 1]}, "no option 'accuracy': did you mean accuracies?"),
        ({"temperature": 0}, "no option 'temperature': only a judge that is named"),
        ({"method": "ex_dre"}, "method ex_dre needs a judge: give judge"),
        (
            {"method": "dre", "judge": Heard()},
            "needs a judge and the accuracies of SLM and LLM: give accuracies",
        ),
        (
            {"judge": "recorded:claude-2026-11", "method": "slm"},
            "has no use for judge: leave it out",
        ),
        ({"fusion": "f.json"}, "no use for fusion"),
        ({"prompt": "llm_only"}, "no use for prompt"),
    ],
)
def test_options_that_mean_nothing_are_refused_in_words_for_python(options, said):
    with pytest.raises(DreError, match=re.escape(said)) as error:
        DRE.load(**options)
    assert "--" not in str(error.value)


def test_a_judge_without_a_method_is_the_judge_alone_under_either_name_and_may_be_a_function():
    told = [
        str(DRE.load(judge=Heard(), **more).signature())
        for more in ({}, {"method": "judge"}, {"method": "non_dre"})
    ]
    assert len(set(told)) == 1 and told[0].startswith("dre:judge|judge:own:ear|")
    metric = DRE.load(judge=lambda context, response: len(context) + (response == "Ho."))
    assert metric.score([["Hi."], ["Hi.", "Oh?"]], ["Ho.", "No."])["score"].tolist() == [2, 2]


def test_an_interrupted_run_does_not_go_on_with_another_servers_judge(given, tmp_path, capsys):
    def scores(number):
        return lambda request: servers.openai(json.dumps({"score": number}), tokens=(1000, 1000))

    with servers.Server(scores(1)) as one, servers.Server(scores(5)) as two:
        run = ("score", given, "-o", tmp_path / "o.csv", "--price", "1,2", "--concurrency", "1")
        assert dre(*run, *judge(one, tmp_path), "--max-usd", "0.05") == 1  # ends after a few pairs
        assert "stopped before $0.05 would be passed" in capsys.readouterr().err
        assert 0 < len(one.requests) < 24 and not (tmp_path / "o.csv").exists()
        assert dre(*run, *judge(two, tmp_path)) == 0
        assert set(read(tmp_path / "o.csv")["score"]) == {5.0} and len(two.requests) == 24
        assert dre(*run, *judge(one, tmp_path)) == 2  # its summary is not shown for the other's
        assert f"base_url={two.url}" in capsys.readouterr().err
        (tmp_path / "o.csv").unlink()
        assert dre(*run, *judge(one, tmp_path)) == 0
        assert (
            set(read(tmp_path / "o.csv")["score"]) == {1.0} and len(one.requests) == 24
        )  # none was asked twice


def test_replies_without_a_score_are_counted_and_without_any_nothing_is_written(
    slm, given, tmp_path, capsys
):
    def some(request):
        if "response_format" not in request.body:  # an old model
            return servers.error("openai", 400, "no prompt for me")
        return servers.openai("no idea" if sum(request.raw) % 3 == 0 else '{"score": 3}')

    with servers.Server(some) as server:
        more = ("--slm", slm, *judge(server, tmp_path, "ex_dre"))
        assert dre("score", given, "-o", tmp_path / "o.csv", *more) == 0
        few = write(records(2), tmp_path / "few.jsonl")
        assert dre("score", few, "-o", tmp_path / "none.csv", *more, "--plain") == 1
    table, said = read(tmp_path / "o.csv"), capsys.readouterr()
    assert (
        "nothing was written: 2 pairs of 'alpha' have no score: the judge's reply is error (first alpha/c0: HTTP 400"
        in said.err
    )
    assert not list(tmp_path.glob("none.csv*"))
    bad = table["status"] == "malformed"
    assert (
        0 < bad.sum() < 24
        and table["score"].isna().equals(bad)
        and table["reason"][bad].notna().all()
    )
    for system, part in table[bad].groupby("system"):
        assert (
            f"{len(part)} pairs of '{system}' have no score: the judge's reply is malformed ("
            in said.err
        )
    both = (~bad).groupby(table["context_id"]).all().sum()
    assert f"only {both} of 12 contexts have a score of every system" in said.err


def test_score_and_compute(slm):
    metric, contexts, responses = (
        DRE.load(slm),
        [["Do you like tea?"], "Is it late?\nIt is."],
        ["With milk.", "I see."],
    )
    table = metric.score(contexts, responses, systems=["a", "b"])
    assert (
        list(table["id"]) == ["1", "2"]
        and list(table["system"]) == ["a", "b"]
        and "line" not in table
    )
    found = metric.compute(predictions=responses, contexts=contexts)
    assert found["scores"] == pytest.approx(table["score"].tolist()) and found["n_missing"] == 0
    assert found["score"] == pytest.approx(table["score"].mean())
    assert (
        metric.compute(predictions=responses[::-1], contexts=contexts)["signature"]
        != found["signature"]
    )
    with pytest.raises(DreError, match=r"sequences of lengths \[1, 2\]"):
        metric.score(contexts, responses[:1])


@pytest.fixture(scope="module")
def sets(slm, tmp_path_factory):
    """Two rated files with the scores that dre score made of them: people agree with the judge, and with the SLM."""
    folder, contexts = tmp_path_factory.mktemp("sets"), load("mini", "test")[:8]
    one, two = rated_records(contexts[:4]), rated_records(contexts[4:])
    one[0]["human"] = None  # nobody has rated it
    scored = DRE.load(slm).score(*([row[name] for row in two] for name in ("context", "response")))
    two = [row | {"human": score} for row, score in zip(two, scored["score"])]
    made = []
    for name, rows, ending in (("one", one, "csv"), ("two", two, "parquet")):
        source, scores = write(rows, folder / f"{name}.jsonl"), folder / f"{name}-scores.{ending}"
        assert (
            dre("score", source, "-o", scores, "--slm", slm, "--method", "ex_dre", *RECORDED) == 0
        )
        made.append((source, scores))
    return made


def test_a_fusion_is_learned_measured_and_used_and_held_to_its_model(slm, sets, tmp_path, capsys):
    file, (source, scores) = tmp_path / "fusion.json", sets[0]
    learn = ("calibrate", "--set", *sets[0], "--set", *sets[1], "-o", file)
    assert dre(*learn) == 0
    said, learned = capsys.readouterr().out, Calibrated.load(file)
    assert (
        f"weight {learned.weight:.2f} (0: the judge alone, 1: the SLM alone), learned from 79 rated pairs"
        in said
    )
    gained = re.findall(r"\.jsonl \|.* ([\d.]+) \|$", said, re.MULTILINE)
    assert (
        gained == ["1.0000", "0.0000"] and 0 < learned.weight < 1
    )  # a set is measured with what the other says
    run = (
        "score",
        source,
        "--slm",
        slm,
        *RECORDED,
        "--method",
        "calibrated",
        "--fusion",
        file,
        "-o",
    )
    capsys.readouterr()
    assert dre(*run, tmp_path / "fused.jsonl") == 0
    assert f"|fusion:{learned.sha256[:12]}|data:" in capsys.readouterr().out
    fused, before, w = read(tmp_path / "fused.jsonl"), read(scores), learned.weight
    np.testing.assert_allclose(fused["z_slm"], learned.slm(before["score_slm"]), atol=1e-5)
    np.testing.assert_allclose(
        fused["score"], (1 - w) * fused["z_llm"] + w * fused["z_slm"], atol=1e-9
    )
    assert dre(*learn) == 0  # typed twice, it is the same file
    capsys.readouterr()
    whole = json.loads(file.read_text())
    file.write_text(json.dumps(whole).replace("f" * 12, "e" * 12))
    assert dre(*run, tmp_path / "other.csv") == 2
    assert "was learned with model eeeeeeeeeeee, not with ffff" in capsys.readouterr().err
    faults = [
        {"weight": 7.5},
        {"weight": float("nan")},
        {"slm": {"at": [1], "z": [0]}},
        {"llm": {"at": [], "z": []}},
    ]
    for fault in [
        *faults,
        {"slm": {"at": [0, 1, 2], "z": [0, 1]}},
        {"slm": {"at": [0, 1, 2], "z": [1, 0, -1]}},
    ]:
        file.write_text(json.dumps(whole | fault))
        assert (
            dre(*run, tmp_path / "other.csv") == 2
            and "is no saved fusion" in capsys.readouterr().err
        )


def test_scores_of_other_data_or_by_different_models_teach_nothing(sets, tmp_path, capsys):
    (source, scores), file = sets[0], tmp_path / "f.json"
    assert dre("calibrate", "--set", sets[1][0], scores, "-o", file) == 2
    assert "one-scores.csv was made by method ex_dre from data" in capsys.readouterr().err
    shutil.copy(scores, other := tmp_path / "other.csv")
    summary = Path(f"{scores}.summary.json").read_text().replace("f" * 64, "e" * 64)
    Path(f"{other}.summary.json").write_text(summary)
    assert dre("calibrate", "--set", source, scores, "--set", source, other, "-o", file) == 2
    assert "scored with different models" in capsys.readouterr().err and not file.exists()
    read(scores).drop(columns="line").to_csv(other, index=False)
    assert dre("calibrate", "--set", source, other, "-o", file) == 2
    assert "expected what dre score wrote, with the summary beside it" in capsys.readouterr().err
    assert dre("calibrate", "--set", source, scores, "-o", source) == 2


def test_a_page_shows_the_worst_and_where_systems_and_judge_and_slm_disagree(slm, given, tmp_path):
    """Eight contexts, two systems: the judge gives b's reply to context i the score i / 2, and a's always 4."""
    rows = [(f"turn <{i}>?", name, f"{name} says {i} & more") for i in range(8) for name in "ab"]
    rows = [{"context": [turn], "system": name, "response": text} for turn, name, text in rows]
    write(rows, given)

    def said(request):
        text = request.body["messages"][-1]["content"]
        name, i = re.findall(r"([ab]) says (\d)", text)[-1]
        return servers.openai(json.dumps({"score": 4 if name == "a" else int(i) / 2}))

    with servers.Server(said) as server:
        asked = judge(server, tmp_path, "ex_dre")
        run = ("score", given, "-o", tmp_path / "o.csv", "--slm", slm, *asked, "--report")
        assert dre(*run, tmp_path / "page.html") == 0 == dre(*run, tmp_path / "again.html")
        assert dre(*run, tmp_path / "page.txt") == 2 and len(server.requests) == 16
    page = (tmp_path / "page.html").read_text()
    assert (
        page == (tmp_path / "again.html").read_text() and "<8>" not in page and len(page) < 30_000
    )
    _, _, worst, between, apart = page.split("<h2>")
    assert worst.count("<article>") == 16 and worst.index("b says 0 &amp; more") < worst.index(
        "b says 1 &amp; more"
    )
    first = between.split("<article>")[1]
    assert "turn &lt;0&gt;?" in first and first.index("b says 0") < first.index("a says 0")
    assert apart.count("<article>") == 10 and "score slm <b>" in apart and "ex_dre" in apart


SENTENCES = {
    "Arabic": ["نعم، من فضلك مع الحليب.", "القطار يغادر غدا في الصباح."],
    "Hebrew": ["כן, עם חלב בבקשה.", "הרכבת יוצאת מחר בבוקר."],
    "Cyrillic": ["Да, пожалуйста, с молоком.", "Поезд уходит завтра утром."],
    "Cjk": ["好的，请加牛奶。", "火车明天早上出发。"],
}


@pytest.mark.parametrize("script", SENTENCES)
def test_two_replies_in_a_script_that_the_model_does_not_know_are_said(script, tmp_path, capsys):
    rows = [
        {"context": ["Do you like tea?"], "response": response} for response in SENTENCES[script]
    ]
    assert dre("score", write(rows, tmp_path / "in.jsonl"), "-o", tmp_path / "o.csv") == 0
    said = capsys.readouterr().err
    expected = f"2 of 2 responses are in a script that the SLM does not know ({script})"
    assert expected in said


def test_english_with_numbers_names_and_emoji_is_no_other_language(tmp_path, capsys):
    context = [
        f"Turn {number}: platform {number * 37}, 😀 at 1{number % 10}:4{number % 10}."
        for number in range(60)
    ]
    rows = [{"context": context, "response": "Then I shall take the train with Zoë and André. 🚂"}]
    assert dre("score", write(rows, tmp_path / "in.jsonl"), "-o", tmp_path / "o.csv") == 0
    said = capsys.readouterr().err
    assert "language" not in said and "script" not in said


def test_no_file_that_another_program_made_is_written_over(slm, given, tmp_path, capsys):
    """Neither the output nor the page nor the records that were set aside."""
    holed = tmp_path / "holed.jsonl"
    holed.write_text(given.read_text() + "{torn\n")
    run = ("score", holed, "--slm", slm, "--skip-bad", "-o", tmp_path / "o.csv")
    page, aside = tmp_path / "keep.html", tmp_path / "o.csv.bad.jsonl"
    page.write_text("precious")
    assert dre(*run, "--report", page) == 2
    assert f"{page} is there, and nothing says that" in capsys.readouterr().err
    aside.write_text("precious")
    assert dre(*run) == 2
    assert f"{aside} is there, and nothing says that" in capsys.readouterr().err
    assert not (tmp_path / "o.csv").exists()
    assert page.read_text() == aside.read_text() == "precious"

    assert dre(*run, "--report", page, "--force") == 0
    assert "<html" in page.read_text() and json.loads(aside.read_text())["content"] == "{torn"


def test_the_same_command_with_a_page_runs_twice(slm, given, tmp_path):
    run = ("score", given, "--slm", slm, "-o", tmp_path / "o.csv", "--report", tmp_path / "p.html")
    assert dre(*run) == 0
    before = (tmp_path / "p.html").read_bytes()
    assert dre(*run) == 0
    assert (tmp_path / "p.html").read_bytes() == before


def test_an_output_that_is_a_folder_is_said(slm, given, tmp_path, capsys):
    (tmp_path / "folder.csv").mkdir()
    assert dre("score", given, "--slm", slm, "-o", tmp_path / "folder.csv") == 2
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
    said, before = capsys.readouterr().out, file.read_bytes()
    assert dre(*learn) == 0
    assert capsys.readouterr().out == said and file.read_bytes() == before
    file.write_text("precious")
    assert dre(*learn) == 2 and file.read_text() == "precious"
    assert "nothing says that this command made it" in capsys.readouterr().err
    assert dre(*learn, "--force") == 0 and file.read_bytes() == before


def test_a_fusion_of_version_0_2_is_held_to_its_model_and_prompt(slm, sets, tmp_path, capsys):
    file = tmp_path / "fusion.json"
    assert dre("calibrate", "--set", *sets[0], "--set", *sets[1], "-o", file) == 0
    fusion_now = json.loads(file.read_text())
    made_with = fusion_now["made_with"]
    old = made_with | {"model": "f" * 12, "prompt": made_with["prompt"]["sha256"][:12]}
    run = ("score", sets[0][0], "--slm", slm, *RECORDED, "--method", "calibrated", "--fusion", file)

    file.write_text(json.dumps(fusion_now | {"made_with": old}))
    assert dre(*run, "-o", tmp_path / "fused.csv") == 0
    file.write_text(json.dumps(fusion_now | {"made_with": old | {"prompt": "0" * 12}}))
    assert dre(*run, "-o", tmp_path / "other.csv") == 2
    assert "learned with prompt sha256 000000000000, not with" in capsys.readouterr().err


def test_two_plain_texts_are_no_lists_of_pairs(slm):
    with pytest.raises(DreError, match="contexts is a text: a list of contexts is expected"):
        DRE.load(slm).score("Do you like tea?", "With milk.")
    with pytest.raises(DreError, match="responses is a text: a list of responses is expected"):
        DRE.load(slm).score([["Do you like tea?"]], "With milk.")


def test_in_a_log_file_a_long_scoring_tells_every_minute_how_far_it_is(
    slm, given, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(metrics, "BLOCK", 10)
    monkeypatch.setattr(metrics, "SECONDS_BETWEEN_LINES", 0)
    assert dre("score", given, "-o", tmp_path / "blocks.csv", "--slm", slm) == 0
    said = capsys.readouterr().err
    lines = [line for line in said.splitlines() if "pairs scored" in line]
    assert re.fullmatch(r"10 of 24 pairs scored, about \d+ minutes left", lines[0])
    assert [line.split()[0] for line in lines] == ["10", "20", "24"]

    monkeypatch.setattr(metrics, "BLOCK", 1000)
    assert dre("score", given, "-o", tmp_path / "whole.csv", "--slm", slm) == 0
    blocks, whole = read(tmp_path / "blocks.csv"), read(tmp_path / "whole.csv")
    np.testing.assert_allclose(blocks["score"], whole["score"], atol=1e-5)
