"""Asking: many calls in flight, retries, limits, budget; each reply committed before the next call starts."""

import asyncio
import contextlib
import logging
import math
import random
import threading
import time
from collections import deque

from dre.errors import DreError
from dre.judges import prices, verdicts
from dre.judges.budget import Budget
from dre.judges.limits import Limiter
from dre.judges.policy import Outcome
from dre.judges.providers.base import CallFailed, Fatal, Transient, missing, redact

try:
    import stamina
except ImportError:
    raise missing("stamina") from None

# Retries are counted on the progress bar; they need no line on a console without logging.
logging.getLogger("stamina").addHandler(logging.NullHandler())


class Runner:
    """Ask a provider for what a plan lacks.

    Parameters
    ----------
    plan : dre.judges.plan.Plan
    provider : dre.judges.providers.base.Provider
    store : dre.judges.store.Store
    price : dre.judges.prices.Price or None
    max_usd : float or None
    policy : Policy
    progress : callable
        Called with the `Outcome` after every change.
    """

    def __init__(self, plan, provider, store, price, max_usd, policy, progress=lambda outcome: None):
        self.plan, self.provider, self.store, self.price = plan, provider, store, price
        self.policy, self.progress = policy, progress
        self.budget = Budget(math.inf if max_usd is None else max_usd)
        self.limiter = Limiter()
        self.outcome, self.error = Outcome(), None
        self._pending, self._todo, self._held = deque(plan.missing.items()), deque(), {}
        self._unsaved, self._flushing, self._calling, self._workers = [], None, set(), []
        self._failed_in_a_row = self._unsent = 0

    def run(self):
        """Run to the end in a thread of its own, so that it works inside a notebook's event loop too.

        Ctrl-C lets the calls in flight finish; a second one drops them.

        Raises
        ------
        DreError
            If no further request could succeed, or the store cannot be written.
        """
        self._loop = asyncio.new_event_loop()
        self._done = threading.Event()
        threading.Thread(target=self._in_thread, name="judge", daemon=True).start()
        while not self._done.is_set():
            try:
                self._done.wait(0.2)
            except KeyboardInterrupt:
                if self.outcome.stopped:
                    raise
                with contextlib.suppress(RuntimeError):  # the loop has just ended
                    self._loop.call_soon_threadsafe(self._stop, "interrupted")
        if self.error is not None:
            raise self.error
        return self.outcome

    def _in_thread(self):
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            try:
                runner.run(self._run())
            except DreError as error:
                self.error = self.error or error
            except Exception as error:
                self.error = DreError(f"{self._judge()}: {type(error).__name__}: {redact(error)}")
            finally:
                self._done.set()

    async def _run(self):
        self._claiming = asyncio.Lock()
        self.provider.connect(self.policy.timeout)
        self._width = max(1, min(self.policy.concurrency, len(self._pending)))
        self._workers = [asyncio.create_task(self._work()) for _ in range(self._width)]
        try:
            for finished in asyncio.as_completed(self._workers):
                try:
                    await finished
                except asyncio.CancelledError:
                    if not (self.outcome.stopped or self.error):
                        raise
        finally:
            for worker in self._workers:
                worker.cancel()
            await asyncio.gather(*self._workers, return_exceptions=True)
            await self.provider.close()
            asked = self.outcome.judgements.keys()
            self.store.release(self.plan.setting, [key for key in self.plan.missing if key not in asked])

    def _stop(self, why):
        """Start no further call; let those in flight finish."""
        self.outcome.stopped = self.outcome.stopped or why
        for worker in self._workers:
            if worker not in self._calling:
                worker.cancel()

    def _fatal(self, message):
        self.error = self.error or DreError(f"{self._judge()}: {message}; what was answered is stored")
        self._stop("error")

    async def _work(self):
        while not self.outcome.stopped and (item := await self._next()) is not None:
            try:
                await self._ask(*item)
            except Fatal as error:
                self._fatal(f"{error}, so no further call was made")
            except CallFailed as error:
                self._fail(item[0], error)

    async def _next(self):
        """Return the next key that is ours to ask, with its task; None at the end."""
        async with self._claiming:
            while not self._todo:
                if self._pending:
                    await self._claim([self._pending.popleft() for _ in range(min(self._width, len(self._pending)))])
                elif self._held:
                    await asyncio.sleep(0.2)  # another process is asking these: wait for its replies
                    held, self._held = self._held, {}
                    await self._claim(held.items())
                else:
                    return None
            return self._todo.popleft()

    async def _claim(self, items):
        tasks = dict(items)
        created = {key: task.created for key, task in tasks.items()}
        mine, stored = await asyncio.to_thread(self.store.claim, self.plan.setting, created)
        self._todo.extend((key, tasks[key]) for key in mine)
        self._held |= {key: tasks[key] for key in tasks.keys() - stored.keys() - set(mine)}
        for key, judgement in stored.items():
            self._gain(key, judgement)

    async def _ask(self, key, task):
        body = self.provider.request(task.messages, self.plan.params, self.plan.prompt.schema)
        policy, text = self.policy, str(body)
        limit = self.plan.params["max_tokens"]
        worst = self.price.cost(prices.most_tokens(text), limit) if self.price else 0.0
        tokens = prices.estimated_tokens(text) + limit
        async for attempt in stamina.retry_context(
            on=self._again, attempts=policy.attempts, timeout=None, wait_initial=policy.wait_initial,
            wait_max=policy.wait_max, wait_jitter=policy.wait_jitter,
        ):  # fmt: skip
            with attempt:
                self.outcome.retries += attempt.num > 1
                await self._once(key, task, body, tokens, worst)

    async def _once(self, key, task, body, tokens, worst):
        if not await self.budget.reserve(worst):
            self._stop("budget")
            return
        spent, flying = 0.0, False
        try:
            await self.limiter.acquire(tokens)
            flying, spent = True, worst
            self._calling.add(asyncio.current_task())
            self.outcome.calls += 1
            started = time.monotonic()
            async with asyncio.timeout(self.policy.timeout):
                reply = await self.provider.ask(body)
            seconds = time.monotonic() - started
            cost = self.price.cost(reply.input_tokens, reply.output_tokens) if self.price else None
            spent = worst if cost is None else cost
            read = {"cost": cost, "seconds": seconds, "source": "live"}
            await self._save(key, verdicts.judgement(self.plan.prompt, key, task.pair_id, task.row, reply, **read))
        except TimeoutError:
            raise Transient(f"no answer within {self.policy.timeout:g} seconds", billed=True) from None
        except CallFailed as error:
            spent = worst if error.billed else 0.0
            self._heed(error)
            raise
        finally:
            self._calling.discard(asyncio.current_task())
            self.budget.settle(worst, spent)
            self.outcome.spent = self.budget.spent
            if flying:
                self.limiter.release(tokens)
        self.limiter.learn(reply.headers)

    def _heed(self, error):
        """Take over what a failed call says of limits."""
        self.limiter.learn(error.headers)
        self._unsent += not error.sent
        if self._unsent >= max(3, 2 * self._width) and not self.outcome.judgements:
            raise Fatal(f"no server answers ({error})") from None
        if isinstance(error, Transient) and error.wait:
            if error.wait > self.policy.longest_wait:
                raise Fatal(f"{error} (it asks to wait {error.wait / 60:.0f} minutes)") from None
            self.limiter.pause(error.wait)

    def _again(self, error):
        """Whether to try again: stamina waits the seconds that are returned, or its own backoff for True."""
        if not isinstance(error, Transient) or self.outcome.stopped:
            return False
        return error.wait + random.uniform(0, self.policy.wait_jitter) if error.wait else True

    async def _save(self, key, judgement):
        """Commit a reply; replies that come while the disk is busy are committed together."""
        committed = asyncio.get_running_loop().create_future()
        self._unsaved.append((judgement, committed))
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.create_task(self._flush())
        await committed
        self._failed_in_a_row = 0
        self._gain(key, judgement)

    async def _flush(self):
        while self._unsaved:
            batch, self._unsaved = self._unsaved, []
            error = None
            try:
                await asyncio.to_thread(self.store.add, self.plan.setting, [judgement for judgement, _ in batch])
            except Exception as failed:
                error = failed
            for _, committed in batch:
                if not committed.done():
                    committed.set_exception(error) if error else committed.set_result(None)

    def _gain(self, key, judgement):
        self.outcome.judgements[key] = judgement
        self.outcome.failed += judgement.status != "ok"
        self.progress(self.outcome)

    def _fail(self, key, error):
        if self.outcome.stopped:
            return  # not tried to the end: it is simply missing
        # 400 and 422 are how a model that takes no JSON schema says so.
        perhaps = self.plan.params["structured"] != "plain" and error.status in (400, 422)
        said = f"{error}; if the model has no structured output, give --plain" if perhaps else str(error)
        self.outcome.errors[key] = said
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= self.policy.give_up:
            self._fatal(f"{self._failed_in_a_row} calls in a row failed, the last with {said}")
        self.progress(self.outcome)

    def _judge(self):
        return f"{self.provider.name}:{self.provider.model}"
