"""Replaces segments by their cleaned successor: after a crash either the old ones or the new one are valid.

    write .cleaned, durably -> rename to .swap -> COMMITTED -> remove the old ones -> rename .swap to the live names

Names and order are Kafka's, so that each implementation can finish a swap of the other. The `.log` is renamed first
each time, its indexes after it; no name ends in `.cleaned` after the commit.

| a crash leaves | what the next start does |
|---|---|
| `.cleaned` files, no `.swap` | the old segments are valid: the files are removed |
| `.cleaned` and `.swap` of the same base or above | likewise: the renames were incomplete |
| `.swap`, and old segments in its range | the new one is valid: the old ones are removed, the names made live |
| `.swap` of indexes alone | the log is live already: the indexes follow |

An old segment that begins after the last record of the new one, and was not removed yet, may survive: no record of it
survived the cleaning, so newer records supersede all of it. The next cleaning removes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from ...protocol import CorruptRecordError
from ..core.file_names import INDEX_SUFFIXES, LOG_SUFFIX, offset_file, parse_offset_file
from ..disk.port import DirectoryEntry, Disk
from .batch_scan import BatchScan

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
_SUFFIXES: Final = (LOG_SUFFIX, *INDEX_SUFFIXES)
_INTERRUPTED: Final = re.compile(r"(\d{20}\.[a-z]+)(\.cleaned|\.swap)")


def cleaned_file(directory: Path, base_offset: int, suffix: str) -> Path:
    """Return the path at which a new segment's file is written before the commit."""
    path = offset_file(directory, base_offset, suffix)
    return path.with_name(path.name + CLEANED_SUFFIX)


async def commit_cleaned(disk: Disk, directory: Path, base_offset: int, suffixes: Iterable[str]) -> None:
    """Rename the files with these suffixes, `.log` first, durably: from now on the new segment is valid."""
    for suffix in suffixes:
        path = offset_file(directory, base_offset, suffix)
        await disk.rename(path.with_name(path.name + CLEANED_SUFFIX), path.with_name(path.name + SWAP_SUFFIX))
    await disk.sync_directory(directory)


async def make_live(disk: Disk, directory: Path, base_offset: int, suffixes: Iterable[str]) -> None:
    """Give a committed segment its live names; the old segments are removed."""
    for suffix in suffixes:
        path = offset_file(directory, base_offset, suffix)
        await disk.rename(path.with_name(path.name + SWAP_SUFFIX), path)
    await disk.sync_directory(directory)


async def discard_cleaned(disk: Disk, directory: Path, base_offset: int) -> None:
    """Remove the files of a segment that is not committed."""
    for suffix in _SUFFIXES:
        await disk.remove(cleaned_file(directory, base_offset, suffix))


async def finish_swaps(disk: Disk, directory: Path, entries: Sequence[DirectoryEntry]) -> bool:
    """Finish or undo interrupted swaps (see the table) before the log is read; return whether one was finished."""
    cleaned, swaps = _interrupted(entries, CLEANED_SUFFIX), _interrupted(entries, SWAP_SUFFIX)
    if not cleaned and not swaps:
        return False
    first_cleaned = min((base for base, _ in cleaned), default=None)
    undone = [swap for swap in swaps if first_cleaned is not None and swap[0] >= first_cleaned]
    for names, marker in ((cleaned, CLEANED_SUFFIX), (undone, SWAP_SUFFIX)):
        for base, suffix in names:
            path = offset_file(directory, base, suffix)
            await disk.remove(path.with_name(path.name + marker))
    live = sorted(parsed for entry in entries if (parsed := parse_offset_file(entry.name)) is not None)
    for base in sorted({base for base, _ in swaps} - {base for base, _ in undone}):
        suffixes = [suffix for suffix in _SUFFIXES if (base, suffix) in swaps]
        if LOG_SUFFIX in suffixes:
            await _remove_replaced(disk, directory, base, live)
        await make_live(disk, directory, base, suffixes)
    await disk.sync_directory(directory)
    return len(undone) < len(swaps)


def _interrupted(entries: Sequence[DirectoryEntry], marker: str) -> list[tuple[int, str]]:
    """Return (base offset, suffix) of the files with a marker."""
    files = []
    for entry in entries:
        match = _INTERRUPTED.fullmatch(entry.name)
        parsed = parse_offset_file(match[1]) if match and match[2] == marker else None
        if parsed is not None and parsed[1] in _SUFFIXES:
            files.append(parsed)
    return files


async def _remove_replaced(disk: Disk, directory: Path, base: int, live: Sequence[tuple[int, str]]) -> None:
    # Read whole, with CRCs, before the originals are deleted: a damaged replacement must not cost them.
    end_offset = await _end_of(disk, directory, base)
    for old, suffix in live:
        if suffix in _SUFFIXES and (old == base or base <= old < end_offset):
            await disk.remove(offset_file(directory, old, suffix))
    await disk.sync_directory(directory)


async def _end_of(disk: Disk, directory: Path, base: int) -> int:
    """Return the end offset of the new segment. Raise CorruptRecordError if it is incomplete."""
    path = offset_file(directory, base, LOG_SUFFIX)
    file = await disk.open(path.with_name(path.name + SWAP_SUFFIX))
    try:
        size, end_offset = await file.size(), base
        scan = BatchScan(file, 0, size, check_crc=True)
        async for chunk in scan:
            end_offset = chunk.batches[-1][1].next_offset
        if scan.position != size:
            raise CorruptRecordError(
                f"{file.path}: {size - scan.position} bytes that are not a complete batch", scan.position
            )
        return end_offset
    finally:
        await file.close()
