"""What a run of a profile would take, before anything is asked: it must be what is asked then."""

import pandas as pd
import pytest
from conftest import needs_data
from judge_servers import Server
from test_judgements import MINI, replies

from dre.paper import estimate, judgements, plan
from dre.paper.profile import PROJECT, Augmentation, JudgeSettings, profile


@pytest.fixture
def server(with_openai_key):
    with Server(replies) as server:
        yield server


def with_judge(server, **values):
    judge = JudgeSettings(model="openai:any", base_url=server.url, price="1,2")
    return profile("mini").model_copy(update={"judges": (judge,), "labels_per_kind": 6, **values})


def test_nothing_is_asked_for_an_estimate_and_what_is_stored_is_not_counted(server):
    settings = with_judge(server, notebooks=("03_classification",))
    expected = estimate.calls(settings).set_index(["table", "prompt"])["calls"]
    assert server.requests == []
    # Six replies of each kind, two random ones, and four that are shown with their labels.
    assert expected.to_dict() == {("Table 3", "classify"): 6 + 6 + 2 + 4}
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


def test_a_training_set_to_be_written_is_counted_about_and_at_most(server):
    judge = {"model": "openai:any", "base_url": server.url, "price": "1,1"}
    entry = Augmentation.model_validate(
        {"file": "a.jsonl", "contexts": "mini:train", "judge": judge, "train": 5, "test": 2}
    )
    settings = with_judge(server, judges=("recorded:claude-2026-11",), augment=(entry,))
    table = estimate.calls(settings)
    assert table["calls"].to_list() == [7 * 11]
    assert table["usd_at_most"].iloc[0] > 3 * table["usd"].iloc[0]


def test_the_report_says_hours_and_disk_and_what_is_assumed(server):
    mini = profile("mini")
    text = estimate.report(mini, estimate.calls(mini))
    assert "no calls" in text and "hours of a GPU" in text and "assumed" in text
    # One epoch of 74 contexts, eight in a step, with and without separation.
    trainings = estimate.trainings(profile("mini"))
    assert trainings.n_models == 2
    assert "one NVIDIA H200" in text
    seconds = 2 * 10 * 0.196  # the slower of two runs with MiniLM and 128 tokens
    assert trainings.gpu_hours == pytest.approx(seconds / 3600)


@pytest.mark.parametrize(
    "encoder, length, batch, seconds",
    [
        ("distilbert", 512, 8, 0.138),
        ("distilbert", 128, 8, 0.113),
        ("distilbert", 100, 2, 0.113 * 0.325),
        ("distilbert", 512, 32, 0.138 * 3.7),
        ("minilm", 512, 8, 0.196),
        ("somebody/other-encoder", 128, 8, 0.196),
    ],
)
def test_a_step_takes_what_was_measured_of_its_encoder_and_length(encoder, length, batch, seconds):
    settings = profile("full").model_copy(update={"encoder": encoder})
    assert estimate.seconds_per_step(settings, length, batch) == pytest.approx(seconds)


@needs_data
def test_the_documented_calls_of_full_are_those_of_today(monkeypatch, tmp_path):
    monkeypatch.setenv("DRE_STORE", str(tmp_path / "empty.db"))
    documented = pd.read_csv(PROJECT / "results/full_estimate/tables.csv")
    always = documented[documented["asked"] == "always"].set_index(["table", "prompt"])["calls"]
    judge = JudgeSettings(model="openai:gpt-3.5-turbo-1106", price="1,2")
    full = profile("full").model_copy(update={"judges": (judge,)})
    today = estimate.calls(full).set_index(["table", "prompt"])["calls"]
    assert today.to_dict() == always.to_dict()


def test_a_report_names_the_optional_prompts_that_are_not_asked(server):
    settings = with_judge(server, notebooks=("05_case_studies",), optional_prompts=("geval",))
    text = estimate.report(settings, estimate.calls(settings))
    assert "does not name them: analyse_rate, huynh, slide_a1" in text
