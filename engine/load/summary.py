"""What a finished load amounts to: how late it was sent, whether that spoils it, and what the clients saw."""

import math
from collections.abc import Sequence
from typing import Any, Final

from engine.load.client import Outcome

LAG_FLOOR_MS: Final = 10.0
LAG_SHARE: Final = 0.1
RULE: Final = "p99 send lag must stay within the larger of 10 ms and a tenth of the mean gap between arrivals"
"""Above it the arrivals that the server saw are no longer the pattern that was asked for."""


def summarise(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The summary as JSON; times in ms from the instant each request was due, percentiles by nearest rank."""
    lags = [_ms(o.due, o.sent) for o in outcomes]
    limit = lag_limit_ms([o.due for o in outcomes])
    sent_in_time = quantile([math.inf if lag is None else lag for lag in lags], 0.99)
    span_s = (max(o.done or o.due for o in outcomes) - outcomes[0].due) / 1e9
    tokens = sum(o.output_tokens or 0 for o in outcomes)
    return {
        "shape": "open loop",
        "requests": len(outcomes),
        "ok": sum(o.status == "ok" for o in outcomes),
        "rejected": sum(o.status == "rejected" for o in outcomes),
        "failed": sum(o.status == "failed" for o in outcomes),
        "retries": sum(o.retries for o in outcomes),
        "ok_after_one_retry": sum(o.status == "ok" and o.retries == 1 for o in outcomes),
        "valid": sent_in_time <= limit,
        "send_lag_ms": spread(lags),
        "send_lag_limit_ms": round(limit, 3),
        "rule": RULE,
        "duration_s": round(span_s, 3),
        "ttft_ms": spread([_ms(o.due, o.first_token) for o in outcomes if o.status == "ok"]),
        "tpot_ms": spread([_tpot_ms(o) for o in outcomes if o.status == "ok"]),
        "e2e_ms": spread([_ms(o.due, o.done) for o in outcomes if o.status == "ok"]),
        "output_tokens_per_s": round(tokens / span_s, 3) if span_s > 0 else None,
    }


def lag_limit_ms(due: Sequence[int]) -> float:
    """The largest p99 send lag that leaves the pattern as it was meant (`RULE`)."""
    gaps = len(due) - 1
    mean_gap_ms = (due[-1] - due[0]) / gaps / 1e6 if gaps else 0.0
    return max(LAG_FLOOR_MS, LAG_SHARE * mean_gap_ms)


def quantile(values: Sequence[float], q: float) -> float:
    """Nearest rank: the smallest value with at least the share `q` of all at or below it."""
    return sorted(values)[max(0, math.ceil(q * len(values)) - 1)]


def spread(values: Sequence[float | None]) -> dict[str, float | None]:
    """p50, p95, p99 and the maximum of the known values, in ms."""
    known = [value for value in values if value is not None]
    if not known:
        return dict.fromkeys(("p50", "p95", "p99", "max"))
    points = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {name: round(quantile(known, q), 3) for name, q in points.items()}


def lines(summary: dict[str, Any]) -> list[str]:
    """The summary for a person."""
    counts = ", ".join(f"{summary[name]} {name}" for name in ("ok", "rejected", "failed"))
    lag, limit = summary["send_lag_ms"]["p99"], summary["send_lag_limit_ms"]
    verdict = "in time" if summary["valid"] else "INVALID, could not keep up"
    rate = summary["output_tokens_per_s"]
    return [
        f"open loop: {summary['requests']} requests in {summary['duration_s']} s: {counts}",
        *([f"retries    {summary['retries']}"] if summary["retries"] else []),
        f"send lag   p99 {_shown(lag)}, limit {_shown(limit)}: {verdict}",
        *(
            f"{name:<10} {_row(summary[key])}"
            for name, key in (("TTFT", "ttft_ms"), ("TPOT", "tpot_ms"), ("E2E", "e2e_ms"))
        ),
        f"throughput {'-' if rate is None else rate} output tokens/s",
        f"times run from the instant a request was due; {summary['rule']}",
    ]


def _row(values: dict[str, float | None]) -> str:
    return "  ".join(f"{name} {_shown(value)}" for name, value in values.items())


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} ms"


def _ms(start: int, end: int | None) -> float | None:
    return None if end is None else (end - start) / 1e6


def _tpot_ms(outcome: Outcome) -> float | None:
    """Mean gap after the first token (SPEC D1)."""
    gaps = (outcome.output_tokens or 0) - 1
    if outcome.first_token is None or outcome.last_token is None or gaps < 1:
        return None
    return (outcome.last_token - outcome.first_token) / gaps / 1e6
