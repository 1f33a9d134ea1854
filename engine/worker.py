"""A worker process: loads the model, tells that it is ready, and does nothing but serve until the front end is gone.

Started by the front end as `python -m engine.worker --fd N ...`, N being its end of the link.
"""

import argparse
import gc
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from engine.config import Config
from engine.core import Executor, Occupancy, Scheduler
from engine.ledger import WORKER_TABLES, Ledger, NoLedger, RunLedger
from engine.link import LinkClosedError, WorkerLink
from engine.loop import Loop, StepTime
from engine.messages import Failed, Heartbeat, Outlook, Ready, Starting
from engine.recording import open_producer
from engine.scheduling import StepTimeModel, make_scheduler
from engine.stalls import WorkerStalls
from recorder.errors import UserError
from recorder.producer import Producer
from recorder.words import StallKind

_DTYPES: Final = {"auto": "auto", "bfloat16": "bf16", "float32": "fp32"}


class MonotonicClock:
    """The real clock of the loop."""

    def now(self) -> int:
        """CLOCK_MONOTONIC, which all processes of a host share."""
        return time.monotonic_ns()

    def charge(self, ns: int) -> None:
        """Real work has taken its time already."""

    def wait_until(self, t: int) -> None:
        """Sleep until `t`."""
        time.sleep(max(0, t - self.now()) / 1e9)


@dataclass(frozen=True)
class WorkerOptions:
    """What the front end tells a worker on its command line."""

    fd: int
    number: int
    model: str
    load_format: str
    device: str
    config: Config
    run: Path | None
    workers: int = 1
    """How many there are, this one included."""

    @classmethod
    def parse(cls, arguments: Sequence[str] | None = None) -> "WorkerOptions":
        """Read the command line that `arguments` wrote."""
        parser = argparse.ArgumentParser(prog="python -m engine.worker", description=__doc__)
        parser.add_argument("--fd", type=int, required=True)
        parser.add_argument("--number", type=int, default=0)
        parser.add_argument("--model", required=True)
        parser.add_argument("--load-format", default="auto")
        parser.add_argument("--device", default="auto")
        parser.add_argument("--config", default=Config(), type=lambda text: msgspec.json.decode(text, type=Config))
        parser.add_argument("--run", type=Path)
        parser.add_argument("--workers", type=int, default=1)
        return cls(**vars(parser.parse_args(arguments)))

    def arguments(self) -> list[str]:
        """The command line that `parse` reads back."""
        line = [f"--fd={self.fd}", f"--number={self.number}", f"--model={self.model}"]
        line += [f"--load-format={self.load_format}", f"--device={self.device}"]
        line += [f"--config={msgspec.json.encode(self.config).decode()}", f"--workers={self.workers}"]
        return line + ([f"--run={self.run}"] if self.run else [])


class Beacon:
    """Tells the front end, over the link, what it has to know beside steps. See `engine.loop.Watcher`."""

    def __init__(self, link: WorkerLink, number: int, heartbeat_ns: int) -> None:
        self._link = link
        self._number = number
        self.heartbeat_ns = heartbeat_ns

    def starting(self, rids: Sequence[int], outlook: Outlook | None) -> None:
        """These run from the next step on."""
        self._link.send(Starting(self._number, time.monotonic_ns(), list(rids), outlook))

    def alive(self, occupancy: Occupancy) -> None:
        """The worker waits."""
        now = occupancy
        used = now.kv_total - now.kv_free
        self._link.send(Heartbeat(self._number, now.waiting, now.waiting_tokens, now.running, used))


@dataclass
class Parts:
    """What a worker's loop is made of, ready to run."""

    scheduler: Scheduler
    executor: Executor
    step_time: StepTime
    ledger: Ledger
    producer: Producer
    stalls: WorkerStalls | None
    ready: Ready
    heartbeat_ns: int = 0
    """0: it is the only worker, and nobody waits for its heartbeats."""
    watched: bool = False
    """The front end has to know when requests begin."""


def assemble(options: WorkerOptions) -> Parts:
    """Load the model, warm it up, and build all that the loop needs. Raises UserError."""
    started = time.monotonic()
    from engine.model.loader import load_model  # torch takes seconds to import: errors in the options come first

    config = options.config
    model = load_model(
        options.model,
        options.load_format,
        device=options.device,
        dtype=_DTYPES[config.engine.dtype],
        num_blocks=config.kv.num_blocks or None,
        memory_mb=config.kv.memory_mb or None,
        block_size=config.kv.block_size,
        threads=config.engine.torch_threads or None,
        seed=config.engine.seed,
        worker=options.number,
        workers=options.workers,
    )
    try:
        executor = model.executor()
    except (RuntimeError, MemoryError) as error:
        raise UserError(f"{model.num_blocks} KV blocks do not fit in memory; set [kv] memory_mb ({error})") from error
    begun = time.monotonic_ns()
    warmed = executor.warm_up()
    warm = time.monotonic_ns()
    longest = min(config.engine.max_model_len or model.max_model_len, model.max_model_len)
    producer = open_producer(options.run, f"worker{options.number}", [*WORKER_TABLES, "stalls"], config.record.ring_mb)
    stalls = WorkerStalls(producer, options.number, ([(span.tokens, span.before) for span in step] for step in warmed))
    step_time = StepTimeModel()
    stalls.note(StallKind.WARMUP, begun, warm, detail="loading")
    return Parts(
        scheduler=make_scheduler(config, model.num_blocks, longest, step_time),
        executor=executor,
        step_time=step_time,
        ledger=RunLedger(options.number, producer, stalls) if options.run else NoLedger(),
        producer=producer,
        stalls=stalls if options.run else None,
        ready=Ready(
            worker=options.number,
            device=str(model.info["device"]),
            dtype=str(model.info["dtype"]),
            kv_blocks=model.num_blocks,
            block_size=model.block_size,
            max_model_len=longest,
            load_s=round(time.monotonic() - started, 3),
            token_bytes=int(str(model.info["kv_bytes"])) // (model.num_blocks * model.block_size),
        ),
        heartbeat_ns=config.router.heartbeat_ns if options.workers > 1 else 0,
        watched=options.workers > 1 or config.scheduler.guards_queue,
    )


def serve(link: WorkerLink, parts: Parts) -> None:
    """Run the loop until it is drained. Raises LinkClosedError when the front end has gone."""
    number = parts.ready.worker
    loop = Loop(
        number,
        scheduler=parts.scheduler,
        executor=parts.executor,
        clock=MonotonicClock(),
        inbox=link,
        outbox=link,
        ledger=parts.ledger,
        step_time=parts.step_time,
        watcher=Beacon(link, number, parts.heartbeat_ns) if parts.watched else None,
    )
    gc.collect()
    gc.freeze()  # the model's objects live as long as the process: a full collection need not walk them
    if parts.stalls:
        parts.stalls.watch()
    link.send(parts.ready)
    try:
        loop.run()
    finally:
        if parts.stalls:
            parts.stalls.stop()
        parts.producer.close()
    link.close()


def main(options: WorkerOptions, assemble: Callable[[WorkerOptions], Parts]) -> int:
    """The process: 0 when the front end let it go or is gone, 1 when it failed and has said so."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # they go to the whole group; the front end decides when to leave
    link = WorkerLink(socket.socket(fileno=options.fd))
    try:
        serve(link, assemble(options))
    except LinkClosedError:
        return 0
    except UserError as error:
        _tell(link, str(error))
        return 1
    except Exception as error:
        _tell(link, f"{type(error).__name__}: {error}")
        raise
    return 0


def _tell(link: WorkerLink, words: str) -> None:
    try:
        link.send(Failed(words))
        link.close()
    except LinkClosedError:
        print(f"tailtrace worker: {words}", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main(WorkerOptions.parse(), assemble))
