"""Which runs a folder holds and what each is, read cheaply: `run.json`, few columns of two tables, ring headers."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from recorder.copies import borrowed
from recorder.errors import UserError
from recorder.ring import RingError, RingReader
from recorder.run import RunError, RunInfo, State, info_path, load_info, rings_dir, run_state, size_of
from recorder.schema import TABLES
from recorder.storage import NothingThereError, Remote, is_url
from recorder.tables import RunTables, without_superseded
from recorder.words import Status

_READ: Final = ("requests", "recorder")
_AT_ONCE: Final = 8
"""Runs elsewhere are looked at side by side: most of that time is waiting for answers."""


@dataclass(frozen=True)
class Entry:
    """One run of a catalogue.

    `where` is what a person types to open it. `created_ns` and `ended_ns` are wall-clock ns since 1970; `duration_ns`
    goes from the creation to the last instant recorded, on the run's own clock. `requests` counts attempts by status.
    `state` is `unsealed` for a run elsewhere that was not closed: locks do not travel, so whether it lives is unknown.
    """

    where: str
    name: str
    state: State | Literal["unsealed"]
    created_ns: int
    ended_ns: int
    duration_ns: int
    size_bytes: int
    requests: Mapping[str, int]
    drops: int
    damages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Skipped:
    """A folder that is shown as no run, and why. `foreign`: nothing in it says that it ever was one."""

    name: str
    why: str
    foreign: bool


@dataclass(frozen=True)
class Catalogue:
    """The runs of a folder, newest first, and the other folders in it."""

    where: str
    runs: tuple[Entry, ...]
    skipped: tuple[Skipped, ...]


def catalogue(where: str | Path) -> Catalogue:
    """The runs in a folder or at a URL. Raises UserError where there is no such place, or where it is a run itself."""
    if not is_url(str(where)):
        return _of_folder(Path(where), str(where))
    remote = Remote.open(str(where))
    return _of_folder(remote.own_folder, remote.url) if remote.own_folder else _of_remote(remote)


def _of_folder(folder: Path, where: str) -> Catalogue:
    if info_path(folder).exists():
        raise _is_a_run(where)
    try:
        folders = sorted(path for path in folder.iterdir() if path.is_dir() and _may_be_a_run(path.name))
    except OSError as error:
        raise UserError(f"{folder} can't be listed: {error.strerror}; give a folder of runs") from error
    return _gathered(where, [_looked_at(path.name, partial(describe, path)) for path in folders])


def _of_remote(remote: Remote) -> Catalogue:
    with suppress(NothingThereError):
        remote.read("run.json")
        raise _is_a_run(remote.url)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        children = {name: remote.child(name) for name in remote.folders() if _may_be_a_run(name)}
        return _gathered(
            remote.url,
            pool.map(lambda name: _looked_at(name, partial(_describe_remote, children[name])), children),
        )


def _may_be_a_run(name: str) -> bool:
    """No run has a name that begins with a dot; what a removal left behind (`recorder.retention`) has."""
    return not name.startswith(".")


def _is_a_run(where: str) -> UserError:
    return UserError(f"{where} is a run itself: give the folder it lies in, or ask tailtrace report {where}")


def _gathered(where: str, found: Iterable[Entry | Skipped]) -> Catalogue:
    known = list(found)
    runs = sorted((one for one in known if isinstance(one, Entry)), key=lambda run: (-run.created_ns, run.name))
    return Catalogue(where, tuple(runs), tuple(one for one in known if isinstance(one, Skipped)))


def _looked_at(name: str, describe_it: Callable[[], Entry]) -> Entry | Skipped:
    """One folder that can't be read must not hide the others."""
    try:
        return describe_it()
    except UserError as error:
        return Skipped(name, str(error), isinstance(error.__cause__, FileNotFoundError | NothingThereError))
    except OSError as error:
        return Skipped(name, f"{error.filename or name}: {error.strerror or error}", foreign=False)


def describe(run: Path) -> Entry:
    """One run of this machine. Raises RunError as `load_info`."""
    info = load_info(run)
    tables = RunTables(run, info, _READ)
    return _entry(str(run), run.name, tables, run_state(run), size_of(run))


def _describe_remote(remote: Remote) -> Entry:
    with borrowed(remote, _READ) as copy:
        tables = RunTables(copy, load_info(copy), _READ)
        state: Literal["sealed", "unsealed"] = "sealed" if tables.info.state == "sealed" else "unsealed"
        size = sum(size or 0 for size in remote.files().values())
        return _entry(remote.url, remote.url.rpartition("/")[2], tables, state, size)


def _entry(where: str, name: str, tables: RunTables, state: State | Literal["unsealed"], size: int) -> Entry:
    requests = tables.columns("requests", "rid", "attempt", "status", "arrival", "returned")
    account = tables.columns("recorder", "t", "producer", "table_name", "drops")
    in_rings, damages = _ring_headers(tables.path)
    created = _created_ns(tables.info, where)
    duration = _duration_ns(tables.info, [requests["arrival"], requests["returned"], account["t"]])
    return Entry(
        where=where,
        name=name,
        state=state,
        created_ns=created,
        ended_ns=created + (duration if tables.info.clock.kind == "monotonic" else 0),
        duration_ns=duration,
        size_bytes=size,
        requests=_by_status(requests),
        drops=_drops(account, in_rings),
        damages=(*(f"{damage.file}: {damage.what}" for damage in tables.damages), *damages),
    )


def _created_ns(info: RunInfo, where: str) -> int:
    try:
        created = datetime.fromisoformat(info.created)
    except ValueError as error:
        raise RunError(f"{where}/run.json is damaged: it was created {info.created!r}, which is no time") from error
    return round((created if created.tzinfo else created.replace(tzinfo=UTC)).timestamp() * 1e3) * 10**6


def _duration_ns(info: RunInfo, stamps: Iterable[pa.ChunkedArray]) -> int:
    seen = [value.as_py() for column in stamps for value in pc.min_max(column).values() if value.is_valid]
    return max(seen) - min(info.clock.mono_ns, *seen) if seen else 0


def _by_status(requests: pa.Table) -> dict[str, int]:
    counts = Counter(without_superseded(requests)["status"].cast(pa.string()).to_pylist())
    return {status.value: counts[status.value] for status in Status if counts[status.value]}


def _drops(account: pa.Table, in_rings: Mapping[tuple[str, str], int]) -> int:
    """What the recorder wrote down, or the ring's own count where that is newer."""
    highest = account.group_by(["producer", "table_name"]).aggregate([("drops", "max")]).to_pylist()
    told = {(row["producer"], row["table_name"]): row["drops_max"] or 0 for row in highest}
    return sum(max(told.get(ring, 0), in_rings.get(ring, 0)) for ring in told.keys() | in_rings.keys())


def _ring_headers(run: Path) -> tuple[dict[tuple[str, str], int], list[str]]:
    """(producer, table) -> records dropped, and the rings that do not tell."""
    drops, damages = {}, []
    for path in sorted(rings_dir(run).glob("*.ring")):
        producer, _, table = path.stem.partition(".")
        try:
            with RingReader(path, TABLES[table]) as ring:
                drops[producer, table] = ring.drops
        except KeyError:
            damages.append(f"rings/{path.name}: is no ring of a table")
        except FileNotFoundError:
            continue  # sealed since it was listed
        except (RingError, OSError) as error:
            damages.append(f"rings/{path.name}: {error}")
    return drops, damages
