"""The page cache of files: emptied before a cold reading, filled before a warm one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

READ_BYTES: Final = 4 << 20


def make_cold(paths: Iterable[Path]) -> None:
    """Write the files back, and have the kernel drop their pages."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def make_warm(paths: Iterable[Path]) -> None:
    """Read the files."""
    buffer = bytearray(READ_BYTES)
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
