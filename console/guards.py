"""Guard rails: `p99_e2e_ms<2000`, `p99_ttft_ms<=1.1x` and the like, read and judged in exact numbers (SPEC D7)."""

import difflib
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from console.decimals import exact
from recorder.errors import UserError

Values = Mapping[str, Fraction | None]
"""Name of a measure -> its value; None where it does not exist."""

PERCENTILES: Final = ("p50", "p95", "p99", "max")
LATENCIES: Final = ("ttft", "tpot", "e2e")
NAMES: Final = (
    *(f"{rank}_{latency}_ms" for latency in LATENCIES for rank in PERCENTILES),
    "throughput",
    "goodput",
    "inside_share",
    "rejected_share",
    "unanswered_share",
    "cost_per_success",
    "preemptions",
)
"""What a guard rail can watch. Of memory, simulation shows `preemptions`: requests thrown out for want of KV blocks."""

_GUARD: Final = re.compile(r"\s*([A-Za-z]\w*)\s*(<=|>=|<|>)\s*(\S+?)(x?)\s*")
_COMPARE: Final[dict[str, Callable[[Fraction, Fraction], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class GuardError(UserError):
    """A guard rail that is none: says what was typed, and how to write one."""


@dataclass(frozen=True)
class Guard:
    """One rail: `text` as it was typed. The limit of a `relative` one is a multiple of what the first run has."""

    text: str
    measure: str
    sign: str
    limit: Fraction
    relative: bool = False

    def holds(self, values: Values, first: Values) -> bool:
        """Whether a run keeps it, beside the `first` one; a number that does not exist keeps nothing."""
        value, limit = values[self.measure], self.limit
        if self.relative:
            base = first[self.measure]
            if base is None:
                return False
            limit *= base
        return value is not None and _COMPARE[self.sign](value, limit)


def parse_guards(texts: Sequence[str]) -> list[Guard]:
    """The rails as typed. Raises GuardError for one that is none, or whose measure is unknown."""
    return [_parsed(text) for text in texts]


def _parsed(text: str) -> Guard:
    match = _GUARD.fullmatch(text)
    if match is None:
        raise GuardError(
            f"--guard {text!r}: write a measure, <, <=, > or >=, and a number, as in 'p99_e2e_ms<2000', "
            "or a multiple of the first run, as in 'p99_e2e_ms<=1.1x'"
        )
    measure, sign, limit, times = match.groups()
    if measure not in NAMES:
        near = difflib.get_close_matches(measure, NAMES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(NAMES)}"
        raise GuardError(f"--guard {text!r}: unknown measure {measure}; {hint}")
    return Guard(text.strip(), measure, sign, exact(limit, f"--guard {text!r}", 0, 10**12), relative=bool(times))
