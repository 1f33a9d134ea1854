"""Sweeps: one variable over several levels, the same traffic at each (SPEC D3, D7)."""
