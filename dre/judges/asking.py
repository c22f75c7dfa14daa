"""Asking: many calls in flight, retries in one place, a ceiling that holds, each reply committed when it comes."""

import asyncio
import concurrent.futures
import math
import random
import threading
import time
from dataclasses import dataclass, field

from tqdm import tqdm

from dre.errors import DreError
from dre.judges import prices, providers

GIVE_UP = 8  # so many calls failing in a row, none succeeding between, end a run
LONGEST_WAIT = 600.0  # seconds; a provider that asks for a longer wait ends the run
BACKOFF = 0.5  # seconds before the second attempt, doubled with each further one up to 30


@dataclass
class Run:
    """What asking did: requests sent, dollars they (may have) cost, why replies did not come, what stopped it."""

    calls: int = 0
    spent: float = 0.0
    errors: dict = field(default_factory=dict)
    stopped: str = ""  # or budget, interrupted, error


def ask_all(judge, missing, prompt, run):
    """Ask for replies, ``(Asked, row)`` each, and commit each to the store before another call takes its place.

    Works in a thread of its own, so inside a notebook's event loop too. Ctrl-C lets the calls in flight finish, which
    are paid for, and is raised then; a second one drops them. Raises `DreError` if no further request could succeed.
    """
    asking, done = _Asking(judge, prompt, run), concurrent.futures.Future()

    def work():
        try:
            done.set_result(asyncio.run(asking.run(missing)))
        except Exception as error:
            done.set_exception(error)

    threading.Thread(target=work, name="judge", daemon=True).start()
    while not done.done():
        try:
            concurrent.futures.wait([done], 0.2)
        except KeyboardInterrupt:
            if run.stopped:
                raise
            run.stopped = "interrupted"
    done.result()
    if run.stopped == "interrupted":
        raise KeyboardInterrupt


class _Asking:
    """One run: what the calls in flight may cost, and what came of them."""

    def __init__(self, judge, prompt, run):
        self.judge, self.prompt, self.result = judge, prompt, run
        self.schema, self.limit = None if judge.plain else prompt.schema, judge.max_tokens(prompt)
        self.ceiling = math.inf if judge.max_usd is None else judge.max_usd
        self.flying = self.answers = self.failed_in_a_row = self.unsent = 0
        self.last_answer, self.held, self.unsaved, self.error = 0.0, 0.0, [], None

    async def run(self, missing):
        """Ask for all that is missing."""
        judge, self.settled, self.disk = self.judge, asyncio.Condition(), asyncio.Lock()
        self.ask, close = providers.connect(judge.provider, judge.model, judge.base_url, judge.timeout, judge.key_env)
        queue = iter(missing)
        try:
            with tqdm(total=len(missing), unit="call", disable=None) as bar:
                await asyncio.gather(*(self._work(queue, bar) for _ in range(min(judge.concurrency, len(missing)))))
        finally:
            await close()
        if self.error is not None:
            raise self.error

    async def _work(self, queue, bar):
        """Take one reply after the other from the queue, which others take from too, and ask for it."""
        for asked, row in queue:
            if self.result.stopped:
                return
            try:
                await self._one(asked, row)
            except Exception as error:
                self._stop("error", error)
            bar.set_postfix_str(f"${self.result.spent:.4f}, {len(self.result.errors)} failed", refresh=False)
            bar.update()

    async def _one(self, asked, row):
        """Ask for one reply, with as many attempts as it takes."""
        messages, price = self.prompt.render(row), self.judge.price
        most = price.cost(prices.most_tokens(messages, self.schema), self.limit) if price else 0.0
        for attempt in range(self.judge.attempts):
            if not await self._reserve(most):
                return self._stop("budget")
            wait = await self._attempt(asked, messages, most, attempt)
            if wait is None:
                return None
            end = time.monotonic() + wait
            while not self.result.stopped and (left := end - time.monotonic()) > 0:
                await asyncio.sleep(min(0.2, left))

    async def _attempt(self, asked, messages, most, attempt):
        """Make one call; returns None if it is settled, else the seconds to wait before the next."""
        spent, start = most, time.monotonic()  # until it is known better, a call may cost what it can cost
        try:
            self.result.calls += 1
            params = self.judge.params | {"max_tokens": self.limit}
            reply = await self._in_time(asyncio.ensure_future(self.ask(messages, params, self.schema)))
            cost = self.judge.price.cost(reply.input_tokens, reply.output_tokens) if self.judge.price else None
            spent = most if cost is None else cost
            await self._save(asked, reply._replace(cost=cost, seconds=time.monotonic() - start))
            self.failed_in_a_row, self.unsent = 0, -math.inf
            return None
        except providers.CallFailed as error:
            spent = most if error.billed else 0.0
            return self._failed(asked, error, attempt)
        finally:
            async with self.settled:  # replace what was set aside for the call by what it cost
                self.flying -= 1
                self.held = self.held - most if self.flying else 0.0  # no crumbs of rounding
                self.result.spent += spent
                self.settled.notify_all()

    def _failed(self, asked, error, attempt):
        """Note a failed call; returns the seconds to wait before the next attempt, or None if there is none."""
        wait = error.wait or min(30.0, BACKOFF * 2**attempt) + random.uniform(0, 2 * BACKOFF)
        self.unsent += not error.sent
        if error.then == "stop" or wait > LONGEST_WAIT:
            later = f" (it asks to wait {wait / 60:.0f} minutes)" if wait > LONGEST_WAIT else ""
            self._fatal(f"{error}{later}, so no further call was made")
        elif self.unsent >= max(3, 2 * self.judge.concurrency):
            self._fatal(f"no server answers ({error})")
        elif error.then == "again" and attempt + 1 < self.judge.attempts:
            return wait
        elif not self.result.stopped:  # after a stop it was not tried to the end: it is simply missing
            self.result.errors[asked.key] = str(error)
            self.failed_in_a_row += 1
            if self.failed_in_a_row >= GIVE_UP:
                self._fatal(f"{self.failed_in_a_row} calls in a row failed, the last with {error}")
        return None

    async def _in_time(self, call):
        """Wait for a call; the time it stands behind others at a server that answers them slowly does not count.

        It is given up if nothing at all came for the time-out, or its turn has passed: twice the calls in flight came.
        """
        start, before, wait = time.monotonic(), self.answers, self.judge.timeout
        while not (await asyncio.wait({call}, timeout=wait))[0]:
            wait = max(start, self.last_answer) + self.judge.timeout - time.monotonic()
            if wait <= 0 or self.answers - before >= 2 * self.judge.concurrency:
                call.cancel()
                advice = "give a larger --timeout or a smaller --concurrency"
                raise providers.CallFailed(f"no answer within {self.judge.timeout:g} seconds: {advice}", billed=True)
        self.answers, self.last_answer = self.answers + 1, time.monotonic()
        return call.result()

    async def _save(self, asked, reply):
        """Commit a reply; those that come while the disk is busy are committed together with the next."""
        self.unsaved.append((asked, reply))
        async with self.disk:
            rows, self.unsaved = self.unsaved, []
            if rows:  # else the call before has committed this reply too
                await asyncio.to_thread(self.judge.store.put, rows)

    async def _reserve(self, most):
        """Set aside the most a call can cost, once calls in flight leave room for it; False if there is none."""
        run = self.result
        async with self.settled:
            while not run.stopped and self.flying and run.spent + self.held + most > self.ceiling:
                await self.settled.wait()
            if run.stopped or run.spent + self.held + most > self.ceiling:
                return False
            self.held, self.flying = self.held + most, self.flying + 1
        return True

    def _fatal(self, message):
        self._stop("error", DreError(f"{self.judge.spec}: {message}; what was answered is stored"))

    def _stop(self, why, error=None):
        self.result.stopped, self.error = self.result.stopped or why, self.error or error
