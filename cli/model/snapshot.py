"""What a live cluster says about itself at one moment, as values; None and absence mean that it did not say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from ...light_dataclass import dataclass

NO_LEADER: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """What a leader answers to ListOffsets -2, -4, -5, -6 and -1; None: unknown, or not supported by it. `seen_at_s`:
    when it gave `log_end`, on the observer's clock.
    """

    log_start: int | None = None
    local_log_start: int | None = None
    last_tiered: int | None = None
    next_upload: int | None = None
    log_end: int | None = None
    seen_at_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """One partition by Metadata, and `offsets` by its leader (None: it could not be asked)."""

    topic: str
    index: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offsets: Offsets | None = None

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.index}"


@dataclass(frozen=True, slots=True)
class RemoteSegment:
    """One readable segment of the tier; offsets inclusive at both ends."""

    start_offset: int
    end_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class DirectoryState:
    """One log directory; `disk_bytes` None: the broker does not say. `used_bytes` of its replicas."""

    path: str
    disk_bytes: int | None
    used_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    """One broker; `disk_bytes` of all its log directories that are online, `configs` as in force."""

    id: int
    rack: str | None
    disk_bytes: int | None = None
    directories: tuple[DirectoryState, ...] = ()
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """`partitions` by (topic, index), `local_bytes` by (broker, topic, index). `brokers` are alive; `racks` also of
    registered ones that are not, where the cluster says so. `remote`: the segments in the tier of each partition that
    has any; None: the remote log metadata were not read. `remarks`: what was odd.
    """

    brokers: Mapping[int, BrokerState]
    topic_configs: Mapping[str, Mapping[str, str]]
    partitions: Mapping[tuple[str, int], PartitionState]
    local_bytes: Mapping[tuple[int, str, int], int]
    racks: Mapping[int, str] = field(default_factory=dict)
    remote: Mapping[tuple[str, int], Sequence[RemoteSegment]] | None = None
    remarks: tuple[str, ...] = ()

    def is_tiered(self, topic: str) -> bool:
        return self.topic_configs.get(topic, {}).get("remote.storage.enable") == "true"
