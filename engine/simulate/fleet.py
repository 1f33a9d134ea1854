"""Several workers in virtual time: who gets which request, what happens when one is lost, until all is done."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from engine.messages import Cancel, Sampling, Submit, ToWorker
from engine.scheduling.deadlines import deadline_of
from engine.simulate.contents import Contents
from engine.simulate.drive import FOREVER, Worker, drive
from engine.simulate.faults import Loss
from engine.simulate.front import Arrival, VirtualFrontEnd
from engine.simulate.setup import Setup
from engine.simulate.sources import Clients


class FleetWorker(Worker, Protocol):
    """A worker that messages reach at known instants."""

    def push(self, instant: int, message: ToWorker, output_tokens: int | None = None) -> None:
        """Let a message arrive; `output_tokens` is the length that only the executor knows."""
        ...

    def drain(self, instant: int) -> None:
        """Nothing comes after `instant`."""
        ...


class _Happenings:
    """Requests and losses in the order of time. Implements `engine.simulate.drive.Source`."""

    def __init__(self, clients: Clients, losses: Sequence[Loss], found: Callable[[Loss], int]) -> None:
        self._clients = clients
        self._losses = deque(sorted(((found(loss), loss) for loss in losses), key=lambda entry: entry[0]))

    @property
    def closed(self) -> bool:
        """As the clients."""
        return self._clients.closed

    def peek(self) -> float | None:
        """When the next request comes, or the next loss is found."""
        following = self._clients.peek()
        if not self._losses:
            return following
        return self._losses[0][0] if following is None else min(following, self._losses[0][0])

    def take(self) -> Arrival | Loss:
        """What is next; of what happens at one instant, the loss."""
        following = self._clients.peek()
        if self._losses and (following is None or self._losses[0][0] <= following):
            return self._losses.popleft()[1]
        return self._clients.take()

    def ended(self, rid: int, t: int) -> None:
        """A client has its answer."""
        self._clients.ended(rid, t)


class VirtualFleet:
    """The workers of a simulation and their front end. `run` it once."""

    def __init__(self, setup: Setup, clients: Clients, front: VirtualFrontEnd, workers: Sequence[FleetWorker]) -> None:
        self._setup = setup
        self._clients = clients
        self._front = front
        self._workers = workers
        self._contents = Contents()
        self._last = 0

    def run(self) -> None:
        """Until everybody has been answered."""
        happenings = _Happenings(self._clients, self._setup.losses, self._front.finds_out)
        drive(happenings, self._workers, self._happen, self._setup.delays.ingress_ns)
        for worker in self._workers:
            worker.drain(self._last)
            worker.advance(FOREVER)

    def _happen(self, what: Arrival | Loss) -> None:
        if isinstance(what, Loss):
            for again in self._front.lose(what):
                self._clients.handed_back(again)
        else:
            self._submit(what)

    def _submit(self, asked: Arrival) -> None:
        asked = replace(asked, deadline=deadline_of(asked.deadline, asked.arrival, self._setup.config.scheduler))
        message = submission(self._front.next_rid, asked, self._contents)
        outcome = self._front.arrive(asked, message.prompt)
        if self._front.turned_away(outcome.rid):
            self._clients.turned_away(outcome)
            return
        worker, reached = self._workers[outcome.worker], asked.routed + self._setup.delays.ingress_ns
        worker.push(reached, message, asked.output_tokens)
        self._last = max(self._last, reached)
        if asked.cancel_at is not None:
            gone = max(asked.cancel_at + self._setup.delays.ingress_ns, reached)
            worker.push(gone, Cancel(outcome.rid))
            self._last = max(self._last, gone)


def submission(rid: int, asked: Arrival, contents: Contents) -> Submit:
    """A request as it goes to a worker."""
    return Submit(
        rid,
        asked.attempt,
        contents.prompt(rid, asked.prompt_tokens, asked.prefix_of, asked.prefix_tokens),
        asked.max_tokens,
        Sampling(),
        asked.arrival,
        asked.tier,
        asked.tenant,
        asked.priority,
        asked.deadline,
    )
