"""What a replay measures: the times of each request (SPEC E4), and what its window may claim (SPEC E5, E7)."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from engine.toy.policies import Policy
from engine.toy.replay import Journey, Replay

DAGGER = "†"


@dataclass(frozen=True, slots=True)
class Times:
    """The four times of a request in seconds; None where the stamps are missing (TPOT also for a single token)."""

    queue_s: Fraction | None
    ttft_s: Fraction | None
    tpot_s: Fraction | None
    e2e_s: Fraction | None


def times(journey: Journey, tick_s: Fraction) -> Times:
    """SPEC E4, from the exact arrival and not from the tick in which the request joined."""

    def since_arrival(stamp: int | None) -> Fraction | None:
        return None if stamp is None else stamp * tick_s - journey.arrival_s

    first, finish, gaps = journey.first_token, journey.finish, journey.request.output - 1
    tpot = None if first is None or finish is None or gaps == 0 else (finish - first) * tick_s / gaps
    return Times(since_arrival(journey.prefill_start), since_arrival(first), tpot, since_arrival(finish))


def nearest_rank(values: Sequence[Fraction], percent: int) -> Fraction | None:
    """The smallest value that at least `percent` of them do not exceed; None of nothing."""
    ordered = sorted(values)
    return ordered[max(ceil(Fraction(percent * len(ordered), 100)), 1) - 1] if ordered else None


@dataclass(frozen=True, slots=True)
class Summary:
    """A window's account. Rates divide by the window; percentiles are of the E2E of what finished inside it.

    `censored`: something did not finish, so each percentile is that of a lucky subset and carries the dagger.
    """

    policy: Policy
    finished: int
    unfinished: int
    censored: bool
    p50_s: Fraction | None
    p95_s: Fraction | None
    p99_s: Fraction | None
    throughput: Fraction
    goodput: Fraction
    token_throughput: Fraction
    window_s: Fraction
    kv_peak: int
    mean_in_flight: Fraction
    peak_in_flight: int


def in_window(run: Replay, journey: Journey) -> bool:
    """True if the request finished inside the window; its last tick may have run past the end."""
    return journey.finish is not None and journey.finish * run.hardware.tick_s <= run.window_s


def summarise(run: Replay) -> Summary:
    """The account of `run`."""
    window, tick_s = run.window_s, run.hardware.tick_s
    e2e = finished_e2e_s(run)
    unfinished = len(run.journeys) - len(e2e)
    ends = [min(j.finish * tick_s, window) if j.finish is not None else window for j in run.journeys]
    stays = [end - journey.arrival_s for journey, end in zip(run.journeys, ends, strict=True)]
    return Summary(
        policy=run.settings.policy,
        finished=len(e2e),
        unfinished=unfinished,
        censored=unfinished > 0,
        p50_s=nearest_rank(e2e, 50),
        p95_s=nearest_rank(e2e, 95),
        p99_s=nearest_rank(e2e, 99),
        throughput=len(e2e) / window,
        goodput=sum(value <= run.settings.slo_s for value in e2e) / window,
        token_throughput=sum(len(journey.token_ends) for journey in run.journeys) / window,
        window_s=window,
        kv_peak=max(tick.cached for tick in run.ticks),
        mean_in_flight=sum(stays, Fraction(0)) / window,
        peak_in_flight=_peak([journey.arrival_s for journey in run.journeys], ends),
    )


def finished_e2e_s(run: Replay) -> list[Fraction]:
    """E2E of the requests that finished inside the window, in the ledger's order."""
    measured = [(journey, times(journey, run.hardware.tick_s).e2e_s) for journey in run.journeys]
    return [e2e for journey, e2e in measured if e2e is not None and in_window(run, journey)]


def _peak(starts: Sequence[Fraction], ends: Sequence[Fraction]) -> int:
    """Most intervals open at once; one that ends as another starts does not overlap it."""
    edges = sorted([(start, 1) for start in starts] + [(end, -1) for end in ends])
    level = peak = 0
    for _, change in edges:
        level += change
        peak = max(peak, level)
    return peak


def stage_loads(run: Replay) -> list[tuple[str, Fraction, Fraction]]:
    """Per stage of the machine: its name, tokens per second that arrive for it, tokens per second that it can do."""
    requests = [journey.request for journey in run.journeys]
    per_token, tick_s = run.settings.rate / len(requests), run.hardware.tick_s
    prompts, outputs = sum(request.prompt for request in requests), sum(request.output for request in requests)
    return [
        ("prefill", prompts * per_token, run.hardware.prefill_tokens_per_tick / tick_s),
        ("decode", outputs * per_token, run.hardware.decode_slots / tick_s),
    ]


def littles_law(run: Replay, summary: Summary) -> list[str]:
    """L = lambda W for this window, or why it does not apply; always with its conditions (SPEC E7)."""
    why = _overload(run, summary)
    if why:
        return [
            f"Little's law: not applied: {why}; L = lambda W needs a stable system over a long time, and the L, lambda "
            "and W of this window would say nothing about one.",
        ]
    e2e = finished_e2e_s(run)
    mean_s = sum(e2e, Fraction(0)) / len(e2e)
    return [
        f"Little's law: L = lambda W = {float(summary.throughput):.3f}/s x {float(mean_s):.3f} s = "
        f"{float(summary.throughput * mean_s):.3f} requests in flight on average (peak {summary.peak_in_flight}).",
        "Conditions: in flight from arrival to last token; the window starts and ends empty, so nothing is left out. "
        "It is one finite trace: a check of magnitude, no proof of a steady state, and silent about p99.",
    ]


def _overload(run: Replay, summary: Summary) -> str:
    """Why the window counts as overloaded; empty if it does not."""
    if summary.censored:
        return f"{summary.unfinished} of {len(run.journeys)} requests were unfinished at the window's end"
    full = [name for name, demand, capacity in stage_loads(run) if demand >= capacity]
    return f"more tokens arrive for {' and '.join(full)} than the machine can do" if full else ""
