"""What calls cost, by the prices of `genai_prices`, and the longest reply that is paid for."""

import math
from importlib.metadata import version
from typing import NamedTuple

from dre.errors import DreError
from dre.judges.providers import PROVIDERS

REPLY = {"score": 20, "label": 10, "generate": 400}  # tokens of a typical reply, by kind of prompt
LONGEST = {"score": 2048, "label": 2048, "generate": 6144}  # thinking included


class Price(NamedTuple):
    """The price of a model, in US dollars per million tokens; ``cached`` of input from a cache."""

    input: float
    output: float
    source: str = "the price that you gave"
    cached: float | None = None

    def cost(self, input_tokens: float, output_tokens: float, cached_tokens: float = 0) -> float:
        """Return the dollars that tokens cost, of which some of the input came from a cache."""
        cached_price = self.input if self.cached is None else self.cached
        fresh = input_tokens - cached_tokens
        usd = fresh * self.input + cached_tokens * cached_price + output_tokens * self.output
        return usd / 1e6


def find(provider: str, model: str, base_url: str = "") -> Price | None:
    """Return the price of a model at its provider's own address, or None if it is not known."""
    if provider == "ollama":
        return None if "cloud" in model else Price(0.0, 0.0, "your own machine")
    listed_as = PROVIDERS[provider].listed_as
    if base_url or not listed_as:
        return None
    from genai_prices import Usage, calc_price  # it takes a fifth of a second

    def usd(**tokens):
        listed = calc_price(Usage(**tokens), model, provider_id=listed_as)
        return 1000 * float(listed.total_price)

    try:
        fresh = usd(input_tokens=1000)
        cached = usd(input_tokens=1000, cache_read_tokens=1000)
        output = usd(input_tokens=0, output_tokens=1000)
    except LookupError:
        return None
    return Price(fresh, output, f"genai-prices {version('genai-prices')}", cached)


def given(text: "str | Price") -> Price:
    """Return the price in ``"0.15,0.60"``: dollars per million tokens in and out."""
    if isinstance(text, Price):
        return text
    try:
        input_price, output_price = map(float, str(text).split(","))
        if not (0 <= input_price < math.inf and 0 <= output_price < math.inf):
            raise ValueError
    except ValueError:
        raise DreError(f"the price is {text!r}, expected IN,OUT such as 0.15,0.60") from None
    return Price(input_price, output_price)


def in_words(usd: float, most_usd: float) -> str:
    """Say what calls are expected to cost, in US dollars, and what they cost at most."""
    if not most_usd:
        return "nothing"
    about = f"about ${usd:,.2f}" if usd >= 0.01 else "less than $0.01"
    return f"{about}, at most ${math.ceil(100 * most_usd) / 100:,.2f}"


def most_tokens(messages: list[dict[str, str]], schema: dict[str, object] | None) -> int:
    """Return a number of tokens that a request cannot exceed: every token is at least one byte."""
    return len(f"{messages}{schema}".encode("utf-8", "replace")) + 200
