"""Whole columns give the rows that were written one by one, and parts that follow each other."""

from pathlib import Path

import numpy as np
import pytest

from recorder.bulk import from_columns
from recorder.producer import PartProducer
from recorder.records import NO_WORD
from recorder.run import ClockAnchor, RunInfo, create_run, finish
from recorder.schema import EVENTS, NONE, SLICES, TABLES, code
from recorder.tables import open_tables
from recorder.words import Role


def test_unknowns_are_null_and_one_value_stands_for_a_column() -> None:
    rows = from_columns(
        SLICES,
        {"step": np.array([4, NONE]), "worker": 7, "role": np.array([code(Role.RECOMPUTE), NO_WORD])},
        2,
    ).to_pylist()
    assert [(row["step"], row["worker"], row["role"], row["rid"]) for row in rows] == [
        (4, 7, "recompute", None),
        (None, 7, None, None),
    ]


def test_texts_are_given_one_by_one_or_once() -> None:
    columns = {"request_id": ["a", "ü"], "tier": "paid"}
    rows = from_columns(TABLES["requests"], columns, 2).to_pylist()
    assert [(row["request_id"], row["tier"], row["tenant"]) for row in rows] == [
        ("a", "paid", None),
        ("ü", "paid", None),
    ]


def test_a_column_that_the_table_does_not_have_is_an_error() -> None:
    with pytest.raises(TypeError, match="no column surprise"):
        from_columns(EVENTS, {"surprise": 1}, 1)


def test_rows_by_one_and_in_bulk_stand_in_their_order(tmp_path: Path) -> None:
    run = create_run(tmp_path, RunInfo(run_id="run", clock=ClockAnchor(kind="virtual")))
    producer = PartProducer(run, "p", ["slices"])
    producer.row("slices", step=0, rid=1)
    producer.extend("slices", {"step": np.arange(1, 4), "rid": 2}, 3)
    producer.extend("slices", {}, 0)
    producer.row("slices", step=9, rid=3)
    producer.row("slices", step=10, rid=3)
    producer.close()
    finish(run)
    tables = open_tables(run)
    assert tables.damages == []
    names = sorted(path.name for path in tables.part_files("slices"))
    assert [name.split("-")[1].lstrip("0") + "-" + name.split("-")[2].lstrip("0") for name in names] == [
        "-1.parquet",
        "1-4.parquet",
        "4-6.parquet",
    ]
    assert tables.columns("slices", "step", "rid").to_pydict() == {
        "step": [0, 1, 2, 3, 9, 10],
        "rid": [1, 2, 2, 2, 3, 3],
    }
