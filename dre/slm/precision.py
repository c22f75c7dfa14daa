"""Which number format the hardware multiplies itself."""

import torch


def native_bf16():
    """Whether the hardware multiplies bfloat16 itself; elsewhere it is emulated and slower than float32."""
    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, probe, lambda: False)() for probe in probes)
