"""One segment's files, the list of a log's segments, and the slices that readers hold.

segment         is one segment: its `.log` file, its indexes, and the facts known of its batches.
segment_list    keeps the segments of a log in the order of their base offsets.
slices          is a piece of a `.log` file that a reader sends or reads.
batch_scan      walks the batches of a `.log` file.
scan            checks every batch of a segment after a crash.
index_files     reads, rebuilds and writes the index files.
snapshot_files  reads and writes the `.snapshot` files of a log.
open_limit      limits how many closed segments keep their file open.
swap            replaces segments by their cleaned successor, atomically across a crash.
upload_source   offers a segment's bytes to the remote log manager.
"""

from __future__ import annotations

from .batch_scan import end_transaction_marker
from .open_limit import OpenSegments
from .segment import LogSegment
from .slices import LogSlice
from .snapshot_files import decoded_producers
from .upload_source import BytesSource

__all__ = [
    "BytesSource",
    "LogSegment",
    "LogSlice",
    "OpenSegments",
    "decoded_producers",
    "end_transaction_marker",
]
