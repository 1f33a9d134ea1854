"""Checksums of many records are those that zlib gives each of them."""

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.checksums import crc32_each


@pytest.mark.parametrize("count", [0, 1, 255, 256, 8192, 20_001])
@settings(max_examples=10, deadline=None)
@given(size=st.integers(1, 600), seed=st.integers(0, 2**32), zeros=st.booleans())
def test_each_sum_is_that_of_zlib(count: int, size: int, seed: int, zeros: bool) -> None:
    dice = np.random.default_rng(seed)
    bodies = dice.integers(0, 256, (count, size), np.uint8)
    if zeros:
        bodies[:, ::2] = 0
    starts = dice.integers(0, 2**63, count, np.uint64) * np.uint64(2)
    sums = crc32_each(bodies, starts)
    assert sums.dtype == np.uint32
    chosen = range(count) if count < 1000 else dice.integers(0, count, 500).tolist()
    for row in chosen:
        assert sums[row] == zlib.crc32(bodies[row].tobytes(), int(starts[row]) & 0xFFFFFFFF)
