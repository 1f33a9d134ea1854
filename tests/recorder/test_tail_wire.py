"""Frames and positions of the tail: what is written is read, and nothing else is taken for it."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.records import SEQ
from recorder.run import RunInfo
from recorder.schema import SLICES, TABLES
from recorder.tail.wire import (
    Batch,
    Beat,
    End,
    Hello,
    Missed,
    TailError,
    Word,
    count_between,
    decode,
    decode_word,
    encode,
    encode_word,
    format_position,
    parse_position,
    parse_tables,
)
from tests.recorder.rows import expected_slices

rings = st.builds("{}.{}".format, st.from_regex(r"[a-z0-9_]{1,16}", fullmatch=True), st.sampled_from(sorted(TABLES)))
positions = st.dictionaries(rings, st.integers(0, 10**18 - 1), max_size=6)


def batch_of(first: int, last: int) -> Batch:
    rows = expected_slices(list(range(first, last))).append_column(SEQ, pa.array(range(first, last), pa.int64()))
    return Batch("worker0", "slices", first, last, rows)


@settings(deadline=None)
@given(positions)
def test_position_written_is_position_read(position: dict[str, int]) -> None:
    assert parse_position(format_position(position)) == position


def test_now_stays_a_word() -> None:
    assert parse_position("now") == "now"


@pytest.mark.parametrize(
    "text", ["", "worker0.steps", "worker0.steps:-1", "steps:5", "worker0.steps:5,", "a.steps:5;b.steps:6", "NOW"]
)
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(TailError, match="from must be start, now, or like"):
        parse_position(text)


def test_tables_by_name() -> None:
    assert parse_tables("requests,spans") == {"requests", "spans"}
    assert parse_tables("") == frozenset(TABLES)
    with pytest.raises(TailError, match="there is no table secrets: there are requests"):
        parse_tables("requests,secrets")


@settings(deadline=None)
@given(st.integers(0, 2**40), st.integers(0, 60))
def test_batch_written_is_batch_read(first: int, count: int) -> None:
    batch = batch_of(first, first + count)
    read = decode(encode(batch))
    assert (read.ring, read.first, read.last, read.unreadable) == ("worker0.slices", first, first + count, 0)
    assert read.rows.schema.equals(SLICES.arrow.append(pa.field(SEQ, pa.int64())))
    assert read.rows.to_pylist() == batch.rows.to_pylist()


@settings(deadline=None)
@given(st.binary(max_size=300) | st.integers(0, 1500).map(lambda size: encode(batch_of(0, 9))[:size]))
def test_what_is_no_batch_is_refused(frame: bytes) -> None:
    with pytest.raises(TailError):
        decode(frame)


@pytest.mark.parametrize(
    "word",
    [
        Hello(run_id="a", schema_version=1, run=RunInfo(run_id="a"), position={}, ends={}, resumed=True, t=5),
        Beat(t=1, ends={"worker0.steps": 3}, drops={"worker0.steps": 1}),
        Missed(ranges={"worker0.steps": (3, 9)}),
        End(state="sealed"),
    ],
)
def test_word_written_is_word_read(word: Word) -> None:
    assert decode_word(encode_word(word)) == word


@settings(deadline=None)
@given(st.text(max_size=60))
def test_what_is_no_word_is_refused(text: str) -> None:
    with pytest.raises(TailError):
        decode_word(text)


def test_what_was_missed_is_counted() -> None:
    assert Missed(ranges={"worker0.steps": (3, 9), "worker0.slices": (0, 100)}).count() == 106
    assert count_between({"a.steps": 5}, {"a.steps": 8, "b.steps": 4, "c.steps": 1}, ["a.steps", "b.steps"]) == 7
