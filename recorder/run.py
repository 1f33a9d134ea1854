"""The folder of a run: where things lie in it, its `run.json`, and who is writing it."""

import fcntl
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from recorder.errors import UserError
from recorder.schema import SCHEMA_VERSION

State = Literal["recording", "sealed", "killed"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}")


class RunError(UserError):
    """A folder is no run, a run of a newer schema, or a run that cannot be written."""


class ClockAnchor(msgspec.Struct, frozen=True, kw_only=True):
    """One instant on both clocks; every other time of the run is ns on the first one."""

    kind: Literal["monotonic", "virtual"] = "monotonic"
    mono_ns: int = 0
    wall_ns: int = 0

    @classmethod
    def now(cls) -> "ClockAnchor":
        """The anchor of a run that is recorded from real time."""
        return cls(mono_ns=time.monotonic_ns(), wall_ns=time.time_ns())


class RunInfo(msgspec.Struct, kw_only=True):
    """What `run.json` holds. `state` is what was last written; `run_state` also asks whether a writer lives."""

    run_id: str
    schema_version: int = SCHEMA_VERSION
    state: Literal["recording", "sealed"] = "recording"
    created: str = msgspec.field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    clock: ClockAnchor = msgspec.field(default_factory=ClockAnchor.now)
    config: dict[str, Any] = {}
    model: dict[str, Any] = {}
    devices: list[dict[str, Any]] = []
    seed: int | None = None
    parent: str | None = None
    software: dict[str, str] = {}
    workload: dict[str, Any] = {}
    recorded_tables: list[str] = []
    """The tables that were recorded; empty: all of them. Checks do not ask for what was never written."""
    whatif: dict[str, Any] = {}
    """Of a run that answers a what-if about `parent`: the changes, the cost model, the error of the re-run."""


class _Version(msgspec.Struct):
    schema_version: int


def new_run_id(label: str = "run") -> str:
    """A name that sorts by time and does not collide: `<label>-<UTC time>-<4 hex digits>`."""
    return f"{label}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def create_run(runs_dir: Path, info: RunInfo) -> Path:
    """Make the folder of a new run, named `info.run_id`, and return it. Raises RunError where it can't be made."""
    if not _NAME.fullmatch(info.run_id):
        raise RunError(f"{info.run_id!r} can't name a run: use letters, digits and the characters . _ + -")
    run = runs_dir / info.run_id
    if run.exists():
        raise RunError(f"{run} exists already: choose another name or folder for the new run")
    try:
        runs_dir.mkdir(parents=True, exist_ok=True)
        run.mkdir()
        rings_dir(run).mkdir()
        lock_path(run).touch()
        save_info(run, info)
    except OSError as error:
        raise RunError(f"{run} can't be created: {error.strerror or error}") from error
    return run


def load_info(run: Path) -> RunInfo:
    """Read `run.json`. Raises RunError for a folder that is no run, a newer schema, or an unreadable `run.json`."""
    return decode_info(_read_json(run), str(run))


def decode_info(raw: bytes, where: str) -> RunInfo:
    """What the bytes of a `run.json` say; `where` names the run in errors. Raises RunError as `load_info`."""
    try:
        version = msgspec.json.decode(raw, type=_Version).schema_version
        if version > SCHEMA_VERSION:
            raise RunError(
                f"{where} was written by schema {version}, "
                f"this tailtrace reads up to {SCHEMA_VERSION}: upgrade tailtrace"
            )
        return msgspec.json.decode(raw, type=RunInfo)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RunError(
            f"{where}/run.json is damaged ({error}): restore it, the rest of the run is untouched"
        ) from error


def load_writable(run: Path) -> RunInfo:
    """Read `run.json` of a run that is added to. Raises RunError also where it is sealed or of an older schema."""
    info = load_info(run)
    if info.state == "sealed":
        raise RunError(f"{run} is sealed already: nothing is left to do, nothing can be added")
    if info.schema_version < SCHEMA_VERSION:
        raise RunError(
            f"{run} was written by schema {info.schema_version}: it can be read as it is, "
            f"but schema {SCHEMA_VERSION} can't be mixed into it"
        )
    return info


def _read_json(run: Path) -> bytes:
    try:
        return info_path(run).read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        what = "it has no run.json" if run.is_dir() else "there is no such folder"
        raise RunError(f"{run} is no run: {what}; give a folder written by `tailtrace serve`") from error
    except OSError as error:
        raise RunError(f"{info_path(run)} can't be read: {error.strerror or error}") from error


def save_info(run: Path, info: RunInfo) -> None:
    """Write `run.json` so that a reader sees the old one or the new one, also after a power cut."""
    replace_file(info_path(run), msgspec.json.format(msgspec.json.encode(info), indent=2))


def finish(run: Path) -> None:
    """Mark the run as closed in order. For whoever created a run that no recorder process drains."""
    info = load_info(run)
    info.state = "sealed"
    save_info(run, info)


def run_state(run: Path) -> State:
    """`sealed`; `recording` while a writer holds the lock; `killed` when its writers died before they closed it."""
    if load_info(run).state == "sealed":
        return "sealed"
    return "recording" if is_locked(lock_path(run)) else "killed"


def is_locked(path: Path) -> bool:
    """Whether a living process holds the lock. Patient: another reader that asks holds it for an instant too."""
    try:
        with hold_lock(path, fcntl.LOCK_EX, patience_s=0.01):
            return False
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True


@contextmanager
def hold_lock(path: Path, kind: int, patience_s: float = 1.0) -> Iterator[None]:
    """Hold `flock` on an existing file. Raises BlockingIOError where another process keeps it for `patience_s`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        lock_patiently(descriptor, kind, patience_s)
        yield
    finally:
        os.close(descriptor)


def lock_patiently(descriptor: int, kind: int, patience_s: float = 1.0) -> None:
    """`flock` an open file. Raises BlockingIOError where another process keeps it for `patience_s`."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(0.002)


def info_path(run: Path) -> Path:
    """Where `run.json` lies."""
    return run / "run.json"


def lock_path(run: Path) -> Path:
    """Where the lock of the run's writer lies."""
    return run / "lock"


def rings_dir(run: Path) -> Path:
    """Where the rings lie."""
    return run / "rings"


def ring_path(run: Path, producer: str, table: str) -> Path:
    """Where the ring of one producer and one table lies."""
    return rings_dir(run) / f"{producer}.{table}.ring"


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder, links not followed; those that vanish meanwhile do not count."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += (Path(path) / name).lstat().st_size
    return total


def replace_file(path: Path, content: bytes) -> None:
    """Put `content` at `path` in one step: temporary name, fsync, rename, fsync of the folder."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
