"""What a run will take: calls, tokens, money, time."""

import json
from dataclasses import dataclass

from dre.judges import length, prices

# Guesses for a judge of which nothing is stored yet: tokens a reply and seconds a call, and what thinking adds.
OUTPUT_TOKENS = {"score": 20, "label": 10, "generate": 400}
SECONDS = 2.0
THOUGHT_TOKENS, THOUGHT_SECONDS = 1000, 10.0


@dataclass(frozen=True)
class Estimate:
    """Calls that are left, and about what they take.

    Attributes
    ----------
    calls, stored : int
    input_tokens, output_tokens : int
    reply_tokens : int
        At most, a reply.
    most_input_tokens : int
        What the prompts cannot exceed.
    usd, most_usd : float or None
        About, and at most (every reply as long as it may be); None where no price is known.
    seconds : float
    price : dre.judges.prices.Price or None
    """

    calls: int
    stored: int
    input_tokens: int
    output_tokens: int
    reply_tokens: int
    most_input_tokens: int
    usd: float | None
    most_usd: float | None
    seconds: float
    price: prices.Price | None

    def __str__(self):
        tokens = f"{self.input_tokens:,} tokens in, {self.output_tokens:,} out (at most {self.reply_tokens:,} a reply)"
        if self.price is None:
            money = "price unknown (give --price IN,OUT)"
        else:
            money = f"${self.usd:.2f}, at most ${self.most_usd:.2f} ({self.price.source})"
        counts = f"{self.calls:,} calls to make, {self.stored:,} judgements stored"
        return f"{counts}\nabout {tokens}\n{money}\nabout {duration(self.seconds)}" if self.calls else counts


def estimate(plan, price, concurrency, reply=None):
    """Estimate what a `dre.judges.plan.Plan` still needs; stored judgements of the setting give the averages.

    ``reply``: tokens of a reply, thinking aside, where nothing is stored; None: those of its kind of prompt.
    """
    stored = list(plan.judgements.values())
    thinks = length.thinks(plan.setting.model, plan.params.get("extra"))
    reply = OUTPUT_TOKENS[plan.prompt.kind] if reply is None else reply
    output = _mean((one.output_tokens for one in stored), reply + thinks * THOUGHT_TOKENS)
    seconds = _mean((one.seconds for one in stored), SECONDS + thinks * THOUGHT_SECONDS)
    schema = json.dumps(plan.prompt.schema) if plan.params["structured"] == "json_schema" else ""
    texts = ["".join(message["content"] for message in task.messages) + schema for task in plan.missing.values()]
    tokens = sum(map(prices.estimated_tokens, texts))
    most = sum(map(prices.most_tokens, texts))
    calls = len(texts)
    return Estimate(
        calls,
        len(stored),
        tokens,
        round(calls * output),
        plan.params["max_tokens"],
        most,
        price.cost(tokens, calls * output) if price else None,
        price.cost(most, calls * plan.params["max_tokens"]) if price else None,
        seconds * calls / max(1, min(calls, concurrency)),
        price,
    )


def duration(seconds):
    """Return a time in words."""
    for unit, length_s in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {unit}"
    return f"{max(1, round(seconds))} seconds"


def _mean(values, default):
    values = [value for value in values if value is not None]
    return sum(values) / len(values) if values else default
