"""Errors as clients of the OpenAI API expect them: a status, and a body that names the field."""

from typing import Final

import msgspec

from engine.core import Admission
from engine.messages import Refused
from engine.scheduling.deadlines import EXPIRED_WORDS
from engine.scheduling.handback import WORKER_LOST, Ending
from recorder.words import Reason, Status


class ApiError(Exception):
    """An answer that is no success. `param` names the field of the body that is at fault, where one is."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        kind: str = "",
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.retry_after_ms = retry_after_ms
        self.kind = kind or ("invalid_request_error" if status < 500 else "server_error")

    def headers(self, now_s: float) -> dict[str, str]:
        """When to come again, exactly and in whole seconds, and the clock that this is told by (SPEC B1)."""
        if self.retry_after_ms is None:
            return {}
        return {
            "Retry-After-Ms": str(self.retry_after_ms),
            "Retry-After": str(-(-self.retry_after_ms // 1000)),
            "X-Server-Time": f"{now_s:.3f}",
        }

    def body(self) -> bytes:
        """The JSON of the error, alone or as the data of a server-sent event."""
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return msgspec.json.encode({"error": error})


def bad_field(param: str, message: str) -> ApiError:
    """400 for one field of the body."""
    return ApiError(400, f"{param}: {message}", param=param)


def context_exceeded(prompt_tokens: int, max_tokens: int, limit: int, param: str) -> ApiError:
    """400 for a request that is longer than the context (SPEC C2)."""
    return ApiError(
        400,
        f"{prompt_tokens} prompt tokens and {max_tokens} output tokens are more than the {limit} tokens that this"
        " model can hold; shorten the prompt or lower max_tokens",
        param=param,
        code="context_length_exceeded",
    )


def unknown_model(name: str, served: str) -> ApiError:
    """404 for a model that is not served here."""
    return ApiError(
        404, f"the model {name!r} is not served here; this is {served!r}", param="model", code="model_not_found"
    )


def wrong_key() -> ApiError:
    """401 for a missing or wrong API key."""
    return ApiError(
        401, "the API key is missing or wrong; send it as: Authorization: Bearer KEY", code="invalid_api_key"
    )


_CODES: Final = {
    Reason.DEADLINE: "deadline_exceeded",
    Reason.RATE_LIMIT: "rate_limit_exceeded",
    Reason.QUEUE_FULL: "overloaded",
    Reason.OVERLOADED: "overloaded",
}


def never_fits(refused: Refused) -> ApiError:
    """400 for a request that its worker could never finish."""
    return ApiError(400, refused.reason, code="never_fits")


def turned_away(admission: Admission) -> ApiError:
    """A request that the gate would not take: not in time or beyond a rate (429), not now (529)."""
    return ApiError(
        admission.status, admission.reason, code=_CODES[admission.why], retry_after_ms=admission.retry_after_ms
    )


def expired() -> ApiError:
    """504 for a request whose deadline passed before it was started: nobody waits for its answer any more."""
    return ApiError(504, EXPIRED_WORDS, code="deadline_exceeded")


def unavailable(message: str) -> ApiError:
    """503 while the engine does not take requests: it loads its model, or it is stopping."""
    return ApiError(503, message, code="unavailable")


def worker_lost() -> ApiError:
    """500 for a request that was in a worker's hands when it died, and there is no other."""
    return ApiError(500, "the worker died while it served this request; it is safe to send it again", code=WORKER_LOST)


def ended_with_worker(why: Ending) -> ApiError:
    """504 for a request that has no time left to be tried elsewhere, 500 for one that is not to be."""
    return ApiError(504 if why.status is Status.EXPIRED else 500, why.words, code=why.code)
