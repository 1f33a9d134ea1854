"""Virtual time: the worker's own loop and scheduler on a clock that jumps, with a cost model in place of a device.

A simulator without a host-time term between steps makes waits far too short (DESIGN 3), so `Delays` has one.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.config import Config, to_dict
from engine.core import Admission, Commit, Occupancy, Request, Sampled, Scheduler, StepPlan, StepResult
from engine.ledger import WORKER_TABLES, Ledger, NoLedger, RunLedger
from engine.loop import Loop
from engine.messages import Cancel, Drain, Sampling, Submit, ToWorker
from engine.scheduling import make_scheduler
from engine.virtual_front import FRONT_TABLES, Arrival, Delays, Outcome, VirtualFrontEnd
from recorder.producer import PartProducer, Producer
from recorder.run import ClockAnchor, RunInfo, create_run, finish
from recorder.words import Role

Cost = Callable[[StepPlan], int]
"""Nanoseconds that the execution of a plan takes."""


class VirtualClock:
    """Time passes only when it is told to. Implements `engine.core.Clock`."""

    def __init__(self, start: int = 0) -> None:
        self._now = start

    def now(self) -> int:
        """Nanoseconds."""
        return self._now

    def charge(self, ns: int) -> None:
        """Let `ns` pass as work."""
        self._now += ns

    def wait_until(self, t: int) -> None:
        """Let time pass until `t`; an instant gone by is not waited for."""
        self._now = max(self._now, t)


def fixed_time(ns: int) -> Cost:
    """Every step takes `ns`, whatever it computes (SPEC A3, C11)."""
    return lambda plan: ns


@dataclass(frozen=True)
class LinearCost:
    """Step time linear in tokens and context, in ns. The defaults resemble a 135M model on two CPU cores."""

    base: int = 28_000_000
    per_decode: int = 1_300_000
    per_decode_kv_token: int = 2_000
    per_prefill_token: int = 1_400_000
    per_prefill_token_context: int = 300
    """For each prefill token and each token before it."""

    def __call__(self, plan: StepPlan) -> int:
        """The sum over the plan's slices."""
        return self.base + sum(
            self.per_decode + self.per_decode_kv_token * part.computed_before
            if part.role is Role.DECODE
            else part.tokens
            * (self.per_prefill_token + self.per_prefill_token_context * (part.computed_before + part.tokens // 2))
            for part in plan.slices
        )


class VirtualExecutor:
    """Charges each step's cost to the clock. It alone knows where the model itself would stop: `lengths` by rid.

    A request without a length goes on until its `max_tokens`.
    """

    def __init__(self, clock: VirtualClock, cost: Cost, lengths: Mapping[int, int]) -> None:
        self._clock = clock
        self._cost = cost
        self._lengths = lengths
        self._given: dict[int, int] = {}

    def start(self, rid: int, prompt: Sequence[int], sampling: Sampling) -> None:
        """Begin to count its output."""
        self._given[rid] = 0

    def execute(self, plan: StepPlan) -> StepResult:
        """Let the step's cost pass; the token of each sampling slice is its place in the output, from 1."""
        cost = self._cost(plan)
        self._clock.charge(cost)
        return StepResult(tuple(self._sample(part.rid) for part in plan.slices if part.samples), cost)

    def release(self, rid: int) -> None:
        """Forget it."""
        del self._given[rid]

    def _sample(self, rid: int) -> Sampled:
        self._given[rid] += 1
        return Sampled(rid, self._given[rid], stop=self._given[rid] == self._lengths.get(rid))


class VirtualInbox:
    """Messages that arrive at known instants; after the last one, `Drain`. Implements `engine.loop.Inbox`."""

    def __init__(self, clock: VirtualClock, timeline: Iterable[tuple[int, ToWorker]]) -> None:
        self._clock = clock
        self._ahead = deque(sorted(timeline, key=lambda entry: entry[0]))
        self._ahead.append((self._ahead[-1][0] if self._ahead else clock.now(), Drain()))

    def poll(self) -> Sequence[ToWorker]:
        """All messages whose instant has come."""
        here = []
        while self._ahead and self._ahead[0][0] <= self._clock.now():
            here.append(self._ahead.popleft()[1])
        return here

    def wait(self, until_ns: int | None) -> None:
        """Jump to the next message or to the instant, whichever is first."""
        instants = [entry[0] for entry in self._ahead][:1] + ([] if until_ns is None else [until_ns])
        if not instants:
            raise RuntimeError("the worker waits, and nothing will ever come")
        self._clock.wait_until(min(instants))


class HostTime:
    """A scheduler whose decisions take time: wraps another and charges the clock for each plan and commit."""

    def __init__(self, scheduler: Scheduler, clock: VirtualClock, delays: Delays) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._delays = delays

    def add(self, request: Request, now: int) -> Admission:
        """As wrapped."""
        return self._scheduler.add(request, now)

    def cancel(self, rid: int, now: int) -> Commit:
        """As wrapped."""
        return self._scheduler.cancel(rid, now)

    def plan(self, now: int) -> StepPlan:
        """As wrapped, then `plan_ns` pass."""
        plan = self._scheduler.plan(now)
        self._clock.charge(self._delays.plan_ns)
        return plan

    def commit(self, plan: StepPlan, result: StepResult, t_exec: int, t_done: int) -> Commit:
        """As wrapped, then `commit_ns` pass."""
        commit = self._scheduler.commit(plan, result, t_exec, t_done)
        self._clock.charge(self._delays.commit_ns)
        return commit

    def occupancy(self) -> Occupancy:
        """As wrapped."""
        return self._scheduler.occupancy()


def simulate(
    config: Config,
    arrivals: Sequence[Arrival],
    cost: Cost,
    *,
    num_blocks: int,
    max_model_len: int,
    delays: Delays | None = None,
    run: Path | None = None,
) -> list[Outcome]:
    """Serve `arrivals` (sorted by arrival; the n-th gets rid n, from 1) in virtual time; the outcomes in their order.

    With `run`, an ordinary run is written into that new folder (RunError where it can't be).
    """
    delays = delays or Delays()
    scheduler = make_scheduler(config, num_blocks, max_model_len)
    if run is None:
        return _serve(arrivals, cost, scheduler, delays=delays, ledger=NoLedger(), producer=None)
    info = RunInfo(
        run_id=run.name,
        clock=ClockAnchor(kind="virtual"),
        config=to_dict(config),
        model={"name": "virtual", "max_model_len": max_model_len, "kv_blocks": num_blocks},
        workload={"arrivals": len(arrivals)},
    )
    folder = create_run(run.parent, info)
    worker, front = PartProducer(folder, "worker0", WORKER_TABLES), PartProducer(folder, "frontend", FRONT_TABLES)
    outcomes = _serve(arrivals, cost, scheduler, delays=delays, ledger=RunLedger(0, worker), producer=front)
    worker.close()
    front.close()
    finish(folder)
    return outcomes


def _serve(
    arrivals: Sequence[Arrival],
    cost: Cost,
    scheduler: Scheduler,
    *,
    delays: Delays,
    ledger: Ledger,
    producer: Producer | None,
) -> list[Outcome]:
    clock = VirtualClock()
    front = VirtualFrontEnd(arrivals, delays, producer)
    lengths = {rid: a.output_tokens for rid, a in enumerate(arrivals, 1) if a.output_tokens is not None}
    Loop(
        0,
        scheduler=HostTime(scheduler, clock, delays),
        executor=VirtualExecutor(clock, cost, lengths),
        clock=clock,
        inbox=VirtualInbox(clock, _timeline(arrivals, delays)),
        outbox=front,
        ledger=ledger,
    ).run()
    return front.close()


def _timeline(arrivals: Sequence[Arrival], delays: Delays) -> list[tuple[int, ToWorker]]:
    """When the worker gets each request, and each cancellation."""
    timeline: list[tuple[int, ToWorker]] = []
    for rid, arrival in enumerate(arrivals, 1):
        prompt = [0] * arrival.prompt_tokens
        submit = Submit(rid, 1, prompt, arrival.max_tokens, Sampling(), arrival.arrival, arrival.tier, arrival.tenant)
        timeline.append((arrival.arrival + delays.ingress_ns, submit))
        if arrival.cancel_at is not None:
            timeline.append((max(arrival.cancel_at, arrival.arrival) + delays.ingress_ns, Cancel(rid)))
    return timeline
