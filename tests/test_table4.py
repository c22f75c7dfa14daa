"""Table 4: scores of methods, gains over both parts, and what the paper prints beside them."""

import numpy as np
import pandas as pd
import pytest

from dre.datasets import ratings, registry
from dre.errors import DreError
from dre.paper import judgements, table4, table4_plots
from dre.paper.methods import DISTANCE, PROBABILITY, WHOLE, Method
from dre.paper.profile import profile

NAMES = ["dailydialog-zhao", "personachat-usr", "topicalchat-usr"]
JUDGE = Method("LLM-only", "a judge")
SLM = Method(WHOLE, slm="paper")
EX_DRE = Method("Ex-DRE", "a judge", "paper")


def rated_items(seed=0, contexts=15):
    """Return a made-up table of rated replies by three systems."""
    rng = np.random.default_rng(seed)
    rows = 3 * contexts
    return pd.DataFrame(
        {
            "pair_id": np.arange(rows),
            "context_id": np.repeat(np.arange(contexts), 3),
            "system": np.tile(["Original Ground Truth", "one", "other"], contexts),
            "human": rng.integers(1, 6, rows).astype(float),
            "ratings": [list(values) for values in rng.integers(1, 6, (rows, 3))],
        },
        index=np.arange(rows) + 7,  # any labels
    )


@pytest.fixture
def scores():
    """Return scores of a judge, a small model with two seeds and their fusion on three sets."""
    table = table4.RatedScores({name: rated_items(i) for i, name in enumerate(NAMES)}, 50)
    rng = np.random.default_rng(1)
    for name, items in table.items.items():
        noise = rng.normal(size=(3, len(items)))
        judge = items["human"] + 0.5 * noise[0]
        slm = [items["human"] + 3 * noise[i] for i in (1, 2)]
        table.add(name, JUDGE, judge)
        table.add(name, SLM, slm)
        table.add(name, EX_DRE, [judge * s for s in slm])
    return table


def test_methods_come_in_the_order_in_which_they_were_added(scores):
    assert scores.methods == [JUDGE, SLM, EX_DRE]


def test_a_method_that_scored_nothing_is_an_error_that_names_it_and_the_set(scores):
    missing = Method("LLM-only", "another judge")
    with pytest.raises(DreError, match=r"LLM-only \(another judge\) on DailyDialog"):
        scores.gain(NAMES[0], EX_DRE, missing)
    with pytest.raises(DreError, match=r"LLM-only \(another judge\) on any set"):
        scores.mean_agreement(missing)


def test_a_fusion_without_one_of_its_parts_is_not_compared(scores):
    product = scores.of(NAMES[0], EX_DRE)
    scores.add(NAMES[0], Method("Ex-DRE", "a judge", "other"), product)
    gains = table4.fusion_gains(scores, {"a judge": "open"}, ["Ex-DRE"], ["other"])
    assert gains.rows.empty


def test_other_readings_of_a_fusion_are_not_pooled_with_it(scores):
    again = Method("Ex-DRE", "a judge", "paper", "again")
    scores.add(NAMES[0], again, scores.of(NAMES[0], EX_DRE))
    gains = table4.fusion_gains(scores, {"a judge": "open"}, ["Ex-DRE"], ["paper"])
    assert len(gains.rows) == 3 * len(table4.PARTS)


def test_a_correlation_is_the_mean_over_seeds_of_the_rows_that_have_scores(scores):
    name = NAMES[0]
    items = scores.items[name]
    score = items["human"].where(items.index > 12)
    scores.add(name, Method("partly"), score)

    table = scores.correlations().set_index("method")

    slm = scores.of(name, SLM)
    expected = slm.corrwith(items["human"], method="spearman").mean()
    assert table.loc[SLM, "DailyDialog"] == pytest.approx(expected)
    assert table.loc[Method("partly"), "DailyDialog"] == pytest.approx(1)
    assert np.isnan(table.loc[Method("partly"), "PersonaChat"])


def test_a_mean_gain_is_the_mean_over_sets_of_the_difference_and_turns_round(scores):
    gain = scores.mean_gain(JUDGE, SLM)

    expected = scores.mean_agreement(JUDGE)[0, 0] - scores.mean_agreement(SLM)[0].mean()
    assert gain[0].mean() == pytest.approx(expected)
    assert gain[0].mean() > 0
    assert np.allclose(scores.mean_gain(SLM, JUDGE), -gain)


def test_a_fusion_is_compared_with_both_parts_and_with_the_better_of_the_two(scores):
    gains = table4.fusion_gains(scores, {"a judge": "strong"}, ["Ex-DRE"], ["paper"])

    rows = gains.rows
    assert rows["less"].tolist() == list(table4.PARTS) * 3
    assert set(rows["better"]) == {"judge"}
    assert set(rows["decided"]) == {"on other sets"}
    over_judge, over_slm, over_better = [gain["overall"][0].mean() for gain in gains.draws[:3]]
    assert over_better == over_judge
    assert over_slm > over_judge


def test_where_no_other_set_can_decide_the_set_itself_says_which_part_is_better(scores):
    only = table4.RatedScores({NAMES[0]: scores.items[NAMES[0]]}, 20)
    for method in scores.methods:
        only.add(NAMES[0], method, scores.of(NAMES[0], method))

    gains = table4.fusion_gains(only, {"a judge": "open"}, ["Ex-DRE"], ["paper"])

    assert set(gains.rows["decided"]) == {"here"}


def test_which_part_is_better_is_decided_on_other_sets():
    """The judge is better on the first set alone, so the small model counts as better there."""
    table = table4.RatedScores({name: rated_items(i) for i, name in enumerate(NAMES)}, 10)
    for i, (name, items) in enumerate(table.items.items()):
        good = items["human"]
        bad = -items["human"]
        table.add(name, JUDGE, good if i == 0 else bad)
        table.add(name, SLM, bad if i == 0 else good)
        table.add(name, EX_DRE, good)

    rows = table4.fusion_gains(table, {"a judge": "open"}, ["Ex-DRE"], ["paper"]).rows

    assert rows.groupby("set", sort=False)["better"].first().iloc[0] == "small model"


def test_a_class_mean_says_how_many_pairs_gain_and_what_could_have_been_seen(scores):
    gains = table4.fusion_gains(scores, {"a judge": "strong"}, ["Ex-DRE"], ["paper"])

    means = table4.class_means(gains)

    over_judge = means[means["less"] == "judge"].iloc[0]
    expected = np.mean([gain["overall"][0].mean() for gain in gains.draws[::3]])
    assert over_judge["gain"] == pytest.approx(expected)
    assert over_judge["pairs"] == 3
    half_width = (over_judge["gain_high"] - over_judge["gain_low"]) / 2
    assert over_judge["seen"] == pytest.approx(half_width * 2.8 / 1.96)
    assert set(means["judges"]) == {"strong", "all"}  # there is no class with an open judge
    wide = table4.wide_gains(means)
    assert wide.loc[0, "strong"] == pytest.approx(expected)
    assert list(table4.wide_gains(means.head(0))) == ["fusion", "slm"]  # nothing was compared


def test_a_judge_of_no_class_stands_alone_and_counts_among_all(scores):
    strength_of = table4.strengths([], {NAMES[0]: ["a judge", "Qwen-14B"]})
    assert strength_of == {"a judge": "a judge", "Qwen-14B": "open"}
    gains = table4.fusion_gains(scores, strength_of, ["Ex-DRE"], ["paper"])

    means = table4.class_means(gains)

    assert set(means["judges"]) == {"a judge", "all"}
    figure = table4_plots.class_gains({"Ex-DRE": means})
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["a judge"]
    assert table4.counts_in_words(gains).endswith(": a judge, 1 judge in 3 pairs.")


def test_in_print_dre_is_hardly_above_its_own_small_model():
    in_paper = table4.in_print(registry.PROJECT)

    gains = table4.printed_gains(in_paper).set_index(["fusion", "less"])

    dre = in_paper[in_paper["method"] == "DRE"].filter(like="spearman").to_numpy()
    slm = np.array([0.666, 0.707, 0.727])
    assert gains.loc[("DRE", "SLM"), "gain"] == pytest.approx((dre - slm).mean())
    assert gains.loc[("DRE", "SLM"), "above"] == ((dre - slm) > 0).sum() == 11
    assert gains.loc[("DRE", "SLM"), "cells"] == 18


def printed(file, *names):
    """Return the Spearman correlations of named rows of a printed table, read by hand."""
    table = pd.read_csv(registry.PROJECT / f"data/paper/{file}.csv").set_index("metric")
    return table.filter(like="spearman").loc[list(names)].to_numpy()


def test_in_print_closed_and_open_judges_part_over_the_small_model():
    """The mean of both classes is near zero, and says neither."""
    gains = table4.printed_gains(table4.in_print(registry.PROJECT)).set_index(["fusion", "less"])

    closed = [f"DRE({judge})" for judge in ("GPT-3.5", "Claude3", "Gemini")]
    open_judges = [f"DRE({judge})" for judge in ("llama3.3-70B", "Qwen2.5-72B", "DeepSeek-R1-70B")]
    slm = printed("dre_table4", "Ours (SLM-Dis and Prob)")
    row = gains.loc[("DRE", "SLM")]
    assert row["closed"] == pytest.approx((printed("dre_table4", *closed) - slm).mean())
    assert row["open"] == pytest.approx((printed("dre_table4", *open_judges) - slm).mean())
    assert row["closed"] > 0.02 and row["open"] < -0.02
    assert (row["closed_above"], row["open_above"]) == ("9 of 9", "2 of 9")


def test_in_print_a_gain_over_the_judge_of_the_other_block_is_smaller():
    gains = table4.printed_gains(table4.in_print(registry.PROJECT)).set_index(["fusion", "less"])

    judges = ("GPT-3.5", "Claude3", "Gemini")
    fused = printed("dre_table4", *(f"DRE({judge})" for judge in judges))
    alone = printed("dre_table4", *(f"Ours (LLMs-only ({judge}))" for judge in judges))
    row = gains.loc[("DRE", "LLMs-only")]
    assert row["gain"] == row["closed"] == pytest.approx((fused - alone).mean())
    assert row["cells"] == 9 and row["open_above"] == "" and np.isnan(row["open"])
    assert row["closed"] < gains.loc[("DRE", "Non-DRE"), "closed"]


def test_in_slides_own_table_the_fusion_gains_less_the_better_its_judge_is():
    slide_rows = pd.read_csv(registry.PROJECT / "data/paper/slide_table2.csv")

    gains = table4.slides_gains_in_print(slide_rows)

    assert list(gains["judge"]) == ["GPT-3.5", "Gemini", "GPT-4"]
    fused, alone = printed("slide_table2", "SLIDE (GPT-4)", "Ours (LLMs-only (GPT-4))")
    last = gains.iloc[-1]
    assert last["gain"] == pytest.approx((fused - alone).mean())
    assert last["above"] == "1 of 3"
    assert list(gains["gain"]) == sorted(gains["gain"], reverse=True)


def test_two_askings_are_drawn_apart():
    twice = np.tile([0.1, 0.3], (2001, 1))

    difference = table4.apart(twice, twice)

    assert difference[0] == 0
    # Each side has a variance of 0.1 ** 2 / 2; drawn together, the difference would not vary.
    assert difference[1:].std() == pytest.approx(0.1, abs=0.01)


def test_the_papers_human_score_brings_each_criterion_to_0_to_1():
    criteria = {"natural": 3, "maintains_context": 2, "engaging": 1, "uses_knowledge": 1}
    assert table4.papers_target(pd.DataFrame([criteria]))[0] == pytest.approx(2.5 / 4)


def test_kappa_by_hand():
    # Raters agree on three of four rows; by chance they would on (3/4 * 2/4 + 1/4 * 2/4).
    lowest, mean, highest = table4.mean_kappa(np.array([[1, 1], [1, 1], [1, 2], [2, 2]]))
    assert lowest == mean == highest == pytest.approx((0.75 - 0.5) / (1 - 0.5))


def test_what_the_paper_prints_stands_in_brackets():
    assert table4.ours_and_printed(-0.123, 0.5) == "−0.12 (0.50)"
    assert table4.ours_and_printed(0.123, np.nan) == "0.12"
    assert table4.ours_and_printed(np.nan, 0.5) == ""


def test_the_main_table_has_the_mean_over_sets_and_an_empty_row_of_what_was_not_run(scores):
    printed = pd.DataFrame({"method": [JUDGE], "DailyDialog": 0.1})
    printed = printed.assign(PersonaChat=0.2, TopicalChat=0.3)

    table = table4.main_table(
        scores, printed, printed, {"the judge": JUDGE, "nobody": Method("LLM-only", "nobody")}
    )

    assert table["method"].tolist() == ["the judge", "nobody"]
    assert table.loc[1, "PersonaChat"] == "" and np.isnan(table.loc[1, "mean"])
    assert table.loc[0, "printed"] == pytest.approx(0.2)
    by_set = [scores.agreement(name, JUDGE)["overall"][0, 0] for name in NAMES]
    assert table.loc[0, "mean"] == pytest.approx(np.mean(by_set))
    assert table.loc[0, "PersonaChat"].endswith("(0.20)")


def test_differences_are_pooled_over_the_sets_that_have_both(scores):
    comparisons = {
        "fusion less judge": (EX_DRE, JUDGE),
        "not run": (Method("Ex-DRE", "nobody", "paper"), JUDGE),
    }

    table = table4.differences(scores, comparisons)

    assert table["comparison"].tolist() == ["fusion less judge", "not run"]
    assert np.isnan(table.loc[1, "pooled"])
    row = table.iloc[0]
    titles = [ratings.RATED[name] for name in NAMES]
    assert row["pooled"] == pytest.approx(row[titles].mean())
    assert row["seen"] > 0


def test_raters_stand_above_the_methods_and_have_no_ceiling_for_ordered_pairs(scores):
    table = table4.measures_table(scores, {"the judge": JUDGE}, NAMES[1:2])

    assert table["score"].tolist() == ["highest possible", "one rater, the others", "the judge"]
    assert np.isnan(table.loc[0, "ordered_pairs"])
    assert table.loc[1:, "ordered_pairs"].between(0, 1).all()


def test_machines_are_ranked_without_people(scores):
    table = table4.rank_systems(scores, {"the judge": JUDGE}, 200)
    assert table.loc[0, "PersonaChat, machines"] <= 1
    assert table.loc[0, "PersonaChat"] <= 1


def test_random_numbers_rank_systems_better_than_a_coin_where_people_are_not_certain():
    contexts = np.repeat(np.arange(30), 2)
    is_second = np.tile([False, True], 30)
    table = pd.DataFrame({"context_id": contexts, "system": np.where(is_second, "one", "other")})
    sure = table.assign(human=np.where(is_second, 4.0, 2.0))
    torn = table.assign(human=np.where(contexts % 2, is_second, ~is_second).astype(float))

    ranked = {}
    for name, rated in (("sure", sure), ("torn", torn)):
        by_set = table4.RatedScores({"personachat-usr": rated}, 0)
        rows = table4.rank_systems(by_set, {}, 20, n_random=100).set_index("score")
        ranked[name] = rows.loc["random numbers", "PersonaChat"]

    assert ranked["sure"] == pytest.approx(0.5, abs=0.08)
    assert ranked["torn"] == pytest.approx(0.75, abs=0.08)


def test_gains_by_measure_have_a_row_for_each_class_and_part(scores):
    gains = table4.fusion_gains(scores, {"a judge": "strong"}, ["Ex-DRE"], ["paper"])
    by_measure = {
        measure: table4.class_means(gains, measure) for measure in ("overall", "ordered_pairs")
    }
    means = pd.concat([table.assign(way=measure) for measure, table in by_measure.items()])

    table = table4.gains_by_measure(means, "Ex-DRE", "paper")

    assert table[["judges", "less"]].to_numpy().tolist() == [
        ["strong", "judge"],
        ["strong", "better part"],
    ]
    assert table.loc[0, "overall"] == by_measure["overall"]["gain"].iloc[0]
    assert table.loc[0, "seen"] == by_measure["overall"]["seen"].iloc[0]


def test_the_figure_of_gains_has_a_row_for_each_class_that_was_measured(scores):
    gains = table4.fusion_gains(scores, {"a judge": "strong"}, ["Ex-DRE"], ["paper"])

    figure = table4_plots.class_gains({"Ex-DRE": table4.class_means(gains)})

    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["the strong judge"]
    assert len(figure.axes[0].collections) == 6  # a mark and an interval for each part


def test_ablations_are_differences_as_printed_and_as_measured(scores):
    in_paper = table4.in_print(registry.PROJECT)
    for name, items in scores.items.items():
        for part in (DISTANCE, PROBABILITY):
            worse = items["human"] * 0 + np.arange(len(items))
            scores.add(name, Method(part, slm="paper"), worse)
        scores.add(name, Method("BLEU-1"), items["human"])
        scores.add(name, Method("BLEU-1", reading="another"), items["human"])
    row_of = {"LLM-Chiang": Method("not run"), "G-EVAL": Method("not run")}

    table = table4.ablations(scores, in_paper, row_of, "paper").set_index("claim")

    dis = table.loc["Prob & Dis agrees better than Dis alone"]
    assert dis["printed"] == pytest.approx((0.066 + 0.015 + 0.054) / 3)
    measured = scores.mean_agreement(SLM)[0].mean()
    measured -= scores.mean_agreement(Method(DISTANCE, slm="paper"))[0, 0]
    assert dis["here"] == pytest.approx(measured)
    words = table.loc["Every word-overlap metric stays below 0.4 (the highest)"]
    assert words["here"] == pytest.approx(1)
    assert words["printed"] == pytest.approx(0.33)


def live_panel(*models, optional_prompts=()):
    """Return live judges that nobody asks anything, and the paper's table with their rows."""
    changes = {"judges": models, "optional_prompts": optional_prompts}
    panel = judgements.panel(profile("mini").model_copy(update=changes))
    in_paper = table4.in_print(registry.PROJECT)
    return panel, in_paper, table4.with_live_judges(in_paper, panel, "paper")


def test_the_rows_of_a_live_judge_stand_beside_the_papers_and_one_that_is_not_asked_says_so():
    _, _, table = live_panel("anthropic:claude-3-haiku-20240307", optional_prompts=("geval",))
    of_claude = table[table["judge"] == "Claude3"].set_index("method")
    name = "anthropic:claude-3-haiku-20240307"
    assert of_claude.loc["DRE", "key"] == Method("DRE", name, "paper")
    assert of_claude.loc["G-EVAL", "key"] == Method("G-EVAL", name)
    assert of_claude.loc["LLMs-only", "not_run"] == "the same scores as in row Non-DRE"
    asked = of_claude.drop(index=["LLM-Chiang", "LLMs-only"])
    assert asked["not_run"].isna().all()
    reason = "optional_prompts does not name analyse_rate"
    assert of_claude.loc["LLM-Chiang", "not_run"] == reason


def test_a_recorded_row_keeps_its_partner_where_a_live_judge_is_not_asked():
    _, in_paper, table = live_panel("openai:gpt-3.5-turbo-1106")
    is_geval = table["metric"] == "G-EVAL (GPT-3.5)"
    assert list(table.loc[is_geval, "key"]) == list(in_paper.loc[is_geval, "key"])
    assert table.loc[is_geval, "key"].notna().all()


def test_a_control_that_only_breaks_ties_shows_which_gain_is_ties():
    # The first judge has two scores and otherwise people's order; the second has no tie.
    items = {name: rated_items(i) for i, name in enumerate(NAMES)}
    table = table4.RatedScores(items, 20)
    for name, rated in items.items():
        people = rated["human"] + np.arange(len(rated)) / 1000
        table.add(name, SLM, people / 6)
        table.add(name, Method("LLM-only", "two steps"), (rated["human"] > 3).astype(float) + 1)
        table.add(name, Method("LLM-only", "fine"), 6 - people)
    groups = {"both": ["two steps", "fine"], "two steps": ["two steps"], "fine": ["fine"]}
    ties = table4.tie_controls(table, {**groups, "nobody": ["absent"]}, "paper")
    assert list(ties["judges"]) == ["both", "two steps", "fine"]
    assert list(ties["pairs"]) == [6, 3, 3]
    by_judge = ties.set_index("judges")

    # By hand: broken by people's own order, the ties of the first judge are the whole gain.
    gains = []
    for rated in items.values():
        alone = (rated["human"] > 3).astype(float)
        people = rated["human"] + np.arange(len(rated)) / 1000
        as_broken = people.corr(rated["human"], "spearman")
        gains.append(as_broken - alone.corr(rated["human"], "spearman"))
    assert by_judge.loc["two steps", "breaks ties"] == pytest.approx(np.mean(gains))
    assert by_judge.loc["two steps", "random ties"] < 0  # a random order adds noise
    # A judge without ties gains from the product alone.
    assert by_judge.loc["fine", "breaks ties"] == pytest.approx(0, abs=1e-9)
    assert by_judge.loc["fine", "small model"] > 0.1
    mean = (by_judge.loc["two steps", "small model"] + by_judge.loc["fine", "small model"]) / 2
    assert by_judge.loc["both", "small model"] == pytest.approx(mean)
