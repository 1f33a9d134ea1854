"""Whatever comes, in whatever configuration: nothing is lost, nothing starves, the same input gives the same plans."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.config import Config, KvConfig, Ordering, SchedulerConfig, TimeoutAction
from engine.simulate.cost import KnownCost, LinearCost
from recorder.words import EventKind, Phase, Role
from tests.engine.driving import Driver


@dataclass(frozen=True)
class Offer:
    """A request of the script; `gap` passes after the one before, cancelled `leaves` passes after it came."""

    gap: int
    prompt: int
    max_tokens: int
    length: int
    leaves: int | None
    priority: int
    tenant: str
    deadline: int | None
    shared: int
    """So many tokens of its prompt are those that all begin with."""


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Config, int]:
    """A configuration, and a number of blocks that holds one or a few of the requests offered."""
    seqs = draw(st.sampled_from([1, 2, 4, 6, 6]))
    scheduler = SchedulerConfig(
        policy=draw(st.sampled_from(["immediate", "static", "dynamic", "continuous", "continuous"])),
        order=draw(st.sampled_from(get_args(Ordering))),
        ageing_ms=draw(st.sampled_from([0.0, 0.0005, 1.0])),
        min_share=draw(st.sampled_from([0.1, 0.5, 1.0])),
        preferred_batch_size=tuple(draw(st.lists(st.integers(1, 8), max_size=2))),
        adaptive_wait=draw(st.booleans()),
        timeout_action=draw(st.sampled_from(get_args(TimeoutAction))),
        max_num_seqs=seqs,
        max_num_batched_tokens=draw(st.sampled_from([seqs, 20, 60])),
        enable_chunked_prefill=draw(st.sampled_from([True, True, False])),
        long_prefill_token_threshold=draw(st.sampled_from([0, 0, 5, 20])),
        max_batch_size=draw(st.integers(0, seqs)),
        max_queue_delay_ms=draw(st.sampled_from([0.0, 0.0005, 0.002])),
    )
    if scheduler.enable_chunked_prefill:
        scheduler = replace(
            scheduler, tpot_slo_ms=draw(st.sampled_from([0.0, 0.0001])), min_prefill_tokens=draw(st.integers(1, 9))
        )
    watermark = draw(st.sampled_from([0.0, 0.01, 0.2]))
    block_size = draw(st.sampled_from([1, 4, 16]))
    kv = KvConfig(block_size=block_size, watermark=watermark, enable_prefix_caching=draw(st.booleans()))
    config = Config(scheduler=scheduler, kv=kv)
    return config, -(-draw(st.integers(40, 100)) // block_size)


offers = st.lists(
    st.builds(
        Offer,
        gap=st.sampled_from([0, 0, 0, 1, 3]),
        prompt=st.integers(1, 30),
        max_tokens=st.integers(1, 30),
        length=st.integers(1, 60),
        leaves=st.one_of(st.none(), st.none(), st.none(), st.integers(0, 30)),
        priority=st.integers(0, 3),
        tenant=st.sampled_from(["ada", "bob", "cy"]),
        deadline=st.one_of(st.none(), st.none(), st.integers(0, 4_000)),
        shared=st.integers(0, 30),
    ),
    min_size=3,
    max_size=12,
)


GONE = ("cancelled", "expired")


def play(
    world: tuple[Config, int], script: list[Offer], came: Callable[[Driver, int], None] = lambda driver, rid: None
) -> Driver:
    """Run the script to its end. `came` is told of each request as it comes, before it is added."""
    lengths = {rid: offer.length for rid, offer in enumerate(script, 1)}
    driver = Driver(*world, lengths, predictor=KnownCost(LinearCost(50_000, 5_000, 0, 3_000, 0)))
    leaving: dict[int, list[int]] = {}
    for rid, offer in enumerate(script, 1):
        for _ in range(offer.gap):
            tick(driver, leaving)
        came(driver, rid)
        driver.add(
            rid,
            offer.prompt,
            offer.max_tokens,
            priority=offer.priority,
            tenant=offer.tenant,
            deadline=offer.deadline,
            prompt_ids=[0 if place < offer.shared else rid for place in range(offer.prompt)],
        )
        if offer.leaves is not None:
            leaving.setdefault(len(driver.plans) + offer.leaves, []).append(rid)
    while driver.accounts:
        assert len(driver.plans) < 5_000, "starved"
        tick(driver, leaving)
    return driver


def tick(driver: Driver, leaving: dict[int, list[int]]) -> None:
    for rid in leaving.get(len(driver.plans), []):
        driver.cancel(rid)
    driver.tick()


@settings(max_examples=300, deadline=None)
@given(worlds(), offers)
def test_requests_tokens_blocks_and_device_time_are_conserved(world: tuple[Config, int], script: list[Offer]) -> None:
    driver = play(world, script)
    assert sorted([*driver.ends, *driver.refused]) == list(range(1, len(script) + 1))
    occupancy = driver.scheduler.occupancy()
    assert (occupancy.waiting, occupancy.waiting_tokens, occupancy.running) == (0, 0, 0)
    assert occupancy.kv_free == world[1]
    for rid, end in driver.ends.items():
        offer = script[rid - 1]
        if end.reason == "cancelled":
            assert offer.leaves is not None
        elif end.reason == "expired":
            assert end.progress.first_scheduled is None
            assert offer.deadline is not None
            assert world[0].scheduler.timeout_action == "reject"
        else:
            assert end.progress.output_tokens == min(offer.length, offer.max_tokens)
            assert end.reason == ("stop" if offer.length < offer.max_tokens else "length")
    executed = sum(1 for plan in driver.plans if plan.slices)
    assert sum(end.progress.device_ns for end in driver.ends.values()) == 97 * executed


@settings(max_examples=200, deadline=None)
@given(worlds(), offers)
def test_first_come_first_started(world: tuple[Config, int], script: list[Offer]) -> None:
    if world[0].scheduler.order == "fcfs" and world[0].scheduler.timeout_action == "reject":
        started = play(world, script).happened(EventKind.SCHEDULED)
        assert started == sorted(started)


@settings(max_examples=100, deadline=None)
@given(worlds(), offers)
def test_the_same_input_gives_the_same_plans(world: tuple[Config, int], script: list[Offer]) -> None:
    one, two = play(world, script), play(world, script)
    assert one.plans == two.plans
    assert one.events == two.events
    assert one.ends == two.ends


@settings(max_examples=200, deadline=None)
@given(worlds(), offers)
def test_nobody_starves_beyond_the_bound(world: tuple[Config, int], script: list[Offer]) -> None:
    """SPEC D6: in an order by a key, behind n others one has started after ceil(1 / min_share) x (n + 1) starts."""
    latest: dict[int, int] = {}
    every = math.ceil(1 / world[0].scheduler.min_share)

    def came(driver: Driver, rid: int) -> None:
        started = len(driver.happened(EventKind.SCHEDULED))
        latest[rid] = started + every * (driver.scheduler.occupancy().waiting + 1)

    driver = play(world, script, came)
    if world[0].scheduler.order in {"priority", "spf", "edf"}:
        for place, rid in enumerate(driver.happened(EventKind.SCHEDULED), 1):
            assert place <= latest[rid]


@settings(max_examples=200, deadline=None)
@given(worlds(), offers)
def test_recompute_is_what_preemption_cost(world: tuple[Config, int], script: list[Offer]) -> None:
    driver = play(world, script)
    preempted = driver.happened(EventKind.PREEMPTED)
    recomputing = {part.rid for plan in driver.plans for part in plan.slices if part.role is Role.RECOMPUTE}
    assert recomputing <= set(preempted)
    for rid, end in driver.ends.items():
        lost = sum(event.lost_tokens for event in driver.events if event.rid == rid)
        assert end.progress.preemptions == preempted.count(rid)
        assert end.progress.recomputed_tokens <= lost
        if end.reason not in GONE:
            found_again = world[0].kv.enable_prefix_caching
            assert end.progress.recomputed_tokens == lost or found_again, "all of it was needed again"


@settings(max_examples=200, deadline=None)
@given(worlds(), offers)
def test_phases_tile_from_queued_to_the_end(world: tuple[Config, int], script: list[Offer]) -> None:
    for end in play(world, script).ends.values():
        progress, spans = end.progress, end.spans
        assert all(a.end == b.start and a.start < a.end for a, b in pairwise(spans))
        steps = [(span.first_step, span.last_step) for span in spans]
        assert all(first <= last if first is not None and last is not None else first is last for first, last in steps)
        if spans:
            assert spans[0].start == progress.queued
        if end.reason not in GONE:
            assert spans[-1].end == progress.last_token
            assert next(s.start for s in spans if s.phase is Phase.PREFILL) == progress.first_scheduled
            assert sum(s.phase is Phase.PREEMPTED for s in spans) == progress.preemptions


@settings(max_examples=200, deadline=None)
@given(worlds(), offers)
def test_immediate_and_static_start_only_when_nothing_is_unfinished(
    world: tuple[Config, int], script: list[Offer]
) -> None:
    """SPEC E3. A batch that is let in may need several passes to start, if its prompts exceed the token budget."""
    policy = world[0].scheduler
    if policy.policy == "continuous":
        return
    most = 1 if policy.policy == "immediate" else policy.batch_size
    unfinished: set[int] = set()
    batch = 0
    for event in play(world, script).events:
        if event.kind is EventKind.SCHEDULED:
            batch = batch + 1 if unfinished else 1
            unfinished.add(event.rid)
            assert batch <= most
        elif event.kind in {EventKind.FINISHED, EventKind.CANCELLED, EventKind.EXPIRED}:
            unfinished.discard(event.rid)


@settings(max_examples=150, deadline=None)
@given(worlds(), offers, st.integers(1, 60))
def test_the_true_length_of_an_output_is_never_read(world: tuple[Config, int], script: list[Offer], other: int) -> None:
    """DESIGN 3. Until the first output ends, lengths are nobody's knowledge: so they change no plan."""
    lengths = {rid: offer.length for rid, offer in enumerate(script, 1)}
    pair = [Driver(*world, lengths), Driver(*world, dict.fromkeys(lengths, other))]
    for rid, offer in enumerate(script, 1):
        for driver in pair:
            driver.add(rid, offer.prompt, offer.max_tokens, tenant=offer.tenant, priority=offer.priority)
    while all(driver.accounts and not driver.ends for driver in pair):
        assert pair[0].tick() == pair[1].tick()
