"""One worker's passes as arrays, and measures: how much of any window of time belongs to some of them."""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from recorder.attribution.columns import Bools, Ints, Places, codes, equal, ints, known
from recorder.words import Reason, StepKind

_KINDS: Final = list(StepKind)
_LONG_AGO: Final = -(2**61)
"""Before any instant, yet far enough from the edge of int64 that differences don't wrap."""


@dataclass(frozen=True)
class Passes:
    """Recorded passes, one element each, in the order of their numbers. A lost pass is simply not among them."""

    step: Ints
    worker: Ints
    sched: Ints
    exec: Ints
    done: Ints
    end: Ints
    kind: Ints
    head_rid: Ints
    head_reason: Ints
    decode_only: Ints
    slices: Ints
    """How many slices the pass says that it had."""

    @classmethod
    def read(cls, steps: pa.Table) -> "Passes":
        """The passes of all workers."""
        return cls(
            step=ints(steps, "step"),
            worker=ints(steps, "worker"),
            sched=ints(steps, "t_sched"),
            exec=ints(steps, "t_exec"),
            done=ints(steps, "t_done"),
            end=ints(steps, "t_end"),
            kind=codes(steps, "kind", StepKind),
            head_rid=ints(steps, "head_rid"),
            head_reason=np.maximum(codes(steps, "head_reason", Reason), 0),
            decode_only=ints(steps, "decode_only_ns"),
            slices=ints(steps, "num_prefill_requests") + ints(steps, "num_decode_requests"),
        )

    def of(self, worker: int) -> "Passes":
        """The passes of one worker, in order."""
        chosen = np.flatnonzero(self.worker == worker)
        return self.where(chosen[np.argsort(self.step[chosen], kind="stable")])

    def where(self, chosen: Ints | Bools) -> "Passes":
        """Only the chosen ones."""
        return Passes(**{field.name: getattr(self, field.name)[chosen] for field in fields(self)})

    def on(self, clock: "Measure") -> "Passes":
        """The same passes on a clock that stands still in the stretches of `clock`."""
        times = {name: clock.outside(getattr(self, name)) for name in ("sched", "exec", "done", "end")}
        return replace(self, **times)

    def __len__(self) -> int:
        return len(self.step)

    def is_kind(self, kind: StepKind) -> Bools:
        """Which passes computed `kind`."""
        return equal(self.kind, _KINDS.index(kind))

    def measure(self, chosen: Bools) -> "Measure":
        """The measure of the time of the chosen passes, from their begin to their end."""
        return Measure(self.sched[chosen], self.end[chosen])

    def from_step(self, step: Ints) -> Ints:
        """Begin of the first recorded pass with this number or a later one; the last end where there is none."""
        begins = np.append(self.sched, self.end[-1:])
        return begins[self.reaching(step)]

    def index(self, step: Ints) -> Ints:
        """Position of the pass with this number, -1 where it was not recorded."""
        return self._places.of(step)

    def reaching(self, step: Ints) -> Ints:
        """Position of the first recorded pass with this number or a later one; past the last where there is none."""
        at = self.index(step)
        lost = np.flatnonzero(at < 0)
        at[lost] = np.searchsorted(self.step, step[lost])
        return at

    def starting(self, t: Ints) -> Ints:
        """Position of the pass whose execution began at this instant, -1 where none did."""
        return Places(self.exec).of(t)

    @cached_property
    def _places(self) -> Places:
        return Places(self.step)


class Measure:
    """How much of the time before an instant lies in given stretches: piecewise linear and exact."""

    def __init__(self, begin: Ints, end: Ints) -> None:
        """Stretches in order, each beginning where the one before ends, or later."""
        self._begin = np.insert(begin, 0, _LONG_AGO)
        self._length = np.insert(np.maximum(end - begin, 0), 0, 0)
        self._before = np.cumsum(self._length) - self._length

    def until(self, t: Ints) -> Ints:
        """Ns of the stretches that lie before `t`."""
        at = np.maximum(np.searchsorted(self._begin, t, side="right") - 1, 0)
        result: Ints = self._before[at] + np.clip(t - self._begin[at], 0, self._length[at])
        return result

    def outside(self, t: Ints) -> Ints:
        """`t` on a clock that stands still in the stretches; NONE stays NONE."""
        if len(self._begin) == 1:
            return t
        return np.where(known(t), t - self.until(t), t)

    def between(self, lo: Ints, hi: Ints) -> Ints:
        """Ns of the stretches that lie in [lo, hi); 0 where that is empty."""
        return np.where(hi > lo, self.until(hi) - self.until(lo), 0)
