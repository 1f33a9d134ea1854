"""Slices and deliveries as arrays, and the slices of one worker put to its attempts."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from recorder.attribution.attempts import Attempts
from recorder.attribution.columns import Bools, Ints, Places, codes, equal, first_known, in_order, ints
from recorder.attribution.passes import Passes
from recorder.schema import NONE
from recorder.words import Role

_ROLES: Final = list(Role)


@dataclass(frozen=True)
class Slices:
    """Parts that requests had in steps, one element each."""

    step: Ints
    worker: Ints
    rid: Ints
    role: Ints
    tokens: Ints
    before: Ints
    """Tokens in the request's KV cache before the step."""

    @classmethod
    def read(cls, slices: pa.Table) -> "Slices":
        """The slices of all workers."""
        numbers = {name: ints(slices, name) for name in ("step", "worker", "rid", "tokens")}
        return cls(**numbers, role=codes(slices, "role", Role), before=ints(slices, "computed_before"))

    def take(self, chosen: Ints | Bools) -> "Slices":
        """These slices, in this order."""
        if chosen.dtype == np.bool_ and chosen.all():
            return self
        return Slices(**{field.name: getattr(self, field.name)[chosen] for field in fields(self)})

    def is_role(self, role: Role) -> Bools:
        """Which did this."""
        return equal(self.role, _ROLES.index(role))

    @classmethod
    def none(cls) -> "Slices":
        """No slice."""
        return cls(**{field.name: np.empty(0, np.int64) for field in fields(cls)})

    @classmethod
    def joined(cls, *several: "Slices") -> "Slices":
        """One after another."""
        columns = {field.name: [getattr(each, field.name) for each in several] for field in fields(cls)}
        return cls(**{name: np.concatenate(parts) for name, parts in columns.items()})


class Source(Protocol):
    """Where slices come from: they are most of a run, and need not be in memory all at once."""

    def chunks(self, worker: int | None = None) -> Iterator[Slices]:
        """All of one worker, or of all of them, once, in chunks; rows of equal steps in the order of writing."""
        ...

    def between(self, worker: int, first: int, stop: int) -> Slices:
        """Those of a worker's steps [first, stop), sorted by step; rows of equal steps in the order of writing."""
        ...


class Whole(Source):
    """Slices that are in memory anyway, sorted by step."""

    def __init__(self, slices: Slices) -> None:
        self._slices = slices

    def chunks(self, worker: int | None = None) -> Iterator[Slices]:
        """One."""
        yield self._slices if worker is None else self._slices.take(self._slices.worker == worker)

    def between(self, worker: int, first: int, stop: int) -> Slices:
        """By looking at each."""
        step = self._slices.step
        return self._slices.take((self._slices.worker == worker) & (step >= first) & (step < stop))


@dataclass(frozen=True)
class Deliveries:
    """When each step's tokens left one worker, sorted by step."""

    step: Ints
    sent: Ints

    @classmethod
    def read(cls, deliveries: pa.Table, worker: int) -> "Deliveries":
        """The deliveries of one worker."""
        mine = ints(deliveries, "worker") == worker
        step, sent = ints(deliveries, "step")[mine], ints(deliveries, "t_sent")[mine]
        order = np.argsort(step, kind="stable")
        return cls(step[order], sent[order])

    def of(self, step: Ints) -> Ints:
        """The instant at which these steps' tokens left; NONE where that was not recorded."""
        return np.append(self.sent, NONE)[self._places.of(step)]

    @cached_property
    def _places(self) -> Places:
        return Places(self.step)


@dataclass(frozen=True)
class Parts:
    """The slices of one worker whose attempt is known, in the order of attempt and step."""

    slices: Slices
    who: Ints
    """Position of the attempt among the worker's."""
    at: Ints
    """Position of the pass, -1 where it was not recorded."""
    first: Bools
    """Where the attempt's first one is."""
    last: Bools
    """Where the attempt's last recorded one is."""

    @classmethod
    def of(cls, slices: Slices, passes: Passes, attempts: Attempts) -> "Parts":
        """Put each slice to the attempt under way at its step; those of strangers are left out."""
        nearby = np.minimum(passes.reaching(slices.step), len(passes) - 1)
        who = attempts.match(slices.rid, passes.exec[nearby])
        sorted_by_step = bool(np.all(slices.step[1:] >= slices.step[:-1]))
        order = in_order(who) if sorted_by_step else in_order(who, slices.step)
        order = order[np.searchsorted(who[order], 0) :]
        who, slices = who[order], slices.take(order)
        turn = who[1:] != who[:-1]
        first, last = np.insert(turn, 0, True)[: len(who)], np.append(turn, True)[: len(who)]
        return cls(slices, who, passes.index(slices.step), first, last)

    def take(self, chosen: Bools) -> "Parts":
        """Only the chosen ones."""
        if chosen.all():
            return self
        who, at = self.who[chosen], self.at[chosen]
        return Parts(self.slices.take(chosen), who, at, self.first[chosen], self.last[chosen])

    def starts(self, passes: Passes, attempts: Attempts) -> Ints:
        """When the execution of each attempt's first step began: its stamp, else that of its first slice."""
        seen = np.full(len(attempts), NONE)
        chosen = self.first & (self.at >= 0)
        seen[self.who[chosen]] = passes.exec[self.at[chosen]]
        return first_known(attempts.first_scheduled, seen)
