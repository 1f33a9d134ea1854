"""How busy the device was over a stretch: the driver's readings where there are some, else the workers' executions."""

from typing import Final

import numpy as np

from console.engine_view.look import Asking
from console.rhythm import Levels, Rhythm, rhythm
from console.timeline import Floats, Ints
from recorder.words import Source

_FINE_NS: Final = 10_000_000
_COARSE: Final = 5
"""The workers' busy share is taken every 10 ms for its period and every 50 ms for its spread."""
_MOST_BINS: Final = 2**17
_EXECUTION: Final = "time in which the workers execute steps"
_DRIVER: Final = "utilisation of the device, as its driver tells it"


def find_rhythm(asking: Asking) -> Rhythm:
    """The rhythm of a stretch (SPEC B4). The period is always that of the executions: a driver is asked too seldom."""
    fine = _executions(asking)
    activity = _readings(asking, Source.DEVICE, "sm_activity_percent")[1]
    times, readings = _readings(asking, Source.DEVICE, "utilization_percent")
    if len(times) > 1:
        return rhythm(_DRIVER, Levels(readings, int(np.median(np.diff(times)))), fine, activity)
    whole = len(fine.shares) // _COARSE * _COARSE
    coarse = fine.shares[:whole].reshape(-1, _COARSE).mean(axis=1)
    return rhythm(_EXECUTION, Levels(coarse, fine.every_ns * _COARSE), fine, activity)


def loop_cpu(asking: Asking) -> tuple[float, float] | None:
    """Mean and highest share of a core that the front end took; None where nobody measured it."""
    readings = _readings(asking, Source.FRONTEND, "cpu_percent")[1]
    return (float(readings.mean()), float(readings.max())) if len(readings) else None


def _readings(asking: Asking, source: Source, name: str) -> tuple[Ints, Floats]:
    """When a percentage was read, and the share it was."""
    answer = asking.ask("engine_readings", source=source.value, name=name)
    return answer["t"].to_numpy(), answer["value"].to_numpy() / 100


def _executions(asking: Asking) -> Levels:
    """The share of each 10 ms (of more, where that would be too many) in which the workers executed; their mean.

    Empty where none did: then nothing of it is known.
    """
    window = asking.look.window
    every = _FINE_NS * max(-(-window.span // (_FINE_NS * _MOST_BINS)), 1)
    count = window.span // every
    answer = asking.ask("engine_executions", until=window.start + count * every) if count else None
    if answer is None or not answer.num_rows:
        return Levels(np.array([]), every)
    begun, ended = (answer[name].to_numpy() - window.start for name in ("t_exec", "t_done"))
    ns = spent_between(begun, ended, np.arange(count + 1, dtype=np.int64) * every)
    return Levels(ns / (every * len(np.unique(answer["worker"].to_numpy()))), every)


def spent_between(begun: Ints, ended: Ints, edges: Ints) -> Ints:
    """How much of all the stretches `[begun, ended)` lies between each edge and the next; they may lie over each other.

    What has passed at an edge since they began, less what has passed since they ended. The sums are right even where
    they wrap around, as long as each difference is a whole number of 64 bits.
    """
    passed = _passed_since(begun, edges) - _passed_since(ended, edges)
    return np.diff(passed)


def _passed_since(instants: Ints, edges: Ints) -> Ints:
    """How much time has passed at each edge since the instants before it, taken together."""
    instants = np.sort(instants, kind="stable")
    before = np.searchsorted(instants, edges)
    passed: Ints = before * edges - np.concatenate([[0], np.cumsum(instants)])[before]
    return passed
