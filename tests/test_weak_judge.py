"""The recording of a weak judge: what is asked, in which order, and how it goes on after a kill."""

import json
import shutil
import signal
import sys
import time

import numpy as np
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

#: By prompt, the words that only its request has.
WORDS = {
    "llm_only": "LLM overall score",
    "llm_only_reworded": "Two people are talking",
    "dre": "Output of the SLM",
}
EXPECTED = 0.5 * 4 + 0.3 * 3 + 0.2 * 0  # of the ratings' probabilities below


def reply_to(request):
    """A reply by schema, whose influence is the same digit as another rating."""
    message = request.body["messages"][0]["content"]
    assert request.body["response_format"]["type"] == "json_schema"
    tokens = [('{"', {'{"': 1.0})]
    if WORDS["dre"] in message:
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
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF")
    monkeypatch.setattr(weak_judge, "FOLDER", folder)
    monkeypatch.setattr(weak_judge, "DRAWN", tmp_path / "drawn.csv")
    monkeypatch.setattr(weak_judge, "BLOCK", 3)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return tmp_path


def run(folder, url, *options):
    """Run the script as its command does."""
    command = ["weak_judge.py", "--base-url", f"{url}/v1", "--store", str(folder / "s.sqlite")]
    sys.argv = [*command, "--model-file", str(folder / "model.gguf"), *options]
    weak_judge.main()


def names_asked(server):
    """The set and the template of each request, in order."""
    texts = pd.concat([ratings.rated(name) for name in weak_judge.SETS])
    set_of_response = dict(zip(texts["response"], texts["pair_id"].str.partition("/")[0]))
    names = []
    for request in server.requests:
        message = request.body["messages"][0]["content"]
        [template] = [name for name, words in WORDS.items() if words in message]
        block = message.partition("<response-")[2].partition("\n")[2]
        names.append((set_of_response[block.partition("\n</response-")[0]], template))
    return names


def recorded_lines(folder):
    return [json.loads(line) for line in (folder / "judgements.jsonl").open()]


def test_the_drawn_pairs_are_whole_contexts_and_those_that_were_committed():
    drawn = weak_judge.draw()
    pd.testing.assert_frame_equal(drawn, pd.read_csv(weak_judge.DRAWN))
    rated = pd.concat([ratings.rated(name) for name in weak_judge.SETS])
    context_of = rated.set_index("pair_id")["context_id"]
    by_part = {part: set(group["pair_id"]) for part, group in drawn.groupby("part")}
    contexts = {part: set(context_of[list(pair_ids)]) for part, pair_ids in by_part.items()}
    assert not contexts["gate"] & contexts["asked"]
    for part, pair_ids in by_part.items():
        assert pair_ids == set(context_of.index[context_of.isin(contexts[part])])
        counts = pd.Series(list(pair_ids)).str.partition("/")[0].value_counts()
        assert (counts >= weak_judge.PAIRS[part]).all()
        assert (counts < weak_judge.PAIRS[part] + 9).all()  # a context has nine pairs at most


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


def test_the_numbers_are_those_that_the_strong_judge_was_shown():
    inputs = pd.read_csv(weak_judge.STRONG / "dre_inputs.csv", index_col="pair_id")
    printed = pd.read_csv(weak_judge.STRONG / "dre_as_printed.csv", index_col="pair_id")
    expected_rows = {"dre": inputs, "dre_as_printed": printed}
    asked = pd.read_csv(weak_judge.DRAWN).query("part == 'asked'")["pair_id"]
    rows = weak_judge.rows_by_pair(
        [condition for condition in weak_judge.CONDITIONS if condition.name != "dre_ours"]
    )
    for name in ("dre", "dre_as_printed", "dre_other"):
        assert set(rows[name]) == set(asked)
    for pair_id in asked[::25]:
        for name, numbers in expected_rows.items():
            row = rows[name][pair_id]
            assert row["s_d"] == pytest.approx(numbers["s_d"][pair_id], abs=1e-6)
            assert row["score_slm"] == pytest.approx(1 - row["s_d"] + row["s_p"])
            assert (row["slm_accuracy"], row["llm_accuracy"]) == (0.9105, 0.8891)


def test_the_gate_asks_its_pairs_alone_and_says_how_well_they_agree(small, capsys):
    with Server(reply_to) as server:
        run(small, server.url, "--gate")
        assert len(server.requests) == 6
    assert "Spearman" in capsys.readouterr().out
    judge = Recorded(str(small / weak_judge.JUDGE))
    assert judge.prompt_names == {"llm_only_gate", "llm_only_gate_reply"}


def test_pairs_are_asked_set_by_set_in_turn_and_read_as_the_expected_value(small):
    with Server(reply_to) as server:
        run(small, server.url)
        names = names_asked(server)
    n_conditions = len(names) // 12
    assert n_conditions in (5, 6)  # dre_ours only once its numbers are there
    per_pair = [names[i : i + n_conditions] for i in range(0, len(names), n_conditions)]
    for number, of_pair in enumerate(per_pair):
        templates = [template for _, template in of_pair]
        assert templates == ["llm_only", "llm_only_reworded"] + ["dre"] * (n_conditions - 2)
        assert {set_name for set_name, _ in of_pair} == {weak_judge.SETS[number % 3]}

    folder = small / weak_judge.JUDGE
    judge = Recorded(str(folder))
    pair_id = pd.read_csv(weak_judge.DRAWN).query("part == 'asked'")["pair_id"].iloc[0]
    table = ratings.rated(weak_judge.SETS[0])
    table = table[table["pair_id"] == pair_id]
    for name in ("llm_only", "dre_as_printed"):
        assert judge.score(table, name)["score_llm"].item() == pytest.approx(EXPECTED)
        assert judge.score(table, f"{name}_reply")["score_llm"].item() == 4
    assert judge.score(table, "dre_as_printed")["s_inf"].item() == 1
    assert np.isnan(judge.score(table, "llm_only")["s_inf"].item())
    assert "text" not in set().union(*recorded_lines(folder))


def test_a_run_that_is_killed_goes_on_even_without_its_store(small):
    def slowly(request):
        return reply_to(request)._replace(delay=0.05)

    with Server(slowly) as server:
        process = start_copy(run, small, server.url)
        while len(server.requests) < 25:
            time.sleep(0.02)
        process.kill()
        process.join()
        n_recorded = sum("seconds" in line for line in recorded_lines(small / weak_judge.JUDGE))
        n_asked = len(server.requests)
        assert 0 < n_recorded < n_asked

        for path in small.glob("s.sqlite*"):
            if path.is_file():
                path.unlink()
        run(small, server.url)
        n_in_all = sum("seconds" in line for line in recorded_lines(small / weak_judge.JUDGE))
        assert len(server.requests) - n_asked == n_in_all - n_recorded

        n_asked = len(server.requests)
        run(small, server.url)
        assert len(server.requests) == n_asked


def test_a_run_that_is_ended_keeps_what_was_answered(small):
    with Server(lambda request: reply_to(request)._replace(delay=0.05)) as server:
        process = start_copy(run, small, server.url)
        while len(server.requests) < 8:
            time.sleep(0.02)
        process.terminate()
        process.join()
        assert process.exitcode not in (0, -signal.SIGTERM)
        n_recorded = sum("seconds" in line for line in recorded_lines(small / weak_judge.JUDGE))
        assert n_recorded in (len(server.requests) - 1, len(server.requests))


def test_a_reply_that_is_no_whole_number_is_malformed_and_its_number_is_kept(small, capsys):
    def with_fraction(request):
        tokens = [('{"score": ', {'{"score": ': 1.0}), ("4", {"4": 0.9, "3": 0.1})]
        tokens += [(".", {".": 1.0}), ("5", {"5": 1.0}), ("}", {"}": 1.0})]
        return answer_with_logprobs("openai", tokens)

    with Server(with_fraction) as server:
        run(small, server.url, "--gate")
    assert "no pair has a score" in capsys.readouterr().out
    lines = recorded_lines(small / weak_judge.JUDGE)
    by_name = {line["prompt"]: line for line in lines}
    assert by_name["llm_only_gate"]["status"] == "malformed"
    assert by_name["llm_only_gate_reply"]["score"] == 4.5


def test_the_recording_names_the_model_and_knows_its_pairs(small):
    with Server(reply_to) as server:
        run(small, server.url, "--gate")
    folder = small / weak_judge.JUDGE
    manifest = json.loads((folder / "manifest.json").read_text())
    assert len(manifest["model sha256"]) == 64
    assert manifest["calls"] == 6
    assert manifest["tokens"] == {"in": 6 * 50, "out": 6 * 10}
    row = ratings.rated(weak_judge.SETS[0]).iloc[0].to_dict()
    pair_id = pd.read_csv(weak_judge.DRAWN)["pair_id"].iloc[0]
    rated = ratings.rated(weak_judge.SETS[0]).set_index("pair_id", drop=False)
    recordings.check_hash(folder, pair_id, rated.loc[pair_id].to_dict())
    with pytest.raises(Exception, match="other texts"):
        recordings.check_hash(folder, pair_id, row)


# Asked once more

again = experiment("recordings/weak_judge_again")


def numbers(sums):
    """Numbers of pairs by their ids, from the sum that is shown."""
    return pd.DataFrame({"s_d": 0.5, "s_p": [x - 0.5 for x in sums.values()]}, index=pd.Index(sums))


def test_stretched_numbers_are_dealt_out_by_rank_within_a_set():
    ours = numbers({"a/1": 1.2, "a/2": 0.9, "b/1": 1.0, "a/3": 1.1})
    paper = numbers({"a/1": 0.6, "a/2": 1.4, "b/1": 0.7, "a/3": 1.0})
    stretched = again.stretch(ours, paper)
    assert dict(stretched["shown"]) == {"a/1": "a/2", "a/2": "a/1", "b/1": "b/1", "a/3": "a/3"}
    assert list(stretched["s_p"]) == pytest.approx([0.9, 0.1, 0.2, 0.5])


def test_the_stretched_numbers_that_were_shown_keep_the_order_of_ours():
    ours = recordings.numbers_shown(weak_judge.JUDGE, "dre_inputs_ours.csv")
    paper = recordings.numbers_shown(weak_judge.JUDGE, "dre_inputs.csv")
    shown = pd.read_csv(again.FOLDER / again.STRETCHED.numbers, index_col="pair_id")
    for name in weak_judge.SETS:
        sums = [
            (1 - table["s_d"] + table["s_p"])[table.index.str.startswith(f"{name}/")]
            for table in (ours, shown, paper)
        ]
        assert (np.diff(sums[1][sums[0].sort_values(kind="stable").index]) >= -1e-6).all()
        np.testing.assert_allclose(np.sort(sums[1]), np.sort(sums[2]), atol=2e-6)


def test_what_was_asked_again_is_kept_word_by_word_and_not_asked_twice(tmp_path, monkeypatch):
    folder = tmp_path / "again"
    folder.mkdir()
    for path in again.FOLDER.glob("*.csv"):
        few = pd.read_csv(path, index_col="pair_id")
        few.iloc[:4].to_csv(folder / path.name)
    monkeypatch.setattr(again, "FOLDER", folder)
    monkeypatch.setattr(again, "cases", lambda cases=again.cases: cases().iloc[:4])
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF")

    def run_again(url):
        command = ["weak_judge_again.py", "--base-url", f"{url}/v1", "--model-file", str(model)]
        sys.argv = [*command, "--store", str(tmp_path / "s.sqlite")]
        again.main()

    with Server(lambda request: reply_to(request)._replace(delay=0.05)) as server:
        process = start_copy(run_again, server.url)
        while len(server.requests) < 6:
            time.sleep(0.02)
        process.kill()
        process.join()
        run_again(server.url)
        assert len(server.requests) in (16, 17)  # one was in flight
        run_again(server.url)
        assert len(server.requests) in (16, 17)

    lines = recorded_lines(folder)
    keys = {(line["prompt"], line["pair_id"]) for line in lines}
    assert len(keys) == len(lines) == 2 * 16
    first, *_ = map(json.loads, (folder / "cases.jsonl").open())
    assert first["messages"] == server.requests[0].body["messages"]
    assert json.loads(first["reply"])["score"] == 4
    judge = Recorded(str(folder))
    assert judge.prompt_names >= {"dre_ours_stretched", "dre_ours_reply", "llm_only"}
