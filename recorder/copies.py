"""Runs elsewhere as folders of this machine: copies in a cache of bounded size, from which every reader reads.

A copy is a run like any other, so nothing that reads runs knows of URLs. Sealed parts never change: a part that is
there with the right size is not fetched again. `run.json` and rings are, each time the run is opened.
"""

import fcntl
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from recorder.left_out import left_out_path
from recorder.parts import list_parts
from recorder.run import RunError, RunInfo, decode_info, hold_lock, info_path, lock_patiently, replace_file, size_of
from recorder.schema import TABLES
from recorder.storage import NothingThereError, Remote, StorageError, is_url

CACHE_BYTES: Final = 10 * 10**9
"""The least recently opened copies go when all of them together are larger; those in use stay."""

_FILE: Final = re.compile(
    r"(?P<table>[a-z]+)/[a-z0-9_]+-\d{20}-\d{20}\.parquet|rings/[a-z0-9_]+\.(?P<ring>[a-z]+)\.ring"
)
_IN_USE: Final = "in-use"
_TRIES: Final = 5
_WORTH_SAYING: Final = 20 * 10**6
_open_copies: Final = ExitStack()
"""Copies that a person asked for stay until the process ends."""

Files = Mapping[str, int | None]


def local(where: str | Path) -> Path:
    """The folder of a run that a person named by a path or a URL; a URL is copied first.

    The copy is as the run was just now, and stays so: a run that grows elsewhere is seen anew by opening it anew.

    Raises StorageError for a place that can't be read, RunError where there is no run or one of a newer schema.
    """
    if not is_url(str(where)):
        return Path(where)
    remote = Remote.open(str(where))
    return remote.own_folder or _open_copies.enter_context(borrowed(remote))


@contextmanager
def borrowed(remote: Remote, tables: Iterable[str] = TABLES) -> Iterator[Path]:
    """An up-to-date copy of a run with at least these tables, which nobody deletes until the block ends."""
    raw, info = read_info(remote)
    with ExitStack() as held:
        try:
            _cache().mkdir(mode=0o700, parents=True, exist_ok=True)
            folder = held.enter_context(_reserved(_cache() / _identity(remote, info)))
            _bring_up_to_date(remote, folder, frozenset(tables))
            _copy_left_out(remote, folder)
            replace_file(info_path(folder), raw)
            _evict(_cache())
        except OSError as error:
            what = f"{error.strerror or error}; XDG_CACHE_HOME says where else"
            raise StorageError(f"{remote.url} can't be copied to {_cache()}: {what}") from error
        yield folder


def read_info(remote: Remote) -> tuple[bytes, RunInfo]:
    """`run.json` as it is and as what it says. Raises RunError where there is none or it can't be used."""
    try:
        raw = remote.read("run.json")
    except NothingThereError as error:
        raise RunError(f"{remote.url} is no run: {error}") from error
    return raw, decode_info(raw, remote.url)


def _cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("tailtrace") / "runs"


def _identity(remote: Remote, info: RunInfo) -> str:
    """Another run at the same URL is another copy: its parts may have the names and sizes of the old ones."""
    return sha256("\n".join((remote.url, info.run_id, info.created)).encode()).hexdigest()[:32]


@contextmanager
def _reserved(folder: Path) -> Iterator[Path]:
    """Make the folder of a copy if need be, and keep it from being evicted."""
    with hold_lock(folder.parent, fcntl.LOCK_SH, patience_s=60):
        folder.mkdir(mode=0o700, exist_ok=True)
        marker = os.open(folder / _IN_USE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        lock_patiently(marker, fcntl.LOCK_SH)
        os.utime(marker)
    try:
        yield folder
    finally:
        os.close(marker)


def _bring_up_to_date(remote: Remote, folder: Path, tables: frozenset[str]) -> None:
    """Rings first and parts after them, by a newer listing: what is sealed in between is in a part, not nowhere."""
    for _ in range(_TRIES):
        with suppress(NothingThereError):  # merged or sealed since it was listed
            files = _wanted(remote, tables)
            rings = {name: size for name, size in files.items() if name.startswith("rings/")}
            if rings:
                _fetch(remote, folder, rings)
                files = _wanted(remote, tables)
            parts = {name: size for name, size in files.items() if not name.startswith("rings/")}
            _fetch(remote, folder, {name: size for name, size in parts.items() if not _is_there(folder / name, size)})
            return _remove_others(folder, tables, rings.keys() | parts.keys())
    raise StorageError(f"{remote.url} changes faster than it can be copied: try again")


def _copy_left_out(remote: Remote, folder: Path) -> None:
    """After the parts: what is missing from them was named before it was left out."""
    path = left_out_path(folder)
    try:
        replace_file(path, remote.read(path.name))
    except NothingThereError:
        path.unlink(missing_ok=True)


def _wanted(remote: Remote, tables: frozenset[str]) -> Files:
    """Only names that a run can have: nothing a server lists is written anywhere else."""
    found = ((_FILE.fullmatch(name), size) for name, size in remote.files().items())
    return {match.string: size for match, size in found if match and (match["table"] or match["ring"]) in tables}


def _is_there(path: Path, size: int | None) -> bool:
    return path.exists() and size in {None, path.stat().st_size}


def _fetch(remote: Remote, folder: Path, files: Files) -> None:
    """Files appear under their names once they are whole."""
    if not files:
        return
    _say_what_takes_time(remote, files)
    with tempfile.TemporaryDirectory(prefix="arriving-", dir=folder) as scratch:
        arriving = {name: Path(scratch, str(number)) for number, name in enumerate(files)}
        remote.fetch(list(arriving), list(arriving.values()))
        for name, path in arriving.items():
            if not _is_there(path, files[name]):
                raise StorageError(f"{remote.url}/{name} arrived cut short: try again")
            (folder / name).parent.mkdir(exist_ok=True)
            path.replace(folder / name)


def _say_what_takes_time(remote: Remote, files: Files) -> None:
    size = sum(size or 0 for size in files.values())
    if size >= _WORTH_SAYING:
        sys.stderr.write(f"tailtrace: copying {size / 1e6:,.0f} MB from {remote.url}\n")


def _remove_others(folder: Path, tables: frozenset[str], names: Iterable[str]) -> None:
    """What is no longer there: parts that were merged, rings that were sealed."""
    parts = [part.path for table in tables for part in list_parts(folder / table)]
    rings = [ring for table in tables for ring in (folder / "rings").glob(f"*.{table}.ring")]
    for path in {*parts, *rings} - {folder / name for name in names}:
        path.unlink(missing_ok=True)


def _evict(cache: Path) -> None:
    """Delete the least recently opened copies that nobody has open, until the rest fits."""
    with suppress(BlockingIOError), hold_lock(cache, fcntl.LOCK_EX):
        copies = sorted(cache.glob(f"*/{_IN_USE}"), key=lambda marker: marker.stat().st_mtime_ns)
        sizes = {marker: size_of(marker.parent) for marker in copies}
        for marker in copies:
            if sum(sizes.values()) <= CACHE_BYTES:
                return
            with suppress(BlockingIOError), hold_lock(marker, fcntl.LOCK_EX, patience_s=0):
                shutil.rmtree(marker.parent)
                del sizes[marker]
