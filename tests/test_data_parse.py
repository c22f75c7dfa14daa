import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dre.data import augmented, dailydialog, human, mini, parse, public
from dre.errors import DreError

RECORD = {
    "id": 0,
    "context": ["Did you water the fern?", "Twice."],
    "positive_responses": ["Then it will live."],
    "adversarial_negative_responses": ["Water is wet twice a day."],
    "random_negative_responses": ["My train leaves at nine."],
}
fuzz = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)


def write(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def without(name):
    return {key: value for key, value in RECORD.items() if key != name}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (without("context"), "'context' is missing"),
        (without("random_negative_responses"), "'random_negative_responses' is missing"),
        (RECORD | {"context": "Twice."}, "'context' is str, expected list"),
        (RECORD | {"context": []}, "has 0 texts"),
        (RECORD | {"positive_responses": ["a", 3]}, r"'positive_responses'\[1\] is int, expected str"),
        (RECORD | {"positive_responses": [None]}, r"\[0\] is NoneType"),
        (RECORD | {"id": True}, "'id' is bool, expected int"),
        (RECORD | {"context": ["\ud83d"]}, "half a surrogate pair"),
        ([RECORD], "record is list, expected dict"),
    ],
)
def test_a_bad_record_is_named_with_file_and_line(tmp_path, bad, message):
    path = write(tmp_path / "test.json", RECORD, bad)
    with pytest.raises(DreError, match=message) as error:
        dailydialog.read(path, "test")
    assert str(error.value).startswith(f"{path}:2: ")


def test_a_truncated_line_is_named(tmp_path):
    path = write(tmp_path / "test.json", RECORD, RECORD)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DreError, match=r"test.json:2: malformed JSON"):
        dailydialog.read(path, "test")


def test_not_utf8_is_named(tmp_path):
    path = tmp_path / "test.json"
    path.write_bytes(json.dumps(RECORD).encode() + b"\n\xff\n")
    with pytest.raises(DreError, match=r"test.json:2: not UTF-8"):
        dailydialog.read(path, "test")


def test_training_file_of_the_same_form(tmp_path):
    (context,) = dailydialog.read(write(tmp_path / "train.json", RECORD), "train")
    assert context.context_id == "dailydialog++-train/0"
    assert context.turns == ("Did you water the fern?", "Twice.")
    assert context.randoms == ("My train leaves at nine.",)


@fuzz
@given(raw=st.binary(max_size=80) | st.text(max_size=80).map(lambda s: s.encode("utf-8", "surrogatepass")))
def test_malformed_bytes_give_only_dre_errors(tmp_path, raw):
    path = tmp_path / "fuzz"
    path.write_bytes(raw)
    for read in (
        lambda: dailydialog.read(path, "test"),
        lambda: mini.read(path),
        lambda: human.read_usr(path, "x"),
        lambda: human.read_fed(path),
        lambda: public.read_topical_chat(path, "x"),
        lambda: public.read_convai2(path, path),
        lambda: augmented.join(path, {}, "x"),
        lambda: list(parse.read_csv(path)),
    ):
        try:
            read()
        except DreError as error:
            assert str(path) in str(error)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@fuzz
@given(record=st.fixed_dictionaries({name: st.just(value) | values for name, value in RECORD.items()}))
def test_fields_of_any_type_give_only_dre_errors(tmp_path, record):
    path = write(tmp_path / "fuzz", record)
    try:
        (context,) = dailydialog.read(path, "test")
    except DreError as error:
        assert f"{path}:1: " in str(error)
    else:
        assert list(context.turns) == record["context"]


FED = {"context": "User: Hi", "system": "Bot", "response": "System: Yo", "annotations": {"Overall": [1, 2]}}


@fuzz
@given(record=st.fixed_dictionaries({name: st.just(value) | values for name, value in FED.items()}))
def test_fed_fields_of_any_type_give_only_dre_errors(tmp_path, record):
    path = tmp_path / "fuzz"
    dialogue = {"context": "User: Hi\nSystem: Yo", "system": "Bot", "annotations": {}}
    path.write_text(json.dumps([record, dialogue]))
    try:
        human.read_fed(path)
    except DreError as error:
        assert str(path) in str(error)


@given(
    items=st.lists(st.dictionaries(st.text(max_size=5), values, max_size=2), max_size=4),
    indent=st.none() | st.integers(0, 3),
)
def test_json_array_reads_as_json_does(tmp_path_factory, items, indent):
    path = tmp_path_factory.getbasetemp() / "array.json"
    path.write_text(json.dumps(items, indent=indent, allow_nan=True))
    assert repr([item for _, item in parse.read_json_array(path)]) == repr(json.loads(path.read_text()))


def test_json_array_counts_lines(tmp_path):
    path = tmp_path / "array.json"
    path.write_text('[\n {"a": 1},\n\n {"a":\n 2}\n]\n')
    assert [where for where, _ in parse.read_json_array(path)] == [f"{path}:2", f"{path}:4"]


@pytest.mark.parametrize("text", ['[\n{"a": 1},\n', '[\n{"a": 1}\n', '[\n{"a": 1},\n{"a"', '[\n{"a": 1} {"a": 2}]'])
def test_truncated_json_array(tmp_path, text):
    path = tmp_path / "array.json"
    path.write_text(text)
    with pytest.raises(DreError, match=r"array.json:[23]: "):
        list(parse.read_json_array(path))


def test_deep_nesting_is_no_crash(tmp_path):
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000)
    with pytest.raises(DreError, match="malformed JSON"):
        list(parse.read_json_array(path))
    with pytest.raises(DreError, match="malformed JSON"):
        list(parse.read_jsonl(path))


def test_csv_row_with_too_few_columns(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('a,b\n1,"two\nlines"\n3\n')
    with pytest.raises(DreError, match=r"rows.csv:4: the row has not the 2 columns"):
        list(parse.read_csv(path))


def test_numbers():
    assert parse.number("2.5", "it", "here") == 2.5
    for bad in ("nan", "inf", "", "two", None, True, [1], 10**400):
        with pytest.raises(DreError, match="here: it is"):
            parse.number(bad, "it", "here")
