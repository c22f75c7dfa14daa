"""Rate limits, learned from the headers of a provider's replies.

Providers describe token buckets: so many requests or tokens at most, so many left, full again at a given time.
`Limiter` keeps the same buckets here and lets a call wait until its bucket holds enough, instead of being refused.
"""

import asyncio
import math
import re
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
# What a call takes from the bucket: 1 for requests, its estimated tokens for the others.
_BUCKETS = {
    "requests": "x-ratelimit-{}-requests",
    "tokens": "x-ratelimit-{}-tokens",
    "anthropic requests": "anthropic-ratelimit-requests-{}",
    "anthropic tokens": "anthropic-ratelimit-tokens-{}",
    "anthropic input tokens": "anthropic-ratelimit-input-tokens-{}",
    "anthropic output tokens": "anthropic-ratelimit-output-tokens-{}",
}


def seconds_until(text, now=None):
    """Return the seconds a header's time is away: ``"1.5"``, ``"6m0s"``, ``"12ms"``, an RFC 3339 or HTTP date.

    Returns None if the text is none of these.
    """
    text = (text or "").strip()
    try:
        return max(0.0, float(text)) if math.isfinite(float(text)) else None
    except ValueError:
        pass
    parts = _DURATION.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    for read in (lambda: datetime.fromisoformat(text), lambda: parsedate_to_datetime(text)):
        try:
            then = read()
        except (TypeError, ValueError):
            continue
        then = then if then.tzinfo else then.replace(tzinfo=UTC)
        return max(0.0, (then - (now or datetime.now(UTC))).total_seconds())
    return None


def retry_after(headers):
    """Return the seconds the provider asks to wait, or None."""
    milliseconds = seconds_until(headers.get("retry-after-ms"))
    return milliseconds / 1000 if milliseconds is not None else seconds_until(headers.get("retry-after"))


class Bucket:
    """One limit: ``level`` of at most ``limit`` is left and refills at ``rate`` a second."""

    def __init__(self, now):
        self.limit = self.level = self.rate = math.inf
        self.at = now

    def learn(self, limit, remaining, reset, others, now):
        """Take over what a reply says; ``others`` is what calls in flight may still take."""
        if reset > 0 and remaining < limit:
            self.rate = (limit - remaining) / reset
        self.limit, self.level, self.at = limit, remaining - others, now

    def wait(self, need, now):
        """Return the seconds until ``need`` can be taken; one call may always take a whole bucket."""
        if self.level is math.inf:
            return 0.0
        if self.rate is math.inf:  # full when last seen: nothing is known of the refill
            return 0.0
        level = min(self.limit, self.level + (now - self.at) * self.rate)
        return max(0.0, (min(need, self.limit) - level) / self.rate)

    def take(self, need, now):
        """Take ``need``."""
        if math.isfinite(self.level):
            refill = (now - self.at) * self.rate if math.isfinite(self.rate) else 0.0
            self.level = min(self.limit, self.level + refill) - need
            self.at = now


class Limiter:
    """Admit calls no faster than the provider allows.

    Parameters
    ----------
    clock, sleep : callable
        Replaced in tests.
    """

    def __init__(self, clock=time.monotonic, sleep=asyncio.sleep):
        self.clock, self.sleep = clock, sleep
        self.buckets = {}
        self.paused_until = -math.inf
        self.flying = {"calls": 0, "tokens": 0}

    def delay(self, tokens):
        """Return the seconds until a call that may use ``tokens`` can start."""
        now = self.clock()
        waits = [bucket.wait(_need(name, tokens), now) for name, bucket in self.buckets.items()]
        return max([0.0, self.paused_until - now, *waits])

    async def acquire(self, tokens):
        """Wait until a call may start, and count it as in flight."""
        while (delay := self.delay(tokens)) > 0:
            await self.sleep(delay)
        now = self.clock()
        for name, bucket in self.buckets.items():
            bucket.take(_need(name, tokens), now)
        self.flying["calls"] += 1
        self.flying["tokens"] += tokens

    def release(self, tokens):
        """Count a call as finished."""
        self.flying["calls"] -= 1
        self.flying["tokens"] -= tokens

    def pause(self, seconds):
        """Start no call for so many seconds."""
        self.paused_until = max(self.paused_until, self.clock() + seconds)

    def learn(self, headers):
        """Read the rate-limit headers (names in lower case) of a finished call, after its release."""
        now = self.clock()
        for name, pattern in _BUCKETS.items():
            limit, remaining = (_number(headers.get(pattern.format(what))) for what in ("limit", "remaining"))
            reset = seconds_until(headers.get(pattern.format("reset")))
            if limit and remaining is not None and reset is not None:
                others = self.flying["calls" if name.endswith("requests") else "tokens"]
                bucket = self.buckets.setdefault(name, Bucket(now))
                bucket.learn(limit, remaining, reset, others, now)


def _need(name, tokens):
    return 1 if name.endswith("requests") else tokens


def _number(text):
    try:
        number = float(text)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
