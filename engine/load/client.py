"""The open-loop client: every request leaves at its recorded instant, whatever has become of those before it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from types import SimpleNamespace
from typing import Any, Final

import aiohttp
import msgspec

from engine.load.workload import Arrival
from recorder.errors import UserError

_CONNECT_TIMEOUT_S: Final = 10.0


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
    url: str,
    model: str,
    arrivals: Sequence[Arrival],
    api_key: str | None,
    on_change: Callable[[Sequence[Outcome]], None],
) -> list[Outcome]:
    """Send every arrival at its instant and collect what came of each, in the order of arrival.

    `on_change` is called with all outcomes so far whenever one has been sent or has ended.
    """
    outcomes: list[Outcome] = []
    async with _session(api_key) as session, asyncio.TaskGroup() as group:
        start = time.monotonic_ns()
        for arrival in arrivals:
            due = start + round(arrival.arrival_s * 1e9)
            await asyncio.sleep(max(0, due - time.monotonic_ns()) / 1e9)
            outcome = Outcome(id=str(arrival.id), due=due)
            outcomes.append(outcome)
            task = group.create_task(_send(session, url, body_of(arrival, model), arrival, outcome))
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


async def _send(session: aiohttp.ClientSession, url: str, body: bytes, arrival: Arrival, outcome: Outcome) -> None:
    headers = {"Content-Type": "application/json", "X-Request-Id": outcome.id}
    headers |= {name: value for name, value in (("X-Tier", arrival.tier), ("X-Tenant", arrival.tenant)) if value}
    try:
        async with session.post(
            f"{url}/v1/completions", data=body, headers=headers, trace_request_ctx=outcome
        ) as response:
            outcome.http_status = response.status
            if response.status == 200:
                await _read_stream(response, outcome)
            else:
                _note_refusal(await response.read(), outcome)
    except (aiohttp.ClientError, OSError, TimeoutError, msgspec.DecodeError) as error:
        outcome.error = f"{type(error).__name__}: {error}"
    outcome.done = time.monotonic_ns()


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
