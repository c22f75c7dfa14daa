"""The figures of notebook 02, on numbers worked out by hand and on a model that is none."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from conftest import experiment, needs_data

from dre.datasets.dialogues import Context, data_hash
from dre.paper import figures, plots
from dre.paper.profile import profile


class DirectionModel:
    """Embeds each text at random; the robust parts of positives are the context's vector."""

    def context(self, turns):
        return " ".join(turns)

    def encode(self, texts):
        whole = torch.randn(len(texts), 8, generator=torch.Generator().manual_seed(0))
        robust = whole.clone()
        n_positives = sum(text.startswith("good") for text in texts)
        robust[1 : 1 + n_positives] = whole[0]
        return {"sentence_embedding": whole, "anchor": whole, "robust": robust}


CONTEXTS = [
    Context("set", str(i), "test", ("Hello.",), ("good 1", "good 2"), ("bad 1", "bad 2", "bad 3"))
    for i in range(2)
]
CURVES = pd.DataFrame(
    [
        {"set": name, "seed": 0, "epoch": epoch, "disentangled": disentangled, "x": x, "loss": 1.0}
        for name, gain in (("A", 0.1), ("B", -0.3))
        for disentangled in (False, True)
        for epoch, x in ((0, 0.5), (1, 0.6 + gain * disentangled))
    ]
)


@pytest.fixture(scope="module")
def points():
    return figures.project(DirectionModel(), CONTEXTS)


def test_a_projection_has_a_point_for_each_text_in_both_spaces(points):
    counts = points.groupby(["context_id", "space", "kind"]).size()
    assert counts.loc[CONTEXTS[0].context_id, "Normal"].to_dict() == {
        "context": 1,
        "positive": 2,
        "adversarial": 3,
    }
    assert set(points["space"]) == set(figures.SPACES)
    assert np.isfinite(points[["x", "y"]]).all(axis=None)


def test_distances_of_a_projection_are_those_of_its_space(points):
    distance = points.set_index(["space", "kind"])["distance"]
    assert distance["Disentangled", "positive"].to_numpy() == pytest.approx(0, abs=1e-6)
    assert (distance["Normal", "positive"] > 0.1).all()
    assert distance["Disentangled", "context"].to_numpy() == pytest.approx(0, abs=1e-6)


def test_a_projection_is_the_same_each_time(points):
    again = figures.project(DirectionModel(), CONTEXTS)
    pd.testing.assert_frame_equal(again, points)


def test_twins_are_compared_at_the_last_epoch():
    gains = figures.twin_differences(CURVES, ["x"])
    assert gains["x"].to_dict() == pytest.approx({("A", 0): 0.1, ("B", 0): -0.3})


def test_a_mean_has_the_interval_of_students_t():
    assert figures.mean_with_interval([1.0, 3.0])["value_high"] == pytest.approx(2 + 12.7062)
    assert np.isnan(figures.mean_with_interval([1.0])["value_high"])


def test_a_gap_is_counted_in_standard_deviations():
    distances = np.array([0.0, 2.0, 3.0, 5.0])
    is_positive = np.array([True, True, False, False])
    assert figures.gap_in_deviations(distances, is_positive) == pytest.approx(3)


def test_figures_show_what_they_are_given(points):
    curves = figures.loss_and_accuracy(CURVES, "loss", "x")
    # A panel for each set, with and without, and a second axis on each of them.
    assert len(curves.axes) == 8
    top_left = curves.axes[0]
    assert top_left.get_title() == "A,\nwithout disentangling"
    assert top_left.get_lines()[0].get_ydata().tolist() == [1, 1]

    projection = figures.projections(points)
    assert len(projection.axes) == 4
    drawn = sum(len(dots.get_offsets()) for ax in projection.axes for dots in ax.collections)
    assert drawn == len(points)


def test_what_is_drawn_alike_in_all_figures_differs_in_grey():
    for looks in (plots.KIND_LOOKS, plots.JUDGE_LOOKS):
        assert len({look.colour for look in looks.values()}) == len(looks)
        assert len({look.marker for look in looks.values()}) == len(looks)
    assert len({look.line for look in plots.JUDGE_LOOKS.values()}) == len(plots.JUDGE_LOOKS)


def test_a_projection_tells_kinds_apart_by_their_marks(points):
    projection = figures.projections(points)
    shapes = {dots.get_paths()[0].vertices.tobytes() for dots in projection.axes[0].collections}
    assert len(shapes) == 3


def test_hollow_marks_have_the_edge_of_their_colour():
    rows = pd.DataFrame({"value": [1.0], "value_low": [0.5], "value_high": [1.5]})
    _, ax = plt.subplots()
    for filled in (True, False):
        plots.whiskers(ax, rows, [0], "#112233", filled=filled)
    full, hollow = ax.collections[1::2]
    assert full.get_facecolors().tolist() == hollow.get_edgecolors().tolist()
    assert hollow.get_facecolors().tolist() == [[1, 1, 1, 1]]


@needs_data
def test_the_recorded_projection_is_of_the_contexts_that_its_script_takes():
    settings = profile("public")
    folder = settings.root / "results/figure5"
    script = experiment("figure5/project")

    train, _, test = script.split(settings)

    record = json.loads((folder / "training.json").read_text())
    assert record["train_hash"] == data_hash(train)
    points = pd.read_csv(folder / "points.csv")
    assert list(dict.fromkeys(points["context_id"])) == [
        context.context_id for context in test[: script.PROJECTED]
    ]
    kinds = points.groupby(["context_id", "space"])["kind"].value_counts().unstack()
    assert (kinds[["context", "positive", "adversarial"]] == [1, 5, 5]).all(axis=None)
