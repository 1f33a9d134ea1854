"""The workers as the front end has them: the way to each, what it last told of itself, and the router over them all."""

from dataclasses import dataclass, field
from typing import Protocol

from engine.api.ledger import State
from engine.config import Config
from engine.messages import Heartbeat, Ready, StepOutput, ToWorker
from engine.scheduling.admission import Room
from engine.scheduling.router import Lease, Router


class Link(Protocol):
    """The way to a worker."""

    def send(self, message: ToWorker) -> None:
        """Hand over one message without waiting."""
        ...


@dataclass(slots=True)
class _Worker:
    """One of them. Without a link it is not there yet, or gone."""

    link: Link | None = None
    ready: Ready | None = None
    state: State = field(default_factory=State)


class Fleet:
    """Numbers workers from 0. Its router begins once every worker has its model."""

    def __init__(self, config: Config, size: int) -> None:
        self.config = config.router
        self.size = size
        self._whole = config
        self._workers = [_Worker() for _ in range(size)]
        self.router = Router(config, ())
        self.ready: Ready | None = None
        """What the worker with the least room has told of itself; None until all are ready."""

    def connect(self, number: int, link: Link) -> None:
        """Use this way to a worker."""
        self._workers[number].link = link

    def state(self, number: int) -> State:
        """The load of a worker as it last told."""
        return self._workers[number].state

    def take_ready(self, message: Ready, now: int) -> bool:
        """A worker has its model. True if that makes the fleet complete."""
        self._workers[message.worker].ready = message
        told = [worker.ready for worker in self._workers if worker.ready]
        if len(told) < self.size:
            return False
        self.ready = min(told, key=lambda ready: min(ready.max_model_len, ready.kv_blocks * ready.block_size))
        self.router = Router(self._whole, [ready.kv_blocks for ready in told], now)
        return True

    def heard(self, number: int, now: int) -> bool:
        """A worker has told something. True if it had been taken out, not being gone: it is in again."""
        there = self.ready is not None and self._workers[number].link is not None
        return there and self.router.heard(number, now)

    def room(self, number: int) -> Room:
        """What a worker has room for. ValueError before it has told of itself."""
        ready = self._workers[number].ready
        if ready is None:
            raise ValueError(f"worker {number} has no model yet")
        return Room(ready.kv_blocks, ready.block_size, ready.max_model_len, ready.token_bytes)

    def take_report(self, message: StepOutput | Heartbeat) -> None:
        """What a worker has told of its load."""
        self._workers[message.worker].state.take(message)

    def send(self, number: int, message: ToWorker) -> None:
        """Hand a message to a worker; for one that is gone it goes nowhere."""
        link = self._workers[number].link
        if link:
            link.send(message)

    def lose(self, number: int, *, gone: bool) -> list[Lease]:
        """Take a worker out, for ever where it is `gone`. What it held is handed back, oldest first."""
        if gone:
            self._workers[number].link = None
        return self.router.lost(number) if self.ready else []
