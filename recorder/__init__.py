"""The contract: how a run is written, found again, checked and attributed to causes."""
