"""Memory that the host has already backed, handed to the system under test as it needs it.

A virtual machine gives memory that has been free for a second or two back to its host, and the first touch of each page
then asks for it again: a gigabyte of new file pages has been seen to take 2.6 s of CPU that way, and 0.16 s where the
pages were in use a moment ago. A copy would measure the hypervisor, and the system that starts more slowly would find
colder memory. So a benchmark keeps as much page cache as the run will take, in a file of its own, and cuts it off piece
by piece, always a little ahead of what has been used: the kernel hands out first what was freed last. It must be page
cache, filled by writes of the size that the run will make, because the kernel looks for pages of that very order.
On a machine of its own this costs nothing and changes nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

AHEAD_BYTES: Final = 192 << 20
"""Free and warm at any moment. More would grow cold before it is used."""
LOOK_INTERVAL_S: Final = 0.02
WRITE_BYTES: Final = 1_008_000
"""As a follower writes: four batches of 250 records of 1 kB."""


@contextmanager
def warm_memory(directory: Path, size_bytes: int) -> Iterator[None]:
    """While the block runs, what others allocate comes from memory that was in use a moment ago."""
    path = directory / "warm-memory"
    with open(path, "w+b", buffering=0) as file:
        data = os.urandom(WRITE_BYTES)
        while file.tell() < size_bytes:
            file.write(data)
        size_bytes = file.tell()
        free_at_start = psutil.virtual_memory().free
        ended = threading.Event()

        def follow() -> None:
            """Cut off what has been taken since the start, and some more."""
            left = size_bytes
            while not ended.is_set():
                taken = free_at_start + size_bytes - left - psutil.virtual_memory().free
                wanted = max(0, size_bytes - max(0, taken) - AHEAD_BYTES)
                if wanted < left:
                    file.truncate(wanted)
                    left = wanted
                ended.wait(LOOK_INTERVAL_S)

        follower = threading.Thread(target=follow, name="warm-memory", daemon=True)
        follower.start()
        try:
            yield
        finally:
            ended.set()
            follower.join()
            path.unlink()
