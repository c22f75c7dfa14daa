"""The bill of a store: by judge and account, over runs that were killed, failed or resumed."""

import json
import os
import subprocess
import sys
import time

import judge_servers as servers
import pandas as pd
import pytest
from judge_servers import Server, pairs

import dre.judges
from dre.commands.main import main
from dre.errors import DreError
from dre.judges import asking, bill
from dre.judges.store import Store
from dre.paper import bill as paper_bill
from dre.paper import judgements, run
from dre.paper.profile import JudgeSettings, profile

pytestmark = pytest.mark.usefixtures("quick")

USD_OF_REPLY = (50 * 5 + 10 * 30) / 1e6
# A run in a process of its own, which is killed: address of the server, store, ceiling.
RUN = f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import dre.judges
from judge_servers import pairs
url, store, max_usd = sys.argv[1:]
judge = dre.judges.open(
    "openai:test-model", store=store, base_url=url, price="5,30", max_usd=float(max_usd),
    account="Table 4", concurrency=4,
)
print("asks", flush=True)
judge.score(pairs(40))
"""


def judge(url, store, account="Table 4", spec="openai:test-model", **options):
    options = {"price": "5,30", "concurrency": 4} | options
    return dre.judges.open(spec, store=store, base_url=url, account=account, **options)


def line_of(store, account="Table 4", **of_run):
    """Return the line of a bill that belongs to an account."""
    table = bill.lines(store.summary(**of_run), ["account"]).set_index("account")
    return table.loc[account]


def test_each_judge_and_account_has_a_line_and_a_reply_counts_where_it_was_paid(tmp_path):
    store = Store(tmp_path / "s.sqlite")
    with Server(servers.graded, delay=0.05) as server:
        judge(server.url, store).score(pairs(6))
        reading = judge(server.url, store, "Table 5")
        reading.score(pairs(8))  # six of them are stored, and two are asked
        judge(server.url, store, spec="openai:other").score(pairs(3))
    table = bill.lines(store.summary(), ["judge", "account"])
    calls = table.set_index(["judge", "account"])["calls"].to_dict()
    assert calls == {
        ("openai:other", "Table 4"): 3,
        ("openai:test-model", "Table 4"): 6,
        ("openai:test-model", "Table 5"): 2,
    }
    assert table["usd"].sum() == pytest.approx(11 * USD_OF_REPLY)
    assert (table["seconds"] >= 0.05 * table["calls"]).all()
    assert (table["calls_timed"] == table["calls"]).all()
    assert line_of(store, "Table 5", run=reading.last.id)["calls"] == 2

    # The seconds of a reply that is read again are those of its own call.
    replies = [reply for _, reply in reading.replies(pairs(8))]
    assert all(reply.seconds >= 0.05 for reply in replies)


def test_seconds_are_those_of_each_call_where_calls_run_side_by_side(tmp_path):
    store = Store(tmp_path / "s.sqlite")
    start = time.monotonic()
    with Server(servers.graded, delay=0.2) as server:
        judge(server.url, store, concurrency=10).score(pairs(10))
    elapsed = time.monotonic() - start
    seconds = line_of(store)["seconds"]
    assert seconds >= 10 * 0.2
    assert seconds > elapsed / 2
    assert "s from call to reply" in bill.in_words(line_of(store))


def test_a_killed_run_stays_on_the_bill_and_its_ceiling_is_not_that_of_the_next(tmp_path):
    path = tmp_path / "s.sqlite"

    def script(request):
        is_slow = len(server.requests) > 10
        return servers.graded(request)._replace(delay=60 if is_slow else 0.01)

    with Server(script) as server:
        command = [sys.executable, "-c", RUN, server.url, str(path), "0.5"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout.readline() == "asks\n"
            end = time.monotonic() + 60
            while len(server.requests) < 14 and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(0.3)
            child.kill()
        [killed] = {group.status: group for group in Store(path).summary()}.keys() - {"ok"}
        assert killed == "pending"
        of_killed = line_of(Store(path))
        assert of_killed["calls"] == 14
        assert of_killed["calls_without_reply"] == 4
        assert of_killed["calls_timed"] == 10
        assert of_killed["usd_uncertain"] > 4 * 1024 * 30e-6  # the longest replies

        # A second run may spend the same ceiling, and its own account does not hold the first's.
        server.script = servers.graded
        ceiling = 0.15
        assert of_killed["usd"] > ceiling / 2
        resumed = judge(server.url, path, max_usd=ceiling)
        resumed.score(pairs(40))
    assert resumed.last.stopped == ""
    assert resumed.last.calls == 30
    assert resumed.last.spent == pytest.approx(30 * USD_OF_REPLY)
    store = Store(path)
    assert line_of(store, run=resumed.last.id)["calls"] == 30
    assert line_of(store)["calls"] == 44
    assert "44 calls (4 without a reply)" in bill.in_words(line_of(store))


def test_a_failed_call_is_on_the_bill_where_it_may_have_been_billed(tmp_path):
    store = Store(tmp_path / "s.sqlite")

    def script(request):
        if b"number 1?" in request.raw:
            return servers.Answer(b"{")  # an answer that is none was perhaps billed
        if b"number 2?" in request.raw:
            return servers.error("openai", 400)  # and a refused request was not
        return servers.graded(request)

    with Server(script) as server:
        judge(server.url, store, attempts=1).score(pairs(4))
        n_refused = sum(b"number 2?" in request.raw for request in server.requests)
        n_calls = len(server.requests) - n_refused
    line = line_of(store)
    assert line["calls"] == n_calls
    assert line["calls_without_reply"] == n_calls - 2
    assert line["calls_timed"] == 2
    assert "without a reply), $0.0011 spent, and at most $0.0" in bill.in_words(line)
    assert "(2 calls were timed" in bill.in_words(line)


def test_a_reply_of_a_batch_has_no_seconds_and_a_call_without_a_price_no_dollars(tmp_path, capsys):
    store = Store(tmp_path / "s.sqlite")
    with Server(servers.graded) as server:
        judge(server.url, store, price=None).score(pairs(2))
        of_batch = judge(server.url, store, "by batch")
        exported = tmp_path / "prompts.jsonl"
        from dre.judges import batch

        batch.export_prompts(of_batch, pairs(3), "llm_only", exported)
        lines = []
        for line in exported.read_text().splitlines():
            body = servers.openai('{"score": 3}').body
            response = {"status_code": 200, "body": body}
            lines.append(
                json.dumps(
                    {"custom_id": json.loads(line)["custom_id"]}
                    | {"response": response, "error": None}
                )
            )
        (tmp_path / "replies.jsonl").write_text("\n".join(lines))
        batch.import_replies(of_batch, pairs(3), "llm_only", tmp_path / "replies.jsonl")
    assert bill.in_words(line_of(store, "by batch")).endswith("10 tokens out, not timed")
    without_price = bill.in_words(line_of(store))
    assert without_price.startswith("2 calls, cost unknown, 100 tokens in, 20 tokens out, ")
    store.close()

    assert main(["judge", "status", "--store", str(store.path)]) == 0
    total = capsys.readouterr().out.splitlines()[-1]
    assert total.startswith(f"openai:test-model at {server.url} in all: 3 calls, ")
    assert "(cost of 2 calls unknown)" in total
    assert "(2 calls were timed: not those of batches or without a reply)" in total


def test_judges_of_one_run_pay_under_one_id_and_keep_under_its_ceiling_together(tmp_path):
    store = Store(tmp_path / "s.sqlite")
    with Server(servers.graded, delay=0.01) as server:
        options = {"max_usd": 0.05, "price": "1,10"}
        first = judge(server.url, store, **options)
        second = judge(server.url, store, spec="openai:other", **options)
        with asking.one_run(first, second) as one:
            first.score(pairs(200))
            second.score(pairs(200))
            with asking.one_run(second) as inner:
                assert inner.id == one.id
        paid = one.paid()
        assert first.last.id == second.last.id == one.id
        assert first.last.spent + second.last.spent == pytest.approx(paid.usd)
        assert 0.03 < paid.usd <= 0.05
        assert second.last.stopped == "budget"

        # What follows is a run of its own.
        third = judge(server.url, store, spec="openai:third", **options)
        third.score(pairs(5))
        assert third.last.id != one.id
        assert third.last.stopped == ""


def test_the_bill_of_a_profile_is_told_and_written_also_where_a_run_fails(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("DRE_STORE", str(tmp_path / "replies.db"))
    with Server(servers.graded) as server:
        of_judge = JudgeSettings(
            model="openai:test-model", name="mine", base_url=server.url, price="5,30"
        )
        changes = {"judges": (of_judge,), "root": tmp_path}
        settings = profile("mini").model_copy(update=changes)
        [panel_judge] = judgements.panel(settings)
        table = pd.DataFrame(pairs(3))
        for number, name in enumerate(("Table 4", "Table 5"), 1):
            earlier = judgements.PaidBy(f"run {number}", paper_bill.account(settings, name))
            panel_judge.ask(table.head(number + 1), "llm_only", paid_by=earlier)
        # Another program asks the same judge, on no account of the profile.
        judge(server.url, tmp_path / "replies.db", account="").score(pairs(9))

    with pytest.raises(DreError, match="a judge fell silent"), run._billed(settings, "run 2"):
        raise DreError("a judge fell silent")
    out = capsys.readouterr().out
    assert "the bill of profile mini" in out
    assert "openai:test-model, Table 4: 2 calls, $0.0011 spent" in out
    assert "openai:test-model, Table 5: 1 calls, $0.0006 spent" in out
    assert "openai:test-model, in all: 3 calls, $0.0016 spent" in out
    assert "of this, this run: 1 calls, $0.0006 spent" in out

    written = pd.read_csv(tmp_path / "results/mini/bill_of_run.csv").set_index(["judge", "table"])
    assert written.loc[("all judges", "in all"), "calls"] == 3
    assert written.loc[("openai:test-model", "in all"), "usd"] == pytest.approx(3 * USD_OF_REPLY)
    assert "| openai:test-model | Table 4 | 2 | 0 |" in (
        tmp_path / "results/mini/bill_of_run.md"
    ).read_text(encoding="utf-8")

    # A run that finds all in the store says so.
    with run._billed(settings, "run 3"):
        pass
    assert "of this, this run: nobody was asked, all was stored" in capsys.readouterr().out
