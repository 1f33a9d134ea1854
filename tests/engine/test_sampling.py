"""Tokens are drawn as temperature and nucleus say, and no neighbour in the batch changes what a request gets."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.model.best import best_indices
from engine.model.sampling import Choice, choose

VOCAB = 40


def random_logits(rows: int, seed: int, vocab: int = VOCAB) -> torch.Tensor:
    return torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed)) * 2


def frequencies(logits: torch.Tensor, choice: Choice, draws: int = 20_000) -> np.ndarray:
    """Shares of the tokens over as many indices of one seed."""
    choices = [Choice(choice.temperature, choice.top_p, choice.seed, index) for index in range(draws)]
    tokens = choose(logits.expand(draws, -1), choices)
    shares: np.ndarray = np.bincount(tokens, minlength=logits.shape[-1]) / draws
    return shares


def distribution(logits: torch.Tensor, temperature: float, top_p: float) -> np.ndarray:
    """The definition, in plain numpy: the fewest likeliest tokens that reach `top_p`, scaled up to 1."""
    scaled = np.exp(logits.double().numpy() / temperature)
    shares = scaled / scaled.sum()
    order = np.argsort(-shares)
    kept = order[: int(np.searchsorted(np.cumsum(shares[order]), top_p)) + 1]
    nucleus = np.zeros_like(shares)
    nucleus[kept] = shares[kept]
    result: np.ndarray = nucleus / nucleus.sum()
    return result


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.7, 1.0), (1.0, 0.9), (1.5, 0.5), (0.7, 0.05)])
def test_shares_are_those_of_the_definition(temperature: float, top_p: float) -> None:
    """Tolerance: 5 standard errors of the largest share's variance over 20,000 draws."""
    logits = random_logits(1, seed=3)[0]
    found = frequencies(logits, Choice(temperature, top_p, seed=11))
    wanted = distribution(logits, temperature, top_p)
    assert np.abs(found - wanted).max() < 5 * np.sqrt(0.25 / 20_000)
    assert (found[wanted == 0] == 0).all()


def test_a_nucleus_wider_than_the_likeliest_is_searched_in_full() -> None:
    """1,000 tokens of like probability: 90 % of them are far more than are sorted at first."""
    logits = torch.linspace(0, 0.1, 1000)
    found = frequencies(logits, Choice(1.0, 0.9, seed=5), draws=5000)
    wanted = distribution(logits, 1.0, 0.9)
    assert 880 < (wanted > 0).sum() < 920
    assert found[wanted == 0].sum() == 0
    assert (found > 0).sum() > 850


@given(
    rows=st.lists(
        st.builds(
            Choice,
            temperature=st.sampled_from([0.0, 0.5, 1.0]),
            top_p=st.sampled_from([0.1, 0.9, 1.0]),
            seed=st.integers(-(2**70), 2**70),
            index=st.integers(0, 5000),
        ),
        min_size=1,
        max_size=8,
    ),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_neighbours_change_nothing(rows: list[Choice], data: st.DataObject) -> None:
    logits = random_logits(len(rows), seed=1, vocab=400)
    together = choose(logits, rows)
    row = data.draw(st.integers(0, len(rows) - 1))
    assert choose(logits[row : row + 1], [rows[row]]) == [together[row]]


def test_greedy_is_the_best_and_a_cold_draw_nearly_always_too() -> None:
    logits = random_logits(8, seed=2)
    best = logits.argmax(dim=-1).tolist()
    assert choose(logits, [Choice()] * 8) == best
    assert choose(logits, [Choice(temperature=1e-3, seed=4, index=row) for row in range(8)]) == best
    assert choose(logits, [Choice(1.0, top_p=1e-6, seed=4, index=row) for row in range(8)]) == best


def test_seed_and_index_decide() -> None:
    numbers = {Choice(seed=seed, index=index).uniform() for seed in range(20) for index in range(20)}
    assert len(numbers) == 400
    assert Choice(seed=7, index=3).uniform() == Choice(seed=7, index=3).uniform()
    assert 0.45 < float(np.mean(sorted(numbers))) < 0.55


@given(length=st.sampled_from([1, 5, 64, 100, 640, 6400]), count=st.sampled_from([1, 3, 8]), seed=st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_the_best_are_those_of_topk(length: int, count: int, seed: int) -> None:
    values = random_logits(3, seed, length)
    found = best_indices(values, count)
    assert torch.equal(values.gather(1, found), values.topk(min(count, length)).values)
    assert all(len(set(row.tolist())) == len(row) for row in found)


def test_impossible_tokens_are_never_drawn() -> None:
    logits = torch.full((1, 6), float("-inf"))
    logits[0, [1, 4]] = 0.0
    drawn = {choose(logits, [Choice(1.0, 1.0, seed, 0)])[0] for seed in range(50)}
    assert drawn == {1, 4}
