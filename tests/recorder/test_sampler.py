import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from recorder import sampler as sampler_module
from recorder.producer import PartProducer
from recorder.sampler import Device, Sampler, open_devices, source_of
from recorder.schema import SAMPLES
from recorder.tables import open_tables
from recorder.words import Source
from tests.recorder.rows import new_run


@pytest.fixture
def producer(tmp_path: Path) -> PartProducer:
    return PartProducer(new_run(tmp_path), "recorder", ["samples"])


@pytest.fixture
def no_devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sampler_module, "open_devices", list)
    yield


def test_host_and_processes_are_read(producer: PartProducer, no_devices: None) -> None:
    sampler = Sampler(producer, 1.0)
    readings = {(source, name): value for source, _, name, value in sampler.readings({"worker0": os.getpid()})}
    assert set(readings) == {
        (Source.HOST, "cpu_percent"),
        (Source.HOST, "memory_used_bytes"),
        (Source.WORKER, "cpu_percent"),
        (Source.WORKER, "memory_bytes"),
    }
    assert readings[Source.WORKER, "memory_bytes"] > 10**6
    assert readings[Source.HOST, "memory_used_bytes"] > readings[Source.WORKER, "memory_bytes"] / 2


def test_process_that_has_gone_is_passed_over(producer: PartProducer, no_devices: None) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    sampler = Sampler(producer, 1.0)
    assert {source for source, *_ in sampler.readings({"worker3": process.pid})} == {Source.HOST, Source.WORKER}
    process.communicate(b"\n")
    assert {source for source, *_ in sampler.readings({"worker3": process.pid})} == {Source.HOST}


def test_rows_are_written_once_an_interval(producer: PartProducer, no_devices: None, tmp_path: Path) -> None:
    sampler = Sampler(producer, 3600)
    for _ in range(5):
        sampler.tick({})
    sampler.close()
    producer.close()
    (run,) = (path.parent for path in tmp_path.glob("*/run.json"))
    rows = open_tables(run).table("samples").to_pylist()
    assert [row["name"] for row in rows] == ["cpu_percent", "memory_used_bytes"]
    assert len({row["t"] for row in rows}) == 1


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("frontend", (Source.FRONTEND, 0)),
        ("recorder", (Source.RECORDER, 0)),
        ("worker12", (Source.WORKER, 12)),
        ("import", (Source.WORKER, 0)),
    ],
)
def test_producers_have_sources(name: str, source: tuple[Source, int]) -> None:
    assert source_of(name) == source


def test_no_driver_is_told(
    producer: PartProducer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", missing)
    Sampler(producer, 1.0).close()
    assert "no NVIDIA device here; only host readings are recorded" in capsys.readouterr().err


def test_meter_that_fails_is_silent_until_it_works() -> None:
    answers = iter([1.0, None, 3.0])

    def meter() -> float:
        answer = next(answers)
        if answer is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return answer

    device = Device(2, {"power_watts": meter})
    assert [list(device.readings()) for _ in range(3)] == [
        [(Source.DEVICE, 2, "power_watts", 1.0)],
        [],
        [(Source.DEVICE, 2, "power_watts", 3.0)],
    ]


def test_why_clocks_are_held_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reason is a meter of its own, so that a mean is its share of a window; idling is none."""
    reasons = pynvml.nvmlClocksThrottleReasonSwPowerCap | pynvml.nvmlClocksThrottleReasonGpuIdle

    def unsupported(*_: object) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 1)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: f"handle {index}")
    for call in ("UtilizationRates", "MemoryInfo", "PowerUsage", "Temperature", "ClockInfo"):
        monkeypatch.setattr(pynvml, f"nvmlDeviceGet{call}", unsupported)
    monkeypatch.setattr(pynvml, "nvmlGpmQueryDeviceSupport", unsupported)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCurrentClocksThrottleReasons", lambda handle: reasons)
    (device,) = open_devices()
    assert {name: value for _, _, name, value in device.readings()} == {
        "throttled_power_cap": 1,
        "throttled_thermal": 0,
        "throttled_hw_thermal": 0,
        "throttled_hw_power_brake": 0,
        "throttled_hw_slowdown": 0,
    }


def test_devices_of_this_machine() -> None:
    """Where there is a driver: the meters every device has, and values in their range."""
    devices = open_devices()
    if not devices:
        pytest.skip("no NVIDIA device here")
    width = SAMPLES.columns[3].kind
    for device in devices:
        readings = {name: value for _, _, name, value in [*device.readings(), *device.readings()]}
        assert {"utilization_percent", "memory_used_bytes"} <= set(readings)
        assert all(0 <= value <= 100 for name, value in readings.items() if name.endswith("_percent"))
        assert isinstance(width, int)
        assert all(len(name) <= width for name in readings)
    pynvml.nvmlShutdown()
