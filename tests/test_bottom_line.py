"""The bottom line follows the tables it is made of."""

import pandas as pd
import pytest

from dre.correlation.bottom_line import words


def accuracy(model, source, overall):
    return {
        "model": model,
        "source": source,
        "overall": overall,
        "overall_low": overall - 1,
        "overall_high": overall + 1,
    }


def fused(method, answers):
    return [{"method": method, "answer": answer} for answer in answers]


TABLES = {
    "table3": [
        accuracy("SLM (Prob & Dis)", "published", 91.05),
        accuracy("SLM (Prob & Dis), paper", "ours", 87.25),
        accuracy("response only (TF-IDF)", "ours", 80.0),
    ],
    "disentangling": [
        {"score": "SLM (Dis)", "overall": 1.0, "overall_low": 0.5, "overall_high": 1.5},
        {"score": "SLM (Prob & Dis)", "overall": -0.25, "overall_low": -0.75, "overall_high": 0.25},
    ],
    "audit": [
        {"model": "length only", "overall": 70.0},
        {"model": "SLM, a", "overall": 88.0, "other_context": 86.0, "random_rejected": 20.0, "spearman_x": 0.1},
        {"model": "SLM, b", "overall": 85.0, "other_context": 60.0, "random_rejected": 80.0, "spearman_x": 0.4},
    ],
    "audit_ratings": [
        {"domain": "X", "model": "encoder, untrained", "score": "cosine", "spearman": 0.25, "answer": None},
        {"domain": "X", "model": "SLM, b", "score": "Prob & Dis", "spearman": 0.4, "answer": "better"},
        {"domain": "X", "model": "SLM, b", "score": "Dis", "spearman": 0.9, "answer": "worse"},
    ],
    "table4_tests": [
        {"method": "Ex-DRE", "against": "LLM", "answer": "worse"},
        {"method": "Ex-DRE", "against": "SLM", "answer": "better"},
        {"method": "SLIDE", "against": "LLM", "answer": "not shown"},
    ],
    "fusion_tests": fused("Calibrated", ["better", "not shown", "not shown"]) + fused("Rank average", ["worse"] * 3),
    "fusion_weak": [{"method": "Calibrated", "gain": 0.02}, {"method": "Rank average", "gain": 0.04}],
    "fusion_spearman": [{"LLM-only": 0.8, "weight": 0.1}, {"LLM-only": 0.3, "weight": 0.6}],
    "cascade": [
        {"above": None, "cascade": 0.9, "random": 0.1},
        {"above": 0.5, "cascade": 0.5, "random": 0.498},
    ],
}


@pytest.fixture
def results(tmp_path):
    for name, rows in TABLES.items():
        pd.DataFrame(rows).to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def test_every_question_is_answered_from_its_table(results):
    lines = words(results).splitlines()
    assert len(lines) == 7
    assert "of recipe `paper` is right in 87.3 % [86.3, 88.3] of cases; the paper prints 91.05 %" in lines[0]
    assert "no context gets 80.0 % [79.0, 81.0]" in lines[0]
    assert "SLM (Prob & Dis) changes by −0.3 [−0.8, +0.3] percentage points" in lines[1]
    assert "recipe `b` 85.0 % with the true context and 60.0 % with another conversation's, 80.0 %" in lines[2]
    assert "on X: encoder, untrained 0.25; recipe `b` 0.40 (better) (*better*" in lines[3]
    assert "(Ex-DRE, SLIDE) are significantly better in 0 and worse in 1 of 2 comparisons" in lines[4]
    assert "In-DRE and DRE were **not measured**" in lines[4]
    assert "worse in 0 and better in 1 of 3 pairs" in lines[5] and "gains 0.020 over the better part" in lines[5]
    assert "ranks gains 0.040 there, and over all judges it is worse in 3 and better in 0 of 3" in lines[5]
    assert "Without a judge, recipe `b`." in lines[6] and "people by 0.002 on average" in lines[6]


def test_what_a_profile_does_not_measure_is_left_out(results):
    for name in ("audit_ratings", "fusion_weak"):
        (results / f"{name}.csv").unlink()
    pd.DataFrame(TABLES["audit"]).drop(columns="spearman_x").to_csv(results / "audit.csv")
    pd.DataFrame(TABLES["table4_tests"] + [{"method": "DRE", "against": "LLM", "answer": "better"}]).to_csv(
        results / "table4_tests.csv"
    )
    text = words(results, "the label")
    assert len(text.splitlines()) == 6 and "Agreement" not in text and "Without a judge" not in text
    assert "In-DRE was **not measured**" in text and "better in 1 and worse in 1 of 3" in text
    assert "with the label by 0.002" in text


@pytest.mark.parametrize("name", TABLES)
def test_no_table_is_needed_but_for_its_own_bullets(results, name):
    (results / f"{name}.csv").unlink()
    assert 5 <= len(words(results).splitlines()) <= 7


def advice(results, **tables):
    for name, rows in tables.items():
        pd.DataFrame(rows).to_csv(results / f"{name}.csv", index=False)
    return words(results).splitlines()[-1]


def test_the_advice_turns_with_the_numbers(results):
    before = advice(results)
    assert "With a strong judge, the judge alone" not in before and "`dre calibrate`" in before
    found = advice(
        results,
        fusion_spearman=[{"LLM-only": 0.8, "weight": 0.02}],
        fusion_weak=[{"method": "Calibrated", "gain": -0.02}],
        audit=[*TABLES["audit"], {"model": "encoder, untrained", "spearman_x": 0.7}],
    )
    assert "With a strong judge, the judge alone: the learned weight of the SLM is 0.02 on average." in found
    assert "dre calibrate" not in found and "Without a judge, the baseline *encoder, untrained*." in found
