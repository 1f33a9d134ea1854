"""Orders of the queue: who goes first, what is said about it, and that nobody starves (SPEC A6, D6)."""

import math
from itertools import count
from typing import Unpack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import Config, Ordering, SchedulerConfig
from engine.core import Event, Progress, Request
from engine.scheduling.order import FairOrder, KeyOrder, Order, level, make_order
from engine.scheduling.sequence import Sequence
from engine.simulate.cost import fixed_time
from engine.simulate.front import Arrival
from engine.simulate.stepped import simulate
from recorder.words import EventKind, Reason
from tests.engine.driving import Driver, Terms

NUMBERS = count(1)


def waiting(queued: int = 0, prompt: int = 8, **terms: Unpack[Terms]) -> Sequence:
    rid = next(NUMBERS)
    request = Request(rid, prompt, 8, queued, **terms)
    return Sequence(request, Progress(rid, 1, queued=queued))


def starts(order: Order) -> list[Sequence]:
    """Start all of them."""
    return [order.start() for _ in range(len(order))]


def filled(config: SchedulerConfig, *sequences: Sequence) -> Order:
    order = make_order(config)
    for sequence in sequences:
        order.join(sequence)
    return order


def scheduled(**scheduler: object) -> tuple[Driver, list[Event]]:
    """One slot, taken; then a low, a middle and a high one arrive. Their starts, in order."""
    drive = Driver(Config(scheduler=SchedulerConfig(max_num_seqs=1, **scheduler)), 100)  # type: ignore[arg-type]
    drive.add(1, 8, 2, tier="paid")
    drive.tick()
    for rid, tier in enumerate(("free", "", "paid"), 2):
        drive.add(rid, 50 - 10 * rid, 2, tier=tier, deadline=10_000 - rid)
    drive.run()
    return drive, [event for event in drive.events if event.kind is EventKind.SCHEDULED][1:]


def test_priorities_come_from_the_request_else_its_tier_else_the_default() -> None:
    config = SchedulerConfig(priority_levels=3, default_priority_level=2, tiers=("paid",))
    asked = [Request(1, 1, 1, 0, priority=p, tier=tier) for p, tier in ((3, "paid"), (0, "paid"), (0, ""), (9, ""))]
    assert [level(request, config) for request in asked] == [3, 1, 2, 3]


@pytest.mark.parametrize(
    ("scheduler", "expected"),
    [
        ({"order": "fcfs"}, [(2, Reason.NONE), (3, Reason.NONE), (4, Reason.NONE)]),
        (
            {"order": "priority", "tiers": ("paid", "standard", "free")},
            [(4, Reason.ORDER), (3, Reason.ORDER), (2, Reason.NONE)],
        ),
        ({"order": "spf"}, [(4, Reason.ORDER), (3, Reason.ORDER), (2, Reason.NONE)]),
        ({"order": "edf"}, [(4, Reason.ORDER), (3, Reason.ORDER), (2, Reason.NONE)]),
        ({"order": "spf", "min_share": 0.5}, [(2, Reason.MIN_SHARE), (4, Reason.ORDER), (3, Reason.NONE)]),
        ({"order": "priority", "ageing_ms": 0.0}, [(2, Reason.NONE), (3, Reason.NONE), (4, Reason.NONE)]),
    ],
)
def test_who_starts_next_and_why_is_in_the_ledger(
    scheduler: dict[str, object], expected: list[tuple[int, Reason]]
) -> None:
    _, events = scheduled(**scheduler)
    assert [(event.rid, event.reason) for event in events] == expected


def test_the_head_is_who_starts_next() -> None:
    drive = Driver(Config(scheduler=SchedulerConfig(max_num_seqs=1, order="spf")), 100)
    drive.add(1, 8, 9)
    drive.tick()
    drive.add(2, 30, 2)
    drive.add(3, 20, 2)
    head = drive.tick().head
    assert head is not None
    assert (head.rid, head.reason) == (3, Reason.SEQ_SLOTS)


def test_without_a_deadline_one_waits_for_those_with() -> None:
    late, none = waiting(0, deadline=500), waiting(0)
    assert starts(filled(SchedulerConfig(order="edf"), none, late)) == [late, none]


def test_one_level_is_worth_its_ageing_and_not_more() -> None:
    """SPEC D6: only who comes within (levels - 1) x ageing of it can overtake."""
    config = SchedulerConfig(order="priority", ageing_ms=1.0, min_share=0.01)
    low, high, later = waiting(0, priority=3), waiting(1_999_999, priority=1), waiting(2_000_001, priority=1)
    assert starts(filled(config, low, high, later)) == [high, low, later]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 100)), min_size=1, max_size=60), st.sampled_from([0.1, 0.3, 1])
)
def test_nobody_starves_in_an_order_by_key(script: list[tuple[int, int]], share: float) -> None:
    """SPEC D6: behind n others it starts within ceil(1 / share) x (n + 1) starts, whatever comes later."""
    every = math.ceil(1 / share)
    order = KeyOrder(lambda sequence: sequence.request.prompt_tokens, every)
    latest: dict[int, int] = {}
    done = 0
    for before, prompt in [*script, (len(script), 1)]:
        for _ in range(min(before, len(order))):
            done += 1
            assert done <= latest[order.start().rid]
        sequence = waiting(0, prompt)
        latest[sequence.rid] = done + every * (len(order) + 1)
        order.join(sequence)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["fcfs", "priority", "spf", "edf", "fair"]),
    st.lists(st.one_of(st.none(), st.integers(0, 9), st.builds(waiting, st.just(0), st.integers(1, 50)))),
)
def test_the_order_told_is_the_order_kept(kind: Ordering, script: list[Sequence | int | None]) -> None:
    """None: the front starts. A number: that one of the waiting is cancelled."""
    order = make_order(SchedulerConfig(order=kind, min_share=0.3))
    for item in script:
        waiting_now = list(order.in_order())
        assert len(waiting_now) == len(order)
        assert set(map(id, waiting_now)) == set(map(id, order._by_age.values()))
        if isinstance(item, Sequence):
            if item not in order:
                order.join(item)
        elif waiting_now and item is None:
            assert order.start() is waiting_now[0]
        elif waiting_now and item is not None:
            order.leave(waiting_now[item % len(waiting_now)])
    expected = list(order.in_order())
    assert starts(order) == expected


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 50), st.integers(1, 50)), min_size=10, max_size=80))
def test_tenants_that_wait_are_served_alike(script: list[tuple[bool, int, int]]) -> None:
    """While both have requests waiting, what they were given differs by less than two largest requests (VTC)."""
    order = FairOrder(output_weight=2)
    outputs: dict[int, int] = {}
    given_to = {"ada": 0, "bob": 0}
    for ada, prompt, output in [(True, 1, 1), (False, 1, 1), *script]:
        sequence = waiting(0, prompt, tenant="ada" if ada else "bob")
        outputs[sequence.rid] = output
        order.join(sequence)
    while len({sequence.request.tenant for sequence in order.in_order()}) == 2:
        sequence = order.start()
        order.served(sequence, outputs[sequence.rid])
        given_to[sequence.request.tenant] += sequence.request.prompt_tokens + 2 * outputs[sequence.rid]
        assert abs(given_to["ada"] - given_to["bob"]) <= 2 * (50 + 2 * 50)


def test_a_tenant_that_was_away_has_saved_nothing_up() -> None:
    order = FairOrder(output_weight=2)
    for _ in range(5):
        order.join(waiting(0, 100, tenant="busy"))
    first = order.start()
    order.served(first, 50)
    for _ in range(3):
        order.join(waiting(0, 100, tenant="back"))
    assert [sequence.request.tenant for sequence in starts(order)][:4] == ["busy", "back", "busy", "back"]


def test_serving_in_virtual_time_takes_the_same_order() -> None:
    """Tiers, tenants and deadlines reach the scheduler of a simulation as they reach that of a server."""
    config = Config(scheduler=SchedulerConfig(max_num_seqs=1, order="edf"))
    arrivals = [
        Arrival(arrival=t, prompt_tokens=8, max_tokens=2, deadline=deadline)
        for t, deadline in ((0, None), (1, None), (2, 9_000_000_000), (3, 8_000_000_000))
    ]
    outcomes = simulate(config, arrivals, fixed_time(100_000_000), num_blocks=100, max_model_len=100)
    ends = [outcome.end for outcome in outcomes]
    started = [end.first_scheduled or 0 for end in ends if end]
    assert sorted(range(4), key=lambda place: started[place]) == [3, 2, 0, 1]
