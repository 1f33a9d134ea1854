"""Random legal runs: closure, and agreement with attribution written down naively, pass by pass (SPEC F1)."""

from collections import Counter, defaultdict
from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.attribution import attribute
from recorder.words import EventKind, Reason, Role, Status, StepKind
from tests.recorder.ledgers import Ledger, Row
from tests.recorder.simulated import simulate

Key = tuple[str, str, int | None]


class Naive:
    """The definitions of the causes, one request and one pass at a time."""

    def __init__(self, ledger: Ledger, request: Row) -> None:
        self._request = request
        self._worker = worker = request["worker"]
        self._tiers = {row["rid"]: row["tier"] for row in ledger.rows["requests"]}
        self._steps = [row for row in ledger.rows["steps"] if row["worker"] == worker]
        self._slices: dict[int, list[Row]] = defaultdict(list)
        for row in ledger.rows["slices"]:
            if row["worker"] == worker:
                self._slices[row["step"]].append(row)
        self._sent = {row["step"]: row["t_sent"] for row in ledger.rows["deliveries"] if row["worker"] == worker}
        self._events = [row for row in ledger.rows["events"] if row["rid"] == request["rid"]]
        mine: list[int] = [step["step"] for step in self._steps if self._part(step)]
        self._first, self._last = (mine[0], mine[-1]) if mine else (10**9, -1)
        gone = [row for row in self._events if row["kind"] in ("finished", "cancelled", "failed")]
        self._gone = min((row["t"] for row in gone), default=None)
        self._finished = request["status"] == Status.OK or any(row["kind"] == "finished" for row in gone)
        self._queued = next((row["t"] for row in self._events if row["kind"] == EventKind.QUEUED), None)
        self._end = request["returned"] or max(
            self._steps[-1]["t_end"] if self._steps else 0, request["admitted"], *(row["t"] for row in self._events), 0
        )
        self.entries: list[tuple[Key, int, int]] = []

    def budget(self) -> Counter[Key]:
        """Ns by cause, root and culprit, with what is left; entries must not overlap."""
        request = self._request
        self._enter("INGRESS", request["arrival"], request["admitted"])
        for step in self._steps:
            self._before(step)
            self._in(step)
            self._left_out(step)
        if self._finished and self._last in self._sent:
            self._enter("RETURN", self._sent[self._last], self._end)
        self._check_apart()
        found: Counter[Key] = Counter()
        for key, begin, end in self.entries:
            found[key] += end - begin
        found["UNNAMED", "UNNAMED", None] = self._end - request["arrival"] - sum(found.values())
        return Counter({key: ns for key, ns in found.items() if ns})

    def _check_apart(self) -> None:
        ordered = sorted((begin, end) for _, begin, end in self.entries)
        for (_, end), (begin, _) in pairwise(ordered):
            assert end <= begin

    def _enter(self, cause: str, begin: int, end: int, root: str = "", culprit: int | None = None) -> None:
        end = min(end, self._end)
        if end > begin:
            self.entries.append(((cause, root or cause, culprit), begin, end))

    def _part(self, step: Row) -> Row | None:
        return next((row for row in self._slices[step["step"]] if row["rid"] == self._request["rid"]), None)

    def _before(self, step: Row) -> None:
        if self._queued is None:
            return
        if step["kind"] != StepKind.IDLE:
            begin = max(step["t_sched"], self._request["admitted"])
            self._enter("STEP_IN_FLIGHT", begin, min(step["t_end"], self._queued))
        begin, end = max(step["t_sched"], self._queued), step["t_end"]
        if step["step"] >= self._first or step["head_rid"] is None:
            return
        if self._last < 0 and self._gone is not None:
            end = min(end, self._gone)
        reason, head, rid = step["head_reason"], step["head_rid"], self._request["rid"]
        if head == rid or reason in (Reason.BATCH_TIMER, Reason.WORKER_BUSY):
            self._enter(f"QUEUE/{reason}", begin, end, reason, self._keeps_out(step))
        else:
            behind = "FIFO" if self._tiers[head] == self._tiers[rid] else "TIER"
            self._enter(f"QUEUE/BEHIND_{behind}", begin, end, reason, head)

    def _keeps_out(self, step: Row) -> int | None:
        reason, parts = step["head_reason"], self._slices[step["step"]]
        if reason not in (Reason.KV_BLOCKS, Reason.WORKER_BUSY, Reason.TOKEN_BUDGET) or not parts:
            return None
        held = {row["rid"]: row["computed_before"] if reason != Reason.TOKEN_BUDGET else 0 for row in parts}
        largest = max(parts, key=lambda row: (row["tokens"] + held[row["rid"]], -row["rid"]))
        return int(largest["rid"])

    def _in(self, step: Row) -> None:
        part = self._part(step)
        if not part:
            return
        begin, done = step["t_exec"], step["t_done"]
        stop = min(done, self._end)
        self._enter("HOST_SCHED", max(step["t_sched"], self._queued or 0), begin)
        alone, cut = step["decode_only_ns"] or 0, stop
        if part["role"] == Role.DECODE and step["kind"] == StepKind.MIXED and alone > 0:
            cut = min(self._later(begin, alone), stop)
            others = [row for row in self._slices[step["step"]] if row["role"] != Role.DECODE]
            culprit = max(others, key=lambda row: (row["tokens"], -row["rid"]))["rid"]
            self._enter("STALLED_BY_PREFILL", cut, stop, culprit=culprit)
        self._enter(part["role"].upper(), begin, cut)
        last = self._finished and step["step"] == self._last
        self._enter("HOST_POST", done, self._sent[self._last] if last else step["t_end"])

    def _later(self, t: int, ns: int) -> int:
        """The instant `ns` after `t`."""
        return t + ns

    def _left_out(self, step: Row) -> None:
        number = step["step"]
        if self._part(step) or number < self._first or (self._finished and number > self._last):
            return
        end = step["t_end"] if self._gone is None else min(step["t_end"], self._gone)
        before = [row["step"] for row in self._steps if row["step"] < number and self._part(row)]
        lost = [row for row in self._events if row["kind"] == EventKind.PREEMPTED]
        lost = [row for row in lost if before[-1] < row["step"] <= number]
        if lost:
            cause = f"PREEMPTED/{lost[-1]['reason']}"
            self._enter(cause, step["t_sched"], end, culprit=lost[-1]["other_rid"])
        else:
            self._enter("SKIPPED", step["t_sched"], end)


runs = st.builds(
    simulate,
    st.integers(0, 2**32).map(Random),
    requests=st.integers(1, 14),
    workers=st.integers(1, 2),
    blocks=st.integers(8, 14),
    passes=st.sampled_from([10_000, 10_000, 5, 20]),
)


@given(runs)
@settings(max_examples=150, deadline=None)
def test_every_request_closes_and_agrees_with_the_definitions(ledger: Ledger) -> None:
    budgets: dict[int, Counter[Key]] = defaultdict(Counter)
    for row in attribute(ledger).to_pylist():
        assert row["ns"] > 0
        budgets[row["rid"]][row["cause"], row["root"], row["culprit"]] = row["ns"]
    for request in ledger.rows["requests"]:
        assert budgets[request["rid"]] == Naive(ledger, request).budget()


@given(runs)
@settings(max_examples=50, deadline=None)
def test_finished_requests_sum_to_end_to_end(ledger: Ledger) -> None:
    sums: Counter[int] = Counter()
    for row in attribute(ledger).to_pylist():
        sums[row["rid"]] += row["ns"]
    for request in ledger.rows["requests"]:
        if request["status"] == Status.OK:
            assert sums[request["rid"]] == request["returned"] - request["arrival"]


@given(runs, st.data())
@settings(max_examples=50, deadline=None)
def test_lost_rows_only_ever_grow_what_is_unnamed(ledger: Ledger, data: st.DataObject) -> None:
    """No cause gains time because a step, a slice, a delivery or an event is missing, whichever it is."""

    def by_cause() -> Counter[tuple[int, str]]:
        found: Counter[tuple[int, str]] = Counter()
        for row in attribute(ledger).to_pylist():
            if row["cause"] != "UNNAMED" and row["rid"] in ended:
                family = "DECODE" if row["cause"] == "STALLED_BY_PREFILL" else row["cause"]
                found[row["rid"], family] += row["ns"]
        return found

    ended = {row["rid"] for row in ledger.rows["requests"] if row["status"] == Status.OK}
    before = by_cause()
    table = data.draw(st.sampled_from(["steps", "slices", "deliveries", "events"]))
    if ledger.rows[table]:
        del ledger.rows[table][data.draw(st.integers(0, len(ledger.rows[table]) - 1))]
    after = by_cause()
    assert all(after[key] <= before[key] for key in after), {key: (before[key], after[key]) for key in after}
