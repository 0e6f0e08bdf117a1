"""The parts of one open log. They share one `LogState`.

state            holds what the parts share, and says who may change what.
appender         appends: it decides under the gate, submits the bytes, and waits until they are published.
write_pipeline   writes in the order in which offsets were assigned.
flusher          flushes up to an offset and moves the recovery point there.
reader           reads slices, aborted transactions, and offsets by time.
trimming         raises the log start and removes the oldest segments.
truncation       cuts the end of the log, or empties it.
recovery         opens a partition's directory: it repairs what a crash may leave and rejects the rest.
recovery_report  holds what recovery found.
replay           rebuilds producer state from the newest usable snapshot and the batches after it.
staged_segment   writes a segment beside a log before it becomes part of it.
takeover         switches to a copy of the log that is in another log directory.
warming          puts a segment from the tier in front of the local log.
"""

from __future__ import annotations

from .state import LogOffsets
from .warming import SegmentToWarm

__all__ = [
    "LogOffsets",
    "SegmentToWarm",
]
