"""Asking a run in SQL: the answer and what went wrong, what there is to ask about, and what was asked before."""
