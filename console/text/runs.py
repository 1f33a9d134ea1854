"""The runs of a folder as lines, and what a person should know about the rest of the folder."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from console.text.report import counted
from console.text.sizes import size
from console.widgets.ink import Align, Line, clean, duration, fit, width_of
from recorder.catalogue import Catalogue, Entry

_HEADS = ("run", "state", "created (UTC)", "size", "duration", "drops", "requests")
_ALIGNED: tuple[Align, ...] = ("left", "left", "left", "right", "right", "right", "left")
_STATES = {"sealed": "text", "recording": "good", "killed": "bad", "unsealed": "bad"}


def runs_lines(runs: Sequence[Entry]) -> Iterator[Line]:
    """One line a run under a head. Nothing is cut: these lines are also read by other programs."""
    rows = [_HEADS, *(_cells(run) for run in runs)]
    widths = [max(width_of([(cell, "")]) for cell in column) for column in zip(*rows, strict=True)]
    styles = [["muted"] * len(_HEADS), *(_styles(run) for run in runs)]
    for row, inks in zip(rows, styles, strict=True):
        fitted = (fit(*cell) for cell in zip(row, widths, _ALIGNED, strict=True))
        yield [piece for text, ink in zip(fitted, inks, strict=True) for piece in ((text, ink), ("  ", "text"))][:-1]


def notes(found: Catalogue) -> Iterator[str]:
    """What the table does not show: damage, and folders that are no runs."""
    for run in found.runs:
        if run.damages:
            yield f"{run.name} is damaged, its numbers are those of the rest: {'; '.join(run.damages)}"
    for skipped in found.skipped:
        if not skipped.foreign:
            yield f"skipped {skipped.name}: {skipped.why}"
    foreign = [skipped.name for skipped in found.skipped if skipped.foreign]
    if foreign:
        yield f"skipped {counted(len(foreign), 'folder')} without a run.json: {', '.join(foreign)}"


def instant_of_day(ns: int) -> str:
    """Wall-clock ns as date and time, UTC."""
    return f"{datetime.fromtimestamp(ns / 1e9, UTC):%Y-%m-%d %H:%M:%S}"


def _cells(run: Entry) -> tuple[str, ...]:
    return (
        clean(run.name),
        run.state,
        instant_of_day(run.created_ns),
        size(run.size_bytes),
        duration(run.duration_ns),
        f"{run.drops:,}",
        ", ".join(f"{count:,} {status}" for status, count in run.requests.items()) or "none",
    )


def _styles(run: Entry) -> list[str]:
    return ["strong", _STATES[run.state], "muted", "text", "text", "bad" if run.drops else "muted", "text"]
