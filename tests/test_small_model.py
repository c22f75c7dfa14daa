"""How trainings of the package's model are measured: values by hand, and what may be read."""

import functools
import re

import numpy as np
import pandas as pd
import pytest
from conftest import experiment, needs_data

from dre.datasets import overlap, ratings, recordings
from dre.paper.profile import Sources, profile
from dre.slm import SLM
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
    assert by_training["audit"].tolist() == [100, 25]
    assert by_training["value"].tolist() == pytest.approx([100, 25 / 6])
    of_measure = means.set_index("measure")
    assert of_measure.loc["value", "share"] == pytest.approx((100 + 25 / 6) / 2)
    # Either training may be drawn twice. Contexts move the echo of the second one.
    assert of_measure.loc["corpus", ["share_low", "share_high"]].tolist() == [0, 100]
    assert of_measure.loc["echo_last", "share_low"] == 0


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

    tables, graded = measure.tables_to_measure(public.model_copy(update=changes))
    assert loaded
    assert min(map(len, (graded, *tables.values()))) > 20
    assert not any("human" in table for table in tables.values())

    # Where all scores are equal, each comparison is a tie.
    equal = {name: np.zeros(len(table)) for name, table in tables.items()}
    assert (measure.outcomes(tables, equal)["share"] == 0.5).all()


@needs_data
@pytest.mark.parametrize("name", ["ours, taught quotes", "ours, on a GPU"])
def test_agreement_with_people_follows_from_the_recorded_scores(name):
    recorded = pd.read_csv(measure.OUTPUT / "rated_scores.csv.gz").query("model == @name")
    scores = recorded.pivot(index="pair_id", columns="seed", values="score")
    committed = pd.read_csv(measure.OUTPUT / "agreement.csv").query("model == @name")
    committed = committed.set_index("set")
    for set_name, title in ratings.RATED.items():
        rated = ratings.rated(set_name).set_index("pair_id")
        of_seeds = scores.loc[rated.index].corrwith(rated["human"], method="spearman")
        assert committed.loc[title, "r"] == pytest.approx(of_seeds.mean(), abs=6e-5)


def test_agreement_of_the_shipped_model_is_that_of_notebook_08():
    agreement = pd.read_csv(measure.OUTPUT / "agreement.csv").query("model == 'ours'")
    of_notebook = pd.read_csv(measure.root() / "results" / "public" / "small_model.csv")
    assert agreement["set"].tolist() == of_notebook["set"].tolist()
    expected = of_notebook[["ours", "ours_low", "ours_high"]].to_numpy()
    assert np.allclose(agreement[["r", "r_low", "r_high"]], expected, atol=6e-5)


def test_seed_0_is_in_the_package_and_small_enough_for_it():
    recorded = recorded_models()["all-ours-seed0"]
    for key in ("fingerprint", "seed", "d_min", "d_max", "threshold", "scales"):
        assert recorded[key] == SLM.load(DEFAULT).provenance[key], key
    assert sum(file.stat().st_size for file in DEFAULT.iterdir() if file.is_file()) < 4_500_000


def test_the_card_of_the_model_has_the_numbers_of_the_committed_results():
    card = (DEFAULT / "README.md").read_text(encoding="utf-8")
    results = measure.root() / "results" / "public"
    agreement = pd.read_csv(results / "small_model.csv", index_col="set")
    of_seeds = pd.read_csv(results / "small_model_seeds.csv", index_col="set")
    for name, row in agreement.iterrows():
        interval = f"{row['ours']:.2f} [{row['ours_low']:.2f}, {row['ours_high']:.2f}]"
        encoder = row["encoder before our training"]
        cells = f"| {name} | {of_seeds.loc[name, 'seed 0']:.2f} | {interval} "
        assert cells + f"| {row['likeness']:.2f} | {encoder:.2f} |" in card
    for row in pd.read_csv(results / "small_model_fooled.csv").to_dict("records"):
        interval = f"{row['ours']:.0f} [{row['ours_low']:.0f}, {row['ours_high']:.0f}]"
        assert f"| {row['against']} | {interval} | {row['quotes read']:.0f} |" in card
    mean_of_seeds = of_seeds.loc["mean of the sets", ["seed 0", "seed 1", "seed 2"]]
    recorded = pd.read_csv(measure.OUTPUT / "agreement.csv").set_index(["model", "set"])
    on_gpu = recorded.loc[("ours, on a GPU", "mean of the sets")]
    in_text = [mean_of_seeds["seed 0"], mean_of_seeds.min(), mean_of_seeds.max()]
    in_text += [on_gpu["seed 0"], on_gpu.filter(regex="seed .").min()]
    for value in in_text:
        assert re.search(rf"\b{value:.4f}\b", card), value
