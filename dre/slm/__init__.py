"""The small language model (SLM), Eq. 9-19.

Its encoder, its disentangling head, losses, training, and remembered scores.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what an editor sees
    from dre.slm.model import SLM as SLM
    from dre.slm.train import fit as fit

#: The module of each public name. Torch is loaded when one of them is used.
_HOME = {"SLM": "model", "fit": "train"}

__all__ = list(_HOME)


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"module 'dre.slm' has no attribute {name!r}")
    return getattr(importlib.import_module(f"dre.slm.{_HOME[name]}"), name)
