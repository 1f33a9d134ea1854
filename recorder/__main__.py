"""The recorder process: `python -m recorder RUN --parent-fd N`."""

import argparse
import fcntl
import itertools
import os
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from recorder.drain import Drain, RecordSettings
from recorder.errors import UserError
from recorder.narration import say
from recorder.run import RunError, hold_lock, load_writable, lock_path
from recorder.sampler import Sampler

if TYPE_CHECKING:
    from recorder.tail.server import TailServer

_TICK_MS: Final = 250


def main(arguments: Sequence[str] | None = None) -> int:
    """Record until the parent is gone or SIGTERM comes, then close the run. Exit codes: 0 sealed, 1 not, 2 no run."""
    parser = argparse.ArgumentParser(prog="python -m recorder", description="Drain the rings of a run into its parts.")
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument(
        "--parent-fd", type=int, metavar="N", help="record until this inherited descriptor ends; without it, close now"
    )
    parser.add_argument("--tail-host", metavar="HOST", help="serve the live tail at this address")
    parser.add_argument("--tail-port", type=int, metavar="PORT", help="and at this port (default: any that is free)")
    options = parser.parse_args(arguments)
    try:
        return _record(options.run, options.parent_fd, options.tail_host, options.tail_port)
    except UserError as error:
        say(str(error))
        return 2


def _record(run: Path, parent: int | None, tail_host: str | None, tail_port: int | None) -> int:
    load_writable(run)
    _be_modest()
    stop = _stop_on_sigterm()
    with _sole_writer(run):
        info = load_writable(run)  # again: who held the lock until now may have closed the run, or removed it
        settings = msgspec.convert(info.config.get("record", {}), RecordSettings)
        drain = Drain(run, settings)
        tail = _serve_tail(run, tail_host, tail_port) if tail_host else None
        if parent is not None:
            _until_stopped(drain, settings, [parent, stop])
        sealed = drain.close()
        if tail:
            tail.stop("sealed" if sealed else "recording")
        return 0 if sealed else 1


def _serve_tail(run: Path, host: str, port: int | None) -> "TailServer | None":
    from recorder.tail.server import serve_tail  # a recorder that serves nobody starts without it

    return serve_tail(run, host, port)


def _be_modest() -> None:
    """One thread: the cores belong to the engine. Not nicer than it, or a busy machine would cost records."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)


def _stop_on_sigterm() -> int:
    """A descriptor that ends on SIGTERM. SIGINT and SIGHUP go to the whole group: there the parent decides."""
    reader, writer = os.pipe2(os.O_CLOEXEC)

    calls = itertools.count()

    def stop(*_: object) -> None:
        if next(calls) == 0:  # a second signal may come in the middle of the first one's handler
            os.close(writer)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return reader


@contextmanager
def _sole_writer(run: Path) -> Iterator[None]:
    with ExitStack() as held:
        try:
            lock_path(run).touch()
            held.enter_context(hold_lock(lock_path(run), fcntl.LOCK_EX))
        except BlockingIOError as error:
            raise RunError(f"{run} is being written by another process: wait for it or stop it") from error
        except FileNotFoundError as error:
            raise RunError(f"{run} has just been removed") from error
        yield


def _until_stopped(drain: Drain, settings: RecordSettings, descriptors: Sequence[int]) -> None:
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    sampler = Sampler(drain.own, settings.sample_interval_s)
    while not any(_has_ended(descriptor) for descriptor, _ in poll.poll(_TICK_MS)):
        drain.tick()
        sampler.tick(drain.writers())
    sampler.close()


def _has_ended(descriptor: int) -> bool:
    try:
        return not os.read(descriptor, 4096)
    except ConnectionError:
        return True


if __name__ == "__main__":
    sys.exit(main())
