"""Telling a full or unwritable disk from other errors of a training."""

import contextlib
import tempfile
from pathlib import Path

from safetensors import SafetensorError

from dre.errors import DreError


@contextlib.contextmanager
def disk_errors(out):
    """Turn what a full or unwritable disk raises while ``out`` is made into one DreError; let the rest pass."""
    try:
        yield
    except (OSError, SafetensorError, RuntimeError) as error:
        # Tensor writers report a full disk as errors of their own; what they have in common is that the
        # file system refuses the next write, too.
        reason = getattr(error, "strerror", None) or _refuses_writes(out)
        if reason is None:
            raise
        raise DreError(
            f"cannot write the model to {out} ({reason}): free some space or name a writable folder; "
            "finished epochs are kept, and the same call goes on from there"
        ) from error


def _refuses_writes(out, size=1 << 20):
    """Return why a file of ``size`` bytes cannot be written beside ``out``, or None if it can."""
    try:
        with tempfile.TemporaryFile(dir=Path(out).parent) as file:
            file.write(bytes(size))
            file.flush()
    except OSError as error:
        return error.strerror
    return None
