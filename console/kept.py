"""What is worked out once of a large run and kept beside it: settled requests, their time by phase, and every cause.

It is a DuckDB file, made in a process of its own (`console.keeping`) under a temporary name, and never written again.
It holds the fingerprint of what it was made from: parts by name and checksum, what of them is damaged, what was still
in rings, and the code that attributes. Where that is another one it is not trusted. Of a run that can't be written to
it lies in the user's cache; of a run that is recorded there is none.
"""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import duckdb

from recorder.errors import UserError
from recorder.parts import identity
from recorder.run import run_state
from recorder.schema import SCHEMA_VERSION, TABLES
from recorder.tables import RunTables

WORTH_KEEPING: Final = 2_000_000
"""Slices from which on attribution takes longer than somebody likes to wait for twice."""

NAME: Final = "kept.duckdb"
RESTS: Final = 10
"""What takes long of a run that is recorded is done anew after so many times the time that it takes."""

_FOLLOWED: Final = "followed-"
_MOST_IN_CACHE: Final = 5 * 10**9


class KeepError(UserError):
    """What is worth keeping could not be worked out."""


class Keeper:
    """Finds what is kept of a run, or has it made. Safe to share between threads."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._process: subprocess.Popen[str] | None = None
        self._stopped = threading.Event()
        self._failure: KeepError | None = None
        self._again_s = 0.0
        self.progress: float | None = None

    def find(self, tables: RunTables) -> Path | None:
        """The file, where there is one that can be trusted."""
        if not self.is_worth_it(tables):
            return None
        wanted = fingerprint(tables)
        return next((place for place in self._places(wanted) if _told(place) == wanted), None)

    def is_worth_it(self, tables: RunTables) -> bool:
        """Whether the run is large, and nobody adds to it."""
        return slices_of(tables) >= WORTH_KEEPING and run_state(self._run) != "recording"

    def keep(self, tables: RunTables) -> None:
        """Have the file made; takes as long as the run is large, and `progress` tells how far it is.

        Raises KeepError where that fails.
        """
        wanted = fingerprint(tables)
        for place in self._places(wanted):
            with suppress(OSError):
                place.parent.mkdir(parents=True, exist_ok=True)
                place.with_name(f"{place.name}.probe").touch()
                place.with_name(f"{place.name}.probe").unlink()
                return self._make(place, wanted)
        raise KeepError(f"neither {self._run} nor {cache_folder()} can be written to: XDG_CACHE_HOME says where else")

    @contextmanager
    def history(self) -> Iterator[Path]:
        """A file with all there is of a run that is recorded, worked out as `keep` does (`console.growing`). Nobody
        else has it: it goes at the end, though who has opened it may go on with it.

        Raises KeepError where that fails; the same again, at once, until `RESTS` times as long has gone by.
        """
        if self._failure is not None and time.monotonic() < self._again_s:
            raise self._failure
        began_s = time.monotonic()
        try:
            folder = _folder_of_followed()
        except OSError as error:
            raise KeepError(f"{cache_folder()} can't be written to: XDG_CACHE_HOME says where else") from error
        with folder as place:
            try:
                self._work("--history", str(self._run), place)
            except KeepError as error:
                self._failure, self._again_s = error, time.monotonic() + RESTS * (time.monotonic() - began_s)
                raise
            yield Path(place) / NAME

    def stop(self) -> None:
        """Nobody waits any more."""
        self._stopped.set()
        if self._process is not None:
            self._process.kill()

    def _make(self, place: Path, wanted: str) -> None:
        self._work(str(self._run), str(place), wanted)
        _evict(place)

    def _work(self, *args: str) -> None:
        command = [sys.executable, "-m", "console.keeping", *args]
        pipe = subprocess.PIPE  # the maker ends when its stdin does: it does not outlive the console
        self.progress = 0.0
        try:
            with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
                self._process = process
                if self._stopped.is_set():
                    process.kill()
                for line in process.stdout or ():
                    self.progress = float(line)
                said = process.stderr.read().strip() if process.stderr else ""
        finally:
            self.progress = self._process = None
        if process.returncode:
            raise KeepError(f"the causes of {self._run} can't be worked out: {said or 'the process was ended'}")

    def _places(self, wanted: str) -> tuple[Path, Path]:
        return self._run / NAME, cache_folder() / f"{wanted}.duckdb"


def fingerprint(tables: RunTables) -> str:
    """Equal for runs that have the same rows, whatever they are called and wherever they lie."""
    told = [duckdb.__version__, str(SCHEMA_VERSION), _code()]
    for name in TABLES:
        told += [f"{name}/{file.name} {identity(file)}" for file in tables.part_files(name)]
        told.append(f"{name} {tables.tail(name).num_rows}")
    told += sorted(f"{damage.file} {damage.what}" for damage in tables.damages)
    told += [repr(stretch) for stretch in tables.left_out.stretches]
    return sha256("\n".join(told).encode()).hexdigest()


def cache_folder() -> Path:
    """Where that of runs lies which can't be written to."""
    from platformdirs import user_cache_path

    return user_cache_path("tailtrace") / "kept"


@cache
def _code() -> str:
    """The code that says what is kept: another release may attribute otherwise."""
    here = [resources.files("recorder.attribution"), resources.files("console")]
    files = [file for file in here[0].iterdir() if file.name.endswith(".py")]
    files += [
        here[1] / name
        for name in (
            "keeping.py",
            "filling.py",
            "contrast/meeting.py",
            "summing.py",
            "ranks.py",
            "views.py",
            "measures.py",
        )
    ]
    return sha256(b"".join(file.read_bytes() for file in sorted(files, key=lambda file: file.name))).hexdigest()


def slices_of(tables: RunTables) -> int:
    """How many there are about: what the names of the parts say, and the rings."""
    ends = (file.stem.rsplit("-", 2)[1:] for file in tables.part_files("slices"))
    sealed = sum(int(last) - int(first) for first, last in ends)
    return sealed + int(tables.tail("slices").num_rows)


def _told(place: Path) -> str | None:
    """The fingerprint that a file holds; None where there is no such file, or none of ours."""
    if not place.exists():
        return None
    try:
        with duckdb.connect(str(place), read_only=True) as db:
            found = db.execute("SELECT fingerprint FROM made_from").fetchone()
    except duckdb.Error:
        return None
    return str(found[0]) if found else None


def _folder_of_followed() -> TemporaryDirectory[str]:
    """A new one. Raises OSError where there can be none."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    _sweep()
    return TemporaryDirectory(prefix=f"{_FOLLOWED}{os.getpid()}-", dir=cache_folder())


def _sweep() -> None:
    """Delete what consoles left that were killed while they followed a run."""
    for folder in cache_folder().glob(f"{_FOLLOWED}*"):
        pid = folder.name.removeprefix(_FOLLOWED).split("-")[0]
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            shutil.rmtree(folder, ignore_errors=True)
        except (ValueError, OSError):
            continue  # not ours to judge


def _evict(newest: Path) -> None:
    """Delete the oldest of the cache where they take too much room."""
    with suppress(OSError):
        found = sorted(cache_folder().glob("*.duckdb"), key=lambda file: file.stat().st_mtime_ns, reverse=True)
        sizes = [file.stat().st_size for file in found]
        for place, file in enumerate(found):
            if sum(sizes[: place + 1]) > _MOST_IN_CACHE and file != newest:
                file.unlink()
