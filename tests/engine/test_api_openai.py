"""The OpenAI client against a real server: answers whole and streamed, chats, usage, errors."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.engine.served import Served, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: Served) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def test_a_completion_has_its_text_and_usage(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="tiny", prompt="Hello", max_tokens=5, temperature=0)
    assert answer.choices[0].finish_reason == "length"
    assert answer.choices[0].text
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (5, 5, 10)


def test_a_stream_gives_the_same_text_piece_by_piece(client: openai.OpenAI) -> None:
    whole = client.completions.create(model="tiny", prompt="Hello", max_tokens=40, temperature=0)
    pieces, usage = [], None
    for chunk in client.completions.create(
        model="tiny", prompt="Hello", max_tokens=40, temperature=0, stream=True, stream_options={"include_usage": True}
    ):
        pieces += [choice.text for choice in chunk.choices]
        usage = chunk.usage or usage
    assert "".join(pieces) == whole.choices[0].text
    assert len(pieces) > 1
    assert usage == whole.usage


def test_a_chat_whole_and_streamed(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "Hi"}], max_completion_tokens=12, temperature=0
    )
    stream = client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "Hi"}], max_tokens=12, temperature=0, stream=True
    )
    deltas = [chunk.choices[0] for chunk in stream]
    assert whole.choices[0].message.role == "assistant"
    assert "".join(choice.delta.content or "" for choice in deltas) == whole.choices[0].message.content
    assert [choice.delta.role for choice in deltas if choice.delta.role] == ["assistant"]
    assert [choice.finish_reason for choice in deltas if choice.finish_reason] == ["length"]


def test_tokens_for_a_prompt_give_what_their_text_gives(client: openai.OpenAI) -> None:
    by_text = client.completions.create(model="tiny", prompt=["Hello"], max_tokens=8, temperature=0)
    from engine.model.source import open_model

    tokens = open_model("tiny", "dummy").tokenizer.encode("Hello")
    by_tokens = client.completions.create(model="tiny", prompt=tokens, max_tokens=8, temperature=0)
    assert by_tokens.choices[0].text == by_text.choices[0].text


def test_a_seed_repeats_a_sample(client: openai.OpenAI) -> None:
    first, again, other = (
        client.completions.create(model="tiny", prompt="Hello", max_tokens=20, temperature=1, seed=seed).choices[0].text
        for seed in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_string_ends_the_text_before_it(client: openai.OpenAI, server: Served, stream: bool) -> None:
    text = client.completions.create(model="tiny", prompt="Stop", max_tokens=30, temperature=1, seed=5).choices[0].text
    stop = text[len(text) // 3 :][:4]
    request_id = f"stopped-{stream}"
    answer = client.completions.create(
        model="tiny",
        prompt="Stop",
        max_tokens=30,
        temperature=1,
        seed=5,
        stop=[stop],
        stream=stream,
        extra_headers={"X-Request-Id": request_id},
    )
    choices = (
        [answer.choices[0]]
        if isinstance(answer, openai.types.Completion)
        else [choice for chunk in answer for choice in chunk.choices]
    )
    assert "".join(choice.text for choice in choices) == text[: text.index(stop)]
    assert choices[-1].finish_reason == "stop"
    row = server.await_status(request_id, ["ok"])
    assert row["last_token"] is not None


def test_ignore_eos_and_unknown_fields_are_taken(client: openai.OpenAI) -> None:
    extra = {"ignore_eos": True, "top_k": 5}
    assert client.completions.create(model="tiny", prompt="x", max_tokens=3, extra_body=extra).usage


def test_the_model_is_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]


def test_two_streams_at_once_both_come_whole(client: openai.OpenAI) -> None:
    streams = [
        client.completions.create(model="tiny", prompt=prompt, max_tokens=50, temperature=0, stream=True)
        for prompt in ("one", "two")
    ]
    texts = ["", ""]
    for pair in itertools.zip_longest(*streams):  # a slow reader gets several tokens in one chunk
        for i, chunk in enumerate(pair):
            texts[i] += chunk.choices[0].text if chunk else ""
    wholes = [
        client.completions.create(model="tiny", prompt=prompt, max_tokens=50, temperature=0).choices[0].text
        for prompt in ("one", "two")
    ]
    assert texts == wholes


def test_what_is_wrong_is_said_in_openais_shape(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="tiny", prompt="x", n=3)
    assert caught.value.param == "n"
    with pytest.raises(openai.NotFoundError) as missing:
        client.completions.create(model="other", prompt="x")
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as unknown_token:
        client.completions.create(model="tiny", prompt=[100_000])
    assert unknown_token.value.param == "prompt"


@pytest.mark.parametrize(("prompt_tokens", "max_tokens", "param"), [(10, 2048, "max_tokens"), (3000, 1, "prompt")])
def test_more_than_the_context_is_400_and_on_record(
    client: openai.OpenAI, server: Served, prompt_tokens: int, max_tokens: int, param: str
) -> None:
    """SPEC C2."""
    request_id = f"over-{param}"
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(
            model="tiny",
            prompt=[1] * prompt_tokens,
            max_tokens=max_tokens,
            stream=True,
            extra_headers={"X-Request-Id": request_id},
        )
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", param)
    row = server.await_status(request_id, ["rejected"])
    assert (row["http_status"], row["prompt_tokens"]) == (400, prompt_tokens)


def test_a_chat_may_fill_the_rest_of_the_context(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "x" * 1900}])
    assert answer.usage is not None
    assert answer.usage.total_tokens == 2048


def test_headers_name_the_request_its_tier_and_tenant(client: openai.OpenAI, server: Served) -> None:
    headers = {"X-Request-Id": "named", "X-Tier": "paid", "X-Tenant": "ada"}
    raw = client.completions.with_raw_response.create(
        model="tiny", prompt="x", max_tokens=2, user="ignored", extra_headers=headers
    )
    assert raw.headers["X-Request-Id"] == "named"
    assert raw.parse().id == "cmpl-named"
    row = server.await_status("named", ["ok"])
    assert (row["tier"], row["tenant"]) == ("paid", "ada")


def test_the_front_end_never_loads_torch(client: openai.OpenAI, server: Served) -> None:
    client.completions.create(model="tiny", prompt="x", max_tokens=1)
    loaded = [Path(f"/proc/{pid}/maps").read_text() for pid in (server.process.pid, server.child("engine.worker").pid)]
    assert ["libtorch" in maps for maps in loaded] == [False, True]
