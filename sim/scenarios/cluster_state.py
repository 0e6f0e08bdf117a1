"""The state of a cluster in words: what a change of its metadata was, and what still keeps it from being at rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ...broker import Broker, manager_config
from ...broker.cluster import ClusterImage
from ...controller import ControllerService, snapshot_records
from ...log import PartitionLog
from ...plugins import partition_directory, segment_keys
from ...protocol import REMOTE_LOG_METADATA_TOPIC, TopicIdPartition
from ...quorum import RaftState
from ...remote.core import (
    RemoteLogLedger,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    covering,
    is_within_lineage,
)
from ...rlm import TierMode, TierPolicy
from ..judges.broker_losses import is_compacted
from ..judges.core.truth import ClusterTruth
from ..judges.final_state import Brokers, not_converged
from ..judges.tiering import Lag
from ..machine.clock import EPOCH_MS
from ..machine.objects import SimObjectStore

CONTROLLERS_COUNT = 3
PARTITIONS_MAX = 16
"""The partitions of a deleted topic that are looked for: more are never made."""


def metadata_changes(before: ClusterImage, after: ClusterImage) -> Iterator[str]:
    """The lines of a trace: who is fenced, which topics went, how each partition stands."""
    for broker_id, broker in after.brokers.items():
        old = before.brokers.get(broker_id)
        if old is None or old.fenced != broker.fenced:
            yield f"broker {broker_id} is {'fenced' if broker.fenced else 'unfenced'}"
    for topic in before.topics.values():
        if topic.topic_id not in after.topic_names:
            yield f"{topic.name} is deleted"
    for topic in after.topics.values():
        old_topic = before.topics.get(topic.name)
        known = old_topic.partitions if old_topic is not None and old_topic.topic_id == topic.topic_id else {}
        for number, now in topic.partitions.items():
            if known.get(number) != now:
                yield f"{topic.name}-{number} {now}"


def unsettled(
    truth: ClusterTruth,
    brokers: Brokers,
    controllers: Mapping[str, ControllerService],
    store: SimObjectStore,
    highest_start: Callable[[TopicIdPartition], int],
    *,
    controllers_count: int = CONTROLLERS_COUNT,
) -> list[tuple[str, str]]:
    """Return what, and why. `highest_start` is the highest log start that a leader of a partition has had."""
    return [
        *_of_controllers(truth, controllers, controllers_count),
        *_of_metadata(truth),
        *not_converged(brokers, truth.image, highest_start),
        *_of_configs(truth, brokers),
        *_of_moves(brokers),
        *_of_tier(truth, brokers),
        *_of_leftovers(truth, brokers, store),
        *_of_deleted_topics(truth, brokers, store),
    ]


def _of_controllers(
    truth: ClusterTruth, controllers: Mapping[str, ControllerService], count: int
) -> Iterator[tuple[str, str]]:
    replicas = {name: service.node for name, service in controllers.items()}
    leaders = [name for name, replica in replicas.items() if replica.status.state is RaftState.LEADER]
    if len(replicas) < count or len(leaders) != 1:
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
    """Everything that is closed and stable is copied, or has expired. A leader waits for no copy of a deposed one."""
    for name, _, log, ledger in ledgers(truth, brokers):
        tiered_end = max([log.state.log_start_offset, *(each.end_offset + 1 for each in ledger.finished())])
        wanted = min(log.state.segments.active.base_offset, log.state.offsets.last_stable_offset)
        if tiered_end < wanted:
            yield str(name.topic_partition), f"is tiered up to {tiered_end}, closed segments end at {wanted}"


def thin(brokers: Brokers) -> list[tuple[str, str]]:
    """Return the replicas that are not filled from the tier, and do not count as full by their age, either."""
    return [
        (str(name), f"is thin on broker {node_id}, for {left_ms} ms at most")
        for node_id, broker in brokers.items()
        if broker is not None
        for name, left_ms in broker.thin.warm_in_ms().items()
    ]


def lags(truth: ClusterTruth, brokers: Callable[[], Brokers]) -> Iterator[Lag]:
    """Yield the partitions whose leader has to copy something."""
    for name, leader, log, ledger in ledgers(truth, brokers()):
        state, registration = log.state, truth.image.partition(name.topic_partition)
        ends = [segment.base_offset for segment in list(state.segments)[1:]]
        closed_end = max((end for end in ends if end <= state.offsets.last_stable_offset), default=0)
        if registration is None or TierPolicy.of(name.topic, state.config).mode is not TierMode.COPYING:
            continue
        tiered_end = max([state.log_start_offset, *(each.end_offset + 1 for each in ledger.finished())])
        if tiered_end < closed_end and state.failure is None:
            yield Lag(name, (leader.config.node_id, registration.leader_epoch, id(log)), tiered_end, closed_end)


def _of_leftovers(truth: ClusterTruth, brokers: Brokers, store: SimObjectStore) -> Iterator[tuple[str, str]]:
    """What existing topics may not leave: what has expired, copies that were given up, once no broker can still work on
    them, and objects that no remote log metadata names.
    """
    now_ms = EPOCH_MS + int(store.network.loop.time() * 1000)
    for name, leader, log, ledger in ledgers(truth, brokers):
        where = str(name.topic_partition)
        for segment in ledger.segments():
            reason = _leftover(segment, leader, log, ledger, now_ms)
            if reason is not None:
                yield where, f"remote segment {segment.segment_id.id} {reason}"
        named = {key for segment in ledger.segments() for key in segment_keys(segment)}
        prefix = partition_directory(name) + "/"
        left = [key for key in _left(store, prefix) if key not in named]
        if left:
            yield where, f"{len(left)} objects that no remote log metadata names are left, as {left[0]}"


def _leftover(
    segment: RemoteLogSegmentMetadata, leader: Broker, log: PartitionLog, ledger: RemoteLogLedger, now_ms: int
) -> str | None:
    """Return why the segment should have been deleted."""
    if segment.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
        return "is still being deleted"
    if segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
        is_expired = segment.end_offset < log.state.log_start_offset
        return f"ends at {segment.end_offset}, the log starts at {log.state.log_start_offset}" if is_expired else None
    age_ms = now_ms - segment.event_timestamp_ms
    deadline_ms = manager_config(leader.config).copy_deadline.of_size_ms(segment.segment_size_in_bytes)
    if segment.broker_id != leader.config.node_id:
        # Another broker's attempt stays until its upload must have ended, and other copies hold its offsets.
        start = max(segment.start_offset, log.state.log_start_offset)
        end = min(segment.end_offset + 1, log.state.log_end_offset)
        held = covering(ledger, log.state.epochs, start, end)
        is_held = held.gap is None and all(
            is_within_lineage(other, log.state.epochs, log.state.log_end_offset) for other in held.segments
        )
        if age_ms <= deadline_ms or not is_held:
            return None
    return f"is a copy that was begun {age_ms} ms ago by {segment.broker_id}"


def ledgers(
    truth: ClusterTruth, brokers: Brokers
) -> Iterator[tuple[TopicIdPartition, Broker, PartitionLog, RemoteLogLedger]]:
    """Yield all tiered partitions that have a leader, with the leader's log and ledger."""
    for topic in truth.image.topics.values():
        for number, now in topic.partitions.items():
            name, leader = topic.id_partition(number), brokers.get(now.leader)
            hosted = None if leader is None else leader.hosted.partitions.get(name.topic_partition)
            is_tiered = topic.name != REMOTE_LOG_METADATA_TOPIC and not is_compacted(truth.image, name)
            if not is_tiered or leader is None or hosted is None or leader.tier is None:
                continue
            yield name, leader, hosted.log, leader.tier.manager.ledger(name) or RemoteLogLedger(name)


def _of_configs(truth: ClusterTruth, brokers: Brokers) -> Iterator[tuple[str, str]]:
    """Every log obeys its topic's."""
    for node_id, broker in brokers.items():
        for name, partition in () if broker is None else broker.hosted.partitions.items():
            topic = truth.image.topics.get(name.topic)
            wanted = None if topic is None else topic.configs.get("retention.ms")
            found = partition.log.state.config.retention_ms
            if wanted is not None and int(wanted) != found:
                yield str(name), f"retention.ms is {wanted}, broker {node_id} goes by {found}"


def _of_moves(brokers: Brokers) -> Iterator[tuple[str, str]]:
    """Every move between log directories has ended."""
    for node_id, broker in brokers.items():
        if broker is not None and broker.moves.count:
            yield f"broker {node_id}", f"{broker.moves.count} replicas still move between its log directories"


def _of_deleted_topics(truth: ClusterTruth, brokers: Brokers, store: SimObjectStore) -> Iterator[tuple[str, str]]:
    """Their local replicas and remote segments are deleted."""
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
            left = _left(store, prefix)
            if left:
                yield f"{name}-{number}", f"was deleted, and {len(left)} objects are left, as {left[0]}"


def _left(store: SimObjectStore, prefix: str) -> list[str]:
    """What should have been deleted, if its name no longer exists."""
    return [key for key in store.objects if key.startswith(prefix) and not store.is_orphan(key)]
