"""Attempts of one request by its own client: which one it says it is, and which of ours it repeats (SPEC A8)."""

import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from engine.api.errors import bad_field

_MOST: Final = 1000
_MANY: Final = 10_000
"""Requests whose latest attempt is remembered: whoever retries does so soon."""
_HEADERS: Final = (("X-Attempt", 0), ("X-Stainless-Retry-Count", 1))
"""Ours counts attempts from 1; that of OpenAI's own clients counts retries."""


def attempt_number(headers: Mapping[str, str]) -> int:
    """Which attempt of its request this is, from 1. Raises ApiError 400 naming a header that does not say so."""
    for name, less in _HEADERS:
        if (text := headers.get(name)) is not None:
            number = int(text) + less if re.fullmatch(r"[0-9]{1,6}", text) else 0
            if not 1 <= number <= _MOST:
                raise bad_field(name, f"{text!r} is not a whole number from {1 - less} to {_MOST - less}")
            return number
    return 1


class Latest:
    """The rid of the latest attempt of each request, by who asked and the id that the request was given."""

    def __init__(self) -> None:
        self._rids: OrderedDict[tuple[str, str], int] = OrderedDict()

    def note(self, tenant: str, request_id: str, rid: int) -> None:
        """From now on this is its latest attempt."""
        self._rids[tenant, request_id] = rid
        self._rids.move_to_end((tenant, request_id))
        if len(self._rids) > _MANY:
            self._rids.popitem(last=False)

    def of(self, tenant: str, request_id: str) -> int | None:
        """The rid; None where it is not known any more, or was another server's."""
        return self._rids.get((tenant, request_id))
