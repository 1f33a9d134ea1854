"""Workers that are lost in virtual time, by the section `[faults]`: when, and when their front end finds out."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from engine.config import Config, ConfigError

_NS_PER_S: Final = 10**9


@dataclass(frozen=True, slots=True)
class Loss:
    """A worker does nothing any more from `at` on; `silent`: nor does its link end, so that only its silence tells."""

    worker: int
    at: int
    silent: bool


def planned_losses(config: Config, workers: int) -> list[Loss]:
    """Those that are configured, in order of time. Raises ConfigError for workers there are not, or are lost twice."""
    found = [*_read("worker_lost", config.faults.worker_lost), *_read("worker_silent", config.faults.worker_silent)]
    lost = [loss.worker for loss in found]
    if beyond := [worker for worker in lost if worker >= workers]:
        raise ConfigError(f"[faults] names worker {beyond[0]}, and of {workers} the last is {workers - 1}")
    if twice := [worker for worker in lost if lost.count(worker) > 1]:
        raise ConfigError(f"[faults] loses worker {twice[0]} twice; it does not come back, so drop one")
    return sorted(found, key=lambda loss: (loss.at, loss.worker))


def _read(name: str, text: str) -> Iterator[Loss]:
    for entry in text.split():
        worker, _, seconds = entry.partition("@")
        yield Loss(int(worker), int(Decimal(seconds) * _NS_PER_S), silent=name == "worker_silent")
