"""How long answers take when some have not come: the product-limit estimate beside the naive percentiles (SPEC F4)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from console.session import Session
from console.timeline import Bools, Ints

if TYPE_CHECKING:
    import duckdb

_MS: Final = 1e6
_QUANTILES: Final = (0.50, 0.95, 0.99)
_ROUNDING: Final = 1e-9
"""What a product of millions of factors may be off by; one request in ten millions weighs a hundred times more."""

FORMULA: Final = "Kaplan-Meier, who left or still waits is at risk until then; beyond: later than all that was seen"


class Survival(TypedDict):
    """Percentiles of one measure over all `n` attempts that began, in ms; null where it lies beyond what was seen.

    `censored` of them ended, or were last seen, before what is measured had happened.
    """

    n: int
    censored: int
    p50: float | None
    p95: float | None
    p99: float | None


def survival(
    session: Session, cursor: "duckdb.DuckDBPyConnection", measures: tuple[str, ...] = ("ttft", "e2e")
) -> dict[str, Survival]:
    """The estimate of each measure, by name; `cursor` may be under a filter."""
    seen = session.ask("survival", cursor=cursor)
    return {measure: _estimated(seen.filter(pc.equal(seen["measure"], measure))) for measure in measures}


def product_limit(waited: Ints, observed: Bools, quantiles: Sequence[float]) -> list[int | None]:
    """The least time by which each share of `quantiles` has happened (Kaplan and Meier, 1958); None where it never has.

    `waited` is how long each was watched, ns; `observed`, whether it then happened. Whoever is lost sight of at an
    instant is still at risk in it. With all observed they are the nearest-rank percentiles.
    """
    times, happened = np.unique(waited[observed], return_counts=True)
    at_risk = len(waited) - np.searchsorted(np.sort(waited), times, "left")
    waiting = np.cumprod(1 - happened / at_risk)
    reached = [np.flatnonzero(waiting <= 1 - quantile + _ROUNDING) for quantile in quantiles]
    return [int(times[places[0]]) if len(places) else None for places in reached]


def _estimated(seen: pa.Table) -> Survival:
    waited, observed = seen["waited"].to_numpy(), seen["observed"].to_numpy()
    p50, p95, p99 = (None if ns is None else ns / _MS for ns in product_limit(waited, observed, _QUANTILES))
    return Survival(n=len(waited), censored=int((~observed).sum()), p50=p50, p95=p95, p99=p99)
