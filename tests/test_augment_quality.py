"""The quality report: every measure by hand, on sets whose faults are known."""

import numpy as np
import pandas as pd
import pytest

from dre.augment import giveaways, labelled, lexical, quality, study
from dre.cli import main
from dre.data import load, pairs
from dre.data.records import Context
from dre.errors import DreError
from dre.pipeline.profile import profile


def context(i, positives, adversarials, turns=("Is the kettle on the stove?",)):
    return Context("own", str(i), "train", tuple(turns), tuple(positives), tuple(adversarials))


def test_overlap_by_hand():
    table = pairs([context(0, ["The kettle boils."], ["Kettle, kettle!", "It is."])])
    values, owners = giveaways.overlap(table)
    np.testing.assert_array_equal(values, [0.5, 1.0, np.nan])  # kettle of {kettle, boils}; all; no content word
    assert set(owners) == {"own/0"}


def vary(n, positive, adversarial):
    """Contexts whose responses follow two patterns, filled with distinct words."""
    names = ["apple", "river", "stone", "cloud", "tiger", "lemon", "bread", "chair", "green", "seven"]
    return [
        context(
            i,
            [positive.format(names[(i + k) % 10], names[(3 * i + k) % 10]) for k in range(2)],
            [adversarial.format(names[(7 * i + k) % 10], names[(i + 2 * k) % 10]) for k in range(2)],
        )
        for i in range(n)
    ]


@pytest.mark.parametrize(
    ("positive", "adversarial", "shows", "hides"),
    [
        ("a {} with the {} and more of it", "the {} {}", "length_only", "overlap_only"),
        ("{} of {} maybe", "{} in {} never", "response_only", "length_only"),
        ("{} and {} here", "kettle and {} {}", "overlap_only", "length_only"),
    ],
)
def test_each_give_away_is_found_where_it_is(positive, adversarial, shows, hides):
    table = pairs(vary(40, positive, adversarial))
    right = {name: giveaways.give_away(table, giveaways.GIVE_AWAYS[name]).mean() for name in (shows, hides)}
    assert right[shows] == 1 and right[hides] < 0.7


def test_folds_keep_contexts_together_and_learn_only_from_the_others():
    table = pairs(vary(23, "{} a {}", "{} b {}"))
    judged = []

    def scorer(train, dev, test):
        parts = [set(part["context_id"]) for part in (train, dev, test)]
        assert not parts[0] & parts[1] and not parts[0] & parts[2] and not parts[1] & parts[2]
        judged.extend(test["pair_id"])
        return [(part["kind"] == "p").to_numpy(float) for part in (dev, test)]

    assert giveaways.give_away(table, scorer).mean() == 1
    assert sorted(judged) == sorted(table["pair_id"])
    assert np.isnan(giveaways.give_away(pairs(vary(4, "{} {}", "{} {}")), scorer)).all()  # fewer contexts than folds


def test_accuracy_is_the_mean_of_both_kinds():
    table = pd.DataFrame({"context_id": list("abcd"), "kind": list("paaa")})
    values, _ = giveaways.balanced(np.array([1.0, 0, 0, 1]), table)
    assert values.mean() == pytest.approx((1 + 1 / 3) / 2)
    values, _ = giveaways.balanced(np.array([1.0, 0, np.nan, 1]), table)
    assert np.nanmean(values) == pytest.approx((1 + 1 / 2) / 2)


def test_diversity_by_hand():
    same = [context(0, ["a b c d e"] * 2, ["a b x y", "q"])]
    values, _ = quality.self_bleu(same, "p")
    np.testing.assert_allclose(values, [1, 1])
    assert np.isnan(quality.self_bleu([context(0, ["a b"], [])], "p")[0]).all()
    # bigrams: ab bc cd de twice, ab bx xy: 11 in all, ab bc cd de bx xy differ
    np.testing.assert_allclose(quality.distinct(same)[0], [6 / 11])
    assert np.isnan(quality.distinct([context(0, ["a"], ["b"])])[0]).all()


def test_self_bleu_agrees_with_sacrebleu_on_a_whole_context():
    from sacrebleu import sentence_bleu

    one = load("mini", "test")[0]
    values, _ = quality.self_bleu([one], "p")
    for i, text in enumerate(one.positives):
        others = [t.lower() for k, t in enumerate(one.positives) if k != i]
        assert values[i] == pytest.approx(sentence_bleu(text.lower(), others, use_effective_order=True).score / 100)


def test_repeats_by_hand():
    long = "the same long answer again here"
    table = pairs(
        [context(0, ["Yes, please.", "yes please"], [long]), context(1, ["No.", long.title()], ["Yes please!"])]
    )
    (within, _), (across, _) = quality.repeated(table)
    np.testing.assert_array_equal(within, [1, 1, 0, 0, 0, 0])
    np.testing.assert_array_equal(across, [np.nan, np.nan, 1, np.nan, 1, np.nan])  # short ones say nothing


def test_leakage_by_hand():
    ours = [context(0, ["p"], ["a"], ["We talked about my two old cats."]), context(1, ["p"], ["a"], ["Yes."])]
    values, _ = quality.leaked(ours, [context(9, [], [], ["we talked about my two old cats !", "Yes."])])
    np.testing.assert_array_equal(values, [1, 0])
    assert np.isnan(quality.leaked(ours, None)[0]).all()


class ByLength:
    """An SLM's interface over a rule that can be checked by hand: the longer, the better."""

    def score(self, table):
        return pd.DataFrame({"pair_id": table["pair_id"], "score_slm": table["response"].str.split().str.len()})


def test_a_report_has_a_row_a_set_with_intervals():
    sets = {"one": vary(30, "a {} with the {} and more of it", "the {} {}"), "two": vary(12, "{} x {}", "{} y {}")}
    table = quality.report(
        sets, {"one": [sets["one"][0]]}, ByLength(), threshold=5, seen=sets["two"], at_most=20, resamples=100
    )
    assert (
        list(table["set"]) == ["one", "two"]
        and list(table["contexts"]) == [30, 12]
        and list(table["measured"]) == [20, 12]
    )
    named = [c for c in table.columns if not c.endswith(("_low", "_high"))]
    assert named == ["set", "contexts", "measured", *quality.MEASURES]
    one, two = table.iloc[0], table.iloc[1]
    assert one["slm_accuracy"] == 100 and np.isnan(two["slm_accuracy"])
    assert one["leaked"] == 100 and np.isnan(two["leaked"])
    for name in quality.MEASURES:
        if np.isfinite(one[name]):
            assert one[f"{name}_low"] <= one[name] + 1e-9 and one[name] <= one[f"{name}_high"] + 1e-9
    said = quality.reading(table)
    assert "**one:**" in said and "largest give-away is length: 100.0 %" in said and "The SLM is right" in said


def test_a_set_without_adversarials_is_refused():
    with pytest.raises(DreError, match="needs both"):
        quality.report({"one": [context(0, ["p"], [])]})


def test_mini_is_harder_to_guess_than_dailydialog_test(data_home):
    sets = {"mini": [c for split in ("train", "dev", "test") for c in load("mini", split)]}
    sets["DailyDialog++"] = load("dailydialog++", "test")
    table = quality.report(sets, at_most=150, resamples=100).set_index("set")
    # SPEC section 9: 71.8 and 81 % with all of dev to learn from; here from 90 contexts
    assert table.loc["DailyDialog++", "length_only"] == pytest.approx(72, abs=5)
    assert table.loc["DailyDialog++", "response_only"] == pytest.approx(81, abs=7)
    assert table.loc["mini", "length_only"] < 60 and table.loc["mini", "response_only"] < 70


def test_what_the_notebook_compares_in_mini():
    settings = profile("mini")
    assert {label: len(found) for label, found in study.written(settings).items()} == {study.EMBEDDED: 120}
    found, table = study.negatives(settings)
    (label,) = found
    assert table["retrieved"].iloc[0] == sum(len(c.adversarials) for c in found[label])
    assert table["full"].iloc[0] == sum(len(c.adversarials) == 5 for c in found[label])
    assert study.held_out(settings, found) == {}
    checked = study.accepted(study.checks(settings))
    assert list(checked["contexts"]) == [120] and list(checked["responses"]) == [1200]
    assert checked["accepted"].iloc[0] + checked["another_round"].iloc[0] == 120


def test_the_bill_counts_what_is_cheaper_than_the_papers():
    table = pd.DataFrame({"model": ["x", "y"], "usd": [2.0, 200.0], "most_usd": [5.0, 600.0], "thinks": [False, True]})
    table = table.assign(calls=11000.4, input_tokens=1.0, output_tokens=1.0)
    found = study.costs(table, 10_000)
    assert list(found["usd_table_2"]) == [20, 2000] and list(found["calls"]) == [11000, 11000]
    said = study.bill(found, 10_000)
    assert "1 of 2 models" in said and "from 20 dollars (x) to 2,000 (y)" in said


def test_contexts_survive_a_file(tmp_path):
    found, _ = lexical.negatives(load("mini", "train"))
    assert labelled.write(tmp_path / "own.jsonl", found) == 74
    assert labelled.read(tmp_path / "own.jsonl") == found
    assert labelled.named("mini:train") == load("mini", "train")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "a", "positive_responses": ["x"]}', "own.jsonl:1: .*context"),
        ('{"id": "a", "context": ["x"], "positive_responses": [1]}', "own.jsonl:1: "),
        ('{"id": "a", "context": ["x"]}\n{"id": "a", "context": ["y"]}', "own.jsonl:2: id 'a' was at .*own.jsonl:1"),
        ('{"id": "a", "context": ["x"], "split": 3}', "own.jsonl:1: field 'split'"),
        ("", "no contexts"),
    ],
)
def test_a_faulty_file_is_refused_with_its_line(tmp_path, line, message):
    path = tmp_path / "own.jsonl"
    path.write_text(line + "\n" if line else "")
    with pytest.raises(DreError, match=message):
        labelled.read(path)


def test_the_commands_from_retrieval_to_the_sheet(tmp_path, capsys):
    out = tmp_path / "own.jsonl"
    retrieved = tmp_path / "retrieved.csv"
    assert main(["augment", "lexical", "mini:test", "-o", str(out), "--retrieved", str(retrieved), "-n", "3"]) == 0
    assert "32 contexts written" in capsys.readouterr().out
    assert len(pd.read_csv(retrieved)) == sum(len(c.adversarials) for c in labelled.read(out))
    report = tmp_path / "report.csv"
    assert main(["augment", "report", str(out), "mini:dev", "-o", str(report)]) == 0
    assert "response only" in capsys.readouterr().out and len(pd.read_csv(report)) == 2
    assert main(["augment", "report", "mini:dev", "--slm", "nowhere"]) == 2
    assert "--slm and --threshold go together" in capsys.readouterr().err
    sheet = tmp_path / "sheet.csv"
    assert main(["augment", "sheet", "write", "mini:test", "-o", str(sheet), "-n", "10"]) == 0
    filled = pd.read_csv(sheet, keep_default_na=False).assign(fits="yes")
    filled.to_csv(tmp_path / "me.csv", index=False)
    capsys.readouterr()
    assert main(["augment", "sheet", "read", str(tmp_path / "me.csv"), "--key", str(tmp_path / "sheet.key.csv")]) == 0
    assert "me: overall 50.00" in capsys.readouterr().out
    assert main(["augment", "sheet", "read", str(sheet), "--key", str(tmp_path / "sheet.key.csv")]) == 2
    assert "is answered ''" in capsys.readouterr().err
