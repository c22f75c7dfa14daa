"""Table 4 holds the recorded judgements: other code finds the same rows, and changed judgements change them."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from conftest import needs_data
from scipy.stats import spearmanr

from dre import ratings
from dre.judges import recorded
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


def rows_of_the_judge():
    """The rows that the notebook makes of recorded judgements: its cells with tag ``rows``."""
    book = SimpleNamespace(profile=PUBLIC.model_copy(update={"resamples": 20}), table=lambda *args, **options: None)
    space = {"book": book, "np": np}
    for cell in json.loads((PUBLIC.root / "notebooks/04_correlation.ipynb").read_text(encoding="utf-8"))["cells"]:
        if "rows" in cell["metadata"].get("tags", []):
            exec("".join(cell["source"]), space)  # noqa: S102
    return space["table4"].set_index(["method", "set"])["spearman"]


def test_fifty_changed_judgements_change_their_rows_and_no_other(tmp_path, monkeypatch):
    folder = shutil.copytree(JUDGEMENTS.parent, tmp_path / CLAUDE)
    lines = [json.loads(line) for line in JUDGEMENTS.read_text(encoding="utf-8").splitlines()]
    dre = [one for one in lines if one["prompt"] == "dre" and one["pair_id"].startswith("personachat")]
    for one in dre[:50]:
        one["score"] = 5 - one["score"]
    (folder / "judgements.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    before = rows_of_the_judge()
    monkeypatch.setattr(recorded, "FOLDER", tmp_path)
    moved = (rows_of_the_judge() - before).abs()
    expected = [(f"In-DRE ({CLAUDE}), as shown", "PersonaChat"), (f"DRE ({CLAUDE}), as shown", "PersonaChat")]
    expected.append((f"DRE ({CLAUDE}), as shown, c = s_c · s_Inf", "PersonaChat"))
    assert moved[expected].min() > 0.01 and moved.drop(expected).max() == 0
