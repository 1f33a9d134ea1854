"""Attribution: from the tables of a run to the cause of every nanosecond of every request. A pure function.

tables -> attempts.py   each attempt's window in time
       -> passes.py     each worker's passes, and how much of any window belongs to some of them
       -> waiting.py    before its first step: what held the queue up, and who
       -> running.py    from its first step on: computing, stalled, skipped, preempted, on its way out
       -> stalls.py     the host held up: taken out of whatever the time would have been
       -> budget.py     the sums, and what is left unnamed
"""

from recorder.attribution.attribute import attribute
from recorder.attribution.budget import CAUSES, SCHEMA
from recorder.attribution.columns import Tables

__all__ = ["CAUSES", "SCHEMA", "Tables", "attribute"]
