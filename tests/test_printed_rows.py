"""Tables of the papers are whole: with several judges, of other names and in another order."""

import numpy as np
import pandas as pd
import pytest
from test_table4 import NAMES, rated_items

from dre.datasets import registry
from dre.paper import judgements, printed_rows, table4
from dre.paper.methods import ALONE, DISTANCE, PROBABILITY, WHOLE, Method
from dre.paper.profile import JudgeSettings, profile
from dre.tables import beside_print

PAPERS = registry.PROJECT / "data/paper"
QWEN = JudgeSettings(model="ollama:qwen2.5:72b", name="qwen of mine")
GEMINI = JudgeSettings(model="gemini:gemini-1.5-flash")
OWN = JudgeSettings(model="openai:my-own-model")
GPT = JudgeSettings(model="openai:gpt-3.5-turbo-1106", name="three and a half")
RECORDED = "recorded:claude-2026-11"
ORDERS = [[QWEN, OWN, GPT, GEMINI, RECORDED], [RECORDED, GEMINI, GPT, OWN, QWEN], [OWN], [RECORDED]]


def panel_of(judges, *optional_prompts):
    changes = {"judges": tuple(judges), "optional_prompts": optional_prompts}
    return judgements.panel(profile("mini").model_copy(update=changes))


def scores_of(panel, names=tuple(NAMES), families=None):
    """Return made-up scores of every judge's methods, each another one, and of a small model."""
    items = {name: rated_items(number) for number, name in enumerate(names)}
    scores = table4.RatedScores(items, 20)
    rng = np.random.default_rng(0)
    for name, table in items.items():
        for family in () if families else (WHOLE, DISTANCE, PROBABILITY):
            scores.add(name, Method(family, slm="paper"), table["human"] + rng.normal(size=45))
        for judge in panel:
            methods = [Method(family, judge.name) for family in families or ()]
            if families is None:
                methods = [*table4.judge_rows(judge, "paper").values()]
                methods += printed_rows.slide_methods(judge, "paper").values()
            for method in methods:
                scores.add(name, method, table["human"] + rng.normal(size=45))
    return scores


TABLE_5 = ("Small model", ALONE, "SLIDE", "In-DRE", "Ex-DRE", "DRE")


@pytest.mark.parametrize("judges", ORDERS)
def test_table_5_has_every_row_of_the_run_and_of_print(judges):
    panel = panel_of(judges)
    names = NAMES[1:]
    scores = scores_of(panel, names, TABLE_5)
    table = printed_rows.table5(scores, panel, registry.PROJECT)

    run = {Method(family, judge.name) for judge in panel for family in TABLE_5}
    is_run = table["not_run"].isna()
    assert set(table.loc[is_run, "method"]) == run
    assert table["method"].is_unique
    assert (table.loc[is_run, "n"] == "45 / 45").all()
    assert table.loc[is_run, ["PersonaChat", "TopicalChat, Pearson"]].notna().all(axis=None)

    printed = pd.read_csv(PAPERS / "dre_table5.csv")
    own_row = table.set_index("in_print")
    for row in printed.to_dict("records"):
        of_judge = own_row.loc[[row["judge"]]]
        is_row = of_judge["TopicalChat, paper"] == row["topicalchat_spearman"]
        is_row &= of_judge["TopicalChat, Pearson, paper"] == row["topicalchat_pearson"]
        is_row &= of_judge["PersonaChat, paper"] == row["personachat_spearman"]
        is_row &= of_judge["PersonaChat, Pearson, paper"] == row["personachat_pearson"]
        assert is_row.sum() == 1, row["metric"]


def test_a_judge_of_table_5_stands_beside_its_own_printed_row_and_another_beside_the_mean():
    panel = panel_of([OWN, QWEN])
    scores = scores_of(panel, NAMES[1:], TABLE_5)
    table = printed_rows.table5(scores, panel, registry.PROJECT).set_index("method")
    of_qwen = table.loc[Method("DRE", "qwen of mine")]
    assert (of_qwen["PersonaChat, paper"], of_qwen["in_print"]) == (0.659, "Qwen2.5-72B")
    of_own = table.loc[Method("DRE", OWN.model)]
    assert of_own["PersonaChat, paper"] == pytest.approx((0.675 + 0.659 + 0.701) / 3)
    assert of_own["in_print"] == "mean of 3 other judges"
    of_llama = table.loc[Method("DRE", "llama3.3-70B")]
    assert of_llama["not_run"] == "the profile has no such judge"
    assert of_llama["PersonaChat, Pearson, paper"] == 0.614
    assert np.isnan(of_llama["PersonaChat"])
    own_rows = table[table["not_run"].isna()]
    assert not set(own_rows["in_print"].dropna()) & {"llama3.3-70B", "DeepSeek-R1-70B"}


def test_a_judge_that_was_shown_no_numbers_leaves_its_printed_row_with_the_reason():
    panel = panel_of([QWEN])
    scores = scores_of(panel, NAMES[1:], [ALONE])
    table = printed_rows.table5(scores, panel, registry.PROJECT).set_index("method")
    assert pd.isna(table.loc[Method(ALONE, "qwen of mine"), "not_run"])
    missing = table.loc[Method("DRE", "qwen of mine")]
    assert missing["not_run"] == "this judge was not shown these numbers"
    assert missing["PersonaChat, paper"] == 0.659


@pytest.mark.parametrize("judges", ORDERS)
def test_slides_table_2_has_every_printed_row_and_four_of_each_judge(judges):
    panel = panel_of(judges, "geval", "analyse_rate", "slide_a1")
    scores = scores_of(panel)
    printed = pd.read_csv(PAPERS / "slide_table2.csv")
    in_paper = table4.in_print(registry.PROJECT)
    table = printed_rows.slide_table2(scores, panel, in_paper, printed, "paper")

    assert list(table["method"].head(len(printed))) == list(printed["metric"])
    first = table.head(len(printed))
    assert (first["DailyDialog pearson printed"] == printed["dailydialog_pearson"]).all()
    assert (first["TopicalChat spearman printed"] == printed["topicalchat_spearman"]).all()
    for judge in panel:
        of_judge = table[table["judge"] == judge.name]
        assert len(of_judge) == 4, judge.name
        assert of_judge["not_run"].isna().all()
        assert (of_judge["n"] == "45 / 45 / 45").all()
    by_judge = table.set_index("judge")
    if GPT in judges:
        of_gpt = by_judge.loc["three and a half"]
        assert set(of_gpt["in_print"]) == {"GPT-3.5"}
        assert any(text.endswith("(0.73)") for text in of_gpt["DailyDialog, Pearson"])
    if OWN in judges:
        assert set(by_judge.loc[OWN.model, "in_print"]) == {"GPT-4"}
    # What nobody ran says so, and a judge of the profile never does as long as it was asked.
    is_gpt4 = table["method"].isin(["G-EVAL (GPT-4)", "SLIDE (GPT-4)"])
    assert set(table.loc[is_gpt4, "not_run"]) == {"the profile has no such judge"}
    assert table.loc[is_gpt4, "DailyDialog"].str.startswith("(").all()


def test_a_form_that_a_judge_was_not_asked_in_says_which_prompt_to_name():
    panel = panel_of([GPT])
    scores = table4.RatedScores({NAMES[0]: rated_items()}, 20)
    printed = pd.read_csv(PAPERS / "slide_table2.csv")
    in_paper = table4.in_print(registry.PROJECT)
    table = printed_rows.slide_table2(scores, panel, in_paper, printed, "paper")
    reasons = table.set_index("method")["not_run"]
    assert reasons["G-EVAL (GPT-3.5)"] == "optional_prompts does not name geval"
    assert reasons["SLIDE (GPT-3.5))"] == "optional_prompts does not name slide_a1"
    assert reasons["BARTSCORE"] == "needs weights from the Hub"
    assert reasons["BLEU-1"] == "not measured here"


@pytest.mark.parametrize("judges", ORDERS)
def test_table_4_has_every_printed_row_and_all_rows_of_all_judges(judges):
    panel = panel_of(judges, "geval", "analyse_rate")
    scores = scores_of(panel)
    in_paper = table4.in_print(registry.PROJECT)
    with_panel = table4.with_live_judges(in_paper, panel, "paper")
    whole = {}
    for statistic in ("spearman", "pearson"):
        printed = table4.printed_table(with_panel, NAMES, statistic, {})
        measured = scores.correlations(statistic)
        whole[statistic] = beside_print(measured, printed, "method")
    table = whole["spearman"].assign(**table4.in_papers_form(*whole.values(), NAMES))
    shown = table[table4.rows_of_paper(table, panel, "paper")].set_index("method")

    assert set(in_paper["metric"]) <= set(shown["row_in_print"])
    for judge in panel:
        rows = shown.loc[list(table4.judge_rows(judge, "paper").values())]
        assert (rows["n"] == "45 / 45 / 45").all()
        assert rows["PersonaChat, Pearson"].str.match(r"[\d−]").all()
    is_empty = shown["DailyDialog"].isna()
    assert shown.loc[is_empty, "DailyDialog, Pearson"].str.startswith("(").all()
    has_live = any(judge.is_live for judge in panel)
    of_llama = shown[shown["row_in_print"] == "DRE(llama3.3-70B)"].iloc[0]
    expected = "the profile has no such judge" if has_live else "is not among the recordings"
    assert of_llama["not_run"].endswith(expected)
