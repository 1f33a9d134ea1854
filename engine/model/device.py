"""Which device, dtype and thread count to use; measured where a rule would guess."""

import os
import time
from pathlib import Path

import psutil
import torch

from engine.model.errors import ModelError
from engine.model.linear import Linear
from engine.model.spec import ModelSpec

DEVICES = ("auto", "cpu", "cuda")
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
_CPU_INFO = Path("/proc/cpuinfo")
_BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""What Linux calls instructions that multiply bf16, on x86 and on ARM."""


def pick_device(device: str, number: int = 0) -> torch.device:
    """`auto` is the GPU where there is one; of several GPUs, workers take them in turns, by their `number`.

    Raises `ModelError` for cuda without a GPU, and for unknown names.
    """
    if device not in DEVICES:
        raise ModelError(f"device {device!r} is unknown; it is one of {', '.join(DEVICES)}")
    available = torch.cuda.is_available()
    if device == "cuda" and not available:
        raise ModelError("--device cuda: this machine has no usable CUDA GPU, or torch was built without CUDA")
    if not available or device == "cpu":
        return torch.device("cpu")
    place = torch.device("cuda", number % torch.cuda.device_count())
    torch.cuda.set_device(place)
    return place


def pick_dtype(dtype: str, device: torch.device, spec: ModelSpec, *, among_several: bool = False) -> torch.dtype:
    """`auto` is whichever computes faster: bf16 on GPUs that have it; on CPU it is timed, since CPUs differ.

    Workers `among_several` have to come to the same choice, or an answer would depend on who gives it: there the
    CPU's flags decide.
    """
    if dtype != "auto" and dtype not in DTYPES:
        raise ModelError(f"dtype {dtype!r} is unknown; it is one of auto, {', '.join(DTYPES)}")
    if dtype != "auto":
        return DTYPES[dtype]
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float32
    if among_several:
        return torch.bfloat16 if _BF16_FLAGS & set(_CPU_INFO.read_text().split()) else torch.float32
    return min(DTYPES.values(), key=lambda choice: _product_time(choice, spec))


def pick_threads(threads: int | None) -> int:
    """Threads for torch on CPU. By default one core is left over for front end and recorder.

    With all cores taken, OpenMP's barriers spin against the other processes: a 40 ms step was seen to take a second.
    """
    return threads or max(1, len(os.sched_getaffinity(0)) - 1)


def cache_budget(device: torch.device, workers: int = 1) -> int:
    """Bytes for the KV cache where nobody says: most of what a GPU has left; on CPU a quarter of it, 1 GiB at most.

    Of several workers, those that share a device share that.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free * 8 // 10 // -(-workers // torch.cuda.device_count())
    return min(psutil.virtual_memory().available // 4 // workers, 2**30)


def _product_time(dtype: torch.dtype, spec: ModelSpec) -> int:
    """Best of some products of the MLP's shape with 1 and 32 rows, in ns: a decode and a piece of a prefill."""
    linear = Linear(torch.randn(spec.intermediate, spec.hidden).to(dtype))
    return sum(_best_of(5, linear, torch.randn(rows, spec.hidden).to(dtype)) for rows in (1, 32))


def _best_of(times: int, linear: Linear, rows: torch.Tensor) -> int:
    best = []
    with torch.inference_mode():
        for _ in range(times):
            start = time.perf_counter_ns()
            linear(rows)
            best.append(time.perf_counter_ns() - start)
    return min(best)
