"""The HTTP door: routes, keys, and the handlers that turn a body into an attempt and an attempt into an answer."""

import asyncio
import hmac
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from engine.api.answers import CHAT, COMPLETION, Answer, Shape, model_list
from engine.api.attempt import Detokenizer, Submission, Tokenised, Verdict
from engine.api.bodies import Ask, read_chat, read_completion
from engine.api.errors import ApiError, bad_field, unknown_model, wrong_key
from engine.api.gateway import Gateway
from engine.api.retries import attempt_number
from engine.api.writer import JSON, AttemptWriter
from recorder.errors import UserError
from recorder.words import Status

_LONG_TEXT: Final = 20_000
"""Characters above which tokenising would hold the event loop for milliseconds, and moves to a thread."""

_WORDS: Final = {
    404: "there is nothing here; the API is at /v1/completions, /v1/chat/completions, /v1/models and /health",
    405: "this path takes another method",
    413: "the body is larger than this server reads (max_body_bytes in [server])",
}

T = TypeVar("T")


class Tokenizer(Protocol):
    """What the front end needs of a model's tokenizer."""

    def encode(self, text: str) -> list[int]:
        """The tokens of a prompt, with the special ones that begin it."""
        ...

    def encode_chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """The tokens of a chat, up to where the answer begins. Raises UserError where the template refuses."""
        ...

    def detokenizer(self) -> Detokenizer:
        """A new one for one sequence."""
        ...


class Api:
    """The handlers. One server serves one model, by one name."""

    def __init__(self, gateway: Gateway, tokenizer: Tokenizer, model: str, vocab: int) -> None:
        self._gateway = gateway
        self._tokenizer = tokenizer
        self._model = model
        self._vocab = vocab
        self._created = int(time.time())

    async def health(self, request: web.Request) -> web.Response:
        """200 while requests are taken, else 503 with the reason."""
        self._gateway.check_open()
        return web.Response(body=b'{"status":"ok"}', content_type=JSON)

    async def models(self, request: web.Request) -> web.Response:
        """The one model."""
        ready = self._gateway.ready
        body = model_list(self._model, self._created, ready.max_model_len if ready else None)
        return web.Response(body=body, content_type=JSON)

    async def completions(self, request: web.Request) -> web.StreamResponse:
        """`POST /v1/completions`."""
        return await self._serve(request, COMPLETION, read_completion)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """`POST /v1/chat/completions`."""
        return await self._serve(request, CHAT, read_chat)

    async def _serve(self, request: web.Request, shape: Shape, read: Callable[[bytes], Ask]) -> web.StreamResponse:
        raw = await request.read()
        arrival = time.monotonic_ns()
        ask = read(raw)
        if ask.model not in {None, "", self._model}:
            raise unknown_model(str(ask.model), self._model)
        attempt = self._gateway.submit(await self._submission(request, ask, arrival))
        asked = attempt.submission
        answer = Answer(shape, asked.request_id, self._model, int(time.time()), len(asked.prompt))
        writer = AttemptWriter(request, attempt, answer, include_usage=ask.include_usage)
        try:
            response, verdict = await writer.write()
        except (asyncio.CancelledError, ConnectionError) as gone:
            self._gateway.client_left(attempt)
            # aiohttp cancels the handler of a client that has left; a write that finds it out first ends the same way.
            raise asyncio.CancelledError from gone
        except Exception as error:
            self._gateway.settle(attempt, Verdict(Status.FAILED, f"{type(error).__name__}: {error}"))
            raise
        self._gateway.settle(attempt, verdict)
        return response

    async def _submission(self, request: web.Request, ask: Ask, arrival: int) -> Submission:
        limit = self._gateway.context()
        terms = ask.terms.or_headers(request.headers)
        prompt, tokenised = await self._tokens(ask)
        return Submission(
            request_id=_header(request, "X-Request-Id") or _header(request, "Idempotency-Key") or uuid.uuid4().hex,
            attempt=attempt_number(request.headers),
            arrival=arrival,
            prompt=prompt,
            tokenised=tokenised,
            max_tokens=ask.max_tokens or max(1, limit - len(prompt)),
            sampling=ask.sampling,
            stop=ask.stop,
            stream=ask.stream,
            model=self._model,
            prompt_field=ask.prompt_field,
            tenant=_header(request, "X-Tenant") or ask.tenant,
            tier=_header(request, "X-Tier"),
            priority=terms.priority,
            deadline=terms.deadline(arrival),
        )

    async def _tokens(self, ask: Ask) -> tuple[Sequence[int], Tokenised | None]:
        prompt = ask.prompt
        if isinstance(prompt, str):
            return await _aside(len(prompt), self._tokenizer.encode, prompt)
        messages = [item for item in prompt if isinstance(item, dict)]
        if messages:
            length = sum(len(message["content"]) for message in messages)
            return await _aside(length, self._encode_chat, messages)
        tokens = [item for item in prompt if isinstance(item, int)]
        if max(tokens) >= self._vocab:
            raise bad_field("prompt", f"{max(tokens)} is no token of this model, which has {self._vocab}")
        return tokens, None

    def _encode_chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        try:
            return self._tokenizer.encode_chat(messages)
        except UserError as error:
            raise bad_field("messages", str(error)) from error


def _header(request: web.Request, name: str) -> str:
    """A header's value, empty where it is missing; bytes that are no UTF-8 come as question marks."""
    return request.headers.get(name, "").encode("utf-8", "replace").decode()


async def _aside(length: int, encode: Callable[[T], list[int]], prompt: T) -> tuple[list[int], Tokenised]:
    """Tokenise here, or in a thread where the text is so long that the event loop would stand still."""
    on_loop = length <= _LONG_TEXT

    def timed() -> tuple[list[int], Tokenised]:
        begin = time.monotonic_ns()
        tokens = encode(prompt)
        return tokens, Tokenised(begin, time.monotonic_ns(), on_loop)

    return timed() if on_loop else await asyncio.to_thread(timed)


def build_app(api: Api, api_key: str | None, max_body_bytes: int) -> web.Application:
    """The application: routes, and what stands before them."""
    before: list[Middleware] = [_shape_errors, _key_check(api_key)] if api_key else [_shape_errors]
    app = web.Application(client_max_size=max_body_bytes, middlewares=before)
    app.router.add_get("/health", api.health)
    app.router.add_get("/v1/models", api.models)
    app.router.add_post("/v1/completions", api.completions)
    app.router.add_post("/v1/chat/completions", api.chat)
    return app


@web.middleware
async def _shape_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every error leaves in OpenAI's shape."""
    try:
        return await handler(request)
    except ApiError as error:
        failure = error
    except web.HTTPException as error:
        if error.status < 400:
            raise
        failure = ApiError(error.status, _WORDS.get(error.status, error.reason))
    return web.Response(status=failure.status, body=failure.body(), content_type=JSON)


def _key_check(api_key: str) -> Middleware:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = _header(request, "Authorization").removeprefix("Bearer ")
        if request.path != "/health" and not hmac.compare_digest(given.encode(), api_key.encode()):
            raise wrong_key()
        return await handler(request)

    return check
