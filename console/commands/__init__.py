"""The commands of `tailtrace`, one module each: arguments in, one answer out."""

from typing import Final

from recorder.errors import UserError

RUN_HELP: Final = "folder of a run, or its URL (s3://..., or whatever fsspec reads)"

FILTER_HELP: Final = (
    "only these requests, as `/` takes it in the console: 'status:ok e2e>2s cause:QUEUE>20%%' (--filter='-tier:paid' "
    "for all but those)"
)

BUDGET_HELP: Final = (
    "[slo] e2e_ms and share; [budget] ingress, waiting, execution and return in ms, which sum to e2e_ms; "
    "[causes] ms that a request may lose to a cause"
)


def slo_ns(slo_ms: float | None) -> int | None:
    """`--slo-ms` in ns. Raises UserError where it is no limit."""
    if slo_ms is not None and not slo_ms > 0:
        raise UserError(f"--slo-ms must be above 0, got {slo_ms:g}")
    return None if slo_ms is None else round(slo_ms * 1e6)
