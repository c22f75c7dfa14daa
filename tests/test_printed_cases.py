"""The printed replies, from a file of the user's; the texts here are our own."""

import json

import pandas as pd
import pytest

from dre.errors import DreError
from dre.paper import printed_cases
from dre.paper.profile import PROJECT


def case(name, n):
    responses = [f"Reply {k} of {name}." for k in range(1, n + 1)]
    return {"id": name, "context": ["Snow?", "Rain."], "reference": "Sun.", "responses": responses}


CASES = [case(name, n) for name, n in printed_cases.REPLIES.items()]


def write(path, cases):
    path.write_text("".join(json.dumps(record) + "\n" for record in cases))
    return path


def test_the_replies_come_in_the_order_of_the_papers_with_their_ids(tmp_path):
    table = printed_cases.read(write(tmp_path / "cases.jsonl", CASES[::-1]))
    shown = pd.read_csv(PROJECT / "results/printed_cases.csv")
    assert (
        table[["case", "reply"]].to_numpy().tolist() == shown[["case", "reply"]].to_numpy().tolist()
    )
    assert table["pair_id"][1] == "DRE 1/2" and table["context"][0] == ("Snow?", "Rain.")
    assert table["response"].tolist()[-1] == "Reply 1 of SLIDE 3."


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        (CASES[:-1], "found no SLIDE 3, expected DRE 1"),
        ([*CASES, CASES[0]], r"cases.jsonl:6: the case DRE 1 is there twice"),
        ([{**CASES[0], "id": "DRE 3"}], r"cases.jsonl:1: found id 'DRE 3', expected one of DRE 1"),
        ([case("DRE 1", 1)], "DRE 1: found 1 responses, expected the 2 that are printed"),
        ([{**CASES[2], "reference": " "}], "SLIDE 1: a response or the reference is missing"),
        ([{**CASES[2], "context": []}], "SLIDE 1: the context is"),
    ],
)
def test_a_fault_of_the_file_is_named(tmp_path, cases, message):
    with pytest.raises(DreError, match=message):
        printed_cases.read(write(tmp_path / "cases.jsonl", cases))
