"""The keys of the configuration, section by section: each with its default, unit, range and sentence.

Keys carry vLLM's words, those of the static batcher Triton's.
"""

import math
from typing import Annotated, Literal

import msgspec


def _key(doc: str, unit: str = "", ge: float | None = None, le: float | None = None) -> msgspec.Meta:
    return msgspec.Meta(description=doc, extra={"unit": unit}, ge=ge, le=le)


def _instants(doc: str) -> msgspec.Meta:
    """A key that holds workers and instants as text, which `--set` can give, too."""
    one = r"\d{1,4}@\d{1,9}(\.\d{1,9})?"
    form = 'a text of WORKER@SECONDS with spaces between, as "1@2.5 0@7"'
    return msgspec.Meta(description=doc, extra={"unit": "", "form": form}, pattern=rf"^({one}( {one})*)?$")


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all sections share: immutable, no unknown keys."""


Policy = Literal["immediate", "static", "continuous", "dynamic"]
TimeoutAction = Literal["reject", "delay"]
Ordering = Literal["fcfs", "priority", "spf", "edf", "fair"]
Keep = Literal["all", "tail"]
OnWorkerLost = Literal["resume", "fail"]
DType = Literal["auto", "bfloat16", "float32"]


class SchedulerConfig(Section, frozen=True, kw_only=True):
    """When requests start, and how much one step computes."""

    policy: Annotated[
        Policy,
        _key(
            "When waiting requests start: one at a time, a whole batch at a time, at every step, or (dynamic) a batch"
            " that is full, of a preferred size, has waited enough, or has a deadline in danger."
        ),
    ] = "continuous"
    order: Annotated[
        Ordering,
        _key(
            "Who of the waiting starts next: who came first, by priority, the shortest prompt, the earliest deadline,"
            " or the tenant served least (by a virtual counter of tokens)."
        ),
    ] = "fcfs"
    priority_levels: Annotated[
        int, _key("Order priority: number of levels, of which 1 is the highest.", "", 1, 100)
    ] = 3
    default_priority_level: Annotated[
        int, _key("Order priority: level of a request that brings none and whose tier is not in tiers.", "", 1, 100)
    ] = 2
    tiers: Annotated[
        tuple[str, ...], _key("Service classes; the place in the list is the level of those without a priority.")
    ] = ()
    ageing_ms: Annotated[float, _key("Order priority: wait that lifts a request by one level.", "ms", 0, 3_600_000)] = (
        10_000.0
    )
    min_share: Annotated[
        float,
        _key("Orders priority, spf, edf: share of the starts that go to who has waited longest.", "", 0.01, 1),
    ] = 0.1
    fair_output_weight: Annotated[
        float, _key("Order fair: what one output token counts, where a prompt token counts 1.", "", 0, 1000)
    ] = 2.0
    max_queue_size: Annotated[
        int,
        _key(
            "Most requests that wait for one worker, sent to it and not begun; who comes when so many do is refused at"
            " once. 0: no limit.",
            "requests",
            0,
            1_000_000,
        ),
    ] = 0
    max_queue_tokens: Annotated[
        int,
        _key("Most prompt tokens that wait for one worker; 0: no limit.", "tokens", 0, 2**40),
    ] = 0
    max_queue_memory_mb: Annotated[
        int,
        _key(
            "Most memory of the KV cache that the prompts of those that wait for one worker would take, in whole"
            " blocks; 0: no limit.",
            "MiB",
            0,
            16_777_216,
        ),
    ] = 0
    max_estimated_wait_ms: Annotated[
        float, _key("Longest wait to expect (queued tokens over recent throughput); 0: no limit.", "ms", 0, 3_600_000)
    ] = 0.0
    reserved_share: Annotated[
        float, _key("Share of the four limits above that is kept for requests of priority level 1.", "", 0, 1)
    ] = 0.0
    tenant_tokens_per_s: Annotated[
        float,
        _key(
            "Tokens that each tenant may use a second, of the whole fleet: prompt and max_tokens are charged, unused"
            " ones given back; 0: no limit.",
            "tokens/s",
            0,
            1e9,
        ),
    ] = 0.0
    tenant_capacity_share: Annotated[
        float,
        _key("The same as a share of what all workers together are measured to do, once they are; 0: none.", "", 0, 1),
    ] = 0.0
    tenant_burst_tokens: Annotated[
        int, _key("Tokens that a tenant may save up and use at once.", "tokens", 1, 2**40)
    ] = 10_000
    deadline_admission: Annotated[
        bool, _key("Refuse at once whoever could not be finished by its deadline, and say when to come again.")
    ] = False
    max_num_seqs: Annotated[int, _key("Most requests that run at once.", "requests", 1, 4096)] = 16
    max_num_batched_tokens: Annotated[
        int, _key("Most tokens one step computes, decodes and prefill together.", "tokens", 1, 1_048_576)
    ] = 256
    enable_chunked_prefill: Annotated[
        bool,
        _key("Split prompts over steps; without it a prompt must fit max_num_batched_tokens or is refused."),
    ] = True
    long_prefill_token_threshold: Annotated[
        int,
        _key("Most prompt tokens one request computes in a step; 0 sets no limit of its own.", "tokens", 0, 1_048_576),
    ] = 0
    tpot_slo_ms: Annotated[
        float,
        _key(
            "Pace that decodes should keep: a step takes no more prefill than leaves their next tokens in time, as far"
            " as it can be predicted; 0: as much as max_num_batched_tokens.",
            "ms",
            0,
            3_600_000,
        ),
    ] = 0.0
    min_prefill_tokens: Annotated[
        int, _key("With tpot_slo_ms: prefill that a step computes even where decodes are late.", "tokens", 1, 1_048_576)
    ] = 16
    max_batch_size: Annotated[
        int, _key("Policies static, dynamic: requests in a full batch; 0 takes max_num_seqs.", "requests", 0, 4096)
    ] = 0
    preferred_batch_size: Annotated[
        tuple[Annotated[int, msgspec.Meta(ge=1, le=4096)], ...],
        _key("Policy dynamic: sizes at which a batch leaves without waiting for more."),
    ] = ()
    max_queue_delay_ms: Annotated[
        float,
        _key("Policies static, dynamic: longest wait of the oldest request for its batch.", "ms", 0, 3_600_000),
    ] = 50.0
    max_queue_delay_microseconds: Annotated[
        int, _key("The same by Triton's name; counts where it is not -1.", "us", -1, 3_600_000_000)
    ] = -1
    adaptive_wait: Annotated[
        bool,
        _key(
            "Policy dynamic: wait only as long as the batch should take to fill, and not at all if it would not; where"
            " no request has a deadline, the longest wait stays."
        ),
    ] = False
    default_timeout_microseconds: Annotated[
        int, _key("Deadline from its arrival for a request that brings none; 0: none.", "us", 0, 86_400_000_000)
    ] = 0
    timeout_action: Annotated[
        TimeoutAction, _key("What becomes of a request whose deadline passes in the queue: it ends, or goes last.")
    ] = "reject"

    @property
    def guards_queue(self) -> bool:
        """Whether anybody may be refused for what others ask."""
        bounds = self.max_queue_size or self.max_queue_tokens or self.max_queue_memory_mb or self.max_estimated_wait_ms
        rates = self.tenant_tokens_per_s or self.tenant_capacity_share
        return bool(bounds or rates) or self.deadline_admission

    @property
    def ageing_ns(self) -> int:
        """`ageing_ms` in ns."""
        return round(self.ageing_ms * 1e6)

    @property
    def tpot_slo_ns(self) -> int:
        """`tpot_slo_ms` in ns."""
        return round(self.tpot_slo_ms * 1e6)

    @property
    def batch_size(self) -> int:
        """Requests in a full static batch."""
        return self.max_batch_size or self.max_num_seqs

    @property
    def max_queue_delay_ns(self) -> int:
        """The longest wait for a batch in ns."""
        if self.max_queue_delay_microseconds >= 0:
            return self.max_queue_delay_microseconds * 1000
        return round(self.max_queue_delay_ms * 1e6)


class KvConfig(Section, frozen=True, kw_only=True):
    """The paged KV cache."""

    block_size: Annotated[int, _key("Tokens whose keys and values one block holds.", "tokens", 1, 1024)] = 16
    num_blocks: Annotated[
        int, _key("Blocks in the pool; 0 derives it from memory_mb, or chooses.", "blocks", 0, 16_777_216)
    ] = 0
    memory_mb: Annotated[
        int, _key("Memory for the pool; 0 chooses by the device's free memory.", "MiB", 0, 16_777_216)
    ] = 0
    token_bytes: Annotated[
        int,
        _key(
            "Memory of the keys and values of one token (tailtrace capacity tells a model's). Only simulation reads it:"
            " a server knows its model's own. 0: not known, so no limit in MiB can be simulated.",
            "bytes",
            0,
            2**40,
        ),
    ] = 0
    watermark: Annotated[
        float,
        _key("Share of the blocks that must stay free for growth when a request starts beside others.", "", 0, 0.5),
    ] = 0.01
    enable_prefix_caching: Annotated[
        bool, _key("Keep the blocks of what was computed, and share them with who begins with the same tokens.")
    ] = False

    def watermark_blocks(self, num_blocks: int) -> int:
        """The watermark in whole blocks of a pool of `num_blocks`."""
        return math.ceil(self.watermark * num_blocks)


class RecordConfig(Section, frozen=True, kw_only=True):
    """What is written down."""

    enabled: Annotated[bool, _key("Record the run.")] = True
    ring_mb: Annotated[
        int, _key("Memory-mapped ring a producer keeps per table; full rings count drops.", "MiB", 1, 4096)
    ] = 16
    seal_interval_s: Annotated[
        float, _key("Longest time a record stays in its ring before it is sealed to Parquet.", "s", 0.05, 3600)
    ] = 2.0
    sample_interval_s: Annotated[float, _key("Time between readings of device and host.", "s", 0.05, 3600)] = 1.0
    keep: Annotated[
        Keep,
        _key(
            "Passes that stay on disk: all, or (tail) those around requests that failed, broke slo_ms or were among the"
            " slowest. Rows and spans of requests always stay. Simulated runs are kept whole."
        ),
    ] = "all"
    slo_ms: Annotated[
        float, _key("Keep tail: requests that took longer end to end are slow; 0 asks for no limit.", "ms", 0, 1e9)
    ] = 0.0
    keep_slowest: Annotated[
        float, _key("Keep tail: share of requests that is slow however fast all are; 0 for none.", "", 0, 1)
    ] = 0.01
    keep_slowest_of: Annotated[
        int, _key("Keep tail: how many of the last requests that share is taken of.", "requests", 1, 1_000_000)
    ] = 1000
    keep_margin_s: Annotated[float, _key("Keep tail: time kept before and after a slow request.", "s", 0, 3600)] = 1.0


class ServerConfig(Section, frozen=True, kw_only=True):
    """The front end's limits."""

    max_body_bytes: Annotated[
        int, _key("Largest request body that is read; larger ones get 413.", "bytes", 1024, 1_073_741_824)
    ] = 4_194_304
    drain_timeout_s: Annotated[
        float, _key("Longest time a stopping server lets running requests finish.", "s", 0, 3600)
    ] = 30.0


class EngineConfig(Section, frozen=True, kw_only=True):
    """The model and its device."""

    max_model_len: Annotated[
        int, _key("Most tokens of prompt and output together; 0 takes the model's own limit.", "tokens", 0, 16_777_216)
    ] = 0
    dtype: Annotated[DType, _key("Number format of weights and cache; auto takes the fastest on the device.")] = "auto"
    torch_threads: Annotated[
        int, _key("CPU threads of the model; 0 leaves one core to the other processes.", "threads", 0, 4096)
    ] = 0
    seed: Annotated[int, _key("Seed of sampling for requests that bring none.", "", 0, 2**63 - 1)] = 0


class RouterConfig(Section, frozen=True, kw_only=True):
    """Which of several workers a request goes to, and what becomes of it when that one is lost."""

    prefix_load_factor: Annotated[
        float,
        _key(
            "With enable_prefix_caching: a worker that holds what a prompt begins with is chosen while its queue is at"
            " most so many times the tokens thus saved longer than the shortest; 0: only where they are equal.",
            "",
            0,
            1000,
        ),
    ] = 1.0
    heartbeat_ms: Annotated[
        float, _key("Each of several workers tells at least so often that it lives, and its load.", "ms", 10, 60_000)
    ] = 250.0
    heartbeat_timeout_ms: Annotated[
        float,
        _key(
            "Silence after which a worker is taken out until it is heard again; longer than any step takes. 0: never.",
            "ms",
            0,
            3_600_000,
        ),
    ] = 10_000.0
    on_worker_lost: Annotated[
        OnWorkerLost,
        _key(
            "What becomes of a stream whose worker is lost: it goes on elsewhere from the tokens already sent, or ends"
            " with an error after which it is safe to try again. Answers that are not streamed always begin anew."
        ),
    ] = "resume"
    max_attempts: Annotated[
        int, _key("Workers that a request is given to, one after the loss of the other.", "attempts", 1, 100)
    ] = 3
    max_worker_losses: Annotated[
        int,
        _key(
            "Workers that may be lost while a request runs on them; then it is suspected to be the reason, and fails.",
            "workers",
            1,
            100,
        ),
    ] = 2

    @property
    def heartbeat_ns(self) -> int:
        """`heartbeat_ms` in ns."""
        return round(self.heartbeat_ms * 1e6)

    @property
    def heartbeat_timeout_ns(self) -> int:
        """`heartbeat_timeout_ms` in ns."""
        return round(self.heartbeat_timeout_ms * 1e6)


class FaultsConfig(Section, frozen=True, kw_only=True):
    """What goes wrong in virtual time; only simulation reads it."""

    worker_lost: Annotated[str, _instants("Workers that die, and when; the router learns of it at once.")] = ""
    worker_silent: Annotated[
        str, _instants("Workers that stop, and when; the router learns of it after heartbeat_timeout_ms.")
    ] = ""


class CostConfig(Section, frozen=True, kw_only=True):
    """What a step costs in virtual time; only simulation reads it. The defaults resemble a 135M model on two cores."""

    step_us: Annotated[float, _key("Each step, whatever it computes.", "us", 0, 1e9)] = 28_000.0
    decode_us: Annotated[float, _key("Each decode in a step.", "us", 0, 1e9)] = 1_300.0
    decode_kv_token_ns: Annotated[float, _key("Each cached token that a decode reads.", "ns", 0, 1e9)] = 2_000.0
    prefill_token_us: Annotated[float, _key("Each prompt token computed.", "us", 0, 1e9)] = 1_400.0
    prefill_pair_ns: Annotated[float, _key("Each pair of a prompt token and a token before it.", "ns", 0, 1e9)] = 300.0
    host_us: Annotated[float, _key("Host time of each pass, half before the execution, half after.", "us", 0, 1e9)] = (
        300.0
    )
    ingress_us: Annotated[float, _key("Way of a request from its arrival to the worker.", "us", 0, 1e9)] = 200.0
    link_us: Annotated[float, _key("Way of a step's tokens from the worker to the front end.", "us", 0, 1e9)] = 100.0
    write_us: Annotated[float, _key("Writing one stream's token to its client.", "us", 0, 1e9)] = 20.0


class Config(Section, frozen=True, kw_only=True):
    """The whole configuration of an engine."""

    scheduler: SchedulerConfig = SchedulerConfig()
    kv: KvConfig = KvConfig()
    record: RecordConfig = RecordConfig()
    server: ServerConfig = ServerConfig()
    engine: EngineConfig = EngineConfig()
    router: RouterConfig = RouterConfig()
    cost: CostConfig = CostConfig()
    faults: FaultsConfig = FaultsConfig()
