"""``dre score`` as a user runs it, and the metric from Python."""

import html
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


@pytest.mark.parametrize("form", ["turns.jsonl", "chat.jsonl", "turns.csv", "turns.parquet"])
def test_a_file_of_each_form_gets_the_scores_of_the_model(slm, capsys, form):
    rows = records(12)
    chats = [{"id": row["id"], "system": row["system"], "messages": []} for row in rows]
    for row, chat in zip(rows, chats):
        said = ["Be brief.", *row["context"], row["response"]]
        for role, text in zip(["system", "bot", "human", "bot"], said):
            chat["messages"].append({"role": role, "content": text})
    source = write(chats if form == "chat.jsonl" else rows, form)
    output = f"o{Path(form).suffix}"
    assert score(source, "-o", output, "--slm", slm) == 0
    printed = capsys.readouterr()
    assert "read as: Do you like tea? | Number 0? → Only with milk, please.\n" in printed.err
    notes = ["left out: 24 system messages"] if form == "chat.jsonl" else []
    assert re.findall("note: (left out.*)", printed.err) == notes
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
    assert summary["notes"] == notes
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
    differences = (scores["a"] - scores["b"]).to_numpy()
    (comparison,) = of_files["comparisons"]
    assert (comparison["a"], comparison["b"], comparison["n_contexts"]) == ("a", "b", 10)
    assert comparison["difference"] == pytest.approx(differences.mean())
    # The share of all ways to swap the two in some contexts.
    signs = np.array(list(itertools.product([1, -1], repeat=10)))
    p = np.mean(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-9)
    assert 0.05 < p < 0.95
    assert comparison["p_permutation"] == pytest.approx(p, abs=0.02)

    for column in ("system", "model"):
        of_one_file = content(c=[row | {column: name} for name in "ba" for row in files[name]])
        for key in ("contexts", "shared_contexts", "systems", "comparisons"):
            assert of_one_file[key] == of_files[key]


@pytest.mark.parametrize(
    ("names", "systems"),
    [
        ({"a": "", "b": ""}, {"a", "b"}),
        ({"a": "", "b": "", "c": "A"}, {"a", "b", "A"}),
        ({"a": "", "d": "a"}, {"a", "d/a"}),
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
    assert score(*paths, "--slm", slm, "-o", "o.csv", "--report", "o.html") == 0
    assert score(*paths, "--slm", slm, "-o", "o.csv", "--report", "o.html") == 0
    renamed = [Path(path).rename(f"new-{path}") for path in paths]
    assert score(*map(str, renamed), "--slm", slm, "-o", "o.csv") == 2
    assert "o.csv is of another run (input" in capsys.readouterr().err
    for path, new in zip(paths, renamed):
        new.rename(path)
    write([row | {"response": "No."} for row in records(4)[::2]], paths[-1])
    assert score(*paths, "--slm", slm, "-o", "o.csv") == 2
    assert "o.csv is of another run (data" in capsys.readouterr().err


def test_two_files_without_a_shared_context_get_a_sentence(slm, capsys):
    rows = [{key: row[key] for key in ("context", "response")} for row in records(4)]
    assert score(write(rows[:4], "a.jsonl"), write(rows[4:], "b.jsonl"), "--slm", slm) == 0
    printed = capsys.readouterr()
    assert "a and b have no context in common with a score of both: they cannot" in printed.out
    assert "only 0 of 4 contexts have a score of every system" in printed.err


def test_what_another_run_or_program_made_is_written_over_by_force_alone(slm, capsys):
    output, summary, page = Path("o.csv"), Path("o.csv.summary.json"), Path("p.html")
    run = ("in.jsonl", "-o", "o.csv", "--slm", slm)
    assert score(*run) == 0
    scores = output.read_bytes()
    assert score(*run) == 0  # the same command
    other = (write(records(3), "b.jsonl"), *run[1:])
    page.write_text("precious")
    for words, message in [
        (other, r"o.csv is of another run \(data \w{12}, now \w{12}; input .*\): name .*--force$"),
        ((*run, "--limit", 3), r"is of another run \(limit None, now 3\)"),
        ((*run, "--as-it-is"), r"is of another run \(reading \{\}, now \{'as_it_is': True\}\)"),
        ((*run, "--skip-bad"), r"is of another run \(reading \{\}, now \{'skip_bad': True\}\)"),
        ((*run, "--report", page), "p.html is there, and nothing says that this command made it"),
    ]:
        assert score(*words) == 2
        assert re.search(message, capsys.readouterr().err)
    summary.write_text("{")
    assert score(*run) == 2
    assert "o.csv is there, and nothing says that this" in capsys.readouterr().err
    assert (output.read_bytes(), page.read_text()) == (scores, "precious")
    output.unlink()
    assert score(*run) == 2
    assert "o.csv.summary.json: this is not a summary that dre wrote" in capsys.readouterr().err
    assert score(*other, "--report", page, "--force") == 0
    assert len(pd.read_csv("o.csv")) == 6 and page.read_text().startswith("<!doctype html>")


JUDGE = {"judge": RECORDED[1]}
DRE_OPTIONS = JUDGE | {"method": "dre", "accuracies": [88.0, 98.0]}
REFUSED = [  # a line of options, what is said of it, and the same options in Python
    ("--method slide", "method slide needs slm and judge: give judge", {"method": "slide"}),
    ("--method slm JUDGE", "small has no use for judge", JUDGE | {"method": "slm"}),
    ("--slm x JUDGE", "method judge has no use for slm", JUDGE | {"slm": "x"}),
    ("--accuracies 0.9,1", "small has no use for accuracies", {"accuracies": [0.9, 1]}),
    ("--method dre JUDGE", "accuracies: give accuracies", JUDGE | {"method": "dre"}),
    ("--method dre --accuracies 88,98 JUDGE", "of SLM and LLM in [0, 1]", DRE_OPTIONS),
    ("--prompt classify JUDGE", "expected one that asks for", JUDGE | {"prompt": "classify"}),
    ("--slm mini", "there is no SLM 'mini': expected a folder", {"slm": "mini"}),
    ("--max-usd 1", "--max-usd: there is no judge to use it", None),
    ("--criterion polite", "--criterion is a question for a judge", None),
    ("--report p.txt", "p.txt: expected a name that ends in .html", None),
    ("--workers 2", "--workers is of --engine ray", None),
    ("--limit 0", "argument --limit: 0: expected a number above 0", None),
    ("--field system=modle", "--field names modle: no record has it; they have id", None),
    ("-o in.jsonl", "in.jsonl is an input", None),
    ("none.jsonl", "none.jsonl: cannot be read ([Errno 2] No such file", None),
    ("empty.jsonl", "empty.jsonl: there is no pair in it", None),
    ("text.csv", "context is one text, 'a': --separator TEXT says", None),
    ("text.csv --one-turn JUDGE", "does not know pair 2", None),
    ("JUDGE", "make ids unique, also between systems", None),
]


@pytest.mark.parametrize(("line", "message", "options"), REFUSED)
def test_what_does_not_fit_or_cannot_be_read_is_one_sentence(capsys, line, message, options):
    """Of what is not of files or of the command alone, Python says the same."""
    Path("text.csv").write_text("context,response\na,b\n")
    Path("empty.jsonl").touch()
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
    assert "1 responses are longer than the encoder reads; only their beginning" in notes
    assert "1 contexts are longer than the encoder reads; only their end counts" in notes
    assert "1 bad record not scored, the first in line 1: not JSON: Expecting property" in notes
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
    for number, name in enumerate(LANGUAGES):
        kind = "language" if name == "German" else "script"
        start = f"2 pairs of '{name}' without a score: the small model cannot read them (first "
        is_there = f"{start}{2 * number + 1}: the response is in a {kind} that the sm" in notes
        assert is_there == (number > 0)
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


def test_an_interrupted_run_does_not_go_on_with_another_servers_judge(capsys):
    def always(score):
        return lambda request: servers.openai(json.dumps({"score": score}), tokens=(1000, 1000))

    run = ("in.jsonl", "-o", "o.csv", "--price", "1,2", "--concurrency", "1")
    with servers.Server(always(1)) as first, servers.Server(always(5)) as second:
        # The first server's run ends after a few pairs, and the second's asks for all of them.
        assert score(*run, *judge(first), "--max-usd", "0.05") == 1
        assert "stopped before $0.05 would be passed" in capsys.readouterr().err
        assert 0 < len(first.requests) < 24 and not Path("o.csv").exists()
        assert score(*run, *judge(second)) == 0
        assert set(pd.read_csv("o.csv")["score"]) == {5} and len(second.requests) == 24
        # The second's output is not written over by the first's run, which goes on where it was.
        assert score(*run, *judge(first)) == 2
        assert f"base_url={second.url}" in capsys.readouterr().err
        assert score(*run, *judge(first), "--force") == 0
        assert set(pd.read_csv("o.csv")["score"]) == {1} and len(first.requests) == 24


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
    assert 0 < is_malformed.sum() < 24
    assert table["score"].isna().equals(is_malformed)
    for system, rows in table[is_malformed].groupby("system"):
        start = f"{counted(len(rows), 'pair')} of '{system}' without a score: the judge's reply is "
        first = f"(first {system}/{rows['id'].iloc[0]}: {rows['reason'].iloc[0]})"
        assert f"{start}malformed {first}" in notes
    expected = "nothing was written: 1 pair of 'alpha' without a score: the judge's reply is error"
    assert f"{expected} (first alpha/c0: Error code: 400 - " in capsys.readouterr().err
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


MARKUP = "<script>alert('\"x\"')</script><img src=http://h/x.png onerror=alert(1)>{{ 7 * 7 }}&amp;"
TAGS = "html head meta title style body main h1 h2 h3 p br div table thead tbody tr th td svg text"
TAGS = {*TAGS.split(), "path", "details", "summary", "pre", "small"}


def test_a_page_shows_the_lowest_replies_escapes_every_text_and_loads_nothing(slm):
    """Texts of others are in ids, systems, contexts, responses, and replies of the judge."""
    rows = records(12, {"": "Yes, it is.", "x": "No, it was my tea."})
    for row in rows:
        row["context"][0] += MARKUP
        row |= {name: row[name] + MARKUP for name in ("id", "system", "response")}

    def reply(request):
        return servers.openai(f"Score: {number_in(request) ** 2 / 40 + 1}\n{MARKUP}")

    with servers.Server(reply) as server:
        options = ("--slm", slm, *judge(server, "product"), "--plain")
        run = (write(rows, "in.jsonl"), "-o", "o.csv", "--report", "p.html", *options)
        assert score(*run) == 0 and len(server.requests) == 24

    page = Path("p.html").read_text().removeprefix("<!doctype html>")
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in page
    tags = "".join(re.findall(r"<[^>]*>?", page))
    assert {*re.findall(r"</?(\w*)", tags)} <= TAGS
    assert not re.search(r"\b(on\w+|src\w*|href|action)=", re.sub('"[^"]*"', "", tags))

    def texts(tag):
        found = re.findall(rf"<{tag}(?: [^>]*)?>(.*?)</{tag}>", page, re.DOTALL)
        return [html.unescape(text) for text in found]

    # Every text is there as it is: in the table, in the picture, with the replies.
    assert not re.search("url|@", *texts("style"))
    assert {MARKUP, f"x{MARKUP}"} <= {*texts("td")} & {*texts("text")}
    scores = pd.read_csv("o.csv").sort_values("score")
    titles = [f"{row.score:.2f} ({row.system}, id {row.id})" for row in scores.itertuples()]
    assert texts("h3") == titles[:20]
    assert {f"→ Yes, it is.{MARKUP}", f"Do you like tea?{MARKUP}<br>Number 0?"} <= {*texts("p")}
    assert len(texts("pre")) == 20
    for asked in texts("pre"):
        assert f"Do you like tea?{MARKUP}" in asked
        assert re.search(rf"\n\nReply: Score: [\d.]+\n{re.escape(MARKUP)}$", asked)

    # A stroke stands for each reply, further right where the score is higher.
    places = sorted(map(float, re.findall(r'<path d="M([\d.]+) ', page)))
    assert (len(places), places[0], places[-1]) == (24, 20, 580)
    assert np.corrcoef(places, scores["score"])[0, 1] > 0.9999


def test_a_page_of_one_context_is_written(slm):
    assert score(write(records(1), "one.jsonl"), "--slm", slm, "--report", "p.html") == 0
    assert "The lowest replies" in Path("p.html").read_text()


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


def test_scores_are_kept_by_model_and_no_text_is_written(slm, capsys, monkeypatch, own_cache):
    def notes(model=slm):
        assert score("in.jsonl", "--slm", model, "-o", "o.csv", "--force") == 0
        assert pd.read_csv("o.csv")["score"].notna().all()
        return capsys.readouterr().err

    assert "scored before" not in notes()
    assert "24 of 24 pairs were scored before" in notes()
    model = SLM.load(slm)
    model.head.classifier.weight.data += 1
    model.save(Path("changed"))
    assert "scored before" not in notes("changed")
    assert b"with milk" not in b"".join(file.read_bytes() for file in own_cache.rglob("*.parquet"))

    # A cache that cannot be written costs no score.
    monkeypatch.setenv("DRE_CACHE", "in.jsonl/cache")
    assert "DRE_CACHE names another folder" in notes()
