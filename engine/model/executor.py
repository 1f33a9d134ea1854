"""Runs step plans on the model: keeps each sequence's tokens, lays out the flat batch, samples."""

import time
from collections.abc import Sequence as Items
from dataclasses import dataclass

import numpy as np
import torch

from engine.core import Sampled, Slice, StepPlan, StepResult
from engine.messages import Sampling
from engine.model.decoder import Batch, Decoder
from engine.model.paging import AttentionPlanner, Span
from engine.model.sampling import Choice, choose


@dataclass(slots=True)
class _Sequence:
    tokens: list[int]
    sampling: Sampling
    seed: int

    def choice(self) -> Choice:
        return Choice(self.sampling.temperature, self.sampling.top_p, self.seed, len(self.tokens))


class TorchExecutor:
    """`engine.core.Executor` over a decoder and its paged cache of `num_blocks` blocks of `block_size` tokens.

    `seed` stands in for requests without one, mixed with their rid. `eos_ids` end a sequence unless it ignores them.
    """

    def __init__(
        self, decoder: Decoder, num_blocks: int, block_size: int, eos_ids: frozenset[int] = frozenset(), seed: int = 0
    ) -> None:
        self.decoder = decoder
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.eos_ids = eos_ids
        self.seed = seed
        self.cache = decoder.new_cache(num_blocks, block_size)
        self.planner = AttentionPlanner(decoder.spec, block_size, decoder.dtype, decoder.device)
        self.sequences: dict[int, _Sequence] = {}

    def start(self, rid: int, prompt: Items[int], sampling: Sampling) -> None:
        """Make a request known, before the first plan that names it."""
        seed = self.seed * 1_000_003 + rid if sampling.seed is None else sampling.seed
        self.sequences[rid] = _Sequence(list(prompt), sampling, seed)

    def release(self, rid: int) -> None:
        """Forget a request; an unknown rid is nothing to do."""
        self.sequences.pop(rid, None)

    def execute(self, plan: StepPlan) -> StepResult:
        """Compute every slice; sample for those with `samples`. `device_ns` is 0 for an idle plan."""
        if not plan.slices:
            return StepResult()
        slices = sorted(plan.slices, key=_row_order)
        sampling = [part for part in slices if part.samples]
        with torch.inference_mode():
            batch = self._batch(slices)
            timer = _DeviceTimer(self.decoder.device)
            logits = self.decoder.forward(batch, self.cache)
            tokens = choose(logits, [self.sequences[part.rid].choice() for part in sampling])
            device_ns = timer.stop()
        chosen = {part.rid: self._take(part.rid, token) for part, token in zip(sampling, tokens, strict=True)}
        return StepResult(tuple(chosen[part.rid] for part in plan.slices if part.samples), device_ns)

    def warm_up(self, max_rows: int = 128) -> list[list[Span]]:
        """Run prefills and decodes of typical sizes, so that no request pays for first calls. Before any request.

        Returns the steps that were run.
        """
        context = min(max_rows, self.num_blocks * self.block_size - 1)
        blocks = range(-(-(context + 1) // self.block_size))
        steps = [[Span(1, context, blocks)] * rows for rows in (1, 2, 4, 8, 16)]
        steps += [[Span(context, 0, blocks)], [Span(context // 2 + 1, context // 2, blocks)]]
        for spans in steps:
            self._dry_run(spans)
        return steps

    def _dry_run(self, spans: Items[Span]) -> None:
        rows = sum(span.tokens for span in spans)
        with torch.inference_mode():
            zeros = torch.zeros(rows, dtype=torch.int64, device=self.decoder.device)
            batch = Batch(zeros, zeros, zeros, self.planner.plan(spans))
            choose(self.decoder.forward(batch, self.cache), [Choice()] * rows)

    def _batch(self, slices: Items[Slice]) -> Batch:
        ends = np.cumsum([part.tokens for part in slices]) - 1
        positions = [np.arange(part.computed_before, part.computed_before + part.tokens) for part in slices]
        return Batch(
            self.planner.tensor(np.concatenate([self._inputs(part) for part in slices])),
            self.planner.tensor(np.concatenate(positions)),
            self.planner.tensor(ends[[part.samples for part in slices]]),
            self.planner.plan([Span(part.tokens, part.computed_before, part.blocks) for part in slices]),
        )

    def _inputs(self, part: Slice) -> np.ndarray:
        """The tokens that a slice computes."""
        known = self.sequences[part.rid].tokens
        end = part.computed_before + part.tokens
        if end > len(known):
            raise ValueError(f"the plan computes request {part.rid} up to token {end}, but {len(known)} are known")
        return np.asarray(known[part.computed_before : end])

    def _take(self, rid: int, token: int) -> Sampled:
        sequence = self.sequences[rid]
        sequence.tokens.append(token)
        return Sampled(rid, token, stop=token in self.eos_ids and not sequence.sampling.ignore_eos)


def _row_order(part: Slice) -> tuple[bool, int]:
    """Single rows first, by context, as the attention planner wants them; the rest as planned (sorting is stable)."""
    return (part.tokens > 1, part.computed_before if part.tokens == 1 else 0)


class _DeviceTimer:
    """Nanoseconds from making it to `stop`: by events on a GPU, by the clock where host and device are one."""

    def __init__(self, device: torch.device) -> None:
        self.begin = _recorded_event() if device.type == "cuda" else None
        self.start = time.monotonic_ns()

    def stop(self) -> int:
        if self.begin is None:
            return time.monotonic_ns() - self.start
        end = _recorded_event()
        end.synchronize()
        return round(self.begin.elapsed_time(end) * 1e6)


def _recorded_event() -> torch.Event:
    event = torch.Event("cuda", enable_timing=True)
    event.record()
    return event
