"""Writes one attempt's answer to its socket, whole or streamed, and stamps when the socket has taken it."""

import time
from collections.abc import Mapping
from typing import Final

from aiohttp import web

from engine.api.answers import DONE, Answer, event
from engine.api.attempt import Attempt, Batch, Verdict
from engine.api.errors import ApiError
from recorder.words import Status

JSON: Final = "application/json"
_REASONS: Final = {529: "Overloaded"}
"""Of statuses that HTTP itself does not know."""
_NONE: Final[Mapping[str, str]] = {}
_EVENT_STREAM: Final = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}


class AttemptWriter:
    """One per attempt, driven by the request's handler, so that a slow client holds up nobody else.

    While the socket is full, what comes from the worker gathers in the attempt and leaves in one write later.
    """

    def __init__(self, request: web.Request, attempt: Attempt, answer: Answer, *, include_usage: bool) -> None:
        self._request = request
        self._attempt = attempt
        self._answer = answer
        self._include_usage = include_usage
        self._headers = {"X-Request-Id": attempt.submission.request_id}
        if request.transport is not None:
            request.transport.set_write_buffer_limits(high=0)  # a write is over when the socket has taken all of it

    async def write(self) -> tuple[web.StreamResponse, Verdict]:
        """Write the whole answer as it comes. Cancelled, or ConnectionError, when the client goes away."""
        try:
            if self._attempt.submission.stream:
                response = await self._stream(await self._attempt.take())
            else:
                response = await self._whole()
        except ApiError as failure:
            headers = failure.headers(time.time())
            return await self._respond(failure.status, failure.body(), headers), self._failed(failure)
        if self._attempt.failure:
            return response, self._failed(self._attempt.failure)
        return response, Verdict(Status.OK, returned=time.monotonic_ns())

    async def _whole(self) -> web.StreamResponse:
        parts = []
        while True:
            batch = await self._attempt.take()
            parts.append(batch.text)
            if batch.finish_reason:
                body = self._answer.whole("".join(parts), batch.finish_reason, self._attempt.output_tokens)
                return await self._respond(200, body)

    async def _respond(self, status: int, body: bytes, headers: Mapping[str, str] = _NONE) -> web.StreamResponse:
        response = web.Response(
            status=status,
            reason=_REASONS.get(status),
            body=body,
            content_type=JSON,
            headers={**self._headers, **headers},
        )
        self._attempt.http_status = status
        await response.prepare(self._request)
        await response.write_eof()
        self._attempt.wrote(time.monotonic_ns())
        return response

    async def _stream(self, batch: Batch) -> web.StreamResponse:
        """Starts only with the first batch, so that what fails before it is a plain HTTP error."""
        response = web.StreamResponse(headers=self._headers | _EVENT_STREAM)
        self._attempt.http_status = 200
        writer = await response.prepare(self._request)
        assert writer is not None, "a response is prepared once"
        try:
            while not batch.finish_reason:
                await writer.write(self._answer.chunk(batch.text, None))
                await writer.drain()
                self._attempt.wrote(time.monotonic_ns())
                batch = await self._attempt.take()
            await response.write_eof(self._last(batch))
        except ApiError as failure:
            await response.write_eof(event(failure.body()))
        self._attempt.wrote(time.monotonic_ns())
        return response

    def _last(self, batch: Batch) -> bytes:
        usage = self._answer.usage(self._attempt.output_tokens) if self._include_usage else b""
        return self._answer.chunk(batch.text, batch.finish_reason) + usage + DONE

    def _failed(self, failure: ApiError) -> Verdict:
        return Verdict(self._attempt.failed_as, failure.message, time.monotonic_ns())
