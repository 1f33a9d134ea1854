"""Decisions: queue, batch, KV blocks. Pure: no clock, no I/O, no torch, no randomness."""

from engine.scheduling.scheduler import PagedScheduler, make_scheduler
from engine.scheduling.step_time import StepTimeModel

__all__ = ["PagedScheduler", "StepTimeModel", "make_scheduler"]
