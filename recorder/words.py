"""The vocabulary of a run: every coded word, in the order of its code. Append only; a code never changes."""

from enum import StrEnum
from typing import Final


class Status(StrEnum):
    """How an attempt stands or ended (SPEC F4)."""

    OPEN = "open"
    OK = "ok"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Phase(StrEnum):
    """The name of a span; the phases of one attempt tile its life from arrival to return."""

    INGRESS = "ingress"
    QUEUE = "queue"
    BATCH_WAIT = "batch_wait"
    PREFILL = "prefill"
    DECODE = "decode"
    PREEMPTED = "preempted"
    RETURN = "return"


class StepKind(StrEnum):
    """What one pass of a worker's loop computed."""

    IDLE = "idle"
    PREFILL = "prefill"
    DECODE = "decode"
    MIXED = "mixed"


class Role(StrEnum):
    """What one request did in one step. RECOMPUTE computes again what a preemption threw away."""

    PREFILL = "prefill"
    DECODE = "decode"
    RECOMPUTE = "recompute"


class Reason(StrEnum):
    """Why the head of the queue was not started in a pass, or why a running request was preempted.

    From ORDER to DEADLINE: why a request started before an older one, or why its batch left.
    DEADLINE, and from QUEUE_FULL to RATE_LIMIT: also why one was refused.
    From LEAST_QUEUED on: why one was routed to its worker, or (HEARTBEAT) why a worker counts as lost: it was silent.
    """

    NONE = "NONE"
    KV_BLOCKS = "KV_BLOCKS"
    SEQ_SLOTS = "SEQ_SLOTS"
    TOKEN_BUDGET = "TOKEN_BUDGET"
    BATCH_TIMER = "BATCH_TIMER"
    WORKER_BUSY = "WORKER_BUSY"
    PREEMPTION = "PREEMPTION"
    ORDER = "ORDER"
    MIN_SHARE = "MIN_SHARE"
    BATCH_FULL = "BATCH_FULL"
    DEADLINE = "DEADLINE"
    DECODE_SLACK = "DECODE_SLACK"
    QUEUE_FULL = "QUEUE_FULL"
    OVERLOADED = "OVERLOADED"
    RATE_LIMIT = "RATE_LIMIT"
    LEAST_QUEUED = "LEAST_QUEUED"
    PREFIX = "PREFIX"
    HANDED_BACK = "HANDED_BACK"
    HEARTBEAT = "HEARTBEAT"


class EventKind(StrEnum):
    """One change of state of a request or a worker."""

    QUEUED = "queued"
    SCHEDULED = "scheduled"
    FIRST_TOKEN = "first_token"
    PREEMPTED = "preempted"
    RESUMED = "resumed"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    FAILED = "failed"
    REJECTED = "rejected"
    WORKER_READY = "worker_ready"
    WORKER_LOST = "worker_lost"
    EXPIRED = "expired"
    DELAYED = "delayed"
    ROUTED = "routed"


class Source(StrEnum):
    """Who was measured by a sample."""

    DEVICE = "device"
    HOST = "host"
    FRONTEND = "frontend"
    WORKER = "worker"
    RECORDER = "recorder"


class StallKind(StrEnum):
    """Why a process could not do its work for a while, or what it did instead."""

    GC = "gc"
    LOOP = "loop"
    TOKENISE = "tokenise"
    WARMUP = "warmup"


ON_EVENT_LOOP: Final = "event loop"
"""The detail of a prompt that was tokenised where everything else has to wait meanwhile."""
