"""Augmentation: negative responses for contexts that have none, written by an LLM or retrieved, and their quality."""
