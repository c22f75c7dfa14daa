"""Files of three forms are read; every other form is refused, and what was read is looked at."""

import csv
import gzip
import io
import json
import re
import sys
from pathlib import Path

import pandas as pd
import pytest
from conftest import needs_data

from dre import files
from dre.commands.main import main
from dre.datasets import dialogues, look, ratings, readers
from dre.datasets.readers import Form
from dre.errors import DreError
from dre.score.gate import compare_scores

DOCS = Path(__file__).parents[1] / "docs"
TURNS = ("Where is my parcel?", "It left, at last.")
REPLY = "Before noon."
CHAT = [{"role": role, "content": text} for role, text in zip(["assistant", "user"], TURNS)]
ANSWER = {"role": "assistant", "content": REPLY}
PAIR = {"context": list(TURNS), "response": REPLY}
SAID = [*TURNS, REPLY]
PROMPT = {"role": "system", "content": "Be brief."}
CALL = {"role": "assistant", "content": None, "tool_calls": [{}]}
PARTS = [{"type": "image_url"}, {"type": "text", "text": TURNS[1]}]

READ = {  # a record, and what the user says of it; all give the pair of TURNS and REPLY
    "turns": (PAIR, Form()),
    "JSON in a cell": ({"context": f" {json.dumps(TURNS)}", "response": REPLY}, Form()),
    "messages before": ({"context": CHAT, "response": REPLY}, Form()),
    "messages": ({"messages": [*CHAT, ANSWER]}, Form()),
    "messages in a cell": ({"messages": json.dumps([*CHAT, ANSWER])}, Form()),
    "a request and its reply": ({"messages": CHAT, "response": REPLY}, Form()),
    "prompt, parts, tools": (
        {
            "messages": [
                PROMPT,
                CHAT[0],
                {"role": "user", "content": PARTS},
                CALL,
                {"role": "tool", "content": "11:40"},
                ANSWER,
            ]
        },
        Form(),
    ),
    "thoughts": (
        {
            "messages": [
                *CHAT,
                ANSWER
                | {
                    "content": [
                        {"type": "reasoning", "text": "Hm."},
                        {"type": "thinking", "text": "Hm."},
                        {"type": "text", "text": "Hm.", "thought": True},
                        {"type": "text", "text": REPLY},
                    ]
                },
            ]
        },
        Form(),
    ),
    "two people, prompts, and what has no text": (
        {
            "messages": [
                PROMPT,
                PROMPT,
                {"role": "user", "content": " "},
                {"role": "user", "name": "Ann", "content": TURNS[0]},
                {"role": "tool", "content": None},
                {"role": "user", "name": "Bo", "content": TURNS[1]},
                ANSWER,
            ]
        },
        Form(),
    ),
    "a prompt and a request": (
        {
            "messages": [
                PROMPT,
                *({"speaker": "user", "name": text, "content": text} for text in TURNS),
            ],
            "response": REPLY,
        },
        Form(),
    ),
    "the dialogue system": (
        {
            "context": [
                {"speaker": side, "text": text} for side, text in zip(["SYSTEM", "USER"], TURNS)
            ],
            "response": REPLY,
        },
        Form(roles={"system": "assistant"}),
    ),
    "two of one side": (
        {
            "messages": [
                CHAT[0],
                {"role": "user", "content": "It left,"},
                {"role": "user", "content": "at last."},
                ANSWER,
            ]
        },
        Form(),
    ),
    "ShareGPT": (
        {
            "conversations": [
                {"from": side, "value": text}
                for side, text in zip(["gpt", "human", "gpt"], [*TURNS, REPLY])
            ]
        },
        Form(),
    ),
    "other columns": (
        {"prompt": list(TURNS), "answers": [{"text": REPLY}]},
        Form(fields={"context": "prompt", "response": "answers.0.text"}),
    ),
    "a column with dots": (
        {"Input.context": list(TURNS), "response": REPLY},
        Form(fields={"context": "Input.context"}),
    ),
    "other keys": (
        {"chat": [{"who": "bot", "said": SAID[0]}, {"who": "guest", "said": SAID[1]}]}
        | {"response": REPLY},
        Form(fields={"messages": "chat", "role": "who", "text": "said"}, roles={"Guest": "user"}),
    ),
    "the last turn": ({"context": SAID}, Form(last_turn=True)),
    "the last turn of people": (
        {"messages": [{"speaker": name, "text": text} for name, text in zip("ABA", SAID)]},
        Form(last_turn=True),
    ),
    "the last reply": (
        {"messages": [*CHAT, ANSWER, {"role": "user", "content": "Thanks."}]},
        Form(last_reply=True),
    ),
    "a separator": (
        {"context": "Where is my parcel? __eou__ It left, at last. __eou__ ", "response": REPLY},
        Form(separator="__eou__"),
    ),
}


@pytest.mark.parametrize("name", READ)
def test_a_record_is_read(name):
    record, form = READ[name]
    reading = readers.read([(1, record)], form)
    assert reading.bad_records == [] and reading.doubts == []
    row = reading.pairs.iloc[0]
    assert (row["context"], row["response"], row["id"]) == (TURNS, REPLY, "1")


def test_a_text_is_one_turn_where_the_user_says_so():
    record = {"context": "[sighs] Where is it?", "response": REPLY}
    reading = readers.read([(1, record)], Form(one_turn=True))
    assert reading.pairs["context"].iloc[0] == ("[sighs] Where is it?",)


REFUSED = {  # a record, and words of the reason
    "no object": (["a"], "expected an object"),
    "no response": ({"context": ["a"]}, "--field response=COLUMN"),
    "a blank response": (PAIR | {"response": " \u200b"}, "response: found"),
    "half a character": (PAIR | {"response": "Yes\ud800"}, "response: found"),
    "half a character in a name": (PAIR | {"system": "gull\ud800"}, "half of a character"),
    "a number for a response": (PAIR | {"response": 5}, "response: found 5"),
    "a truth value": (PAIR | {"response": True}, "response: found True"),
    "a list for a response": (PAIR | {"response": [REPLY]}, "response: found ['Before"),
    "no context": ({"response": "a", "prompt": "b"}, "the record has response, prompt"),
    "one text": (PAIR | {"context": "a\nb"}, "--separator TEXT"),
    "a label": (PAIR | {"context": "afraid"}, "--one-turn"),
    "Python's list": (PAIR | {"context": "['a' 'b']"}, "--separator TEXT"),
    "brackets without end": (PAIR | {"context": "[" * 100_000}, "--separator TEXT"),
    "a number for a turn": (PAIR | {"context": [1]}, "expected a text or a message"),
    "pairs": (PAIR | {"context": [["a", "b"]]}, "expected a text or a message"),
    "an object": (PAIR | {"context": {"a": "b"}}, "expected a list of turns"),
    "an unknown role": (
        {"messages": [{"role": "wizard", "content": "a"}]},
        "is by 'wizard': expected",
    ),
    "nobody speaks": ({"messages": [{"content": "a"}]}, "expected who speaks"),
    "no text": ({"messages": [{"role": "user", "body": "a"}]}, "expected its text"),
    "parts of texts": ({"messages": [{"role": "user", "content": ["a"]}]}, "parts with a text"),
    "texts beside messages": ({"messages": [*CHAT, "a"]}, "expected texts or messages"),
    "it ends with the user": ({"messages": CHAT}, "--last-reply"),
    "no messages": ({"messages": []}, "context: found []"),
    "a reply before the response": (
        {"context": [*CHAT, ANSWER], "response": "a"},
        "context ends with the assistant, and there is a response",
    ),
    "two replies": ({"messages": [*CHAT, ANSWER], "response": "a"}, "which is it?"),
    "two dialogues": ({"messages": [*CHAT, ANSWER], "context": ["a"]}, "messages and context"),
    "a list for an id": (PAIR | {"id": ["a"]}, "a name is"),
    "half a number for an id": (PAIR | {"id": 1.5}, "a name is 1.5"),
    "an object for a reference": (PAIR | {"reference": {"a": 1}}, "reference is"),
    "replies by system": ({"context": ["a"], "responses": {"m1": "b"}}, "responses is an object"),
    "no replies": ({"context": ["a"], "responses": []}, "response: there is none"),
    "an empty response": (
        {"messages": [*CHAT, ANSWER], "response": None},
        "response is empty: --field response=",
    ),
    "an empty end": (
        {"messages": [*CHAT, ANSWER | {"content": ""}]},
        "messages ends with the assistant, without a text",
    ),
    "a call at the end": (
        {"messages": [CHAT[1], ANSWER | {"tool_calls": [{}]}, {"role": "tool", "content": "a"}]},
        "messages ends with the tool",
    ),
    "the dialogue system": (
        {"context": [{"speaker": side, "text": side} for side in ("USER", "SYSTEM") * 2]},
        "a dialogue system is the assistant",
    ),
    "a prompt for a system": (
        PAIR | {"system": "You are the friendly assistant of a small shop."},
        "system is 'You are the friendly",
    ),
    "response and responses": (PAIR | {"responses": ["a"]}, "there are response and responses"),
    "times of dictionaries": (
        {"messages": [ANSWER | {"date": {"$date": 1}}, CHAT[1] | {"date": {"$date": 2}}]},
        "messages ends with the user",
    ),
    "one turn of the dialogue system": (
        {
            "context": [
                {"speaker": side, "text": side, "date": date}
                for side, date in zip(("USER", "SYSTEM", "USER"), (5, 6, 7))
            ],
            "response": "a",
        },
        "a dialogue system is the assistant",
    ),
    "a short prompt for a system": (PAIR | {"system": "You are a pirate."}, "expected a name"),
    "newest first": (
        {"messages": [ANSWER | {"ts": "3"}, CHAT[1] | {"ts": "2"}, CHAT[0] | {"ts": "1"}]},
        "messages is not in the order of ts",
    ),
    "newest turn first": (
        {"messages": [ANSWER | {"turn_id": 3}, CHAT[1] | {"turn_id": 2}, CHAT[0] | {"turn_id": 1}]},
        "messages is not in the order of turn_id",
    ),
    "newest day first": (
        {
            "messages": [
                CHAT[1] | {"created_at": "2026-11-02T08:00:00Z"},
                ANSWER | {"created_at": "2026-11-01T08:00:00Z"},
            ]
        },
        "messages is not in the order of created_at",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_record_is_refused_with_its_line(name):
    record, word = REFUSED[name]
    (bad,) = readers.read([(7, record)]).bad_records
    assert bad["line"] == 7 and word in bad["reason"]


def test_a_reply_beside_an_option_that_takes_another_is_refused():
    for form in (Form(last_turn=True), Form(last_reply=True)):
        (bad,) = readers.read([(1, PAIR)], form).bad_records
        assert "there is a response" in bad["reason"]
    (bad,) = readers.read([(1, {"messages": []})], Form(last_turn=True)).bad_records
    assert "context: found []" in bad["reason"]


def test_what_was_left_out_is_counted():
    (note,) = readers.read([(1, READ["prompt, parts, tools"][0])]).notes
    counts = "1 parts of messages that nobody spoke, 1 system messages, 1 turns without a text, "
    counts += "1 tool messages"
    assert note == f"left out: {counts}"
    (note,) = readers.read([(1, READ["the last reply"][0])], Form(last_reply=True)).notes
    assert note == "left out: 1 messages behind the last reply"


def test_messages_of_one_speaker_are_joined_and_counted_unless_another_said_nothing_between():
    image = {"role": "user", "content": [{"type": "image_url"}]}
    first = {"role": "assistant", "content": TURNS[0]}
    for between in ([], [CALL, {"role": "tool", "content": "11:40"}]):
        reading = readers.read([(1, {"messages": [CHAT[1], first, *between, ANSWER]})])
        assert reading.pairs["response"].tolist() == [f"{TURNS[0]} {REPLY}"]
        assert "1 messages joined to the one before, of the same speaker" in reading.notes[0]
    reading = readers.read([(1, {"messages": [CHAT[1], first, image, ANSWER]})])
    assert reading.pairs["context"].tolist() == [(TURNS[1], TURNS[0])]
    assert reading.pairs["response"].tolist() == [REPLY]


def test_times_in_order_and_other_columns_that_fall_are_no_fault():
    falling = [{"sentiment": 3, "date": "31/12/2024"}, {"sentiment": 1, "date": "01/01/2025"}]
    falling[0] |= {"sent_at": "2025-01-01T10:00+02:00", "time": 2.3}
    falling[1] |= {"sent_at": "2025-01-01T08:01Z", "time": 0.1}
    chat = [message | more for message, more in zip(CHAT, falling)]
    record = {"messages": [*chat, ANSWER | {"date": None, "sentiment": 0}]}
    assert not readers.read([(1, record)]).bad_records
    backwards = {"messages": [ANSWER | {"ts": 3}, CHAT[1] | {"ts": 2}, ANSWER | {"ts": 1}]}
    assert readers.read([(1, backwards)]).bad_records
    assert not readers.read([(1, backwards)], Form(as_it_is=True)).bad_records


def test_blanks_between_words_make_no_other_context():
    rows = [PAIR, PAIR | {"context": [f" {turn}  " for turn in TURNS]}]
    assert readers.read(enumerate(rows, 1)).pairs["context_id"].nunique() == 1


def test_a_separator_that_no_record_has_is_refused():
    for separator in ("\n", "\t", "'\\"):
        record = {"context": separator.join(TURNS), "response": REPLY}
        reading = readers.read([(1, record)], Form(separator=separator))
        assert reading.pairs["context"].tolist() == [TURNS]
    rows = [READ["a separator"][0], {"context": "One turn.", "response": REPLY}]
    assert len(readers.read(enumerate(rows, 1), Form(separator="__eou__")).pairs) == 2
    with pytest.raises(DreError, match="--separator '__eou__' stands in no context that is one"):
        readers.read([(1, PAIR)], Form(separator="__eou__"))


def test_a_column_that_no_record_has_is_refused():
    for path in ("talk", "context.2"):
        message = f"--field names {path}: no record has it; they have context"
        with pytest.raises(DreError, match=message):
            readers.read([(1, PAIR)], Form(fields={"system": path}))


def test_systems_may_share_ids_and_a_system_may_not():
    rows = [PAIR | {"id": 1.0, "system": name} for name in ("a", "a ", "b")]
    reading = readers.read(enumerate(rows, 1))
    assert list(reading.pairs["pair_id"]) == ["a/1", "b/1"]
    assert [bad["line"] for bad in reading.bad_records] == [2]
    assert reading.pairs["context_id"].nunique() == 1
    clash = [PAIR | {"system": "a", "id": "b/c"}, PAIR | {"system": "a/b", "id": "c"}]
    clash += [PAIR | {"system": name, "id": id} for name, id in (("x", "c"), ("x", "b/c"))]
    with pytest.raises(DreError, match="two pairs would be called 'a/b/c'"):
        readers.read(enumerate(clash, 1))


def test_several_responses_are_a_pair_each():
    answers = ["Yes.", {"response": "No.", "model": "b"}]
    record = {"context": list(TURNS), "responses": answers, "model": "a"}
    table = readers.read([(4, record)]).pairs
    assert table["id"].tolist() == ["4.0", "4.1"]
    assert table["response"].tolist() == ["Yes.", "No."]
    assert table["system"].tolist() == ["a", "b"]
    assert readers.read([(4, record | {"id": "x"})]).pairs["id"].tolist() == ["x.0", "x.1"]
    record["responses"] = [answers[0], answers[1] | {"id": "y"}]
    assert readers.read([(4, record | {"id": "x"})]).pairs["id"].tolist() == ["x.0", "y"]
    one = readers.read([(4, record)], Form(fields={"response": "responses.0"})).pairs
    assert one["response"].tolist() == ["Yes."]


def test_an_id_may_be_called_pair_id_and_of_several_references_the_first_counts():
    row = readers.read([(1, PAIR | {"pair_id": "x", "reference": ["a", "b"]})]).pairs.iloc[0]
    assert (row["id"], row["reference"]) == ("x", "a")


def test_a_model_that_is_empty_somewhere_names_no_systems_and_is_said():
    rows = [PAIR | {"model": name} for name in ("m1", "m2", None)]
    reading = readers.read(enumerate(rows, 1))
    assert set(reading.pairs["system"]) == {""}
    assert "model is empty in 1 records, and names no systems" in reading.notes


def test_the_replies_of_a_list_may_have_another_name():
    record = {"context": list(TURNS), "responses": [{"text": "Yes."}, {"text": "No."}]}
    table = readers.read([(1, record)], Form(fields={"response": "text"})).pairs
    assert table["response"].tolist() == ["Yes.", "No."]


def test_models_are_systems_unless_there_are_systems_or_one_model_alone():
    rows = [PAIR | {"model": name} for name in ("m1", "m2 ")]
    reading = readers.read(enumerate(rows, 1))
    assert reading.pairs["system"].tolist() == ["m1", "m2"]
    assert reading.notes[0].startswith("the column model names the systems")
    for rows, form in (
        ([PAIR | {"model": "m"}] * 2, Form()),
        ([PAIR | {"model": name} for name in "ab"], Form(fields={"system": ""})),
    ):
        assert readers.read(enumerate(rows, 1), form).pairs["system"].tolist() == ["", ""]


TABLE = pd.DataFrame([PAIR | {"id": "x"}])
CELLS = TABLE.assign(context=[json.dumps(TURNS)], reference="")
LINE = json.dumps(PAIR | {"id": "x", "note": "\u2028"}, ensure_ascii=False).encode()
FILES = {
    "a.jsonl": b"\r\n" + LINE + b"\r\n",
    "a.json": b"\xef\xbb\xbf" + json.dumps([PAIR | {"id": "x"}]).encode(),
    "a.csv": CELLS.to_csv(index=False).encode(),
    "WINDOWS.CSV": CELLS.to_csv(index=False, lineterminator="\r\n").encode(),
    "semicolon.csv": b"sep=;\n" + CELLS.to_csv(index=False, sep=";").encode(),
    "a.tsv": CELLS.to_csv(index=False, sep="\t").encode(),
    "a.parquet": TABLE.to_parquet(None),
    "a.csv.gz": gzip.compress(CELLS.to_csv(index=False).encode()),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read(name, tmp_path):
    (tmp_path / name).write_bytes(FILES[name])
    pairs, bad = readers.pairs(readers.records(tmp_path / name))
    assert not bad and list(pairs[["context", "response", "id"]].iloc[0]) == [TURNS, REPLY, "x"]


def test_standard_input_is_json_lines(monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(gzip.compress(FILES["a.jsonl"])))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert list(readers.records("-")) == [(2, json.loads(LINE))]


@pytest.mark.parametrize(
    ("name", "data", "word"),
    [
        ("a.txt", b"", "expected a name that ends in"),
        ("a.json", b'{"data": []}', "found data, expected a list of records"),
        ("a.json", b"[" * 100_000, "cannot be read"),
        ("a.csv", b"\xff", "UTF-8"),
        ("a.csv", b"1,2,2\n3,4,5\n", "two columns are called '2': is the first line a header"),
        ("a.csv", b'context,response\n"a,b\n', "cannot be read"),
        ("a.parquet", b"a", "cannot be read"),
        ("a.gz", b"\x1f\x8b", "cannot be read"),
        ("b.jsonl.gz", gzip.compress(b"{}" * 99, mtime=0)[:-12] + bytes(12), "cannot be read"),
        ("b.csv", b'context,response\n"[""a""]",b\n"a"c,b\n', "line 3"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(name, data, word, tmp_path):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DreError, match=f"{name}.*{re.escape(word)}"):
        list(readers.records(tmp_path / name))


def test_bad_lines_of_files_keep_their_numbers(tmp_path):
    turns = '"' + json.dumps(TURNS).replace('"', '""') + '"'
    contents = {
        "a.jsonl": ("\n{\n" + json.dumps(PAIR) + '\n{"id": 1, "id": 2}', [2, 4]),
        "a.csv": (
            f'context, response,id\n{turns},"x\ny",a\n{turns},b,c,d\n{turns},b\n'
            "context,response,id\n",
            [4, 5, 6],
        ),
        "excel.csv": (f"sep=;\ncontext;response\na\n{turns};x\n", [3]),
        "a.tsv": (f'context\tresponse\n{turns}\tx\n{turns}\t"y\nz"\n', [3]),
    }
    for name, (text, lines) in contents.items():
        (tmp_path / name).write_text(text)
        pairs, bad = readers.pairs(readers.records(tmp_path / name), Form(one_turn=True))
        assert len(pairs) == 1 and [record["line"] for record in bad] == lines


FORMULAS = ["=1+1", "+cmd|x", "-2", "@SUM(A1)", "\tx", "\r=1", "a\r=1", "'=1", "''-2", "'q'", "a"]


def test_no_text_in_csv_is_a_formula_and_names_come_back_as_they_were(tmp_path):
    n = len(FORMULAS)
    table = pd.DataFrame({"context_id": FORMULAS, "system": FORMULAS, "score": range(-1, n - 1)})
    path = tmp_path / "scores.csv"
    files.write(table, path)
    assert [len(row) for row in csv.reader(path.open(newline=""))] == [3] * (n + 1)
    cells = pd.read_csv(path, dtype=str, keep_default_na=False)
    assert not cells["system"].str.match(r"[=+\-@\t\r]").any()
    read = readers.scores(path, ["context_id"])
    assert read["id"].tolist() == read["system"].tolist() == FORMULAS
    assert read["score"].tolist() == table["score"].tolist()
    files.write(table, tmp_path / "scores.jsonl")
    comparison = compare_scores(path, tmp_path / "scores.jsonl")
    assert comparison.notes == [] and comparison.missing == 0


def test_scores_are_finite_numbers_by_id():
    columns = {"id": [1.0, 2.0], "system": [None, "a"], "score_llm": ["", "3"]}
    table = readers.scores(pd.DataFrame(columns), ["id"])
    assert table["system"].tolist() == ["", "a"]
    assert table["id"].tolist() == ["1", "2"] and table["score"].iloc[1] == 3
    for wrong in ({"id": [1], "score": ["inf"]}, {"id": [1]}, {"score": [1]}, {"id": [1.5]}):
        with pytest.raises(DreError, match="the table: found"):
            readers.scores(pd.DataFrame(wrong), ["id"])


# --- a look at what was read ------------------------------------------------------------------


def pairs_of(n, context=None, response=None, **columns):
    """Return records; the functions make the turns and the response of each number."""
    context = context or (lambda k: [f"Is shop {k} open today?", "Only until noon."])
    response = response or (lambda k: f"Then I will be at shop {k} before noon.")
    return [{"context": context(k), "response": response(k), **columns} for k in range(n)]


LOOKED_AT = {  # records, words of the finding, and whether it is a reason to stop
    "a mark": (pairs_of(12, lambda k: [f"Is shop {k} open?|||Only until noon."]), "'|||'", True),
    "few with a mark": (pairs_of(2, lambda k: [f"Is it {k}?|||No."]), "'|||'", False),
    "blanks": (pairs_of(12, lambda k: [f"Is it {k}?  No.  Why?"]), "' ' stands in", False),
    "an arrow": (pairs_of(12, lambda k: [f"Is it {k}? -> No."]), "'->'", True),
    "line ends": (pairs_of(12, lambda k: [f"Is it {k}?\nNo.", "Oh."]), "'\\n'", False),
    "names": (pairs_of(12, lambda k: [f"User: is it {k}?", "Bot: no."]), "'user', 'bot'", True),
    "times": (pairs_of(12, lambda k: [f"[10:0{k % 9}] Ann: well?"]), "'[0:0]'", True),
    "numbers": (pairs_of(12, lambda k: ["1. Is it?", f"2. {k}."]), "'0.'", True),
    "acts": (pairs_of(12, lambda k: [f"[ask] Is it {k}?"]), "'[ask]'", True),
    "names of some": (
        pairs_of(12, lambda k: [f"{'User: i' if k < 5 else 'I'}s it {k}?"]),
        "'user'",
        False,
    ),
    "a name in contexts and some replies": (
        pairs_of(12, lambda k: [f"Bot: is it {k}?"], lambda k: "Bot: no." if k < 4 else "No."),
        "'bot'",
        True,
    ),
    "a name in replies of a system": (
        pairs_of(12, system="a")
        + pairs_of(12, system="b")
        + pairs_of(12, response=lambda k: f"Bot: yes, {k}.", system="c"),
        "'bot'",
        True,
    ),
    "a name in replies": (pairs_of(12, response=lambda k: f"Bot: yes, {k}."), "'bot'", True),
    "the reply again": (
        pairs_of(12, lambda k: ["Is it?", f"Yes, {k}."], lambda k: f"Yes, {k}. "),
        "12 of 12 pairs have a context that holds the response",
        True,
    ),
    "names of their own": (
        pairs_of(12, lambda k: [f"Ann{chr(97 + k)}: hi", f"Bo{chr(97 + k)}: {k}"]),
        "'a name:'",
        True,
    ),
    "names of one dialogue": (pairs_of(1, lambda k: ["Ann: hi", "Bo: yes"]), "'a name:'", False),
    "long dashes": (
        pairs_of(12, lambda k: [f"User – is it {k}?", "Bot — no."]),
        "'user –', 'bot —'",
        True,
    ),
    "dashes": (pairs_of(12, lambda k: [f"User - is it {k}?", "Bot - no."]), "'user -'", True),
    "brackets": (pairs_of(12, lambda k: [f"<ann> is it {k}?"]), "'<ann>'", True),
    "full width": (pairs_of(12, lambda k: [f"用户：is it {k}?"]), "'用户'", True),
    "later turns": (
        pairs_of(12, lambda k: ["Is it?", f"Yes, {k}.", "Thanks."], lambda k: f"Yes, {k}."),
        "a context that holds the response",
        True,
    ),
    "a weak mark": (pairs_of(12, lambda k: [f"Is it {k}? / No. / Why?"]), "'/' stands in", False),
    "a question": (
        pairs_of(2, question="Where is it?"),
        "2 records have a question beside context",
        False,
    ),
    "running on": (
        pairs_of(12, response=lambda k: f"Yes {k}.\nUser: Oh."),
        "decoded or cut",
        False,
    ),
    "a name in brackets": (
        pairs_of(12, lambda k: [f"[Ann{k}] hi", f"Mr. Bo (Agent): {k}"]),
        "'a name:'",
        True,
    ),
    "few names": (pairs_of(2, lambda k: [f"User: is it {k}?"]), "'user'", False),
    "raters": (pairs_of(1) * 3, "2 of 3 pairs are there before", False),
    "entities": (
        pairs_of(12, lambda k: [f"Tom {'&amp;' if k < 2 else 'and'} {k}"]),
        "2 of 12 pairs have marks of text that was not decoded or cut, as in 'Tom &amp; 0'",
        False,
    ),
    "byte pairs": (pairs_of(12, response=lambda k: f"ĠNo Ġ{k}"), "was not decoded", False),
    "escapes": (pairs_of(12, lambda k: [f"Is {k} a caf\\u00e9?"]), "was not decoded", False),
    "personas": (
        pairs_of(12, lambda k: ["your persona: I bake.", f"{k}?"]),
        "'your persona'",
        True,
    ),
    "a prompt": (
        pairs_of(12, lambda k: ["You are a baker.", f"{k}?"]),
        "a persona, a prompt or knowledge as a turn",
        False,
    ),
    "bytes": (pairs_of(12)[:11] + pairs_of(1, response=lambda k: "b'No.'"), "1 of 12", False),
    "data": (pairs_of(12, response=lambda k: f"['No, {k}.']"), "data or a missing", None),
    "nothing": (pairs_of(12)[:11] + pairs_of(1, response=lambda k: "nan"), "1 of 12", False),
    "an echo": (
        pairs_of(12, response=lambda k: f"Is shop {k} open today? Only until noon. Yes."),
        "repeats the context first",
        False,
    ),
    "systems": (pairs_of(1, system="M1") + pairs_of(1, system="m1"), "'M1', 'm1'", False),
    "no system": (pairs_of(1, system="a") + pairs_of(1), "'', 'a'", False),
    "ratings": (
        [pair | {"human": k % 4 - (k == 3) * 4} for k, pair in enumerate(pairs_of(12))],
        "human is -1 in 1 places",
        False,
    ),
    "lists of ratings": (
        [pair | {"human": [k % 4, -1]} for k, pair in enumerate(pairs_of(12))],
        "human is -1 in 12 places",
        False,
    ),
}


@pytest.mark.parametrize("name", LOOKED_AT)
def test_what_was_read_wrongly_is_said_or_refused(name):
    records, word, stops = LOOKED_AT[name]
    reading = readers.read(enumerate(records, 1))
    sentences = reading.doubts if stops else reading.notes
    assert any(word in sentence for sentence in sentences)
    if not stops:
        assert not reading.doubts or stops is None
        return
    with pytest.raises(DreError, match="--as-it-is"):
        readers.pairs(enumerate(records, 1))
    taken = readers.read(enumerate(records, 1), Form(as_it_is=True))
    assert not taken.doubts and any(word in note for note in taken.notes)


MARKS = ["[SEP]", "<turn>", "</s>", "__eou__", "_eos_", "EOU", "eot", "SEP", "\\n", "\t", "\u2028"]
MARKS += [";;", "//", "~", "@@", "=>", "|", "¦", "⏎"]


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_that_separates_turns_is_a_reason_to_stop(mark):
    records = pairs_of(12, lambda k: [f"Is it {k}? {mark} No."])
    (doubt,) = readers.read(enumerate(records, 1)).doubts
    assert f"{mark!r} stands in 12 of 12 contexts" in doubt


def test_texts_with_roles_are_not_searched_and_plain_talk_raises_no_alarm():
    chats = [
        {"messages": [{"role": "user", "content": f"User: a | b | {k}"}, ANSWER], "prompt": "p"}
        for k in range(12)
    ]
    well_formed = [
        chats,
        pairs_of(12),
        pairs_of(
            12,
            lambda k: [f"it 's {k} , i think ... ( yes ) :) see http://a.b/c" + " - no" * (k % 2)],
        ),
        pairs_of(12, lambda k: [f"{'so ' * k}**no**, at 10:{k + 10}: that is it!", "Yes :D"]),
        [
            PAIR | {"context": [f"Is it {k}?"], "response": f"{text}, {k}.", "system": f"m{k}"}
            for k, text in enumerate(["Yes: it is", "- leek", "96 / 3", "*nods*", "No", "So"] * 2)
        ],
        pairs_of(12, input=""),
        pairs_of(30, lambda k: ["Hi!"] if k % 7 == 0 else [f"Is it {k}?"], lambda k: "Hi!"),
        pairs_of(12, lambda k: ["so / " * 9], lambda k: f"so / {k}."),
        pairs_of(12, lambda k: [f"Is it {k}?\n", "All that I can say is this: no.\n"]),
        pairs_of(12, lambda k: [f"Note{chr(97 + k)}: so.", "Oh."], lambda k: f"No, {k}."),
        pairs_of(12, lambda k: ["Yes", f"Is it {k}?"], lambda k: f"Yes, {k}."),
        pairs_of(12, system="a") + pairs_of(12, system="b"),
        [
            pair | {"vote": k % 3 - 1, "z": k % 5 - 0.5, "likert": k % 5 - 2}
            for k, pair in enumerate(pairs_of(12))
        ],
        pairs_of(1, lambda k: ["Note: call me / or her; at 10:30 - today."]),
    ]
    for records in well_formed:
        reading = readers.read(enumerate(records, 1))
        assert reading.doubts == reading.notes == []


@needs_data
def test_published_sets_raise_no_alarm():
    tables = {
        name: ratings.rated(name) for name in ("fed-turn", "topicalchat-usr", "dailydialog-gupta")
    }
    tables["convai2"] = dialogues.pairs(dialogues.public_contexts("convai2-valid"), "p")
    for name, table in tables.items():
        columns = {"system": "", "has_roles": False}
        table = table.assign(**{key: columns[key] for key in columns if key not in table})
        assert look.findings(table.fillna({"system": ""})) == [], name


# --- the page of recipes ----------------------------------------------------------------------

SOURCES = {  # the file of each recipe, in its true form; all give the pair of SAID and "At two."
    "grade.json": json.dumps(
        [{"ID": 0, "Context": "|||".join(SAID), "Response": "At two.", "HumanScores": "[4, 5]"}]
    ),
    "usr.json": json.dumps(
        [
            {
                "context": "\n".join(SAID) + "\n",
                "fact": "f",
                "responses": [{"response": "At two.", "model": "m", "Overall": [4, 5]}],
            }
        ]
    ),
    "fed_data.json": json.dumps(
        [
            {"context": "User: Hi!", "system": "Meena", "annotations": {}},
            {
                "context": f"User: {SAID[0]}\nSystem: {SAID[1]}\nUser: {SAID[2]}",
                "response": "System: At two.",
                "system": "Meena",
                "annotations": {"Overall": [4]},
            },
        ]
    ),
    "dialogues_text.txt": " __eou__ ".join([*SAID, "At two."]) + " __eou__\n",
    "parlai.txt": (
        f"text:your persona: I wait.\\n{SAID[0]}\tlabels:{SAID[1]}\n"
        f"text:{SAID[2]}\tlabels:At two.\tepisode_done:True\n"
    ),
    "question.jsonl": json.dumps({"question_id": 81, "turns": [SAID[0], SAID[2]]}),
    "model_answer.jsonl": json.dumps(
        {"question_id": 81, "model_id": "m", "choices": [{"turns": [SAID[1], "At two."]}]}
    ),
    "hh.jsonl": json.dumps(
        {
            "chosen": f"\n\nHuman: {SAID[0]}\n\nAssistant: {SAID[1]}\n\nHuman: {SAID[2]}"
            "\n\nAssistant: At two.",
            "rejected": "",
        }
    ),
    "samples.jsonl": json.dumps(
        {
            "doc_id": 0,
            "target": "x",
            "arguments": {
                "gen_args_0": {
                    "arg_0": [
                        {"role": role, "content": text}
                        for role, text in zip(["user", "assistant", "user"], SAID)
                    ],
                    "arg_1": {},
                }
            },
            "resps": [["At two."]],
            "filtered_resps": ["At two."],
        }
    ),
    "log.jsonl": json.dumps(
        {
            "messages": [
                {"role": role, "content": text, "ts": ts}
                for role, text, ts in [
                    ("assistant", "At two.", 4),
                    ("user", SAID[2], 3),
                    ("assistant", SAID[1], 2),
                    ("user", SAID[0], 1),
                ]
            ]
        }
    ),
    "wizard.jsonl": json.dumps(
        {
            "messages": [
                {"role": role, "content": text}
                for role, text in zip(["apprentice", "wizard"] * 2, [*SAID, "At two."])
            ]
        }
    ),
    "raters.csv": pd.DataFrame(
        [
            {"context": json.dumps(SAID), "response": "At two.", "system": "m", "rating": rating}
            for rating in (2, 5)
        ]
    ).to_csv(index=False),
}
RECIPES = re.findall(r"```python\n(.*?)```", (DOCS / "files.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("recipe", RECIPES, ids=range(len(RECIPES)))
def test_a_recipe_of_the_page_makes_pairs(recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert 3 <= len([line for line in recipe.splitlines() if line.strip()]) <= 10
    named = [name for name in SOURCES if f'"{name}"' in recipe]
    assert named
    for name in named:
        (tmp_path / name).write_text(SOURCES[name])
    exec(compile(recipe, "docs/files.md", "exec"), {})
    row = readers.pairs(readers.records("pairs.jsonl"))[0].iloc[-1]
    assert (row["context"], row["response"]) == (tuple(SAID), "At two.")
    if "raters.csv" in named:
        assert pd.read_json("pairs.jsonl", lines=True)["rating"].tolist() == [3.5]


def test_every_recipe_is_run_and_a_path_does_what_the_recipe_of_samples_does():
    assert len(RECIPES) == len(SOURCES) - 1  # one recipe reads two files
    fields = {"context": "arguments.gen_args_0.arg_0", "response": "filtered_resps.0"}
    row = readers.read([(1, json.loads(SOURCES["samples.jsonl"]))], Form(fields=fields)).pairs
    assert row["context"].tolist() == [tuple(SAID)] and row["response"].tolist() == ["At two."]


@needs_data
@pytest.mark.parametrize(
    ("source", "ending", "name"),
    [
        ("fed_data.json", "fed_data.json", "fed-turn"),
        ("usr.json", "usr_topical_chat.json", "topicalchat-usr"),
    ],
)
def test_published_sets_are_read_by_their_recipes(source, ending, name, tmp_path, monkeypatch):
    from dre.datasets.registry import home, sources

    path = next(home() / path for path in sources() if str(path).endswith(ending))
    monkeypatch.chdir(tmp_path)
    (tmp_path / source).write_bytes(path.read_bytes())
    (recipe,) = [recipe for recipe in RECIPES if f'"{source}"' in recipe]
    exec(compile(recipe, "docs/files.md", "exec"), {})
    reading = readers.read(readers.records("pairs.jsonl"))
    table = ratings.rated(name)
    assert reading.bad_records == reading.doubts == []
    assert [[turn.strip() for turn in turns] for turns in reading.pairs["context"]] == [
        [turn.strip() for turn in turns] for turns in table["context"]
    ]
    assert [response.strip() for response in reading.pairs["response"]] == list(table["response"])
    assert reading.pairs["system"].tolist() == table["system"].tolist()


# --- commands ---------------------------------------------------------------------------------


def jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_show_prints_what_is_read_and_what_is_not(tmp_path, capsys):
    rows = [{"messages": [PROMPT, *CHAT, ANSWER]}, {"messages": CHAT}, PAIR | {"system": "gull"}]
    path = jsonl(tmp_path / "log.jsonl", rows)
    assert main(["data", "show", path]) == 2
    out, err = capsys.readouterr()
    shown = f"   1. {TURNS[0]}\n   2. {TURNS[1]}\n   → {REPLY}\n"
    assert out.startswith(f"line 1, id 1\n{shown}\nline 3, id 3, system gull\n{shown}")
    assert out.endswith("log.jsonl: 2 pairs\n")
    error = f"1 of 3 records cannot be used; --skip-bad leaves them out\n  {path}:2: messages ends"
    assert f"error: {error}" in err
    assert main(["data", "show", path, "--skip-bad", "--limit", "1"]) == 0
    out, err = capsys.readouterr()
    assert out.count("→") == 1 and f"note: {error}" in err
    assert "note: left out: 1 system messages\n" in err
    path = jsonl(tmp_path / "bad.jsonl", rows[1:2])
    assert main(["data", "show", path, "--skip-bad"]) == 2
    path = jsonl(tmp_path / "empty.jsonl", [])
    assert main(["data", "show", path]) == 2
    assert "empty.jsonl: there is no pair in it" in capsys.readouterr().err
    path = jsonl(tmp_path / "tagged.jsonl", LOOKED_AT["names"][0])
    assert main(["data", "show", path]) == 2
    assert main(["data", "show", path, "--as-it-is"]) == 0


def test_a_separator_may_be_written_as_a_shell_passes_it_on(tmp_path, capsys):
    for sign, written in (("\n", "\\n"), ("\t", "\\t")):
        path = jsonl(tmp_path / "log.jsonl", [{"context": sign.join(TURNS), "response": REPLY}])
        assert main(["data", "show", path, "--separator", written]) == 0
        assert f"   1. {TURNS[0]}\n   2. {TURNS[1]}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--field", "talk=messages"], "expected NAME=PATH with one of context, response"),
        (["--field", "context"], "--field: context: expected NAME=PATH"),
        (["--field", "context=talk"], "--field names talk: no record has it"),
        (["--last-turn", "--last-reply"], "--last-reply: not allowed with argument --last-turn"),
        (["--separator", "|", "--one-turn"], "--one-turn: not allowed with argument --separator"),
        (["--limit", "-2"], "-2: expected a number above 0"),
    ],
)
def test_options_on_the_form_are_checked(options, message, tmp_path, capsys):
    path = jsonl(tmp_path / "log.jsonl", [PAIR])
    try:
        status = main(["data", "show", path, *options])
    except SystemExit as stopped:
        status = stopped.code
    assert status == 2 and message in capsys.readouterr().err


COMMANDS = (["data", "show"], ["score"], ["judge", "run"], ["judge", "estimate"], ["judge", "show"])


def test_every_command_that_reads_dialogues_takes_the_options_of_the_page(capsys):
    page = (DOCS / "files.md").read_text(encoding="utf-8")
    options = ("--field", "--separator", "--one-turn", "--last-turn", "--last-reply")
    for command in COMMANDS:
        with pytest.raises(SystemExit):
            main([*command, "--help"])
        shown = capsys.readouterr().out
        for option in (*options, "--as-it-is"):
            assert option in shown and option in page


@pytest.mark.parametrize(
    "command",
    [
        ["score"],
        ["judge", "run", "--judge", "recorded:claude-2026-11"],
        ["judge", "estimate", "--judge", "openai:gpt-5-mini"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_every_command_refuses_a_bad_line_and_a_doubt(command, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bad = jsonl(tmp_path / "bad.jsonl", [PAIR, {"context": "one text", "response": "a"}])
    assert main([*command, bad]) == 2
    assert f"  {bad}:2: context is one text" in capsys.readouterr().err
    tagged = jsonl(tmp_path / "tagged.jsonl", LOOKED_AT["names"][0])
    assert main([*command, tagged]) == 2
    assert f"error: {tagged}: turns begin with 'user', 'bot'" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.jsonl", "tagged.jsonl"]


@pytest.mark.parametrize(
    "command",
    [
        ["train", "--recipe", "paper", "--out", "model", "--train"],
        ["augment", "-o", "out.jsonl", "--judge", "recorded:claude-2026-11"],
    ],
    ids=lambda command: command[0],
)
def test_contexts_of_a_bad_line_are_refused_and_a_doubt_is_a_note(
    command, tmp_path, capsys, monkeypatch
):
    """These commands have no option that would take what is doubted."""
    monkeypatch.chdir(tmp_path)
    bad = jsonl(tmp_path / "bad.jsonl", [PAIR, {"context": "one text"}])
    assert main([*command, bad]) == 2
    assert f"error: {bad}:2: context is one text" in capsys.readouterr().err
    assert main([*command, jsonl(tmp_path / "tagged.jsonl", LOOKED_AT["names"][0])]) == 2
    assert "note: turns begin with 'user', 'bot'" in capsys.readouterr().err


def test_contexts_to_train_on_are_read_as_pairs_are(tmp_path):
    rows = [
        PAIR | {"id": 7},
        {"context": list(TURNS), "chosen": REPLY, "adversarial_negative_responses": ["No.", "Oh."]},
    ]
    fields = {"positive_responses": "chosen"}
    first, second = dialogues.read_contexts(jsonl(tmp_path / "own.jsonl", rows), Form(fields))
    assert first.turns == second.turns == TURNS
    assert first.positives == second.positives == (REPLY,)
    assert second.adversarials == ("No.", "Oh.")
    assert (first.id, second.id, first.set, first.split) == ("7", "2", "own", "train")
    alone = [{"context": [f"{k} / {k}?"]} for k in range(12)]  # to have responses written for
    assert len(dialogues.read_contexts(jsonl(tmp_path / "own.jsonl", alone), tell=str)) == 12
    rows[1]["adversarial_negative_responses"] = ["No.", " "]
    with pytest.raises(DreError, match=r"own.jsonl:2: adversarial_negative_responses is"):
        dialogues.read_contexts(jsonl(tmp_path / "own.jsonl", rows), Form(fields))
