"""When a refused request is sent again, and when it is given up: a client's policy, pure (SPEC A8, B2).

All requests of a client share one budget, so that retries can't multiply the load that made them necessary.
"""

from dataclasses import dataclass
from typing import Final

_RETRIABLE: Final = frozenset({429, 500, 503, 529})
_CLOCKS_AGREE_S: Final = 2.0
_BASE_NS: Final = 100_000_000


@dataclass(frozen=True)
class Retrying:
    """At most `limit` retries a request; all together a `budget_share` of the requests, and a few."""

    limit: int = 0
    budget_share: float = 0.1


NEVER: Final = Retrying()


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


class Replicas:
    """Which of `count` equal servers one request goes to: `at`. First those that have not refused it, in turn, then the
    one that may be asked again soonest. Times in ns of the client's clock."""

    def __init__(self, count: int = 1, first: int = 0) -> None:
        self.at = first % count
        self._free_at = {(first + number) % count: 0 for number in range(count)}

    def refused(self, until: int) -> int:
        """The one asked last is not to be asked before `until`. Moves on; returns when the next one may be asked."""
        self._free_at[self.at] = until
        self.at = min(self._free_at, key=self._free_at.__getitem__)
        return self._free_at[self.at]


def decide(
    refusal: Refusal,
    retrying: Retrying,
    retries: int,
    *,
    left_ns: int | None,
    budget: RetryBudget,
    draw: float,
    replicas: Replicas | None = None,
    now: int = 0,
) -> Again:
    """What to do about a refusal that came at `now` after `retries` retries; the caller's deadline is in `left_ns`.

    The server's own instant counts where clocks agree, else `100 ms * 2^retries * (0.5 + draw)`, `draw` from [0, 1).
    Where there are several `replicas`, the wait is that for the next of them, which may be none.
    """
    if not refusal.retriable:
        return Again(None)
    if retries >= retrying.limit:
        return Again(None, f"given up after {retries} retries")
    wait = refusal.trusted_wait_ns
    if wait is None:
        wait = round(_BASE_NS * 2**retries * (0.5 + draw))
    if replicas:
        wait = max(replicas.refused(now + wait) - now, 0)
    if left_ns is not None and wait >= left_ns:
        return Again(None, "given up: the deadline is before the next attempt")
    if not budget.take():
        return Again(None, "given up: the retry budget is used up")
    return Again(wait)
