"""The row of a step's way out: written with the last of its streams, and not held up forever by a slow one."""

import asyncio

import pytest

from engine.api import deliveries
from engine.api.deliveries import Delivery
from engine.messages import StepOutput
from recorder.schema import NONE

Row = tuple[object, ...]


def _delivery(rows: list[Row]) -> Delivery:
    output = StepOutput(0, 7, 100, [], [], [], 0, 0, 0, 0)

    def append(*row: object) -> bool:
        rows.append(row)
        return True

    return Delivery(output, 110, append)


async def test_the_last_stream_closes_the_row() -> None:
    rows: list[Row] = []
    closed: list[int] = []
    delivery = _delivery(rows)
    delivery.expect()
    delivery.expect()
    delivery.when_closed(lambda: closed.append(len(rows)))
    delivery.dispatched()
    delivery.written(130)
    assert (rows, closed) == ([], [])
    delivery.written(120)
    assert rows == [(0, 7, 100, 110, 130, 2)]
    delivery.when_closed(lambda: closed.append(-1))
    assert closed == [1, -1], "called after the row, or at once when there is one"


async def test_a_socket_that_is_written_before_all_are_known_does_not_close_it() -> None:
    rows: list[Row] = []
    delivery = _delivery(rows)
    delivery.expect()
    delivery.written(120)
    delivery.expect()
    delivery.dispatched()
    assert rows == []
    delivery.abandoned()
    assert rows == [(0, 7, 100, 110, 120, 1)]


async def test_a_step_without_streams_has_its_row_at_once() -> None:
    rows: list[Row] = []
    _delivery(rows).dispatched()
    assert rows == [(0, 7, 100, 110, NONE, 0)]


async def test_a_slow_stream_holds_the_row_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "PATIENCE_S", 0.0)
    rows: list[Row] = []
    delivery = _delivery(rows)
    delivery.expect()
    delivery.expect()
    waited = asyncio.Event()
    delivery.when_closed(waited.set)
    delivery.dispatched()
    delivery.written(120)
    await asyncio.wait_for(waited.wait(), 60)
    delivery.written(130)
    assert rows == [(0, 7, 100, 110, NONE, 2)]
