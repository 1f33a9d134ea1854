"""What prompts are made of in virtual time: numbers that are equal where the tokens are known to be equal."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

NUMBERED_TOKENS = 512
"""Tokens of a prompt that one number of `Workload.prefixes` stands for."""

Run = tuple[int, int]
"""Up to which token of a sequence, and whose tokens those are: the number of a request."""


@dataclass(frozen=True, eq=False)
class Alike:
    """For each request the earlier one that it begins like for longest, and for how many tokens."""

    of: Ints
    """Its number, from 1; 0: nobody."""
    tokens: Ints


def alike(prefixes: Sequence[Sequence[int]], prompt_tokens: Sequence[int]) -> Alike:
    """From numbers that each stand for the next `NUMBERED_TOKENS` of a prompt and all tokens before them."""
    reached: dict[int, tuple[int, int]] = {}
    of, shared = np.zeros(len(prefixes), np.int64), np.zeros(len(prefixes), np.int64)
    for place, (numbers, prompt) in enumerate(zip(prefixes, prompt_tokens, strict=True)):
        for at, number in enumerate(numbers, 1):
            upto = min(at * NUMBERED_TOKENS, prompt)
            other, most = reached.get(number, (0, 0))
            if min(upto, most) > shared[place]:
                of[place], shared[place] = other, min(upto, most)
            if upto > most:
                reached[number] = (place + 1, upto)
    return Alike(of, shared)


class Contents:
    """The tokens of requests: each is the number of the request that had them first, with a minus."""

    def __init__(self) -> None:
        self._runs: dict[int, Sequence[Run]] = {}
        """Of those that begin like another; all other tokens are a request's own."""

    def prompt(self, number: int, tokens: int, prefix_of: int, prefix_tokens: int) -> list[int]:
        """The prompt of a request that begins like an earlier one; asked in the order of their numbers."""
        made: list[int] = []
        if prefix_tokens:
            before = (*self._runs.get(prefix_of, ()), (prefix_tokens, prefix_of))
            runs = self._runs[number] = _cut(before, prefix_tokens)
            for until, owner in runs:
                made += [-owner] * (min(until, tokens) - len(made))
        return made + [-number] * (tokens - len(made))


def _cut(runs: Sequence[Run], tokens: int) -> list[Run]:
    """The first `tokens` tokens of these."""
    kept: list[Run] = []
    for until, owner in runs:
        if not kept or kept[-1][0] < tokens:
            kept.append((min(until, tokens), owner))
    return kept
