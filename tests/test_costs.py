"""What one example costs, as measured, beside section 4.4 of the paper."""

import judge_servers as servers
import numpy as np
import pandas as pd
import pytest
from judge_servers import Server, pairs

from dre.paper import bill, costs, judgements
from dre.paper.judgements import PaidBy
from dre.paper.profile import profile

USD_OF_REPLY = (50 * 1 + 10 * 10) / 1e6


def test_an_example_costs_the_mean_of_a_judges_own_replies_beside_what_print_has(with_openai_key):
    def script(request):
        is_dre = b"influence" in request.raw
        return servers.openai('{"influence": 0.5, "score": 3}' if is_dre else '{"score": 3}')

    table = pd.DataFrame(pairs(4))
    numbers = table[["pair_id"]].assign(s_d=0.25, s_p=0.5, score_slm=1.25)
    numbers = numbers.assign(slm_accuracy=0.9, llm_accuracy=0.8)
    with Server(script, delay=0.05) as server:
        judge = {"model": "openai:gpt-3.5-turbo-1106", "base_url": server.url, "price": "1,10"}
        warm = judge | {"name": "warm", "temperature": 1, "price": "9,90"}
        free = {"model": "openai:llama", "name": "no price", "base_url": server.url}
        changes = {"judges": (judge, warm, free, "recorded:claude-2026-11"), "samples": 2}
        changes["optional_prompts"] = ("geval",)
        settings = type(profile("mini")).model_validate(profile("mini").model_dump() | changes)
        panel = judgements.panel(settings)
        for one in panel[:3]:
            paid_by = PaidBy("a run", bill.account(settings, one.name, "Table 4"))
            one.ask(table, "llm_only", paid_by=paid_by)
        paid_by = PaidBy("a run", bill.account(settings, panel[0].name, "Table 4"))
        panel[0].ask(table, "dre", numbers, paid_by=paid_by)
        panel[0].ask(table.head(1), "geval", paid_by=paid_by)

    by_row = costs.per_example(settings, panel, {}).set_index(["model", "what"])
    of_first = by_row.loc[judge["model"]]
    assert of_first["replies"].to_list() == [4, 4, 8]
    assert of_first.loc["judge alone, SLIDE, Ex-DRE", "dollars"] == pytest.approx(USD_OF_REPLY)
    # Four criteria, two samples of each.
    assert of_first.loc["G-EVAL", "dollars"] == pytest.approx(8 * USD_OF_REPLY)
    assert of_first.loc["G-EVAL", "seconds"] >= 8 * 0.05
    assert of_first.loc["In-DRE, DRE", "printed_dollars_in_all"] == 100
    assert np.isnan(of_first.loc["G-EVAL", "printed_dollars_in_all"])
    assert by_row.loc["warm", "dollars"].item() == pytest.approx(9 * USD_OF_REPLY)
    assert np.isnan(by_row.loc["no price", "dollars"].item())
    # What print has of others keeps its row.
    assert by_row.loc[("llama3.3-70B", "evaluation"), "printed_gigabytes"] == 40
    assert "claude-2026-11" not in by_row.index.unique("model")


def test_a_small_model_costs_what_its_training_measured(with_openai_key):
    class Measured:
        provenance = {
            "measured": {
                "training": {"seconds": 7200, "gpu_gib": 3.0, "device": "a GPU"},
                "scoring": {"pairs": 10, "seconds": 2.0, "gpu_gib": 1.0, "device": "a GPU"},
            }
        }

    class Recorded:
        provenance = {}

    settings = profile("mini")
    assert costs.per_example(settings, [], {"ours": Recorded()}).empty
    table = costs.per_example(settings, [], {"paper": Measured(), "ours": Recorded()})
    training, scoring = (table[table["what"] == what].iloc[0] for what in ("training", "scoring"))
    assert (training["hours"], training["printed_hours"], training["gpu_gib"]) == (2, 3, 3)
    assert np.isnan(training["seconds"]) and scoring["seconds"] == 0.2
    assert scoring["replies"] == 10 and scoring["device"] == "a GPU"
