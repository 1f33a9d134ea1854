"""Which cost model a recording gets: the one it was simulated with, one from its steps, or one from its stamps."""

from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from engine.config import from_dict
from engine.cost.model import CostFit
from engine.cost.stamps import Chosen, Stamps, fit_stamps, stamps_missed
from engine.cost.steps import fit_steps, matches, read_steps
from engine.simulate.clock import Delays
from engine.simulate.cost import LinearCost
from engine.whatif.measures import LATENCIES, relative_errors, summaries
from engine.whatif.recorded import Recorded
from engine.whatif.rerun import Engine, rerun, rerun_at
from recorder.tables import RunTables

_FREE: Final = 0.05
"""The share of requests whose way to the queue is taken as undisturbed by a step in flight."""


def fit_recording(recorded: Recorded, engine: Engine) -> CostFit:
    """The cost model of a whole recording, with its held-out error. CostError where nothing gives one."""
    if known := _known_cost(recorded):
        return known
    steps = read_steps(recorded.tables)
    if len(steps):
        return fit_steps(steps, _delays(recorded))
    whole = _fit_from_stamps(recorded, engine, np.ones(len(recorded.stamps), bool))
    return replace(whole, held_out=_held_out(recorded, engine))


def fit_share(recorded: Recorded, engine: Engine, train: Chosen) -> CostFit:
    """A cost model that has seen the stamps of the `train` requests alone, or the steps until the first other came."""
    steps = read_steps(recorded.tables)
    if not len(steps):
        return _fit_from_stamps(recorded, engine, train)
    others = recorded.stamps.arrival[~train]
    until = (float(others.min()) if len(others) else np.inf) + recorded.origin
    return fit_steps(steps.part(steps.ended < until), _delays(recorded))


def first_share(recorded: Recorded, share: float) -> Chosen:
    """The first requests by arrival, `share` of them."""
    count = len(recorded.stamps)
    first: Chosen = np.arange(count) < round(count * share)
    return first


def _fit_from_stamps(recorded: Recorded, engine: Engine, train: Chosen) -> CostFit:
    """Host time is inside each step's here: stamps do not tell it apart. Where it is not known whether the engine
    planned ahead, what brings the stamps closer tells."""
    train = train & recorded.answered
    told = recorded.info.workload.get("source", {}).get("plans_ahead", False)
    ways = [False, True] if told is None else [told]
    fits = [_fit_planning(recorded, engine, train, plans_ahead=each) for each in ways]

    def missed(fit: CostFit) -> float:
        got = rerun(recorded.arrivals, engine, fit).stamps
        return float(np.abs(stamps_missed(recorded.stamps, train, got)).mean())

    return min(fits, key=missed) if len(fits) > 1 else fits[0]


def _fit_planning(recorded: Recorded, engine: Engine, train: Chosen, *, plans_ahead: bool) -> CostFit:
    delays = _delays(recorded)

    def simulated(cost: LinearCost) -> Stamps:
        return rerun_at(recorded.arrivals, engine, cost, delays, plans_ahead=plans_ahead).stamps

    cost = fit_stamps(recorded.stamps, train, simulated)
    return CostFit(
        source="stamps", decode=cost, mixed=cost, delays=delays, plans_ahead=plans_ahead, trained_on=int(train.sum())
    )


def _held_out(recorded: Recorded, engine: Engine) -> dict[str, float]:
    """Errors on the second half of a fit on the first."""
    half = first_share(recorded, 0.5)
    trial = _fit_from_stamps(recorded, engine, half)
    got = rerun(recorded.arrivals, engine, trial).stamps
    told, simulated = (
        summaries(stamps, recorded.answered & ~half, LATENCIES, ("mean", "p50", "p99"))
        for stamps in (recorded.stamps, got)
    )
    errors = relative_errors(told, simulated)
    return {f"{name}_{key}": error for name in LATENCIES for key, error in errors[name].items() if error is not None}


def _known_cost(recorded: Recorded) -> CostFit | None:
    """The cost that made a virtual run: kept by a what-if, or in its configuration, unless its steps say otherwise."""
    info = recorded.info
    if info.clock.kind != "virtual":
        return None
    if "fit" in info.whatif:
        return CostFit.from_dict(info.whatif["fit"])
    config = from_dict(info.config, str(recorded.tables.path))
    cost = LinearCost.of(config.cost)
    if not matches(read_steps(recorded.tables), cost):
        return None
    return CostFit(source="configuration", decode=cost, mixed=cost, delays=Delays.of(config.cost))


# -- the ways in and out ---------------------------------------------------------------------------------------------


def _delays(recorded: Recorded) -> Delays:
    """Ways in and out as the run has them; host time of a pass is for the fit to tell."""
    link_ns, write_ns = _ways_out(recorded.tables)
    return Delays(ingress_ns=_ingress_ns(recorded), plan_ns=0, commit_ns=0, link_ns=link_ns, write_ns=write_ns)


def _ingress_ns(recorded: Recorded) -> int:
    """From the front end's own stamps, or else from the requests that found their worker free."""
    requests = recorded.tables.table("requests")
    handed_on = _known(requests, "admitted", "arrival")
    if len(handed_on):
        return max(round(float(np.median(handed_on))), 0)
    waits = (recorded.stamps.queued - recorded.stamps.arrival)[recorded.answered]
    return max(round(float(np.quantile(waits, _FREE))), 0)


def _ways_out(tables: RunTables) -> tuple[int, int]:
    """From the end of a pass to the front end, and for each stream written there; 0 where it is not recorded."""
    deliveries, steps = tables.table("deliveries"), tables.table("steps")
    if not deliveries.num_rows or not steps.num_rows:
        return 0, 0
    joined = deliveries.join(steps.select(["worker", "step", "t_end"]), ["worker", "step"], join_type="inner")
    links = _known(joined, "t_received", "t_end")
    streams = joined["streams"].fill_null(0).to_numpy()
    writes = _known(joined.filter(pa.array(streams > 0)), "t_written", "t_received") / streams[streams > 0]
    return max(round(float(np.median(links))), 0), round(float(np.median(writes))) if len(writes) else 0


def _known(table: pa.Table, later: str, earlier: str) -> "np.typing.NDArray[np.float64]":
    """later - earlier of the rows that have both."""
    both = table.select([later, earlier]).drop_null()
    gaps: np.typing.NDArray[np.float64] = (both[later].to_numpy() - both[earlier].to_numpy()).astype(np.float64)
    return gaps
