"""Dialogues in the forms that other people's files have: read rightly, or refused in words."""

import gzip
import json
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest

from dre.datasets import chats, formats, readers, tags
from dre.datasets.chats import Form
from dre.errors import DreError

#: The dialogue of most forms below: its turns and its response.
TURNS = ("Where is my parcel?", "It left the depot this morning.", "When will it be here?")
RESPONSE = "Before noon, I would say."


def says(*roles):
    """The dialogue as roles and texts, with the response last."""
    return list(zip(roles, (*TURNS, RESPONSE)))


def chat(role="role", text="content", sides=("user", "assistant")):
    """The dialogue as messages whose keys and sides have these names."""
    return [{role: side, text: said} for side, said in says(*sides, *sides)]


def read(*records, form=Form(), **options):  # noqa: B008
    return readers.read(enumerate(records, 1), form, **options)


def only_pair(*records, form=Form()):  # noqa: B008
    """The turns and the response of the one pair in records, which all can be used."""
    reading = read(*records, form=form)
    assert reading.bad_records == []
    (row,) = reading.pairs.to_dict("records")
    return row["context"], row["response"]


def reason(*records, form=Form()):  # noqa: B008
    """Why the last of some records cannot be used."""
    return read(*records, form=form).bad_records[-1]["reason"]


TOOL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
LANGCHAIN = ["langchain", "schema", "messages"]
WHOLE = {  # records with the whole dialogue
    "OpenAI with a prompt": {
        "messages": [{"role": "developer", "content": "Be brief."}, *chat()],
    },
    "OpenAI with tools": {
        "messages": [
            *chat()[:3],
            {"role": "assistant", "content": None, "tool_calls": [TOOL]},
            {"role": "tool", "tool_call_id": "c1", "content": "11:40"},
            chat()[3],
        ]
    },
    "OpenAI with parts": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": "x"}},
                    {"type": "text", "text": TURNS[0]},
                ],
            },
            *chat()[1:],
        ]
    },
    "OpenAI, request and answer": {
        "model": "m",
        "messages": chat()[:3],
        "choices": [{"index": 0, "message": {"role": "assistant", "content": RESPONSE}}],
    },
    "OpenAI's responses": {
        "instructions": "Be brief.",
        "input": [
            {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}
            for role, text in says("user", "assistant", "user")
        ],
        "output": [
            {"type": "reasoning", "summary": []},
            {"type": "function_call", "name": "find", "arguments": "{}"},
            {"type": "function_call_output", "output": "11:40"},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": RESPONSE}],
            },
        ],
    },
    "Anthropic": {
        "system": "You answer for a parcel service.",
        "messages": [
            *chat()[:3],
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Look it up."},
                    {"type": "tool_use", "id": "t", "name": "find", "input": {}},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "content": "11:40"}]},
            {"role": "assistant", "content": [{"type": "text", "text": RESPONSE}]},
        ],
    },
    "Gemini": {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": role, "parts": [{"text": text}]}
            for role, text in says("user", "model", "user")
        ],
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [{"text": "hm", "thought": True}, {"text": RESPONSE}],
                }
            }
        ],
    },
    "Gemini with calls": {
        "contents": [
            *(
                {"role": role, "parts": [{"text": text}]}
                for role, text in says("user", "model", "user")
            ),
            {"role": "model", "parts": [{"functionCall": {"name": "find", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "find", "response": {}}}]},
            {"role": "model", "parts": [{"text": RESPONSE}]},
        ]
    },
    "ShareGPT": {"conversations": chat("from", "value", ("human", "gpt"))},
    "ShareGPT with tools": {
        "conversations": [
            {"from": "system", "value": "Tools: find"},
            *chat("from", "value", ("human", "gpt"))[:3],
            {"from": "function_call", "value": "find()"},
            {"from": "observation", "value": "11:40"},
            {"from": "gpt", "value": RESPONSE},
        ]
    },
    "LMSYS": {"conversation_id": "c", "conversation": chat(), "turn": 2, "language": "English"},
    "OASST messages": {"thread": chat("role", "text", ("prompter", "assistant"))},
    "LangChain, types": {"messages": chat("type", "content", ("human", "ai"))},
    "LangChain, dictionaries": {
        "messages": [
            {"type": kind, "data": {"content": text, "additional_kwargs": {}, "type": kind}}
            for kind, text in says("human", "ai", "human", "ai")
        ]
    },
    "LangChain, dumps": {
        "messages": [
            {
                "lc": 1,
                "type": "constructor",
                "id": [*LANGCHAIN, name],
                "kwargs": {"content": text},
            }
            for name, text in says("HumanMessage", "AIMessage", "HumanMessage", "AIMessageChunk")
        ]
    },
    "SGD": {"turns": chat("speaker", "utterance", ("USER", "SYSTEM"))},
    "Rasa": {
        "events": [
            {"event": "action", "name": "action_session_start"},
            {"event": "slot", "name": "city", "value": "Bern"},
            *({**message, "timestamp": 1.0} for message in chat("event", "text", ("user", "bot"))),
            {"event": "action", "name": "action_listen"},
        ]
    },
    "Botpress": {
        "messages": [
            {"direction": way, "type": "text", "payload": {"text": text}}
            for way, text in says("incoming", "outgoing", "incoming", "outgoing")
        ]
    },
    "Bot Framework": {
        "transcript": [
            {"type": "message", "from": {"id": "1", "role": role}, "text": text}
            for role, text in says("user", "bot", "user", "bot")
        ]
    },
    "pairs of role and text": {"messages": [list(pair) for pair in says(*["User", "Bot"] * 2)]},
    "an object a turn": {
        "dialogue": [
            {"user": TURNS[0], "bot": TURNS[1]},
            {"user": TURNS[2], "bot": RESPONSE},
        ]
    },
    "lists by key": {"turns": {"speaker": ["user", "bot"] * 2, "utterance": [*TURNS, RESPONSE]}},
    "text of JSON": {"messages": json.dumps(chat())},
    "text of JSON, twice": {"messages": json.dumps(json.dumps(chat()))},
    "text of Python": {"Conversations": str(chat("From", "Value", ("Human", "GPT")))},
    "texts of objects": {"messages": [json.dumps(message) for message in chat()]},
    "objects in a list of numpy": {"messages": str(np.array(chat(), dtype=object))},
    "wrapped": {"conversation": {"id": 3, "messages": chat()}},
    "array": {"messages": np.array(chat(), dtype=object)},
    "capitals": {"Messages": chat("Role", "Content", ("USER", "Assistant"))},
    "a blank end": {"messages": [*chat(), {"role": "assistant", "content": " \n"}]},
    "a column of one's own, too": {"messages": chat(), "response": RESPONSE},
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_dialogue_is_read_the_same_in_every_form(name):
    assert only_pair(WHOLE[name]) == (TURNS, RESPONSE)


BEFORE = {  # what stands before a response in a column of its own
    "names": [{"speaker": name, "text": text} for name, text in says("Ada", "Ben", "Ada")],
    "numbers": {"speaker": [0, 1, 0], "utterance": list(TURNS)},
    "Slack": [
        {"type": "message", "user": user, "text": text} for user, text in says("U1", "B2", "U1")
    ],
    "Discord": [
        {"author": {"name": name}, "content": text} for name, text in says("Ada", "Ben", "Ada")
    ],
    "tuples": str(TURNS),
    "numpy's list": str(np.array(TURNS, dtype=object)),
    "numpy's long list": "[" + "\n ".join(map(repr, TURNS)) + "]",
    "blank turns": [TURNS[0], "", TURNS[1], None, " \t", TURNS[2]],
    "lines": "\r\n".join(["", *TURNS, ""]),
    "tags": "\n".join(f"{tag}: {text}" for tag, text in says("Caller", "Desk", "Caller")),
    "tags in bold": [f"**{tag}:** {text}" for tag, text in says("User", "Agent", "User")],
    "tags with numbers": [f"#Person{k}#: {text}" for k, text in says(1, 2, 1)],
    "tags behind times": [
        f"[12/05/24, 10:1{i}] {name}: {text}"
        for i, (name, text) in enumerate(says("Ada", "Ben", "Ada"))
    ],
    "tags behind signs": [f"### {tag}: {text}" for tag, text in says("Human", "Bot", "Human")],
    "tuples of role and text": str([("user", TURNS[0]), ("bot", TURNS[1]), ("user", TURNS[2])]),
    "tags before dashes": [f"{tag} - {text}" for tag, text in says("user", "bot", "user")],
    "signs without width": [TURNS[0], "\u200b\ufeff", *TURNS[1:]],
    "tags in brackets": [f"[{tag}] {text}" for tag, text in says("user", "assistant", "user")],
    "a transcript": "\n\n"
    + "\n\n".join(f"{tag}: {text}" for tag, text in says("Human", "Assistant", "Human"))
    + "\n\nAssistant:",
}


@pytest.mark.parametrize("name", BEFORE)
def test_the_turns_before_a_response_are_read_the_same_in_every_form(name):
    record = {"context": BEFORE[name], "response": RESPONSE}
    assert only_pair(record) == (TURNS, RESPONSE)
    record = {"History": BEFORE[name], "Response": RESPONSE}
    assert only_pair(record) == (TURNS, RESPONSE)


REFUSED = {  # a record, and what is said of it
    "no role": ({"messages": [{"content": "a"}]}, "none of them says who speaks"),
    "an unknown role": ({"messages": chat(sides=("user", "critic"))}, "--role critic=assistant"),
    "names alone": (
        {"dialog": chat("speaker", "text", ("Ada", "Ben"))},
        "no message is of the assistant (found: Ada, Ben)",
    ),
    "texts alone": ({"dialog": list(TURNS)}, "--last-turn takes the last as the response"),
    "prompt and reply": (
        {"prompt": "a", "completion": "b"},
        "perhaps --field context=prompt",
    ),
    "a reply elsewhere": (
        {"messages": chat()[:3], "answer": RESPONSE},
        "--field response=answer takes it",
    ),
    "facts": (
        {"question": "a b", "context": ["The shop is shut."], "response": "c"},
        "--field context=question takes 'a b'",
    ),
    "facts of UniEval": (
        {"source": "a b c d\ne f g h", "context": "f", "response": "c"},
        "context stands beside source",
    ),
    "two dialogues": ({"messages": chat(), "turns": list(TURNS)}, "--field messages=COLUMN"),
    "a system that is no prompt, maybe": (
        {"turns": [{"speaker": "system", "text": "a"}, {"speaker": "user", "text": "b"}]},
        "--role system=system or --role system=assistant decides",
    ),
    "a system between users": (
        {"messages": chat(sides=("user", "system"))},
        "--role system=system or --role system=assistant decides",
    ),
    "lists of lists": ({"context": [["a", "b"], ["c", "d"]], "response": "e"}, "turn 1 is ['a'"),
    "a number": ({"context": ["a", 5], "response": "e"}, "turn 2 is 5"),
    "a list with a comma missing": (
        {"context": "['a' 'b', 'c']", "response": "e"},
        "a comma between texts is missing",
    ),
    "an array in an object": (
        {"context": "[{'role': 'user', 'content': array(['a'], dtype=object)}]", "response": "e"},
        "cannot be read as JSON or Python",
    ),
    "a long array": (
        {"context": "['a' 'b' ... 'y' 'z']", "response": "e"},
        "cannot be read as JSON or Python",
    ),
    "a torn list": ({"context": '["a", "b', "response": "e"}, "cannot be read as JSON or Python"),
    "a line end as two signs": (
        {"context": "Is it late?\\nYes.", "response": "e"},
        "a backslash and n",
    ),
    "a separator": (
        {"context": "a __eou__ b", "response": "e"},
        "--separator '__eou__' splits a text there",
    ),
    "a separator in a list": ({"context": ["a", "b </s> c"], "response": "e"}, "'</s>'"),
    "a tab": ({"context": "Is it late?\tYes.", "response": "e"}, "--separator '\\t' splits"),
    "letters for speakers": (
        {"context": "A: Is it late? B: Yes.", "response": "e"},
        "in which a and b have their say",
    ),
    "a list without quotation marks": (
        {"context": "[Is it late?, Yes.]", "response": "e"},
        "a list without quotation marks",
    ),
    "a template of a model": (
        {"context": "<|start_header_id|>user<|end_header_id|>\nHi", "response": "e"},
        "'<|start_header_id|>'",
    ),
    "a template of Alpaca": (
        {"context": "### Instruction:\nHi\n\n### Response:", "response": "e"},
        "'### Instruction:'",
    ),
    "a word for a separator": ({"context": "Hi EOU Ho EOU", "response": "e"}, "'EOU'"),
    "bytes": ({"context": "b'Is it late?'", "response": "e"}, "which is bytes and no text"),
    "a set of PostgreSQL": ({"context": '{"Is it late?","Yes."}', "response": "e"}, "found {"),
    "an empty list": ({"context": "[]", "response": "e"}, "context is '[]': expected turns"),
    "nothing that can be seen": ({"context": "a", "response": "\u200b \u200b"}, "response is "),
    "older turns in columns": (
        {"context": "b", "context/0": "a", "response": "c"},
        "context/0 stand beside context",
    ),
    "two speakers in a turn": (
        {"context": "Human: a Assistant: b", "response": "e"},
        "in which assistant and human have their say",
    ),
    "tags on some lines": (
        {"context": "Human: a\nAssistant: b\nmore of b\nHuman: c", "response": "e"},
        "3 of 4 turns begin with a speaker",
    ),
    "one message": ({"role": "user", "content": "a"}, "the record is one message"),
    "a tree": (
        {"prompt": {"text": "a", "role": "prompter", "replies": []}},
        "context is None",
    ),
    "two answers": (
        {"messages": chat()[:3], "choices": [{"text": "a"}, {"text": "b"}]},
        "expected one reply",
    ),
    "two texts": (
        {"messages": [{"role": "user", "content": "a", "text": "b"}]},
        "different texts as content and text",
    ),
    "nothing spoken": (
        {"messages": [{"role": "assistant", "content": None, "tool_calls": [TOOL]}]},
        "the dialogue has 0 turns",
    ),
    "a text among messages": (
        {"messages": [*chat()[:2], "a"]},
        "turn 3 is 'a': expected texts alone, or messages alone",
    ),
    "a part without text": (
        {"messages": [{"role": "user", "content": [{"type": "chart", "points": []}]}]},
        "expected its text",
    ),
    "much text": (
        {"context": "a" * (formats.LARGEST_TEXT + 1), "response": "e"},
        "context has 1,000,001 characters: expected at most 1,000,000",
    ),
    "a long reply": (
        {"context": "a", "response": "e" * (formats.LARGEST_TEXT + 1)},
        "response has 1,000,001 characters",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_right_is_refused_in_words(name):
    record, message = REFUSED[name]
    assert message in reason(record)


DECIDED = {  # a record that was refused, and the form that decides
    "another role": (
        {"messages": chat(sides=("guest", "host"))},
        Form(roles={"guest": "user", "Host": "assistant"}),
    ),
    "a name": (
        {"log": chat("speaker", "text", ("Ada", "Ben"))},
        Form(roles={"Ben": "assistant"}),
    ),
    "the last turn": ({"dialog": [*TURNS, RESPONSE]}, Form(last_turn=True)),
    "the last turn of a context": ({"context": [*TURNS, RESPONSE]}, Form(last_turn=True)),
    "a separator": (
        {"context": " __eou__ ".join(TURNS) + " __eou__", "response": f"{RESPONSE} __eou__"},
        Form(separator="__eou__"),
    ),
    "a line end as two signs": (
        {"context": "\\n".join(TURNS), "response": RESPONSE},
        Form(separator="\\n"),
    ),
    "tabs": (
        {"context": "\t".join(TURNS), "response": RESPONSE},
        Form(separator="\\t"),
    ),
    "a container": ({"talk": chat()}, Form(fields={"messages": "talk"})),
    "a path": ({"request": {"body": chat()}}, Form(fields={"messages": "request.body"})),
    "which of two": (
        {"messages": chat()[:2], "turns": chat()},
        Form(fields={"messages": "turns"}),
    ),
    "beside facts": (
        {"input": "\n".join(TURNS), "context": ["It is late."], "response": RESPONSE},
        Form(fields={"context": "input"}),
    ),
    "a dialogue system": (
        {"messages": chat(sides=("user", "system"))},
        Form(roles={"system": "assistant"}),
    ),
}


@pytest.mark.parametrize("name", DECIDED)
def test_an_option_decides_what_could_not_be_known(name):
    record, form = DECIDED[name]
    assert only_pair(record, form=form) == (TURNS, RESPONSE)


def test_what_is_left_out_is_counted():
    reading = read(*(WHOLE[name] for name in ("OpenAI with tools", "Anthropic", "a blank end")))
    assert reading.notes[0] == (
        "left out of 3 dialogues: 2 tool calls, 2 tool results, 1 thought, 1 system prompt, "
        "1 blank turn"
    )
    assert set(reading.left_out) == {"1", "2", "3"}


def test_two_messages_of_one_side_are_one_turn_unless_their_names_differ():
    def turns(first_name, second_name):
        messages = [
            {"role": "user", "name": first_name, "content": "Hello."},
            {"role": "user", "name": second_name, "content": "Hello, too."},
        ]
        return only_pair({"context": messages, "response": "Welcome."})[0]

    assert turns("Ada", "Ben") == ("Hello.", "Hello, too.")
    assert turns("Ada", "Ada") == ("Hello. Hello, too.",)


def test_words_before_a_colon_stay_where_not_every_turn_has_them():
    record = {"context": ["Note: we shut at six.", "Why so early?"], "response": "Stock: taken."}
    assert only_pair(record) == (tuple(record["context"]), record["response"])
    single = {"context": ["Question: who is there?"], "response": "Me."}
    assert only_pair(single)[0] == ("Question: who is there?",)


def test_tags_of_a_single_turn_and_of_a_response_are_those_of_the_other_dialogues():
    records = [
        {"context": ["Caller: Hello?", "Desk: Yes?"], "response": "Caller: Is it late?"},
        {"context": ["Caller: Hello?"], "response": "Desk: Speaking."},
    ]
    reading = read(*records)
    assert reading.pairs["context"].tolist() == [("Hello?", "Yes?"), ("Hello?",)]
    assert reading.pairs["response"].tolist() == ["Is it late?", "Speaking."]
    assert "(Caller:, Desk:) were taken off 3 turns and 2 responses" in reading.notes[0]
    kept = read(*records, form=Form(keep_tags=True))
    assert kept.pairs["context"].tolist() == [tuple(record["context"]) for record in records]


def test_a_blank_text_among_turns_with_roles_is_left_out():
    turns = [["user", "Hi"], ["assistant", "Yo"], ""]
    assert only_pair({"context": turns, "response": "Fine."}) == (("Hi", "Yo"), "Fine.")


def test_words_that_come_once_are_no_tags_and_a_note_says_so():
    turns = ("Note: we shut at six.", "Sorry: I forgot.")
    reading = read({"context": list(turns), "response": "Never mind."})
    assert reading.pairs["context"].tolist() == [turns]
    assert "all turns of 1 dialogue begin with a word and a colon" in reading.notes[0]
    again = read({"context": ["Ada: Late?", "Ben: No."], "response": "Ada: Good."})
    assert again.pairs["context"].tolist() == [("Late?", "No.")]
    named = read(
        {"context": ["Ada: Late?", "Ben: No."], "response": "Ada: Good."},
        {"context": ["Ben: Far?", "Ada: Yes."], "response": "Ben: Oh."},
    )
    assert named.pairs["context"].tolist() == [("Late?", "No."), ("Far?", "Yes.")]


def test_what_may_be_meant_otherwise_gets_a_note():
    inline = read({"context": "Ada: Is it late? Ben: No.", "response": "Good."})
    assert "several speakers may have their say" in inline.notes[0]
    beside = read({"messages": chat()[:2], "response": "Another reply."})
    assert beside.pairs["context"].tolist() == [TURNS[:2]]
    assert beside.notes[0].startswith("1 record has messages that end with the assistant, and an")
    last = read({"dialogue": "#P1#: Hi.\n#P2#: Ho.", "summary": "x"}, form=Form(last_turn=True))
    assert last.pairs["context"].tolist() == [("Hi.",)]
    assert last.pairs["response"].tolist() == ["Ho."]


def test_tags_that_one_system_alone_writes_are_taken_off():
    records = [
        {"context": "Is it late?", "response": "Bot: Nearly six.", "system": "owl"},
        {"context": "Is it far?", "response": "Bot: No.", "system": "owl"},
        {"context": "Is it late?", "response": "System: down.", "system": "lark"},
        {"context": "Is it far?", "response": "Two streets.", "system": "lark"},
    ]
    assert read(*records).pairs["response"].tolist() == [
        "Nearly six.",
        "No.",
        "System: down.",
        "Two streets.",
    ]


def test_every_separator_of_the_table_is_seen():
    for separator in readers.aliases.SEPARATORS:
        assert tags.several_turns_in_one([f"Is it late?{separator}Yes."]), separator


def test_a_name_that_is_a_prompt_is_no_system():
    messages = [{"role": "user", "content": "Hello?"}, {"role": "assistant", "content": "Yes?"}]
    prompt = {"system": "You are the voice of a lighthouse.", "messages": messages}
    blocks = {"system": [{"type": "text", "text": "Be kind."}], "messages": messages}
    named = {"system": "beacon v2", "messages": messages}
    reading = read(prompt, blocks, named)
    assert reading.pairs["system"].tolist() == ["", "", "beacon v2"]
    assert any("system of 2 records is a prompt" in note for note in reading.notes)
    sentence = read({"context": "Hello?", "response": "Yes?", "system": prompt["system"]})
    assert sentence.pairs["system"].tolist() == [prompt["system"]]
    assert "is a sentence, and is read as the name of a system" in sentence.notes[0]


def test_thoughts_and_ends_of_text_in_a_response_get_a_note():
    responses = ["<think>Hm.</think>Yes.", "Yes.</s>", "Yes.\nUser: And then?", '["Yes."]', "nan"]
    reading = read(*({"context": "Is it late?", "response": text} for text in responses))
    assert reading.pairs["response"].tolist() == responses
    expected = [
        "thoughts of a model",
        "'</s>'",
        "another speaker says next",
        "a list or an object",
        "nothing but 'nan': is a value missing? (first in line 5)",
    ]
    for note, words in zip(reading.notes, expected, strict=True):
        assert words in note


def test_several_references_are_no_fault():
    records = [
        {"context": "a", "response": "b", "reference": ["c", "d"]},
        {"context": "a", "response": "b", "reference": "['c', 'd']"},
        {"context": "a", "response": "b", "reference": {"text": "c"}},
    ]
    reading = read(*records)
    assert reading.bad_records == []
    assert reading.pairs["reference"].tolist()[:2] == ["c", "c"]
    assert pd.isna(reading.pairs["reference"][2])
    assert "2 records have several references" in reading.notes[0]


def test_a_record_with_the_responses_of_several_systems_is_as_many_pairs():
    responses = [
        {"model": "tide", "response": "At six.", "Overall": [4, 5]},
        {"model": "ebb", "response": "Boats are nice.", "Overall": [1, 2]},
    ]
    record = {"context": "When is high tide?\n\n", "fact": "x", "responses": responses}
    reading = read(record, form=Form(fields={"system": "model"}), whole=True)
    assert reading.pairs["id"].tolist() == ["1.0", "1.1"]
    assert reading.pairs["system"].tolist() == ["tide", "ebb"]
    assert reading.pairs["Overall"].tolist() == [[4, 5], [1, 2]]
    texts = read({"context": "a", "responses": ["b", "c"]})
    assert texts.pairs["response"].tolist() == ["b", "c"]


# --- formats ----------------------------------------------------------------------------------


def records_of(tmp_path, name, data, form=Form()):  # noqa: B008
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return list(readers.records(path, form=form))


def refusal(tmp_path, name, data, form=Form()):  # noqa: B008
    with pytest.raises(DreError) as error:
        records_of(tmp_path, name, data, form)
    return str(error.value).removeprefix(f"{tmp_path}/")


ROW = {"context": ["Is it late?"], "response": "Nearly six."}
OTHER = {"context": ["Is it far?"], "response": "Two streets."}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.ndjson", f"{json.dumps(ROW)}\n{json.dumps(OTHER)}"),
        ("a.jsonl", f"\ufeff{json.dumps(ROW)}\r\n\r\n{json.dumps(OTHER)}\r\n"),
        ("a.json", json.dumps({"version": 1, "rows": [ROW, OTHER]}, indent=2)),
        ("a.jsonl", json.dumps({"version": 1, "rows": [ROW, OTHER]})),
        ("a.json", json.dumps({"first": ROW, "second": OTHER})),
        ("a.json", json.dumps(ROW, indent=1) + "\n" + json.dumps(OTHER, indent=1)),
        ("a.jsonl", json.dumps([ROW, OTHER], indent=4)),
        ("A.JSON", json.dumps([ROW, OTHER])),
    ],
)
def test_records_are_found_in_json_of_every_layout(tmp_path, name, text):
    found = [record for _, record in records_of(tmp_path, name, text)]
    assert [{key: record[key] for key in ROW} for record in found] == [ROW, OTHER]


def test_one_pretty_object_is_a_record(tmp_path):
    ((line, record),) = records_of(tmp_path, "a.json", "\n" + json.dumps(ROW, indent=1))
    assert (line, record) == (2, ROW)
    ((_, record),) = records_of(tmp_path, "a.json", json.dumps({"messages": chat()}, indent=1))
    assert record == {"messages": chat()}


TABLE = pd.DataFrame([ROW, OTHER])
NO_LIST = {
    "columns": (TABLE.to_json(), "a table by columns?"),
    "split": (TABLE.to_json(orient="split"), "a table by columns?"),
    "two lists": ({"train": [ROW], "test": [OTHER]}, "--field records=KEY says which of train"),
    "nested": ({"result": {"rows": [ROW]}, "n": 1}, "--field records=result.rows takes those"),
    "a chat alone": (chat(), "4 records are messages of one dialogue"),
    "a number": (7, "is 7: expected a list of records"),
}


@pytest.mark.parametrize("name", NO_LIST)
def test_json_that_is_no_list_of_records_says_what_it_is(tmp_path, name):
    value, message = NO_LIST[name]
    text = value if isinstance(value, str) else json.dumps(value)
    assert message in refusal(tmp_path, "a.json", text)


def test_a_key_names_the_list_of_records(tmp_path):
    text = json.dumps({"train": [ROW], "test": {"rows": [OTHER]}})
    form = Form(fields={"records": "test.rows"})
    assert records_of(tmp_path, "a.json", text, form) == [(1, OTHER)]
    missing = Form(fields={"records": "dev"})
    assert "dev is None: expected a list" in refusal(tmp_path, "a.json", text, missing)


def test_a_broken_pretty_object_is_refused_at_its_line(tmp_path):
    message = refusal(tmp_path, "a.json", '{\n "context": ["a"],\n "response" "b"\n}')
    assert message.startswith("a.json:3: no JSON: Expecting ':' delimiter")


def test_a_first_line_of_excel_names_the_separator(tmp_path):
    text = "\ufeffsep=;\r\ncontext;response\r\na, b;c\r\n"
    assert records_of(tmp_path, "a.csv", text) == [(3, {"context": "a, b", "response": "c"})]


def test_a_quotation_mark_in_tsv_is_a_character_unless_it_encloses_a_cell(tmp_path):
    lines = ["context\tresponse", '"Late" is what?\t"Yes," she said.', '"a ""b"" c"\td', '5"\t6"']
    found = [record for _, record in records_of(tmp_path, "a.tsv", "\n".join(lines))]
    assert [tuple(record.values()) for record in found] == [
        ('"Late" is what?', '"Yes," she said.'),
        ('a "b" c', "d"),
        ('5"', '6"'),
    ]
    enclosed = 'context\tresponse\n"Hello?\nYes?"\tGood.\n'
    assert records_of(tmp_path, "a.tsv", enclosed) == [
        (2, {"context": "Hello?\nYes?", "response": "Good."})
    ]


def test_a_quotation_mark_in_tsv_swallows_no_line(tmp_path):
    text = 'context\tresponse\n"Tea?\tYes.\nMilk?"\tNo.\nSugar?\tTwo.\n'
    (line, torn), (_, last) = records_of(tmp_path, "a.tsv", text)
    assert line == 2
    assert "closes in line 3" in torn.reason
    assert last == {"context": "Sugar?", "response": "Two."}


def test_faults_of_csv_are_refused_at_their_line(tmp_path):
    assert refusal(tmp_path, "a.csv", 'context,response\na,b\n"c" d,e\n').startswith("a.csv:3: ")
    twice = refusal(tmp_path, "a.csv", "context,response,context\na,b,c\n")
    assert twice == "a.csv:1: two columns are called 'context': rename one"
    nul = refusal(tmp_path, "a.csv", "context,response\na,b\0c\n")
    assert nul.startswith("a.csv:2: a NUL character")
    utf16 = refusal(tmp_path, "a.csv", "context,response\na,b\n".encode("utf-16-le"))
    assert "is it UTF-16?" in utf16


def test_what_unpacks_to_more_than_the_limit_is_refused_before_it_is_held(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "LARGEST_FILE", 10**6)
    bomb = gzip.compress(b'{"context": "a", "response": "' + b"x" * 50 * 10**6 + b'"}')
    assert len(bomb) < 10**5
    message = refusal(tmp_path, "a.jsonl.gz", bomb)
    assert message == "a.jsonl.gz: unpacks to more than 1 MB: split it into smaller files"
    plain = refusal(tmp_path, "a.jsonl", b" " * (10**6 + 1))
    assert plain == "a.jsonl: is more than 1 MB: split it into smaller files"
    table = pd.DataFrame({"context": ["a"] * 3000, "response": ["x" * 1000] * 3000})
    parquet = table.to_parquet(None)
    assert len(parquet) < 10**5
    assert "unpacks to more than 1 MB" in refusal(tmp_path, "a.parquet", parquet)


def test_a_small_file_takes_little_room(tmp_path):
    tracemalloc.start()
    try:
        assert len(records_of(tmp_path, "a.csv", "context,response\na,b\n")) == 1
        assert tracemalloc.get_traced_memory()[1] < formats.LARGEST_FILE / 10
    finally:
        tracemalloc.stop()


def test_gzip_of_several_parts_is_read_and_a_torn_one_refused(tmp_path):
    parts = [gzip.compress((json.dumps(row) + "\n").encode()) for row in (ROW, OTHER)]
    found = records_of(tmp_path, "a.jsonl.gz", b"".join(parts))
    assert [record for _, record in found] == [ROW, OTHER]
    assert "ends before its end" in refusal(tmp_path, "a.jsonl.gz", parts[0][:-9])


def test_parquet_of_structs_lists_and_maps_is_read(tmp_path):
    message = pyarrow.map_(pyarrow.string(), pyarrow.string())
    table = pyarrow.table(
        {
            "messages": pyarrow.array(
                [[list(message.items()) for message in chat()]], pyarrow.list_(message)
            )
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "maps.parquet")
    structs = pyarrow.table({"messages": [chat()]})
    pyarrow.parquet.write_table(structs, tmp_path / "structs.parquet")
    by_key = pyarrow.table({"turns": [{"role": ["user", "bot"] * 2, "text": [*TURNS, RESPONSE]}]})
    pyarrow.parquet.write_table(by_key, tmp_path / "keys.parquet")
    for name in ("maps", "structs", "keys"):
        ((_, record),) = readers.records(tmp_path / f"{name}.parquet")
        assert only_pair(record) == (TURNS, RESPONSE)


def test_lists_survive_being_written_as_csv_by_pandas(tmp_path):
    table = pd.DataFrame({"history": [list(TURNS)], "response": [RESPONSE]})
    parquet = tmp_path / "a.parquet"
    table.to_parquet(parquet)
    for again in (table, pd.read_parquet(parquet)):
        again.to_csv(tmp_path / "a.csv", index=False)
        ((_, record),) = readers.records(tmp_path / "a.csv")
        assert only_pair(record) == (TURNS, RESPONSE)


@pytest.mark.parametrize(
    ("value", "turns"),
    [
        (list(TURNS), TURNS),
        ("\n".join(TURNS), TURNS),
        ("a\n\nb", ("a", "b")),
        (" a\nb ", ("a", "b")),
        ('"a" is it?', ('"a" is it?',)),
        ("(a)\nb", ("(a)", "b")),
    ],
)
def test_plain_texts_and_lines_are_turns_as_they_are(value, turns):
    assert chats.turns_of(value) == turns
