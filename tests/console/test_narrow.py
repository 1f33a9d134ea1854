"""Narrow columns hold what was put into them, lanes are the same looked at one by one, and changes are in order."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.changes import Change
from console.lane_columns import NAMES
from console.lanes import Lanes, load_lanes, whole_lanes
from console.narrow import Words, narrow, number_at, widened
from console.session import Session
from recorder.schema import NONE
from recorder.words import Status
from tests.console.tui_runs import mixed_ends

numbers = st.lists(st.one_of(st.just(NONE), st.integers(-(2**63) + 1, 2**63 - 1), st.integers(-130, 130)), max_size=20)


@given(numbers)
def test_numbers_are_the_same_again(values: list[int]) -> None:
    found = narrow(np.array(values, np.int64))
    assert widened(found).tolist() == values
    assert [number_at(found, place) for place in range(len(values))] == [v if v != NONE else None for v in values]


@pytest.mark.parametrize(
    ("values", "width"),
    [
        ([], 1),
        ([NONE, -127, 127], 1),
        ([-128], 2),
        ([NONE, 2**15], 4),
        ([-(2**31) + 1, 2**31 - 1], 4),
        ([2**31, NONE], 8),
    ],
)
def test_they_take_as_few_bytes_as_they_need(values: list[int], width: int) -> None:
    assert narrow(np.array(values, np.int64)).itemsize == width


@given(st.lists(st.sampled_from([None, "", "b", "a", "[red]"]), max_size=12), st.integers(0, 12))
def test_words_are_the_same_again(said: list[str | None], cut: int) -> None:
    found = Words.of(pa.chunked_array([said[:cut], said[cut:]], pa.string()))
    assert [found.at(place) for place in range(len(said))] == [word or "" for word in said]
    assert found.take(np.arange(len(said))).to_pylist() == said
    assert found.are("a").tolist() == [word == "a" for word in said]
    ranks = found.codes.tolist()
    assert [word for _, word in sorted(zip(ranks, said, strict=True))] == sorted(
        said, key=lambda word: (word is not None, word or "")
    )


def test_coded_words_are_places_among_all() -> None:
    found = Words.coded(Status, pa.chunked_array([[sorted(Status).index(Status.OK)], [None]], pa.int8()))
    assert [found.at(0), found.at(1)] == ["ok", ""]
    assert found.are("ok").tolist() == [True, False]


@pytest.fixture(scope="module")
def lanes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lanes]:
    with Session(mixed_ends(tmp_path_factory.mktemp("runs"))) as session, session.connect() as cursor:
        yield load_lanes(session, cursor)


def test_a_lane_alone_is_as_it_is_among_all(lanes: Lanes) -> None:
    every = {name: lanes.columns[name].tolist() for name in NAMES}
    for place in range(len(lanes)):
        alone = {name: NONE if value is None else value for name, value in lanes.columns.lane(place).items()}
        assert alone == {name: every[name][place] for name in NAMES}
        assert {name: lanes.columns.at(name, np.array([place])).tolist() for name in NAMES} == {
            name: [every[name][place]] for name in NAMES
        }


def test_the_last_change_is_the_newest_of_all(lanes: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
    rids, arrivals, returns = (lanes.columns[name].tolist() for name in ("rid", "arrival", "returned"))
    came = [Change(t, rid, "arrival", "", None) for t, rid in zip(arrivals, rids, strict=True)]
    went = [Change(t, rid, "returned", "", None) for t, rid in zip(returns, rids, strict=True) if t != NONE]
    for t in lanes.marks.tolist():
        newest = max((each for each in came + went if each.t <= t), key=lambda each: (each.t, each.rid, each.kind))
        found = lanes.last_change(t)
        assert found is not None
        assert (found.t, found.rid, found.kind) >= (newest.t, newest.rid, newest.kind)
        assert found in came + went or found.kind not in {"arrival", "returned"}
    assert lanes.last_change(lanes.window.low - 1) is None


def test_lanes_that_are_only_counted_have_no_names_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.lanes.MANY", 1)
    with Session(mixed_ends(tmp_path)) as session, session.connect() as cursor:
        found = load_lanes(session, cursor, whole=False)
        assert not found.is_whole
        assert (len(found.marks), found.last_change(found.window.high)) == (0, None)
        whole = whole_lanes(found, session, cursor)
        assert whole.is_whole and whole_lanes(whole, session, cursor) is whole
        assert [whole.lane(place) for place in range(len(whole))] == [
            load_lanes(session, cursor).lane(place) for place in range(len(whole))
        ]
