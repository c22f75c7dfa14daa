"""What calls cost, by the prices of `genai_prices`, and the longest reply that is paid for."""

import math
import re
from collections.abc import Collection
from importlib.metadata import version
from typing import NamedTuple

from dre.errors import DreError
from dre.judges.providers import PROVIDERS

#: The share of the usual price that the providers' batch services cost.
_BATCH_SHARE = 0.5

# Tokens of a typical reply, by the kind of prompt.
REPLY = {"score": 20, "label": 10, "generate": 400}


# The most tokens of a reply, by models that answer at once and by those that think first.
_LONGEST = {"score": 1024, "label": 1024, "generate": 4096}
_LONGEST_THINKING = {"score": 8192, "label": 8192, "generate": 12288}

# Models that think before they answer. The first group must be at the beginning of the name, or
# after a provider.
_THINKING_MODELS = re.compile(
    r"(?:^|[/:])(?:"
    r"o\d|gpt-(?:[5-9]|oss)"
    r"|claude-(?:[a-z]+-[5-9]|[a-z]+-4-[7-9]|fable|mythos)"
    r"|gemini-(?:2\.5|[3-9]|[a-z-]*latest)"
    r")"
    r"|deepseek-?(?:r\d|v[4-9])|qwq|qwen-?3|magistral|glm-?[4-9]|kimi-k[2-9]|minimax-m|nemotron"
    r"|grok-[4-9]|hunyuan-t\d|seed-oss|exaone-deep|smollm3"
    r"|think|reason|\br1\b",
    re.IGNORECASE,
)
_THINKING_PARAMETERS = {
    "effort",
    "reasoning",
    "reasoning_effort",
    "think",
    "thinking",
    "thinking_config",
}


class Price(NamedTuple):
    """The price of a model, in US dollars per million tokens.

    Parameters
    ----------
    input, output : float
        Dollars per million tokens of the prompt and of the reply.
    source : str
        Where the numbers are from.
    batch_share : float
        The share of the price that a batch costs.
    cached : float or None
        Dollars per million tokens of input that is read from a cache (None: as any input).
    """

    input: float
    output: float
    source: str = "the price that you gave"
    batch_share: float = 1.0
    cached: float | None = None

    def cost(
        self,
        input_tokens: float | None,
        output_tokens: float | None,
        batch: bool = False,
        cached: float = 0,
    ) -> float | None:
        """Return the dollars that so many tokens cost; None if one of the two counts is unknown.

        Parameters
        ----------
        input_tokens, output_tokens : float or None
            Tokens of the prompt (those from a cache included) and of the reply (thinking included).
        batch : bool
            Whether they went through the provider's batch service.
        cached : float
            Tokens of the prompt that were read from a cache.
        """
        if input_tokens is None or output_tokens is None:
            return None
        cached_price = self.input if self.cached is None else self.cached
        fresh_tokens = input_tokens - cached
        dollars = fresh_tokens * self.input + cached * cached_price + output_tokens * self.output
        share = self.batch_share if batch else 1.0
        return share * dollars / 1e6


def find(provider: str, model: str, base_url: str = "") -> Price | None:
    """Return the price of a model, or None if it is not known.

    Prices are those of plain text in short prompts at the provider's own address, which is a
    ``base_url`` of "". A model on your own machine, such as Ollama's, costs nothing anywhere,
    unless it is one of a cloud.
    """
    if PROVIDERS[provider].is_own_machine:
        return None if "cloud" in model else Price(0.0, 0.0, "your own machine", cached=0.0)
    if base_url or not PROVIDERS[provider].listed_as:
        return None
    # It takes a fifth of a second to import, and only a live judge needs it.
    from genai_prices import Usage

    n_tokens = 1000
    per_million = 1e6 / n_tokens
    all_fresh = _listed_usd(provider, model, Usage(input_tokens=n_tokens))
    all_cached = _listed_usd(
        provider, model, Usage(input_tokens=n_tokens, cache_read_tokens=n_tokens)
    )
    reply = _listed_usd(provider, model, Usage(input_tokens=0, output_tokens=n_tokens))
    if all_fresh is None or all_cached is None or reply is None:
        return None
    return Price(
        input=all_fresh * per_million,
        output=reply * per_million,
        source=f"genai-prices {version('genai-prices')}",
        batch_share=_BATCH_SHARE,
        cached=all_cached * per_million,
    )


def _listed_usd(provider, model, usage):
    """Return what a call costs, in dollars; None if the model is in no list."""
    from genai_prices import calc_price

    try:
        listed = calc_price(usage, model, provider_id=PROVIDERS[provider].listed_as)
    except LookupError:
        return None
    return float(listed.total_price)


def provider_of(model: str) -> str | None:
    """Return the provider of a model by its name alone, or None if no known one lists it."""
    from genai_prices import Usage, calc_price

    try:
        listed = calc_price(Usage(input_tokens=1), model)
    except LookupError:
        return None
    names = {provider.listed_as: name for name, provider in PROVIDERS.items()}
    return names.get(listed.provider.id)


def given(text: str) -> Price:
    """Return the price in ``"0.15,0.60"``: dollars per million tokens in and out."""
    if not re.fullmatch(r"\d*\.?\d+,\d*\.?\d+", text):
        raise DreError(
            f"the price is {text!r}, "
            "expected IN,OUT in dollars per million tokens, such as 0.15,0.60"
        )
    input_price, output_price = text.split(",")
    return Price(float(input_price), float(output_price))


def longest(kind: str, provider: str, model: str, params: Collection[str] = ()) -> int:
    """Return the longest reply to a kind of prompt, in tokens, thinking included.

    Any model on the user's own machine may think.
    """
    if PROVIDERS[provider].is_own_machine or thinks(model, params):
        return _LONGEST_THINKING[kind]
    return _LONGEST[kind]


def in_words(usd: float, most_usd: float) -> str:
    """Say what calls are expected to cost, in US dollars, and what they cost at most."""
    if not most_usd:
        return "nothing"
    about = f"about ${usd:,.2f}" if usd >= 0.01 else "less than $0.01"
    rounded_up = math.ceil(100 * most_usd) / 100
    return f"{about}, at most ${rounded_up:,.2f}"


def thinks(model: str, params: Collection[str] = ()) -> bool:
    """Return whether a model is likely to think first, by its name or its parameters."""
    has_thinking_name = _THINKING_MODELS.search(model) is not None
    return has_thinking_name or not _THINKING_PARAMETERS.isdisjoint(params)


def most_tokens(messages: list[dict[str, str]], schema: dict[str, object] | None) -> int:
    """Return a number of tokens that a request cannot exceed: every token is at least one byte."""
    request = f"{messages}{schema}".encode("utf-8", "replace")
    return len(request) + 200
