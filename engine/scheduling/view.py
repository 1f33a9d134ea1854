"""One worker as the front end knows it: what it was sent and has not answered, and what it foresees itself."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.core import Request
from engine.messages import Outlook, Starting, StepOutput
from engine.scheduling.admission import Room
from engine.scheduling.forecast import Predictor
from engine.scheduling.step_time import ToldTimes

_INERTIA = 7
"""Of eight parts of the way between both, those that the past has."""


@dataclass(slots=True)
class Sent:
    """A request in a worker's hands, `given` of whose output tokens have come back."""

    request: Request
    given: int = 0
    charged: int = 0
    """Tokens that its tenant paid for it."""


class WorkerView:
    """What is known of a worker. `predictor` tells what its steps take; without one, what it tells of that itself."""

    def __init__(self, room: Room, predictor: Predictor | None = None) -> None:
        self.waiting: dict[int, Sent] = {}
        """Who was sent and has not begun, in that order."""
        self.running: dict[int, Sent] = {}
        """Who has begun, also where it was preempted since."""
        self.outlook: Outlook | None = None
        self.since = 0
        """When the pass began that it is in now, as far as known; ns."""
        self.way_ns = 0
        """What its messages take to come here, of late."""
        self.room = room
        self._predictor = predictor

    @property
    def token_ns(self) -> float:
        """Time a computed token has taken of late; 0 where that is not known."""
        return self.outlook.token_ns if self.outlook else 0.0

    @property
    def begun_tokens(self) -> int:
        """Tokens that those who have begun compute before their next output token, beside plain decodes."""
        return self.outlook.begun_tokens if self.outlook else 0

    def predictor(self) -> Predictor | None:
        """What tells how long its steps take; None before anything does."""
        if self._predictor or not self.outlook or not self.outlook.times:
            return self._predictor
        return ToldTimes(self.outlook.times)

    def send(self, request: Request, charged: int) -> None:
        """It goes to the worker now."""
        self.waiting[request.rid] = Sent(request, charged=charged)

    def take(self, message: StepOutput | Starting, received: int) -> None:
        """What the worker tells; who has ended with it stays until `drop` is called."""
        self.outlook, self.since = message.outlook, message.t_sent
        way = max(received - message.t_sent, 0)
        self.way_ns = (_INERTIA * self.way_ns + way) // (_INERTIA + 1) if self.way_ns else way
        if isinstance(message, Starting):
            self._begin(message.rids)
            return
        self._begin([rid for rid, _ in message.tokens])
        for rid, _ in message.tokens:
            self.running[rid].given += 1

    def _begin(self, rids: Sequence[int]) -> None:
        for rid in rids:
            if sent := self.waiting.pop(rid, None):
                self.running[rid] = sent

    def drop(self, rid: int) -> Sent | None:
        """It is in the worker's hands no more; None if it never was."""
        return self.running.pop(rid, None) or self.waiting.pop(rid, None)
