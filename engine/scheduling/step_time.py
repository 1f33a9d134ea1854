"""What a step will take: a linear model of step time that learns from every step it sees. Pure arithmetic."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.core import StepPlan
from engine.messages import StepTimes
from recorder.words import Role

_FORGETTING = 0.995
"""Weight of the past at every new step: about the last 200 steps count."""
_ENOUGH = 3
"""Steps seen for each coefficient before a prediction is given."""
_INERTIA = 1e-4
"""Weight of the coefficients as they are, beside the steps seen: holds those that no recent step informs."""
_LEVERAGE = 1.0
"""A step is unlike all seen before where its leverage is larger: one like it, seen once, would have this much."""

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted execution of a step in ns, and of the same step without its prefills; None: not known yet."""

    predicted_ns: int | None
    decode_only_ns: int | None


class StepTimeModel:
    """Two least squares fits with forgetting: one over all steps, one over pure decode steps alone.

    The second keeps what a decode costs by itself free of what prefills cost beside it.
    """

    def __init__(self) -> None:
        self._whole = _Fit(5)
        self._decode = _Fit(3)

    def predict(self, plan: StepPlan) -> Prediction:
        """What the execution of `plan` will take."""
        features = _features(plan)
        decode_only = self._decode.predict(features[:3]) if features[1] else None
        return Prediction(self._whole.predict(features), decode_only)

    def observe(self, plan: StepPlan, exec_ns: int) -> None:
        """Learn that the execution of `plan` took `exec_ns`."""
        features = _features(plan)
        self._whole.observe(features, exec_ns)
        if not features[3]:
            self._decode.observe(features[:3], exec_ns)

    def told(self) -> StepTimes | None:
        """What it has learnt, for who predicts elsewhere; None while that is too little."""
        return self._whole.told()


class ToldTimes:
    """Predicts as the model did that told these times."""

    def __init__(self, times: StepTimes) -> None:
        self._whole = _Fit.of(times)

    def predict(self, plan: StepPlan) -> Prediction:
        """What the execution of `plan` will take; not what its decodes alone would."""
        return Prediction(self._whole.predict(_features(plan)), None)

    def told(self) -> StepTimes | None:
        """What it was told."""
        return self._whole.told()


def _features(plan: StepPlan) -> Vector:
    """Shape (5,): 1, decodes, their cached tokens, prefill tokens, prefill tokens times their mean context.

    Scaled to about 1, so that no coefficient is learnt with less precision than another.
    """
    decodes = decode_kv = prefill = prefill_context = 0
    for slice_ in plan.slices:
        if slice_.role is Role.DECODE:
            decodes += 1
            decode_kv += slice_.computed_before
        else:
            prefill += slice_.tokens
            prefill_context += slice_.tokens * (2 * slice_.computed_before + slice_.tokens)
    return np.array([1.0, decodes / 10, decode_kv / 1e4, prefill / 100, prefill_context / 1e5])


class _Fit:
    """Least squares over an exponential window, kept as its normal equations; times inside are in ms.

    The textbook recursion on the covariance winds up in directions that no step excites; this form does not.
    """

    def __init__(self, size: int) -> None:
        self._beta: Vector = np.zeros(size)
        self._gram: Vector = np.zeros((size, size))
        self._moment: Vector = np.zeros(size)
        self._inertia = np.eye(size) * _INERTIA
        self._seen = 0

    @classmethod
    def of(cls, times: StepTimes) -> "_Fit":
        """As `told` told it."""
        size = len(times.coefficients)
        fit = cls(size)
        fit._beta, fit._gram = np.array(times.coefficients), np.array(times.seen).reshape(size, size)
        fit._seen = _ENOUGH * size
        return fit

    def told(self) -> StepTimes | None:
        if self._seen < _ENOUGH * len(self._beta):
            return None
        return StepTimes(self._beta.tolist(), self._gram.ravel().tolist())

    def predict(self, features: Vector) -> int | None:
        """In ns; None before enough was seen, for a step unlike any seen, or where the line runs below zero."""
        if self._seen < _ENOUGH * len(self._beta) or self._leverage(features) > _LEVERAGE:
            return None
        predicted = round(float(features @ self._beta) * 1e6)
        return predicted if predicted > 0 else None

    def observe(self, features: Vector, took_ns: int) -> None:
        expected = self.predict(features)
        # A stall of the host is no property of the step: it may count as twice the prediction, no more.
        took_ms = (took_ns if expected is None else min(took_ns, 2 * expected)) / 1e6
        self._gram = _FORGETTING * self._gram + np.outer(features, features)
        self._moment = _FORGETTING * self._moment + features * took_ms
        self._beta = self._solve(self._moment + _INERTIA * self._beta)
        self._seen += 1

    def _leverage(self, features: Vector) -> float:
        return float(features @ self._solve(features))

    def _solve(self, right: Vector) -> Vector:
        return np.asarray(np.linalg.solve(self._gram + self._inertia, right), np.float64)
