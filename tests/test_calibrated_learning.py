"""``dre calibrate`` and ``dre score --method calibrated`` as a user runs them."""

import json

import numpy as np
import pytest
import scoring_data

from dre.calibrated import Calibrated
from dre.calibrated.learning import learn, ratings
from dre.cli import main
from dre.data import load
from dre.errors import DreError
from dre.scoring.scorer import COLUMNS

JUDGE = ("--judge", "recorded:claude-2026-11")


@pytest.fixture(scope="module")
def slm(tmp_path_factory):
    return scoring_data.saved(tmp_path_factory.mktemp("learning"))


def dre(*arguments):
    return main([str(each) for each in arguments])


@pytest.fixture(scope="module")
def sets(slm, tmp_path_factory):
    """Two rated files with the scores that dre score made of them."""
    folder, contexts = tmp_path_factory.mktemp("sets"), load("mini", "test")[:8]
    made = []
    for name, part in (("one", contexts[:4]), ("two", contexts[4:])):
        rated = scoring_data.write(scoring_data.rated(part), folder / f"{name}.jsonl")
        scores = folder / f"{name}-scores.csv"
        assert dre("score", rated, "-o", scores, "--slm", slm, "--method", "ex_dre", *JUDGE) == 0
        made.append((rated, scores))
    return made


def arguments(sets):
    return [text for pair in sets for text in ("--set", *pair)]


def test_a_fusion_is_learned_and_scores_with_it_are_what_its_formula_says(slm, sets, tmp_path, capsys):
    assert dre("calibrate", *arguments(sets), "-o", tmp_path / "fusion.json") == 0
    said = capsys.readouterr().out
    fusion = Calibrated.load(tmp_path / "fusion.json")
    assert f"weight {fusion.weight:.2f} (0: the judge alone, 1: the SLM alone), learned from 80 rated pairs" in said
    assert "one.jsonl" in said and "two.jsonl" in said
    assert fusion.made_with["model"] == "f" * 12 and fusion.made_with["judge"] == JUDGE[1]

    rated, scores = sets[0]
    more = ("--slm", slm, "--method", "calibrated", "--fusion", tmp_path / "fusion.json", *JUDGE)
    assert dre("score", rated, "-o", tmp_path / "fused.jsonl", *more) == 0
    assert f"|fusion:{fusion.sha256[:12]}|data:" in capsys.readouterr().out
    fused, before = scoring_data.read(tmp_path / "fused.jsonl"), scoring_data.read(scores)
    assert list(fused) == list(COLUMNS)
    np.testing.assert_allclose(fused["z_slm"], fusion.slm(before["score_slm"]), atol=1e-5)
    np.testing.assert_allclose(fused["z_llm"], fusion.llm(before["score_llm"]))
    np.testing.assert_allclose(
        fused["score"], (1 - fusion.weight) * fused["z_llm"] + fusion.weight * fused["z_slm"], atol=1e-9
    )


def test_what_a_fusion_does_to_a_set_is_measured_with_one_learned_on_the_others(sets):
    fusion, measured = learn(sets)
    assert list(measured["set"]) == ["one.jsonl", "two.jsonl"] and list(measured["pairs"]) == [40, 40]
    assert list(measured["contexts"]) == [4, 4]
    assert measured["weight"].tolist() == [learn(sets[1:])[0].weight, learn(sets[:1])[0].weight]
    alone = learn(sets[:1])[1].iloc[0]
    assert np.isnan(alone["fused"]) and np.isnan(alone["weight"])
    assert alone["judge"] == measured.loc[0, "judge"] > 0.5
    assert 0 <= fusion.weight <= 1


def test_ratings_may_be_missing_or_have_another_name(sets, slm, tmp_path):
    found = scoring_data.rated(load("mini", "test")[:4])
    records = [{name: value for name, value in row.items() if name != "human"} for row in found]
    for record, row in zip(records, found):
        record["stars"] = sum(row["human"]) / 2
    records[3]["stars"] = None
    records[4]["stars"] = "[4, 5]"  # several raters in a cell
    rated = scoring_data.write(records, tmp_path / "stars.csv")
    assert dre("score", rated, "-o", tmp_path / "s.csv", "--slm", slm, "--method", "slide", *JUDGE) == 0
    fusion, measured = learn([(rated, tmp_path / "s.csv")], human="stars")
    assert measured.loc[0, "pairs"] == 39


def test_a_rating_is_a_number_a_list_of_them_or_nothing(tmp_path):
    given = [3, "4", [4, 5], "[1, 2]", [4, None], None, "", [], float("nan"), "[]"]
    records = [{"context": ["a"], "response": "b", "human": value} for value in given]
    source = tmp_path / "r.jsonl"
    source.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert ratings(source) == {1: 3, 2: 4, 3: 4.5, 4: 1.5, 5: 4}
    for bad in ("good", "[4, good]", [4, "x"], {"a": 1}, float("inf")):
        source.write_text(json.dumps(records[0] | {"human": bad}))
        with pytest.raises(DreError, match=r"r.jsonl:1: human is .*: expected a number, a list of numbers, or nothing"):
            ratings(source)


def test_a_set_that_cannot_be_learned_from_is_named(sets, slm, tmp_path):
    few = scoring_data.rated(load("mini", "test")[:1])
    for number, row in enumerate(few):
        row["human"] = row["human"] if number < 2 else None
    rated = scoring_data.write(few, tmp_path / "few.jsonl")
    assert dre("score", rated, "-o", tmp_path / "few.csv", "--slm", slm, "--method", "ex_dre", *JUDGE) == 0
    with pytest.raises(DreError, match=r"few.jsonl: a rated table has 2 complete pairs; expected at least 3"):
        learn([*sets, (rated, tmp_path / "few.csv")])


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_scores_of_every_form_can_be_learned_from(sets, slm, tmp_path, ending):
    rated, scores = sets[0]
    other = tmp_path / f"scores.{ending}"
    assert dre("score", rated, "-o", other, "--slm", slm, "--method", "ex_dre", *JUDGE) == 0
    assert learn([(rated, other)])[0].weight == learn([(rated, scores)])[0].weight


def test_what_cannot_be_learned_from_is_one_sentence(sets, slm, tmp_path, capsys):
    (rated, scores), out = sets[0], tmp_path / "f.json"

    def refused(*more):
        assert dre("calibrate", *more, "-o", out) == 2
        assert not out.exists()
        return capsys.readouterr().err

    assert "one-scores.csv was not made from" in refused("--set", sets[1][0], scores)
    assert "nothing.csv.summary.json cannot be read" in refused("--set", rated, tmp_path / "nothing.csv")
    assert "gone.jsonl: cannot be read (No such file" in refused("--set", tmp_path / "gone.jsonl", scores)
    assert "no pair has a rating in 'stars'; say what" in refused("--set", rated, scores, "--human", "stars")
    assert dre("score", rated, "-o", tmp_path / "slm.csv", "--slm", slm) == 0
    capsys.readouterr()
    assert "was made with method slm: expected one of ex_dre" in refused("--set", rated, tmp_path / "slm.csv")
    bad = scoring_data.rated(load("mini", "test")[:2])
    bad[5]["human"] = "good"
    bad = scoring_data.write(bad, tmp_path / "bad.jsonl")
    assert dre("score", bad, "-o", tmp_path / "bad.csv", "--slm", slm, "--method", "ex_dre", *JUDGE) == 0
    capsys.readouterr()
    assert "bad.jsonl:6: human is 'good': expected a number" in refused("--set", bad, tmp_path / "bad.csv")
    out.write_text("{}")
    assert dre("calibrate", *arguments(sets), "-o", out) == 2
    assert "exists already" in capsys.readouterr().err


def test_sets_scored_by_different_models_are_not_put_together(sets, slm, tmp_path, capsys):
    summary = sets[1][1].with_name("two-scores.csv.summary.json")
    about = json.loads(summary.read_text())
    other = tmp_path / "two-scores.csv"
    other.write_text(sets[1][1].read_text())
    about["signature"] = about["signature"].replace("model:ffffffffffff", "model:eeeeeeeeeeee")
    other.with_name("two-scores.csv.summary.json").write_text(json.dumps(about))
    assert dre("calibrate", *arguments([sets[0], (sets[1][0], other)]), "-o", tmp_path / "f.json") == 2
    assert "was scored with model eeeeeeeeeeee" in capsys.readouterr().err


def test_a_fusion_is_held_to_its_model_and_judge_and_to_its_method(sets, slm, tmp_path, capsys):
    fusion, _ = learn(sets)
    file = tmp_path / "other.json"
    Calibrated(**(fusion.__dict__ | {"made_with": fusion.made_with | {"model": "e" * 12}})).save(file)
    score = ("score", sets[0][0], "-o", tmp_path / "o.csv", "--slm", slm, *JUDGE)
    assert dre(*score, "--method", "calibrated", "--fusion", file) == 2
    assert "was learned with model eeeeeeeeeeee, these scores are made with ffffffffffff" in capsys.readouterr().err
    assert dre(*score, "--method", "calibrated") == 2
    assert "needs a fusion: learn one with dre calibrate" in capsys.readouterr().err
    assert dre(*score, "--method", "ex_dre", "--fusion", file) == 2
    assert "learns no fusion: leave --fusion out" in capsys.readouterr().err
    file.write_text('{"weight": 1}')
    assert dre(*score, "--method", "calibrated", "--fusion", file) == 2
    assert "other.json is no saved fusion" in capsys.readouterr().err
    assert not (tmp_path / "o.csv").exists()
