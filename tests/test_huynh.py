"""How a live judge of a profile is asked as Huynh et al. ask: log-probabilities and examples."""

import numpy as np
import pandas as pd
import pytest
from conftest import needs_data
from judge_servers import Server, openai, with_logprobs
from scipy.stats import spearmanr
from test_judgements import MINI, replies

from dre.datasets import ratings
from dre.errors import DreError
from dre.paper import ask, check, estimate, huynh, judgements, plan
from dre.paper.examples import select
from dre.paper.profile import PROJECT, Examples, JudgeSettings, profile

OPT = "openai:facebook/opt-6.7b"


def ratings_of(message):
    """The probabilities of whole ratings, by the texts of the prompt."""
    number = sum(message.encode()) % 97
    return {"0": 0.05, "1": 0.15 + number / 500, "2": 0.6 - number / 500, "3": 0.2}


def words_of(message):
    p_yes = 0.1 + sum(message.encode()) % 97 / 130
    return {"Yes": p_yes, "No": 0.9 - p_yes, "Well": 0.1}


def likely_replies(request):
    """Answer with log-probabilities where they are asked for."""
    message = request.body["messages"][-1]["content"]
    likely = words_of(message) if "Yes or No" in message else ratings_of(message)
    if "response_format" in request.body:
        return replies(request)
    answer = openai(max(likely, key=likely.get), model=request.body["model"])
    return with_logprobs(answer, likely) if request.body.get("logprobs") else answer


@pytest.fixture
def server(with_openai_key):
    with Server(likely_replies) as server:
        yield server


def settings_of(server, logprobs: bool | int = True, model=OPT, **changes):
    judge = JudgeSettings(model=model, base_url=server.url, price="1,2", logprobs=logprobs)
    values = {
        "judges": (judge,),
        "rated": ("fed-turn", "dailydialog-gupta"),
        "pairs_per_set": 5,
        "optional_prompts": ("huynh",),
        "notebooks": ("10_how_a_judge_is_asked",),
        "resamples": 5,
        "examples": Examples(qualities=(3,), good_response=(4, 8)),
    }
    return profile("mini").model_copy(update=values | changes)


@pytest.fixture(scope="module")
def opt(tmp_path_factory):
    """A judge with log-probabilities that has been asked all that notebook 10 reads."""
    with pytest.MonkeyPatch.context() as environment, Server(likely_replies) as server:
        environment.setenv("DRE_STORE", str(tmp_path_factory.mktemp("opt") / "replies.db"))
        environment.setenv("OPENAI_API_KEY", "a-key")
        settings = settings_of(server)
        ask.ask(settings)
        (judge,) = judgements.panel(settings)
        yield judge


@needs_data
def test_the_rating_of_a_quality_is_weighted_by_the_probabilities_of_the_three_likeliest(opt):
    (question,) = [
        question
        for question in plan.quality_questions(opt.settings, plan.ZERO_SHOT)
        if question.prompt == "quality_overall"
    ]
    told = opt.qualities()
    scores = told[(told["quality"] == "Overall") & told["item"].str.startswith("fed-turn")]
    expected = []
    prompt = opt.prompt("quality_overall")
    for row in question.pairs.to_dict("records"):
        p = ratings_of(prompt.render(row)[-1]["content"])
        likeliest = {int(r): p[r] for r in sorted(p, key=p.get)[-3:]}
        expected.append(sum(r * q for r, q in likeliest.items()) / sum(likeliest.values()))
    assert scores["score"].tolist() == pytest.approx(expected)
    assert len({*expected}) > 1 and all(rating % 1 for rating in expected)


@needs_data
def test_goodness_is_p_yes_against_p_no(opt):
    question = plan.yes_no_questions(opt.settings, plan.Selection("bm25_context", 4))[0]
    expected = []
    prompt = opt.prompt("good_response")
    for row in question.pairs.to_dict("records"):
        row["examples"] = question.examples[row["pair_id"]]
        p = words_of(prompt.render(row)[-1]["content"])
        expected.append(p["Yes"] / (p["Yes"] + p["No"]))
    assert opt.goodness(question).tolist() == pytest.approx(expected)


def test_without_log_probabilities_goodness_is_one_for_a_yes_and_zero_for_a_no(server):
    (judge,) = judgements.panel(settings_of(server, logprobs=False))
    question = plan.Question("mini", "good_response", MINI.head(6), None)
    assert judge.ask(question.pairs, question.prompt)["score"].isna().all()
    prompt = judge.prompt("good_response")
    rows = question.pairs.to_dict("records")
    is_yes = [words_of(prompt.render(row)[-1]["content"])["Yes"] > 0.45 for row in rows]
    assert judge.goodness(question).tolist() == is_yes and 0 < sum(is_yes) < 6


@needs_data
def test_the_server_is_asked_what_the_estimate_says_and_for_log_probabilities_of_one_token(server):
    notebooks = ("03_classification", "10_how_a_judge_is_asked")
    settings = settings_of(server, notebooks=notebooks, rated=("fed-turn",), labels_per_kind=3)
    expected = estimate.calls(settings).groupby("prompt")["calls"].sum()
    ask.ask(settings)
    assert len(server.requests) == expected.sum()
    assert set(expected.index) >= {"quality", "dialogue", "good_response", "classify"}
    has_logprobs = [bool(request.body.get("logprobs")) for request in server.requests]
    is_text = ["response_format" not in request.body for request in server.requests]
    assert has_logprobs == is_text and not all(is_text)
    n_calls = len(server.requests)
    huynh.yes_no_rows(settings, judgements.panel(settings)[0])
    assert len(server.requests) == n_calls


@needs_data
def test_examples_of_the_yes_no_question_are_answered_by_what_people_said(server):
    settings = settings_of(server)
    table = ratings.rated("dailydialog-gupta")
    for selection in (plan.Selection("bm25_response", 8), plan.Selection("random0", 4)):
        questions = {q.name: q for q in plan.yes_no_questions(settings, selection)}
        assert list(questions) == ["fed-turn", "dailydialog-gupta", plan.FED_DIALOGUES]
        question = questions["dailydialog-gupta"]
        human = table.set_index("pair_id")["human"]
        for examples in question.examples.values():
            assert len(examples) == selection.n
            for example in examples:
                assert (example["rating"] == "Yes") == (human[example["pair_id"]] > 3)
    pool = table.assign(rating=1)
    nearest = select(table.head(5), pool, "bm25_response", k=8)
    question = plan.yes_no_questions(settings, plan.Selection("bm25_response", 8))[1]
    for pair_id, examples in question.examples.items():
        ids = [example["pair_id"] for example in nearest[pair_id]]
        assert [example["pair_id"] for example in examples] == ids
    # A whole dialogue ends with the system's last turn, which is its response.
    whole = ratings.fed_dialogues()
    (dialogue,) = [
        q for q in plan.yes_no_questions(settings, plan.ZERO_SHOT) if q.name == "fed-dialog"
    ]
    for turns, pair in zip(whole["turns"], dialogue.pairs.to_dict("records")):
        assert (*pair["context"], pair["response"]) == turns[:-1] and len(pair["context"]) % 2


@needs_data
def test_rows_have_intervals_and_the_printed_numbers_of_the_same_model(opt):
    judge = opt
    settings = opt.settings
    rows = pd.DataFrame(huynh.quality_rows(settings, judge))
    counts = rows.groupby(["examples", "n_examples"]).size()
    of_all = [("none", 0), ("random", 3), ("BM25", 3), ("by hand", 3)]
    of_turns = [("BM25 on context", 3), ("BM25 on response", 3)]
    assert counts.to_dict() == dict.fromkeys(of_all, 20) | dict.fromkeys(of_turns, 9)
    row = rows.query("quality == 'Fluent' and examples == 'BM25 on response'").iloc[0]
    assert row["printed"] == 0.121 and row["printed_of"] == "TNLGv2 530B"
    row = rows.query("quality == 'Interesting' and examples == 'BM25'").iloc[0]
    assert row["printed"] == 0.383 and row["printed_of"] == "TNLGv2 530B"
    row = rows.query("quality == 'Interesting' and examples == 'by hand'").iloc[0]
    assert row["printed"] == 0.429 and row["printed_of"] == "OPT-6.7B"
    row = rows.query("quality == 'Interesting' and examples == 'none'").iloc[0]
    assert (
        np.isnan(row["printed"]) and row["spearman_low"] <= row["spearman"] <= row["spearman_high"]
    )
    items = plan.quality_questions(settings, plan.ZERO_SHOT)[0].pairs["pair_id"]
    told = judge.qualities().query("quality == 'Interesting'").set_index("item")["score"]
    people = ratings.fed_qualities().query("quality == 'Interesting'").set_index("item")["human"]
    assert row["spearman"] == pytest.approx(spearmanr(told[items], people[items]).statistic)

    good = pd.DataFrame(huynh.yes_no_rows(settings, judge))
    assert len(good) == 1 + 4 * 2  # zero-shot, and four choices of four and of eight
    question = plan.yes_no_questions(settings, plan.Selection("bm25_both", 8))[1]
    row = good.query("examples == 'BM25 on both' and n_examples == 8").iloc[0]
    r = spearmanr(judge.goodness(question), question.pairs["human"]).statistic
    assert row["DGU"] == pytest.approx(r) and row["FT_low"] <= row["FT"] <= row["FT_high"]
    assert row["mean"] == pytest.approx(row[["DGU", "FT", "FD"]].mean())

    printed = pd.DataFrame(huynh.printed_yes_no_rows(settings)).set_index(
        ["model", "examples", "n_examples"]
    )
    assert printed.loc[("OPT-6.7B", "BM25 on context", 4), "DGU"] == 0.228
    assert printed.loc[("Flan-T5-3B", "none", 0), "FD"] == 0.444
    assert printed.loc[("TNLGv2 530B", "random", 8), "DGU"] == 0.570
    assert not printed.index.has_duplicates and {*printed.index.get_level_values("n_examples")} == {
        0,
        4,
        8,
    }


def test_each_printed_size_of_a_model_has_its_own_column(server):
    expected = {
        ("facebook/opt-1.3b", "turn", "Overall"): 0.338,
        ("bigscience/bloom-1b7", "dialogue", "Depth"): 0.519,
        ("bigscience/bloom-7b1", "dialogue", "Coherent"): 0.613,
        ("google/flan-t5-xl", "turn", "Relevant"): 0.435,
    }
    for (model, level, quality), printed in expected.items():
        (judge,) = judgements.panel(settings_of(server, model=f"openai:{model}"))
        selection = plan.Selection("manual", 3)
        row = huynh._printed_quality(PROJECT, judge, level, quality, selection)
        assert row["printed"] == printed, model
    for model, in_print in huynh.PRINTED_MODELS.items():
        names = [f"huynh_table{number}" for number in (3, 4, 11, 12)]
        tables = [pd.read_csv(PROJECT / f"data/paper/{name}.csv") for name in names]
        assert sum(huynh.printed_column(in_print) in table for table in tables) == 2, model


def test_log_probabilities_of_a_provider_that_gives_none_are_refused_before_anything_is_asked():
    judge = JudgeSettings(model="anthropic:claude-3-haiku-20240307", logprobs=True)
    settings = profile("public").model_copy(update={"judges": (judge,)})
    with pytest.raises(DreError, match="anthropic gives no log-probabilities"):
        check.check(settings)


@pytest.mark.parametrize("value", [0, -1, "yes", 2.5])
def test_a_profile_says_true_or_how_many_ratings_count(value):
    with pytest.raises(ValueError, match="logprobs"):
        JudgeSettings(model=OPT, logprobs=value)
    with pytest.raises(ValueError, match="logprobs"):
        JudgeSettings(model="recorded:claude-2026-11", logprobs=True)


@pytest.mark.parametrize("numbers", [(), (0,), (3, -1)])
def test_numbers_of_examples_are_above_zero(numbers):
    with pytest.raises(ValueError, match="qualities"):
        Examples(qualities=numbers)
