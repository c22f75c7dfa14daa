"""Algorithm 1: rounds, merging, resumption, ceilings, recorded responses."""

import json
import re

import judge_servers as servers
import pytest

from dre import augment, judges
from dre.data import augmented
from dre.data.records import Context
from dre.judges import prices
from dre.judges.policy import Policy

pytest.importorskip("openai")
QUICK = {"attempts": 3, "wait_initial": 0.01, "wait_max": 0.02, "wait_jitter": 0.01, "timeout": 20}
WORDS = ("one", "two", "three", "four", "five")


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test-key-0123456789")


def contexts(n=2):
    turns = ("Is the kettle on?", "Which one, number {}?")
    return [Context("own", f"c{i}", "train", (turns[0], turns[1].format(i))) for i in range(n)]


def judge(url, store=":memory:", concurrency=4, **options):
    policy = Policy(concurrency=concurrency, **QUICK)
    return judges.open("openai:m", store=store, base_url=url, policy=policy, **options)


def texts(mark=""):
    return {kind: [f"{kind} {word}{mark}" for word in WORDS] for kind in ("positive", "adversarial")}


def asked(request):
    """Which prompt a request is, its context's number, and the response it is about."""
    said = request.body["messages"][-1]["content"]
    number = int(re.search(r"number (\d+)\?", said)[1])
    response = re.search(r"<response-(\w+)>\n(.*)\n</response-\1>", said)
    if response:
        return "classify", number, response[2]
    return ("refine" if "What the check found" in said else "generate"), number, said


class Script:
    """A model: writes what `write` says and labels a response by its first word unless `wrong` holds it."""

    def __init__(self, wrong=(), write=None):
        self.wrong, self.write, self.seen = set(wrong), write, []

    def __call__(self, request):
        prompt, number, said = asked(request)
        self.seen.append((prompt, number, said))
        if prompt == "classify":
            positive = said.startswith("positive") != (said in self.wrong)
            return servers.openai(json.dumps({"label": "Positive" if positive else "Negative"}))
        count = sum(one[:2] == (prompt, number) for one in self.seen)
        answer = self.write(prompt, number, count) if self.write else None
        if isinstance(answer, servers.Answer):
            return answer
        return servers.openai(
            json.dumps(answer or texts(f", {number}" + ("" if prompt == "generate" else f" anew {count}")))
        )

    def count(self, prompt):
        return sum(one[0] == prompt for one in self.seen)


def test_contexts_whose_ten_responses_pass_are_accepted_in_one_round(tmp_path):
    script = Script()
    with servers.Server(script) as server:
        result = augment.generate(contexts(3), judge(server.url, price=prices.Price(1, 2, "given")))
    assert (script.count("generate"), script.count("classify"), script.count("refine")) == (3, 30, 0)
    assert [c.positives for c in result.contexts] == [tuple(f"positive {w}, {i}" for w in WORDS) for i in range(3)]
    assert [c.adversarials[4] for c in result.contexts] == [f"adversarial five, {i}" for i in range(3)]
    report = result.report
    assert report["status"].tolist() == ["accepted"] * 3 and report["rounds"].tolist() == [1] * 3
    assert report["calls"].tolist() == [11] * 3 and report["reason"].tolist() == [""] * 3
    assert report["cost"].tolist() == pytest.approx([11 * (50 * 1 + 10 * 2) / 1e6] * 3)
    assert result.spent == pytest.approx(report["cost"].sum())
    assert len(result.responses) == 30 and result.responses["best"].all() and result.responses["accepted"].all()
    assert result.save(tmp_path / "a.jsonl") == 3 and result.save(tmp_path / "r.jsonl", rejected=True) == 0
    public = {context.id: context for context in contexts(3)}
    again = augmented.join(tmp_path / "a.jsonl", public, "own")
    assert again == result.contexts
    assert augment.load(tmp_path / "a.jsonl", contexts(3)).contexts == again


def test_only_the_rejected_response_is_replaced_and_checked_again():
    script = Script(wrong=["adversarial two, 1"])
    with servers.Server(script) as server:
        result = augment.generate(contexts(2), judge(server.url))
    assert (script.count("generate"), script.count("classify"), script.count("refine")) == (2, 21, 1)
    said = next(said for prompt, _, said in script.seen if prompt == "refine")
    assert "Adversarial response 2 was labelled Positive, expected Negative." in said
    assert said.count("was labelled") == 1 and "2. adversarial two, 1" in said and "5. positive five, 1" in said
    assert result.report["status"].tolist() == ["accepted"] * 2 and result.report["rounds"].tolist() == [1, 2]
    adversarials = [f"adversarial {word}, 1" for word in WORDS]
    adversarials[1] = "adversarial two, 1 anew 1"
    assert result.contexts[1].adversarials == tuple(adversarials)
    second = result.responses[result.responses["id"] == "c1"]
    assert second["round"].tolist().count(2) == 1 and len(second) == 11
    (lost,) = second[~second["best"]].itertuples()
    assert (lost.response, lost.label, lost.round, lost.pair_id) == ("adversarial two, 1", "Positive", 1, "own/c1/a1")
