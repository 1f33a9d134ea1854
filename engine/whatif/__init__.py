"""What if: a recorded run re-run in virtual time by the scheduler that served, as it was and as it might be."""
