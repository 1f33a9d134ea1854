"""Stalls of the host become samples: a long collection, a blocked event loop."""

import asyncio
import gc
import time
from contextlib import suppress
from pathlib import Path

from engine.stalls import GcPauses, sample_loop_lag
from recorder.producer import PartProducer
from recorder.run import RunInfo, create_run
from recorder.tables import open_tables
from recorder.words import Source


def _samples(run: Path) -> list[dict[str, object]]:
    return list(open_tables(run).table("samples").to_pylist())


def test_a_collection_that_takes_long_is_sampled(tmp_path: Path) -> None:
    run = create_run(tmp_path, RunInfo(run_id="r"))
    producer = PartProducer(run, "worker3", ["samples"])
    pauses = GcPauses(producer, Source.WORKER, 3).watch()
    cycles: list[list[object]] = [[] for _ in range(300_000)]
    for cycle in cycles:
        cycle.append(cycle)
    before = time.monotonic_ns()
    gc.collect()
    took_ms = (time.monotonic_ns() - before) / 1e6
    pauses.stop()
    gc.collect()
    producer.close()
    samples = _samples(run)
    assert {(row["source"], row["device"], row["name"]) for row in samples} == {("worker", 3, "gc_pause_ms")}
    assert 1 <= float(str(samples[-1]["value"])) <= took_ms


async def test_a_blocked_event_loop_is_sampled(tmp_path: Path) -> None:
    run = create_run(tmp_path, RunInfo(run_id="r"))
    producer = PartProducer(run, "frontend", ["samples"])
    written = asyncio.Event()
    row = producer.row

    def notice(table: str, **columns: object) -> bool:
        written.set()
        return row(table, **columns)

    producer.row = notice  # type: ignore[method-assign]
    watching = asyncio.ensure_future(sample_loop_lag(producer))
    await asyncio.sleep(0.05)
    time.sleep(0.2)
    await asyncio.wait_for(written.wait(), 60)
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    producer.close()
    (sample,) = _samples(run)
    assert (sample["source"], sample["name"]) == ("frontend", "event_loop_lag_ms")
    assert float(str(sample["value"])) >= 150
