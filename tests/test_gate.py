"""What became worse is said with exit status 3; a check that cannot fail never passes."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dre
from dre.commands import main as cli
from dre.errors import DreError
from dre.score import gate


def table(scores, system="bot", **columns):
    """Scores of a system, one for each context."""
    contexts = [f"c{i}" for i in range(len(scores))]
    return pd.DataFrame({"system": system, "context_id": contexts, "score": scores} | columns)


OLD = np.random.default_rng(0).normal(3, 1, 40).round(2)
NOISE = np.random.default_rng(1).normal(0, 0.1, 40).round(2)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    length = np.arange(40)
    worse = table(OLD + NOISE - 0.5, length=length + 2, echo=0.5)
    table(OLD, length=length, echo=0.5).to_csv("old.csv", index=False)
    worse.sample(frac=1).to_csv("worse.csv", index=False)
    table(OLD + NOISE + 0.5).to_json("better.jsonl", orient="records", lines=True)
    pd.concat([table(OLD), table(OLD, "gone")]).to_csv("two.csv", index=False)
    table(np.where(np.arange(40) < 4, np.nan, OLD)).to_csv("holes.csv", index=False)
    table(OLD)[4:].to_csv("fewer.csv", index=False)
    table(np.where(np.arange(40) == 3, np.inf, OLD)).to_csv("infinite.csv", index=False)


def test_a_line_that_is_no_object_is_named(files, capsys):
    lines = [json.dumps({"context_id": "c0", "score": 3}), "5"]
    Path("number.jsonl").write_text("\n".join(lines))
    assert cli.main(["compare", "number.jsonl", "old.csv"]) == 2
    expected = "number.jsonl:2: found 5: expected an object with named fields"
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [
        (
            "worse.csv old.csv --fail-if worse",
            3,
            "bot (new) is worse than bot (old): its score differs by −0.5",
        ),
        ("worse.csv old.csv", 0, ""),
        ("better.jsonl old.csv --fail-if worse", 0, ""),
        (
            "holes.csv old.csv --fail-if worse --max-missing 5%",
            3,
            "10.0% of the contexts have no new score, more than 5.0%",
        ),
        (
            "holes.csv old.csv --max-missing 0.1",
            0,
            "10.0% of the contexts of either file have no new score",
        ),
        ("better.jsonl old.csv --max-missing 0%", 0, ""),
        ("better.jsonl old.csv --max-missing 0", 0, ""),
        (
            "fewer.csv old.csv --max-missing 5%",
            3,
            "10.0% of the contexts have no new score, more than 5.0%",
        ),
        (
            "better.jsonl two.csv --fail-if worse",
            3,
            "gone is gone: the old scores have it, and the new ones do not",
        ),
        ("better.jsonl old.csv --max-missing 0%", 0, ""),
        (
            "fewer.csv old.csv --max-missing 0%",
            3,
            "10.0% of the contexts have no new score, more than 0.0%",
        ),
        ("better.jsonl two.csv", 0, "only the old file has: gone"),
        (
            "better.jsonl two.csv --max-missing 0.4",
            3,
            "50.0% of the contexts have no new score, more than 40.0%",
        ),
        ("two.csv old.csv --fail-if worse", 0, "not compared, since only the new file has: gone"),
        (
            "infinite.csv old.csv --fail-if worse",
            2,
            "infinite.csv: score of c3 is inf: expected a finite number or nothing",
        ),
    ],
)
def test_what_became_worse_is_said_and_fails_where_that_is_asked_for(
    line, status, message, files, capsys
):
    assert cli.main(["compare", *line.split()]) == status
    error = capsys.readouterr().err
    assert message in error
    assert bool(message) == bool(error)


def test_a_difference_in_length_stands_beside_that_in_scores(files, capsys):
    assert cli.main(["compare", "worse.csv", "old.csv"]) == 0
    assert "| length | 2.000 [2.000, 2.000] |" in capsys.readouterr().out
    assert cli.main(["compare", "better.jsonl", "old.csv"]) == 0
    assert "length" not in capsys.readouterr().out.partition("\nDifference")[0]


def test_in_pytest_a_person_can_read_why(files):
    dre.assert_not_worse("better.jsonl", table(OLD))
    difference = (NOISE - 0.5).std(ddof=1) * 2.8 / np.sqrt(40)
    with pytest.raises(
        AssertionError,
        match=f"40 shared contexts.*with so many a difference of {difference:.3f} can be seen",
    ):
        dre.assert_not_worse(table(OLD + NOISE - 0.5, system="v2"), table(OLD, system="v1"))


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (
            table(OLD[:4]),
            "4 contexts are in both, on which no test can fail at 0.05: score 6 or more",
        ),
        (table(OLD).assign(context_id="other"), "share no context"),
        (pd.concat([table(OLD, "a"), table(OLD, "b")]), "share no system"),
        (
            table(OLD).drop(columns="score"),
            "the table: found columns system, context_id .*: expected score, a number or nothing",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(new, message):
    with pytest.raises(DreError, match=message):
        dre.assert_not_worse(new, table(OLD))


def test_the_note_and_the_refusal_agree_on_how_many_contexts_a_test_needs(files, capsys):
    for n_systems, needed in ((1, 6), (2, 7), (4, 8)):
        rows = []
        for system in "abcd"[:n_systems]:
            rows += [{"context_id": f"c{i}", "system": system, "score": i % 3} for i in range(5)]
        pd.DataFrame(rows).to_csv("few.csv", index=False)
        assert cli.main(["compare", "few.csv", "few.csv", "--fail-if", "worse"]) == 2
        out, error = capsys.readouterr()
        assert f"permutation test by context (which needs {needed})" in out
        assert f"score {needed} or more" in error


def test_scores_of_two_makers_are_not_compared(files, capsys):
    for name, judge in (("worse.csv", "a"), ("old.csv", "b")):
        fields = {"method": "judge", "judge": f"openai:{judge}", "data": judge, "version": judge}
        Path(f"{name}.summary.json").write_text(json.dumps({"signature": fields}))
    assert cli.main(["compare", "worse.csv", "old.csv"]) == 2
    message = (
        "worse.csv was made with judge openai:a, old.csv with judge openai:b: "
        "such scores are not comparable. Score both in the same way"
    )
    assert message in capsys.readouterr().err


def test_scores_of_a_command_that_has_no_methods_are_said_to_be_made_without_one(files, capsys):
    signatures = {"worse.csv": {"method": "small"}, "old.csv": {"judge": "openai:a"}}
    for name, signature in signatures.items():
        Path(f"{name}.summary.json").write_text(json.dumps({"signature": signature}))
    assert cli.main(["compare", "worse.csv", "old.csv"]) == 2
    message = "worse.csv was made with method small, old.csv without a method: such scores"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{}", "not json", '{"signature": "dre:small"}'])
def test_a_summary_that_another_program_wrote_is_one_plain_sentence(text, files, capsys):
    Path("worse.csv.summary.json").write_text(text)
    assert cli.main(["compare", "worse.csv", "old.csv"]) == 2
    assert "worse.csv.summary.json: this is not a summary that dre wrote" in capsys.readouterr().err


def test_with_one_summary_only_it_is_said_that_the_makers_are_unknown(files, capsys):
    Path("old.csv.summary.json").write_text(json.dumps({"signature": {"method": "slm"}}))
    assert cli.main(["compare", "better.jsonl", "old.csv", "--fail-if", "worse"]) == 0
    assert "note: better.jsonl has no summary beside it" in capsys.readouterr().err
    with pytest.warns(UserWarning, match="better.jsonl has no summary beside it"):
        dre.assert_not_worse("better.jsonl", "old.csv")


def shifted(n_better, n_contexts=40):
    """The old scores, 0.1 better in some contexts and 0.1 worse in the others."""
    return OLD[:n_contexts] + np.where(np.arange(n_contexts) < n_better, 0.1, -0.1)


def two_systems(scores_a, scores_b):
    return pd.concat([table(scores_a, "a"), table(scores_b, "b")])


def test_with_two_systems_the_level_is_that_of_both_tests_together():
    """Of 40 contexts 13 are better: p is 0.038, which one system may not have, and two may."""
    one_worse, as_before = shifted(13), shifted(20)
    (row,) = gate.compare_scores(table(one_worse), table(OLD)).comparisons
    assert 0.025 < row["p_holm"] < 0.05
    with pytest.raises(AssertionError, match="bot .new. is worse"):
        dre.assert_not_worse(table(one_worse), table(OLD))

    dre.assert_not_worse(two_systems(one_worse, as_before), two_systems(OLD, OLD))


def test_with_two_systems_it_takes_more_contexts_for_a_test_that_can_fail():
    """With six contexts the smallest p is 1/32, and twice that is above 0.05."""
    worse = OLD[:6] - 1
    with pytest.raises(AssertionError, match="bot .new. is worse"):
        dre.assert_not_worse(table(worse), table(OLD[:6]))

    new, old = two_systems(worse, worse), two_systems(OLD[:6], OLD[:6])
    with pytest.raises(DreError, match="a .new.: 6 contexts are in both.*score 7 or more"):
        dre.assert_not_worse(new, old)


def test_one_system_of_each_is_called_by_its_name():
    comparison = gate.compare_scores(table(OLD - 1, "parrot"), table(OLD, "atlas"))
    (row,) = comparison.comparisons
    assert (row["a"], row["b"]) == ("parrot (new)", "atlas (old)")
    assert comparison.removed == comparison.added == []
    (sentence,) = gate.failures(comparison)
    assert sentence.startswith("parrot (new) is worse than atlas (old): its score differs by −1.0")
