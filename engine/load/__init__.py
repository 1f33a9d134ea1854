"""Load: workload files, and an open-loop client that says how late it sent."""
