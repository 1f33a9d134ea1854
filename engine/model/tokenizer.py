"""Text to tokens and back: built from a GGUF's metadata, a tokenizer.json, or out of bytes for random weights."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from engine.model.chat import ChatError, ChatTemplate
from engine.model.errors import ModelError

_CONTROL, _USER_DEFINED = 3, 4
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SPLITS = {
    "qwen2": rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}|{_REST}",
    "llama-bpe": rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}{{1,3}}|{_REST}",
}
_PRE_TOKENIZERS = ("smollm", "gpt-2", *_SPLITS)
_CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class Tokenizer:
    """A model's tokenizer with its chat template and the tokens that end a sequence."""

    def __init__(
        self, backend: tokenizers.Tokenizer, eos_ids: frozenset[int], template: ChatTemplate | None = None
    ) -> None:
        self.backend = backend
        self.eos_ids = eos_ids
        self.template = template

    def encode(self, text: str) -> list[int]:
        """Tokens of a plain prompt, with the model's own beginning where it wants one."""
        return self.backend.encode(text).ids

    def encode_chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Tokens of a conversation (`role` and `content` each), up to where the answer begins. Raises `ChatError`."""
        if self.template is None:
            raise ChatError("this model has no chat template; use /v1/completions")
        return self.backend.encode(self.template.render(messages), add_special_tokens=False).ids

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of the tokens; special ones have none."""
        return self.backend.decode(tokens)

    def detokenizer(self) -> "Detokenizer":
        """A fresh one for one stream."""
        return Detokenizer(self)


class Detokenizer:
    """Turns a stream of tokens into pieces of text that never end in half a character."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        # The tokens since the last piece but one: a token's text may depend on the one before it.
        self.tokens: list[int] = []
        self.emitted = 0

    def push(self, tokens: Sequence[int]) -> str:
        """The text that the tokens complete; empty while a character is unfinished."""
        self.tokens += tokens
        text = self._pending()
        if not text or text.endswith("\ufffd"):
            return ""
        self.tokens = self.tokens[self.emitted :]
        self.emitted = len(self.tokens)
        return text

    def flush(self) -> str:
        """What is left at the end of the stream: a character that was never finished shows as U+FFFD."""
        text = self._pending()
        self.emitted = len(self.tokens)
        return text

    def _pending(self) -> str:
        before = self.tokenizer.decode(self.tokens[: self.emitted])
        return self.tokenizer.decode(self.tokens)[len(before) :]


def tokenizer_from_gguf(metadata: Mapping[str, Any], name: str) -> Tokenizer:
    """Build from a GGUF's metadata. Raises `ModelError` for a kind that is not byte-level BPE."""
    kind, pre = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre", "gpt-2")
    if kind != "gpt2" or pre not in _PRE_TOKENIZERS:
        raise ModelError(
            f"{name}: tokenizer {kind}/{pre} is not supported; supported in GGUF is gpt2 with one of "
            f"{', '.join(_PRE_TOKENIZERS)}; the model's Hugging Face folder may work"
        )
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    backend = _byte_level_bpe(tokens, metadata["tokenizer.ggml.merges"], pre)
    _mark_special(backend, tokens, metadata.get("tokenizer.ggml.token_type", ()))
    special = _special_ids(metadata)
    if "bos" in special and metadata.get("tokenizer.ggml.add_bos_token", pre == "llama-bpe"):
        _begin_with(backend, tokens[special["bos"]], special["bos"])
    source = metadata.get("tokenizer.chat_template")
    names = {f"{key}_token": tokens[special[key]] for key in ("bos", "eos") if key in special}
    return Tokenizer(
        backend,
        frozenset(special[key] for key in ("eos", "eot", "eom") if key in special),
        ChatTemplate(source, names) if source else None,
    )


def _special_ids(metadata: Mapping[str, Any]) -> dict[str, int]:
    found = {key: metadata.get(f"tokenizer.ggml.{key}_token_id") for key in ("bos", "eos", "eot", "eom")}
    return {key: index for key, index in found.items() if index is not None}


def _byte_level_bpe(tokens: Sequence[str], merges: Sequence[str], pre: str) -> tokenizers.Tokenizer:
    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    backend = tokenizers.Tokenizer(models.BPE(vocabulary, pairs, ignore_merges=pre == "llama-bpe"))
    backend.pre_tokenizer = _pre_tokenizer(pre)
    backend.decoder = decoders.ByteLevel()
    if pre == "qwen2":
        backend.normalizer = normalizers.NFC()
    return backend


def _pre_tokenizer(pre: str) -> pre_tokenizers.PreTokenizer:
    if pre == "gpt-2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    if pre == "smollm":
        return pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    split = pre_tokenizers.Split(Regex(_SPLITS[pre]), behavior="isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _mark_special(backend: tokenizers.Tokenizer, tokens: Sequence[str], kinds: Sequence[int]) -> None:
    for kind, special in ((_CONTROL, True), (_USER_DEFINED, False)):
        added = [
            AddedToken(token, special=special, normalized=False)
            for token, this in zip(tokens, kinds, strict=False)
            if this == kind
        ]
        backend.add_special_tokens(added) if special else backend.add_tokens(added)


def _begin_with(backend: tokenizers.Tokenizer, token: str, index: int) -> None:
    backend.post_processor = processors.TemplateProcessing(
        single=f"{token} $A", pair=f"{token} $A {token} $B", special_tokens=[(token, index)]
    )


def tokenizer_from_folder(folder: Path) -> Tokenizer:
    """Build from a Hugging Face folder. Raises `ModelError` where tokenizer.json is missing or damaged."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise ModelError(f"{folder} has no tokenizer.json; convert or fetch the fast tokenizer of this model")
    backend = _load_backend(path)
    config = read_json(folder / "tokenizer_config.json")
    names = {key: _content(value) for key, value in config.items() if key.endswith("_token") and value}
    source = _template_source(folder, config)
    return Tokenizer(backend, _eos_ids(folder, backend, names), ChatTemplate(source, names) if source else None)


def _load_backend(path: Path) -> tokenizers.Tokenizer:
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises bare Exception
        raise ModelError(f"{path} can't be read ({error}); fetch it again") from error


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, empty where the file is missing. Raises `ModelError` for a damaged one."""
    if not path.is_file():
        return {}
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise ModelError(f"{path} is damaged ({error}); fetch it again") from error


def _content(token: str | dict[str, Any]) -> str:
    return token if isinstance(token, str) else str(token["content"])


def _template_source(folder: Path, config: Mapping[str, Any]) -> str | None:
    path = folder / "chat_template.jinja"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    source = config.get("chat_template")
    if isinstance(source, list):
        return {entry["name"]: entry["template"] for entry in source}.get("default")
    return source


def _eos_ids(folder: Path, backend: tokenizers.Tokenizer, names: Mapping[str, str]) -> frozenset[int]:
    """Whatever any of the files calls the end: chat models name the end of a turn in one and of a text in another."""
    found: set[int] = set()
    for file in ("generation_config.json", "config.json"):
        value = read_json(folder / file).get("eos_token_id")
        found |= set(value if isinstance(value, list) else [] if value is None else [value])
    token = backend.token_to_id(names["eos_token"]) if "eos_token" in names else None
    return frozenset(found if token is None else found | {token})


def dummy_tokenizer(vocab: int) -> Tokenizer:
    """Bytes as tokens 0 to 255 and made-up words above them; nothing ends a sequence.

    Without a sequence's end, random weights run to `max_tokens`, which makes tests and benchmarks repeatable.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [f"\u0120w{index}" for index in range(len(alphabet), vocab)]
    backend = _byte_level_bpe([*alphabet, *words], [], "gpt-2")
    return Tokenizer(backend, frozenset(), ChatTemplate(_CHATML, {}))
