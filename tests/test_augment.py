"""Algorithm 1 against a local model, the quality report by hand, the sheet for people, the command."""

import json
import re

import judge_servers as servers
import pandas as pd
import pytest
from conftest import experiment

from dre import augment, judges
from dre.augment import algorithm, quality
from dre.commands.main import main
from dre.datasets import dialogues
from dre.datasets.dialogues import Context, pairs
from dre.errors import DreError

WORDS = ("one", "two", "three", "four", "five")


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test-key-0123456789")


def contexts(n=2):
    return [
        Context("own", f"c{i}", "train", ("Is the tea kettle on?", f"Which, number {i}?"))
        for i in range(n)
    ]


def judge(server, **options):
    return judges.open("openai:m", store=":memory:", base_url=server.url, attempts=1, **options)


class Model:
    """Writes ten responses that name their round, and labels by the first word, other than that what is `wrong`."""

    def __init__(self, wrong=(), replies=None, tokens=(50, 10)):
        self.wrong, self.replies, self.tokens, self.seen = wrong, replies or {}, tokens, []

    def __call__(self, request):
        said = request.body["messages"][-1]["content"]
        number = int(re.search(r"number (\d+)\?", said)[1])
        response = re.search(r"<response-(\w+)>\n(.*)\n</response-\1>", said)
        prompt = (
            "classify" if response else "refine" if "What the check found" in said else "generate"
        )
        what = response[2] if response else prompt
        self.seen.append((prompt, number, said))
        if self.replies.get(what):
            return self.replies[what].pop(0)
        if response:
            positive = what.startswith("positive") != (what in self.wrong)
            return servers.openai(
                json.dumps({"label": "Positive" if positive else "Negative"}), tokens=self.tokens
            )
        times = sum(one[:2] == (prompt, number) for one in self.seen) if prompt == "refine" else 0
        texts = {
            kind: [f"{kind} {word}, {number}" + " anew" * times for word in WORDS]
            for kind in algorithm.EXPECTED
        }
        return servers.openai(json.dumps(texts), tokens=self.tokens)

    @property
    def counts(self):
        return tuple(
            sum(one[0] == prompt for one in self.seen)
            for prompt in ("generate", "refine", "classify")
        )


def test_what_passes_is_accepted_in_one_round_saved_and_asked_once(tmp_path):
    with servers.Server(model := Model()) as server:
        one = judge(server, price="1,2")
        result, again = augment.generate(contexts(3), one), augment.generate(contexts(3), one)
    assert model.counts == (3, 0, 30) and again.contexts == result.contexts and again.spent == 0
    assert [c.positives for c in result.contexts] == [
        tuple(f"positive {w}, {i}" for w in WORDS) for i in range(3)
    ]
    assert (
        result.report[["status", "rounds", "calls"]].to_numpy().tolist()
        == [["accepted", 1, 11]] * 3
    )
    assert (
        result.spent
        == pytest.approx(result.report["cost"].sum())
        == pytest.approx(33 * (50 * 1 + 10 * 2) / 1e6)
    )
    assert (
        result.save(tmp_path / "a.jsonl") == 3
        and dialogues.read(tmp_path / "a.jsonl") == result.contexts
    )
    result.save(tmp_path / "named.jsonl", turns=False)  # other people's text is not passed on
    line = (tmp_path / "named.jsonl").read_text().splitlines()[1]
    assert "kettle" not in line and json.loads(line)["context_sha256"] == dialogues.context_sha256(
        contexts()[1].turns
    )


def test_only_what_was_rejected_is_replaced_and_checked_again_or_to_the_letter_all_ten():
    with servers.Server(model := Model(wrong=["adversarial two, 1"])) as server:
        result = augment.generate(contexts(2), judge(server))
        assert model.counts == (2, 1, 21) and result.report["rounds"].tolist() == [1, 2]
        (said,) = [said for prompt, _, said in model.seen if prompt == "refine"]
        assert re.findall(r"(\w+) response (\d) was labelled (\w+)", said) == [
            ("Adversarial", "2", "Positive")
        ]
        expected = [f"adversarial {word}, 1" for word in WORDS]
        expected[1] += " anew"
        assert list(result.contexts[1].adversarials) == expected
        model.seen.clear()
        result = augment.generate(contexts(2)[1:], judge(server), max_rounds=2, again="generate")
    (row,) = result.report.itertuples()
    assert model.counts == (2, 0, 20) and (row.status, row.rounds, row.calls) == ("rejected", 2, 22)
    assert row.responses_accepted == 9 and not result.contexts
    assert row.reason == "Adversarial response 2 was labelled Positive, expected Negative."


def test_useless_replies_use_up_their_round_and_are_counted():
    drafts = [servers.openai("", refusal="No."), servers.openai("{", finish="length")]
    replies = {"generate": drafts, "positive one, 0": [servers.openai("Hard to say.")]}
    with servers.Server(model := Model(replies=replies)) as server:
        asked = judge(server)
        one = augment.generate(contexts(1), asked, max_rounds=2).report.iloc[0]
        assert (one["status"], one["rounds"], model.counts) == ("truncated", 2, (2, 0, 0))
        assert (
            "Round 1, generate: refused (" in one["reason"]
            and "Round 2, generate: truncated (" in one["reason"]
        )
        more = augment.generate(contexts(1), asked, max_rounds=4).report.iloc[0]
    assert (more["status"], more["rounds"], model.counts) == (
        "accepted",
        4,
        (3, 0, 11),
    )  # one label was asked again


def test_a_failed_call_waits_for_another_run_which_asks_for_that_alone():
    failing = {
        "generate": [servers.error("openai", 500)],
        "positive three, 1": [servers.error("openai", 500)],
    }
    with servers.Server(model := Model(replies=failing)) as server:
        asked = judge(server, concurrency=1)
        report = augment.generate(contexts(3), asked).report
        assert sorted(report["status"]) == ["accepted", "error", "error"]
        assert report["reason"].str.contains(": error (", regex=False).sum() == 2
        model.seen.clear()
        assert augment.generate(contexts(3), asked).report["status"].tolist() == ["accepted"] * 3
    assert model.counts == (1, 0, 11)


def test_the_ceiling_holds_over_all_prompts_and_the_rest_is_asked_later():
    with servers.Server(model := Model(tokens=(3000, 100))) as server:
        how = {"price": "10,10", "max_tokens": 100, "concurrency": 1}
        whole = augment.generate(contexts(3), judge(server, **how)).spent
        for share in (0, 0.5, 0.9):
            model.seen.clear()
            one = judge(server, max_usd=share * whole, **how)
            result = augment.generate(contexts(3), one)
            assert (
                share * whole - 0.1 <= result.spent <= share * whole
                and one.max_usd == share * whole
            )
            assert result.stopped == "budget" and set(result.report["status"]) <= {
                "accepted",
                "missing",
            }
            before, one.max_usd = sum(model.counts), None
            assert len(augment.generate(contexts(3), one).contexts) == 3
            assert before < 33 == sum(model.counts)


def test_another_model_checks_and_has_to_have_a_price_before_anything_is_paid():
    with servers.Server(writer := Model()) as one, servers.Server(other := Model()) as two:
        writes = judge(one, price="1,1", max_usd=5.0)
        checks = judges.open("openai:other", store=writes.store, base_url=two.url)
        with pytest.raises(DreError, match="no price of openai:other"):
            augment.generate(contexts(1), writes, checks)
        assert writer.counts == other.counts == (0, 0, 0)
        writes.max_usd = None
        assert len(augment.generate(contexts(1), writes, checks).contexts) == 1
    assert writer.counts == (1, 0, 0) and other.counts == (0, 0, 10)


def test_the_embedded_corpus_measures_as_before_and_a_leak_is_seen():
    whole = [one for split in dialogues.SPLITS["mini"] for one in dialogues.load("mini", split)]
    (row,) = quality.report({"mini": whole}, {"mini": whole[:40]}, at_most=500, n=100).to_dict(
        "records"
    )
    expected = {"overlap_positive": 6.61299, "overlap_adversarial": 22.1043}
    expected |= {"overlap_only": 73.25, "length_only": 51.75, "response_only": 61.9167}
    expected |= {"self_bleu_positive": 3.8634, "distinct_2": 95.1507, "leaked": 100 / 3}
    assert {name: row[name] for name in expected} == pytest.approx(expected, abs=1e-4)
    assert row["overlap_only_low"] < 73.25 < row["overlap_only_high"]


def fill(out, wrong=(), separator=","):
    """Answer sheet.csv as designed, but for the items that are `wrong`."""
    filled, fits = pd.read_csv("sheet.csv"), pd.read_csv("sheet.key.csv")["kind"] == "p"
    fits ^= filled["item"].isin(wrong)
    filled.assign(fits=fits.map({True: "Yes", False: "no "})).to_csv(
        out, sep=separator, index=False
    )


def test_a_sheet_is_blind_and_its_answers_are_compared_with_the_design_and_each_other(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    sheet = experiment("annotation_sheet").main
    sheet(draw := ["write", "mini:test", "-o", "sheet.csv", "-n", "20"])
    shown, key = pd.read_csv("sheet.csv", keep_default_na=False), pd.read_csv("sheet.key.csv")
    assert shown.columns.tolist() == ["item", "context", "response", "fits", "note"] and set(
        shown["fits"]
    ) == {""}
    kinds = "".join(key["kind"])
    assert (
        kinds.count("p") == kinds.count("a") == 10 and "ap" in kinds and "pa" in kinds
    )  # shuffled
    texts = pairs(dialogues.load("mini", "test")).set_index("pair_id")["response"]
    assert shown["response"].tolist() == texts[key["pair_id"]].tolist()
    with pytest.raises(DreError, match="is new"):
        sheet(draw)
    fill("one.csv")
    # Two positives called wrong: 18 of 20 right, 8 yes of 20, so kappa = (.9 - .5) / .5 = .8 with the design.
    fill("two.csv", key.query("kind == 'p'")["item"][:2], ";")
    sheet(["read", "one.csv", "two.csv", "--key", "sheet.key.csv"])
    expected = {"one: overall 100.00 [100.00, 100.00]", "two: adversarial 100.00 [100.00, 100.00]"}
    expected |= {"two: kappa with the design 0.80", "one, two: kappa 0.80"}
    assert expected <= set(capsys.readouterr().out.splitlines())
    with pytest.raises(DreError, match="20 rows for 20 items, without yes or no: 1, 2, 3, 4, 5:"):
        sheet(["read", "sheet.csv", "--key", "sheet.key.csv"])  # no answer is no "no"


def test_the_command_generates_and_reports(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"id": one.id, "context": one.turns}) for one in contexts(6)]
    (tmp_path / "own.jsonl").write_text("\n".join(lines))
    (tmp_path / "twice.jsonl").write_text("\n".join([*lines, lines[0]]))
    with servers.Server(Model(wrong=["adversarial two, 1"])) as server:
        how = [
            "--judge",
            "openai:m",
            "--base-url",
            server.url,
            "--store",
            "s.sqlite",
            "--rejected",
            "r.jsonl",
        ]
        run = ["augment", "generate", "own.jsonl", "-o", "a.jsonl", *how]
        assert (
            main([*run, "--rounds", "1"]) == 1
            and "5 accepted, 1 rejected" in capsys.readouterr().out
        )
        assert main(["augment", "generate", "twice.jsonl", *run[3:]]) == 2  # one id, two contexts
        assert [one.id for one in dialogues.read("r.jsonl")] == ["c1"]
        assert (
            main([*run, "--checker", "openai:m", "--checker-base-url", server.url]) == 2
        )  # which made it otherwise
        assert (
            "a.jsonl is of another run (rounds 1 refine, now 3 refine)" in capsys.readouterr().err
        )
        assert (
            main([*run, "--force", "--checker", "openai:m", "--checker-base-url", server.url]) == 0
        )
        assert (
            main([*run, "-o", "own.jsonl", "--force"]) == 2
            and len(dialogues.read("own.jsonl")) == 6
        )
    assert main(["augment", "report", "a.jsonl", "--held-out", "own.jsonl", "-o", "q.csv"]) == 0
    assert pd.read_csv("q.csv")[["measured", "leaked"]].to_numpy().tolist() == [[6, 100]]
