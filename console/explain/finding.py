"""What a suspect says: plain data, sentences included, that goes out as JSON as it is."""

from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

WORKERS: Final = "workers"


class Kind(StrEnum):
    """What a tail can come of. The words are what JSON has and tests ask for."""

    CLOSED_LOOP = "closed_loop"
    LOST_RECORDS = "lost_records"
    WORKER_LOST = "worker_lost"
    REFUSALS = "refusals"
    CACHE_MISSES = "cache_misses"
    STARVED_TIER = "starved_tier"
    KV_EXHAUSTED = "kv_exhausted"
    BATCH_TIMER = "batch_timer"
    GC_PAUSES = "gc_pauses"
    EVENT_LOOP = "event_loop"
    COLD_STEPS = "cold_steps"
    SLOW_CLIENTS = "slow_clients"
    WAY_OUT = "way_out"
    WAY_IN = "way_in"
    LONG_PROMPTS = "long_prompts"
    QUEUE_SATURATED = "queue_saturated"
    SLOWER_STEPS = "slower_steps"
    HOST_TIME = "host_time"
    ASKED_FOR_MORE = "asked_for_more"


class Nature(StrEnum):
    """What a finding is about. Doubts about the figures come first, then lost answers, then time."""

    MEASUREMENT = "measurement"
    ANSWERS = "answers"
    TIME = "time"
    WORK = "work"
    """Time that the request asked for itself."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """A request, and its share of what the finding is about."""

    rid: int
    request_id: str
    prompt_tokens: int
    share: float


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps of one worker, both ends included."""

    worker: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Change:
    """One setting, or a number of workers, as `tailtrace whatif` takes it."""

    key: str
    value: object

    @property
    def options(self) -> tuple[str, str]:
        """On the command line."""
        return ("--workers", str(self.value)) if self.key == WORKERS else ("--set", str(self))

    def __str__(self) -> str:
        return f"{self.key}={self.value}"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What might help. `changes` are settings to try, the most likely first; none where no setting does it."""

    advice: str
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that makes the tail what it is.

    `excess_ns` is what a slow request lost to it more than a typical one, on average, and `share` its part of the whole
    excess; None where it is not about time. `everyone` is its part of the E2E of a typical request. `measured` is False
    where a prediction or a comparison was needed beside the stamps. `only` (a filter) and `at` (a seek) show the
    evidence.
    """

    kind: Kind
    nature: Nature
    sentences: tuple[str, ...]
    excess_ns: Fraction | None = None
    share: Fraction | None = None
    everyone: float | None = None
    causes: tuple[str, ...] = ()
    victims: int | None = None
    """Of `slow` requests so many lost a tenth of their E2E or more to the largest of its causes."""
    slow: int | None = None
    culprits: tuple[Culprit, ...] = ()
    steps: Steps | None = None
    measured: bool = True
    stands_out: bool = False
    """It is worth looking at: no small part, and no request's own work."""
    suggestion: Suggestion | None = None
    only: str = ""
    at: str = ""
    figures: dict[str, Any] = field(default_factory=dict)
