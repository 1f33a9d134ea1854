"""The recorder's own account of how it did: records, drops, cost, and up to when everything is on disk (SPEC F8)."""

from typing import TYPE_CHECKING, Any, Final

from console.session import Session, rows
from recorder.run import RunInfo

if TYPE_CHECKING:
    import duckdb

_SEAL_INTERVAL_S: Final = 2.0
"""The recorder's own default, for runs whose configuration does not say it."""


def recorder_health(session: Session, cursor: "duckdb.DuckDBPyConnection") -> dict[str, Any]:
    """The row of `recorder_health.sql`, without what only helps to tell how far everything is on disk."""
    account = rows(session.ask("recorder_health", cursor=cursor))[0]
    oldest, newest = account["durable"], account.pop("newest")
    return {**account, "durable": _durable(oldest, newest, session.tables.info)}


def _durable(oldest: Any, newest: Any, info: RunInfo) -> int | None:  # noqa: ANN401  # of a row of SQL
    """A ring that had nothing to seal is told nothing of: only it may be behind, and never by more than an interval."""
    if oldest is None:
        return None
    interval_s = info.config.get("record", {}).get("seal_interval_s", _SEAL_INTERVAL_S)
    return max(int(oldest), int(newest) - round(float(interval_s) * 1e9))
