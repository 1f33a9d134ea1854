"""The capacity sheet (SPEC C12, C11, A5): from model, machine and traffic to GPUs and cost, by printed formulas."""
