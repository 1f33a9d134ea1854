"""Virtual time step by step: the worker's own loop, scheduler and ledger, every pass of them, whatever the policy."""

import heapq
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from pathlib import Path

from engine.config import Config
from engine.core import End, Event, Occupancy, Sampled, StepPlan, StepResult
from engine.ledger import Ledger, NoLedger, RunLedger, Stamps
from engine.load.retry import NEVER, Retrying
from engine.loop import Loop
from engine.messages import Drain, Outlook, Sampling, Starting, StepOutput, Submit, ToWorker
from engine.scheduling.step_time import Prediction, StepTimeModel
from engine.simulate.clock import Delays, HostTime, VirtualClock
from engine.simulate.cost import Cost, KnownTime
from engine.simulate.drive import FOREVER, Source
from engine.simulate.files import VirtualRun
from engine.simulate.fleet import VirtualFleet
from engine.simulate.front import FRONT_TABLES, SUMMARY_TABLES, Arrival, Outcome, VirtualFrontEnd
from engine.simulate.setup import Setup
from engine.simulate.sources import Clients


class VirtualExecutor:
    """Charges each step's cost to the clock. It alone knows where the model itself would stop: `lengths` by rid.

    A request without a length goes on until its `max_tokens`.
    """

    def __init__(self, clock: VirtualClock, cost: Cost, lengths: MutableMapping[int, int]) -> None:
        self._clock = clock
        self._ps: Callable[[StepPlan], int] = cost.ps if isinstance(cost, KnownTime) else lambda plan: cost(plan) * 1000
        self._lengths = lengths
        self._given: dict[int, int] = {}

    def start(self, rid: int, prompt: Sequence[int], sampling: Sampling) -> None:
        """Begin to count its output."""
        self._given[rid] = 0

    def execute(self, plan: StepPlan) -> StepResult:
        """Let the step's cost pass; the token of each sampling slice is the request's own, as `Contents` has them."""
        begun = self._clock.now()
        self._clock.charge_ps(self._ps(plan))
        device_ns = self._clock.now() - begun
        return StepResult(tuple(self._sample(part.rid) for part in plan.slices if part.samples), device_ns)

    def release(self, rid: int) -> None:
        """Forget it."""
        self._given.pop(rid)
        self._lengths.pop(rid, None)

    def _sample(self, rid: int) -> Sampled:
        self._given[rid] += 1
        return Sampled(rid, -rid, stop=self._given[rid] == self._lengths.get(rid))


class VirtualInbox:
    """Messages that arrive at known instants. Implements `engine.loop.Inbox`.

    With a `timeline`, all of them are known, and after the last one comes `Drain`.
    """

    def __init__(self, clock: VirtualClock, timeline: Iterable[tuple[int, ToWorker]] | None = None) -> None:
        self._clock = clock
        self._ahead: list[tuple[int, int, ToWorker]] = []
        self._pushed = 0
        if timeline is not None:
            last = clock.now()
            for instant, message in timeline:
                self.push(instant, message)
                last = max(last, instant)
            self.push(last, Drain())

    def push(self, instant: int, message: ToWorker) -> None:
        """Let a message arrive at `instant`; those of one instant keep their order."""
        heapq.heappush(self._ahead, (instant, self._pushed, message))
        self._pushed += 1

    def poll(self) -> Sequence[ToWorker]:
        """All messages whose instant has come."""
        here = []
        while self._ahead and self._ahead[0][0] <= self._clock.now():
            here.append(heapq.heappop(self._ahead)[2])
        return here

    def next(self, until_ns: int | None) -> int | None:
        """The next message's instant or the given one, whichever is first; None if there is neither."""
        instants = [entry[0] for entry in self._ahead[:1]] + ([] if until_ns is None else [until_ns])
        return min(instants, default=None)

    def wait(self, until_ns: int | None) -> None:
        """Jump to the next message or to the instant, whichever is first."""
        instant = self.next(until_ns)
        if instant is None:
            raise RuntimeError("the worker waits, and nothing will ever come")
        self._clock.wait_until(instant)


class LastWords:
    """Lets through what a worker says and writes down until it dies: of a step in which it dies, nothing is seen.

    Implements `engine.loop.Outbox` and `engine.ledger.Ledger`.
    """

    def __init__(self, clock: VirtualClock, dies_at: float, front: VirtualFrontEnd, ledger: Ledger) -> None:
        self._clock = clock
        self._dies_at = dies_at
        self._front = front
        self._ledger = ledger

    @property
    def _alive(self) -> bool:
        return self._clock.now() <= self._dies_at

    def send(self, message: StepOutput) -> None:
        """A step's output, if it was handed out in time."""
        if self._alive:
            self._front.send(message)

    def starting(self, message: Starting) -> None:
        """Whom it was about to run, if it lived so long."""
        if self._alive:
            self._front.starting(message)

    def details(self, plan: StepPlan, events: Iterable[Event], ends: Mapping[int, End]) -> None:
        """Those of a pass that it lived to the end."""
        if self._alive:
            self._ledger.details(plan, events, ends)

    def step(self, plan: StepPlan, stamps: Stamps, device_ns: int, prediction: Prediction) -> None:
        """A pass that it lived to the end."""
        if self._alive:
            self._ledger.step(plan, stamps, device_ns, prediction)


class Beacon:
    """Tells the front end whom its worker begins. Implements `engine.loop.Watcher`."""

    heartbeat_ns = 0

    def __init__(self, number: int, clock: VirtualClock, front: VirtualFrontEnd | LastWords) -> None:
        self._number = number
        self._clock = clock
        self._front = front

    def starting(self, rids: Sequence[int], outlook: Outlook | None) -> None:
        """These run from the next step on."""
        self._front.starting(Starting(self._number, self._clock.now(), list(rids), outlook))

    def alive(self, occupancy: Occupancy) -> None:
        """Nobody waits to hear that."""


class SteppedWorker:
    """One worker in virtual time, driven from outside. Implements `engine.simulate.fleet.FleetWorker`."""

    def __init__(
        self, number: int, setup: Setup, front: VirtualFrontEnd, ledger: Ledger, dies_at: float = FOREVER
    ) -> None:
        cost, delays = setup.cost, setup.delays
        step_time = setup.known_cost() or StepTimeModel()
        self._dies_at = dies_at
        self._clock = VirtualClock()
        lived = LastWords(self._clock, dies_at, front, ledger)
        watched = setup.config.scheduler.guards_queue or setup.losses
        self._inbox = VirtualInbox(self._clock)
        self._lengths: dict[int, int] = {}
        self._waiting = False
        self._loop = Loop(
            number,
            scheduler=HostTime(setup.scheduler(step_time), self._clock, delays),
            executor=VirtualExecutor(self._clock, cost, self._lengths),
            clock=self._clock,
            inbox=self._inbox,
            outbox=lived,
            ledger=lived,
            step_time=step_time,
            watcher=Beacon(number, self._clock, lived) if watched else None,
        )

    @property
    def ready(self) -> int | None:
        """When it goes on; None while it can't know, and when it is done or dies before."""
        if self._loop.done:
            return None
        instant = self._inbox.next(self._loop.wake_at) if self._waiting else self._clock.now()
        return None if instant is None or instant >= self._dies_at else instant

    def push(self, instant: int, message: ToWorker, output_tokens: int | None = None) -> None:
        """Let a message arrive; `output_tokens` is the length that only the executor knows."""
        if isinstance(message, Submit) and output_tokens is not None:
            self._lengths[message.rid] = output_tokens
        self._inbox.push(instant, message)

    def drain(self, instant: int) -> None:
        """Nothing comes after `instant`."""
        self._inbox.push(instant, Drain())

    def advance(self, until: float, *, one: bool = False) -> None:
        """Live through every pass that begins before `until`, or through one alone."""
        while (ready := self.ready) is not None and ready < until:
            if self._waiting:
                self._clock.wait_until(ready)
                self._waiting = False
            else:
                self._waiting = self._loop.begin()
            if not self._waiting:
                self._loop.end()
                if one:
                    return


class Listed:
    """Arrivals known beforehand, in order. Implements `engine.simulate.drive.Source`."""

    closed = False

    def __init__(self, arrivals: Sequence[Arrival]) -> None:
        self._arrivals = arrivals
        self._taken = 0

    def peek(self) -> float | None:
        """Arrival of the next request."""
        return self._arrivals[self._taken].arrival if self._taken < len(self._arrivals) else None

    def take(self) -> Arrival:
        """The next request."""
        self._taken += 1
        return self._arrivals[self._taken - 1]

    def ended(self, rid: int, t: int) -> None:
        """Nobody waits for it."""


def simulate(
    config: Config,
    arrivals: Sequence[Arrival],
    cost: Cost,
    *,
    num_blocks: int,
    max_model_len: int,
    delays: Delays | None = None,
    run: Path | None = None,
    workers: int = 1,
    retrying: Retrying = NEVER,
) -> list[Outcome]:
    """Serve `arrivals` (sorted by arrival; the n-th to come gets rid n, from 1) in virtual time; the outcomes by rid.

    With `run`, an ordinary run is written into that new folder (RunError where it can't be).
    """
    setup = Setup(
        config=config,
        cost=cost,
        num_blocks=num_blocks,
        max_model_len=max_model_len,
        delays=delays or Delays(),
        workers=workers,
        retrying=retrying,
    )
    if run is None:
        return step_through(setup, Listed(arrivals))
    with VirtualRun(run, setup, {"arrivals": len(arrivals)}) as files:
        return step_through(setup, Listed(arrivals), files)


def step_through(
    setup: Setup, source: Source[Arrival], files: VirtualRun | None = None, *, summary: bool = False
) -> list[Outcome]:
    """Serve what the source brings, pass by pass. Rows go to `files` if there are any: all, or a `summary`."""
    clients = Clients(source, setup.retrying)
    tables = SUMMARY_TABLES if summary else FRONT_TABLES
    front = VirtualFrontEnd(setup, files.front(tables) if files else None, clients.ended, tables)
    told = files if not summary else None
    dies_at = {loss.worker: loss.at for loss in setup.losses}
    fleet = [
        SteppedWorker(
            number,
            setup,
            front,
            RunLedger(number, told.worker(number)) if told else NoLedger(),
            dies_at.get(number, FOREVER),
        )
        for number in range(setup.workers)
    ]
    VirtualFleet(setup, clients, front, fleet).run()
    return front.outcomes
