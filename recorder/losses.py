"""What a run could not keep: gaps that full rings left, and damage, each with the time it was."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recorder.parts import Part
from recorder.ring import RingReader, Tail

_S: Final = 1e9
_OF_NO_REQUEST: Final = frozenset({"samples", "recorder"})
Ints = npt.NDArray[np.int64]
_EVER: Final = (-(2**63) + 1, 2**63 - 1)


@dataclass(frozen=True)
class Span:
    """Records `first` up to, not including, `last` of one producer's ring of one table."""

    producer: str
    table: str
    first: int
    last: int

    @classmethod
    def of(cls, table: str, part: Part) -> "Span":
        """The records of a part."""
        return cls(part.producer, table, part.first, part.last)


@dataclass(frozen=True)
class Damage:
    """A file of the run that can't be trusted, and what of it is not shown.

    `since` and `until` are ns on the run's clock, None where nothing tells them.
    """

    file: str
    what: str
    span: Span | None = None
    since: int | None = None
    until: int | None = None


@dataclass(frozen=True)
class Gap:
    """`lost` records of a table that are missing before record `seq`, and when; None: open on that side."""

    producer: str
    table: str
    seq: int
    lost: int
    since: int | None
    until: int | None


class Account:
    """The table `recorder`, asked when records were packed and which of them were lost."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def when(self, span: Span) -> tuple[int | None, int | None]:
        """Bounds of the time in which these records were packed: what was not taken yet, and what was already."""
        same = (pc.field("producer") == span.producer) & (pc.field("table_name") == span.table)
        told = self._rows.filter(same & pc.is_valid(pc.field("durable")))
        before = told.filter(pc.field("events") <= span.first)["durable"]
        after = told.filter(pc.field("events") >= span.last)["t"]
        return pc.max(before).as_py(), pc.min(after).as_py()

    def gaps(self) -> Iterator[Gap]:
        """Every gap it tells of, once: a recorder that was killed may have written one, and its successor again."""
        seen = set()
        rows: list[dict[str, Any]] = self._rows.filter(pc.field("lost") > 0).to_pylist()
        for row in rows:
            where = (row["producer"], row["table_name"], row["events"])
            if where not in seen:
                seen.add(where)
                until = row["t"] if row["lost_until"] is None else row["lost_until"]
                yield Gap(*where, row["lost"], row["lost_from"], until)


def gaps_in_ring(producer: str, table: str, ring: RingReader, tail: Tail) -> Iterator[Gap]:
    """The gaps that a ring tells of and no account does yet; the last one may still go on."""
    told = tail.records[tail.records["_lost"] > 0]
    for seq, lost in zip(told["_seq"].tolist(), told["_lost"].tolist(), strict=True):
        yield Gap(producer, table, seq, lost, *(ring.gap_before(seq) or (None, None)))
    if ring.untold:
        yield Gap(producer, table, tail.end, ring.untold, ring.full_since, None)


def gaps_of_damages(damages: Iterable[Damage]) -> Iterator[Gap]:
    """Damage is a gap as well; how many of its records are shown nevertheless is not known."""
    for damage in damages:
        if damage.span:
            span = damage.span
            yield Gap(span.producer, span.table, span.last, span.last - span.first, damage.since, damage.until)


def lossy_windows(gaps: Iterable[Gap], passes: pa.Table) -> list[tuple[int, int]]:
    """The times of which something is missing that tells of requests, apart and in order; ns on the run's clock.

    What is lost at an instant tells of the pass that had just ended then, so a window begins with the last recorded
    pass (`t_sched`, `t_end` and `worker` of `steps`) that ended before its first loss.
    """
    windows: list[tuple[int, int]] = []
    found = [gap for gap in gaps if gap.table not in _OF_NO_REQUEST]
    begins = _reach_back([_EVER[0] if gap.since is None else gap.since for gap in found], passes) if found else []
    for begin, gap in sorted(zip(begins, found, strict=True), key=lambda one: one[0]):
        end = _EVER[1] if gap.until is None else gap.until
        if windows and begin <= windows[-1][1]:
            windows[-1] = windows[-1][0], max(end, windows[-1][1])
        else:
            windows.append((begin, end))
    return windows


def _reach_back(instants: list[int], passes: pa.Table) -> list[int]:
    """For each instant the begin of the last pass that ended before it, of the worker where that is longest ago."""
    reached: Ints = np.array(instants, np.int64)
    whole = passes.drop_null()
    workers = whole["worker"].to_numpy()
    for worker in np.unique(workers):
        mine = workers == worker
        ends = whole["t_end"].to_numpy()[mine]
        order = np.argsort(ends)
        before = np.searchsorted(ends[order], np.array(instants, np.int64), side="right") - 1
        begins = whole["t_sched"].to_numpy()[mine][order]
        reached = np.where(before >= 0, np.minimum(reached, begins[before]), reached)
    found: list[int] = reached.tolist()
    return found


def dated(damage: Damage, account: Account, origin: int) -> Damage:
    """The damage with its time, also in words: seconds since `origin`, an instant on the run's clock."""
    if damage.span is None:
        return damage
    since, until = account.when(damage.span)
    since = damage.since if since is None else since
    until = damage.until if until is None else until
    return replace(damage, what=f"{damage.what} ({_words(since, until, origin)})", since=since, until=until)


def _words(since: int | None, until: int | None, origin: int) -> str:
    ends = [(word, at) for word, at in (("after", since), ("before", until)) if at is not None]
    told = " and ".join(f"{word} {(at - origin) / _S:.3f} s" for word, at in ends)
    return f"recorded {told} of the run" if told else "recorded at a time that nothing tells"
