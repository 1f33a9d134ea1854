"""`tailtrace serve`: the command line, the signals, and the life of one engine from loading to sealed."""

import argparse
import asyncio
import gc
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Final

from engine.api.app import Api, build_app
from engine.api.door import LAST_WORDS_S, Door, check_host, listen
from engine.config import load_config
from engine.model.source import DEFAULT_MODEL, LOAD_FORMATS, open_model
from engine.stalls import WatchedLoop
from engine.supervisor import Engine, EngineOptions, first_of
from recorder.errors import UserError

_NARRATE_S: Final = 2.0
_WATCH_S: Final = 1.0
_MOST_WORKERS: Final = 64


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--model", default=DEFAULT_MODEL, help="name, GGUF file or Hugging Face folder (%(default)s)")
    parser.add_argument("--load-format", choices=LOAD_FORMATS, default="auto", help="dummy: random weights of a preset")
    parser.add_argument("--config", type=Path, metavar="FILE.toml", help="see: tailtrace config --explain")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", type=int, default=8000, help="port to listen on, 0 for a free one (default: %(default)s)"
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where the model runs")
    parser.add_argument(
        "--runs", type=Path, default=Path("runs"), metavar="DIR", help="folder of runs (default: %(default)s)"
    )
    parser.add_argument(
        "--api-key",
        metavar="KEY",
        default=os.environ.get("TAILTRACE_API_KEY"),
        help="key that clients must send (default: $TAILTRACE_API_KEY)",
    )
    parser.add_argument(
        "--tail-host",
        default="127.0.0.1",
        metavar="HOST",
        help="address of the live tail; beyond this machine it takes the token of RUN/tail.json (default: %(default)s)",
    )
    parser.add_argument(
        "--tail-port", type=int, metavar="PORT", help="port of the live tail (default: any that is free)"
    )
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help="processes that serve the model (default: %(default)s)"
    )
    parser.add_argument("--allow-open", action="store_true", help="listen beyond this machine without a key")


def run(args: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM: 0; 1 when all workers died or the run could not be sealed. Raises UserError."""
    if not 1 <= args.workers <= _MOST_WORKERS:
        raise UserError(f"--workers {args.workers}: give a number from 1 to {_MOST_WORKERS}")
    config = load_config(args.config)
    check_host(args.host, args.api_key, allow_open=args.allow_open)
    with listen(args.host, args.port) as sock:
        source = open_model(args.model, args.load_format)
        options = EngineOptions(
            source,
            args.model,
            config,
            args.runs,
            args.load_format,
            args.device,
            args.tail_host,
            args.tail_port,
            workers=args.workers,
        )
        with asyncio.Runner(loop_factory=WatchedLoop) as runner:
            return runner.run(_serve(options, sock, args.api_key))


class StopSignals:
    """Counts SIGINT, SIGTERM and SIGHUP: the first asks to finish, the second to stop at once."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._press)

    def _press(self) -> None:
        (self.second if self.first.is_set() else self.first).set()


async def _serve(options: EngineOptions, sock: socket.socket, api_key: str | None) -> int:
    signals = StopSignals()
    engine = Engine(options)
    name = options.source.spec.name
    api = Api(engine.gateway, options.source.tokenizer, name, options.source.spec.vocab)
    door = Door(build_app(api, api_key, options.config.server.max_body_bytes), sock)
    await door.open()
    try:
        if not await _load(engine, signals):
            return 0
        _say(f"serving {name} at {door.url}   (Ctrl-C finishes what runs, then seals the run)")
        _say(f"recording to {engine.run}" if engine.run else "recording nothing: [record] enabled = false")
        await _until_stopped(engine, signals)
        await drain(engine, door, signals.second)
    finally:
        await door.close()
    return await _close(engine)


async def drain(engine: Engine, door: Door, now: asyncio.Event) -> None:
    """Take no new requests and let those that run finish; cut them off after `drain_timeout_s` or once `now` is set."""
    gateway, settled = engine.gateway, engine.ledger.settled
    gateway.closed_because = "the server is stopping"
    await door.refuse_new()
    await first_of(settled, now, timeout_s=engine.options.config.server.drain_timeout_s)
    if not settled.is_set():
        gateway.cut_off("the server stopped before this request was finished")
    await door.close()
    await first_of(settled, timeout_s=LAST_WORDS_S)


async def _load(engine: Engine, signals: StopSignals) -> bool:
    """Wait for the worker's model. False when a signal came first; an engine that does not start leaves no run."""
    loading = asyncio.ensure_future(engine.start())
    narrating = asyncio.ensure_future(_narrate(engine.options.model))
    stopping = asyncio.ensure_future(signals.first.wait())
    try:
        await asyncio.wait([loading, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not loading.done():
            _say("stopped before the model was loaded")
            return False
        ready = await loading
        each = f" in each of {len(engine.workers)} workers" if len(engine.workers) > 1 else ""
        _say(f"loaded in {ready.load_s:.1f} s on {ready.device}, {ready.dtype}, {ready.kv_blocks} KV blocks{each}")
    finally:
        for task in (narrating, stopping, loading):
            task.cancel()
        if engine.gateway.ready is None:
            await engine.discard()
    gc.collect()
    gc.freeze()  # what is alive now lives as long as the process: full collections need not walk it
    return True


async def _narrate(model: str) -> None:
    started = time.monotonic()
    _say(f"loading {model} ...")
    while True:
        await asyncio.sleep(_NARRATE_S)
        _say(f"still loading ({time.monotonic() - started:.0f} s)")


async def _until_stopped(engine: Engine, signals: StopSignals) -> None:
    """Serving never waits for the recorder, but a recorder that has died is replaced: rings hold only seconds.

    Of several workers, those that die are not replaced: the others go on.
    """
    told = 0
    while not (signals.first.is_set() or engine.lost.is_set()):
        await first_of(signals.first, engine.lost, timeout_s=_WATCH_S)
        while told < len(engine.gone) < len(engine.workers):
            _say(f"worker {engine.gone[told].number}: {await engine.gone[told].obituary()}; the others go on")
            told += 1
        if engine.recorder and engine.recorder.has_died():
            _say("the recorder process has died; starting another")
            engine.recorder.restart()


async def _close(engine: Engine) -> int:
    died = engine.lost.is_set()
    sealed = await engine.leave()
    if died:
        _say(f"tailtrace: {await engine.obituary()}")
    if engine.run:
        what = "the run is sealed" if sealed else "the run could not be sealed, but can be read"
        _say(f"{what}; look at it with: tailtrace open {engine.run}")
    return 1 if died or not sealed else 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201
