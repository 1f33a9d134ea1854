"""The toy ledger against a second replay, written from SPEC E alone: slow, every tick, no state but stamps."""

from fractions import Fraction
from math import ceil
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.toy.command import to_json
from engine.toy.ledger import LEDGER, Hardware, ToyRequest
from engine.toy.policies import Policy, Settings
from engine.toy.replay import replay

Row = dict[str, Any]


def naive(
    policy: str, rate: Fraction, batch: int, wait_s: Fraction, slo_s: Fraction, ledger: tuple[ToyRequest, ...] = LEDGER
) -> dict[str, Any]:
    """The account in the shape of the command's JSON, with fractions where that has floats."""
    span = (ledger[-1].at - ledger[0].at) or Fraction(1)
    rows: list[Row] = []
    for r in ledger:
        arrival = (r.at - ledger[0].at) * (Fraction(len(ledger) - 1) / rate) / span
        rows.append({"id": r.id, "a": arrival, "p": r.prompt, "n": r.output, "ps": None, "pe": None, "out": []})
    window = rows[-1]["a"] + Fraction("1.4")
    ready: list[Row] = []
    kv_peak = emitted = t = 0
    while Fraction(t, 10) < window:
        now = Fraction(t, 10)
        # (1) the queue is whoever has arrived and has not started, in the order of the ledger
        # (2) decode
        first, rest = ready[:3], ready[3:]
        for row in first:
            row["out"].append(t + 1)
            emitted += 1
        ready = rest + [row for row in first if len(row["out"]) < row["n"]]
        # (3) start
        queue = [row for row in rows if row["a"] <= now and row["ps"] is None]
        open_rows = [row for row in rows if row["ps"] is not None and len(row["out"]) < row["n"]]
        in_progress = any(row["pe"] > t for row in open_rows)
        if queue and not in_progress and _allowed(policy, rows, queue, open_rows, now, batch, wait_s):
            taken: list[Row] = []
            for row in queue[: 1 if policy == "immediate" else batch]:
                if sum(other["p"] + other["n"] for other in [*open_rows, *taken, row]) > 72:
                    break
                taken.append(row)
            for row in taken:
                row["ps"] = t
                row["pe"] = t + ceil(sum(other["p"] for other in taken) / 24)
        # (4) who ends its prefill with this tick is ready from the next one on
        ready += [row for row in rows if row["pe"] == t + 1]
        held = [row for row in rows if row["pe"] is not None and row["pe"] <= t + 1]
        held = [row for row in held if len(row["out"]) < row["n"] or row["out"][-1] == t + 1]
        kv_peak = max(kv_peak, sum(row["p"] + len(row["out"]) for row in held))
        t += 1
    return _account(policy, rows, window, slo_s, t) | {"kv_peak": kv_peak, "token_throughput": emitted / window}


def _allowed(
    policy: str, rows: list[Row], queue: list[Row], open_rows: list[Row], now: Fraction, batch: int, wait_s: Fraction
) -> bool:
    if policy == "continuous":
        return True
    if open_rows:
        return False
    if policy == "immediate":
        return True
    to_come = [row for row in rows if row["a"] > now]
    return len(queue) >= batch or now - queue[0]["a"] >= wait_s or not to_come


def _account(policy: str, rows: list[Row], window: Fraction, slo_s: Fraction, end: int) -> dict[str, Any]:
    done: list[Fraction] = [
        Fraction(row["out"][-1], 10) - row["a"]
        for row in rows
        if len(row["out"]) == row["n"] and Fraction(row["out"][-1], 10) <= window
    ]

    def percentile(p: int) -> Fraction | None:
        for value in sorted(done):
            if sum(other <= value for other in done) * 100 >= p * len(done):
                return value
        return None

    return {
        "policy": policy,
        "finished": len(done),
        "unfinished": len(rows) - len(done),
        "censored": len(done) < len(rows),
        "p50_s": percentile(50),
        "p95_s": percentile(95),
        "p99_s": percentile(99),
        "throughput": len(done) / window,
        "goodput": len([value for value in done if value <= slo_s]) / window,
        "window_s": window,
        "requests": [
            {
                "id": row["id"],
                "arrival_ticks": next(t for t in range(end + 1) if Fraction(t, 10) >= row["a"]),
                "prefill_start": row["ps"],
                "prefill_end": row["pe"] if row["pe"] is not None and row["pe"] <= end else None,
                "first_token": row["out"][0] if row["out"] else None,
                "finish": row["out"][-1] if len(row["out"]) == row["n"] else None,
            }
            for row in rows
        ],
    }


def _floats(account: dict[str, Any]) -> dict[str, Any]:
    return {name: float(value) if isinstance(value, Fraction) else value for name, value in account.items()}


def _compare(policy: Policy, rate: Fraction, batch: int, wait: Fraction, slo: Fraction) -> None:
    account = to_json(replay(Settings(policy, rate, batch, wait, slo)))
    assert account == _floats(naive(str(policy), rate, batch, wait, slo))


def test_both_replays_agree_on_a_grid() -> None:
    for policy in Policy:
        for rate in ("0.7", "1", "2", "3", "4", "5.5", "6", "7.62", "9", "15", "40"):
            for batch in (1, 2, 3, 4, 7, 16):
                for wait in ("0", "0.1", "0.35", "2") if policy is Policy.STATIC else ("0",):
                    _compare(policy, Fraction(rate), batch, Fraction(wait), Fraction("1.5"))


@given(
    policy=st.sampled_from(Policy),
    rate=st.fractions(Fraction(1, 2), Fraction(100), max_denominator=1000),
    batch=st.integers(1, 20),
    wait=st.fractions(0, 8, max_denominator=100),
    slo=st.fractions(Fraction(1, 100), 5, max_denominator=100),
)
@settings(max_examples=150, deadline=None)
def test_both_replays_agree_anywhere(policy: Policy, rate: Fraction, batch: int, wait: Fraction, slo: Fraction) -> None:
    _compare(policy, rate, batch, wait, slo)


@st.composite
def ledgers(draw: st.DrawFn) -> tuple[ToyRequest, ...]:
    """Any ledger the machine can run, with equal arrivals and requests that fill the cache alone among them."""
    ats = sorted(draw(st.lists(st.integers(0, 40), min_size=2, max_size=14).filter(lambda ats: min(ats) < max(ats))))
    sizes = [draw(st.integers(1, 60).flatmap(lambda p: st.tuples(st.just(p), st.integers(1, 72 - p)))) for _ in ats]
    return tuple(
        ToyRequest(f"Q{i:02}", Fraction(at, 7), prompt, min(output, 20))
        for i, (at, (prompt, output)) in enumerate(zip(ats, sizes, strict=True))
    )


@given(
    ledger=ledgers(),
    policy=st.sampled_from(Policy),
    rate=st.fractions(Fraction(1, 2), Fraction(60), max_denominator=50),
    batch=st.integers(1, 8),
    wait=st.fractions(0, 3, max_denominator=20),
)
@settings(max_examples=200, deadline=None)
def test_both_replays_agree_on_other_ledgers(
    ledger: tuple[ToyRequest, ...], policy: Policy, rate: Fraction, batch: int, wait: Fraction
) -> None:
    slo = Fraction(1)
    account = to_json(replay(Settings(policy, rate, batch, wait, slo), ledger))
    assert account == _floats(naive(str(policy), rate, batch, wait, slo, ledger))


@given(
    ledger=ledgers(),
    policy=st.sampled_from(Policy),
    rate=st.fractions(Fraction(1, 2), Fraction(60), max_denominator=50),
    batch=st.integers(1, 8),
    wait=st.fractions(0, 3, max_denominator=20),
)
@settings(max_examples=200, deadline=None)
def test_nothing_is_lost_and_the_machine_keeps_its_limits(
    ledger: tuple[ToyRequest, ...], policy: Policy, rate: Fraction, batch: int, wait: Fraction
) -> None:
    run = replay(Settings(policy, rate, batch, wait, Fraction(1)), ledger)
    hardware = Hardware()
    ticks = run.ticks
    assert all(tick.reserved <= hardware.kv_tokens for tick in ticks)
    assert all(len(tick.emitted) <= hardware.decode_slots for tick in ticks)
    assert all(len(tick.started) <= run.settings.batch_limit for tick in ticks)
    ids = [request.id for request in ledger]
    assert [rid for tick in ticks for rid in tick.joined] == ids
    started = [rid for tick in ticks for rid in tick.started]
    assert started == ids[: len(started)], "first in, first started"
    for tick in ticks:
        open_now = [
            j for j in run.journeys if j.arrival_tick <= tick.tick and (j.finish is None or j.finish > tick.tick + 1)
        ]
        in_prefill = len(tick.prefilling) - len(tick.prefilled)
        assert tick.queued + in_prefill + tick.ready == len(open_now), "each request is in one place"
    tokens = [rid for tick in ticks for rid, _ in tick.emitted]
    for journey in run.journeys:
        assert tokens.count(journey.request.id) == len(journey.token_ends) <= journey.request.output
        stamps = (journey.arrival_tick, journey.prefill_start, journey.prefill_end, journey.first_token, journey.finish)
        happened = [stamp for stamp in stamps if stamp is not None]
        assert happened == sorted(happened)
        assert stamps[: len(happened)] == tuple(happened), "no stage is skipped"
