"""What a profile may say: its keys, and which parts must fit."""

from pathlib import Path

import pytest
from conftest import writable_copy

from dre.errors import DreError
from dre.paper import trainings
from dre.paper.profile import Profile, profile
from dre.slm import recipes

HERE = Path(__file__).parents[1]
MINI = profile("mini").model_dump()
SET = MINI["sets"][0]
RATED = "personachat-usr"
GPT = "openai:gpt-4o-mini"

WRONG = {
    "an unknown key": ({"sampels": 20}, "sampels"),
    "an unknown key of a set": ({"sets": [SET | {"further": "paper"}]}, "sets.0.further"),
    "an unknown key of a judge": ({"judges": [{"model": GPT, "temprature": 0}]}, "temprature"),
    "an unknown prompt": ({"optional_prompts": ["gpteval"]}, "optional_prompts"),
    "a number out of range": ({"pairs_per_set": 0}, "pairs_per_set"),
    "a recording that is asked": (
        {"judges": [{"model": "recorded:claude-2026-11", "temperature": 0}]},
        "takes no temperature",
    ),
    "two judges of one name": ({"judges": [GPT, GPT]}, f"'judges' names {GPT} twice"),
    "an unknown main judge": ({"main_judge": "GPT-4"}, "'main_judge' names GPT-4"),
    "two sets of one key": ({"sets": [SET, SET]}, "'sets' names mini twice"),
    "an unknown main set": ({"main_set": "daily"}, "'main_set' names daily"),
    "an unknown rated set": ({"rated": ["topicalchat"]}, "'rated' names topicalchat"),
    "a rated set without a training": ({"rated": [RATED]}, f"'rated' names {RATED}, and no set"),
    "two trainings of one rated set": (
        {"sets": [SET | {"rated_by": RATED}, SET | {"key": "more", "rated_by": RATED}]},
        f"'rated_by' names {RATED} twice",
    ),
    "no model of the papers": ({"recipes": ["ours"]}, "'recipes' lacks paper"),
    "an unknown model": ({"controls": "released"}, "'controls' names released"),
    "huynh without its items": ({"optional_prompts": ["huynh"]}, "asks about fed-turn"),
}


@pytest.mark.parametrize("changes, message", WRONG.values(), ids=WRONG)
def test_a_profile_that_is_wrong_is_refused_with_the_key(changes, message):
    with pytest.raises(ValueError, match=message):
        Profile.model_validate(MINI | changes)


def test_the_message_names_the_file_and_the_key(tmp_path):
    path = writable_copy(HERE / "profiles", tmp_path / "profiles") / "mini.yaml"
    path.write_text(path.read_text() + "augmented: []\n")
    with pytest.raises(DreError, match=r"profiles/mini.yaml: augmented: Extra inputs"):
        profile("mini", tmp_path)


def test_mini_explains_every_key():
    text = (HERE / "profiles/mini.yaml").read_text(encoding="utf-8")
    for name in Profile.model_fields.keys() - {"root"}:
        assert f"\n{name}:" in text, name
    for name in ("batch_contexts", "head_learning_rate", "text_length", "base_url", "max_usd"):
        assert name in text


def test_the_files_of_a_profile_are_found_from_any_folder(tmp_path):
    path = writable_copy(HERE / "profiles", tmp_path / "profiles") / "mini.yaml"
    path.write_text(path.read_text().replace("train: [mini, train]", "train: [set.jsonl, train]"))
    (tmp_path / "set.jsonl").touch()
    (entry,) = profile("mini", tmp_path).sets
    assert entry.train == (str(tmp_path / "set.jsonl"), "train")
    assert entry.dev == ("mini", "dev")


def test_a_profile_sets_batch_rates_length_and_epochs_and_leaves_the_rest_to_the_recipe():
    def recipe(**values):
        models = MINI["models"] | {"paper": {"recipe": "paper", **values}}
        return trainings._recipe(Profile.model_validate(MINI | {"models": models}), "paper", True)

    assert recipe() == recipes.get("paper")
    changed = recipe(
        batch_contexts=32, learning_rate=2e-5, head_learning_rate=1e-4, text_length=512
    )
    assert (changed.batch_contexts, changed.learning_rate) == (32, 2e-5)
    assert (changed.head_learning_rate, changed.max_seq_length) == (1e-4, 512)
    assert changed.as_dict()["stages"] == recipes.get("paper").as_dict()["stages"]
    epochs = {stage.name: stage.epochs for stage in recipes.get("released", (5, 1, 30)).stages}
    assert (epochs["contrastive"], epochs["classifier"]) == (5, 30)


def test_full_takes_the_papers_sets_and_trains_released_as_its_source_does():
    full = profile("full")
    names = [entry.train[0] for entry in full.sets]
    assert names == ["dailydialog++", "personachat-gpt4", "topicalchat-gpt4"]
    recipe = trainings._recipe(full, "released", True)
    assert [stage.epochs for stage in recipe.stages] == [5, 10, 30]
    assert recipe.max_seq_length == 512
