"""The measurements behind docs/trust.md."""

import importlib.util
from pathlib import Path

import pandas as pd

HERE = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("measure", HERE / "experiments/trust/measure.py")
measure = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(measure)


def test_the_table_of_memory_is_that_of_the_recorded_probe():
    table = measure.memory(pd.read_csv(measure.PROBE))
    written = pd.read_csv(HERE / "results/trust_memory.csv")
    pd.testing.assert_frame_equal(table, written)


def test_a_turn_counts_as_nearly_verbatim_only_where_the_dialogue_was_recognised():
    probe = pd.DataFrame(
        {"set": ["mini"] * 3, "recognised": [1, 1, 0], "similarity": [0.9, 0.1, 1]}
    )
    row = measure.memory(probe).set_index("dialogues").iloc[-1]
    assert row["recognised"] == 2
    assert row["nearly verbatim"] == 1
