"""Files of users in the commands: shown before anything is paid, written so that nothing runs."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from dre import files
from dre.commands import calibrate
from dre.commands.main import main
from dre.datasets import dialogues, readers
from dre.datasets.chats import Form
from dre.datasets.registry import home, sources
from dre.errors import DreError
from dre.score.gate import compare_scores

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Is the ferry late?"},
    {"role": "assistant", "content": "By ten minutes."},
]


def jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_show_prints_what_is_read_and_what_is_not(tmp_path, capsys):
    rows = [{"messages": CHAT}, {"messages": CHAT[:2]}, {"messages": CHAT, "system": "gull"}]
    path = str(jsonl(tmp_path / "log.jsonl", rows))
    assert main(["data", "show", path]) == 2
    out, err = capsys.readouterr()
    assert out.startswith(
        "line 1, id 1\n   1. Is the ferry late?\n   → By ten minutes.\n"
        "     left out: 1 system prompt\n\nline 3, id 3, system gull\n"
    )
    assert out.endswith("log.jsonl: 2 pairs, 1 record that cannot be used\n")
    assert "note: left out of 2 dialogues: 2 system prompts\n" in err
    assert f"error: {path}:2: no message is of the assistant (found: user)" in err
    assert main(["data", "show", path, "--skip-bad", "--limit", "1"]) == 0
    assert capsys.readouterr().out.count("→") == 1


def test_show_needs_no_torch(tmp_path):
    path = jsonl(tmp_path / "log.jsonl", [{"messages": CHAT}])
    code = (
        "import sys; sys.modules['torch'] = None; from dre.commands.main import main; "
        f"raise SystemExit(main(['data', 'show', {str(path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "→ By ten minutes." in done.stdout


def test_options_on_the_form_are_checked(tmp_path, capsys):
    path = str(jsonl(tmp_path / "log.jsonl", [{"messages": CHAT}]))
    for option, message in (
        (["--field", "talk=messages"], "expected NAME=COLUMN with one of context, response"),
        (["--role", "guest=friend"], "expected NAME=SIDE with one of user, assistant"),
        (["--field", "context=talk"], "--field names talk: expected a column"),
    ):
        assert main(["data", "show", path, *option]) == 2
        assert message in capsys.readouterr().err


FORMULAS = ["=1+1", "+cmd|x", "-2", "@SUM(A1)", "\tx", "'=1", "''-2", "'quoted'", "plain"]


def test_no_text_in_csv_is_a_formula_and_names_come_back_as_they_were(tmp_path):
    table = pd.DataFrame(
        {
            "context_id": [f"c{i}" for i in range(len(FORMULAS))],
            "system": FORMULAS,
            "id": FORMULAS,
            "score": [-1.5 + i for i in range(len(FORMULAS))],
        }
    )
    path = tmp_path / "scores.csv"
    files.write(table, path)
    cells = pd.read_csv(path, dtype=str, keep_default_na=False)
    assert not cells["system"].str.match(r"[=+\-@\t\r]").any()
    assert cells["score"].astype(float).tolist() == table["score"].tolist()
    read = readers.scores(path, ["id"])
    assert read["id"].tolist() == read["system"].tolist() == FORMULAS

    files.write(table, tmp_path / "scores.jsonl")
    comparison = compare_scores(path, tmp_path / "scores.jsonl")
    assert comparison.removed == comparison.added == []
    files.write(table, tmp_path / "scores.parquet")
    assert pd.read_parquet(tmp_path / "scores.parquet")["id"].tolist() == FORMULAS


CONTEXTS = {
    "messages": ([{"messages": CHAT}], Form(), ("By ten minutes.",), ()),
    "preferences": (
        [{"prompt": CHAT[:2], "chosen": "By ten minutes.", "rejected": "Ferries float."}],
        Form(
            fields={
                "context": "prompt",
                "positive_responses": "chosen",
                "adversarial_negative_responses": "rejected",
            }
        ),
        ("By ten minutes.",),
        ("Ferries float.",),
    ),
    "a list of turns": (
        [{"id": 7, "dialog": ["Is the ferry late?", "By ten minutes."]}],
        Form(last_turn=True),
        ("By ten minutes.",),
        (),
    ),
}


@pytest.mark.parametrize("name", CONTEXTS)
def test_contexts_to_train_on_are_read_as_pairs_are(tmp_path, name):
    rows, form, positives, adversarials = CONTEXTS[name]
    path = jsonl(tmp_path / "own.jsonl", rows)
    (context,) = dialogues.contexts_by_name(path, form, tell=lambda note: None)
    assert context.turns == ("Is the ferry late?",)
    assert context.positives == positives
    assert context.adversarials == adversarials
    assert context.id == str(rows[0].get("id", 1))


def test_a_context_that_cannot_be_read_names_its_columns(tmp_path):
    path = jsonl(tmp_path / "own.jsonl", [{"prompt": "Is it late?", "chosen": "No."}])
    with pytest.raises(DreError, match=r"own.jsonl:1: context is None.*the record has prompt, cho"):
        dialogues.read_contexts(path)


@pytest.mark.parametrize("value", [float("inf"), "-Infinity", [4, "1e999"]])
def test_an_infinite_rating_is_refused_by_file_and_column(value):
    with pytest.raises(DreError, match="rated.jsonl:3: human is -?inf: expected a finite number"):
        readers.rating({"human": value}, "human", "rated.jsonl:3")


def rated(tmp_path, human, contexts):
    rows = [
        {"context": contexts[i % len(contexts)], "response": f"Reply {i}.", "human": human[i % 2]}
        for i in range(12)
    ]
    return jsonl(tmp_path / "rated.jsonl", rows)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("human", 3.0, r"r.jsonl: the rating 'human' \(--human\) is 3 in all 4"),
        ("score_llm", 2.0, "s.csv: score_llm is 2 in all 4"),
        ("context_id", "c", "r.jsonl: all 4 rated pairs have the same context"),
    ],
)
def test_a_set_that_teaches_nothing_is_refused_by_file_and_column(column, value, message):
    table = pd.DataFrame(
        {
            "context_id": ["a", "a", "b", "b"],
            "score_slm": [0.5, 1.0, 1.5, 0.7],
            "score_llm": [1.0, 2.0, 3.0, 4.0],
            "human": [1.0, 2.0, 3.0, 4.0],
        }
    )
    calibrate._refuse_one_value(table, "r.jsonl", "s.csv", "human")
    with pytest.raises(DreError, match=message):
        calibrate._refuse_one_value(table.assign(**{column: value}), "r.jsonl", "s.csv", "human")


def public_file(ending):
    """The path of a public file, if it is on this machine."""
    for path in sources():
        if str(path).endswith(ending) and (home() / path).is_file():
            return home() / path
    pytest.skip(f"{ending} is not here: dre data fetch brings it")


@pytest.mark.parametrize(
    ("ending", "name", "options"),
    [
        ("fed_data.json", "fed-turn", []),
        ("usr_topical_chat.json", "topicalchat-usr", ["--field", "system=model"]),
        ("usr_percona_chat.json", "personachat-usr", ["--field", "system=model"]),
    ],
)
def test_rated_sets_are_read_as_they_were_published(ending, name, options):
    from dre.datasets import ratings

    file = public_file(ending)
    form = Form(fields={"system": "model"} if options else {})
    pairs, _ = readers.pairs(readers.records(file), form, tell=lambda note: None)
    table = ratings.rated(name)
    assert pairs["context"].tolist() == table["context"].tolist()
    assert [response.strip() for response in pairs["response"]] == table["response"].tolist()
    assert pairs["system"].tolist() == table["system"].tolist()


def test_every_command_that_reads_dialogues_takes_the_options_of_the_page(capsys):
    page = (Path(__file__).parents[1] / "docs" / "files.md").read_text(encoding="utf-8")
    commands = (["data", "show"], ["score"], ["audit"], ["slm", "train"], ["augment", "generate"])
    for command in (*commands, ["judge", "run"]):
        with pytest.raises(SystemExit):
            main([*command, "--help"])
        shown = capsys.readouterr().out
        for option in ("--field", "--role", "--separator", "--last-turn", "--keep-tags"):
            assert option in shown
            assert option in page


def test_ratings_of_several_responses_in_a_record_are_joined_with_their_scores(tmp_path):
    answers = [
        {"model": name, "response": f"{name}.", "Overall": [k, k + 1]}
        for k, name in enumerate(("Tide", "Ebb", "Flood"))
    ]
    rows = [{"context": text, "responses": answers} for text in ("Is it late?", "Is it far?")]
    rated_file = jsonl(tmp_path / "rated.jsonl", rows)
    form = Form(fields={"system": "model"})
    pairs, _ = readers.pairs(readers.records(rated_file), form, tell=lambda note: None)
    scores = pairs[["line", "id", "system", "context_id"]].assign(
        score_slm=[0.1 * k for k in range(6)], score_llm=[5.0 - k for k in range(6)]
    )
    signature = {
        "method": "product",
        "model": "m",
        "judge": "j",
        "prompt": {"sha256": "p"},
        "data": hashlib.sha256(rated_file.read_bytes()).hexdigest(),
    }
    for ending in ("csv", "jsonl", "parquet"):
        path = tmp_path / f"scores.{ending}"
        files.write(scores.iloc[::-1], path)
        summary = {"signature": signature, "fields": ["system=model"]}
        Path(f"{path}.summary.json").write_text(json.dumps(summary))
        loaded = calibrate._load_set(str(rated_file), str(path), "Overall").table
        assert loaded["human"].tolist() == [2.5, 1.5, 0.5] * 2
        assert loaded["score_llm"].tolist() == [0, 1, 2, 3, 4, 5]
