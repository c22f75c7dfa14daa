"""The signature of an output: stored as JSON, compared field by field."""

import json
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
def run(tmp_path, monkeypatch, capsys):
    """Return a function that runs a command with a judge, and returns its status and error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    records = [{"context": [f"Number {i}?"], "response": "Yes."} for i in range(10)]
    Path("in.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    Path("polite.txt").write_text(TEMPLATE.format(scale=[0, 5]))
    with servers.Server(lambda request: servers.openai("2.5")) as server:
        judge = ["--judge", "openai:m", "--base-url", server.url, "--store", "s.sqlite"]

        def run(command, output, *options):
            words = [*command.split(), "in.jsonl", "-o", output, *judge, *options]
            return main([*words, "--prompt", "polite.txt"]), capsys.readouterr().err

        yield run


@pytest.mark.parametrize("command", ["score", "judge run"])
def test_another_scale_of_a_prompt_is_another_output(run, command, capsys):
    assert run(command, "old.csv")[0] == 0
    Path("polite.txt").write_text(TEMPLATE.format(scale=[0, 10]))
    status, message = run(command, "old.csv")
    assert status == 2
    assert "old.csv is of another run (prompt scale 0,5, now 0,10)" in message
    if command == "score":  # and such scores are not compared
        assert run(command, "new.csv")[0] == 0
        assert main(["compare", "new.csv", "old.csv", "--fail-if", "worse"]) == 2
        message = capsys.readouterr().err
        assert "new.csv was made with prompt scale 0,10, old.csv with prompt scale 0,5" in message


@pytest.mark.parametrize("parameter", ["think=false", 'stop=""', "seed=0", 'stop=["a:b", "|"]'])
def test_a_parameter_is_part_of_an_output_even_if_it_is_false_or_empty(run, parameter):
    assert run("score", "out.csv", "--param", parameter)[0] == 0
    assert run("score", "out.csv", "--param", parameter)[0] == 0
    for others in ([], ["--param", 'stop=["a:b", "/"]']):
        status, message = run("score", "out.csv", *others)
        assert status == 2
        assert "out.csv is of another run (judge openai:m" in message


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
    assert load_summary(tmp_path / "o.csv") is None
    Path(tmp_path / "o.csv.summary.json").write_text(text)
    message = r"o\.csv\.summary\.json: this is not a summary that dre wrote"
    with pytest.raises(DreError, match=message):
        load_summary(tmp_path / "o.csv")


def test_the_printed_line_shortens_hashes_and_is_one_line():
    signature = Signature.of(method="slm", data="ab" * 32, accuracies=[0.88, 0.9], note="a\nb | c")
    assert str(signature) == "dre:slm|data:abababababab|accuracies:0.88,0.9|note:a b / c"
