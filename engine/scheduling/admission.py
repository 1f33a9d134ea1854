"""What can never finish on a worker is refused when it comes, with words for its client (DESIGN 3)."""

from dataclasses import dataclass

from engine.config import SchedulerConfig
from engine.core import Request


@dataclass(frozen=True, slots=True)
class Room:
    """What a worker has room for: so many KV blocks, and no sequence longer than `max_model_len` tokens."""

    blocks: int
    block_size: int
    max_model_len: int
    token_bytes: int = 0
    """Memory of the keys and values of one token; 0: not known."""

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold `tokens` tokens."""
        return -(-tokens // self.block_size)

    def bytes_for(self, tokens: int) -> int:
        """Memory that those blocks take."""
        return self.blocks_for(tokens) * self.block_size * self.token_bytes


def refusal(request: Request, config: SchedulerConfig, room: Room) -> str:
    """Why the request can never finish here, short enough to be recorded whole; empty if it can."""
    prompt, most = request.prompt_tokens, request.max_tokens
    if prompt < 1 or most < 1:
        return f"a request needs a prompt and room for output: prompt {prompt} tokens, max_tokens {most}"
    asked = f"prompt ({prompt}) and max_tokens ({most}) are more than"
    if prompt + most > room.max_model_len:
        return f"{asked} the {room.max_model_len} tokens of the model's context"
    # The last token of the output is never fed back, so it needs no room in the cache.
    if room.blocks_for(prompt + most - 1) > room.blocks:
        return f"{asked} the {room.blocks * room.block_size} tokens that the KV cache holds"
    budget = config.max_num_batched_tokens
    if not config.enable_chunked_prefill and prompt > budget:
        return f"the prompt ({prompt} tokens) is longer than the {budget} tokens that one step computes here"
    return ""
