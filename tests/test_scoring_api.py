"""The metric from Python, the finding of models, and the cache of embeddings."""

import json
import subprocess
import sys

import numpy as np
import pytest
import scoring_data
import torch

import dre
from dre import DRE
from dre.errors import DreError
from dre.scoring import models
from dre.scoring.cache import Embeddings


@pytest.fixture(scope="module")
def slm(tmp_path_factory):
    return scoring_data.saved(tmp_path_factory.mktemp("scoring"))


@pytest.fixture(scope="module")
def metric(slm):
    return DRE.load(slm)


CONTEXTS = [["Do you like tea?"], "Where is the train?\nIt is late."]
RESPONSES = ["Only with milk.", "Then we walk."]


def test_import_dre_stays_light():
    code = "import dre, sys; print([m for m in ('torch', 'pandas', 'numpy', 'transformers') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = dre.nothing


def test_score_gives_a_row_a_pair(metric):
    table = metric.score(CONTEXTS, RESPONSES, systems=["a", "b"])
    assert list(table["id"]) == ["0", "1"] and list(table["system"]) == ["a", "b"] and "line" not in table
    np.testing.assert_allclose(table["score"], 1 - table["s_d"] + table["s_p"])
    alone = metric.score(CONTEXTS[1:], RESPONSES[1:])
    assert alone["score"][0] == pytest.approx(table["score"][1], abs=1e-5)


def test_compute_is_in_the_style_of_evaluate(metric):
    found = metric.compute(predictions=RESPONSES, references=["Yes.", "No."], contexts=CONTEXTS)
    assert found["scores"] == pytest.approx(metric.score(CONTEXTS, RESPONSES)["score"].tolist())
    assert found["score"] == pytest.approx(sum(found["scores"]) / 2) and found["n_missing"] == 0
    assert found["signature"].startswith("dre:slm|model:ffffffffffff|recipe:paper|") and "|data:" in found["signature"]
    other = metric.compute(predictions=RESPONSES[::-1], contexts=CONTEXTS)
    assert other["signature"] != found["signature"]
    json.dumps(found)


@pytest.mark.parametrize(
    ("contexts", "responses", "message"),
    [
        (CONTEXTS, RESPONSES[:1], "differ in length"),
        ([], [], "there are no pairs"),
        (CONTEXTS, ["fine", ""], "pair 1: response is empty"),
        ([["Hi."], 5], RESPONSES, "pair 1: context is of type int"),
    ],
)
def test_bad_pairs_are_named(metric, contexts, responses, message):
    with pytest.raises(DreError, match=message):
        metric.score(contexts, responses)


def test_what_a_method_needs_is_asked_for(slm):
    with pytest.raises(DreError, match="method slide needs a judge"):
        DRE.load(slm, method="slide")
    with pytest.raises(DreError, match="needs a small model"):
        DRE.load()


@pytest.fixture
def built(tmp_path):
    for profile, name in (
        ("mini", "mini-paper-seed0-aaaa"),
        ("mini", "mini-paper-seed1-bbbb"),
        ("public", "dd-paper-seed0-cccc"),
    ):
        folder = tmp_path / "build" / profile / "models" / name
        folder.mkdir(parents=True)
        (folder / "slm.json").write_text("{}")
    (tmp_path / "build/mini/models/torn.work").mkdir()
    return tmp_path


def test_a_model_is_found_by_the_beginning_of_its_name(built):
    assert models.find("dd-", built).name == "dd-paper-seed0-cccc"
    assert models.find("mini-paper-seed1", built).name == "mini-paper-seed1-bbbb"
    assert models.find(str(built / "build"), built) == built / "build"
    assert models.find("owner/name", built) == "owner/name"
    with pytest.raises(DreError, match=r"may be mini-paper-seed0-aaaa \(mini\), mini-paper-seed1-bbbb \(mini\)"):
        models.find("mini", built)
    with pytest.raises(DreError, match=r"no SLM 'torn'.*there is mini-paper-seed0-aaaa \(mini\), .*cccc \(public\)"):
        models.find("torn", built)
    with pytest.raises(DreError, match="none trained yet"):
        models.find("any", built / "build")


def test_the_cache_keeps_the_last_used_and_no_more():
    cache = Embeddings(limit=2)
    cache.keep(["a", "b"], torch.eye(2))
    assert cache.find(["a"])["a"].tolist() == [1, 0]
    cache.keep(["c"], torch.ones(1, 2))
    assert len(cache) == 2 and set(cache.find(["a", "b", "c"])) == {"a", "c"}


def test_a_cached_text_is_not_encoded_again_and_scores_alike(slm):
    metric = DRE.load(slm)
    first = metric.score(CONTEXTS, RESPONSES)
    encoded = []
    tokenizer = metric.scorer.slm.model[0].preprocess
    metric.scorer.slm.model[0].preprocess = lambda texts, *a, **k: encoded.extend(texts) or tokenizer(texts, *a, **k)
    again = metric.score([*CONTEXTS, CONTEXTS[0]], [*RESPONSES, "No, thank you."])
    assert encoded == ["No, thank you."]
    np.testing.assert_allclose(again["score"][:2], first["score"], atol=1e-6)
