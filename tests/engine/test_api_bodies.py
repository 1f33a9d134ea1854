"""Bodies: what is understood, what is ignored, and what is refused with its field named."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.api.bodies import Ask, read_chat, read_completion
from engine.api.errors import ApiError
from engine.messages import Sampling


def completion(**fields: object) -> Ask:
    return read_completion(json.dumps({"prompt": "Hello", **fields}).encode())


def chat(**fields: object) -> Ask:
    return read_chat(json.dumps({"messages": [{"role": "user", "content": "Hi"}], **fields}).encode())


def test_defaults_are_those_of_openai() -> None:
    assert completion() == Ask("Hello", 16, Sampling(temperature=1.0))
    assert chat() == Ask([{"role": "user", "content": "Hi"}], None, Sampling(temperature=1.0))


def test_every_served_field_arrives() -> None:
    ask = completion(
        model="m",
        max_tokens=9,
        temperature=0,
        top_p=0.5,
        seed=3,
        stop=["a", "b"],
        stream=True,
        stream_options={"include_usage": True},
        ignore_eos=True,
        user="u",
    )
    sampling = Sampling(temperature=0.0, top_p=0.5, seed=3, ignore_eos=True)
    assert ask == Ask("Hello", 9, sampling, ("a", "b"), stream=True, include_usage=True, model="m", tenant="u")


@pytest.mark.parametrize("prompt", ["text", ["text"]])
def test_a_prompt_may_be_text(prompt: object) -> None:
    assert completion(prompt=prompt).prompt == "text"


@pytest.mark.parametrize("prompt", [[1, 2, 3], [[1, 2, 3]]])
def test_a_prompt_may_be_tokens(prompt: object) -> None:
    assert completion(prompt=prompt).prompt == [1, 2, 3]


def test_a_chat_reads_parts_and_the_newer_names() -> None:
    ask = chat(
        messages=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": None},
        ],
        max_completion_tokens=7,
        max_tokens=5,
    )
    assert ask.prompt == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "ab"},
        {"role": "assistant", "content": ""},
    ]
    assert ask.max_tokens == 7


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": 5}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"prompt": [1, "b"]}, "prompt"),
        ({"prompt": [-1]}, "prompt[0]"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"max_tokens": 2**63}, "max_tokens"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"temperature": 2.5}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"seed": 1.5}, "seed"),
        ({"stop": 3}, "stop"),
        ({"stop": ""}, "stop"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"n": 2}, "n"),
        ({"best_of": 2}, "best_of"),
        ({"logprobs": 0}, "logprobs"),
        ({"echo": True}, "echo"),
        ({"suffix": "x"}, "suffix"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"presence_penalty": 0.1}, "presence_penalty"),
        ({"frequency_penalty": 0.1}, "frequency_penalty"),
        ({"min_tokens": 4}, "min_tokens"),
    ],
)
def test_a_bad_completion_is_refused_by_field(fields: dict[str, object], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        completion(**fields)
    assert (caught.value.status, caught.value.param) == (400, param)
    assert param in caught.value.message


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
        ({"max_completion_tokens": -1}, "max_completion_tokens"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"logprobs": True}, "logprobs"),
        ({"modalities": ["audio"]}, "modalities"),
    ],
)
def test_a_bad_chat_is_refused_by_field(fields: dict[str, object], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        chat(**fields)
    assert (caught.value.status, caught.value.param) == (400, param)


def test_a_missing_field_is_named() -> None:
    with pytest.raises(ApiError) as caught:
        read_chat(b'{"model": "m"}')
    assert caught.value.param == "messages"


DEEP = b'{"prompt": "x", "logit_bias": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b'{"prompt": "\\ud800"}', DEEP])
def test_what_is_no_object_is_refused(raw: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        read_completion(raw)
    assert caught.value.status == 400


def test_values_that_change_nothing_and_unknown_fields_are_taken() -> None:
    fields: dict[str, object] = {
        "n": 1,
        "logprobs": None,
        "echo": False,
        "suffix": None,
        "presence_penalty": 0.0,
        "top_k": 5,
        "x": {},
    }
    assert completion(**fields) == completion()
    assert chat(tools=[], logprobs=False, response_format={"type": "text"}, store=True) == chat()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_FIELDS = st.sampled_from(
    ["prompt", "messages", "max_tokens", "temperature", "stop", "stream_options", "n", "logit_bias"]
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(_FIELDS, _JSON))
def test_no_body_does_worse_than_400(body: dict[str, object]) -> None:
    for read in (read_completion, read_chat):
        try:
            read(json.dumps(body).encode())
        except ApiError as error:
            assert error.status == 400
            assert json.loads(error.body())["error"]["message"] == error.message
