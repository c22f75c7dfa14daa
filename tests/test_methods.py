"""The key of a score: its printed name, and the ways in which files name it."""

import pandas as pd
import pytest

from dre.datasets import registry
from dre.paper import methods, table4
from dre.paper.methods import Method

NAMES = {
    "DRE (a judge), paper, c": Method("DRE", "a judge", "paper", "c"),
    "Ex-DRE (a judge), paper": Method("Ex-DRE", "a judge", "paper"),
    "G-EVAL (a judge), one reply": Method("G-EVAL", "a judge", reading="one reply"),
    "SLM (Prob & Dis), ours": Method(methods.WHOLE, slm="ours"),
    "Encoder, before our training": methods.encoder_alone(),
    "METEOR": Method("METEOR"),
    "a judge": Method("", "a judge"),
}


@pytest.mark.parametrize("name, method", NAMES.items())
def test_a_method_is_printed_as_what_it_is_made_of(name, method):
    assert str(method) == name


def test_methods_with_the_same_fields_are_the_same_key_and_others_are_not():
    assert {Method("DRE", "x"): 1}[Method("DRE", judge="x")] == 1
    # Two keys may be printed alike, and are never taken for each other.
    printed_alike = Method("DRE", slm="a, b"), Method("DRE", slm="a", reading="b")
    assert str(printed_alike[0]) == str(printed_alike[1]) and len(set(printed_alike)) == 2


def test_rows_of_a_table_have_the_methods_that_their_columns_name():
    table = pd.DataFrame({"family": ["DRE", None], "judge": ["x", "y"], "slm": [None, "z"]})
    keys = methods.from_columns(table, ["family", "judge", "slm"])
    assert list(keys) == [Method("DRE", "x"), None]


def test_no_two_rows_of_the_papers_table_4_are_the_same_method():
    keys = table4.in_print(registry.PROJECT)["key"].dropna()
    assert keys.is_unique and Method(methods.WHOLE, slm="paper") in set(keys)
