"""Everything that suspects may know of a run, as plain data: what was measured, never what something is called."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from console.blame.cohorts import Cohorts
from console.diagnosis import HEALTHY_RATIO, Pulse
from console.explain.arrivals import Pinned
from console.explain.cells import Asked, Cell
from console.explain.prefixes import Shift

_LONG: Final = 4
"""So many times the middle one, a prompt is long."""

View = Literal["tail", "everyone"]
"""What is accounted for: what slow requests took more than typical ones, or what typical ones took."""


def view_of(pulse: Pulse) -> View:
    """Where P99 is near P50 there is no tail to speak of."""
    return "tail" if pulse.ratio is None or pulse.ratio > HEALTHY_RATIO else "everyone"


@dataclass(frozen=True, slots=True)
class Person:
    """One request, by its last attempt."""

    rid: int
    request_id: str
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """What requests have to compute of their prompts, in the middle; None where there was none."""

    computed_p50: int | None

    @property
    def long(self) -> int | None:
        """So many are out of the ordinary."""
        return None if self.computed_p50 is None else _LONG * max(self.computed_p50, 1)


@dataclass(frozen=True, slots=True)
class Tier:
    """One service class: its answered requests, how many are slow, its wait in the queue in ns."""

    tier: str
    n: int
    slow: int
    queue_p50: int | None


@dataclass(frozen=True, slots=True)
class Worker:
    """How full one worker was. Shares are of its time."""

    worker: int
    idle_share: float | None
    waiting_share: float | None
    waiting_max: int | None
    running_max: int | None
    kv_free_min: int | None
    kv_total: int | None


@dataclass(frozen=True, slots=True)
class Preemptions:
    """Blocks that were taken away; `taker` took them most often, `taken` times."""

    n: int
    victims: int
    lost_tokens: int
    first_step: int | None
    last_step: int | None
    worker: int | None
    taker: int | None
    taken: int | None


@dataclass(frozen=True, slots=True)
class Stall:
    """Stretches in which a process was held up, of one kind. Times in ns; the rest is of the longest."""

    kind: str
    n: int
    ns: int
    longest_ns: int | None
    longest_at: int | None
    source: str | None
    device: int | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class Late:
    """A slow request whose answer lay ready for `ns`; meanwhile `others` got theirs, in the middle in `others_p50`."""

    rid: int
    request_id: str
    tenant: str
    ns: int
    others: int
    others_p50: int | None


@dataclass(frozen=True, slots=True)
class Loss:
    """A worker; `t` is when it was lost, None where it was not. `hit` attempts went with it after
    `spent_ns` in all, `again` were answered by another."""

    worker: int
    t: int | None
    hit: int
    again: int
    spent_ns: int
    example: int | None


@dataclass(frozen=True, slots=True)
class Around:
    """Answered requests before and after an instant: how many, how long they waited (ns), how many are slow."""

    before: int
    after: int
    wait_before: int | None
    wait_after: int | None
    slow_before: int
    slow_after: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """Attempts without an answer, of one state, code and reason. `told` were told when to come again, in ms.

    `retry_p50` is the middle of all of that state, whatever the code and reason.
    """

    status: str
    http_status: int | None
    reason: str
    n: int
    told: int
    retry_min: int | None
    retry_p50: int | None
    retry_max: int | None
    example: int


@dataclass(frozen=True)
class Evidence:
    """One run under one filter. `cells` are empty where nobody was slow, or nobody typical."""

    run: str
    state: str
    only: str
    config: Mapping[str, Any]
    states: Mapping[str, int]
    cohorts: Cohorts
    slow: Asked
    typical: Asked
    cells: tuple[Cell, ...]
    touched: Mapping[str, int]
    """Cause -> slow requests that lost a tenth of their E2E or more to it."""
    people: Mapping[int, Person]
    prompts: Mapping[int, tuple[int, int, int]]
    """rid -> worker, first and last step in which its prompt was computed; of whoever is to blame most for a part."""
    tiers: tuple[Tier, ...]
    """Empty where there is but one."""
    workers: tuple[Worker, ...]
    preemptions: Preemptions
    stalls: Mapping[str, Stall]
    late: tuple[Late, ...]
    losses: tuple[Loss, ...]
    refusals: tuple[Refusal, ...]
    pulse: Pulse
    pinned: Pinned | None
    shift: Shift | None
    around: Mapping[int, Around]
    """What changed in the queue at the instants that matter: a lost worker, a cache that stopped to hit."""
    began: int
    """The first arrival, from which the console counts time."""
    censored: int
    """Requests that ended without an answer or have not ended: every percentile is a lower bound."""
    incomplete: int
    drops: int
    damages: tuple[tuple[str, str], ...]
    """Files that can't be trusted, and what is wrong with them: their rows may be missing."""
    left_out: int
    """Passes that the flight recorder left out on purpose."""

    def setting(self, section: str, key: str) -> Any:  # noqa: ANN401  # configurations hold what they like
        """A key of the recorded configuration; None where the run does not say."""
        return self.config.get(section, {}).get(key)

    def instant(self, t: int) -> str:
        """An instant as the console seeks it."""
        return f"{max(t - self.began, 0) / 1e9:.6f}s"

    def place(self, rid: int | None) -> str:
        """A request as the console seeks it: by its id, since a number may be another one's id; empty for nobody."""
        person = None if rid is None else self.people.get(rid)
        return "" if rid is None else f"req:{(person.request_id if person else '') or rid}"
