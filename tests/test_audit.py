import json

import judge_servers as servers
import numpy as np
import pandas as pd
import pytest

from dre import stats
from dre.audit import kinds
from dre.audit import measures as audit
from dre.commands import main as cli
from dre.datasets import ratings
from dre.datasets import recordings as recording
from dre.datasets.registry import read_jsonl


def test_every_exchanged_context_is_another_one():
    rows = [
        (f"c{c}/{kind}", f"c{c}", ("hello", f"number {c}"), kind)
        for c in range(12)
        for kind in "pa"
    ]
    pairs = pd.DataFrame(rows, columns=["pair_id", "context_id", "context", "kind"])
    swapped = audit.exchange(pairs, swaps=11, seed=1)
    own = pairs.loc[swapped["row"]].reset_index(drop=True)
    assert (swapped["context"] != own["context"]).all()
    assert (swapped.groupby("row")["context"].nunique() == 11).all()
    assert (swapped[["context_id", "kind"]] == own[["context_id", "kind"]]).all(axis=None)
    assert swapped["pair_id"].is_unique


def test_a_score_that_reads_no_context_falls_in_half_of_the_swaps():
    before = np.array([0.1, 0.7, 0.9])
    assert audit.falls(before, before + 1e-9).tolist() == [0.5, 0.5, 0.5]
    assert audit.falls(before, [0.0, 0.8, 0.9]).tolist() == [1, 0, 0.5]
    two = audit.falls(
        np.column_stack([before, 100 * before]), np.column_stack([before - 1, 100 * before])
    )
    assert two.tolist() == [[1, 0.5]] * 3  # each seed has its own unit


def test_a_grid_has_one_response_of_every_context_in_every_context_and_half_of_them_fit_their_own():
    rows = [
        (f"c{c}{k}{i}", f"c{c}", (f"turn {c}",), f"{k}{i} of {c}", k)
        for c in range(9)
        for k in "par"
        for i in (0, 1)
    ]
    pairs = pd.DataFrame(rows, columns=["pair_id", "context_id", "context", "response", "kind"])
    cells = audit.grid(pairs, 6, seed=3)
    contexts, responses = (
        cells[name].to_numpy().reshape(6, 6) for name in ("context_id", "response")
    )
    assert (
        (contexts == contexts[0]).all() and len({*contexts[0]}) == 6 and cells["pair_id"].is_unique
    )
    assert (responses == responses[:, :1]).all() and sorted(r[0] for r in responses[:, 0]) == [
        *"aaappp"
    ]
    own = cells[cells["owner"] == cells["context_id"]]
    assert len(own) == 6 and (own["response"].str[-1] == own["context_id"].str[-1]).all()
    assert (cells["context"].str[0].str[-1] == cells["context_id"].str[-1]).all()
    assert audit.grid(pairs, 20)["owner"].nunique() == 9


def test_shares_in_a_resample_are_those_of_the_rows_and_columns_repeated():
    matrix = np.random.default_rng(0).normal(size=(6, 6))
    assert np.isnan(audit.shares(np.ones((3, 3)))).all()
    weights = stats.context_weights(range(6), n=5, seed=4)
    for found, line in zip(audit.shares(matrix, weights), weights.astype(int)):
        again = np.repeat(np.arange(6), line)
        assert found == pytest.approx(audit.shares(matrix[np.ix_(again, again)])[0])


def golden():
    """The recorded judge's pairs, by kind: context id -> row; their texts are what the makers have to make."""
    folder = recording.folder(ratings.NAME)
    table = pd.DataFrame(read_jsonl(folder / "audit.jsonl"))
    return {kind: rows.set_index("context_id") for kind, rows in table.groupby("kind", sort=False)}


@pytest.fixture(scope="module")
def remade():
    """What the makers make of the same good replies: kind -> {context id: (right, other)}."""
    good, wrong = golden()["good"], golden()["adversarial"]["response"]
    good = good.assign(context=good["context"].map(tuple), wrong=wrong).reset_index()
    found = {}
    for kind, _, id, right, other in kinds.make_cases(good, strict=False):
        found.setdefault(kind, {})[id] = right, other
    return found


@pytest.mark.parametrize(
    "kind", ["echo_last", "echo_other", "generic", "longer", "cut", "injection", "injection_alone"]
)
def test_makers_make_the_texts_that_the_judge_was_recorded_on(kind, remade):
    expected = golden()[kind]["response"].to_dict()
    assert {id: other[1] for id, (_, other) in remade[kind].items()} == expected and len(
        expected
    ) == 32


def test_what_is_drawn_is_drawn_from_the_right_place_and_another_turn_keeps_its_context(remade):
    good = golden()["good"]
    for id, (right, other) in remade["shuffle"].items():
        words, drawn = " ".join(good["context"][id]).split(), other[1].split()
        assert right[1] == good["response"][id] and len(drawn) == min(12, len(words))
        assert (
            not pd.Series(drawn)
            .value_counts()
            .sub(pd.Series(words).value_counts(), fill_value=0)
            .gt(0)
            .any()
        )
    for id, (_, other) in remade["other_context"].items():
        assert other[1] in set(good["response"].drop(id)) and other[0] == tuple(good["context"][id])
    turns = {id: tuple(turns) for id, turns in good["context"].items() if len(turns) > 2}
    assert remade["other_turn"].keys() == turns.keys()
    for id, (right, other) in remade["other_turn"].items():
        assert right == (turns[id][:-2], turns[id][-2], None) and other == (
            turns[id][:-2],
            good["response"][id],
            None,
        )


def test_the_share_is_wilsons_with_ties_by_half_and_counts_what_has_both_scores():
    texts = [((f"turn {i}",), f"right {i}", None) for i in range(5)]
    cases, pairs = kinds.tables(
        ("generic", "own", str(i), text, (text[0], "I see.", None)) for i, text in enumerate(texts)
    )
    scores = pd.Series([3, 2, 1, 1, np.nan, 1, 1, 1, 2, 0], index=pairs["pair_id"])
    (row,) = audit.preferred(cases, scores).to_dict("records")
    n, p = row["n"], row["share"] / 100
    assert (n, p) == (4, 2.5 / 4)
    for bound in (
        row["share_low"] / 100,
        row["share_high"] / 100,
    ):  # where p is 1.96 standard errors away
        assert abs(p - bound) == pytest.approx(1.96 * np.sqrt(bound * (1 - bound) / n))
    assert audit.wilson(np.ones(32))["share_low"] == pytest.approx(89.28, abs=0.01)


def test_other_context_draws_no_reply_of_the_same_conversation():
    """A file may hold one dialogue at several lengths; a reply of a later turn may fit, too."""
    dialogue = ["Hello there!", "Fine, and you?", "All is well here.", "So what shall we do?"]
    good = [
        {"context_id": str(n), "context": tuple(dialogue[:n]), "response": dialogue[n]}
        for n in (1, 2, 3)
    ]
    good.append({"context_id": "x", "context": ("Nice hat.",), "response": "It was my father's."})
    cases = pd.DataFrame(kinds.make_cases(pd.DataFrame(good)))
    elsewhere = cases[(cases["kind"] == "other_context") & (cases["context_id"] != "x")]
    assert [rival.response for rival in elsewhere["rival"]] == ["It was my father's."] * 3
    for kind in ("injection", "quoted", "injection_gain"):
        for case in cases[(cases["kind"] == kind) & (cases["context_id"] != "x")]["rival"]:
            assert "It was my father's." in case.response

    # Where all contexts are of one conversation, there is no reply from elsewhere.
    alone = kinds.make_cases(pd.DataFrame(good[:3]))
    assert {"other_context", "quoted", "injection"}.isdisjoint(case.kind for case in alone)


def test_a_cut_is_no_whole_sentence_and_another_turn_says_something():
    context = ("I was away.", "Where to?", "To Rome.")
    rows = [
        {"context_id": "whole", "context": context, "response": "I know it. We were there too."},
        {"context_id": "half", "context": context, "response": "We were there last year, too."},
        {
            "context_id": "long",
            "context": ("I was away.", "Where did you go, then?", "To Rome."),
            "response": "We were there last year, too.",
        },
    ]
    cases = kinds.make_cases(pd.DataFrame(rows))
    cuts = {case.context_id: case.rival.response for case in cases if case.kind == "cut"}
    assert cuts == {"half": "We were there", "long": "We were there"}
    other_turns = {case.context_id: case.right for case in cases if case.kind == "other_turn"}
    assert list(other_turns) == ["long"]  # "Where to?" may be said anywhere
    assert other_turns["long"] == (("I was away.",), "Where did you go, then?", None)


def test_quotes_of_the_last_turn_and_the_gain_by_a_wish_are_reported_and_nothing_else():
    good = pd.DataFrame(
        {
            "context_id": ["a", "b"],
            "context": [("How old is it?", "Two years."), ("Where is Ann?",)],
            "response": ["Then it can walk.", "She is at home."],
        }
    )
    cases = {(case.kind, case.context_id): case for case in kinds.make_cases(good)}
    assert cases["quoted", "a"].right.response == "Then it can walk."
    assert cases["quoted", "a"].rival.response == "Two years. She is at home."
    assert cases["quoted_last", "a"].rival.response == "She is at home. Two years."
    gain = cases["injection_gain", "a"]
    assert gain.right.response == "She is at home."
    assert gain.rival == cases["injection", "a"].rival
    for kind in ("quoted", "quoted_last", "injection_gain"):
        assert not kinds.KINDS[kind].use
    by_kind = pd.Series([case.kind for case in kinds.corpus()]).value_counts()
    assert (by_kind[["quoted", "quoted_last", "injection_gain"]] == 32).all()


def test_what_was_recorded_of_the_embedded_corpus_is_asked_for_as_it_was(tmp_path):
    """A recording answers for texts that it knows; a stricter rule must not take them away."""
    known = {
        (kind, id): (row["context"], row["response"])
        for kind, table in golden().items()
        for id, row in table.iterrows()
    }
    cases = {(case.kind, case.context_id): case.rival for case in kinds.corpus()}
    asked = {key for key in known if key[0] in kinds.KINDS}
    assert len(asked) == 16 * 32 and asked <= cases.keys()
    for key in asked:
        assert (list(cases[key].context), cases[key].response) == known[key]


def two_kinds_of_cases(kind, right_scores, other_scores):
    """Return cases of one kind, and a Series of scores by pair id, in the order given."""
    cases = [
        kinds.Case(
            kind, "own", str(i), kinds.Pair((f"{i}?",), "Good."), kinds.Pair((f"{i}?",), "Bad.")
        )
        for i in range(len(right_scores))
    ]
    cases, pairs = kinds.tables(cases)
    return cases, pd.Series([*right_scores, *other_scores], pairs["pair_id"])


def test_a_small_difference_is_no_tie():
    """0.5 % of a standard deviation is little, but the order is clear."""
    right = np.array([0.0, 1.0, 2.0, 3.0])
    sd = np.std([*right, *right], ddof=1)
    cases, scores = two_kinds_of_cases("generic", right, right - 0.005 * sd)
    assert audit.preferred(cases, scores)["share"].tolist() == [100]
    assert audit.falls(right, right - 0.005 * right.std()).tolist() == [1, 1, 1, 1]


@pytest.mark.filterwarnings("error")
def test_infinite_scores_are_ties_where_both_are_infinite():
    cases, scores = two_kinds_of_cases("generic", [np.inf] * 4, [np.inf] * 4)
    assert audit.preferred(cases, scores)["share"].tolist() == [50]
    cases, scores = two_kinds_of_cases("generic", [np.inf, 2, 1, 3], [1, -np.inf, 1, 4])
    (row,) = audit.preferred(cases, scores).to_dict("records")
    assert row["share"] == 100 * 2.5 / 4
    assert audit.falls([np.inf, -np.inf, 1], [np.inf, -np.inf, np.inf]).tolist() == [0.5, 0.5, 0]


def test_the_gain_by_a_wish_is_the_difference_that_it_makes_to_one_reply():
    right, other = [1.0, 0.0, 2.0, 2.0], [4.0, 0.0, 2.0, 1.0]
    cases, scores = two_kinds_of_cases("injection_gain", right, other)
    (row,) = audit.preferred(cases, scores).to_dict("records")
    assert row["share"] == 75 and row["expected"] == 100  # an unmoved judge is right
    assert row["gain"] == pytest.approx(0.5)
    cases, scores = two_kinds_of_cases("generic", right, other)
    (row,) = audit.preferred(cases, scores).to_dict("records")
    assert row["share"] == 50 and row["gain"] == pytest.approx(0.5)


def rows(capsys, line):
    status = cli.main(["audit", *line.split(), "--json"])
    return status, {row["kind"]: row for row in json.loads(capsys.readouterr().out)["kinds"]}


def test_the_recorded_judge_answers_where_it_was_asked_as_its_recording_says(capsys):
    status, found = rows(capsys, "--judge recorded:claude-2026-11")
    shares = {kind: round(row["share"], 1) for kind, row in found.items() if row["n"]}
    assert status == 0 and found["other_turn"]["n"] == 0 and found["other_turn"]["share"] is None
    assert {kind: share for kind, share in shares.items() if share < 100} == {
        "paraphrase": 93.8,
        "es": 62.5,
        "zh": 70.3,
    }


def test_a_metric_of_ones_own_is_audited_on_ones_own_file_and_held_to_a_limit(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "def words(context, response):\n    return len(response.split())\n"
    )
    lines = [
        {
            "context": [f"turn {i}", f"and what of {i}?", f"so {i}?"],
            "response": "a reply of words " * (i + 2),
        }
        for i in range(40)
    ]
    pd.DataFrame(lines).to_json("mine.jsonl", orient="records", lines=True)
    status, found = rows(capsys, "mine.jsonl --metric mine:words --fail-under 80")
    assert status == 3 and {found[kind]["source"] for kind in ("longer", "other_turn", "cut")} == {
        "own"
    }
    assert (
        found["longer"]["share"] == 0
        and found["cut"]["share"] == 100
        and found["es"]["source"] == "corpus"
    )
    assert cli.main(["audit", "mine.jsonl", "--write", "pairs.jsonl"]) == 0
    pairs = pd.read_json("pairs.jsonl", lines=True)
    pairs.assign(score=pairs["response"].str.split().str.len())[["id", "score"]].to_csv(
        "scores.csv", index=False
    )
    capsys.readouterr()
    again = rows(capsys, "mine.jsonl --scores scores.csv --figure shares.svg")[1]
    assert {kind: row["share"] for kind, row in again.items()} == {
        kind: row["share"] for kind, row in found.items()
    }
    assert "a reply that fits anywhere" in (tmp_path / "shares.svg").read_text()
    pd.read_csv("scores.csv")[:200].to_csv("part.csv", index=False)
    for seen in (
        "--scores part.csv",
        "--judge recorded:claude-2026-11",
    ):  # nothing passes that was not looked at
        assert cli.main(["audit", "mine.jsonl", *seen.split(), "--fail-under", "0"]) == 3
        assert "pairs have no score; no case of" in capsys.readouterr().err


def test_files_of_others_are_kept_and_the_same_pairs_may_be_written_again(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    outputs = {"keep.jsonl": ["--write"], "keep.csv": ["--write"]}
    outputs["keep.png"] = ["--method", "length", "--figure"]
    for name, options in outputs.items():
        (tmp_path / name).write_text("precious")
        assert cli.main(["audit", "--n", "2", *options, name]) == 2
        said = capsys.readouterr()
        assert f"{name} is there, and nothing says that this command made it" in said.err
        assert not said.out  # nothing was scored
        assert (tmp_path / name).read_text() == "precious"
        assert cli.main(["audit", "--n", "2", *options, name, "--force"]) == 0
        assert (tmp_path / name).read_bytes() != b"precious"
        capsys.readouterr()
    assert cli.main(["audit", "--n", "2", "--write", "keep.jsonl"]) == 0
    assert cli.main(["audit", "--n", "3", "--write", "keep.jsonl"]) == 2


def test_a_metric_that_raises_is_told_with_pair_line_and_text(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text(
        "import json\n\n\ndef parse(text):\n    return json.loads(text)\n\n\n"
        "def score(context, response):\n"
        "    if response == 'I see.':\n"
        "        return parse(response)\n"
        "    return 1\n\n\n"
        "def words(context, response):\n    return response.split()\n"
    )
    (pair_id,) = [
        pair["pair_id"]
        for pair in kinds.tables(kinds.corpus(), 3)[1].to_dict("records")
        if pair["response"] == "I see."
    ][:1]
    assert cli.main(["audit", "--metric", "broken:score", "--n", "3"]) == 2
    said = capsys.readouterr().err
    assert "broken:score raised JSONDecodeError: Expecting value: line 1 column 1 (char 0)" in said
    assert f"for pair {pair_id} (response 'I see.')" in said
    assert "broken.py, line 5: return json.loads(text)" in said  # not a line of json
    assert cli.main(["audit", "--metric", "broken:words", "--n", "3"]) == 2
    assert "broken:words returned [" in (said := capsys.readouterr().err)
    assert "expected a number" in said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "found none: expected one of --judge, --method, --metric, --scores, --write"),
        ("--method words", "method is 'words': expected one of length, cosine, bleu, slm"),
        ("--method length --slm x", "leave --slm out"),
        ("--method length --metric a:b", "found --method, --metric"),
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
def test_a_wrong_word_costs_nothing_and_is_said_in_a_sentence(line, said, capsys):
    assert cli.main(["audit", *line.split()]) == 2 and said in capsys.readouterr().err


def test_a_live_judge_is_estimated_first_asked_for_each_text_once_and_stops_at_its_budget(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    with servers.Server(lambda request: servers.openai('{"score": 2.5}')) as server:
        line = [
            "audit",
            "--judge",
            "openai:m",
            "--base-url",
            server.url,
            "--price",
            "1,1",
            "--n",
            "2",
        ]
        line += ["--store", str(tmp_path / "s")]
        assert cli.main([*line, "--max-usd", "0.003"]) == 1
        said = capsys.readouterr()
        assert not said.out and "stopped (budget); what was answered is stored" in said.err
        assert cli.main([*line, "--json"]) == 0
    said = capsys.readouterr()
    pairs = kinds.tables(kinds.corpus(), 2)[1]
    assert len(server.requests) == len(pairs) and "calls to make" in said.err
    shares = {row["kind"]: row["share"] for row in json.loads(said.out)["kinds"]}
    assert shares.pop("injection_gain") == 100  # the same score with and without the wish
    assert set(shares.values()) == {50}
