"""What attention is called for in a step: decodes of like contexts together, padded to the widest; prompts in tiles."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

WASTED_BLOCKS: Final = {"cpu": 8, "cuda": 2048}
"""One more group of decodes costs a layer about as much as gathering and reading so many blocks for nothing. Reckoned
from the cost of a call, not tuned; the number for GPUs has not been tried on one."""
TILE_ROWS: Final = {"cpu": 64}
"""Scores of so many rows stay in a core's cache: the attention of a prefill of 512 took 3.9 ms a layer, 9.7 in one
piece (bf16, this operator alone). Kernels elsewhere tile for themselves."""

Part = tuple[int, int]
"""Tokens of a slice, and tokens computed before it."""


@dataclass(frozen=True)
class Attention:
    """How attention takes the slices of a step together."""

    block_size: int = 16
    wasted_blocks: int = 0
    tile_rows: int = 0
    """0: each prompt in one piece."""

    @classmethod
    def on(cls, device: str, block_size: int) -> "Attention | None":
        """As this engine has it on a device (such as `cpu`, `cuda:0`); None for what it does not know."""
        kind = device.partition(":")[0]
        if kind not in WASTED_BLOCKS:
            return None
        return cls(block_size, WASTED_BLOCKS[kind], TILE_ROWS.get(kind, 0))

    def calls(self, parts: Iterable[Part]) -> int:
        """Of all layers' calls, those of one layer. Slices of one token go together, whatever they are part of."""
        widths, tiles = [], 0
        for tokens, before in parts:
            if tokens == 1:
                widths.append(before // self.block_size + 1)
            else:
                tiles += -(-tokens // self.tile_rows) if self.tile_rows else 1
        return tiles + len(split_by_width(sorted(widths), self.wasted_blocks))


def split_by_width(widths: Sequence[int], wasted_blocks: int) -> list[range]:
    """Cut rows of rising width into runs, each padded to its widest, none wasting more than `wasted_blocks`."""
    runs, stop = [], len(widths)
    while stop:
        start, wasted = stop - 1, 0
        while start and (wasted := wasted + widths[stop - 1] - widths[start - 1]) <= wasted_blocks:
            start -= 1
        runs.append(range(start, stop))
        stop = start
    return runs[::-1]
