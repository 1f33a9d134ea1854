"""How the processes of an engine come to their producer: rings of a run, or nothing where nothing is recorded."""

from collections.abc import Callable, Iterable
from pathlib import Path

from recorder.producer import Producer, RingProducer


class NoProducer:
    """Takes rows and keeps none: `[record] enabled = false`."""

    def append(self, table: str, *values: object) -> bool:
        """Nothing is dropped, since nothing was to be kept."""
        return True

    def appender(self, table: str) -> Callable[..., bool]:
        """`append` of one table."""
        return lambda *values: True

    def row(self, table: str, **columns: object) -> bool:
        """As `append`."""
        return True

    def close(self) -> None:
        """Nothing to hand over."""


def open_producer(run: Path | None, name: str, tables: Iterable[str], ring_mb: float) -> Producer:
    """Rings of `ring_mb` MiB a table in the folder `run`, or a producer that keeps nothing when there is no run."""
    return RingProducer(run, name, tables, ring_mb) if run else NoProducer()
