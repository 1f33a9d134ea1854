"""The order of lanes: stable, and the same under every filter."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from console.ordering import ORDERS, Order, next_order, place_of

amounts = st.lists(st.integers(0, 5), max_size=30)


def ints(values: list[int]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array(values, np.int64)


@given(amounts, st.data())
def test_the_largest_is_on_top_and_equal_ones_stay_as_they_came(values: list[int], data: st.DataObject) -> None:
    order = Order.of("latency", ints(values))
    shown = ints(sorted(data.draw(st.sets(st.sampled_from(range(len(values))))) if values else []))
    arranged = order.arrange(shown).tolist()
    assert arranged == sorted(shown.tolist(), key=lambda lane: (-values[lane], lane))


@given(amounts, st.data())
def test_a_filter_takes_lanes_away_and_turns_none_around(values: list[int], data: st.DataObject) -> None:
    order = Order.of("decode", ints(values))
    everything = order.arrange(np.arange(len(values)))
    some = [lane for lane in range(len(values)) if data.draw(st.booleans())]
    assert order.arrange(ints(some)).tolist() == [lane for lane in everything.tolist() if lane in some]


def test_as_they_arrived_nothing_moves() -> None:
    assert Order().arrange(ints([2, 5, 9])).tolist() == [2, 5, 9]


@given(st.sampled_from(ORDERS), st.integers(-3, 3))
def test_orders_follow_each_other_both_ways(by: str, step: int) -> None:
    assert next_order(next_order(by, step), -step) == by


def test_a_lane_has_a_place_or_none() -> None:
    assert [place_of(ints([4, 0, 7]), lane) for lane in (4, 0, 7, 1, None)] == [0, 1, 2, None, None]
