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
    """The scheduler would not take the request; `reason` is for the client, `status` what HTTP calls it.

    `retry_after_ms`: after so long one like it should be taken; None: it never will.
    """

    rid: int
    reason: str
    status: int = 400
    retry_after_ms: int | None = None
    why: str = "NONE"
    """A word of `recorder.words.Reason`."""


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


class Heartbeat(msgspec.Struct, tag="heartbeat", frozen=True):
    """A worker among several lives, and has nothing else to tell; its load in the words of `StepOutput`."""

    worker: int
    waiting: int
    waiting_tokens: int
    running: int
    kv_used: int


class Starting(msgspec.Struct, tag="starting", frozen=True):
    """A worker among several is about to run a step that begins these requests: should it die, they were in it."""

    worker: int
    rids: list[int]


class Failed(msgspec.Struct, tag="failed", frozen=True):
    """The worker can't go on; `error` says why, in words for a person."""

    error: str


FromWorker = Ready | StepOutput | Heartbeat | Starting | Failed
