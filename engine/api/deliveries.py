"""The way of one step's tokens to their sockets: one row a step, written when the last of its streams is written."""

import asyncio
from collections.abc import Callable
from typing import Final

from engine.messages import StepOutput
from recorder.schema import NONE

PATIENCE_S: Final = 1.0
"""A row does not wait longer for a slow client: it is written without `t_written`, so that a killed run has it."""


class Delivery:
    """One step's tokens on their way out."""

    __slots__ = (
        "_append",
        "_output",
        "_outstanding",
        "_streams",
        "_t_received",
        "_t_written",
        "_timer",
        "_waiters",
        "closed",
    )

    def __init__(self, output: StepOutput, t_received: int, append: Callable[..., bool]) -> None:
        self._append = append
        self._output = output
        self._t_received = t_received
        self._t_written = NONE
        self._streams = 0
        self._outstanding = 1
        """The dispatch of the step itself counts as one, so that the row can't close before all streams are known."""
        self._waiters: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.closed = False

    def expect(self) -> None:
        """One more socket will be written to."""
        self._streams += 1
        self._outstanding += 1

    def written(self, now: int) -> None:
        """One of the sockets has taken all its bytes at `now` (ns)."""
        self._t_written = max(self._t_written, now)
        self._settle()

    def abandoned(self) -> None:
        """One of the sockets is gone and won't be written to."""
        self._streams -= 1
        self._settle()

    def dispatched(self) -> None:
        """All streams are known now; from here the row waits at most `PATIENCE_S`."""
        self._settle()
        if not self.closed:
            self._timer = asyncio.get_running_loop().call_later(PATIENCE_S, self._give_up)

    def when_closed(self, call: Callable[[], None]) -> None:
        """Call once the row is written: at once if it is."""
        if self.closed:
            call()
        else:
            self._waiters.append(call)

    def _settle(self) -> None:
        self._outstanding -= 1
        if self._outstanding == 0 and not self.closed:
            self._close()

    def _give_up(self) -> None:
        self._t_written = NONE
        self._close()

    def _close(self) -> None:
        self.closed = True
        if self._timer:
            self._timer.cancel()
        out = self._output
        self._append(out.worker, out.step, out.t_sent, self._t_received, self._t_written, self._streams)
        waiters, self._waiters = self._waiters, []
        for call in waiters:
            call()
