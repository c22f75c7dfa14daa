"""Labelled responses for contexts that have none: Algorithm 1 of the paper, and how good its sets
are.
"""

from dre.augment.algorithm import generate, recorded_responses

__all__ = ["generate", "recorded_responses"]
