"""dre: a reproducible companion to the dialogue evaluation papers DRE and SLIDE.

Rooms, in the direction data flows (a room imports only from rooms to its left):
``data -> slm -> judges -> fusion -> stats -> report``.
"""

__version__ = "0.1.0"
