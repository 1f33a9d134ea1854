"""What the sheet is computed from: model, hardware, traffic, fixed-time batches; their presets, units and ranges."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from typing import Annotated, TypeVar, get_type_hints

from engine.exact import exact
from recorder.errors import UserError


class CapacityError(UserError):
    """Inputs that make no sheet: names the option and the key, and what is allowed there."""


@dataclass(frozen=True, slots=True)
class Key:
    """A number above 0, or from 0 with `zero`, up to `most`; `whole` for what can only be counted."""

    doc: str
    whole: bool = False
    zero: bool = False
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """A transformer as memory and arithmetic see it."""

    parameters: Annotated[Fraction, Key("weights in the model")]
    layers: Annotated[Fraction, Key("layers", whole=True)]
    kv_heads: Annotated[Fraction, Key("key and value heads per layer", whole=True)]
    head_size: Annotated[Fraction, Key("numbers per head", whole=True)]
    kv_bytes: Annotated[Fraction, Key("bytes per number in the KV cache")]
    weight_bytes: Annotated[Fraction, Key("bytes per weight")]

    @property
    def kv_bytes_per_token(self) -> Fraction:
        """Key and value of every layer."""
        return 2 * self.layers * self.kv_heads * self.head_size * self.kv_bytes

    @property
    def bytes(self) -> Fraction:
        """All weights, read once in every decode step."""
        return self.parameters * self.weight_bytes


@dataclass(frozen=True, slots=True)
class Hardware:
    """A replica: the GPUs that hold one copy of the model, and what a benchmark of it sustained."""

    gpus: Annotated[Fraction, Key("GPUs per replica", whole=True)]
    memory_gb: Annotated[Fraction, Key("memory per GPU, GB")]
    working_gb: Annotated[Fraction, Key("memory of a replica for neither weights nor KV, GB", zero=True)]
    bandwidth_tb_s: Annotated[Fraction, Key("memory bandwidth per GPU, TB/s")]
    tflops: Annotated[Fraction, Key("dense arithmetic per GPU, 10^12 operations/s")]
    prefill_utilisation: Annotated[Fraction, Key("share of that arithmetic that prefill reaches", most=1)]
    decode_tokens_s: Annotated[Fraction, Key("measured output tokens/s of a replica within its TPOT target")]
    price_gpu_h: Annotated[Fraction, Key("price of a GPU-hour, in any currency", zero=True)]

    @property
    def bandwidth(self) -> Fraction:
        """Bytes per second of the whole replica."""
        return self.gpus * self.bandwidth_tb_s * 10**12

    @property
    def prefill_operations(self) -> Fraction:
        """Operations per second that one GPU really does in prefill."""
        return self.tflops * 10**12 * self.prefill_utilisation


@dataclass(frozen=True, slots=True)
class Traffic:
    """The peak to plan for, and the lengths to look at."""

    rate: Annotated[Fraction, Key("requests/s at the peak")]
    prompt_tokens: Annotated[Fraction, Key("prompt tokens per request")]
    output_tokens: Annotated[Fraction, Key("output tokens per request")]
    sequence_tokens: Annotated[Fraction, Key("tokens of a sequence in the KV cache")]
    batch: Annotated[Fraction, Key("sequences in a decode step", whole=True)]
    spare: Annotated[Fraction, Key("share on top for bursts and failures", zero=True)]
    long_tokens: Annotated[Fraction, Key("tokens of a very long sequence")]
    moved_tokens: Annotated[Fraction, Key("prompt tokens whose KV moves from a prefill to a decode pool")]
    cached_tokens: Annotated[Fraction, Key("tokens of a turn that a prefix cache already holds")]
    new_tokens: Annotated[Fraction, Key("tokens of a turn that are new")]


@dataclass(frozen=True, slots=True)
class FixedBatch:
    """A call that takes the same time for any batch up to a limit, one at a time per worker."""

    rate: Annotated[Fraction, Key("requests/s")]
    batch: Annotated[Fraction, Key("requests that a call may take", whole=True)]
    exec_ms: Annotated[Fraction, Key("time of a call, ms")]
    budget_ms: Annotated[Fraction, Key("end-to-end budget, ms")]
    network_ms: Annotated[Fraction, Key("ingress and return together, ms", zero=True)]


def _of(*numbers: str) -> list[Fraction]:
    return [Fraction(number) for number in numbers]


# The worked examples of seed 002 (70B on H100s; the fixed 200 ms call) and of seed 000 (the pool of 100 ms workers).
MODELS = {"70b": Model(*_of("70e9", "80", "8", "128", "2", "2"))}
HARDWARE = {"8xh100": Hardware(*_of("8", "80", "100", "3.35", "989", "0.5", "9000", "1"))}
TRAFFIC = {"peak": Traffic(*_of("500", "1500", "300", "2000", "256", "0.3", "200000", "50000", "8700", "300"))}
FIXED_BATCHES = {
    "worker-pool": FixedBatch(*_of("1000", "32", "100", "200", "40")),
    "fixed-call": FixedBatch(*_of("2000", "50", "200", "500", "0")),
}

Inputs = TypeVar("Inputs", Model, Hardware, Traffic, FixedBatch)


def keys(inputs: type) -> dict[str, Key]:
    """The keys that an inputs class declares, by name."""
    hints = get_type_hints(inputs, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


def with_keys(base: Inputs, settings: Sequence[str], option: str) -> Inputs:
    """`base` with each `key=value` applied; CapacityError for a key it lacks or a value out of range."""
    changes = dict(_setting(base, setting, option) for setting in settings)
    return replace(base, **changes)


def _setting(base: Inputs, setting: str, option: str) -> tuple[str, Fraction]:
    name, equals, text = setting.partition("=")
    known = keys(type(base))
    if not equals:
        raise CapacityError(f"{option}: {setting!r} is no key=value; keys: {', '.join(known)}")
    if name not in known:
        raise CapacityError(f"{option}: no key {name!r}; there are {', '.join(known)}")
    value = exact(text, f"{option} {name}")
    check(value, known[name], f"{option} {name}={text}")
    return name, value


def check(value: Fraction, key: Key, where: str) -> None:
    """CapacityError unless `value` lies in the range that `key` declares."""
    if value < 0 or (value == 0 and not key.zero):
        raise CapacityError(f"{where}: must be {'0 or more' if key.zero else 'above 0'}")
    if key.whole and value.denominator != 1:
        raise CapacityError(f"{where}: must be a whole number")
    if key.most is not None and value > key.most:
        raise CapacityError(f"{where}: must be at most {key.most}")


def kv_room(model: Model, hardware: Hardware) -> Fraction:
    """Bytes of a replica that are left for the KV cache; CapacityError if none are."""
    have_gb = hardware.gpus * hardware.memory_gb
    room = have_gb * 10**9 - model.bytes - hardware.working_gb * 10**9
    if room <= 0:
        raise CapacityError(
            f"the model does not fit: {float(model.bytes / 10**9):g} GB of weights and "
            f"{float(hardware.working_gb):g} GB of working memory leave no KV room in {float(have_gb):g} GB; "
            "raise gpus or memory_gb, or lower weight_bytes"
        )
    return room


def check_serving(model: Model, hardware: Hardware, traffic: Traffic) -> None:
    """CapacityError if the batch does not fit in memory, or the benchmark claims more than the memory could read."""
    sequence = traffic.sequence_tokens * model.kv_bytes_per_token
    fit = floor(kv_room(model, hardware) / sequence)
    if traffic.batch > fit:
        raise CapacityError(
            f"batch={traffic.batch} sequences of {float(traffic.sequence_tokens):g} tokens do not fit in the KV cache: "
            f"{fit} do; lower batch or sequence_tokens, or raise gpus or memory_gb"
        )
    ceiling = fit * hardware.bandwidth / (model.bytes + fit * sequence)
    if hardware.decode_tokens_s > ceiling:
        raise CapacityError(
            f"decode_tokens_s={float(hardware.decode_tokens_s):g} is more than this replica can do: with the {fit} "
            f"sequences that fit, memory bandwidth ends at {float(ceiling):.0f} tokens/s; give a measured number"
        )
