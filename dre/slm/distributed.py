"""The processes that ``torchrun`` starts: joining them, and agreeing on what one of them alone decides or writes."""

import atexit
import os
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from dre.errors import DreError

#: How long a process waits for another, which may be measuring or saving alone. A process that dies is noticed at once.
PATIENCE = timedelta(hours=2)


def join():
    """Join the group of this training's processes; without ``torchrun`` there is none, and nothing happens.

    Processes talk by NCCL where there are GPUs, one GPU a process, else by gloo.

    Raises
    ------
    DreError
        When a machine has fewer GPUs than processes.
    """
    if active() or "LOCAL_RANK" not in os.environ:
        return
    if torch.cuda.is_available():
        index, gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if index >= gpus:
            raise DreError(f"process {index + 1} of this machine finds {gpus} GPU(s): set --nproc-per-node to {gpus}")
        torch.cuda.set_device(index)
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", timeout=PATIENCE)
    atexit.register(dist.destroy_process_group)


def active():
    """Whether this process trains as one of a group."""
    return dist.is_available() and dist.is_initialized()


def rank():
    """Return the number of this process, from 0."""
    return dist.get_rank() if active() else 0


def size():
    """Return the number of processes."""
    return dist.get_world_size() if active() else 1


def on_first(compute):
    """Return what ``compute()`` returns in process 0, in every process; what it raises there, all raise.

    The others wait for it. The value must be picklable.
    """
    if not active():
        return compute()
    answer = [None, None]
    if rank() == 0:
        try:
            answer[0] = compute()
        except Exception as error:
            answer[1] = error
    dist.broadcast_object_list(answer, src=0)
    value, error = answer
    if error is not None:
        raise error
    return value


def require_shared(folder):
    """Raise a DreError in every process unless all of them see ``folder``."""
    if not active():
        return
    seen = [None] * size()
    dist.all_gather_object(seen, Path(folder).is_dir())
    if not all(seen):
        raise DreError(
            f"{folder} is seen by {sum(seen)} of {size()} processes: name a folder on a file system they all share, "
            "since each reads the checkpoints there"
        )
