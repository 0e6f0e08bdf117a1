"""What still keeps a governed cluster from being at rest, once the faults are over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..controller.service import ControllerService
from ..controller.snapshot import snapshot_records
from ..plugins.layout import partition_directory
from ..protocol.topics import REMOTE_LOG_METADATA_TOPIC, TopicIdPartition, TopicPartition
from ..quorum.state import RaftState
from .brokers_state import Brokers, not_converged
from .objects import SimObjectStore
from .truth import ClusterTruth

CONTROLLERS_COUNT = 3
PARTITIONS_MAX = 16
"""Of a topic that was deleted: more are never made."""


def unrest(
    truth: ClusterTruth, brokers: Brokers, controllers: Mapping[str, ControllerService], store: SimObjectStore
) -> list[tuple[str, str]]:
    """What, and why."""
    return [
        *_of_controllers(truth, controllers),
        *_of_metadata(truth),
        *not_converged(brokers, truth.image),
        *_of_tier(truth, brokers),
        *_of_deleted_topics(truth, brokers, store),
    ]


def _of_controllers(truth: ClusterTruth, controllers: Mapping[str, ControllerService]) -> Iterator[tuple[str, str]]:
    replicas = {name: service.node for name, service in controllers.items()}
    leaders = [name for name, replica in replicas.items() if replica.state is RaftState.LEADER]
    if len(replicas) < CONTROLLERS_COUNT or len(leaders) != 1:
        yield "controllers", f"{sorted(replicas)} run, {leaders} lead"
        return
    if not controllers[leaders[0]].controller.is_active:
        yield leaders[0], "leads the quorum, and is not active"
    right = list(snapshot_records(truth.metadata))
    for name, service in controllers.items():
        if replicas[name].applied_offset < truth.next_offset:
            yield name, f"has applied {replicas[name].applied_offset} of {truth.next_offset}"
        elif list(snapshot_records(service.controller.core.state.image)) != right:
            yield name, "has another image than the metadata log gives"


def _of_metadata(truth: ClusterTruth) -> Iterator[tuple[str, str]]:
    for broker in truth.metadata.brokers.values():
        if not broker.is_active:
            yield f"broker {broker.broker_id}", "is fenced, or leaves"
    for topic in truth.metadata.topics.values():
        for number, now in topic.partitions.items():
            if now.is_reassigning:
                yield f"{topic.name}-{number}", f"its reassignment has not ended: {now}"


def _of_tier(truth: ClusterTruth, brokers: Brokers) -> Iterator[tuple[str, str]]:
    """Everything that is closed and stable is copied."""
    for topic in truth.image.topics.values():
        if topic.name == REMOTE_LOG_METADATA_TOPIC:
            continue
        for number, now in topic.partitions.items():
            leader = brokers.get(now.leader)
            hosted = None if leader is None else leader.hosted.partitions.get(TopicPartition(topic.name, number))
            if leader is None or hosted is None or leader.tier is None:
                continue
            ledger = leader.tier.manager.ledger(topic.id_partition(number))
            tiered_end = 1 + max((each.end_offset for each in ledger.finished()), default=-1) if ledger else 0
            wanted = min(hosted.log.active_segment.base_offset, hosted.log.last_stable_offset)
            if tiered_end < wanted:
                yield f"{topic.name}-{number}", f"is tiered up to {tiered_end}, closed segments end at {wanted}"


def _of_deleted_topics(truth: ClusterTruth, brokers: Brokers, store: SimObjectStore) -> Iterator[tuple[str, str]]:
    """Their local replicas and remote segments are gone, but for what hung on its way while it was deleted."""
    for topic_id, name in truth.topics.items():
        if topic_id in truth.image.topic_names:
            continue
        for node_id, broker in brokers.items():
            hosted = () if broker is None else broker.hosted.partitions.values()
            for partition in hosted:
                if partition.partition.topic_id == topic_id:
                    yield name, f"was deleted, and broker {node_id} still hosts {partition.partition.topic_partition}"
        for number in range(PARTITIONS_MAX):
            prefix = partition_directory(TopicIdPartition(topic_id, name, number)) + "/"
            left = [key for key in store.objects if key.startswith(prefix) and key not in store.orphans]
            if left:
                yield f"{name}-{number}", f"was deleted, and {len(left)} objects are left, as {left[0]}"
