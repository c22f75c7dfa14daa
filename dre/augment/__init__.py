"""Labelled responses for contexts that have none: Algorithm 1 of the paper."""

from dre.augment.algorithm import generate, recorded_responses

__all__ = ["generate", "recorded_responses"]
