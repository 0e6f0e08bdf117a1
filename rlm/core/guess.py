"""Where a batch probably is in a remote segment whose index is not at hand. Pure.

The index is one round trip away, and the batch that it leads to another. So what probably holds the batch is fetched
beside the index. The index still decides: a guess says what is fetched early, never what is served.

The guess takes each offset of the segment for as large as the others. That is right for even records, and for every
segment of one chunk; it misses where sizes differ much or compaction has left holes. What it may cost:

| bound                                                             | by                                          |
|-------------------------------------------------------------------|---------------------------------------------|
| one guess reads at most `bytes_max`, thus two chunks              | `probable_range`                            |
| a partition's wrong guesses exceed the right ones by `TRUST_MAX`, | `GuessTrust`                                |
| besides those under way                                           |                                             |
| it waits for nothing, and leaves no debt at the rate limit        | `RemoteChunks.guess`: free places and bytes |

A guess that is not made is judged too, once the index says what it would have been worth: that is how a partition
comes to be trusted again, and how a guess is judged whose read timed out before the index came.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from ...light_dataclass import dataclass
from ...protocol import TopicIdPartition
from ...remote.core import RemoteLogSegmentMetadata

TRUST_MAX: Final = 2
"""The trust in a partition of which nothing is known, and the most that any has."""
PARTITIONS_MAX: Final = 1024
"""The number of partitions that are remembered; one that is forgotten is trusted again."""
BEFORE_SHARE: Final = 64
"""A guess begins this share of its bytes before the place: the index leads to an entry at or before the batch."""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes [start, end) of a segment's log."""

    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

    def touches(self, start: int, end: int) -> bool:
        return self.start < end and start < self.end


def probable_range(segment: RemoteLogSegmentMetadata, offset: int, read_bytes: int, bytes_max: int) -> ByteRange:
    """Return what a read of `read_bytes` from the batch of `offset` on probably reads: not empty, within the log."""
    assert segment.start_offset <= offset <= segment.end_offset, (offset, segment)
    assert bytes_max > 0, bytes_max
    size = segment.segment_size_in_bytes
    position = size * (offset - segment.start_offset) // (segment.end_offset - segment.start_offset + 1)
    before = bytes_max // BEFORE_SHARE
    start = max(0, position - before)
    return ByteRange(start, min(size, start + min(bytes_max, before + max(1, read_bytes))))


class GuessTrust:
    """The partitions in which guesses are worth what they cost."""

    def __init__(self) -> None:
        self._trust: OrderedDict[TopicIdPartition, int] = OrderedDict()
        """A partition that is fully trusted is not in it."""

    def may_guess(self, partition: TopicIdPartition) -> bool:
        return self._trust.get(partition, TRUST_MAX) > 0

    def judge(self, partition: TopicIdPartition, *, is_right: bool) -> None:
        """Take up what a guess was worth, or would have been."""
        trust = self._trust.pop(partition, TRUST_MAX) + (1 if is_right else -1)
        if trust < TRUST_MAX:
            self._trust[partition] = max(0, trust)
        if len(self._trust) > PARTITIONS_MAX:
            self._trust.popitem(last=False)
