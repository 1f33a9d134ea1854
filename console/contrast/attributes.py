"""What requests are compared by: each attribute's title, what it is part of, its unit, and its field in the filter."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal, cast

from console.filter import COUNTS, TIMES, WORDS, Alive, Blamed, Bound, Filter, Not, Op, Part, Term, Words
from console.measures import MEASURES, QUEUE

Kind = Literal["given", "state", "lived"]
"""Known when it arrived, the engine's state then, or what became of it: only the first two can have been its reason."""

KINDS: Final = {"given": "of the request", "state": "engine at arrival", "lived": "what it lived through"}


@dataclass(frozen=True, slots=True)
class Attribute:
    """`field` is what a filter calls it: a field of the language, `cause:NAME`, `phase:NAME`, or "" for none.

    `unit` is that of the numbers: "" for counts and words, `us`, `permille` of E2E, or `run`, thousandths of the run.
    """

    name: str
    title: str
    kind: Kind
    unit: str = ""
    field: str = ""


def _of(kind: Kind, unit: str = "", **titles: str) -> dict[str, Attribute]:
    fields = {**WORDS, **COUNTS, **TIMES}
    short = {"prompt_tokens": "prompt", "output_tokens": "output"}
    named = {name: short.get(name, name) for name in titles}
    return {
        name: Attribute(name, title, kind, unit, named[name] if named[name] in fields else "")
        for name, title in titles.items()
    }


_TITLES: Final = {QUEUE.name: "time queued"}

ATTRIBUTES: Final[dict[str, Attribute]] = {
    **_of(
        "given",
        tier="tier",
        tenant="tenant",
        model="model",
        model_version="model version",
        prompt_tokens="prompt tokens",
        max_tokens="most tokens asked for",
        attempt="attempt",
        prefix_tokens="tokens of a known prefix",
    ),
    "retry_of": Attribute("retry_of", "is a retry", "given"),
    "arrival": Attribute("arrival", "arrival in the run", "given", "run", "arrival"),
    "deadline": Attribute("deadline", "time to its deadline", "given", "us"),
    "staleness": Attribute("staleness", "staleness", "given", "us"),
    **_of(
        "state",
        queue_depth="requests waiting",
        queued_tokens="prompt tokens waiting",
        running="requests running",
        kv_used="KV blocks held",
    ),
    **_of(
        "lived",
        worker="worker",
        status="state",
        reason="reason",
        http_status="HTTP status",
        retry_after_ms="retry-after in ms",
        cached_tokens="prompt tokens cached",
        output_tokens="output tokens",
        preemptions="preemptions",
        recomputed_tokens="tokens computed again",
    ),
    "device_ns": Attribute("device_ns", "device time", "lived", "us", "device_ns"),
    **{one.name: Attribute(one.name, _TITLES.get(one.name, one.title), "lived", "us", one.name) for one in MEASURES},
    "main_cause": Attribute("main_cause", "main cause", "lived"),
    "culprit": Attribute("culprit", "main culprit", "lived", "", "culprit"),
    "culprit_tier": Attribute("culprit_tier", "its culprit's tier", "lived"),
    "culprit_prompt": Attribute("culprit_prompt", "its culprit's prompt", "lived"),
    "met_prefill_tokens": Attribute("met_prefill_tokens", "others' prefill a pass", "lived"),
    "met_most_prefill_tokens": Attribute("met_most_prefill_tokens", "most prefill in a pass", "lived"),
    "met_decodes": Attribute("met_decodes", "others' decodes a pass", "lived"),
}  # fmt: skip
"""By the names that the questions use."""

LEFT_OUT: Final = {
    "rid": "names one attempt",
    "request_id": "names one request",
    "prefix_of": "names one request",
    "admitted": "in the phases",
    "queued": "in the phases",
    "first_scheduled": "in the phases",
    "first_token": "in the phases",
    "last_token": "in the phases",
    "returned": "in the phases",
    "event_time": "in the staleness",
    "ingest_time": "in the staleness",
}
"""Columns of `requests` that are not compared as they are, and why."""


def part(kind: str, name: str, unit: str) -> Attribute:
    """The time in a phase or a cause, in `us`, or its share of E2E, in `permille`."""
    field = f"{kind}:{name}"
    if unit == "us":
        return Attribute(field, f"time in {name}", "lived", unit, field)
    return Attribute(f"{field}:share", f"share of {name}", "lived", unit, field)


def term(attribute: Attribute, value: int | str, *, below: bool = False) -> Term | None:
    """The term of a filter that this value makes: from it on, or `below` it; None where the filter can't ask that."""
    kind, colon, name = attribute.field.partition(":")
    if not attribute.field or attribute.unit == "run":
        return None
    if isinstance(value, str):
        return _word(attribute.field, value)
    amount = value * 1000 if attribute.unit == "us" else value
    if not colon:
        return Bound(attribute.field, "<" if below else ">=", amount)
    op: Op = "<" if below else ">="
    share_or_ns = Decimal(value) / 10 if attribute.unit == "permille" else amount
    return Part(cast("Literal['cause', 'phase']", kind), name, op, share_or_ns)


def _word(field: str, value: str) -> Term | None:
    if field == "culprit":
        return Blamed((value,)) if value else None
    return Words(field, (value,))


def is_told(attribute: Attribute, selection: Filter) -> bool:
    """Whether the selection is made by this: then to find it different proves nothing.

    Whoever selects by a latency selects by all of them, since one is a part of the other, and by every share of them:
    a cost that is the same for all has a small share of a long time.
    """
    fields = {_field(one.term if isinstance(one, Not) else one) for one in selection.terms} - {""}
    measures = {measure.name for measure in MEASURES}
    if fields & measures and (attribute.name in measures or attribute.unit == "permille"):
        return True
    return any(
        field in {attribute.field, attribute.name} or attribute.name.startswith((f"{field}/", f"{field}:"))
        for field in fields
    )


def _field(one: Term) -> str:
    if isinstance(one, Words | Bound):
        return one.field
    if isinstance(one, Part):
        return f"{one.kind}:{one.name}"
    if isinstance(one, Blamed):
        return "culprit"
    return "arrival" if isinstance(one, Alive) else ""
