"""What keeps a process from its work becomes a stretch: a collection, a turn of the event loop, a cold step."""

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.core import Slice, StepPlan
from engine.stalls import GC_WORTH_NOTING_NS, LOOP_WORTH_NOTING_NS, Stalls, WatchedLoop, WorkerStalls
from recorder.producer import PartProducer
from recorder.run import RunInfo, create_run
from recorder.tables import open_tables
from recorder.words import Role, Source, StallKind

MS = 1_000_000


@pytest.fixture
def producer(tmp_path: Path) -> PartProducer:
    return PartProducer(create_run(tmp_path, RunInfo(run_id="r")), "worker3", ["stalls"])


@pytest.fixture
def rows(producer: PartProducer, tmp_path: Path) -> Callable[[], list[dict[str, Any]]]:
    """Ends the recording, and gives what it holds."""

    def read() -> list[dict[str, Any]]:
        producer.close()
        return list(open_tables(tmp_path / "r").table("stalls").to_pylist())

    return read


@pytest.fixture
def no_other_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class SlowToDie:
    """Garbage whose collection takes so long."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._itself = self

    def __del__(self) -> None:
        time.sleep(self._seconds)


@pytest.mark.usefixtures("no_other_collections")
def test_a_collection_is_a_stretch_until_nobody_watches(
    producer: PartProducer, rows: Callable[[], list[dict[str, Any]]]
) -> None:
    stalls = Stalls(producer, Source.WORKER, 3)
    stalls.watch()
    SlowToDie(0.02)
    before = time.monotonic_ns()
    gc.collect()
    after = time.monotonic_ns()
    stalls.stop()
    SlowToDie(0.02)
    gc.collect()
    (row,) = rows()
    assert before <= row["t_start"] <= row["t_end"] - 20 * MS <= after - 20 * MS
    assert (row["source"], row["device"], row["kind"], row["detail"]) == ("worker", 3, "gc", "generation 2")
    assert row["rid"] is None


@pytest.mark.usefixtures("no_other_collections")
def test_a_short_collection_stays_in_what_it_interrupted(
    producer: PartProducer, rows: Callable[[], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    stamps = iter([0, GC_WORTH_NOTING_NS - 1, 10 * MS, 10 * MS + GC_WORTH_NOTING_NS])
    monkeypatch.setattr("engine.stalls.time.monotonic_ns", lambda: next(stamps))
    stalls = Stalls(producer, Source.FRONTEND)
    stalls.watch()
    gc.collect()
    gc.collect(0)
    stalls.stop()
    (row,) = rows()
    assert (row["t_start"], row["t_end"], row["detail"]) == (10 * MS, 10 * MS + GC_WORTH_NOTING_NS, "generation 0")


@pytest.mark.usefixtures("no_other_collections")
def test_a_collection_in_the_middle_of_an_append_waits_for_its_end() -> None:
    """A ring's writer can't be entered twice, and collections begin wherever something is allocated."""
    entered: list[str] = []
    written: list[tuple[object, ...]] = []

    class Collecting:
        def appender(self, table: str) -> Callable[..., bool]:
            return self.append

        def append(self, *values: object) -> bool:
            assert not entered
            entered.append("append")
            if not written:
                SlowToDie(0.001)
                gc.collect()
            written.append(values)
            entered.pop()
            return True

    stalls = Stalls(Collecting(), Source.FRONTEND)  # type: ignore[arg-type]
    stalls.watch()
    stalls.note(StallKind.LOOP, 1, 2)
    assert len(written) == 1
    stalls.stop()
    assert len(written) == 2


def test_a_long_turn_of_the_event_loop_is_a_stretch(
    producer: PartProducer, rows: Callable[[], list[dict[str, Any]]]
) -> None:
    blocked: list[tuple[int, int]] = []

    def block() -> None:
        begin = time.monotonic_ns()
        time.sleep(0.02)
        blocked.append((begin, time.monotonic_ns()))

    async def main(loop: WatchedLoop) -> None:
        stalls = Stalls(producer, Source.FRONTEND)
        block()
        await asyncio.sleep(0)
        loop.watch(stalls)
        block()
        await asyncio.sleep(0.03)
        block()
        await asyncio.sleep(0)
        loop.watch(None)
        block()
        await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=WatchedLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, WatchedLoop)
        runner.run(main(loop))
    turns = rows()
    assert {(row["source"], row["kind"], row["rid"]) for row in turns} == {("frontend", "loop", None)}
    assert all(row["t_end"] - row["t_start"] >= LOOP_WORTH_NOTING_NS for row in turns)
    found = [any(row["t_start"] <= begin and end <= row["t_end"] for row in turns) for begin, end in blocked]
    assert found == [False, True, True, False]


def _plan(*rows: tuple[int, int]) -> StepPlan:
    """A step of so many tokens on top of so many."""
    return StepPlan(tuple(Slice(1, Role.DECODE if n == 1 else Role.PREFILL, n, before, []) for n, before in rows))


LOADING = [[(1, 128)], [(1, 128), (1, 128)], [(128, 0)]]


@pytest.mark.parametrize(
    ("step", "detail"),
    [
        ([(1, 5)], None),
        ([(1, 5), (1, 255)], None),
        ([(9, 0), (1, 40)], None),
        ([], None),
        ([(1, 256)], "decode 1 x 512"),
        ([(1, 5)] * 3, "decode 4 x 256"),
        ([(129, 0)], "prefill 256 x 256"),
        ([(100, 0), (29, 900), (1, 3)], "prefill 256 x 1024"),
        ([(100, 400), (1, 600)], "decode 1 x 1024, prefill 128 x 512"),
    ],
)
def test_what_a_step_of_a_new_shape_takes_beyond_its_prediction_is_a_stretch(
    producer: PartProducer,
    rows: Callable[[], list[dict[str, Any]]],
    step: list[tuple[int, int]],
    detail: str | None,
) -> None:
    stalls = WorkerStalls(producer, 3, LOADING)
    for begin in (1_000, 9_000):
        stalls.passed(_plan(*step), begin, begin + 700, 100)
    found = [(row["t_start"], row["t_end"], row["detail"], row["kind"], row["device"]) for row in rows()]
    assert found == ([(1_000, 1_600, detail, "warmup", 3)] if detail else [])


@pytest.mark.parametrize("predicted_ns", [None, 350, 699, 800])
def test_a_new_shape_is_not_cold_without_a_prediction_or_within_twice_of_it(
    producer: PartProducer, rows: Callable[[], list[dict[str, Any]]], predicted_ns: int | None
) -> None:
    stalls = WorkerStalls(producer, 0, LOADING)
    stalls.passed(_plan((1, 300)), 0, 700, predicted_ns)
    assert rows() == []


@pytest.mark.usefixtures("no_other_collections")
def test_a_collection_in_a_cold_step_is_not_taken_for_its_warm_up(
    producer: PartProducer, rows: Callable[[], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took 10 ms, 1 of them predicted and 3 collecting: 6 are for warming up, before and after the collection."""
    stamps = iter([2 * MS, 5 * MS])
    monkeypatch.setattr("engine.stalls.time.monotonic_ns", lambda: next(stamps))
    stalls = WorkerStalls(producer, 0, LOADING)
    stalls.watch()
    gc.collect()
    stalls.passed(_plan((1, 300)), 0, 10 * MS, MS)
    found = [(row["kind"], row["t_start"], row["t_end"]) for row in rows()]
    assert found == [("warmup", 0, 9 * MS), ("gc", 2 * MS, 5 * MS)]
    gc.callbacks.pop()
