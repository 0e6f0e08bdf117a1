"""Where segments are stored, and how: one interface over every layout, and the choice of the layout.

| layout   | written by                               | said to be one where there is                              |
|----------|------------------------------------------|------------------------------------------------------------|
| `kafka`  | this package, Kafka's LocalTieredStorage | a partition's directory with an object of a segment        |
| `aiven`  | Aiven's tiered storage plugin            | a topic's directory with a partition's that has a manifest |
| `logdir` | a broker, as its log directory           | `meta.properties`, or a directory with leader epochs       |

They are tried in this order; a place that looks like none is taken for `kafka`, whose error says what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import islice
from typing import Final, Protocol
from uuid import UUID

from ...light_dataclass import dataclass
from ...log.core import LEADER_EPOCH_CHECKPOINT, META_PROPERTIES, parse_directory
from ...protocol import TopicIdPartition
from ...protocol.net import closing
from ...remote import IndexType, ReadsObjects, RemoteStorageError, Sighting
from ...remote.core import RemoteLogSegmentMetadata
from ..layouts.aiven import AivenLayout
from ..layouts.aiven_keys import KeyRing
from ..layouts.kafka import KafkaLayout
from ..layouts.log_directory import LogDirectoryLayout
from .options import Layout, OptionError, TierOptions

LOOKED_AT_MAX: Final = 16
"""Directories that are looked into for a sign of a layout."""


class SegmentStore(Protocol):
    """What plans and tasks ask. RemoteStorageError from all of it."""

    async def partitions(self, wants: Callable[[str], bool]) -> list[TopicIdPartition]:
        """Return the partitions of the wanted topics that have something here, sorted."""

    async def sight(self, partition: TopicIdPartition, known: Collection[UUID] = (), start_offset: int = 0) -> Sighting:
        """Its segments; those that end below `start_offset` may be left out. `known` ones are not described again."""

    async def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        """Bytes [start, end) of the log, cut at its end."""

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        """The whole index; of the producers, as they were at the end of the segment."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True, order=True)
class StoreRef:
    """A store by name; it goes with every split, so that the executor opens the same one."""

    location: str
    layout: Layout

    @property
    def is_remote(self) -> bool:
        """Whether its segments are remote ones: their ids mean something to others."""
        return self.layout != "logdir"


def open_store(options: TierOptions, ref: StoreRef) -> SegmentStore:
    """Raise PluginError in words for the author of the query."""
    storage = options.open_storage(ref.location, ref.layout)
    if ref.layout == "kafka":
        return KafkaLayout(storage)
    if not isinstance(storage, ReadsObjects):
        raise RemoteStorageError(
            f"{ref.location}: {type(storage).__name__} does not give its objects by key, so that nothing but its own "
            f"layout can be read there; expected {ref.layout}"
        )
    if ref.layout == "aiven":
        return AivenLayout(storage, KeyRing({key: pem.get_secret_value() for key, pem in options.encryption.items()}))
    return LogDirectoryLayout(storage, ref.location)


async def find_stores(options: TierOptions) -> list[StoreRef]:
    """The tier's first, then the log directories. RemoteStorageError, PluginError, OptionError."""
    tier = options.layout if options.layout != "auto" else await _find_layout(options)
    for directory in options.log_dirs:
        await _check_log_directory(options, directory)
    return [StoreRef(options.location, tier), *(StoreRef(directory, "logdir") for directory in options.log_dirs)]


async def _check_log_directory(options: TierOptions, directory: str) -> None:
    """OptionError for a misspelt one, which would pass for a broker that has nothing."""
    async with closing(options.open_storage(directory, "logdir")) as objects:
        assert isinstance(objects, ReadsObjects), objects
        names = [name async for name in objects.list_directories("")]
        if META_PROPERTIES not in names and not any(parse_directory(name) for name in names):
            raise OptionError(
                f"option logDirs: {directory} is not a log directory of a broker: it has"
                f" neither {META_PROPERTIES} nor a "
                "partition"
            )


async def _find_layout(options: TierOptions) -> Layout:
    plugin = options.open_storage()
    async with closing(KafkaLayout(plugin)) as store:
        for partition in (await store.partitions(lambda _: True))[:LOOKED_AT_MAX]:
            async for found in plugin.list_objects(partition):
                if found.segment_id is not None:
                    return "kafka"
    async with closing(options.open_storage(layout="logdir")) as objects:
        return await _find_foreign_layout(objects) if isinstance(objects, ReadsObjects) else "kafka"


async def _find_foreign_layout(objects: ReadsObjects) -> Layout:
    names = sorted([name async for name in objects.list_directories("")])
    if META_PROPERTIES in names:
        return "logdir"
    for name in islice(names, LOOKED_AT_MAX):
        if parse_directory(name) is not None and await _has(objects, f"{name}/", f"/{LEADER_EPOCH_CHECKPOINT}"):
            return "logdir"
        async for below in objects.list_directories(f"{name}/"):
            if below.isdecimal() and await _has(objects, f"{name}/{below}/", ".rsm-manifest"):
                return "aiven"
    return "kafka"


async def _has(objects: ReadsObjects, key_prefix: str, ending: str) -> bool:
    async for key, _ in objects.list_keys(key_prefix):
        if key.endswith(ending):
            return True
    return False
