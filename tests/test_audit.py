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
    for kind, _, id, right, other in kinds.made(good):
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
        {"context": [f"turn {i}", "and?", "so?"], "response": "a reply of words " * (i + 2)}
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
    assert {row["share"] for row in json.loads(said.out)["kinds"]} == {50}
