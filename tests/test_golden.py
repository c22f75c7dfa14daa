"""The SLM that comes with dre gives the numbers that it gave; ``python tests/test_golden.py`` writes them anew."""

import json
from pathlib import Path

import pytest

from dre import DRE

FILE = Path(__file__).with_name("golden.json")
CONTEXT = ["Is there any tea left?"]
RESPONSES = ["Yes, in the blue tin.", "My car is red.", "Is there any tea left?"]


def golden():
    """What it says of three replies, to six digits, and which it is."""
    metric = DRE.load()
    table = metric.score([CONTEXT] * len(RESPONSES), RESPONSES)
    scores = {
        row.response: float(f"{row.score:.6g}")
        for row in table.assign(response=RESPONSES).itertuples()
    }
    return {
        "model": metric.slm.provenance["name"],
        "threshold": metric.slm.provenance["threshold"],
        "scores": scores,
    }


def test_the_default_model_gives_its_scores_to_six_digits():
    found, kept = golden(), json.loads(FILE.read_text())
    assert found == kept | {
        "scores": pytest.approx(kept["scores"], rel=1e-5)
    }  # processors round otherwise
    good, bad, _ = (found["scores"][response] for response in RESPONSES)
    assert good > kept["threshold"] > bad


if __name__ == "__main__":
    FILE.write_text(json.dumps(golden(), indent=1) + "\n")
