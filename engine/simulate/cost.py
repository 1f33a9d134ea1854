"""What a step costs in virtual time: fixed, or linear in tokens and context; and what is predicted from that."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from engine.calls import Attention, Part
from engine.config import CostConfig
from engine.core import Slice, StepPlan
from engine.messages import StepTimes
from engine.scheduling.step_time import Prediction
from recorder.words import Role

Cost = Callable[[StepPlan], int]
"""Nanoseconds that the execution of a plan takes. A `KnownTime` is one, and is charged to the picosecond."""


@dataclass(frozen=True)
class LinearCost:
    """Step time linear in tokens and context, in whole ps. The defaults resemble a 135M model on two CPU cores."""

    step: int = 28_000_000_000
    """Each step."""
    decode: int = 1_300_000_000
    """Each decode in it."""
    decode_kv: int = 2_000_000
    """Each token in the KV cache of each decode."""
    prefill: int = 1_400_000_000
    """Each token of prefill (or recompute)."""
    prefill_pair: int = 300_000
    """Each pair of a prefill token and a token before it: `pairs(tokens, computed_before)` of a slice."""

    @classmethod
    def of(cls, cost: CostConfig) -> "LinearCost":
        """As the section `[cost]` has it."""
        return cls(
            step=round(cost.step_us * 1e6),
            decode=round(cost.decode_us * 1e6),
            decode_kv=round(cost.decode_kv_token_ns * 1e3),
            prefill=round(cost.prefill_token_us * 1e6),
            prefill_pair=round(cost.prefill_pair_ns * 1e3),
        )

    def __call__(self, plan: StepPlan) -> int:
        """In ns, rounded down."""
        return self.ps(plan) // 1000

    @property
    def regimes(self) -> "TwoRegimes":
        """The same as two regimes."""
        return TwoRegimes(self, self)

    def ps(self, plan: StepPlan) -> int:
        """The sum over the plan's slices, in ps."""
        return self.step + sum(self._slice(part) for part in plan.slices)

    def _slice(self, part: Slice) -> int:
        if part.role is Role.DECODE:
            return self.decode + self.decode_kv * part.computed_before
        return part.tokens * self.prefill + pairs(part.tokens, part.computed_before) * self.prefill_pair


@dataclass(frozen=True)
class Shape:
    """What a step takes beyond a linear cost (or less), in whole ps."""

    sizes: tuple[int, ...] = ()
    """Of 1, 2, ... decodes alone: kernels suit some numbers better than others."""
    call: int = 0
    """Each call of attention."""
    attention: Attention = field(default_factory=Attention)

    def __bool__(self) -> bool:
        return any(self.sizes) or self.call > 0

    def of_size(self, decodes: int) -> int:
        """What their number makes of it, for decodes alone."""
        return self.sizes[decodes - 1] if 0 < decodes <= len(self.sizes) else 0

    def of_calls(self, parts: Iterable[Part]) -> int:
        """What the calls of attention for these slices take."""
        return self.call * self.attention.calls(parts) if self.call else 0


@dataclass(frozen=True)
class TwoRegimes:
    """Steps of decodes alone cost `decode`, steps that also compute prompts `mixed`: devices run them differently."""

    decode: LinearCost
    mixed: LinearCost
    shape: Shape = field(default_factory=Shape)

    def __call__(self, plan: StepPlan) -> int:
        """In ns, rounded down."""
        return self.ps(plan) // 1000

    @property
    def regimes(self) -> "TwoRegimes":
        """Itself."""
        return self

    def ps(self, plan: StepPlan) -> int:
        """What the plan's own regime says, in ps."""
        calls = self.shape.of_calls((part.tokens, part.computed_before) for part in plan.slices)
        if any(part.role is not Role.DECODE for part in plan.slices):
            return calls + self.mixed.ps(plan)
        return calls + self.decode.ps(plan) + self.shape.of_size(len(plan.slices))


KnownTime = LinearCost | TwoRegimes
"""Costs that follow from the sums of a plan alone: those of decodes, and of prompts, in one regime or two."""


def pairs(tokens: int, computed_before: int) -> int:
    """Pairs of a token of a slice and a token before it: what attention computes for a stretch of prompt."""
    return tokens * computed_before + tokens * (tokens - 1) // 2


def fixed_time(ns: int) -> LinearCost:
    """Every step takes `ns`, whatever it computes (SPEC A3, C11)."""
    return LinearCost(step=ns * 1000, decode=0, decode_kv=0, prefill=0, prefill_pair=0)


class KnownCost:
    """A step's time, known before it runs because it is computed: so predictions have no error. See `loop.StepTime`."""

    def __init__(self, cost: KnownTime) -> None:
        self._cost = cost

    def predict(self, plan: StepPlan) -> Prediction:
        """The cost of the plan, and of the same plan without its prefills where there are decodes."""
        decodes = tuple(part for part in plan.slices if part.role is Role.DECODE)
        return Prediction(self._cost(plan), self._cost(replace(plan, slices=decodes)) if decodes else None)

    def observe(self, plan: StepPlan, exec_ns: int) -> None:
        """There is nothing to learn."""

    def told(self) -> StepTimes | None:
        """Nothing: who needs it has the cost itself."""
        return None
