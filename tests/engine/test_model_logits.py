"""The decoder's logits are those of transformers, however the work is cut into steps and laid out in the cache."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.model.decoder import Batch, Decoder
from engine.model.loader import load_model
from engine.model.paging import AttentionPlanner, Span
from tests.engine.tiny_models import CONFIGS, VOCAB, folder, oracle, true_logits

BLOCK_SIZE = 4
NUM_BLOCKS = 64


@pytest.fixture(params=CONFIGS)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["products", "fused"])
def fused(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def load(family: str) -> Decoder:
    return load_model(str(folder(family)), device="cpu", dtype="fp32", threads=1).decoder


@dataclass
class Sequence:
    """Tokens, how many of them are computed, and a scrambled block table."""

    tokens: list[int]
    blocks: list[int]
    computed: int = 0
    logits: list[torch.Tensor] = field(default_factory=list)


class Bench:
    """A decoder with a cache, and sequences that take steps together."""

    def __init__(self, decoder: Decoder, *, fused: bool | None = None, seed: int = 0) -> None:
        self.decoder = decoder
        self.cache = decoder.new_cache(NUM_BLOCKS, BLOCK_SIZE)
        self.planner = AttentionPlanner(decoder.spec, BLOCK_SIZE, decoder.dtype, decoder.device, fused=fused)
        self.random = random.Random(seed)
        self.free = list(range(NUM_BLOCKS))
        self.random.shuffle(self.free)

    def tensor(self, values: Iterable[int]) -> torch.Tensor:
        return torch.tensor(list(values), device=self.decoder.device)

    def sequence(self, length: int) -> Sequence:
        tokens = [self.random.randrange(VOCAB) for _ in range(length)]
        return Sequence(tokens, [self.free.pop() for _ in range(-(-length // BLOCK_SIZE))])

    def step(self, *work: tuple[Sequence, int]) -> None:
        """Compute so many more tokens of each, and keep every row's logits."""
        order = sorted(work, key=lambda each: (each[1] > 1, each[0].computed if each[1] == 1 else 0))
        spans = [Span(count, sequence.computed, sequence.blocks) for sequence, count in order]
        tokens: list[int] = []
        positions: list[int] = []
        for sequence, count in order:
            tokens += sequence.tokens[sequence.computed : sequence.computed + count]
            positions += range(sequence.computed, sequence.computed + count)
        batch = Batch(
            self.tensor(tokens), self.tensor(positions), self.tensor(range(len(tokens))), self.planner.plan(spans)
        )
        with torch.inference_mode():
            logits = self.decoder.forward(batch, self.cache)
        for sequence, count in order:
            sequence.logits.append(logits[:count])
            sequence.computed += count
            logits = logits[count:]


def assert_true(family: str, *sequences: Sequence) -> None:
    for sequence in sequences:
        found = torch.cat(sequence.logits)
        torch.testing.assert_close(found, true_logits(family, sequence.tokens)[: len(found)], atol=1e-4, rtol=1e-4)


def test_the_oracle_is_worth_its_name(family: str) -> None:
    """Logits far from equal, so that an agreement to 1e-4 says something."""
    assert true_logits(family, list(range(20))).std() > 0.5
    assert oracle(family).training is False


def test_whole_prompts(family: str, fused: bool) -> None:
    bench = Bench(load(family), fused=fused)
    short, long = bench.sequence(7), bench.sequence(90)
    bench.step((short, 7), (long, 90))
    assert_true(family, short, long)


def test_chunks_and_decodes_share_steps(family: str, fused: bool) -> None:
    bench = Bench(load(family), fused=fused)
    chatty, other, long = bench.sequence(20), bench.sequence(30), bench.sequence(70)
    bench.step((chatty, 13), (other, 5))
    for _ in range(7):
        bench.step((long, 10), (chatty, 1), (other, 1))
    assert_true(family, chatty, other, long)


def test_a_preempted_sequence_is_computed_again(family: str, fused: bool) -> None:
    bench = Bench(load(family), fused=fused)
    victim = bench.sequence(24)
    bench.step((victim, 20))
    bench.step((victim, 1))
    # Another takes its blocks and overwrites them; it comes back elsewhere.
    thief = Sequence([1] * 24, victim.blocks)
    bench.step((thief, 24))
    back = Sequence(victim.tokens, [bench.free.pop() for _ in victim.blocks])
    bench.step((back, 21))
    bench.step((back, 1), (bench.sequence(6), 6))
    assert_true(family, victim, back)


@st.composite
def schedules(draw: st.DrawFn) -> list[list[tuple[int, int]]]:
    """Steps of (sequence, tokens): every sequence's prompt cut at random, steps interleaved at random."""
    lengths = draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
    left = dict(enumerate(lengths))
    steps = []
    while left:
        chosen = draw(st.lists(st.sampled_from(sorted(left)), min_size=1, max_size=len(left), unique=True))
        steps.append([(index, draw(st.integers(1, left[index]))) for index in chosen])
        for index, count in steps[-1]:
            left[index] -= count
        left = {index: rest for index, rest in left.items() if rest}
    return steps


@pytest.mark.parametrize("family", ["llama", "qwen2-windowed"])
@given(steps=schedules(), seed=st.integers(0, 9), fused=st.booleans())
@settings(max_examples=25, deadline=None)
def test_any_schedule_gives_the_same_logits(
    family: str, steps: list[list[tuple[int, int]]], seed: int, fused: bool
) -> None:
    bench = Bench(load(family), fused=fused, seed=seed)
    lengths: dict[int, int] = {}
    for index, count in _flat(steps):
        lengths[index] = lengths.get(index, 0) + count
    sequences = {index: bench.sequence(length) for index, length in lengths.items()}
    for step in steps:
        bench.step(*((sequences[index], count) for index, count in step))
    assert_true(family, *sequences.values())


def _flat(steps: list[list[tuple[int, int]]]) -> Iterator[tuple[int, int]]:
    for step in steps:
        yield from step


def test_bf16_stays_near_float32(family: str) -> None:
    """Tolerance: 4 % of the logits' spread (bf16 keeps 8 bits; three layers of random weights)."""
    decoder = load_model(str(folder(family)), device="cpu", dtype="bf16", threads=1).decoder
    bench = Bench(decoder, fused=False)
    sequence = bench.sequence(40)
    bench.step((sequence, 39))
    bench.step((sequence, 1))
    found, wanted = torch.cat(sequence.logits), true_logits(family, sequence.tokens)
    assert (found - wanted).pow(2).mean().sqrt() < 0.04 * wanted.std()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA GPU")
@pytest.mark.parametrize(("dtype", "share"), [("fp32", 1e-3), ("bf16", 0.04)])
def test_cuda_agrees(family: str, dtype: str, share: float) -> None:
    """Tolerance: `share` of the logits' spread; bf16 as on CPU, float32 with TF32 products off."""
    decoder = load_model(str(folder(family)), device="cuda", dtype=dtype).decoder
    bench = Bench(decoder)
    sequence = bench.sequence(40)
    bench.step((sequence, 30))
    for _ in range(10):
        bench.step((sequence, 1))
    found, wanted = torch.cat(sequence.logits).cpu(), true_logits(family, sequence.tokens)
    assert (found - wanted).pow(2).mean().sqrt() < share * wanted.std()
