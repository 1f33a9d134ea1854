"""Virtual time: the scheduler that serves, on a clock that jumps, with a cost model in place of a device."""
