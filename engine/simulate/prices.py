"""What passes cost in jumps: from sums over decodes, to the same ps as `engine.simulate.cost` slice by slice."""

from collections.abc import Iterable, Sequence
from typing import Final

from engine.calls import Part
from engine.simulate.cost import TwoRegimes, pairs
from engine.simulate.running import Decodes, Running

_ALWAYS: Final = 2**62


class Prices:
    """Costs of the passes of one worker, in ps."""

    def __init__(self, cost: TwoRegimes, most: int, decodes: Decodes) -> None:
        decode, mixed, self._shape = cost.decode, cost.mixed, cost.shape
        self._decodes = decodes
        self.mixed = mixed
        self.alone = [decode.step + decode.decode * n + self._shape.of_size(n) for n in range(most + 1)]
        self.beside = [mixed.step + mixed.decode * n for n in range(most + 1)]
        """A pass of n decodes without their contexts: alone, and beside prompts."""
        self.alone_kv = decode.decode_kv
        """Each token of context of decodes alone."""
        self.has_calls = self._shape.call > 0
        """Calls of attention cost something by themselves: they follow from every single context."""

    def of_decodes(self) -> int:
        """The next pass, if its decodes are alone."""
        decodes = self._decodes
        n = len(decodes.members)
        return self.alone[n] + self.alone_kv * (decodes.base + n * decodes.count) + self._calls(0)

    def of_mixed(self, parts: Sequence[tuple[Running, int, int]]) -> int:
        """The next pass, if it also computes these parts of prompts."""
        cost, decodes = self.mixed, self._decodes
        n = len(decodes.members)
        price = self.beside[n] + cost.decode_kv * (decodes.base + n * decodes.count)
        for running, tokens, _ in parts:
            price += tokens * cost.prefill + pairs(tokens, running.computed) * cost.prefill_pair
        return price + self._calls(0, ((tokens, running.computed) for running, tokens, _ in parts))

    def calls(self) -> tuple[int, int]:
        """What the calls of decodes alone take now, and for how many passes that does not change."""
        now = self._calls(0)
        for passes in range(1, self._shape.attention.block_size):
            if self._calls(passes) != now:
                return now, passes
        return now, _ALWAYS  # contexts grow alike: from here on it begins anew

    def _calls(self, after: int, parts: Iterable[Part] = ()) -> int:
        """Of the pass that comes after so many others."""
        if not self.has_calls:
            return 0
        count = self._decodes.count + after
        return self._shape.of_calls([*((1, running.base + count) for running in self._decodes.members), *parts])
