"""Which metadata partition holds a user partition, as Kafka decided it."""

from __future__ import annotations

from uuid import UUID

import pytest
from aiokafka.partitioner import murmur2 as reference_murmur2

from tierfetch.protocol.records import iter_batches, iter_records
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote.core import decode_event
from tierfetch.remote.ledger_book import partition_of
from tierfetch.remote.metadata_topic import metadata_partition, murmur2
from tierfetch.tests.samples import BROKER


@pytest.mark.parametrize("number", range(5))
def test_real_records_lie_where_we_look_for_them(number: int) -> None:
    log = (BROKER / f"__remote_log_metadata-{number}" / "00000000000000000000.log").read_bytes()
    owners = {
        partition_of(decode_event(record.value or b""))
        for position, header in iter_batches(log)
        for record in iter_records(log, position, header)
    }
    assert owners
    assert {metadata_partition(owner, 5) for owner in owners} == {number}


@pytest.mark.parametrize("size", range(20))
def test_murmur2_is_kafkas(size: int) -> None:
    for seed in range(20):
        data = bytes((seed * 37 + 251 * i) & 0xFF for i in range(size))
        assert murmur2(data) == reference_murmur2(data) & 0xFFFFFFFF


def test_every_partition_is_used() -> None:
    topic_id = UUID(int=0x5EED0000000000000000F00D)
    used = {metadata_partition(TopicIdPartition(topic_id, "t", number), 50) for number in range(1_000)}
    assert used == set(range(50))
