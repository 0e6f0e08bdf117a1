"""Zigzag varints at many positions at once."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from .batch_table import Int64Array

BYTES_MAX: Final = 10
"""The longest encoding of a 64-bit number."""


def read_varints(data: npt.NDArray[np.uint8], at: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The numbers that begin at `at`, and where each ends. IndexError beyond the data, ValueError for one that is too
    long.
    """
    byte = data[at]
    value = (byte & 0x7F).astype(np.int64)
    end = at + 1
    longer = np.flatnonzero(byte > 0x7F)
    for index in range(1, BYTES_MAX):
        if not longer.size:
            break
        byte = data[end[longer]]
        value[longer] |= (byte & 0x7F).astype(np.int64) << (7 * index)
        end[longer] += 1
        longer = longer[byte > 0x7F]
    if longer.size:
        raise ValueError(f"a varint takes more than {BYTES_MAX} bytes")
    # The shift must not drag the sign along.
    return ((value.view(np.uint64) >> np.uint64(1)).view(np.int64)) ^ -(value & 1), end
