"""Tokens, chats and pieces of text are those of transformers' tokenizers; no piece ever holds half a character."""

import json
import os
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
from transformers.models.qwen2.tokenization_qwen2 import Qwen2Tokenizer

from engine.model.chat import ChatError
from engine.model.errors import ModelError
from engine.model.tokenizer import Tokenizer, dummy_tokenizer, tokenizer_from_folder, tokenizer_from_gguf

CORPUS = [
    "The quick brown fox jumps over the lazy dog, 12345 times.\n\nIt's what they'd do; we'll see.",
    "Größe und Übermut, façade, naïve, こんにちは世界, 你好, emoji 🎉👩‍👩‍👧 and   spaces\t\ttabs\r\n",
]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}\n"
    "{% for message in messages %}\n"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}\n"
    "{% endfor %}\n"
    "{{ {'eos': eos_token, 'ü': [1, '<b>']} | tojson }}\n"
    "{% for n in range(3) %}{% if n == 1 %}{% continue %}{% endif %}{{ n }}{% endfor %}\n"
    "{{ strftime_now('%Y') }}\n"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
CHAT = [{"role": "user", "content": "Grüß Gott"}, {"role": "assistant", "content": "hi <|im_end|>"}]


def train(pre: pre_tokenizers.PreTokenizer) -> Backend:
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=alphabet, special_tokens=SPECIAL, show_progress=False
    )
    backend.train_from_iterator(CORPUS * 3, trainer)
    return backend


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer")
    train(pre_tokenizers.ByteLevel(add_prefix_space=False)).save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(
        json.dumps({"eos_token": {"content": "<|im_end|>"}, "bos_token": None, "chat_template": TEMPLATE})
    )
    (path / "generation_config.json").write_text(json.dumps({"eos_token_id": [0]}))
    return path


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:  # noqa: ANN401 - transformers has no types here
    return PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), eos_token="<|im_end|>", chat_template=TEMPLATE
    )


def gguf_metadata(pre: str, backend: Backend, **more: object) -> dict[str, Any]:
    """What llama.cpp's converter writes of a trained tokenizer."""
    model = json.loads(backend.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if token in SPECIAL else 1 for token in tokens],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in model["merges"]],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.chat_template": TEMPLATE,
        **more,
    }


def test_folder_gives_the_tokens_of_transformers(folder: Path, theirs: Any) -> None:  # noqa: ANN401
    ours = tokenizer_from_folder(folder)
    for text in [*CORPUS, "", "<|im_start|>user\nhello<|im_end|>"]:
        assert ours.encode(text) == theirs.encode(text)
        assert ours.decode(ours.encode(text)) == theirs.decode(theirs.encode(text), skip_special_tokens=True)


def test_chat_gives_the_tokens_of_transformers(folder: Path, theirs: Any) -> None:  # noqa: ANN401
    ours = tokenizer_from_folder(folder)
    assert ours.encode_chat(CHAT) == theirs.apply_chat_template(CHAT, add_generation_prompt=True)["input_ids"]


def test_ends_come_from_every_file(folder: Path) -> None:
    assert tokenizer_from_folder(folder).eos_ids == {0, 2}


def test_a_template_of_its_own_file_goes_first(folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0].content }}")
    ours = tokenizer_from_folder(tmp_path)
    assert ours.decode(ours.encode_chat(CHAT)) == "Grüß Gott"


def test_gguf_of_qwen2_is_transformers_qwen2(folder: Path) -> None:
    backend = train(pre_tokenizers.ByteLevel(add_prefix_space=False))
    model = json.loads(backend.to_str())["model"]
    theirs = Qwen2Tokenizer(vocab=model["vocab"], merges=[tuple(pair) for pair in model["merges"]])
    theirs.add_special_tokens({"additional_special_tokens": SPECIAL[1:]})
    ours = tokenizer_from_gguf(gguf_metadata("qwen2", backend), "tiny")
    for text in [*CORPUS, "<|im_start|>user\n42'S  x<|im_end|>", "e\u0301 combines"]:
        assert ours.encode(text) == theirs.encode(text)
    assert ours.eos_ids == {2}


@pytest.mark.parametrize(
    ("pre", "pieces"),
    [
        ("smollm", ["a", "\u0120", "1", "2", "3", "4", "'s"]),
        ("gpt-2", ["a", "\u01201234", "'s"]),
        ("qwen2", ["a", "\u0120", "1", "2", "3", "4", "'s"]),
        ("llama-bpe", ["a", "\u0120", "123", "4", "'s"]),
    ],
)
def test_gguf_splits_as_its_family_does(pre: str, pieces: list[str]) -> None:
    ours = tokenizer_from_gguf(gguf_metadata(pre, train(pre_tokenizers.ByteLevel())), "tiny")
    splitter = ours.backend.pre_tokenizer
    assert splitter is not None
    assert [piece for piece, _ in splitter.pre_tokenize_str("a 1234's")] == pieces


def test_a_beginning_is_added_where_the_file_or_the_family_says_so() -> None:
    backend = train(pre_tokenizers.ByteLevel())
    plain = tokenizer_from_gguf(gguf_metadata("smollm", backend), "tiny")
    told = tokenizer_from_gguf(gguf_metadata("smollm", backend, **{"tokenizer.ggml.add_bos_token": True}), "tiny")
    llama = tokenizer_from_gguf(gguf_metadata("llama-bpe", backend), "tiny")
    assert told.encode("x") == llama.encode("x") == [1, *plain.encode("x")]
    assert told.encode_chat(CHAT)[:2] != [1, 1]


def test_unsupported_gguf_tokenizers_are_named() -> None:
    with pytest.raises(ModelError, match=r"tokenizer llama/default is not supported.*smollm"):
        tokenizer_from_gguf({"tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default"}, "old")


def test_a_refusal_of_the_template_is_the_clients(folder: Path) -> None:
    with pytest.raises(ChatError, match="no system role"):
        tokenizer_from_folder(folder).encode_chat([{"role": "system", "content": "x"}])


def test_templates_run_in_a_sandbox() -> None:
    escape = "{{ messages.__class__.__mro__ }}"
    ours = tokenizer_from_gguf(
        gguf_metadata("smollm", train(pre_tokenizers.ByteLevel()), **{"tokenizer.chat_template": escape}), "tiny"
    )
    with pytest.raises(ChatError, match="unsafe"):
        ours.encode_chat(CHAT)


def test_broken_templates_and_missing_files_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no tokenizer\.json"):
        tokenizer_from_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("rubbish")
    with pytest.raises(ModelError, match=r"tokenizer\.json can't be read"):
        tokenizer_from_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    (tmp_path / "chat_template.jinja").write_text("{% if %}")
    with pytest.raises(ModelError, match="chat template is broken in line 1"):
        tokenizer_from_folder(tmp_path)
    (tmp_path / "chat_template.jinja").unlink()
    with pytest.raises(ChatError, match="no chat template"):
        tokenizer_from_folder(tmp_path).encode_chat(CHAT)


def test_dummy_round_trips_bytes_and_never_ends() -> None:
    ours = dummy_tokenizer(300)
    for text in CORPUS:
        assert ours.decode(ours.encode(text)) == text
        assert max(ours.encode(text)) < 256
    assert ours.eos_ids == frozenset()
    assert ours.decode([299, 298]) == " w299 w298"
    assert ours.decode(ours.encode_chat(CHAT[:1])).endswith("assistant\n")


TOKENIZERS = {
    "bytes": dummy_tokenizer(300),
    "bpe": Tokenizer(train(pre_tokenizers.ByteLevel(add_prefix_space=False)), frozenset()),
}


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd"), max_size=60), data=st.data())
@settings(max_examples=150, deadline=None)
def test_pieces_of_text_add_up_and_are_whole(kind: str, text: str, data: st.DataObject) -> None:
    """However the tokens are cut, the pieces join to the text and none holds a replacement character."""
    tokenizer = TOKENIZERS[kind]
    tokens = tokenizer.encode(text)
    stream, pieces = tokenizer.detokenizer(), []
    while tokens:
        count = data.draw(st.integers(1, 4))
        pieces.append(stream.push(tokens[:count]))
        tokens = tokens[count:]
    pieces.append(stream.flush())
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)


@given(tokens=st.lists(st.integers(0, 299), max_size=40))
@settings(max_examples=150, deadline=None)
def test_pieces_of_random_tokens_are_the_whole_text(tokens: list[int]) -> None:
    """Random weights write broken UTF-8; nothing of it is lost or doubled."""
    tokenizer = TOKENIZERS["bytes"]
    stream = tokenizer.detokenizer()
    pieces = [stream.push([token]) for token in tokens]
    assert "".join(pieces) + stream.flush() == tokenizer.decode(tokens)


def test_half_a_character_at_the_end_is_shown_at_the_end_only() -> None:
    tokenizer = TOKENIZERS["bytes"]
    half = tokenizer.encode("🎉")[:2]
    stream = tokenizer.detokenizer()
    assert [stream.push([token]) for token in half] == ["", ""]
    assert stream.flush() == "\ufffd"
    assert stream.flush() == ""
