"""An engine as its front end sees it: the run, the worker and the recorder process, from the first to the last."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from engine.api.gateway import Gateway
from engine.api.ledger import TABLES, FrontLedger
from engine.config import Config, to_dict
from engine.link import FrontLink
from engine.messages import Drain, FromWorker, Ready
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
    """The engine can't start, or its worker has died; says why, in the worker's own words where it had any."""


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


class Engine:
    """One run of one engine. `start` it inside an event loop (a `WatchedLoop`, so that the run tells where it was held
    up), end it with `leave` or `discard`."""

    def __init__(self, options: EngineOptions) -> None:
        config = options.config
        self.options = options
        self.run = create_run(options.runs, _describe(options)) if config.record.enabled else None
        self.recorder = RecorderProcess(self.run, options.tail_host, options.tail_port) if self.run else None
        self._producer = open_producer(self.run, "frontend", TABLES, config.record.ring_mb)
        self.ledger = FrontLedger(self._producer)
        self.gateway = Gateway(self.ledger, options.source.tokenizer.detokenizer, config.scheduler)
        ours, theirs = socket.socketpair()
        with theirs:
            self.worker = subprocess.Popen(
                [*options.worker_command, *self._worker_options(theirs.fileno()).arguments()],
                pass_fds=[theirs.fileno()],
                stdout=_STDERR,
            )
        self._socket = ours
        self._link: FrontLink | None = None
        self._stalls = Stalls(self._producer, Source.FRONTEND)
        self._stalls.watch()
        self._ready = asyncio.Event()
        self._leaving = False
        self.lost = asyncio.Event()
        """The worker has gone, whether it was let go or died."""

    async def start(self) -> Ready:
        """Wait until the worker has its model. Raises EngineError when it fails to."""
        self._link = await FrontLink.attach(self._socket, self._on_message, self._on_lost)
        self.gateway.connect(self._link)
        await first_of(self._ready, self.lost)
        if self.gateway.ready is None:
            raise EngineError(await self.obituary())
        if self.run:
            _note_ready(self.run, self.gateway.ready)
        self._watch_loop(self._stalls)
        return self.gateway.ready

    async def obituary(self) -> str:
        """Why the worker is gone."""
        code = await asyncio.to_thread(self.worker.wait)
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return self.gateway.failure or f"the worker was ended {how} and left no word"

    async def leave(self) -> bool:
        """Let the worker and the recorder finish. False when the run could not be sealed."""
        self._leaving = True
        if self._link and not self.lost.is_set():
            self._link.send(Drain())
        await asyncio.to_thread(self._await_worker)
        if self._link and not self.lost.is_set():
            self._link.close()
            await self.lost.wait()
        self._watch_loop(None)
        self._stalls.stop()
        self._producer.close()
        return await asyncio.to_thread(self.recorder.seal) if self.recorder else True

    async def discard(self) -> None:
        """End an engine that never served, and remove its run."""
        self.worker.kill()
        await self.leave()
        if self.run:
            shutil.rmtree(self.run)

    def _await_worker(self) -> None:
        try:
            self.worker.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            self.worker.kill()
            self.worker.wait()

    def _watch_loop(self, stalls: Stalls | None) -> None:
        """Only an event loop that can tell of its turns is watched; collections are noted on any."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, WatchedLoop):
            loop.watch(stalls)

    def _worker_options(self, descriptor: int) -> WorkerOptions:
        options = self.options
        return WorkerOptions(
            fd=descriptor,
            number=0,
            model=options.model,
            load_format=options.load_format,
            device=options.device,
            config=options.config,
            run=self.run,
        )

    def _on_message(self, message: FromWorker, now: int) -> None:
        self.gateway.on_message(message, now)
        if isinstance(message, Ready):
            self._ready.set()

    def _on_lost(self) -> None:
        self.gateway.on_lost(died=not self._leaving)
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


def _note_ready(run: Path, ready: Ready) -> None:
    """What only the worker knew when the run was created."""
    info = load_info(run)
    told: dict[str, Any] = {
        "device": ready.device,
        "dtype": ready.dtype,
        "kv_blocks": ready.kv_blocks,
        "kv_block_size": ready.block_size,
        "max_model_len": ready.max_model_len,
        "load_s": ready.load_s,
    }
    info.model |= told
    info.devices = [{"worker": ready.worker, "device": ready.device}]
    save_info(run, info)
