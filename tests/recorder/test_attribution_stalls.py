"""Stalls of the host, to the nanosecond: whose time they take, out of which cause, and each instant once (SPEC F1)."""

from collections import Counter, defaultdict
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.attribution import attribute, stalls
from recorder.words import ON_EVENT_LOOP, Reason, Role, Source, StallKind, Status
from tests.recorder.ledgers import Ledger, Part, Row
from tests.recorder.test_attribution import blame, causes, one_request, rows
from tests.recorder.test_attribution_random import Key, Naive, runs

PREFILL, DECODE = Role.PREFILL, Role.DECODE
GC, LOOP, TOKENISE, WARMUP = StallKind.GC, StallKind.LOOP, StallKind.TOKENISE, StallKind.WARMUP


@pytest.fixture(autouse=True)
def blame_tokenisers_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs here last nanoseconds."""
    monkeypatch.setattr(stalls, "_WORTH_BLAMING_NS", 1)


def worker_stall(ledger: Ledger, kind: StallKind, begin: int, end: int, worker: int = 0) -> None:
    ledger.add("stalls", t_start=begin, t_end=end, source=Source.WORKER.value, device=worker, kind=kind.value)


def front_stall(
    ledger: Ledger, kind: StallKind, begin: int, end: int, rid: int | None = None, detail: str = ON_EVENT_LOOP
) -> None:
    columns = {"source": Source.FRONTEND.value, "device": 0, "kind": kind.value, "rid": rid, "detail": detail}
    ledger.add("stalls", t_start=begin, t_end=end, **columns)


UNSTALLED = causes(one_request(), 1)
"""Request 1: arrives 30, admitted 37; step 0 until 100, step 1 until 160; queued 103; steps execute [110, 150) and
[162, 180); its tokens left at 187, it returned at 200."""


@pytest.mark.parametrize(
    ("begin", "end", "taken"),
    [
        (40, 60, {"STEP_IN_FLIGHT": 20}),
        (104, 106, {"HOST_SCHED": 2}),
        (120, 130, {"PREFILL": 10}),
        (145, 161, {"PREFILL": 5, "HOST_POST": 10, "HOST_SCHED": 1}),
        (170, 171, {"DECODE": 1}),
        (184, 195, {"HOST_POST": 3}),
        (20, 38, {"STEP_IN_FLIGHT": 1}),
        (10, 300, {"STEP_IN_FLIGHT": 66, "HOST_SCHED": 9, "PREFILL": 40, "DECODE": 18, "HOST_POST": 17}),
        (190, 199, {}),
        (0, 37, {}),
    ],
)
def test_a_collection_in_a_worker_is_taken_out_of_what_the_time_would_have_been(
    begin: int, end: int, taken: dict[str, int]
) -> None:
    ledger = one_request()
    worker_stall(ledger, GC, begin, end)
    expected = Counter(UNSTALLED)
    expected.subtract(taken)
    expected["HOST_GC"] = sum(taken.values())
    assert causes(ledger, 1) == +expected


def test_a_stall_of_another_worker_is_none_of_its_business() -> None:
    ledger = one_request()
    worker_stall(ledger, GC, 0, 300, worker=1)
    assert causes(ledger, 1) == UNSTALLED


def test_a_cold_step_is_modelled_and_a_collection_is_measured() -> None:
    ledger = one_request()
    worker_stall(ledger, WARMUP, 110, 140)
    worker_stall(ledger, GC, 120, 125)
    found = {row["cause"]: (row["ns"], row["measured"], row["root"], row["culprit"]) for row in rows(ledger, 1)}
    assert found["HOST_WARMUP"] == (25, False, "HOST_WARMUP", None)
    assert found["HOST_GC"] == (5, True, "HOST_GC", None)
    assert found["PREFILL"][0] == 10


def test_overlapping_collections_count_once() -> None:
    ledger = one_request()
    for begin, end in ((120, 130), (125, 135), (125, 135), (121, 122)):
        worker_stall(ledger, GC, begin, end)
    assert causes(ledger, 1) == UNSTALLED | {"PREFILL": 25, "HOST_GC": 15}


def test_everyone_who_waited_through_a_collection_suffered_it() -> None:
    """Request 1 is at the head of the queue, request 2 behind it, request 9 runs."""
    ledger = Ledger()
    ledger.request(9, 0, admitted=0, queued=0, first_scheduled=10, last_token=40, returned=60)
    for rid in (1, 2):
        ledger.request(rid, 0, admitted=0, queued=0, first_scheduled=70, last_token=90, returned=100)
    ledger.step(0, (0, 10, 40, 60), [Part(9, PREFILL, 4)], head=(1, Reason.SEQ_SLOTS), sent=60)
    ledger.step(1, (60, 70, 90, 100), [Part(1, PREFILL, 4), Part(2, PREFILL, 4)], sent=100)
    worker_stall(ledger, GC, 20, 25)
    assert causes(ledger, 9) == {"HOST_SCHED": 10, "PREFILL": 25, "HOST_GC": 5, "HOST_POST": 20}
    rest = {"HOST_SCHED": 10, "PREFILL": 20, "HOST_POST": 10, "HOST_GC": 5}
    assert causes(ledger, 1) == rest | {"QUEUE/SEQ_SLOTS": 55}
    assert causes(ledger, 2) == rest | {"QUEUE/BEHIND_FIFO": 55}


def test_a_collection_in_a_mixed_step_is_no_stall_by_its_prefill() -> None:
    ledger = Ledger()
    ledger.request(1, 0, admitted=0, queued=0, first_scheduled=5, last_token=60, returned=70)
    ledger.step(0, (0, 5, 15, 20), [Part(1, PREFILL, 4)], sent=15)
    ledger.step(1, (20, 25, 60, 70), [Part(1, DECODE), Part(2, PREFILL, 8)], sent=66, decode_only_ns=12)
    worker_stall(ledger, GC, 30, 50)
    found = causes(ledger, 1)
    assert (found["DECODE"], found["STALLED_BY_PREFILL"], found["HOST_GC"]) == (12, 3, 20)


def ingress(ledger: Ledger) -> dict[str, int]:
    """What [30, 37) of request 1 was."""
    return {cause: ns for cause, ns in causes(ledger, 1).items() if cause == "INGRESS" or cause.startswith("HOST_")}


HOST_OF_WORKER = {cause: ns for cause, ns in UNSTALLED.items() if cause.startswith("HOST_")}


@pytest.mark.parametrize(
    ("kind", "begin", "end", "taken"),
    [
        (GC, 25, 32, 2),
        (GC, 33, 60, 4),
        (LOOP, 25, 50, 0),  # the turn in which it came
        (LOOP, 33, 60, 4),  # a later one
        (LOOP, 31, 34, 3),
    ],
)
def test_a_stall_on_the_way_in(kind: StallKind, begin: int, end: int, taken: int) -> None:
    ledger = one_request()
    front_stall(ledger, kind, begin, end)
    name = "HOST_GC" if kind is GC else "HOST_LOOP"
    assert ingress(ledger) == HOST_OF_WORKER | {"INGRESS": 7 - taken} | ({name: taken} if taken else {})


@pytest.mark.parametrize("detail", [ON_EVENT_LOOP, "thread"])
def test_its_own_tokenising_is_ingress_and_what_blocks_the_loop_meanwhile_delays_nothing(detail: str) -> None:
    ledger = one_request()
    front_stall(ledger, TOKENISE, 31, 34, rid=1, detail=detail)
    front_stall(ledger, LOOP, 32, 36)
    assert ingress(ledger) == HOST_OF_WORKER | {"INGRESS": 5, "HOST_LOOP": 2}


def test_anothers_tokenising_holds_the_loop_up_and_is_to_blame() -> None:
    ledger = one_request()
    front_stall(ledger, TOKENISE, 31, 32, rid=1, detail="thread")
    front_stall(ledger, LOOP, 32, 37)
    front_stall(ledger, TOKENISE, 33, 36, rid=9)
    front_stall(ledger, GC, 34, 35)
    found = {key: ns for key, ns in blame(ledger, 1).items() if key[0] in ("HOST_LOOP", "HOST_GC", "INGRESS")}
    assert found == {
        ("INGRESS", "INGRESS", None): 2,
        ("HOST_LOOP", "HOST_LOOP", 9): 2,
        ("HOST_LOOP", "HOST_LOOP", None): 2,
        ("HOST_GC", "HOST_GC", None): 1,
    }


def test_anothers_tokenising_in_a_thread_holds_nobody_up() -> None:
    ledger = one_request()
    front_stall(ledger, TOKENISE, 31, 199, rid=9, detail="thread")
    assert causes(ledger, 1) == UNSTALLED


def test_on_the_way_out_everything_waits() -> None:
    """[187, 200), the turn having begun before its tokens left their worker."""
    ledger = one_request()
    front_stall(ledger, LOOP, 170, 195)
    front_stall(ledger, TOKENISE, 185, 190, rid=9)
    front_stall(ledger, TOKENISE, 191, 192, rid=8)
    front_stall(ledger, GC, 189, 191)
    found = blame(ledger, 1)
    assert found["HOST_LOOP", "HOST_LOOP", 9] == 2
    assert found["HOST_LOOP", "HOST_LOOP", 8] == 1
    assert found["HOST_LOOP", "HOST_LOOP", None] == 3
    assert found["HOST_GC", "HOST_GC", None] == 2
    assert found["RETURN", "RETURN", None] == 5
    assert sum(found.values()) == 170


def test_a_collection_keeps_a_message_back_only_where_the_worker_could_have_taken_it() -> None:
    """Sent at 10; the worker idles until 30, then runs a step until 60 and takes it in at 65."""
    ledger = Ledger()
    ledger.request(1, 0, admitted=10, queued=65, first_scheduled=70, last_token=80, returned=90)
    ledger.step(0, (0, 5, 30, 30))
    ledger.step(1, (30, 35, 55, 60), [Part(9, DECODE)])
    ledger.step(2, (60, 70, 80, 90), [Part(1, PREFILL, 3)], sent=90)
    assert causes(ledger, 1)["UNNAMED"] == 20
    front_stall(ledger, GC, 5, 40)
    front_stall(ledger, LOOP, 11, 64)
    assert causes(ledger, 1) == {
        "INGRESS": 5,
        "HOST_GC": 5 + 20,  # of its way in, and of [10, 30)
        "STEP_IN_FLIGHT": 35,
        "HOST_SCHED": 5,
        "PREFILL": 10,
        "HOST_POST": 10,
    }


def test_stalls_without_a_length_and_attempts_without_a_worker() -> None:
    ledger = one_request()
    ledger.request(5, 40, status=Status.REJECTED, worker=None)
    for kind, (begin, end) in product((GC, WARMUP), ((120, 120), (130, 121))):
        worker_stall(ledger, kind, begin, end)
    front_stall(ledger, LOOP, 35, 35)
    assert causes(ledger, 1) == UNSTALLED
    assert causes(ledger, 5) == {}


def test_a_run_without_requests_may_have_stalled() -> None:
    ledger = Ledger()
    worker_stall(ledger, GC, 0, 5)
    front_stall(ledger, TOKENISE, 0, 5, rid=1)
    assert attribute(ledger).num_rows == 0


class NaiveStalled(Naive):
    """The same definitions, one instant at a time."""

    def __init__(self, ledger: Ledger, request: Row) -> None:
        super().__init__(ledger, request)
        self._rows = [row for row in ledger.rows["stalls"] if row["t_end"] > row["t_start"]]
        mine = [row for row in self._rows if (row["source"], row["device"]) == ("worker", self._worker)]
        self._worker_held = self._held(mine)
        front = [row for row in self._rows if row["source"] == "frontend"]
        self._turns = [row for row in front if row["kind"] == "loop"]
        self._own = [row for row in front if row["kind"] == "tokenise" and row["rid"] == request["rid"]]
        in_threads = [row for row in front if row["kind"] == "tokenise" and row["detail"] != ON_EVENT_LOOP]
        self._front_held = self._held([row for row in front if row not in in_threads])

    def budget(self) -> Counter[Key]:
        super().budget()  # for its entries
        request = self._request
        found: dict[int, Key] = {}
        for key, begin, end in self.entries:
            still = self._front_held if key[0] in ("INGRESS", "RETURN") else self._worker_held
            handled = self._handled() if key[0] == "INGRESS" else begin
            for t in range(begin, end):
                if t in still and (still[t][0] == "HOST_GC" or t >= handled or key[0] not in ("INGRESS", "RETURN")):
                    continue
                found[t] = key
        for t in range(request["arrival"], self._end):
            stalled = self._stalled(t)
            if t not in found and stalled:
                found[t] = stalled
        lived = range(request["arrival"], self._end)
        return Counter(found.get(t, ("UNNAMED", "UNNAMED", None)) for t in lived)

    def _stalled(self, t: int) -> Key | None:
        """The stall at an instant that has no other cause."""
        admitted = min(self._request["admitted"], self._end)
        sent = self._sent.get(self._last) if self._finished else None
        if t < admitted:
            return self._front_held.get(t)
        if sent is not None and t >= sent:
            return self._front_held.get(t)
        left = sent or (self._request["last_token"] if self._finished else None) or self._gone or self._end
        on_its_way = self._queued is not None and t < self._queued
        if self._queued is not None and t < left and t in self._worker_held:
            return self._worker_held[t]
        front = self._front_held.get(t)
        return front if on_its_way and front and front[0] == "HOST_GC" else None

    def _later(self, t: int, ns: int) -> int:
        while ns > 0:
            ns -= t not in self._worker_held
            t += 1
        return t

    def _handled(self) -> int:
        arrival, until = self._request["arrival"], min(self._request["admitted"], self._end)
        own = [row["t_end"] for row in self._own if arrival <= row["t_start"] and row["t_end"] <= until]
        turns = [(row["t_start"], at) for at, row in enumerate(self._turns) if row["t_start"] <= arrival]
        turn = int(self._turns[max(turns)[1]]["t_end"]) if turns else 0
        return int(max([arrival, turn, *own]))

    def _held(self, every: list[Row]) -> dict[int, Key]:
        held: dict[int, Key] = {}
        order = {"gc": "HOST_GC", "warmup": "HOST_WARMUP", "tokenise": "HOST_LOOP", "loop": "HOST_LOOP"}
        for kind in reversed(order):
            alike = sorted((row for row in every if row["kind"] == kind), key=lambda row: int(row["t_start"]))
            for t in {t for row in alike for t in range(row["t_start"], row["t_end"])}:
                latest = [row for row in alike if row["t_start"] <= t][-1]
                culprit = latest["rid"] if latest["t_end"] > t and kind == "tokenise" else None
                held[t] = (order[kind], order[kind], culprit)
        return held


def stall(ledger: Ledger, random: Random) -> Ledger:
    """Random stalls all over a run, legal or not: they overlap, and outlast passes and requests."""
    requests = ledger.rows["requests"]
    horizon = max([row["t_end"] for row in ledger.rows["steps"]] + [row["arrival"] for row in requests])
    for _ in range(random.randint(0, 40)):
        begin = random.randint(-5, horizon)
        end = begin + random.choice((1, random.randint(0, 12), random.randint(0, 60)))
        if random.random() < 0.5:
            worker_stall(ledger, random.choice((GC, WARMUP)), begin, end, random.randint(0, 2))
            continue
        kind, request = random.choice((GC, LOOP, TOKENISE)), random.choice(requests)
        if kind is TOKENISE and random.random() < 0.5:
            begin, end = sorted(random.choices(range(request["arrival"], request["admitted"] + 1), k=2))
        rid = request["rid"] if kind is TOKENISE else None
        front_stall(ledger, kind, begin, end, rid, random.choice((ON_EVENT_LOOP, "thread")))
    return ledger


stalled_runs = st.builds(stall, runs, st.integers(0, 2**32).map(Random))


@given(stalled_runs)
@settings(max_examples=150, deadline=None)
def test_every_stalled_request_closes_and_agrees_with_the_definitions(ledger: Ledger) -> None:
    budgets: dict[int, Counter[Key]] = defaultdict(Counter)
    for row in attribute(ledger).to_pylist():
        assert row["ns"] > 0
        budgets[row["rid"]][row["cause"], row["root"], row["culprit"]] = row["ns"]
    for request in ledger.rows["requests"]:
        assert budgets[request["rid"]] == NaiveStalled(ledger, request).budget()
