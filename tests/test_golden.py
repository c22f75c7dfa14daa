"""The SLM that comes with dre gives the numbers that it gave.

``python tests/test_golden.py`` writes them anew.
"""

import json
from pathlib import Path

import pytest

from dre import DRE

FILE = Path(__file__).with_name("golden.json")
CONTEXT = ["Is there any tea left?"]
GOOD_RESPONSE = "Yes, in the blue tin."
BAD_RESPONSE = "My car is red."
RESPONSES = [GOOD_RESPONSE, BAD_RESPONSE, "Is there any tea left?"]


def golden():
    """Return which model is the default, and its scores of three responses, to six digits."""
    metric = DRE.load()
    contexts = [CONTEXT] * len(RESPONSES)
    table = metric.score(contexts, RESPONSES)
    scores = {}
    for response, score in zip(RESPONSES, table["score"]):
        scores[response] = float(f"{score:.6g}")
    return {
        "model": metric.slm.provenance["name"],
        "threshold": metric.slm.provenance["threshold"],
        "scores": scores,
    }


def test_the_default_model_gives_its_scores_to_six_digits():
    stored = json.loads(FILE.read_text())
    # Other processors may round the last of six digits otherwise.
    stored_scores = pytest.approx(stored["scores"], rel=1e-5)
    assert golden() == stored | {"scores": stored_scores}


def test_the_threshold_of_the_default_model_tells_a_good_response_from_a_bad_one():
    stored = json.loads(FILE.read_text())
    scores = golden()["scores"]
    assert scores[GOOD_RESPONSE] > stored["threshold"]
    assert stored["threshold"] > scores[BAD_RESPONSE]


if __name__ == "__main__":
    FILE.write_text(json.dumps(golden(), indent=1) + "\n")
