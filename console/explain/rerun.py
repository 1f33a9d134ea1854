"""What a re-run in virtual time said of a suggested setting, as plain data. Knows no engine."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Rerun:
    """What a change does, E2E in ns: recorded, re-run as recorded, and re-run with the change.

    `error` is that of the re-run's p99 against the recording; beyond `limit`, `trusted` is False and `reasons` say why.
    """

    change: str
    recorded_p99: float | None
    again_p99: float | None
    changed_p99: float | None
    again_p50: float | None
    changed_p50: float | None
    error: float | None
    limit: float
    trusted: bool
    reasons: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """For other programs."""
        return {
            "change": self.change,
            "recorded_p99_ns": self.recorded_p99,
            "rerun_p99_ns": self.again_p99,
            "whatif_p99_ns": self.changed_p99,
            "rerun_p50_ns": self.again_p50,
            "whatif_p50_ns": self.changed_p50,
            "error": self.error,
            "limit": self.limit,
            "trusted": self.trusted,
            "reasons": list(self.reasons),
        }
