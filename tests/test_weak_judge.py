"""The recording of a weak judge: what is asked, how it is read, and how it goes on after a kill."""

import json
import shutil
import sys
import time

import pandas as pd
import pytest
from conftest import experiment, needs_data, start_copy
from judge_servers import Server
from test_likelihoods import answer_with_logprobs

from dre.datasets import ratings, recordings
from dre.judges import prompts
from dre.judges.recorded import Recorded

weak_judge = experiment("recordings/weak_judge")
pytestmark = needs_data

EXPECTED = 0.5 * 4 + 0.3 * 3 + 0.2 * 0  # of the ratings' probabilities below


def reply_to(request):
    """A reply by schema, whose influence is the same digit as another rating."""
    assert request.body["response_format"]["type"] == "json_schema"
    tokens = [('{"', {'{"': 1.0})]
    if "Output of the SLM" in request.body["messages"][0]["content"]:
        tokens += [("influence", {"influence": 1.0}), ('": ', {'": ': 1.0})]
        tokens += [("1", {"1": 0.6, "0": 0.4}), (', "', {', "': 1.0})]
    tokens += [("score", {"score": 1.0}), ('":', {'":': 1.0}), (" ", {" ": 1.0})]
    tokens += [("4", {"4": 0.5, "3": 0.3, "0": 0.2}), ("}", {"}": 1.0})]
    return answer_with_logprobs("openai", tokens)


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Two pairs of each set in the gate and four to be asked; nothing is recorded yet."""
    drawn = pd.read_csv(weak_judge.DRAWN)
    set_name = drawn["pair_id"].str.partition("/")[0]
    n_pairs = drawn["part"].map({"gate": 2, "asked": 4})
    few = drawn[drawn.groupby([set_name, "part"]).cumcount() < n_pairs]
    folder = tmp_path / weak_judge.JUDGE
    folder.mkdir()
    for path in weak_judge.FOLDER.glob("*.csv"):
        shutil.copyfile(path, folder / path.name)
    few.to_csv(tmp_path / "drawn.csv", index=False)
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(weak_judge, "FOLDER", folder)
    monkeypatch.setattr(weak_judge, "DRAWN", tmp_path / "drawn.csv")
    monkeypatch.setattr(weak_judge, "agreement", lambda lines: 0.3)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return tmp_path


def run(folder, url):
    """Run the script as its command does."""
    command = ["weak_judge.py", "--base-url", f"{url}/v1", "--store", str(folder / "s.sqlite")]
    sys.argv = [*command, "--model-file", str(folder / "model.gguf")]
    weak_judge.main()


def test_whole_contexts_are_asked_and_none_for_both_the_gate_and_the_rest():
    part = pd.read_csv(weak_judge.DRAWN, index_col="pair_id")["part"]
    rated = pd.concat([ratings.rated(name) for name in weak_judge.SETS])
    rated["part"] = rated["pair_id"].map(part).fillna("not asked")
    assert (rated.groupby("context_id")["part"].nunique() == 1).all()
    counts = rated.groupby([rated["pair_id"].str.partition("/")[0], "part"]).size().unstack()
    assert counts["gate"].between(60, 68).all()  # a context has nine pairs at most
    assert counts["asked"].between(200, 208).all()


@pytest.mark.parametrize("name", ["dre_inputs.csv", "dre_as_printed.csv"])
def test_the_numbers_are_those_that_the_strong_judge_was_shown(name):
    shown = recordings.numbers_shown(weak_judge.JUDGE, name)
    of_strong = recordings.numbers_shown(recordings.NAME, name)
    pd.testing.assert_frame_equal(shown, of_strong.loc[shown.index], atol=1e-6)


@pytest.mark.parametrize("name", ["llm_only", "dre"])
def test_a_prompt_is_the_built_in_one_but_for_the_whole_number(name):
    built_in = prompts.load(name).template
    asked = prompts.load(weak_judge.TEMPLATES / f"{name}.txt").template
    whole = built_in.replace(
        "any number between 0.0 (lowest) and 5.0 (highest)",
        "a whole number from 0 (lowest) to 5 (highest)",
    )
    whole = whole.replace(
        '"score": <number from 0.0 to 5.0>', '"score": <whole number from 0 to 5>'
    )
    assert asked == whole != built_in


def test_a_judge_that_does_not_pass_the_gate_is_asked_nothing_else(small, monkeypatch):
    monkeypatch.setattr(weak_judge, "agreement", lambda lines: 0.1)
    with Server(reply_to) as server:
        with pytest.raises(SystemExit, match=r"agreement with people 0\.10"):
            run(small, server.url)
        assert len(server.requests) == 6


def test_a_run_that_is_killed_goes_on_and_is_read_as_the_expected_value(small):
    with Server(lambda request: reply_to(request)._replace(delay=0.05)) as server:
        process = start_copy(run, small, server.url)
        while len(server.requests) < 25:
            time.sleep(0.02)
        process.kill()
        process.join()
        run(small, server.url)
        n_asked = 6 + 12 * 6
        assert len(server.requests) in (n_asked, n_asked + 1)  # one was in flight

    folder = small / weak_judge.JUDGE
    assert json.loads((folder / "manifest.json").read_text())["calls"] == n_asked
    judge = Recorded(str(folder))  # which checks the hashes of texts
    table = ratings.rated(weak_judge.SETS[0])
    asked = pd.read_csv(weak_judge.DRAWN).query("part == 'asked'")["pair_id"]
    table = table[table["pair_id"].isin(asked)]
    for condition in weak_judge.CONDITIONS[1:]:
        read = judge.score(table, condition.name)
        assert read["score_llm"].tolist() == pytest.approx([EXPECTED] * 4)
        assert (read["s_inf"] == 1).all() == (condition.template == "dre")
        assert (judge.score(table, f"{condition.name}_reply")["score_llm"] == 4).all()
