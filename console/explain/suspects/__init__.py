"""The suspects, in the order in which they may claim: whoever explains more comes before whoever explains anything."""

from typing import Final

from console.explain.suspects.base import Suspect
from console.explain.suspects.cache import CACHE_MISSES
from console.explain.suspects.fleet import WORKER_LOST
from console.explain.suspects.host import COLD_STEPS, EVENT_LOOP, GC_PAUSES, HOST_TIME
from console.explain.suspects.load import CLOSED_LOOP, LOST_RECORDS, REFUSALS
from console.explain.suspects.memory import KV_EXHAUSTED
from console.explain.suspects.prompts import LONG_PROMPTS
from console.explain.suspects.queueing import BATCH_TIMER, QUEUE_SATURATED
from console.explain.suspects.tiers import STARVED_TIER
from console.explain.suspects.ways import SLOW_CLIENTS, WAY_IN, WAY_OUT
from console.explain.suspects.work import ASKED_FOR_MORE, SLOWER_STEPS

SUSPECTS: Final[tuple[Suspect, ...]] = (
    CLOSED_LOOP,
    LOST_RECORDS,
    REFUSALS,
    WORKER_LOST,
    CACHE_MISSES,
    GC_PAUSES,
    EVENT_LOOP,
    COLD_STEPS,
    KV_EXHAUSTED,
    BATCH_TIMER,
    STARVED_TIER,
    LONG_PROMPTS,
    SLOW_CLIENTS,
    WAY_OUT,
    WAY_IN,
    QUEUE_SATURATED,
    HOST_TIME,
    ASKED_FOR_MORE,
    SLOWER_STEPS,
)
