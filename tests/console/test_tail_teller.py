"""Finished requests out of batches: each told once, with its phases, in whatever order rings and batches come."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.tailing import Teller, Told, as_json, wall_ns
from console.text.paint import paint
from console.text.tail import told_line
from recorder.records import SEQ
from recorder.run import ClockAnchor
from recorder.schema import TABLES
from recorder.tail.wire import Batch
from recorder.words import Phase, Status

MS = 1_000_000
VIRTUAL = ClockAnchor(kind="virtual")


def batch(table: str, rows: list[dict[str, Any]], first: int = 0) -> Batch:
    """Rows of a table as they come; what a row does not name is NULL."""
    schema = TABLES[table].arrow
    columns = [pa.array([row.get(name) for row in rows]).cast(schema.field(name).type) for name in schema.names]
    numbers = pa.array(range(first, first + len(rows)), pa.int64())
    shown = pa.Table.from_arrays(columns, schema=schema).append_column(SEQ, numbers)
    return Batch("frontend", table, first, first + len(rows), shown)


def life(rid: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The two rows of a request and its spans: queue, two stretches of prefill around one of preemption, decode."""
    start = rid * MS
    bounds = [start + offset for offset in (0, 10, 25, 70, 90, 200)]
    names = [Phase.QUEUE, Phase.PREFILL, Phase.PREEMPTED, Phase.PREFILL, Phase.DECODE]
    request = {"rid": rid, "attempt": 1, "request_id": f"r{rid}", "arrival": bounds[0]}
    rows = [
        request | {"status": Status.OPEN},
        request | {"status": Status.OK, "first_token": bounds[4], "returned": bounds[-1]},
    ]
    spans = [
        {"rid": rid, "attempt": 1, "name": name, "start": at, "end": until}
        for name, at, until in zip(names, bounds, bounds[1:], strict=False)
    ]
    return rows, spans


@settings(deadline=None)
@given(st.data())
def test_each_is_told_once_in_any_order(data: st.DataObject) -> None:
    rids = range(data.draw(st.integers(0, 6)))
    rows = [("requests", row) for rid in rids for row in life(rid)[0]]
    spans = [("spans", span) for rid in rids for span in life(rid)[1]]
    teller = Teller()
    told = [one for table, row in data.draw(st.permutations(rows + spans)) for one in teller.take(batch(table, [row]))]
    assert sorted(one.request["rid"] for one in told) == list(rids)
    assert list(teller.settle()) == []
    for one in told:
        assert one.complete
        assert one.phases == {"queue": 10, "prefill": 35, "decode": 110, "preempted": 45}
        assert list(one.phases) == ["queue", "prefill", "decode", "preempted"]
        assert (one.e2e_ns, one.ttft_ns) == (200, 90)


def test_one_that_lost_a_span_is_told_when_all_has_come() -> None:
    rows, spans = life(3)
    teller = Teller()
    assert [*teller.take(batch("spans", spans[:-1])), *teller.take(batch("requests", rows))] == []
    (told,) = teller.settle()
    assert not told.complete
    assert list(teller.settle()) == []
    assert "incomplete: records of it are missing" in paint([told_line(told, VIRTUAL)])
    assert as_json(told, "a")["complete"] is False


@pytest.mark.parametrize("status", [Status.REJECTED, Status.CANCELLED, Status.FAILED, Status.EXPIRED])
def test_those_without_an_answer_are_told_with_what_there_is(status: Status) -> None:
    teller = Teller()
    row = {"rid": 1, "attempt": 1, "arrival": 5, "status": status, "reason": "over \x1b[31mcapacity"}
    assert list(teller.take(batch("requests", [row]))) == []
    (told,) = teller.settle()
    assert told.complete
    line = paint([told_line(told, VIRTUAL)])
    assert f"req:1                    {status.value}" in line
    assert "over ·[31mcapacity" in line


def test_spans_of_requests_that_never_end_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.tailing._MOST_OPEN", 10)
    teller = Teller()
    for rid in range(1000):
        assert (
            list(teller.take(batch("spans", [{"rid": rid, "attempt": 1, "name": "queue", "start": 0, "end": 5}]))) == []
        )
    assert len(teller._spans) == 10


def test_other_tables_and_torn_spans_tell_nothing() -> None:
    teller = Teller()
    torn = {"rid": 1, "attempt": 1, "name": "queue", "start": 5}
    assert [*teller.take(batch("spans", [torn])), *teller.take(batch("steps", [{"step": 1}]))] == []


def test_a_line() -> None:
    rows, spans = life(0)
    teller = Teller()
    (told,) = [*teller.take(batch("spans", spans)), *teller.take(batch("requests", rows))]
    assert paint([told_line(told, VIRTUAL)]) == (
        "0.000s  r0                       ok            0 tok  e2e  200ns  ttft   90ns   "
        "queue 10ns prefill 35ns decode 110ns preempted 45ns\n"
    )
    real = ClockAnchor(mono_ns=0, wall_ns=86_400 * 10**9 + 1_500 * MS)
    assert paint([told_line(told, real)]).startswith("00:00:01.500  r0")
    assert (wall_ns(VIRTUAL, 5), wall_ns(real, 5)) == (None, real.wall_ns + 5)


def test_json_has_the_row_and_the_phases() -> None:
    rows, spans = life(7)
    teller = Teller()
    (told,) = [*teller.take(batch("spans", spans)), *teller.take(batch("requests", rows))]
    document = as_json(told, "run-a")
    assert document["run"] == "run-a"
    assert document["phases_ns"] == told.phases
    assert sum(document["phases_ns"].values()) == document["e2e_ns"] == document["returned"] - document["arrival"]


def test_what_is_not_known_is_not_made_up() -> None:
    told = Told({"arrival": None, "returned": 5, "first_token": None, "status": Status.OK}, {})
    assert (told.e2e_ns, told.ttft_ns) == (None, None)
