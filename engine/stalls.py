"""What keeps a process from its work: collections of garbage, an event loop held up, shapes seen for the first time.

Each becomes a row of `stalls`, a stretch of time. What is shorter than its threshold stays in what it interrupted.
"""

import asyncio
import gc
import selectors
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from engine.core import StepPlan
from recorder.producer import Producer
from recorder.schema import NONE, code
from recorder.words import Source, StallKind

GC_WORTH_NOTING_NS: Final = 100_000
LOOP_WORTH_NOTING_NS: Final = 5_000_000

_KINDS: Final = {kind: code(kind) for kind in StallKind}
_COLD: Final = 2
"""A step of a new shape counts as cold where it takes more than so many times its prediction. Below that, the step
may as well be one that the prediction fits badly."""

Stretch = tuple[int, int]
"""Begin and end, ns."""
Rows = tuple[int, int]
"""Tokens that one request computes in a step, and those already in its KV cache."""

_Shape = tuple[str, int, int]
"""Decode or prefill, rows, longest context."""
_SMALL_PREFILL: Final = 128
_SMALL_CONTEXT: Final = 256


class Stalls:
    """The stalls of one process. Collections are noted from `watch` until `stop`."""

    def __init__(self, producer: Producer, source: Source, number: int = 0) -> None:
        self._append = producer.appender("stalls")
        self._who = code(source), number
        self._began = 0
        # A collection can begin in the middle of an append, or in another thread: its row waits for `flush`.
        self._pauses: deque[tuple[int, int, int]] = deque()

    def watch(self) -> None:
        """Note each collection of at least `GC_WORTH_NOTING_NS`. Whoever watches has to `flush` now and then."""
        gc.callbacks.append(self._collection)

    def stop(self) -> None:
        """End; the producer may be closed after this."""
        gc.callbacks.remove(self._collection)
        self.flush()

    def flush(self) -> None:
        """Write down the collections there were. Like `note`, only for the thread that owns the producer."""
        while self._pauses:
            begin, end, generation = self._pauses.popleft()
            self.note(StallKind.GC, begin, end, detail=f"generation {generation}")

    def note(self, kind: StallKind, begin: int, end: int, rid: int = NONE, detail: str = "") -> None:
        """Write down one stretch."""
        self._append(begin, end, *self._who, _KINDS[kind], rid, detail.encode())

    def _collection(self, phase: str, info: dict[str, int]) -> None:
        now = time.monotonic_ns()
        if phase == "start":
            self._began = now
        elif now - self._began >= GC_WORTH_NOTING_NS:
            self._pauses.append((self._began, now, info["generation"]))


class WorkerStalls(Stalls):
    """The stalls of a worker: collections, and steps of a shape that it meets for the first time.

    Those pay for first calls of kernels and first allocations. No clock can part such work from the rest of the step,
    so its length is modelled: what the step took beyond its prediction, without collections, and only where it took
    more than `_COLD` times as long. It stands at the step's begin. A step without a prediction is not noted: nobody
    knows what it would have taken.
    """

    def __init__(self, producer: Producer, number: int, met: Iterable[Iterable[Rows]]) -> None:
        """`met` are steps that the worker has run while it loaded."""
        super().__init__(producer, Source.WORKER, number)
        self._met = {shape for step in met for shape in _shapes(step)}

    def passed(self, plan: StepPlan, t_exec: int, t_done: int, predicted_ns: int | None) -> None:
        """Write down what a pass suffered; its execution was from `t_exec` to `t_done`."""
        shapes = _shapes((part.tokens, part.computed_before) for part in plan.slices)
        if not shapes <= self._met:
            self._note_cold(sorted(shapes - self._met), t_exec, t_done, predicted_ns)
            self._met |= shapes
        self.flush()

    def _note_cold(self, new: Sequence[_Shape], t_exec: int, t_done: int, predicted_ns: int | None) -> None:
        # A copy first: the next collection may come while this list is made.
        pauses = [(begin, end) for begin, end, _ in list(self._pauses) if t_exec <= begin and end <= t_done]
        worked = t_done - t_exec - sum(end - begin for begin, end in pauses)
        if predicted_ns is not None and worked > _COLD * predicted_ns:
            end = _after(t_exec, worked - predicted_ns, pauses)
            words = ", ".join(f"{what} {rows} x {context}" for what, rows, context in new)
            self.note(StallKind.WARMUP, t_exec, end, detail=words)


def _shapes(step: Iterable[Rows]) -> frozenset[_Shape]:
    """The shapes of a step's decodes and of its prefills: powers of two that their rows and longest context fit.

    Prefills of up to `_SMALL_PREFILL` tokens and contexts of up to `_SMALL_CONTEXT` are all alike.
    """
    rows, longest = {"decode": 0, "prefill": 0}, {"decode": _SMALL_CONTEXT, "prefill": _SMALL_CONTEXT}
    for tokens, before in step:
        what = "decode" if tokens == 1 else "prefill"
        rows[what] += tokens
        longest[what] = max(longest[what], tokens + before)
    least = {"decode": 1, "prefill": _SMALL_PREFILL}
    return frozenset(
        (what, _fitting(max(count, least[what])), _fitting(longest[what])) for what, count in rows.items() if count
    )


def _fitting(count: int) -> int:
    """The least power of two that is not less; `count` is positive."""
    return 1 << (count - 1).bit_length()


def _after(begin: int, ns: int, pauses: Iterable[Stretch]) -> int:
    """The instant at which `ns` have passed since `begin`, not counting the pauses."""
    end = begin + ns
    for first, last in pauses:
        end += last - first if first < end else 0
    return end


class WatchedLoop(asyncio.SelectorEventLoop):
    """An event loop that tells of each of its turns that took at least `LOOP_WORTH_NOTING_NS`.

    A turn lasts from where the loop knows what is ready until it can look again. Nothing that becomes ready
    meanwhile is heard: neither a token from the worker nor a new request. Both ends are stamped.
    """

    def __init__(self) -> None:
        self._turns = _Turns()
        super().__init__(self._turns)

    def watch(self, stalls: Stalls | None) -> None:
        """Tell `stalls` of the turns from now on, and let it flush; None: nobody."""
        self._turns.stalls = stalls


class _Turns(selectors.DefaultSelector):
    """Notes the time between one look at what is ready and the next."""

    stalls: Stalls | None = None

    def __init__(self) -> None:
        super().__init__()
        self._began = time.monotonic_ns()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As the selector's."""
        if self.stalls:
            now = time.monotonic_ns()
            if now - self._began >= LOOP_WORTH_NOTING_NS:
                self.stalls.note(StallKind.LOOP, self._began, now)
            self.stalls.flush()
        ready = super().select(timeout)
        self._began = time.monotonic_ns()
        return ready
