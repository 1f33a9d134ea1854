"""What the engine's parts say to each other: requests, plans, results, and the three protocols of the loop.

Nothing here has a clock, I/O or torch. Times are integer ns of one monotonic clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from recorder.words import EventKind, Reason, Role


@dataclass(frozen=True, slots=True)
class Request:
    """What a scheduler may know of a request. The true output length is not among it."""

    rid: int
    prompt_tokens: int
    max_tokens: int
    arrival: int
    attempt: int = 1
    tier: str = ""
    tenant: str = ""
    priority: int = 1
    deadline: int | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """One request's part of a step: `tokens` are computed on top of `computed_before` cached ones.

    `blocks` is the request's whole block table after the plan; `new_blocks` of them were given in this plan.
    `samples` is true where the slice reaches the end of what is known of the sequence, so that it gives a token.
    """

    rid: int
    role: Role
    tokens: int
    computed_before: int
    blocks: Sequence[int]
    new_blocks: int = 0
    cached: int = 0
    samples: bool = True


@dataclass(frozen=True, slots=True)
class Event:
    """One change of state, as the ledger stores it (`recorder.schema.EVENTS`)."""

    t: int
    rid: int
    kind: EventKind
    other_rid: int | None = None
    reason: Reason = Reason.NONE
    lost_tokens: int = 0
    freed_blocks: int = 0


@dataclass(frozen=True, slots=True)
class Head:
    """The request at the head of the queue, and why it was not started."""

    rid: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How full the worker is. `waiting_tokens` are the tokens to compute before each next output token."""

    waiting: int = 0
    waiting_tokens: int = 0
    running: int = 0
    kv_free: int = 0
    kv_total: int = 0


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What one pass will do. Without slices the pass is idle and may last until `wake_at` (None: until a message)."""

    slices: tuple[Slice, ...]
    events: tuple[Event, ...]
    head: Head | None
    wake_at: int | None
    occupancy: Occupancy


@dataclass(frozen=True, slots=True)
class Sampled:
    """One new token. `stop` tells that the sequence ends with it (end of text, a stop string)."""

    rid: int
    token: int
    stop: bool = False


@dataclass(frozen=True, slots=True)
class StepResult:
    """What an execution gave. `device_ns` is the time the device was busy with it."""

    sampled: tuple[Sampled, ...] = ()
    device_ns: int = 0


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer to `Scheduler.add`. A refused request gets `reason` in words and leaves no trace."""

    accepted: bool
    reason: str = ""


@dataclass(slots=True)
class Progress:
    """The stamps and counts of one attempt that its worker knows; goes out with its last token."""

    rid: int
    attempt: int
    queued: int
    batch_wait_from: int | None = None
    first_scheduled: int | None = None
    first_token: int | None = None
    last_token: int | None = None
    output_tokens: int = 0
    cached_tokens: int = 0
    preemptions: int = 0
    recomputed_tokens: int = 0
    device_ns: int = 0


@dataclass(frozen=True, slots=True)
class Commit:
    """What a finished step changed: events for the ledger, tokens to deliver, attempts that ended with it."""

    events: tuple[Event, ...] = ()
    sampled: tuple[Sampled, ...] = ()
    finished: Mapping[int, str] = field(default_factory=dict)
    """rid -> finish reason in OpenAI's words: `stop` or `length`."""


class Scheduler(Protocol):
    """Decides, and nothing else. Every method is deterministic in its arguments and the calls before it."""

    def add(self, request: Request, now: int) -> Admission:
        """Take a request into the queue, or refuse one that can never fit (SPEC B1, DESIGN 3)."""
        ...

    def cancel(self, rid: int, now: int) -> tuple[Event, ...]:
        """Free all that the request holds; an unknown rid is nothing to do."""
        ...

    def plan(self, now: int) -> StepPlan:
        """Decide the next pass. Blocks are already taken when it returns."""
        ...

    def commit(self, plan: StepPlan, result: StepResult, now: int) -> Commit:
        """Take in what the execution of `plan` gave at instant `now`."""
        ...


class Executor(Protocol):
    """Runs plans: on a device, or on a clock that jumps."""

    def execute(self, plan: StepPlan) -> StepResult:
        """Compute every slice of the plan; sample for those with `samples`."""
        ...


class Clock(Protocol):
    """Time for the loop: monotonic and real, or virtual."""

    def now(self) -> int:
        """Nanoseconds."""
        ...

    def charge(self, ns: int) -> None:
        """Let `ns` pass as work (virtual clocks jump; the real clock has already passed them)."""
        ...

    def wait_until(self, t: int) -> None:
        """Let time pass until `t`."""
        ...
