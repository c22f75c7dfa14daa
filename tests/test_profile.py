"""What a profile may say of its models and training sets, and the sets that it has written."""

import json
from pathlib import Path

import pandas as pd
import pytest
from conftest import needs_data, writable_copy
from judge_servers import Server, openai, pairs

from dre.datasets import dialogues, overlap
from dre.errors import DreError
from dre.paper import estimate, judgements, trainings, written_sets
from dre.paper.profile import Augmentation, Profile, profile
from dre.slm import recipes

HERE = Path(__file__).parents[1]


def model(**values):
    """The recipe of a model that profile mini describes so."""
    mini = profile("mini").model_dump()
    mini["models"]["paper"] = {"recipe": "paper", **values}
    return trainings._recipe(Profile.model_validate(mini), "paper", True)


def test_a_profile_sets_batch_rates_length_and_epochs_and_leaves_the_rest_to_the_recipe():
    assert model() == recipes.get("paper")
    changed = model(batch_contexts=32, learning_rate=2e-5, head_learning_rate=1e-4, text_length=512)
    assert (changed.batch_contexts, changed.learning_rate) == (32, 2e-5)
    assert (changed.head_learning_rate, changed.max_seq_length) == (1e-4, 512)
    assert changed.as_dict()["stages"] == recipes.get("paper").as_dict()["stages"]


def test_full_trains_released_as_its_source_does():
    full = profile("full")
    recipe = trainings._recipe(full, "released", True)
    epochs = {stage.name: stage.epochs for stage in recipe.stages}
    assert (epochs["contrastive"], epochs["classifier"]) == (5, 30)
    assert recipe.max_seq_length == 512


def test_epochs_are_of_all_stages_or_of_each():
    assert [stage.epochs for stage in recipes.get("released", 2).stages] == [2, 2, 2]
    assert [stage.epochs for stage in recipes.get("released", (5, 1, 30)).stages] == [5, 1, 30]
    for wrong in (0, (1, 2), (1, 0, 1)):
        with pytest.raises(DreError, match="expected 1 or more"):
            recipes.get("released", wrong)


@pytest.mark.parametrize(
    "key, value",
    [
        ("optional_prompts", ["gpteval"]),
        ("samples", 0),
        ("pairs_per_set", 0),
        ("augment", [{"file": "a.csv", "contexts": "mini:train", "judge": "a:b", "train": 1}]),
        ("sampels", 20),
        # There is one version of the training data.
        ("models", {"paper": {"recipe": "paper", "data": 2}, "ours": {"recipe": "ours"}}),
        ("sets", [{**profile("mini").sets[0].model_dump(), "further": "paper"}]),
    ],
)
def test_a_key_that_is_wrong_is_refused(key, value):
    with pytest.raises(ValueError, match=key):
        Profile.model_validate({**profile("mini").model_dump(), key: value})


def test_mini_explains_every_key():
    text = (HERE / "profiles/mini.yaml").read_text(encoding="utf-8")
    for name in Profile.model_fields.keys() - {"root"}:
        assert f"\n{name}:" in text, name
    for name in ("batch_contexts", "head_learning_rate", "text_length", "base_url", "max_usd"):
        assert name in text


# Algorithm 1 as a step of a profile


def writer(request):
    """Write ten responses to every context, and call each of them what it was written to be."""
    text = request.body["messages"][-1]["content"]
    fields = request.body["response_format"]["json_schema"]["schema"]["properties"]
    if "label" in fields:
        is_positive = "a good reply" in text.rpartition("<response-")[2]
        return openai(json.dumps({"label": "Positive" if is_positive else "Negative"}))
    drafts = {
        "positive": [f"That is a good reply, number {n}." for n in range(5)],
        "adversarial": [f"That is a wrong reply, number {n}." for n in range(5)],
    }
    return openai(json.dumps(drafts))


@pytest.fixture
def project(tmp_path, with_openai_key):
    writable_copy(HERE / "profiles", tmp_path / "profiles")
    with Server(writer) as server:
        yield tmp_path, server


def with_set(root, server, contexts, **counts):
    """Profile mini, whose first set is one that a judge at the server writes."""
    judge = {"model": "openai:any", "base_url": server.url, "price": "1,1", "max_usd": 1}
    entry = Augmentation.model_validate(
        {"file": "written/set.jsonl", "contexts": contexts, "judge": judge, **counts}
    )
    settings = profile("mini", root)
    return settings.model_copy(update={"augment": (entry,)})


def test_a_written_set_is_paid_for_once_and_can_be_trained_on(project):
    root, server = project
    settings = with_set(root, server, "mini:train", train=5, test=2)
    written_sets.write_sets(settings)
    assert len(server.requests) == 7 * 11
    path = root / "written/set.jsonl"
    written = path.read_bytes()
    written_sets.write_sets(settings)
    assert len(server.requests) == 7 * 11 and path.read_bytes() == written
    train, test = (dialogues.load(str(path), split) for split in ("train", "test"))
    assert (len(train), len(test)) == (5, 2)
    assert train[0].positives[0] == "That is a good reply, number 0."
    known = {context.id: context.turns for context in dialogues.load("mini", "train")}
    assert all(context.turns == known[context.id] for context in train)


def test_a_set_that_the_budget_ends_goes_on_later(project):
    root, server = project
    settings = with_set(root, server, "mini:train", train=5, test=2)
    (entry,) = settings.augment
    poor = entry.model_copy(update={"judge": entry.judge.model_copy(update={"max_usd": 0.02})})
    server.script = lambda request: openai(
        writer(request).body["choices"][0]["message"]["content"], tokens=(50, 600)
    )
    with pytest.raises(DreError, match="not complete.*would be passed.*goes on"):
        written_sets.write_sets(settings.model_copy(update={"augment": (poor,)}))
    n_calls = len(server.requests)
    assert 0 < n_calls < 7 * 11
    assert not (root / "written/set.jsonl").exists()
    written_sets.write_sets(settings)
    assert len(server.requests) == 7 * 11


def rejecting(contexts):
    """A writer whose check calls the drafts of some contexts wrong."""

    def script(request):
        text = request.body["messages"][-1]["content"]
        is_check = "label" in str(request.body["response_format"])
        is_of = [all(turn in text for turn in context.turns) for context in contexts]
        return openai('{"label": "Negative"}') if is_check and any(is_of) else writer(request)

    return script


def test_a_set_that_its_judge_mostly_rejects_ends_the_run_with_the_counts(project):
    root, server = project
    settings = with_set(root, server, "mini:train", train=14, test=4, rounds=1)
    server.script = rejecting(written_sets.contexts_to_write_for(settings, settings.augment[0]))
    message = "any, found its own responses right for 0 of 14 for train and 0 of 4 for test;"
    with pytest.raises(DreError, match=message + ".*expected 50% of each.*'rounds'"):
        written_sets.write_sets(settings)
    assert not (root / "written/set.jsonl").exists()
    n_calls = len(server.requests)
    with pytest.raises(DreError, match="0 of 14"):
        written_sets.write_sets(settings)
    assert len(server.requests) == n_calls


def test_a_set_of_which_some_contexts_were_rejected_is_written_and_says_how_many(project, capsys):
    root, server = project
    settings = with_set(root, server, "mini:train", train=14, test=4, rounds=1)
    contexts = written_sets.contexts_to_write_for(settings, settings.augment[0])
    server.script = rejecting(contexts[::2])
    written_sets.write_sets(settings)
    assert len(dialogues.read_contexts(root / "written/set.jsonl")) == 9
    printed = capsys.readouterr().out
    assert "9 of 18 contexts, written by openai:any (9 rejected, 9 accepted)" in printed


@pytest.mark.parametrize("n_rejected", [0, 5])
def test_what_is_stored_of_a_set_is_not_estimated_again_and_its_bound_holds(project, n_rejected):
    root, server = project
    settings = with_set(root, server, "mini:train", train=14, test=4, rounds=2)
    contexts = written_sets.contexts_to_write_for(settings, settings.augment[0])
    server.script = rejecting(contexts[:n_rejected])
    before = estimate.calls(settings).iloc[0]
    assert (before["calls"], before["calls_at_most"]) == (18 * 11, 2 * 18 * 11)
    assert "198 calls (at most 396)" in estimate.report(settings, estimate.calls(settings))

    (entry,) = settings.augment
    poor = entry.model_copy(update={"judge": entry.judge.model_copy(update={"max_usd": 0.01})})
    with pytest.raises(DreError, match="not complete"):
        written_sets.write_sets(settings.model_copy(update={"augment": (poor,)}))
    n_made = len(server.requests)
    left = estimate.calls(settings).iloc[0]
    assert n_made == len(server.requests) and n_made > 18

    written_sets.write_sets(settings)
    n_more = len(server.requests) - n_made
    assert 0 < n_more <= left["calls_at_most"] < before["calls_at_most"]
    if not n_rejected:
        assert left["calls"] == n_more
    spent = written_sets.open_writer(entry).store.spent()
    assert spent <= before["usd_at_most"]
    assert estimate.calls(settings).empty


def test_contexts_that_two_sets_have_in_common_are_estimated_and_paid_for_once(project):
    root, server = project
    settings = with_set(root, server, "mini:train", train=5, test=2)
    (entry,) = settings.augment
    second = entry.model_copy(update={"file": "written/other.jsonl"})
    settings = settings.model_copy(update={"augment": (entry, second)})
    expected = estimate.calls(settings)
    written_sets.write_sets(settings)
    assert expected["calls"].sum() == len(server.requests) == 7 * 11


def test_a_set_that_nobody_has_written_is_named():
    with pytest.raises(DreError, match="no such file yet: `augment` of the profile"):
        dialogues.load("nowhere/set.jsonl", "train")


def test_the_files_of_a_profile_are_found_from_any_folder(project):
    root, _ = project
    path = root / "profiles/mini.yaml"
    text = path.read_text().replace("train: [mini, train]", "train: [written/set.jsonl, train]")
    path.write_text(text)
    (entry,) = profile("mini", root).sets
    assert entry.train == (str(root / "written/set.jsonl"), "train")
    assert entry.dev == ("mini", "dev")


def test_a_judge_of_a_profile_that_cannot_be_read_stops_in_one_sentence(project):
    root, server = project
    server.script = lambda request: openai("[PLAN]Hm.[/PLAN]4")
    path = root / "profiles/mini.yaml"
    described = f"{{model: 'openai:m', base_url: '{server.url}', plain: true}}"
    text = (HERE / "profiles/mini.yaml").read_text()
    path.write_text(text.replace('["recorded:claude-2026-11"]', f"[{described}]"))
    [asked] = judgements.panel(profile("mini", root))
    rows = pd.DataFrame(pairs(30)).assign(facts="")
    with pytest.raises(DreError, match="none of its first 10") as raised:
        asked.ask(rows, "llm_only")
    assert "\n" not in str(raised.value)
    assert len(server.requests) == 10


@needs_data
def test_public_contexts_are_named_and_not_copied_and_no_conversation_is_in_both_splits(project):
    root, server = project
    settings = with_set(root, server, "convai2-valid", train=12, test=6)
    written_sets.write_sets(settings)
    text = (root / "written/set.jsonl").read_text()
    contexts = dialogues.read_contexts(root / "written/set.jsonl")
    assert len(contexts) == 18 and all(context.set == "convai2" for context in contexts)
    assert not any(context.turns[0] in text for context in contexts)
    conversation_of = overlap.conversations(context.id for context in contexts)
    by_split = {
        split: {conversation_of(context.id) for context in contexts if context.split == split}
        for split in ("train", "test")
    }
    assert by_split["train"].isdisjoint(by_split["test"])
    edited = text.replace(json.loads(text.splitlines()[0])["context_sha256"], "0" * 64)
    (root / "written/set.jsonl").write_text(edited)
    with pytest.raises(DreError, match="no public context"):
        dialogues.read_contexts(root / "written/set.jsonl")
