"""How much is fetched ahead of a consumer that reads on, and how much of it by one request. Pure.

A request to the tier costs the same whatever it brings: signing, headers, a way to a thread and back. So chunks that
follow each other come by one request, a run. How many they are grows with what the consumer has read in sequence:

| read in sequence      | chunks of a run | chunks ahead at most | fetched for nothing if it stops, at most   |
|-----------------------|-----------------|----------------------|--------------------------------------------|
| less than two chunks  | 1               | `ahead`              | as much as one that has read a chunk       |
| two chunks            | 2               | `ahead` * 2          | `ahead` times what it has read             |
| four chunks or more   | 4               | `ahead` * 4          | `ahead` times what it has read, 32 MiB     |

`ahead` (2) runs are thus under way or ready, as with single chunks: a store that limits each connection is read by
as many. All consumers share the memory (`expected.py` counts what they are about to read): where little is left, runs
are shorter; at the end a consumer has one chunk ahead, and none where the memory is full.

A store, or a proxy before it, may break off long answers. So a run that fails is followed by single chunks, and by
longer runs again after `GOOD_RUNS` that came whole, each time.
"""

from __future__ import annotations

from typing import Final

RUN_CHUNKS_MAX: Final = 4
"""16 MiB of the default chunks: what is left of a request's cost is a twentieth of what its bytes cost."""
RESERVED_CHUNKS: Final = 2
"""The chunks of memory that are left to those who do not read on: more than one is fetched ahead beside them alone."""
GOOD_RUNS: Final = 8


def run_chunks(read_bytes: int, chunk_bytes: int, chunks_max: int) -> int:
    """Return the length of a run for a consumer that has read so much in sequence: a power of two, at least 1."""
    run = 1
    while run * 2 <= min(chunks_max, read_bytes // chunk_bytes):
        run *= 2
    return run


def next_run(there: int, run: int, room: int, ahead: int) -> int:
    """Return how many chunks to ask for now where `there` are ahead already; 0 if these are enough. `run` is how many
    it may be, `room` how many others the memory can take.
    """
    spare = room - RESERVED_CHUNKS
    if spare <= 0:
        return 1 if there == 0 and room > 0 and ahead > 0 else 0
    while run > spare:
        run //= 2
    return run if there + run <= ahead * run else 0


class RunLimit:
    """The length that runs may have, by how the store took the last ones."""

    def __init__(self, chunks_max: int = RUN_CHUNKS_MAX) -> None:
        self._chunks_max = chunks_max
        self._good = 0
        self.chunks: int = chunks_max

    def failed(self) -> None:
        """Take up that a run broke off."""
        self.chunks, self._good = 1, 0

    def ended(self) -> None:
        """Take up that a run, or a single chunk, came whole."""
        if self.chunks == self._chunks_max:
            return
        self._good += 1
        if self._good >= GOOD_RUNS:
            self.chunks, self._good = min(2 * self.chunks, self._chunks_max), 0
