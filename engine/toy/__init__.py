"""The toy ledger (SPEC E): sixteen requests on a toy machine, replayed tick by tick in rational arithmetic."""
