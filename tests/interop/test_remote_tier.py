"""One tier and one `__remote_log_metadata` topic, used by a live Java broker and by our parts."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from confluent_kafka import Producer

from tierfetch.bench.lab.kafka import KafkaCluster
from tierfetch.cli.local.processes import poll
from tierfetch.log.core import (
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    LeaderEpochCache,
    OffsetIndex,
    ProducerStateManager,
    TimeIndex,
    TransactionIndex,
    decode_leader_epochs,
    decode_partition_metadata,
)
from tierfetch.log.disk import OsDisk
from tierfetch.log.partition_log import PartitionLog
from tierfetch.log.segment.segment import LogSegment
from tierfetch.plugins.local import LocalConfig, LocalTieredStorage
from tierfetch.protocol.topics import REMOTE_LOG_METADATA_TOPIC, TopicIdPartition, TopicPartition
from tierfetch.remote import IndexType
from tierfetch.remote.core import (
    RemoteLogLedger,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    covering,
    decode_event,
)
from tierfetch.remote.core.records import encode_event
from tierfetch.remote.core.segment import RemoteLogEvent
from tierfetch.remote.ledger_book import partition_of
from tierfetch.remote.metadata_topic import metadata_partition
from tierfetch.rlm.copier import open_segment_data
from tierfetch.tests.interop.brokers import BROKER, complaints, list_offsets, set_offsets
from tierfetch.tests.interop.clients import TIMEOUT_S, consume, create_topic, produce_transactions
from tierfetch.tests.interop.histories import CONFIG, TOPIC_CONFIGS, fill_as_leader
from tierfetch.tests.log.logs import NOW_MS, committed_records_of, open_log, read_bytes, records_of

METADATA_PARTITIONS = 5
TIERED = {"remote.storage.enable": "true", **TOPIC_CONFIGS}
LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -4, -5


def topic_id_partition(cluster: KafkaCluster, topic: str) -> TopicIdPartition:
    path = cluster.data_directory(BROKER) / f"{topic}-0" / PARTITION_METADATA
    for _ in poll(TIMEOUT_S, f"{path} to be written"):
        if path.exists():
            break
    return TopicIdPartition(decode_partition_metadata(path.read_bytes()), topic, 0)


def read_ledger(cluster: KafkaCluster, partition: TopicIdPartition) -> RemoteLogLedger:
    """From what the topic holds now; every event lies in the partition in which we would look for it."""
    ledger = RemoteLogLedger(partition)
    for number in range(METADATA_PARTITIONS):
        for record in consume(cluster.bootstrap_servers, REMOTE_LOG_METADATA_TOPIC, partition=number):
            event = decode_event(record.value or b"")
            assert metadata_partition(partition_of(event), METADATA_PARTITIONS) == number
            if partition_of(event) == partition:
                ledger.apply(event)
    return ledger


async def test_we_read_what_java_tiered(cluster: KafkaCluster) -> None:
    topic = "tiered-by-java"
    create_topic(cluster.bootstrap_servers, topic, TIERED)
    for compression in ("none", "zstd", "none"):
        produce_transactions(cluster.bootstrap_servers, topic, compression)
    partition = topic_id_partition(cluster, topic)
    local = sorted((cluster.data_directory(BROKER) / f"{topic}-0").glob("*.log"))
    active_base_offset = int(local[-1].stem)
    for _ in poll(TIMEOUT_S, "all closed segments to be tiered", 0.5):
        if list_offsets(cluster, topic, LATEST_TIERED) == active_base_offset - 1:
            break
    ledger = read_ledger(cluster, partition)
    finished = ledger.finished()
    assert [segment.start_offset for segment in finished] == [int(path.stem) for path in local[:-1]]
    storage = LocalTieredStorage(LocalConfig(dir=cluster.tier_directory))
    parts = []
    for segment in finished:
        data = await storage.fetch_log_segment(segment, 0, segment.segment_size_in_bytes)
        base, end = segment.start_offset, segment.end_offset + 1
        OffsetIndex.decode(await storage.fetch_index(segment, IndexType.OFFSET), base).check()
        TimeIndex.decode(await storage.fetch_index(segment, IndexType.TIMESTAMP), base).check()
        ProducerStateManager.from_snapshot(await storage.fetch_index(segment, IndexType.PRODUCER_SNAPSHOT), end)
        if not segment.txn_index_empty:
            assert TransactionIndex.decode(await storage.fetch_index(segment, IndexType.TRANSACTION)).size_bytes
        parts.append(data)
    everything = consume(cluster.bootstrap_servers, topic)
    tiered = records_of(b"".join(parts))
    assert tiered == everything[: len(tiered)]
    history = await storage.fetch_index(finished[-1], IndexType.LEADER_EPOCH)
    assert covering(ledger, LeaderEpochCache(decode_leader_epochs(history)), 0, active_base_offset).gap is None
    await storage.close()


async def upload(
    log: PartitionLog, segment: LogSegment, partition: TopicIdPartition, storage: LocalTieredStorage
) -> list[RemoteLogEvent]:
    """Put a segment into the tier; the events that tell of it."""
    started = RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(partition, uuid.uuid4()),
        start_offset=segment.base_offset,
        end_offset=segment.next_offset - 1,
        max_timestamp_ms=segment.largest_timestamp_ms,
        broker_id=BROKER,
        event_timestamp_ms=NOW_MS,
        segment_size_in_bytes=segment.size_bytes,
        segment_leader_epochs=log.state.epochs.range(segment.base_offset, segment.next_offset),
        txn_index_empty=not segment.has_transaction_index,
    )
    async with open_segment_data(log, segment) as data:
        await storage.copy_log_segment_data(started, data)
    state = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    return [started, RemoteLogSegmentMetadataUpdate(started.segment_id, state, NOW_MS, BROKER)]


async def test_java_serves_and_continues_what_we_tiered(cluster: KafkaCluster, disk: OsDisk, tmp_path: Path) -> None:
    """Our log, objects and events, most of the log in the tier only: consumers of the Java broker notice nothing, and
    it goes on uploading where we stopped.
    """
    topic = "tiered-by-us"
    create_topic(cluster.bootstrap_servers, topic, TIERED)
    partition = topic_id_partition(cluster, topic)
    storage = LocalTieredStorage(LocalConfig(dir=cluster.tier_directory))
    log = await open_log(disk, tmp_path / f"{topic}-0", config=CONFIG)
    await fill_as_leader(log, 0, 100, leaves_open=False)
    await fill_as_leader(log, 1, 200)
    log.update_high_watermark(log.state.log_end_offset)
    written = await read_bytes(log)
    aborted = await log.aborted_transactions(0, log.state.log_end_offset)
    end_offset, stable_offset = log.state.log_end_offset, log.state.offsets.last_stable_offset
    *tiered, left, _ = log.state.segments.as_tuple()
    assert left.next_offset <= stable_offset
    events = [event for segment in tiered for event in await upload(log, segment, partition, storage)]
    await log.delete_local_segments(left.base_offset)
    await log.close()
    await storage.close()
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for event in events:
        number = metadata_partition(partition, METADATA_PARTITIONS)
        producer.produce(REMOTE_LOG_METADATA_TOPIC, encode_event(event), partition=number)
    assert producer.flush(TIMEOUT_S) == 0
    cluster.stop(BROKER)
    data_directory = cluster.data_directory(BROKER)
    directory = data_directory / f"{topic}-0"
    (tmp_path / f"{topic}-0" / PARTITION_METADATA).write_bytes((directory / PARTITION_METADATA).read_bytes())
    shutil.rmtree(directory)
    shutil.copytree(tmp_path / f"{topic}-0", directory)
    for name in (RECOVERY_POINT_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT):
        set_offsets(data_directory, name, TopicPartition(topic, 0), end_offset)
    set_offsets(data_directory, LOG_START_OFFSET_CHECKPOINT, TopicPartition(topic, 0), 0)
    cluster.start(BROKER)
    cluster.wait_serving(BROKER)

    expected = {LATEST: end_offset, EARLIEST: 0, EARLIEST_LOCAL: left.base_offset}
    assert {time: list_offsets(cluster, topic, time) for time in expected} == expected
    everything = records_of(written)
    assert consume(cluster.bootstrap_servers, topic) == everything
    committed = [record for record in committed_records_of(written, aborted) if record.offset < stable_offset]
    assert consume(cluster.bootstrap_servers, topic, isolation="read_committed") == committed
    middle = max(record.timestamp for record in everything if record.offset < left.base_offset // 2)
    first = next(record for record in everything if record.timestamp >= middle)
    assert list_offsets(cluster, topic, middle) == first.offset
    for _ in poll(TIMEOUT_S, "the next segment to be tiered by the Java broker", 0.5):
        if list_offsets(cluster, topic, LATEST_TIERED) == left.next_offset - 1:
            break
    finished = read_ledger(cluster, partition).finished()
    assert [segment.start_offset for segment in finished] == [segment.base_offset for segment in (*tiered, left)]
    assert complaints(cluster, topic) == []
