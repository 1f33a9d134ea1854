"""What a request asks of the scheduler: how important it is and until when its answer is worth something."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from engine.api.errors import bad_field

LOWEST: Final = 100
"""Priorities go from 1, the highest, to this one; a server with fewer levels takes those beyond as its lowest."""
LONGEST_MS: Final = 86_400_000.0


@dataclass(frozen=True)
class Terms:
    """`priority` 0: none of its own. `deadline_ms` runs from the arrival of the request; None: no deadline."""

    priority: int = 0
    deadline_ms: float | None = None

    def or_headers(self, headers: Mapping[str, str]) -> "Terms":
        """The same, but X-Priority and X-Deadline-Ms count where they are given. Raises ApiError 400 naming them."""
        priority = _number(headers, "X-Priority", LOWEST)
        if priority is not None and priority != int(priority):
            raise bad_field("X-Priority", f"{headers['X-Priority']!r} is not a whole number")
        deadline = _number(headers, "X-Deadline-Ms", LONGEST_MS)
        return Terms(
            self.priority if priority is None else int(priority), self.deadline_ms if deadline is None else deadline
        )

    def deadline(self, arrival: int) -> int | None:
        """The instant in ns."""
        return None if self.deadline_ms is None else arrival + round(self.deadline_ms * 1e6)


def _number(headers: Mapping[str, str], name: str, most: float) -> float | None:
    text = headers.get(name)
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= most:
        raise bad_field(name, f"{text!r} is not a number from 0 to {most:g}")
    return number
