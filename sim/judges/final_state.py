"""Takes brokers, their files and the store apart into the values that the checkers of replicas judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final
from uuid import UUID

from ...broker import Broker
from ...broker.cluster import ClusterImage
from ...broker.replicas import Partition
from ...log import PartitionLog
from ...log.core import META_PROPERTIES, TRANSACTION_INDEX_SUFFIX, TransactionIndex, decode_meta_properties
from ...plugins import segment_key
from ...protocol import REMOTE_LOG_METADATA_TOPIC, TopicIdPartition, TopicPartition
from ...remote.core import end_on_lineage
from ..machine.filesystem import LOG_DIRECTORIES, Inode, SimFilesystem
from ..machine.objects import SimObjectStore
from .core.acknowledged_writes import Anomaly
from .core.clients.compacted import check_compacted
from .core.clients.copies import within
from .core.replicas import Aborted, ProducerView, ReplicaState, StoredBatch, TieredSegment, batches_of, check_partition

Brokers = Mapping[int, Broker | None]

DIRECTORY: Final = LOG_DIRECTORIES[0]
"""Where simulated brokers keep their logs, or beside it: `SimFilesystem.log_at`."""


def directory_id(files: SimFilesystem, directory: Path) -> UUID | None:
    """The id of this log directory of the machine; None before it is formatted."""
    found = files.find(directory / META_PROPERTIES)
    return decode_meta_properties(bytes(found.content)).directory_id if isinstance(found, Inode) else None


def not_converged(
    brokers: Brokers, image: ClusterImage, highest_start: Callable[[TopicIdPartition], int]
) -> list[tuple[str, str]]:
    """Return what still keeps the cluster from being at rest: partition and reason.

    `highest_start` is the highest log start that a leader of the partition has had. A leader that raises its log start
    and is deposed before the others hear of it keeps the raised one: a replica may start above its leader, up to there.
    """
    return [
        (f"{topic.name}-{number}", reason)
        for _, topic in sorted(image.topics.items())
        for number in sorted(topic.partitions)
        for reason in _unsettled(
            TopicPartition(topic.name, number), brokers, image, highest_start(topic.id_partition(number))
        )
    ]


def _unsettled(name: TopicPartition, brokers: Brokers, image: ClusterImage, highest_start: int) -> Iterator[str]:
    registration = image.partition(name)
    assert registration is not None, name
    if set(registration.isr) != set(registration.replicas):
        yield f"ISR {list(registration.isr)} of replicas {list(registration.replicas)}"
    leader = brokers.get(registration.leader)
    led = None if leader is None else leader.hosted.partitions.get(name)
    if led is None or led.leadership is None or led.leadership.leader_epoch != registration.leader_epoch:
        yield f"leader {registration.leader} does not lead epoch {registration.leader_epoch}"
        return
    if name.topic == REMOTE_LOG_METADATA_TOPIC:
        return  # it grows for as long as there is something to copy
    start, end = led.log.state.log_start_offset, led.log.state.log_end_offset
    for node_id in registration.replicas:
        broker = brokers.get(node_id)
        replica = None if broker is None else broker.hosted.partitions.get(name)
        if replica is None:
            yield f"replica {node_id} is not hosted"
        elif (replica.log.state.log_end_offset, replica.log.state.high_watermark) != (end, end):
            state = replica.log.state
            yield f"replica {node_id} is at {state.high_watermark}/{state.log_end_offset}, the leader ends at {end}"
        elif not start <= replica.log.state.log_start_offset <= max(start, highest_start):
            yield f"replica {node_id} starts at {replica.log.state.log_start_offset}, the leader at {start}"


def replica_anomalies(
    name: TopicPartition,
    brokers: Brokers,
    files: Mapping[int, SimFilesystem],
    store: SimObjectStore,
    image: ClusterImage,
    *,
    is_compacted: bool = False,
) -> list[Anomaly]:
    """What the checkers of replicas find in one partition."""
    registration = image.partition(name)
    if registration is None:
        return []
    hosted = {node_id: _hosted(brokers.get(node_id), name) for node_id in registration.replicas}
    replicas = [
        _replica_state(node_id, partition, files[node_id], partition.log.state.directory)
        for node_id, partition in hosted.items()
        if partition is not None
    ]
    if is_compacted:
        return check_compacted(replicas, registration.leader, registration.isr)
    leader = brokers.get(registration.leader)
    tier = [] if leader is None else list(tiered_segments(leader, name, store))
    is_at_rest = name.topic != REMOTE_LOG_METADATA_TOPIC
    return check_partition(replicas, tier, registration.leader, registration.isr, is_at_rest=is_at_rest)


def _hosted(broker: Broker | None, name: TopicPartition) -> Partition | None:
    return None if broker is None else broker.hosted.partitions.get(name)


def _replica_state(node_id: int, partition: Partition, files: SimFilesystem, directory: Path) -> ReplicaState:
    log = partition.log
    return ReplicaState(
        node_id=node_id,
        partition=str(log.state.topic_partition),
        log_start_offset=log.state.log_start_offset,
        local_log_start_offset=log.state.offsets.local_log_start_offset,
        high_watermark=log.state.high_watermark,
        log_end_offset=log.state.log_end_offset,
        epochs=log.state.epochs.entries,
        batches=tuple(
            batch for batch in local_batches(files, directory) if batch.next_offset <= log.state.log_end_offset
        ),
        producers={
            producer_id: ProducerView(
                entry.producer_epoch,
                entry.last_sequence,
                entry.batches[-1].last_offset if entry.batches else -1,
                entry.current_txn_first_offset,
                frozenset((batch.last_sequence, batch.last_offset) for batch in entry.batches),
            )
            for producer_id, entry in log.state.producers.entries.items()
        },
        aborted=tuple(_aborted(log, files, directory)),
    )


def _aborted(log: PartitionLog, files: SimFilesystem, directory: Path) -> Iterator[Aborted]:
    """Aborted transactions of all segments: as they are in memory if they were read recently, else from the files."""
    for segment in log.state.segments:
        index = segment._transaction_index
        if index is None:
            found = files.find(directory / f"{segment.base_offset:020}{TRANSACTION_INDEX_SUFFIX}")
            index = TransactionIndex.decode(bytes(found.content)) if isinstance(found, Inode) else TransactionIndex()
        for each in index:
            yield Aborted(each.producer_id, each.first_offset, each.last_offset)


def local_batches(files: SimFilesystem, directory: Path) -> Iterator[StoredBatch]:
    """Yield the batches of a log by its files."""
    for path, inode in files.walk(directory):
        if path.suffix == ".log":
            yield from batches_of(bytes(inode.content))


def tiered_segments(leader: Broker, name: TopicPartition, store: SimObjectStore) -> Iterator[TieredSegment]:
    """Yield what the tier has of a partition on the leader's lineage."""
    partition = leader.hosted.partitions[name]
    ledger = None if leader.tier is None else leader.tier.manager.ledger(partition.partition)
    if ledger is None:
        return
    log = partition.log
    for segment in ledger.finished():
        end_offset = end_on_lineage(segment, log.state.epochs, log.state.log_end_offset)
        if end_offset > segment.start_offset:
            data = store.objects.get(segment_key(segment, None))
            yield TieredSegment(
                name=str(segment.segment_id.id),
                start_offset=segment.start_offset,
                end_offset=end_offset - 1,
                epochs=tuple(entry for entry in segment.segment_leader_epochs if entry.start_offset < end_offset),
                batches=None if data is None else tuple(_below(end_offset, batches_of(data))),
            )


def log_batches(leader: Broker, name: TopicPartition, store: SimObjectStore, files: SimFilesystem) -> list[StoredBatch]:
    """Return the batches of a log: those of its finished remote segments, then those of its leader's files."""
    directory = leader.hosted.partitions[name].log.state.directory
    tiered = (batch for segment in tiered_segments(leader, name, store) for batch in segment.batches or ())
    return [*tiered, *local_batches(files, directory)]


def log_at_rest(
    name: TopicPartition,
    brokers: Brokers,
    files: Mapping[int, SimFilesystem],
    store: SimObjectStore,
    image: ClusterImage,
) -> tuple[int, dict[int, StoredBatch]]:
    """Return the log start of a partition that has a leader, and the batches of its log by base offset."""
    registration = image.partition(name)
    leader = None if registration is None else brokers.get(registration.leader)
    assert leader is not None, name
    state = leader.hosted.partitions[name].log.state
    batches = log_batches(leader, name, store, files[leader.config.node_id])
    return state.log_start_offset, within(batches, state.log_start_offset, state.log_end_offset)


def _below(end_offset: int, batches: Iterable[StoredBatch]) -> Iterator[StoredBatch]:
    return (batch for batch in batches if batch.base_offset < end_offset)
