"""Which rows of a step write and read which places of the paged cache: worked out once, used by every layer.

A layer's cache is one tensor [num_blocks, 2 * kv_heads, block_size, head_dim], keys then values. A head's part of a
block lies in one piece, so that a gather in the order (head, block) gives each head its context without a copy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.calls import TILE_ROWS, WASTED_BLOCKS, split_by_width
from engine.model.spec import ModelSpec

Masks = dict[int | None, Tensor | None]
"""By window: what to add to the scores of the last keys; None where the kernel knows causality by itself."""


@dataclass(frozen=True, slots=True)
class Span:
    """A sequence's part of a step: `tokens` new rows on top of `before` cached ones, and its block table."""

    tokens: int
    before: int
    blocks: Sequence[int]


@dataclass(frozen=True, slots=True)
class DecodeGroup:
    """Rows of one token each, padded to the longest context: `gather` gives [2, rows, kv_heads, context, head_dim]."""

    start: int
    stop: int
    gather: Tensor
    masks: Masks


@dataclass(frozen=True, slots=True)
class Tile:
    """Some of a prefill's rows, which see the first `context` tokens and not more."""

    start: int
    stop: int
    context: int
    masks: Masks


@dataclass(frozen=True, slots=True)
class Prefill:
    """Rows of one sequence: `gather` gives [2 * kv_heads, context, head_dim]; None where its rows are all there is."""

    start: int
    stop: int
    gather: Tensor | None
    tiles: tuple[Tile, ...]


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """What every layer needs to know. `slots` [rows * 2 * kv_heads] are where keys and values go."""

    slots: Tensor
    decodes: tuple[DecodeGroup, ...]
    prefills: tuple[Prefill, ...]
    fused: bool


class AttentionPlanner:
    """Builds plans for one model on one device. `fused` plans are for kernels that tile for themselves."""

    def __init__(
        self, spec: ModelSpec, block_size: int, dtype: torch.dtype, device: torch.device, *, fused: bool | None = None
    ) -> None:
        self.block_size = block_size
        self.dtype = dtype
        self.device = device
        self.kv_heads = spec.kv_heads
        self.windows = tuple(dict.fromkeys(spec.windows))
        self.fused = device.type != "cpu" if fused is None else fused
        self.wasted_blocks = WASTED_BLOCKS[device.type]

    def plan(self, spans: Sequence[Span]) -> AttentionPlan:
        """Plan a step whose rows are the spans' tokens in order: first those of one token, shortest context first."""
        singles = sum(1 for span in spans if span.tokens == 1)
        prefills, start = [], singles
        for span in spans[singles:]:
            prefills.append(self._prefill(span, start))
            start += span.tokens
        widths = [self._width(span) for span in spans[:singles]]
        decodes = [self._decode_group(spans, rows) for rows in split_by_width(widths, self.wasted_blocks)]
        slots = self.tensor(np.concatenate([self._slots(span) for span in spans]))
        return AttentionPlan(slots, tuple(decodes), tuple(prefills), self.fused)

    def tensor(self, values: np.ndarray) -> Tensor:
        """Indices on the device."""
        return torch.from_numpy(values).to(self.device, torch.int64, non_blocking=True)

    def _width(self, span: Span) -> int:
        return -(-(span.before + span.tokens) // self.block_size)

    def _heads(self, blocks: np.ndarray) -> np.ndarray:
        """Each block's pieces, one a head: [..., 2 * kv_heads]."""
        return blocks[..., None] * (2 * self.kv_heads) + np.arange(2 * self.kv_heads)

    def _slots(self, span: Span) -> np.ndarray:
        positions = np.arange(span.before, span.before + span.tokens)
        blocks = np.asarray(span.blocks)[positions // self.block_size]
        slots: np.ndarray = self._heads(blocks) * self.block_size + positions[:, None] % self.block_size
        return slots.ravel()

    def _decode_group(self, spans: Sequence[Span], rows: range) -> DecodeGroup:
        width = self._width(spans[rows.stop - 1])
        # Block 0 fills up; the mask hides it.
        tables = np.zeros((len(rows), width), dtype=np.int64)
        for index, row in enumerate(rows):
            table = spans[row].blocks[:width]
            tables[index, : len(table)] = table
        pieces = self._heads(tables).reshape(len(rows), width, 2, self.kv_heads).transpose(2, 0, 3, 1)
        last = self.tensor(np.array([spans[row].before for row in rows])).repeat_interleave(self.kv_heads)
        masks: Masks = {
            window: self._mask(last[:, None, None, None], width * self.block_size, window) for window in self.windows
        }
        return DecodeGroup(rows.start, rows.stop, self.tensor(pieces.ravel()), masks)

    def _prefill(self, span: Span, start: int) -> Prefill:
        gather = None
        if span.before:
            gather = self.tensor(self._heads(np.asarray(span.blocks[: self._width(span)])).T.ravel())
        step = span.tokens if self.fused else TILE_ROWS["cpu"]
        tiles = []
        for first in range(0, span.tokens, step):
            stop = min(first + step, span.tokens)
            masks = {window: self._tile_mask(span, first, stop, window) for window in self.windows}
            tiles.append(Tile(start + first, start + stop, span.before + stop, masks))
        return Prefill(start, start + span.tokens, gather, tuple(tiles))

    def _tile_mask(self, span: Span, first: int, stop: int, window: int | None) -> Tensor | None:
        context = span.before + stop
        windowed = window is not None and window < context
        if self.fused and not windowed and not span.before:
            return None
        queries = torch.arange(span.before + first, context, device=self.device).unsqueeze(1)
        if windowed or self.fused:
            return self._mask(queries, context, window)
        # Only the keys of the tile itself are partly hidden.
        return self._mask(queries - (span.before + first), stop - first, None)

    def _mask(self, queries: Tensor, keys: int, window: int | None) -> Tensor:
        """-inf where key k is hidden from the query at its position, else 0; [..., keys]."""
        key = torch.arange(keys, device=self.device)
        hidden = key > queries
        if window is not None:
            hidden |= key <= queries - window
        return torch.zeros(hidden.shape, dtype=self.dtype, device=self.device).masked_fill_(hidden, float("-inf"))
