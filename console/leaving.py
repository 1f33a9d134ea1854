"""How a console ends otherwise than by its keys: when it is told to go, and as a last resort."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Final, NoReturn

_TOLD: Final = (signal.SIGTERM, signal.SIGHUP)
_BY_SIGNAL: Final = 128
"""What exit codes begin with where a signal made them, as shells have it."""


def leave_when_told(loop: asyncio.AbstractEventLoop, leave: Callable[[int], object]) -> None:
    """Call `leave` with an exit code when somebody ends the process, or its terminal has gone.

    Without it the terminal would stay as it is: without a cursor, and reporting the mouse. Told twice it goes at once.
    """

    def told(number: signal.Signals) -> None:
        loop.remove_signal_handler(number)
        leave(_BY_SIGNAL + number)

    for number in _TOLD:
        loop.add_signal_handler(number, partial(told, number))


def exit_at_once(code: int) -> NoReturn:
    """End the process around a thread that is deep in a computation which nothing interrupts.

    Python must not take itself apart around it (it would abort), and nobody who has left wants to wait for it.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
