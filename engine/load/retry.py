"""When a refused request is sent again, and when it is given up: a client's policy, pure (SPEC A8, B2).

All requests of a client share one budget, so that retries can't multiply the load that made them necessary.
"""

from dataclasses import dataclass
from typing import Final

_RETRIABLE: Final = frozenset({429, 500, 503, 529})
_CLOCKS_AGREE_S: Final = 2.0
_BASE_NS: Final = 100_000_000


@dataclass(frozen=True)
class Refusal:
    """What came back in place of an answer: `http_status` None where the connection failed.

    `server_time_s` is the server's clock as it answered, `here_s` the client's as it read that; both of the wall.
    """

    http_status: int | None
    here_s: float
    retry_after_ms: int | None = None
    server_time_s: float | None = None

    @property
    def retriable(self) -> bool:
        """Whether another attempt could end differently."""
        return self.http_status is None or self.http_status in _RETRIABLE

    @property
    def trusted_wait_ns(self) -> int | None:
        """The wait that the server asked for, if its clock is within 2 s of this one."""
        if self.retry_after_ms is None or self.server_time_s is None:
            return None
        agree = abs(self.server_time_s - self.here_s) <= _CLOCKS_AGREE_S
        return self.retry_after_ms * 1_000_000 if agree else None


class RetryBudget:
    """Retries that all requests together may make: `reserve`, and `share` of one for each request that was sent."""

    def __init__(self, share: float, reserve: int = 3) -> None:
        self._share = share
        self._left = float(reserve)

    def sent(self) -> None:
        """A request was sent for the first time."""
        self._left += self._share

    def take(self) -> bool:
        """Take one retry out; False if there is none left."""
        if self._left < 1:
            return False
        self._left -= 1
        return True


@dataclass(frozen=True)
class Again:
    """Send it again after `wait_ns`; None: give it up, for `reason`."""

    wait_ns: int | None
    reason: str = ""


def decide(
    refusal: Refusal, retries: int, limit: int, *, left_ns: int | None, budget: RetryBudget, draw: float
) -> Again:
    """What to do about a refusal after `retries` of at most `limit` retries; the caller's deadline is in `left_ns`.

    The server's own instant counts where clocks agree, else `100 ms * 2^retries * (0.5 + draw)`, `draw` from [0, 1).
    """
    if not refusal.retriable:
        return Again(None)
    if retries >= limit:
        return Again(None, f"given up after {retries} retries")
    wait = refusal.trusted_wait_ns
    if wait is None:
        wait = round(_BASE_NS * 2**retries * (0.5 + draw))
    if left_ns is not None and wait >= left_ns:
        return Again(None, "given up: the deadline is before the next attempt")
    if not budget.take():
        return Again(None, "given up: the retry budget is used up")
    return Again(wait)
