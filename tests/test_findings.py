"""What notebooks 00, 06 and 07 say in words holds of the numbers in their tables."""

import pandas as pd
import pytest
from test_paper import HERE

from dre.judges.released import CLAUDE
from dre.paper import table4

RESULTS = HERE / "results/public"
STRENGTHS = ("open", "middle", "strong")


def table(name, *index):
    return pd.read_csv(RESULTS / f"{name}.csv").set_index(list(index))


@pytest.fixture(scope="module")
def gains():
    return table("fusion_harm", "fusion", "over")


@pytest.fixture(scope="module")
def audit():
    return table("audit", "model")


# Notebook 07


def test_in_print_a_fusion_beats_the_small_model_with_closed_judges_and_not_with_open_ones():
    over_slm = table4.printed_gains(table4.in_print(HERE)).query("less == 'SLM'")
    over_slm = over_slm.set_index("fusion")
    assert (over_slm["closed"] > 0).all()
    assert (over_slm["open"].dropna() < 0).all()


def test_the_weaker_the_judge_the_more_the_product_helps(gains):
    gain = gains.loc[("Ex-DRE", "judge alone")]
    assert gain["open"] > gain["middle"] > 0 > gain["strong_high"]
    over_better = gains.loc[("Ex-DRE", "better part")]
    assert over_better["open_low"] > 0
    assert over_better["open"] < gain["open"]


def test_slide_helps_no_class_of_judges(gains):
    assert all(gains.loc[("SLIDE", "judge alone"), f"{s}_high"] < 0 for s in STRENGTHS)


def test_the_learned_weight_leaves_the_strong_judge_alone_and_gains_with_others(gains):
    gain = gains.loc[("learned weight", "judge alone")]
    assert abs(gain["strong"]) < 0.0005
    assert gain["open_low"] > 0
    results = table("fusion", "judge")
    assert (results.loc[CLAUDE, "w"] == 0).all()


def test_with_open_judges_the_mean_of_ranks_gains_as_much_as_the_learned_weight(gains):
    rank_gain = gains.loc[("mean of ranks", "judge alone")]
    assert rank_gain["open"] > gains.loc[("learned weight", "judge alone"), "open"] - 0.01
    assert rank_gain["strong_high"] < 0


def test_most_of_the_gain_comes_from_two_sets():
    by_set = table("fusion_by_set", "set", "judges")
    column = "Ex-DRE, judge alone"
    assert by_set.loc[("FED turns", "open"), f"{column}_low"] < 0
    for name in ("PersonaChat", "TopicalChat"):
        assert by_set.loc[(name, "open"), f"{column}_low"] > 0
        assert by_set.loc[(name, "open"), column] > 2 * by_set.loc[("FED turns", "open"), column]


def test_from_a_model_as_good_as_printed_gains_over_the_judge_follow_but_not_over_the_model():
    simulated = table("what_if_printed", "fusion", "over")
    over_judge = simulated.loc[("Ex-DRE", "judge alone")]
    assert all(over_judge[f"{s}_low"] > 0 for s in STRENGTHS)
    over_slm = simulated.loc[("Ex-DRE", "small model alone")]
    assert over_slm["open_high"] < 0
    assert over_slm["middle"] < 0
    assert simulated.loc[("SLIDE", "judge alone"), "strong_high"] < 0


def test_a_strong_judge_needs_a_better_small_model_than_others():
    needed = table("what_if_even", "fusion", "judges")["ours, as measured"]["Ex-DRE"]
    assert max(needed["open"], needed["middle"]) < 0.3
    assert needed["strong"] > 0.5


def test_a_strong_judge_agrees_far_better_than_a_weak_one_with_a_small_model():
    mean = table("money", "asked")["mean"]
    assert mean["five open models, mean, and the small model"] < mean[CLAUDE] - 0.2


def test_whether_showing_numbers_helps_cannot_be_told():
    interior = table("what_if_interior", "difference")
    plain = interior.loc["In-DRE minus the plain prompt"]
    plain = plain[plain["numbers"].str.startswith("as printed")]
    assert (plain["pooled_low"] < 0).all()
    assert (plain["pooled_high"] > 0).all()


# Notebook 06


def test_the_papers_small_model_hardly_notices_a_wrong_conversation(audit):
    paper = audit.loc["paper"]
    assert 0 < paper["overall"] - paper["elsewhere"] < 10
    assert paper["falls_low"] > 50
    assert paper["falls"] < audit.loc["encoder before our training", "falls"]
    assert paper["interaction_high"] < 5
    assert paper["response"] > 90
    assert paper["other"] > 50


def test_our_small_model_notices_it(audit):
    ours = audit.loc["ours"]
    assert ours["elsewhere"] < 60
    assert ours["interaction_low"] > 20
    assert ours["other"] < 25


def test_training_as_in_the_paper_lowers_agreement_with_people():
    rows = table("audit_ratings", "set", "model")
    assert rows.loc[("mean of the sets", "paper"), "difference_high"] < 0
    assert rows.loc[("mean of the sets", "ours"), "difference_low"] > 0


def test_our_small_model_still_falls_for_contradictions_but_not_for_an_echo():
    shares = table("audit_kinds", "what")["slm"]
    assert shares["a reply that contradicts the context"] < 60
    assert shares["the context's last turn"] > 90
