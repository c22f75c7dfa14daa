"""A reproducible companion to the dialogue evaluation papers DRE and SLIDE."""

import importlib

__version__ = "0.1.0"

_LAZY = {"DRE": "dre.score.api", "SLM": "dre.slm.model", "assert_not_worse": "dre.score.gate"}


def __getattr__(name):
    # Loaded by name only when asked for: torch and pandas stay out of `import dre`.
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'dre' has no attribute {name!r}")
