"""Asking: many calls in flight, retries in one place, a ceiling that holds, each reply committed when it comes."""

import asyncio
import concurrent.futures
import math
import random
import secrets
import signal
import sys
import textwrap
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from tqdm import tqdm

from dre.errors import DreError
from dre.judges import likelihoods, prices, providers
from dre.judges.failures import CallFailed
from dre.judges.store import Reply

GIVE_UP = 8  # so many failures in a row, no reply between, end a run
PATIENCE = 60.0  # seconds without a reply after which calls that fail and may be repeated are the server's failure
LONGEST_WAIT = 600.0  # seconds; a provider that asks for a longer wait ends the run
BACKOFF = 0.5  # seconds before the second attempt, doubled with each further one up to 30
HEARTBEAT = 30.0  # seconds between lines that say where a run is, where no bar does


@dataclass
class Run:
    """What asking did: requests sent, dollars they (may have) cost, why replies did not come, what stopped it, why."""

    calls: int = 0
    spent: float = 0.0
    errors: dict = field(default_factory=dict)
    stopped: str = ""  # or budget, interrupted, error
    why: str = ""


def minutes(seconds):
    """Say how long something takes."""
    return f"{seconds / 60:,.0f} minutes" if seconds >= 90 else f"{seconds:.0f} seconds"


def ask_all(judge, missing, prompt, run):
    """Ask for replies, `dre.judges.store.Asked` each, and commit each to the store when it comes.

    Works in a thread of its own, so inside a notebook's event loop too. Ctrl-C or SIGTERM lets the calls in flight
    finish, which are paid for, and KeyboardInterrupt is raised then; a second one drops them. Raises `DreError` if no
    further request could succeed.
    """
    asking, done = _Asking(judge, missing, prompt, run), concurrent.futures.Future()

    def work():
        try:
            done.set_result(asyncio.run(asking.run()))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=work, name="judge", daemon=True).start()
    main = threading.current_thread() is threading.main_thread()  # the one that is told of signals
    signals = [one for one in (signal.SIGINT, signal.SIGTERM) if main]
    before = {
        one: signal.getsignal(one)
        for one in signals
        if signal.getsignal(one) not in (None, signal.SIG_IGN)
    }
    try:
        for one in before:
            signal.signal(one, asking.interrupt)
        while not done.done():
            concurrent.futures.wait([done], 0.2)
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    done.result()
    if run.stopped == "interrupted":
        raise KeyboardInterrupt


class _Pace:
    """When the next call may start: what one call is told by a server that is asked too much, all others heed."""

    def __init__(self, places):
        self.places, self.gate, self.gap, self.pause, self.slowed = places, 0.0, 0.0, 0.0, 0.0

    def slower(self, start, told):
        """A call that started then was refused: wait as long as told, and then start the calls one by one."""
        now = time.monotonic()
        if start > self.slowed:  # once for all calls that were in flight together
            self.pause, self.slowed = min(30.0, max(BACKOFF, 2 * self.pause)), now
            self.gap = min(
                told or self.pause, max(2 * self.gap, (told or self.pause) / self.places)
            )
        self.gate = max(self.gate, now + (told or self.pause))

    def faster(self):
        """A reply came."""
        self.pause, self.gap = 0.0, 0.95 * self.gap

    def wait(self):
        """Return the seconds until a call may start; 0 or less: this one starts now."""
        left = self.gate - time.monotonic()
        if left <= 0:
            self.gate = time.monotonic() + self.gap
        return left


class _Asking:
    """One run: what the calls in flight may cost, and what came of them."""

    def __init__(self, judge, missing, prompt, run):
        self.judge, self.missing, self.result, self.left = judge, missing, run, len(missing)
        self.schema, self.limit = judge.schema(prompt), judge.max_tokens(prompt)
        self.ceiling, *self.stands = min(judge.ceilings(), default=(math.inf, "", 0.0))
        self.flying, self.held, self.error = {}, 0.0, None  # flying: key -> when it started
        self.came = self.replies = self.failed = self.silent = self.lost = self.retrying = (
            self.presses
        ) = 0
        self.began = self.last_came = self.last_reply = time.monotonic()
        self.failures, self.trouble = Counter(), ""

    async def run(self):
        """Ask for all that is missing."""
        judge, self.settled, self.disk = self.judge, asyncio.Condition(), asyncio.Lock()
        self.places, self.pace = asyncio.Semaphore(judge.concurrency), _Pace(judge.concurrency)
        self.loop, self.task = asyncio.get_running_loop(), asyncio.current_task()
        connection = providers.connect(
            judge.provider, judge.model, judge.address, judge.timeout, judge.key_env, judge.params
        )
        self.ask = connection.ask
        try:
            with tqdm(total=self.left, unit="call", disable=None) as self.bar:
                telling = asyncio.create_task(self._tell())
                async with asyncio.TaskGroup() as calls:
                    for asked in self.missing:
                        # Where nothing succeeds, no further pair is begun while there are some to be tried again.
                        await self._sleep(
                            lambda: self.failed >= judge.concurrency and self.retrying
                        )
                        await self.places.acquire()
                        if self.result.stopped:
                            break
                        calls.create_task(self._one(asked))
                telling.cancel()
        finally:
            await connection.close()
        if self.error is not None:
            raise self.error

    def interrupt(self, *_):
        """Let the calls in flight finish; when told once more, drop them."""
        self.presses += 1
        if self.presses > 1:
            self.loop.call_soon_threadsafe(self.task.cancel)
            raise KeyboardInterrupt
        self.result.stopped = "interrupted"
        calls = f"{len(self.flying)} calls in flight, which are paid for (at most {self.judge.timeout:g} s)"
        print(
            f"\ninterrupted: waiting for {calls}; once more drops them", file=sys.stderr, flush=True
        )

    async def _tell(self):
        """Say now and then where the run is, where no bar does."""
        while self.bar.disable:
            await asyncio.sleep(HEARTBEAT)
            longest = max((time.monotonic() - start for start in self.flying.values()), default=0.0)
            run, flying = (
                self.result,
                f"{len(self.flying)} in flight, the longest for {longest:.0f} s",
            )
            left = f"{self.left:,} calls to go"
            if self.replies:
                left += (
                    f", about {minutes((time.monotonic() - self.began) / self.replies * self.left)}"
                )
            told = f"{left}; {flying}; ${run.spent:.4f}, {len(run.errors)} failed{self.trouble}"
            print(told, file=sys.stderr, flush=True)

    async def _sleep(self, left):
        while not self.result.stopped and (seconds := left()) > 0:
            await asyncio.sleep(min(0.2, seconds))

    async def _one(self, asked):
        """Ask for one reply, with as many attempts as it takes; between them its place is another's."""
        try:
            while (wait := await self._attempt(asked)) is not None:
                end, self.retrying = time.monotonic() + wait, self.retrying + 1
                self.places.release()
                await self._sleep(lambda end=end: end - time.monotonic())
                await self.places.acquire()
                self.retrying -= 1
        except Exception as error:
            self._stop("error", error)
        self.places.release()
        self.left -= 1
        self.bar.set_postfix_str(
            f"${self.result.spent:.4f}, {len(self.result.errors)} failed", refresh=False
        )
        self.bar.update()

    async def _attempt(self, asked):
        """Make one call; returns None if it is settled, else the seconds to wait before the next."""
        price = self.judge.price
        most = (
            price.cost(prices.most_tokens(asked.messages, self.schema), self.limit)
            if price
            else 0.0
        )
        await self._sleep(self.pace.wait)
        if not await self._reserve(asked.key, most):
            return None
        sent, spent, start = (
            True,
            most,
            time.monotonic(),
        )  # until it is known better, it may cost what it can cost
        try:
            params = self.judge.params | {"max_tokens": self.limit}
            reply = await self._in_time(
                asyncio.ensure_future(self.ask(asked.messages, params, self.schema))
            )
            cost = price and price.cost(
                reply.input_tokens, reply.output_tokens, cached=reply.cached
            )
            spent = most if cost is None else cost
            await self._save(asked, reply, start, spent)
            self._answered(reply)
            return None
        except CallFailed as error:
            sent, spent = error.sent, most if error.billed else 0.0
            if error.billed:  # it stands in the accounts, and answers nothing
                key = f"{asked.key}:{secrets.token_hex(8)}"
                await self._save(asked._replace(key=key), Reply("", "unanswered"), start, spent)
            return self._failed(asked.key, error, start)
        finally:
            async with self.settled:  # replace what was set aside for the call by what it cost
                del self.flying[asked.key]
                self.held = self.held - most if self.flying else 0.0  # no crumbs of rounding
                self.result.calls, self.result.spent = (
                    self.result.calls + sent,
                    self.result.spent + spent,
                )
                self.settled.notify_all()

    async def _save(self, asked, reply, start, spent):
        """Commit a reply with what it took."""
        reply = reply._replace(
            cost=spent if self.judge.price else None, seconds=time.monotonic() - start
        )
        async with self.disk:
            await asyncio.to_thread(self.judge.store.put, [(asked, reply)])

    def _answered(self, reply):
        """Note that a reply came; end the run if none has what is asked for, say so if another model answered."""
        is_answer = bool(reply.text) and reply.outcome == "ok"  # a refusal has no log-probabilities
        if self.judge.likeliest and is_answer and not (reply.top or self.replies):
            self._fatal(likelihoods.NONE)
        self.replies, self.last_reply, self.failed, self.lost = (
            self.replies + 1,
            time.monotonic(),
            0,
            0,
        )
        self.pace.faster()
        model = reply.model
        served = self.judge.served_models  # of all calls of `score`, so that each is noted once
        if model not in served and not providers.is_same_model(self.judge.model, model):
            print(f"note: {self.judge.spec} was asked, and {model} answered", file=sys.stderr)
        served.add(model)

    def _failed(self, key, error, start):
        """Note a failed call; returns the seconds to wait before the next attempt, or None if there is none."""
        judge, quiet, then = self.judge, time.monotonic() - self.last_reply, error.then
        self.trouble = f"; last trouble: {textwrap.shorten(str(error), 100, placeholder=' ...')}"
        if then == "stop" or (error.wait or 0.0) > LONGEST_WAIT:
            later = f" (it asks to wait {error.wait / 60:.0f} minutes)" if error.wait else ""
            return self._fatal(f"{error}{later}, so no further call was made")
        if then == "slower":
            self.pace.slower(start, error.wait)
            if quiet < PATIENCE:
                return 0.0  # a limit that passes uses up no attempt
        self.failed += then in ("again", "late")
        self.silent += then == "late" or (then == "again" and not error.sent)
        if not self.replies and self.silent >= max(3, min(judge.concurrency, self.left)):
            return self._fatal(f"no server answers at {judge.address} ({error})")
        # Where nothing is left but what has failed before, each is tried to its end: the last odd one ends no run.
        if self.failed >= GIVE_UP and quiet > PATIENCE and self.left > len(self.failures):
            return self._fatal(
                f"no reply for {quiet:.0f} seconds, the last call failed with {error}"
            )
        self.failures[key] += judge.attempts / 2 if then == "late" else 1
        if then != "skip" and self.failures[key] < judge.attempts:
            return error.wait or min(
                30.0, BACKOFF * 2 ** (self.failures[key] - 1)
            ) + random.uniform(0, 2 * BACKOFF)
        if (
            not self.result.stopped
        ):  # after a stop it was not tried to the end: it is simply missing
            self.result.errors[key] = str(error)
            self.lost += 1
            if self.lost >= GIVE_UP:
                self._fatal(f"{self.lost} calls in a row failed, the last with {error}")
        return None

    async def _in_time(self, call):
        """Wait for a call; the time it stands behind others at a server that answers them slowly does not count.

        It is given up if nothing at all came for the time-out, or its turn has passed: twice the calls in flight came.
        """
        start, before, wait = time.monotonic(), self.came, self.judge.timeout
        while not (await asyncio.wait({call}, timeout=wait))[0]:
            wait = max(start, self.last_came) + self.judge.timeout - time.monotonic()
            if wait <= 0 or self.came - before >= 2 * self.judge.concurrency:
                call.cancel()
                advice = "give a larger --timeout or a smaller --concurrency"
                raise CallFailed(
                    f"no answer within {self.judge.timeout:g} seconds: {advice}",
                    "late",
                    billed=True,
                )
        self.came, self.last_came = self.came + 1, time.monotonic()
        return call.result()

    async def _reserve(self, key, most):
        """Set aside the most a call can cost, once calls in flight leave room for it; False if there is none."""
        run = self.result
        async with self.settled:
            while not run.stopped and self.flying and run.spent + self.held + most > self.ceiling:
                await self.settled.wait()
            if not run.stopped and run.spent + self.held + most > self.ceiling:
                flag, usd = self.stands
                run.why = f"stopped before ${usd:g} would be passed: a call may cost ${most:.4f}; raise {flag} to go on"
                self._stop("budget")
            if run.stopped:
                return False
            self.held, self.flying[key] = self.held + most, time.monotonic()
        return True

    def _fatal(self, message):
        self._stop("error", DreError(f"{self.judge.spec}: {message}; what was answered is stored"))

    def _stop(self, why, error=None):
        self.result.stopped, self.error = self.result.stopped or why, self.error or error
