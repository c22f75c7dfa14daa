"""Augmentation: an LLM writes responses for contexts that have none (Algorithm 1), and how good such a set is."""

from dre.augment.algorithm import generate, recorded

__all__ = ["generate", "recorded"]
