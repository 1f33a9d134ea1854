"""The JSON of answers, whole and in chunks, in the two shapes of the OpenAI API."""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

DONE: Final = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Shape:
    """What distinguishes `/v1/completions` from `/v1/chat/completions` in an answer."""

    prefix: str
    whole: str
    chunk: str
    chat: bool


COMPLETION: Final = Shape("cmpl", "text_completion", "text_completion", chat=False)
CHAT: Final = Shape("chatcmpl", "chat.completion", "chat.completion.chunk", chat=True)


class Answer:
    """Builds everything that goes back for one request."""

    def __init__(self, shape: Shape, request_id: str, model: str, created: int, prompt_tokens: int) -> None:
        self._shape = shape
        self._head = {"id": f"{shape.prefix}-{request_id}", "created": created, "model": model}
        self._prompt_tokens = prompt_tokens
        self._first = True

    def whole(self, text: str, finish_reason: str, output_tokens: int) -> bytes:
        """The body of an answer that is not streamed."""
        content = {"message": {"role": "assistant", "content": text}} if self._shape.chat else {"text": text}
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": finish_reason}
        return self._encode(self._shape.whole, choices=[choice], usage=self._usage(output_tokens))

    def chunk(self, text: str, finish_reason: str | None) -> bytes:
        """One server-sent event with the text that is new."""
        choice = {"index": 0, **self._delta(text), "logprobs": None, "finish_reason": finish_reason}
        return self._event(choices=[choice])

    def usage(self, output_tokens: int) -> bytes:
        """The server-sent event with the usage, which has no choices."""
        return self._event(choices=[], usage=self._usage(output_tokens))

    def _delta(self, text: str) -> dict[str, Any]:
        if not self._shape.chat:
            return {"text": text}
        role = {"role": "assistant"} if self._first else {}
        self._first = False
        return {"delta": {**role, "content": text}}

    def _usage(self, output_tokens: int) -> dict[str, int]:
        total = self._prompt_tokens + output_tokens
        return {"prompt_tokens": self._prompt_tokens, "completion_tokens": output_tokens, "total_tokens": total}

    def _event(self, **fields: object) -> bytes:
        return event(self._encode(self._shape.chunk, **fields))

    def _encode(self, kind: str, **fields: object) -> bytes:
        return msgspec.json.encode({**self._head, "object": kind, **fields})


def event(data: bytes) -> bytes:
    """One server-sent event."""
    return b"data: " + data + b"\n\n"


def model_list(name: str, created: int, max_model_len: int | None) -> bytes:
    """The body of `/v1/models`."""
    card = {"id": name, "object": "model", "created": created, "owned_by": "tailtrace", "max_model_len": max_model_len}
    return msgspec.json.encode({"object": "list", "data": [card]})
