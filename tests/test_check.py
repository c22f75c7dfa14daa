"""What a run needs is looked for before anything is trained or paid."""

import os

import pytest
from conftest import writable_copy
from judge_servers import Server, error, openai
from test_authors import written

from dre.errors import DreError
from dre.judges import prompts
from dre.judges.store import Store
from dre.paper import ask, check, run
from dre.paper.profile import PCAFSettings, TrainingSet, profile

MINI = profile("mini")


@pytest.fixture
def server(with_openai_key):
    with Server(lambda request: openai('{"score": 3}')) as server:
        yield server


def own_set(train, test=("mini", "test")):
    return TrainingSet(key="boats", label="boats", train=train, dev=train, test=test)


def settings_with(**changes):
    """Profile mini with some changes, which are validated."""
    return type(MINI).model_validate(MINI.model_dump() | changes)


MISSING = {
    "a recording": ({"judges": ["recorded:gpt-9"]}, "judges, gpt-9: .*gpt-9"),
    "a provider": ({"judges": ["mistral:large"]}, "judge 'mistral:large': expected one of"),
    "a price": ({"judges": [{"model": "openai:nobodys", "max_usd": 1}]}, "give its price"),
    "log-probabilities": (
        {"judges": [{"model": "anthropic:claude", "logprobs": True}]},
        "gives no log-probabilities",
    ),
    "a recipe": (
        {"models": {"paper": {"recipe": "papers"}, "ours": {"recipe": "ours"}}},
        "models, paper: unknown recipe 'papers'",
    ),
    "a data set": ({"sets": [own_set(("daily", "train"))], "main_set": "boats"}, "boats: .*daily"),
    "a split": ({"sets": [own_set(("mini", "valid"))], "main_set": "boats"}, "boats: .*valid"),
    "a file": ({"sets": [own_set(("a.jsonl", "train"))], "main_set": "boats"}, "a.jsonl.*augment"),
    "a prompt": ({"prompts": {"llm-only": "mine.txt"}}, "prompts, llm-only: there is no llm-only"),
    "dialogues": ({"extra": {"dialogues": ["convai3"], "graded": []}}, "no convai3, expected"),
    "a metric": ({"metrics": {"cmn": "cmn"}}, "metrics: there is no cmn"),
}


@pytest.mark.parametrize("changes, message", MISSING.values(), ids=MISSING)
def test_what_a_profile_names_and_nobody_has_is_refused(changes, message):
    with pytest.raises(DreError, match=f"profiles/mini.yaml, .*{message}"):
        check.check(settings_with(**changes))


def test_a_prompt_of_ones_own_has_the_scale_that_fusions_take(tmp_path):
    text = (prompts.FOLDER / "llm_only.txt").read_text()
    own = tmp_path / "own.txt"
    own.write_text(text)
    assert check.check(settings_with(prompts={"llm_only": str(own)}))
    own.write_text(text.replace("scale: [0.0, 5.0]", "scale: [1, 10]"))
    with pytest.raises(DreError, match=r"prompts, llm_only: own asks for a score on \(1.*0.*5"):
        check.check(settings_with(prompts={"llm_only": str(own)}))


def test_a_key_that_is_missing_is_found_before_anything_is_trained(server, tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    for name in ("DRE_ROOT", "PYTHONPATH", "TOKENIZERS_PARALLELISM"):
        monkeypatch.setenv(name, os.environ.get(name, ""))  # a run sets them for its kernels
    monkeypatch.setattr(ask, "train", lambda settings: pytest.fail("a model was trained"))
    writable_copy(MINI.root / "notebooks", tmp_path / "notebooks")
    settings = settings_with(judges=["openai:any"], root=tmp_path)
    with pytest.raises(DreError, match="judges, openai:any: OPENAI_API_KEY is not set: export it"):
        run.run(settings)


@pytest.mark.parametrize(("name", "is_trained"), [("mini", True), ("public", False)])
def test_models_are_trained_before_notebooks_but_for_the_profile_with_recorded_scores(
    name, is_trained, tmp_path, monkeypatch
):
    trained = []
    monkeypatch.setattr(ask, "train", trained.append)
    monkeypatch.setattr(check, "check", lambda settings: [])
    monkeypatch.setattr(run, "_fetch_public_data", lambda settings: None)
    (tmp_path / "notebooks").mkdir()
    run._prepare(profile(name).model_copy(update={"root": tmp_path}))
    assert bool(trained) == is_trained


def test_an_address_that_does_not_answer_is_found_and_one_that_does_is_asked_nothing(server):
    assert check.check(settings_with(judges=[{"model": "openai:any", "base_url": server.url}]))
    assert server.requests == [] and Store().bill("judge").empty
    nobody = {"model": "ollama:any", "base_url": "http://127.0.0.1:9"}
    with pytest.raises(DreError, match=r"ollama:any: http://127.0.0.1:9 does not answer"):
        check.check(settings_with(judges=[nobody]))


def test_a_judge_that_never_replied_is_refused_though_its_errors_are_stored(server, monkeypatch):
    judge = {"model": "openai:any", "base_url": server.url}
    settings = settings_with(judges=[judge], notebooks=["03_classification"])
    server.script = lambda request: error("openai", 401, "no such key")
    assert ask.ask(settings)
    assert Store().bill("judge")["errors"].sum() > 0

    def refuse(*_, **__):
        raise OSError("refused")

    monkeypatch.setattr(check, "urlopen", refuse)
    with pytest.raises(DreError, match="does not answer"):
        check.check(settings)


def test_what_can_be_used_of_the_authors_sets_is_said_and_too_little_is_refused(tmp_path):
    path = tmp_path / "boats.json"
    path.write_text(written(0) + written(1, []) + written(2))
    settings = settings_with(sets=[own_set((str(path), "train"))], main_set="boats")
    lines = check.check(settings)
    assert lines[0] == "boats.json: 2 of 3 contexts can be used"
    assert lines[1] == "boats: 2 contexts in train, 2 contexts in dev, 32 contexts in test"
    path.write_text(written(0) + written(1, []) + written(2, []))
    with pytest.raises(DreError, match="sets, boats: .*too little.*public.yaml"):
        check.check(settings)


def test_what_pcaf_needs_is_looked_for_where_its_notebook_is_run(tmp_path):
    absent = {"encoder": "x", "english_encoder": "y", "archive": str(tmp_path / "no.zip")}
    settings = settings_with(pcaf=PCAFSettings(**absent))
    with pytest.raises(DreError, match="pcaf.*no.zip"):
        check.check(settings)
    assert check.check(settings.model_copy(update={"notebooks": ("05_case_studies",)}))


@pytest.mark.parametrize("name", ["mini", "public"])
@pytest.mark.needs_data
def test_the_profiles_of_the_project_can_be_carried_out(name):
    assert check.check(profile(name))
