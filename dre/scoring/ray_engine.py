"""Scoring on Ray: the small model on every core or GPU of a machine or a cluster, results as from one process.

Ray Data streams the blocks of a file to actors that load the model once, gives them back in order, and hands the
block of an actor that died to another. Few blocks are on their way at a time, so memory does not grow with the file.
"""

import logging
import os
import pickle
from dataclasses import replace
from pathlib import Path

from dre.errors import DreError

#: A busy machine may take minutes to start Ray's own processes, which otherwise give up sooner.
_PATIENCE = {"RAY_raylet_start_wait_time_s": "300", "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "300"}
#: Blocks an actor is given ahead, so that it need not wait for the next.
AHEAD = 2


def engine(settings, workers=None):
    """Return an engine for `dre.scoring.run.score_file`.

    The cluster is the one that ``RAY_ADDRESS`` names or this process is connected to; without one, Ray starts on
    this machine and ends with the scoring. Every machine needs this package and, at the same path, the model.

    Parameters
    ----------
    settings : dre.scoring.scorer.Settings
        With a small model, and no judge that answers live.
    workers : int, optional
        Actors, each with one GPU where the cluster has any, else with one core. Default: all of them.

    Returns
    -------
    callable
        From `dre.scoring.readers.Blocks` to an iterator of their tables, in the same order.

    Raises
    ------
    DreError
        If Ray is not installed, or the settings are not for it.
    """
    if settings.judge and not settings.judge.startswith("recorded:"):
        raise DreError(
            "a live judge waits for its provider, which more processes do not shorten, and keeps its budget and store "
            "in one: leave --engine ray out, and raise --concurrency"
        )
    if not settings.slm:
        raise DreError(f"method {settings.method} has no small model to share out: leave --engine ray out")
    if workers is not None and workers < 1:
        raise DreError(f"workers is {workers}: expected at least 1")
    fusion = str(Path(settings.fusion).resolve()) if settings.fusion else None
    settings = replace(settings, slm=_everywhere(settings.slm), fusion=fusion)
    _ray()
    return lambda blocks: _tables(settings, workers, blocks)


def _everywhere(name):
    """The folder of a model as an absolute path, since an actor may not run where this process does."""
    from dre.scoring.models import find

    found = find(name)
    return found if isinstance(found, str) else str(found.resolve())


def _ray():
    for name, value in (_PATIENCE | {"RAY_USAGE_STATS_ENABLED": "0"}).items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise DreError("Ray is not installed: pip install 'ray[data]==2.60.*'") from error
    return ray


def _tables(settings, workers, blocks):
    ray = _ray()
    ours = not ray.is_initialized()
    if ours:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        for row in _dataset(ray, settings, workers, blocks).iter_rows():
            yield pickle.loads(row["block"])
    finally:
        if ours:
            ray.shutdown()


def _dataset(ray, settings, workers, blocks):
    context = ray.data.DataContext.get_current().copy()
    context.enable_progress_bars = context.print_on_execution_start = False
    context.execution_options.preserve_order = True
    context.target_max_block_size = 1  # one block of ours is one of Ray's: smaller ones would be put together
    resources = ray.cluster_resources()
    unit = "GPU" if resources.get("GPU") else "CPU"
    pool = ray.data.ActorPoolStrategy(size=workers or max(int(resources[unit]), 1), max_tasks_in_flight_per_actor=AHEAD)
    with ray.data.DataContext.current(context):
        rows = ray.data.read_datasource(_source(ray, blocks), override_num_blocks=1, num_cpus=0)
        return rows.map_batches(
            _Worker,
            fn_constructor_args=(settings,),
            batch_size=1,
            compute=pool,
            **({"num_gpus": 1} if unit == "GPU" else {"num_cpus": 1}),
        )


def _source(ray, blocks):
    """A Ray Data source that reads the file once, here, one block after the other."""
    import pandas as pd
    from ray.data.block import BlockMetadata
    from ray.data.datasource import ReadTask

    def read():
        return (pd.DataFrame({"block": [pickle.dumps(block)]}) for block in blocks)

    class Source(ray.data.Datasource):
        supports_distributed_reads = False

        def estimate_inmemory_data_size(self):
            return None

        def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
            return [ReadTask(read, BlockMetadata(None, None, None, None))]

    return Source()


class _Worker:
    """An actor: it opens the settings once and scores block after block."""

    def __init__(self, settings):
        self.scorer = settings.open()

    def __call__(self, batch):
        """Turn a batch of one pickled block of rows into one of its pickled table."""
        return {"block": [pickle.dumps(self.scorer.score_block(pickle.loads(block))) for block in batch["block"]]}
