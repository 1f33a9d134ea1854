"""What is simulated: the configuration, the cost of its steps, and how many workers of which size."""

from dataclasses import dataclass, field
from typing import Final

from engine.config import Config, ConfigError
from engine.scheduling import PagedScheduler, make_scheduler
from engine.scheduling.forecast import Predictor
from engine.simulate.clock import Delays
from engine.simulate.cost import Cost, LinearCost

_MOST_BLOCKS: Final = 16_777_216


@dataclass(frozen=True, kw_only=True)
class Setup:
    """`num_blocks` KV blocks on each of `workers` equal workers."""

    config: Config
    cost: Cost
    num_blocks: int
    max_model_len: int
    delays: Delays = field(default_factory=Delays)
    workers: int = 1

    @classmethod
    def of(cls, config: Config, longest: int, workers: int = 1) -> "Setup":
        """As the configuration has it, for requests of at most `longest` tokens of prompt and output.

        Without `max_model_len` nothing that the workload holds is too long; without `num_blocks` or `memory_mb`, memory
        never ends. Raises ConfigError for limits in MiB where `token_bytes` is not given.
        """
        max_model_len = config.engine.max_model_len or longest
        blocks_each = -(-max_model_len // config.kv.block_size)
        blocks = config.kv.num_blocks or _blocks_in_memory(config)
        return cls(
            config=config,
            cost=LinearCost.of(config.cost),
            num_blocks=blocks or _roomy(blocks_each, config.scheduler.max_num_seqs, config),
            max_model_len=max_model_len,
            delays=Delays.of(config.cost),
            workers=workers,
        )

    def scheduler(self, predictor: Predictor) -> PagedScheduler:
        """A fresh scheduler for one worker."""
        return make_scheduler(self.config, self.num_blocks, self.max_model_len, predictor)


def _blocks_in_memory(config: Config) -> int:
    """Blocks that `memory_mb` holds; 0 where it is not set."""
    kv, limits = config.kv, {"kv": config.kv.memory_mb, "scheduler": config.scheduler.max_queue_memory_mb}
    names = {"kv": "memory_mb", "scheduler": "max_queue_memory_mb"}
    for section, limit in limits.items():
        if limit and not kv.token_bytes:
            raise ConfigError(
                f"[{section}] {names[section]} = {limit} says nothing without a model: give [kv] token_bytes, which"
                " tailtrace capacity tells of a model"
            )
    if kv.memory_mb and (blocks := kv.memory_mb * 2**20 // (kv.block_size * kv.token_bytes)) < 1:
        raise ConfigError(f"[kv] memory_mb = {kv.memory_mb} holds no block of {kv.block_size} tokens of {kv.token_bytes} bytes; raise it")
    return blocks if kv.memory_mb else 0


def _roomy(blocks_each: int, sequences: int, config: Config) -> int:
    """Blocks that hold as many sequences of the greatest length as run at once, beside the watermark."""
    needed = min(blocks_each * sequences, _MOST_BLOCKS)
    while needed < _MOST_BLOCKS and needed - config.kv.watermark_blocks(needed) < blocks_each * sequences:
        needed += needed // 8 + 1
    return needed
