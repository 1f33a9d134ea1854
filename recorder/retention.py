"""Which runs have to go, decided without looking at anything, and how one goes: whole, or not at all."""

import fcntl
import secrets
import shutil
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recorder.catalogue import Entry
from recorder.run import RunError, hold_lock, info_path, is_locked, lock_path, rings_dir, sync_folder

STARTING_NS: Final = 10 * 60 * 10**9
"""A run this young that nobody holds may be one whose recorder is about to start."""

_ASIDE: Final = ".pruned-"


@dataclass(frozen=True)
class Policy:
    """What may stay: runs that ended at most `keep_ns` ago, and `max_bytes` of runs altogether. None: no limit."""

    keep_ns: int | None = None
    max_bytes: int | None = None


@dataclass(frozen=True)
class Going:
    """A run that has to go, and why."""

    run: Entry
    reason: str


def decide(runs: Iterable[Entry], now_ns: int, policy: Policy) -> list[Going]:
    """The runs that go, oldest first. `now_ns` is wall-clock ns. A run that is or may be in use never goes.

    Age counts from the last instant that a run holds. What is in use counts towards the size.
    """
    known = list(runs)
    free = sorted((run for run in known if not may_be_in_use(run, now_ns)), key=lambda run: (run.ended_ns, run.name))
    old = [run for run in free if policy.keep_ns is not None and now_ns - run.ended_ns > policy.keep_ns]
    left = sum(run.size_bytes for run in known) - sum(run.size_bytes for run in old)
    going = [Going(run, "age") for run in old]
    for run in free[len(old) :]:
        if policy.max_bytes is None or left <= policy.max_bytes:
            break
        going.append(Going(run, "size"))
        left -= run.size_bytes
    return going


def may_be_in_use(run: Entry, now_ns: int) -> bool:
    """Whether somebody writes the run or may be about to."""
    return run.state == "recording" or (run.state != "sealed" and now_ns - run.created_ns < STARTING_NS)


def remove(run: Path) -> None:
    """Delete a run. Raises RunError where it is in use, OSError where the disk refuses.

    Its lock is held throughout, so no recorder starts in between. It first gets a name that no run has: killed in the
    middle, this leaves a remnant (`sweep`) and never half a run.
    """
    if run.is_symlink():
        raise RunError(f"{run} is a link to a run elsewhere: it stays")
    with ExitStack() as held:
        try:
            lock_path(run).touch()
            held.enter_context(hold_lock(lock_path(run), fcntl.LOCK_EX))
        except BlockingIOError as error:
            raise RunError(f"{run} is in use: it stays") from error
        if any(is_locked(ring) for ring in rings_dir(run).glob("*.ring")):
            raise RunError(f"{run} is in use: it stays")
        aside = run.with_name(f"{_ASIDE}{run.name}-{secrets.token_hex(2)}")
        run.rename(aside)
        sync_folder(aside.parent)
        _delete(aside)


def remnants(folder: Path) -> Sequence[Path]:
    """What is left of removals that were killed in the middle."""
    return sorted(folder.glob(f"{_ASIDE}*"))


def sweep(folder: Path) -> None:
    """Delete the remnants. Raises OSError."""
    for remnant in remnants(folder):
        if not is_locked(lock_path(remnant)):  # or else its removal is going on
            _delete(remnant)


def _delete(aside: Path) -> None:
    info_path(aside).unlink(missing_ok=True)
    shutil.rmtree(aside)
