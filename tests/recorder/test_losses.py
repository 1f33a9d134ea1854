"""What is lost is told: when it was, how much of what, and which requests may miss something."""

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.report import report
from console.session import Session
from recorder.drain import Drain, RecordSettings
from recorder.losses import Gap, lossy_windows
from recorder.parts import all_parts
from recorder.producer import PartProducer, RingProducer
from recorder.ring import RingReader
from recorder.run import ring_path
from recorder.schema import SLICES
from recorder.tables import open_tables
from recorder.words import Status, StepKind
from tests.recorder.rows import append_slices, new_run, slice_values

AT_ONCE = RecordSettings(seal_interval_s=0)
SLOTS = 101
RING_MB = SLOTS * SLICES.dtype.itemsize / 2**20
FOREVER = 2**62


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return new_run(tmp_path)


def overfill(producer: RingProducer, count: int) -> None:
    for number in range(count):
        producer.append("slices", *slice_values(number))


def told(folder: Path) -> list[tuple[str, str, int, int, bool]]:
    gaps = open_tables(folder).gaps
    return [(gap.producer, gap.table, gap.seq, gap.lost, gap.until is None) for gap in gaps]


def test_gap_is_told_the_same_from_the_ring_and_from_the_account(folder: Path) -> None:
    producer, drain = RingProducer(folder, "worker0", ["slices"], RING_MB), Drain(folder, AT_ONCE)
    overfill(producer, SLOTS + 7)
    assert told(folder) == [("worker0", "slices", SLOTS, 7, True)]
    drain.tick()
    assert told(folder) == [("worker0", "slices", SLOTS, 7, True)]
    append_slices(producer, range(3))
    (in_ring,) = open_tables(folder).gaps
    drain.tick()
    assert told(folder) == [("worker0", "slices", SLOTS, 7, False)]
    assert open_tables(folder).gaps == [in_ring]
    assert in_ring.since is not None
    assert in_ring.until is not None
    assert 0 < in_ring.since < in_ring.until


def test_last_gap_is_told_although_nothing_was_packed_after_it(folder: Path) -> None:
    producer = RingProducer(folder, "worker0", ["slices"], RING_MB)
    overfill(producer, SLOTS + 7)
    producer.close()
    assert Drain(folder, AT_ONCE).close()
    assert told(folder) == [("worker0", "slices", SLOTS, 7, False)]


def test_every_drop_is_in_exactly_one_gap(folder: Path) -> None:
    """However full ring, drain and restarts of the writer alternate: the gaps add up to the drops."""
    drain = Drain(folder, AT_ONCE)
    for count in (150, 20, 300, 101, 102, 500):
        producer = RingProducer(folder, "worker0", ["slices"], RING_MB)
        overfill(producer, count)
        producer.close()
        if count % 2:
            drain.tick()
    assert sum(gap.lost for gap in open_tables(folder).gaps) == open_tables(folder).drops["worker0", "slices"] > 0
    assert drain.close()
    assert sum(gap.lost for gap in open_tables(folder).gaps) == open_tables(folder).drops["worker0", "slices"] > 0


def passes(*stamps: tuple[int, int, int]) -> pa.Table:
    return pa.table({name: [row[i] for row in stamps] for i, name in enumerate(("worker", "t_sched", "t_end"))})


def gap(since: int | None, until: int | None, table: str = "slices") -> Gap:
    return Gap("worker0", table, 0, 1, since, until)


def test_window_reaches_back_to_the_pass_that_had_just_ended() -> None:
    ledger = passes((0, 0, 10), (0, 10, 20), (0, 20, 30), (1, 5, 24))
    assert lossy_windows([gap(25, 27)], ledger) == [(5, 27)]
    assert lossy_windows([gap(8, 27)], ledger) == [(8, 27)]
    assert lossy_windows([gap(31, 40), gap(12, 13)], passes((0, 0, 10), (0, 10, 20), (0, 20, 30))) == [
        (0, 13),
        (20, 40),
    ]


def test_losses_that_tell_of_no_request_make_no_window() -> None:
    assert lossy_windows([gap(25, 27, "samples"), gap(25, 27, "recorder")], passes()) == []


@given(ends=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 30)), max_size=8))
def test_windows_are_the_union_of_the_gaps(ends: list[tuple[int, int]]) -> None:
    windows = lossy_windows([gap(since, since + length) for since, length in ends], passes())
    covered = {t for since, length in ends for t in range(since, since + length + 1)}
    assert {t for begin, end in windows for t in range(begin, end + 1)} == covered
    assert all(one[1] < other[0] for one, other in pairwise(windows))


def test_unknown_ends_are_open() -> None:
    ((begin, end),) = lossy_windows([gap(None, None)], passes())
    assert begin < -FOREVER
    assert end > FOREVER


def request(producer: PartProducer, rid: int, arrival: int, returned: int | None) -> None:
    status = Status.OPEN if returned is None else Status.OK
    producer.row(
        "requests", rid=rid, attempt=1, request_id=f"r{rid}", arrival=arrival, returned=returned, status=status
    )


def test_requests_that_lived_in_a_gap_are_incomplete(folder: Path) -> None:
    """SPEC F8: shown as incomplete, not as if nothing were missing; the others are untouched."""
    producer = RingProducer(folder, "worker0", ["slices"], RING_MB)
    drain = Drain(folder, AT_ONCE)
    overfill(producer, SLOTS + 7)
    drain.tick()
    append_slices(producer, range(1))
    (lost,) = open_tables(folder).gaps
    assert lost.since is not None
    assert lost.until is not None
    since, until = lost.since, lost.until
    producer.close()
    assert drain.close()
    rows = PartProducer(folder, "frontend", ["requests", "steps"])
    rows.row(
        "steps",
        step=0,
        worker=0,
        t_sched=since - 90,
        t_exec=since - 80,
        t_done=since - 60,
        t_end=since - 50,
        kind=StepKind.IDLE,
    )
    for number, (arrival, returned) in enumerate(
        [
            (since - 200, since - 91),
            (since - 200, since - 89),
            (until, until + 1),
            (until + 1, until + 9),
            (since, None),
        ]
    ):
        request(rows, 1000 + number, arrival, returned)
    rows.close()
    with Session(folder) as session:
        found = session.query("SELECT rid, incomplete FROM latency ORDER BY rid")["incomplete"].to_pylist()
        told = report(session)["recorder"]
    assert found == [False, True, True, False, True]
    assert (told["incomplete"], told["drops"]) == (3, 7)
    assert told["gaps"] == [{"since": since, "until": until, "producer": "worker0", "table_name": "slices", "lost": 7}]


def test_without_losses_nothing_is_incomplete(folder: Path) -> None:
    producer = PartProducer(folder, "frontend", ["requests"])
    request(producer, 1, 5, None)
    producer.close()
    with Session(folder) as session:
        assert report(session)["recorder"]["incomplete"] == 0
        assert session.query("SELECT incomplete FROM latency")["incomplete"].to_pylist() == [False]


def test_damage_says_when_its_records_were_packed(folder: Path) -> None:
    """Slices carry no time of their own: the account of the recorder tells when they were taken."""
    producer, drain = RingProducer(folder, "worker0", ["slices"], RING_MB), Drain(folder, AT_ONCE)
    for first in (0, 10, 20):
        append_slices(producer, range(first, first + 10))
        drain.tick()
    account = open_tables(folder).table("recorder").to_pylist()
    part = all_parts(folder, "slices")[1]
    part.path.write_bytes(b"nothing")
    (damage,) = open_tables(folder).damages
    assert (damage.since, damage.until) == (account[0]["durable"], account[1]["t"])
    assert damage.file == f"slices/{part.path.name}"
    assert "is cut short (recorded after " in damage.what
    (lost,) = open_tables(folder).gaps
    assert (lost.seq, lost.lost, lost.since, lost.until) == (20, 10, damage.since, damage.until)


def test_damage_of_a_part_that_nobody_accounted_for_is_dated_by_its_footer(folder: Path) -> None:
    producer = PartProducer(folder, "worker0", ["samples"])
    for t in range(50, 70):
        producer.row("samples", t=t, value=t)
    producer.close()
    (part,) = all_parts(folder, "samples")
    raw = bytearray(part.path.read_bytes())
    raw[20] ^= 1
    part.path.write_bytes(raw)
    (damage,) = open_tables(folder).damages
    assert (damage.since, damage.until) == (50, 69)
    part.path.write_bytes(raw[:-1])
    assert "recorded at a time that nothing tells" in open_tables(folder).damages[0].what


def test_a_hole_in_a_ring_is_bounded_by_what_was_taken_before_it(folder: Path) -> None:
    producer, drain = RingProducer(folder, "worker0", ["slices"], RING_MB), Drain(folder, AT_ONCE)
    append_slices(producer, range(10))
    drain.tick()
    append_slices(producer, range(10, 20))
    path = ring_path(folder, "worker0", "slices")
    with RingReader(path, SLICES) as ring:
        offset = 4096 + 15 % ring.capacity * SLICES.dtype.itemsize
    with path.open("r+b") as file:
        file.seek(offset + 30)
        file.write(b"\xff\xff")
    (before,) = open_tables(folder).damages
    drain.tick()
    (after,) = open_tables(folder).gaps
    assert before.since == open_tables(folder).table("recorder")["durable"][0].as_py() == after.since
    assert (after.seq, after.lost) == (16, 1)
    assert after.until is not None
