"""One reader for every command: the forms of a file, and what an error says of it."""

import gzip
import io
import json
import re
import sys
from pathlib import Path

import judge_servers as servers
import pandas as pd
import pytest

from dre.commands.main import main
from dre.datasets import readers
from dre.errors import DreError

PAIRS = [  # id, context, response
    ("a", ("Is the shop open?", "Only until noon; then it closes."), "Then I had better hurry."),
    ("7", ("Señor, have you any tea?",), "Yes; in the blue tin."),
    ("c", ("[laughs] What\u0027s that?", "A kettle.", "\u2028So it is."), "Tea, then."),
]
ROWS = [{"id": id, "context": list(turns), "response": response} for id, turns, response in PAIRS]
TABLE = pd.DataFrame(ROWS).assign(context=[json.dumps(row["context"]) for row in ROWS])


def messages(turns, *responses):
    """A chat as OpenAI has it, whose last turn is the user's.

    It has instructions. Where the first turn has a comma, two messages of one role follow each
    other, and the content of the second one is a list.
    """
    roles = ("user", "assistant") if len(turns) % 2 else ("assistant", "user")
    texts = [*turns, *responses]
    chat = [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]
    start, _, end = turns[0].partition(", ")
    if end:
        chat[:1] = [
            {"role": roles[0], "content": start + ","},
            {"role": roles[0], "content": [{"type": "text", "text": end}]},
        ]
    return [{"role": "system", "content": "Be brief."}, *chat]


def lines(rows):
    return "\n".join(json.dumps(row) for row in rows).encode()


FORMS = {
    "a.jsonl": b"\n" + lines(ROWS),
    "pair_id.jsonl": lines(
        [{"pair_id": 7 if row["id"] == "7" else row["id"]} | row | {"id": None} for row in ROWS]
    ),
    "marked.jsonl": b"\xef\xbb\xbf" + lines(ROWS),
    "array.json": json.dumps(ROWS, indent=1).encode(),
    "lines.json": lines(ROWS),
    "messages.jsonl": lines(
        [{"id": id, "messages": messages(turns, response)} for id, turns, response in PAIRS]
    ),
    "roles.jsonl": lines([row | {"context": messages(row["context"])} for row in ROWS]),
    "comma.csv": TABLE.to_csv(index=False).encode(),
    "excel.csv": b"\xef\xbb\xbf"
    + TABLE.to_csv(index=False, sep=";", lineterminator="\r\n").encode(),
    "roles.csv": TABLE.assign(context=[str(messages(turns)) for _, turns, _ in PAIRS])
    .to_csv(index=False)
    .encode(),
    "tab.tsv": TABLE.to_csv(index=False, sep="\t").encode(),
    "a.parquet": pd.DataFrame(ROWS).to_parquet(None),
    "a.csv.gz": gzip.compress(TABLE.to_csv(index=False).encode()),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_same_pairs_as_a_file_and_as_standard_input(
    name, tmp_path, monkeypatch
):
    (tmp_path / name).write_bytes(FORMS[name])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FORMS[name])))
    for path in (tmp_path / name, "-"):
        pairs, bad_records = readers.pairs(readers.records(path))
        columns = pairs[["pair_id", "context", "response"]]
        assert list(columns.itertuples(index=False, name=None)) == PAIRS
        assert bad_records == []


def test_the_file_of_the_readme_works_in_every_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    line = re.search(r'`({"context": .*})`', readme)[1]
    Path("responses.jsonl").write_text(line + "\n")
    with servers.Server(lambda request: servers.openai('{"score": 4}')) as server:
        judge = ("--judge", "openai:m", "--base-url", server.url, "--store", "s.sqlite")
        for action, *options in (
            ["estimate"],
            ["run", "-o", "o.csv"],
        ):
            assert main(["judge", action, "responses.jsonl", *options, *judge]) == 0
        assert main(["judge", "show", "1", "responses.jsonl", *judge]) == 0
        assert main(["score", "responses.jsonl", "-o", "q.csv", *judge]) == 0
        assert len(server.requests) == 1

    printed = capsys.readouterr().out
    assert pd.read_csv("o.csv")["pair_id"].tolist() == [1]
    assert pd.read_csv("q.csv")["id"].tolist() == [1]

    # What `show` prints: the prompt as it was sent, the reply, and how it was read.
    pair = printed[printed.index("--- user ---") : printed.index("The bill of all judges")]
    record = json.loads(line)
    assert record["context"][1] in pair
    assert record["response"] in pair
    assert '--- reply: ok, from test-model ---\n{"score": 4}' in pair
    assert "status: ok\nscore_llm: 4.0" in pair


FAULTS = [  # content of a file, and what is said of it
    (
        b'context,response\n\n"a\nb",c\nd\n',
        "x.csv:5: found 1 cell, expected 2, as many as the header has",
    ),
    (
        b"dialog,reply\na,b\nc,d\ne,f\n",
        "3 of 3 records cannot be used; --field says which column is which, --skip-bad leaves bad "
        "records out\n"
        "  x.csv:2: context is None: expected turns, oldest first, or chat messages; "
        "the record has dialog, reply\n  x.csv:3: context",
    ),
    (  # a text with a comma, for which --field is no help
        b"context,response\nHello,Yes, indeed.\n",
        "x.csv:2: found 3 cells, expected 2, as many as the header has; a text that holds a ',' "
        "needs quotation marks around it; --skip-bad leaves bad records out\n",
    ),
    (
        b'context,response\na,b\nc,"d\n',
        "x.csv:3: cannot be read as CSV: a quotation mark opens and is never closed",
    ),
    (b"context,response\na,\xe9\n", "x.csv:2: not UTF-8: save the file as UTF-8"),
    (
        "context,response\na,b\n".encode("utf-16"),
        "x.csv:1: not UTF-8: save the file as UTF-8",
    ),
    (b"", "x.csv: there is no pair in it: expected at least one"),
    (b"context,response\n\n", "x.csv: there is no pair in it: expected at least one"),
]


@pytest.mark.parametrize(("content", "message"), FAULTS)
@pytest.mark.parametrize(
    "command",
    [
        "score x.csv -o o.csv",
        "judge estimate x.csv --judge openai:m --store :memory:",
    ],
)
def test_a_fault_is_one_sentence_for_every_command(
    command, content, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_bytes(content)
    assert main(command.split()) == 2
    assert message in capsys.readouterr().err


def test_pairs_of_systems_that_share_ids_keep_their_names_apart():
    records = [pair(id=1, system="s"), pair(id=1, system="t"), pair(id="2", system="s")]
    pairs, _ = readers.pairs(enumerate(records, 1))
    assert pairs["pair_id"].tolist() == ["s/1", "t/1", "2"]


def test_turns_are_not_the_text_that_they_make_together():
    records = [pair(context=["a\x1fb"]), pair(context=["a", "b"]), pair(context=["a\x1fb"])]
    pairs, _ = readers.pairs(enumerate(records, 1))
    first, second, third = pairs["context_id"]
    assert first == third != second


def pair(**fields):
    """A record that can be scored, with further fields."""
    return {"context": ["Hi."], "response": "Ho.", **fields}


def reasons(*records):
    """Why each of the records cannot be used."""
    _, bad_records = readers.pairs(enumerate(records, 1))
    return [record["reason"] for record in bad_records]


def test_a_line_that_is_no_json_says_where_the_parser_stopped(tmp_path):
    path = tmp_path / "torn.jsonl"
    path.write_text(json.dumps(pair()) + '\n{"context": ["Hi."], "response"\n3\n')
    _, bad = readers.pairs(readers.records(path))
    assert [record["line"] for record in bad] == [2, 3]
    assert bad[0]["reason"] == "no JSON: Expecting ':' delimiter at column 32"
    assert bad[1]["reason"] == "found 3, expected an object with context and response"


def test_a_row_of_csv_says_how_many_cells_it_has_and_should_have(tmp_path):
    path = tmp_path / "ragged.csv"
    path.write_text("id,context,response\n1,a,b,c\n2,d\n")
    _, bad = readers.pairs(readers.records(path))
    assert [record["reason"] for record in bad] == [
        "found 4 cells, expected 3, as many as the header has; a text that holds a ',' needs "
        "quotation marks around it",
        "found 2 cells, expected 3, as many as the header has",
    ]


@pytest.mark.parametrize(
    ("name", "content", "where"),
    [
        ("x.jsonl", '{"context": ["Open?"], "response": "Yes.", "response": "No."}\n', "x.jsonl:1"),
        (
            "x.jsonl",
            '{"context": ["Open?"], "response": "Yes."}\n'
            '{"context": ["Open?"], "response": "Yes.", "response": "No."}\n',
            "x.jsonl:2",
        ),
        (
            "x.json",
            '{\n  "context": ["Open?"],\n  "response": "Yes.",\n  "response": "No."\n}\n',
            "x.json:1",
        ),
        ("x.json", '[{"context": ["Open?"], "response": "Yes.", "response": "No."}]', "x.json"),
        (
            "x.jsonl",
            '{"messages": [{"role": "user", "content": "Open?", "content": "Far?"}, '
            '{"role": "assistant", "content": "Yes."}]}\n',
            "x.jsonl:1",
        ),
    ],
)
def test_a_key_that_stands_twice_with_two_values_is_refused(
    name, content, where, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(content)
    assert main(["data", "show", name]) == 2
    error = capsys.readouterr().err
    assert re.search(f"{where}[: ].*the key '(response|content)' stands twice", error), error


def test_a_key_that_stands_twice_with_one_value_is_read(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"context": ["Open?"], "response": "Yes.", "response": "Yes."}\n')
    table, bad_records = readers.pairs(readers.records(path))
    assert table["response"].tolist() == ["Yes."] and not bad_records


@pytest.mark.parametrize("content", [b"", b"context,response\n", b"\xef\xbb\xbf"])
def test_a_file_without_a_pair_is_an_error_where_it_is_shown(
    content, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_bytes(content)
    assert main(["data", "show", "x.csv"]) == 2
    assert "x.csv: there is no pair in it: expected at least one" in capsys.readouterr().err


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
@pytest.mark.parametrize("first", ["", "sep=;{end}"])
def test_the_header_alone_tells_the_separator_whatever_ends_its_line(first, end, tmp_path):
    path = tmp_path / "x.csv"
    rows = ["context;response", "Is it open, or, say, not?;Well, yes, no, maybe."]
    path.write_bytes((first.format(end=end) + end.join(rows) + end).encode())
    table, bad_records = readers.pairs(readers.records(path))
    assert not bad_records
    assert table["context"].tolist() == [("Is it open, or, say, not?",)]
    assert table["line"].tolist() == [3 if first else 2]


def test_an_id_that_pandas_made_a_float_is_the_whole_number_it_was():
    pairs, bad = readers.pairs(enumerate([pair(id=1.0, system=7.0), pair(id=float("nan"))], 1))
    assert pairs["id"].tolist() == ["1", "2"]
    assert pairs["system"].tolist() == ["7", ""]
    assert bad == []


@pytest.mark.parametrize("value", [True, 1.5, float("inf"), ["a"]])
def test_what_is_no_text_and_no_whole_number_is_no_id(value):
    (reason,) = reasons(pair(id=value))
    assert reason == f"id is {value!r}: expected a text, a whole number, or nothing"


@pytest.mark.parametrize(
    "names",
    [
        [("a", "b/c"), ("x", "b/c"), ("a/b", "c"), ("y", "c")],
        [("a", "b"), ("x", "b"), ("y", "a/b")],
    ],
)
def test_ids_that_make_the_same_pair_are_refused(names):
    records = [pair(system=system, id=id) for system, id in names]
    with pytest.raises(
        DreError, match=r"lines 1 and 3: system 'a' with id .* would both be the pair"
    ):
        readers.pairs(enumerate(records, 1))


def test_a_record_with_a_chat_and_a_context_is_refused_since_only_one_can_be_meant():
    chat = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Ho."}]
    (reason,) = reasons(pair(messages=chat))
    assert reason.startswith("the record has both messages and a context: leave one of them out")
    assert reasons({"messages": chat, "response": "Another."}) == []


@pytest.mark.parametrize("value", [float("inf"), "-inf"])
def test_an_infinite_score_is_refused_in_one_sentence(value, tmp_path):
    table = pd.DataFrame({"id": ["c1", "c2"], "score": [1.0, value]})
    message = "score of c2 is -?inf: expected a finite number or nothing"
    with pytest.raises(DreError, match=f"the table: {message}"):
        readers.scores(table, ["id"])
    table.to_csv(tmp_path / "scores.csv", index=False)
    with pytest.raises(DreError, match=f"scores.csv: {message}"):
        readers.scores(tmp_path / "scores.csv", ["id"])


def test_ids_of_scores_are_the_same_as_whole_numbers_and_as_floats():
    whole = readers.scores(pd.DataFrame({"id": [1, 2], "score": [0.5, 1]}), ["id"])
    floats = readers.scores(pd.DataFrame({"id": [1.0, 2.0], "score": [0.5, 1]}), ["id"])
    assert whole["id"].tolist() == floats["id"].tolist() == ["1", "2"]
