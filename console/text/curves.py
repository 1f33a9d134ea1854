"""Curves drawn with plotext: how many requests were done within which time, and what a load does to latency."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import plotext

from console.text.paint import Colour, channels, foreground, nearest_of_256
from console.theme import resolve

_STYLES: Final = ("run.a", "run.b", "run.c", "run.d")
_GLYPHS: Final = ("●", "○", "▲", "△")
"""Curves differ by glyph where they can't by colour."""

_POINTS: Final = 400
"""More points than a terminal has braille columns would only cost time."""

_TICKS: Final = 5


def cdf(
    title: str,
    curves: Mapping[str, Sequence[float]],
    width: int,
    height: int,
    *,
    colour: Colour = "none",
    dark: bool = True,
) -> list[str]:
    """Share of requests done within x ms, one curve a name, the legend above; no lines where no curve has a value.

    Drawn on a figure of its own: plotext's module-level figure would keep what an earlier caller drew.
    """
    values = {name: sorted(some) for name, some in curves.items() if some}
    if not values:
        return []
    figure = _figure(width, height, max(some[-1] for some in values.values()))
    legend = [title]
    for (name, some), style, glyph in zip(values.items(), _STYLES, _GLYPHS, strict=False):
        rgb = resolve(style, dark).foreground
        _draw(
            figure, some, plotext.marker(glyph) if colour == "none" else plotext.marker("braille", _pixel(rgb, colour))
        )
        legend.append(f"{glyph} {name}" if colour == "none" else f"\x1b[{foreground(rgb, colour)}m━━\x1b[0m {name}")
    plot: str = figure.build().string(colorless=colour == "none")
    return ["   ".join(legend), *(line.rstrip() for line in plot.rstrip("\n").split("\n"))]


def throughput_latency(
    title: str,
    curves: Mapping[str, Sequence[tuple[float, float]]],
    width: int,
    height: int,
    *,
    colour: Colour = "none",
    dark: bool = True,
) -> list[str]:
    """Points of (requests/s, ms), one curve a name, joined in the order given, the legend above; nothing if no points.

    Latency is on a logarithmic scale: beyond saturation it would else press all that matters flat (SPEC D3).
    """
    drawn = {name: [point for point in some if point[1] > 0] for name, some in curves.items()}
    points = [point for some in drawn.values() for point in some]
    if not points:
        return []
    figure = _log_figure(width, height, points)
    legend = [title]
    for (name, some), style, glyph in zip(drawn.items(), _STYLES, _GLYPHS, strict=False):
        if not some:
            continue
        rgb = resolve(style, dark).foreground
        x, y = [point[0] for point in some], [math.log10(point[1]) for point in some]
        marker = plotext.marker(glyph) if colour == "none" else plotext.marker(glyph, _pixel(rgb, colour))
        figure.draw(figure.signal(x, y, marker=marker).lines(len(some) > 1 and colour != "none"))
        legend.append(
            f"{glyph} {name}" if colour == "none" else f"\x1b[{foreground(rgb, colour)}m{glyph}\x1b[0m {name}"
        )
    plot: str = figure.build().string(colorless=colour == "none")
    return ["   ".join(legend), *(line.rstrip() for line in plot.rstrip("\n").split("\n"))]


def _log_figure(width: int, height: int, points: Sequence[tuple[float, float]]) -> Any:  # noqa: ANN401  # no types
    """Requests/s from 0 to the right, ms upwards by powers of ten around the points."""
    figure = _empty(width, height)
    right = max(x for x, _ in points) or 1.0
    low = math.floor(math.log10(min(y for _, y in points)))
    high = max(math.ceil(math.log10(max(y for _, y in points))), low + 1)
    marks = [right * tick / (_TICKS - 1) for tick in range(_TICKS)]
    figure.ruler("x").lim(0, right).ticks(marks, [f"{mark:,.4g}/s" for mark in marks])
    powers = list(range(low, high + 1))
    figure.ruler("y").lim(low, high).ticks(powers, [_milliseconds(10.0**power) for power in powers])
    return figure


def _empty(width: int, height: int) -> Any:  # noqa: ANN401  # plotext has no types
    """A figure of its own, without scales."""
    terminal = type(plotext.terminal)().limit(False, False)
    figure = type(plotext.figure)(parent=terminal).plot_size(width, height)
    figure.theme("colorless").canvas("default").legend(False)
    return figure


def _figure(width: int, height: int, highest: float) -> Any:  # noqa: ANN401  # plotext has no types
    """An empty figure with its scales: shares upwards, ms from 0 to the right."""
    figure = _empty(width, height)
    right = highest or 1.0
    marks = [right * tick / (_TICKS - 1) for tick in range(_TICKS)]
    figure.ruler("x").lim(0, right).ticks(marks, [_milliseconds(mark) for mark in marks])
    figure.ruler("y").lim(0, 1).ticks([0, 0.5, 0.9, 1], ["0 %", "50 %", "90 %", "100 %"])
    return figure


def _draw(figure: Any, ordered: Sequence[float], marker: Any) -> None:  # noqa: ANN401  # plotext has no types
    """A staircase: at each request's time the share rises by that request."""
    count = len(ordered)
    picked = range(count) if count <= _POINTS else [round(i * (count - 1) / (_POINTS - 1)) for i in range(_POINTS)]
    x, y = [0.0], [0.0]
    for place in picked:
        x += [ordered[place], ordered[place]]
        y += [y[-1], (place + 1) / count]
    figure.draw(figure.signal(x, y, marker=marker).lines(True))


def _pixel(rgb: str, colour: Colour) -> Any:  # noqa: ANN401  # plotext has no types
    return plotext.pixel(channels(rgb) if colour == "true" else nearest_of_256(rgb))


def _milliseconds(value: float) -> str:
    digits = 0 if value >= 100 or value == 0 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} ms"
