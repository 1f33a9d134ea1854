"""What an importer makes of a file: rows in the words of the schema, and what `run.json` has to say of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from recorder.errors import UserError
from recorder.run import ClockAnchor
from recorder.words import Phase


class ImportingError(UserError):
    """A file that can't be imported: names the file, the line where it has one, and what is wrong there."""

    @classmethod
    def at(cls, path: Path, line: int, what: str) -> "ImportingError":
        """A fault in one line, counted from 1."""
        return cls(f"{path}, line {line}: {what}")


Row = dict[str, Any]


@dataclass(frozen=True)
class Recording:
    """One imported recording. `requests` are rows of that table by column name; `notes` is what a reader must know."""

    requests: list[Row]
    clock: ClockAnchor
    created: str
    config: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    devices: list[dict[str, Any]] = field(default_factory=list)
    software: Mapping[str, str] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


_PHASES = (
    (Phase.INGRESS, "arrival"),
    (Phase.QUEUE, "queued"),
    (Phase.PREFILL, "first_scheduled"),
    (Phase.DECODE, "first_token"),
    (Phase.RETURN, "last_token"),
)


def spans(request: Row) -> Iterator[Row]:
    """The phases between the stamps of an answered request, in order; empty ones are left out."""
    edges = [(phase, request[stamp]) for phase, stamp in _PHASES]
    ends = [*pairwise(edges), (edges[-1], (None, request["returned"]))]
    for (phase, start), (_, end) in ends:
        if end > start:
            yield {
                "rid": request["rid"],
                "attempt": request["attempt"],
                "name": phase,
                "start": start,
                "end": end,
                "worker": request["worker"],
            }
