"""Looking at a running cluster: who leads, who is in sync, what lies on disk."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tierfetch.broker.cluster.view import ClusterImage, PartitionRegistration
from tierfetch.broker.core.metadata_view import MetadataView
from tierfetch.cli.local.cluster import CONTROLLER_ID, LocalCluster
from tierfetch.protocol.records import iter_batches, iter_records


def image(cluster: LocalCluster) -> ClusterImage:
    """As the metadata log of its own controller has it now."""
    assert cluster.quorum is not None, "a cluster of other controllers"
    view = MetadataView("", "PLAINTEXT")
    for path in sorted(cluster.quorum.metadata_directory(CONTROLLER_ID).glob("*.log")):
        data = path.read_bytes()
        for position, header in iter_batches(data):
            if not header.is_control:
                view.apply(record.value or b"" for record in iter_records(data, position, header))
    return view.cluster


def registration(cluster: LocalCluster, topic: str, partition: int = 0) -> PartitionRegistration:
    return image(cluster).topics[topic].partitions[partition]


def registrations(cluster: LocalCluster) -> list[PartitionRegistration]:
    """Of all partitions of all topics but the one that comes into being with the first consumer."""
    topics = image(cluster).topics
    return [
        entry for name, topic in topics.items() if name != "__consumer_offsets" for entry in topic.partitions.values()
    ]


def leader_of(cluster: LocalCluster, topic: str, partition: int = 0) -> int:
    return registration(cluster, topic, partition).leader


def log_bytes(cluster: LocalCluster, broker: int, topic: str, partition: int = 0) -> dict[int, bytes]:
    """Contents of a replica's `.log` files by base offset. A file that goes meanwhile is left out."""
    directory: Path = cluster.data_directory(broker) / f"{topic}-{partition}"
    found: dict[int, bytes] = {}
    for path in sorted(directory.glob("*.log")):
        with suppress(FileNotFoundError):
            found[int(path.stem)] = path.read_bytes()
    return found


def log_end(segments: dict[int, bytes]) -> int:
    """Behind the last whole batch of a replica's segments."""
    end = max(segments, default=0)
    for content in segments.values():
        for _, header in iter_batches(content):
            end = max(end, header.next_offset)
    return end
