"""Virtual time in jumps for a whole workload: workers, router and books put together."""

from array import array
from collections.abc import Callable
from typing import Final

import numpy as np

from engine.scheduling.router import Backlog, least_queued
from engine.simulate.ahead import AheadWorker
from engine.simulate.book import Book
from engine.simulate.cost import TwoRegimes
from engine.simulate.drive import FOREVER, drive
from engine.simulate.files import VirtualRun
from engine.simulate.jump import JumpWorker
from engine.simulate.plain import PlainWorker
from engine.simulate.results import Demand, Results
from engine.simulate.setup import Setup
from engine.simulate.sources import ClosedLoop, OpenLoop
from engine.simulate.unfold import Unfolder
from engine.simulate.workload import Workload
from recorder.producer import PartProducer
from recorder.schema import code
from recorder.words import EventKind, Reason

_AT_ONCE: Final = 4096
"""Requests that a worker is told of together."""


def jump_through(setup: Setup, workload: Workload, files: VirtualRun | None = None) -> Results:
    """Serve the workload; all tables go to `files` if there are any. Only for what `covered.covers`."""
    results = Results(workload, Demand(workload, setup), plans_ahead=setup.plans_ahead)
    ingress_ns = setup.delays.ingress_ns
    source = (ClosedLoop if workload.closed else OpenLoop)(workload, lambda index, t: (index, t))
    backlogs = [Backlog() for _ in range(setup.workers)] if setup.workers > 1 else []
    fleet: list[JumpWorker] = []
    books = []
    front = files.front() if files else None
    for number in range(setup.workers):
        book = None
        if files and front:
            unfolder = Unfolder(number, setup, results, files.worker(number), front)
            book = Book(unfolder.write)
            books.append((unfolder, book))
        ended = source.ended if workload.closed else None
        backlog = backlogs[number] if backlogs else None
        fleet.append(_worker(number, setup, results, book=book, backlog=backlog, ended=ended))
    last = 0

    def submit(asked: tuple[int, int]) -> None:
        nonlocal last
        index, t = asked
        chosen = 0
        if backlogs:
            chosen = least_queued([backlog.at(t) for backlog in backlogs])
            backlogs[chosen].sent(results.demand.prompt[index])
        results.arrival[index], results.worker[index] = t, chosen
        last = t + ingress_ns
        fleet[chosen].submit(index, last)

    if len(fleet) == 1 and not workload.closed:
        last = _feed(fleet[0], results, ingress_ns)
    else:
        drive(source, fleet, submit, ingress_ns)
    for worker in fleet:
        worker.drain(last)
        worker.advance(FOREVER)
    for unfolder, book in books:
        unfolder.write(book)
    if front and backlogs:
        _write_routes(results, front)
    return results


def _worker(
    number: int,
    setup: Setup,
    results: Results,
    *,
    book: Book | None,
    backlog: Backlog | None,
    ended: Callable[[int, int], None] | None,
) -> JumpWorker:
    """The one with the shortest ways that does what is asked."""
    if setup.plans_ahead:
        return AheadWorker(number, setup, results, book=book, backlog=backlog, ended=ended)
    if book or ended or (isinstance(setup.cost, TwoRegimes) and setup.cost.shape.call):
        return JumpWorker(number, setup, results, book=book, backlog=backlog, ended=ended)
    return PlainWorker(number, setup, results, backlog)


def _write_routes(results: Results, front: PartProducer) -> None:
    """Why each request went to its worker. No prefix ever decided: none are cached where jumps are made."""
    columns = {
        "t": np.asarray(results.arrival),
        "worker": results.column("worker"),
        "rid": np.arange(len(results)) + 1,
        "kind": code(EventKind.ROUTED),
        "reason": code(Reason.LEAST_QUEUED),
    }
    front.extend("events", columns, len(results))


def _feed(worker: JumpWorker, results: Results, ingress_ns: int) -> int:
    """What `drive` does for one worker and an open loop; returns when the last request reaches it."""
    results.arrival = array("q", results.workload.arrival.tobytes())
    instants = results.workload.arrival + ingress_ns
    for first in range(0, len(instants), _AT_ONCE):
        some: list[int] = instants[first : first + _AT_ONCE].tolist()
        worker.advance(some[0])
        worker.submit_all(some, first)
    return int(instants[-1]) if len(instants) else 0
