"""What workers on one machine come to by themselves: which GPU, how much memory, and one dtype for all of them."""

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch

from engine.model import device
from engine.model.device import cache_budget, pick_device, pick_dtype
from engine.model.source import open_model


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> list[torch.device]:
    """A machine with two of them; returns those that were made current."""
    current: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda place: (10_000, 20_000))
    return current


def test_workers_take_gpus_in_turns_and_share_what_is_left_of_one(gpus: list[torch.device]) -> None:
    places = [pick_device("auto", number) for number in range(3)]
    assert [place.index for place in places] == [0, 1, 0]
    assert gpus == places
    assert [cache_budget(places[0], workers) for workers in (1, 2, 3, 4)] == [8000, 8000, 4000, 4000]


def test_workers_on_cpu_share_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=8_000))
    cpu = pick_device("cpu", 3)
    assert (cpu.type, cache_budget(cpu), cache_budget(cpu, 4)) == ("cpu", 2000, 500)


@pytest.mark.parametrize(
    ("flags", "dtype"), [("fpu avx512f avx512_bf16", torch.bfloat16), ("fpu avx2 avx512f", torch.float32)]
)
def test_workers_among_several_choose_by_the_flags_and_not_by_a_stopwatch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, dtype: torch.dtype
) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags : {flags}\n")
    monkeypatch.setattr(device, "_CPU_INFO", tmp_path / "cpuinfo")
    spec = open_model("tiny", "dummy").spec
    assert pick_dtype("auto", torch.device("cpu"), spec, among_several=True) is dtype
    assert pick_dtype("fp32", torch.device("cpu"), spec, among_several=True) is torch.float32
