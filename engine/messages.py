"""The messages between the front end and a worker: one per request one way, one per step the other."""

import msgspec


class Sampling(msgspec.Struct, frozen=True, omit_defaults=True):
    """How tokens are chosen. `temperature` 0 is greedy."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    ignore_eos: bool = False


class Submit(msgspec.Struct, tag="submit", frozen=True):
    """A request on its way to the worker; times in ns of the run's monotonic clock."""

    rid: int
    attempt: int
    prompt: list[int]
    max_tokens: int
    sampling: Sampling
    arrival: int
    tier: str = ""
    tenant: str = ""
    priority: int = 0
    deadline: int | None = None


class Cancel(msgspec.Struct, tag="cancel", frozen=True):
    """The client has gone, or wants no more."""

    rid: int


class Drain(msgspec.Struct, tag="drain", frozen=True):
    """Finish what is in the house, then leave."""


ToWorker = Submit | Cancel | Drain


class Ready(msgspec.Struct, tag="ready", frozen=True):
    """The model is loaded and warm."""

    worker: int
    device: str
    dtype: str
    kv_blocks: int
    block_size: int
    max_model_len: int
    load_s: float
    token_bytes: int = 0
    """Memory of the keys and values of one token."""


class Finished(msgspec.Struct, tag="finished", frozen=True):
    """The end of an attempt on its worker, with the stamps that only the worker has.

    `finish_reason` is `stop`, `length`, `cancelled` (the answer to `Cancel`, if the request had not ended before), or
    `expired` (its deadline passed in the queue).
    """

    rid: int
    finish_reason: str
    queued: int
    first_scheduled: int | None
    first_token: int | None
    last_token: int | None
    output_tokens: int
    cached_tokens: int
    preemptions: int
    recomputed_tokens: int
    device_ns: int
    ended: int
    """End of its last span on the worker: its last token, or the instant it was cancelled or expired."""

    def columns(self) -> dict[str, int | None]:
        """The columns of `recorder.schema.REQUESTS` that only the worker knows."""
        return {
            "queued": self.queued,
            "first_scheduled": self.first_scheduled,
            "first_token": self.first_token,
            "last_token": self.last_token,
            "output_tokens": self.output_tokens,
            "cached_tokens": self.cached_tokens,
            "preemptions": self.preemptions,
            "recomputed_tokens": self.recomputed_tokens,
            "device_ns": self.device_ns,
        }


class Refused(msgspec.Struct, tag="refused", frozen=True):
    """The request can never be finished by this worker; `reason` is for the client."""

    rid: int
    reason: str


class StepTimes(msgspec.Struct, frozen=True):
    """What a worker has learnt of the time its steps take, as `engine.scheduling.step_time` has it.

    The coefficients in ms, and the matrix of their normal equations, row by row: what was seen, and what was not.
    """

    coefficients: list[float]
    seen: list[float]


class Outlook(msgspec.Struct, frozen=True):
    """What a worker knows that helps to tell when it will be done with whom. A few hundred bytes with every message."""

    begun_tokens: int
    """Tokens that those who have begun compute before their next output token, beside plain decodes."""
    token_ns: float
    """Time a computed token has taken of late; 0: nothing was computed yet."""
    host_ns: int
    """What a pass takes beside its execution."""
    times: StepTimes | None = None


class StepOutput(msgspec.Struct, tag="step", frozen=True):
    """Everything one step hands out. `tokens` are (rid, token) pairs; `t_sent` is stamped as it leaves."""

    worker: int
    step: int
    t_sent: int
    tokens: list[tuple[int, int]]
    finished: list[Finished]
    refused: list[Refused]
    waiting: int
    waiting_tokens: int
    running: int
    kv_used: int
    outlook: Outlook | None = None
    """None where nobody is refused for what others ask."""


class Heartbeat(msgspec.Struct, tag="heartbeat", frozen=True):
    """A worker among several lives, and has nothing else to tell; its load in the words of `StepOutput`."""

    worker: int
    waiting: int
    waiting_tokens: int
    running: int
    kv_used: int


class Starting(msgspec.Struct, tag="starting", frozen=True):
    """A worker is about to run a step that begins these requests: others wait for them, and should it die, they were
    in it. Told where arrivals are decided by it, and by a worker among several."""

    worker: int
    t_sent: int
    rids: list[int]
    outlook: Outlook | None = None


class Failed(msgspec.Struct, tag="failed", frozen=True):
    """The worker can't go on; `error` says why, in words for a person."""

    error: str


FromWorker = Ready | StepOutput | Heartbeat | Starting | Failed
