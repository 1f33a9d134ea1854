"""A replay as text: the account of the policies, the times of the requests, the audit of the ticks."""

import textwrap
from collections.abc import Iterable, Sequence
from fractions import Fraction

from engine.toy.measures import DAGGER, Summary, in_window, times
from engine.toy.replay import Journey, Replay, Tick


def seconds(value: Fraction | None) -> str:
    """Three decimals, or a dash where the thing did not happen."""
    return "-" if value is None else f"{float(value):.3f}"


def heading(run: Replay) -> list[str]:
    """What was replayed, in words that name every knob."""
    s, tick_ms = run.settings, run.hardware.tick_s * 1000
    return [
        f"toy ledger: {s.policy}, {len(run.journeys)} requests at {float(s.rate):g}/s, batch {s.batch_limit}, "
        f"wait {float(s.max_wait_s):g} s, SLO {float(s.slo_s):g} s",
        f"window {seconds(run.window_s)} s = last arrival + 1.4 s; {run.end_tick} ticks of {float(tick_ms):g} ms",
    ]


def account(summaries: Sequence[Summary], chosen: str) -> list[str]:
    """A row per policy; `>` marks the chosen one, the dagger percentiles of a window that left requests unfinished."""
    header = ("  policy", "done", "open", "p50 s", "p95 s", "p99 s", "req/s", "good/s", "tok/s", "KV peak")
    rows = [(("> " if s.policy == chosen else "  ") + s.policy, *_account_cells(s)) for s in summaries]
    lines = _align([header, *rows], left={0})
    if any(s.censored for s in summaries):
        lines.append(f"{DAGGER} requests were left unfinished: percentiles of those that finished, not of all")
    return lines


def _account_cells(s: Summary) -> tuple[str, ...]:
    mark = DAGGER if s.censored else ""
    percentiles = (seconds(value) + mark for value in (s.p50_s, s.p95_s, s.p99_s))
    rates = (f"{float(value):.2f}" for value in (s.throughput, s.goodput, s.token_throughput))
    return str(s.finished), str(s.unfinished), *percentiles, *rates, str(s.kv_peak)


def request_table(run: Replay) -> list[str]:
    """A row per request: its size, its four times (SPEC E4), and whether it met the SLO."""
    header = ("id", "role", "prompt", "output", "arrival s", "queue s", "TTFT s", "TPOT s", "E2E s", "SLO")
    return _align([header, *(_request_cells(run, journey) for journey in run.journeys)], left={0, 1, 9})


def _request_cells(run: Replay, journey: Journey) -> tuple[str, ...]:
    t, request = times(journey, run.hardware.tick_s), journey.request
    if t.e2e_s is None or not in_window(run, journey):
        verdict = "open"
    else:
        verdict = "met" if t.e2e_s <= run.settings.slo_s else "missed"
    measured = (seconds(value) for value in (journey.arrival_s, t.queue_s, t.ttft_s, t.tpot_s, t.e2e_s))
    return request.id, request.role, str(request.prompt), str(request.output), *measured, verdict


def focus_table(runs: Sequence[Replay], focus: Sequence[str]) -> list[str]:
    """Some requests under each policy: a row per request and policy, requests together."""
    header = ("id", "role", "policy", "queue s", "TTFT s", "TPOT s", "E2E s", "finish tick")
    rows = [
        _focus_cells(run, journey)
        for journeys in zip(*(run.journeys for run in runs), strict=True)
        for run, journey in zip(runs, journeys, strict=True)
        if journey.request.id in focus
    ]
    return _align([header, *rows], left={0, 1, 2})


def _focus_cells(run: Replay, journey: Journey) -> tuple[str, ...]:
    t = times(journey, run.hardware.tick_s)
    measured = (seconds(value) for value in (t.queue_s, t.ttft_s, t.tpot_s, t.e2e_s))
    finish = "-" if journey.finish is None else str(journey.finish)
    return journey.request.id, journey.request.role, run.settings.policy, *measured, finish


def audit_table(run: Replay, width: int) -> list[str]:
    """A row per tick: the state it left, then its events in the order in which they happened (SPEC E2)."""
    header = "tick   start  queue ready cached reserve  events"
    lines = [header]
    for tick in run.ticks:
        state = (
            f"{tick.tick:>4} {seconds(tick.tick * run.hardware.tick_s):>7} {tick.queued:>6} {tick.ready:>5} "
            f"{tick.cached:>6} {tick.reserved:>7}  "
        )
        events = textwrap.wrap("; ".join(_events(tick)) or "nothing", max(width - len(state), 30))
        lines += [(state if i == 0 else " " * len(state)) + text for i, text in enumerate(events)]
    return lines


def _events(tick: Tick) -> Iterable[str]:
    tokens = [f"{rid}#{number}" for rid, number in tick.emitted]
    going_on = [rid for rid in tick.prefilling if rid not in tick.started + tick.prefilled]
    spoken = (
        ("join", tick.joined),
        ("tokens", tokens),
        ("finish", tick.finished),
        ("start prefill", tick.started),
        ("prefill goes on", going_on),
        ("prefill ends", tick.prefilled),
    )
    return [f"{what} {' '.join(who)}" for what, who in spoken if who]


def _align(rows: Sequence[Sequence[str]], left: set[int]) -> list[str]:
    """Columns two blanks apart, numbers to the right; an all-blank row's ends are cut."""
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def cell(text: str, i: int) -> str:
        return text.ljust(sizes[i]) if i in left else text.rjust(sizes[i])

    return ["  ".join(cell(text, i) for i, text in enumerate(row)).rstrip() for row in rows]
