"""The executor under the real scheduler: batched, chunked or preempted, each request gets its own tokens."""

from dataclasses import dataclass, field, replace

import pytest
import torch

from engine.config import Config, KvConfig, SchedulerConfig
from engine.core import Request, Slice, StepPlan
from engine.messages import Sampling
from engine.model.executor import TorchExecutor
from engine.model.loader import load_model
from engine.scheduling import make_scheduler
from recorder.words import EventKind, Role
from tests.engine.tiny_models import VOCAB, folder, oracle

BLOCK_SIZE = 4
PROMPTS = [[(7 * rid + 3 * index) % VOCAB for index in range(4 + 9 * rid)] for rid in range(6)]
OUTPUT = 12


def make_executor(num_blocks: int, eos_ids: frozenset[int] = frozenset(), dtype: str = "fp32") -> TorchExecutor:
    loaded = load_model(str(folder("llama")), device="cpu", dtype=dtype, threads=1)
    return TorchExecutor(loaded.decoder, num_blocks, BLOCK_SIZE, eos_ids, seed=5)


@dataclass
class Outcome:
    """What a run of the loop gave: tokens by rid, finish reasons, and kinds of events."""

    tokens: dict[int, list[int]] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    kinds: list[EventKind] = field(default_factory=list)
    cached_tokens: int = 0


def serve(
    executor: TorchExecutor, prompts: dict[int, list[int]], sampling: dict[int, Sampling], *, caching: bool = False
) -> Outcome:
    """Drive scheduler and executor, all requests at once, until everything has ended."""
    config = Config(
        scheduler=SchedulerConfig(max_num_batched_tokens=16, enable_chunked_prefill=True),
        kv=KvConfig(block_size=BLOCK_SIZE, watermark=0, enable_prefix_caching=caching),
    )
    scheduler = make_scheduler(config, executor.num_blocks, 10_000)
    outcome = Outcome({rid: [] for rid in prompts})
    for rid, prompt in prompts.items():
        assert scheduler.add(Request(rid, len(prompt), OUTPUT, 0, prompt_ids=prompt), 0).accepted
        executor.start(rid, prompt, sampling[rid])
    for now in range(10_000):
        plan = scheduler.plan(now)
        commit = scheduler.commit(plan, executor.execute(plan), now, now)
        outcome.kinds += [event.kind for event in commit.events]
        for sampled in commit.sampled:
            outcome.tokens[sampled.rid].append(sampled.token)
        for rid, end in commit.finished.items():
            outcome.reasons[rid] = end.reason
            outcome.cached_tokens += end.progress.cached_tokens
            executor.release(rid)
        if len(outcome.reasons) == len(prompts):
            break
    return outcome


def greedy_oracle(prompt: list[int]) -> list[int]:
    inputs = torch.tensor([prompt])
    with torch.no_grad():
        tokens = oracle("llama").generate(
            inputs, attention_mask=torch.ones_like(inputs), max_new_tokens=OUTPUT, do_sample=False, eos_token_id=None
        )
    return [int(token) for token in tokens[0, len(prompt) :]]


def test_greedy_tokens_are_those_of_transformers_under_preemption() -> None:
    executor = make_executor(num_blocks=24)
    outcome = serve(executor, dict(enumerate(PROMPTS)), dict.fromkeys(range(6), Sampling()))
    assert EventKind.PREEMPTED in outcome.kinds
    assert outcome.tokens == {rid: greedy_oracle(prompt) for rid, prompt in enumerate(PROMPTS)}
    assert executor.sequences == {}


def test_a_seeded_request_gets_the_same_tokens_alone_crowded_and_preempted() -> None:
    """SPEC D7: the same request under another load is the same request."""
    sampling = Sampling(temperature=1.0, top_p=0.9, seed=42)
    alone = serve(make_executor(64), {3: PROMPTS[3]}, {3: sampling}).tokens[3]
    crowd = serve(
        make_executor(24),
        dict(enumerate(PROMPTS)),
        {rid: replace_seed(sampling, rid) for rid in range(6)},
    )
    assert EventKind.PREEMPTED in crowd.kinds
    assert crowd.tokens[3] == alone
    assert len({tuple(tokens) for tokens in crowd.tokens.values()}) == 6


def replace_seed(sampling: Sampling, rid: int) -> Sampling:
    return sampling if rid == 3 else Sampling(sampling.temperature, sampling.top_p, rid)


def test_without_a_seed_the_engines_seed_and_the_rid_decide() -> None:
    sampling = Sampling(temperature=1.0)
    first, again, other = (
        serve(make_executor(64), {rid: PROMPTS[0]}, {rid: sampling}).tokens[rid] for rid in (0, 0, 1)
    )
    assert first == again != other


def test_the_end_of_text_stops_unless_it_is_ignored() -> None:
    tokens = greedy_oracle(PROMPTS[2])
    eos = frozenset({tokens[5]})
    first = tokens.index(tokens[5])
    stopped = serve(make_executor(64, eos), {0: PROMPTS[2]}, {0: Sampling()})
    assert (stopped.tokens[0], stopped.reasons[0]) == (tokens[: first + 1], "stop")
    ignoring = serve(make_executor(64, eos), {0: PROMPTS[2]}, {0: Sampling(ignore_eos=True)})
    assert (ignoring.tokens[0], ignoring.reasons[0]) == (tokens, "length")


def test_results_come_in_the_order_of_the_plan() -> None:
    executor = make_executor(64)
    for rid in range(3):
        executor.start(rid, PROMPTS[rid], Sampling())
    tables = [range(rid * 10, rid * 10 + 10) for rid in range(3)]
    slices = [Slice(rid, Role.PREFILL, len(PROMPTS[rid]), 0, tables[rid]) for rid in (2, 0, 1)]
    assert [each.rid for each in executor.execute(StepPlan(tuple(slices))).sampled] == [2, 0, 1]
    decodes = [Slice(rid, Role.DECODE, 1, len(PROMPTS[rid]), tables[rid]) for rid in (1, 2)]
    result = executor.execute(StepPlan((*decodes, replace(slices[1], samples=False))))
    assert [each.rid for each in result.sampled] == [1, 2]
    assert result.device_ns > 0


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_piece_of_a_prompt_gives_no_token_and_an_idle_pass_nothing(dtype: str) -> None:
    executor = make_executor(64, dtype=dtype)
    executor.start(0, PROMPTS[5], Sampling())
    piece = Slice(0, Role.PREFILL, 20, 0, range(10), samples=False)
    assert executor.execute(StepPlan((piece,))).sampled == ()
    idle = executor.execute(StepPlan(()))
    assert (idle.sampled, idle.device_ns) == ((), 0)


def test_a_plan_beyond_the_known_tokens_is_a_fault_of_the_scheduler() -> None:
    executor = make_executor(64)
    executor.start(0, PROMPTS[0], Sampling())
    with pytest.raises(ValueError, match="up to token 5, but 4 are known"):
        executor.execute(StepPlan((Slice(0, Role.PREFILL, 5, 0, range(2)),)))


@pytest.mark.parametrize("num_blocks", [1, 3, 64])
def test_warming_up_fits_any_cache_and_changes_no_answer(num_blocks: int) -> None:
    executor = make_executor(num_blocks)
    executor.warm_up()
    fresh = make_executor(num_blocks)
    for each in (executor, fresh):
        each.start(0, PROMPTS[0], Sampling())
    plan = StepPlan((Slice(0, Role.PREFILL, len(PROMPTS[0]), 0, range(1)),))
    assert executor.execute(plan).sampled == fresh.execute(plan).sampled


def test_a_prefix_from_the_cache_gives_the_logits_of_one_that_was_computed() -> None:
    """SPEC C4. The blocks of another request in a request's table, and only the rest of its prompt computed."""
    shared = [(5 * place) % VOCAB for place in range(3 * BLOCK_SIZE)]
    first, second = [*shared, 1, 2], [*shared, 3, 4, 5]
    executor = make_executor(20)
    executor.start(1, first, Sampling())
    executor.execute(StepPlan((Slice(1, Role.PREFILL, len(first), 0, range(4)),)))
    logits = []
    for before, blocks in ((len(shared), [0, 1, 2, 7]), (0, [8, 9, 10, 11])):
        executor.start(2, second, Sampling())
        part = Slice(2, Role.PREFILL, len(second) - before, before, blocks)
        with torch.inference_mode():
            logits.append(executor.decoder.forward(executor._batch([part]), executor.cache))
    torch.testing.assert_close(logits[0], logits[1])


def test_answers_are_the_same_with_the_cache_and_without() -> None:
    """SPEC C4: many that begin alike, in little memory, so that blocks are shared, evicted and found again."""
    prompts = {rid: [(3 * place) % VOCAB for place in range(12 + rid)] + [rid] * 3 for rid in range(8)}
    sampling = dict.fromkeys(prompts, Sampling())
    plain = serve(make_executor(60), prompts, sampling)
    cached = serve(make_executor(24), prompts, sampling, caching=True)
    assert cached.cached_tokens > 0
    assert plain.tokens == cached.tokens
