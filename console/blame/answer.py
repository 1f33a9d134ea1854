"""All of blame for one run as plain data: what `tailtrace blame --json` prints, and screens show piece by piece."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from console.blame.cohorts import Slow, read_cohorts
from console.blame.interference import TOP, Interference, read_culprits, read_interference, read_pairs
from console.blame.ledgers import Excess, Ledger, Ledgers, excess, read_ledgers, read_whole
from console.blame.spread import KINDS, Spread, read_spread
from console.filter import EVERYTHING, Filter
from console.session import Session

if TYPE_CHECKING:
    import duckdb

FORMULAS = {
    "excess": "mean over the slow requests - mean over the typical ones; a share is of that difference of E2E",
    "spread": "Var(E2E) = sum of Var(part) + 2 sum of Cov(part, part); a part's share is Cov(part, E2E) / Var(E2E)",
    "interference": "ns that victims lost to culprits; with nobody's they sum to the E2E of all ok requests",
}


@dataclass(frozen=True, slots=True)
class Blame:
    """Everything `tailtrace blame` tells of a run. `spread` is by `KINDS`."""

    run: str
    only: Filter
    whole: Ledger
    ledgers: Ledgers
    spread: dict[str, Spread]
    interference: Interference
    culprits: Sequence[dict[str, Any]]
    pairs: Sequence[dict[str, Any]]


def blame(
    session: Session,
    only: Filter = EVERYTHING,
    slow: Slow | None = None,
    by: str = "tier",
    cursor: "duckdb.DuckDBPyConnection | None" = None,
) -> Blame:
    """Blame for the answered requests under a filter; `by` groups victims and culprits, one of `interference.CLASSES`.

    `cursor` is a fresh one, which lets the caller interrupt. Odd runs have empty parts and fail nothing.
    """
    cursor = cursor if cursor is not None else session.connect()
    session.narrow(cursor, only)
    return Blame(
        run=session.name,
        only=only,
        whole=read_whole(session, cursor),
        ledgers=read_ledgers(session, read_cohorts(session, slow or Slow(), cursor), cursor),
        spread={kind: read_spread(session, kind, cursor) for kind in KINDS},
        interference=read_interference(session, by, cursor),
        culprits=read_culprits(session, cursor),
        pairs=read_pairs(session, cursor),
    )


def document(found: Blame) -> dict[str, Any]:
    """For other programs. Sums are ns; means, differences and variances are fractions of ns and so have decimals."""
    return {
        "run": found.run,
        "filter": str(found.only),
        "whole": _ledger(found.whole),
        **ledger_document(found.ledgers),
        "spread": {kind: spread_document(spread) for kind, spread in found.spread.items()},
        "interference": interference_document(found.interference),
        "culprits": list(found.culprits),
        "pairs": list(found.pairs),
        "formulas": FORMULAS,
    }


def ledger_document(found: Ledgers) -> dict[str, Any]:
    """The cohorts, their sums in ns, and the excess of the slow ones."""
    cohorts = found.cohorts
    return {
        "cohorts": {
            "slow": str(cohorts.slow),
            "slow_filter": str(cohorts.slow_filter),
            "words": cohorts.words,
            "edge_ns": cohorts.edge,
            "typical_ns": [cohorts.low, cohorts.high],
        },
        "slow": _ledger(found.slow),
        "typical": _ledger(found.typical),
        "excess": {
            kind: [_excess(row) for row in excess(found.slow, found.typical, kind)] for kind in ("phases", "causes")
        },
    }


def spread_document(spread: Spread) -> dict[str, Any]:
    """The variance in ns², each part's share, and twice the covariance of every two parts."""
    return {
        "n": spread.n,
        "variance_ns2": float(spread.variance),
        "parts": [
            {"name": name, "variance_ns2": float(spread.of(name, name)), "share": _float(spread.share(name))}
            for name in spread.parts
        ],
        "pairs": [{"a": a, "b": b, "twice_cov_ns2": float(cov)} for a, b, cov in spread.pairs()],
    }


def interference_document(found: Interference) -> dict[str, Any]:
    """The matrix as a list of its cells, largest row and column first; `culprits` null is nobody."""
    cells = [
        {"victims": victims, "culprits": culprits, "ns": found.ns(victims, culprits), "causes_ns": dict(causes)}
        for victims in found.victims
        for culprits in [*found.culprits, None]
        if (causes := found.cells.get((victims, culprits)))
    ]
    return {"by": found.by, "e2e_ns": found.e2e_ns, "cells": cells, "listed": TOP}


def _ledger(ledger: Ledger) -> dict[str, Any]:
    return {
        "n": ledger.n,
        "e2e_ns": ledger.e2e_ns,
        "phases_ns": dict(ledger.phases),
        "causes_ns": dict(ledger.causes),
        "causes_modelled": sorted(ledger.modelled),
    }


def _excess(row: Excess) -> dict[str, Any]:
    return {
        "name": row.name,
        "slow_ns": float(row.slow),
        "typical_ns": float(row.typical),
        "excess_ns": float(row.ns),
        "share": _float(row.share),
    }


def _float(value: object) -> float | None:
    return None if value is None else float(value)  # type: ignore[arg-type]
