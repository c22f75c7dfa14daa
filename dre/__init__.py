"""A reproducible companion to the dialogue evaluation papers DRE and SLIDE."""

import importlib
from typing import TYPE_CHECKING

from dre.environment import VERSION, make_paths_absolute

__version__ = VERSION

make_paths_absolute()

# These names load torch or pandas, so they are imported only when somebody asks for them.
_LAZY = {
    "DRE": "dre.score.metric",
    "SLM": "dre.slm.model",
    "assert_not_worse": "dre.score.gate",
}

if TYPE_CHECKING:  # what an editor sees
    from dre.score.gate import assert_not_worse as assert_not_worse
    from dre.score.metric import DRE as DRE
    from dre.slm.model import SLM as SLM
else:

    def __getattr__(name):
        if name in _LAZY:
            return getattr(importlib.import_module(_LAZY[name]), name)
        raise AttributeError(f"module 'dre' has no attribute {name!r}")
