"""What the engine's parts say to each other: requests, plans, results, and the three protocols of the loop.

Nothing here has a clock, I/O or torch. Times are integer ns of one monotonic clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from engine.messages import Outlook, Sampling
from recorder.words import EventKind, Phase, Reason, Role

EXPIRED: Final = "expired"
"""Why an attempt ends whose deadline passes before it has started."""


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
    priority: int = 0
    """1 is the highest; 0: none of its own."""
    deadline: int | None = None
    prompt_ids: Sequence[int] = field(default=(), compare=False, repr=False)
    """The tokens of the prompt, for what is found again by them; may be left out."""


@dataclass(frozen=True, slots=True)
class Slice:
    """One request's part of a step: `tokens` are computed on top of `computed_before` cached ones.

    `blocks` is the request's whole block table after the plan; `new_blocks` of them nobody held before. `cached` tokens
    of those computed before were found in blocks when it started.
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
    """What one pass will do. Without slices the pass is idle and may last until `wake_at` (None: until a message).

    The events take effect when the execution begins: `Scheduler.commit` stamps them anew with that instant.
    """

    slices: tuple[Slice, ...]
    events: tuple[Event, ...] = ()
    head: Head | None = None
    wake_at: int | None = None
    occupancy: Occupancy = Occupancy()
    step: int = 0
    """Number of the pass on its worker, without gaps."""


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
    """Whether a request is taken in, by the gate of the fleet or by a scheduler. A refused one leaves no trace there.

    `status` is what HTTP calls it. `retry_after_ms`: after so long one like it should be taken; None: it never will.
    """

    accepted: bool
    reason: str = ""
    status: int = 400
    retry_after_ms: int | None = None
    why: Reason = Reason.NONE


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
class Span:
    """One stretch of an attempt on its worker; the steps are None where none belongs to it."""

    phase: Phase
    start: int
    end: int
    first_step: int | None = None
    last_step: int | None = None


@dataclass(frozen=True, slots=True)
class End:
    """How an attempt left its worker: `reason` is `stop` or `length` (OpenAI's words), `cancelled`, or `expired`.

    The spans tile [queued, last token) in order; those of a cancelled or expired attempt tile [queued, that instant).
    """

    reason: str
    progress: Progress
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """What a finished step (or a cancellation) changed: events for the ledger, tokens to deliver, attempts ended."""

    events: tuple[Event, ...] = ()
    sampled: tuple[Sampled, ...] = ()
    finished: Mapping[int, End] = field(default_factory=dict)
    """By rid."""


class Scheduler(Protocol):
    """Decides, and nothing else. Every method is deterministic in its arguments and the calls before it.

    A pass is one `plan` and the `commit` of it; `add`, `cancel` and `expire` come between passes.
    """

    def add(self, request: Request, now: int) -> Admission:
        """Take a request into the queue, or refuse one that can never fit (DESIGN 3)."""
        ...

    def cancel(self, rid: int, now: int) -> Commit:
        """Free all that the request holds and end it as `cancelled`; an unknown rid is nothing to do."""
        ...

    def expire(self, now: int) -> Commit:
        """Deal with those in the queue whose deadline has passed; before each `plan` (SPEC A6)."""
        ...

    def plan(self, now: int) -> StepPlan:
        """Decide the pass that began at `now`. Blocks are already taken when it returns."""
        ...

    def commit(self, plan: StepPlan, result: StepResult, t_exec: int, t_done: int) -> Commit:
        """Take in what the execution of `plan`, from `t_exec` to `t_done`, gave."""
        ...

    def occupancy(self) -> Occupancy:
        """How full the worker is now; a plan carries what it was right after planning."""
        ...

    def outlook(self) -> Outlook | None:
        """What helps to tell when who will be done; None where nobody is refused for that."""
        ...


class Executor(Protocol):
    """Runs plans: on a device, or on a clock that jumps. It alone knows the tokens; the scheduler knows counts."""

    def start(self, rid: int, prompt: Sequence[int], sampling: Sampling) -> None:
        """Learn of an accepted request, before any plan holds it."""
        ...

    def execute(self, plan: StepPlan) -> StepResult:
        """Compute every slice of the plan; sample one token for each with `samples`, and remember it as the next input.

        A request whose `computed_before` falls back to 0 was preempted: its prompt and its own output are computed
        again, in slices, from the tokens remembered.
        """
        ...

    def release(self, rid: int) -> None:
        """Forget a request that has ended."""
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
