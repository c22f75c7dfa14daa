"""The judges of a profile: what recorded and live ones say, and what is asked of a live one."""

import json
import os
import re
import sys
import types

import numpy as np
import pandas as pd
import pytest
from conftest import needs_data
from judge_servers import Server, openai

from dre import classification
from dre.datasets import dialogues, ratings, recordings
from dre.errors import DreError
from dre.judges import prompts
from dre.paper import judgements, notebook, plan
from dre.paper.profile import JudgeSettings, profile

GPT35 = "openai:gpt-3.5-turbo-1106"
MINI = dialogues.pairs(dialogues.load("mini", "test"), "pa")


def replies(request):
    """Answer every prompt by a rule: by what the request asks for, and by the texts in it."""
    message = request.body["messages"][-1]["content"]
    wanted = request.body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    fields = wanted.get("properties", {})
    number = sum(message.encode()) % 11
    if "label" in fields:
        return openai(json.dumps({"label": "Positive" if number % 2 else "Negative"}))
    if "influence" in fields:
        return openai(json.dumps({"influence": number / 10, "score": number / 2}))
    if fields:
        return openai(json.dumps({"score": number / 2}))
    return openai("1")


class Halves:
    """A small model that gives every pair the same numbers, by the length of its response."""

    def score(self, pairs):
        lengths = pairs["response"].str.len().to_numpy() / 200
        table = pd.DataFrame({"pair_id": pairs["pair_id"].to_numpy(), "s_d": 1 - lengths})
        return table.assign(s_p=lengths, score_slm=2 * lengths)


@pytest.fixture
def server(with_openai_key):
    with Server(replies) as server:
        yield server


def panel_of(server, values=(), **judge):
    """The judge of profile mini with one live judge."""
    live = JudgeSettings(model=GPT35, base_url=server.url, price="1,2", **judge)
    settings = profile("mini").model_copy(update={"judges": (live,), **dict(values)})
    (judge,) = judgements.panel(settings)
    return judge


def test_a_live_judge_is_asked_for_every_prompt_and_nothing_twice(server):
    judge = panel_of(server, {"optional_prompts": ("geval", "slide_a1", "huynh"), "samples": 2})
    pairs = MINI.head(6)
    assert judge.is_live and judge.name == GPT35 and judge.printed_name == "GPT-3.5"
    assert judge.ask(pairs, "llm_only")["score"].between(0, 5).all()
    assert set(judge.ask(pairs, "classify")["label"]) <= {"Positive", "Negative"}
    assert judge.ask(pairs, "good_response")["label"].isna().all()  # "1" is neither yes nor no
    assert judge.scores(pairs, "analyse_rate") is None  # the profile does not name it
    before = len(server.requests)
    table = judge.ask(pairs, "geval")
    assert len(server.requests) == before + 6 * 4 * 2
    # 1 of 1 to 3 is the lowest, 1 of 0 to 1 the highest.
    assert (table["groundedness"] == 1).all() and (table["score"] == 5 / 4).all()
    assert (judge.ask(pairs, "slide_a1")["score"] == 5).all()
    asked = len(server.requests)
    for prompt in ("llm_only", "geval", "classify"):
        assert judge.ask(pairs, prompt).equals(judge.scores(pairs, prompt))
    assert len(server.requests) == asked


def test_of_a_judge_that_lacks_replies_nothing_is_read_and_the_reason_is_told_once(server, capsys):
    judge = panel_of(server)
    judge.ask(MINI.head(4), "llm_only")
    assert list(judge.scores(MINI.head(4))["status"]) == ["ok"] * 4
    assert judge.why_absent("llm_only") == ""
    for _ in range(2):
        assert judge.scores(MINI.head(6)) is None
    assert judge.scores(MINI.head(6), "good_response") is None
    assert judge.why_absent("llm_only").startswith("2 of 6 replies did not come")
    assert capsys.readouterr().out.count("book.ask()") == 1
    assert judge.scores(MINI.head(6), "geval") is None
    assert judge.why_absent("geval") == "optional_prompts does not name geval"
    assert len(server.requests) == 4


def test_one_reply_in_a_hundred_may_be_absent_and_two_may_not(server):
    judge = panel_of(server)
    judge.ask(MINI.head(98), "llm_only")
    assert judge.scores(MINI.head(100)) is None
    judge.ask(MINI.head(99), "llm_only")
    assert list(judge.scores(MINI.head(100))["status"]) == ["ok"] * 99 + ["missing"]


def test_a_reply_that_cannot_be_read_is_one_that_came(server):
    judge = panel_of(server, plain=True, concurrency=1)
    server.script = lambda request: openai("4" if len(server.requests) % 3 else "I cannot say.")
    judge.ask(MINI.head(6), "llm_only")
    table = judge.scores(MINI.head(6))
    assert table["score"].isna().sum() == (table["status"] != "ok").sum() == 2


def test_interior_refinement_shows_the_small_models_own_numbers_and_measured_accuracies(server):
    judge = panel_of(server, {"labels_per_kind": 9})
    pairs = MINI.head(4)
    assert judge.scores(pairs, "dre") is None  # no numbers, so nobody was asked
    judge.ask(plan.pairs_to_label(judge.settings), "classify")
    numbers = judge.numbers(pairs, Halves(), "mini")
    table = judge.ask(pairs, "dre", numbers)
    assert table["influence"].between(0, 1).all() and table["score"].between(0, 5).all()
    # What it says of s_p, and of the two accuracies, is what was measured.
    labelled = plan.pairs_to_label(judge.settings)
    assert labelled["kind"].value_counts().to_dict() == {"p": 9, "a": 9, "r": 3}
    labels = judge.scores(labelled, "classify")["label"] == "Positive"
    right = labels.eq(labelled["kind"] == "p").groupby(labelled["kind"]).mean()
    assert judge.accuracy() == pytest.approx((right["p"] + right["a"]) / 2)
    sent = {request.body["messages"][-1]["content"] for request in server.requests}
    shown = [text for text in sent if "SLM" in text]
    assert len(shown) == 4
    for text in shown:
        s_p = float(re.search(r"response is positive \(0 to 1\): (\S+)", text)[1])
        assert round(s_p, 3) in numbers["s_p"].round(3).to_list()
        assert f"SLM: {numbers['slm_accuracy'].iloc[0]:.1%}" in text
        assert f"{judge.accuracy():.1%}" in text


def test_the_accuracy_that_is_told_is_the_mean_of_both_kinds_at_a_threshold_from_dev():
    settings, slm = profile("mini"), Halves()
    dev = dialogues.pairs(dialogues.load("mini", "dev"), "pa")
    test = dialogues.pairs(dialogues.load("mini", "test"), "pa")
    threshold = classification.choose_threshold(slm.score(dev)["score_slm"], dev["kind"])
    is_right = (slm.score(test)["score_slm"] >= threshold) == (test["kind"] == "p")
    expected = is_right.groupby(test["kind"]).mean().mean()
    assert judgements.slm_accuracy(settings, slm, "mini") == pytest.approx(expected)


def test_the_run_stops_at_the_budget_and_goes_on_with_a_larger_one(server):
    # A call may cost about $0.003 at most, so a few fit, and all do with a larger budget.
    judge = panel_of(server, max_usd=0.006, concurrency=1)
    with pytest.raises(DreError, match="stopped at its budget.*max_usd in profiles/mini.yaml"):
        judge.ask(MINI.head(200), "llm_only")
    asked = len(server.requests)
    assert 0 < asked < 200
    assert judge.open("llm_only").store.spent() <= 0.006
    panel_of(server, max_usd=9.0).ask(MINI.head(200), "llm_only")
    assert len(server.requests) == len({request.raw for request in server.requests})


def test_the_profiles_own_file_takes_the_place_of_a_prompt(server, tmp_path):
    text = (prompts.FOLDER / "llm_only.txt").read_text().replace("No explanation", "No words")
    (tmp_path / "printed.txt").write_text(text)
    judge = panel_of(server, {"prompts": {"llm_only": str(tmp_path / "printed.txt")}})
    judge.ask(MINI.head(1), "llm_only")
    assert "No words" in server.requests[-1].body["messages"][-1]["content"]


def test_temperature_and_repeats_are_the_profiles_and_samples_come_warm(server):
    judge = panel_of(
        server, {"optional_prompts": ("geval",), "samples": 1}, temperature=0.2, repeats=3
    )
    judge.ask(MINI.head(1), "llm_only")
    assert [request.body["temperature"] for request in server.requests] == [0.2] * 3
    judge.ask(MINI.head(1), "geval")
    assert [request.body["temperature"] for request in server.requests[3:]] == [1.0] * 4


def test_printed_names_are_those_of_the_papers_tables():
    names = set(pd.read_csv(judgements.ALIASES)["printed"])
    printed = pd.read_csv(profile("mini").root / "data/paper/dre_table4.csv")
    in_table_3 = pd.read_csv(profile("mini").root / "data/paper/dre_table3.csv")["model"]
    assert set(printed["judge"].dropna()) | {"GPT-4"} == names
    assert {"GPT-3.5", "GPT-4", "Gemini", "Claude3"} <= set(in_table_3)
    settings = profile("mini").model_copy(update={"judges": (GPT35, "recorded:claude-2026-11")})
    in_print = {judge.name: judge.printed_name for judge in judgements.panel(settings)}
    assert in_print == {GPT35: "GPT-3.5", "claude-2026-11": ""}
    assert "DRE" in set(printed.loc[printed["judge"] == in_print[GPT35], "method"])


@needs_data
def test_a_recorded_judge_says_what_was_recorded_and_none_where_nothing_was():
    (judge,) = judgements.panel(profile("public"))
    items = ratings.rated("personachat-usr")
    assert not judge.is_live and judge.strength() == "strong"
    agreement = judge.scores(items)["score"].corr(items["human"], method="spearman")
    assert agreement == pytest.approx(0.816, abs=0.001)
    # G-EVAL's criteria are rated from 1 to 3, groundedness from 0 to 1.
    criteria = recordings.criteria().query("prompt == 'geval'").set_index("pair_id")
    criteria = criteria.loc[items["pair_id"]].reset_index(drop=True)
    three = (criteria[["coherence", "engagingness", "naturalness"]] - 1) / 2
    geval = 5 * (three.sum(axis=1) + criteria["groundedness"]) / 4
    assert np.allclose(judge.scores(items, "geval")["score"], geval, atol=1e-9)
    assert judge.scores(items, "classify") is None  # it labelled other pairs
    assert judge.scores(items, "no_such_prompt") is None
    # The numbers are those that it was shown, and not those of the model that is at hand.
    numbers = judge.numbers(items, Halves(), "personachat")
    assert list(numbers["pair_id"]) == list(items["pair_id"])
    assert numbers.loc[0, "s_p"] == pytest.approx(0.982235)


@pytest.mark.parametrize(
    ("judge", "strength"),
    [
        ("recorded:claude-2026-11", "strong"),
        ({"model": "recorded:Claude-3-haiku", "name": "Llama2-13B"}, "middle"),
        ("openai:gpt-3.5-turbo-1106", "middle"),
        ("anthropic:claude-3-haiku-20240307", "middle"),
        ("ollama:llama3.3:70b", ""),
        ({"model": "openai:a-model", "name": "Qwen-14B"}, ""),
        ("openai:gpt-5-mini", ""),
    ],
)
def test_the_class_of_a_judge_is_what_is_known_of_its_model_and_an_unknown_one_has_none(
    judge, strength
):
    if isinstance(judge, dict):
        judge = JudgeSettings(**judge)
    settings = profile("mini").model_copy(update={"judges": (judge,)})
    (of_panel,) = judgements.panel(settings)
    assert of_panel.strength() == strength


def test_a_live_judge_in_colab_takes_its_key_from_the_secrets(monkeypatch):
    secrets = {"OPENAI_API_KEY": "from the secrets", "GEMINI_API_KEY": "another"}
    userdata = types.ModuleType("userdata")
    userdata.get = secrets.__getitem__  # raises an error for a secret that is not there
    colab = types.ModuleType("google.colab")
    colab.userdata = userdata
    monkeypatch.setitem(sys.modules, "google", types.ModuleType("google"))
    monkeypatch.setitem(sys.modules, "google.colab", colab)
    monkeypatch.setenv("GEMINI_API_KEY", "of the environment")
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    notebook._take_keys_from_colab()
    assert os.environ.pop("OPENAI_API_KEY") == "from the secrets"
    assert os.environ["GEMINI_API_KEY"] == "of the environment"
    assert "ANTHROPIC_API_KEY" not in os.environ


@needs_data
def test_feds_qualities_are_asked_one_at_a_time_with_the_examples_that_are_named(server):
    settings = {"rated": ("fed-turn",), "pairs_per_set": 9}  # of three dialogues
    judge = panel_of(server, settings)
    assert judge.qualities() is None and server.requests == []
    nearest = plan.Selection("bm25", 3)
    judge = panel_of(server, {**settings, "optional_prompts": ("huynh",)})
    for selection in (plan.ZERO_SHOT, nearest):
        for question in plan.quality_questions(judge.settings, selection):
            judge.ask(question.pairs, question.prompt, examples=question.examples)
    n_calls = len(server.requests)
    told = judge.qualities()
    # Nine qualities of nine turns and eleven of nine dialogues; equal prompts share a reply.
    assert len(told) == 9 * 9 + 9 * 11 and set(told["quality"]) >= {"Fluent", "Error recovery"}
    assert 0 < n_calls <= 2 * len(told)
    assert told["score"].eq(1).all()  # the server's only word, on each quality's own scale
    assert len(judge.qualities(nearest)) == len(told) and len(server.requests) == n_calls
    sent = server.requests[-1].body["messages"][-1]["content"]
    assert sent.count("Rating: ") >= 3
    (recorded,) = judgements.panel(profile("public"))
    assert set(recorded.qualities(nearest).columns) == {"item", "quality", "score"}
    assert recorded.qualities(plan.Selection("no such examples", 3)) is None
