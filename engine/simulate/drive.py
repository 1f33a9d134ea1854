"""Several workers on one virtual time line: requests are handed out in the order of time, to whoever lives then."""

import math
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

FOREVER: Final = math.inf

Asked = TypeVar("Asked")
Asked_co = TypeVar("Asked_co", covariant=True)


class Source(Protocol[Asked_co]):
    """Where requests come from, in order of their arrival."""

    @property
    def closed(self) -> bool:
        """Whether arrivals depend on when answers come (a closed loop)."""
        ...

    def peek(self) -> float | None:
        """Arrival of the next request in ns; FOREVER if it waits for an answer; None if there is no next one."""
        ...

    def take(self) -> Asked_co:
        """The next request."""
        ...

    def ended(self, rid: int, t: int) -> None:
        """The client of the `rid`-th request has its answer at `t`."""
        ...


class Worker(Protocol):
    """A worker that can be told how far to live."""

    @property
    def ready(self) -> int | None:
        """When it goes on, in ns; None while nothing is to come."""
        ...

    def advance(self, until: float, *, one: bool = False) -> None:
        """Live through every pass that begins before `until`; with `one`, only until a request may have ended."""
        ...


def drive(source: Source[Asked], workers: Sequence[Worker], submit: Callable[[Asked], None], ingress_ns: int) -> None:
    """Bring all requests to workers. `submit` gets one when every worker has lived until that request reaches it."""
    while (t := source.peek()) is not None:
        until = t + ingress_ns
        if source.closed and _live_a_little(workers, until):
            continue  # an answer may have brought a request that comes earlier
        for worker in workers:
            worker.advance(until)
        submit(source.take())


def _live_a_little(workers: Sequence[Worker], until: float) -> bool:
    """Let the worker that is furthest behind live until it may have ended a request; False if all are beyond `until`.

    Beside others it lives one pass, since theirs could bring it a request in the middle of a longer stretch.
    """
    waiting = [(ready, number) for number, worker in enumerate(workers) if (ready := worker.ready) is not None]
    if not waiting or min(waiting)[0] >= until:
        return False
    ready, number = min(waiting)
    workers[number].advance(until if len(workers) == 1 else ready + 1, one=True)
    return True
