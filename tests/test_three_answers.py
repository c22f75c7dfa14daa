"""The three answers of recipe `ours`: losses by hand, adapting, saving, and what is refused."""

import copy
import math
from dataclasses import replace

import pandas as pd
import pytest
import torch
from test_train import TRAIN, extra
from tiny import no_doubles

from dre.datasets.dialogues import load, pairs
from dre.errors import DreError
from dre.slm import SLM, fit, heads, ours, recipes
from dre.slm.heads import FITS, FOOLS

RECIPE = replace(recipes.get("ours", epochs=1), learning_rate=3e-3)


@pytest.fixture(scope="module")
def slm(encoder, tmp_path_factory):
    with no_doubles():
        return fit(
            TRAIN[:8], [], tmp_path_factory.mktemp("a") / "slm", RECIPE, 0, encoder, False, extra()
        )


def test_contrast_in_both_directions_by_hand():
    """Two contexts, the first with two right responses and an adversarial one; both views alike."""
    head = heads.GradedHead(2)
    scale = 20
    east, north, north_east = [1.0, 0.0], [0.0, 1.0], [0.6, 0.8]
    h = torch.tensor([east, north, north_east])
    pairs = torch.tensor(
        [
            (FITS, 0, 0, 0),
            (FITS, 0, 0, 2),
            (FITS, 1, 1, 1),
            (FOOLS, 0, 0, 1),
        ]
    )

    def loss(own, *others):
        return math.log(sum(math.exp(scale * (cosine - own)) for cosine in (own, *others)))

    # Of the first context, east and north-east are right, so they are no negatives of each other.
    to_response = [loss(1, 0), loss(0.6, 0), loss(1, 0, 0.8)]
    to_context = [loss(1, 0), loss(0.6, 0.8), loss(1, 0)]
    first_context = sum(to_response[:2] + to_context[:2]) / 4
    second_context = (to_response[2] + to_context[2]) / 2
    expected = (first_context + second_context) / 2
    assert head.contrast(h, pairs).item() == pytest.approx(expected, abs=1e-5)


def test_two_contexts_with_the_same_right_response_do_not_push_it_away():
    head = heads.GradedHead(2)
    h = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    stock_reply = 2
    pairs = torch.tensor([(FITS, 0, 0, stock_reply), (FITS, 1, 1, stock_reply)])
    assert head.contrast(h, pairs).item() == pytest.approx(0, abs=1e-6)


def test_grades_by_hand():
    found, score, context = (torch.tensor(x) for x in ([0.0, 1.0, 5.0], [5.0, 0.0, 5.0], [0, 0, 1]))
    error = ((torch.sigmoid(found) - score / 5) ** 2).mean()
    # One ordered pair, 0 before 1, found in the wrong order by 1.
    assert torch.isclose(heads.grade_loss(found, score, context), error + math.log1p(math.e))


def test_only_adapters_learn_and_the_base_reads_as_before(slm, encoder):
    table = pairs(load("mini", "dev")[:3])
    before, after = SLM.untrained(encoder), slm.answers(table)["likeness"]
    weights = slm.encoder[0].model.state_dict()
    for name, value in before.encoder[0].model.state_dict().items():
        own = (
            name
            if name in weights
            else f"{name.rpartition('.')[0]}.layer.{name.rpartition('.')[2]}"
        )
        assert weights[own].equal(value), name
    h = slm.views(table, slm.base)
    distance = torch.tensor(before.distances(table)["distance"])
    h = h.cpu()
    assert torch.allclose(1 - torch.cosine_similarity(h[0], h[2]).double(), distance, atol=1e-6)
    was = torch.cosine_similarity(h[:2], h[2:], dim=-1).mean(0).double()
    assert (
        (2 * torch.tensor(after) - was) - was
    ).abs().max() > 1e-3  # the mean of adapted and as it was


def test_heads_learn_on_adapters_as_they_are_saved(encoder, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        ours.Ours, "learn_heads", lambda slm, *_: seen.append(copy.deepcopy(slm.encoder))
    )
    fit(TRAIN[:8], [], tmp_path / "slm", RECIPE, 0, encoder, False, extra())
    ups = [value for name, value in seen[0].named_parameters() if name.endswith(".up")]
    assert len(ups) == 12 and all(
        value.any() and value.equal(value.half().float()) for value in ups
    )


def test_a_response_is_not_wrong_in_its_own_context(slm, monkeypatch):
    slm, shown = copy.deepcopy(slm), []
    size = (3, 40, slm.encoder.get_embedding_dimension())
    h, fit_of = torch.randn(size, device=slm.encoder.device), slm.head.fit
    monkeypatch.setattr(slm.head, "fit", lambda h: (shown.append(h.shape[1]), fit_of(h))[1])
    slm.learn_fit(h, [1.0] * 40, pd.Series(["a"] * 40), 0)
    slm.learn_fit(h, [1.0] * 40, pd.Series(["a", "b"] * 20), 0)
    assert shown[: ours.EPOCHS] == [40] * ours.EPOCHS and min(shown[ours.EPOCHS :]) > 45


def test_fit_learns_from_adversarial_responses_and_from_those_of_other_contexts(slm):
    slm = copy.deepcopy(slm)
    size = (2, 2000, slm.encoder.get_embedding_dimension())
    drawn = torch.randn(size, generator=torch.Generator().manual_seed(0))
    c, wrong = drawn.to(slm.encoder.device)
    shown = torch.stack([torch.cat([c, c]), torch.cat([c, c]), torch.cat([c, wrong])])
    slm.learn_fit(shown, [1.0] * 2000 + [0.0] * 2000, pd.Series([*range(2000)] * 2), seed=0)
    with torch.no_grad():
        own, adversarial, other = (
            slm.head.fit(torch.stack([c, c, r])) for r in (c, wrong, c.roll(1, 0))
        )
    assert (own > adversarial).float().mean() > 0.95 and (own > other).float().mean() > 0.95


def test_a_saved_model_is_small_and_scores_alike_and_another_encoder_is_refused(slm, tmp_path):
    folder, table = tmp_path / "slm", pairs(load("mini", "test")[:3])
    slm.save(folder)
    assert {path.name for path in folder.iterdir()} == {"slm.json", ours.FILE}
    again = SLM.load(folder)
    pd.testing.assert_frame_equal(again.score(table), slm.score(table), atol=1e-6)
    about = (folder / "slm.json").read_text()
    (folder / "slm.json").write_text(about.replace(slm.provenance["base"], "0" * 16))
    with pytest.raises(
        DreError, match="on this machine has other weights than the one that was adapted"
    ):
        SLM.load(folder)
    (folder / "slm.json").write_text(about)
    (folder / ours.FILE).write_bytes((folder / ours.FILE).read_bytes()[:50])
    with pytest.raises(DreError, match="it is damaged"):
        SLM.load(folder)


def test_without_adapters_both_encoders_are_one(encoder, tmp_path):
    recipe = replace(RECIPE, stages=(), mixture=replace(RECIPE.mixture, rank=0))
    frozen, table = (
        fit(TRAIN[:8], [], tmp_path / "a", recipe, 0, encoder, False, extra()),
        pairs(load("mini", "test")[:3]),
    )
    h = frozen.views(table)
    cosine = torch.cosine_similarity(h[:2], h[2:], dim=-1).mean(0)
    found = frozen.answers(table)
    assert frozen.reader is frozen.base and found["likeness"].to_numpy() == pytest.approx(
        cosine.cpu().numpy(), abs=1e-6
    )
    pd.testing.assert_frame_equal(SLM.load(tmp_path / "a").answers(table), found, atol=1e-6)
