"""The clock of virtual time, and what passes on it beside the device: host time, and the ways in and out."""

from dataclasses import dataclass

from engine.config import CostConfig
from engine.core import Admission, Commit, Occupancy, Request, Scheduler, StepPlan, StepResult
from engine.messages import Outlook

PS_PER_NS = 1000
"""Costs are whole picoseconds, so that a coefficient below a nanosecond keeps its digits and sums stay exact."""


class VirtualClock:
    """Time passes only when it is told to. Implements `engine.core.Clock`; keeps ps, tells ns (rounded down)."""

    def __init__(self, start: int = 0) -> None:
        self._ps = start * PS_PER_NS

    def now(self) -> int:
        """Nanoseconds."""
        return self._ps // PS_PER_NS

    def charge(self, ns: int) -> None:
        """Let `ns` pass as work."""
        self._ps += ns * PS_PER_NS

    def charge_ps(self, ps: int) -> None:
        """Let `ps` pass as work."""
        self._ps += ps

    def wait_until(self, t: int) -> None:
        """Let time pass until `t`; an instant gone by is not waited for."""
        self._ps = max(self._ps, t * PS_PER_NS)


@dataclass(frozen=True, kw_only=True)
class Delays:
    """Time that passes outside the device, in ns: host time of each pass, and the ways in and out."""

    ingress_ns: int = 200_000
    """From arrival to the worker's inbox."""
    plan_ns: int = 150_000
    """Each pass: deciding."""
    commit_ns: int = 150_000
    """Each pass: handing out."""
    link_ns: int = 100_000
    """From the worker to the front end."""
    write_ns: int = 20_000
    """For each stream that a step's tokens go to."""

    @classmethod
    def of(cls, cost: CostConfig) -> "Delays":
        """As the section `[cost]` has them; host time is half deciding, half handing out."""
        host = round(cost.host_us * 1e3)
        return cls(
            ingress_ns=round(cost.ingress_us * 1e3),
            plan_ns=host // 2,
            commit_ns=host - host // 2,
            link_ns=round(cost.link_us * 1e3),
            write_ns=round(cost.write_us * 1e3),
        )


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

    def expire(self, now: int) -> Commit:
        """As wrapped."""
        return self._scheduler.expire(now)

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

    def outlook(self) -> Outlook | None:
        """As wrapped."""
        return self._scheduler.outlook()
