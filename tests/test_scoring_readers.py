"""Reading a user's files: the same rows whatever the form, and every fault with its file and line."""

import json

import pandas as pd
import pytest
import scoring_data
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dre.errors import DreError
from dre.scoring import readers
from dre.scoring.rows import Bad, Row, Unfit, row_of, turns_of

# What CSV cannot tell from its own punctuation: line ends inside a turn, and white space around a turn.
LINE_ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
text = st.text(st.characters(codec="utf-8", exclude_characters=LINE_ENDS + "\x00"), min_size=1, max_size=30)
turn = text.map(str.strip).filter(lambda t: t and not t.startswith("["))
response = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), min_size=1).filter(str.strip)
record = st.fixed_dictionaries(
    {"context": st.lists(turn, min_size=1, max_size=4), "response": response, "system": turn}
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(record, min_size=1, max_size=6))
def test_the_three_forms_give_identical_rows(tmp_path, rows):
    rows = [row | {"id": f"{i}é"} for i, row in enumerate(rows)]
    found = {}
    for ending in (".jsonl", ".csv", ".parquet"):
        path = scoring_data.write(rows, tmp_path / f"rows{ending}")
        found[ending] = [row._replace(line=0) for row in readers.read(path)]
    expected = [Row(0, r["id"], r["system"], tuple(r["context"]), r["response"]) for r in rows]
    assert found[".jsonl"] == found[".csv"] == found[".parquet"] == expected


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_byte_order_marks_and_windows_line_ends_change_nothing(tmp_path, bom, end):
    line = json.dumps({"context": ["Hi."], "response": "Tea? 😀"}, ensure_ascii=False).encode()
    (tmp_path / "a.jsonl").write_bytes(bom + line + end + end + line + end)
    (tmp_path / "a.csv").write_bytes(bom + end.join([b"context,response", b"Hi.,Tea? \xf0\x9f\x98\x80"] * 1) + end)
    first, second = readers.read(tmp_path / "a.jsonl")
    assert (first.line, second.line) == (1, 3) and first.response == second.response == "Tea? 😀"
    (row,) = readers.read(tmp_path / "a.csv")
    assert row[1:] == ("2", "", ("Hi.",), "Tea? 😀", None)


def test_turns_in_a_text_a_list_and_a_list_written_out_as_text():
    turns = ("Hi there.", 'It\'s me, "Bo".')
    for value in (
        turns,
        list(turns),
        "\n".join(turns),
        'Hi there.\r\n\r\nIt\'s me, "Bo".\r\n',
        str(list(turns)),
        json.dumps(turns),
    ):
        assert turns_of(value) == turns
    assert turns_of("[laughs] Hi there.") == ("[laughs] Hi there.",)
    assert turns_of("[1, 2]") == ("[1, 2]",)
    assert turns_of(pd.Series(turns).to_numpy()) == turns


def test_a_field_may_have_another_name_and_others_are_ignored(tmp_path):
    rows = [{"history": "Hi.", "answer": "Yes.", "mood": 3, "model": "a", "gold": ""}]
    names = {"context": "history", "response": "answer", "system": "model", "reference": "gold"}
    for ending in (".csv", ".jsonl"):
        path = tmp_path / f"a{ending}"
        pd.DataFrame(rows).to_csv(path, index=False) if ending == ".csv" else path.write_text(json.dumps(rows[0]))
        (row,) = readers.read(path, names)
        assert row.context == ("Hi.",) and row.response == "Yes." and row.system == "a" and row.reference is None


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"context": "Hi."}, "there is no response (found context): expected a text"),
        ({"response": "Hi."}, "there is no context (found response): expected a list of turns"),
        ({"context": "Hi.", "response": 5}, "response is of type int: expected a text"),
        ({"context": "Hi.", "response": ["a"]}, "response is of type list"),
        ({"context": "Hi.", "response": " \n"}, "response is empty"),
        ({"context": [], "response": "a"}, "context is empty"),
        ({"context": ["", " "], "response": "a"}, "context is empty"),
        ({"context": ["a", None], "response": "a"}, "a turn of the context is of type NoneType"),
        ({"context": 5, "response": "a"}, "context is of type int"),
        ({"context": {"a": 1}, "response": "a"}, "context is of type dict"),
        ({"context": "a", "response": "a", "id": [1]}, "id is of type list: expected a text or a whole number"),
        ({"context": "a", "response": "a", "reference": 1.5}, "reference is of type float"),
        ({"context": "a", "response": "half \ud83d"}, "response is not UTF-8 text"),
    ],
)
def test_what_is_no_pair_is_said(bad, reason):
    with pytest.raises(Unfit) as error:
        row_of(bad, 1)
    assert str(error.value).startswith(reason)


def test_missing_values_of_pandas_are_no_values():
    row = row_of({"context": "a", "response": "b", "id": float("nan"), "reference": float("nan"), "system": None}, 7)
    assert row == Row(7, "7", "", ("a",), "b", None)
    assert row_of({"context": "a", "response": "b", "id": 12}, 7).id == "12"


def bad_of(path, content):
    path.write_bytes(content)
    (bad,) = [found for found in readers.read(path) if isinstance(found, Bad)]
    return bad


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{torn", "not JSON"),
        (b"[1, 2]", "a JSON list: expected one JSON object a line"),
        (b"5", "a JSON int"),
        (b'{"context": "\xff", "response": "a"}', "not UTF-8 text"),
        (b'{"context": "a", "response": "\\ud83d"}', "response is not UTF-8 text"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_a_bad_line_of_jsonl_is_named_and_the_next_is_read(tmp_path, line, reason):
    good = b'{"context": "a", "response": "b"}\n'
    bad = bad_of(tmp_path / "a.jsonl", good + line + b"\n" + good)
    assert bad.line == 2 and bad.reason.startswith(reason)
    assert len(list(readers.read(tmp_path / "a.jsonl"))) == 3


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        (b"a", "1 cells: expected the 2 of the header context, response"),
        (b"a,b,c", "3 cells"),
        (b'"a"x,b', "not CSV"),
        (b"a,\xff", "response is not UTF-8 text"),
        (b"a,", "response is empty"),
    ],
)
def test_a_bad_line_of_csv_is_named_by_the_line_it_begins_on(tmp_path, cells, reason):
    bad = bad_of(tmp_path / "a.csv", b'context,response\n"two\nlines",ok\n' + cells + b"\nx,y\n")
    assert bad.line == 4 and bad.reason.startswith(reason)
    assert [row.response for row in readers.read(tmp_path / "a.csv") if isinstance(row, Row)] == ["ok", "y"]


def test_an_unclosed_quote_is_named_where_it_opens(tmp_path):
    assert bad_of(tmp_path / "a.csv", b'context,response\na,b\nc,"open\nd,e\n').line == 3


def test_an_id_may_return_for_another_system_only(tmp_path):
    row = {"id": "x", "context": "a", "response": "b"}
    rows = [row | {"system": "one"}, row | {"system": "two"}, row | {"system": "one"}]
    *good, bad = readers.read(scoring_data.write(rows, tmp_path / "a.jsonl"))
    assert len(good) == 2 and "id 'x' of system 'one' was in line 1 already" in bad.reason


def test_a_column_with_hundreds_of_values_is_no_system(tmp_path):
    rows = [{"system": f"s{i}", "context": "a", "response": "b"} for i in range(readers.MOST_SYSTEMS + 2)]
    found = list(readers.read(scoring_data.write(rows, tmp_path / "a.jsonl")))
    assert [isinstance(one, Bad) for one in found[-3:]] == [False, True, True] and "expected the name" in found[
        -1
    ].reason


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_missing_column_ends_the_reading_at_once(tmp_path, ending):
    table = pd.DataFrame({"context": ["a"], "reply": ["b"]})
    path = tmp_path / f"a{ending}"
    table.to_csv(path, index=False) if ending == ".csv" else table.to_parquet(path)
    with pytest.raises(DreError, match="no column 'response', only context, reply: .* --field response=COLUMN"):
        list(readers.read(path))


def test_files_that_cannot_be_read_are_one_sentence(tmp_path):
    for name, match in (("no.jsonl", "No such file"), ("a.txt", "expected a file whose name ends in")):
        with pytest.raises(DreError, match=match):
            list(readers.read(tmp_path / name))
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DreError, match="cannot be read as Parquet"):
        list(readers.read(tmp_path / "a.parquet"))


def test_blocks_begin_where_they_are_told_to(tmp_path):
    rows = [{"context": "a", "response": str(i)} for i in range(7)]
    rows.insert(2, {"context": "a"})
    path = scoring_data.write(rows, tmp_path / "a.jsonl")
    got = [[row.response for row in block] for block in readers.blocks(readers.read(path), 3, start=2)]
    assert got == [["2", "3", "4"], ["5", "6"]]
