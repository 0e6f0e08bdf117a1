"""A Java broker on a partition directory that we wrote, and `PartitionLog` on one that a Java broker wrote."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tierfetch.bench.lab.kafka import KafkaCluster, run_tool
from tierfetch.log.core import (
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    decode_snapshot,
)
from tierfetch.log.disk import OsDisk
from tierfetch.protocol.topics import TopicPartition
from tierfetch.tests.interop.brokers import BROKER, complaints, list_offsets, set_offsets
from tierfetch.tests.interop.clients import consume, create_topic, produce_transactions
from tierfetch.tests.interop.histories import CONFIG, TOPIC_CONFIGS, fill_as_leader
from tierfetch.tests.log.logs import committed_records_of, open_log, read_bytes, records_of

INDEX_FILES = {".index", ".timeindex", ".txnindex", ".snapshot"}
SHORT = replace(CONFIG, segment_bytes=1_000_000)
SHORT_TOPIC_CONFIGS = TOPIC_CONFIGS | {"internal.segment.bytes": "1000000"}
"""All of it is one segment, which is short."""


def contents(directory: Path) -> dict[str, object]:
    """Every file's bytes, but the producers of a snapshot in the order of their ids: Kafka's order is a hash map's."""
    found: dict[str, object] = {path.name: path.read_bytes() for path in directory.iterdir()}
    for path in directory.glob("*.snapshot"):
        found[path.name] = sorted(decode_snapshot(path.read_bytes()))
    return found


def index_files(directory: Path) -> list[Path]:
    """What a clean stop may leave out of a short segment."""
    return [path for path in directory.iterdir() if path.suffix in INDEX_FILES]


@pytest.mark.parametrize("end", ["clean", "crashed", "unindexed"])
async def test_a_java_broker_serves_what_we_wrote(cluster: KafkaCluster, disk: OsDisk, end: str) -> None:
    """After a clean stop, as if after a crash, and after the clean stop of many logs, without index files and snapshot:
    it finds the producers and the open transaction in the batches.
    """
    is_clean, is_indexed, topic = end != "crashed", end != "unindexed", f"ours-{end}"
    config, topic_configs = (CONFIG, TOPIC_CONFIGS) if is_indexed else (SHORT, SHORT_TOPIC_CONFIGS)
    partition = TopicPartition(topic, 0)
    create_topic(cluster.bootstrap_servers, topic, topic_configs)
    cluster.stop(BROKER)
    data_directory = cluster.data_directory(BROKER)
    directory = data_directory / str(partition)
    for path in directory.iterdir():
        if path.name != PARTITION_METADATA:
            path.unlink()
    log = await open_log(disk, directory, config=config)
    assert log.state.topic_id is not None
    await fill_as_leader(log, 0, 100)
    await fill_as_leader(log, 1, 200)
    log.update_high_watermark(log.state.log_end_offset)
    written = await read_bytes(log)
    aborted = await log.aborted_transactions(0, log.state.log_end_offset)
    end_offset, stable_offset = log.state.log_end_offset, log.state.offsets.last_stable_offset
    max_timestamp = await log.max_timestamp_offset()
    open_transaction = next(
        each for each in log.state.producers.entries.values() if each.current_txn_first_offset is not None
    )
    await (log.close() if is_indexed else log.close_unsynced())
    assert bool(index_files(directory)) is is_indexed
    for name in (RECOVERY_POINT_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT):
        set_offsets(data_directory, name, partition, end_offset if is_clean else 0)
    if not is_clean:
        (data_directory / ".kafka_cleanshutdown").unlink()
    cluster.start(BROKER)
    cluster.wait_serving(BROKER)

    assert consume(cluster.bootstrap_servers, topic) == records_of(written)
    committed = [record for record in committed_records_of(written, aborted) if record.offset < stable_offset]
    assert consume(cluster.bootstrap_servers, topic, isolation="read_committed") == committed
    assert max_timestamp is not None
    expected = {-1: end_offset, -2: 0, -3: max_timestamp.offset, -4: 0}
    assert {time: list_offsets(cluster, topic, time) for time in expected} == expected
    producers = run_tool(
        "org.apache.kafka.tools.TransactionsCommand",
        *("--bootstrap-server", cluster.bootstrap_servers, "describe-producers", "--topic", topic, "--partition", "0"),
    )
    rows = {int(line.split()[0]): line.split()[1:] for line in producers.splitlines() if re.match(r"\d+\t?\s", line)}
    assert rows[open_transaction.producer_id][-1] == str(open_transaction.current_txn_first_offset)
    missed = [] if is_indexed else ["Could not find offset index file"]
    assert [next((text for text in missed if text in line), line) for line in complaints(cluster, topic)] == missed


async def test_we_open_what_a_java_broker_wrote_without_its_index_files(
    cluster: KafkaCluster, disk: OsDisk, tmp_path: Path
) -> None:
    topic = "theirs-unindexed"
    create_topic(cluster.bootstrap_servers, topic, SHORT_TOPIC_CONFIGS)
    produce_transactions(cluster.bootstrap_servers, topic, "lz4")
    everything = consume(cluster.bootstrap_servers, topic)
    committed = consume(cluster.bootstrap_servers, topic, isolation="read_committed")
    end_offset = list_offsets(cluster, topic, -1)
    cluster.stop(BROKER)
    ours = Path(shutil.copytree(cluster.data_directory(BROKER) / f"{topic}-0", tmp_path / f"{topic}-0"))
    cluster.start(BROKER)
    cluster.wait_serving(BROKER)

    theirs = contents(ours)
    removed = index_files(ours)
    assert {path.suffix for path in removed} == INDEX_FILES
    for path in removed:
        path.unlink()
    log = await open_log(disk, ours, config=SHORT, is_clean=True, recovery_point=end_offset, high_watermark=end_offset)
    assert not log.recovery_report.messages
    assert (log.state.log_start_offset, log.state.log_end_offset) == (0, end_offset)
    written = await read_bytes(log)
    assert records_of(written) == everything
    assert committed_records_of(written, await log.aborted_transactions(0, end_offset)) == committed
    await log.close()
    assert contents(ours) == theirs


async def test_we_open_what_a_java_broker_wrote(cluster: KafkaCluster, disk: OsDisk, tmp_path: Path) -> None:
    """After its clean stop without a scan; and as if after a crash, where what we make anew is what it wrote."""
    topic = "theirs"
    create_topic(cluster.bootstrap_servers, topic, TOPIC_CONFIGS)
    for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
        produce_transactions(cluster.bootstrap_servers, topic, compression)
    everything = consume(cluster.bootstrap_servers, topic)
    committed = consume(cluster.bootstrap_servers, topic, isolation="read_committed")
    end_offset = list_offsets(cluster, topic, -1)
    cluster.stop(BROKER)
    ours = Path(shutil.copytree(cluster.data_directory(BROKER) / f"{topic}-0", tmp_path / f"{topic}-0"))
    theirs = contents(ours)
    cluster.start(BROKER)
    cluster.wait_serving(BROKER)

    for is_clean in (True, False):
        log = await open_log(disk, ours, config=CONFIG, is_clean=is_clean)
        assert not log.recovery_report.messages
        assert (log.state.log_start_offset, log.state.log_end_offset) == (0, end_offset)
        log.update_high_watermark(end_offset)
        written = await read_bytes(log)
        assert records_of(written) == everything
        aborted = await log.aborted_transactions(0, end_offset)
        assert committed_records_of(written, aborted) == committed
        await log.close()
        assert contents(ours) == theirs
        for path in [*ours.glob("*index"), *ours.glob("*.snapshot")]:
            path.unlink()
