"""How trainings of the package's model are measured: values by hand, and what may be read."""

import functools

import numpy as np
import pandas as pd
import pytest
from conftest import experiment, needs_data

from dre.datasets import overlap, ratings, recordings
from dre.paper.profile import Sources, profile
from dre.slm.provenance import DEFAULT
from dre.slm.remembered import recorded_models

measure = experiment("small_model/measure")


def test_right_first_is_the_share_of_pairs_in_the_right_order_by_context():
    table = pd.DataFrame(
        {
            "context_id": ["a", "a", "a", "b", "b", "c"],
            "kind": ["p", "a", "a", "p", "a", "p"],
        }
    )
    scores = np.array([2.0, 1.0, 3.0, 5.0, 5.0, 0.0])
    # In context a one of two pairs is right, in b there is a tie, and c has nothing to compare.
    shares = measure.right_first(table, scores, "a")
    assert shares.to_dict("list") == {"context_id": ["a", "b"], "share": [0.5, 0.5]}


def test_grades_are_compared_within_contexts_and_where_they_are_half_a_point_apart():
    table = pd.DataFrame({"context_id": ["a", "a", "a", "b"], "score": [4.0, 3.6, 3.5, 1.0]})
    scores = np.array([2.0, 9.0, 2.0, 5.0])
    # Only the first and the third reply are compared, and their scores are equal.
    shares = measure.grades_in_order(table, scores)
    assert shares.to_dict("list") == {"context_id": ["a"], "share": [0.5]}


def outcomes(shares_of_echo, shares_of_others):
    """Return outcomes in two contexts: two kinds of the audit, and five more measures."""
    rows = []
    for context_id, echo, other in zip(["a", "b"], shares_of_echo, shares_of_others):
        for name in measure.MEASURES:
            if name != "audit":
                rows.append((name, "", context_id, other))
        rows.append(("audit", "echo_last", context_id, echo))
        rows.append(("audit", "shuffle", context_id, other))
    return pd.DataFrame(rows, columns=["measure", "kind", "context_id", "share"])


def test_intervals_of_the_measures_hold_contexts_and_seeds():
    right = outcomes([1, 1], [1, 1])
    wrong = outcomes([0, 1], [0, 0])

    by_training, means = measure.measure_tables("m", {"twice": [right, wrong]})

    # The second training is right in one of two contexts, in one of two kinds of the audit.
    assert by_training["seed"].tolist() == [0, 1]
    assert by_training["audit"].tolist() == [100, 25]
    assert by_training["value"].tolist() == pytest.approx([100, 25 / 6])
    of_measure = means.set_index("measure")
    assert (of_measure["seeds"] == 2).all()
    assert of_measure.loc["value", "share"] == pytest.approx((100 + 25 / 6) / 2)
    # Either training may be drawn twice. Contexts move the echo of the second one.
    assert of_measure.loc["corpus", ["share_low", "share_high"]].tolist() == [0, 100]
    assert of_measure.loc["echo_last", "share_low"] == 0

    _, means = measure.measure_tables("m", {"twice": [right]})
    assert (means["share_low"] == 100).all()
    assert means["share_sd"].isna().all()


def test_new_rows_of_a_model_replace_its_old_ones_and_no_others(tmp_path):
    file = tmp_path / "measures.csv"
    measure.add_rows(file, pd.DataFrame({"model": ["a", "b"], "value": [1.0, 2.0]}))
    measure.add_rows(file, pd.DataFrame({"model": ["a"], "value": [3.0]}))
    table = pd.read_csv(file).sort_values("model")
    assert table.to_dict("list") == {"model": ["a", "b"], "value": [3.0, 2.0]}


def test_recorded_scores_are_rounded_and_compressed_without_the_time(tmp_path, monkeypatch):
    file = tmp_path / "rated_scores.csv.gz"
    monkeypatch.setattr(measure, "RATED_SCORES", file)
    scores = pd.DataFrame({"model": "m", "seed": [0, 1], "pair_id": "p", "score": [1.2345678, 2]})
    measure.add_rows(file, scores)
    first_bytes = file.read_bytes()
    measure.add_rows(file, scores)
    assert file.read_bytes() == first_bytes
    recorded = measure.recorded_scores("m")
    assert recorded.loc["p"].tolist() == [1.2346, 2]


class FakeSLM:
    """Its three answers are the numbers that a response begins with."""

    def readable(self, pairs):
        return pairs

    def answers(self, pairs):
        numbers = [[float(word) for word in text.split()[:3]] for text in pairs["response"]]
        return pd.DataFrame(numbers, columns=["likeness", "fit", "quality"])


def test_readings_count_likeness_as_often_as_they_say_and_leave_quotes_out():
    graded = pd.DataFrame({"response": ["0 0 0", "2 4 6"]})
    mean = np.array([1, 2, 3])
    sd = np.array([2**0.5, 8**0.5, 18**0.5])
    scorer = measure.Scorer(FakeSLM(), graded)
    pairs = pd.DataFrame({"context": [("9 9 9 9",)], "response": ["9 9 9 9 3 4 7"]})

    scores = scorer.scores(pairs)

    likeness, fit, quality = (np.array([3, 4, 7]) - mean) / sd
    assert scores["likeness twice"].item() == pytest.approx(2 * likeness + fit + quality)
    assert scores["likeness once"].item() == pytest.approx(likeness + fit + quality)
    likeness, fit, quality = (np.array([9, 9, 9]) - mean) / sd
    with_quotes = scores["likeness twice, quotes read"].item()
    assert with_quotes == pytest.approx(2 * likeness + fit + quality)


@needs_data
def test_the_measures_and_the_training_data_read_no_human_rating(monkeypatch):
    """They are made although loaders of rated sets return nothing but texts."""
    public = profile("public")
    loaded = []

    def only_texts(load, *names):
        loaded.append(names)
        texts = ["pair_id", "context_id", "context", "turns", "response"]
        return load(*names).filter(texts)

    for name in ("rated", "fed_dialogues"):
        loader = functools.partial(only_texts, getattr(ratings, name))
        monkeypatch.setattr(ratings, name, loader)
    for module, name in (
        (ratings, "translated"),
        (ratings, "fed_qualities"),
        (recordings, "fed_judged"),
        (recordings, "criteria"),
    ):
        monkeypatch.delattr(module, name)
    # The search for near copies takes longest, and reads texts alone.
    monkeypatch.setattr(overlap, "_near", lambda *_: set())
    sources = Sources(dialogues=("topicalchat-valid_freq",), graded=public.extra.graded)
    changes = {
        "sets": public.sets[2:],
        "rated": ("topicalchat-usr", "fed-turn"),
        "extra": sources,
    }

    data = measure.load_data(public.model_copy(update=changes))
    measures = measure.Measures(data)
    tables = measures.tables
    assert loaded
    assert min(map(len, (data.labelled, data.held_out, *tables.values()))) > 20
    assert not any("human" in table for table in tables.values())

    # Where all scores are equal, each comparison is a tie.
    equal = {name: np.zeros(len(table)) for name, table in measures.tables.items()}
    assert (measures.outcomes(equal)["share"] == 0.5).all()


@needs_data
@pytest.mark.parametrize("name", ["ours", "ours, taught quotes"])
def test_agreement_with_people_follows_from_the_recorded_scores(name):
    committed = pd.read_csv(measure.OUTPUT / "agreement.csv")
    committed = committed[committed["model"] == name].reset_index(drop=True)
    again = measure.agreement(name, measure.recorded_scores(name))
    assert (again["seeds"] == 3).all()
    columns = again.columns
    pd.testing.assert_frame_equal(again, committed[columns], check_dtype=False, atol=6e-5, rtol=0)


def test_agreement_of_the_shipped_model_is_that_of_notebook_09():
    agreement = pd.read_csv(measure.OUTPUT / "agreement.csv")
    shipped = agreement[agreement["model"] == measure.SHIPPED]
    of_notebook = pd.read_csv(measure.root() / "results" / "public" / "small_model.csv")
    assert shipped["set"].tolist() == of_notebook["set"].tolist()
    expected = of_notebook[["ours", "ours_low", "ours_high"]].to_numpy()
    assert np.allclose(shipped[["r", "r_low", "r_high"]], expected, atol=6e-5)


def test_the_gain_of_a_model_is_its_distance_from_the_shipped_one():
    agreement = pd.read_csv(measure.OUTPUT / "agreement.csv").set_index(["model", "set"])
    shipped = agreement.loc[measure.SHIPPED]
    assert shipped["gain"].isna().all()
    taught = agreement.loc["ours, taught quotes"]
    expected = taught["r"] - shipped["r"]
    assert np.allclose(taught["gain"], expected, atol=2e-4)
    assert (taught["gain_low"] < taught["gain"]).all()
    assert (taught["gain"] < taught["gain_high"]).all()
    # Both are seen in the same resamples, so the difference is surer than either correlation.
    mean = taught.loc[measure.MEAN_OF_SETS]
    assert mean["gain_high"] - mean["gain_low"] < mean["r_high"] - mean["r_low"]


def test_correlations_with_length_are_means_of_the_trainings_on_every_set():
    lengths = pd.read_csv(measure.OUTPUT / "length.csv")
    titles = {*measure.ratings.RATED.values()}
    for _, rows in lengths.groupby(["model", "answer"]):
        assert {*rows["set"]} == titles
    of_seeds = lengths.filter(regex="^seed [0-9]")
    assert (of_seeds.notna().sum(axis=1) == lengths["seeds"]).all()
    assert np.allclose(lengths["r"], of_seeds.mean(axis=1), atol=2e-4)
    assert lengths["r"].between(lengths["r_low"], lengths["r_high"]).all()
    # People's ratings are the same, whichever model stands beside them.
    people = lengths[lengths["answer"] == "people"].pivot(index="set", columns="model", values="r")
    assert (people.nunique(axis=1) == 1).all()


def test_seed_0_is_in_the_package():
    recorded = recorded_models()["all-ours-seed0"]
    for key in ("fingerprint", "seed", "d_min", "d_max", "threshold", "scales"):
        assert recorded[key] == measure.SLM.load(DEFAULT).provenance[key], key


def test_means_of_the_measures_are_those_of_the_trainings():
    by_training = pd.read_csv(measure.OUTPUT / "measures.csv")
    means = pd.read_csv(measure.OUTPUT / "measure_intervals.csv")
    assert means["share"].between(means["share_low"], means["share_high"]).all()
    for (model, reading), rows in means.groupby(["model", "reading"]):
        is_of_row = (by_training["model"] == model) & (by_training["reading"] == reading)
        trainings = by_training[is_of_row]
        assert (rows["seeds"] == len(trainings)).all()
        expected = trainings[rows["measure"]].mean()
        assert np.allclose(rows["share"], expected, atol=1e-3)


@pytest.mark.parametrize("name", ["ours", "ours, taught quotes"])
def test_tables_of_the_measures_and_of_what_fools_have_all_trainings(name):
    n_seeds = 3
    by_training = pd.read_csv(measure.OUTPUT / "measures.csv")
    seeds_of_readings = by_training[by_training["model"] == name].groupby("reading")["seed"]
    assert seeds_of_readings.apply(list).tolist() == [list(range(n_seeds))] * len(measure.READINGS)

    fooled = pd.read_csv(measure.OUTPUT / "fooled.csv")
    fooled = fooled[fooled["model"] == name]
    assert len(fooled) == len(measure.READINGS) * len(measure.FOOLING)
    assert (fooled["seeds"] == n_seeds).all()
    shares_of_seeds = fooled.filter(regex="^seed [0-9]").dropna(axis=1)
    assert shares_of_seeds.shape[1] == n_seeds
    assert np.allclose(fooled["value"], shares_of_seeds.mean(axis=1), atol=1e-3)
    assert fooled["value"].between(fooled["low"], fooled["high"]).all()


def test_the_card_of_the_model_has_the_numbers_of_the_committed_results(monkeypatch, tmp_path):
    ship = experiment("small_model/ship")
    slm = ship.SLM.load(ship.DEFAULT)
    monkeypatch.setattr(ship, "DEFAULT", tmp_path)
    ship.write_card(slm)
    committed = (measure.root() / "dre/slm/default/README.md").read_text(encoding="utf-8")
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == committed
