"""What is simulated: the configuration, the cost of its steps, and how many workers of which size."""

from dataclasses import dataclass, field
from typing import Final

from engine.config import Config, ConfigError
from engine.load.retry import NEVER, Retrying
from engine.scheduling import PagedScheduler, make_scheduler
from engine.scheduling.admission import Room
from engine.scheduling.forecast import Predictor
from engine.simulate.clock import Delays
from engine.simulate.cost import Cost, KnownCost, KnownTime, LinearCost
from engine.simulate.faults import Loss, planned_losses

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
    retrying: Retrying = NEVER
    """What clients do that are turned away."""
    plans_ahead: bool = False
    """Each pass is planned while the one before it runs, as other engines do: who comes or ends meanwhile makes a
    difference one pass later. Jumps alone know of it."""

    @classmethod
    def of(cls, config: Config, longest: int, workers: int = 1) -> "Setup":
        """As the configuration has it, for requests of at most `longest` tokens of prompt and output.

        Without `max_model_len` nothing that the workload holds is too long; without `num_blocks` or `memory_mb`, memory
        never ends. Raises ConfigError for limits in MiB where `token_bytes` is not given, and for workers that are to
        be lost and are not there.
        """
        planned_losses(config, workers)
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

    @property
    def losses(self) -> list[Loss]:
        """The workers that are lost, in order of time. Raises ConfigError for such as there are not."""
        return planned_losses(self.config, self.workers)

    @property
    def room(self) -> Room:
        """What each worker has room for."""
        return Room(self.num_blocks, self.config.kv.block_size, self.max_model_len, self.config.kv.token_bytes)

    def known_cost(self) -> KnownCost | None:
        """What predicts steps without having seen any; None where that has to be learnt."""
        return KnownCost(self.cost) if isinstance(self.cost, KnownTime) else None

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
    if not kv.memory_mb:
        return 0
    blocks = kv.memory_mb * 2**20 // (kv.block_size * kv.token_bytes)
    if not blocks:
        raise ConfigError(
            f"[kv] memory_mb = {kv.memory_mb} holds no block of block_size = {kv.block_size} tokens of token_bytes ="
            f" {kv.token_bytes}; raise it"
        )
    return blocks


def _roomy(blocks_each: int, sequences: int, config: Config) -> int:
    """Blocks that hold as many sequences of the greatest length as run at once, beside the watermark."""
    needed = min(blocks_each * sequences, _MOST_BLOCKS)
    while needed < _MOST_BLOCKS and needed - config.kv.watermark_blocks(needed) < blocks_each * sequences:
        needed += needed // 8 + 1
    return needed
