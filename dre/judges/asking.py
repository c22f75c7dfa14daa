"""Asking for replies: many calls in flight, repeated where they fail, under a ceiling that holds.

Each call is in the store before it is made. Its reply is committed before the next call of the same
place begins.
"""

import asyncio
import concurrent.futures
import contextlib
import math
import random
import secrets
import signal
import sys
import textwrap
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from dre.errors import DreError, TryLater
from dre.judges import likelihoods, outcomes, prices, threads
from dre.judges.connection import connect, is_same_model, proxy_in_words
from dre.judges.failures import CallFailed
from dre.judges.parse import Verdict
from dre.judges.prompts import Prompt
from dre.judges.store import Paid, Reply, Request, Store, new_run
from dre.progress import Progress

if TYPE_CHECKING:
    from dre.judges.judge import Judge

_GIVE_UP = 8  # failures in a row, without a reply between them, that end a run
PATIENCE = 60.0  # seconds without a reply after which failures are taken for the server's
_LONGEST_WAIT = 600.0  # seconds; a provider that asks for a longer wait ends the run
BACKOFF = 0.5  # seconds before the second attempt, doubled with each further one
LONGEST_BACKOFF = 30.0  # seconds
HEARTBEAT = 30.0  # seconds between lines that say how far a run is, where no bar shows it
SIGN_OF_LIFE = 3.0  # seconds of waiting for other runs after which this is said
_DROP_SECONDS = 5.0  # seconds that calls have to end once they are dropped
_POLL = 0.2  # seconds between looks at something that may have changed
# Seconds after which a call of another run no longer holds back the last money under a ceiling.
_OTHERS_SECONDS = 30.0
_MONEY_SECONDS = 1.0  # between looks at the store for what a bar shows


@dataclass
class Run:
    """What a call of `score` did.

    Attributes
    ----------
    calls : int
        Requests that were sent.
    spent : float
        US dollars that they cost, at most where this is not known: what the store has of them.
    uncertain : float
        The part of these dollars that may not have been billed, or not as much of it: of calls that
        brought no reply, and of replies without a number of tokens.
    errors : dict of str to str
        Why replies did not come, by their keys.
    stopped : str
        What ended the run before its end: ``budget``, ``interrupted`` or ``error``; else empty.
    why : str
        A sentence about that.
    id : str
        Under which the store has its calls (`dre.judges.store.new_run`).
    """

    calls: int = 0
    spent: float = 0.0
    uncertain: float = 0.0
    errors: dict[str, str] = field(default_factory=dict)
    stopped: str = ""
    why: str = ""
    id: str = ""

    @property
    def money(self) -> str:
        """What the calls cost, in words."""
        return spent_in_words(self.spent, self.uncertain)


class OneRun:
    """A run of several calls of `score`, which pay under one id.

    Parameters
    ----------
    id : str
        The id of the run in the store.
    judges : list of AnyJudge
        Those who are asked. A recording or a function asks nobody, and pays nothing.
    """

    def __init__(self, id: str, judges: Sequence[Any]):
        self.id = id
        stores = {}
        for judge in judges:
            if isinstance(getattr(judge, "store", None), Store):
                stores[judge.store.identity] = judge.store
        self._stores = list(stores.values())

    @property
    def has_one_store(self) -> bool:
        """Whether one store has all its calls, so that a ceiling can hold for them together."""
        return len(self._stores) <= 1

    def paid(self) -> Paid:
        """Return what all its calls cost."""
        sums = [store.paid(self.id) for store in self._stores]
        usd = math.fsum(of_store.usd for of_store in sums)
        return Paid(usd, math.fsum(of_store.uncertain_usd for of_store in sums))


@contextlib.contextmanager
def one_run(*judges: Any) -> Iterator[OneRun]:
    """Let all that judges are asked within be one run: ``max_usd`` holds for its calls together.

    Within another such block it is the run of that one.
    """
    live_judges = [judge for judge in judges if hasattr(judge, "run")]
    outer_runs = [judge.run for judge in live_judges]
    run_id = next((run for run in outer_runs if run), None) or new_run()
    try:
        for judge in live_judges:
            judge.run = run_id
        yield OneRun(run_id, live_judges)
    finally:
        for judge, outer_run in zip(live_judges, outer_runs):
            judge.run = outer_run


def spent_in_words(spent_usd: float, uncertain_usd: float) -> str:
    """Say what calls cost: for certain, and at most more where nobody knows what was billed."""
    uncertain_usd = min(max(0.0, uncertain_usd), spent_usd)
    certain_usd = spent_usd - uncertain_usd
    text = f"${certain_usd:.4f} spent" if certain_usd > 0 else "nothing spent"
    if uncertain_usd > 0:
        text += f", and at most ${uncertain_usd:.4f} more for calls without a reply"
    return text


def minutes(seconds: float) -> str:
    """Say how long something takes, in seconds or minutes."""
    if seconds >= 90:
        return f"{seconds / 60:,.0f} minutes"
    return f"{seconds:.0f} seconds"


def ask_all(
    judge: "Judge",
    missing: list[Request],
    prompt: Prompt,
    run: Run,
    unread: Sequence[Verdict] = (),
) -> None:
    """Ask for replies, and commit each to the store when it comes.

    The work is done in a thread of its own, so it can be called inside a notebook's event loop,
    too. After Ctrl-C, SIGTERM or SIGHUP the calls in flight, which are paid for, may finish, and
    KeyboardInterrupt is raised then. A second Ctrl-C or SIGTERM drops them: they stay in the store
    as pending, at the most that they can cost.

    Parameters
    ----------
    judge : Judge
        Who is asked, and how.
    missing : list of Request
        The replies to ask for.
    prompt : Prompt
        The prompt that they answer.
    run : Run
        Filled in while the run goes on.
    unread : sequence of Verdict
        Those of stored replies to this prompt, if none of them could be read.

    Raises
    ------
    DreError
        If no further request could succeed, or none of the first ten replies can be read.
    KeyboardInterrupt
        If the run was interrupted.
    """
    if _interrupted.is_set():
        run.stopped = "interrupted"
        raise KeyboardInterrupt
    asking = _Asking(judge, missing, prompt, run, unread)
    _active.append(asking)
    finished = threads.start(lambda: asyncio.run(asking.run()))
    try:
        with _handling_signals(asking.interrupt):
            while not finished.done() and not asking.is_overdue():
                concurrent.futures.wait([finished], _POLL)
    finally:
        _active.remove(asking)
    if asking.is_dropped:
        raise KeyboardInterrupt
    finished.result()
    if run.stopped == "interrupted":
        raise KeyboardInterrupt


# The runs that are going on, and whether no other may begin.
_active: list["_Asking"] = []
_interrupted = threading.Event()


def side_by_side(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """Do tasks that ask judges at the same time, each in a thread; return what they return.

    An interrupt reaches all of them. When all have ended, the error of the first task that has one
    is raised: a KeyboardInterrupt before others.
    """
    _interrupted.clear()
    try:
        with _handling_signals(_interrupt_all):
            futures = [threads.start(task) for task in tasks]
            for future in futures:
                while not future.done():
                    concurrent.futures.wait([future], _POLL)
        was_interrupted = _interrupted.is_set()
    finally:
        _interrupted.clear()
    if was_interrupted:
        raise KeyboardInterrupt
    return [future.result() for future in futures]


def _interrupt_all(number, frame):
    _interrupted.set()
    for asking in list(_active):
        asking.interrupt(number, frame)


@contextlib.contextmanager
def _handling_signals(handler):
    """Send the signals that ask a process to end to `handler`; signals that are ignored stay so."""
    previous = {}
    try:
        # Python tells the main thread alone of signals. Windows has no SIGHUP.
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGINT", "SIGTERM", "SIGHUP"):
                number = getattr(signal, name, None)
                handled_by = signal.getsignal(number) if number else None
                if number and handled_by not in (None, signal.SIG_IGN):
                    previous[number] = handled_by
                    signal.signal(number, handler)
        yield
    finally:
        for number, handled_by in previous.items():
            signal.signal(number, handled_by)


def _say(text):
    """Print to standard error, which may be gone when a terminal was closed."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


class _RateLimit:
    """When the next call may start, where a server refuses calls that are too many (status 429).

    If most of the last calls were refused, the server's limit is reached: all calls wait as long as
    it says, and then start one by one. If others are answered, a refusal concerns one pair, and
    this pair alone waits.
    """

    def __init__(self, concurrency):
        self._concurrency = concurrency
        self._refused_share = 0.0  # of the last calls; each new one counts a fifth
        self._refusals = Counter()  # by key
        self._replies = 0
        self._opens_at = 0.0  # the time before which no call starts
        self._gap = 0.0  # seconds between the starts of two calls
        self._pause = 0.0  # seconds to wait where the server does not say how long
        self._slowed_at = 0.0

    def note_reply(self):
        """A call was answered: the calls may start faster again."""
        self._replies += 1
        self._refused_share = 0.8 * self._refused_share
        self._pause = 0.0
        self._gap = 0.9 * self._gap

    def note_refusal(self, key):
        """A call was refused; returns whether the server's limit is reached, for all calls."""
        self._refusals[key] += 1
        # A pair that is refused for the third time says more about itself than about the server.
        if self._refusals[key] <= 2:
            self._refused_share = 0.8 * self._refused_share + 0.2
        return self._replies == 0 or self._refused_share > 0.5

    def slow_down(self, start, wait):
        """Let all calls wait, because one that began at `start` was refused.

        ``wait`` is how long the server asks to wait, in seconds, or None.
        """
        now = time.monotonic()
        if start > self._slowed_at:  # once for all calls that were in flight together
            self._slowed_at = now
            self._pause = min(LONGEST_BACKOFF, max(BACKOFF, 2 * self._pause))
            seconds = wait or self._pause
            self._gap = min(seconds, max(2 * self._gap, seconds / self._concurrency))
        self._opens_at = max(self._opens_at, now + (wait or self._pause))

    def seconds_to_wait(self):
        """Return the seconds until a call may start; 0 or less means that this one starts now."""
        now = time.monotonic()
        seconds = self._opens_at - now
        if seconds <= 0:
            self._opens_at = now + self._gap
        return seconds


class _Change(NamedTuple):
    """A change of the store that waits for its commit, and who is told when it is done."""

    replies: list[tuple[Request, Reply]]
    ended_keys: list[str]
    committed: asyncio.Future


class _Journal:
    """Commits changes of the store in the order in which they come.

    Changes that wait at the same time are committed together.
    """

    def __init__(self, store: Store):
        self._store = store
        self._queue = asyncio.Queue()
        self._task = asyncio.create_task(self._work())

    async def commit(self, replies, ended_keys=()):
        """Return when replies are stored, and rows of calls that are no longer pending are gone."""
        committed = asyncio.get_running_loop().create_future()
        self._queue.put_nowait(_Change(replies, list(ended_keys), committed))
        await committed

    async def close(self):
        """Commit what still waits."""
        self._queue.put_nowait(None)
        await self._task

    async def _work(self):
        is_open = True
        while is_open:
            waiting = [await self._queue.get()]
            while not self._queue.empty():
                waiting.append(self._queue.get_nowait())
            is_open = None not in waiting
            await self._write([change for change in waiting if change is not None])

    async def _write(self, changes):
        replies = []
        ended_keys = []
        for change in changes:
            replies.extend(change.replies)
            ended_keys.extend(change.ended_keys)
        error = None
        try:
            await asyncio.to_thread(self._store.put, replies, ended_keys)
        except Exception as failure:
            error = failure
        for change in changes:
            if change.committed.done():  # the call was dropped in the meantime
                continue
            if error is None:
                change.committed.set_result(None)
            else:
                change.committed.set_exception(error)


class _Asking:
    """One run: its calls, and what came of them."""

    def __init__(
        self,
        judge: "Judge",
        missing: list[Request],
        prompt: Prompt,
        run: Run,
        unread: Sequence[Verdict],
    ):
        self.judge = judge
        self.prompt = prompt
        self.missing = []
        for request in missing:
            self.missing.append(request._replace(run=run.id, account=judge.account))
        self.run_record = run
        self.schema = judge.schema(prompt)
        self.max_tokens = judge.max_tokens(prompt)
        self.params = judge.params | {"max_tokens": self.max_tokens}
        self.ceilings = judge.ceilings(run.id)
        self.rate_limit = _RateLimit(judge.concurrency)
        self.error = None  # what ends the run

        # Where the run is.
        self.n_left = len(missing)  # replies that are neither here nor given up
        self.n_waiting = 0  # pairs that wait for a further attempt
        self.n_pending = 0  # calls that are in the store as pending
        self.waits_since = math.inf  # for calls of other runs, under a ceiling of all runs
        self.start_times = {}  # of the calls in flight, by key
        self.began = time.monotonic()

        # What came: an answer is anything that a server sent back, a reply is one that can be used.
        self.n_answers = 0
        self.n_replies = 0
        self.last_answer = self.began
        self.last_reply = self.began

        # What went wrong.
        self.attempts: dict[str, float] = defaultdict(float)  # that each pair has used up
        self.n_failures_in_a_row = 0  # since the last reply, of those that may pass
        self.n_given_up_in_a_row = 0  # pairs, since the last reply
        self.n_silent = 0  # calls that reached no server, or were not answered in time
        self.last_trouble = ""
        self.unread = list(unread)  # verdicts of replies, as long as none could be read

        # Interrupts.
        self.loop: Any = None
        self.task: Any = None
        self.dropped_at = math.inf
        self.is_dropped = False

    # The run as a whole

    async def run(self):
        """Ask for all that is missing."""
        judge = self.judge
        self.loop = asyncio.get_running_loop()
        self.task = asyncio.current_task()
        self.places = asyncio.Semaphore(judge.concurrency)
        connection = connect(
            judge.provider,
            judge.model,
            judge.address,
            judge.timeout,
            judge.key_env,
            judge.params,
        )
        self.ask = connection.ask
        self.journal = _Journal(judge.store)
        try:
            name = judge.spec if len(_active) > 1 else ""
            # Where no bar shows, lines say more than how many calls are done.
            is_silent = not sys.stderr.isatty()
            with Progress(self.n_left, "calls", is_silent=is_silent, name=name) as self.bar:
                await self._ask_for_all()
        finally:
            await self.journal.close()
            await connection.close()
        if self.error is not None:
            raise self.error

    async def _ask_for_all(self):
        progress = asyncio.create_task(self._report_progress())
        try:
            async with asyncio.TaskGroup() as pairs:
                for request in self.missing:
                    # Where nothing succeeds, no pair is begun while others wait to be tried again.
                    while self._is_in_trouble() and not self.run_record.stopped:
                        await asyncio.sleep(_POLL)
                    await self.places.acquire()
                    if self.run_record.stopped:
                        break
                    pairs.create_task(self._ask_for_one(request))
        finally:
            progress.cancel()

    def _is_in_trouble(self):
        return self.n_waiting > 0 and self.n_failures_in_a_row >= self.judge.concurrency

    async def _report_progress(self):
        """Show what the run has cost, and, where no bar does, say now and then how far it is."""
        while True:
            await asyncio.sleep(_MONEY_SECONDS if self.bar.has_bar else HEARTBEAT)
            money = await asyncio.to_thread(self._money)
            failed = f"{len(self.run_record.errors)} failed"
            if self.bar.has_bar:
                self.bar.update(0, note=f"{money}, {failed}")
                continue
            now = time.monotonic()
            longest = max((now - start for start in self.start_times.values()), default=0.0)
            text = f"{self.n_left:,} calls to go"
            if self.n_replies:
                seconds_left = (now - self.began) / self.n_replies * self.n_left
                text += f", about {minutes(seconds_left)}"
            text += f"; {len(self.start_times)} in flight, the longest for {longest:.0f} s"
            text += f"; {money}, {failed}"
            name = f"{self.judge.spec}: " if len(_active) > 1 else ""
            _say(name + text + self.last_trouble)

    def _money(self):
        """Say what the calls that have ended cost."""
        try:
            paid = self.judge.store.paid(self.run_record.id, self.judge.spec, in_flight=False)
        except DreError:  # what is wrong with the store ends the run elsewhere
            return "cost unknown"
        return spent_in_words(paid.usd, paid.uncertain_usd)

    def interrupt(self, number, _):
        """Let the calls in flight finish; when told once more, drop them.

        A closed terminal sends SIGHUP more than once, so this signal drops nothing.
        """
        if self.is_dropped:
            raise KeyboardInterrupt
        if self.run_record.stopped != "interrupted":
            self.run_record.stopped = "interrupted"
            in_flight = "no call is in flight"
            if self.n_pending:
                in_flight = (
                    f"waiting for {self.n_pending} calls in flight, which are paid for (at most "
                    f"{self.judge.timeout:g} s); once more drops them"
                )
            _say(f"\ninterrupted: {in_flight}")
        elif number != getattr(signal, "SIGHUP", None) and self.task is not None:
            self.is_dropped = True
            self.dropped_at = time.monotonic()
            self.loop.call_soon_threadsafe(self.task.cancel)

    def is_overdue(self):
        """Whether the calls were dropped, and have had the time to end."""
        return time.monotonic() > self.dropped_at + _DROP_SECONDS

    def _stop(self, reason, error=None):
        self.run_record.stopped = self.run_record.stopped or reason
        self.error = self.error or error

    def _stop_with(self, message, later=False):
        kind = TryLater if later else DreError
        error = kind(f"{self.judge.spec}: {message}; what was answered is stored")
        self._stop("error", error)

    # One pair

    async def _ask_for_one(self, request):
        """Ask for one reply, with as many attempts as it takes.

        While it waits for the next attempt, its place is another pair's.
        """
        try:
            seconds = await self._attempt(request)
            while seconds is not None:
                self.n_waiting += 1
                self.places.release()
                await self._sleep(seconds)
                await self.places.acquire()
                self.n_waiting -= 1
                seconds = await self._attempt(request)
        except Exception as error:
            self._stop("error", error)
        self.places.release()
        self.n_left -= 1
        self.bar.update()

    async def _sleep(self, seconds):
        """Sleep, but not longer than the run goes on."""
        end = time.monotonic() + seconds
        while not self.run_record.stopped and time.monotonic() < end:
            await asyncio.sleep(min(_POLL, max(0.0, end - time.monotonic())))

    async def _attempt(self, request):
        """Make one call.

        Returns the seconds to wait before the next attempt, or None if there is none: the reply
        came, it is given up, or the run ends.
        """
        most_input = prices.most_tokens(request.messages, self.schema)
        most_usd = 0.0
        if self.judge.price:
            most_usd = self.judge.price.cost(most_input, self.max_tokens) or 0.0

        seconds = self.rate_limit.seconds_to_wait()
        while seconds > 0 and not self.run_record.stopped:
            await self._sleep(min(_POLL, seconds))
            seconds = self.rate_limit.seconds_to_wait()
        if self.run_record.stopped:
            return None

        is_sent = False
        is_pending = False
        call = request._replace(key=f"{request.key}:{secrets.token_hex(8)}")
        try:
            pending = self._without_reply("pending", most_input, most_usd)
            is_pending = await self._begin(call, pending, most_usd)
            if not is_pending:
                return None
            self.n_pending += 1
            is_sent = True
            start = self.start_times[request.key] = time.monotonic()
            try:
                reply = await self._call_in_time(request)
            except CallFailed as failure:
                is_sent = failure.sent
                replies = []
                if failure.billed:  # it stays in the accounts, and answers nothing
                    replies = [(call, self._without_reply("unanswered", most_input, most_usd))]
                await self.journal.commit(replies, ended_keys=[call.key])
                return self._after_failure(request.key, failure, start)
            seconds = time.monotonic() - start
            reply = reply._replace(cost=self._cost_usd(reply, most_usd), seconds=seconds)
            await self.journal.commit([(request, reply)], ended_keys=[call.key])
            self._note_reply(request, reply)
            return None
        finally:
            self.start_times.pop(request.key, None)
            self.n_pending -= is_pending
            self.run_record.calls += is_sent

    async def _begin(self, call, pending, most_usd):
        """Store a call before it is made; returns whether it may be made.

        Under a ceiling the store adds up what its calls cost. Those in flight count at the most
        that they can cost, so there may be room once they have ended.
        """
        judge = self.judge
        if not self.ceilings:
            await self.journal.commit([(call, pending)])
            return True
        while not self.run_record.stopped:
            ceiling = await asyncio.to_thread(
                judge.store.put_within,
                self.ceilings,
                [(call, pending)],
                price=judge.price,
                judge=judge.spec,
                base_urls=judge.addresses,
            )
            if ceiling is None:
                return True
            if most_usd <= ceiling.usd and self._may_get_room(ceiling):
                self._say_that_it_waits(ceiling)
                await asyncio.sleep(_POLL)
                continue
            self.run_record.why = (
                f"{judge.spec}: stopped before ${ceiling.usd:g} would be passed, since a call may "
                f"cost ${most_usd:.4f}; raise {ceiling.option} to go on"
            )
            self._stop("budget")
        return False

    def _may_get_room(self, ceiling):
        """Whether calls that count under a ceiling are in flight."""
        if self.n_pending:
            return True
        # Other judges of the same run ask in this process. Calls of other processes may be lost.
        own_run = self.run_record.id
        if any(asking.n_pending for asking in _active if asking.run_record.id == own_run):
            return True
        return self.judge.store.has_calls_in_flight(_OTHERS_SECONDS, ceiling.run)

    def _say_that_it_waits(self, ceiling):
        """Say now and then that the last money waits for calls of other runs to end."""
        now = time.monotonic()
        if self.n_pending:  # calls of one's own show that they come
            self.waits_since = math.inf
        elif self.waits_since == math.inf:
            self.waits_since = now
        elif now - self.waits_since > SIGN_OF_LIFE:
            self.waits_since = now
            _say(
                f"{self.judge.spec}: waiting for calls of other runs on this store, which count "
                f"under {ceiling.option}"
            )

    def _without_reply(self, outcome, most_input, most_usd):
        """Return what is stored of a call without a reply: the most that it can cost.

        Without a price it is the most tokens that it can take.
        """
        if self.judge.price:
            return Reply("", outcome, cost=most_usd)
        return Reply("", outcome, input_tokens=most_input, output_tokens=self.max_tokens)

    def _cost_usd(self, reply, most_usd):
        """Return what a reply cost, at most if the provider does not say how long it is.

        None without a price.
        """
        if not self.judge.price:
            return None
        cost_usd = self.judge.cost_usd(reply)
        return most_usd if cost_usd is None else cost_usd

    async def _call_in_time(self, request):
        """Make a call and return its reply; time behind others at a slow server does not count.

        The call is given up if nothing at all came within the time-out, or if its turn has passed:
        twice as many answers came as there are calls in flight.
        """
        start = time.monotonic()
        answers_before = self.n_answers
        seconds = self.judge.timeout
        call = asyncio.create_task(self.ask(request.messages, self.params, self.schema))
        try:
            while True:
                finished, _ = await asyncio.wait({call}, timeout=seconds)
                if finished:
                    break
                seconds = max(start, self.last_answer) + self.judge.timeout - time.monotonic()
                has_been_overtaken = self.n_answers - answers_before >= 2 * self.judge.concurrency
                if seconds <= 0 or has_been_overtaken:
                    raise CallFailed(
                        f"no answer within {self.judge.timeout:g} seconds: "
                        "give a larger --timeout or a smaller --concurrency",
                        "late",
                        billed=True,
                    )
        finally:
            if not call.done():
                call.add_done_callback(_ignore_result)
                call.cancel()
                await asyncio.wait({call}, timeout=1.0)
        self.n_answers += 1
        self.last_answer = time.monotonic()
        return call.result()

    # What came of a call

    def _note_reply(self, request, reply):
        """Note that a reply came.

        The run ends if the first one lacks the log-probabilities that are asked for, or if none of
        the first ones can be read. If another model answered, this is said once.
        """
        if self.judge.likeliest and self.n_replies == 0 and reply.outcome == "ok" and reply.text:
            fault = likelihoods.fault(reply.top)
            if fault:
                self._stop_with(fault)
        self._stop_if_unreadable(request, reply)
        self.n_replies += 1
        self.last_reply = time.monotonic()
        self.n_failures_in_a_row = 0
        self.n_given_up_in_a_row = 0
        self.rate_limit.note_reply()
        served = self.judge.served_models  # of all calls of `score`, so that each is said once
        if reply.model not in served and not is_same_model(self.judge.model, reply.model):
            _say(f"note: {self.judge.spec} was asked, and {reply.model} answered")
        served.add(reply.model)

    def _stop_if_unreadable(self, request, reply):
        """End the run if none of the first replies to its prompt can be read."""
        judge = self.judge
        if judge.keep_going or self.prompt.sha256 in judge.was_read:
            return
        verdict = judge.verdict(reply, self.prompt, request.row)
        judge.note_verdict(verdict, self.prompt)
        if self.prompt.sha256 in judge.was_read:
            return
        self.unread.append(verdict)
        if len(self.unread) >= outcomes.FIRST_REPLIES and not self.run_record.stopped:
            self._stop_with(outcomes.none_readable(self.unread, reply.text))

    def _after_failure(self, key, failure, start):
        """Decide what follows a failed call.

        Returns the seconds to wait before the next attempt, or None if there is none.
        """
        self.last_trouble = (
            f"; last trouble: {textwrap.shorten(str(failure), 100, placeholder=' ...')}"
        )
        if failure.then == "stop" or (failure.wait or 0.0) > _LONGEST_WAIT:
            wait = f" (it asks to wait {failure.wait / 60:.0f} minutes)" if failure.wait else ""
            is_quota = str(failure).startswith("HTTP 429")
            is_for_later = bool(failure.wait) or is_quota or failure.later
            proxy = "" if self.n_replies else proxy_in_words(self.judge.address)
            self._stop_with(f"{failure}{wait}, so no further call was made{proxy}", is_for_later)
            return None

        silence = time.monotonic() - self.last_reply
        if failure.then == "slower" and self.rate_limit.note_refusal(key):
            self.rate_limit.slow_down(start, failure.wait)
            if silence < PATIENCE:
                return 0.0  # a limit that passes uses up no attempt
        if self._is_server_lost(failure, silence):
            return None

        # A call that came to nothing after a long time counts as several.
        self.attempts[key] += self.judge.attempts / 2 if failure.then == "late" else 1
        if failure.then != "skip" and self.attempts[key] < self.judge.attempts:
            if failure.wait:
                return failure.wait
            backoff = BACKOFF * 2 ** (self.attempts[key] - 1)
            return min(LONGEST_BACKOFF, backoff) + random.uniform(0, 2 * BACKOFF)
        self._give_up(key, failure)
        return None

    def _is_server_lost(self, failure, silence):
        """Count a failure; end the run if it is likely that no further call will be answered."""
        is_silent = failure.then == "again" and (not failure.sent or failure.broken)
        if failure.then in ("again", "late"):
            self.n_failures_in_a_row += 1
        if failure.then == "late" or is_silent:
            self.n_silent += 1

        most_silent = max(3, min(self.judge.concurrency, self.n_left))
        if self.n_replies == 0 and self.n_silent >= most_silent:
            address = self.judge.address
            message = f"no server answers at {address} ({failure})"
            if failure.answered:
                message = f"what answers at {address} is no judge: {failure}"
            self._stop_with(message + proxy_in_words(address), not failure.answered)
            return True
        # If only pairs that have failed before are left, each is tried to its end: one odd pair at
        # the end of a run is no reason to stop it.
        has_untried = self.n_left > len(self.attempts)
        if self.n_failures_in_a_row >= _GIVE_UP and silence > PATIENCE and has_untried:
            self._stop_with(
                f"no reply for {silence:.0f} seconds, the last call failed with {failure}",
                later=True,
            )
            return True
        return False

    def _give_up(self, key, failure):
        """Note that a reply will not come; many in a row end the run."""
        if self.run_record.stopped:  # it was not tried to the end, so it is simply missing
            return
        self.run_record.errors[key] = str(failure)
        self.n_given_up_in_a_row += 1
        if self.n_given_up_in_a_row >= _GIVE_UP:
            self._stop_with(
                f"{self.n_given_up_in_a_row} calls in a row failed, the last with {failure}",
                later=failure.then != "skip",
            )


def _ignore_result(task):
    """Take the result of a task that nobody waits for, so that nothing is printed about it."""
    if not task.cancelled():
        task.exception()
