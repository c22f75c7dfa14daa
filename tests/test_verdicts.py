"""Verdicts follow from the tables by one rule, and prose has the direction of its numbers."""

import json
import re
import shutil
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from conftest import needs_data
from hypothesis import given
from hypothesis import strategies as st
from test_paper import HERE

from dre.datasets import ratings
from dre.errors import DreError
from dre.judges import released
from dre.paper import verdicts, words
from dre.paper.headless import code_cells, notebooks, source
from dre.paper.profile import profile
from dre.slm.remembered import Remembered

NUMBERS_IN_WORDS = words.said(HERE)
CLAIMS = verdicts.judged(HERE)
NUMBER = st.floats(-10, 10, allow_nan=False).map(lambda x: round(x, 2))


@pytest.mark.parametrize(
    ("ends", "none", "size", "side", "expected"),
    [
        ((0.1, 0.3), 0, 0.2, 1, "reproduced"),
        ((0.3, 0.5), 0, 0.2, 1, "reproduced"),  # more than printed
        ((0.1, 0.3), 0, 0.4, 1, "smaller"),
        ((0.1, 0.3), 0, None, 1, "reproduced"),
        ((-0.1, 0.3), 0, 0.2, 1, "not shown"),
        ((-0.1, 0.3), 0, None, 1, "not shown"),
        ((-0.1, 0.1), 0, 0.2, 1, "not supported"),
        ((-0.3, -0.1), 0, 0.2, 1, "contradicted"),
        ((-0.3, -0.1), 0, -0.2, -1, "reproduced"),
        ((60, 70), 50, 90, 1, "smaller"),
        ((40, 45), 50, 90, 1, "contradicted"),
    ],
)
def test_the_word_by_hand(ends, none, size, side, expected):
    assert verdicts.word(*ends, none, size, side) == expected
    assert expected in verdicts.LEGEND


@given(low=NUMBER, width=st.floats(0.01, 5), none=NUMBER, size=NUMBER)
def test_the_word_does_not_depend_on_which_way_a_difference_is_taken(low, width, none, size):
    high = low + width
    word = verdicts.word(low, high, none, size, 1)
    word_of_reverse = verdicts.word(-high, -low, -none, -size, -1)
    assert word == word_of_reverse


@pytest.fixture
def project(tmp_path):
    """A new project with the claims, and with the tables that they are judged by."""
    paths = [HERE / "data/claims.csv", *HERE.glob("results/public/*.csv")]
    for path in paths:
        copy = tmp_path / path.relative_to(HERE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return tmp_path


def reflect_interval(path, column, none):
    """Reverse the effects of a table: mirror them at the number that means no effect."""
    rows = pd.read_csv(path)
    low = 2 * none - rows[f"{column}_high"]
    high = 2 * none - rows[f"{column}_low"]
    rows[f"{column}_low"] = low
    rows[f"{column}_high"] = high
    rows.to_csv(path, index=False)


def test_every_decided_verdict_changes_if_its_effect_is_reversed(project):
    decided = CLAIMS[CLAIMS["verdict"].isin(["reproduced", "smaller", "contradicted"])]
    assert len(decided) >= 6
    for i, claim in decided.iterrows():
        verdict = reversed_claim(project, claim, "effect", i)["verdict"]
        assert verdict != claim["verdict"], claim["claim"]


def test_every_decided_verdict_with_our_model_changes_if_its_effect_is_reversed(project):
    decided = CLAIMS[CLAIMS["ours"].isin(["reproduced", "smaller", "contradicted"])]
    assert len(decided) >= 6
    for i, claim in decided.iterrows():
        verdict = reversed_claim(project, claim, "ours_effect", i)["ours"]
        assert verdict != claim["ours"], claim["claim"]


def test_what_would_follow_would_not_if_its_effect_were_reversed(project):
    followed = CLAIMS[CLAIMS["simulated"] == verdicts.FOLLOWS[True]]
    assert len(followed) >= 2
    for i, claim in followed.iterrows():
        outcome = reversed_claim(project, claim, "simulated_effect", i)
        assert outcome["simulated"] == verdicts.FOLLOWS[False], claim["claim"]


def reversed_claim(project, claim, effect, i):
    """Return what follows for one claim if the effect in a column of the claims is reversed."""
    reflect = partial(reflect_interval, none=float(claim["none"]))
    return changed_claim(project, claim, effect, i, reflect)


def changed_claim(project, claim, effect, i, change):
    """Return what follows for one claim after a change of the table that has its effect."""
    table, _, column = (field.strip() for field in claim[effect].split(":"))
    path = project / f"results/public/{table}.csv"
    change(path, column)
    columns = pd.read_csv(project / verdicts.CLAIMS, nrows=0).columns
    CLAIMS.loc[[i], list(columns)].to_csv(project / verdicts.CLAIMS, index=False)
    outcome = verdicts.judged(project).iloc[0]
    shutil.copyfile(HERE / f"results/public/{table}.csv", path)
    return outcome


WEAK = {  # a row of a table of effects with a weak judge, in words
    "weak_effect": "weak_judge_effects: weak; ours; DRE less the judge; overall: pooled",
    "weak_measured": "{pooled:+.2f[]}",
    "weak_premise_effect": "table4_effects: SLM alone, ours: value",
    "weak_simulated_effect": (
        "weak_judge_effects: weak; as printed; DRE less the judge; overall: pooled"
    ),
}


@pytest.mark.parametrize(("side", "word"), [(1, "reproduced"), (-1, "contradicted")])
def test_a_claim_has_a_verdict_of_its_own_with_a_weak_judge(project, side, word):
    claims = pd.read_csv(project / verdicts.CLAIMS, dtype=str, keep_default_na=False)
    is_dre = claims["claim"] == "DRE agrees with people better than its LLM."
    claims[list(WEAK)] = ""
    claims.loc[is_dre, list(WEAK)] = list(WEAK.values())
    claims.to_csv(project / verdicts.CLAIMS, index=False)
    effect = {"judge": "weak", "comparison": "DRE less the judge", "measure": "overall"}
    rows = []
    for numbers, value in (("ours", side * 0.2), ("as printed", -side * 0.3)):
        row = effect | {"numbers": numbers, "pooled": value}
        rows.append(row | {"pooled_low": value - 0.1, "pooled_high": value + 0.1})
    file = project / "results/public/weak_judge_effects.csv"
    pd.DataFrame(rows).to_csv(file, index=False)

    outcome = verdicts.judged(project)[is_dre.to_numpy()].iloc[0]
    assert outcome["weak"] == word
    assert outcome["weak_simulated"] == verdicts.FOLLOWS[side < 0]
    assert outcome["verdict"] == CLAIMS[is_dre.to_numpy()].iloc[0]["verdict"]  # the strong judge's
    text = verdicts.markdown(project)
    [line] = [
        line for line in text.splitlines() if f"{side * 0.2:+.2f} [".replace("-", "−") in line
    ]
    assert f"**{word}**" in line and outcome["weak_simulated"] in line
    boxes = verdicts.in_sentences(project)
    box = boxes["verdict.dre_agrees_with_people_better_than_its_llm"]
    assert box.startswith("strong judge: ") and f"weak judge: with *ours* **{word}**" in box


@pytest.mark.parametrize(("side", "expected"), [(1, "reproduced"), (-1, "contradicted")])
def test_every_undecided_verdict_is_decided_if_its_effect_lies_on_one_side(project, side, expected):
    undecided = CLAIMS[CLAIMS["verdict"].isin(["not shown", "not supported"])]
    assert len(undecided) >= 6
    for i, claim in undecided.iterrows():
        papers_side = {"+": 1, "-": -1}[claim["side"]]
        shift = partial(put_on_one_side, none=float(claim["none"]), side=side * papers_side)
        verdict = changed_claim(project, claim, "effect", i, shift)["verdict"]
        if claim["question"]:
            expected_word = verdicts.ANSWERS[expected]
        else:
            expected_word = expected
        assert verdict == expected_word, claim["claim"]


def put_on_one_side(path, column, none, side):
    """Put the interval of a table's effects on one side of no effect, far from it."""
    rows = pd.read_csv(path)
    rows[f"{column}_low"] = none + side * 900 - 1
    rows[f"{column}_high"] = none + side * 900 + 1
    rows.to_csv(path, index=False)


def test_every_untested_claim_is_decided_once_its_premise_is_met(project):
    untested = CLAIMS[CLAIMS["verdict"] == "not testable"]
    assert (untested["premise"] != "").all()
    claims = pd.read_csv(project / verdicts.CLAIMS, dtype=str, keep_default_na=False)
    claims["premise"] = ""
    claims.to_csv(project / verdicts.CLAIMS, index=False)

    outcome = verdicts.judged(project)

    assert "not testable" not in set(outcome["verdict"])
    others = CLAIMS["verdict"] != "not testable"
    assert (outcome["verdict"] == CLAIMS["verdict"])[others].all()


def test_the_effect_to_be_seen_stands_beside_what_is_not_shown_and_nowhere_else():
    is_not_shown = (CLAIMS["verdict"] == "not shown") | (CLAIMS["ours"] == "not shown")
    assert 5 <= is_not_shown.sum() < len(CLAIMS)
    assert ((CLAIMS["visible"] != "") == is_not_shown).all()


def test_a_number_pooled_over_judges_says_that_judges_are_fixed():
    effects = CLAIMS["effect"] + CLAIMS["ours_effect"] + CLAIMS["simulated_effect"]
    is_pooled = effects.str.contains("table4_pooled|table4_parts|what_if_printed")
    assert is_pooled.sum() >= 4
    assert CLAIMS[is_pooled]["resampled"].str.contains("judges").all()


def test_the_untrained_encoder_stands_below_the_small_model_alone():
    row = CLAIMS.index[CLAIMS["effect"].str.startswith("table4_effects: SLM alone, paper")][0]
    assert CLAIMS.loc[row + 1, "effect"].startswith("table4_effects: SLM less untrained, paper")
    assert CLAIMS.loc[row + 1, "ours"] == "yes"


def test_no_simulation_has_a_verdict():
    words_of_simulations = set(CLAIMS["simulated"]) - {""}
    assert words_of_simulations == set(verdicts.FOLLOWS.values())
    simulated = CLAIMS["simulated"] + CLAIMS["simulated_number"]
    assert not any(word in text for text in simulated for word in verdicts.LEGEND)


def test_a_question_of_ours_is_answered_and_gets_no_verdict():
    questions = CLAIMS[CLAIMS["question"] != ""]
    assert questions["claim"].str.startswith("Our question").all()
    assert set(questions["ours"]) <= set(verdicts.ANSWERS.values()) | {"not shown"}


def test_counts_come_first_and_are_those_of_the_claims():
    counts = verdicts.counts(CLAIMS)
    claims = CLAIMS[CLAIMS["question"] == ""]
    assert len(claims) < len(CLAIMS)
    assert counts["paper"].sum() == len(claims)
    assert counts["ours"].sum() == (claims["ours"] != "").sum()
    first_lines = verdicts.markdown(HERE).splitlines()[:4]
    assert first_lines[0].startswith("| verdict |")


def test_claims_in_a_notebook_hold_no_number_of_ours():
    text = verdicts.markdown(HERE, main=True)
    main_claims = text[text.index("| what the papers say") :]
    numbers = [*CLAIMS["verdict_number"], *CLAIMS["ours_number"]]
    assert sum("[" in number for number in numbers) > 30
    assert not any(number in main_claims for number in numbers if number)
    assert 2 < main_claims.count("\n") <= 10  # at most eight rows


def test_every_claim_says_what_was_resampled_and_the_same_llm_is_a_premise_wherever_it_is_named():
    assert (CLAIMS["resampled"] != "").all()
    names = CLAIMS["claim"] + CLAIMS["source"]
    names_llm = names.str.contains("530B|LLMs fail|than the LLMs")
    assert names_llm.sum() == 5
    assert CLAIMS[names_llm]["premise"].str.contains("which the claim names").all()
    assert (CLAIMS[names_llm]["verdict"] == "not testable").all()


def change_first_claim(project, **fields):
    claims = pd.read_csv(project / verdicts.CLAIMS, dtype=str, keep_default_na=False)
    for field, text in fields.items():
        claims.loc[0, field] = text
    claims.to_csv(project / verdicts.CLAIMS, index=False)


def test_a_premise_that_is_not_met_leaves_a_claim_untested(project):
    premise = "table4_effects: SLM alone, ours: value"
    places = {"premise_effect": premise, "ours_premise_effect": premise}
    change_first_claim(project, premise="a better model", least="0.9", **places)

    verdict = verdicts.judged(project).loc[0, "verdict"]

    assert CLAIMS.loc[0, "verdict"] == "smaller"
    assert verdict == "not testable"


@pytest.mark.parametrize(
    ("effect", "fault"),
    [
        ("table4_effects", "expected a number, or"),
        ("table4_effects: nothing: value", "0 of"),
    ],
)
def test_an_effect_that_no_table_has_is_an_error(project, effect, fault):
    change_first_claim(project, effect=effect, premise="", least="")
    with pytest.raises(DreError, match=fault):
        verdicts.judged(project)


# Pairs of a smaller and a larger number. Each is a number itself, or the name of words in prose
# (what notebooks 06 and 07 say is tested by their tables, in test_findings.py);
# after the name, the position of the number in these words, from 0.
BELOW = [
    ("04.unseen 0", "04.length 0"),
    ("04.slm 0", "04.own 0"),
    ("04.slm 1", "04.own 1"),
    ("04.slm 2", "04.own 2"),
]


def value(number_or_name):
    if not isinstance(number_or_name, str):
        return number_or_name
    name, _, position = number_or_name.partition(" ")
    numbers = re.findall(r"[−\d.]+", NUMBERS_IN_WORDS[name])
    number = numbers[int(position or 0)]
    return float(number.replace("−", "-"))


@pytest.mark.parametrize(("smaller", "larger"), BELOW)
def test_prose_has_the_direction_of_its_numbers(smaller, larger):
    assert value(smaller) < value(larger)


@pytest.fixture(scope="module")
def gain_at():
    """Return the function of the exercise in notebook 04, with our SLM and the released judges."""
    public = profile("public")
    set_names = [*ratings.RATED][:3]
    items = {name: ratings.rated(name) for name in set_names}
    slm = Remembered.recorded(f"all-ours-seed{public.seed}")
    judge = SimpleNamespace(name=released.CLAUDE)
    names_in_notebook = {
        "np": np,
        "OURS": "ours",
        "main_judge": judge,
        "items": items,
        "plain": {name: released.scores(name, with_gpt35=False) for name in set_names},
        "slms": {name: {"ours": [slm.score(table)]} for name, table in items.items()},
    }
    for book in notebooks(HERE):
        for cell in code_cells(book.content):
            if "def gain_at" in source(cell):
                exec(source(cell), names_in_notebook)
                return names_in_notebook["gain_at"]
    raise AssertionError("no notebook defines gain_at")


@needs_data
def test_the_exercise_of_notebook_04_shows_that_the_slm_does_not_help_the_strong_judge(gain_at):
    gain = partial(gain_at, judge_name=released.CLAUDE)
    assert abs(gain(0.1)) < 0.001
    assert gain(0.3) < 0
    assert gain(0.3) > gain(0.4)
    assert gain(0.4) > -0.005
    assert gain(0.5) < -0.005
    assert gain(0.5) > gain(1)


@needs_data
def test_the_exercise_of_notebook_04_shows_that_the_slm_helps_a_weak_judge_most_in_a_mixture(
    gain_at,
):
    gain = partial(gain_at, judge_name="Vicuna-13B")
    assert gain(0.5) > gain(0.2)
    assert gain(0.2) > 0
    assert gain(1) > 0
    assert gain(1) < gain(0.5)


@needs_data
def test_the_exercise_of_notebook_04_shows_that_a_little_of_the_slm_breaks_ties_of_a_judge(gain_at):
    gain = partial(gain_at, judge_name=released.HAIKU)
    assert gain(0.001) > 0.8 * gain(1)
    assert gain(1) > 0


def test_the_grid_of_notebook_08_was_made_with_the_slms_of_table_4():
    keys = ["slm", "fusion", "set", "judge"]
    tests = pd.read_csv(HERE / "results/public/table4_tests.csv")
    predictions = pd.read_csv(HERE / "results/what_if/predicted.csv")

    grid = predictions.merge(tests[[*keys, "difference"]], "left", on=keys)

    assert len(grid) >= 72
    measured = grid["measured"].tolist()
    expected = pytest.approx(grid["difference"].tolist(), abs=1e-4)
    assert measured == expected, "run python experiments/what_if/what_if_grid.py again"


def test_a_notebook_shows_a_claim_and_its_verdict_as_they_are_now(project):
    """Both follow the claims and the results; the name follows the words of the claim."""
    claim = CLAIMS[CLAIMS["ours"] != ""].iloc[0]
    slug = re.sub(r"[^a-z0-9]+", "_", claim["claim"].lower()).strip("_")
    cell = {"cell_type": "markdown", "id": "a", "metadata": {}}
    cell["source"] = f"> <!--claim.{slug}--><!--/-->\n> <!--verdict.{slug}-->old<!--/-->"
    path = project / "notebooks/04_x.ipynb"
    path.parent.mkdir()
    path.write_text(json.dumps({"cells": [cell], "metadata": {}}))

    words.check_names(project, [])
    assert words.fill(project) == [path]

    box, verdict = json.loads(path.read_text())["cells"][0]["source"]
    assert f"{claim['claim']} ({claim['source']})" in box
    assert f"**{claim['verdict']}**" in verdict and f"**{claim['ours']}**" in verdict

    claims = pd.read_csv(project / verdicts.CLAIMS, dtype=str, keep_default_na=False)
    claims.loc[claims["claim"] == claim["claim"], "claim"] = "Something else."
    claims.to_csv(project / verdicts.CLAIMS, index=False)
    with pytest.raises(DreError, match=f"claim.{slug}"):
        words.check_names(project, [])
