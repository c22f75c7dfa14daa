"""Augmentation: negative responses for contexts that have none, written by an LLM or retrieved, and their quality."""

import importlib

# Looked up when first used, so that `dre --help` loads none of it.
_WHERE = {
    "generate": "dre.augment.algorithm",
    "load": "dre.augment.algorithm",
    "recorded": "dre.augment.algorithm",
    "Result": "dre.augment.result",
}
__all__ = list(_WHERE)


def __getattr__(name):
    if name in _WHERE:
        return getattr(importlib.import_module(_WHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
