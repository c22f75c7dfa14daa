"""Table 4 holds the recorded judgements: other code finds the same rows."""

import json

import pandas as pd
import pytest
from conftest import needs_data
from scipy.stats import spearmanr

from dre import ratings
from dre.profile import profile

pytestmark = needs_data
PUBLIC, CLAUDE = profile("public"), "claude-2026-11"
JUDGEMENTS = PUBLIC.root / "data" / "recorded" / CLAUDE / "judgements.jsonl"


def test_three_rows_are_what_plain_scipy_makes_of_the_files():
    lines = [json.loads(line) for line in JUDGEMENTS.read_text(encoding="utf-8").splitlines()]
    said = {(one["prompt"], one.get("repeat", 0), one["pair_id"]): one.get("score") for one in lines}
    shown = pd.read_csv(JUDGEMENTS.with_name("dre_inputs.csv")).set_index("pair_id")
    table4 = pd.read_csv(PUBLIC.results / "table4.csv").set_index("method")
    for name, title in list(ratings.RATED.items())[:3]:
        rated = ratings.rated(name)
        s_c = 1 - shown.loc[rated["pair_id"], "s_d"].to_numpy() + shown.loc[rated["pair_id"], "s_p"].to_numpy()
        again = [said["llm_only", 1, pair_id] for pair_id in rated["pair_id"]]
        told = [said["dre", 0, pair_id] for pair_id in rated["pair_id"]]
        rows = {f"LLM-only ({CLAUDE}), again": again, f"In-DRE ({CLAUDE}), as shown": told}
        rows[f"DRE ({CLAUDE}), as shown"] = s_c * told
        for method, score in rows.items():
            assert table4.loc[method, title] == pytest.approx(spearmanr(score, rated["human"]).statistic, abs=1e-5)
