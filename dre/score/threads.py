"""How many threads a small model should compute with, on a machine that others may use, too.

Threads that wait for each other on busy cores cost several times the processor time of one thread.
"""

import math
import os
from pathlib import Path

_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container, on Linux


def set_threads() -> None:
    """Let torch use as many threads as cores are free, unless ``OMP_NUM_THREADS`` says it."""
    if os.environ.get("OMP_NUM_THREADS"):
        return
    import torch

    most = min(n_cores(), torch.get_num_threads())
    torch.set_num_threads(suitable(most, _load()))


def suitable(n_cores: int, load: float) -> int:
    """Return the number of threads for a machine, at least 1.

    Parameters
    ----------
    n_cores : int
        Cores that this process may use.
    load : float
        How many other processes want a core, on average over the last minute.
    """
    return max(1, min(n_cores, math.floor(n_cores - load + 0.5)))


def n_cores() -> int:
    """Return how many cores this process may use: those of the machine, or of its container."""
    if hasattr(os, "sched_getaffinity"):
        n = len(os.sched_getaffinity(0))
    else:
        n = os.cpu_count() or 1
    try:
        quota, period = _QUOTA.read_text().split()
        n = min(n, max(1, int(quota) // int(period)))
    except (OSError, ValueError):  # no container, or "max": no limit
        pass
    return n


def _load():
    """Return the load of the last minute; 0 where the system does not know it."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return 0.0
