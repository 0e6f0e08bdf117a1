"""Directories that are built beside a partition's own, and what the next start makes of them after a crash.

    build the sibling -> save the log start -> complete it -> [live -> -delete] -> [sibling -> live] -> sync -> open

| crash                              | found                                 | becomes                   |
|------------------------------------|---------------------------------------|---------------------------|
| while the sibling is built         | the live directory, `.adopt`          | the old replica           |
| the same, no old replica           | `.adopt` without its `.log`           | no replica                |
| after the log start is saved       | the live directory, `.adopt`          | the old one, from there on |
| after the live directory was moved | `.adopt` alone, with its `.log`       | the new replica           |
| after the sibling was moved        | the live directory, perhaps `-delete` | the new replica           |

A sibling that does not become the replica is removed. The `.log` completes it: it is made last, and all the rest, the
log start included, is durable by then; the live directory is moved away only after it. Before a new one is built
the sibling of an earlier attempt is removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from ..protocol.topics import TopicPartition
from .checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    encode_leader_epochs,
    encode_partition_metadata,
)
from .disk import Disk
from .epochs import EpochEntry
from .file_names import (
    ADOPT_SUFFIX,
    ADOPTED_FILE,
    DELETE_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    adopt_directory,
    marked_directory,
    offset_file,
    parse_directory,
)
from .producers import ProducerStateManager


@dataclass(frozen=True, slots=True)
class AdoptedState:
    """A replica that begins at `start_offset` with what came before it: verified, and whole.

    `epochs` are those of `[log_start_offset, start_offset)`; `producer_snapshot` is the producer state at
    `start_offset` in Kafka's `.snapshot` format, None if there are no producers.
    """

    topic_id: UUID
    log_start_offset: int
    start_offset: int
    epochs: tuple[EpochEntry, ...]
    producer_snapshot: bytes | None

    def check(self) -> None:
        """Assert what the builder of the state has verified; CorruptFileError for a damaged snapshot."""
        assert 0 <= self.log_start_offset <= self.start_offset, self
        assert all(entry.start_offset < self.start_offset for entry in self.epochs), self
        if self.producer_snapshot is not None:
            ProducerStateManager.from_snapshot(self.producer_snapshot, self.start_offset)


async def build_sibling(disk: Disk, sibling: Path, state: AdoptedState) -> None:
    """Make the directory of a replica that holds `state`, except for its `.log`; all of it is durable afterwards."""
    await disk.make_directory(sibling)
    await disk.sync_directory(sibling.parent)
    await disk.write_file(sibling / PARTITION_METADATA, encode_partition_metadata(state.topic_id))
    await disk.write_file(sibling / LEADER_EPOCH_CHECKPOINT, encode_leader_epochs(state.epochs))
    if state.producer_snapshot is not None:
        await disk.write_file(offset_file(sibling, state.start_offset, SNAPSHOT_SUFFIX), state.producer_snapshot)
    await disk.write_file(sibling / ADOPTED_FILE, b"")
    for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        await disk.write_file(offset_file(sibling, state.start_offset, suffix), b"")


async def complete_sibling(disk: Disk, sibling: Path, state: AdoptedState) -> None:
    """Make the `.log`, durably: from here on a start without a live directory takes the sibling for the replica."""
    await disk.write_file(offset_file(sibling, state.start_offset, LOG_SUFFIX), b"")


async def remove_sibling(disk: Disk, live: Path, unique: str) -> None:
    """Remove what an earlier attempt has left beside the live directory; a part of it must never look whole."""
    sibling = adopt_directory(live)
    if await disk.exists(sibling):
        going = marked_directory(live, unique, DELETE_SUFFIX)
        await disk.rename(sibling, going)
        await disk.sync_directory(live.parent)
        await disk.remove_tree(going)


async def resolve_adoptions(disk: Disk, log_directory: Path, partition: TopicPartition | None = None) -> None:
    """Finish or drop what was interrupted, as in the table: of one partition, or at start-up of all."""
    siblings = [each for each in await _siblings(disk, log_directory) if partition in (None, each[1])]
    for path, sibling_of in siblings:
        live = log_directory / str(sibling_of)
        if not await disk.exists(live) and await _is_whole(disk, path):
            await disk.rename(path, live)
        else:
            await disk.remove_tree(path)
    if siblings:
        await disk.sync_directory(log_directory)


async def _siblings(disk: Disk, log_directory: Path) -> list[tuple[Path, TopicPartition]]:
    found = []
    for entry in await disk.list_directory(log_directory):
        name = parse_directory(entry.name) if entry.is_directory else None
        if name is not None and name.marker == ADOPT_SUFFIX:
            found.append((log_directory / entry.name, name.topic_partition))
    return found


async def _is_whole(disk: Disk, sibling: Path) -> bool:
    names: Iterable[str] = (entry.name for entry in await disk.list_directory(sibling))
    return any(name.endswith(LOG_SUFFIX) for name in names)
