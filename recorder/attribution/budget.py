"""The vocabulary of causes, and the budget they are entered into: what no entry names is UNNAMED."""

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

from recorder.attribution.columns import Bools, Ints, beginnings, in_order, known, sums
from recorder.schema import NONE
from recorder.words import Phase, Reason

INGRESS: Final = "INGRESS"
EARLIER_ATTEMPT: Final = "EARLIER_ATTEMPT"
STEP_IN_FLIGHT: Final = "STEP_IN_FLIGHT"
BEHIND_FIFO: Final = "QUEUE/BEHIND_FIFO"
BEHIND_TIER: Final = "QUEUE/BEHIND_TIER"
HOST_SCHED: Final = "HOST_SCHED"
PREFILL: Final = "PREFILL"
STALLED_BY_PREFILL: Final = "STALLED_BY_PREFILL"
DECODE: Final = "DECODE"
SKIPPED: Final = "SKIPPED"
RECOMPUTE: Final = "RECOMPUTE"
HOST_POST: Final = "HOST_POST"
HOST_GC: Final = "HOST_GC"
HOST_LOOP: Final = "HOST_LOOP"
HOST_WARMUP: Final = "HOST_WARMUP"
RETURN: Final = "RETURN"
NOT_KEPT: Final = "NOT_KEPT"
UNNAMED: Final = "UNNAMED"


def queue(reason: Reason) -> str:
    """The cause of waiting for `reason` oneself, not behind someone who does."""
    return f"QUEUE/{reason.value}"


def preempted(reason: Reason) -> str:
    """The cause of having lost one's KV blocks for `reason`."""
    return f"PREEMPTED/{reason.value}"


def phase(name: Phase) -> str:
    """The cause of time of which no more is known than its phase: steps were not recorded."""
    return f"{name.value.upper()}/PHASE"


CAUSES: Final = (
    INGRESS,
    phase(Phase.INGRESS),
    EARLIER_ATTEMPT,
    STEP_IN_FLIGHT,
    phase(Phase.QUEUE),
    BEHIND_FIFO,
    BEHIND_TIER,
    *(queue(reason) for reason in Reason if reason is not Reason.NONE),
    HOST_SCHED,
    PREFILL,
    phase(Phase.PREFILL),
    STALLED_BY_PREFILL,
    DECODE,
    phase(Phase.DECODE),
    SKIPPED,
    *(preempted(reason) for reason in Reason),
    RECOMPUTE,
    HOST_POST,
    HOST_GC,
    HOST_LOOP,
    HOST_WARMUP,
    RETURN,
    phase(Phase.RETURN),
    NOT_KEPT,
    UNNAMED,
)
"""Every cause there is, in the order of a request's life."""

MODELLED: Final = frozenset({STALLED_BY_PREFILL, HOST_WARMUP})
"""Causes that rest on a prediction beside the stamps; `measured` is false for them."""

ROOTS: Final = (*CAUSES, *(reason.value for reason in Reason))

SCHEMA: Final = pa.schema(
    [
        ("rid", pa.int64()),
        ("attempt", pa.int64()),
        ("cause", pa.string()),
        ("root", pa.string()),
        ("ns", pa.int64()),
        ("measured", pa.bool_()),
        ("culprit", pa.int64()),
    ]
)

_CAUSE_CODE: Final = {cause: code for code, cause in enumerate(CAUSES)}
_ROOT_CODE: Final = {root: code for code, root in enumerate(ROOTS)}

_IS_MEASURED: Final = np.array([cause not in MODELLED for cause in CAUSES])

Charge = Callable[[Ints, Ints], None]


class Budget:
    """Time per attempt, entered cause by cause. The attempts are numbered by `Attempts.row`, from 0."""

    def __init__(self, attempts: int) -> None:
        self._length = np.zeros(attempts, dtype=np.int64)
        self._left = np.zeros(attempts, dtype=np.bool_)
        self._entries: list[tuple[Ints, Ints, Ints, Ints, Ints]] = []

    def open(self, rows: Ints, length: Ints) -> None:
        """Set the time that is to be explained, in ns."""
        self._length[rows] = length

    def leave(self, rows: Ints) -> None:
        """Take no more entries for these attempts, as their passes were not all kept: the rest of each is NOT_KEPT."""
        self._left[rows] = True

    def charge(self, cause: str, rows: Ints, ns: Ints, root: str = "", culprit: Ints | None = None) -> None:
        """Enter `ns` for the attempts at `rows` (which may repeat). Without a root the cause is its own."""
        chosen = np.flatnonzero((ns != 0) & ~self._left[rows])
        size = len(chosen)
        self._entries.append(
            (
                rows[chosen],
                np.full(size, _CAUSE_CODE[cause]),
                np.full(size, _ROOT_CODE[root or cause]),
                np.full(size, NONE) if culprit is None else culprit[chosen],
                ns[chosen],
            )
        )

    def table(self, rid: Ints, attempt: Ints) -> tuple[Ints, pa.Table]:
        """All entries, equal ones summed, in the order of `CAUSES` per attempt, and whose each is; the rest of each
        length is UNNAMED, or NOT_KEPT where the attempt was left.

        The rest is negative only where stamps overlap that must not, and then it shows: the sum stays exact.
        """
        self._close()
        rows, cause, root, culprit, ns = _grouped(self._entries)
        columns = [
            pa.array(rid[rows]),
            pa.array(attempt[rows]),
            _text(CAUSES, cause),
            _text(ROOTS, root),
            pa.array(ns),
            pa.array(_IS_MEASURED[cause]),
            _nullable(culprit, culprit == NONE),
        ]
        return rows, pa.Table.from_arrays(columns, schema=SCHEMA)

    def _close(self) -> None:
        named = np.zeros_like(self._length)
        for rows, _, _, _, ns in self._entries:
            named += sums(len(named), rows, ns)
        left, rest = self._left, self._length - named
        self._left = np.zeros_like(left)
        self.charge(UNNAMED, np.arange(len(named)), np.where(left, 0, rest))
        self.charge(NOT_KEPT, np.arange(len(named)), np.where(left, rest, 0))


def _grouped(entries: list[tuple[Ints, Ints, Ints, Ints, Ints]]) -> list[Ints]:
    """Entries that agree in everything but their time are summed; sorted by attempt, cause, root, culprit."""
    *keys, ns = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    order = in_order(*keys[:-1], _near(keys[-1]))
    keys = [key[order] for key in keys]
    first = beginnings(*keys)
    summed = np.add.reduceat(ns[order], first) if len(first) else ns
    return [*(key[first] for key in keys), summed]


def _near(culprit: Ints) -> Ints:
    """In the same order, but nobody is next to the lowest of the others, so that they span little."""
    named = known(culprit)
    return np.where(named, culprit, culprit[named].min(initial=np.iinfo(np.int64).max) - 1)


def _text(words: tuple[str, ...], code: Ints) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(code, pa.int32()), pa.array(words)).cast(pa.string())


def _nullable(values: Ints, absent: Bools) -> pa.Array:
    return pa.array(values, mask=absent)
