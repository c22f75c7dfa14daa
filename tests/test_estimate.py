"""What a run of a profile would take, before anything is asked: it must be what is asked then."""

import pandas as pd
import pytest
from conftest import needs_data
from judge_servers import Server
from test_judgements import MINI, replies

from dre.errors import DreError
from dre.paper import estimate, judgements, plan
from dre.paper.profile import PROJECT, JudgeSettings, profile


@pytest.fixture
def server(with_openai_key):
    with Server(replies) as server:
        yield server


def with_judge(server, **values):
    judge = JudgeSettings(model="openai:any", base_url=server.url, price="1,2")
    return profile("mini").model_copy(update={"judges": (judge,), "labels_per_kind": 6, **values})


def test_nothing_is_asked_for_an_estimate_and_what_is_stored_is_not_counted(server, monkeypatch):
    settings = with_judge(server, notebooks=("03_classification",))
    expected = estimate.calls(settings).set_index(["table", "prompt"])["calls"]
    # Six replies of each kind, two random ones, and four that are shown with their labels.
    assert expected.to_dict() == {("Table 3", "classify"): 6 + 6 + 2 + 4}
    monkeypatch.delenv("OPENAI_API_KEY")
    assert "18 calls" in estimate.report(settings)  # no key is needed
    assert server.requests == []
    (judge,) = judgements.panel(settings)
    judge.ask(plan.pairs_to_label(settings).head(5), "classify")
    assert list(estimate.calls(settings)["calls"]) == [6 + 6 + 2 + 4 - 5]


def test_the_estimate_of_a_notebook_is_of_what_it_reads_alone(server):
    settings = with_judge(server, notebooks=("03_classification", "05_case_studies"))
    table = estimate.calls(settings, "05_case_studies")
    assert set(table["prompt"]) == {"classify", "llm_only", "dre"}
    assert "calls" in estimate.of_notebook(settings, "05_case_studies")
    assert estimate.of_notebook(settings, "02_slm_training") == ""


def test_optional_prompts_are_counted_only_where_they_are_named(server, monkeypatch):
    question = plan.Ask("Table 4", ("04_correlation",), "geval", MINI.head(3))
    monkeypatch.setattr(plan, "_all_asks", lambda settings: [question])
    assert estimate.calls(with_judge(server)).empty
    named = with_judge(server, optional_prompts=("geval",), samples=20)
    assert estimate.calls(named)["calls"].to_list() == [3 * 4 * 20]
    assert "does not name them: analyse_rate, huynh, slide_a1" in estimate.report(named)


def test_hours_are_the_steps_of_the_encoder_by_one_measured_time():
    mini = profile("mini")
    assert "no calls" in estimate.report(mini) and "H200" in estimate.report(mini)
    # One epoch of 74 contexts, eight in a step, with and without disentangling.
    seconds = 2 * 10 * estimate.SECONDS_PER_STEP
    assert estimate.hours(mini) == (2, pytest.approx(seconds / 3600))
    entry = mini.sets[0].model_copy(update={"train": ("not/written.jsonl", "train")})
    with pytest.raises(DreError, match="not/written.jsonl: there is no such file yet"):
        estimate.hours(mini.model_copy(update={"sets": (entry,)}))


@needs_data
def test_the_documented_calls_of_full_are_those_of_today(monkeypatch, tmp_path):
    monkeypatch.setenv("DRE_STORE", str(tmp_path / "empty.db"))
    documented = pd.read_csv(PROJECT / "results/full_estimate/tables.csv")
    is_asked = ~documented["prompt"].isin(["geval", "analyse_rate", "slide_a1"])
    is_asked &= documented["table"] != "Huynh et al."
    always = documented[is_asked].set_index(["table", "prompt"])["calls"]
    judge = JudgeSettings(model="openai:gpt-3.5-turbo-1106", price="1,2")
    full = profile("full").model_copy(update={"judges": (judge,)})
    today = estimate.calls(full).set_index(["table", "prompt"])["calls"]
    assert today.to_dict() == always.to_dict()
