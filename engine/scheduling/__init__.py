"""Decisions: queue, batch, KV blocks. Pure: no clock, no I/O, no torch, no randomness."""
