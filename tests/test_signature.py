"""The signature of an output: stored as JSON, compared field by field."""

import json
import re
from pathlib import Path

import judge_servers as servers
import pytest

from dre.commands.main import main
from dre.errors import DreError
from dre.signature import Signature, load_summary

TEMPLATE = """---
kind: score
scale: {scale}
---
[user]
{{{{notice}}}} {{{{context}}}} {{{{response}}}} How good is it?
"""


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A judge that says 2.5 to everything, a file of ten pairs, and a prompt in polite.txt."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    records = [{"context": [f"Number {i}?"], "response": "Yes."} for i in range(10)]
    Path("in.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    Path("polite.txt").write_text(TEMPLATE.format(scale=[0, 5]))
    with servers.Server(lambda request: servers.openai("2.5")) as server:
        yield server


def judge(server, *options):
    return ("--judge", "openai:m", "--base-url", server.url, "--store", "s.sqlite", *options)


def score(server, output, *options):
    judge_options = judge(server, "--prompt", "polite.txt", *options)
    return main(["score", "in.jsonl", "-o", output, *judge_options])


def test_another_scale_of_a_prompt_is_another_output(server, capsys):
    judge_options = judge(server, "--prompt", "polite.txt")
    run = ["judge", "run", "in.jsonl", "-o", "run.csv", *judge_options]
    assert score(server, "out.csv") == 0
    assert main(run) == 0
    Path("polite.txt").write_text(TEMPLATE.format(scale=[0, 10]))
    capsys.readouterr()

    assert score(server, "out.csv") == 2
    assert "out.csv is of another run (prompt scale 0,5, now 0,10)" in capsys.readouterr().err
    assert main(run) == 2
    assert "run.csv is of another run (prompt scale 0,5, now 0,10)" in capsys.readouterr().err


@pytest.mark.parametrize("parameter", ["think=false", 'stop=""', "seed=0"])
def test_a_parameter_that_is_false_or_empty_is_another_output(server, capsys, parameter):
    assert score(server, "out.csv") == 0
    capsys.readouterr()
    assert score(server, "out.csv", "--param", parameter) == 2
    assert "out.csv is of another run (judge openai:m" in capsys.readouterr().err


def test_scores_on_two_scales_are_not_compared(server, capsys):
    assert score(server, "old.csv") == 0
    Path("polite.txt").write_text(TEMPLATE.format(scale=[0, 10]))
    assert score(server, "new.csv") == 0
    capsys.readouterr()

    assert main(["compare", "new.csv", "old.csv", "--fail-if", "worse"]) == 2
    message = capsys.readouterr().err
    assert "new.csv was made with prompt scale 0,10, old.csv with prompt scale 0,5" in message


@pytest.mark.parametrize("command", ["score", "judge run"])
@pytest.mark.parametrize("value", ['"|"', '["a:b", "|"]'])
def test_a_parameter_with_a_bar_or_a_colon_runs_twice(server, command, value, capsys):
    judge_options = judge(server, "--param", f"stop={value}")
    run = [*command.split(), "in.jsonl", "-o", "o.csv", *judge_options]
    # The prompt wants JSON, and the judge gives none: the run gets as far as its replies.
    assert main(run) == 2
    assert "can be read" in capsys.readouterr().err
    Path("polite.txt").write_text(TEMPLATE.format(scale=[0, 5]))
    run += ["--prompt", "polite.txt"]
    Path("o.csv").unlink(missing_ok=True)

    assert main(run) == 0
    assert main(run) == 0
    assert main([word.replace("|", "/") for word in run]) == 2
    assert "another run (judge " in capsys.readouterr().err


def test_the_hash_and_the_scale_of_a_prompt_count_and_its_name_does_not():
    prompt = {"name": "a", "sha256": "0" * 64, "scale": [0, 5]}
    signature = Signature.of(prompt=prompt, judge="j", seed=None)
    renamed = Signature.of(prompt=prompt | {"name": "b"}, judge="j")
    rescaled = Signature.of(prompt=prompt | {"scale": [1, 5]}, judge="j")

    assert signature.differences(renamed) == []
    assert signature.differences(rescaled) == [("prompt scale", "0,5", "1,5")]
    assert str(signature) == "prompt:name=a sha256=000000000000 scale=0,5|judge:j"


def test_a_field_that_one_signature_lacks_is_a_difference():
    assert Signature.of(a=1).differences(Signature.of(a=1, b="x")) == [("b", "None", "x")]
    assert Signature.of(a=1, b="x").differences(Signature.of(a=1), ignored=["b"]) == []


@pytest.mark.parametrize(
    "text",
    ["{}", "not json", '{"signature": "dre:small"}', '{"signature": {}}', "[1]", "[" * 99999],
)
def test_a_summary_that_dre_did_not_write_is_one_plain_sentence(tmp_path, text):
    Path(tmp_path / "o.csv.summary.json").write_text(text)
    message = r"o\.csv\.summary\.json: this is not a summary that dre wrote"
    with pytest.raises(DreError, match=message):
        load_summary(tmp_path / "o.csv")


def test_an_output_without_a_summary_has_no_summary_to_load(tmp_path):
    assert load_summary(tmp_path / "o.csv") is None


def test_the_printed_line_shortens_hashes_and_is_one_line():
    signature = Signature.of(method="slm", data="ab" * 32, accuracies=[0.88, 0.9], note="a\nb | c")
    assert str(signature) == "dre:slm|data:abababababab|accuracies:0.88,0.9|note:a b / c"
    assert not re.search(r"\n", str(signature))
