"""How a run goes about its calls, and what it did."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Policy:
    """How a run goes about its calls.

    Attributes
    ----------
    concurrency : int
        Calls in flight at most.
    timeout : float
        Seconds a call may take.
    attempts, wait_initial, wait_max, wait_jitter
        Retries: exponential waits in seconds, with uniform jitter. A Retry-After header goes before them.
    longest_wait : float
        A provider that asks for a longer wait than this ends the run.
    give_up : int
        So many calls failing in a row, none succeeding between, end the run.
    """

    concurrency: int = 16
    timeout: float = 120.0
    attempts: int = 8
    wait_initial: float = 0.5
    wait_max: float = 30.0
    wait_jitter: float = 1.0
    longest_wait: float = 600.0
    give_up: int = 8


@dataclass
class Outcome:
    """What a run did.

    Attributes
    ----------
    judgements : dict
        ``{(messages_sha256, repeat): Judgement}`` that were gained.
    errors : dict
        The same keys -> why no reply came.
    calls, retries, spent
        Requests sent, those of them that were repeated, and dollars they cost or may have cost.
    failed : int
        Replies that are no score (malformed, refused, truncated, empty).
    stopped : str
        Empty if the run was complete, else ``budget`` or ``interrupted``.
    """

    judgements: dict = field(default_factory=dict)
    errors: dict = field(default_factory=dict)
    calls: int = 0
    retries: int = 0
    spent: float = 0.0
    failed: int = 0
    stopped: str = ""
