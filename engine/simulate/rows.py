"""Rows of `requests` in columns, from the results of a simulation."""

from typing import Any, Final

import numpy as np

from engine.simulate.clock import Delays
from engine.simulate.results import Results
from engine.simulate.workload import Ints
from recorder.records import cut
from recorder.schema import NONE, REQUESTS, code
from recorder.words import Status

_WIDTHS: Final = {column.name: column.kind for column in REQUESTS.columns if isinstance(column.kind, int)}
_STAMPS: Final = ("queued", "first_scheduled", "first_token", "last_token", "returned")


def request_columns(results: Results, places: Ints, delays: Delays) -> dict[str, Any]:
    """What is known of the requests at these places; not their share of the device, nor what they saw on arrival."""
    workload, listed = results.workload, places.tolist()
    status = np.asarray(results.status)[places]
    ok, rejected = status == code(Status.OK), status == code(Status.REJECTED)
    arrival = np.asarray(results.arrival)[places]

    def of_ok(values: Ints) -> Ints:
        return np.where(ok, values, NONE)

    return {
        **{name: np.asarray(getattr(results, name))[places] for name in _STAMPS},
        "rid": places + 1,
        "request_id": [_cut("request_id", workload.request_id(place)) for place in listed],
        "attempt": 1,
        "tenant": [_cut("tenant", workload.tenants[place]) for place in listed] if workload.tenants else "",
        "tier": [_cut("tier", workload.tiers[place]) for place in listed] if workload.tiers else "",
        "model": "virtual",
        "model_version": "",
        "worker": np.asarray(results.worker)[places],
        "arrival": arrival,
        "admitted": arrival + delays.ingress_ns,
        "prompt_tokens": workload.prompt_tokens[places],
        "max_tokens": workload.max_tokens[places],
        "prefix_of": np.where(workload.alike.of[places] > 0, workload.alike.of[places], NONE),
        "prefix_tokens": workload.alike.tokens[places],
        "cached_tokens": of_ok(np.asarray(results.cached)[places]),
        "output_tokens": of_ok(np.array([results.output(place) for place in listed], np.int64)),
        "preemptions": of_ok(np.asarray(results.preemptions)[places].astype(np.int64)),
        "recomputed_tokens": of_ok(np.asarray(results.recomputed)[places]),
        "status": status,
        "http_status": np.where(ok, 200, np.where(rejected, 400, NONE)),
        "reason": [_cut("reason", results.reason(place)) for place in listed],
    }


def _cut(column: str, text: str) -> str:
    return cut(text, _WIDTHS[column]).decode()
