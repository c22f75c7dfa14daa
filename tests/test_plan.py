"""The plan of a profile: a local server is asked what is planned, and what it would take."""

from collections import Counter

import pytest
from conftest import needs_data, writable_copy
from judge_servers import Server
from test_judgements import replies

from dre.datasets import dialogues, recordings
from dre.errors import DreError
from dre.paper import ask, bill, check, estimate, judgements, notebook, plan, state
from dre.paper.profile import Model, Profile, TrainingSet, profile

LIVE = "openai:gpt-3.5-turbo-1106"
OTHER = "openai:gpt-4o-mini"
RATED = ("topicalchat-usr", "dailydialog-zhao", "personachat-usr")


@pytest.fixture
def server(with_openai_key):
    with Server(replies) as server:
        yield server


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder in which models that are trained once serve all tests."""
    root = tmp_path_factory.mktemp("project")
    (root / "data").symlink_to(profile("mini").root / "data")
    return root


def training_set(key, rated_by, train, test):
    """A training set of a few contexts of the embedded corpus."""
    splits = {"train": ("mini", train), "dev": ("mini", train), "test": ("mini", test)}
    return TrainingSet(key=key, label=key, rated_by=rated_by, dev_share=0.3, **splits)


SETS = (
    training_set("daily", "dailydialog-zhao", "dev", "test"),
    training_set("persona", "personachat-usr", "train", "test"),
    training_set("topical", "topicalchat-usr", "test", "dev"),
)


def live(server, model=LIVE):
    return {"model": model, "base_url": server.url, "price": "1,2", "max_usd": 9}


def settings_of(server, encoder, root, **changes):
    """Profile mini with three small training sets, and one live judge."""
    values = profile("mini").model_dump() | {
        "encoder": encoder,
        "models": {"paper": Model(recipe="paper", epochs=1), "ours": Model(recipe="ours")},
        "sets": SETS,
        "main_set": "daily",
        "rated": RATED,
        "judges": (live(server),),
        "labels_per_kind": 6,
        "pairs_per_set": 4,
        "notebooks": ("04_correlation", "07_when_a_fusion_helps"),
    }
    return Profile.model_validate(values | {"root": root} | changes)


def kind_of(request):
    """The judge that a request is for, and its prompt: by the fields that its schema has."""
    schema = request.body["response_format"]["json_schema"]["schema"]
    fields = schema["properties"]
    prompt = "classify" if "label" in fields else "dre" if "influence" in fields else "llm_only"
    return f"openai:{request.body['model']}", prompt


def made(server):
    return Counter(kind_of(request) for request in server.requests)


def planned(settings):
    """The calls of the estimate by judge and prompt; DRE's prompt is one, wherever it is asked."""
    calls = Counter()
    for row in estimate.calls(settings).to_dict("records"):
        calls[row["judge"], row["prompt"].partition("_transfer")[0]] += row["calls"]
    return calls


VARIANTS = {
    "sets in another order": {"sets": SETS[::-1], "rated": RATED[::-1]},
    "one rated set": {"rated": ("personachat-usr",)},
    "another rated set": {"rated": ("dailydialog-zhao",)},
    "five pairs of a set": {"pairs_per_set": 5},
    "all notebooks": {"notebooks": ()},
}


@needs_data
@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_a_server_counts_the_calls_of_the_estimate_by_judge_and_prompt(
    server, encoder, project, changes
):
    changes = {"judges": (live(server), live(server, OTHER))} | changes
    settings = settings_of(server, encoder, project, **changes)
    expected = planned(settings)
    by_table = estimate.calls(settings).groupby(["judge", "table"])["calls"].sum()
    assert server.requests == []
    ask.ask(settings)
    assert made(server) == expected
    n_calls = len(server.requests)
    of_run = bill.lines(settings).set_index(["judge", "table"])
    assert of_run["replies"].iloc[:-1].to_dict() == by_table.to_dict()
    assert (of_run["seconds"] > 0).all()
    ask.ask(settings)
    assert len(server.requests) == n_calls
    assert bill.lines(settings)["replies"].iloc[-1] == n_calls
    assert "this run: nobody was asked" in bill.in_words(settings, run="a run that asked nothing")


@needs_data
def test_where_a_recorded_judge_is_the_main_one_no_other_is_asked_about_what_it_shows(
    server, encoder, project
):
    judges = ("recorded:Claude-3-haiku", live(server))
    settings = settings_of(server, encoder, project, judges=judges)
    expected = planned(settings)
    ask.ask(settings)
    assert made(server) == expected
    # Two replies to the case that notebook 04 follows, with two prompts, are asked of no judge.
    as_main = planned(settings_of(server, encoder, project, judges=judges, main_judge=LIVE))
    as_main.subtract(planned(settings))
    assert as_main == {(LIVE, "llm_only"): 2, (LIVE, "dre"): 2}


@needs_data
def test_each_rated_set_is_shown_the_numbers_of_the_training_that_names_it(
    server, encoder, project
):
    settings = settings_of(server, encoder, project, sets=SETS[::-1])
    shown = {}
    for question in plan.asks(settings, "04_correlation"):
        if question.prompt == "dre" and not question.main_judge_only:
            name = question.pairs["set"].iloc[0]
            shown[name] = question.training.key
    assert shown == {
        "dailydialog-zhao": "daily",
        "personachat-usr": "persona",
        "topicalchat-usr": "topical",
    }
    (over,) = {
        question.training.key
        for question in plan.asks(settings, "04_correlation")
        if question.prompt == "dre_transfer"
    }
    assert over == "daily"


def test_what_was_not_asked_is_an_error_that_says_how_to_ask(server, encoder, project):
    settings = settings_of(server, encoder, project, rated=(), notebooks=("05_case_studies",))
    (judge,) = judgements.panel(settings)
    with pytest.raises(DreError, match=r"has not been asked about these 30 pairs.*book\.ask"):
        judge.scores(plan.cases(settings))
    assert server.requests == []


def test_a_judge_that_ends_at_its_budget_does_not_keep_others_from_being_asked(
    server, encoder, project
):
    judges = (live(server) | {"max_usd": 0.001}, live(server, OTHER))
    changes = {"judges": judges, "rated": (), "notebooks": ("03_classification",)}
    settings = settings_of(server, encoder, project, **changes)
    expected = planned(settings)
    with pytest.raises(DreError, match="stopped at its budget"):
        ask.ask(settings)
    answered = made(server)
    assert answered[OTHER, "classify"] == expected[OTHER, "classify"]
    assert answered[LIVE, "classify"] < expected[LIVE, "classify"]


def test_in_a_readers_own_kernel_a_notebook_says_what_it_takes_before_it_asks(
    server, encoder, project, capsys, monkeypatch
):
    settings = settings_of(server, encoder, project, rated=())
    book = notebook.Book("03_classification", settings)
    monkeypatch.setattr(state, "active", "a runner, which has asked before")
    book.ask()
    assert server.requests == [] and capsys.readouterr().out == ""
    monkeypatch.setattr(state, "active", None)
    book.ask()
    # Six replies of each kind, two random ones, and four that are shown with their labels.
    assert made(server) == {(LIVE, "classify"): 6 + 6 + 2 + 4}
    assert capsys.readouterr().out.startswith(f"{LIVE}: 18 calls, ")
    book.ask()
    assert "all that this notebook reads is stored" in capsys.readouterr().out
    assert len(server.requests) == 18


def test_a_sentence_whose_number_is_missing_is_not_shown(server, encoder, project, capsys):
    settings = settings_of(server, encoder, project, rated=())
    book = notebook.Book("03_classification", settings)
    book.note(f"It gains {float('nan'):.2f}.", gain=float("nan"))
    assert "not run: a sentence" in capsys.readouterr().out


REFUSED = {
    "a rated set without a training": (
        {"sets": SETS[:2]},
        "'rated' names topicalchat-usr, and no set says",
    ),
    "a rated set that does not exist": ({"rated": ("topicalchat",)}, "'rated' names topicalchat,"),
    "two trainings for one rated set": (
        {"sets": (*SETS, training_set("more", "personachat-usr", "mini", "train"))},
        "'rated_by' names personachat-usr twice",
    ),
    "a main set that does not exist": ({"main_set": "dailydialog"}, "'main_set' is dailydialog"),
    "a main judge that does not exist": ({"main_judge": "GPT-4"}, "'main_judge' is GPT-4"),
    "no model of the papers": ({"recipes": ("ours",)}, "'recipes' lacks paper"),
    "an unknown key": ({"rated_sets": RATED}, "rated_sets"),
}


@pytest.mark.parametrize("changes, message", REFUSED.values(), ids=REFUSED)
def test_a_profile_whose_parts_do_not_fit_is_refused_in_words(
    server, encoder, project, changes, message
):
    with pytest.raises(ValueError, match=message):
        settings_of(server, encoder, project, **changes)


MISSING = {
    "a recording": ({"judges": ("recorded:gpt-9",)}, "no recording gpt-9, expected a folder"),
    "a provider": ({"judges": ("mistral:large",)}, "judge 'mistral:large': expected one of"),
    "a price": (
        {"judges": ({"model": "openai:nobody-knows-it", "max_usd": 1},)},
        "so max_usd cannot be kept: give its price, IN,OUT in dollars",
    ),
    "a recipe": (
        {"models": {"paper": {"recipe": "papers"}, "ours": {"recipe": "ours"}}},
        "models.paper: unknown recipe 'papers'",
    ),
    "a data set": (
        {"sets": (SETS[0].model_copy(update={"test": ("dailydialogue", "test")}),), "rated": ()},
        "sets.daily.test: there is no data set dailydialogue",
    ),
    "a split": (
        {"sets": (SETS[0].model_copy(update={"dev": ("mini", "valid")}),), "rated": ()},
        "sets.daily.dev: mini has no split valid",
    ),
    "a file": (
        {"sets": (SETS[0].model_copy(update={"train": ("a.jsonl", "train")}),), "rated": ()},
        "no file a.jsonl, and augment does not write it",
    ),
    "a prompt": ({"prompts": {"llm-only": "mine.txt"}}, "prompts names llm-only, expected some of"),
    "FED's turns": ({"optional_prompts": ("huynh",)}, "huynh, whose items are those of fed-turn"),
    "dialogues": (
        {"extra": {"dialogues": ("convai3",), "graded": ()}},
        "extra.dialogues names convai3",
    ),
}


@pytest.mark.parametrize("changes, message", MISSING.values(), ids=MISSING)
def test_what_a_profile_names_and_nobody_has_is_refused_before_anything_is_done(
    server, encoder, project, changes, message
):
    settings = settings_of(server, encoder, project, **changes)
    with pytest.raises(DreError, match=message):
        check.check(settings)
    assert server.requests == []


@pytest.mark.parametrize("name", ["mini", "public", "full", "colab"])
def test_the_profiles_of_the_project_can_be_carried_out(name):
    check.check(profile(name))


def test_all_faults_of_a_profile_are_named_at_once(server, encoder, project):
    changes = {"judges": ("recorded:gpt-9",), "optional_prompts": ("huynh",)}
    settings = settings_of(server, encoder, project, **changes)
    with pytest.raises(DreError, match="gpt-9.*; optional_prompts names huynh"):
        check.check(settings)


def test_a_recording_opens_by_the_path_of_its_folder_from_the_project(encoder, server, project):
    writable_copy(recordings.folder("qwen2.5-coder-1.5b"), project / "mine")
    settings = settings_of(server, encoder, project, judges=("recorded:mine",))
    check.check(settings)
    (judge,) = judgements.panel(settings)
    corpus = dialogues.pairs(dialogues.load("mini", "test"), "pa")
    assert judge.scores(corpus, "no_such_prompt") is None
    # It has neither of these, and that is no error.
    assert judge.scores(plan.example_replies(), "classify") is None
    assert judge.scores(plan.cases(settings), "dre") is None
    assert judge.qualities() is None and judge.scores(corpus, "geval") is None
    assert judge.numbers(plan.cases(settings), None, "") is None


@needs_data
def test_released_scores_are_a_judge_of_a_profile_as_on_the_command_line(encoder, server, project):
    settings = settings_of(server, encoder, project, judges=("recorded:Claude-3-haiku",))
    (judge,) = judgements.panel(settings)
    pairs = plan.rated(settings, "personachat-usr")
    assert judge.scores(pairs)["score"].notna().all()
    assert judge.scores(pairs, "dre") is None and judge.numbers(pairs, None, "") is None
    assert judge.scores(plan.rated(settings, "dailydialog-zhao")) is None


def test_the_trainings_of_a_profile_are_those_that_its_notebooks_read(server, encoder, project):
    def kinds(*notebooks):
        settings = settings_of(server, encoder, project, notebooks=notebooks)
        trainings = plan.trainings(settings)
        return {(training.key, training.disentangled) for training in trainings}

    every = {(entry.key, kind) for entry in SETS for kind in (True, False)}
    assert kinds() == every
    assert kinds("05_case_studies") == {("daily", True)}
    assert kinds("04_correlation") == {(entry.key, True) for entry in SETS}
