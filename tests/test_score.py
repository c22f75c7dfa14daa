"""``dre score`` as a user runs it, and the metric from Python."""

import itertools
import json
import os
import re
import signal
from pathlib import Path

import judge_servers as servers
import numpy as np
import pandas as pd
import pytest
import tiny
import torch
from conftest import start_copy

from dre import DRE
from dre.commands.main import main
from dre.datasets.dialogues import load
from dre.errors import DreError
from dre.score import metric as metrics
from dre.slm import SLM, recipes
from dre.tables import counted

RECORDED = ("--judge", "recorded:claude-2026-11")
RESPONSES = {"alpha": "Only with milk, please.", "beta": "It was the train to my house."}
TURNS = ("Do you like tea?", "Number {}?")
COLUMNS = "line id system context_id distance scaled_distance fits score_slm score status reason"
COLUMNS = [*COLUMNS.split(), "length", "echo"]


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


def records(n, replies=RESPONSES):
    """Records of n contexts, in each the response that either of two systems always gives."""
    rows = []
    for i, (system, response) in itertools.product(range(n), replies.items()):
        pair = {"context": [turn.format(i) for turn in TURNS], "response": response.format(i)}
        rows.append({"id": f"c{i}", "system": system, **pair})
    return rows


def write(rows, name):
    """Write records as JSON Lines, CSV (turns as JSON in a cell) or Parquet, by the ending."""
    table = pd.DataFrame(rows)
    if name.endswith(".parquet"):
        table.to_parquet(name)
    elif name.endswith(".csv"):
        table.assign(context=table["context"].map(json.dumps)).to_csv(name, index=False)
    else:
        table.to_json(name, orient="records", lines=True)
    return name


def score(*words):
    return main(["score", *map(str, words)])


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    """A command runs in a folder of its own, in which in.jsonl has 24 pairs; a judge has a key."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    write(records(12), "in.jsonl")


@pytest.fixture(scope="module")
def slm(tmp_path_factory):
    return saved_slm(tmp_path_factory.mktemp("score"))


def judge(server, method="judge"):
    """The options that name a judge on a server."""
    store = ("--store", "s.sqlite")
    return ("--method", method, "--judge", "openai:m", "--base-url", server.url, *store)


def number_in(request):
    """The number of the context that a judge is asked about."""
    return int(re.findall(r"Number (\d+)\?", request.body["messages"][-1]["content"])[0])


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_a_file_of_each_form_gets_the_scores_of_the_model(slm, capsys, ending):
    rows, output = records(12), f"o{ending}"
    assert score(write(rows, f"turns{ending}"), "-o", output, "--slm", slm) == 0
    printed = capsys.readouterr()
    assert "read as: Do you like tea? | Number 0? → Only with milk, please.\n" in printed.err
    assert printed.out.startswith("dre:small|model:ffffffffffff|recipe:paper|seed:3|encoder:tiny|")
    assert "24 scores written" in printed.out

    read = {"o.jsonl": pd.read_json, "o.csv": pd.read_csv, "o.parquet": pd.read_parquet}[output]
    table = read(output, lines=True) if output == "o.jsonl" else read(output)
    assert list(table) == [name for name in COLUMNS if name != "reason"]  # it would be empty
    assert list(table["id"] + table["system"]) == [row["id"] + row["system"] for row in rows]
    expected = SLM.load(slm).score(pd.DataFrame(rows).assign(pair_id=range(24)))
    expected = expected[["distance", "s_d", "s_p", "score_slm", "score_slm"]]
    numbers = table[["distance", "scaled_distance", "fits", "score_slm", "score"]]
    np.testing.assert_allclose(numbers, expected, atol=1e-5)
    means = table.groupby("system")["score"].mean()
    summary = json.loads(Path(f"{output}.summary.json").read_text())
    assert {row["system"]: row["score"] for row in summary["systems"]} == pytest.approx({**means})
    assert f"\nbeta is better than alpha, by {means['beta'] - means['alpha']:.3f} [" in printed.out


def test_two_files_are_compared_by_context_whatever_the_order_of_lines(slm, capsys):
    """They are as one file whose lines name their systems in ``system`` or in ``model``."""
    texts = ["Yes.", "No.", "The train is late.", "I did.", "My tea?", "Do you?", "It was a train."]
    files = {"a": [], "b": []}
    for i, row in enumerate(records(10, {"": ""})):
        files["a"].append({"context": row["context"], "response": texts[i % 7]})
        files["b"].insert(0, {"context": row["context"], "response": texts[(3 * i + i // 5) % 7]})

    def content(**tables):
        paths = [write(rows, f"{name}.jsonl") for name, rows in tables.items()]
        assert score(*paths, "--slm", slm, "--json") == 0
        return json.loads(capsys.readouterr().out)

    of_files = content(**files)
    scores = pd.DataFrame(of_files["scores"]).pivot(index="context_id", columns="system")["score"]
    (comparison,) = of_files["comparisons"]
    assert comparison["difference"] == pytest.approx((scores["a"] - scores["b"]).mean())
    assert comparison["n_contexts"] == 10
    for column in ("system", "model"):
        of_one_file = content(c=[row | {column: name} for name in "ba" for row in files[name]])
        for key in ("contexts", "shared_contexts", "systems", "comparisons"):
            assert of_one_file[key] == of_files[key]


@pytest.mark.parametrize(
    ("names", "systems"),
    [
        ({"a": "", "b": ""}, {"a", "b"}),
        ({"a": "", "b": "", "c": "A"}, {"a", "b", "A"}),
        ({"a": "", "d": "a"}, {"a/a", "d/a"}),
        ({"a": "x", "b": "x"}, {"a/x", "b/x"}),
    ],
)
def test_every_file_is_a_system_of_its_own(names, systems, slm, capsys):
    paths = []
    for stem, system in names.items():
        paths.append(write([{**row, "system": system} for row in records(4)[::2]], f"{stem}.jsonl"))
    assert score(*paths, "--slm", slm, "--json", "-o", "o.csv") == 0
    found = json.loads(capsys.readouterr().out)["systems"]
    assert {row["system"] for row in found} == systems
    assert score(*paths, "--slm", slm, "-o", "o.csv") == 0
    capsys.readouterr()
    renamed = [Path(path).rename(f"new-{path}") for path in paths]
    assert score(*renamed, "--slm", slm, "-o", "o.csv") == 2
    assert "o.csv is of another run (data" in capsys.readouterr().err


def test_what_another_run_or_program_made_is_written_over_by_force_alone(slm, capsys):
    output, summary = Path("o.csv"), Path("o.csv.summary.json")
    run = ("in.jsonl", "-o", "o.csv", "--slm", slm)
    assert score(*run) == 0
    scores = output.read_bytes()
    assert score(*run) == 0  # the same command
    other = (write(records(3), "b.jsonl"), *run[1:])
    for words, message in [
        (other, r"o.csv is of another run \(data \w{12}, now \w{12}\): name .*--force$"),
        ((*run, "--limit", 3), r"is of another run \(limit None, now 3\)"),
        ((*run, "--as-it-is"), r"is of another run \(reading as_it_is None, now True\)"),
        ((*run, "--skip-bad"), r"is of another run \(reading skip_bad None, now True\)"),
        ((*run, "--field", "id="), r"is of another run \(reading fields None, now id=\)"),
    ]:
        assert score(*words) == 2
        assert re.search(message, capsys.readouterr().err)
    for content, message in ((None, "is there, and nothing says what made it"), ("{", "dre wrote")):
        summary.unlink(missing_ok=True)
        if content:
            summary.write_text(content)
        assert score(*run) == 2
        assert message in capsys.readouterr().err
        assert output.read_bytes() == scores
    output.unlink()
    assert score(*run) == 2  # the summary is of another program
    assert score(*other, "--force") == 0
    assert len(pd.read_csv("o.csv")) == 6
    assert score(*run[:2], "new/folder/o.csv", *run[3:]) == 0
    assert len(pd.read_csv("new/folder/o.csv")) == 24


JUDGE = {"judge": RECORDED[1]}
DRE_OPTIONS = JUDGE | {"method": "dre", "accuracies": [88.0, 98.0]}
REFUSED = [  # a line of options, what is said of it, and the same options in Python
    ("--method slide", "method slide needs slm and judge: give judge", {"method": "slide"}),
    ("--slm x JUDGE", "method judge has no use for slm", JUDGE | {"slm": "x"}),
    ("--accuracies 0.9,1", "small has no use for accuracies", {"accuracies": [0.9, 1]}),
    ("--method dre JUDGE", "accuracies: give accuracies", JUDGE | {"method": "dre"}),
    ("--method dre --accuracies 88,98 JUDGE", "of SLM and LLM in [0, 1]", DRE_OPTIONS),
    ("--prompt classify JUDGE", "expected one that asks for", JUDGE | {"prompt": "classify"}),
    ("--max-usd 1", "--max-usd: there is no judge to use it", None),
    ("--criterion polite", "method small has no use for prompt", None),
    ("-o in.jsonl", "in.jsonl is an input", None),
    ("text.csv", "context is one text, 'a': expected a list", None),
    ("JUDGE", "make ids unique, also between systems", None),
]


@pytest.mark.parametrize(("line", "message", "options"), REFUSED)
def test_what_does_not_fit_or_cannot_be_read_is_one_sentence(capsys, line, message, options):
    """Of what is not of files or of the command alone, Python says the same."""
    Path("text.csv").write_text("context,response\na,b\n")
    files = sorted(Path().iterdir())
    words = line.replace("JUDGE", " ".join(RECORDED)).split()
    source = ("in.jsonl",) if words[0].startswith("-") else ()
    try:
        status = score(*source, "-o", "o.csv", *words)
    except SystemExit as end:  # of argparse
        status = end.code
    assert status == 2
    error = capsys.readouterr().err
    assert message in error and sorted(Path().iterdir()) == files
    if options:
        with pytest.raises(DreError) as caught:
            DRE.load(**options)
        assert error.endswith(f"error: {caught.value}\n")


def test_texts_that_are_cut_and_lines_that_are_left_out_are_counted_and_named(slm, capsys):
    texts = [("Hi.", "!" * 127), ("Hi.", "Yes."), ("tea " * 130, "a")]
    rows = [{"context": [turn], "response": response} for turn, response in texts]
    Path("in.jsonl").write_text("{torn\n" + "\n".join(map(json.dumps, rows)))
    assert score("in.jsonl", "-o", "o.csv", "--slm", slm, "--skip-bad") == 0
    notes = capsys.readouterr().err
    assert "note: 1 response longer than the encoder reads; only the beginning counts" in notes
    assert "note: 1 context longer than the encoder reads; only the end counts" in notes
    assert (
        "note: 1 of 4 records cannot be used; --skip-bad leaves them out\n  in.jsonl:1: not"
        in notes
    )
    assert len(json.loads(Path("o.csv.summary.json").read_text())["notes"]) == 3
    table = pd.read_csv("o.csv", keep_default_na=False)
    assert list(table) == [name for name in COLUMNS if name != "system"]
    assert list(table["line"]) == [2, 3, 4]
    starts = ["the response is cut after 128", "", "the context is cut: only its "]
    assert [reason[:29] for reason in table["reason"]] == starts


LANGUAGES = {
    "English": ["Only with milk, please.", "Then Zoë and André take the 11:45 to 3rd Street. 🚂"],
    "Arabic": ["نعم، من فضلك مع الحليب.", "القطار يغادر غدا في الصباح."],
    "Cyrillic": ["Да, пожалуйста, с молоком.", "Поезд уходит завтра утром."],
    "Cjk": ["好的，请加牛奶。", "火车明天早上出发。"],
    "German": ["Der Zug fährt um zehn Uhr vom Bahnsteig.", "Mein Bruder mit Lauch und Kartoffeln"],
}


def test_what_the_small_model_cannot_read_has_no_score_and_no_judge_is_paid_for_it(capsys):
    rows = []
    for system, texts in LANGUAGES.items():
        rows += [{"context": ["Tea?"], "response": text, "system": system} for text in texts]
    with servers.Server(servers.graded) as server:
        options = judge(server, "product")
        assert score(write(rows, "all.jsonl"), "-o", "o.csv", *options) == 0
        notes, table = capsys.readouterr().err, pd.read_csv("o.csv")
        # With these alone nothing is written, and the file has to be mended.
        assert score(write(rows[2:], "others.jsonl"), "-o", "none.csv", *options) == 2
        assert len(server.requests) == 2
    assert not Path("none.csv").exists()
    assert notes.count("without a score: the small model cannot read them (first ") == 4
    assert "2 pairs of 'Cjk' without a score: the small model cannot read them (first 7: " in notes
    assert table["status"].tolist() == ["ok"] * 2 + ["other_language"] * 8
    assert table["score"].notna().equals(table["status"] == "ok")


@pytest.mark.parametrize("method", ["slide", "ex_dre", "product", "in_dre", "dre", "non_dre"])
def test_every_method_is_its_equation(slm, method):
    """The judge gives the first system the score 0.4 i in context i, and the other 0.1 more."""
    write(records(12, {"alpha": RESPONSES["alpha"], "echo": " ".join(TURNS)}), "in.jsonl")
    model = SLM.load(slm)  # with a smaller range, so that its numbers leave 0 to 1
    model.provenance["d_min"] += 0.1 * (model.provenance["d_max"] - model.provenance["d_min"])
    model.save(Path("narrow"))

    def reply(request):
        is_echo = request.body["messages"][-1]["content"].count("Number") - 1
        values = {"score": (4 * number_in(request) + is_echo) / 10, "influence": 0.5}
        schema = request.body["response_format"]["json_schema"]["schema"]
        return servers.openai(json.dumps({name: values[name] for name in schema["required"]}))

    options = ["--accuracies", "0.9,0.8"] if method in ("in_dre", "dre") else []
    options += ["--slm", "narrow"] if method != "non_dre" else []
    with servers.Server(reply) as server:
        assert score("in.jsonl", "-o", "o.csv", *options, *judge(server, method)) == 0
        prompts = [request.body["messages"][-1]["content"] for request in server.requests]

    table = pd.read_csv("o.csv")
    llm = expected = table["score_llm"]
    assert len(prompts) == 24
    assert llm.tolist() == [(4 * i + j) / 10 for i in range(12) for j in range(2)]  # not 0.8999999
    if method != "non_dre":
        s_d, s_p = table["scaled_distance"], table["fits"]
        assert s_d.min() < 0 and s_d.max() > 1
        small, large = 1 - s_d + s_p, llm * 2 / 5
        if method == "slide":  # either model decides on its own side of 1, else the mean counts
            assert {*zip(small >= 1, large < 1)} == {*itertools.product([True, False], repeat=2)}
            expected = np.where(large < 1, large, (small + large) / 2)
            expected = np.where(small >= 1, small, expected)
        elif method != "in_dre":
            expected = small * llm
    np.testing.assert_allclose(table["score"], expected)
    if method in ("in_dre", "dre"):
        assert all("- SLM: 90.0%" in text and "- LLM: 80.0%" in text for text in prompts)
        # A prompt speaks of numbers from 0 to 1 and of their sum.
        sums = [float(re.findall(r"\(0 to 2\): (\S+)", text)[0]) for text in prompts]
        np.testing.assert_allclose(sorted(sums), sorted(1 - s_d.clip(0, 1) + s_p), atol=0.00051)


def test_a_function_may_judge_on_the_scale_of_a_prompt_which_becomes_0_to_5():
    scores = {"Ho.": 0.9, "No.": 7, "Oh.": None}
    metric = DRE.load(judge=lambda context, response: scores[response] * len(context))
    table = metric.score([["Hi."], ["Hi.", "Oh?"], ["Hi."], ["Hi."]], ["Ho.", "Ho.", "No.", "Oh."])
    assert table["score"].tolist()[:2] == [0.9, 1.8]
    assert table["score"].isna().tolist() == [False, False, True, True]
    assert table["status"].tolist() == ["ok", "ok", "malformed", "error"]
    assert str(metric.signature()).startswith("dre:judge|judge:function:test_score.")

    metric = DRE.load(judge=lambda _, response: len(response), prompt="geval_coherence")  # 1 to 3
    assert metric.score([["Hi."]] * 3, ["a", "bb", "ccc"])["score"].tolist() == [0, 2.5, 5]


def test_a_run_that_reaches_its_ceiling_goes_on_and_another_server_does_not_take_its_output(capsys):
    def reply(request):
        return servers.openai('{"score": 1}', tokens=(1000, 1000))

    run = ("in.jsonl", "-o", "o.csv", "--price", "1,2", "--concurrency", "1")
    with servers.Server(reply) as first, servers.Server(reply) as second:
        assert score(*run, *judge(first), "--max-usd", "0.05") == 1
        assert "stopped before $0.05 would be passed" in capsys.readouterr().err
        assert 0 < len(first.requests) < 24 and not Path("o.csv").exists()
        assert score(*run, *judge(first)) == 0
        assert len(first.requests) == 24
        assert score(*run, *judge(second)) == 2
        assert f"base_url={first.url}" in capsys.readouterr().err and not second.requests


def test_replies_without_a_score_are_counted_and_without_any_nothing_is_written(slm, capsys):
    def sometimes(request):
        if "response_format" not in request.body:
            return servers.error("openai", 400, "no prompt for me")
        return servers.openai("no idea" if sum(request.raw) % 3 == 0 else '{"score": 3}')

    with servers.Server(sometimes) as server:
        run = ("in.jsonl", "--slm", slm, *judge(server, "product"), "-o")
        assert score(*run, "o.csv") == 0
        table, notes = pd.read_csv("o.csv"), capsys.readouterr().err
        assert score(*run, "none.csv", "--plain", "--limit", 2) == 1
    is_malformed = table["status"] == "malformed"
    n_shared = 12 - table[is_malformed]["id"].nunique()
    assert f"only {n_shared} of 12 contexts have a score of every system" in notes
    assert 0 < is_malformed.sum() < 24
    assert table["score"].isna().equals(is_malformed)
    for system, rows in table[is_malformed].groupby("system"):
        count = counted(len(rows), "pair")
        about = f"{count} of '{system}' without a score: the judge's reply is malformed"
        assert f"{about} (first {system}/{rows['id'].iloc[0]}: {rows['reason'].iloc[0]})" in notes
    assert capsys.readouterr().err.endswith("error: no pair has a score, and nothing is written\n")
    assert not list(Path().glob("none.csv*"))


def test_python_and_the_command_line_give_the_same_scores(slm):
    assert score("in.jsonl", "-o", "o.csv", "--slm", slm) == 0
    of_command, metric, pairs = pd.read_csv("o.csv"), DRE.load(slm), pd.DataFrame(records(12))
    contexts, texts = list(pairs["context"]), list(pairs["response"])
    table = metric.score(contexts, texts, ids=pairs["id"], systems=pairs["system"])
    columns = [name for name in table if name != "reason"]
    assert {"line", "length", "echo"} == {*of_command} - {*columns}
    pd.testing.assert_frame_equal(table[columns], of_command[columns], atol=1e-5)
    assert list(metric.score(contexts[:2], texts[:2])["id"]) == ["1", "2"]
    for call, message in [
        (lambda: metric.score(contexts[:2], texts[:1]), "sequences of lengths [1, 2]"),
        (lambda: metric.score(["Tea?"], texts[:1]), "context 1 is one text, 'Tea?': expected"),
        (lambda: DRE.load(methd="slide"), "there is no option methd"),
        (lambda: DRE.load(temperature=0), "no option temperature: only named judges have"),
    ]:
        with pytest.raises(DreError, match=re.escape(message)):
            call()


def test_the_scores_of_a_few_replies_are_printed_and_those_of_many_are_not(slm, capsys):
    run = ("in.jsonl", "--slm", slm)
    assert score(*run) == 0
    printed = capsys.readouterr().out
    assert RESPONSES["alpha"] not in printed
    assert "24 scores; nothing was written: give -o FILE.csv to have them" in printed
    assert list(Path().iterdir()) == [Path("in.jsonl")]
    assert score(*run, "--limit", 20, "--json") == 0
    content = json.loads(capsys.readouterr().out)
    assert "|limit:20" in content["signature"] and len(content["scores"]) == 20
    assert score(*run, "--limit", 20) == 0
    printed = capsys.readouterr().out
    for row in content["scores"]:
        cells = f"| {row['id']} | {row['system']} | {RESPONSES[row['system']]} |"
        assert f"{cells} {row['score']:.2f} |" in printed


def score_and_be_killed(last, *words):
    """Run ``dre score`` in blocks of 20 pairs, of which a log is kept, and be killed in one."""
    score_once = SLM.score

    def logged_score(self, pairs):
        with open("log", "a") as log:
            log.writelines(f"{pair_id}\n" for pair_id in pairs["pair_id"])
        if len(Path("log").read_text().split()) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return score_once(self, pairs)

    metrics.BLOCK, SLM.score = 20, logged_score
    assert score(*words) == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="a copy of a process cannot use its GPU")
def test_a_scoring_that_is_killed_twice_computes_each_pair_once(slm):
    """But for the block that was being computed when it was killed."""
    write(records(100), "in.jsonl")
    for last, exitcode in ((60, -signal.SIGKILL), (160, -signal.SIGKILL), (None, 0)):
        run = start_copy(score_and_be_killed, last, "in.jsonl", "--slm", slm, "-o", "o.csv")
        run.join()
        assert run.exitcode == exitcode
    computed = Path("log").read_text().split()
    assert len({*computed}) == 200 and len(computed) == 200 + 2 * 20
    # The numbers are those of a scoring in one go.
    pairs = pd.DataFrame(records(100))
    scores = DRE.load(slm).score(pairs["context"], pairs["response"])["score"]
    np.testing.assert_allclose(pd.read_csv("o.csv")["score"], scores, atol=1e-5)


def test_scores_are_kept_and_no_text_is_written(slm, capsys, monkeypatch, own_cache):
    def notes():
        assert score("in.jsonl", "--slm", slm, "-o", "o.csv", "--force") == 0
        assert pd.read_csv("o.csv")["score"].notna().all()
        return capsys.readouterr().err

    assert "scored before" not in notes()
    assert "24 of 24 pairs were scored before" in notes()
    assert b"with milk" not in b"".join(file.read_bytes() for file in own_cache.rglob("*.parquet"))

    # A cache that cannot be written costs no score.
    monkeypatch.setenv("DRE_CACHE", "in.jsonl/cache")
    assert "DRE_CACHE names another folder" in notes()
