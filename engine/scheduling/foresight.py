"""When those that wait at a worker will start, and one more would be finished: an estimate from the front end's view.

All answers are taken to be as long as they may be, nobody to overtake, and memory to suffice.
"""

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice

from engine.config import SchedulerConfig
from engine.core import Request
from engine.scheduling.forecast import Forecast
from engine.scheduling.view import Sent, WorkerView

Place = tuple[int, int]
"""What has to pass before somebody can start: so many passes, and how many of them at least compute prompts."""


class Foresight:
    """Asked at `now` about one worker. Instants in ns; None where what they rest on is not known."""

    def __init__(self, config: SchedulerConfig, view: WorkerView, now: int) -> None:
        self._config = config
        self._view = view
        self._now = now
        predictor, step = view.predictor(), config.max_num_batched_tokens
        self._forecast = Forecast(predictor, step, view.outlook.host_ns if view.outlook else 0) if predictor else None
        self._slots = {"continuous": config.max_num_seqs, "immediate": 1}.get(config.policy, config.batch_size)
        self._per_pass = min(step, config.long_prefill_token_threshold or step)
        """Most tokens of one prompt that a pass computes."""

    def alone(self, request: Request) -> int | None:
        """When it would be finished, if nobody else were here."""
        takes = self._forecast.alone_ns(request) if self._forecast else None
        return None if takes is None else self._now + takes + 2 * self._view.way_ns

    def finish(self, request: Request) -> int | None:
        """When it would have its last token here, behind all that are here."""
        waiting = list(self._view.waiting.values())
        place, tokens = self._place(len(waiting)), self._tokens(waiting)
        ends = self._after(self._served(place, request), tokens + request.prompt_tokens, request.prompt_tokens)
        if ends is None:
            return None
        held = 0
        if self._config.policy == "static":  # a dynamic batch leaves for the deadlines of those in it
            starts = self._after(place, tokens, request.prompt_tokens, beside_them=True)
            held = self._held_until([*self._batch(len(waiting)), request]) - (ends if starts is None else starts)
        return ends + max(held, 0) + 2 * self._view.way_ns

    def start(self, place: int) -> int | None:
        """When the one that waits in that place, from 0, will have started if nobody else comes."""
        waiting = list(self._view.waiting.values())
        tokens, context = self._tokens(waiting[:place]), waiting[place].request.prompt_tokens
        starts = self._after(self._place(place), tokens, context, beside_them=True)
        return None if starts is None else max(starts, self._held_until(self._batch(place)))

    def _batch(self, place: int) -> list[Request]:
        """Those that wait and leave together with the one in that place."""
        first = place // self._slots * self._slots
        return [sent.request for sent in islice(self._view.waiting.values(), first, first + self._slots)]

    def computed(self, tokens: int) -> int | None:
        """When so many of the prompt tokens that wait, or belong to who has begun, will be computed."""
        place, done, context = (0, 0), self._view.begun_tokens, 0
        for sent, (passes, prompts) in zip(self._view.waiting.values(), self._places(), strict=False):
            if done >= tokens:
                break
            turns, context = self._turns(sent.request), sent.request.prompt_tokens
            place, done = (passes + turns, prompts + turns), done + context
        return self._after(place, min(tokens, done), context)

    def _tokens(self, waiting: Sequence[Sent]) -> int:
        """Prompt tokens of these, and of those that have begun."""
        return self._view.begun_tokens + sum(sent.request.prompt_tokens for sent in waiting)

    # -- places ----------------------------------------------------------------------------------------------------

    def _place(self, place: int) -> Place:
        return next(islice(self._places(), place, None))

    def _places(self) -> Iterator[Place]:
        """What passes before each start: those that wait, in order, then whoever comes next."""
        running = [self._left(sent) for sent in self._view.running.values()]
        return (self._one_by_one if self._config.policy == "continuous" else self._by_batches)(running)

    def _left(self, sent: Sent) -> Place:
        """What one that has begun still takes."""
        left = sent.request.max_tokens - sent.given
        if sent.given:
            return left, 0
        turns = min(self._turns(sent.request), -(-self._view.begun_tokens // self._per_pass))
        return turns + left - 1, turns

    def _served(self, place: Place, request: Request) -> Place:
        """Once it has started there, and has its last token: its prompt gives the first."""
        turns = self._turns(request)
        return place[0] + turns + request.max_tokens - 1, place[1] + turns

    def _one_by_one(self, running: list[Place]) -> Iterator[Place]:
        """Each starts where somebody ends first, and not before the pass that runs now has ended."""
        in_flight = (1, int(self._view.begun_tokens > 0)) if running else (0, 0)
        slots = running + [in_flight] * (self._slots - len(running))
        heapq.heapify(slots)
        for sent in self._view.waiting.values():
            yield slots[0]
            heapq.heapreplace(slots, self._served(slots[0], sent.request))
        yield slots[0]

    def _by_batches(self, running: list[Place]) -> Iterator[Place]:
        """A batch frees all of its places together."""
        place = _longest(running)
        waiting = iter(self._view.waiting.values())
        while batch := list(islice(waiting, self._slots)):
            yield from [place] * len(batch)
            if len(batch) == self._slots:
                place = _longest([self._served(place, sent.request) for sent in batch])
        yield place

    def _turns(self, request: Request) -> int:
        """Passes that its prompt takes at least."""
        return -(-request.prompt_tokens // self._per_pass)

    def _held_until(self, batch: Sequence[Request]) -> int:
        """Until when a batch is held for more; one that is full, or of no batching policy, is not."""
        if self._config.policy not in {"static", "dynamic"} or len(batch) >= self._slots:
            return 0
        return min(request.arrival for request in batch) + self._config.max_queue_delay_ns

    # -- time ------------------------------------------------------------------------------------------------------

    def _after(self, place: Place, tokens: int, context: int, *, beside_them: bool = False) -> int | None:
        """When a place has passed, if the passes that compute prompts have `tokens` of them to compute together; or all
        but those that a last pass has room for `beside_them`."""
        decodes, prompts = place[0] - place[1], place[1]
        beside = min(len(self._view.running) + len(self._view.waiting) + 1, self._slots)
        room = max(self._config.max_num_batched_tokens - beside + 1, 1)
        mixing = max(tokens // room if beside_them else -(-tokens // room), prompts)
        mixed = self._pass_ns(beside, min(tokens, room), context) if mixing else 0
        decoding = self._pass_ns(beside, 0, context) if decodes or not mixing else 0
        if mixed is None or decoding is None:
            return None
        in_flight = mixed if mixing else decoding
        begun = max(self._view.since, self._now - in_flight) if self._view.running else self._now
        return begun + mixing * mixed + decodes * decoding

    def _pass_ns(self, beside: int, tokens: int, context: int) -> int | None:
        """What a pass takes; where none like it was seen yet, what a lesser one takes: so long it will be at least."""
        if self._forecast is None:
            return None
        lesser = ((beside, tokens), (beside, 0), (1, 0))
        times = (self._forecast.mixed_ns(decodes, prompt, context) for decodes, prompt in lesser)
        return next((took for took in times if took is not None), None)


def _longest(places: Sequence[Place]) -> Place:
    """What passes until the last of them has passed."""
    return max((passes for passes, _ in places), default=0), max((prompts for _, prompts in places), default=0)
