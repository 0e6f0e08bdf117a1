"""Directories that are built beside a partition's own, and what the next start does with them after a crash.

    build the sibling -> save the log start -> complete it -> [live -> -delete] -> [sibling -> live] -> sync
      -> remove the sibling's parent -> open

| crash                              | found                                 | becomes                   |
|------------------------------------|---------------------------------------|---------------------------|
| while the sibling is built         | the live directory, `.adopt`          | the old replica           |
| likewise, without an old replica   | `.adopt` without its `.log`           | no replica                |
| after the log start is saved       | the live directory, `.adopt`          | the old one, from there on |
| after the live directory was moved | `.adopt` alone, with its `.log`       | the new replica           |
| after the sibling was moved        | the live directory, perhaps `-delete` | the new replica           |
|                                    | and an empty `.adopt`                 |                           |

A sibling that does not become the replica is removed. Its `.log` completes it: it is created last, when all the rest,
the log start included, is durable; the live directory is moved away only after that. Before a new sibling is built, the
one of an earlier attempt is removed.

A `-future` directory becomes the replica at the start if the cluster counts on it: the controller is asked to only when
it has everything that is acknowledged (`takeover`). Any other one continues to follow the current log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from uuid import UUID

from ...light_dataclass import dataclass
from ...protocol import TopicPartition
from ..core.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    encode_leader_epochs,
    encode_partition_metadata,
)
from ..core.epochs import EpochEntry
from ..core.file_names import (
    ADOPTED_FILE,
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    adopt_directory,
    is_adoption,
    marked_directory,
    offset_file,
    parse_directory,
)
from ..disk.port import Disk
from ..segment import decoded_producers

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AdoptedState:
    """The state of a replica that begins at `start_offset`, and what it needs from before: verified and complete.

    `epochs` are those of `[log_start_offset, start_offset)`; `producer_snapshot` is the producer state at
    `start_offset` in Kafka's `.snapshot` format, None if there are no producers.
    """

    topic_id: UUID
    log_start_offset: int
    start_offset: int
    epochs: tuple[EpochEntry, ...]
    producer_snapshot: bytes | None

    async def check(self) -> None:
        """Assert what the builder of the state has verified; CorruptFileError for a damaged snapshot."""
        assert 0 <= self.log_start_offset <= self.start_offset, self
        assert all(entry.start_offset < self.start_offset for entry in self.epochs), self
        if self.producer_snapshot is not None:
            await decoded_producers(self.producer_snapshot, self.start_offset, name="producer snapshot")


async def build_sibling(disk: Disk, sibling: Path, state: AdoptedState) -> None:
    """Create, durably, the directory of a replica that holds `state`, except for its `.log`."""
    files = {PARTITION_METADATA: encode_partition_metadata(state.topic_id), ADOPTED_FILE: b""}
    files[LEADER_EPOCH_CHECKPOINT] = encode_leader_epochs(state.epochs)
    if state.producer_snapshot is not None:
        files[offset_file(sibling, state.start_offset, SNAPSHOT_SUFFIX).name] = state.producer_snapshot
    for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        files[offset_file(sibling, state.start_offset, suffix).name] = b""
    await disk.write_directory(sibling, files)
    await disk.sync_directory(sibling.parent.parent)


async def complete_sibling(disk: Disk, sibling: Path, state: AdoptedState) -> None:
    """Create the `.log`, durably: from now on a start without a live directory makes the sibling the replica."""
    await disk.write_file(offset_file(sibling, state.start_offset, LOG_SUFFIX), b"")


async def remove_sibling(disk: Disk, live: Path, unique: str) -> None:
    """Remove the sibling of an earlier attempt; a part of it must never look complete."""
    holder = adopt_directory(live).parent
    if await disk.exists(holder):
        going = marked_directory(live, unique, DELETE_SUFFIX)
        # Renamed first: a crash inside `remove_tree` must not leave a sibling with its `.log` and without its epochs.
        await disk.rename(holder, going)
        await disk.sync_directory(live.parent)
        await disk.remove_tree(going)


async def move_into_place(disk: Disk, sibling: Path, live: Path) -> None:
    """Make the sibling the replica, durably. There must be nothing at `live`."""
    await disk.rename(sibling, live)
    await disk.sync_directory(live.parent)
    await disk.remove_tree(sibling.parent)


async def resolve_adoptions(disk: Disk, log_directory: Path, partition: TopicPartition | None = None) -> None:
    """Finish or drop interrupted adoptions, as in the table: of one partition, or of all at start-up."""
    entries = [entry.name for entry in await disk.list_directory(log_directory) if is_adoption(entry.name)]
    if partition is not None:
        holder = adopt_directory(log_directory / str(partition)).parent.name
        entries = [name for name in entries if name == holder]
    for name in entries:
        await _resolve(disk, log_directory, log_directory / name)
    if entries:
        await disk.sync_directory(log_directory)


async def _resolve(disk: Disk, log_directory: Path, holder: Path) -> None:
    for entry in await disk.list_directory(holder):
        live = log_directory / entry.name
        name = parse_directory(entry.name)
        is_ours = name is not None and not name.marker and adopt_directory(live).parent == holder
        if is_ours and not await disk.exists(live) and await _is_whole(disk, holder / entry.name):
            await move_into_place(disk, holder / entry.name, live)
            return
    await disk.remove_tree(holder)


async def _is_whole(disk: Disk, sibling: Path) -> bool:
    names: Iterable[str] = (entry.name for entry in await disk.list_directory(sibling))
    return any(name.endswith(LOG_SUFFIX) for name in names)


async def promote_futures(disk: Disk, log_directory: Path, is_counted_on: Callable[[TopicPartition], bool]) -> None:
    """Make the future logs live that the cluster counts on, unless the switch had come so far already."""
    for entry in await disk.list_directory(log_directory):
        name = parse_directory(entry.name)
        if name is None or name.marker != FUTURE_SUFFIX or not is_counted_on(name.topic_partition):
            continue
        live = log_directory / str(name.topic_partition)
        if not await disk.exists(live):
            logger.warning(
                "%s takes the place of the current log, as the controller has recorded", log_directory / entry.name
            )
            await disk.rename(log_directory / entry.name, live)
            await disk.sync_directory(log_directory)
