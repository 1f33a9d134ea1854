"""Stalls of the host that no request's stamps can name: pauses of the garbage collector, an event loop held up."""

import asyncio
import gc
import time
from typing import Final

from recorder.producer import Producer
from recorder.words import Source

_WORTH_NOTING_NS: Final = 1_000_000
_BEAT_S: Final = 0.02
_BEATS_A_SAMPLE: Final = 50


class GcPauses:
    """Samples `gc_pause_ms` of this process: each collection of at least 1 ms, from `watch` until `stop`."""

    def __init__(self, producer: Producer, source: Source, number: int = 0) -> None:
        self._row = producer.row
        self._source = source
        self._number = number
        self._started = 0

    def watch(self) -> "GcPauses":
        """Begin."""
        gc.callbacks.append(self._collection)
        return self

    def stop(self) -> None:
        """End; the producer may be closed after this."""
        gc.callbacks.remove(self._collection)

    def _collection(self, phase: str, info: dict[str, int]) -> None:
        now = time.monotonic_ns()
        if phase == "start":
            self._started = now
        elif now - self._started >= _WORTH_NOTING_NS:
            value = (now - self._started) / 1e6
            self._row("samples", t=now, source=self._source, device=self._number, name="gc_pause_ms", value=value)


async def sample_loop_lag(producer: Producer) -> None:
    """Samples `event_loop_lag_ms` of the front end until cancelled: the worst lateness of a timer in each second."""
    while True:
        worst = 0
        for _ in range(_BEATS_A_SAMPLE):
            due = time.monotonic_ns() + round(_BEAT_S * 1e9)
            await asyncio.sleep(_BEAT_S)
            worst = max(worst, time.monotonic_ns() - due)
        now = time.monotonic_ns()
        producer.row("samples", t=now, source=Source.FRONTEND, device=0, name="event_loop_lag_ms", value=worst / 1e6)
