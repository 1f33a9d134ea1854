"""The recorder's work: rings into sealed parts while the run goes on, and the closing of the run when it ends."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import msgspec

from recorder.left_out import LEDGER, LeftOut
from recorder.losses import Gap, gaps_in_ring
from recorder.merge import merge, merge_table, small_tail
from recorder.narration import say
from recorder.parts import Part, Staged, all_parts, folder_of, outermost, publish, stage_part
from recorder.producer import RingProducer
from recorder.records import numbered, to_arrow
from recorder.ring import RingError, RingReader, Tail
from recorder.run import finish, is_locked, rings_dir
from recorder.schema import TABLES, Table
from recorder.thinning import WATCHED, Thinning, rule_of

SELF: Final = "recorder"
"""The recorder process is a producer too: its own rows pass through rings that it drains like any other."""

_OWN_RING_MB: Final = 1.0
_FULL_PART: Final = 128 * 1024
_MANY_SETTLED: Final = 16
_MANY_UNSETTLED: Final = 256
"""Parts that a request which never ends keeps from being judged are merged as they are, rather than pile up."""
_GRACE_NS: Final = 10 * 10**9
"""How long merged parts outlive their merge, for readers that have listed them already."""


class RecordSettings(msgspec.Struct, frozen=True):
    """The part of `[record]` that the recorder process reads."""

    seal_interval_s: float = 2.0
    sample_interval_s: float = 1.0
    keep: Literal["all", "tail"] = "all"
    slo_ms: float = 0.0
    keep_slowest: float = 0.01
    keep_slowest_of: int = 1000
    keep_margin_s: float = 1.0


@dataclass
class Source:
    """One ring on its way into parts; `start` is the number of the first record that no part holds."""

    producer: str
    table: Table
    ring: RingReader
    parts: list[Part]
    start: int
    bytes_sealed: int
    sealed_at: int = field(default_factory=time.monotonic_ns)
    taken_at: int | None = None
    """Instant before which all records up to `start` were packed, and none after it; None for those of another life."""

    @classmethod
    def open(cls, run: Path, path: Path) -> "Source":
        """Go on where the names of the parts end, whoever sealed them. Raises RingError, FileNotFoundError.

        Where somebody has deleted parts, their records may be overwritten already: those that are sealed stay behind.
        """
        producer, name, _ = path.name.split(".")
        ring = RingReader(path, TABLES[name], sealing=True)
        parts = outermost(part for part in all_parts(run, name) if part.producer == producer)
        start = max([ring.sealed, *(part.last for part in parts)])
        ring.seal(start)
        return cls(producer, TABLES[name], ring, parts, start, sum(part.path.stat().st_size for part in parts))

    def is_due(self, now: int, interval_ns: int) -> bool:
        """Whether enough has come together: many records, much of the ring, or much time."""
        pending = self.ring.pending(self.start)
        many = pending >= _FULL_PART or pending * 2 >= self.ring.capacity
        return many or (pending > 0 and now - self.sealed_at >= interval_ns)

    def advance(self, part: Part, now: int) -> None:
        """The part is durable: its slots are free for the writer."""
        self.parts.append(part)
        self.start, self.sealed_at, self.taken_at = part.last, now, now
        self.bytes_sealed += part.path.stat().st_size
        self.ring.seal(part.last)


@dataclass(frozen=True)
class _Taken:
    source: Source
    tail: Tail
    staged: Staged


class Drain:
    """Seals what producers pack. One per run; whoever makes it holds the run's lock."""

    def __init__(self, run: Path, settings: RecordSettings) -> None:
        self._run = run
        self._interval_ns = int(settings.seal_interval_s * 1e9)
        self._sources: dict[Path, Source] = {}
        self._unusable: set[Path] = set()
        self._merged_away: list[tuple[int, Part]] = []
        self._in_trouble = False
        _remove_leftovers(run)
        self._thinning = Thinning(run, rule_of(settings)) if settings.keep == "tail" else None
        self.own = RingProducer(run, SELF, [SELF, "samples"], _OWN_RING_MB)

    def writers(self) -> dict[str, int]:
        """producer -> process id, for each producer seen so far."""
        return {source.producer: source.ring.pid for source in self._sources.values()}

    def tick(self) -> None:
        """Seal what is due. A disk that refuses is told once and asked again later; nothing is lost meanwhile."""
        self._discover()
        now = time.monotonic_ns()
        due = [source for source in self._sources.values() if source.is_due(now, self._interval_ns)]
        if self._seal(due, now, RingReader.read_next):
            for source in due:
                self._merge_small(source, now)
                self._thin(source, now)
        self._forget_merged(now)

    def close(self, patience_s: float = 10.0) -> bool:
        """Seal everything, merge, delete the rings and mark the run as sealed.

        Waits for writers that still live. False when the run can't be closed now; it stays readable as it is.
        """
        deadline = time.monotonic() + patience_s
        while writing := self._still_writing():
            if time.monotonic() >= deadline:
                say(f"{', '.join(writing)} still written to: {self._run} stays open")
                return False
            self.tick()
            time.sleep(0.02)
        if not self._seal_rest(time.monotonic() + patience_s):
            say(f"{self._run} stays open with its rings; make room, then `python -m recorder {self._run}` closes it")
            return False
        self._merge_all(self._settle_rest())
        self._remove_rings()
        finish(self._run)
        return True

    def _discover(self) -> None:
        for path in sorted(rings_dir(self._run).glob("*.ring")):
            if path in self._sources or path in self._unusable:
                continue
            try:
                self._sources[path] = Source.open(self._run, path)
            except (RingError, OSError, KeyError, ValueError) as error:
                self._unusable.add(path)
                self._cannot_watch(path)
                say(f"{path} {error}: it is left as it is")

    def _seal(self, due: Sequence[Source], now: int, read: Callable[[RingReader, int], Tail]) -> bool:
        """All files are durable before the first gets its name, and all names before the first slot is freed."""
        staged: list[_Taken] = []
        try:
            for source in due:
                tail = read(source.ring, source.start)
                if tail.end > source.start:
                    staged.append(_Taken(source, tail, self._stage(source, tail)))
            for taken in staged:
                self._mark_gaps(taken.source, taken.tail)
            publish([taken.staged for taken in staged])
        except OSError as error:
            for taken in staged:
                taken.staged.temporary.unlink(missing_ok=True)
            self._trouble(error)
            return False
        for taken in staged:
            taken.source.advance(taken.staged.part, now)
            self._account(taken, now)
            self._watch(taken)
        self._trouble(None)
        return True

    def _stage(self, source: Source, tail: Tail) -> Staged:
        part = Part.of(folder_of(self._run, source.table), source.producer, source.start, tail.end)
        return stage_part(source.table, part, [numbered(source.table, tail.records)])

    def _trouble(self, error: OSError | None) -> None:
        if error and not self._in_trouble:
            say(
                f"can't write to {self._run}: {error.strerror or error}; recording goes on in the rings, will try again"
            )
        if self._in_trouble and not error:
            say(f"can write to {self._run} again")
        self._in_trouble = error is not None

    def _account(self, taken: _Taken, now: int) -> None:
        """The recorder's own rings get no row until the end, or they would never rest."""
        if taken.source.producer != SELF:
            self._health(taken.source, now)

    def _mark_gaps(self, source: Source, tail: Tail) -> None:
        """Before the part gets its name: killed between the two, a recorder leaves a gap told twice, never untold."""
        if source.producer == SELF:
            return
        for gap in gaps_in_ring(source.producer, source.table.name, source.ring, tail):
            if gap.seq < tail.end:
                self._gap(source, gap)
        for first, last in tail.holes:
            say(f"{source.ring.path}: records {first} to {last - 1} do not match their checksums and are left out")
            since, until = source.taken_at, time.monotonic_ns()
            self._gap(source, Gap(source.producer, source.table.name, last, last - first, since, until))

    def _gap(self, source: Source, gap: Gap) -> None:
        self._tell(source, events=gap.seq, lost=gap.lost, lost_from=gap.since, lost_until=gap.until)

    def _health(self, source: Source, durable: int) -> None:
        self._tell(source, events=source.start, lost=0, durable=durable)

    def _tell(self, source: Source, **columns: int | None) -> None:
        self.own.row(
            SELF,
            t=time.monotonic_ns(),
            producer=source.producer,
            table_name=source.table.name,
            drops=source.ring.drops,
            bytes=source.bytes_sealed,
            append_ns=source.ring.append_ns,
            **columns,
        )

    def _cannot_watch(self, ring: Path) -> None:
        if self._thinning and ring.match("*.requests.ring"):
            self._thinning.keep_all(f"{ring} can't be read, so who was slow can't be told")

    def _watch(self, taken: _Taken) -> None:
        table = taken.source.table
        if self._thinning and table.name in WATCHED:
            self._thinning.take(table.name, to_arrow(table, taken.tail.records))

    def _merge_small(self, source: Source, now: int) -> None:
        if self._thinning and source.table.name in LEDGER:
            small = small_tail(source.parts, _MANY_UNSETTLED)
        else:
            small = small_tail(source.parts)
        if small:
            self._merge(source, small, now)

    def _thin(self, source: Source, now: int) -> None:
        """Merge those of many small parts whose passes can be judged by now, without the rows that are left out."""
        small = small_tail(source.parts) if self._thinning and source.table.name in LEDGER else []
        if not self._thinning or not small:
            return
        try:
            self._thinning.settle(self._requests_seen_until())
        except OSError as error:
            self._trouble(error)
            return
        settled = self._thinning.settled(source.table, small)
        if len(settled) >= _MANY_SETTLED:
            self._merge(source, settled, now)

    def _requests_seen_until(self) -> int:
        """The instant before which all rows of requests were packed that are sealed by now."""
        now = time.monotonic_ns()
        rings = [source for source in self._sources.values() if source.table.name == "requests"]
        seen = (now if not source.ring.pending(source.start) else source.taken_at or 0 for source in rings)
        return min(seen, default=0)

    def _merge(self, source: Source, parts: Sequence[Part], now: int) -> None:
        try:
            merged = merge(source.table, parts, self._left_out)
        except OSError as error:
            self._trouble(error)
            return
        at = source.parts.index(parts[0])
        source.parts[at : at + len(parts)] = [merged]
        self._merged_away += [(now + _GRACE_NS, part) for part in parts]
        if self._thinning:
            self._thinning.forget(parts)

    @property
    def _left_out(self) -> LeftOut:
        return self._thinning.left_out if self._thinning else LeftOut()

    def _settle_rest(self) -> LeftOut:
        """Judge what has not been judged; where the disk refuses to hold the verdict, it is kept."""
        try:
            if self._thinning:
                self._thinning.settle_rest()
        except OSError as error:
            say(f"the last passes of {self._run} are all kept: {error.strerror or error}")
        return self._left_out

    def _forget_merged(self, now: int) -> None:
        for _, part in (one for one in self._merged_away if one[0] <= now):
            part.path.unlink(missing_ok=True)
        self._merged_away = [one for one in self._merged_away if one[0] > now]

    def _still_writing(self) -> list[str]:
        return [source.ring.path.name for source in self._others() if is_locked(source.ring.path)]

    def _others(self) -> Iterable[Source]:
        self._discover()
        return [source for source in self._sources.values() if source.producer != SELF]

    def _seal_rest(self, deadline: float) -> bool:
        """The last rows of all, then the recorder's own, which tell of the others."""
        now = time.monotonic_ns()
        if not self._seal_all(list(self._others()), deadline):
            return False
        for source in self._sources.values():
            self._mark_last_gap(source)
            self._health(source, now)
        self.own.close()
        return self._seal_all([source for source in self._sources.values() if source.producer == SELF], deadline)

    def _mark_last_gap(self, source: Source) -> None:
        """Drops after which nothing was packed any more."""
        ring = source.ring
        if ring.untold:
            self._gap(
                source,
                Gap(source.producer, source.table.name, source.start, ring.untold, ring.full_since, ring.full_until),
            )

    def _seal_all(self, sources: Sequence[Source], deadline: float) -> bool:
        while not self._seal(sources, time.monotonic_ns(), RingReader.read):
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.25)
        return True

    def _merge_all(self, left_out: LeftOut) -> None:
        try:
            for name in TABLES:
                merge_table(self._run, name, left_out)
        except OSError as error:
            say(f"the parts of {self._run} stay many: {error.strerror or error}")

    def _remove_rings(self) -> None:
        for path, source in self._sources.items():
            source.ring.close()
            path.unlink()
        for path in (*rings_dir(self._run).glob("*.tmp"), *self._run.glob("*.tmp")):
            path.unlink()  # of a process that was killed while it made a ring or a file of the run


def _remove_leftovers(run: Path) -> None:
    """Files of a recorder that was killed while it wrote them."""
    for name in TABLES:
        for path in (run / name).glob("*.tmp"):
            path.unlink()
