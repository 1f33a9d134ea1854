"""The toy ledger's data: the machine that all policies share, sixteen requests, their arrivals at a rate (SPEC E1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from recorder.errors import UserError


class ToyError(UserError):
    """A ledger or a setting that the toy machine can't run: says which, and what it takes."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """What the machine does in a tick, and how many tokens its KV cache holds."""

    tick_s: Fraction = Fraction(1, 10)
    prefill_tokens_per_tick: int = 24
    decode_slots: int = 3
    kv_tokens: int = 72


@dataclass(frozen=True, slots=True)
class ToyRequest:
    """A row of the ledger; `at` is its place in the trace's shape, not a time: the arrival rate turns it into one."""

    id: str
    at: Fraction
    prompt: int
    output: int
    role: str = ""

    @property
    def tokens(self) -> int:
        """Prompt and output together: what the request reserves of the KV cache, and all it will ever hold."""
        return self.prompt + self.output


# The table of seed 004 ("throughput, latency and queueing of an inference service"), as printed there.
_TABLE = """
R01 0.00 18 12 long
R02 0.10  6  2 short
R03 0.22  5  3 short
R04 0.38  7  2 short
R05 0.95 10  5 medium
R06 1.08  5  2 short
R07 1.22  6  4 medium
R08 2.10 16  8 long
R09 2.20  5  2 short
R10 2.33  8  3 short
R11 3.15 12  6 medium
R12 3.28  5  2 short
R13 3.40  6  3 short
R14 4.30  9  4 medium
R15 4.40  5  2 short
R16 4.52  7  3 short
"""


def _row(line: str) -> ToyRequest:
    rid, at, prompt, output, role = line.split()
    return ToyRequest(rid, Fraction(at), int(prompt), int(output), role)


LEDGER = tuple(_row(line) for line in _TABLE.strip().splitlines())


def arrivals_s(requests: Sequence[ToyRequest], rate: Fraction) -> list[Fraction]:
    """Arrival of each request in seconds: the trace keeps its shape, and its n - 1 gaps average 1/rate (SPEC E1)."""
    if rate <= 0:
        raise ToyError(f"--rate must be above 0 requests/s, not {float(rate):g}")
    if not requests:
        raise ToyError("the ledger holds no request")
    first, shape = requests[0].at, requests[-1].at - requests[0].at
    if len(requests) == 1:
        return [Fraction(0)]
    if shape <= 0:
        raise ToyError("the ledger's last request must come after its first: a rate can't stretch a single instant")
    return [(request.at - first) * (len(requests) - 1) / rate / shape for request in requests]


def check_ledger(requests: Sequence[ToyRequest], hardware: Hardware) -> None:
    """ToyError for rows out of order, without tokens, or too large for the KV cache even when they are alone in it."""
    for before, after in pairwise(requests):
        if after.at < before.at:
            raise ToyError(f"{after.id} (at {float(after.at):g}) stands after {before.id} (at {float(before.at):g})")
    for request in requests:
        if request.prompt < 1 or request.output < 1:
            raise ToyError(f"{request.id}: prompt and output must hold at least 1 token each")
        if request.tokens > hardware.kv_tokens:
            raise ToyError(
                f"{request.id} can never fit: prompt {request.prompt} + output {request.output} = {request.tokens} "
                f"tokens, and the KV cache holds {hardware.kv_tokens}"
            )
