"""What calls cost, by the price table ``prices.txt``, and the longest reply that is paid for."""

import re
from pathlib import Path
from typing import NamedTuple

from dre.errors import DreError

REPLY = {"score": 20, "label": 10, "generate": 400}  # tokens of a reply, about
LONGEST = {
    "score": (1024, 8192),
    "label": (1024, 8192),
    "generate": (4096, 12288),
}  # at most; where the model thinks
_THINKS = re.compile(
    r"(?:^|[/:])(?:o\d|gpt-(?:[5-9]|oss)|claude-(?:[a-z]+-[5-9]|fable|mythos)|gemini-(?:2\.5|[3-9]))"
    r"|deepseek-?(?:r\d|v[4-9])|qwq|qwen-?3|magistral|glm-?[4-9]|kimi-k2|minimax-m|nemotron|think|reason|\br1\b",
    re.IGNORECASE,
)
_THINKING = {"think", "thinking", "reasoning", "reasoning_effort"}


class Price(NamedTuple):
    """US dollars per million tokens, where the numbers are from, and the share of them that a batch costs.

    ``cached``: dollars of input that is read from a cache (None: as any input).
    """

    input: float
    output: float
    source: str = "given"
    batch_share: float = 1.0
    cached: float | None = None

    def cost(self, input_tokens, output_tokens, batch=False, cached=0):
        """Return the dollars of so many tokens, through the batch API or not; None if either count is unknown."""
        if input_tokens is None or output_tokens is None:
            return None
        saved = cached * (self.input - (self.input if self.cached is None else self.cached))
        dollars = (input_tokens * self.input - saved + output_tokens * self.output) / 1e6
        return dollars * (self.batch_share if batch else 1.0)


def find(provider, model, base_url=""):
    """Return the `Price` of a model at the provider's own address (one's own machine: anywhere), or None: not known."""
    for line in (Path(__file__).parent / "prices.txt").read_text().splitlines():
        pattern, read, cached, written, source = line.split(maxsplit=4)
        if re.fullmatch(pattern, f"{provider}:{model}") and (provider == "ollama" or not base_url):
            share = 1.0 if provider == "ollama" else 0.5
            return Price(float(read), float(written), source, share, float(cached))
    return None


def given(text):
    """Read a price such as ``"0.15,0.60"``: dollars per million tokens in and out."""
    if not re.fullmatch(r"\d*\.?\d+,\d*\.?\d+", text):
        raise DreError(
            f"the price is {text!r}, expected IN,OUT in dollars per million tokens, such as 0.15,0.60"
        )
    return Price(*map(float, text.split(",")))


def longest(kind, provider, model, params=()):
    """Return the longest reply to a kind of prompt, in tokens, thinking (any model of Ollama's may) included."""
    return LONGEST[kind][provider == "ollama" or thinks(model, params)]


def thinks(model, params=()):
    """Whether a model is likely to think before it answers, by its name or the parameters it is given."""
    return bool(_THINKS.search(model) or _THINKING & set(params))


def most_tokens(messages, schema):
    """Return a number of tokens that a request cannot exceed: every token is at least one byte."""
    return len(f"{messages}{schema}".encode("utf-8", "replace")) + 200
