"""How much prefill a step can bear: the most after which no decode would be late (Sarathi-Serve, QoServe)."""

from collections.abc import Sequence as Items
from typing import Final

from engine.config import SchedulerConfig
from engine.core import Slice
from engine.scheduling.forecast import Forecast
from engine.scheduling.sequence import Sequence
from recorder.words import Role

_MARGIN: Final = 1.2
"""A step may take so much longer than predicted, and still be in time."""


def prefill_tokens(
    config: SchedulerConfig, forecast: Forecast, decodes: Items[Slice], *, left_ns: int, room: int, context: int
) -> int:
    """The most prefill tokens, of at most `room`, beside these decodes, whose next tokens are due in `left_ns`.

    They are computed on top of `context` tokens. Never less than `min_prefill_tokens`, so that prompts always advance,
    and all of the room where no prediction is to be had.
    """
    least, most = min(config.min_prefill_tokens, room), room
    while least < most:
        tokens = (least + most + 1) // 2
        takes = forecast.pass_ns([*decodes, Slice(0, Role.PREFILL, tokens, context, ())])
        if takes is None:
            return room
        if _MARGIN * takes <= left_ns:
            least = tokens
        else:
            most = tokens - 1
    return least


def due(sequence: Sequence, tpot_slo_ns: int) -> int:
    """When the next token of a decode is late: at an even pace since its first, so that who is ahead has slack."""
    progress = sequence.progress
    if progress.first_token is None:
        raise ValueError(f"request {sequence.rid} does not decode yet")
    return progress.first_token + progress.output_tokens * tpot_slo_ns
