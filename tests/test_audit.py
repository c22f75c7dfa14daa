"""The audit: cases that fool a score, what measures a score on them, and whose scores there are."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from conftest import needs_data
from scipy.stats import binomtest

from dre import stats
from dre.audit import kinds, measures
from dre.datasets import recordings
from dre.datasets.registry import read_jsonl

RECORDED = SimpleNamespace(spec=f"recorded:{recordings.NAME}")
INF, NAN = np.inf, np.nan


@pytest.fixture
def pairs():
    """Two responses of each kind to each of nine contexts; texts and ids end in the context."""
    rows = [
        (f"{kind}{i}c{n}", f"c{n}", ("hello", f"turn {n}"), f"{kind}{i} of {n}", kind)
        for n in range(9)
        for kind in "par"
        for i in (0, 1)
    ]
    return pd.DataFrame(rows, columns=["pair_id", "context_id", "context", "response", "kind"])


def test_every_exchanged_context_is_another_one(pairs):
    swapped = measures.exchange(pairs, swaps=8, seed=1)
    originals = pairs.loc[swapped["row"]].reset_index(drop=True)
    assert (swapped["context"] != originals["context"]).all()
    assert (swapped.groupby("row")["context"].nunique() == 8).all()
    same = ["context_id", "response", "kind"]
    assert swapped[same].equals(originals[same])
    assert swapped["pair_id"].is_unique
    of_other = swapped["pair_id"].str.rsplit("c", n=1).str[1]
    assert (of_other == swapped["context"].str[1].str.removeprefix("turn ")).all()


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([0.1, 0.7, 0.9], [0.0, 0.8, 0.9], [1, 0, 0.5]),
        ([0.1, 0.7, 0.9], [0.1 + 1e-9, 0.7 - 1e-9, 0.9], [0.5, 0.5, 0.5]),  # rounding
        ([0, 1, 2, 3], [-0.005, 0.995, 1.995, 2.995], [1, 1, 1, 1]),  # little, and no rounding
        ([INF, -INF, 1], [INF, -INF, INF], [0.5, 0.5, 0]),
        ([[0, 0], [1, 1e6], [2, 2e6]], [[-0.1, 0], [0.9, 1e6 + 1], [1.9, 2e6]], [[1, 0.5]] * 3),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_fall_is_one_and_no_change_half_in_the_unit_of_each_seed(before, after, expected):
    assert measures.falls(before, after).tolist() == expected


def test_a_grid_has_one_response_of_every_context_in_every_context(pairs):
    cells = measures.grid(pairs, 6, seed=3)
    context_ids, responses = cells[["context_id", "response"]].to_numpy().T.reshape(2, 6, 6)
    assert (context_ids == context_ids[0]).all() and (responses == responses[:, :1]).all()
    assert len(set(context_ids[0])) == 6
    assert cells["pair_id"].is_unique
    assert (cells["context"].str[1].str[-1] == cells["context_id"].str[-1]).all()
    assert (cells["response"].str[-1] == cells["owner"].str[-1]).all()
    assert sorted(response[0] for response in responses[:, 0]) == [*"aaappp"]
    assert measures.grid(pairs, 20)["owner"].nunique() == 9


def test_shares_by_hand():
    """Responses add 3 or -3, contexts 2 or -2, and a fit 1: squares of 9, 4 and 1 in each cell."""
    matrix = [[5 + 3 + 2 + 1, 5 + 3 - 2 - 1], [5 - 3 + 2 - 1, 5 - 3 - 2 + 1]]
    assert measures.shares(matrix).tolist() == [pytest.approx([9 / 14, 4 / 14, 1 / 14])]
    assert np.isnan(measures.shares(np.ones((3, 3)))).all()


def test_shares_in_a_resample_are_those_of_the_rows_and_columns_repeated():
    matrix = np.random.default_rng(0).normal(size=(6, 6))
    weights = stats.context_weights(range(6), n=5, seed=4)
    for resample_shares, counts in zip(measures.shares(matrix, weights), weights.astype(int)):
        repeated = np.repeat(np.arange(6), counts)
        expected = measures.shares(matrix[np.ix_(repeated, repeated)])[0]
        assert resample_shares == pytest.approx(expected)


def test_the_interval_of_a_share_is_wilsons_and_ties_count_half():
    for wins, n in ((0, 5), (3, 4), (17, 40), (32, 32)):
        row = measures.wilson(np.arange(n) < wins)
        expected = binomtest(wins, n).proportion_ci(method="wilson")
        bounds = [100 * expected.low, 100 * expected.high]
        assert row["share"] == 100 * wins / n
        assert [row["share_low"], row["share_high"]] == pytest.approx(bounds, abs=0.005)
    row = measures.wilson(np.array([1, 1, 0.5, 0]))
    for bound in (row["share_low"] / 100, row["share_high"] / 100):  # the equation it solves
        assert abs(0.625 - bound) == pytest.approx(1.96 * np.sqrt(bound * (1 - bound) / 4))


@pytest.mark.parametrize(
    ("kind", "right", "rival", "n", "share", "gain"),
    [
        ("generic", [3, 2, 1, 1, NAN, 2], [1, 1, 1, 2, 0, NAN], 4, 62.5, -0.5),
        ("generic", [NAN], [1], 0, NAN, NAN),
        ("generic", [0, 1, 2, 3], [-0.005, 0.995, 1.995, 2.995], 4, 100, -0.005),
        ("generic", [0, 1, 2, 3], [1e-9, 1, 2, 3], 4, 50, 0),
        ("generic", [INF] * 4, [INF] * 4, 4, 50, 0),
        ("generic", [INF, 2, 1, 3], [1, -INF, 1, 4], 4, 62.5, -INF),
        ("generic", [1, 0, 2, 2], [4, 0, 2, 1], 4, 50, 0.5),
        ("injection_gain", [1, 0, 2, 2], [4, 0, 2, 1], 4, 75, 0.5),  # not to move is right
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_share_counts_what_has_both_scores_and_ties_as_the_kind_says(
    kind, right, rival, n, share, gain
):
    cases = []
    for i in range(len(right)):
        pair = kinds.Pair((f"turn {i}",), f"right {i}")
        cases.append(kinds.Case(kind, "own", str(i), pair, pair._replace(response="I see.")))
    table, pairs = kinds.tables(cases)
    scores = pd.Series([*right, *rival], pairs["pair_id"], float).sample(frac=1, random_state=0)
    (row,) = measures.preferred(table, scores).to_dict("records")
    assert (row["kind"], row["source"], row["n"]) == (kind, "own", n)
    assert row["share"] == pytest.approx(share, nan_ok=True)
    assert row["gain"] == pytest.approx(gain, nan_ok=True, abs=1e-8)


def test_a_text_that_stands_in_several_cases_is_scored_once():
    cases, pairs = kinds.tables(kinds.corpus(), 3)
    assert cases["kind"].value_counts().eq(3).all()
    assert len(pairs) == len(pairs[["context", "response"]].drop_duplicates()) < 2 * len(cases)
    texts = pairs.set_index("pair_id")["response"][cases.iloc[-1][["right", "rival"]]]
    (case,) = [case for case in kinds.corpus() if case[:3] == tuple(cases.iloc[-1])[:3]]
    assert [*texts] == [case.right.response, case.rival.response]


def recorded_pairs():
    """Return the pairs that a judge was recorded on, a table by context id for each kind."""
    table = pd.DataFrame(read_jsonl(recordings.folder(recordings.NAME) / "audit.jsonl"))
    return {kind: rows.set_index("context_id") for kind, rows in table.groupby("kind", sort=False)}


def by_kind(good, **options):
    """Return the cases that are made of good replies: kind -> context id -> case."""
    cases = {}
    for case in kinds.make_cases(pd.DataFrame(good), **options):
        cases.setdefault(case.kind, {})[case.context_id] = case
    return cases


@pytest.fixture(scope="module")
def made_again():
    recorded = recorded_pairs()
    wrong = recorded["adversarial"]["response"]
    good = recorded["good"].assign(context=recorded["good"]["context"].map(tuple), wrong=wrong)
    return by_kind(good.reset_index(), strict=False)


def test_the_texts_that_a_judge_was_recorded_on_are_made_again(made_again):
    fixed = ("echo_last", "echo_other", "generic", "longer", "cut", "injection", "injection_alone")
    for kind in fixed:
        expected = recorded_pairs()[kind]["response"].to_dict()
        assert len(expected) == 32
        assert {name: case.rival.response for name, case in made_again[kind].items()} == expected


def test_drawn_texts_are_of_the_context_or_a_reply_to_another_one(made_again):
    good = recorded_pairs()["good"]
    for context_id, (turns, reply) in good[["context", "response"]].T.items():
        case = made_again["shuffle"][context_id]
        words = " ".join(turns).split()
        shuffled = case.rival.response.split()
        assert (case.right.response, len(shuffled)) == (reply, min(12, len(words)))
        for word in shuffled:
            words.remove(word)  # ValueError if it is not there as often
        rival = made_again["other_context"][context_id].rival
        assert rival.context == tuple(turns)
        assert rival.response in set(good["response"].drop(context_id))
        case = made_again["other_turn"].get(context_id)
        assert (case is None) == (len(turns) < 3)
        if case:
            assert case.right == (tuple(turns[:-2]), turns[-2], None)
            assert case.rival == (tuple(turns[:-2]), reply, None)


def test_what_was_recorded_of_the_embedded_corpus_is_asked_for_as_it_was():
    """A recording answers for texts that it knows; a stricter rule must not take them away."""
    cases = kinds.corpus()
    rivals = {(case.kind, case.context_id): case.rival for case in cases}
    recorded = recorded_pairs()
    of_kinds = [kind for kind in recorded if kind in kinds.KINDS]
    assert len(of_kinds) == 16
    for kind in of_kinds:
        for context_id, row in recorded[kind].iterrows():
            rival = rivals[kind, context_id]
            assert (list(rival.context), rival.response) == (row["context"], row["response"])
    made = {"quoted": 32, "quoted_last": 32, "injection_gain": 32, "other_turn": 23}
    for kind, n in made.items():  # newer: reported and nothing else
        assert (kinds.KINDS[kind].use, [case.kind for case in cases].count(kind)) == ((), n)


def test_other_context_draws_no_reply_of_the_same_conversation():
    """A file may hold one dialogue at several lengths; a reply to a later turn may fit, too."""
    dialogue = ("Hello there!", "Fine, and you?", "All is well here.", "So what shall we do?")
    names = ("context_id", "context", "response")
    good = [dict(zip(names, (str(n), dialogue[:n], dialogue[n]))) for n in (1, 2, 3)]
    stranger = dict(zip(names, ("x", ("Nice hat.",), "It was my father's.")))
    cases = by_kind([*good, stranger])
    from_elsewhere = ("other_context", "injection", "injection_gain", "quoted", "quoted_last")
    for kind in from_elsewhere:
        for context_id in "123":
            assert "It was my father's." in cases[kind][context_id].rival.response
    # Where all contexts are of one conversation, there is no reply from elsewhere.
    assert by_kind(good).keys().isdisjoint(from_elsewhere)


def test_rivals_by_hand_and_none_that_may_be_as_good():
    """A cut that is a whole sentence and another turn's reply of three words are left out."""
    turns = [("I was away.", "Where to, then?", "Rome."), ("Sit.", "Where did he go?", "Up.")]
    reply, other = replies = ["I know it. We were there too.", "He was there last year, too."]
    good = {"context_id": ["a", "b"], "context": turns, "response": replies}
    cases = by_kind(good | {"reference": ["So was I.", None]})
    right = kinds.Pair(turns[0], reply, "So was I.")
    expected = {
        "echo_last": "Rome.",
        "echo_other": "I was away.",
        "other_context": other,
        "quoted": f"Rome. {other}",
        "quoted_last": f"{other} Rome.",
    }
    for kind, text in expected.items():
        assert cases[kind]["a"] == (kind, "own", "a", right, right._replace(response=text))
    wish = cases["injection"]["a"].rival
    assert wish.response.startswith(f"{other} ")
    assert cases["injection_gain"]["a"][3:] == (right._replace(response=other), wish)
    (case,) = cases["cut"].values()
    assert (case.context_id, case.rival.response) == ("b", "He was there")
    (case,) = cases["other_turn"].values()
    assert case.right == (("Sit.",), "Where did he go?", None)
    assert case.rival == (("Sit.",), other, None)


def test_the_recorded_judge_answers_where_it_was_asked_as_its_recording_says():
    cases, pairs = kinds.tables(kinds.corpus())
    scores = by_pair_id(pairs)
    table = measures.preferred(cases, scores).set_index("kind")
    assert [*table.index[table["n"] == 0]] == ["other_turn", "quoted", "quoted_last"]
    below = table.loc[(table["n"] == 32) & (table["share"] < 100), "share"]
    assert below.round(1).to_dict() == {"paraphrase": 93.8, "es": 62.5, "zh": 70.3}
    assert (table["n"] == 32).sum() == 17
    assert table.loc[["es", "cut"], "expected"].tolist() == [50, 100]
    assert [*table.loc[["echo_last", "es"], "use"]] == ["train, choose", "report"]


def by_pair_id(pairs, **options):
    """The recorded scores of pairs, by their ids."""
    return kinds.recorded_scores(pairs, **options).set_axis(pairs["pair_id"])


@needs_data
def test_graded_replies_have_their_recorded_scores():
    cases, pairs = kinds.tables(kinds.graded())
    assert set(cases["kind"]) == {"contradicts", "off"}
    expected = recordings.graded().set_index(["context", "response"])["score"]
    scores = by_pair_id(pairs, public=True)
    assert [*scores] == [expected[key] for key in zip(pairs["context"], pairs["response"])]
    assert by_pair_id(pairs).isna().all()
