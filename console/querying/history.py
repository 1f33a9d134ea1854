"""What was asked in SQL before, the newest last: kept for the user, whatever run is open."""

from typing import Final

MOST: Final = 200


def with_query(history: tuple[str, ...], sql: str) -> tuple[str, ...]:
    """The history after `sql` was asked: it is the newest, and in it once; the oldest beyond `MOST` are forgotten."""
    asked = sql.strip()
    if not asked:
        return history
    return (*(one for one in history if one != asked), asked)[-MOST:]


def older(history: tuple[str, ...], place: int | None) -> int | None:
    """The place before `place` (None: beyond the newest); the oldest stays the oldest."""
    if not history:
        return None
    return len(history) - 1 if place is None else max(place - 1, 0)


def newer(history: tuple[str, ...], place: int | None) -> int | None:
    """The place after `place`; None beyond the newest."""
    return None if place is None or place + 1 >= len(history) else place + 1
