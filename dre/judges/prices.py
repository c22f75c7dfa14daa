"""What a call costs: the dated price table ``prices.yaml``, and bounds on tokens."""

import functools
import math
import re
from dataclasses import dataclass
from importlib.resources import files

import yaml

from dre.errors import DreError


@dataclass(frozen=True)
class Price:
    """US dollars per million tokens, and where the numbers are from."""

    input: float
    output: float
    source: str
    batch_factor: float = 1.0

    def cost(self, input_tokens, output_tokens):
        """Return the dollars of so many tokens; None if either count is unknown."""
        if input_tokens is None or output_tokens is None:
            return None
        return (input_tokens * self.input + output_tokens * self.output) / 1e6

    def batch(self):
        """Return the price through the provider's batch API."""
        factor = self.batch_factor
        return Price(self.input * factor, self.output * factor, f"{self.source}, batch", 1.0)


@functools.cache
def table():
    """Return the price table: ``date``, and per provider ``source`` and ``models``."""
    return yaml.safe_load(files("dre.judges").joinpath("prices.yaml").read_text(encoding="utf-8"))


def find(provider, model, base_url=""):
    """Return the `Price` of a model, or None where it is not known.

    A provider's prices hold at its own address only; a model matches a whole pattern, so that a newer model never
    passes for an older one.
    """
    entry = table()["providers"].get(provider)
    if entry is None or (base_url and not entry.get("any_address")):
        return None
    for row in entry["models"]:
        if re.fullmatch(row["pattern"], model):
            source = f"{row.get('source', entry['source'])}, {row.get('date', table()['date'])}"
            return Price(row["input"], row["output"], source, entry.get("batch_factor", 1.0))
    return None


def named():
    """Return ``{"provider:model": Price}`` of the models that the table lists by name."""
    listed = [(provider, row) for provider, entry in table()["providers"].items() for row in entry["models"]]
    return {f"{provider}:{row['name']}": find(provider, row["name"]) for provider, row in listed if "name" in row}


def given(text):
    """Read a price from the command line: ``"0.15,0.60"``, dollars per million tokens in and out."""
    try:
        numbers = [float(part) for part in text.split(",")]
        if len(numbers) == 2 and all(math.isfinite(number) and number >= 0 for number in numbers):
            return Price(*numbers, "given")
    except ValueError:
        pass
    raise DreError(f"the price is {text!r}, expected IN,OUT in dollars per million tokens, such as 0.15,0.60")


def estimated_tokens(text):
    """Return roughly how many tokens a text has: four bytes each, as in English."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


def most_tokens(text):
    """Return a number of tokens that a text cannot exceed: every token is at least one byte."""
    return len(text.encode("utf-8", "replace"))
