"""What became worse is said with exit status 3; a check that cannot fail never passes."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dre
from dre.commands import main as cli
from dre.errors import DreError
from dre.score import gate

OLD = np.random.default_rng(0).normal(3, 1, 40).round(2)
NOISE = np.random.default_rng(1).normal(0, 0.1, 40).round(2)


def table(scores, system="bot", **columns):
    contexts = [f"c{i}" for i in range(len(scores))]
    return pd.DataFrame({"system": system, "context_id": contexts, "score": scores} | columns)


def systems(*scores):
    return pd.concat([table(of_one, name) for name, of_one in zip("abcd", scores)])


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frames = {
        "old": table(OLD),
        "worse": table(OLD + NOISE - 0.5)[::-1],
        "better": table(OLD + NOISE + 0.5),
        "two": pd.concat([table(OLD), table(OLD, "gone")]),
        "holes": table(np.where(np.arange(40) < 4, np.nan, OLD)),
        "fewer": table(OLD)[4:],
        "more": pd.concat([table(np.where(np.arange(40) < 4, np.nan, OLD)), table(OLD, "new")]),
        "slightly": table(OLD + np.where(np.arange(40) < 13, 0.1, -0.1)),  # worse: p is 0.038
    }
    for name, frame in frames.items():
        frame.to_csv(f"{name}.csv", index=False)


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [
        ("worse.csv old.csv --fail-if worse", 3, r"bot .new. is worse than bot .old.: .* by −0.5"),
        ("worse.csv old.csv", 0, ""),
        ("better.csv old.csv --fail-if worse --max-missing 0", 0, ""),
        (
            "holes.csv old.csv --max-missing 0.1",
            0,
            "10.0% of the systems' contexts in either file have no",
        ),
        ("more.csv old.csv --max-missing 5%", 3, "10.0% of the contexts have no new"),
        ("fewer.csv old.csv --max-missing 0%", 3, "10.0% of the contexts have no .* 0.0%"),
        ("better.csv two.csv", 0, "only the old file has: gone"),
        ("better.csv two.csv --fail-if worse", 3, "gone is gone: the old scores"),
        ("two.csv old.csv --fail-if worse", 0, "not compared, since only the new file has: gone"),
        ("slightly.csv old.csv --fail-if worse --alpha 0.04", 3, "bot .new. is worse"),
        ("slightly.csv old.csv --fail-if worse --alpha 0.03", 0, ""),
    ],
)
def test_what_became_worse_is_said_and_fails_if_asked(line, status, message, files, capsys):
    assert cli.main(["compare", *line.split()]) == status
    out, error = capsys.readouterr()
    assert re.search(message, error) if message else not error


def test_in_pytest_a_person_can_read_why(files):
    dre.assert_not_worse("better.csv", table(OLD))
    by, visible = (NOISE - 0.5).mean(), (NOISE - 0.5).std(ddof=1) * 2.8 / np.sqrt(40)
    sentence = rf"^bot .new. is worse than bot .old.: its score differs by −{-by:.3f} \[.*\] on 40 "
    sentence += rf"shared .* .p = 0.0001.; with so many a difference of {visible:.3f} can be seen$"
    with pytest.raises(AssertionError, match=sentence):
        dre.assert_not_worse(table(OLD + NOISE - 0.5), table(OLD))
    Path("old.csv.summary.json").write_text('{"signature": {"method": "small"}}')
    warned = pytest.warns(UserWarning, match="fewer.csv has no summary beside it")
    with warned, pytest.raises(AssertionError, match="^10.0% of the contexts have no new score"):
        dre.assert_not_worse("fewer.csv", "old.csv", max_missing=0.05)


def test_contexts_are_matched_by_themselves_and_single_systems_whatever_their_names(files):
    """In each context new is lower by 0.5; in any other pairs of contexts it varies."""
    old = [{"context": ["so", str(i)], "score": x, "id": i} for i, x in enumerate(OLD)]
    one, other = ([{**row, "score": row["score"] + by} for row in old] for by in (-2, 1))
    for name, rows in (("turns.jsonl", old), ("two_replies.jsonl", one[::-1] + other)):
        Path(name).write_text("\n".join(map(json.dumps, rows)))
    new_table = table(OLD - 0.5, "parrot", id=range(40)).sample(frac=1)
    tables = (new_table, table(OLD, "atlas", id=range(39, -1, -1)))
    for name, pair in (("atlas", tables), ("", ("two_replies.jsonl", "turns.jsonl"))):
        comparison = gate.compare_scores(*pair)
        (row,) = comparison.comparisons
        by = [row["difference"], row["difference_low"], row["difference_high"]]
        assert (row["n_contexts"], by) == (40, pytest.approx([-0.5] * 3))
        assert [row["a"], row["b"]] == [f"{name} (new)".strip(), f"{name} (old)".strip()]
        assert comparison.removed == comparison.notes == []


def test_what_cannot_be_compared_is_refused():
    refused = {
        "5 contexts are in both, on which no test can fail at 0.05: score 6": table(OLD[:5]),
        "share no context of a system": table(OLD).assign(context_id="other"),
        "score the same contexts, with the same names of systems": systems(OLD, OLD),
        "the table: found .*: expected score": table(OLD).drop(columns="score"),
        "expected .*, and context_id or context": table(OLD).rename(columns={"context_id": "id"}),
    }
    for message, new in refused.items():
        with pytest.raises(DreError, match=message):
            gate.failures(gate.compare_scores(new, table(OLD)))


def test_the_note_and_the_refusal_agree_on_how_many_contexts_a_test_needs(files, capsys):
    """With n contexts the smallest p is 2 / 2^n, and Holm's correction multiplies it."""
    for n_systems, needed in ((1, 6), (2, 7), (4, 8)):
        systems(*[OLD[: needed - 1]] * n_systems).to_csv("few.csv", index=False)
        assert cli.main(["compare", "few.csv", "few.csv", "--fail-if", "worse"]) == 2
        out, error = capsys.readouterr()
        assert f"(which needs {needed})" in out and f"score {needed} or more" in error
        old, new = (systems(*[OLD[:needed] - by] * n_systems) for by in (0, 1))
        with pytest.raises(AssertionError, match="a .new. is worse"):
            dre.assert_not_worse(new, old)


def test_with_two_systems_the_level_is_that_of_both_tests_together():
    """Of 40 contexts 13 are better: p is 0.038, which one system may not have, and two may."""
    worse, as_before = (OLD + np.where(np.arange(40) < n, 0.1, -0.1) for n in (13, 20))
    dre.assert_not_worse(systems(worse, as_before), systems(OLD, OLD))


@pytest.mark.parametrize(
    ("new", "old", "status", "message"),
    [
        ({"judge": "m:a"}, {"judge": "m:b"}, 2, "worse.csv .* m:a, old.csv .*m:b: .*comparable"),
        ({"judge": "m", "data": "a", "reading": {"one_turn": True}}, {"judge": "m"}, 0, "^$"),
        (None, {"method": "small"}, 0, "^note: worse.csv has no summary beside it"),
        ({}, None, 2, "worse.*json: this is not a .* dre wrote"),
    ],
)
def test_scores_of_two_makers_are_not_compared(new, old, status, message, files, capsys):
    for name, fields in (("worse.csv", new), ("old.csv", old)):
        if fields is not None:
            Path(f"{name}.summary.json").write_text(json.dumps({"signature": fields}))
    assert cli.main(["compare", "worse.csv", "old.csv"]) == status
    assert re.search(message, capsys.readouterr().err)
