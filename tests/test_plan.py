"""The plan of a profile: a local server is asked what is planned, and what it would take."""

import json
from collections import Counter

import pandas as pd
import pytest
from conftest import needs_data, writable_copy
from judge_servers import Server, error, openai
from test_judgements import replies

from dre.datasets import dialogues, recordings
from dre.paper import ask, bill, estimate, judgements, notebook, plan, table4
from dre.paper.methods import ALONE, Method
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


def live(server, model=LIVE, **changes):
    judge = {"model": model, "base_url": server.url, "price": "1,2", "max_usd": 9}
    return judge | changes


@pytest.fixture
def settings_of(server, encoder, project):
    """Profile mini with three small training sets and one live judge, changed as a test says."""
    values = profile("mini").model_dump() | {
        "encoder": encoder,
        "models": {"paper": Model(recipe="paper", epochs=1), "ours": Model(recipe="ours")},
        "sets": SETS,
        "main_set": "daily",
        "judges": (live(server),),
        "labels_per_kind": 6,
        "pairs_per_set": 4,
        "root": project,
    }
    return lambda **changes: Profile.model_validate(values | changes)


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
    "a recorded judge first": {"rated": RATED, "judges": ("recorded:Claude-3-haiku",)},
}


@needs_data
@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_a_server_counts_the_calls_of_the_estimate_by_judge_and_prompt(
    server, settings_of, changes
):
    judges = (*changes.get("judges", ()), live(server), live(server, OTHER))
    settings = settings_of(**changes | {"judges": judges, "notebooks": ("04_correlation",)})
    expected = planned(settings)
    by_table = estimate.calls(settings).groupby(["judge", "table"])["calls"].sum()
    assert server.requests == []
    assert ask.ask(settings) == []
    assert made(server) == expected
    n_calls = len(server.requests)
    billed = bill.lines(settings).set_index(["judge", "table"])["replies"]
    assert billed.iloc[:-1].to_dict() == by_table.to_dict()
    assert ask.ask(settings) == [] and len(server.requests) == n_calls == billed.iloc[-1]


@needs_data
def test_each_rated_set_is_shown_the_numbers_of_the_training_that_names_it(settings_of):
    settings = settings_of(sets=SETS[::-1], rated=RATED)
    shown = {}
    for question in plan.asks(settings, "04_correlation"):
        if question.training and not question.main_judge_only:
            name = question.pairs["set"].iloc[0]
            shown[question.prompt, name] = question.training.key
    assert shown == {
        ("dre", "dailydialog-zhao"): "daily",
        ("dre", "personachat-usr"): "persona",
        ("dre", "topicalchat-usr"): "topical",
        ("dre_transfer", "personachat-usr"): "daily",
        ("dre_transfer", "topicalchat-usr"): "daily",
    }


# A judge that dies


def dying(model, after):
    """A server whose judge of some name is gone after some replies."""
    n_asked = Counter()

    def script(request):
        n_asked[request.body["model"]] += 1
        if request.body["model"] == model and n_asked[model] > after:
            return error("openai", 404, "no such model")
        return replies(request)

    return script


def test_a_judge_that_dies_leaves_its_rows_empty_and_the_others_complete(
    server, settings_of, capsys
):
    server.script = dying("gone", after=5)
    dead = live(server, "openai:gone", concurrency=1)
    settings = settings_of(judges=(dead, live(server, OTHER)), notebooks=("05_case_studies",))
    expected = planned(settings)
    (sentence,) = ask.ask(settings)
    for part in ("openai:gone", "9 of 14 replies", "no such model", "goes on", "mini.yaml"):
        assert part in sentence
    assert Counter(judge for judge, _ in made(server).elements())["openai:gone"] == 6
    for prompt in ("classify", "llm_only", "dre"):
        assert made(server)[OTHER, prompt] == expected[OTHER, prompt] > 0

    of_dead, of_other = judgements.panel(settings)
    pairs = plan.cases(settings)
    capsys.readouterr()
    assert of_dead.scores(plan.pairs_to_label(settings), "classify") is None
    assert of_dead.why_absent("classify").startswith("9 of 14 replies did not come")
    assert of_dead.scores(pairs) is None and of_dead.accuracy() is None
    assert capsys.readouterr().out.count("book.ask()") == 1
    assert of_other.scores(pairs)["score"].notna().all() and not of_other.why_absent("llm_only")
    measured = pd.DataFrame({"method": [Method(ALONE, OTHER)], "not_run": [None]})
    rows = table4.with_reasons(measured, [of_dead, of_other], "paper").set_index("method")
    assert rows.loc[Method(ALONE, OTHER), "not_run"] is None
    assert rows.loc[Method(ALONE, "openai:gone"), "not_run"].startswith("30 of 30 replies")

    server.script = replies
    assert ask.ask(settings) == [] and of_dead.scores(pairs) is not None


def test_a_label_that_fails_once_comes_before_the_prompt_that_shows_the_accuracy(
    server, settings_of
):
    def script(request):
        if b"Negative" in request.raw and not failed:
            failed.append(request)
            return error("openai", 400, "not now")
        return replies(request)

    failed = []
    server.script = script
    settings = settings_of(labels_per_kind=150, notebooks=("05_case_studies",))
    assert ask.ask(settings) == [] and failed
    n_calls = len(server.requests)
    assert ask.ask(settings) == [] and len(server.requests) == n_calls


def test_a_judge_whose_money_ends_says_so_and_the_others_are_asked_to_their_end(
    server, settings_of
):
    judges = (live(server, max_usd=0.001), live(server, OTHER))
    settings = settings_of(judges=judges, notebooks=("03_classification",))
    expected = planned(settings)
    (sentence,) = ask.ask(settings)
    assert "stopped at its budget" in sentence and "max_usd" in sentence
    answered = made(server)
    assert answered[OTHER, "classify"] == expected[OTHER, "classify"]
    assert answered[LIVE, "classify"] < expected[LIVE, "classify"]


def test_a_judge_whose_labels_cannot_be_read_is_not_shown_their_accuracy(server, settings_of):
    settings = settings_of(notebooks=("05_case_studies",))
    server.script = lambda request: (
        openai("I'd rather not.", refusal="no") if b"Negative" in request.raw else replies(request)
    )
    (sentence,) = ask.ask(settings)
    assert "dre: not asked" in sentence and "too few of them can be read" in sentence
    assert made(server)[LIVE, "dre"] == 0 < made(server)[LIVE, "llm_only"]
    (judge,) = judgements.panel(settings)
    pairs = plan.cases(settings)
    assert judge.scores(plan.pairs_to_label(settings), "classify")["label"].isna().all()
    assert judge.scores(pairs)["score"].notna().all()
    numbers = judge.interior_numbers(pairs, pairs[["pair_id"]])
    assert numbers is None and judge.scores(pairs, "dre", numbers=numbers) is None
    assert "labels" in judge.why_absent("dre")


def test_two_judges_of_one_model_have_a_line_each_in_the_bill(server, settings_of):
    server.script = lambda request: openai(json.dumps({"label": "Positive"}), tokens=(1000, 0))
    cold = live(server, name="cold", temperature=0, price="1,1")
    warm = live(server, name="warm", temperature=1, price="3,3")
    settings = settings_of(judges=(cold, warm), notebooks=("03_classification",))
    assert ask.ask(settings) == []
    usd = bill.lines(settings).set_index("judge")["usd"]
    # Fourteen labels by each, and four more by the main judge.
    assert usd.to_dict() == pytest.approx(
        {"cold": 18 * 0.001, "warm": 14 * 0.003, "all judges": 18 * 0.001 + 14 * 0.003}
    )


def test_the_bill_of_several_judges_says_what_has_no_price(server, settings_of):
    free = live(server, OTHER, price=None, max_usd=None)
    settings = settings_of(judges=(live(server), free), notebooks=("03_classification",))
    assert ask.ask(settings, run="now") == []
    of_live, of_free, in_all, now = bill.in_words(settings, "now").splitlines()[1:]
    assert "unknown" not in of_live and of_free.endswith("price unknown")
    assert all("and 14 replies of unknown price" in line for line in (in_all, now))


def test_in_a_readers_own_kernel_a_notebook_says_what_it_takes_before_it_asks(
    server, settings_of, capsys, monkeypatch
):
    book = notebook.Book("03_classification", settings_of())
    monkeypatch.setenv(notebook.RUN, "mini")  # as in a kernel of the runner, which has asked before
    book.ask()
    assert server.requests == [] and capsys.readouterr().out == ""
    monkeypatch.delenv(notebook.RUN)
    book.ask()
    # Six replies of each kind, two random ones, and four that are shown with their labels.
    assert made(server) == {(LIVE, "classify"): 6 + 6 + 2 + 4}
    assert capsys.readouterr().out.startswith(f"{LIVE}: 18 calls, ")
    book.ask()
    assert "all that this notebook reads is stored" in capsys.readouterr().out
    assert len(server.requests) == 18


# Recorded judges, and trainings


def test_a_recording_opens_by_the_path_of_its_folder_from_the_project(settings_of, project):
    writable_copy(recordings.folder("qwen2.5-coder-1.5b"), project / "mine")
    settings = settings_of(judges=("recorded:mine",))
    (judge,) = judgements.panel(settings)
    corpus = dialogues.pairs(dialogues.load("mini", "test"), "pa")
    # It has none of these, and that is no error.
    assert judge.scores(corpus, "no_such_prompt") is None and judge.scores(corpus, "geval") is None
    assert judge.scores(plan.example_replies(), "classify") is None
    assert judge.scores(plan.cases(settings), "dre") is None and judge.qualities() is None
    assert judge.numbers(plan.cases(settings), None, "") is None


@needs_data
def test_released_scores_are_a_judge_of_a_profile_as_on_the_command_line(settings_of):
    settings = settings_of(judges=("recorded:Claude-3-haiku",))
    (judge,) = judgements.panel(settings)
    pairs = plan.rated(settings, "personachat-usr")
    assert judge.scores(pairs)["score"].notna().all()
    assert judge.scores(pairs, "dre") is None and judge.numbers(pairs, None, "") is None
    assert judge.scores(plan.rated(settings, "dailydialog-zhao")) is None


def test_the_trainings_of_a_profile_are_those_that_its_notebooks_read(settings_of):
    def kinds(*notebooks):
        trainings = plan.trainings(settings_of(notebooks=notebooks))
        return {(training.key, training.disentangled) for training in trainings}

    every = {(entry.key, kind) for entry in SETS for kind in (True, False)}
    assert kinds() == every
    assert kinds("05_case_studies") == {("daily", True)}
    assert kinds("04_correlation") == {(entry.key, True) for entry in SETS}


def test_a_model_is_trained_before_notebooks_also_where_an_earlier_one_of_it_is_there(settings_of):
    for epochs in (1, 2, 1):
        paper = Model(recipe="paper", epochs=epochs)
        settings = settings_of(
            models={"paper": paper, "ours": Model(recipe="ours")}, notebooks=("05_case_studies",)
        )
        ask.train(settings)
        models = (settings.build / "models").glob("daily-paper-seed0-*/slm.json")
        trained = [json.loads(path.read_text())["recipe"]["stages"][0]["epochs"] for path in models]
        assert epochs in trained
    assert sorted(trained) == [1, 2]
