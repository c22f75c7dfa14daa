"""Calls side by side: each reply is stored when it comes, and a budget holds for all together."""

import math
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

from dre.errors import DreError, TryLater
from dre.judges import transport
from dre.judges.providers import Reply
from dre.progress import Progress

_GIVE_UP = 8  # failures in a row, without a reply between them, end a run
_FIRST_REPLIES = 10  # all of which are unreadable end a run
_SHORTEST_KEY = 12  # that is taken out of a reply; what is shorter may stand there by chance
_LONGEST_REASON = 300  # characters
#: Calls in flight, with the most that each can cost: (judge, request, dollars), by request.
_in_flight: dict[int, tuple[Any, Any, float]] = {}
_interrupted = threading.Event()  # while tasks run side by side: no run begins another call


@dataclass
class Run:
    """What a call of `score` did.

    ``calls`` are replies that came, ``spent`` US dollars. ``errors`` has the reasons of replies
    that did not come, by key. ``stopped`` is what ended the run early (``budget``, ``interrupted``
    or ``error``), and ``why`` a sentence about that. ``is_priced``: its price is known.
    """

    calls: int = 0
    lost: int = 0
    spent: float = 0.0
    errors: dict[str, str] = field(default_factory=dict)
    stopped: str = ""
    why: str = ""
    is_priced: bool = True

    @property
    def money(self) -> str:
        """What the calls cost, in words."""
        if not self.is_priced:
            return "price unknown"
        lost = f" (with at most as much as {self.lost} lost calls can cost)" if self.lost else ""
        return f"${self.spent:.4f} spent{lost}"


class Budget:
    """The US dollars that calls may cost; those in flight count at the most that they can cost.

    Judges that share one spend it together. ``spent`` is what was spent before.
    """

    def __init__(self, usd: float = math.inf, spent: float = 0.0):
        self.usd = usd
        self.spent = spent
        self._in_flight: list[float] = []
        self._change = threading.Condition()

    def reserve(self, usd: float) -> bool:
        """Return whether a call may be made, once it is clear what those in flight leave over."""
        with self._change:
            while self.spent + math.fsum(self._in_flight) + usd > self.usd:
                if not self._in_flight:
                    return False
                self._change.wait()
            self._in_flight.append(usd)
            return True

    def settle(self, reserved_usd: float, usd: float) -> None:
        """Note what a call did cost."""
        with self._change:
            self._in_flight.remove(reserved_usd)
            self.spent += usd
            self._change.notify_all()


def ask_all(judge: Any, requests: Sequence[Any], prompt: Any, run: Run, n_unread: int) -> None:
    """Ask for replies, and store each when it comes.

    Ctrl-C lets the calls in flight finish; a second one does not wait for them.

    Parameters
    ----------
    judge : dre.judges.judge.Judge
    requests : sequence of dre.judges.judge.Request
    prompt : dre.judges.prompts.Prompt
    run : Run
        Where it is noted what was done.
    n_unread : int
        How many stored replies cannot be read, if none of them can; -1 if some can.

    Raises
    ------
    DreError
        If no further call could succeed, or none of the first ten replies can be read.
    """
    client = judge.client()
    run.is_priced = judge.price is not None
    gate = _Gate(n_unread)
    lock = threading.Lock()
    n_failures = 0  # in a row

    def stop(reason, why, kind=DreError):
        if run.stopped:
            return
        run.stopped, run.why = reason, f"{judge.spec} at {client.at}: {why}"
        if reason == "error":
            raise kind(f"{run.why}; what was answered is stored")

    def ask(request):
        """Make one call if it may be made, and end the run if no other one should follow.

        Returns whether it was made.
        """
        if not gate.enter(run):
            return False
        verdict = failure = None
        try:
            most_usd = judge.most_usd(request, prompt)
            if not judge.budget.reserve(most_usd):
                with lock:
                    stop("budget", f"stopped before ${judge.budget.usd:g} would be passed")
                return False
            usd = 0.0
            try:
                if not (run.stopped or _interrupted.is_set()):
                    usd = most_usd  # as long as nobody knows better
                    usd, verdict, failure = call(request, most_usd)
            finally:
                judge.budget.settle(most_usd, usd)
        finally:
            gate.leave(verdict)
        with lock:
            note(request, verdict, failure)
        return bool(verdict or failure)

    def call(request, most_usd):
        """Make one call and commit it; return its dollars, and its verdict or `_Failure`."""
        start = time.monotonic()
        transport.heard.status = 0
        _in_flight[id(request)] = (judge, request, most_usd)
        try:
            reply = _storable(client(request.messages, *judge.options(prompt)), client.key)
        except Exception as error:
            failure = _failure(error, client)
            usd = most_usd if failure.is_lost else 0.0
            if failure.status:
                cost = usd if judge.price else None
                outcome = Reply(failure.reason, "lost" if failure.is_lost else "error")
                judge.store.put(request, outcome, cost, time.monotonic() - start)
            with lock:
                run.spent += usd
                run.lost += failure.is_lost
            return usd, None, failure
        else:
            cost = judge.cost_usd(reply, most_usd)
            judge.store.put(request, reply, cost, time.monotonic() - start)
        finally:
            _in_flight.pop(id(request), None)
        with lock:
            run.calls += 1
            run.spent += cost or 0.0
        return cost or 0.0, judge.verdict(reply, prompt, request.row), None

    def note(request, verdict, failure):
        """Note what came of a call; `DreError` if no other one should follow."""
        nonlocal n_failures
        if verdict:
            n_failures = 0
            if gate.is_shut:
                begin = f"none of its first {_FIRST_REPLIES} replies can be read"
                stop("error", f"{begin}; the last one: {verdict.reason}")
        elif failure:
            n_failures += 1
            run.errors[request.key] = failure.reason
            if failure.is_final or n_failures >= _GIVE_UP:
                stop("error", failure.reason, TryLater if failure.may_pass else DreError)

    with (
        ThreadPoolExecutor(judge.concurrency) as pool,
        Progress(len(requests), "calls", name=judge.spec) as progress,
    ):
        futures = [pool.submit(ask, request) for request in requests]
        try:
            for future in as_completed(futures):
                if future.result():
                    progress.update(note=f"{run.money}, {len(run.errors)} failed")
        except BaseException as error:
            is_interrupt = isinstance(error, KeyboardInterrupt)
            run.stopped = run.stopped or ("interrupted" if is_interrupt else "error")
            gate.open()
            pool.shutdown(wait=False, cancel_futures=True)
            if is_interrupt:
                print("interrupted: waiting for the calls in flight", file=sys.stderr)
            raise
    client.close()
    if _interrupted.is_set():
        run.stopped = run.stopped or "interrupted"


class _Gate:
    """Lets in as many calls as may be unreadable, until one reply can be read.

    ``is_shut`` says that too many were not.
    """

    def __init__(self, n_unread: int):
        self.is_shut = False
        self._is_open = n_unread < 0
        self._n_unread = n_unread
        # A second run asks for one reply before it stops.
        self._most = max(_FIRST_REPLIES, n_unread + 1)
        self._n_inside = 0
        self._change = threading.Condition()

    def enter(self, run: Run) -> bool:
        """Return whether a call may be made, once there is room."""
        with self._change:
            while not (self._is_open or self.is_shut or run.stopped) and self._is_full():
                self._change.wait()
            if self.is_shut or run.stopped or _interrupted.is_set():
                return False
            self._n_inside += 1
            return True

    def _is_full(self):
        return self._n_unread + self._n_inside >= self._most

    def leave(self, verdict: Any) -> None:
        """Note what came of a call: a verdict, or None."""
        with self._change:
            self._n_inside -= 1
            if verdict is not None and not self._is_open:
                if verdict.status in ("ok", "refused"):
                    self._is_open = True
                else:
                    self._n_unread += 1
                    self.is_shut = self._n_unread >= self._most
            self._change.notify_all()

    def open(self) -> None:
        """Let all in that wait: the run is over."""
        with self._change:
            self._is_open = True
            self._change.notify_all()


def _storable(reply, key):
    """Return a reply as it can be stored: texts without the key, in case a server repeats it."""
    if not isinstance(reply.text, str):
        raise TypeError(f"its content is no text: {reply.text!r:.80}")
    top = reply.top
    if len(key) < _SHORTEST_KEY:
        key = ""
    elif top:
        # The likeliest tokens may spell it piece by piece.
        spelled = "".join(token for token, _ in top)
        texts = [reply.text, spelled, *(text for _, alternatives in top for text in alternatives)]
        if any(without_key(text, key) != text for text in texts):
            top = None
    text, model = (
        without_key(str(words or "").encode("utf-8", "replace").decode(), key)
        for words in (reply.text, reply.model)
    )
    return reply._replace(text=text, model=model, top=top)


def without_key(text: str, key: str) -> str:
    """Return a text with ``[key]`` in place of a key, also as JSON or an address writes it."""
    for form in {key, key.replace("/", "\\/"), quote(key, safe=""), quote(key)} - {""}:
        text = text.replace(form, "[key]")
    return text


class _Failure(NamedTuple):
    """Why no reply came. ``is_lost``: it may be paid for; ``is_final``: no other call can succeed.

    ``may_pass``: the same command may succeed later.
    """

    status: int
    reason: str
    is_lost: bool
    is_final: bool
    may_pass: bool


def _failure(error, client):
    """Return what an error of an SDK means, in its own words and with at most one hint."""
    status = transport.heard.status
    is_no_reply = 200 <= status < 300
    # Nothing was sent, and any other request would be refused, too.
    is_refused = not status and isinstance(error, TypeError | ValueError)
    is_refused = is_refused and not isinstance(error, UnicodeError)  # which is of one text alone
    may_pass = status in (0, 408, 409, 429) or is_no_reply or status >= 500
    return _Failure(
        status,
        _reason(error, client, status if not is_no_reply else 0, is_no_reply),
        is_lost=status == transport.LOST or is_no_reply,
        is_final=is_refused or status in (401, 403, 404),
        may_pass=may_pass and not is_refused,
    )


def _reason(error, client, status, is_no_reply):
    """Say why no reply came. A key is taken out before anything is cut."""
    body = getattr(error, "body", None)
    details = body.get("error", body) if isinstance(body, dict) else {}
    message = details.get("message") if isinstance(details, dict) else None
    if is_no_reply:
        beginning = transport.heard.body.decode("utf-8", "replace")
        words = f"answered with what is no reply of {client.name}'s: {beginning}"
    elif message:
        words = f"Error code: {status} - {message}"
    else:
        words = str(error) if str(error).strip() and status else f"{type(error).__name__}: {error}"
    # JSON can write each letter of a key as an escape.
    words = re.sub(r"\\u00([0-7][0-9a-fA-F])", lambda match: chr(int(match[1], 16)), words)
    words = printable(without_key(words, client.key)[:5000])
    hint = _hint(status, words)
    return words[:_LONGEST_REASON] + (f": {hint}" if hint else "")


def _hint(status, words):
    """Return what helps, where a status and the words of an error say it."""
    if status in (401, 403):
        return "set the right key, or name its variable with --key-env"
    if status == 404:
        return "compare the model's name and the address (--base-url)"
    if status not in (400, 413, 422):
        return ""
    if re.search(r"max_(completion_|output_)?tokens|context (length|window|size)", words, re.I):
        return "give another --max-tokens; prompt and reply together have to fit"
    if re.search(r"response_?(format|.*schema)|json|grammar|output_config|format", words, re.I):
        return "--plain asks without structured output"
    return ""


def printable(text: str) -> str:
    """Return a text on one line, without what a terminal would obey."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


def side_by_side(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """Do tasks that ask judges at the same time; return what they return.

    An interrupt reaches all of them. The error of the first task that has one is raised at the end.
    """
    _interrupted.clear()
    pool = ThreadPoolExecutor(len(tasks))
    futures = [pool.submit(task) for task in tasks]
    try:
        wait(futures)
    except KeyboardInterrupt:
        _interrupted.set()
        print("interrupted: waiting for the calls in flight", file=sys.stderr)
        wait(futures)  # a second interrupt ends this, and the tasks go on seeing the first one
        _interrupted.clear()
        raise
    finally:
        pool.shutdown(wait=False)
    return [future.result() for future in futures]


@contextmanager
def one_budget(*judges: Any) -> Iterator[Budget]:
    """Let judges spend the budget of the first one together."""
    own_budgets = [judge.budget for judge in judges]
    for judge in judges:
        judge.budget = own_budgets[0]
    try:
        yield own_budgets[0]
    finally:
        for judge, budget in zip(judges, own_budgets):
            judge.budget = budget


def drop_calls() -> bool:
    """Note the calls in flight as lost, at their most; return whether there were any.

    A process that ends at once calls this before, so that nothing is paid unseen.
    """
    calls = list(_in_flight.values())
    for judge, request, usd in calls:
        reason = Reply("a second interrupt did not wait for the reply", "lost")
        judge.store.put(request, reason, usd if judge.price else None, 0)
    return bool(calls)
