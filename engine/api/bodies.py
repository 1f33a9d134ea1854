"""What clients may ask: the bodies of `/v1/completions` and `/v1/chat/completions`, checked and turned into an `Ask`.

Fields that no server of this kind knows are ignored, as OpenAI's do. Fields that would change the answer and can't
be honoured are refused by name: a silently ignored `n` or `tools` is a wrong answer.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeVar

import msgspec

from engine.api.errors import ApiError, bad_field
from engine.api.terms import LONGEST_MS, LOWEST, Terms
from engine.messages import Sampling

Token = Annotated[int, msgspec.Meta(ge=0)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
_Stops = Annotated[list[str], msgspec.Meta(max_length=16)]
_Prompt = str | list[str | Token | list[Token]]

_COMPLETION_MAX_TOKENS: Final = 16
"""OpenAI's default for completions; a chat's is the rest of the context."""

_PATH: Final = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_MISSING: Final = re.compile(r"^Object missing required field `(?P<field>[^`]*)`")


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class _Common(msgspec.Struct, kw_only=True):
    """The fields both kinds share; the untyped ones are those that are known but not served."""

    model: str | None = None
    max_tokens: _Count | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    seed: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    stop: str | _Stops | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    user: str | None = None
    ignore_eos: bool | None = None
    priority: Annotated[int, msgspec.Meta(ge=0, le=LOWEST)] | None = None
    deadline_ms: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_MS)] | None = None
    n: Any = None
    logprobs: Any = None
    logit_bias: Any = None
    presence_penalty: Any = None
    frequency_penalty: Any = None
    min_tokens: Any = None


class CompletionBody(_Common, kw_only=True):
    """The body of `/v1/completions`."""

    prompt: _Prompt
    best_of: Any = None
    echo: Any = None
    suffix: Any = None


class Part(msgspec.Struct):
    """One part of a message's content; only text is served."""

    type: str
    text: str | None = None


class Message(msgspec.Struct):
    """One message of a chat."""

    role: str
    content: str | list[Part] | None = None


class ChatBody(_Common, kw_only=True):
    """The body of `/v1/chat/completions`."""

    messages: Annotated[list[Message], msgspec.Meta(min_length=1)]
    max_completion_tokens: _Count | None = None
    tools: Any = None
    functions: Any = None
    response_format: Any = None
    top_logprobs: Any = None
    modalities: Any = None
    audio: Any = None


@dataclass(frozen=True)
class Ask:
    """A request as understood, before its prompt is tokens. `prompt` is a text, tokens, or the messages of a chat."""

    prompt: str | list[int] | list[dict[str, str]]
    max_tokens: int | None
    sampling: Sampling
    stop: tuple[str, ...] = ()
    stream: bool = False
    include_usage: bool = False
    model: str | None = None
    tenant: str = ""
    terms: Terms = field(default_factory=Terms)

    @property
    def prompt_field(self) -> str:
        """The field of the body that the prompt came in."""
        chat = isinstance(self.prompt, list) and bool(self.prompt) and isinstance(self.prompt[0], dict)
        return "messages" if chat else "prompt"


def read_completion(raw: bytes) -> Ask:
    """Read the body of `/v1/completions`. Raises ApiError 400 with the field named."""
    body = _decode(raw, _COMPLETIONS)
    _refuse_unsupported(body)
    return _ask(body, _single_prompt(body.prompt), body.max_tokens or _COMPLETION_MAX_TOKENS)


def read_chat(raw: bytes) -> Ask:
    """Read the body of `/v1/chat/completions`. Raises ApiError 400 with the field named."""
    body = _decode(raw, _CHATS)
    _refuse_unsupported(body)
    messages = [_message(message, i) for i, message in enumerate(body.messages)]
    return _ask(body, messages, body.max_completion_tokens or body.max_tokens)


_COMPLETIONS: Final = msgspec.json.Decoder(CompletionBody)
_CHATS: Final = msgspec.json.Decoder(ChatBody)

B = TypeVar("B", bound=_Common)


def _decode(raw: bytes, decoder: msgspec.json.Decoder[B]) -> B:
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise _field_error(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError(400, f"the body is not valid JSON: {error}") from error
    except RecursionError as error:
        raise ApiError(400, "the body is nested too deep") from error


def _field_error(text: str) -> ApiError:
    """msgspec says `Expected ... - at $.a.b`; clients look for `a.b` in `param`."""
    path = _PATH.search(text)
    missing = _MISSING.search(text)
    parts = [path["path"] if path else "", missing["field"] if missing else ""]
    param = ".".join(part for part in parts if part)
    reason = _PATH.sub("", text)
    return bad_field(param, reason) if param else ApiError(400, f"the body is not a JSON object of fields: {reason}")


def _any_of(*neutral: object) -> Callable[[object], bool]:
    return lambda value: value in neutral


_HARMLESS: Final[dict[str, Callable[[object], bool]]] = {
    "n": _any_of(1),
    "best_of": _any_of(1),
    "logprobs": lambda value: value is False,  # 0 asks for those of the chosen tokens
    "top_logprobs": _any_of(0),
    "echo": _any_of(False),
    "suffix": _any_of(""),
    "logit_bias": _any_of({}),
    "presence_penalty": _any_of(0),
    "frequency_penalty": _any_of(0),
    "min_tokens": _any_of(0),
    "tools": _any_of([]),
    "functions": _any_of([]),
    "response_format": _any_of({"type": "text"}),
    "modalities": _any_of(["text"]),
    "audio": _any_of(),
}
"""Values of known but unserved fields that ask for what is done anyway; null is always one."""


def _refuse_unsupported(body: _Common) -> None:
    for name, harmless in _HARMLESS.items():
        value = getattr(body, name, None)
        if value is not None and not harmless(value):
            shown = msgspec.json.encode(value).decode()
            raise bad_field(name, f"{shown[:60]} is not supported by this server; leave the field out")


def _single_prompt(prompt: str | list[str | Token | list[Token]]) -> str | list[int]:
    """One prompt: a text, its tokens, or a list that holds one of these."""
    if isinstance(prompt, str):
        return prompt
    tokens = [item for item in prompt if isinstance(item, int)]
    if prompt and len(tokens) == len(prompt):
        return tokens
    if len(prompt) == 1 and not isinstance(prompt[0], int):
        return prompt[0]
    what = "an empty list" if not prompt else "more than one prompt in a request"
    raise bad_field("prompt", f"{what} is not supported by this server; send one text or one list of tokens")


def _message(message: Message, index: int) -> dict[str, str]:
    field = f"messages[{index}]"
    role = {"developer": "system"}.get(message.role, message.role)
    if role not in {"system", "user", "assistant"}:
        raise bad_field(f"{field}.role", f"{message.role!r} is not supported; use system, user or assistant")
    if isinstance(message.content, list):
        return {"role": role, "content": _joined(message.content, field)}
    return {"role": role, "content": message.content or ""}


def _joined(parts: Sequence[Part], field: str) -> str:
    for i, part in enumerate(parts):
        if part.type != "text":
            raise bad_field(f"{field}.content[{i}].type", f"{part.type!r} is not supported; this model reads text only")
    return "".join(part.text or "" for part in parts)


def _ask(body: _Common, prompt: str | list[int] | list[dict[str, str]], max_tokens: int | None) -> Ask:
    stop = [body.stop] if isinstance(body.stop, str) else body.stop or []
    if "" in stop:
        raise bad_field("stop", "an empty string stops before anything is said")
    if not prompt:
        raise bad_field("prompt", "an empty prompt gives the model nothing to continue")
    return Ask(
        prompt=prompt,
        max_tokens=max_tokens,
        sampling=Sampling(
            temperature=1.0 if body.temperature is None else body.temperature,
            top_p=1.0 if body.top_p is None else body.top_p,
            seed=body.seed,
            ignore_eos=bool(body.ignore_eos),
        ),
        stop=tuple(stop),
        stream=bool(body.stream),
        include_usage=bool(body.stream_options and body.stream_options.include_usage),
        model=body.model,
        tenant=body.user or "",
        terms=Terms(body.priority or 0, body.deadline_ms),
    )
