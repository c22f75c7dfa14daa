"""Recipe `ours`, that of the package's model, on a tiny encoder.

Losses by hand, what it learns from, how its answers count, and what it leaves out.
"""

import copy
import math
from dataclasses import replace

import pandas as pd
import pytest
import torch
from test_train import DEV, TRAIN, extra
from tiny import no_doubles

from dre.datasets.dialogues import load, pairs
from dre.errors import DreError
from dre.slm import SLM, fit, heads, ours, recipes
from dre.slm.heads import FITS, FOOLS
from dre.slm.provenance import DEFAULT
from dre.slm.quotes import EMPTY

TABLE = pairs(load("mini", "test")[:3])


@pytest.fixture(scope="module")
def slm(encoder, tmp_path_factory):
    recipe = replace(recipes.OURS, learning_rate=3e-3)
    folder = tmp_path_factory.mktemp("ours") / "slm"
    with no_doubles():
        return fit(TRAIN[:8], DEV, folder, recipe, 0, encoder, False, extra())


def one_pair(context, response):
    return pd.DataFrame({"pair_id": ["1"], "context": [context], "response": [response]})


# Losses by hand


def test_contrast_in_both_directions_by_hand():
    """Two contexts, the first with two right responses and an adversarial one; both views alike."""
    h = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])  # east, north, north-east
    pairs = torch.tensor([(FITS, 0, 0, 0), (FITS, 0, 0, 2), (FITS, 1, 1, 1), (FOOLS, 0, 0, 1)])

    def loss(own, *others):
        return math.log(sum(math.exp(20 * (cosine - own)) for cosine in (own, *others)))

    # Of the first context, east and north-east are right, so they are no negatives of each other.
    to_response = [loss(1, 0), loss(0.6, 0), loss(1, 0, 0.8)]
    to_context = [loss(1, 0), loss(0.6, 0.8), loss(1, 0)]
    first_context = sum(to_response[:2] + to_context[:2]) / 4
    second_context = (to_response[2] + to_context[2]) / 2
    expected = (first_context + second_context) / 2
    head = heads.GradedHead(2)
    assert head.contrast(h, pairs).item() == pytest.approx(expected, abs=1e-5)
    # A stock reply that is right in two contexts is not pushed away.
    stock = torch.tensor([(FITS, 0, 0, 2), (FITS, 1, 1, 2)])
    assert head.contrast(h, stock).item() == pytest.approx(0, abs=1e-6)


def test_grades_by_hand():
    found, score, context = (torch.tensor(x) for x in ([0.0, 1.0, 5.0], [5.0, 0.0, 5.0], [0, 0, 1]))
    error = ((torch.sigmoid(found) - score / 5) ** 2).mean()
    # One ordered pair, 0 before 1, found in the wrong order by 1.
    assert torch.isclose(heads.grade_loss(found, score, context), error + math.log1p(math.e))


# What learns, and from what


def test_only_adapters_learn_and_the_base_reads_as_before(slm, encoder):
    before = SLM.untrained(encoder)
    weights = slm.encoder[0].model.state_dict()
    for name, value in before.encoder[0].model.state_dict().items():
        layer, _, own = name.rpartition(".")
        assert weights[name if name in weights else f"{layer}.layer.{own}"].equal(value), name
    h, adapted = (h.cpu() for h in slm.views(TABLE, slm.base, slm.reader))
    distance = torch.tensor(before.distances(TABLE)["distance"])
    assert torch.allclose(1 - torch.cosine_similarity(h[0], h[2]).double(), distance, atol=1e-6)
    assert (adapted - h).abs().max() > 1e-3
    ups = [value for name, value in slm.encoder.named_parameters() if name.endswith(".up")]
    assert len(ups) == 12 and all(up.any() and up.equal(up.half().float()) for up in ups)


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
    responses = (c, wrong, c.roll(1, 0))
    with torch.no_grad():
        own, adversarial, other = (slm.head.fit(torch.stack([c, c, r])) for r in responses)
    assert min((own > adversarial).float().mean(), (own > other).float().mean()) > 0.95


def test_it_learns_that_copies_of_the_context_are_wrong(slm):
    examples = slm.examples(TRAIN[:4])
    (rows,) = slm.passes(examples, extra(0), 1, 0)
    fools = [{response for kind, *_, response in row if kind == FOOLS} for row in rows]
    labelled = slm.fitting(examples, extra(0), 0).query("fits == 0")
    wrong = set(zip(labelled["context"], labelled["response"]))
    for context, example, responses in zip(TRAIN, examples, fools):
        copies = set(ours.copies(context))
        assert {*" ".join(copies).split()} <= {*" ".join(context.turns).split()}
        assert responses == set(example.adversarials) == set(context.adversarials) | copies
        assert {(context.turns, text) for text in copies} <= wrong
    # ... but not one that is right: this context repeats itself.
    echo = replace(TRAIN[0], positives=TRAIN[0].turns)
    (example,) = slm.examples([echo])
    assert not set(example.adversarials) & set(echo.positives)


# What it scores


def test_likeness_counts_twice_in_standard_deviations_over_the_graded_pairs(slm):
    graded = slm.answers(ours.graded_table(extra().graded))
    z = (slm.answers(TABLE) - graded.mean()) / graded.std()
    expected = 1 + (2 * z["likeness"] + z["fit"] + z["quality"]) / 12
    assert slm.score(TABLE)["score_slm"].to_numpy() == pytest.approx(expected, abs=1e-6)

    d_min, d_max = slm.provenance["d_min"], slm.provenance["d_max"]
    s_d = (1 - graded["likeness"] - d_min) / (d_max - d_min)
    assert s_d.agg(["mean", "std"]).tolist() == pytest.approx([1 / 2, 2 / 12], rel=1e-4)


def test_a_quote_is_left_out_before_the_score_and_the_table_says_so(slm):
    context = ("is it tea", "do you like my train at all")
    texts = ["do you like my train at all? no it was", "no it was", context[-1], EMPTY]
    rows = pd.concat([slm.score(one_pair(context, text)) for text in texts])
    assert rows["left_out"].tolist() == ["do you like my train at all?", "", context[-1], ""]
    quoting, alone, echo, empty = rows["score_slm"]
    assert quoting == pytest.approx(alone, abs=1e-6)
    assert echo == pytest.approx(empty, abs=1e-6)


def test_a_saved_model_is_small_and_scores_alike_and_another_encoder_is_refused(slm, tmp_path):
    folder = tmp_path / "slm"
    slm.save(folder)
    assert {path.name for path in folder.iterdir()} == {"slm.json", ours.FILE}
    again = SLM.load(folder)
    assert type(again) is ours.Ours
    pd.testing.assert_frame_equal(again.score(TABLE), slm.score(TABLE), atol=1e-6)
    about = (folder / "slm.json").read_text()
    (folder / "slm.json").write_text(about.replace(slm.provenance["base"], "0" * 16))
    with pytest.raises(DreError, match="it has other weights on this machine than those that were"):
        SLM.load(folder)


def test_the_model_of_the_package_is_small():
    files = [path for path in DEFAULT.rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"README.md", "adapter.safetensors", "slm.json"}
    assert sum(path.stat().st_size for path in files) <= 4_500_000
    assert SLM.load(DEFAULT).recipe == recipes.OURS
