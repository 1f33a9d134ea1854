"""One re-run in virtual time: an engine, its cost, and the arrivals of a recording give stamps, and a run if asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.config import Config
from engine.cost.model import CostFit
from engine.cost.solve import Array
from engine.cost.stamps import Stamps
from engine.simulate.clock import Delays
from engine.simulate.contents import Alike
from engine.simulate.cost import Cost
from engine.simulate.covered import covers
from engine.simulate.files import VirtualRun
from engine.simulate.front import Arrival, Outcome, answers, request_id
from engine.simulate.jumped import jump_through
from engine.simulate.results import Results
from engine.simulate.setup import Setup
from engine.simulate.stepped import simulate
from engine.simulate.workload import Workload
from engine.whatif.recorded import STAMPS
from recorder.schema import NONE


@dataclass(frozen=True)
class Engine:
    """What is re-run: a configuration on a number of equal workers."""

    config: Config
    num_blocks: int
    max_model_len: int
    workers: int = 1


@dataclass(frozen=True)
class Rerun:
    """What came of it. `stamps` has the order of the arrivals; `preemptions` counts all of them."""

    stamps: Stamps
    preemptions: int
    planned_ahead: bool = False
    """Passes were planned one step ahead; else step by step."""


def rerun(arrivals: Sequence[Arrival], engine: Engine, fit: CostFit, run: Path | None = None) -> Rerun:
    """Serve the arrivals as `engine` would at the fitted cost; with `run`, an ordinary run is written there."""
    return rerun_at(arrivals, engine, fit.cost, fit.delays, run, plans_ahead=fit.plans_ahead)


def rerun_at(
    arrivals: Sequence[Arrival],
    engine: Engine,
    cost: Cost,
    delays: Delays,
    run: Path | None = None,
    *,
    plans_ahead: bool = False,
) -> Rerun:
    """As `rerun`, at any cost."""
    setup = Setup(
        config=engine.config,
        cost=cost,
        num_blocks=engine.num_blocks,
        max_model_len=engine.max_model_len,
        delays=delays,
        workers=engine.workers,
        plans_ahead=plans_ahead,
    )
    patient = all(arrival.cancel_at is None and arrival.deadline is None for arrival in arrivals)
    return (_jumped if patient and covers(setup) else _stepped)(arrivals, setup, run)


def _jumped(arrivals: Sequence[Arrival], setup: Setup, run: Path | None) -> Rerun:
    """Many passes at once; the same integers."""
    workload = _workload(arrivals)
    if run is None:
        results = jump_through(setup, workload)
    else:
        with VirtualRun(run, setup, {"arrivals": len(arrivals)}) as files:
            results = jump_through(setup, workload, files)
    return Rerun(_stamps_of_results(results), int(results.column("preemptions").sum()), results.plans_ahead)


def _stepped(arrivals: Sequence[Arrival], setup: Setup, run: Path | None) -> Rerun:
    outcomes = simulate(
        setup.config,
        arrivals,
        setup.cost,
        num_blocks=setup.num_blocks,
        max_model_len=setup.max_model_len,
        delays=setup.delays,
        run=run,
        workers=setup.workers,
    )
    return Rerun(stamps_of(answers(outcomes)), sum(outcome.end.preemptions for outcome in outcomes if outcome.end))


def _workload(arrivals: Sequence[Arrival]) -> Workload:
    def column(name: str) -> "np.typing.NDArray[np.int64]":
        return np.array([getattr(arrival, name) or 0 for arrival in arrivals], np.int64)

    return Workload(
        arrival=column("arrival"),
        prompt_tokens=column("prompt_tokens"),
        max_tokens=column("max_tokens"),
        output_tokens=column("output_tokens"),
        ids=[arrival.request_id or request_id(rid) for rid, arrival in enumerate(arrivals, 1)],
        tiers=[arrival.tier for arrival in arrivals],
        tenants=[arrival.tenant for arrival in arrivals],
        begins=Alike(column("prefix_of"), column("prefix_tokens")),
    )


def _stamps_of_results(results: Results) -> Stamps:
    def column(name: str) -> Array:
        values = results.column(name)
        return np.where(values == NONE, np.nan, values)

    stamps = {name: column(name) for name in STAMPS}
    if results.plans_ahead:
        stamps["first_scheduled"] = column("planned")  # as who records such an engine stamps it
    output = np.where(np.isfinite(stamps["last_token"]), results.demand.total, np.nan)
    return Stamps(**stamps, prompt_tokens=results.workload.prompt_tokens.astype(float), output_tokens=output)


def stamps_of(outcomes: Sequence[Outcome]) -> Stamps:
    """The stamps of simulated requests; NaN where one did not happen."""

    def ends(name: str) -> Array:
        return _floats([getattr(outcome.end, name) if outcome.end else None for outcome in outcomes])

    return Stamps(
        arrival=_floats([outcome.arrival.arrival for outcome in outcomes]),
        queued=ends("queued"),
        first_scheduled=ends("first_scheduled"),
        first_token=ends("first_token"),
        last_token=ends("last_token"),
        returned=_floats([outcome.returned for outcome in outcomes]),
        prompt_tokens=_floats([outcome.arrival.prompt_tokens for outcome in outcomes]),
        output_tokens=ends("output_tokens"),
    )


def _floats(values: Sequence[int | None]) -> Array:
    return np.array([np.nan if value is None else value for value in values], np.float64)
