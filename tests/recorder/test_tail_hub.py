"""The log of the newest frames: bounded, in order, and never waiting for a viewer."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.tail.hub import Entry, Hub
from recorder.tail.wire import Beat, End, decode
from tests.recorder.tails import RING
from tests.recorder.test_tail_wire import batch_of


@settings(deadline=None)
@given(counts=st.lists(st.integers(1, 40), max_size=30), room=st.integers(1, 30_000))
def test_a_viewer_that_reads_on_sees_each_record_once_or_is_told(counts: list[int], room: int) -> None:
    """Whatever has gone lies before what is kept, what is kept has no gap, and the newest entry is always there."""
    hub = Hub({RING: 7}, room)
    first = 7
    for count in counts:
        hub.publish(batch_of(first, first + count))
        first += count
    assert hub.ends == {RING: first}
    assert hub.end == len(counts)
    kept = [hub.at(place) for place in range(hub.begin, hub.end)]
    batches = [decode(entry.frame) for entry in kept if entry and isinstance(entry.frame, bytes)]
    assert len(batches) == len(kept)
    assert [batch.first for batch in batches[1:]] == [batch.last for batch in batches[:-1]]
    assert not counts or (batches and batches[-1].last == first)
    assert all(hub.at(place) is None for place in range(hub.begin))
    assert len(kept) <= 1 or sum(len(entry.frame) for entry in kept if entry) <= room


def test_records_that_do_not_continue_are_refused() -> None:
    hub = Hub({})
    hub.publish(batch_of(0, 5))
    for first in (4, 6):
        with pytest.raises(ValueError, match="goes on at 5"):
            hub.publish(batch_of(first, 9))


def test_words_concern_everybody_and_records_those_who_asked() -> None:
    assert Entry("word").concerns(frozenset())
    assert Entry(b"", RING, 5).concerns(frozenset({"slices"}))
    assert not Entry(b"", RING, 5).concerns(frozenset({"steps"}))


def test_who_was_left_behind_goes_on_at_the_final_word() -> None:
    hub = Hub({})
    assert hub.edge == 0
    hub.say(Beat(t=0, ends={}, drops={}))
    assert hub.edge == hub.end == 1
    hub.say(End(state="sealed"))
    assert hub.edge == 1
    entry = hub.at(hub.edge)
    assert entry is not None
    assert entry.final


async def test_who_waits_is_woken() -> None:
    hub = Hub({})
    waiting = [asyncio.ensure_future(hub.grown(place)) for place in (0, 0, 1)]
    await asyncio.sleep(0)
    hub.publish(batch_of(0, 1))
    await asyncio.wait(waiting[:2], timeout=10)
    assert [task.done() for task in waiting] == [True, True, False]
    hub.publish(batch_of(1, 2))
    await asyncio.wait_for(waiting[2], 10)
    await hub.grown(0)
