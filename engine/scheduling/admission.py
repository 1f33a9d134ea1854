"""What can never finish on a worker is refused when it comes, with words for its client (DESIGN 3)."""

from engine.config import SchedulerConfig
from engine.core import Request
from engine.scheduling.blocks import BlockPool


def refusal(request: Request, config: SchedulerConfig, pool: BlockPool, max_model_len: int) -> str:
    """Why the request can never finish here; empty if it can."""
    prompt, most = request.prompt_tokens, request.max_tokens
    if prompt < 1 or most < 1:
        return f"a request needs a prompt and room for output: prompt {prompt} tokens, max_tokens {most}"
    asked = f"the prompt ({prompt} tokens) and max_tokens ({most}) together"
    if prompt + most > max_model_len:
        return f"{asked} are more than the {max_model_len} tokens of the model's context"
    # The last token of the output is never fed back, so it needs no room in the cache.
    if pool.blocks_for(prompt + most - 1) > pool.total:
        return f"{asked} are more than the KV cache holds ({pool.total * pool.block_size} tokens)"
    budget = config.max_num_batched_tokens
    if not config.enable_chunked_prefill and prompt > budget:
        return f"the prompt ({prompt} tokens) is longer than the {budget} tokens that one step computes here"
    return ""
