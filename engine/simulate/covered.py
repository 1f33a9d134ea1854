"""For which configurations jumps decide as the scheduler would; all others are lived through pass by pass."""

from typing import Final

from engine.config import Config, to_dict
from engine.simulate.cost import KnownTime
from engine.simulate.setup import Setup

_KNOWN: Final = {
    "scheduler": {
        *("max_num_seqs", "max_num_batched_tokens", "enable_chunked_prefill", "long_prefill_token_threshold"),
        *("max_batch_size", "max_queue_delay_ms", "max_queue_delay_microseconds"),  # heard by other policies alone
    },
    "kv": {"block_size", "num_blocks", "memory_mb", "token_bytes", "watermark"},
}
"""Keys that jumps heed. All others of these sections have to be at their defaults, which ask for nothing more."""


def covers(setup: Setup) -> bool:
    """Whether jumps decide as the scheduler would: continuous batching, first come first served, and a linear cost
    in one regime or two. No worker is lost.

    Whatever else is configured has to be lived through pass by pass; so a policy that comes later is never jumped over.
    """
    have, default = to_dict(setup.config), to_dict(Config())
    return (
        isinstance(setup.cost, KnownTime)
        and not setup.losses
        and all(
            have[section][name] == value
            for section, known in _KNOWN.items()
            for name, value in default[section].items()
            if name not in known
        )
    )
