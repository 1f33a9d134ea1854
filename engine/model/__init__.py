"""The language model: weights, tokenizer, paged decoder, executor. The only folder that knows torch."""

import os

# OpenMP reads this as torch loads it. By default its threads spin at barriers, and when another process holds a core,
# steps take seconds (2 threads on 2 busy cores: 19 tokens/s spinning, 59 sleeping). One thread never waits.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
