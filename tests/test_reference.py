"""The tables say what the code before the rewrite said of the same recorded scores, replies and ratings.

``tests/data/reference.csv`` was computed by that earlier code, which shares nothing with today's but the data: the three seeds of
every SLM, all recorded judges. Tolerances: 2e-6 where the arithmetic is the same, 1e-3 for BERTScore and for judges whose
replies are parsed, 0.05 points for a fitted baseline.
"""

from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]
REFERENCE = pd.read_csv(Path(__file__).parent / "data" / "reference.csv", keep_default_na=False)
SETS = ("DailyDialog", "PersonaChat", "TopicalChat")


@pytest.mark.parametrize("table", ["table3", "table4"])
def test_the_numbers_are_those_of_the_earlier_code(table):
    found = pd.read_csv(ROOT / "results" / "public" / f"{table}.csv")
    found = found[found["source"] != "published"].assign(set="", row=found["model"]) if table == "table3" else found
    if table == "table4":  # in the file a set has its columns: DailyDialog (Spearman), DailyDialog_pearson, ...
        parts = [
            found.assign(row=found["method"], set=one, spearman=found[one], pearson=found[f"{one}_pearson"])
            for one in SETS
        ]
        found = pd.concat(parts)
    found = found.set_index(["row", "set"])
    expected = REFERENCE[REFERENCE["table"] == table]
    wrong = [
        f"{one.row} {one.set} {one.column}: {found.loc[(one.row, one.set), one.column]}, was {one.value}"
        for one in expected.itertuples()
        if not abs(found.loc[(one.row, one.set), one.column] - one.value) <= one.tolerance
    ]
    assert len(expected) > 50 and not wrong, "\n".join(wrong[:10])
