"""Attention over the paged cache: which rows read which blocks, worked out once a step and used by every layer.

A layer's cache is one tensor [num_blocks, block_size, 2 * kv_heads, head_dim], keys then values, so that a step writes
and gathers both at once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from engine.model.spec import ModelSpec

# One more group of decodes costs about as much as gathering and reading this many blocks for nothing (2-core CPU).
_WASTED_BLOCKS = {"cpu": 8, "cuda": 2048}


@dataclass(frozen=True, slots=True)
class Span:
    """A sequence's part of a step: `tokens` new rows on top of `before` cached ones, and its block table."""

    tokens: int
    before: int
    blocks: Sequence[int]


@dataclass(frozen=True, slots=True)
class DecodeGroup:
    """Rows of one token each whose contexts are of like length: blocks [rows * width]; masks by window, additive."""

    start: int
    stop: int
    blocks: Tensor
    masks: dict[int | None, Tensor]


@dataclass(frozen=True, slots=True)
class Prefill:
    """Rows of one sequence, which see `context` tokens; without `blocks` nothing was cached before its own rows.

    A window's mask [rows, context] is None where plain causality says the same.
    """

    start: int
    stop: int
    context: int
    blocks: Tensor | None
    masks: dict[int | None, Tensor | None]


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """What every layer needs to know: where new keys go, and what each row may see."""

    slots: Tensor
    decodes: tuple[DecodeGroup, ...]
    prefills: tuple[Prefill, ...]


class AttentionPlanner:
    """Builds plans for one model on one device."""

    def __init__(self, spec: ModelSpec, block_size: int, dtype: torch.dtype, device: torch.device) -> None:
        self.block_size = block_size
        self.dtype = dtype
        self.device = device
        self.windows = tuple(dict.fromkeys(spec.windows))
        self.wasted_blocks = _WASTED_BLOCKS[device.type]

    def plan(self, spans: Sequence[Span], slots: np.ndarray) -> AttentionPlan:
        """Plan a step whose rows are the spans' tokens in order: first those of one token, shortest context first."""
        singles = sum(1 for span in spans if span.tokens == 1)
        prefills, start = [], singles
        for span in spans[singles:]:
            prefills.append(self._prefill(span, start))
            start += span.tokens
        groups = split_by_width([self._width(span) for span in spans[:singles]], self.wasted_blocks)
        decodes = tuple(self._decode_group(spans, rows) for rows in groups)
        return AttentionPlan(self.tensor(slots), decodes, tuple(prefills))

    def _width(self, span: Span) -> int:
        return -(-(span.before + span.tokens) // self.block_size)

    def tensor(self, values: Sequence[int] | np.ndarray) -> Tensor:
        """Indices on the device."""
        return torch.tensor(values, dtype=torch.int64).to(self.device, non_blocking=True)

    def _decode_group(self, spans: Sequence[Span], rows: range) -> DecodeGroup:
        width = self._width(spans[rows.stop - 1])
        blocks: list[int] = []
        for row in rows:
            table = spans[row].blocks[:width]
            # Block 0 fills up; the mask hides it.
            blocks += [*table, *[0] * (width - len(table))]
        last = self.tensor([spans[row].before for row in rows]).unsqueeze(1)
        keys = torch.arange(width * self.block_size, device=self.device)
        masks = {window: self._mask(keys, last, window)[:, None, None, :] for window in self.windows}
        return DecodeGroup(rows.start, rows.stop, self.tensor(blocks), masks)

    def _prefill(self, span: Span, start: int) -> Prefill:
        context = span.before + span.tokens
        queries = torch.arange(span.before, context, device=self.device).unsqueeze(1)
        keys = torch.arange(context, device=self.device)
        masks: dict[int | None, Tensor | None] = {}
        for window in self.windows:
            plain = span.before == 0 and (window is None or window >= context)
            masks[window] = None if plain else self._mask(keys, queries, window)
        blocks = self.tensor(span.blocks[: self._width(span)]) if span.before else None
        return Prefill(start, start + span.tokens, context, blocks, masks)

    def _mask(self, keys: Tensor, queries: Tensor, window: int | None) -> Tensor:
        hidden = keys > queries
        if window is not None:
            hidden |= keys <= queries - window
        return torch.zeros(hidden.shape, dtype=self.dtype, device=self.device).masked_fill_(hidden, float("-inf"))


def split_by_width(widths: Sequence[int], wasted_blocks: int) -> Iterable[range]:
    """Cut rows of rising width into runs, each padded to its widest, none wasting more than `wasted_blocks`."""
    runs, stop = [], len(widths)
    while stop:
        start, wasted = stop - 1, 0
        while start and (wasted := wasted + widths[stop - 1] - widths[start - 1]) <= wasted_blocks:
            start -= 1
        runs.append(range(start, stop))
        stop = start
    return reversed(runs)


def attend(qkv: Tensor, cache: Tensor, plan: AttentionPlan, window: int | None, kv_heads: int) -> Tensor:
    """Write the new keys and values, then attend.

    qkv [rows, heads + 2 * kv_heads, head_dim] gives [rows, heads * head_dim]; `cache` is one layer's.
    Query heads that share a key head are taken together: as query rows in decodes, as heads of one in prefills
    (both measured faster on CPU than `enable_gqa`, four times for decodes in bf16).
    """
    heads = qkv.shape[1] - 2 * kv_heads
    cache.flatten(0, 1).index_copy_(0, plan.slots, qkv[:, heads:])
    queries = qkv[:, :heads].view(len(qkv), kv_heads, heads // kv_heads, -1)
    out = torch.empty_like(queries, memory_format=torch.contiguous_format)
    for group in plan.decodes:
        out[group.start : group.stop] = _decode(queries[group.start : group.stop], cache, group, window)
    for part in plan.prefills:
        rows = slice(part.start, part.stop)
        out[rows] = _prefill(queries[rows], qkv[rows, heads:], cache, part, window)
    return out.flatten(1)


def _decode(queries: Tensor, cache: Tensor, group: DecodeGroup, window: int | None) -> Tensor:
    rows, kv_heads, shared, head_dim = queries.shape
    context = cache.index_select(0, group.blocks).view(rows, -1, 2 * kv_heads, head_dim).transpose(1, 2)
    mask = group.masks[window]
    mask = mask.expand(rows, 1, shared, mask.shape[-1])
    return scaled_dot_product_attention(queries, context[:, :kv_heads], context[:, kv_heads:], mask)


def _prefill(queries: Tensor, own: Tensor, cache: Tensor, part: Prefill, window: int | None) -> Tensor:
    kv_heads, shared = queries.shape[1:3]
    mask = part.masks[window]
    if part.blocks is not None:
        own = cache.index_select(0, part.blocks).flatten(0, 1)[: part.context]
    context = own.transpose(0, 1).unsqueeze(1).expand(-1, shared, -1, -1)
    attended = scaled_dot_product_attention(
        queries.permute(1, 2, 0, 3), context[:kv_heads], context[kv_heads:], mask, is_causal=mask is None
    )
    return attended.permute(2, 0, 1, 3)
