"""The runner: resumption after kills, two processes, budget, limits, interruption."""

import asyncio
import json
import multiprocessing
import os
import random
import signal
import threading
import time
from datetime import UTC, datetime

import judge_servers as servers
import pytest

from dre import judges
from dre.errors import DreError
from dre.judges import prices, prompts
from dre.judges.budget import Budget
from dre.judges.limits import Limiter, retry_after, seconds_until
from dre.judges.policy import Policy
from dre.judges.store import Store

pytest.importorskip("openai")
QUICK = {"attempts": 3, "wait_initial": 0.01, "wait_max": 0.02, "wait_jitter": 0.01, "timeout": 20}
SAME = ["pair_id", "score_llm", "s_inf", "label", "status", "n_samples", "n_ok", "mode", "reason"]


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test-key-0123456789")


def judge(url, store=":memory:", concurrency=4, **options):
    policy = Policy(concurrency=concurrency, **QUICK)
    return judges.open("openai:m", store=store, base_url=url, policy=policy, **options)


def score_in_child(url, path, n, concurrency, results=None):
    os.environ["OPENAI_API_KEY"] = "test-key-0123456789"
    frame = judge(url, path, concurrency).score(servers.pairs(n))
    if results is not None:
        results.put(frame[SAME].to_csv())


@pytest.fixture(scope="module")
def processes():
    """Children that start fast, forked from a server that has imported everything and runs no thread."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["test_judges_runner", "openai", "pandas", "dre.judges.runner"])
    return context


def stored(path):
    with Store(path) as store:
        return sum(count for _, _, _, count, *_ in store.counts())


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened for a minute"
        time.sleep(0.002)


def test_twenty_kills_cost_no_more_than_what_was_in_flight(tmp_path, processes):
    n, concurrency, rng = 160, 5, random.Random(20261120)
    with servers.Server(servers.graded, delay=0.01) as whole:
        expected = judge(whole.url, concurrency=concurrency).score(servers.pairs(n))
        assert len(whole.requests) == n
    path = tmp_path / "store.sqlite"
    with servers.Server(servers.graded, delay=0.02) as server:
        for kill in range(20):
            before, kept = len(server.requests), stored(path) if path.exists() else 0
            child = processes.Process(target=score_in_child, args=(server.url, path, n, concurrency))
            child.start()
            more = rng.randint(0, 9)
            wait_for(lambda: len(server.requests) >= before + more or not child.is_alive())  # noqa: B023
            time.sleep(rng.random() * 0.03)
            child.kill()
            child.join()
            time.sleep(0.02)
            wait_for(lambda: server.connections == 0)  # then all the child had sent has been read
            asked, gained = len(server.requests) - before, stored(path) - kept if path.exists() else 0
            assert 0 <= asked - gained <= concurrency, f"kill {kill}: {asked} asked, {gained} kept"
        assert 0 < stored(path) < n
        calls = len(server.requests)
        left = n - stored(path)
        frame = judge(server.url, path, concurrency).score(servers.pairs(n))
        assert len(server.requests) - calls == left
    assert frame[SAME].equals(expected[SAME])


def test_two_processes_on_one_store_ask_everything_once(tmp_path, processes):
    n, results = 60, processes.Queue()
    with servers.Server(servers.graded, delay=0.02) as server:
        args = (server.url, tmp_path / "store.sqlite", n, 4, results)
        children = [processes.Process(target=score_in_child, args=args) for _ in range(2)]
        for child in children:
            child.start()
        tables = [results.get(timeout=60) for _ in children]
        for child in children:
            child.join()
    assert tables[0] == tables[1] and tables[0].count(",ok,") == n
    assert len(server.requests) == n


def test_ending_a_run_leaves_the_claims_of_others(tmp_path):
    with servers.Server(servers.graded) as server:
        one = judge(server.url, tmp_path / "store.sqlite")
        plan = one.plan(servers.pairs(3))
        number, theirs = one.store.setting_id(plan.setting), list(plan.missing)[0]
        with one.store.transaction() as db:  # pid 1 lives
            db.execute("INSERT INTO claim VALUES (?, ?, ?, 1, strftime('%s'))", (number, *theirs))
        runner = threading.Thread(target=lambda: one.run(plan))
        runner.start()
        wait_for(lambda: len(server.requests) == 2)
        assert one.store.query("SELECT pid FROM claim WHERE pid = 1") == [(1,)]
        with one.store.transaction() as db:
            db.execute("DELETE FROM claim WHERE pid = 1")
        runner.join(30)
    assert not plan.missing and len(server.requests) == 3


def test_labels_and_generated_responses_have_their_columns():
    with servers.Server(lambda request: servers.openai('{"label": "Negative"}')) as server:
        frame = judge(server.url).score(servers.pairs(2), prompt="classify")
        assert frame["label"].tolist() == ["Negative"] * 2 and frame["score_llm"].isna().all()
    texts = {kind: [f"{kind} {word}" for word in "abcde"] for kind in ("positive", "adversarial")}
    with servers.Server(lambda request: servers.openai(json.dumps(texts))) as server:
        one = judge(server.url)
        frame = one.score(servers.pairs(1), prompt="generate")
        assert server.requests[0].body["max_tokens"] == 4096
        assert one.score(servers.pairs(1), prompt="generate")["responses"][0] == frame["responses"][0] == texts


def test_a_parser_that_has_changed_reads_stored_replies_again(monkeypatch):
    with servers.Server(lambda request: servers.openai('{"score": 2}')) as server:
        one = judge(server.url)
        one.score(servers.pairs(1))
        with one.store.transaction() as db:
            db.execute("UPDATE judgement SET parser = 'older', status = 'malformed', score_llm = NULL")
        assert one.score(servers.pairs(1))["score_llm"].tolist() == [2.0]
    assert len(server.requests) == 1


HEADERS = [
    ("kind: score\nscale: [0, 5]", "kind: score\nscale: [0, 1]"),
    ("kind: score\nscale: [0, 5]", 'kind: label\nlabels: {"2": Positive, "3": Negative}'),
    ("kind: score\nscale: [0, 5]", "kind: score\nscale: [0, 5]\ninfluence: [0, 1]"),
    ("kind: score\nscale: [0, 5]\ncriterion: wit", "kind: score\nscale: [0, 5]\ncriterion: length"),
    ('kind: label\nlabels: {"2": Positive, b: Negative}', 'kind: label\nlabels: {b: Positive, "2": Negative}'),
]


@pytest.mark.parametrize("before, after", HEADERS)
def test_a_header_that_has_changed_reads_stored_replies_again(before, after):
    """The text that is sent is the same, so nothing is asked."""
    body = "output: text\n---\n[user]\n{{notice}}\n{{context}}\n{{response}}\nJudge it.\n"
    first, second = (prompts.from_text("own", f"---\n{header}\n{body}") for header in (before, after))
    reply = '{"wit": 2, "length": 4}' if "wit" in before else "2"
    with servers.Server(lambda request: servers.openai(reply)) as server:
        one = judge(server.url)
        one.score(servers.pairs(1), prompt=first)
        again = one.score(servers.pairs(1), prompt=second)
        assert len(server.requests) == 1
        fresh = judge(server.url).score(servers.pairs(1), prompt=second)
    columns = ["status", "reason", "score_llm", "s_inf", "label"]
    assert again[columns].equals(fresh[columns])


def test_a_second_run_asks_nothing():
    with servers.Server(servers.graded) as server:
        one = judge(server.url)
        first, second = one.score(servers.pairs(5)), one.score(servers.pairs(5))
    assert len(server.requests) == 5 and second.equals(first)


def test_only_new_pairs_are_asked():
    with servers.Server(servers.graded) as server:
        one = judge(server.url)
        one.score(servers.pairs(5))
        frame = one.score(servers.pairs(8)[::-1])
    assert len(server.requests) == 8 and list(frame["pair_id"])[0] == "own/7"


def test_what_is_no_score_is_not_asked_again_unless_told():
    answers = [servers.openai("hm"), servers.openai("", "length"), servers.openai('{"score": 2}')]
    with servers.Server(lambda request: answers[0]) as server:
        one = judge(server.url)
        assert one.score(servers.pairs(3))["status"].tolist() == ["malformed"] * 3
        assert one.score(servers.pairs(3))["status"].tolist() == ["malformed"] * 3
        assert one.score(servers.pairs(3), retry=["refused"])["status"].tolist() == ["malformed"] * 3
        assert len(server.requests) == 3
        del answers[:2]
        frame = one.score(servers.pairs(3), retry=["malformed"])
    assert len(server.requests) == 6 and frame["score_llm"].tolist() == [2.0] * 3


def test_an_unknown_status_to_retry_is_refused():
    with pytest.raises(DreError, match="expected some of"):
        judge("http://127.0.0.1:1").score(servers.pairs(1), retry=["wrong"])


def test_errors_are_not_stored_and_asked_again():
    bad = [True]
    with servers.Server(lambda request: servers.openai_error(500) if bad else servers.graded(request)) as server:
        one = judge(server.url)
        assert one.score(servers.pairs(2))["status"].tolist() == ["error", "error"]
        bad.clear()
        assert one.score(servers.pairs(2))["status"].tolist() == ["ok", "ok"]


def test_a_run_in_which_every_call_fails_ends_early():
    ends = pytest.raises(DreError, match="8 calls in a row failed.*HTTP 422.*--plain")
    with servers.Server(lambda request: servers.openai_error(422, "no")) as server, ends:
        judge(server.url).score(servers.pairs(500))
    assert len(server.requests) < 20


def test_no_more_calls_are_in_flight_than_allowed():
    with servers.Server(servers.graded, delay=0.02) as server:
        judge(server.url, concurrency=7).score(servers.pairs(40))
    assert 2 <= server.most_flying <= 7


def test_inside_a_running_event_loop():
    async def notebook(url):
        return judge(url).score(servers.pairs(2))

    with servers.Server(servers.graded) as server:
        assert asyncio.run(notebook(server.url))["status"].tolist() == ["ok", "ok"]


@pytest.fixture
def interruptible():
    """Where a shell starts the tests in the background, Python ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_lets_the_calls_in_flight_finish(interruptible):
    with servers.Server(servers.graded, delay=0.1) as server:
        one = judge(server.url)

        def interrupt():
            wait_for(lambda: server.flying)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            one.score(servers.pairs(100))
        calls = len(server.requests)
        assert calls < 100 and sum(row[3] for row in one.store.counts()) == calls


def test_a_full_store_stops_the_run(monkeypatch):
    with servers.Server(servers.graded) as server:
        one = judge(server.url)

        def full(setting, judgements):
            raise DreError("the disk is full")

        monkeypatch.setattr(one.store, "add", full)
        with pytest.raises(DreError, match="disk is full"):
            one.score(servers.pairs(300))
    assert len(server.requests) <= 8


# --- money


def dear(tokens):
    """A server whose replies use so many tokens, and the price that makes one of them a cent."""
    return lambda request: servers.openai('{"score": 1}', tokens=tokens)


@pytest.mark.parametrize("tokens", [(10, 10), (0, 1000), (900, 1000)])
@pytest.mark.parametrize("concurrency", [1, 20])
def test_the_ceiling_holds_under_concurrency(tokens, concurrency):
    price, ceiling = prices.Price(1, 10, "given"), 0.05
    with servers.Server(dear(tokens), delay=0.005) as server:
        one = judge(server.url, concurrency=concurrency, price=price, max_usd=ceiling, max_tokens=1000)
        plan = one.plan(servers.pairs(600))
        outcome = one.run(plan)
    spent = price.cost(*tokens) * len(server.requests)
    worst = one.most(plan, next(iter(plan.missing.values())), price)
    assert outcome.stopped == "budget" and outcome.spent == pytest.approx(spent)
    assert ceiling - 2 * worst < spent <= ceiling  # the next call might have passed it


def test_what_a_ceiling_leaves_is_asked_with_a_higher_one():
    with servers.Server(dear((0, 100))) as server:
        low = judge(server.url, price=prices.Price(0, 10, "given"), max_usd=0.005, max_tokens=100)
        frame = low.score(servers.pairs(10))
        assert frame["status"].value_counts().to_dict() == {"ok": 5, "missing": 5}
        high = judge(server.url, low.store, price=prices.Price(0, 10, "given"), max_usd=1, max_tokens=100)
        assert high.score(servers.pairs(10))["status"].tolist() == ["ok"] * 10
    assert len(server.requests) == 10


def test_a_call_that_timed_out_counts_as_paid():
    policy = Policy(concurrency=1, timeout=0.2, attempts=2, wait_initial=0.01, wait_max=0.01, wait_jitter=0)
    with servers.Server(lambda request: servers.openai("x", delay=5)) as server:
        price = prices.Price(0, 10, "given")
        one = judges.open("openai:m", store=":memory:", base_url=server.url, policy=policy, price=price, max_tokens=100)
        outcome = one.run(one.plan(servers.pairs(1)))
    assert outcome.spent == pytest.approx(2 * 0.001)


def test_a_call_that_was_refused_does_not_count():
    answers = [servers.openai_error(429), servers.openai('{"score": 1}', tokens=(0, 50))]
    with servers.Server(lambda request: answers.pop(0)) as server:
        one = judge(server.url, price=prices.Price(0, 10, "given"))
        assert one.run(one.plan(servers.pairs(1))).spent == pytest.approx(0.0005)


def test_a_ceiling_without_a_price_is_refused():
    with servers.Server(servers.graded) as server, pytest.raises(DreError, match="no price is known.*--price"):
        judge(server.url, max_usd=1).score(servers.pairs(1))


@pytest.mark.parametrize("ceiling", [-1, float("nan"), float("inf")])
def test_a_ceiling_must_be_a_sum(ceiling):
    one = judge("http://127.0.0.1:1", max_usd=ceiling, price=prices.Price(1, 1, "given"))
    with pytest.raises(DreError, match="expected a number of dollars"):
        one.score(servers.pairs(1))


def test_the_budget_never_passes_its_ceiling_whatever_the_order():
    async def spend(seed):
        rng, budget = random.Random(seed), Budget(1.0)

        async def call():
            worst = rng.random() * 0.2
            if await budget.reserve(worst):
                assert budget.spent + budget.reserved <= 1.0 + 1e-9
                for _ in range(rng.randint(0, 5)):
                    await asyncio.sleep(0)
                budget.settle(worst, worst * rng.random())

        await asyncio.gather(*(call() for _ in range(200)))
        return budget

    for seed in range(20):
        budget = asyncio.run(spend(seed))
        assert 0.7 < budget.spent <= 1.0 and budget.reserved == 0.0


# --- rate limits


@pytest.mark.parametrize(
    "text, seconds",
    [
        ("7", 7),
        ("1.5", 1.5),
        ("6m0s", 360),
        ("1h2m3s", 3723),
        ("12ms", 0.012),
        ("1.5s", 1.5),
        ("", None),
        ("soon", None),
    ]
    + [("2026-01-01T00:00:30Z", 30), ("Thu, 01 Jan 2026 00:01:00 GMT", 60), ("-3", 0), ("nan", None), ("5 m", None)],
)
def test_header_times(text, seconds):
    assert seconds_until(text, datetime(2026, 1, 1, tzinfo=UTC)) == seconds


def test_milliseconds_go_before_seconds():
    assert retry_after({"retry-after-ms": "250", "retry-after": "1"}) == 0.25
    assert retry_after({"retry-after": "3"}) == 3
    assert retry_after({}) is None


class Clock:
    """A clock that sleeping moves."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        self.now += seconds
        await asyncio.sleep(0)


@pytest.fixture
def clocked():
    clock = Clock()
    return clock, Limiter(clock, clock.sleep)


OPENAI = {"x-ratelimit-limit-requests": "10", "x-ratelimit-remaining-requests": "2", "x-ratelimit-reset-requests": "8s"}


def test_requests_wait_for_their_bucket(clocked):
    clock, limiter = clocked
    limiter.learn(OPENAI)  # two left; one a second comes back

    async def calls():
        for _ in range(5):
            await limiter.acquire(100)
            limiter.release(100)

    asyncio.run(calls())
    assert clock.now == pytest.approx(3.0)


def test_tokens_wait_for_theirs(clocked):
    clock, limiter = clocked
    limiter.learn(
        {f"x-ratelimit-{k}-tokens": v for k, v in {"limit": "1000", "remaining": "0", "reset": "10s"}.items()}
    )
    asyncio.run(limiter.acquire(500))
    assert clock.now == pytest.approx(5.0)


def test_a_call_larger_than_its_bucket_waits_for_a_full_one(clocked):
    clock, limiter = clocked
    limiter.learn(
        {f"x-ratelimit-{k}-tokens": v for k, v in {"limit": "1000", "remaining": "0", "reset": "10s"}.items()}
    )
    asyncio.run(limiter.acquire(5000))
    assert clock.now == pytest.approx(10.0)


def test_anthropics_headers(clocked):
    clock, limiter = clocked
    reset = datetime.fromtimestamp(time.time() + 60, UTC).isoformat().replace("+00:00", "Z")
    kinds = {"limit": "50", "remaining": "0", "reset": reset}
    limiter.learn({f"anthropic-ratelimit-requests-{k}": v for k, v in kinds.items()})
    asyncio.run(limiter.acquire(1))
    assert 1.0 < clock.now < 1.3  # 50 a minute


def test_calls_in_flight_are_taken_off_what_is_left(clocked):
    _, limiter = clocked
    asyncio.run(limiter.acquire(1))
    asyncio.run(limiter.acquire(1))
    limiter.learn(OPENAI)
    assert limiter.delay(1) > 0


def test_a_pause_holds_everyone(clocked):
    clock, limiter = clocked
    limiter.pause(4)
    limiter.pause(2)
    asyncio.run(limiter.acquire(1))
    assert clock.now == 4


def test_odd_headers_are_ignored(clocked):
    _, limiter = clocked
    limiter.learn(OPENAI | {"x-ratelimit-limit-requests": "many"})
    limiter.learn(
        {"x-ratelimit-limit-requests": "0", "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1s"}
    )
    limiter.learn({"x-ratelimit-remaining-requests": "0"})
    assert limiter.delay(10**9) == 0


def test_a_limit_the_server_states_is_kept():
    """60 calls to a server that allows 20 at once and refills 200 a second: none is refused."""
    state = {"level": 20.0, "at": time.monotonic(), "refused": 0}

    def script(request):
        now = time.monotonic()
        state["level"] = min(20.0, state["level"] + (now - state["at"]) * 200)
        state["at"] = now
        if state["level"] < 1:
            state["refused"] += 1
            return servers.openai_error(429)
        state["level"] -= 1
        left, reset = int(state["level"]), (20 - int(state["level"])) / 200
        kinds = {"limit": 20, "remaining": left, "reset": f"{reset * 1000:.0f}ms"}
        answer = servers.graded(request)
        answer.headers = {f"x-ratelimit-{k}-requests": v for k, v in kinds.items()}
        return answer

    with servers.Server(script) as server:
        frame = judge(server.url, concurrency=10).score(servers.pairs(60))
    assert set(frame["status"]) == {"ok"}
    assert state["refused"] <= 10  # only what was in flight before the first header came
