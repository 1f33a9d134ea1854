"""One finished request in one line, as `tailtrace tail --headless` prints it."""

from datetime import UTC, datetime

from console.tailing import Told, wall_ns
from console.widgets.ink import Line, clean, duration, fit
from recorder.run import ClockAnchor
from recorder.words import Status

_ID = 24


def told_line(told: Told, clock: ClockAnchor) -> Line:
    """When it returned, who it was, how it ended, how long it took, and its phases."""
    request = told.request
    status = request["status"] or "unknown"
    line: Line = [
        (_when(request["returned"] or request["arrival"], clock), "muted"),
        ("  ", "text"),
        (fit(clean(request["request_id"] or f"req:{request['rid']}"), _ID), "strong"),
        (f" {fit(status, 9)}", "text" if status == Status.OK else "bad"),
        (f" {request['output_tokens'] or 0:>5} tok", "text"),
        ("  e2e ", "muted"),
        (fit(duration(told.e2e_ns), 6, "right"), "strong"),
        ("  ttft ", "muted"),
        (fit(duration(told.ttft_ns), 6, "right"), "text"),
        ("  ", "text"),
    ]
    for phase, ns in told.phases.items():
        line += [(f" {phase} ", "muted"), (duration(ns), f"phase.{phase}")]
    if not told.complete:
        line.append(("  incomplete: records of it are missing", "warn"))
    if status != Status.OK and request["reason"]:
        line.append((f"  {clean(request['reason'])}", "muted"))
    return line


def _when(t: int | None, clock: ClockAnchor) -> str:
    """Time of day in UTC; in virtual time, seconds of the run."""
    if t is None:
        return "-"
    wall = wall_ns(clock, t)
    if wall is None:
        return f"{t / 1e9:.3f}s"
    return datetime.fromtimestamp(wall / 1e9, UTC).strftime("%H:%M:%S.%f")[:-3]
