"""`bootstrap.checkpoint`: the records that a new cluster begins with (KIP-900), written by formatting.

The first active controller of a cluster appends those of its own file; later ones pass over theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ...log.core import CorruptFileError
from ...log.disk import Disk, make_directory_durably
from ..core.errors import QuorumStartError
from .snapshot_file import BOOTSTRAP_SNAPSHOT, QuorumSetup, parse_snapshot, snapshot_batches

BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"


async def write_bootstrap(disk: Disk, directory: Path, records: Sequence[bytes], now_ms: int) -> None:
    """Write the records durably into a metadata directory."""
    await make_directory_durably(disk, directory)
    setup = QuorumSetup(0, None)
    batches = snapshot_batches(BOOTSTRAP_SNAPSHOT, records, setup=setup, last_append_time_ms=now_ms, now_ms=now_ms)
    await disk.write_file(directory / BOOTSTRAP_FILE, b"".join(bytes(batch) for batch in batches))


async def read_bootstrap(disk: Disk, directory: Path) -> tuple[bytes, ...]:
    """Return the records of a metadata directory, none without a file. QuorumStartError if it is damaged; OSError."""
    path = directory / BOOTSTRAP_FILE
    if not await disk.exists(path):
        return ()
    try:
        parsed = parse_snapshot(await disk.read_file(path), name=str(path))
    except CorruptFileError as error:
        raise QuorumStartError(f"{error}: put the {BOOTSTRAP_FILE} of another controller in its place") from error
    return tuple(record for batch in parsed.batches for record in batch)
