import math
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recorder.producer import PartProducer, RingProducer
from recorder.records import conform, cut
from recorder.schema import REQUESTS, SAMPLES, SLICES, TABLES, Column, Table
from recorder.tables import open_tables
from recorder.words import Phase, Role, Status
from tests.recorder.rows import new_run

INT64 = st.integers(-(2**63) + 1, 2**63 - 1)


def values_of(column: Column) -> st.SearchStrategy[Any]:
    if isinstance(column.kind, int):
        return st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=column.kind)
    if issubclass(column.kind, StrEnum):
        return st.none() | st.sampled_from(list(column.kind))
    return st.none() | (INT64 if column.kind is int else st.floats(allow_nan=False))


def rows_of(table: Table) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={column.name: values_of(column) for column in table.columns})


def read_back(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    """What a reader must see: text cut at its width, words as strings, None where nothing was given."""
    texts = {column.name: column.kind for column in table.columns if isinstance(column.kind, int)}
    seen = {column.name: row.get(column.name) for column in table.columns}
    for name, width in texts.items():
        seen[name] = cut(row.get(name, ""), width).decode()
    return {name: str(value) if isinstance(value, StrEnum) else value for name, value in seen.items()}


@pytest.mark.parametrize("make", [PartProducer, lambda run, name, tables: RingProducer(run, name, tables, 0.1)])
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_row_written_is_row_read(tmp_path: Path, table: Table, make: Callable[..., Any], data: st.DataObject) -> None:
    rows = data.draw(st.lists(rows_of(table), max_size=5))
    run = new_run(tmp_path)
    producer = make(run, "worker0", [table.name])
    for row in rows:
        assert producer.row(table.name, **row)
    producer.close()
    tables = open_tables(run)
    parts = map(pq.read_table, tables.part_files(table.name))
    whole = pa.concat_tables([tables.tail(table.name), *parts], promote_options="default")
    seen = conform(table, whole)
    assert seen.schema.equals(table.arrow)
    expected = [read_back(table, row) for row in rows]
    assert sorted(seen.to_pylist(), key=repr) == sorted(expected, key=repr)


@given(text=st.text(), width=st.integers(1, 64))
def test_text_is_cut_between_characters(text: str, width: int) -> None:
    raw = cut(text, width)
    assert len(raw) <= width
    assert text.encode("utf-8", "replace").startswith(raw)
    raw.decode("utf-8")


def test_equal_words_of_different_columns_have_their_own_codes(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    producer = PartProducer(run, "worker0", ["slices", "spans", "steps"])
    producer.row("slices", role=Role.DECODE, worker=0, step=0)
    producer.row("spans", name=Phase.DECODE)
    producer.row("steps", worker=0, step=0)
    producer.close()
    tables = open_tables(run)
    assert tables.table("slices")["role"].to_pylist() == ["decode"]
    assert tables.table("spans")["name"].to_pylist() == ["decode"]


def test_unknown_column_is_refused(tmp_path: Path) -> None:
    producer = PartProducer(new_run(tmp_path), "worker0", ["slices"])
    with pytest.raises(TypeError, match="slices has no column colour"):
        producer.row("slices", colour=3)


def test_word_of_another_column_is_refused(tmp_path: Path) -> None:
    producer = PartProducer(new_run(tmp_path), "worker0", ["slices"])
    with pytest.raises(ValueError, match="open"):
        producer.row("slices", role=Status.OPEN)


def test_nan_reads_as_unknown(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    producer = PartProducer(run, "worker0", ["samples"])
    producer.row("samples", t=1, value=math.nan)
    producer.close()
    assert open_tables(run).table("samples")["value"].to_pylist() == [None]


def test_columns_that_an_older_part_lacks_are_null() -> None:
    older = pa.table({"rid": [1], "status": ["ok"]})
    row = conform(REQUESTS, older).to_pylist()[0]
    assert (row["rid"], row["status"], row["request_id"], row["kv_used"]) == (1, "ok", None, None)


def test_words_have_one_dictionary_whatever_a_part_holds() -> None:
    """DuckDB and Arrow give dictionaries in the order of first sight; a reader shows them in the order of codes."""
    column = pa.array(["recompute", "prefill"]).dictionary_encode()
    rows = conform(SLICES, pa.table({"role": column}))
    assert rows["role"].chunk(0).dictionary.to_pylist() == list(SLICES.columns[3].words)
    assert SAMPLES.columns[1].words
