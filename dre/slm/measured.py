"""What training and scoring took: seconds, and the highest memory of a GPU, as measured."""

import time

import torch

_GIB = 2**30


class Meter:
    """Measures what is done from now on, on top of what was done before an interruption.

    Parameters
    ----------
    device : torch.device
        Where the model is. Memory is known of a GPU alone.
    seconds, gpu_gib : float and float or None
        What was measured before.
    """

    def __init__(self, device: torch.device, seconds: float = 0.0, gpu_gib: float | None = None):
        self._device = device
        self._is_gpu = device.type == "cuda"
        self._gib_before = gpu_gib
        if self._is_gpu:
            torch.cuda.reset_peak_memory_stats(device)
        self._started = time.monotonic() - seconds

    def values(self) -> dict:
        """Return ``seconds``, ``gpu_gib`` (the most that was allocated; None on a CPU), ``device``.

        The device is the name of the GPU, or ``cpu``.
        """
        gpu_gib = None
        name = self._device.type
        if self._is_gpu:
            torch.cuda.synchronize(self._device)
            gpu_gib = torch.cuda.max_memory_allocated(self._device) / _GIB
            gpu_gib = max(gpu_gib, self._gib_before or 0.0)
            name = torch.cuda.get_device_name(self._device)
        seconds = time.monotonic() - self._started
        return {"seconds": seconds, "gpu_gib": gpu_gib, "device": name}
