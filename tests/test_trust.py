"""The measurements behind docs/trust.md."""

from pathlib import Path

import pandas as pd

HERE = Path(__file__).parents[1]


def test_the_table_of_memory_is_that_of_the_recorded_probe():
    probe = pd.read_csv(HERE / "data/recorded/claude-2026-11/memory_probe.csv")
    probe["close"] = (probe["recognised"] == 1) & (probe["similarity"] >= 0.8)
    columns = ["recognised", "close", "similarity"]
    counted = probe.groupby("set", sort=False)[columns].agg(["size", "sum", "mean"])

    written = pd.read_csv(HERE / "results/trust_memory.csv", index_col="dialogues")
    written.index = ["dailydialog-zhao", "personachat-usr", "topicalchat-usr", "mini"]
    counted = counted.loc[written.index]
    assert written["asked"].tolist() == counted["recognised", "size"].tolist()
    assert written["recognised"].tolist() == counted["recognised", "sum"].tolist()
    assert written["nearly verbatim"].tolist() == counted["close", "sum"].tolist()
    assert written["mean similarity"].tolist() == counted["similarity", "mean"].round(2).tolist()
