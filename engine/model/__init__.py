"""The language model: weights, tokenizer, paged decoder, executor. The only folder that knows torch."""

import os

# OpenMP reads this as torch loads it. By default its threads spin at barriers, and when another process holds a core,
# steps take seconds: 2 threads on 2 crowded cores made 2 to 10 steps in 8 s spinning and 23 to 56 sleeping, in turns.
# What sleeping costs on an idle machine was not measured. One thread never waits.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
