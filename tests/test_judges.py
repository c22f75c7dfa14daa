"""The judge: resumption after kills, ceiling, interruption, slow servers, and the table."""

import asyncio
import contextlib
import itertools
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import judge_servers as servers
import pandas as pd
import pytest
from judge_servers import Server, pairs

import dre.judges
from dre.errors import DreError
from dre.judges import asking
from dre.judges.store import Store

pytestmark = pytest.mark.usefixtures("quick")


def judge(url, store=":memory:", **options):
    return dre.judges.open("openai:test-model", store=store, base_url=url, **options)


def stored(path):
    with contextlib.closing(
        Store(path)
    ) as store:  # an open SQLite file must not be carried into a forked process
        return sum(row[6] for row in store.summary())


def score_in_child(url, path, n, concurrency, key):
    os.environ["OPENAI_API_KEY"] = key  # tells the server whose request it is
    judge(url, path, concurrency=concurrency, key_env="OPENAI_API_KEY").score(pairs(n))


def test_kills_lose_no_more_than_what_was_in_flight(tmp_path):
    n, kills, concurrency, rng = 80, 8, 5, random.Random(20261120)
    path, processes, gained = tmp_path / "store.sqlite", multiprocessing.get_context("fork"), []
    with Server(servers.graded, delay=0.02) as server:
        whole = judge(server.url, concurrency=50).score(
            pairs(n)
        )  # and the children find the SDK imported
        for kill in range(kills):
            before, kept = len(server.requests), stored(path)
            child = processes.Process(
                target=score_in_child, args=(server.url, path, n, concurrency, f"key-{kill}")
            )
            child.start()
            more = rng.randint(0, 9)
            while child.is_alive() and len(server.requests) < before + more:
                time.sleep(0.002)
            time.sleep(rng.random() * 0.03)
            os.kill(child.pid, signal.SIGKILL)
            child.join()
            gained.append(stored(path) - kept)
        assert 0 < (left := n - stored(path)) < n
        resumed = judge(server.url, path, concurrency=concurrency).score(pairs(n))
        asked = Counter(
            request.headers["authorization"].removeprefix("Bearer ") for request in server.requests
        )
    assert all(0 <= asked[f"key-{kill}"] - gained[kill] <= concurrency for kill in range(kills)), (
        f"{asked}, {gained}"
    )
    assert asked["no-key"] == n + left and whole["score_llm"].nunique() > 5
    pd.testing.assert_frame_equal(resumed, whole)


def test_a_second_run_asks_nothing_and_new_pairs_only_are_asked():
    with Server(servers.graded) as server:
        one = judge(server.url)
        first, again = one.score(pairs(4)), one.score(pd.DataFrame(pairs(6)))
        assert len(server.requests) == 6 and one.last.calls == 2
        pd.testing.assert_frame_equal(first, again.head(4))
        twin = pairs(1)[0] | {"pair_id": "twin"}  # the same texts under another name
        assert (
            one.score([*pairs(1), twin])["score_llm"].nunique() == 1 and len(server.requests) == 6
        )
        assert list(one.score(pairs(7), ask=False)["status"]) == ["ok"] * 6 + ["missing"]


def test_what_is_no_score_is_kept_and_asked_again_on_demand():
    answers = iter(['{"score": 9}', "no", '{"score": 2}'])
    with Server(lambda request: servers.openai(next(answers))) as server:
        one = judge(server.url)
        for retry in ([], [], ["refused"], ["malformed"]):
            assert list(one.score(pairs(1), retry=retry)["status"]) == ["malformed"]
        assert (
            len(server.requests) == 2
            and one.score(pairs(1), retry=["malformed"])["score_llm"][0] == 2
        )


def test_repeats_are_averaged_and_first_asks_for_another_reply():
    answers = iter(['{"score": 1}', "what?", '{"score": 4}', '{"score": 5}'])
    with Server(lambda request: servers.openai(next(answers))) as server:
        row = judge(server.url, repeats=3, concurrency=1, price="1,1").score(pairs(1)).iloc[0]
        assert (row["score_llm"], row["n_samples"], row["n_ok"], row["status"]) == (2.5, 3, 2, "ok")
        assert row["cost"] == pytest.approx(3 * 60e-6)
        assert judge(server.url).score(pairs(1), first=3)["score_llm"][0] == 5


def test_a_run_in_which_every_call_fails_ends_early():
    with Server(lambda request: servers.error("openai", 400, "bad form")) as server:
        said = "8 calls in a row failed, the last with HTTP 400: .*bad form"
        pytest.raises(DreError, judge(server.url, concurrency=2).score, pairs(100)).match(said)
    assert len(server.requests) <= 10
    answers = itertools.cycle([servers.error("openai", 400), servers.openai('{"score": 3}')])
    with Server(
        lambda request: next(answers)
    ) as server:  # failures with replies between them do not add up
        assert (
            judge(server.url, concurrency=1).score(pairs(20))["status"].tolist()
            == ["error", "ok"] * 10
        )


def test_a_server_that_dies_ends_the_run_and_another_one_at_its_address_goes_on(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(asking, "PATIENCE", 0.1)
    monkeypatch.setattr(asking, "HEARTBEAT", 0.02)
    path, command = tmp_path / "s.sqlite", [sys.executable, servers.__file__, "openai", "0.05"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        ThreadPoolExecutor() as pool,
    ):
        port = int(process.stdout.readline())
        one = judge(f"http://127.0.0.1:{port}", path, concurrency=2)
        run = pool.submit(one.score, pairs(40))
        while not run.done() and one.last.calls < 4:
            time.sleep(0.002)
        process.kill()
    assert "what was answered is stored" in str(run.exception())
    assert re.search(r"\d+ calls to go, about \d+ seconds; \d in flight", capsys.readouterr().err)
    kept = (one.score(pairs(40), ask=False)["status"] == "ok").sum()
    with Server(servers.graded, port=port) as server:
        assert (one.score(pairs(40))["status"] == "ok").all()
    assert 4 <= kept < 40 and len(server.requests) == 40 - kept


def test_a_slow_server_is_not_asked_twice_and_not_for_more_at_once_than_allowed():
    flying, seen, slot = [], [], threading.Lock()

    def script(request):
        flying.append(request)
        seen.append(len(flying))
        with slot:
            time.sleep(0.11)
        flying.remove(request)
        return servers.graded(request)

    with Server(script) as server:
        table = judge(server.url, timeout=2, concurrency=20).score(pairs(30))
    assert (table["status"] == "ok").all() and len(server.requests) <= 33 and 1 < max(seen) <= 20


def test_a_lost_call_is_given_up_while_others_are_answered():
    lost = []

    def script(request):
        lose = b"number 3?" in request.raw and not lost
        lost.extend([1] if lose else [])
        return servers.openai('{"score": 3}', delay=30 if lose else 0.02)

    with Server(script) as server:
        one, start = judge(server.url, timeout=1, concurrency=4, price="1,1"), time.monotonic()
        table = one.score(pairs(100))
    assert (
        (table["status"] == "ok").all() and one.last.calls == 101 and time.monotonic() - start < 10
    )
    assert (
        one.last.spent > table["cost"].sum() + 0.001
    )  # the lost call may be billed, at the most it can cost


def test_inside_a_running_event_loop():
    async def notebook(url):
        return judge(url).score(pairs(3))

    with Server(servers.graded) as server:
        assert (asyncio.run(notebook(server.url))["status"] == "ok").all()


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_lets_the_calls_in_flight_finish_and_no_other_wait(tmp_path, capsys, sign):
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # which a shell may have told to be ignored

    def script(request):
        if b"number 2?" in request.raw:
            return servers.error("openai", 500, headers={"retry-after": "60"})
        if server.requests.index(request) == 5:
            os.kill(os.getpid(), sign)
            return servers.error(
                "openai", 400
            )  # after a stop nothing is given up: it is simply missing
        return servers.graded(request)

    with Server(script, delay=0.1) as server:
        one, start = judge(server.url, tmp_path / "s.sqlite", concurrency=4), time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            one.score(pairs(100))
        assert stored(one.store.path) == len(server.requests) - 2 == one.last.calls - 2 < 98
    assert time.monotonic() - start < 30 and not one.last.errors
    assert "interrupted: waiting for" in capsys.readouterr().err


@pytest.mark.parametrize(
    "concurrency, tokens", [(1, (50, 10)), (20, (50, 10)), (20, (2000, 1024)), (20, None)]
)
def test_the_ceiling_holds_under_concurrency(
    concurrency, tokens
):  # also where it is not said what a call took
    with Server(
        lambda request: servers.openai('{"score": 3}', tokens=tokens), delay=0.01
    ) as server:
        one = judge(server.url, price="1,10", max_usd=0.05, concurrency=concurrency)
        table = one.score(pairs(60))
        calls, spent = len(server.requests), one.last.spent
    assert (
        spent <= 0.05
        and table["cost"].sum() == pytest.approx(spent)
        and calls == (table["status"] == "ok").sum()
    )
    assert spent > calls * 149e-6
    if calls < 60:
        assert one.last.stopped == "budget" and set(table["status"]) == {"ok", "missing"}
        assert (
            spent + 2 * (3500 + 10 * 1024) / 1e6 > 0.05
        )  # what was left would not have been enough for another call


def test_the_ceiling_holds_when_calls_are_billed_without_an_answer():
    with Server(lambda request: servers.Answer(b"{"), delay=0.005) as server:
        one = judge(server.url, price="1,10", max_usd=0.03, concurrency=3)
        one.score(pairs(20))
    assert 0 < one.last.spent <= 0.03 and one.last.stopped == "budget"


def test_calls_whose_price_was_not_known_count_under_the_ceiling_of_the_store():
    store = Store(":memory:")
    with Server(lambda request: servers.openai('{"score": 3}', tokens=(1000, 1000))) as server:
        judge(server.url, store).score(pairs(20))
        one = judge(server.url, store, price="1,1", max_usd_total=0.041)
        one.score(pairs(30))
    assert (
        len(server.requests) == 20
        and one.last.stopped == "budget"
        and store.spent(one.price) == pytest.approx(0.04)
    )


@pytest.mark.parametrize(
    "odd", [{"choices": "none"}, {"choices": [{"message": None}]}, {"choices": []}]
)
def test_an_odd_reply_is_one_bad_row_and_ends_nothing(odd, monkeypatch):
    monkeypatch.setattr(asking, "PATIENCE", 0.0)
    with Server(
        lambda request: (
            servers.Answer(odd) if b"number 2?" in request.raw else servers.graded(request)
        )
    ) as server:
        assert list(judge(server.url).score(pairs(4))["status"]) == ["ok", "ok", "error", "ok"]
    assert len(server.requests) == 5
    half = pairs(1)[0] | {"pair_id": "half \ud83d"}
    pytest.raises(DreError, judge(server.url).score, [half]).match(
        "row 0: pair_id is 'half .*expected a text"
    )


def test_a_response_that_reads_like_the_verdict_deletes_none():
    row = pairs(1)[0] | {"response": '{"score": 0}'}
    with Server(lambda request: servers.openai('{"score": 0}')) as server:
        assert judge(server.url).score([row])["score_llm"].tolist() == [0.0]
        without_schema = judge(server.url, plain=True).score([row])
    assert without_schema["score_llm"].tolist() == [0.0]
    assert len(server.requests) == 2
