"""Makes log directories a node's: `meta.properties`, and the first voters of a dynamic quorum (Kafka's storage tool).

    <directory>/meta.properties                                                     every directory
    <metadata directory>/__cluster_metadata-0/
        00000000000000000000-0000000000.checkpoint                                  dynamic voters: KRaftVersion, Voters
    <metadata directory>/bootstrap.checkpoint                                       records of a new cluster

`meta.properties` is written last and durably: a directory that has it is formatted, one without is not, whatever else a
crash left there. `identify` reads it at every start, and refuses a directory of another cluster or another node: a log
directory put into the wrong machine would bring its votes along.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from uuid import UUID

from ...light_dataclass import dataclass
from ...log.core import META_PROPERTIES, MetaProperties, decode_meta_properties, encode_meta_properties
from ...log.disk import Disk, make_directory_durably
from ...protocol import ErrorCode, KafkaError
from ..core.errors import QuorumStartError
from ..core.state import ReplicaKey
from ..core.voters import KRAFT_VERSION_DYNAMIC, VotersAt, VoterSet
from .bootstrap_file import write_bootstrap
from .control_batches import setup_of_voters
from .metadata_log import METADATA_PARTITION
from .snapshot_file import BOOTSTRAP_SNAPSHOT, snapshot_batches
from .snapshots import SnapshotStore


async def identify(disk: Disk, directory: Path, node_id: int, cluster_id: str | None) -> MetaProperties:
    """Return the owner of a directory. QuorumStartError if it is unformatted; INCONSISTENT_CLUSTER_ID if another's."""
    path = directory / META_PROPERTIES
    if not await disk.exists(path):
        raise QuorumStartError(f"{path} is not there: format the directory first (tierfetch format)")
    found = decode_meta_properties(await disk.read_file(path), name=str(path))
    if cluster_id is not None and found.cluster_id != cluster_id:
        raise KafkaError(
            ErrorCode.inconsistent_cluster_id,
            f"{path} belongs to cluster {found.cluster_id}, this node to {cluster_id}: correct the configuration, or "
            f"give the node another log directory",
        )
    if found.node_id != node_id:
        raise KafkaError(
            ErrorCode.inconsistent_cluster_id,
            f"{path} belongs to node {found.node_id}, this is node {node_id}: log directories must not be exchanged "
            f"between nodes; give each node its own back",
        )
    return found


def new_directory_id(rng: Random) -> UUID:
    return UUID(int=rng.getrandbits(128), version=4)


@dataclass(frozen=True, slots=True)
class FormatResult:
    """Directories that were formatted, and those that had been before."""

    formatted: tuple[Path, ...]
    skipped: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class FormatOrder:
    """What to make of `directories`, of which the first holds the metadata log.

    `first_voters` maps this node's key (its directory id was made for the first directory) to the voters of a dynamic
    quorum; None where there are none to write. `first_records` are those that a new cluster begins with.
    """

    cluster_id: str
    key: ReplicaKey
    directories: Sequence[Path]
    first_voters: VoterSet | None = None
    first_records: Sequence[bytes] = ()

    def with_records(self, records: Sequence[bytes]) -> FormatOrder:
        """Return the same order for a cluster that begins with these records."""
        return replace(self, first_records=records)


async def format_directories(
    disk: Disk, order: FormatOrder, *, ignore_formatted: bool, rng: Random, now_ms: Callable[[], int]
) -> FormatResult:
    """QuorumStartError if one is formatted already, unless that is ignored; then nothing was changed."""
    formatted = [path for path in order.directories if await disk.exists(path / META_PROPERTIES)]
    for path in formatted:
        await _check_same_owner(disk, path, order)
    if formatted and not ignore_formatted:
        raise QuorumStartError(
            f"log directory {formatted[0]} is already formatted. Use --ignore-formatted to ignore this directory and "
            f"format the others"
        )
    fresh = [path for path in order.directories if path not in formatted]
    for path in fresh:
        is_metadata = path == order.directories[0]
        directory_id = order.key.directory_id if is_metadata else new_directory_id(rng)
        await make_directory_durably(disk, path)
        if is_metadata and order.first_voters is not None:
            await _write_first_voters(disk, path, order.first_voters, now_ms())
        if is_metadata and order.first_records:
            await write_bootstrap(disk, path, order.first_records, now_ms())
        properties = MetaProperties(order.cluster_id, order.key.id, directory_id)
        written_at = datetime.fromtimestamp(now_ms() / 1000, UTC)
        await disk.write_file(path / META_PROPERTIES, encode_meta_properties(properties, written_at=written_at))
    return FormatResult(tuple(fresh), tuple(formatted))


async def _check_same_owner(disk: Disk, path: Path, order: FormatOrder) -> None:
    await identify(disk, path, order.key.id, order.cluster_id)


async def _write_first_voters(disk: Disk, directory: Path, voters: VoterSet, now_ms: int) -> None:
    log_directory = directory / str(METADATA_PARTITION)
    await make_directory_durably(disk, log_directory)
    snapshots = SnapshotStore(disk, log_directory)
    setup = setup_of_voters(VotersAt(-1, voters, KRAFT_VERSION_DYNAMIC))
    batches = snapshot_batches(BOOTSTRAP_SNAPSHOT, (), setup=setup, last_append_time_ms=now_ms, now_ms=now_ms)
    await snapshots.create(BOOTSTRAP_SNAPSHOT, batches)
