"""What of a log is on a machine's disk, whatever its process believes: durable names, and durable bytes below them.

    file system -> segment files whose names are durable -> whole batches among their durable bytes -> an end offset

It follows from the format alone, and asks neither the log nor its recovery. A compacted log has gaps, also at the end
of a closed segment: of that one no more is demanded than its process has written there. Only the headers of batches are
read, so that judges can ask after every event; where a file was scanned up to is remembered as long as what follows
fits.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import Final

from ...light_dataclass import dataclass
from ..machine.filesystem import Directory, Inode, SimFilesystem

LOG_SUFFIX: Final = ".log"
SWAP_SUFFIX: Final = ".swap"
"""The suffix of a segment that the next start finishes renaming: one that was cleaned, or warmed."""
QUORUM_STATE: Final = "quorum-state"
SNAPSHOT_SUFFIX: Final = ".checkpoint"
OFFSET_DIGITS: Final = 20
"""The digits with which the name of a snapshot begins."""
_HEADER: Final = Struct(">qi11xi")
"""Base offset, length behind these two, last offset delta."""
_LENGTH_AT: Final = 12


@dataclass(frozen=True, slots=True)
class DurableVote:
    """`voted_id` -1: for nobody."""

    epoch: int
    voted_id: int


@dataclass(frozen=True, slots=True)
class _Scanned:
    """Whole batches that follow each other fill the first `position` bytes, and end at `end_offset`; the last of them
    begins at byte `last_position`.
    """

    last_position: int
    position: int
    end_offset: int


class DurableLogs:
    """The durable logs of all machines of a world, by host. `has_gaps` says which are compacted."""

    def __init__(
        self, files_of: Callable[[str], SimFilesystem], has_gaps: Callable[[Path], bool] = lambda _: False
    ) -> None:
        self._files_of = files_of
        self._has_gaps = has_gaps
        self._scanned: dict[Inode, _Scanned] = {}

    def holds(self, host: str, directory: Path, end_offset: int) -> bool:
        """Whether everything below `end_offset` would survive a crash now, or is no longer part of this log: what
        lies below its first segment is in a snapshot, or in the tier.
        """
        files, has_gaps = self._files_of(host), self._has_gaps(directory)
        directory = files.log_at(directory)
        durable, segments = files.durable_files(directory), _segments(files, directory)
        below = [base_offset for base_offset in segments if base_offset < end_offset]
        ends = (*below[1:], end_offset)
        for base_offset, end in zip(below, ends, strict=False):
            name, inode = segments[base_offset]
            has_name = inode in (durable.get(name), durable.get(name + SWAP_SUFFIX))
            may_be_short = has_gaps and base_offset != below[-1] and inode.durable == inode.content
            if not has_name or (self._end_of(inode, base_offset) < end and not may_be_short):
                return False
        return bool(segments) or end_offset == 0

    def found_end(self, host: str, directory: Path) -> int:
        """Up to which offset a process that starts there now finds the log, if nothing rots; 0 if there is none."""
        end: int | None = None
        files = self._files_of(host)
        for base_offset, (_, inode) in _segments(files, files.log_at(directory)).items():
            if end is not None and base_offset != end and not (self._has_gaps(directory) and base_offset > end):
                break
            end = _scanned_on(inode.content, _Scanned(0, 0, base_offset)).end_offset
        return end or 0

    def vote(self, host: str, directory: Path) -> DurableVote | None:
        """What the `quorum-state` there would say after a crash; None if there is none."""
        inode = self._files_of(host).durable_files(directory).get(QUORUM_STATE)
        if inode is None or not inode.durable:
            return None
        document = json.loads(bytes(inode.durable))
        return DurableVote(document["leaderEpoch"], document["votedId"])

    def snapshot_end(self, host: str, directory: Path) -> int:
        """Return where the newest whole snapshot of the quorum's log ends that would survive a crash now; 0 if there is
        none.
        """
        files = self._files_of(host).durable_files(directory)
        ends = [
            int(name[:OFFSET_DIGITS])
            for name, inode in files.items()
            if name.endswith(SNAPSHOT_SUFFIX) and name[:OFFSET_DIGITS].isdigit() and inode.durable == inode.content
        ]
        return max(ends, default=0)

    def _end_of(self, inode: Inode, base_offset: int) -> int:
        data = inode.durable
        known = self._scanned.get(inode)
        if known is None or not _is_still_there(data, known):
            known = _Scanned(0, 0, base_offset)
        known = self._scanned[inode] = _scanned_on(data, known)
        return known.end_offset


def _segments(files: SimFilesystem, directory: Path) -> dict[int, tuple[str, Inode]]:
    """Name and file by base offset, in order, as the process sees them: what it has deleted is no part of its log."""
    node = files.find(directory)
    names = node.names if isinstance(node, Directory) else {}
    return {
        int(name.removesuffix(LOG_SUFFIX)): (name, inode)
        for name, inode in sorted(names.items())
        if name.endswith(LOG_SUFFIX) and isinstance(inode, Inode)
    }


def _batch_at(data: bytearray, position: int) -> tuple[int, int, int] | None:
    """Base offset of the whole batch there, where it ends in the file, and its end offset."""
    if position + _HEADER.size > len(data):
        return None
    base_offset, length, last_delta = _HEADER.unpack_from(data, position)
    end = position + _LENGTH_AT + length
    return (base_offset, end, base_offset + last_delta + 1) if length > 0 and end <= len(data) else None


def _scanned_on(data: bytearray, known: _Scanned) -> _Scanned:
    while (batch := _batch_at(data, known.position)) is not None and batch[0] >= known.end_offset:
        known = _Scanned(known.position, *batch[1:])
    return known


def _is_still_there(data: bytearray, known: _Scanned) -> bool:
    """Whether the last batch is: one that was cut off, and others written in its place, would show."""
    batch = _batch_at(data, known.last_position)
    return batch is not None and batch[1:] == (known.position, known.end_offset)
