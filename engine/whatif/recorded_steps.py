"""Follow a recording pass by pass, each taking the time it took, until a scheduler plans another step than then.

Up to that pass the what-if is not an estimate but what happened. From there on the fitted cost tells the time. Each
worker follows its own passes, and requests go to the workers that they went to, until one of them plans otherwise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.config import to_dict
from engine.cost.model import CostFit
from engine.ledger import RunLedger
from engine.scheduling import StepTimeModel
from engine.scheduling.router import Choice, Router
from engine.simulate.cost import KnownCost
from engine.simulate.files import VirtualRun
from engine.simulate.fleet import VirtualFleet
from engine.simulate.front import VirtualFrontEnd, answers
from engine.simulate.setup import Setup
from engine.simulate.sources import Clients
from engine.simulate.stepped import Listed
from engine.whatif.following import FollowingWorker
from engine.whatif.recorded import Recorded, WhatIfError
from engine.whatif.rerun import Engine, Rerun, stamps_of
from engine.whatif.script import Script, read_scripts


@dataclass(frozen=True, kw_only=True)
class Replayed(Rerun):
    """What came of following: `differs_at` is the first step that was planned otherwise, None if none was."""

    followed: int
    recorded: int
    differs_at: int | None
    how: str
    worker: int | None = None
    """Whose step that was."""

    def document(self) -> dict[str, Any]:
        """For other programs."""
        return {
            "followed": self.followed,
            "recorded": self.recorded,
            "differs_at_step": self.differs_at,
            "worker": self.worker,
            "how": self.how,
        }


class _RecordedRoutes(Router):
    """Sends each request where it went, for as long as `hold` says so."""

    def __init__(self, setup: Setup, routes: Sequence[int | None], hold: Callable[[], bool]) -> None:
        super().__init__(setup.config, [setup.num_blocks] * setup.workers)
        self._routes = routes
        self._hold = hold
        self._asked = 0

    def choose(self, prompt: Sequence[int], now: int) -> Choice | None:
        """As it was, or as the router decides."""
        choice = super().choose(prompt, now)
        then = self._routes[self._asked] if self._asked < len(self._routes) else None
        self._asked += 1
        return replace(choice, replica=then) if choice and then is not None and self._hold() else choice


def replay_steps(recorded: Recorded, engine: Engine, fit: CostFit, run: Path) -> Replayed:
    """Run `engine` on the arrivals along the recorded steps, and write it. WhatIfError where they can't be followed."""
    scripts = read_scripts(recorded)
    if any(to_dict(engine.config)["faults"].values()):
        raise WhatIfError("no recorded step tells of a worker that is lost; leave --recorded-steps or the loss out")
    setup = Setup(
        config=engine.config,
        cost=fit.cost,
        num_blocks=engine.num_blocks,
        max_model_len=engine.max_model_len,
        delays=fit.delays,
        workers=engine.workers,
    )
    with VirtualRun(run, setup, {"arrivals": len(recorded.arrivals)}) as files:
        clients = Clients(Listed(recorded.arrivals), setup.retrying)
        front = VirtualFrontEnd(setup, files.front(), clients.ended)
        workers = _workers(recorded, scripts, setup, front, files)
        if engine.workers == recorded.workers:
            front.router = _RecordedRoutes(setup, recorded.routes, lambda: all(one.left_at is None for one in workers))
        at_once = replace(setup, delays=replace(setup.delays, ingress_ns=0))  # a worker knows its own way in
        VirtualFleet(at_once, clients, front, workers).run()
    outcomes = answers(front.outcomes)
    preemptions = sum(outcome.end.preemptions for outcome in outcomes if outcome.end)
    return _told(Rerun(stamps_of(outcomes), preemptions), workers, scripts)


def _workers(
    recorded: Recorded, scripts: dict[int, Script], setup: Setup, front: VirtualFrontEnd, files: VirtualRun
) -> list[FollowingWorker]:
    """Those that were recorded begin when they did, others when the first of those did."""
    begun = min(script.at("t_sched", 0) for script in scripts.values())
    made = []
    for number in range(setup.workers):
        script = scripts.get(number) or Script.nothing()
        begins = script.at("t_sched", 0) if len(script) else begun
        worker = FollowingWorker(
            number,
            setup,
            script,
            front=front,
            ledger=RunLedger(number, files.worker(number)),
            step_time=_forecast(recorded, setup),
            begins=begins,
        )
        made.append(worker)
    return made


def _forecast(recorded: Recorded, setup: Setup) -> KnownCost | StepTimeModel:
    """What told the recorded scheduler how long steps take: a server learns that as it goes, from the same times."""
    known = setup.known_cost()
    return known if known and recorded.info.clock.kind == "virtual" else StepTimeModel()


def _told(came: Rerun, workers: Sequence[FollowingWorker], scripts: dict[int, Script]) -> Replayed:
    """With the first pass of all that was planned otherwise."""
    left = [(at, number) for number, worker in enumerate(workers) if (at := worker.left_at) is not None]
    first = min(left)[1] if left else None
    script = None if first is None else workers[first].script
    return Replayed(
        stamps=came.stamps,
        preemptions=came.preemptions,
        followed=sum(worker.script.followed for worker in workers),
        recorded=sum(len(script) for script in scripts.values()),
        differs_at=script.differs_at if script else None,
        how=script.how if script else "",
        worker=first,
    )
