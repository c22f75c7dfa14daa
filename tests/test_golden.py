"""What must not change by accident, as files in tests/golden.

``python tests/test_golden.py`` writes them anew. Whoever changes something here on purpose does so
in the same commit, with a line in tests/golden/CHANGES.md that says why.

A score may differ by 1e-5: rounding depends on the processor, on the number of threads and on which
texts are in a batch (1.3e-6 at most on the three processors where this was tried). The usual run
scores the test split of the embedded corpus; ``DRE_GOLDEN=whole`` scores all 1,200 replies.
"""

import contextlib
import hashlib
import io
import itertools
import json
import math
import os
import re
import sys
from collections import Counter
from pathlib import Path

import judge_servers as servers
import pandas as pd
import pytest
from conftest import needs_data
from judge_servers import REPLIES, Answer, Server, error

# What may move is imported here and nowhere else.
from dre import DRE
from dre.commands.main import main
from dre.datasets import ratings
from dre.judges import open as open_judge
from dre.judges import prompts, released

AUGMENT = ("augment",)
TRAIN = ("train",)

FOLDER = Path(__file__).with_name("golden")
RESPONSES = FOLDER / "responses.jsonl"  # of two systems, written for this test
CORPUS = FOLDER.parents[1] / "data/mini/corpus.jsonl"
MODE = os.environ.get("DRE_GOLDEN", "")  # "write", "whole", or the usual run

STATUSES = ("ok", "malformed", "refused", "truncated", "empty")  # of a judge's reply

pytestmark = pytest.mark.usefixtures("quick", "here")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)


# Files, and how they are compared


def check_text(name, text):
    """Compare a text with the one that is kept, byte for byte."""
    path = FOLDER / name
    if MODE == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
    assert text == path.read_bytes().decode()


def check_json(name, content):
    check_text(name, json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def check_table(name, rows, tolerance=1e-5):
    """Compare rows with those that are kept: numbers up to a tolerance, all else exactly."""
    path = FOLDER / name
    text = pd.DataFrame(rows).to_csv(index=False, float_format="%.9g", lineterminator="\n")
    if MODE == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    tables = [pd.read_csv(file, dtype={"exit": "Int64"}) for file in (io.StringIO(text), path)]
    kept = tables[1]
    if "id" in kept and len(kept) > len(tables[0]):  # not all replies were scored
        kept = kept[kept["id"].isin(tables[0]["id"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(tables[0], kept, rtol=0, atol=tolerance, check_dtype=False)


def command(*words):
    """Run a command; return its exit status and what it printed."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        status = main([str(word) for word in words])
    return status, output.getvalue()


def write_rows(path, rows):
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


# Scores


def summary_of(file, *words):
    """What `dre score` says of a file: its summary, with the scores of all replies."""
    status, output = command("score", file, "--json", *words)
    assert status == 0
    return json.loads(output)


def scores_of(file, *words, column="score"):
    rows = summary_of(file, *words)["scores"]
    assert {row["status"] for row in rows} == {"ok"}
    return [row[column] for row in rows]


def replies_of_the_corpus():
    rows = []
    for line in CORPUS.read_text(encoding="utf-8").splitlines():
        context = json.loads(line)
        kinds = {"p": context["positive_responses"], "a": context["adversarial_negative_responses"]}
        for kind, responses in kinds.items():
            for number, response in enumerate(responses):
                row = {"id": f"mini/{context['id']}/{kind}{number}", "split": context["split"]}
                rows.append(row | {"context": context["context"], "response": response})
    return rows


@pytest.mark.usefixtures("on_cpu")
def test_every_reply_of_the_embedded_corpus_has_its_score():
    """By the small model, and on the test split by the recorded judge and both together."""
    rows = replies_of_the_corpus()
    test_split = [row for row in rows if row["split"] == "test"]
    scored = rows if MODE else test_split
    table = pd.DataFrame({"id": [row["id"] for row in scored]})
    table["small"] = scores_of(write_rows("scored.jsonl", scored))
    is_in_test = table["id"].isin([row["id"] for row in test_split])
    file = write_rows("test.jsonl", test_split)
    for method in ("judge", "product", "slide"):
        words = ("--judge", "recorded:claude-2026-11", "--method", method)
        table.loc[is_in_test, method] = scores_of(file, *words)
    check_table("mini_scores.csv", table)


@pytest.mark.usefixtures("on_cpu")
def test_the_default_model_gives_its_scores_from_python_and_its_threshold_tells_them_apart():
    good, bad = "Yes, in the blue tin.", "My car is red."
    responses = [good, bad, "Is there any tea left?"]
    metric = DRE.load()
    table = metric.score([["Is there any tea left?"]] * 3, responses)
    scores = dict(zip(responses, table["score"]))
    provenance = metric.slm.provenance
    rows = [
        {"model": provenance["name"], "threshold": provenance["threshold"], "response": response}
        | {"score": scores[response]}
        for response in responses
    ]
    check_table("default_model.csv", rows)
    assert scores[good] > provenance["threshold"] > scores[bad]


def judge_by_length(request):
    """A score that depends on the response alone, whatever else is in the request."""
    said = request.body["messages"][-1]["content"]
    responses = [json.loads(line)["response"] for line in RESPONSES.read_text().splitlines()]
    (response,) = [text for text in responses if f"\n{text}\n" in said]
    verdict = {"influence": len(response) % 11 / 10, "score": len(response) % 6}
    fields = request.body["response_format"]["json_schema"]["schema"]["properties"]
    return servers.openai(json.dumps({name: verdict[name] for name in fields}))


@pytest.mark.usefixtures("on_cpu")
def test_two_systems_are_scored_and_compared_by_every_method():
    replies = [json.loads(line) for line in RESPONSES.read_text().splitlines()]
    table = pd.DataFrame(replies)[["id", "system"]]
    systems, comparisons = [], []
    with Server(judge_by_length) as server:
        judge = ("--judge", "openai:m", "--base-url", server.url, "--store", "s.sqlite")
        for method in ("small", "judge", "product", "slide", "in_dre", "dre"):
            words = () if method == "small" else (*judge, "--method", method)
            if method in ("in_dre", "dre"):
                words += ("--accuracies", "0.88,0.98")
            summary = summary_of(RESPONSES, *words)
            table[method] = [row["score"] for row in summary["scores"]]
            for row in summary["systems"]:
                columns = ["system", "n", "n_missing", "score", "score_low", "score_high"]
                columns += ["rank", "rank_last"]
                systems.append({"method": method} | {name: row[name] for name in columns})
            for row in summary["comparisons"]:
                columns = ["a", "b", "difference", "difference_low", "difference_high"]
                columns += ["p_holm", "n_contexts"]
                comparisons.append({"method": method} | {name: row[name] for name in columns})
    check_table("methods.csv", table)
    check_table("systems.csv", systems)
    check_table("comparisons.csv", comparisons)


# Prompts

EXAMPLE = {
    "pair_id": "own/1",
    "context": ("Did you feed the hens?", "Yes, before breakfast.", "All   of\nthem?"),
    "response": "All but the brown one; she hides.",
    "facts": "Hens sleep on perches.",
    "positives": tuple(f"A fitting reply, number {n}." for n in range(1, 6)),
    "adversarials": tuple(f"A misleading reply, number {n}." for n in range(1, 6)),
    "feedback": "Adversarial response 2 was labelled Positive, expected Negative.",
    "s_p": 0.7125,
    "s_d": 0.2,
    "score_slm": 1.5125,
    "slm_accuracy": 0.8714,
    "llm_accuracy": 0.9,
}


def rated_examples(prompt):
    """Two examples that people rated, as high and as low as the prompt allows."""
    ratings = list(prompt.labels) or prompt.scale
    context = ("Where is the key?", "Under the mat.")
    responses = ("Thanks, I have it.", "Hens do.")
    return [
        {"context": context, "response": response, "rating": rating}
        for response, rating in zip(responses, ratings)
    ]


def section(title, text):
    return f"=== {title} ===\n{text}\n\n"


@pytest.mark.parametrize("name", prompts.names())
def test_a_prompt_is_sent_byte_for_byte_as_before(name):
    prompt = prompts.load(name)
    names = ("kind", "scale", "influence", "criterion", "labels")
    header = {key: getattr(prompt, key) for key in names}
    text = section("header", json.dumps(header))
    for message in prompt.render(EXAMPLE):
        text += section(message["role"], message["content"])
    if "examples" in prompt.slots:
        with_examples = EXAMPLE | {"examples": rated_examples(prompt)}
        for message in prompt.render(with_examples):
            text += section(f"{message['role']}, with examples", message["content"])
    text += section("schema", json.dumps(prompt.schema, indent=1))
    check_text(f"prompts/{name}.txt", text)


def test_the_built_in_prompts_are_those_that_are_kept():
    assert prompts.names() == sorted(path.stem for path in FOLDER.glob("prompts/*.txt"))


# What each SDK sends, and how its answers are read

RETIRED = "google-generativeai"  # asked where google-genai is not installed
GOOD = '{"score": 4.5}'


@pytest.fixture(params=[*REPLIES, RETIRED])
def sdk(request, monkeypatch):
    """An SDK by its name among the kept files, and the provider that it is of."""
    if request.param == RETIRED:
        monkeypatch.setitem(sys.modules, "google.genai", None)
        return RETIRED, "gemini"
    return request.param, request.param


def judge_run(server, provider, rows, *words):
    """Judge rows by `dre judge run`; return the exit status, and the table or None."""
    status, _ = command(
        *("judge", "run", write_rows("asked.jsonl", rows), "-o", "out.csv", "--force"),
        *("--judge", f"{provider}:m", "--base-url", server.url, "--store", "replies.sqlite"),
        *("--max-tokens", 77, "--concurrency", 1, *words),
    )
    path = Path("out.csv")
    table = pd.read_csv(path) if path.exists() else None
    path.unlink(missing_ok=True)
    return status, table


VARIANTS = {
    "with a schema": (),
    "without one": ("--plain",),
    "parameters": ("--temperature", 0.5, "--param", "top_p=0.9"),
    "a criterion": ("--criterion", "How polite is the reply?"),
}


def test_each_sdk_sends_its_request_as_before(sdk):
    name, provider = sdk
    bodies = {}
    with Server(lambda request: REPLIES[provider](GOOD)) as server:
        for variant, words in VARIANTS.items():
            server.requests.clear()
            assert judge_run(server, provider, servers.pairs(1), *words)[0] == 0
            (request,) = server.requests
            bodies[variant] = request.body
    assert name in request.headers["user-agent"].lower() or provider == "gemini"
    check_json(f"requests/{name}.json", bodies)


def gemini_likelihoods(answer, probabilities):
    """The same answer of one token, with the log-probabilities of tokens in its place."""
    candidates = [
        {"token": token, "logProbability": math.log(probability)}
        for token, probability in probabilities.items()
    ]
    answer.body["candidates"][0]["logprobsResult"] = {
        "chosenCandidates": candidates[:1],
        "topCandidates": [{"candidates": candidates}],
    }
    return answer


@pytest.mark.parametrize(
    ("provider", "with_likelihoods"),
    [("openai", servers.with_logprobs), ("gemini", gemini_likelihoods)],
)
def test_log_probabilities_are_asked_for_and_make_a_score_as_before(provider, with_likelihoods):
    cases = {
        "quality_overall": {"3": 0.6, "1": 0.3, "0": 0.05},
        "good_response": {"Yes": 0.7, "No": 0.2, "Well": 0.1},
    }
    kept = {}
    for prompt, probabilities in cases.items():
        answer = with_likelihoods(REPLIES[provider](next(iter(probabilities))), probabilities)
        with Server(lambda request, answer=answer: answer) as server:
            options = {"store": ":memory:", "base_url": server.url, "max_tokens": 77}
            judge = open_judge(f"{provider}:m", logprobs=True, **options)
            row = judge.score(servers.pairs(1), prompt).iloc[0]
        score = round(float(row["score_llm"]), 9)
        kept[prompt] = {"request": server.requests[0].body, "score": score, "label": row["label"]}
    check_json(f"requests/{provider}_log_probabilities.json", kept)


#: The word of each provider for a reply that was cut, and for one that it refused.
CUT = {"openai": "length", "anthropic": "max_tokens", "gemini": "MAX_TOKENS", "ollama": "length"}
FILTERED = {"openai": "content_filter", "anthropic": "refusal", "gemini": "SAFETY"}
TEXTS = {
    "good": GOOD,
    "thinking before it": f"<think>Is it a 1?</think>\n{GOOD}",
    "thinking that does not end": "<think>Is it a 1? No, it is a 4.",
    "in a fence": f"```json\n{GOOD}\n```",
    "a key twice": '{"score": 1, "score": 4.5}',
    "a number as text": '{"score": "4.5"}',
    "another key beside it": '{"score": 4.5, "reason": "It fits."}',
    "another key in its place": '{"rating": 4.5}',
    "out of range": '{"score": 9}',
    "no number": '{"score": null}',
    "two objects": '{"score": 1} {"score": 4.5}',
    "words around it": f"Here you are: {GOOD}",
    "a list": "[4.5]",
    "a number": "4.5",
    "a line with its name": "Score: 4.5",
    "a fraction": "4.5/5",
    "a sentence": "The score is 4.5.",
    "two lines": "It fits well.\n4.5",
    "two numbers": "4.5 or 3",
    "words": "I would rather not say.",
    "a refusal in words": "I cannot help with that. Score: 3",
    "a yes": "Yes",
    "a label": '{"label": "Negative"}',
    "nothing": "",
    "white space": " \n ",
}
#: Prompts that read these texts, with a text that each can read.
READ_BY = [
    ("llm_only", (), GOOD),
    ("llm_only", ("--plain",), GOOD),
    ("geval_coherence", (), "2"),
    ("good_response", (), "Yes"),
    ("classify", (), '{"label": "Positive"}'),
    ("classify", ("--plain",), "Positive"),
]
OF_EVERY_SDK = ("good", "thinking before it", "a key twice", "out of range", "words", "nothing")


def read_as(provider, answers, *words, first=GOOD):
    """How answers are read that come with status 200, each about a pair of its own."""
    readable = REPLIES[provider](first)  # if none of the first ten is, a run ends
    answers = {"at first": readable} | answers

    def script(request):
        number = int(re.search(rb"number (\d+)\?", request.raw)[1])
        return list(answers.values())[number]

    with Server(script) as server:
        _, table = judge_run(server, provider, servers.pairs(len(answers)), *words)
    table.insert(0, "answer", list(answers))
    return table.reindex(columns=["answer", "status", "score_llm", "label"]).iloc[1:]


def test_answers_of_each_sdk_are_read_as_before(sdk):
    name, provider = sdk
    reply = REPLIES[provider]
    answers = {answer: reply(TEXTS[answer]) for answer in OF_EVERY_SDK}
    answers["cut"] = reply(GOOD, CUT[provider])
    if provider in FILTERED:
        answers["refused"] = reply(GOOD, FILTERED[provider])
    rows = read_as(provider, answers)[["answer", "status", "score_llm"]].to_dict("records")

    soon = {"retry-after": "0.01", "retry-after-ms": "10"}
    bad = {f"HTTP {n}": error(provider, n, headers=soon) for n in (400, 401, 404, 500)}
    bad |= {"a dropped line": Answer(b"", drop=True), "a page": Answer(b"<html>Log in</html>")}
    for again in ("HTTP 500", "a dropped line"):
        bad[f"{again}, then a good reply"] = bad[again]
    bad["HTTP 429, then a good reply"] = error(provider, 429, headers=soon)
    for answer, first in bad.items():
        later = reply(GOOD) if "then" in answer else first
        replies = itertools.chain([first], itertools.repeat(later))
        with Server(lambda request, replies=replies: next(replies)) as server:
            status, table = judge_run(server, provider, servers.pairs(1))
        row = {"answer": answer, "exit": status}
        if table is not None:
            row |= table.reindex(columns=["status", "score_llm"]).loc[0].to_dict()
        rows.append(row)
    check_table(f"answers/{name}.csv", rows)


def test_texts_of_replies_are_read_as_before():
    answers = {answer: servers.openai(text) for answer, text in TEXTS.items()}
    tables = []
    for prompt, words, first in READ_BY:
        table = read_as("openai", answers, "--prompt", prompt, *words, first=first)
        tables.append(table.assign(prompt=prompt, asked=" ".join(words)))
    check_table("texts_of_replies.csv", pd.concat(tables))


# Commands


def test_judging_writes_shows_and_estimates_as_before():
    def script(request):
        number = int(re.search(rb"number (\d+)\?", request.raw)[1])
        return servers.openai(json.dumps({"score": number / 2}))

    rows = servers.pairs(5)
    priced = ("--price", "1,2")
    with Server(script) as server:
        words = ("--judge", "openai:m", "--base-url", server.url, "--store", "replies.sqlite")
        words += ("--max-tokens", 77, *priced)
        status, estimate = command("judge", "estimate", write_rows("rows.jsonl", rows), *words)
        assert (status, server.requests) == (0, [])

        _, table = judge_run(server, "openai", rows[:3], *priced)
        columns = ["pair_id", "score_llm", "status", "cost", "n_samples", "n_ok"]
        check_table("judge_run.csv", table[columns], tolerance=1e-9)
        judge_run(server, "openai", rows, *priced)
        assert len(server.requests) == 5  # what is stored is not asked again

        status, shown = command("judge", "show", "own/3", "rows.jsonl", *words)
    (request,) = [sent for sent in server.requests[:5] if b"number 3?" in sent.raw]
    assert status == 0
    assert request.body["messages"][0]["content"] in shown
    assert '{"score": 1.5}' in shown
    check_json("judge_estimate.json", re.findall(r"[\d,]*\d\.?\d*", estimate))


def test_a_chat_is_the_same_pair_as_its_context_and_response():
    rows, chats = servers.pairs(2), []
    for row in rows:
        texts = [*row["context"], row["response"]]
        roles = ["assistant", "user", "assistant"]
        messages = [{"role": role, "content": text} for role, text in zip(roles, texts)]
        chats.append({"id": row["pair_id"], "messages": messages})
    with Server(servers.graded) as server:
        tables = [judge_run(server, "openai", pairs)[1] for pairs in (rows, chats)]
    assert len(server.requests) == 2
    pd.testing.assert_frame_equal(tables[0][["score_llm"]], tables[1][["score_llm"]])
    for file in (write_rows("rows.jsonl", rows), write_rows("chats.jsonl", chats)):
        status, shown = command("data", "show", file)
        assert status == 0
        assert all(text in shown for row in rows for text in (*row["context"], row["response"]))
    write_rows("faulty.jsonl", [*rows, {"context": ["Tea?"]}])
    assert command("data", "show", "faulty.jsonl")[0] == 2


COMPARED = {
    "the same": (0.0, 12, 0),
    "a little better": (0.2, 12, 0),
    "worse in one context": (0.0, 12, 1),
    "worse": (-0.5, 12, 0),
    "two contexts are missing": (0.0, 10, 0),
}


def test_a_system_that_became_worse_fails_the_comparison_as_before():
    def write_scores(path, shift, n, n_worse):
        lines = ["context_id,system,score"]
        for i in range(n):
            score = 1 + i % 4 / 10 + shift + i % 3 / 100 - (3 if i < n_worse else 0)
            lines += [f"c{i},kettle,{score:.3f}", f"c{i},parrot,{0.5 + i % 5 / 10:.3f}"]
        Path(path).write_text("\n".join(lines) + "\n")

    write_scores("old.csv", 0.0, 12, 0)
    rows = []
    for name, scores in COMPARED.items():
        write_scores("new.csv", *scores)
        for words in ((), ("--fail-if", "worse"), ("--max-missing", "0.05")):
            status, _ = command("compare", "new.csv", "old.csv", *words)
            rows.append({"new scores": name, "options": " ".join(words), "exit": status})
    gone = [line for line in Path("old.csv").read_text().splitlines() if "parrot" not in line]
    Path("new.csv").write_text("\n".join(gone) + "\n")
    status, _ = command("compare", "new.csv", "old.csv", "--fail-if", "worse")
    rows.append({"new scores": "a system is gone", "options": "--fail-if worse", "exit": status})
    check_table("compare.csv", rows)


def writer(request):
    """A model that writes ten responses, one of them wrong at first, and checks them."""
    said = request.body["messages"][-1]["content"]
    fields = request.body["response_format"]["json_schema"]["schema"]["properties"]
    if "label" in fields:
        is_wrong = "A wrong turn" in said.rpartition("<response-")[2]
        return servers.openai(json.dumps({"label": "Negative" if is_wrong else "Positive"}))
    responses = {
        "positive": [f"A fitting reply, number {n}." for n in range(5)],
        "adversarial": [f"A wrong turn, number {n}." for n in range(5)],
    }
    if "number 1?" in said:  # the last adversarial is revised once
        is_second = "No turn at all." in said
        responses["adversarial"][4] = "A wrong turn at last." if is_second else "No turn at all."
    return servers.openai(json.dumps(responses))


def test_responses_are_written_and_checked_as_before():
    contexts = [{"id": f"c{i}", "context": ["A kettle?", f"Number {i}?"]} for i in range(2)]
    contexts[1]["context"][1] = "Which, number 1?"
    with Server(writer) as server:
        words = ("--judge", "openai:m", "--base-url", server.url, "--store", "replies.sqlite")
        file = write_rows("contexts.jsonl", contexts)
        status, _ = command(*AUGMENT, file, "-o", "written.jsonl", *words)
    asked = Counter()
    for request in server.requests:
        fields = request.body["response_format"]["json_schema"]["schema"]["properties"]
        asked[" and ".join(fields)] += 1
    names = ("id", "context", "positive_responses", "adversarial_negative_responses")
    written = [json.loads(line) for line in Path("written.jsonl").read_text().splitlines()]
    accepted = [{name: record[name] for name in names} for record in written]
    check_json("augment.json", {"exit": status, "asked": asked, "accepted": accepted})


@pytest.mark.usefixtures("on_cpu")
def test_a_trained_model_gives_its_scores(still):
    """To 3e-3, since rounding adds up in a training (1e-3 between two processors)."""
    words = ("--train", "mini:dev", "--dev", "mini:dev", "--recipe", "paper", "--epochs", 1)
    status, _ = command(*TRAIN, *words, "--encoder", still, "--out", "model")
    assert status == 0
    rows = summary_of(RESPONSES, "--slm", "model")["scores"]
    table = pd.DataFrame(rows)[["id", "system", "score"]]
    check_table("trained_model.csv", table, tolerance=3e-3)


@needs_data
def test_public_data_that_are_here_are_not_fetched_again():
    assert command("data", "fetch", "dailydialog++", "usr")[0] == 0


# What was released, and what a run of the paper takes


@needs_data
def test_released_replies_are_read_as_before():
    """Counts, and a hash of the readings: texts of others are not kept."""
    rows = []
    columns = ["pair_id", "repeat", "status", "score_llm"]
    for (judge, criterion), replies in released.gpt35().groupby(["judge", "criterion"]):
        counts = replies["status"].value_counts()
        row = {"judge": judge, "criterion": criterion, "replies": len(replies)}
        row |= {status: int(counts.get(status, 0)) for status in STATUSES}
        rows.append(row | {"sha256": sha256_of(replies[columns])})
    check_table("released_replies.csv", rows)


@needs_data
def test_released_scores_are_read_as_before():
    rows = []
    for name in ratings.RATED:
        table = released.scores(name)
        for judge in table.columns.drop("pair_id"):
            scores = table[["pair_id", judge]].dropna()
            row = {"set": name, "judge": judge, "scores": len(scores), "mean": scores[judge].mean()}
            rows.append(row | {"sha256": sha256_of(scores)})
    check_table("released_scores.csv", rows)


def sha256_of(table):
    """Return a hash of the rows of a table in the order of its columns, to six digits."""
    rows = table.sort_values([*table.columns[:2]])
    text = rows.to_csv(index=False, header=False, float_format="%.6g", lineterminator="\n")
    return hashlib.sha256(text.encode()).hexdigest()


if __name__ == "__main__":
    os.environ["DRE_GOLDEN"] = "write"
    sys.exit(pytest.main(["-q", __file__, *sys.argv[1:]]))
