"""When a policy lets a batch start, and how large it may be (SPEC E3)."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from engine.toy.ledger import ToyError


class Policy(StrEnum):
    """The three policies that the ledger compares."""

    IMMEDIATE = "immediate"
    STATIC = "static"
    CONTINUOUS = "continuous"


@dataclass(frozen=True, slots=True)
class Settings:
    """The knobs of one replay. `slo_s` only judges: no policy sees it."""

    policy: Policy
    rate: Fraction
    max_batch: int
    max_wait_s: Fraction
    slo_s: Fraction

    def __post_init__(self) -> None:
        if self.rate <= 0:
            raise ToyError(f"--rate must be above 0 requests/s, not {float(self.rate):g}")
        if self.max_batch < 1:
            raise ToyError(f"--max-batch must be at least 1, not {self.max_batch}")
        if self.max_wait_s < 0:
            raise ToyError(f"--max-wait-s must be 0 s or more, not {float(self.max_wait_s):g}")
        if self.slo_s <= 0:
            raise ToyError(f"--slo-s must be above 0 s, not {float(self.slo_s):g}")

    @property
    def batch_limit(self) -> int:
        """Requests that one prefill may take."""
        return 1 if self.policy is Policy.IMMEDIATE else self.max_batch


@dataclass(frozen=True, slots=True)
class Moment:
    """What a policy may look at: the queue, the machine, and whether anybody is still to come."""

    queued: int
    oldest_waited_s: Fraction
    unfinished: int
    more_to_come: bool


def may_start(settings: Settings, moment: Moment) -> bool:
    """True if the policy starts a prefill now, given that none is in progress."""
    if not moment.queued:
        return False
    if settings.policy is Policy.CONTINUOUS:
        return True
    if moment.unfinished:
        return False
    return (
        settings.policy is Policy.IMMEDIATE
        or moment.queued >= settings.max_batch
        or moment.oldest_waited_s >= settings.max_wait_s
        or not moment.more_to_come
    )
