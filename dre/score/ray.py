"""Scoring on Ray: the small model on every core or GPU, with the results of one process."""

import importlib
import logging
import os
from typing import Any

import pandas as pd

from dre.errors import DreError
from dre.judges import is_recording
from dre.score.metric import DRE, METHODS
from dre.slm.provenance import find_slm

BLOCK = 2048  # pairs that an actor is given at once
#: Ray's own limits in seconds, which a busy machine needs longer than by default.
_WAITS = {"RAY_raylet_start_wait_time_s": "300", "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "300"}


def score_pairs(options: dict, pairs: pd.DataFrame) -> pd.DataFrame:
    """Score a table of pairs with one SLM for each GPU or, without one, for each core.

    Ray runs where ``RAY_ADDRESS`` says, else on this machine.

    Parameters
    ----------
    options
        Those of `DRE.load`; the judge is None or a recorded one.
    pairs
        As `dre.datasets.readers.pairs` makes them.

    Returns
    -------
    DataFrame
        The rows and their order are those of `DRE.score_pairs`; scores may differ by rounding.

    Raises
    ------
    DreError
        If there is no SLM to share out, the judge is a live one, or Ray is not installed.
    """
    judge = options.get("judge")
    is_live = judge and not is_recording(judge.spec)
    method = METHODS[options.get("method") or "small"]
    if is_live or "slm" not in method.needs:
        raise DreError(
            "--engine ray spreads the work of a small model over machines. A live judge needs one "
            "process, and some methods have no small model: leave --engine ray out"
        )
    try:
        # By its name: a type checker would take this file for it.
        ray: Any = importlib.import_module("ray")
        importlib.import_module("ray.util")
    except ImportError as error:
        raise DreError("Ray is not installed: pip install 'ray[data]==2.60.*'") from error

    # Absolute paths: an actor may run in another folder.
    options = {**options, "slm": str(find_slm(options.get("slm")))}

    for name, seconds in _WAITS.items():
        os.environ.setdefault(name, seconds)
    ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        resources = ray.cluster_resources()
        kind = "GPU" if resources.get("GPU") else "CPU"
        actor = ray.remote(_Worker).options(**{f"num_{kind.lower()}s": 1})
        pool = ray.util.ActorPool([actor.remote(options) for _ in range(int(resources[kind]))])
        starts = range(0, len(pairs), BLOCK)
        blocks = [pairs.iloc[first : first + BLOCK] for first in starts]
        tables = pool.map(lambda worker, block: worker.score_pairs.remote(block), blocks)
        return pd.concat(tables, ignore_index=True)
    finally:
        ray.shutdown()


class _Worker(DRE):
    """An actor: it loads the metric once and scores block after block."""

    def __init__(self, options):
        vars(self).update(vars(DRE.load(**options)))
