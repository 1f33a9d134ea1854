"""Whether anybody still waits for what a thread works out: asked where it waits itself, with no query to interrupt."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

_IS_WANTED: Final[ContextVar[Callable[[], bool]]] = ContextVar("is wanted")


def wanted_while(is_wanted: Callable[[], bool]) -> None:
    """From now on this thread works for somebody, who may lose patience."""
    _IS_WANTED.set(is_wanted)


def is_wanted() -> bool:
    """Whether somebody waits. Who has said nothing of that does."""
    asked = _IS_WANTED.get(None)
    return asked is None or asked()
