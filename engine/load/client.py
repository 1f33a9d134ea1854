"""The open-loop client: every request leaves at its recorded instant, whatever has become of those before it."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final

import aiohttp
import msgspec

from engine.load.retry import NEVER, Refusal, Replicas, RetryBudget, Retrying, decide
from engine.load.workload import Arrival
from recorder.errors import UserError

_CONNECT_TIMEOUT_S: Final = 10.0
_NOTHING: Final[Mapping[str, str]] = {}


class LoadError(UserError):
    """The load can't be sent at all: says to which URL, and why."""


class Outcome(msgspec.Struct, kw_only=True):
    """What the client saw of one request; times in ns of its own monotonic clock."""

    id: str
    due: int
    sent: int | None = None
    first_token: int | None = None
    last_token: int | None = None
    done: int | None = None
    status: str = "failed"
    http_status: int | None = None
    error: str = ""
    finish_reason: str = ""
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    retries: int = 0
    url: str = ""
    """The server that was asked last."""


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Choice(msgspec.Struct):
    finish_reason: str | None = None


class _Failure(msgspec.Struct):
    message: str = ""


class _Chunk(msgspec.Struct):
    """What is read of one server-sent event, or of an error's body."""

    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: _Failure | None = None


_CHUNKS: Final = msgspec.json.Decoder(_Chunk)


async def served_model(url: str, api_key: str | None) -> str:
    """The first model that the server lists. Raises LoadError where no server of OpenAI's kind answers."""
    try:
        async with _session(api_key) as session, session.get(f"{url}/v1/models") as response:
            if response.status == 401:
                raise LoadError(f"{url}: the server wants an API key; give it with --api-key")
            body = await response.json(content_type=None)
            return str(body["data"][0]["id"])
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise LoadError(f"{url}: no server answers there ({error}); start one with: tailtrace serve") from error
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise LoadError(f"{url}: what answers at /v1/models lists no model; is this an OpenAI-style server?") from error


async def drive(
    urls: Sequence[str],
    model: str,
    arrivals: Sequence[Arrival],
    api_key: str | None,
    on_change: Callable[[Sequence[Outcome]], None],
    *,
    retry: Retrying = NEVER,
) -> list[Outcome]:
    """Send every arrival at its instant and collect what came of each, in the order of arrival.

    Of several servers each is the first for its share of the requests. All that are sent share one retry budget.
    `on_change` is called with all outcomes so far whenever one has been sent or has ended.
    """
    outcomes: list[Outcome] = []
    async with _session(api_key) as session, asyncio.TaskGroup() as group:
        start, budget = time.monotonic_ns(), RetryBudget(retry.budget_share)
        for number, arrival in enumerate(arrivals):
            due = start + round(arrival.arrival_s * 1e9)
            await asyncio.sleep(max(0, due - time.monotonic_ns()) / 1e9)
            outcome = Outcome(id=str(arrival.id), due=due)
            outcomes.append(outcome)
            sending = _Sending(session, urls, Replicas(len(urls), number), body_of(arrival, model), arrival, outcome)
            task = group.create_task(_send(sending, retry, budget))
            task.add_done_callback(lambda _: on_change(outcomes))
            on_change(outcomes)
    return outcomes


def body_of(arrival: Arrival, model: str) -> bytes:
    """The request for `/v1/completions`, streamed, with the usage at its end."""
    body: dict[str, Any] = {
        "model": model,
        "prompt": arrival.text(),
        "max_tokens": arrival.max_tokens,
        "temperature": arrival.temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if arrival.priority:
        body["priority"] = arrival.priority
    if arrival.ignore_eos:
        body["ignore_eos"] = True
    if arrival.seed is not None:
        body["seed"] = arrival.seed
    return msgspec.json.encode(body)


def _session(api_key: str | None) -> aiohttp.ClientSession:
    """A session without a limit of connections, which would close the loop, and without a limit of time."""
    trace = aiohttp.TraceConfig()
    trace.on_request_chunk_sent.append(_stamp_sent)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_S),
        headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
        trace_configs=[trace],
    )


async def _stamp_sent(
    session: aiohttp.ClientSession, context: SimpleNamespace, params: aiohttp.TraceRequestChunkSentParams
) -> None:
    """The connection stands and the body goes out now: lateness in connecting is lateness in sending."""
    outcome = context.trace_request_ctx
    if isinstance(outcome, Outcome) and outcome.sent is None:
        outcome.sent = time.monotonic_ns()


@dataclass(frozen=True)
class _Sending:
    """One request on its way."""

    session: aiohttp.ClientSession
    urls: Sequence[str]
    replicas: Replicas
    body: bytes
    arrival: Arrival
    outcome: Outcome

    @property
    def left_ns(self) -> int | None:
        """Time until the caller's deadline."""
        deadline_ms = self.arrival.deadline_ms
        return None if deadline_ms is None else self.outcome.due + round(deadline_ms * 1e6) - time.monotonic_ns()

    def headers(self) -> dict[str, str]:
        """Another attempt says which it is: of the request whose id it brings (SPEC A8)."""
        arrival, left_ns = self.arrival, self.left_ns
        headers = {"Content-Type": "application/json", "X-Request-Id": self.outcome.id}
        headers |= {name: value for name, value in (("X-Tier", arrival.tier), ("X-Tenant", arrival.tenant)) if value}
        if self.outcome.retries:
            headers["X-Attempt"] = str(1 + self.outcome.retries)
        return headers if left_ns is None else headers | {"X-Deadline-Ms": f"{max(left_ns, 0) / 1e6:.3f}"}


async def _send(sending: _Sending, retry: Retrying, budget: RetryBudget) -> None:
    """Send it, and again while the policy says so; what is kept is the last attempt, and the first one's `sent`."""
    outcome, choose = sending.outcome, random.Random(sending.outcome.id)
    budget.sent()
    while refusal := await _attempt(sending):
        again = decide(
            refusal,
            retry,
            outcome.retries,
            left_ns=sending.left_ns,
            budget=budget,
            draw=choose.random(),
            replicas=sending.replicas,
            now=time.monotonic_ns(),
        )
        if again.wait_ns is None:
            outcome.error += f" ({again.reason})" if again.reason and retry.limit else ""
            break
        await asyncio.sleep(again.wait_ns / 1e9)
        outcome.retries += 1
        outcome.status, outcome.error, outcome.http_status = "failed", "", None
    outcome.done = time.monotonic_ns()


async def _attempt(sending: _Sending) -> Refusal | None:
    """One attempt; a refusal if it gave no token, so that sending it again repeats nothing."""
    outcome, told = sending.outcome, _NOTHING
    outcome.url = sending.urls[sending.replicas.at]
    try:
        async with sending.session.post(
            f"{outcome.url}/v1/completions", data=sending.body, headers=sending.headers(), trace_request_ctx=outcome
        ) as response:
            outcome.http_status, told = response.status, response.headers
            if response.status == 200:
                await _read_stream(response, outcome)
            else:
                _note_refusal(await response.read(), outcome)
    except (aiohttp.ClientError, OSError, TimeoutError, msgspec.DecodeError) as error:
        outcome.error = f"{type(error).__name__}: {error}"
    if outcome.status == "ok" or outcome.first_token is not None:
        return None
    wait_ms = _told(told, "Retry-After-Ms")
    return Refusal(
        outcome.http_status, time.time(), None if wait_ms is None else round(wait_ms), _told(told, "X-Server-Time")
    )


def _told(headers: Mapping[str, str], name: str) -> float | None:
    """A header's number; None where there is none that could be meant."""
    try:
        number = float(headers[name])
    except (KeyError, ValueError):
        return None
    return number if 0 <= number < 1e12 else None


async def _read_stream(response: aiohttp.ClientResponse, outcome: Outcome) -> None:
    ended = False
    async for data in _events(response):
        now = time.monotonic_ns()
        if data == b"[DONE]":
            ended = True
            continue
        chunk = _CHUNKS.decode(data)
        if chunk.error is not None:
            outcome.error = chunk.error.message
        _note_tokens(chunk, now, outcome)
    if ended and not outcome.error:
        outcome.status = "ok"
    outcome.error = outcome.error or ("" if ended else "the stream ended before [DONE]")


def _note_tokens(chunk: _Chunk, now: int, outcome: Outcome) -> None:
    if chunk.choices:
        outcome.first_token = outcome.first_token or now
        outcome.last_token = now
        outcome.finish_reason = chunk.choices[0].finish_reason or outcome.finish_reason
    if chunk.usage is not None:
        outcome.prompt_tokens = chunk.usage.prompt_tokens
        outcome.output_tokens = chunk.usage.completion_tokens


def _note_refusal(body: bytes, outcome: Outcome) -> None:
    outcome.status = "rejected" if outcome.http_status in {429, 529, 503} else "failed"
    try:
        failure = _CHUNKS.decode(body).error
    except msgspec.DecodeError:
        failure = None
    outcome.error = failure.message if failure else f"HTTP {outcome.http_status}"


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The data of each server-sent event."""
    async for line in response.content:
        if line.startswith(b"data:"):
            yield line.removeprefix(b"data:").strip()
