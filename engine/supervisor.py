"""An engine as its front end sees it: the run, the workers and the recorder process, from the first to the last."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import msgspec

from engine.api.beginnings import Beginnings
from engine.api.fleet import Fleet
from engine.api.gateway import Gateway
from engine.api.ledger import TABLES, FrontLedger
from engine.config import Config, to_dict
from engine.link import FrontLink
from engine.messages import Drain, Failed, FromWorker, Ready
from engine.model.source import ModelSource
from engine.recording import open_producer
from engine.stalls import Stalls, WatchedLoop
from engine.worker import WorkerOptions
from recorder.errors import UserError
from recorder.run import RunInfo, create_run, load_info, new_run_id, save_info
from recorder.words import Source

_SOFTWARE: Final = ("tailtrace", "torch", "tokenizers", "aiohttp", "numpy", "pyarrow")
_LEAVE_S: Final = 10.0
_STDERR: Final = 2


class EngineError(UserError):
    """The engine can't start, or its workers have died; says why, in the worker's own words where it had any."""


@dataclass(frozen=True)
class EngineOptions:
    """What an engine is made of. `worker_command` starts a worker; its options are appended."""

    source: ModelSource
    model: str
    config: Config
    runs: Path
    load_format: str = "auto"
    device: str = "auto"
    tail_host: str = "127.0.0.1"
    tail_port: int | None = None
    worker_command: Sequence[str] = (sys.executable, "-m", "engine.worker")
    workers: int = 1


class RecorderProcess:
    """The process that seals a run and serves its live tail. It lives until this one lets go of it, or is gone."""

    def __init__(self, run: Path, tail_host: str, tail_port: int | None) -> None:
        self._command = [sys.executable, "-m", "recorder", str(run)]
        self._tail = [f"--tail-host={tail_host}", *([f"--tail-port={tail_port}"] if tail_port else [])]
        self._start()

    def _start(self) -> None:
        theirs, self._ours = os.pipe()
        self._process = subprocess.Popen(
            [*self._command, *self._tail, "--parent-fd", str(theirs)], pass_fds=[theirs], stdout=_STDERR
        )
        os.close(theirs)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def restart(self) -> None:
        """Start another in place of one that has died; it goes on where that one stopped."""
        os.close(self._ours)
        self._start()

    def has_died(self) -> bool:
        """It has ended though nobody let it go."""
        return self._process.poll() is not None

    def seal(self) -> bool:
        """Let it close the run, and wait. One that has died or failed is replaced once; False when that fails too."""
        os.close(self._ours)
        if self._process.wait() == 0:
            return True
        return subprocess.run(self._command, stdout=_STDERR, check=False).returncode == 0


class WorkerProcess:
    """One worker's process, and the front end's end of the link to it."""

    def __init__(self, command: Sequence[str], options: Callable[[int], WorkerOptions]) -> None:
        """`options` are what it is told, given the descriptor of its own end."""
        self._socket, theirs = socket.socketpair()
        with theirs:
            told = options(theirs.fileno())
            self.number = told.number
            self._process = subprocess.Popen([*command, *told.arguments()], pass_fds=[theirs.fileno()], stdout=_STDERR)
        self._link: FrontLink | None = None
        self._words = ""
        self.gone = asyncio.Event()
        """Its link is closed, whether it was let go or died."""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def attach(self, on_message: Callable[[FromWorker, int], None], on_gone: Callable[[], None]) -> FrontLink:
        """Listen to it, in the running event loop."""

        def take(message: FromWorker, now: int) -> None:
            if isinstance(message, Failed):
                self._words = message.error
            on_message(message, now)

        def lost() -> None:
            self.gone.set()
            on_gone()

        self._link = await FrontLink.attach(self._socket, take, lost)
        return self._link

    async def obituary(self) -> str:
        """Why it is gone."""
        code = await asyncio.to_thread(self._process.wait)
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return self._words or f"the worker was ended {how} and left no word"

    def kill(self) -> None:
        """At once."""
        self._process.kill()

    async def leave(self) -> None:
        """Let it finish, or end it if that takes too long; its link is closed then."""
        if self._link and not self.gone.is_set():
            self._link.send(Drain())
        await asyncio.to_thread(self._wait)
        if self._link and not self.gone.is_set():
            self._link.close()
            await self.gone.wait()

    def _wait(self) -> None:
        try:
            self._process.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Engine:
    """One run of one engine. `start` it inside an event loop (a `WatchedLoop`, so that the run tells where it was held
    up), end it with `leave` or `discard`."""

    def __init__(self, options: EngineOptions) -> None:
        config = options.config
        self.options = options
        self.run = create_run(options.runs, _describe(options)) if config.record.enabled else None
        self.recorder = RecorderProcess(self.run, options.tail_host, options.tail_port) if self.run else None
        self._producer = open_producer(self.run, "frontend", TABLES, config.record.ring_mb)
        self.ledger = FrontLedger(self._producer, beginnings=Beginnings(config.kv.block_size) if self.run else None)
        self._fleet = Fleet(config, options.workers)
        self.gateway = Gateway(self.ledger, options.source.tokenizer.detokenizer, config, self._fleet)
        self.workers = [
            WorkerProcess(options.worker_command, partial(self._worker_options, number))
            for number in range(options.workers)
        ]
        self._stalls = Stalls(self._producer, Source.FRONTEND)
        self._stalls.watch()
        self._ready = asyncio.Event()
        self._leaving = False
        self._readies: list[Ready] = []
        self.gone: list[WorkerProcess] = []
        """Workers that have gone, in that order."""
        self._looking: asyncio.Task[None] | None = None
        self.lost = asyncio.Event()
        """The last worker has gone, whether it was let go or died; while they load, any."""

    async def start(self) -> Ready:
        """Wait until every worker has its model. Raises EngineError when one fails to."""
        for worker in self.workers:
            on_gone = partial(self._on_gone, worker)
            self._fleet.connect(worker.number, await worker.attach(self._on_message, on_gone))
        await first_of(self._ready, self.lost)
        if self.gateway.ready is None:
            raise EngineError(await self.obituary())
        if self.run:
            _note_ready(self.run, self.gateway.ready, self._readies)
        self._watch_loop(self._stalls)
        if len(self.workers) > 1:
            self._looking = asyncio.create_task(self._look_for_silent())
        return self.gateway.ready

    async def obituary(self) -> str:
        """Why the worker that went last is gone."""
        return await self.gone[-1].obituary()

    async def leave(self) -> bool:
        """Let the workers and the recorder finish. False when the run could not be sealed."""
        self._leaving = True
        if self._looking:
            self._looking.cancel()
        await asyncio.gather(*(worker.leave() for worker in self.workers))
        self._watch_loop(None)
        self._stalls.stop()
        self._producer.close()
        return await asyncio.to_thread(self.recorder.seal) if self.recorder else True

    async def discard(self) -> None:
        """End an engine that never served, and remove its run."""
        for worker in self.workers:
            worker.kill()
        await self.leave()
        if self.run:
            shutil.rmtree(self.run)

    def _watch_loop(self, stalls: Stalls | None) -> None:
        """Only an event loop that can tell of its turns is watched; collections are noted on any."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, WatchedLoop):
            loop.watch(stalls)

    async def _look_for_silent(self) -> None:
        while True:
            await asyncio.sleep(self.options.config.router.heartbeat_ms / 1e3)
            self.gateway.take_out_silent(time.monotonic_ns())

    def _worker_options(self, number: int, descriptor: int) -> WorkerOptions:
        options = self.options
        return WorkerOptions(
            fd=descriptor,
            number=number,
            model=options.model,
            load_format=options.load_format,
            device=options.device,
            config=_share(options.config, options.workers),
            run=self.run,
            workers=options.workers,
        )

    def _on_message(self, message: FromWorker, now: int) -> None:
        if isinstance(message, Failed):
            return  # its words are kept until its link is closed, which they announce
        self.gateway.on_message(message, now)
        if isinstance(message, Ready):
            self._readies.append(message)
        if self.gateway.ready:
            self._ready.set()

    def _on_gone(self, worker: WorkerProcess) -> None:
        self.gone.append(worker)
        self.gateway.on_gone(worker.number, died=not self._leaving)
        if len(self.gone) == len(self.workers) or self.gateway.ready is None:
            self.lost.set()


async def first_of(*events: asyncio.Event, timeout_s: float | None = None) -> None:
    """Return when one of the events is set, or after `timeout_s`."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _describe(options: EngineOptions) -> RunInfo:
    return RunInfo(
        run_id=new_run_id(options.config.scheduler.policy),
        config=to_dict(options.config),
        model=options.source.info(),
        seed=options.config.engine.seed,
        software={name: version for name in _SOFTWARE if (version := _version(name))}
        | {"python": sys.version.split()[0]},
    )


def _version(name: str) -> str:
    """Empty for what is not installed as a distribution, as tailtrace itself in a bare checkout."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _share(config: Config, workers: int) -> Config:
    """What one of several workers is told: on CPU they have their cores apart, and one is left to everybody else.

    OpenMP's barriers make threads wait for each other: workers that share cores would each be as slow as the slowest.
    """
    if workers == 1 or config.engine.torch_threads:
        return config
    each = max(1, (len(os.sched_getaffinity(0)) - 1) // workers)
    return msgspec.structs.replace(config, engine=msgspec.structs.replace(config.engine, torch_threads=each))


def _note_ready(run: Path, ready: Ready, all_of_them: Sequence[Ready]) -> None:
    """What only the workers knew when the run was created; `ready` is of the one with the least room."""
    info = load_info(run)
    told: dict[str, Any] = {
        "device": ready.device,
        "dtype": ready.dtype,
        "kv_blocks": ready.kv_blocks,
        "kv_block_size": ready.block_size,
        "max_model_len": ready.max_model_len,
        "load_s": max(each.load_s for each in all_of_them),
    }
    info.model |= told
    info.devices = [
        {"worker": each.worker, "device": each.device} for each in sorted(all_of_them, key=lambda one: one.worker)
    ]
    save_info(run, info)
