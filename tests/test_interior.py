"""What judges do with shown numbers, on made-up judges whose answer is known."""

import functools
import json

import numpy as np
import pandas as pd
import pytest
from conftest import HERE, experiment, needs_data
from matplotlib.collections import PathCollection
from scipy.stats import spearmanr

from dre import fusion, stats
from dre.datasets import ratings, recordings
from dre.errors import DreError
from dre.paper import interior
from dre.paper.methods import Method

N_CONTEXTS = 60
JUDGE = "made-up"


def made_up(follow, influence=None, levels=None, sets=("dailydialog-zhao",), seed=0):
    """What a judge says whose score goes so far from its own opinion to the numbers.

    ``levels``: how many different plain scores it has.
    """
    by_set = {}
    for number, name in enumerate(sets):
        rng = np.random.default_rng([seed, number])
        n = 5 * N_CONTEXTS
        human = rng.standard_normal(n)
        plain = 2.5 + 0.3 * human + 0.6 * rng.standard_normal(n)
        plain = plain.clip(0, 5)
        if levels:
            plain = np.floor(plain * levels / 5.0001) * 5 / levels
        items = pd.DataFrame(
            {
                "pair_id": [f"{name}/{i}" for i in range(n)],
                "context_id": np.repeat(np.arange(N_CONTEXTS), 5),
                "system": "",
                "human": human,
            }
        )
        informed = {}
        for label, quality in {"as printed": 0.8, interior.OTHER: 0.0}.items():
            noise = rng.standard_normal(n)
            good = quality * human + np.sqrt(1 - quality**2) * noise
            s_p = (0.5 + 0.2 * good).clip(0, 1)
            s_d = 1 - s_p
            s_c = fusion.s_c(s_d, s_p)
            score = ((1 - follow) * plain + follow * s_c * 2.5).clip(0, 5)
            moved = np.abs(score - plain)
            said = influence(moved, rng) if influence else np.full(n, 0.5)
            informed[label] = pd.DataFrame(
                {"score": score, "influence": said, "s_d": s_d, "s_p": s_p}
            )
        again = plain if levels else (plain + 0.05 * rng.standard_normal(n)).clip(0, 5)
        plain_table = pd.DataFrame({0: plain, 1: again})
        by_set[name] = interior.Judgements(items, plain_table, informed)
    return by_set


def effect(table, source, comparison, measure="overall"):
    row = table.set_index(["numbers", "comparison", "measure"]).loc[(source, comparison, measure)]
    return row["pooled"], row["pooled_low"], row["pooled_high"]


def effects_of(by_set):
    scores = interior.rated_scores(JUDGE, by_set)
    return interior.effects(JUDGE, scores)


@functools.cache
def made_up_effects(follow):
    """The effects of a made-up judge, which several tests read. None may change them."""
    return effects_of(made_up(follow))


def test_a_judge_that_copies_is_lifted_by_good_numbers_and_harmed_by_those_of_another_pair():
    by_set = made_up(follow=0.9)
    table = made_up_effects(follow=0.9)
    for measure in ("overall", "within_contexts"):
        value, low, high = effect(table, "as printed", "In-DRE less the judge", measure)
        assert low > 0.2
        value, low, high = effect(table, interior.OTHER, "In-DRE less the judge", measure)
        assert high < -0.1
    copied = interior.reactions(JUDGE, by_set).set_index("numbers")
    assert copied.loc[interior.OTHER, "pull"] == pytest.approx(0.9, abs=0.03)
    assert copied.loc[interior.OTHER, "follows"] > 0.95
    assert copied.loc["as printed", "keeps"] < copied.loc["as printed", "follows"]


def test_a_judge_that_does_not_look_at_the_numbers_has_no_pull_and_no_effect():
    by_set = made_up(follow=0.0)
    table = made_up_effects(follow=0.0)
    value, low, high = effect(table, "as printed", "In-DRE less the judge")
    assert low < 0 < high
    assert abs(value) < 0.02
    reactions = interior.reactions(JUDGE, by_set).set_index("numbers")
    assert reactions.loc["as printed", "pull_low"] < 0.02
    assert reactions.loc["as printed", "pull"] == pytest.approx(0, abs=0.02)
    assert reactions.loc["as printed", "keeps"] > 0.9


def test_the_gain_of_a_judge_of_few_scores_is_told_from_broken_ties():
    few = effects_of(made_up(follow=0.0, levels=3))
    many = made_up_effects(follow=0.0)
    of_few = effect(few, "as printed", "broken ties less the judge")
    of_many = effect(many, "as printed", "broken ties less the judge")
    assert of_few[1] > 0.1
    assert abs(of_many[0]) < 0.005


def test_gain_and_harm_are_held_against_each_other():
    by_set = made_up(follow=0.9)
    table = made_up_effects(follow=0.9)
    gain = effect(table, "as printed", "In-DRE less the judge")[0]
    harm = effect(table, interior.OTHER, "In-DRE less the judge")[0]
    both, low, high = effect(table, "as printed", interior.GAIN_AND_HARM)
    assert gain > 0 > harm
    assert both == pytest.approx(gain + harm)
    assert low < both < high
    reactions = interior.reactions(JUDGE, by_set).set_index("numbers")
    copies = reactions.loc[interior.OTHER]
    assert copies["copies"] == pytest.approx(copies["follows"], abs=0.1)  # alone: unrelated
    assert reactions.loc["as printed", "copies"] < reactions.loc["as printed", "follows"] - 0.2


def test_an_influence_that_means_something_rises_with_the_move():
    honest = made_up(follow=0.5, influence=lambda moved, rng: moved / 5)
    empty = made_up(follow=0.5, influence=lambda moved, rng: rng.uniform(size=len(moved)))
    means_something = interior.reactions(JUDGE, honest).set_index("numbers")
    means_nothing = interior.reactions(JUDGE, empty).set_index("numbers")
    assert means_something.loc["as printed", "moves_low"] > 0.8
    assert (
        means_nothing.loc["as printed", "moves_low"]
        < 0
        < (means_nothing.loc["as printed", "moves_high"])
    )
    always_half = interior.reactions(JUDGE, made_up(follow=0.5)).set_index("numbers")
    assert np.isnan(always_half.loc["as printed", "moves"])
    assert always_half.loc["as printed", "influence"] == pytest.approx(0.5)


def test_dre_is_the_product_of_what_the_judge_said_and_the_numbers():
    by_set = made_up(follow=0.4, influence=lambda moved, rng: rng.uniform(size=len(moved)))
    scores = interior.rated_scores(JUDGE, by_set).scores["dailydialog-zhao"]
    table = by_set["dailydialog-zhao"].informed["as printed"]
    plain = by_set["dailydialog-zhao"].plain
    s_c = 1 - table["s_d"] + table["s_p"]
    product = scores[Method("DRE", JUDGE, "as printed")][0]
    np.testing.assert_allclose(product, s_c * table["score"])
    with_influence = scores[Method("DRE", JUDGE, "as printed", "c")][0]
    np.testing.assert_allclose(with_influence, s_c * table["influence"] * table["score"])
    for asking in (0, 1):
        of_asking = scores[Method("Ex-DRE", JUDGE, "as printed")][asking]
        np.testing.assert_allclose(of_asking, s_c * plain[asking])


def test_a_reply_without_a_score_is_left_out_and_counted():
    by_set = made_up(follow=0.5)
    table = by_set["dailydialog-zhao"].informed["as printed"]
    table.loc[:9, ["score", "influence"]] = np.nan
    rows = effects_of(by_set).set_index(["numbers", "comparison", "measure"])
    assert rows.loc[("as printed", "In-DRE less the judge", "overall"), "pairs"] == 290
    assert rows.loc[("as printed", "Ex-DRE less the judge", "overall"), "pairs"] == 300
    reactions = interior.reactions(JUDGE, by_set).set_index("numbers")
    assert reactions.loc["as printed", "pull"] == pytest.approx(0.5, abs=0.05)


def test_more_pairs_can_show_a_smaller_difference():
    one = made_up_effects(follow=0.3).set_index(["numbers", "comparison", "measure"])
    sets = tuple(ratings.RATED)[:3]
    three = effects_of(made_up(follow=0.3, sets=sets)).set_index(
        ["numbers", "comparison", "measure"]
    )
    key = ("as printed", "In-DRE less the judge", "overall")
    assert three.loc[key, "seen"] < 0.8 * one.loc[key, "seen"]
    assert three.loc[key, "pairs"] == 3 * one.loc[key, "pairs"]


def test_every_comparison_names_methods_that_are_there():
    by_set = made_up(follow=0.5)
    scores = interior.rated_scores(JUDGE, by_set)
    for source in ("as printed", interior.OTHER):
        for first, second in interior.comparisons(JUDGE, source).values():
            assert scores.has("dailydialog-zhao", first, second)
    labels = set(effects_of(by_set).query(f'numbers == "{interior.OTHER}"')["comparison"])
    assert "In-DRE less another pair's numbers" not in labels  # with itself


def test_the_figure_has_a_row_for_all_numbers_with_both_judges_and_the_numbers_alone():
    tables = []
    for judge, follow in {"weak": 0.9, "strong": 0.0}.items():
        by_set = made_up(follow)
        scores = interior.rated_scores(judge, by_set)
        tables.append(interior.agreements(judge, scores))
    table = pd.concat(tables)
    figure = interior.side_by_side(table, "a title")
    (ax,) = figure.axes
    rows = [label.get_text() for label in ax.get_yticklabels()]
    assert rows == ["nothing", "as printed", interior.OTHER]
    marks = [c for c in ax.collections if isinstance(c, PathCollection)]
    by_judge = {judge: table[table["judge"] == judge] for judge in ("weak", "strong")}
    for drawn, of_judge in zip(marks, by_judge.values()):
        np.testing.assert_allclose(drawn.get_offsets()[:, 0], of_judge["In-DRE"])
    np.testing.assert_allclose(marks[2].get_offsets()[:, 0], by_judge["weak"]["alone"].dropna())
    paths = [mark.get_paths()[0].vertices.tobytes() for mark in marks]
    assert len(set(paths)) == 3  # other marks, so that it can be read in grey
    places = [set(np.round(mark.get_offsets()[:, 1] % 1, 6)) for mark in marks]
    assert not places[0] & places[1]


def test_a_comparison_has_one_row_with_both_measures_and_what_could_be_seen_in_each():
    effects = made_up_effects(follow=0.3)
    wide = interior.wide_effects(effects).set_index(["numbers", "comparison"])
    assert 2 * len(wide) == len(effects)
    row = wide.loc[("as printed", "In-DRE less the judge")]
    for measure, seen in (("overall", "seen"), ("within_contexts", "seen_within")):
        ends = effect(effects, "as printed", "In-DRE less the judge", measure)
        assert ends == (row[measure], row[f"{measure}_low"], row[f"{measure}_high"])
        assert row[seen] == pytest.approx(2.8 * (ends[2] - ends[1]) / 3.92, rel=0.01)


def test_askings_that_both_methods_rest_on_are_drawn_together():
    table = made_up_effects(follow=0.0)
    value, low, high = effect(table, "as printed", "broken ties less the judge")
    assert high - low < 0.002


@needs_data
def test_what_was_recorded_of_both_judges_is_compared_on_the_same_pairs(tmp_path, monkeypatch):
    weak_judge = experiment("recordings/weak_judge")
    drawn = pd.read_csv(weak_judge.DRAWN).query("part == 'asked'")
    set_name = drawn["pair_id"].str.partition("/")[0]
    few = drawn[drawn.groupby(set_name).cumcount() < 30]["pair_id"]
    monkeypatch.setattr(weak_judge, "FOLDER", tmp_path / interior.WEAK)
    (tmp_path / interior.WEAK).mkdir()
    lines = {}
    for condition in weak_judge.CONDITIONS[1:]:
        if condition.name == "dre_ours":
            continue
        rng = np.random.default_rng(len(condition.name))
        for i, pair_id in enumerate(few):
            if condition.name == "dre_other" and i == 0:
                continue  # a pair that one prompt lacks
            for ending in weak_judge.READINGS:
                name = condition.name + ending
                line = {"pair_id": pair_id, "prompt": name, "score": rng.integers(0, 50) / 10}
                if condition.template == "dre":
                    line["influence"] = 0.5
                if not ending:
                    line |= {"seconds": 1.0, "tokens": [1, 1]}
                lines[name, pair_id] = line
    weak_judge.write(list(lines.values()), {})
    for path in (recordings.FOLDER / interior.WEAK).glob("*.csv"):
        (tmp_path / interior.WEAK / path.name).write_bytes(path.read_bytes())
    strong = recordings.FOLDER / interior.STRONG
    monkeypatch.setattr(recordings, "FOLDER", tmp_path)
    (tmp_path / interior.STRONG).symlink_to(strong)

    items = interior.asked_of_all()
    assert sum(len(table) for table in items.values()) == len(few) - 1
    of_weak = interior.judgements(interior.WEAK, items)
    of_strong = interior.judgements(interior.STRONG, items)
    for name in items:
        assert list(of_weak[name].items["pair_id"]) == list(of_strong[name].items["pair_id"])
        assert set(of_weak[name].informed) == set(of_strong[name].informed)
        line = lines["dre_as_printed", items[name]["pair_id"][0]]
        assert of_weak[name].informed["as printed"]["score"][0] == line["score"]
        # The strong judge's scores are those of its own recording, beside the same numbers.
        inputs = pd.read_csv(strong / "dre_as_printed.csv", index_col="pair_id")
        numbers = inputs.loc[items[name]["pair_id"]]
        shown = of_strong[name].informed["as printed"]
        np.testing.assert_allclose(shown["s_d"], numbers["s_d"], atol=1e-6)
    tables = interior.both()
    assert set(tables["effects"]["judge"]) == {"weak", "strong"}
    assert json.loads((tmp_path / interior.WEAK / "manifest.json").read_text())["judgements"]


def test_a_judge_that_was_not_recorded_is_an_error_that_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(recordings, "FOLDER", tmp_path)
    with pytest.raises(DreError, match="no recording"):
        interior.asked_of_all()


def test_an_interval_over_few_contexts_covers_as_often_as_it_says():
    """Three sets of three contexts: the mean of sets of plain means."""
    rng = np.random.default_rng(0)
    n_worlds = 1000
    n_covered = 0
    for _ in range(n_worlds):
        by_set = []
        for of_contexts in rng.standard_normal((3, 3)):
            without = (of_contexts.sum() - of_contexts) / 2
            by_set.append(np.array([of_contexts.mean(), *without]))
        row = interior.jackknife(by_set, "x")
        n_covered += row["x_low"] <= 0 <= row["x_high"]
    assert 0.93 < n_covered / n_worlds < 0.97
    one_context = interior.jackknife([by_set[0], np.array([0.1, 0.2])], "x")
    assert one_context["x"] == pytest.approx((by_set[0][0] + 0.1) / 2)
    assert np.isnan(one_context["x_low"]) and np.isnan(one_context["x_high"])


def test_with_many_contexts_intervals_are_those_of_the_rest_of_the_project():
    by_set = made_up(follow=0.5)
    scores = interior.rated_scores(JUDGE, by_set)
    row = interior.agreements(JUDGE, scores).set_index("numbers").loc["as printed"]
    [of_set] = by_set.values()
    score = of_set.informed["as printed"]["score"]
    people = (of_set.items["human"], of_set.items["context_id"])
    drawn = stats.interval(stats.draws(score, *people, n=1000), "r")
    assert row["In-DRE"] == pytest.approx(drawn["r"])
    assert row["In-DRE_low"] == pytest.approx(drawn["r_low"], abs=0.02)
    assert row["In-DRE_high"] == pytest.approx(drawn["r_high"], abs=0.02)
    within = stats.agreements(score, *people, n=0, measures=["within_contexts"])
    effects = interior.effects(JUDGE, scores).set_index(["numbers", "comparison", "measure"])
    plain = of_set.plain.mean(axis=1)
    of_plain = [
        stats.agreements(of_set.plain[k], *people, n=0, measures=["within_contexts"])
        for k in (0, 1)
    ]
    expected = within["within_contexts"][0, 0] - np.mean(
        [one["within_contexts"][0, 0] for one in of_plain]
    )
    key = ("as printed", "In-DRE less the judge", "within_contexts")
    assert effects.loc[key, "pooled"] == pytest.approx(expected, abs=1e-9)
    assert plain.notna().all()


# What was recorded, computed again by other code


def recorded_lines(judge, prompts):
    """What a judge said, by prompt and pair: the scores of its file, without the package."""
    by_prompt = {prompt: {} for prompt in prompts}
    with open(recordings.FOLDER / judge / "judgements.jsonl", encoding="utf-8") as file:
        for line in map(json.loads, file):
            if line["prompt"] in by_prompt and not line.get("repeat"):
                by_prompt[line["prompt"]][line["pair_id"]] = line.get("score")
    return by_prompt


@needs_data
def test_the_table_of_the_weak_judge_is_what_plain_scipy_makes_of_its_recording():
    numbers = ["dre_inputs", "dre_inputs_ours", "dre_as_printed", "dre_other"]
    shown_in = dict(zip(["paper", "ours", "as printed", interior.OTHER], numbers))
    prompt_of = dict(zip(shown_in, ["dre", "dre_ours", "dre_as_printed", "dre_other"]))
    plain = ["llm_only", "llm_only_reworded"]
    said = recorded_lines(interior.WEAK, [*plain, *prompt_of.values()])
    pair_ids = set.intersection(*(set(scores) for scores in said.values()))
    if not pair_ids:
        pytest.skip("no pair was asked with every prompt")
    table = pd.read_csv(HERE / "results/public/weak_judge_effects.csv")
    table = table[table["measure"] == "overall"].set_index(["judge", "numbers", "comparison"])
    for source, file_name in shown_in.items():
        file = recordings.FOLDER / interior.WEAK / f"{file_name}.csv"
        inputs = pd.read_csv(file, index_col="pair_id")
        by_set = {"In-DRE": [], "DRE": [], "Ex-DRE": [], "SLM": [], "alone": []}
        for name in list(ratings.RATED)[:3]:
            items = ratings.rated(name)
            items = items[items["pair_id"].isin(pair_ids)]
            ids = list(items["pair_id"])
            people = items["human"].to_numpy()
            s_c = 1 - inputs.loc[ids, "s_d"].to_numpy() + inputs.loc[ids, "s_p"].to_numpy()
            score = np.array([said[prompt_of[source]][pair_id] for pair_id in ids], float)
            askings = np.array([[said[prompt][pair_id] for pair_id in ids] for prompt in plain])
            assert not np.isnan(score).any() and not np.isnan(askings.astype(float)).any()
            by_set["In-DRE"].append(spearmanr(score, people).statistic)
            by_set["DRE"].append(spearmanr(s_c * score, people).statistic)
            by_set["SLM"].append(spearmanr(s_c, people).statistic)
            of_askings = [spearmanr(asking, people).statistic for asking in askings]
            by_set["alone"].append(np.mean(of_askings))
            products = [spearmanr(s_c * asking, people).statistic for asking in askings]
            by_set["Ex-DRE"].append(np.mean(products))
        mean = {method: np.mean(of_sets) for method, of_sets in by_set.items()}
        expected = {
            "In-DRE less the judge": mean["In-DRE"] - mean["alone"],
            "In-DRE less the small model": mean["In-DRE"] - mean["SLM"],
            "DRE less the judge": mean["DRE"] - mean["alone"],
            "DRE less the small model": mean["DRE"] - mean["SLM"],
            "DRE less Ex-DRE": mean["DRE"] - mean["Ex-DRE"],
        }
        for comparison, value in expected.items():
            row = table.loc[("weak", source, comparison)]
            assert row["pooled"] == pytest.approx(value, abs=1e-5), (source, comparison)
            assert row["pairs"] == len(pair_ids)
