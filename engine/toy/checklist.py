"""The capacity checklist (SPEC E8) on a replayed ledger: eight questions, what it answers, what is left."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from engine.toy.ledger import LEDGER
from engine.toy.measures import Times, littles_law, nearest_rank, stage_loads, summarise, times
from engine.toy.replay import Replay, replay
from engine.toy.tables import account, seconds

_OVERLOAD_RATE = Fraction(6)
_PERCENTS = (50, 95, 99)


def checklist(chosen: Replay, runs: Sequence[Replay]) -> list[str]:
    """The guided report: `chosen` is looked into, `runs` are all policies on the same ledger and settings."""
    summaries = [summarise(run) for run in runs]
    mine = summarise(chosen)
    steps = (
        ("Request distribution", _distribution(chosen)),
        ("SLO, split", _objectives(chosen)),
        ("Capacity of the two stages", _stages(chosen)),
        ("KV account", _kv(chosen)),
        ("Policies on the same ledger", account(summaries, chosen.settings.policy)),
        ("Border traffic", _borders(runs)),
        ("Little check", littles_law(chosen, mine)),
        ("Hardware, last", _hardware(chosen)),
    )
    lines = [f"Capacity checklist: policy {chosen.settings.policy}, {float(chosen.settings.rate):g} requests/s"]
    for number, (title, body) in enumerate(steps, 1):
        lines += ["", f"{number}. {title}", *body]
    return lines


def _distribution(run: Replay) -> list[str]:
    requests = [journey.request for journey in run.journeys]
    arrivals = [journey.arrival_s for journey in run.journeys]
    gaps = [after - before for before, after in pairwise(arrivals)]
    roles = list(dict.fromkeys(request.role for request in requests))
    families = ", ".join(f"{sum(request.role == role for request in requests)} {role}" for role in roles)
    burst = max(sum(start <= other < start + 1 for other in arrivals) for start in arrivals)
    return [
        f"{len(requests)} requests: {families}.",
        f"prompt tokens {_quantiles([Fraction(request.prompt) for request in requests])}.",
        f"output tokens {_quantiles([Fraction(request.output) for request in requests])}.",
        f"mean rate {float(run.settings.rate):g}/s; most arrivals in one second {burst}; shortest gap "
        f"{seconds(min(gaps))} s.",
        "Left to measure: cancellations and retries (the ledger has none).",
    ]


def _quantiles(values: Sequence[Fraction]) -> str:
    ranks = ", ".join(f"p{percent} {float(nearest_rank(values, percent) or 0):g}" for percent in _PERCENTS)
    return f"{ranks}, mean {float(sum(values, Fraction(0)) / len(values)):.2f}"


def _objectives(run: Replay) -> list[str]:
    measured = [times(journey, run.hardware.tick_s) for journey in run.journeys]
    lines = [f"{name}: {_percentiles(measured, field)}." for name, field in _FIELDS]
    return [
        *lines,
        f"E2E is held to {float(run.settings.slo_s):g} s; TTFT and TPOT need limits of their own.",
        "Success: finished inside the window. What did not get that far is left out of these percentiles, and makes "
        "them too low.",
    ]


_FIELDS = (("queue delay", "queue_s"), ("TTFT", "ttft_s"), ("TPOT", "tpot_s"), ("E2E", "e2e_s"))


def _percentiles(measured: Sequence[Times], field: str) -> str:
    values = [value for value in (getattr(t, field) for t in measured) if value is not None]
    ranks = ", ".join(f"p{percent} {seconds(nearest_rank(values, percent))} s" for percent in _PERCENTS)
    return f"{ranks} ({len(values)} of {len(measured)} requests)"


def _stages(run: Replay) -> list[str]:
    lines = [
        f"{stage}: {float(demand):.1f} of {float(capacity):g} tokens/s, {float(100 * demand / capacity):.0f} % loaded, "
        f"full at {float(run.settings.rate * capacity / demand):.2f} requests/s."
        for stage, demand, capacity in stage_loads(run)
    ]
    return [
        *lines,
        "Left to measure: both at once (here they share nothing; on a GPU they share bandwidth and memory).",
    ]


def _kv(run: Replay) -> list[str]:
    budget = run.hardware.kv_tokens
    reserved = max(tick.reserved for tick in run.ticks)
    cached = max(tick.cached for tick in run.ticks)
    largest = max((journey.request for journey in run.journeys), key=lambda request: request.tokens)
    return [
        f"reserved at most {reserved} of {budget} tokens (prompt + output, worst case); cached at most {cached}.",
        f"largest request {largest.id}: {largest.tokens} tokens, of which {budget // largest.tokens} fit at once.",
    ]


def _borders(runs: Sequence[Replay]) -> list[str]:
    lines = []
    for run in runs:
        overloaded = summarise(replay(replace(run.settings, rate=_OVERLOAD_RATE), LEDGER, run.hardware))
        behind = [times(journey, run.hardware.tick_s).e2e_s for journey in run.journeys[1:4]]
        shorts = ", ".join(seconds(value) for value in behind)
        lines.append(
            f"{run.settings.policy}: R02..R04 behind the long R01 take {shorts} s; at {float(_OVERLOAD_RATE):g}/s "
            f"{overloaded.unfinished} of {len(run.journeys)} stay unfinished, p95 {seconds(overloaded.p95_s)} s."
        )
    return [*lines, "Left to measure: bursts, upstream retries, cancellations, KV close to its limit."]


def _hardware(run: Replay) -> list[str]:
    stage, demand, capacity = max(stage_loads(run), key=lambda row: row[1] / row[2])
    stays = [(times(journey, run.hardware.tick_s), journey) for journey in run.journeys if journey.finish is not None]
    if not stays:
        return [f"Nothing finished, so nothing can be said beyond the load: {stage} is the fuller stage."]
    queue = sum((t.queue_s or Fraction(0) for t, _ in stays), Fraction(0))
    whole = sum((t.e2e_s or Fraction(0) for t, _ in stays), Fraction(0))
    return [
        f"Of the time of the finished requests {float(100 * queue / whole):.0f} % was queueing. The fuller stage is "
        f"{stage} at {float(100 * demand / capacity):.0f} %.",
        "Before buying: find out whether prefill, decode, KV, host scheduling, network or a dependency is what fills. "
        "A toy replay asks the questions; it promises no capacity.",
    ]
