"""The front end of virtual time: what goes in, what came of it, and the rows that a front end writes."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.messages import Finished, Refused, StepOutput
from recorder.producer import Producer
from recorder.words import Phase, Status

FRONT_TABLES = ("requests", "spans", "deliveries")
"""What the front end's producer has to take."""


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """One request of a workload; times in ns. `output_tokens` is where the model would stop (None: nowhere)."""

    arrival: int
    prompt_tokens: int
    max_tokens: int
    output_tokens: int | None = None
    request_id: str = ""
    tier: str = ""
    tenant: str = ""
    cancel_at: int | None = None
    """When its client goes away."""


@dataclass(frozen=True, kw_only=True)
class Delays:
    """Time that passes outside the device, in ns: host time of each pass, and the ways in and out."""

    ingress_ns: int = 200_000
    """From arrival to the worker's inbox."""
    plan_ns: int = 150_000
    """Each pass: deciding."""
    commit_ns: int = 150_000
    """Each pass: handing out."""
    link_ns: int = 100_000
    """From the worker to the front end."""
    write_ns: int = 20_000
    """For each stream that a step's tokens go to."""


@dataclass(slots=True)
class Outcome:
    """What came of one request. `end` has the worker's stamps; None while it is open, and when it was refused."""

    rid: int
    arrival: Arrival
    status: Status = Status.OPEN
    end: Finished | None = None
    returned: int | None = None
    reason: str = ""


class VirtualFrontEnd:
    """Takes the worker's outputs as `engine.loop.Outbox` and turns them into outcomes, and into rows if it may."""

    def __init__(self, arrivals: Sequence[Arrival], delays: Delays, producer: Producer | None) -> None:
        self._outcomes = [Outcome(rid, arrival) for rid, arrival in enumerate(arrivals, 1)]
        self._arrived = 0
        self._delays = delays
        self._producer = producer
        self._state = {"queue_depth": 0, "queued_tokens": 0, "running": 0, "kv_used": 0}
        self._at_arrival: dict[int, dict[str, int]] = {}

    def send(self, message: StepOutput) -> None:
        """One step's output on its way: read after the link's delay, then written stream by stream."""
        received = message.t_sent + self._delays.link_ns
        self._arrive_until(received)
        self._state = {
            "queue_depth": message.waiting,
            "queued_tokens": message.waiting_tokens,
            "running": message.running,
            "kv_used": message.kv_used,
        }
        written = received
        for rid in self._streams(message):
            written += self._delays.write_ns
            self._outcomes[rid - 1].returned = written
        self._deliver(message, received, written)
        for end in message.finished:
            self._finish(end)
        for refused in message.refused:
            self._refuse(refused)

    def close(self) -> list[Outcome]:
        """No output will come any more; the outcome of every request."""
        self._arrive_until(None)
        return self._outcomes

    def _streams(self, message: StepOutput) -> list[int]:
        return list(dict.fromkeys(rid for rid, _ in message.tokens))

    def _arrive_until(self, t: int | None) -> None:
        """Requests that arrived before `t` saw the state as it was before this output."""
        while self._arrived < len(self._outcomes):
            outcome = self._outcomes[self._arrived]
            if t is not None and outcome.arrival.arrival >= t:
                return
            self._at_arrival[outcome.rid] = self._state
            self._write_request(outcome)
            self._arrived += 1

    def _deliver(self, message: StepOutput, received: int, written: int) -> None:
        if self._producer:
            self._producer.row(
                "deliveries",
                worker=message.worker,
                step=message.step,
                t_sent=message.t_sent,
                t_received=received,
                t_written=written,
                streams=len(self._streams(message)),
            )

    def _finish(self, end: Finished) -> None:
        outcome = self._outcomes[end.rid - 1]
        outcome.end = end
        if end.finish_reason == "cancelled":
            outcome.status, outcome.returned, outcome.reason = Status.CANCELLED, None, "the client went away"
        else:
            outcome.status, outcome.reason = Status.OK, end.finish_reason
        self._write_request(outcome)
        self._write_span(outcome, Phase.INGRESS, outcome.arrival.arrival, end.queued)
        if outcome.returned is not None and end.last_token is not None:
            self._write_span(outcome, Phase.RETURN, end.last_token, outcome.returned)

    def _refuse(self, refused: Refused) -> None:
        outcome = self._outcomes[refused.rid - 1]
        outcome.status, outcome.reason = Status.REJECTED, refused.reason
        self._write_request(outcome)

    def _write_span(self, outcome: Outcome, phase: Phase, start: int, end: int) -> None:
        if self._producer and end > start:
            self._producer.row("spans", rid=outcome.rid, attempt=1, name=phase, start=start, end=end, worker=0)

    def _write_request(self, outcome: Outcome) -> None:
        if self._producer is None:
            return
        asked = outcome.arrival
        self._producer.row(
            "requests",
            rid=outcome.rid,
            request_id=asked.request_id or f"v-{outcome.rid:04d}",
            attempt=1,
            tenant=asked.tenant,
            tier=asked.tier,
            model="virtual",
            worker=0,
            arrival=asked.arrival,
            admitted=asked.arrival + self._delays.ingress_ns,
            prompt_tokens=asked.prompt_tokens,
            max_tokens=asked.max_tokens,
            returned=outcome.returned,
            status=outcome.status,
            reason=outcome.reason,
            http_status={Status.OK: 200, Status.REJECTED: 400}.get(outcome.status),
            **(_stamps(outcome.end) if outcome.end else {}),
            **self._at_arrival[outcome.rid],
        )


def _stamps(end: Finished) -> dict[str, int | None]:
    return {
        "queued": end.queued,
        "first_scheduled": end.first_scheduled,
        "first_token": end.first_token,
        "last_token": end.last_token,
        "output_tokens": end.output_tokens,
        "cached_tokens": end.cached_tokens,
        "preemptions": end.preemptions,
        "recomputed_tokens": end.recomputed_tokens,
        "device_ns": end.device_ns,
    }
