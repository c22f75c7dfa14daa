"""Recipe `both` on a tiny encoder: what is averaged, saved, and taken up again."""

import pandas as pd
import pytest
from test_train import TRAIN, extra

from dre.datasets.dialogues import load, pairs
from dre.slm import SLM, fit, graded, recipes
from dre.slm import both as module


@pytest.fixture(scope="module")
def both(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("a")
    return fit(TRAIN[:8], TRAIN[8:10], folder / "slm", "both", 0, encoder, False, extra())


def test_five_answers_count_alike_in_deviations_over_the_graded_pairs(both):
    table, learned, z = pairs(load("mini", "test")[:3]), graded.graded_table(extra().graded), 0
    for name, member in both.members.items():
        over, of = member.parts(learned), member.parts(table)
        for part in ("likeness", "fit", "quality") if name == "graded" else ("fit", "quality"):
            z += (of[part] - over[part].mean()) / over[part].std()
    assert both.score(table)["score_slm"].to_numpy() == pytest.approx(
        (1 + module.UNIT * z).to_numpy(), abs=1e-6
    )
    found = both.score(learned)
    assert found[["s_d", "s_p"]].mean().tolist() == pytest.approx([0.5, 0.5], abs=1e-6)
    assert (
        found["s_d"].std() == pytest.approx(module.UNIT, rel=1e-4)
        and both.provenance["threshold"] > 0
    )


def test_members_are_those_that_would_be_trained_alone_one_of_them_with_copies(
    both, encoder, tmp_path
):
    assert [one.recipe.name for one in both.members.values()] == ["graded", "cross"]
    alone = fit(
        TRAIN[:8], TRAIN[8:10], tmp_path / "cross", recipes.CROSS, 0, encoder, False, extra()
    )
    assert alone.provenance["fingerprint"] == both.members["cross"].provenance["fingerprint"]
    other = fit(
        graded.with_copies(TRAIN[:8]),
        TRAIN[8:10],
        tmp_path / "b",
        module.MEMBERS["graded"],
        0,
        encoder,
        False,
        extra(),
    )
    assert other.provenance["fingerprint"] == both.members["graded"].provenance["fingerprint"]


def test_it_is_read_as_it_was_written(both, tmp_path):
    both.save(tmp_path / "slm")
    table = pairs(load("mini", "test")[:3])
    again = SLM.load(tmp_path / "slm")
    pd.testing.assert_frame_equal(again.score(table), both.score(table), atol=1e-6)
    assert {path.name for path in (tmp_path / "slm").iterdir()} == {"slm.json", "graded", "cross"}


def test_it_reads_in_bfloat16_about_alike(both, tmp_path):
    both.save(tmp_path / "slm")
    table, other = pairs(load("mini", "test")[:3]), SLM.load(tmp_path / "slm")
    other.bfloat16()
    off = (other.score(table)["score_slm"] - both.score(table)["score_slm"]).abs()
    assert off.max() > 0 and off.mean() < 0.1
