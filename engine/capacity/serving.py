"""The sheet of an LLM fleet (SPEC C12): KV memory, decode steps, GPUs, cost, and what long prompts do to them."""

from fractions import Fraction
from math import ceil, floor

from engine.capacity.inputs import Hardware, Model, Traffic, check_serving, kv_room
from engine.capacity.sheet import Figure, Section, figure, number

_GB = 10**9


def serving_sheet(model: Model, hardware: Hardware, traffic: Traffic) -> list[Section]:
    """All sections; CapacityError if the model, the batch or the benchmark is not possible on the hardware."""
    check_serving(model, hardware, traffic)
    return [
        Section("kv_cache", "KV cache", _kv_cache(model, hardware, traffic)),
        Section(
            "decode_step", "Decode step (ceilings: memory bandwidth alone)", _decode_step(model, hardware, traffic)
        ),
        Section("fleet", "GPUs for the peak", _fleet(model, hardware, traffic)),
        Section("cost", _cost_title(hardware), _cost(model, hardware, traffic)),
        Section("long_prompts", "Long prompts", _long_prompts(model, hardware, traffic)),
    ]


def _kv_cache(model: Model, hardware: Hardware, traffic: Traffic) -> tuple[Figure, ...]:
    n, per_token, room = number, model.kv_bytes_per_token, kv_room(model, hardware)
    length, tokens = traffic.sequence_tokens, room / per_token
    return (
        figure(
            "KV bytes per token",
            per_token,
            "bytes",
            f"2 x layers x KV heads x head size x bytes = 2 x {n(model.layers)} x {n(model.kv_heads)} x "
            f"{n(model.head_size)} x {n(model.kv_bytes)}",
        ),
        figure("KV per sequence", per_token * length / 10**6, "MB", f"{n(length)} tokens x {n(per_token)} bytes", 3),
        figure(
            "weights",
            model.bytes / _GB,
            "GB",
            f"parameters x bytes = {n(model.parameters)} x {n(model.weight_bytes)}",
            3,
        ),
        figure(
            "KV room",
            room / _GB,
            "GB",
            f"GPUs x memory - weights - working memory = {n(hardware.gpus)} x {n(hardware.memory_gb)} - "
            f"{n(model.bytes / _GB)} - {n(hardware.working_gb)}",
            3,
        ),
        figure("KV tokens", tokens, "tokens", f"{n(room / _GB)} GB / {n(per_token)} bytes = {n(tokens)}", 3),
        figure(
            "sequences", floor(tokens / length), "sequences", f"{n(tokens)} tokens / {n(length)} tokens, rounded down"
        ),
    )


def _step_s(model: Model, hardware: Hardware, tokens: Fraction) -> Fraction:
    """A decode step that reads all weights and the KV of `tokens` tokens."""
    return (model.bytes + tokens * model.kv_bytes_per_token) / hardware.bandwidth


def _decode_step(model: Model, hardware: Hardware, traffic: Traffic) -> tuple[Figure, ...]:
    n, batch = number, traffic.batch
    tokens = batch * traffic.sequence_tokens
    kv_bytes = tokens * model.kv_bytes_per_token
    alone, full = _step_s(model, hardware, Fraction(0)), _step_s(model, hardware, tokens)
    bandwidth, weights = f"{n(hardware.bandwidth / _GB)} GB/s", f"{n(model.bytes / _GB)} GB"
    extra_ms = (full - alone) * 1000
    return (
        figure(
            "bandwidth",
            hardware.bandwidth / 10**12,
            "TB/s",
            f"GPUs x bandwidth = {n(hardware.gpus)} x {n(hardware.bandwidth_tb_s)}",
            3,
        ),
        figure("step, batch 1", alone * 1000, "ms", f"weights / bandwidth = {weights} / {bandwidth}", 2),
        figure("tokens/s, batch 1", 1 / alone, "tokens/s", f"1 / {n(alone * 1000)} ms = {n(1 / alone)}", 2),
        figure(
            "KV read",
            kv_bytes / _GB,
            "GB",
            f"batch x tokens x KV bytes = {n(batch)} x {n(traffic.sequence_tokens)} x {n(model.kv_bytes_per_token)}",
            3,
        ),
        figure("KV read time", extra_ms, "ms", f"{n(kv_bytes / _GB)} GB / {bandwidth}", 2),
        figure("step, full batch", full * 1000, "ms", f"{n(alone * 1000)} ms + {n(extra_ms)} ms", 3),
        figure("tokens/s per user", 1 / full, "tokens/s", f"1 / {n(full * 1000)} ms = {n(1 / full)}", 2),
        figure("tokens/s, full batch", batch / full, "tokens/s", f"{n(batch)} x {n(1 / full)} = {n(batch / full)}", 2),
        figure("batching gain", batch * alone / full, "times", f"{n(batch / full)} / {n(1 / alone)} tokens/s", 3),
        figure("batching price", full / alone, "times", f"{n(full * 1000)} / {n(alone * 1000)} ms a token", 2),
    )


def _fleet(model: Model, hardware: Hardware, traffic: Traffic) -> tuple[Figure, ...]:
    n, gpus = number, hardware.gpus
    decode_s, prefill_s = traffic.rate * traffic.output_tokens, traffic.rate * traffic.prompt_tokens
    replicas = ceil(decode_s / hardware.decode_tokens_s)
    decode_gpus = replicas * gpus
    operations = 2 * model.parameters * prefill_s
    prefill_gpus = operations / hardware.prefill_operations
    both = decode_gpus + prefill_gpus
    with_spare = both * (1 + traffic.spare)
    planned = ceil(with_spare / gpus)
    return (
        figure("output tokens/s", decode_s, "tokens/s", f"{n(traffic.rate)}/s x {n(traffic.output_tokens)}"),
        figure(
            "decode replicas",
            replicas,
            "replicas",
            f"{n(decode_s)} / {n(hardware.decode_tokens_s)} tokens/s measured = "
            f"{n(decode_s / hardware.decode_tokens_s)}, rounded up",
        ),
        figure("decode GPUs", decode_gpus, "GPUs", f"{n(replicas)} replicas x {n(gpus)}"),
        figure("prompt tokens/s", prefill_s, "tokens/s", f"{n(traffic.rate)}/s x {n(traffic.prompt_tokens)}"),
        figure(
            "prefill operations",
            operations,
            "ops/s",
            f"2 x parameters x prompt tokens/s = 2 x {n(model.parameters)} x {n(prefill_s)}",
            3,
        ),
        figure(
            "prefill GPUs",
            prefill_gpus,
            "GPUs",
            f"ops/s / (dense ops/s x utilisation) = {n(operations)} / ({n(hardware.tflops)}e12 x "
            f"{n(hardware.prefill_utilisation)}) = {n(prefill_gpus)}",
            max(3, len(str(int(prefill_gpus)))),
        ),
        figure("GPUs without spare", both, "GPUs", f"{n(decode_gpus)} + {n(prefill_gpus)} = {n(both)}", 2),
        figure("prefill share", 100 * prefill_gpus / both, "%", f"{n(prefill_gpus)} / {n(both)}", 2),
        figure(
            "replicas",
            planned,
            "replicas",
            f"{n(both)} x (1 + {n(traffic.spare)} spare) / {n(gpus)} = {n(with_spare / gpus)}, rounded up",
        ),
        figure("GPUs", planned * gpus, "GPUs", f"{n(planned)} replicas x {n(gpus)}"),
    )


def _cost_title(hardware: Hardware) -> str:
    return f"Cost per million output tokens, a GPU-hour at {number(hardware.price_gpu_h)}"


def _cost(model: Model, hardware: Hardware, traffic: Traffic) -> tuple[Figure, ...]:
    full = traffic.batch / _step_s(model, hardware, traffic.batch * traffic.sequence_tokens)
    cases = (
        ("cost, measured", hardware.decode_tokens_s),
        ("cost, batch 1", 1 / _step_s(model, hardware, Fraction(0))),
        ("cost, full batch", full),
    )
    hour = hardware.price_gpu_h * hardware.gpus
    return tuple(
        figure(
            name,
            hour / (tokens_s * 3600) * 10**6,
            "per million",
            f"(price x GPUs) / (tokens/s x 3,600) x 1,000,000 = ({number(hardware.price_gpu_h)} x "
            f"{number(hardware.gpus)}) / ({number(tokens_s)} x 3,600) x 1,000,000",
            3,
        )
        for name, tokens_s in cases
    )


def _long_prompts(model: Model, hardware: Hardware, traffic: Traffic) -> tuple[Figure, ...]:
    n, per_token = number, model.kv_bytes_per_token
    replica_s = hardware.gpus * hardware.prefill_operations

    def prefill(name: str, tokens: Fraction) -> Figure:
        operations = 2 * model.parameters * tokens
        return figure(
            name,
            operations / replica_s * 1000,
            "ms",
            f"2 x parameters x {n(tokens)} tokens / replica = {n(operations)} / {n(replica_s)} ops/s",
            2,
        )

    return (
        figure(
            "long sequence KV",
            traffic.long_tokens * per_token / _GB,
            "GB",
            f"{n(traffic.long_tokens)} x {n(per_token)}",
            3,
        ),
        figure(
            "sequences displaced",
            floor(traffic.long_tokens / traffic.sequence_tokens),
            "sequences",
            f"{n(traffic.long_tokens)} / {n(traffic.sequence_tokens)} tokens, rounded down",
        ),
        figure(
            "KV moved", traffic.moved_tokens * per_token / _GB, "GB", f"{n(traffic.moved_tokens)} x {n(per_token)}", 2
        ),
        prefill("prefill of the cached part", traffic.cached_tokens),
        prefill("prefill of the new part", traffic.new_tokens),
    )
