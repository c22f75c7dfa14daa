"""Verdicts follow from the tables of a profile by one rule."""

import shutil

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dre.datasets.registry import PROJECT
from dre.paper import verdicts
from dre.paper.profile import profile

CLAIMS = verdicts.judged(PROJECT, "public")
NUMBER = st.floats(-10, 10, allow_nan=False).map(lambda x: round(x, 2))
ADDED = ["measured", "verdict", "ours_measured", "ours", "why"]
DECIDED = ["reproduced", "smaller", "contradicted", "yes", "no, the opposite"]


@pytest.mark.parametrize(
    ("ends", "none", "size", "side", "expected"),
    [
        ((0.1, 0.3), 0, 0.2, 1, "reproduced"),
        ((0.3, 0.5), 0, 0.2, 1, "reproduced"),  # more than printed
        ((0.1, 0.3), 0, 0.4, 1, "smaller"),
        ((0.1, 0.3), 0, None, 1, "reproduced"),
        ((-0.1, 0.3), 0, 0.2, 1, "not shown"),
        ((0, 0.3), 0, 0.2, 1, "not shown"),
        ((-0.3, 0), 0, None, 1, "not shown"),
        ((-0.1, 0.3), 0, None, 1, "not shown"),
        ((-0.1, 0.1), 0, 0.2, 1, "not supported"),
        ((-0.3, -0.1), 0, 0.2, 1, "contradicted"),
        ((-0.3, -0.1), 0, -0.2, -1, "reproduced"),
        ((60, 70), 50, 90, 1, "smaller"),
        ((40, 45), 50, 90, 1, "contradicted"),
    ],
)
def test_the_word_by_hand(ends, none, size, side, expected):
    low, high = ends
    assert verdicts.word(low, high, none, size, side) == expected
    assert expected in verdicts.LEGEND


@given(low=NUMBER, width=st.floats(0.01, 5), none=NUMBER, size=NUMBER)
def test_the_word_does_not_depend_on_which_way_a_difference_is_taken(low, width, none, size):
    high = low + width
    word = verdicts.word(low, high, none, size, 1)
    assert word == verdicts.word(-high, -low, -none, -size, -1)


@pytest.fixture
def public(tmp_path):
    """Profile public in a project of its own, with the claims and the committed tables."""
    shutil.copytree(PROJECT / "results/public", tmp_path / "results/public")
    shutil.copytree(PROJECT / "profiles", tmp_path / "profiles")
    (tmp_path / "data").mkdir()
    shutil.copy(PROJECT / verdicts.CLAIMS, tmp_path / verdicts.CLAIMS)
    return profile("public", tmp_path)


def changed_verdicts(public, column, change):
    """Return the verdicts of a column after each claim's own interval was changed, and restored.

    ``change`` takes the ends of the interval, the value of no effect and the papers' side.
    """
    after = {}
    effect = {"verdict": "effect", "ours": "ours_effect"}[column]
    for i, claim in CLAIMS[CLAIMS[effect] != ""].iterrows():
        place = claim[effect].split(" or ")[0]
        table, end = place.split(": ")[0], place.rpartition(": ")[2]
        path = public.results / f"{table}.csv"
        rows = pd.read_csv(path)
        side, none = claim["expected"].split()
        ends = rows[f"{end}_low"], rows[f"{end}_high"]
        new_ends = change(*ends, float(none), {">": 1, "<": -1}[side])
        rows[f"{end}_low"], rows[f"{end}_high"] = new_ends
        rows.to_csv(path, index=False)
        CLAIMS.loc[[i]].drop(columns=ADDED).to_csv(public.root / verdicts.CLAIMS, index=False)
        after[i] = verdicts.judged(public.root, "public").loc[0, column]
        shutil.copy(PROJECT / f"results/public/{table}.csv", path)
    return pd.Series(after)


@pytest.mark.parametrize("column", ["verdict", "ours"])
def test_every_decided_verdict_turns_if_its_effect_is_turned_round(public, column):
    def turn_round(low, high, none, side):
        return 2 * none - high, 2 * none - low

    after = changed_verdicts(public, column, turn_round)
    decided = CLAIMS[column].isin(DECIDED)
    assert decided.sum() >= 6
    assert (after[decided[after.index]] != CLAIMS.loc[decided, column]).all()


@pytest.mark.parametrize(("direction", "word"), [(1, "reproduced"), (-1, "contradicted")])
def test_every_undecided_verdict_is_decided_if_its_effect_lies_on_one_side(public, direction, word):
    def put_on_one_side(low, high, none, side):
        middle = none + direction * side * 900 + 0 * low
        return middle - 1, middle + 1

    after = changed_verdicts(public, "verdict", put_on_one_side)
    undecided = CLAIMS["verdict"].isin(["not shown", "not supported"])
    assert undecided.sum() >= 6
    is_question = CLAIMS.loc[undecided, "source"] == "ours"
    expected = np.where(is_question, verdicts.ANSWERS[word], word)
    assert (after[undecided[after.index]] == expected).all()


def test_what_a_claim_needs_decides_whether_it_is_testable(public):
    claims = pd.read_csv(public.root / verdicts.CLAIMS, dtype=str, keep_default_na=False)
    claims.assign(premise="", needs="").to_csv(public.root / verdicts.CLAIMS, index=False)
    without = verdicts.judged(public.root, "public")["verdict"]
    was_testable = CLAIMS["verdict"] != "not testable"
    assert "not testable" not in set(without)
    assert (without == CLAIMS["verdict"])[was_testable].all()

    needs = "table4_effects: SLM alone, ours: value >= 0.9"
    claims.assign(premise="a better model", needs=needs).to_csv(
        public.root / verdicts.CLAIMS, index=False
    )
    assert set(verdicts.judged(public.root, "public")["verdict"]) == {"not testable"}


def test_an_llm_that_claims_name_is_a_premise_of_each_of_them():
    names_llm = (CLAIMS["claim"] + CLAIMS["source"]).str.contains("530B|LLMs fail|than the LLMs")
    assert names_llm.sum() == 5
    assert CLAIMS[names_llm]["why"].str.contains("which the claim names").all()
    assert set(CLAIMS[names_llm]["verdict"]) == {"not testable"}


def test_a_run_ends_with_a_file_of_verdicts_and_a_line_of_their_counts(public):
    line = verdicts.write(public)
    table = pd.read_csv(public.results / "verdicts.csv", keep_default_na=False)
    assert list(table["verdict"]) == list(CLAIMS["verdict"])
    claims = CLAIMS[CLAIMS["source"] != "ours"]
    n_smaller = (claims["verdict"] == "smaller").sum()
    assert f", {n_smaller} smaller, " in line and line.endswith(": results/public/verdicts.csv")
    counts = pd.read_csv(public.results / "verdict_counts.csv")
    assert counts["paper"].sum() == len(claims) < len(table)


def test_the_committed_verdicts_are_those_of_the_committed_tables(public):
    verdicts.write(public)
    for name in ("verdicts.csv", "verdict_counts.csv"):
        committed = (PROJECT / "results/public" / name).read_text()
        assert (public.results / name).read_text() == committed
    assert not set(CLAIMS[["verdict", "ours"]].stack()) & {"not run"}


def test_a_profile_without_a_table_or_a_value_has_other_verdicts_and_the_reason(public):
    (public.results / "training_effects.csv").unlink()
    file = public.results / "table4_effects.csv"
    pd.read_csv(file).assign(value_low=np.nan).to_csv(file, index=False)

    table = verdicts.judged(public.root, "public").set_index("claim")

    of_training = table.loc["Disentangling raises triplet accuracy."]
    assert (of_training["verdict"], of_training["measured"]) == ("not run", "")
    assert "there is no table training_effects.csv" in of_training["why"]
    alone = table.loc["The small model alone agrees with people."]
    assert alone["ours"] == "not run" and "no value in 'value_low'" in alone["why"]
    assert table.loc["The small model tells fitting from adversarial replies."]["verdict"] == (
        "smaller"
    )


def test_a_live_judge_that_was_shown_the_numbers_of_paper_has_verdicts_on_dre(public):
    (public.results / "what_if_interior.csv").unlink()
    for name in ("table4_interior", "table4_pooled"):
        file = public.results / f"{name}.csv"
        file.write_text(file.read_text().replace("as shown", "paper"))
    file = public.results / "table4_effects.csv"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if "as shown" not in line))

    table = verdicts.judged(public.root, "public")

    of_dre = table["effect"].str.contains(" or ")
    assert of_dre.sum() == 3
    assert set(table[of_dre]["verdict"]) == {"not testable"}  # by the number of paper


def test_the_verdicts_of_a_notebook_need_no_table_of_a_later_one(public):
    code = {path.stem[:2]: path.read_text() for path in PROJECT.glob("notebooks/*.ipynb")}
    first_named_in = {}
    for path in public.results.glob("*.csv"):
        naming = [number for number, text in code.items() if f'\\"{path.stem}\\"' in text]
        first_named_in[path] = min(naming, default="00")
    for number in sorted(CLAIMS["notebook"].str[:2].unique(), reverse=True):
        for path, writer in first_named_in.items():
            if writer > number:
                path.unlink(missing_ok=True)
        table = verdicts.of_notebook(public, number)
        assert len(table) and "not run" not in set(table["verdict"]), number
    assert not (public.results / "table3.csv").exists() and "ours" not in table


def test_a_notebook_shows_our_small_model_where_a_claim_is_measured_with_it():
    table = verdicts.of_notebook(profile("public", PROJECT), "04").set_index("claim")
    row = table.loc["Ex-DRE agrees with people better than its LLM, in most cases."]
    assert (row["verdict"], row["ours"]) == ("not testable", "reproduced")
