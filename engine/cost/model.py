"""A fitted cost model: coefficients in whole ps, the time beside the device, its source and its held-out error."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec
import numpy as np

from engine.cost.solve import Array
from engine.simulate.clock import Delays
from engine.simulate.cost import KnownTime, LinearCost, Shape, TwoRegimes
from recorder.errors import UserError

COEFFICIENTS: Final = ("step", "decode", "decode_kv", "prefill", "prefill_pair")
"""The fields of a `LinearCost`, in the order of the columns that fits work on."""
PS_PER_NS: Final = 1000


class CostError(UserError):
    """A recording from which no cost can be learnt: says what it lacks."""


@dataclass(frozen=True, kw_only=True)
class CostFit:
    """What a step takes, and the time beside it. `decode` and `mixed` are equal where one regime does."""

    source: Literal["steps", "stamps", "configuration"]
    decode: LinearCost
    mixed: LinearCost
    delays: Delays
    shape: Shape = field(default_factory=Shape)
    """What no linear cost has."""
    plans_ahead: bool = False
    """The recorded engine plans each pass while the one before it runs."""
    trained_on: int = 0
    """Steps or requests that it was learnt from."""
    device_share: float | None = None
    """Part of the execution in which the device was busy; the rest is the host's. None: not recorded."""
    held_out: Mapping[str, float] = field(default_factory=dict)
    """Relative errors on what a first fit had not seen."""

    @property
    def cost(self) -> KnownTime:
        """The cost of a plan."""
        one = self.decode == self.mixed and not self.shape
        return self.decode if one else TwoRegimes(self.decode, self.mixed, self.shape)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `run.json`."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "CostFit":
        """What `to_dict` gave. CostError for anything else."""
        try:
            return msgspec.convert(plain, cls)
        except msgspec.ValidationError as error:
            raise CostError(f"the cost model stored in the run can't be read: {error}") from error


def linear(coefficients: Sequence[float] | Array) -> LinearCost:
    """From ns (in the order of `COEFFICIENTS`) to whole ps."""
    return LinearCost(*(max(round(float(value) * PS_PER_NS), 0) for value in coefficients))


def coefficients(cost: LinearCost) -> Array:
    """The reverse of `linear`, shape (5,), in ns."""
    return np.array([getattr(cost, name) / PS_PER_NS for name in COEFFICIENTS])
