"""How a token is chosen from logits: greedy, or by temperature and nucleus, the same whoever shares the batch."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.model.best import best_indices

# A nucleus mostly lies within so many of the likeliest tokens; sorting a vocabulary of 49 k takes 4 ms a row.
_LIKELIEST = 256


@dataclass(frozen=True, slots=True)
class Choice:
    """How one row's token is chosen: `temperature` 0 is greedy; `index` counts the sequence's tokens so far.

    Chance is a function of `seed` and `index` alone, so that neither the rest of the batch nor a preemption moves it.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    index: int = 0

    def uniform(self) -> float:
        """A number in [0, 1) of this seed and index."""
        bits = np.random.Philox(key=self.seed % 2**64, counter=self.index)
        return float(np.random.Generator(bits).random())


def choose(logits: Tensor, choices: Sequence[Choice]) -> list[int]:
    """One token for each row of logits [rows, vocab]."""
    tokens: list[int] = best_indices(logits, 1).flatten().tolist()
    chancy = [row for row, choice in enumerate(choices) if choice.temperature > 0]
    if chancy:
        drawn = _draw(logits[chancy], [choices[row] for row in chancy])
        for row, token in zip(chancy, drawn, strict=True):
            tokens[row] = token
    return tokens


def _draw(logits: Tensor, choices: Sequence[Choice]) -> list[int]:
    temperatures = _column([choice.temperature for choice in choices], logits)
    probabilities = torch.softmax(logits / temperatures, dim=-1)
    uniforms = _column([choice.uniform() for choice in choices], logits)
    tokens = [0] * len(choices)
    for nucleus in (False, True):
        rows = [row for row, choice in enumerate(choices) if (choice.top_p < 1) is nucleus]
        if rows:
            limits = _column([choices[row].top_p for row in rows], logits) if nucleus else None
            for row, token in zip(rows, _invert(probabilities[rows], uniforms[rows], limits), strict=True):
                tokens[row] = token
    return tokens


def _column(values: Sequence[float], like: Tensor) -> Tensor:
    return torch.tensor(values, dtype=torch.float32, device=like.device).unsqueeze(1)


def _invert(probabilities: Tensor, uniforms: Tensor, limits: Tensor | None) -> list[int]:
    """The token whose stretch of the cumulated probabilities holds each row's number."""
    if limits is None:
        return _pick(probabilities.cumsum(dim=-1), uniforms).tolist()
    tokens = best_indices(probabilities, _LIKELIEST)
    likeliest = probabilities.gather(1, tokens)
    picked = tokens.gather(1, _pick_nucleus(likeliest, uniforms, limits).unsqueeze(1)).squeeze(1)
    for row in (likeliest.sum(dim=-1, keepdim=True) < limits).flatten().nonzero().flatten().tolist():
        everything, order = probabilities[row : row + 1].sort(dim=-1, descending=True, stable=True)
        picked[row] = order[0, _pick_nucleus(everything, uniforms[row : row + 1], limits[row : row + 1])[0]]
    return picked.tolist()


def _pick_nucleus(falling: Tensor, uniforms: Tensor, limits: Tensor) -> Tensor:
    """Among the fewest likeliest tokens that together reach the limit; at least one."""
    before = falling.cumsum(dim=-1) - falling
    kept = falling * (before < limits)
    return _pick(kept.cumsum(dim=-1), uniforms)


def _pick(cumulated: Tensor, uniforms: Tensor) -> Tensor:
    targets = uniforms * cumulated[:, -1:]
    # `right` skips tokens of no probability; the clamp guards against a product rounded up to the sum.
    found = torch.searchsorted(cumulated, targets, right=True).squeeze(1)
    last = (cumulated < cumulated[:, -1:]).sum(dim=-1)
    return torch.minimum(found, last)
