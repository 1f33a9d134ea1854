"""The audit's picture: a row per request, a column per tick, the policies side by side on one clock."""

from collections.abc import Sequence
from math import ceil

from engine.toy.replay import Journey, Replay

WAITING, PREFILL, READY, TOKEN = "·", "▒", "─", "█"
KEY = f"{WAITING} queued   {PREFILL} prefill   {READY} ready, not served   {TOKEN} emits a token"
_LABEL = 4
_GAP = 2


def draw(runs: Sequence[Replay], width: int) -> list[str]:
    """Panels beside each other where `width` columns hold them all tick by tick, else below each other, aligned.

    A trace with more ticks than columns is folded: a column then stands for several ticks and shows the most advanced
    state among them; the legend says how many.
    """
    end = max(run.end_tick for run in runs)
    beside = len(runs) * (end + _GAP) + _LABEL <= width
    fold = 1 if beside else ceil(end / max(width - _LABEL - 1, 10))
    panels = [_panel(run, end, fold) for run in runs]
    names = [f"{journey.request.id:<{_LABEL}}" for journey in runs[0].journeys]
    left = [" " * _LABEL, " " * _LABEL, *names]
    unit = "one column is one tick" if fold == 1 else f"one column is {fold} ticks"
    return [KEY, unit, *(_beside(left, panels) if beside else _below(left, panels))]


def _beside(left: Sequence[str], panels: Sequence[Sequence[str]]) -> list[str]:
    rows = [(" " * _GAP).join(cells) for cells in zip(*panels, strict=True)]
    return [(name + row).rstrip() for name, row in zip(left, rows, strict=True)]


def _below(left: Sequence[str], panels: Sequence[Sequence[str]]) -> list[str]:
    lines = []
    for panel in panels:
        lines += ["", *((name + row).rstrip() for name, row in zip(left, panel, strict=True))]
    return lines


def _panel(run: Replay, end: int, fold: int) -> list[str]:
    columns = ceil(end / fold)
    lines = [
        str(run.settings.policy),
        _axis(columns, fold),
        *(_row(journey, run.end_tick, fold) for journey in run.journeys),
    ]
    return [line[:columns].ljust(columns) for line in lines]


def _axis(columns: int, fold: int) -> str:
    """Tick numbers above every tenth column, or further apart where the numbers are long."""
    step = 10 * (1 + len(str(columns * fold)) // 10)
    return "".join(f"{column * fold:<{step}}" for column in range(0, columns, step))


def _row(journey: Journey, end: int, fold: int) -> str:
    """Stretches are painted from the least to the most advanced, so that a folded column shows the latter."""
    cells = [" "] * ceil(end / fold)
    stretches = [
        (WAITING, journey.arrival_tick, journey.prefill_start),
        (READY, journey.prefill_end, journey.finish),
        (PREFILL, journey.prefill_start, journey.prefill_end),
        *((TOKEN, token_end - 1, token_end) for token_end in journey.token_ends),
    ]
    for mark, start, stop in stretches:
        if start is None or start >= end:
            continue
        first, last = start // fold, (min(end if stop is None else stop, end) - 1) // fold
        if stop is None or stop > start:
            cells[first : last + 1] = mark * (last - first + 1)
    return "".join(cells)
