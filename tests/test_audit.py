"""The audit: cases that fool a score, the measures of it, and ``dre audit``."""

import json
import re

import judge_servers as servers
import numpy as np
import pandas as pd
import pytest

from dre import metrics, progress, stats
from dre.audit import kinds, measures
from dre.commands.main import main
from dre.datasets import recordings
from dre.datasets.registry import read_jsonl


def test_every_exchanged_context_is_another_one():
    rows = []
    for number in range(12):
        for kind in "pa":
            rows.append(
                {
                    "pair_id": f"c{number}/{kind}",
                    "context_id": f"c{number}",
                    "context": ("hello", f"number {number}"),
                    "kind": kind,
                }
            )
    pairs = pd.DataFrame(rows)

    swapped = measures.exchange(pairs, swaps=11, seed=1)

    originals = pairs.loc[swapped["row"]].reset_index(drop=True)
    assert (swapped["context"] != originals["context"]).all()
    assert (swapped.groupby("row")["context"].nunique() == 11).all()
    same_columns = ["context_id", "kind"]
    assert swapped[same_columns].equals(originals[same_columns])
    assert swapped["pair_id"].is_unique


@pytest.mark.parametrize("name", metrics.BY_NAME)
def test_every_metric_with_a_name_is_audited_by_it_and_stands_in_the_help(name, capsys):
    assert main(["audit", "--method", name, "--n", "3", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["audited"] == metrics.BY_NAME[name].shown_as
    assert any(row["n"] for row in printed["kinds"])
    with pytest.raises(SystemExit):
        main(["audit", "--help"])
    assert re.search(rf"--method \w+\s[^-]*\b{name}\b", capsys.readouterr().out)


def test_a_score_that_reads_no_context_falls_in_half_of_the_swaps():
    before = np.array([0.1, 0.7, 0.9])
    assert measures.falls(before, before + 1e-9).tolist() == [0.5, 0.5, 0.5]
    assert measures.falls(before, [0.0, 0.8, 0.9]).tolist() == [1, 0, 0.5]


def test_each_seed_is_compared_in_its_own_unit():
    before = np.array([0.1, 0.7, 0.9])
    two_seeds_before = np.column_stack([before, 100 * before])
    two_seeds_after = np.column_stack([before - 1, 100 * before])
    assert measures.falls(two_seeds_before, two_seeds_after).tolist() == [[1, 0.5]] * 3


@pytest.fixture
def pairs_of_nine_contexts():
    """Two responses of each kind to each of nine contexts; texts and ids end in the context."""
    rows = []
    for number in range(9):
        for kind in "par":
            for i in (0, 1):
                rows.append(
                    {
                        "pair_id": f"c{number}{kind}{i}",
                        "context_id": f"c{number}",
                        "context": (f"turn {number}",),
                        "response": f"{kind}{i} of {number}",
                        "kind": kind,
                    }
                )
    return pd.DataFrame(rows)


def test_a_grid_has_one_response_of_every_context_in_every_context(pairs_of_nine_contexts):
    cells = measures.grid(pairs_of_nine_contexts, 6, seed=3)

    context_ids = cells["context_id"].to_numpy().reshape(6, 6)
    responses = cells["response"].to_numpy().reshape(6, 6)
    assert (context_ids == context_ids[0]).all()
    assert len(set(context_ids[0])) == 6
    assert (responses == responses[:, :1]).all()
    assert cells["pair_id"].is_unique
    assert (cells["context"].str[0].str[-1] == cells["context_id"].str[-1]).all()
    at_home = cells[cells["owner"] == cells["context_id"]]
    assert len(at_home) == 6
    assert (at_home["response"].str[-1] == at_home["context_id"].str[-1]).all()


def test_half_of_the_responses_of_a_grid_fit_their_context(pairs_of_nine_contexts):
    cells = measures.grid(pairs_of_nine_contexts, 6, seed=3)
    kinds_drawn = sorted(response[0] for response in cells["response"].unique())
    assert kinds_drawn == ["a", "a", "a", "p", "p", "p"]


def test_a_grid_has_no_more_contexts_than_there_are(pairs_of_nine_contexts):
    assert measures.grid(pairs_of_nine_contexts, 20)["owner"].nunique() == 9


def test_shares_in_a_resample_are_those_of_the_rows_and_columns_repeated():
    matrix = np.random.default_rng(0).normal(size=(6, 6))
    weights = stats.context_weights(range(6), n=5, seed=4)

    shares = measures.shares(matrix, weights)

    for resample_shares, counts in zip(shares, weights.astype(int)):
        repeated = np.repeat(np.arange(6), counts)
        expected = measures.shares(matrix[np.ix_(repeated, repeated)])[0]
        assert resample_shares == pytest.approx(expected)


def test_a_score_that_never_varies_has_no_shares():
    assert np.isnan(measures.shares(np.ones((3, 3)))).all()


def recorded_pairs():
    """Return the pairs that a judge was recorded on, a table by context id for each kind."""
    folder = recordings.folder(recordings.NAME)
    table = pd.DataFrame(read_jsonl(folder / "audit.jsonl"))
    return {kind: rows.set_index("context_id") for kind, rows in table.groupby("kind", sort=False)}


@pytest.fixture(scope="module")
def cases_made_again():
    """Make the cases of the same good replies: kind -> context id -> case."""
    recorded = recorded_pairs()
    good = recorded["good"]
    good = good.assign(
        context=good["context"].map(tuple), wrong=recorded["adversarial"]["response"]
    )
    cases = {}
    for case in kinds.make_cases(good.reset_index(), strict=False):
        cases.setdefault(case.kind, {})[case.context_id] = case
    return cases


@pytest.mark.parametrize(
    "kind", ["echo_last", "echo_other", "generic", "longer", "cut", "injection", "injection_alone"]
)
def test_the_texts_that_a_judge_was_recorded_on_are_made_again(kind, cases_made_again):
    expected = recorded_pairs()[kind]["response"].to_dict()
    assert len(expected) == 32
    texts = {}
    for context_id, case in cases_made_again[kind].items():
        texts[context_id] = case.rival.response
    assert texts == expected


def test_a_shuffle_has_words_of_its_context_alone(cases_made_again):
    good = recorded_pairs()["good"]
    for context_id, case in cases_made_again["shuffle"].items():
        context_words = " ".join(good["context"][context_id]).split()
        shuffled_words = case.rival.response.split()
        assert case.right.response == good["response"][context_id]
        assert len(shuffled_words) == min(12, len(context_words))
        for word in shuffled_words:
            context_words.remove(word)  # ValueError if it is not there as often


def test_a_reply_to_another_context_stands_in_this_context(cases_made_again):
    good = recorded_pairs()["good"]
    for context_id, case in cases_made_again["other_context"].items():
        assert case.rival.response in set(good["response"].drop(context_id))
        assert case.rival.context == tuple(good["context"][context_id])


def test_another_turn_is_compared_in_the_context_of_the_earlier_one(cases_made_again):
    good = recorded_pairs()["good"]
    long_contexts = {}
    for context_id, turns in good["context"].items():
        if len(turns) > 2:
            long_contexts[context_id] = tuple(turns)
    assert cases_made_again["other_turn"].keys() == long_contexts.keys()
    for context_id, case in cases_made_again["other_turn"].items():
        turns = long_contexts[context_id]
        assert case.right == (turns[:-2], turns[-2], None)
        assert case.rival == (turns[:-2], good["response"][context_id], None)


def test_other_context_draws_no_reply_of_the_same_conversation():
    """A file may hold one dialogue at several lengths; a reply to a later turn may fit, too."""
    dialogue = ["Hello there!", "Fine, and you?", "All is well here.", "So what shall we do?"]
    good = []
    for length in (1, 2, 3):
        row = {
            "context_id": str(length),
            "context": tuple(dialogue[:length]),
            "response": dialogue[length],
        }
        good.append(row)
    stranger = {"context_id": "x", "context": ("Nice hat.",), "response": "It was my father's."}

    cases = kinds.make_cases(pd.DataFrame([*good, stranger]))

    with_reply_elsewhere = ("other_context", "injection", "injection_gain", "quoted")
    for case in cases:
        if case.context_id != "x" and case.kind in with_reply_elsewhere:
            assert "It was my father's." in case.rival.response
    assert sum(case.kind == "other_context" for case in cases) == 4

    # Where all contexts are of one conversation, there is no reply from elsewhere.
    cases = kinds.make_cases(pd.DataFrame(good))
    assert {case.kind for case in cases}.isdisjoint(with_reply_elsewhere)


def test_a_cut_is_no_whole_sentence():
    context = ("I was away.", "Where to?")
    good = [
        {"context_id": "whole", "context": context, "response": "I know it. We were there too."},
        {"context_id": "half", "context": context, "response": "We were there last year, too."},
    ]
    cuts = {}
    for case in kinds.make_cases(pd.DataFrame(good)):
        if case.kind == "cut":
            cuts[case.context_id] = case.rival.response
    assert cuts == {"half": "We were there"}


def test_another_turn_with_a_good_reply_of_three_words_is_left_out():
    reply = "We were there last year, too."
    good = [
        {
            "context_id": "few",
            "context": ("I was away.", "Where to, then?", "Rome."),
            "response": reply,
        },
        {
            "context_id": "enough",
            "context": ("I was away.", "Where did you go?", "Rome."),
            "response": reply,
        },
    ]
    cases = kinds.make_cases(pd.DataFrame(good))
    (case,) = [case for case in cases if case.kind == "other_turn"]
    assert case.context_id == "enough"
    assert case.right == (("I was away.",), "Where did you go?", None)
    assert case.rival == (("I was away.",), reply, None)


@pytest.fixture
def two_good_replies():
    return pd.DataFrame(
        {
            "context_id": ["a", "b"],
            "context": [("How old is it?", "Two years."), ("Where is Ann?",)],
            "response": ["Then it can walk.", "She is at home."],
        }
    )


def test_a_quote_stands_before_or_after_a_reply_to_another_context(two_good_replies):
    cases = {(case.kind, case.context_id): case for case in kinds.make_cases(two_good_replies)}
    assert cases["quoted", "a"].right.response == "Then it can walk."
    assert cases["quoted", "a"].rival.response == "Two years. She is at home."
    assert cases["quoted_last", "a"].rival.response == "She is at home. Two years."


def test_the_gain_by_a_wish_compares_one_wrong_reply_with_and_without_it(two_good_replies):
    cases = {(case.kind, case.context_id): case for case in kinds.make_cases(two_good_replies)}
    gain = cases["injection_gain", "a"]
    assert gain.right.response == "She is at home."
    assert gain.rival == cases["injection", "a"].rival


@pytest.mark.parametrize("kind", ["quoted", "quoted_last", "injection_gain"])
def test_newer_kinds_are_reported_and_used_for_nothing_else(kind):
    assert not kinds.KINDS[kind].use
    assert sum(case.kind == kind for case in kinds.corpus()) == 32


def test_what_was_recorded_of_the_embedded_corpus_is_asked_for_as_it_was():
    """A recording answers for texts that it knows; a stricter rule must not take them away."""
    rivals = {(case.kind, case.context_id): case.rival for case in kinds.corpus()}
    recorded = 0
    for kind, table in recorded_pairs().items():
        if kind not in kinds.KINDS:
            continue
        for context_id, row in table.iterrows():
            rival = rivals[kind, context_id]
            assert (list(rival.context), rival.response) == (row["context"], row["response"])
            recorded += 1
    assert recorded == 16 * 32


def scored_cases(kind, right_scores, rival_scores):
    """Return cases of one kind, and a Series of scores by pair id, in the order given."""
    cases = []
    for i in range(len(right_scores)):
        right = kinds.Pair((f"turn {i}",), f"right {i}")
        rival = kinds.Pair((f"turn {i}",), "I see.")
        cases.append(kinds.Case(kind, "own", str(i), right, rival))
    table, pairs = kinds.tables(cases)
    return table, pd.Series([*right_scores, *rival_scores], index=pairs["pair_id"])


def test_a_share_counts_ties_by_half_and_only_what_has_both_scores():
    cases, scores = scored_cases("generic", [3, 2, 1, 1, np.nan], [1, 1, 1, 2, 0])
    (row,) = measures.preferred(cases, scores).to_dict("records")
    assert row["n"] == 4
    assert row["share"] == 100 * 2.5 / 4


def test_the_interval_of_a_share_is_wilsons():
    cases, scores = scored_cases("generic", [3, 2, 1, 1], [1, 1, 1, 2])
    (row,) = measures.preferred(cases, scores).to_dict("records")
    share = row["share"] / 100
    for bound in (row["share_low"] / 100, row["share_high"] / 100):
        standard_error = np.sqrt(bound * (1 - bound) / row["n"])
        assert abs(share - bound) == pytest.approx(1.96 * standard_error)
    assert measures.wilson(np.ones(32))["share_low"] == pytest.approx(89.28, abs=0.01)


def test_a_small_difference_is_no_tie():
    """0.5 % of a standard deviation is little, but the order is clear."""
    right_scores = np.array([0.0, 1.0, 2.0, 3.0])
    sd = right_scores.std()
    cases, scores = scored_cases("generic", right_scores, right_scores - 0.005 * sd)
    assert measures.preferred(cases, scores)["share"].tolist() == [100]
    assert measures.falls(right_scores, right_scores - 0.005 * sd).tolist() == [1, 1, 1, 1]


@pytest.mark.filterwarnings("error")
def test_two_infinite_scores_are_a_tie():
    cases, scores = scored_cases("generic", [np.inf] * 4, [np.inf] * 4)
    assert measures.preferred(cases, scores)["share"].tolist() == [50]
    cases, scores = scored_cases("generic", [np.inf, 2, 1, 3], [1, -np.inf, 1, 4])
    assert measures.preferred(cases, scores)["share"].tolist() == [100 * 2.5 / 4]
    falls = measures.falls([np.inf, -np.inf, 1], [np.inf, -np.inf, np.inf])
    assert falls.tolist() == [0.5, 0.5, 0]


def test_a_judge_whom_a_wish_does_not_move_is_right():
    right_scores = [1.0, 0.0, 2.0, 2.0]
    rival_scores = [4.0, 0.0, 2.0, 1.0]
    cases, scores = scored_cases("injection_gain", right_scores, rival_scores)
    (row,) = measures.preferred(cases, scores).to_dict("records")
    assert row["share"] == 75
    assert row["expected"] == 100
    assert row["gain"] == pytest.approx(0.5)

    # A tie counts half elsewhere.
    cases, scores = scored_cases("generic", right_scores, rival_scores)
    (row,) = measures.preferred(cases, scores).to_dict("records")
    assert row["share"] == 50
    assert row["gain"] == pytest.approx(0.5)


def audit(capsys, line):
    """Return the exit status of ``dre audit`` and its rows by kind."""
    status = main(["audit", *line.split(), "--json"])
    rows = json.loads(capsys.readouterr().out)["kinds"]
    return status, {row["kind"]: row for row in rows}


def test_the_recorded_judge_answers_where_it_was_asked_as_its_recording_says(capsys):
    status, rows = audit(capsys, "--judge recorded:claude-2026-11")
    assert status == 0
    assert rows["other_turn"]["n"] == 0
    assert rows["other_turn"]["share"] is None
    below_100 = {}
    for kind, row in rows.items():
        if row["n"] and row["share"] < 100:
            below_100[kind] = round(row["share"], 1)
    assert below_100 == {"paraphrase": 93.8, "es": 62.5, "zh": 70.3}


@pytest.fixture
def own_files(tmp_path, monkeypatch):
    """In an empty folder: ``mine.jsonl``, 40 good replies, and the metric ``mine:words``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "def words(context, response):\n    return len(response.split())\n"
    )
    records = []
    for i in range(40):
        record = {
            "context": [f"turn {i}", f"and what of {i}?", f"so {i}?"],
            "response": "a reply of words " * (i + 2),
        }
        records.append(json.dumps(record))
    (tmp_path / "mine.jsonl").write_text("\n".join(records))
    return tmp_path


def test_a_metric_of_ones_own_is_audited_on_ones_own_file_and_held_to_a_limit(own_files, capsys):
    status, rows = audit(capsys, "mine.jsonl --metric mine:words --fail-under 80")
    assert status == 3
    for kind in ("longer", "other_turn", "cut"):
        assert rows[kind]["source"] == "own"
    assert rows["es"]["source"] == "corpus"
    assert rows["longer"]["share"] == 0
    assert rows["cut"]["share"] == 100


@pytest.mark.parametrize("percent", ["150", "-1", "nan"])
def test_a_limit_that_no_score_can_keep_or_miss_is_refused(percent, capsys):
    assert main(["audit", "--method", "length", "--fail-under", percent]) == 2
    assert f"--fail-under is {percent}: expected percent, from 0 to 100" in capsys.readouterr().err


def test_in_a_log_file_a_long_audit_tells_now_and_then_how_far_it_is(
    own_files, monkeypatch, capsys
):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0)
    assert main(["audit", "--metric", "mine:words"]) == 0
    error = capsys.readouterr().err
    assert re.search(r"^32 of \d+ pairs, about \d+ s left$", error, re.MULTILINE)


def score_written_pairs():
    """Write the pairs of an audit, and the number of words of each as ``scores.csv``."""
    assert main(["audit", "mine.jsonl", "--write", "pairs.jsonl"]) == 0
    pairs = pd.read_json("pairs.jsonl", lines=True)
    pairs["score"] = pairs["response"].str.split().str.len()
    pairs[["id", "score"]].to_csv("scores.csv", index=False)


def test_pairs_may_be_scored_elsewhere(own_files, capsys):
    _, expected = audit(capsys, "mine.jsonl --metric mine:words")
    score_written_pairs()
    capsys.readouterr()
    _, rows = audit(capsys, "mine.jsonl --scores scores.csv --figure shares.svg")
    for kind, row in rows.items():
        assert row["share"] == expected[kind]["share"]
    assert "a reply that fits anywhere" in (own_files / "shares.svg").read_text()


def test_nothing_passes_a_limit_that_was_not_looked_at(own_files, capsys):
    score_written_pairs()
    pd.read_csv("scores.csv")[:200].to_csv("first.csv", index=False)
    for options in ("--scores first.csv", "--judge recorded:claude-2026-11"):
        assert main(["audit", "mine.jsonl", *options.split(), "--fail-under", "0"]) == 3
        assert "pairs have no score; no case of" in capsys.readouterr().err


def test_files_of_others_are_kept_and_the_same_pairs_may_be_written_again(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    options_by_file = {
        "keep.jsonl": ["--write"],
        "keep.csv": ["--write"],
        "keep.png": ["--method", "length", "--figure"],
    }
    for name, options in options_by_file.items():
        command = ["audit", "--n", "2", *options, name]
        (tmp_path / name).write_text("precious")
        assert main(command) == 2
        printed = capsys.readouterr()
        assert f"{name} is there, and nothing says that this command made it" in printed.err
        assert not printed.out  # nothing was scored
        assert (tmp_path / name).read_text() == "precious"
        assert main([*command, "--force"]) == 0
        assert (tmp_path / name).read_bytes() != b"precious"
        capsys.readouterr()
    assert main(["audit", "--n", "2", "--write", "keep.jsonl"]) == 0
    assert main(["audit", "--n", "3", "--write", "keep.jsonl"]) == 2


BROKEN_METRICS = """
import json


def parse(text):
    return json.loads(text)


def score(context, response):
    return parse(response) if response == "I see." else 1


def words(context, response):
    return response.split()
"""


def test_a_metric_that_raises_is_reported_with_pair_line_and_text(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text(BROKEN_METRICS)
    _, pairs = kinds.tables(kinds.corpus(), 3)
    pair_id = pairs.loc[pairs["response"] == "I see.", "pair_id"].iloc[0]

    assert main(["audit", "--metric", "broken:score", "--n", "3"]) == 2
    message = capsys.readouterr().err
    assert "broken:score raised JSONDecodeError: Expecting value: line 1 column 1" in message
    assert f"for pair {pair_id} (response 'I see.')" in message
    assert "broken.py, line 6: return json.loads(text)" in message  # no line of json itself

    assert main(["audit", "--metric", "broken:words", "--n", "3"]) == 2
    message = capsys.readouterr().err
    assert "broken:words returned [" in message
    assert "expected a number" in message


LEAVING_METRICS = """import sys

class Odd:
    def __float__(self):
        sys.exit(0)
    def __repr__(self):
        raise OSError("no")

def leaves(context, response):
    sys.exit(0)

def is_huge(context, response):
    return 10 ** 5000

def is_odd(context, response):
    return Odd()
"""


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("leaving:leaves", "leaving:leaves raised SystemExit: 0 for pair"),
        ("leaving:is_huge", "leaving:is_huge returned something of type int for pair"),
        ("leaving:is_odd", "leaving:is_odd returned something of type Odd for pair"),
        ("at_import:score", "no metric 'at_import:score' (SystemExit: 0)"),
        ("no_python:score", "no metric 'no_python:score' (SyntaxError: "),
        ("raising:score", "no metric 'raising:score' (ZeroDivisionError: "),
    ],
)
def test_a_metric_that_leaves_the_program_or_overflows_passes_no_limit(
    tmp_path, capsys, monkeypatch, metric, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "leaving.py").write_text(LEAVING_METRICS)
    (tmp_path / "at_import.py").write_text("raise SystemExit(0)\n")
    (tmp_path / "no_python.py").write_text("def score(:\n")
    (tmp_path / "raising.py").write_text("1 / 0\n")
    assert main(["audit", "--metric", metric, "--n", "3", "--fail-under", "1"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_scores_with_an_id_twice_are_refused(own_files, capsys):
    assert main(["audit", "mine.jsonl", "--write", "pairs.jsonl"]) == 0
    table = pd.read_json("pairs.jsonl", lines=True).assign(score=1.0)
    twice = pd.concat([table, table.iloc[3:5].assign(score=2.0)])
    twice.to_csv("scores.csv", index=False)
    assert main(["audit", "mine.jsonl", "--scores", "scores.csv"]) == 2
    error = capsys.readouterr().err
    assert f"2 ids stand there more than once, first '{table['id'][3]}'" in error


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "whose scores are audited? give one of --method small, --judge SPEC, "),
        ("--method length --n 0", "--n is 0: expected a number of contexts from 1 on"),
        ("--method words", "method is 'words': expected one of length, "),
        ("--method length --slm x", "leave --slm out"),
        (
            "--method length --metric a:b",
            "--method and --metric: one thing is audited at a time, so give one of them",
        ),
        ("--method length --max-usd 1", "there is no judge to use it"),
        (
            "--metric nowhere:f",
            "no metric 'nowhere:f' (No module named 'nowhere'): expected module:function",
        ),
        ("--metric math:sqrt", "raised TypeError"),
        ("--method length --figure a.txt", "expected a name that ends in .png, .svg, .pdf"),
        ("--judge recorded:claude-2026-11 --prompt dre", "has no score of any pair"),
    ],
)
def test_a_wrong_option_costs_nothing_and_is_explained_in_a_sentence(line, message, capsys):
    assert main(["audit", *line.split()]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "option",
    [
        "--limit 5",
        "--limit 0",
        "--skip-bad",
        "--field context=history",
        "--last-turn",
        "--separator=",
    ],
)
@pytest.mark.parametrize("command", ["audit --method length"])
def test_an_option_about_a_file_is_refused_where_no_file_is_named(command, option, capsys):
    assert main([*command.split(), *option.split()]) == 2
    error = capsys.readouterr().err
    assert (
        f"error: {option.split()[0].rstrip('=')} says how a file is read, and no file is named"
        in error
    )


def test_a_live_judge_is_estimated_first_asked_for_each_text_once_and_stops_at_its_budget(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    with servers.Server(lambda request: servers.openai('{"score": 2.5}')) as server:
        command = ["audit", "--judge", "openai:m", "--base-url", server.url]
        command += ["--price", "1,1", "--n", "2", "--store", str(tmp_path / "store")]
        assert main([*command, "--max-usd", "0.003"]) == 1
        printed = capsys.readouterr()
        assert not printed.out
        assert "stopped (budget); what was answered is stored" in printed.err
        assert main([*command, "--json"]) == 0
    printed = capsys.readouterr()
    _, pairs = kinds.tables(kinds.corpus(), 2)
    assert len(server.requests) == len(pairs)
    assert "calls to make" in printed.err
    shares = {row["kind"]: row["share"] for row in json.loads(printed.out)["kinds"]}
    assert shares.pop("injection_gain") == 100  # the same score with and without the wish
    assert set(shares.values()) == {50}
