import hashlib
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dre import data
from dre.data.records import Context, Rated
from dre.errors import DreError

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
texts = st.lists(text, max_size=4).map(tuple)
contexts = st.builds(Context, text, text, text, texts, texts, texts, texts, text, text)
ratings = st.dictionaries(text, st.lists(st.floats(0, 5) | st.just(math.nan), min_size=1, max_size=5).map(tuple))
rateds = st.builds(Rated, text, text, text, texts, text, text, st.none() | text, text, ratings)

SMALL = Context("mini", "a", "test", ("Hi.", "Hello."), ("Good?",), ("No.", "Never."), ("Blue.",), "daily")


@given(contexts)
def test_context_survives_json(context):
    assert Context.from_dict(json.loads(json.dumps(context.to_dict()))) == context


@given(rateds)
def test_rated_survives_json(record):
    back = Rated.from_dict(json.loads(json.dumps(record.to_dict(), allow_nan=False)))
    assert repr(back) == repr(record)  # repr, because NaN is not equal to itself


@pytest.mark.parametrize("change", [{"extra": 1}, {"turns": None}])
def test_from_dict_refuses_other_fields(change):
    record = SMALL.to_dict() | change
    record.pop("id")
    with pytest.raises(DreError, match="missing or unknown"):
        Context.from_dict(record)


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (Context("dailydialog++", "7", "test", ("Hi.",)), "dailydialog++-test/7p3"),
        (Context("dailydialog++-positives", "7", "train", ("Hi.",)), "dailydialog++-positives/7p3"),
        (SMALL, "mini/a/p3"),
        (Context("convai2-augmented", "convai2-valid/1365", "train", ("Hi.",)), "convai2-valid/1365/p3"),
        (Context("mine", "x", "test", ("Hi.",)), "mine/x/p3"),
    ],
)
def test_pair_ids(context, expected):
    assert context.pair_id("p", 3) == expected


def test_unknown_kind_is_refused():
    with pytest.raises(DreError, match="unknown response kind 'x'"):
        SMALL.pair_id("x", 0)
    with pytest.raises(DreError, match="unknown response kind 'x'"):
        data.pairs([SMALL], "px")


def test_pairs_table():
    table = data.pairs([SMALL], "par")
    assert list(table.columns) == ["pair_id", "context_id", "set", "context", "response", "kind"]
    assert table.pair_id.tolist() == ["mini/a/p0", "mini/a/a0", "mini/a/a1", "mini/a/r0"]
    assert table.response.tolist() == ["Good?", "No.", "Never.", "Blue."]
    assert table.context.map(type).eq(tuple).all()
    assert set(table.context_id) == {"mini/a"}
    assert list(data.pairs([]).columns) == list(table.columns)


def test_rated_table_averages_raters_and_skips_nan():
    record = Rated(
        "s",
        "s/0",
        "s/c",
        ("Hi.",),
        "Yo.",
        "bot",
        None,
        "",
        {"overall": (1.0, 4.0), "fluent": (2.0, math.nan)},
    )
    row = data.rated_table([record]).iloc[0]
    assert row.human == 2.5
    assert row.fluent == 2.0
    assert "overall" not in row  # the mean overall is `human`


def test_mean_of_no_number_is_nan():
    record = Rated("s", "s/0", "s/c", ("Hi.",), "Yo.", "bot", None, "", {"overall": (math.nan,)})
    assert math.isnan(record.mean("overall"))


def test_data_hash_is_over_canonical_json():
    line = (
        '{"adversarials":["No.","Never."],"domain":"daily","facts":"","id":"a","positives":["Good?"],'
        '"randoms":["Blue."],"set":"mini","split":"test","turns":["Hi.","Hello."]}\n'
    )
    assert data.data_hash([SMALL]) == hashlib.sha256(line.encode()).hexdigest()


@given(contexts, contexts)
def test_data_hash_tells_records_apart(a, b):
    assert (data.data_hash([a]) == data.data_hash([b])) == (a == b)
