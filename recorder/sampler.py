"""Readings of host, processes and devices, each second or so, as rows of `samples`."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import psutil
import pynvml

from recorder.narration import say
from recorder.producer import Producer
from recorder.words import Source

Reading = tuple[Source, int | None, str, float]
"""Who was measured, its number, what with its unit, and the value."""

_SOURCES: Final = {"frontend": Source.FRONTEND, "recorder": Source.RECORDER}

_THROTTLED: Final = {
    "power_cap": pynvml.nvmlClocksThrottleReasonSwPowerCap,
    "thermal": pynvml.nvmlClocksThrottleReasonSwThermalSlowdown,
    "hw_thermal": pynvml.nvmlClocksThrottleReasonHwThermalSlowdown,
    "hw_power_brake": pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
    "hw_slowdown": pynvml.nvmlClocksThrottleReasonHwSlowdown,
}
"""Why a device's clocks are held down, in the driver's bits. Idle clocks and set clocks are no throttling."""


class Sampler:
    """Appends readings to `samples` whenever `interval_s` has passed since the last ones."""

    def __init__(self, producer: Producer, interval_s: float) -> None:
        self._producer = producer
        self._interval_ns = int(interval_s * 1e9)
        self._due = 0
        self._processes: dict[int, psutil.Process] = {}
        self._devices = open_devices()
        psutil.cpu_percent(None)
        if not self._devices:
            say("no NVIDIA device here; only host readings are recorded")

    def tick(self, writers: Mapping[str, int]) -> None:
        """Sample if it is time. `writers` are the processes to measure: producer -> process id."""
        now = time.monotonic_ns()
        if now < self._due:
            return
        self._due = now + self._interval_ns
        for source, device, name, value in self.readings(writers):
            self._producer.row("samples", t=now, source=source, device=device, name=name, value=value)

    def readings(self, writers: Mapping[str, int]) -> Iterator[Reading]:
        """Everything that can be measured now. Percentages of CPU are of one core, since the last call."""
        yield Source.HOST, 0, "cpu_percent", psutil.cpu_percent(None)
        yield Source.HOST, 0, "memory_used_bytes", float(psutil.virtual_memory().used)
        for producer, pid in sorted(writers.items()):
            yield from self._process(producer, pid)
        for device in self._devices:
            yield from device.readings()

    def close(self) -> None:
        """Let go of the devices."""
        if self._devices:
            pynvml.nvmlShutdown()
            self._devices = []

    def _process(self, producer: str, pid: int) -> Iterable[Reading]:
        source, number = source_of(producer)
        try:
            process = self._processes.setdefault(pid, psutil.Process(pid))
            with process.oneshot():
                cpu, memory = process.cpu_percent(None), float(process.memory_info().rss)
        except psutil.Error:
            self._processes.pop(pid, None)
            return
        yield source, number, "cpu_percent", cpu
        yield source, number, "memory_bytes", memory


def source_of(producer: str) -> tuple[Source, int | None]:
    """`worker3` is worker number 3; whoever is neither front end nor recorder counts as a worker."""
    digits = producer.removeprefix("worker")
    return _SOURCES.get(producer, Source.WORKER), int(digits) if digits.isdecimal() else 0


@dataclass
class Device:
    """One NVIDIA device and the meters that it has."""

    index: int
    meters: dict[str, Callable[[], float]] = field(default_factory=dict)

    def readings(self) -> Iterator[Reading]:
        """One value per meter; a meter that fails once (a driver reload, a lost device) is silent until it works."""
        for name, meter in self.meters.items():
            try:
                yield Source.DEVICE, self.index, name, float(meter())
            except pynvml.NVMLError:
                continue


def open_devices() -> list[Device]:
    """The devices the driver shows, each with the meters it supports; none without a driver."""
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        return []
    return [Device(index, _working_meters(handle)) for index, handle in enumerate(handles)]


def _working_meters(handle: Any) -> dict[str, Callable[[], float]]:  # noqa: ANN401 - an opaque pointer of the driver
    return {name: meter for name, meter in _meters(handle).items() if _works(meter)}


def _works(meter: Callable[[], float]) -> bool:
    try:
        meter()
    except pynvml.NVMLError:
        return False
    return True


def _meters(handle: Any) -> dict[str, Callable[[], float]]:  # noqa: ANN401 - an opaque pointer of the driver
    nvml = pynvml
    return {
        "utilization_percent": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        "memory_utilization_percent": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).memory,
        "memory_used_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used,
        "power_watts": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
        "temperature_celsius": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        "sm_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
        "sm_activity_percent": SmActivity(handle).read,
        **{f"throttled_{why}": _throttled(handle, bit) for why, bit in _THROTTLED.items()},
    }


def _throttled(handle: Any, bit: int) -> Callable[[], float]:  # noqa: ANN401 - an opaque pointer of the driver
    """1 while the clocks are held down for this reason, else 0."""
    return lambda: float(bool(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle) & bit))


class SmActivity:
    """Mean share of SMs that had work since the last reading (SPEC B4), where the driver offers it (Hopper and on)."""

    def __init__(self, handle: Any) -> None:  # noqa: ANN401 - an opaque pointer of the driver
        self._handle = handle
        self._samples: list[Any] = []

    def read(self) -> float:
        """Percent; 0 at the first reading. Raises NVMLError where the device has no such meter."""
        if not self._samples:
            self._samples = self._first_samples()
            return 0.0
        before, now = self._samples
        pynvml.nvmlGpmSampleGet(self._handle, now)
        self._samples = [now, before]
        return _between(before, now)

    def _first_samples(self) -> list[Any]:
        if not pynvml.nvmlGpmQueryDeviceSupport(self._handle).isSupportedDevice:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        samples = [pynvml.nvmlGpmSampleAlloc() for _ in range(2)]
        pynvml.nvmlGpmSampleGet(self._handle, samples[0])
        return samples


def _between(before: Any, now: Any) -> float:  # noqa: ANN401 - opaque samples of the driver
    query = pynvml.c_nvmlGpmMetricsGet_t()
    query.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    query.numMetrics = 1
    query.sample1, query.sample2 = before, now
    query.metrics[0].metricId = pynvml.NVML_GPM_METRIC_SM_UTIL
    pynvml.nvmlGpmMetricsGet(query)
    if query.metrics[0].nvmlReturn != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(query.metrics[0].nvmlReturn)
    return float(query.metrics[0].value)
