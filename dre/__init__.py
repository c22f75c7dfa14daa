"""dre: a reproducible companion to the dialogue evaluation papers DRE and SLIDE.

Rooms, in the direction data flows (a room imports only from rooms to its left):
``data -> slm -> judges -> fusion -> stats -> report``.
"""

__version__ = "0.1.0"


def __getattr__(name):
    # torch and pandas load only when the metric is asked for.
    if name == "DRE":
        from dre.scoring.api import DRE

        return DRE
    raise AttributeError(f"module 'dre' has no attribute {name!r}")
