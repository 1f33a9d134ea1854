"""Attribution some requests at a time gives the integers of attribution all at once, wherever it cuts (SPEC F1)."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.attribution import attribute
from recorder.attribution.attribute import attribute_in_turn
from recorder.attribution.columns import Tables
from recorder.attribution.reading import Needed, SlicesOfParts
from recorder.attribution.slices import Slices, Source, Whole
from recorder.parts import Part, all_parts, read_numbered, write_part
from recorder.schema import TABLES
from recorder.tables import open_tables
from tests.recorder.ledgers import Ledger
from tests.recorder.simulated import simulate
from tests.recorder.test_attribution_random import runs


class Crumbs(Whole):
    """Slices in memory that come in chunks of any size."""

    def __init__(self, slices: Slices, size: int) -> None:
        super().__init__(slices)
        self._size = size

    def chunks(self, worker: int | None = None) -> Iterator[Slices]:
        for whole in super().chunks(worker):
            for first in range(0, max(len(whole.step), 1), self._size):
                yield whole.take(np.arange(first, min(first + self._size, len(whole.step))))


def in_turn(tables: Tables, slices: Source, most: int) -> list[pa.Table]:
    """What comes each time, whole attempts all of them."""
    found = list(attribute_in_turn(tables, slices, most))
    told = [set(zip(rows["rid"].to_pylist(), rows["attempt"].to_pylist(), strict=True)) for _, rows in found]
    assert sum(map(len, told)) == len(set().union(*told)), "an attempt is told once"
    return [rows for _, rows in found]


def rows_of(*tables: pa.Table) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for table in tables for row in table.to_pylist()), key=repr)


@given(runs, st.integers(1, 60), st.integers(1, 60), st.data())
@settings(max_examples=80, deadline=None)
def test_wherever_it_is_cut_the_integers_are_the_same(
    ledger: Ledger, most: int, size: int, data: st.DataObject
) -> None:
    """Also where rows were lost, attempts don't name their worker, or nobody knows whose a slice is."""
    table = data.draw(st.sampled_from(["steps", "slices", "deliveries", "events", "requests"]))
    for _ in range(data.draw(st.integers(0, 3))):
        if len(ledger.rows[table]) > 1:
            del ledger.rows[table][data.draw(st.integers(0, len(ledger.rows[table]) - 1))]
    if data.draw(st.booleans()):
        for row in ledger.rows["requests"][::2]:
            row["worker"] = None
    slices = Slices.read(ledger.table("slices"))
    assert rows_of(*in_turn(ledger, Crumbs(slices, size), most)) == rows_of(attribute(ledger))


def test_attempts_of_one_request_are_told_together() -> None:
    ledger = simulate(Random(5), requests=12, workers=2, blocks=9, passes=10_000)
    again = [dict(row) for row in ledger.rows["requests"][:4]]
    for row in again:
        later = row["returned"] + 1_000_000
        row.update(attempt=2, arrival=later, admitted=later + 1, queued=None, returned=later + 9)
    ledger.rows["requests"] += again
    slices = Slices.read(ledger.table("slices"))
    assert rows_of(*in_turn(ledger, Whole(slices), 7)) == rows_of(attribute(ledger))


def test_few_requests_at_a_time() -> None:
    ledger = simulate(Random(3), requests=14, workers=1, blocks=10, passes=10_000)
    slices = Slices.read(ledger.table("slices"))
    found = in_turn(ledger, Whole(slices), len(ledger.rows["slices"]) // 4)
    assert len(found) >= 4
    assert max(len(set(rows["rid"].to_pylist())) for rows in found) <= 8


def test_slices_in_parts_are_read_a_stretch_at_a_time(tmp_path: Path) -> None:
    """Parts that overlap and row groups that are out of order change nothing."""
    run = simulate(Random(11), requests=14, workers=2, blocks=10, passes=10_000).write(tmp_path)
    (whole,) = all_parts(run, "slices")
    rows = read_numbered(TABLES["slices"], whole)
    whole.path.unlink()
    cuts = [0, 7, 20, 21, rows.num_rows]
    for first, last in pairwise(cuts):
        part = Part.of(whole.path.parent, whole.producer, first, last)
        write_part(TABLES["slices"], part, [rows.slice(first, last - first).sort_by([("step", "descending")])])
    tables = open_tables(run)
    expected = rows_of(attribute(tables))
    for most in (5, 40):
        told: list[float] = []
        assert rows_of(*in_turn(Needed(tables), SlicesOfParts(tables, told.append), most)) == expected
        assert told == sorted(told)
        assert 0.5 < told[-1] <= 1
