"""The papers' small model as its difference to MiniLM, which the package carries."""

import numpy as np
import pytest
from conftest import experiment, needs_data

from dre.datasets import ratings
from dre.paper import trainings
from dre.paper.profile import profile

difference = experiment("small_model/difference")


def test_four_bits_keep_seven_steps_on_each_side_of_a_groups_largest_number():
    group = np.zeros(difference.GROUP, np.float32)
    group[:4] = [0.7, -0.7, 0.14, 0.1]
    packed = difference.pack(np.concatenate([group, group / 2]))
    unpacked = difference.unpack(packed, (2, difference.GROUP))
    expected = np.zeros_like(group)
    expected[:4] = [0.7, -0.7, 0.1, 0.1]  # steps of 0.1
    np.testing.assert_allclose(unpacked, [expected, expected / 2], atol=1e-6)
    assert packed["bits"].nbytes == difference.GROUP


def test_rows_that_only_decayed_are_one_factor():
    generator = np.random.default_rng(0)
    name = "word_embeddings.weight"
    base = {name: generator.normal(size=(64, 32)).astype(np.float32)}
    trained = {name: base[name] * np.float32(0.999)}
    trained[name][5] += np.float32(0.01)
    arrays = difference.differences(trained, base)
    assert len(arrays[f"{name}.scales"]) == 1
    added = difference.add(arrays, base)
    np.testing.assert_allclose(added[name], trained[name], atol=1e-3)
    np.testing.assert_allclose(added[name][6:], trained[name][6:], atol=1e-6)


@needs_data
def test_the_model_gives_the_recorded_scores_again():
    set_name = "topicalchat-usr"
    table = ratings.rated(set_name)
    scores = difference.restored().score(table)["score_slm"]
    recorded = trainings.trained(profile("public"), "dailydialog", "paper", 0)
    recorded_scores = recorded.score(table)["score_slm"]
    assert (scores - recorded_scores).abs().quantile(0.95) < 0.01
    agreement = [table["human"].corr(x, "spearman") for x in (scores, recorded_scores)]
    assert agreement[0] == pytest.approx(agreement[1], abs=0.005)


def test_it_is_small_enough_for_the_package():
    assert (difference.PAPER / difference.FILE).stat().st_size <= 8_000_000
