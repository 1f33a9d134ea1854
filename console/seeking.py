"""The little language of `g`: where to send the playhead, in words a person types."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from recorder.errors import UserError

_UNITS: Final = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_DURATION: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(ns|us|µs|ms|s|m|h)?")
_PERCENT: Final = re.compile(r"(\d+(?:\.\d*)?)\s*%")
_CLOCK: Final = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?")
REQUEST: Final = "req:"
"""How a target begins that is a request."""
HELP: Final = "+2.5s  -300ms  12.4s  73%  req:ID  step:12  14:03:22.5"


class SeekError(UserError):
    """The target can't be read, or names nothing in this run."""


@dataclass(frozen=True, slots=True)
class Places:
    """What a target may refer to. Times are ns on the run's clock; `wall_offset` is wall minus run clock, if known."""

    start: int
    end: int
    position: int
    request: Callable[[str], int | None]
    step: Callable[[int], int | None]
    wall_offset: int | None = None


def parse_seek(text: str, places: Places) -> int:
    """The run time that `text` means, in ns; may lie outside the run, the playhead clamps. SeekError in words."""
    target = text.strip()
    if target.startswith(REQUEST):
        name = target.removeprefix(REQUEST).strip()
        return _named(places.request(name), f"no request {name!r} in this run")
    if target.startswith("step:"):
        return _named(_step(target[5:].strip(), places), f"no pass {target[5:].strip()!r} in this run")
    if match := _PERCENT.fullmatch(target):
        return places.start + int((places.end - places.start) * Decimal(match[1]) / 100)
    if match := _CLOCK.fullmatch(target):
        return _wall(match, places)
    if target[:1] in {"+", "-"}:
        return places.position + (1 if target[0] == "+" else -1) * _duration(target[1:], text)
    return places.start + _duration(target, text)


def _named(found: int | None, problem: str) -> int:
    if found is None:
        raise SeekError(problem)
    return found


def _step(text: str, places: Places) -> int | None:
    return places.step(int(text)) if text.isdecimal() else None


def _duration(text: str, whole: str) -> int:
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise SeekError(f"{whole.strip()!r} is no place in time; try one of: {HELP}")
    return int(Decimal(match[1]) * _UNITS[match[2] or "s"])


def _wall(match: re.Match[str], places: Places) -> int:
    """A time of day: the first one at or after the run's beginning, in the viewer's time zone."""
    if places.wall_offset is None:
        raise SeekError("this run has no wall clock (it ran in virtual time)")
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise SeekError(f"{match[0]!r} is no time of day")
    begin = datetime.fromtimestamp((places.start + places.wall_offset) // 10**9).astimezone()
    day = begin.replace(hour=hour, minute=minute, second=second, microsecond=0)
    if day < begin.replace(microsecond=0):
        day += timedelta(days=1)
    return int(day.timestamp()) * 10**9 + int((match[4] or "0").ljust(9, "0")) - places.wall_offset
