"""What Algorithm 1 costs before a run: counts by hand, bounds against real runs."""

import json

import judge_servers as servers
import pytest
from test_augment_generate import Script, contexts, judge

from dre import augment
from dre.augment import cost
from dre.augment.experience import Experience, experience
from dre.augment.forecast import forecast
from dre.augment.walk import Walk
from dre.data.augmented import AUGMENTED
from dre.judges import length, prices

pytest.importorskip("openai")


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test-key-0123456789")


def seen(again, open_):
    texts = {kind: [f"{kind} {i}" for i in range(5)] for kind in ("positive", "adversarial")}
    return Experience(100, again, open_, texts)


def ahead(again=0.5, open_=2, rounds=3, n=4, **options):
    walk = Walk(contexts(n), judge("http://localhost:1", **options), max_rounds=rounds)
    walk.go()
    return forecast(walk, seen(again, open_))


def test_the_recorded_run_is_counted_from_its_file():
    records = [json.loads(line) for line in AUGMENTED.open()]
    wrong = [
        (record["check"]["positive"] + record["check"]["adversarial"]).count(None)
        + record["check"]["positive"].count("Negative")
        + record["check"]["adversarial"].count("Positive")
        for record in records
    ]
    found = experience()
    assert found.contexts == len(records) and found.again == sum(map(bool, wrong)) / len(records)
    assert found.open == sum(wrong) / sum(map(bool, wrong))
    assert found.rounds(3) == pytest.approx(1 + found.again + found.again**2)
    assert [len(found.draft[kind]) for kind in ("positive", "adversarial")] == [5, 5]


def test_calls_by_hand():
    # 4 contexts; half of them need a second round, a quarter a third, with 2 open responses each
    rows = {row["prompt"]: row for row in ahead().rows}
    assert rows["generate"]["calls"] == rows["generate"]["most_calls"] == 4
    assert rows["refine"]["calls"] == 4 * (0.5 + 0.25) and rows["refine"]["most_calls"] == 4 * 2
    assert rows["classify"]["calls"] == 4 * (10 + 2 * 0.75) and rows["classify"]["most_calls"] == 4 * 30
    assert ahead(rounds=1).total()["calls"] == ahead(again=0, open_=0).total()["calls"] == 44


def test_tokens_are_those_of_the_prompts_and_dollars_those_of_the_price():
    found = ahead(rounds=1, price=prices.Price(3, 7, "given"))
    walk = Walk(contexts(4), judge("http://localhost:1"), max_rounds=1)
    walk.go()
    plan = walk.steps[0].plan
    texts = [
        "".join(m["content"] for m in task.messages) + json.dumps(plan.prompt.schema) for task in plan.missing.values()
    ]
    row = found.rows[0]
    assert row["input_tokens"] == sum(-(-len(text.encode()) // 4) for text in texts)
    assert row["most_output_tokens"] == 4 * 4096
    assert row["usd"] == pytest.approx((3 * row["input_tokens"] + 7 * row["output_tokens"]) / 1e6)
    total = found.total()
    assert total["usd"] == pytest.approx((3 * total["input_tokens"] + 7 * total["output_tokens"]) / 1e6)
    assert total["most_usd"] > 3 * total["usd"]
    assert "price unknown" in str(ahead()) and "about $" in str(found)


@pytest.mark.parametrize("again", ["refine", "generate"])
def test_no_run_takes_more_than_the_most(again):
    always = Script(label=lambda said, count: {"label": "Negative"}, tokens=(700, 120))
    with servers.Server(always) as server:
        one = judge(server.url, price=prices.Price(10, 20, "given"))
        walk = Walk(contexts(2), one, again=again)
        walk.go()
        before = forecast(walk, seen(0.5, 5)).total()
        result = augment.generate(contexts(2), one, again=again)
        assert result.report["status"].tolist() == ["rejected"] * 2
        assert len(server.requests) <= before["most_calls"] == 2 * 33
        assert result.spent <= before["most_usd"]
        walk.restart()
        walk.go()
        after = forecast(walk, seen(0.5, 5))
        assert after.total()["most_calls"] == 0 and after.stored == len(server.requests)


def test_a_run_that_has_begun_is_forecast_from_where_it_is():
    with servers.Server(Script(["positive one, 1"], tokens=(700, 120))) as server:
        one = judge(server.url)
        augment.generate(contexts(2), one, max_rounds=1)
        walk = Walk(contexts(3), one, max_rounds=2)
        walk.go()
        rows = {row["prompt"]: row for row in forecast(walk, seen(0.5, 2)).rows}
    assert [rows[name]["calls"] for name in ("generate", "refine", "classify")] == [1, 1.5, 1 + 10 + 0.5 * 2]
    assert rows["generate"]["output_tokens"] == 120  # as the stored replies are long, not as the recorded ones


def test_every_priced_model_has_a_row_and_a_name_that_finds_its_price():
    for spec, price in prices.named().items():
        assert prices.find(*spec.split(":", 1)) == price and price.input > 0
    listed = [row for entry in prices.table()["providers"].values() for row in entry["models"] if "name" in row]
    assert len(prices.named()) == len(listed) == len({row["pattern"] for row in listed})
    table = cost.table(contexts(3), n=300, seen=seen(0.5, 2))
    assert set(table["model"]) == set(prices.named()) and table["usd"].is_monotonic_increasing
    assert table["calls"].unique() == pytest.approx([300 * (11 + 0.75 * 3)])
    for row in table.itertuples():
        price = prices.find(*row.model.split(":", 1))
        assert row.usd == pytest.approx(price.cost(row.input_tokens, row.output_tokens))
        assert row.most_usd > row.usd and row.thinks == length.thinks(row.model)
    assert table.groupby("thinks")["output_tokens"].nunique().to_dict() == {False: 1, True: 1}
