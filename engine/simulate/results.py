"""What a simulation in columns starts from and ends with: lists that its loop reads, arrays that it fills."""

from array import array
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from engine.config import Config
from engine.core import Request
from engine.messages import Finished
from engine.scheduling.admission import refusal
from engine.simulate.front import Outcome, answers
from engine.simulate.setup import Setup
from engine.simulate.workload import Ints, Workload
from recorder.schema import NONE, code
from recorder.words import Status


class Demand:
    """The requests as plain lists. `total` is the true output length, which only the executor's side may look at."""

    def __init__(self, workload: Workload, setup: Setup) -> None:
        most, output = workload.max_tokens, workload.output_tokens
        stops = (output > 0) & (output <= most)
        self.prompt: list[int] = workload.prompt_tokens.tolist()
        self.total: list[int] = np.where(stops, output, most).tolist()
        self.stops: list[bool] = stops.tolist()
        self.refused = dict(_refusals(workload, setup))
        """Place -> why it is refused (or otherwise not answered), in words."""


def _refusals(workload: Workload, setup: Setup) -> Iterable[tuple[int, str]]:
    """Asks the scheduler's own admission about those few for which the answer could be no."""
    config = setup.config
    doubtful = np.flatnonzero(_doubtful(workload, config, setup)).tolist()
    for index in doubtful:
        prompt, most = int(workload.prompt_tokens[index]), int(workload.max_tokens[index])
        request = Request(index + 1, prompt, most, 0)
        if reason := refusal(request, config.scheduler, setup.room):
            yield index, reason


def _doubtful(workload: Workload, config: Config, setup: Setup) -> npt.NDArray[np.bool_]:
    prompt, whole = workload.prompt_tokens, workload.prompt_tokens + workload.max_tokens
    room = min(setup.max_model_len, setup.num_blocks * config.kv.block_size)
    doubtful: npt.NDArray[np.bool_] = (prompt < 1) | (workload.max_tokens < 1) | (whole > room)
    if not config.scheduler.enable_chunked_prefill:
        doubtful |= prompt > config.scheduler.max_num_batched_tokens
    return doubtful


class Results:
    """What came of each request, by its place. Stamps in ns; `NONE` where it did not happen."""

    def __init__(self, workload: Workload, demand: Demand, *, plans_ahead: bool = False) -> None:
        self.workload = workload
        self.demand = demand
        self.plans_ahead = plans_ahead
        size = len(workload)
        self.arrival = array("q", [NONE]) * size
        self.queued = array("q", [NONE]) * size
        self.first_scheduled = array("q", [NONE]) * size
        self.planned = array("q", [NONE]) * size
        """When it was decided that it starts, where that is before the pass in which it does."""
        self.first_token = array("q", [NONE]) * size
        self.last_token = array("q", [NONE]) * size
        self.returned = array("q", [NONE]) * size
        self.cached = array("q", [0]) * size
        self.preemptions = array("i", [0]) * size
        self.recomputed = array("q", [0]) * size
        self.worker = array("h", [0]) * size
        self.status = array("B", [code(Status.OPEN)]) * size

    @classmethod
    def of(cls, workload: Workload, setup: Setup, outcomes: Sequence[Outcome]) -> "Results":
        """The same of outcomes that were found step by step; of a request that was tried again, the last attempt's."""
        results = cls(workload, Demand(workload, setup))
        results.demand.refused = {}
        for place, outcome in enumerate(answers(outcomes)):
            results.arrival[place], results.worker[place] = outcome.arrival.arrival, outcome.worker
            results.status[place] = code(outcome.status)
            results.returned[place] = NONE if outcome.returned is None else outcome.returned
            if outcome.status is not Status.OK:
                results.demand.refused[place] = outcome.reason
            if outcome.end is not None:
                results._take(place, outcome.end)
        return results

    def _take(self, place: int, end: Finished) -> None:
        for name in ("queued", "first_scheduled", "first_token", "last_token"):
            stamp = getattr(end, name)
            getattr(self, name)[place] = NONE if stamp is None else stamp
        self.cached[place], self.preemptions[place] = end.cached_tokens, end.preemptions
        self.recomputed[place] = end.recomputed_tokens

    def __len__(self) -> int:
        return len(self.status)

    def column(self, name: str) -> Ints:
        """A column as int64."""
        return np.asarray(getattr(self, name)).astype(np.int64)

    def output(self, place: int) -> int:
        """Tokens that an answered request was given."""
        return self.demand.total[place]

    def reason(self, place: int) -> str:
        """Why it ended as it did."""
        return self.demand.refused.get(place) or ("stop" if self.demand.stops[place] else "length")
