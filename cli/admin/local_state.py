"""What is on a broker's disks, and what is being filled from the tier there: DescribeLogDirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import timedelta

from ... import byte_text
from ...light_dataclass import dataclass
from ...protocol import NOT_THIN, NOT_WARMED, OUTSIDE, ErrorCode, TopicPartition
from ...protocol.messages.cluster import DescribeLogDirsPartition, DescribeLogDirsRequest
from ...protocol.net import Address
from ..cluster_session import Admin, check


@dataclass(frozen=True, slots=True)
class Warming:
    """A replica that is being filled (`thin.replica.warmer.enable`): what is still to come."""

    bytes_left: int
    bytes_per_second: int

    @property
    def seconds_left(self) -> int | None:
        """None before anything has come."""
        return None if self.bytes_per_second == 0 else -(-self.bytes_left // self.bytes_per_second)

    def as_json(self) -> dict[str, int | None]:
        return {"bytes_left": self.bytes_left, "seconds_left": self.seconds_left}


@dataclass(frozen=True, slots=True)
class LocalState:
    """One broker's local bytes, its replicas that are being filled, those that are thin with the milliseconds until
    they are warm at the latest, those whose log does not let them serve, the bytes of each, and why work in the
    tier failed last.
    """

    size_bytes: int
    warming: dict[TopicPartition, Warming]
    warm_in_ms: dict[TopicPartition, int] = field(default_factory=dict)
    out_of_service: frozenset[TopicPartition] = frozenset()
    sizes: dict[TopicPartition, int] = field(default_factory=dict)
    tier_errors: dict[TopicPartition, str] = field(default_factory=dict)

    def total_warming(self) -> Warming | None:
        if not self.warming:
            return None
        each = self.warming.values()
        return Warming(sum(item.bytes_left for item in each), sum(item.bytes_per_second for item in each))


async def local_state(admin: Admin, broker: Address) -> LocalState | None:
    """None if the broker does not answer."""
    try:
        return await read_local_state(admin, broker)
    except OUTSIDE:
        return None


async def read_local_state(admin: Admin, broker: Address) -> LocalState:
    """OSError if the broker cannot be reached; KafkaError if it refuses."""
    answer = await admin.send_to(broker, DescribeLogDirsRequest(topics=None))
    for directory in answer.results:
        if directory.error_code is not ErrorCode.kafka_storage_error:  # that is offline, and lists nothing
            check(directory, directory.log_dir)
    parts = [
        (TopicPartition(topic.name, part.partition_index), part)
        for directory in answer.results
        for topic in directory.topics
        for part in topic.partitions
    ]
    warming = {name: found for name, part in parts if (found := _warming(part)) is not None}
    warm_in_ms = {name: part.warm_in_ms for name, part in parts if part.warm_in_ms != NOT_THIN}
    out_of_service = frozenset(name for name, part in parts if part.is_out_of_service)
    sizes = {name: part.partition_size for name, part in parts if not part.is_future_key}
    tier_errors = {name: part.tier_error for name, part in parts if part.tier_error}
    size = sum(part.partition_size for _, part in parts)
    return LocalState(size, warming, warm_in_ms, out_of_service, sizes, tier_errors)


def _warming(part: DescribeLogDirsPartition) -> Warming | None:
    left = part.warming_bytes_left
    return None if left == NOT_WARMED else Warming(left, part.warming_bytes_per_second)


def warming_text(warming: Mapping[str, int | None] | None) -> str:
    """Return what `as_json` gave, as text for a table."""
    if warming is None:
        return ""
    seconds = warming["seconds_left"]
    left = "?" if seconds is None else str(timedelta(seconds=seconds))
    return f"{byte_text.size(warming['bytes_left'] or 0)}, {left}"
