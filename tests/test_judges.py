"""The judge: what is asked and repeated, ceilings, interrupts, rate limits, and the table."""

import asyncio
import contextlib
import itertools
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
import numpy as np
import pandas as pd
import pytest
from conftest import heed_interrupts, start_copy
from judge_servers import Server, pairs

import dre.judges
from dre.errors import DreError
from dre.judges import asking
from dre.judges.judge import frame
from dre.judges.parse import Verdict
from dre.judges.store import Store

pytestmark = pytest.mark.usefixtures("quick")

# A run in a process of its own: address of the server, store, number of pairs, calls in flight.
RUN = """
import sys
sys.path.insert(0, {tests!r})
import dre.judges
from judge_servers import pairs
url, store, n, concurrency = sys.argv[1:]
judge = dre.judges.open(
    "openai:test-model", store=store, base_url=url, concurrency=int(concurrency), price="5,30"
)
try:
    judge.score(pairs(int(n)))
finally:
    print(judge.last.calls, judge.last.spent, flush=True)
"""


def judge(url, store=":memory:", **options):
    return dre.judges.open("openai:test-model", store=store, base_url=url, **options)


def start_run(url, path, n=100, concurrency=8):
    """Start a run in a process of its own, which an interrupt reaches."""
    program = RUN.format(tests=os.path.dirname(__file__))
    return subprocess.Popen(
        [sys.executable, "-c", program, url, str(path), str(n), str(concurrency)],
        preexec_fn=heed_interrupts,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


def counts_by_status(path):
    """Return how many calls of each status a store holds."""
    counts = Counter()
    # An open SQLite file must not be carried into a forked process.
    with contextlib.closing(Store(path)) as store:
        for group in store.summary():
            counts[group.status] += group.n_calls
    return counts


def n_replies(path):
    """Return how many calls of a store have a reply."""
    counts = counts_by_status(path)
    return counts.total() - counts["pending"] - counts["unanswered"]


# What is asked


def test_a_second_run_asks_nothing_and_new_pairs_only_are_asked():
    with Server(servers.graded) as server:
        live_judge = judge(server.url)
        first = live_judge.score(pairs(4))
        second = live_judge.score(pd.DataFrame(pairs(6)))
        assert len(server.requests) == 6
        assert live_judge.last.calls == 2
        pd.testing.assert_frame_equal(first, second.head(4))
        unasked = live_judge.score(pairs(7), ask=False)
        assert list(unasked["status"]) == ["ok"] * 6 + ["missing"]


def test_two_pairs_with_the_same_texts_share_a_reply_which_is_paid_for_once():
    twin = pairs(1)[0] | {"pair_id": "twin"}
    with Server(servers.graded) as server:
        live_judge = judge(server.url, price="1,1")
        table = live_judge.score([*pairs(1), twin])
    assert len(server.requests) == 1
    assert table["score_llm"].nunique() == 1
    assert table["cost"].tolist() == [pytest.approx(60e-6), 0.0]
    assert live_judge.last.spent == pytest.approx(60e-6)


def test_what_is_no_score_is_kept_and_asked_again_on_demand():
    answers = iter(['{"score": 9}', "no", '{"score": 2}'])
    with Server(lambda request: servers.openai(next(answers))) as server:
        live_judge = judge(server.url)
        for retry in ([], [], ["refused"], ["malformed"]):
            assert list(live_judge.score(pairs(1), retry=retry)["status"]) == ["malformed"]
        assert len(server.requests) == 2
        assert live_judge.score(pairs(1), retry=["malformed"])["score_llm"][0] == 2


def test_repeats_are_averaged_and_first_asks_for_another_reply():
    answers = iter(['{"score": 1}', "what?", '{"score": 4}', '{"score": 5}'])
    with Server(lambda request: servers.openai(next(answers))) as server:
        row = judge(server.url, repeats=3, concurrency=1, price="1,1").score(pairs(1)).iloc[0]
        assert row["score_llm"] == 2.5
        assert (row["n_samples"], row["n_ok"], row["status"]) == (3, 2, "ok")
        assert row["cost"] == pytest.approx(3 * 60e-6)
        assert judge(server.url).score(pairs(1), first=3)["score_llm"][0] == 5


@pytest.mark.parametrize(
    "n_tokens, limit, expected",
    [
        (10, 2000, "ok"),  # it ended by itself, so a larger limit would have given the same
        (10, 500, "ok"),  # it has room under the smaller limit, too
        (900, 500, "missing"),  # it is longer than the smaller limit
    ],
)
def test_a_reply_under_another_limit_is_taken_if_it_has_room_under_ones_own(
    n_tokens, limit, expected
):
    store = Store(":memory:")
    answer = servers.openai('{"score": 3}', tokens=(50, n_tokens))
    with Server(lambda request: answer) as server:
        judge(server.url, store, max_tokens=1000).score(pairs(1))
        table = judge(server.url, store, max_tokens=limit).score(pairs(1), ask=False)
    assert table["status"].tolist() == [expected]


def test_a_reply_that_was_cut_is_paid_for_once_until_there_is_more_room():
    """It fits every limit up to its own, and gives way to a whole reply."""
    store = Store(":memory:")
    cut = servers.openai('{"sc', "length", tokens=(50, 100))
    with Server(lambda request: cut) as server:
        for limit in (100, 100, 80):
            table = judge(server.url, store, max_tokens=limit).score(pairs(1))
            assert table["status"].tolist() == ["truncated"]
        assert len(server.requests) == 1

        server.script = lambda request: servers.openai('{"score": 3}', tokens=(50, 70))
        for limit in (200, 100, 80):
            table = judge(server.url, store, max_tokens=limit).score(pairs(1))
            assert table["score_llm"].tolist() == [3]
        assert len(server.requests) == 2
        # Where the whole reply has no room, the cut one is what one would get.
        table = judge(server.url, store, max_tokens=60).score(pairs(1))
        assert table["status"].tolist() == ["truncated"]
        assert len(server.requests) == 2


def test_a_server_of_this_machine_is_one_server_under_either_name():
    store = Store(":memory:")
    with Server(servers.graded) as server:
        judge(server.url, store).score(pairs(3))
        judge(server.url.replace("127.0.0.1", "localhost"), store).score(pairs(4))
        assert len(server.requests) == 4


def test_a_pair_without_examples_is_named():
    message = "examples has none for pair 'own/1': expected a list for each pair"
    with pytest.raises(DreError, match=message):
        judge("http://127.0.0.1:1").score(pairs(2), "quality_overall", examples={"own/0": []})


def test_inside_a_running_event_loop():
    async def notebook(url):
        return judge(url).score(pairs(3))

    with Server(servers.graded) as server:
        assert (asyncio.run(notebook(server.url))["status"] == "ok").all()


def test_a_judge_of_ones_own_machine_has_four_calls_in_flight_and_a_public_service_sixteen():
    assert judge("http://127.0.0.1:1").concurrency == 4
    assert judge("").concurrency == 16


# The table


def row_of(*verdicts):
    """Return the row of one pair with some replies."""
    outcomes = [(verdict, 0.5) for verdict in verdicts]
    return frame({"own/0": outcomes}).iloc[0]


def test_a_pair_has_no_score_where_one_of_its_replies_failed():
    row = row_of(Verdict("ok", 4.0), Verdict("error", reason="HTTP 500"))
    assert row["status"] == "error"
    assert np.isnan(row["score_llm"])
    assert (row["n_samples"], row["n_ok"]) == (1, 1)
    assert row["reason"] == "1 of 2 replies did not come: HTTP 500"
    assert row["cost"] == 0.5


def test_an_error_is_told_before_replies_that_were_not_asked_for():
    missing = Verdict("missing", reason="not asked yet")
    row = row_of(missing, missing, Verdict("error", reason="HTTP 500"))
    assert (row["status"], row["reason"]) == ("error", "HTTP 500")


def test_the_label_of_a_pair_is_what_most_replies_say_and_none_in_a_tie():
    positive = Verdict("ok", label="Positive")
    negative = Verdict("ok", label="Negative")
    assert row_of(positive, negative, negative)["label"] == "Negative"
    assert row_of(positive, negative)["label"] is None
    assert row_of(negative, positive)["label"] is None


# Failures


def test_a_run_in_which_every_call_fails_ends_early():
    with Server(lambda request: servers.error("openai", 400, "bad form")) as server:
        message = "8 calls in a row failed, the last with HTTP 400: .*bad form"
        with pytest.raises(DreError, match=message):
            judge(server.url, concurrency=2).score(pairs(100))
    assert len(server.requests) <= 10


def test_failures_with_replies_between_them_do_not_add_up():
    answers = itertools.cycle([servers.error("openai", 400), servers.openai('{"score": 3}')])
    with Server(lambda request: next(answers)) as server:
        table = judge(server.url, concurrency=1).score(pairs(20))
    assert table["status"].tolist() == ["error", "ok"] * 10


def test_a_server_that_dies_ends_the_run_and_another_one_at_its_address_goes_on(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(asking, "PATIENCE", 0.1)
    monkeypatch.setattr(asking, "HEARTBEAT", 0.02)
    path = tmp_path / "s.sqlite"
    command = [sys.executable, servers.__file__, "openai", "0.05"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        ThreadPoolExecutor() as pool,
    ):
        port = int(process.stdout.readline())
        live_judge = judge(f"http://127.0.0.1:{port}", path, concurrency=2)
        run = pool.submit(live_judge.score, pairs(40))
        wait_until(lambda: run.done() or live_judge.last.calls >= 4)
        process.kill()
    assert "what was answered is stored" in str(run.exception())
    assert re.search(r"\d+ calls to go, about \d+ seconds; \d in flight", capsys.readouterr().err)
    n_stored = (live_judge.score(pairs(40), ask=False)["status"] == "ok").sum()
    with Server(servers.graded, port=port) as server:
        assert (live_judge.score(pairs(40))["status"] == "ok").all()
    assert 4 <= n_stored < 40
    assert len(server.requests) == 40 - n_stored


def test_a_slow_server_is_not_asked_twice_and_not_for_more_at_once_than_allowed():
    in_flight = []
    n_in_flight = []
    slot = threading.Lock()

    def script(request):
        in_flight.append(request)
        n_in_flight.append(len(in_flight))
        with slot:
            time.sleep(0.11)
        in_flight.remove(request)
        return servers.graded(request)

    with Server(script) as server:
        table = judge(server.url, timeout=2, concurrency=20).score(pairs(30))
    assert (table["status"] == "ok").all()
    assert len(server.requests) <= 33
    assert 1 < max(n_in_flight) <= 20


def test_a_lost_call_is_given_up_while_others_are_answered():
    lost = []

    def script(request):
        if b"number 3?" in request.raw and not lost:
            lost.append(request)
            return servers.openai('{"score": 3}', delay=30)
        return servers.openai('{"score": 3}', delay=0.02)

    with Server(script) as server:
        live_judge = judge(server.url, timeout=1, concurrency=4, price="1,1")
        start = time.monotonic()
        table = live_judge.score(pairs(100))
    assert (table["status"] == "ok").all()
    assert live_judge.last.calls == 101
    assert time.monotonic() - start < 10
    # The lost call may be billed, at the most that it can cost.
    assert live_judge.last.spent > table["cost"].sum() + 0.001


@pytest.mark.parametrize(
    "odd", [{"choices": "none"}, {"choices": [{"message": None}]}, {"choices": []}]
)
def test_an_odd_reply_is_one_bad_row_and_ends_nothing(odd, monkeypatch):
    monkeypatch.setattr(asking, "PATIENCE", 0.0)

    def script(request):
        return servers.Answer(odd) if b"number 2?" in request.raw else servers.graded(request)

    with Server(script) as server:
        table = judge(server.url).score(pairs(4))
    assert list(table["status"]) == ["ok", "ok", "error", "ok"]
    assert len(server.requests) == 5


def test_a_pair_id_that_is_no_text_is_refused():
    half = pairs(1)[0] | {"pair_id": "half \ud83d"}
    message = "row 0: pair_id is 'half .*expected a text"
    with pytest.raises(DreError, match=message):
        judge("http://127.0.0.1:1").score([half])


def test_a_response_that_reads_like_the_verdict_deletes_none():
    row = pairs(1)[0] | {"response": '{"score": 0}'}
    with Server(lambda request: servers.openai('{"score": 0}')) as server:
        structured = judge(server.url).score([row])
        without_schema = judge(server.url, plain=True).score([row])
    assert structured["score_llm"].tolist() == [0.0]
    assert without_schema["score_llm"].tolist() == [0.0]
    assert len(server.requests) == 2


def test_a_first_reply_that_is_refused_does_not_end_a_run_with_log_probabilities():
    refusal = servers.openai(None, refusal="I cannot.")
    with Server(lambda request: refusal) as server:
        table = judge(server.url, logprobs=True).score(pairs(2), "quality_overall")
    assert table["status"].tolist() == ["refused"] * 2


# Rate limits


def refused(message="slow down", **headers):
    return servers.error("openai", 429, message, headers=headers)


def timed_run(script, n, **options):
    """Return the table of a run, its judge, and the seconds that it took."""
    with Server(script, delay=0.02) as server:
        live_judge = judge(server.url, **options)
        start = time.monotonic()
        table = live_judge.score(pairs(n))
    return table, live_judge, time.monotonic() - start


@pytest.mark.parametrize("message", ["Rate limit reached", "Request too large: must be reduced"])
def test_a_pair_whose_refusals_never_pass_is_an_error_and_holds_up_no_other(monkeypatch, message):
    monkeypatch.setattr(asking, "BACKOFF", 0.1)  # a wait of all calls would show
    times = []

    def script(request):
        times.append(time.monotonic())
        return refused(message) if b"number 7?" in request.raw else servers.graded(request)

    table, live_judge, _ = timed_run(script, 120, concurrency=8, attempts=4)
    statuses = table.set_index("pair_id")["status"]
    assert statuses.pop("own/7") == "error"
    assert (statuses == "ok").all()
    assert "HTTP 429" in table["reason"][7]
    assert message in table["reason"][7]
    assert live_judge.last.calls <= 119 + 4
    # Calls start steadily: no wait of all calls as long as those of the refused pair.
    gaps = np.diff(sorted(times)[:100])
    assert np.quantile(gaps, 0.95) < 0.1


def test_a_limit_that_passes_uses_up_no_attempt(monkeypatch):
    monkeypatch.setattr(asking, "LONGEST_BACKOFF", 0.02)

    def script(request):
        return refused() if len(server.requests) <= 12 else servers.graded(request)

    with Server(script) as server:
        table = judge(server.url, concurrency=1, attempts=2).score(pairs(3))
    assert (table["status"] == "ok").all()
    assert len(server.requests) == 12 + 3


def test_after_a_limit_calls_start_one_by_one_and_then_faster_again(monkeypatch):
    monkeypatch.setattr(asking, "BACKOFF", 0.4)
    times = []

    def script(request):
        times.append(time.monotonic())
        return refused() if len(times) <= 4 else servers.graded(request)

    table, *_ = timed_run(script, 60, concurrency=4)
    assert (table["status"] == "ok").all()
    gaps = np.diff(times)
    assert gaps[3] > 0.3  # all calls wait
    assert np.mean(gaps[4:7]) > 0.05  # the next ones do not start together
    assert np.mean(gaps[-15:]) < 0.5 * np.mean(gaps[4:9])


def test_a_server_that_refuses_every_fifth_first_call_is_asked_in_parallel():
    """One call after the other would take more than 20 seconds."""
    first_calls = set()
    lock = threading.Lock()

    def script(request):
        with lock:
            is_first = request.raw not in first_calls
            first_calls.add(request.raw)
            is_refused = is_first and len(first_calls) % 5 == 0
        if is_refused:
            return refused(**{"retry-after": "1"})
        return servers.graded(request)._replace(delay=0.4)

    with Server(script) as server:
        live_judge = judge(server.url, concurrency=8)
        start = time.monotonic()
        table = live_judge.score(pairs(60))
    assert (table["status"] == "ok").all()
    assert len(server.requests) == 60 + 12
    assert time.monotonic() - start < 10


# Ceilings and other runs


def leave_a_call(store, created):
    """Leave a call in the store, as a run that was killed does."""
    live_judge = judge("http://127.0.0.1:1", store, price="1,1")
    [request] = live_judge.unanswered(pairs(1))
    call = request._replace(key=f"{request.key}:1")
    store.put([(call, dre.judges.store.Reply("", "pending", cost=0.002))])
    with store._opened(write=True) as connection:
        connection.execute("UPDATE reply SET created = ?", (created,))


def test_a_call_that_was_left_in_the_future_holds_up_no_run(tmp_path, capsys):
    store = Store(tmp_path / "s.sqlite")
    leave_a_call(store, "2999-01-01T00:00:00+00:00")
    with Server(servers.graded) as server:
        live_judge = judge(server.url, store, price="1,1", max_usd_total=0.003)
        start = time.monotonic()
        live_judge.score(pairs(5))
    assert time.monotonic() - start < 10
    assert live_judge.last.stopped == "budget"
    assert "other runs" not in capsys.readouterr().err


def test_waiting_for_calls_of_other_runs_shows_a_sign_of_life(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(asking, "SIGN_OF_LIFE", 0.3)
    monkeypatch.setattr(asking, "_OTHERS_SECONDS", 2.0)
    store = Store(tmp_path / "s.sqlite")
    now = dre.judges.store.datetime.now(dre.judges.store.UTC)
    leave_a_call(store, now.isoformat(timespec="seconds"))
    with Server(servers.graded) as server:
        live_judge = judge(server.url, store, price="1,1", max_usd_total=0.003)
        live_judge.score(pairs(5))
    error = capsys.readouterr().err
    assert "waiting for calls of other runs on this store, which count under --max-usd-to" in error


# Kills and interrupts


def write_cost_of_run(output_path, url, store, n):
    """Score pairs with 8 calls in flight; write the number of calls and their price to a file."""
    live_judge = judge(url, store, concurrency=8, price="5,30")
    live_judge.score(pairs(n))
    output_path.write_text(f"{live_judge.last.calls} {live_judge.last.spent}")


def score_in_child(url, path, n, concurrency, key):
    os.environ["OPENAI_API_KEY"] = key  # tells the server whose request it is
    judge(url, path, concurrency=concurrency, key_env="OPENAI_API_KEY").score(pairs(n))


def test_kills_lose_no_more_than_what_was_in_flight(tmp_path):
    n = 80
    kills = 8
    concurrency = 5
    rng = random.Random(20261120)
    path = tmp_path / "store.sqlite"
    gained = []
    with Server(servers.graded, delay=0.02) as server:
        # The children find the SDK imported.
        whole = judge(server.url, concurrency=50).score(pairs(n))
        for kill in range(kills):
            n_calls_before = len(server.requests)
            n_stored_before = n_replies(path)
            child = start_copy(score_in_child, server.url, path, n, concurrency, f"key-{kill}")
            n_calls_at_kill = n_calls_before + rng.randint(0, 9)
            while child.is_alive() and len(server.requests) < n_calls_at_kill:
                time.sleep(0.002)
            time.sleep(rng.random() * 0.03)
            child.kill()
            child.join()
            gained.append(n_replies(path) - n_stored_before)
        n_missing = n - n_replies(path)
        assert n_missing > 0
        assert n_missing < n
        resumed = judge(server.url, path, concurrency=concurrency).score(pairs(n))
        calls_by_key = Counter()
        for request in server.requests:
            key = request.headers["authorization"].removeprefix("Bearer ")
            calls_by_key[key] += 1
    for kill in range(kills):
        n_lost = calls_by_key[f"key-{kill}"] - gained[kill]
        assert n_lost >= 0
        assert n_lost <= concurrency
    # Each call that was made and brought no reply stands in the accounts.
    n_calls_of_children = sum(calls_by_key[f"key-{kill}"] for kill in range(kills))
    assert counts_by_status(path)["pending"] >= n_calls_of_children - sum(gained)
    assert calls_by_key["no-key"] == n + n_missing
    assert whole["score_llm"].nunique() > 5
    pd.testing.assert_frame_equal(resumed, whole)


def test_after_a_kill_the_calls_in_flight_are_in_the_accounts_at_the_most_they_can_cost(tmp_path):
    path = tmp_path / "s.sqlite"

    def script(request):
        is_slow = len(server.requests) > 20
        return servers.graded(request)._replace(delay=60 if is_slow else 0.01)

    with Server(script) as server:
        output = tmp_path / "output"
        child = start_copy(write_cost_of_run, output, server.url, path, 100)
        wait_until(lambda: len(server.requests) == 28)
        wait_until(lambda: n_replies(path) == 20)
        child.kill()
        child.join()
        assert counts_by_status(path)["pending"] == 8
        pending = next(group for group in Store(path).summary() if group.status == "pending")
        assert pending.cost_usd > 8 * 1024 * 30e-6  # the longest reply, at 30 dollars a million

        server.script = servers.graded
        second_child = start_copy(write_cost_of_run, output, server.url, path, 30)
        second_child.join()
        calls, spent = output.read_text().split()
    assert int(calls) == 10
    paid_usd = 30 * (50 * 5e-6 + 10 * 30e-6)
    assert Store(path).spent() == pytest.approx(paid_usd + pending.cost_usd)
    assert float(spent) == pytest.approx(paid_usd / 3)


def test_a_second_interrupt_drops_the_calls_but_not_their_money_and_prints_no_traceback(tmp_path):
    path = tmp_path / "s.sqlite"
    with Server(servers.graded, delay=60) as server:
        child = start_run(server.url, path, concurrency=8)
        wait_until(lambda: len(server.requests) == 8)
        child.send_signal(signal.SIGINT)
        time.sleep(0.5)
        start = time.monotonic()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
    assert time.monotonic() - start < 15
    calls, spent = out.split()
    assert int(calls) == 8
    assert float(spent) > 8 * 1024 * 30e-6
    assert Store(path).spent() == pytest.approx(float(spent))
    assert counts_by_status(path) == {"pending": 8}
    assert "interrupted: waiting for 8 calls" in err
    assert err.count("Traceback") == 1  # that of KeyboardInterrupt, which Python prints
    assert "never retrieved" not in err


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_lets_the_calls_in_flight_finish_and_no_other_wait(tmp_path, capsys, sign):
    # A shell may have told the process to ignore them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

    def script(request):
        if b"number 2?" in request.raw:
            return servers.error("openai", 500, headers={"retry-after": "60"})
        if server.requests.index(request) == 5:
            os.kill(os.getpid(), sign)
            # After a stop nothing is given up: it is simply missing.
            return servers.error("openai", 400)
        return servers.graded(request)

    with Server(script, delay=0.1) as server:
        live_judge = judge(server.url, tmp_path / "s.sqlite", concurrency=4)
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            live_judge.score(pairs(100))
        n_stored = n_replies(live_judge.store.path)
        assert n_stored == len(server.requests) - 2
        assert n_stored == live_judge.last.calls - 2
        assert n_stored < 98
    assert time.monotonic() - start < 30
    assert not live_judge.last.errors
    assert counts_by_status(live_judge.store.path)["pending"] == 0
    assert "interrupted: waiting for" in capsys.readouterr().err


# Money


@pytest.mark.parametrize(
    "concurrency, tokens", [(1, (50, 10)), (20, (50, 10)), (20, (2000, 1024)), (20, None)]
)
def test_the_ceiling_holds_under_concurrency(concurrency, tokens):
    """Also where the server does not say how many tokens a call took."""
    answer = servers.openai('{"score": 3}', tokens=tokens)
    with Server(lambda request: answer, delay=0.01) as server:
        live_judge = judge(server.url, price="1,10", max_usd=0.05, concurrency=concurrency)
        table = live_judge.score(pairs(60))
        n_calls = len(server.requests)
    spent = live_judge.last.spent
    assert n_calls * 149e-6 < spent <= 0.05
    assert table["cost"].sum() == pytest.approx(spent)
    assert n_calls == (table["status"] == "ok").sum()
    if n_calls < 60:
        assert live_judge.last.stopped == "budget"
        assert set(table["status"]) == {"ok", "missing"}
        # What was left would not have been enough for another call.
        assert spent + 2 * (3500 + 10 * 1024) / 1e6 > 0.05


def test_the_ceiling_holds_when_calls_are_billed_without_an_answer():
    with Server(lambda request: servers.Answer(b"{"), delay=0.005) as server:
        live_judge = judge(server.url, price="1,10", max_usd=0.03, concurrency=3)
        live_judge.score(pairs(20))
    assert 0 < live_judge.last.spent <= 0.03
    assert live_judge.last.stopped == "budget"
    # They are in the accounts of the store, too.
    assert live_judge.store.spent() == pytest.approx(live_judge.last.spent)
    assert {group.status for group in live_judge.store.summary()} == {"unanswered"}


def test_calls_whose_price_was_not_known_count_under_the_ceiling_of_the_store():
    store = Store(":memory:")
    answer = servers.openai('{"score": 3}', tokens=(1000, 1000))
    with Server(lambda request: answer) as server:
        judge(server.url, store).score(pairs(20))
        live_judge = judge(server.url, store, price="1,1", max_usd_total=0.041)
        live_judge.score(pairs(30))
    assert len(server.requests) == 20
    assert live_judge.last.stopped == "budget"
    assert store.spent(live_judge.price) == pytest.approx(0.04)


def test_a_ceiling_of_the_store_counts_what_other_judges_cost_where_that_is_known():
    store = Store(":memory:")
    answer = servers.openai('{"score": 3}', tokens=(1000, 1000))
    with Server(lambda request: answer) as free, Server(lambda request: answer) as dear:
        judge(free.url, store).score(pairs(20))  # of unknown price: not those of the next judges
        other_judge = dre.judges.open("openai:other", store=store, base_url=dear.url, price="1,1")
        other_judge.score(pairs(20))  # 0.04
        ceiling = 0.041 + 0.01
        live_judge = judge(dear.url, store, price="1,1", max_usd_total=ceiling)
        table = live_judge.score(pairs(20))
    assert live_judge.last.stopped == "budget"
    assert 4 <= (table["status"] == "ok").sum() <= 5
    assert store.spent() <= ceiling


def test_the_ceiling_of_a_judge_counts_its_calls_alone_in_all_runs():
    store = Store(":memory:")
    answer = servers.openai('{"score": 3}', tokens=(1000, 1000))
    with Server(lambda request: answer) as server:
        ours = {"price": "1,1", "max_usd_judge": 0.021}
        judge(server.url, store, **ours).score(pairs(5))
        options = {"store": store, "base_url": server.url, "price": "1,1", "max_usd_judge": 0.041}
        other_judge = dre.judges.open("openai:other", **options)
        other_judge.score(pairs(25))  # 0.04 of its 0.041, and 20 pairs are enough for that
        live_judge = judge(server.url, store, **ours)
        live_judge.score(pairs(25))
    assert other_judge.last.stopped == live_judge.last.stopped == "budget"
    assert "raise max_usd to go on" in live_judge.last.why
    n_replies = {group.judge: group.n_calls for group in store.summary()}
    assert n_replies == {"openai:other": 20, live_judge.spec: 10}
    assert len(server.requests) == 30


def test_replies_of_a_batch_whose_price_was_not_known_count_at_the_price_of_batches():
    with Server(servers.graded) as server:
        live_judge = judge(server.url)
        request = live_judge.unanswered(pairs(1))[0]
        reply = dre.judges.store.Reply(
            '{"score": 3}', input_tokens=1000, output_tokens=100, source="batch"
        )
        live_judge.store.put([(request, reply)])
        price = dre.judges.prices.Price(1.0, 10.0, batch_share=0.5)
        table = judge(server.url, live_judge.store, price=price).score(pairs(1))
    assert table["cost"].tolist() == [pytest.approx(0.5 * 0.002)]
