"""The strips of the engine screen: what the workers did over a stretch, one under the other on one time axis."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from console.engine_view.answer import EngineView
from console.selecting import Stretch
from console.theme import STEPS, Look, cause_look
from console.timeline import Floats, ticks
from console.widgets.density import ASIDE
from console.widgets.ink import Line, crop, duration, runs, width_of
from console.widgets.strips import Row, Strip, braille, glyphs, highest, stacked
from recorder.words import Reason, StepKind

_GUTTER: Final = 18
_WIDE_GUTTER: Final = 24
_WIDE: Final = 100
A_COLUMN: Final = 2
"""Parts of the stretch in a column: braille has two dots beside each other."""
_MOST_COLUMNS: Final = 999
_UNKNOWN: Final = "-"
_AROUND: Final = 3
"""Blanks before, between and after the name of a strip and its number."""

DEVICE: Final = Look("█", "phase.decode")
EXECUTION: Final = Look("▓", "flight")
HOST: Final = Look("▒", "host")
_NOTHING: Final = Look(" ", "text")
_PREFILL: Final = STEPS[StepKind.PREFILL]
_DECODE: Final = Look("░", STEPS[StepKind.DECODE].style)


def gutter(width: int) -> int:
    """Cells of the names and numbers at the left."""
    return _WIDE_GUTTER if width >= _WIDE else min(_GUTTER, width // 2)


def parts_for(width: int) -> int:
    """In how many equal parts a stretch is asked for, to fill strips of `width` cells; a multiple of three."""
    return A_COLUMN * min(max((width - gutter(width)) // 3, 1) * 3, _MOST_COLUMNS)


def reason_look(reason: str) -> Look:
    """Glyph and style of why the head of a queue was kept waiting."""
    if reason == Reason.PREEMPTION:
        return cause_look("PREEMPTED")
    return cause_look(f"QUEUE/{reason}")


def strip_lines(view: EngineView, width: int, height: int = 2, chosen: Stretch | None = None) -> list[Line]:
    """All strips, `height` rows each; what never happened has none. A chosen stretch is a line over its columns."""
    side = gutter(width)
    lines = [_axis(view, width, chosen)]
    for strip in _strips(view, height, side):
        lines += strip.lines(side)
    return [crop(line, width) for line in [*lines, *_legends(view, side)]]


def stretch_at(view: EngineView, width: int, one: int, other: int) -> Stretch | None:
    """What lies between two cells of a line of strips; None where the first is beside their columns."""
    side, columns = gutter(width), view.bins.count // A_COLUMN
    if not 0 <= one - side < columns:
        return None
    return Stretch.of_columns(one - side, other - side, view.look.window, columns)


def _axis(view: EngineView, width: int, chosen: Stretch | None) -> Line:
    side, columns = gutter(width), view.bins.count // A_COLUMN
    text = [" "] * columns
    for tick in ticks(view.look.window, columns):
        label = f"╷{tick.label}"
        if tick.column >= 0 and tick.column + len(label) <= columns:
            text[tick.column : tick.column + len(label)] = label
    span = view.look.window.span if chosen is None else chosen.span
    over = range(0) if chosen is None else chosen.columns(view.look.window, columns)
    cells = [("━", "accent") if column in over else (char, "muted") for column, char in enumerate(text)]
    return [(f" {duration(span)} ".ljust(side)[:side], "muted" if chosen is None else "accent"), *runs(cells)]


def _strips(view: EngineView, height: int, side: int) -> Iterator[Strip]:
    bins = view.bins
    whole = bins.all_ns.sum()
    computing = f"{np.nansum(bins.busy_ns) / whole:.0%} busy" if whole else _UNKNOWN
    yield Strip("passes", computing, [_most(bins.kinds, STEPS)])
    yield Strip("tokens", _most_of(bins.tokens_max, whole), _composition(view, height))
    yield Strip(
        "batch", _most_of(bins.batch_max, whole), braille(bins.batch, max(bins.batch_max, 1), height, _DECODE.style)
    )
    most = highest(bins.waiting)
    yield Strip("waiting", _most_of(most, whole), braille(bins.waiting, most, height if most else 1, "phase.queue"))
    if view.report["reasons"]:
        waits = sum(reason["share"] for reason in view.report["reasons"].values())
        looks = {"": _NOTHING, **{reason: reason_look(reason) for reason in bins.reasons}}
        nobody = np.where(bins.all_ns > 0, 1e-9, 0.0)
        yield Strip("head waits", f"{waits:.0%}", [_most({"": nobody, **bins.reasons}, looks)])
    yield Strip("time", _device_share(view), _time(view, height))
    yield from _blocks(view, height, side)
    if view.report["preemptions"]["n"]:
        top = highest(view.preempted)
        yield Strip("preempted", f"{view.report['preemptions']['n']:,}", braille(view.preempted, top, 1, "bad"))


def _most_of(most: float, whole: float) -> str:
    """The highest of a stretch; nothing is known of one without passes."""
    return f"max {most:,.0f}" if whole else _UNKNOWN


def _composition(view: EngineView, height: int) -> list[Row]:
    bins = view.bins
    parts = ((_halved(bins.decode_tokens), _DECODE), (_halved(bins.prefill_tokens), _PREFILL))
    return stacked(parts, max(bins.tokens_max, 1), height + 1)


def _time(view: EngineView, height: int) -> list[Row]:
    bins = view.bins
    device, execution, host = (bins.share(part) for part in (bins.device_ns, bins.exec_ns, bins.host_ns))
    rest = np.maximum(execution - device, 0.0)
    return stacked([(_halved(device), DEVICE), (_halved(rest), EXECUTION), (_halved(host), HOST)], 1.0, height + 1)


def _device_share(view: EngineView) -> str:
    spent, whole = view.report["time"]["device_ns"], view.report["time"]["recorded_ns"]
    return f"device {spent / whole:.0%}" if spent is not None and whole else _UNKNOWN


def _blocks(view: EngineView, height: int, side: int) -> Iterator[Strip]:
    kv = view.kv
    held = f"{highest(kv.held):,.0f}/{kv.total:,}" if kv.total else _UNKNOWN
    named = next((name for name in ("KV held", "held") if len(name) + len(held) + _AROUND <= side), "KV")
    yield Strip(named, held, braille(kv.held, kv.total, height, "host"))
    if highest(kv.cached):
        told = f"≤{highest(kv.cached):,.0f}"
        yield Strip("KV cached", told, braille(kv.cached, kv.total, height, "phase.prefill"))
    if highest(kv.dead):
        yield Strip("KV for nobody", f"≤{highest(kv.dead):,.0f}", braille(kv.dead, highest(kv.dead), 1, "bad"))


def _most(amounts: Mapping[str, Floats], looks: Mapping[str, Look]) -> Row:
    """The word that fills most of each column; nothing where none has any time."""
    names = list(amounts)
    levels = np.array([np.nan_to_num(amount).reshape(-1, A_COLUMN).sum(axis=1) for amount in amounts.values()])
    some = levels.max(axis=0) > 0
    largest = [names[place] if there else None for place, there in zip(levels.argmax(axis=0), some, strict=True)]
    return glyphs(largest, dict(looks))


def _halved(levels: Floats) -> Floats:
    """One number a column of those for its two halves."""
    both = levels.reshape(-1, A_COLUMN)
    known = ~np.isnan(both)
    means: Floats = np.divide(
        np.nan_to_num(both).sum(axis=1), known.sum(axis=1), out=np.full(len(both), np.nan), where=known.any(axis=1)
    )
    return means


def _legends(view: EngineView, side: int) -> Iterator[Line]:
    """What the glyphs are, as many entries on a line as there is room for."""
    room = view.bins.count // A_COLUMN
    line: Line = []
    for name, look in _entries(view):
        entry: Line = [(look.glyph, f"{look.style} aside"), (f" {name}  ", ASIDE)]
        if line and width_of(line) + width_of(entry) > room:
            yield [(" " * side, "text"), *line]
            line = []
        line += entry
    yield [(" " * side, "text"), *line]


def _entries(view: EngineView) -> Iterator[tuple[str, Look]]:
    yield from ((kind.value, STEPS[kind]) for kind in StepKind)
    yield from (("prefill tokens", _PREFILL), ("decode tokens", _DECODE))
    yield from (("device", DEVICE), ("execution", EXECUTION), ("host", HOST))
    yield from ((reason, reason_look(reason)) for reason in view.report["reasons"])
