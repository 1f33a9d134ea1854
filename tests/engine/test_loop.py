"""The loop of a worker: passes tile, every delay lands between its own stamps, what is over is told at once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from engine.config import Config, KvConfig, SchedulerConfig
from engine.core import Commit, End, Event, Occupancy, StepPlan, StepResult
from engine.ledger import Stamps
from engine.loop import Loop
from engine.messages import Cancel, Outlook, Sampling, StepOutput, Submit, ToWorker
from engine.scheduling import make_scheduler
from engine.scheduling.step_time import Prediction
from engine.simulate.clock import Delays, HostTime, VirtualClock
from engine.simulate.cost import fixed_time
from engine.simulate.stepped import VirtualExecutor, VirtualInbox
from recorder.words import EventKind

EXEC = 1_000
PLAN, COMMIT = 10, 20


@dataclass
class Memory:
    """A ledger and an outbox that keep what they are given, in the order they are given it."""

    plans: list[StepPlan] = field(default_factory=list)
    stamps: list[Stamps] = field(default_factory=list)
    device_ns: list[int] = field(default_factory=list)
    events: list[tuple[int, Event]] = field(default_factory=list)
    ends: dict[int, End] = field(default_factory=dict)
    sent: list[StepOutput] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    known: set[int] = field(default_factory=set)
    """Requests that the executor still holds."""
    beats: list[tuple[int, int]] = field(default_factory=list)
    """When the worker told that it lives, and how many waited."""

    def details(self, plan: StepPlan, events: Iterable[Event], ends: Mapping[int, End]) -> None:
        self.events += [(plan.step, event) for event in events]
        self.ends.update(ends)
        self.order.append(f"details {plan.step}")

    def step(self, plan: StepPlan, stamps: Stamps, device_ns: int, prediction: Prediction) -> None:
        self.plans.append(plan)
        self.stamps.append(stamps)
        self.device_ns.append(device_ns)
        self.order.append(f"step {plan.step}")

    def send(self, message: StepOutput) -> None:
        self.sent.append(message)
        self.order.append(f"send {message.step}")


class Watch:
    """Notes in a memory what a front end of several workers hears beside steps."""

    def __init__(self, memory: Memory, clock: VirtualClock, heartbeat_ns: int) -> None:
        self._memory, self._clock = memory, clock
        self.heartbeat_ns = heartbeat_ns

    def starting(self, rids: Sequence[int], outlook: Outlook | None) -> None:
        self._memory.order.append(f"starting {[*rids]}")

    def alive(self, occupancy: Occupancy) -> None:
        self._memory.beats.append((self._clock.now(), occupancy.waiting))


class DelayedScheduler(HostTime):
    """Takes `extra` longer to plan, or to commit, in one pass."""

    def __init__(self, inner: HostTime, clock: VirtualClock, where: str, step: int, extra: int) -> None:
        super().__init__(inner, clock, Delays(plan_ns=0, commit_ns=0))
        self._where, self._step, self._extra = where, step, extra

    def plan(self, now: int) -> StepPlan:
        plan = super().plan(now)
        self._clock.charge(self._extra if (self._where, self._step) == ("plan", plan.step) else 0)
        return plan

    def commit(self, plan: StepPlan, result: StepResult, t_exec: int, t_done: int) -> Commit:
        commit = super().commit(plan, result, t_exec, t_done)
        self._clock.charge(self._extra if (self._where, self._step) == ("commit", plan.step) else 0)
        return commit


class WatchedExecutor(VirtualExecutor):
    """Tells which requests it holds."""

    def __init__(self, clock: VirtualClock, cost: Callable[[StepPlan], int], known: set[int]) -> None:
        super().__init__(clock, cost, {})
        self._known = known

    def start(self, rid: int, prompt: Sequence[int], sampling: Sampling) -> None:
        super().start(rid, prompt, sampling)
        self._known.add(rid)

    def release(self, rid: int) -> None:
        super().release(rid)
        self._known.remove(rid)


def submit(rid: int, prompt: int = 8, max_tokens: int = 3, arrival: int = 0) -> Submit:
    return Submit(rid, 1, [0] * prompt, max_tokens, Sampling(), arrival)


def serve(
    timeline: list[tuple[int, ToWorker]],
    config: Config | None = None,
    delay: tuple[str, int, int] = ("nowhere", 0, 0),
    cost: Callable[[StepPlan], int] | None = None,
    heartbeat_ns: int | None = None,
) -> Memory:
    """Run the loop over a timeline of messages, with `delay` (where, step, ns) planted from outside."""
    where, step, extra = delay
    memory, clock = Memory(), VirtualClock()
    scheduler = HostTime(make_scheduler(config or Config(), 100, 1000), clock, Delays(plan_ns=PLAN, commit_ns=COMMIT))
    base = cost or fixed_time(EXEC)

    def price(plan: StepPlan) -> int:
        return base(plan) + (extra if (where, step) == ("execute", plan.step) else 0)

    Loop(
        0,
        scheduler=DelayedScheduler(scheduler, clock, *delay),
        executor=WatchedExecutor(clock, price, memory.known),
        clock=clock,
        inbox=VirtualInbox(clock, timeline),
        outbox=memory,
        ledger=memory,
        watcher=None if heartbeat_ns is None else Watch(memory, clock, heartbeat_ns),
    ).run()
    return memory


BUSY: list[tuple[int, ToWorker]] = [
    (0, submit(1)),
    (500, submit(2, max_tokens=6)),
    (1_700, submit(3, prompt=300)),
    (40_000, submit(4)),
]


def test_passes_tile_without_gaps_idle_ones_too() -> None:
    memory = serve(BUSY)
    assert [plan.step for plan in memory.plans] == list(range(len(memory.plans)))
    assert any(not plan.slices for plan in memory.plans)
    for before, after in pairwise(memory.stamps):
        assert before.t_end == after.t_sched
    for stamps in memory.stamps:
        assert stamps.t_sched <= stamps.t_exec <= stamps.t_done <= stamps.t_end


def test_a_step_exists_only_once_its_details_do() -> None:
    order = serve(BUSY).order
    details = [entry for entry in order if entry.startswith("details")]
    assert details
    for entry in details:
        at = order.index(entry)
        assert order[at + 1] == entry.replace("details", "step")
        sends = entry.replace("details", "send")
        assert sends not in order or order.index(sends) < at, "tokens first: writing rows must not delay them"


@pytest.mark.parametrize(
    ("where", "grows"), [("plan", "t_sched t_exec"), ("execute", "t_exec t_done"), ("commit", "t_done t_end")]
)
def test_a_delay_lands_between_its_own_stamps(where: str, grows: str) -> None:
    plain, delayed = serve(BUSY[:2]), serve(BUSY[:2], delay=(where, 2, 7_000))
    for step, (before, after) in enumerate(zip(plain.stamps, delayed.stamps, strict=False)):
        for pair in ("t_sched t_exec", "t_exec t_done", "t_done t_end"):
            start, end = pair.split()
            length = getattr(after, end) - getattr(after, start)
            extra = 7_000 if (step, pair) == (2, grows) else 0
            assert length == getattr(before, end) - getattr(before, start) + extra


def test_stamps_are_those_of_the_steps() -> None:
    memory = serve([(500, submit(1))])
    progress = memory.ends[1].progress
    first, last = memory.stamps[1], memory.stamps[3]
    assert progress.queued == first.t_sched
    assert progress.first_scheduled == first.t_exec
    assert progress.first_token == first.t_done
    assert progress.last_token == last.t_done
    assert memory.sent[-1].t_sent == last.t_done + COMMIT, "the time to hand out is before it leaves"


def test_queued_is_when_it_was_taken_in_not_when_it_came() -> None:
    memory = serve(BUSY[:2])
    queued = {event.rid: event.t for _, event in memory.events if event.kind is EventKind.QUEUED}
    assert queued[2] == memory.stamps[1].t_sched > 500


def test_each_step_is_one_message_with_all_its_tokens() -> None:
    memory = serve(BUSY[:2])
    assert [message.step for message in memory.sent] == [plan.step for plan in memory.plans if plan.slices]
    assert [[rid for rid, _ in message.tokens] for message in memory.sent][:3] == [[1], [1, 2], [1, 2]]
    assert [end.rid for message in memory.sent for end in message.finished] == [1, 2]


def test_a_message_tells_how_full_the_worker_is_after_it() -> None:
    last = serve(BUSY[:2]).sent[-1]
    assert (last.waiting, last.waiting_tokens, last.running, last.kv_used) == (0, 0, 0, 0)
    first = serve(BUSY[:2]).sent[0]
    assert (first.running, first.kv_used) == (1, 1)


def test_a_refusal_is_told_at_once_by_an_idle_worker() -> None:
    memory = serve([(100, submit(1, prompt=5_000)), (90_000, submit(2))])
    (message,) = [message for message in memory.sent if message.refused]
    assert message.t_sent < 1_000
    assert message.refused[0].rid == 1
    assert "model's context" in message.refused[0].reason
    assert next((event.rid, event.kind) for _, event in memory.events) == (1, EventKind.REJECTED)


def test_a_cancellation_frees_and_is_told_with_the_stamps_it_had() -> None:
    memory = serve([(0, submit(1, max_tokens=50)), (5_000, Cancel(1))])
    (end,) = [end for message in memory.sent for end in message.finished]
    assert end.finish_reason == "cancelled"
    assert end.first_token is not None
    assert 0 < end.output_tokens < 50
    assert memory.plans[-1].occupancy.kv_free == 100
    assert memory.known == set()


def test_a_cancellation_in_an_idle_pass_is_told_at_once() -> None:
    static = SchedulerConfig(policy="static", max_batch_size=2, max_queue_delay_ms=100.0)
    memory = serve([(0, submit(1)), (5_000, Cancel(1)), (1_000_000, submit(2))], Config(scheduler=static))
    cancelled = next(m for m in memory.sent if m.finished)
    assert cancelled.t_sent < 6_000
    assert cancelled.finished[0].first_scheduled is None


def test_cancelling_what_has_ended_is_nothing() -> None:
    memory = serve([(0, submit(1)), (50_000, Cancel(1)), (50_000, Cancel(99))])
    assert [end.finish_reason for message in memory.sent for end in message.finished] == ["length"]


def test_an_idle_pass_lasts_until_the_batch_timer() -> None:
    static = SchedulerConfig(policy="static", max_batch_size=2, max_queue_delay_ms=0.05)
    memory = serve([(1_000, submit(1, arrival=900)), (200_000, submit(2, arrival=200_000))], Config(scheduler=static))
    idle = next(n for n, plan in enumerate(memory.plans) if plan.head)
    assert memory.stamps[idle].t_done == 50_900


def test_drain_finishes_what_is_in_the_house() -> None:
    memory = serve([(0, submit(rid, max_tokens=9)) for rid in range(1, 30)], Config(kv=KvConfig(block_size=16)))
    assert sorted(memory.ends) == list(range(1, 30))
    assert not memory.plans[-1].slices
    assert memory.plans[-1].occupancy.running == memory.plans[-1].occupancy.waiting == 0
    assert memory.known == set()


def test_device_time_reaches_the_ledger() -> None:
    memory = serve(BUSY)
    assert [ns for ns, plan in zip(memory.device_ns, memory.plans, strict=True) if plan.slices] == [EXEC] * (
        sum(1 for plan in memory.plans if plan.slices)
    )
    assert sum(end.progress.device_ns for end in memory.ends.values()) == sum(memory.device_ns)


# -- who has others to send requests to --------------------------------------------------------------------------------


def test_a_worker_that_waits_tells_that_it_lives_and_its_passes_are_the_same() -> None:
    """SPEC C6: heartbeats are no passes."""
    alone, watched = serve(BUSY), serve(BUSY, heartbeat_ns=7_000)
    assert watched.stamps == alone.stamps
    idle = next(n for n, plan in enumerate(alone.plans) if n and not plan.slices)
    begun = alone.stamps[idle].t_exec
    assert [t for t, _ in watched.beats] == list(range(begun + 7_000, alone.stamps[idle].t_done, 7_000))


def test_a_batch_timer_goes_before_a_heartbeat() -> None:
    static = SchedulerConfig(policy="static", max_batch_size=2, max_queue_delay_ms=0.05)
    timeline: list[tuple[int, ToWorker]] = [(1_000, submit(1, arrival=900)), (200_000, submit(2, arrival=200_000))]
    alone, watched = (serve(timeline, Config(scheduler=static), heartbeat_ns=beat) for beat in (None, 40_000))
    assert watched.stamps == alone.stamps
    assert [waiting for t, waiting in watched.beats if t < 50_900] == [1], "one waits for the timer meanwhile"


def test_whom_a_step_begins_is_told_before_it_runs() -> None:
    order = serve(BUSY, heartbeat_ns=10**9).order
    assert [entry for entry in order if entry.startswith("starting")] == [f"starting [{rid}]" for rid in (1, 2, 3, 4)]
    assert order.index("starting [2]") < order.index("send 2"), "the step that begins it"
