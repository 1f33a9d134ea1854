import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recorder.drain import Drain, RecordSettings
from recorder.parts import Part, all_parts
from recorder.producer import PartProducer, RingProducer
from recorder.run import RunError
from recorder.schema import REQUESTS, SLICES, TABLES
from recorder.tables import open_pinned, open_tables, without_superseded, without_torn
from recorder.words import EventKind, Role, Status, StepKind
from tests.recorder.rows import append_slices, new_run, shown

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def ring_producer(run: Path) -> RingProducer:
    return RingProducer(run, "worker0", list(TABLES), 0.2)


@pytest.mark.parametrize("name", TABLES)
def test_empty_run_has_empty_tables(tmp_path: Path, name: str) -> None:
    tables = open_tables(new_run(tmp_path))
    assert tables.table(name).schema.equals(TABLES[name].arrow)
    assert tables.tail(name).schema.equals(TABLES[name].arrow)
    assert (tables.table(name).num_rows, tables.tail(name).num_rows, tables.part_files(name)) == (0, 0, [])
    assert (tables.damages, tables.drops, tables.last_steps()) == ([], {}, {})


def test_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is no run"):
        open_tables(tmp_path)


def write_ledger(producer: PartProducer | RingProducer) -> None:
    """Two requests, one done; three steps and the slices of a fourth that was killed."""
    producer.row("requests", rid=1, attempt=1, arrival=10, status=Status.OPEN)
    producer.row("requests", rid=2, attempt=1, arrival=5, status=Status.OPEN)
    for step in range(3):
        producer.row("slices", step=step, worker=0, rid=1, role=Role.DECODE, tokens=1)
        producer.row("steps", step=step, worker=0, t_sched=100 * step, kind=StepKind.DECODE)
    producer.row("slices", step=3, worker=0, rid=1, role=Role.DECODE, tokens=1)
    producer.row("events", t=301, worker=0, step=3, rid=1, kind=EventKind.FINISHED)
    producer.row("requests", rid=1, attempt=1, arrival=10, status=Status.OK, output_tokens=3)


@pytest.mark.parametrize("make", [lambda run: PartProducer(run, "worker0", list(TABLES)), ring_producer])
def test_requests_are_superseded_and_the_torn_step_is_left_out(
    tmp_path: Path, make: Callable[[Path], PartProducer | RingProducer]
) -> None:
    run = new_run(tmp_path)
    producer = make(run)
    write_ledger(producer)
    producer.close()
    tables = open_tables(run)
    requests = tables.table("requests").select(["rid", "status", "output_tokens"]).to_pylist()
    assert requests == [
        {"rid": 2, "status": "open", "output_tokens": None},
        {"rid": 1, "status": "ok", "output_tokens": 3},
    ]
    assert tables.table("slices")["step"].to_pylist() == [0, 1, 2]
    assert tables.table("events")["step"].to_pylist() == [3]
    assert tables.last_steps() == {0: 2}


def test_slices_of_a_worker_without_steps_are_left_out(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    producer = PartProducer(run, "worker0", ["slices", "steps"])
    producer.row("slices", step=0, worker=1, rid=1)
    producer.row("slices", step=0, worker=0, rid=2)
    producer.row("steps", step=0, worker=0)
    producer.close()
    assert open_tables(run).table("slices")["rid"].to_pylist() == [2]


ATTEMPTS = st.lists(
    st.tuples(st.integers(0, 2**40), st.integers(1, 3), st.sampled_from([Status.OPEN, Status.OK, Status.FAILED])),
    max_size=30,
)


@QUICK
@given(rows=ATTEMPTS, few=st.booleans())
def test_superseding_is_by_request_and_attempt(rows: list[tuple[int, int, Status]], few: bool) -> None:
    rows = [(rid % 4 if few else rid, attempt, status) for rid, attempt, status in rows]
    final = {(rid, attempt) for rid, attempt, status in rows if status != "open"}
    columns = {name: [row[i] for row in rows] for i, name in enumerate(("rid", "attempt", "status"))}
    table = pa.table(columns, schema=pa.schema([REQUESTS.arrow.field(name) for name in columns]))
    kept = without_superseded(table).to_pylist()
    assert [tuple(row.values()) for row in kept] == [
        row for row in rows if row[2] != "open" or (row[0], row[1]) not in final
    ]


def test_unknown_worker_or_step_is_no_row_of_a_finished_step() -> None:
    table = pa.table({"worker": [0, None, 0], "step": [1, 1, None]})
    assert without_torn(table, {0: 5}).to_pylist() == [{"worker": 0, "step": 1}]


Cuts = list[tuple[int, bool, bool]]


@QUICK
@given(
    ts=st.lists(st.integers(0, 20) | st.none(), max_size=60),
    cuts=st.lists(st.tuples(st.integers(0, 60), st.booleans(), st.booleans()), max_size=6),
)
def test_rows_do_not_depend_on_how_they_were_sealed(tmp_path: Path, ts: list[int | None], cuts: Cuts) -> None:
    """Whatever lies in rings, small parts or merged ones: the same table, in the same order (exactly once)."""
    plain, drained = new_run(tmp_path), new_run(tmp_path)
    everything = PartProducer(plain, "worker0", ["samples"])
    for number, t in enumerate(ts):
        everything.row("samples", t=t, value=number)
    everything.close()
    seal_in_pieces(drained, ts, cuts)
    assert open_tables(drained).table("samples").to_pylist() == open_tables(plain).table("samples").to_pylist()
    shutil.rmtree(drained)


def seal_in_pieces(run: Path, ts: list[int | None], cuts: Cuts) -> None:
    written = 0
    producer = RingProducer(run, "worker0", ["samples"], 0.1)
    for cut, seals, closes in [*sorted(cuts), (len(ts), False, False)]:
        while written < min(cut, len(ts)):
            producer.row("samples", t=ts[written], value=written)
            written += 1
        if closes:
            producer.close()
            producer = RingProducer(run, "worker0", ["samples"], 0.1)
        if seals:
            drain = Drain(run, RecordSettings(seal_interval_s=0))
            drain.tick()
            drain.own.close()
    producer.close()


def test_reader_keeps_what_it_saw(tmp_path: Path) -> None:
    """A snapshot stays: later rows are seen by whoever opens the run again."""
    run = new_run(tmp_path)
    producer = ring_producer(run)
    write_ledger(producer)
    early = open_tables(run)
    producer.row("steps", step=3, worker=0, t_sched=300)
    assert early.table("steps").num_rows == 3
    assert open_tables(run).table("steps").num_rows == 4
    assert open_tables(run).table("slices")["step"].to_pylist() == [0, 1, 2, 3]


def test_reader_survives_the_merge_that_takes_its_parts_away(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    for _ in range(3):
        producer = PartProducer(run, "worker0", ["samples"])
        producer.row("samples", t=1, value=1)
        producer.close()
    early = open_tables(run)
    assert len(early.part_files("samples")) == 3
    assert Drain(run, RecordSettings()).close()
    assert early.table("samples").num_rows == 3


@pytest.mark.parametrize("links", [True, False])
def test_pinned_parts_stay_whatever_a_merge_takes_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    """Also where the file system links nothing; and who pins while parts go away looks again."""
    run = new_run(tmp_path)
    for _ in range(3):
        producer = PartProducer(run, "worker0", ["samples"])
        producer.row("samples", t=1, value=1)
        producer.close()
    calls, link = [], os.link

    def link_later(source: Path, target: Path) -> None:
        calls.append(source)
        if len(calls) == 2:
            assert Drain(run, RecordSettings()).close()
        if not links and source.exists():
            raise OSError(errno.EXDEV, "another device")
        link(source, target)

    monkeypatch.setattr(os, "link", link_later)
    tables = open_pinned(run, tmp_path / "pinned")
    (file,) = tables.part_files("samples")
    assert file.is_relative_to(tmp_path / "pinned")
    shutil.rmtree(run / "samples")
    assert tables.table("samples").num_rows == 3
    assert sum(rows.num_rows for rows in tables.some_at_a_time("samples")) == 3


def test_columns_of_the_tail_match_the_parts(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    producer = ring_producer(run)
    write_ledger(producer)
    assert open_tables(run).tail("slices").schema.equals(SLICES.arrow)


def drops_of(**producers: dict[str, Any]) -> dict[tuple[str, str], int]:
    return {(producer, table): count for producer, tables in producers.items() for table, count in tables.items()}


def test_drops_are_known_after_the_rings_are_gone(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    producer = RingProducer(run, "worker0", ["samples"], 0.01)
    while producer.drops < 5:
        producer.row("samples", t=1)
    producer.close()
    assert open_tables(run).drops == drops_of(worker0={"samples": 5})
    assert Drain(run, RecordSettings()).close()
    assert not list((run / "rings").iterdir())
    assert open_tables(run).drops == drops_of(worker0={"samples": 5}, recorder={"samples": 0, "recorder": 0})


@pytest.fixture
def after_listing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Lets something happen just after the reader has listed the parts of `slices` for the first time."""
    pending: list[Callable[[], object]] = []

    def list_then_act(run: Path, table: str) -> list[Part]:
        listed = all_parts(run, table)
        if table == "slices" and pending:
            pending.pop()()
        return listed

    monkeypatch.setattr("recorder.tables.all_parts", list_then_act)
    return pending.append


def test_ring_overwritten_while_it_is_read(
    tmp_path: Path, after_listing: Callable[[Callable[[], object]], None]
) -> None:
    """The slots the reader wants are sealed, freed and filled again behind its back: it looks at the parts again."""
    run = new_run(tmp_path)
    producer, drain = RingProducer(run, "worker0", ["slices"], 0.01), Drain(run, RecordSettings(seal_interval_s=0))
    append_slices(producer, range(100))

    def overtake() -> None:
        drain.tick()
        append_slices(producer, range(100, 200))

    after_listing(overtake)
    tables = open_tables(run)
    assert (shown(tables), tables.damages) == (list(range(200)), [])


def test_run_closed_while_it_is_read(tmp_path: Path, after_listing: Callable[[Callable[[], object]], None]) -> None:
    """Rings vanish between the two looks of a reader: what it has open stays."""
    run = new_run(tmp_path)
    producer = RingProducer(run, "worker0", ["slices"], 0.01)
    append_slices(producer, range(100))
    producer.close()
    drain = Drain(run, RecordSettings())
    after_listing(drain.close)
    tables = open_tables(run)
    assert (shown(tables), tables.damages) == (list(range(100)), [])
