"""What one example costs, as measured, beside section 4.4 of the paper."""

import judge_servers as servers
import numpy as np
import pandas as pd
import pytest
from conftest import needs_data
from judge_servers import Server, pairs

from dre.datasets.dialogues import load
from dre.paper import costs, judgements
from dre.paper.profile import JudgeSettings, profile
from dre.slm import fit, recipes

pytestmark = pytest.mark.usefixtures("quick")

USD_OF_REPLY = (50 * 1 + 10 * 10) / 1e6


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("DRE_STORE", str(tmp_path / "replies.db"))


def settings_with(*judges):
    changes = {"judges": judges, "optional_prompts": ("geval",), "samples": 2}
    return profile("mini").model_copy(update=changes)


def shown_numbers(table):
    numbers = pd.DataFrame({"pair_id": table["pair_id"], "s_d": 0.25, "s_p": 0.5})
    numbers = numbers.assign(score_slm=1.25, slm_accuracy=0.9)
    return numbers.assign(llm_accuracy=0.8)


def test_an_example_of_a_judge_costs_the_mean_of_its_replies_beside_what_print_has(store):
    def script(request):
        content = (
            '{"influence": 0.5, "score": 3}' if b"influence" in request.raw else '{"score": 3}'
        )
        return servers.openai(content, model="gpt-3.5-turbo-1106")

    table = pd.DataFrame(pairs(4))
    with Server(script, delay=0.05) as server:
        judge = JudgeSettings(model="openai:gpt-3.5-turbo-1106", base_url=server.url, price="1,10")
        free = JudgeSettings(model="openai:llama", name="no price", base_url=server.url)
        settings = settings_with(judge, free, "recorded:claude-2026-11")
        for one in judgements.panel(settings)[:2]:
            one.ask(table, "llm_only")
            one.ask(table, "llm_only")  # all is stored: no further call, and the same seconds
        first = judgements.panel(settings)[0]
        first.ask(table.head(2), "dre", shown_numbers(table.head(2)))
        first.ask(table.head(1), "geval")

    costs_of = costs.per_example(settings, judgements.panel(settings), {})
    of_first = costs_of[costs_of["model"] == judge.model].set_index("what")
    alone, hinted = of_first.loc["judge alone, SLIDE, Ex-DRE"], of_first.loc["In-DRE, DRE"]
    assert (alone["replies"], hinted["replies"]) == (4, 2)
    assert alone["dollars"] == pytest.approx(USD_OF_REPLY)
    assert 0.05 <= alone["seconds"] < 5
    # Four criteria, two samples of each.
    assert of_first.loc["G-EVAL", "replies"] == 8
    assert of_first.loc["G-EVAL", "dollars"] == pytest.approx(8 * USD_OF_REPLY)
    assert of_first.loc["G-EVAL", "seconds"] >= 8 * 0.05
    assert of_first["gpu_gib"].isna().all()
    assert "runs elsewhere" in alone["note"]
    assert hinted["printed_dollars_in_all"] == 100
    assert np.isnan(alone["printed_dollars_in_all"])

    of_free = costs_of[costs_of["model"] == "no price"].iloc[0]
    assert np.isnan(of_free["dollars"]) and of_free["seconds"] >= 0.05

    # What print has of others keeps its row.
    of_llama = costs_of[costs_of["model"] == "llama3.3-70B"].iloc[0]
    assert (of_llama["printed_seconds"], of_llama["printed_gb"]) == (60, 40)
    assert of_llama["note"] == "the profile has no such judge"
    models = list(costs_of["model"])
    assert "GPT-3.5 and Claude3" not in models
    assert "claude-2026-11" not in models


def test_a_small_model_costs_what_its_training_measured(store, tmp_path, encoder):
    recipe = recipes.get("paper", epochs=1)
    contexts = load("mini", "train")[:4]
    dev = load("mini", "dev")[:2]
    slm = fit(contexts, dev, tmp_path / "slm", recipe, encoder=encoder, progress=False)
    table = costs.per_example(settings_with("recorded:claude-2026-11"), [], {"paper": slm})
    by_row = table.set_index("what")
    assert by_row.loc["scoring", "replies"] > 0
    assert 0 < by_row.loc["scoring", "seconds"] < 60
    assert by_row.loc["scoring", "device"] == by_row.loc["training", "device"]
    assert 0 < by_row.loc["training", "hours"] < 1
    assert by_row.loc["training", "printed_hours"] == 3
    if by_row.loc["training", "device"] == "cpu":
        assert by_row[["gpu_gib"]].isna().all(axis=None)


@needs_data
def test_where_nothing_was_measured_there_is_no_row(store):
    from dre.paper.trainings import trained

    settings = profile("public")
    panel = judgements.panel(settings)
    slm = trained(settings, settings.main_set, "ours", 0)
    assert costs.per_example(settings, panel, {"ours": slm}).empty
