"""The ledger of KV blocks over a stretch: held, cached, free, and held for clients that had no use for it any more."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from console.engine_view.bins import Bins
from console.engine_view.look import Asking
from console.timeline import Floats, Ints, Window

_SHOWN: Final = 8
NO_CACHE: Final = "there is no prefix cache: what is free holds nothing"
CACHED: Final = (
    "cached blocks are free to be taken and are not counted apart: at most as many as ended requests have given back"
)
DEAD: Final = (
    "blocks held after the answer was given or the deadline had passed, until they came back; at most as many as came"
    " back at the end. When a client went away unasked is not recorded, so what was held for it then is not among them"
)


@dataclass(frozen=True)
class KvLedger:
    """Blocks in each part of the stretch; `cached` is an upper bound, and NaN where the configuration is not known.

    `..._most` and `free_least` are of the whole stretch, whatever its parts are.
    """

    total: int
    held: Floats
    cached: Floats
    dead: Floats
    held_most: int | None
    cached_most: int | None
    dead_most: int = 0
    dead_block_s: float = 0.0
    """Blocks times seconds that were held for nobody."""
    dead_rows: tuple[dict[str, Any], ...] = ()

    def document(self) -> dict[str, Any]:
        """The numbers of it."""
        return {
            "blocks": self.total,
            "held_max": self.held_most,
            "free_min": None if self.held_most is None else self.total - self.held_most,
            "cached_at_most": self.cached_most,
            "dead_max": self.dead_most,
            "dead_block_s": self.dead_block_s,
            "dead": list(self.dead_rows[:_SHOWN]),
            "dead_requests": len(self.dead_rows),
        }


def kv_ledger(bins: Bins, kv: Mapping[str, Any], changes: pa.Table) -> KvLedger:
    """Held and free as recorded with each pass, and what can be cached at most under the configuration `kv`."""
    cached = _cached(bins, changes, kv)
    given_back = int(changes["freed_blocks"].to_numpy().sum())
    free = bins.free_max
    return KvLedger(
        total=bins.blocks_max or 0,
        held=bins.held,
        cached=cached,
        dead=np.full(bins.count, np.nan),
        held_most=bins.held_max,
        cached_most=None if free is None or np.isnan(cached).all() else min(free, given_back) if cached.any() else 0,
    )


def with_dead(asking: Asking, ledger: KvLedger) -> KvLedger:
    """The same with what was held for nobody."""
    rows = asking.ask("engine_dead")
    since, until, blocks = (rows[name].to_numpy() for name in ("since", "until", "blocks"))
    levels = held_between(since, until, blocks, asking.look.window, len(ledger.held))
    return replace(
        ledger,
        dead=np.minimum(levels, ledger.held),
        dead_most=min(int(levels.max(initial=0)), ledger.held_most or 0),
        dead_block_s=float(((until - since).astype(float) * blocks).sum()) / 1e9,
        dead_rows=tuple(_largest_first(rows)),
    )


def held_between(since: Ints, until: Ints, blocks: Ints, window: Window, count: int) -> Floats:
    """The most blocks held at one instant of each of `count` parts, where each lot is held over `[since, until)`."""
    times = np.concatenate([since, until])
    order = np.lexsort((np.concatenate([np.ones(len(since)), np.zeros(len(until))]), times))
    level = np.concatenate([[0], np.cumsum(np.concatenate([blocks, -blocks])[order])])
    times = times[order]
    edges = window.edges(count)
    first = np.searchsorted(times, edges[:-1], "right")
    stop = np.maximum(np.searchsorted(times, edges[1:], "left"), first) + 1
    ends = np.column_stack([first, stop]).ravel()
    peaks: Floats = np.maximum.reduceat(np.append(level, 0).astype(float), ends)[::2]
    return peaks


def _cached(bins: Bins, changes: pa.Table, kv: Mapping[str, Any]) -> Floats:
    if "enable_prefix_caching" not in kv:
        return np.full(bins.count, np.nan)
    if not kv["enable_prefix_caching"]:
        return np.where(np.isnan(bins.free), np.nan, 0.0)
    before = changes["freed_blocks"].to_numpy()[changes["bin"].to_numpy() < 0].sum()
    given_back = before + per_part(changes, "freed_blocks", bins.count).cumsum()
    cached: Floats = np.minimum(bins.free, given_back)
    return cached


def per_part(changes: pa.Table, name: str, count: int) -> Floats:
    """A column of `engine_changes` in each part of the stretch; what was before it is left out."""
    parts, amounts = changes["bin"].to_numpy(), changes[name].to_numpy()
    return np.bincount(parts[parts >= 0], amounts[parts >= 0], count).astype(np.float64)


def _largest_first(rows: pa.Table) -> list[dict[str, Any]]:
    found = [{**row, "held_ns": row["until"] - row["since"]} for row in rows.to_pylist()]
    return sorted(found, key=lambda row: -row["held_ns"] * row["blocks"])
