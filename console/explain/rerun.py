"""What a re-run in virtual time said of a suggested setting, as plain data. Knows no engine."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

PERCENTILES: Final = ("p50", "p95", "p99")
"""Those that re-runs tell."""
JUDGED: Final = "p99"
"""By this E2E settings are judged: what the slow ones take, or the beginning of it."""

Summary = Mapping[str, float | None]
"""Percentile -> ns."""


@dataclass(frozen=True, slots=True)
class Rerun:
    """What a change does, by latency (`ttft`, `tpot`, `e2e`): recorded, re-run as recorded, and re-run with the change.

    `errors` are those of the re-run against the recording; beyond `limit`, `trusted` is False and `reasons` say why.
    `notes` are what else was not as recorded.
    """

    change: str
    recorded: Mapping[str, Summary]
    again: Mapping[str, Summary]
    changed: Mapping[str, Summary]
    errors: Mapping[str, Summary]
    limit: float
    trusted: bool
    reasons: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def better(self) -> float | None:
        """By how much E2E falls at p99, as a share of the re-run's; below 0 where it rises, None where unknown."""
        before, after = self.again["e2e"].get(JUDGED), self.changed["e2e"].get(JUDGED)
        return None if before is None or after is None or not before else 1 - after / before

    def document(self) -> dict[str, Any]:
        """For other programs; times in ns."""
        return {
            "change": self.change,
            "recorded_ns": _plain(self.recorded),
            "rerun_ns": _plain(self.again),
            "whatif_ns": _plain(self.changed),
            "errors": _plain(self.errors),
            "limit": self.limit,
            "trusted": self.trusted,
            "reasons": list(self.reasons),
            "notes": list(self.notes),
        }


def best_first(reruns: Iterable[Rerun]) -> tuple[Rerun, ...]:
    """Those that lower E2E at p99 most come first; those of which that can't be told come last."""
    return tuple(sorted(reruns, key=lambda one: -math.inf if one.better is None else one.better, reverse=True))


def _plain(summaries: Mapping[str, Summary]) -> dict[str, dict[str, float | None]]:
    return {name: dict(summary) for name, summary in summaries.items()}
