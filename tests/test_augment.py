"""Algorithm 1 against a local model, the quality report by hand, the command."""

import json
import re

import judge_servers as servers
import pytest

from dre import augment, judges
from dre.augment import algorithm
from dre.commands.main import main
from dre.datasets import dialogues
from dre.datasets.dialogues import Context
from dre.errors import DreError
from dre.judges.store import Store
from dre.paper import quality

NUMERALS = ("one", "two", "three", "four", "five")


@pytest.fixture(autouse=True)
def key(monkeypatch, quick):
    monkeypatch.setenv("OPENAI_API_KEY", "test-key-0123456789")


def make_contexts(n):
    return [
        Context("own", f"c{i}", "train", ("Is the tea kettle on?", f"Which, number {i}?"))
        for i in range(n)
    ]


def open_judge(server, **options):
    return judges.open("openai:m", **{"store": ":memory:", "base_url": server.url, **options})


class Model:
    """A language model that follows fixed rules.

    It writes ten responses, such as "positive one, 0" for the first positive response to context 0,
    and with " anew" behind them where it revises. It labels a response by its first word, except
    that it gives the other label to responses in ``mislabelled``. A reply in ``replies``, by the
    prompt or the response that it is about, comes first.
    """

    def __init__(self, mislabelled=(), replies=None, tokens=(50, 10)):
        self.mislabelled = mislabelled
        self.replies = replies or {}
        self.tokens = tokens
        self.requests = []  # (prompt, number of the context, message)

    def __call__(self, request):
        message = request.body["messages"][-1]["content"]
        number = int(re.search(r"number (\d+)\?", message)[1])
        response = re.search(r"<response-(\w+)>\n(.*)\n</response-\1>", message)
        if response:
            prompt = "classify"
            subject = response[2]
        else:
            prompt = "refine" if "What the check found" in message else "generate"
            subject = prompt
        self.requests.append((prompt, number, message))
        if self.replies.get(subject):
            return self.replies[subject].pop(0)
        if prompt == "classify":
            content = {"label": self._label(subject)}
        else:
            content = self._responses(prompt, number)
        return servers.openai(json.dumps(content), tokens=self.tokens)

    def _label(self, response):
        is_positive = response.startswith("positive")
        if response in self.mislabelled:
            is_positive = not is_positive
        return "Positive" if is_positive else "Negative"

    def _responses(self, prompt, number):
        revisions = 0
        if prompt == "refine":
            revisions = sum(request[:2] == ("refine", number) for request in self.requests)
        ending = " anew" * revisions
        return {
            kind: [f"{kind} {numeral}, {number}{ending}" for numeral in NUMERALS]
            for kind in algorithm.EXPECTED
        }

    @property
    def counts(self):
        """How many calls came of the prompts generate, refine and classify."""
        prompts = [prompt for prompt, _, _ in self.requests]
        return tuple(prompts.count(prompt) for prompt in ("generate", "refine", "classify"))


class TestGenerate:
    def test_accepts_what_passes_in_one_round(self):
        with servers.Server(model := Model()) as server:
            result = augment.generate(make_contexts(3), open_judge(server, price="1,2"))

        assert model.counts == (3, 0, 30)
        for i, context in enumerate(result.contexts):
            assert context.positives == tuple(f"positive {numeral}, {i}" for numeral in NUMERALS)
        columns = ["status", "rounds", "responses_accepted"]
        assert result.report[columns].to_numpy().tolist() == [["accepted", 1, 10]] * 3

    def test_costs_what_its_replies_cost(self):
        tokens_in, tokens_out = 50, 10
        with servers.Server(Model(tokens=(tokens_in, tokens_out))) as server:
            result = augment.generate(make_contexts(3), open_judge(server, price="1,2"))

        dollars_per_call = (tokens_in * 1 + tokens_out * 2) / 1e6
        assert result.spent == pytest.approx(33 * dollars_per_call)

    def test_asks_nothing_that_is_in_the_store(self):
        with servers.Server(model := Model()) as server:
            judge = open_judge(server, price="1,2")
            first = augment.generate(make_contexts(3), judge)
            second = augment.generate(make_contexts(3), judge)

        assert model.counts == (3, 0, 30)
        assert second.contexts == first.contexts
        assert second.spent == 0

    def test_replaces_and_checks_again_only_what_was_rejected(self):
        mislabelled = ["adversarial two, 1"]
        with servers.Server(model := Model(mislabelled)) as server:
            result = augment.generate(make_contexts(2), open_judge(server))

        assert model.counts == (2, 1, 21)
        assert result.report["rounds"].tolist() == [1, 2]
        (message,) = [message for prompt, _, message in model.requests if prompt == "refine"]
        labels = re.findall(r"(\w+) response (\d) was labelled (\w+)", message)
        assert labels == [("Adversarial", "2", "Positive")]
        expected = [f"adversarial {numeral}, 1" for numeral in NUMERALS]
        expected[1] += " anew"
        assert list(result.contexts[1].adversarials) == expected

    def test_writes_all_ten_anew_if_asked_to_follow_the_print_to_the_letter(self):
        mislabelled = ["adversarial two, 1"]
        with servers.Server(model := Model(mislabelled)) as server:
            result = augment.generate(
                make_contexts(2)[1:], open_judge(server), max_rounds=2, again="generate"
            )

        (row,) = result.report.itertuples()
        assert model.counts == (2, 0, 20)
        assert (row.status, row.rounds) == ("rejected", 2)
        assert row.responses_accepted == 9
        assert row.reason == "Adversarial response 2 was labelled Positive, expected Negative."
        assert not result.contexts

    def test_counts_useless_replies_and_lets_them_use_up_their_round(self):
        drafts = [servers.openai("", refusal="No."), servers.openai("{", finish="length")]
        replies = {"generate": drafts, "positive one, 0": [servers.openai("Hard to say.")]}
        with servers.Server(model := Model(replies=replies)) as server:
            judge = open_judge(server)
            after_two = augment.generate(make_contexts(1), judge, max_rounds=2).report.iloc[0]
            counts_after_two = model.counts
            after_four = augment.generate(make_contexts(1), judge, max_rounds=4).report.iloc[0]

        assert (after_two["status"], after_two["rounds"]) == ("rejected", 2)
        assert counts_after_two == (2, 0, 0)
        assert "generate: truncated (" in after_two["reason"]
        assert (after_four["status"], after_four["rounds"]) == ("accepted", 4)
        # One label was asked for again.
        assert model.counts == (3, 0, 11)

    def test_asks_again_for_calls_that_failed_and_for_nothing_else(self):
        failures = {
            "generate": [servers.error("openai", 400)],
            "positive three, 1": [servers.error("openai", 400)],
        }
        with servers.Server(model := Model(replies=failures)) as server:
            judge = open_judge(server, concurrency=1)
            report = augment.generate(make_contexts(3), judge).report
            model.requests.clear()
            report_again = augment.generate(make_contexts(3), judge).report

        assert sorted(report["status"]) == ["accepted", "error", "error"]
        assert report["reason"].str.contains(": error (", regex=False).sum() == 2
        assert report_again["status"].tolist() == ["accepted"] * 3
        assert model.counts == (1, 0, 11)

    @pytest.mark.parametrize("share", [0, 0.5, 0.9])
    def test_keeps_the_ceiling_over_all_prompts_and_asks_the_rest_later(self, share):
        options = {"price": "10,10", "max_tokens": 100, "concurrency": 1}
        with servers.Server(model := Model(tokens=(3000, 100))) as server:
            whole_cost = augment.generate(make_contexts(3), open_judge(server, **options)).spent
            model.requests.clear()
            ceiling = share * whole_cost
            store = Store(":memory:")
            judge = open_judge(server, store=store, max_usd=ceiling, **options)

            result = augment.generate(make_contexts(3), judge)

            assert ceiling - 0.1 <= result.spent <= ceiling
            assert judge.max_usd == ceiling
            assert result.stopped == "budget"
            assert set(result.report["status"]) <= {"accepted", "missing"}
            assert sum(model.counts) < 33
            rich = open_judge(server, store=store, **options)
            assert len(augment.generate(make_contexts(3), rich).contexts) == 3
            assert sum(model.counts) == 33

    def test_lets_another_model_check(self):
        writer, checker = Model(), Model()
        with servers.Server(writer) as writing, servers.Server(checker) as checking:
            writes = open_judge(writing)
            checks = judges.open("openai:other", store=writes.store, base_url=checking.url)
            result = augment.generate(make_contexts(1), writes, checks)

        assert len(result.contexts) == 1
        assert writer.counts == (1, 0, 0)
        assert checker.counts == (0, 0, 10)

    def test_needs_a_price_of_both_models_before_anything_is_paid(self):
        writer, checker = Model(), Model()
        with servers.Server(writer) as writing, servers.Server(checker) as checking:
            writes = open_judge(writing, price="1,1", max_usd=5.0)
            checks = judges.open("openai:other", store=writes.store, base_url=checking.url)
            with pytest.raises(DreError, match="no price of openai:other"):
                augment.generate(make_contexts(1), writes, checks)

        assert writer.counts == checker.counts == (0, 0, 0)


def test_a_revision_takes_the_place_of_what_was_rejected_and_of_nothing_else():
    """The first and the third are rejected. New texts come for the third and the fifth."""
    draft = {"positive": ["p1", "p2", "p3", "p4", "p5"], "adversarial": ["a", "b", "c", "d", "e"]}
    item = algorithm.Item(make_contexts(1)[0])
    item.take(draft)
    for slot in item.draft:
        item.labels[slot] = algorithm.EXPECTED[slot.kind]
    for number in (0, 2):
        item.labels[algorithm.Slot("adversarial", number)] = "Positive"

    item.take(draft | {"adversarial": ["b", "b", "new c", "d", "new e"]})

    assert item.responses["adversarials"] == ("a", "b", "new c", "d", "e")  # no text twice
    assert item.responses["positives"] == tuple(draft["positive"])
    assert [slot.number for slot in item.unchecked] == [2]
    assert [slot.number for slot in item.rejected] == [0]


@pytest.fixture
def result():
    """Three accepted contexts."""
    with servers.Server(Model()) as server:
        return augment.generate(make_contexts(3), open_judge(server))


class TestSave:
    def test_writes_a_file_that_gives_the_same_contexts(self, result, tmp_path):
        file = tmp_path / "accepted.jsonl"

        assert result.save(file) == 3
        assert dialogues.read_contexts(file) == result.contexts

    def test_leaves_the_text_of_others_out_if_asked(self, result, tmp_path):
        file = tmp_path / "named.jsonl"

        result.save(file, turns=False)

        line = file.read_text().splitlines()[1]
        expected_hash = dialogues.context_sha256(make_contexts(2)[1].turns)
        assert "kettle" not in line
        assert json.loads(line)["context_sha256"] == expected_hash


def test_the_quality_of_the_embedded_corpus_is_measured_as_before_and_a_leak_is_seen():
    corpus = []
    for split in dialogues.SPLITS["mini"]:
        corpus += dialogues.load("mini", split)

    report = quality.report({"mini": corpus}, {"mini": corpus[:40]}, at_most=500, n=100)

    (row,) = report.to_dict("records")
    expected = {
        "overlap_positive": 6.61299,
        "overlap_adversarial": 22.1043,
        "overlap_only": 73.25,
        "length_only": 51.75,
        "response_only": 61.9167,
        "self_bleu_positive": 3.8634,
        "distinct_2": 95.1507,
        "leaked": 100 / 3,  # 40 of 120 contexts
    }
    assert {name: row[name] for name in expected} == pytest.approx(expected, abs=1e-4)
    assert row["overlap_only_low"] < 73.25 < row["overlap_only_high"]


class TestCommand:
    """Six contexts, of which the model gets one response wrong."""

    @pytest.fixture
    def command(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        lines = [
            json.dumps({"id": context.id, "context": context.turns}) for context in make_contexts(6)
        ]
        (tmp_path / "own.jsonl").write_text("\n".join(lines))
        (tmp_path / "twice.jsonl").write_text("\n".join([*lines, lines[0]]))
        with servers.Server(Model(["adversarial two, 1"])) as server:
            options = f"--judge openai:m --base-url {server.url} --store s.sqlite"

            def run(words):
                return main([*f"augment {words} {options}".split()])

            run.url = server.url
            yield run

    def test_says_what_became_of_the_contexts(self, command, capsys):
        assert command("own.jsonl -o a.jsonl --rounds 1") == 1
        printed = capsys.readouterr().out
        assert "5 of 6 contexts written to a.jsonl" in printed
        assert "5 accepted, 1 rejected" in printed
        assert "c1: rejected after round 1. Adversarial response 2 was labelled Pos" in printed
        assert command("own.jsonl -o b.jsonl --limit 1") == 0
        assert [context.id for context in dialogues.read_contexts("b.jsonl")] == ["c0"]

    def test_accepts_all_after_a_revision(self, command, capsys):
        assert command("own.jsonl -o a.jsonl") == 0
        assert len(dialogues.read_contexts("a.jsonl")) == 6

    def test_refuses_contexts_that_share_an_id(self, command):
        assert command("twice.jsonl -o a.jsonl") == 2

    def test_writes_over_the_output_of_another_run_only_if_forced(self, command, capsys):
        command("own.jsonl -o a.jsonl --rounds 1")
        assert command("own.jsonl -o a.jsonl") == 2
        message = "a.jsonl is of another run (rounds 1, now 3)"
        assert message in capsys.readouterr().err
        assert command("own.jsonl -o a.jsonl --force") == 0

    def test_a_checker_of_another_name_does_not_take_the_address_of_the_writer(
        self, command, capsys
    ):
        # Without an address of its own it is asked at its provider's, which this key does not open.
        assert command("own.jsonl -o a.jsonl --checker ollama:other") == 1
        assert "ollama:other" in capsys.readouterr().err

    def test_a_recording_cannot_write(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        words = "augment mini:train --limit 2 --judge recorded:claude-2026-11 -o a.jsonl"
        assert main(words.split()) == 2
        assert "cannot write responses: expected a live judge" in capsys.readouterr().err

    def test_never_writes_over_its_input(self, command):
        assert command("own.jsonl -o own.jsonl --force") == 2
        assert len(dialogues.read_contexts("own.jsonl")) == 6
