"""From a jumping worker's book to rows, with numpy: every pass, slice and delivery that step by step would write."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from engine.simulate.book import Book, Stretch
from engine.simulate.clock import PS_PER_NS, Delays
from engine.simulate.results import Results
from engine.simulate.rows import request_columns
from engine.simulate.setup import Setup
from engine.simulate.workload import Ints
from recorder.producer import PartProducer
from recorder.schema import NONE, code
from recorder.words import Phase, Role, Status, StepKind

_DECODE: Final = code(Role.DECODE)
_OK: Final = code(Status.OK)
_KINDS: Final = np.array([code(StepKind.IDLE), code(StepKind.PREFILL), code(StepKind.DECODE), code(StepKind.MIXED)])
"""By: has prefills + 2 * has decodes."""
_EVENT: Final = ("t", "step", "rid", "kind", "other_rid", "reason", "lost_tokens", "freed_blocks")
_SPAN: Final = ("rid", "name", "start", "end", "first_step", "last_step")
_STATE: Final = ("queue_depth", "queued_tokens", "running", "kv_used")


@dataclass(frozen=True, eq=False)
class _Passes:
    """The passes of a book, one an entry; `of` is the stretch of each, `at` its place there. Times in ns."""

    stretches: dict[str, Ints]
    of: Ints
    at: Ints
    first: Ints
    """First pass of each stretch."""
    t_sched: Ints
    t_exec: Ints
    t_done: Ints
    t_end: Ints

    def each(self, name: str) -> Ints:
        """A value of the stretch, for each of its passes."""
        return self.stretches[name][self.of]

    @property
    def last(self) -> Ints:
        """Last pass of each stretch."""
        return self.first + self.stretches["passes"] - 1

    @property
    def exec_ns(self) -> Ints:
        """Execution; nothing for an idle pass."""
        return np.where(self.each("idle") == 1, 0, self.t_done - self.t_exec)


@dataclass(frozen=True, eq=False)
class _Slices:
    """The slices of a book's passes, one an entry; `of` is the pass of each, `first` the first slice of each pass."""

    of: Ints
    first: Ints
    rid: Ints
    role: Ints
    tokens: Ints
    computed: Ints
    new_blocks: Ints

    def per_pass(self, values: Ints, passes: int) -> Ints:
        """Sums over the slices of each pass."""
        sums = np.concatenate([[0], np.cumsum(values)])
        ends = np.append(self.first[1:], len(values))[:passes]
        totals: Ints = sums[ends] - sums[self.first]
        return totals


class Unfolder:
    """Writes one worker's books, and through the front end's producer what came of its requests."""

    def __init__(self, number: int, setup: Setup, results: Results, worker: PartProducer, front: PartProducer) -> None:
        self._number, self._delays, self._results = number, setup.delays, results
        self._block_size, self._num_blocks = setup.config.kv.block_size, setup.num_blocks
        self._worker, self._front = worker, front
        size = len(results)
        self._device_ns = np.zeros(size, np.int64)
        self._state = np.zeros((len(_STATE), size), np.int64)
        self._reports = np.zeros((1 + len(_STATE), 0), np.int64)
        """When each message was received, and the state it told; those that a later arrival may still have seen."""

    def write(self, book: Book) -> None:
        """All rows of the book, which is empty afterwards."""
        passes = _unfold_passes(book, self._delays)
        slices = _unfold_slices(book, passes, self._block_size)
        self._share_device(passes, slices)
        self._write_details(book, slices, book.first_step)
        free = self._write_steps(book, passes, slices)
        self._write_deliveries(book, passes)
        self._look_at_arrivals(book, passes, free)
        self._write_requests(np.array(book.closed, np.int64))
        book.clear()

    def _share_device(self, passes: _Passes, slices: _Slices) -> None:
        """Each request's share of the device, as `engine.scheduling.scheduler.split` gives it."""
        if not len(slices.rid):
            return
        sums = np.concatenate([[0], np.cumsum(slices.tokens)])
        before_pass = sums[slices.first][slices.of]
        whole = slices.per_pass(slices.tokens, len(passes.of))[slices.of]
        device = passes.exec_ns[slices.of]
        upto = device * (sums[1:] - before_pass) // whole
        share = upto - device * (sums[:-1] - before_pass) // whole
        low = int(slices.rid.min())
        shares = np.bincount(slices.rid - low, weights=share)  # sums of whole numbers far below 2**53: exact
        self._device_ns[low - 1 : low - 1 + len(shares)] += shares.astype(np.int64)

    def _write_details(self, book: Book, slices: _Slices, first_step: int) -> None:
        columns = {
            "step": slices.of + first_step,
            "worker": self._number,
            "rid": slices.rid,
            "role": slices.role,
            "tokens": slices.tokens,
            "computed_before": slices.computed,
            "cached": 0,
            "new_blocks": slices.new_blocks,
        }
        self._worker.extend("slices", columns, len(slices.rid))
        events = dict(zip(_EVENT, _columns(book.events, len(_EVENT)), strict=True))
        self._worker.extend("events", {**events, "worker": self._number}, len(book.events))
        spans = dict(zip(_SPAN, _columns(book.spans, len(_SPAN)), strict=True))
        self._worker.extend("spans", {**spans, "attempt": 1, "worker": self._number}, len(book.spans))

    def _write_steps(self, book: Book, passes: _Passes, slices: _Slices) -> Ints:
        """The passes; returns the free blocks after each plan."""
        count = len(passes.of)
        blocks = np.cumsum(slices.per_pass(slices.new_blocks, count))
        free = passes.each("free") + blocks[passes.last][passes.of] - blocks
        is_decode = slices.role == _DECODE
        decodes = slices.per_pass(is_decode.astype(np.int64), count)
        prefills = passes.each("parts") - decodes
        decode_kv = slices.per_pass(np.where(is_decode, slices.computed, 0), count)
        slope = passes.each("slope") * passes.at
        alone, first = passes.each("decode_only"), passes.each("first") + slope
        columns = {
            "step": np.arange(book.first_step, book.first_step + count),
            "worker": self._number,
            "t_sched": passes.t_sched,
            "t_exec": passes.t_exec,
            "t_done": passes.t_done,
            "t_end": passes.t_end,
            "kind": _KINDS[(prefills > 0) + 2 * (decodes > 0)],
            "num_prefill_requests": prefills,
            "sum_prefill_tokens": slices.per_pass(slices.tokens, count) - decodes,
            "sum_prefill_kv_tokens": slices.per_pass(slices.computed, count) - decode_kv,
            "num_decode_requests": decodes,
            "sum_decode_kv_tokens": decode_kv,
            "waiting": passes.each("waiting"),
            "waiting_tokens": passes.each("waiting_tokens"),
            "running": passes.each("running"),
            "kv_free": free,
            "kv_total": self._num_blocks,
            "head_rid": passes.each("head"),
            "head_reason": passes.each("reason"),
            "device_ns": passes.exec_ns,
            "predicted_ns": np.where(passes.each("idle") == 1, NONE, first // PS_PER_NS),
            "decode_only_ns": np.where(alone < 0, NONE, (alone + slope) // PS_PER_NS),
        }
        self._worker.extend("steps", columns, count)
        return free

    def _write_deliveries(self, book: Book, passes: _Passes) -> None:
        sends = passes.each("sends") == 1
        received = passes.t_end[sends] + self._delays.link_ns
        streams = passes.each("streams")[sends]
        columns = {
            "worker": self._number,
            "step": np.flatnonzero(sends) + book.first_step,
            "t_sent": passes.t_end[sends],
            "t_received": received,
            "t_written": received + self._delays.write_ns * streams,
            "streams": streams,
        }
        self._front.extend("deliveries", columns, len(received))

    def _look_at_arrivals(self, book: Book, passes: _Passes, free: Ints) -> None:
        """What each request saw as it arrived: the worker's last report that had been received by then."""
        last = np.zeros(len(passes.of), np.int64)
        last[passes.last] = 1
        told = np.stack(
            [
                passes.t_end + self._delays.link_ns,
                passes.each("waiting"),
                passes.each("waiting_tokens"),
                passes.each("running") - last * passes.each("ended"),
                self._num_blocks - free - last * passes.each("freed"),
            ]
        )
        self._reports = np.concatenate([self._reports, told[:, passes.each("sends") == 1]], axis=1)
        if not book.taken_in:
            return
        places = np.array(book.taken_in, np.int64)
        arrivals = np.asarray(self._results.arrival)[places]
        seen = np.searchsorted(self._reports[0], arrivals, "right") - 1
        had = seen >= 0
        self._state[:, places[had]] = self._reports[1:, seen[had]]
        self._reports = self._reports[:, max(int(seen[-1]), 0) :]

    def _write_requests(self, places: Ints) -> None:
        columns = request_columns(self._results, places, self._delays)
        columns["device_ns"] = np.where(columns["status"] == _OK, self._device_ns[places], NONE)
        columns.update(zip(_STATE, self._state[:, places], strict=True))
        self._front.extend("requests", columns, len(places))
        self._write_ways(places[columns["status"] == _OK])

    def _write_ways(self, places: Ints) -> None:
        """The spans before the worker and after it."""
        for name, begin, finish in ((Phase.INGRESS, "arrival", "queued"), (Phase.RETURN, "last_token", "returned")):
            start = np.asarray(getattr(self._results, begin))[places]
            end = np.asarray(getattr(self._results, finish))[places]
            some = end > start
            columns = {
                "rid": places[some] + 1,
                "attempt": 1,
                "name": code(name),
                "start": start[some],
                "end": end[some],
                "worker": self._number,
            }
            self._front.extend("spans", columns, int(some.sum()))


def _unfold_passes(book: Book, delays: Delays) -> _Passes:
    stretches = dict(zip(Stretch._fields, _columns(book.stretches, len(Stretch._fields)), strict=True))
    passes, first, slope = stretches["passes"], stretches["first"], stretches["slope"]
    plan, commit = delays.plan_ns * PS_PER_NS, delays.commit_ns * PS_PER_NS
    of = np.repeat(np.arange(len(passes)), passes)
    begins = np.cumsum(passes) - passes
    at = np.arange(len(of)) - begins[of]
    t_sched = stretches["t"][of] + at * (first + plan + commit)[of] + slope[of] * (at * (at - 1) // 2)
    t_done = t_sched + plan + first[of] + slope[of] * at
    return _Passes(
        stretches,
        of,
        at,
        begins,
        t_sched // PS_PER_NS,
        (t_sched + plan) // PS_PER_NS,
        t_done // PS_PER_NS,
        (t_done + commit) // PS_PER_NS,
    )


def _unfold_slices(book: Book, passes: _Passes, block_size: int) -> _Slices:
    parts = passes.stretches["parts"]
    each = parts[passes.of]
    of = np.repeat(np.arange(len(passes.of)), each)
    first = np.cumsum(each) - each
    folded = (np.cumsum(parts) - parts)[passes.of][of] + np.arange(len(of)) - first[of]
    rid = np.array(book.rids, np.int64)[folded]
    computed = np.array(book.bases, np.int64)[folded] + (passes.each("counted") + passes.at)[of]
    role, tokens = np.full(len(of), _DECODE), np.ones(len(of), np.int64)
    new_blocks = (computed % block_size == 0).astype(np.int64)
    if book.exceptions:
        stretch, place, its_role, its_tokens, its_computed, its_blocks = _columns(book.exceptions, 6)
        rows = first[passes.first[stretch]] + place
        role[rows], tokens[rows], computed[rows], new_blocks[rows] = its_role, its_tokens, its_computed, its_blocks
    return _Slices(of, first, rid, role, tokens, computed, new_blocks)


def _columns(rows: object, width: int) -> Ints:
    """Rows of integers as columns."""
    columns: Ints = np.array(rows, np.int64).reshape(-1, width).T
    return columns
