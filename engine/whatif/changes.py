"""`--set key=value`: what is to be different, checked against the declared keys; and the engine that comes of it."""

from collections.abc import Mapping, Sequence

from engine.config import decides_in_virtual_time, find_key, typed_value
from engine.simulate.setup import Setup
from engine.whatif.recorded import Recorded, WhatIfError, recorded_config
from engine.whatif.rerun import Engine

Changes = Mapping[str, Mapping[str, object]]
"""Section -> key -> value."""


def parse_changes(items: Sequence[str]) -> dict[str, dict[str, object]]:
    """From `key=value` or `section.key=value`. WhatIfError for what is no change, names no key, or shows no effect."""
    changes: dict[str, dict[str, object]] = {}
    for item in items:
        name, equals, text = item.partition("=")
        if not equals or not text:
            raise WhatIfError(f"--set {item}: write key=value, for example --set max_num_seqs=32")
        section, key = _resolved(name.strip())
        if key in changes.get(section, {}):
            raise WhatIfError(f"--set {item}: {section}.{key} is set twice; keep one")
        changes.setdefault(section, {})[key] = typed_value(text.strip())
    return changes


def _resolved(name: str) -> tuple[str, str]:
    section, key = find_key(name, "--set")
    if section == "cost" or not decides_in_virtual_time(section, key):
        raise WhatIfError(f"--set {name}: {section}.{key} decides nothing that a re-run in virtual time can show")
    return section, key


def engine_of(recorded: Recorded, changes: Changes | None = None, workers: int | None = None) -> Engine:
    """The engine of the recording, with changes. A pool that is not set keeps the tokens that the recording's held.

    ConfigError or WhatIfError for changes that can't be.
    """
    changes = changes or {}
    if "memory_mb" in changes.get("kv", {}):
        raise WhatIfError("--set kv.memory_mb: what a block takes of the memory is not recorded; set kv.num_blocks")
    config = recorded_config(recorded.info, changes)
    longest = max(arrival.prompt_tokens + arrival.max_tokens for arrival in recorded.arrivals)
    room = Setup.of(config, longest, workers or recorded.workers)
    return Engine(
        config=config,
        num_blocks=_blocks(recorded, changes, config.kv.block_size) or room.num_blocks,
        max_model_len=_max_model_len(recorded, changes) or room.max_model_len,
        workers=workers or recorded.workers,
    )


def pool_is_known(recorded: Recorded) -> bool:
    """Whether the recording tells how much its KV cache held."""
    return bool(recorded.info.model.get("kv_blocks") or recorded.info.config.get("kv", {}).get("num_blocks"))


def _blocks(recorded: Recorded, changes: Changes, block_size: int) -> int:
    """Blocks of the pool; 0 where neither the recording nor a change tells."""
    asked = changes.get("kv", {})
    if asked.get("num_blocks"):
        return int(str(asked["num_blocks"]))
    before = int(recorded.info.model.get("kv_blocks") or recorded.info.config.get("kv", {}).get("num_blocks") or 0)
    size = int(recorded.info.config.get("kv", {}).get("block_size", block_size))
    return before * size // block_size


def _max_model_len(recorded: Recorded, changes: Changes) -> int:
    if "max_model_len" in changes.get("engine", {}):
        return 0  # the changed configuration has it
    return int(recorded.info.model.get("max_model_len") or 0)
