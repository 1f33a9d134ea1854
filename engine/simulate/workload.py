"""A workload in columns: what arrives when, how long it is, and what only the executor may know of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.simulate.contents import Alike, alike
from engine.simulate.front import Arrival, request_id

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ThinkTime:
    """A closed loop: `users` send one request after the other, each `think_ns` after the answer to the one before.

    The first requests come at `Workload.arrival`; of all others the arrival follows from the simulation.
    """

    users: int
    think_ns: Ints


@dataclass(frozen=True, eq=False, kw_only=True)
class Workload:
    """Requests in order of arrival (ns). `output_tokens` 0: the model would go on until `max_tokens`."""

    arrival: Ints
    prompt_tokens: Ints
    max_tokens: Ints
    output_tokens: Ints
    ids: Sequence[str] | None = None
    tiers: Sequence[str] | None = None
    tenants: Sequence[str] | None = None
    priorities: Sequence[int] | None = None
    deadlines_ns: Sequence[int | None] | None = None
    """Deadlines, each from its arrival."""
    prefixes: Sequence[Sequence[int]] | None = None
    """For each 512 tokens of a prompt a number that says what they and all before them are, equal where those are."""
    begins: Alike | None = None
    """The same told otherwise, where there are no such numbers: whom each prompt begins like."""
    open_ended: bool = False
    """Nobody asked for these `max_tokens`: they may be cut to what a worker has room for."""
    closed: ThinkTime | None = None
    about: dict[str, Any] = field(default_factory=dict)
    """What it is, for the run's `run.json`: kind of loop, format, file or spec."""

    def __len__(self) -> int:
        return len(self.prompt_tokens)

    @property
    def longest(self) -> int:
        """Most tokens of prompt and output that one request may come to."""
        return int((self.prompt_tokens + self.max_tokens).max(initial=1))

    @property
    def has_deadlines(self) -> bool:
        """Whether any request may expire."""
        return any(deadline is not None for deadline in self.deadlines_ns or ())

    @cached_property
    def alike(self) -> Alike:
        """Which prompts begin like others."""
        if self.begins:
            return self.begins
        if self.prefixes:
            return alike(self.prefixes, self.prompt_tokens.tolist())
        return Alike(np.zeros(len(self), np.int64), np.zeros(len(self), np.int64))

    def fitted(self, room: int) -> "Workload":
        """With open-ended `max_tokens` cut so that prompt and output have room in `room` tokens together."""
        if not self.open_ended:
            return self
        return replace(self, max_tokens=np.maximum(np.minimum(self.max_tokens, room - self.prompt_tokens), 1))

    def request(self, index: int, arrival: int) -> Arrival:
        """One request by its place, from 0, as it arrives at that instant."""
        due = self.deadlines_ns[index] if self.deadlines_ns else None
        return Arrival(
            arrival=arrival,
            prompt_tokens=int(self.prompt_tokens[index]),
            max_tokens=int(self.max_tokens[index]),
            output_tokens=int(self.output_tokens[index]) or None,
            request_id=self.request_id(index),
            tier=self.tiers[index] if self.tiers else "",
            tenant=self.tenants[index] if self.tenants else "",
            priority=self.priorities[index] if self.priorities else 0,
            deadline=None if due is None else arrival + due,
            prefix_of=int(self.alike.of[index]),
            prefix_tokens=int(self.alike.tokens[index]),
        )

    def request_id(self, index: int) -> str:
        """Its own id, or its number."""
        return self.ids[index] if self.ids else request_id(index + 1)
