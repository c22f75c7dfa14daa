"""Scoring on Ray: the small model on every core or GPU of a machine or a cluster, results as from one process."""

import logging
import os
from pathlib import Path

import pandas as pd

from dre.errors import DreError
from dre.score.metric import DRE, METHODS, find

BLOCK = 2048  # pairs that an actor is given at once


def score_pairs(options, pairs, workers=None):
    """Score a table of pairs with one SLM per actor; rows, order and numbers are those of one process.

    ``options`` are those of `DRE.load`, the judge None or a recorded one. Ray runs where ``RAY_ADDRESS`` says, else on
    this machine. Each of the ``workers`` (default: as many as fit) has one GPU where there are any, else one core.
    """
    judge = options.get("judge")
    live = judge is not None and not judge.spec.startswith("recorded:")
    if live or "slm" not in METHODS[options.get("method") or "slm"][0]:
        raise DreError(
            "Ray shares out a small model, and a live judge waits in one process: leave --engine ray out"
        )
    try:
        import ray
        import ray.util
    except ImportError as error:
        raise DreError("Ray is not installed: pip install 'ray[data]==2.60.*'") from error
    options = options | {
        "slm": str(find(options.get("slm")))
    }  # absolute: an actor may run elsewhere
    if options.get("fusion"):
        options["fusion"] = str(Path(options["fusion"]).resolve())
    for name in ("RAY_raylet_start_wait_time_s", "RAY_DASHBOARD_STARTUP_TIMEOUT_S"):
        os.environ.setdefault(name, "300")  # a busy machine may take minutes
    ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        unit = "GPU" if ray.cluster_resources().get("GPU") else "CPU"
        size = int(ray.cluster_resources()[unit])
        actor = ray.remote(_Worker).options(**{f"num_{unit.lower()}s": 1})
        pool = ray.util.ActorPool(
            [actor.remote(options) for _ in range(min(workers or size, size))]
        )
        blocks = [pairs.iloc[start : start + BLOCK] for start in range(0, len(pairs), BLOCK)]
        return pd.concat(
            pool.map(lambda worker, block: worker.score_pairs.remote(block), blocks),
            ignore_index=True,
        )
    finally:
        ray.shutdown()


class _Worker(DRE):
    """An actor: it loads the metric once and scores block after block."""

    def __init__(self, options):
        vars(self).update(vars(DRE.load(**options)))
