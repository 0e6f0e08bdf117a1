"""Consumers' reads from the tier: over our own segments, and over a tier that Apache Kafka wrote."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from tierfetch.log.core import EpochEntry, LogConfig
from tierfetch.log.partition_log import PartitionLog
from tierfetch.plugins.local import LocalTieredStorage
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.records import iter_batches, iter_records
from tierfetch.protocol.records.control import ControlType
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote import IndexType
from tierfetch.remote.core import decode_event
from tierfetch.rlm.reader import RemoteRead
from tierfetch.rlm.times import OffsetsByTime
from tierfetch.tests import samples
from tierfetch.tests.fakes.disk import MemoryDisk
from tierfetch.tests.fakes.faults import FailNth
from tierfetch.tests.fakes.remote_metadata import InMemoryRemoteLogMetadataManager, SharedMetadata
from tierfetch.tests.fakes.remote_storage import MemoryStreams
from tierfetch.tests.log.logs import (
    DIRECTORY,
    NOW_MS,
    append,
    committed_records_of,
    end_transaction,
    open_log,
    read_bytes,
    records_of,
)

from .brokers import PARTITION, Broker, until
from .reading import Readers, at, close_readers, consume, flip_bit, make_readers, read, tier_all
from .views import ledger_of


class TestRead:
    @pytest.mark.parametrize("max_bytes", [1, 70, 100, 301, 1000, 1 << 20])
    async def test_R4_everything_in_order_whatever_the_size(
        self, broker: Broker, readers: Readers, max_bytes: int
    ) -> None:
        await broker.fill(4)
        before = await read_bytes(broker.log, 0)
        await tier_all(broker)
        data, _ = await consume(readers, at(broker, 0, max_bytes=max_bytes), broker.log.state.log_end_offset)
        assert data == before

    async def test_R4_first_batch_holds_the_offset(self, broker: Broker, readers: Readers) -> None:
        await broker.fill(3)
        await tier_all(broker)
        for offset in range(18):
            records = await read(readers, at(broker, offset, max_bytes=1))
            (header,) = [header for _, header in iter_batches(records.records)]
            assert (header.base_offset, records.next_offset) == (offset // 2 * 2, offset // 2 * 2 + 2)

    async def test_size_is_kept_unless_one_batch_is_larger(self, broker: Broker, readers: Readers) -> None:
        await broker.fill(1)
        await tier_all(broker)
        batch = len((await read(readers, at(broker, 0, max_bytes=1))).records)
        assert len((await read(readers, at(broker, 0, max_bytes=2 * batch + 5))).records) == 2 * batch
        nothing = await read(readers, at(broker, 0, max_bytes=batch - 1, min_one_batch=False))
        assert (len(nothing.records), nothing.next_offset) == (0, 0)

    async def test_nothing_at_or_above_the_highest_visible_offset(self, broker: Broker, readers: Readers) -> None:
        await broker.fill(1)
        await tier_all(broker)
        assert (await read(readers, at(broker, 0, max_offset=4))).next_offset == 4
        assert len((await read(readers, at(broker, 4, max_offset=4))).records) == 0

    async def test_R4_offset_that_is_local_by_now_is_left_to_the_local_log(
        self, broker: Broker, readers: Readers
    ) -> None:
        await broker.fill(1)
        await until(broker.is_all_tiered)
        assert await readers.reader.read(at(broker, 0)) is None

    async def test_offset_below_the_log_start_is_out_of_range(self, broker: Broker, readers: Readers) -> None:
        await broker.fill(2)
        await tier_all(broker)
        await broker.log.increment_log_start_offset(6)
        with pytest.raises(KafkaError, match="below the log start 6") as refused:
            await readers.reader.read(at(broker, 5))
        assert refused.value.code is ErrorCode.offset_out_of_range

    async def test_hole_in_the_tier_is_never_skipped(self, broker: Broker, readers: Readers) -> None:
        await broker.fill(3)
        await tier_all(broker)
        await broker.manager.stop(PARTITION)
        metadata = InMemoryRemoteLogMetadataManager(SharedMetadata())
        await metadata.start()
        others = await make_readers(broker.storage, metadata)
        with pytest.raises(KafkaError, match="not been read yet") as refused:
            await others.reader.read(at(broker, 7))
        assert refused.value.code is ErrorCode.kafka_storage_error
        await metadata.assign([PARTITION])
        with pytest.raises(
            KafkaError, match="offset 7 of leader epoch 0 is in neither the local log nor the tier"
        ) as refused:
            await others.reader.read(at(broker, 7))
        assert refused.value.code is ErrorCode.kafka_storage_error
        await close_readers(others)

    async def test_R2_only_the_part_of_a_segment_that_agrees_with_the_lineage_is_served(
        self, broker: Broker, readers: Readers
    ) -> None:
        await broker.fill(1)
        await tier_all(broker)
        (segment,) = broker.ledger.finished()
        # A leader of epoch 0 that was lost had written offsets 4 and 5; on this lineage they are of epoch 1.
        broker.log.state.epochs.truncate_from_end(4)
        broker.log.state.epochs.assign(1, 4)
        assert segment.end_offset == 5
        assert (await read(readers, at(broker, 0))).next_offset == 4
        with pytest.raises(KafkaError, match="offset 4 of leader epoch 1 is in neither the local log nor the tier"):
            await readers.reader.read(at(broker, 4))


def deny_no_transaction_index(broker: Broker) -> None:
    """Metadata as of Kafka before 4.0."""
    tiered = [replace(segment, txn_index_empty=False) for segment in broker.ledger.finished()]
    broker.metadata._book._pages[PARTITION].ledger = ledger_of(*tiered, partition=PARTITION)


class TestAborted:
    async def produce_transactions(self, broker: Broker) -> None:
        """Producer 1 aborts over three segments, producer 2 commits, producer 3 aborts within the active segment."""
        log = broker.log
        transaction = {"producer_epoch": 0, "is_transactional": True}
        await append(log, 2, producer_id=1, base_sequence=0, **transaction)
        await append(log, 2, producer_id=2, base_sequence=0, **transaction)
        await log.roll()
        await append(log, 2)
        await append(log, 2, producer_id=1, base_sequence=2, **transaction)
        await log.roll()
        await end_transaction(log, ControlType.COMMIT, 2)
        await append(log, 1, producer_id=3, base_sequence=0, **transaction)
        await end_transaction(log, ControlType.ABORT, 1)
        await log.roll()
        await append(log, 2)
        await end_transaction(log, ControlType.ABORT, 3)
        log.update_high_watermark(log.state.log_end_offset)

    @pytest.mark.parametrize("is_denied", [True, False], ids=["kafka-4", "kafka-3"])
    @pytest.mark.parametrize("max_bytes", [1, 250, 1 << 20])
    async def test_R4_read_committed_over_segments_and_tiers(
        self, broker: Broker, readers: Readers, max_bytes: int, is_denied: bool
    ) -> None:
        await self.produce_transactions(broker)
        end = broker.log.state.log_end_offset
        before = await read_bytes(broker.log, 0)
        expected = committed_records_of(before, await broker.log.aborted_transactions(0, end))
        await tier_all(broker)
        if not is_denied:
            deny_no_transaction_index(broker)
        request = at(broker, 0, max_bytes=max_bytes, with_aborted=True)
        data, aborted = await consume(readers, request, end)
        assert data == before
        assert len(aborted) == 2
        assert committed_records_of(data, aborted) == expected

    async def test_R4_each_fetch_lists_what_overlaps_it(self, broker: Broker, readers: Readers) -> None:
        await self.produce_transactions(broker)
        expected = {o: await broker.log.aborted_transactions(o, o + 1) for o in range(11)}
        await tier_all(broker)
        for offset in range(broker.log.state.offsets.local_log_start_offset):
            records = await read(readers, at(broker, offset, max_bytes=1, with_aborted=True))
            ((_, header),) = iter_batches(records.records)
            if header.is_control or not header.is_transactional:
                assert records.aborted == ()
                continue
            assert set(expected[offset]) <= set(records.aborted)
            assert all(
                each.first_offset < records.next_offset and each.last_offset >= offset for each in records.aborted
            )

    async def test_R2_what_a_lost_history_aborted_is_not_aborted(self, broker: Broker, readers: Readers) -> None:
        """After an unclean election the same transaction was committed."""
        log, transaction = broker.log, {"producer_epoch": 0, "is_transactional": True}
        await append(log, 2, producer_id=1, base_sequence=0, **transaction)
        await append(log, 2)
        await end_transaction(log, ControlType.ABORT, 1)
        await log.roll()
        await broker.fill(0)
        await tier_all(broker)
        await broker.manager.stop(PARTITION)
        await broker.metadata.assign([PARTITION])
        await log.truncate_fully_and_start_at(4, log_start_offset=0)
        log.state.epochs.assign(0, 0)
        await log.assign_epoch(1)
        await end_transaction(log, ControlType.COMMIT, 1, epoch=1)
        log.update_high_watermark(log.state.log_end_offset)
        assert log.state.epochs.entries == (EpochEntry(0, 0), EpochEntry(1, 4))
        records = await read(readers, at(broker, 0, with_aborted=True))
        assert (records.next_offset, records.aborted) == (4, ())

    async def test_index_that_says_enough_ends_the_search(self, broker: Broker, readers: Readers) -> None:
        await self.produce_transactions(broker)
        await broker.log.roll()
        await broker.fill(0)
        await tier_all(broker)
        await read(readers, at(broker, 6, max_bytes=1, with_aborted=True))
        asked = [call for call in broker.storage.calls if call[0] == "fetch_index txnindex"]
        assert asked == [("fetch_index txnindex", broker.ledger.finished()[2].segment_id)]

    async def test_R4_nothing_is_served_without_the_index_that_says_what_was_aborted(
        self, broker: Broker, readers: Readers
    ) -> None:
        await self.produce_transactions(broker)
        await tier_all(broker)
        lost = [key for key in broker.storage.objects if key[1] is IndexType.TRANSACTION]
        assert lost
        for key in lost:
            del broker.storage.objects[key]
        with pytest.raises(KafkaError) as refused:
            await readers.reader.read(at(broker, 0, with_aborted=True))
        assert refused.value.code is ErrorCode.kafka_storage_error
        assert (await read(readers, at(broker, 0))).next_offset > 0

    async def test_what_is_in_no_transaction_needs_no_transaction_index(self, broker: Broker, readers: Readers) -> None:
        await self.produce_transactions(broker)
        await tier_all(broker)
        assert (await read(readers, at(broker, 4, max_bytes=1, with_aborted=True))).aborted == ()
        assert not any(operation == "fetch_index txnindex" for operation, _ in broker.storage.calls)

    async def test_R4_a_tier_of_kafka_before_4_0_is_read(self, broker: Broker, readers: Readers) -> None:
        """It has no index where nothing was aborted, and the metadata do not say so."""
        transaction = {"producer_id": 1, "producer_epoch": 0, "is_transactional": True}
        for segment in range(3):
            await append(broker.log, 2, base_sequence=2 * segment, **transaction)
            await end_transaction(broker.log, ControlType.COMMIT, 1)
            await broker.log.roll()
        await broker.fill(0)
        before = await read_bytes(broker.log, 0)
        await tier_all(broker)
        deny_no_transaction_index(broker)
        await read(readers, at(broker, 0, max_bytes=1, with_aborted=True))
        asked = {segment for operation, segment in broker.storage.calls if operation == "fetch_index txnindex"}
        assert asked == {broker.ledger.finished()[0].segment_id}, "no transaction was open at its end"
        end = broker.log.state.log_end_offset
        data, aborted = await consume(readers, at(broker, 0, max_bytes=1, with_aborted=True), end)
        assert (data, aborted) == (before, [])

    async def test_R4_what_is_open_at_a_segments_end_is_looked_up_behind_it_if_it_is_not_known(
        self, broker: Broker, readers: Readers
    ) -> None:
        await self.produce_transactions(broker)
        await tier_all(broker)
        deny_no_transaction_index(broker)
        for key in [key for key in broker.storage.objects if key[1] is IndexType.PRODUCER_SNAPSHOT]:
            broker.storage.objects[key] = b"damaged"
        records = await read(readers, at(broker, 0, max_bytes=1, with_aborted=True))
        assert [each.producer_id for each in records.aborted] == [1]

    async def test_read_uncommitted_asks_for_no_transaction_index(self, broker: Broker, readers: Readers) -> None:
        await self.produce_transactions(broker)
        await tier_all(broker)
        await consume(readers, at(broker, 0), broker.log.state.log_end_offset)
        assert not any(operation == "fetch_index txnindex" for operation, _ in broker.storage.calls)


class TestReadAhead:
    """Two segments of ten batches of 90,000 bytes, in chunks of 250,000."""

    @pytest.fixture
    async def wide(self, broker: Broker) -> AsyncIterator[Readers]:
        for _ in range(2):
            for _ in range(10):
                await append(broker.log, 1, value=bytes(90_000 - 76))
            await broker.log.roll()
        await broker.fill(0)
        await tier_all(broker)
        made = await make_readers(broker.storage, broker.metadata, chunk_bytes=250_000, cache_bytes=2_000_000)
        yield made
        await close_readers(made)

    def fetches(self, broker: Broker) -> int:
        return sum(operation == "fetch_log_segment" for operation, _ in broker.storage.calls)

    async def test_first_read_fetches_only_what_it_needs(self, broker: Broker, wide: Readers) -> None:
        await read(wide, at(broker, 4, max_bytes=90_000))
        await asyncio.sleep(0)
        assert self.fetches(broker) == 1

    async def test_consumer_that_reads_on_finds_the_next_bytes_there(self, broker: Broker, wide: Readers) -> None:
        await read(wide, at(broker, 0, max_bytes=90_000))
        await read(wide, at(broker, 1, max_bytes=90_000))
        await until(lambda: self.fetches(broker) == 3)
        data, _ = await consume(wide, at(broker, 2, max_bytes=90_000), 10)
        second = broker.ledger.finished()[1]
        await until(lambda: self.fetches(broker) == 6)  # four of the first segment, and two of the second
        assert broker.storage.calls[-1] == ("fetch_log_segment", second.segment_id)
        assert len(list(iter_batches(data))) == 8

    @pytest.mark.parametrize("consumers", [1, 2])
    async def test_who_reads_on_gets_several_chunks_by_one_request_from_a_storage_that_streams(
        self, broker: Broker, wide: Readers, consumers: int
    ) -> None:
        """Also two that read the same, in step: what one has read in sequence counts for both."""
        streams = MemoryStreams()
        streams.objects = broker.storage.objects
        readers = await make_readers(streams, broker.metadata, chunk_bytes=90_000, cache_bytes=3_000_000)
        for offset in range(20):
            for _ in range(consumers):
                records = await read(readers, at(broker, offset, max_bytes=90_000))
                assert [header.base_offset for _, header in iter_batches(records.records)] == [offset]
            await asyncio.gather(*readers.chunks._runs._tasks)
        operations = [operation for operation, _ in streams.calls]
        assert operations.count("stream_log_segment") >= 3
        assert len(operations) < 14, operations
        size = sum(segment.segment_size_in_bytes for segment in broker.ledger.finished()[:2])
        assert readers.chunks._counters.fetched_bytes == size, "each chunk once"
        await close_readers(readers)

    async def test_jumping_about_fetches_nothing_ahead(self, broker: Broker, wide: Readers) -> None:
        for offset in (0, 9, 4):
            await read(wide, at(broker, offset, max_bytes=1))
        await asyncio.sleep(0)
        assert self.fetches(broker) == 3


class TestTimes:
    async def test_R4_bootstrap_rule_10_by_time_in_the_tier_and_behind_it(
        self, broker: Broker, readers: Readers
    ) -> None:
        for i in range(12):
            await append(broker.log, 3, timestamp_ms=NOW_MS + [0, 50, 20, 90, 90, 10, 120, 100, 130, 125, 140, 150][i])
            if i % 3 == 2:
                await broker.log.roll()
        await append(broker.log, 1, timestamp_ms=NOW_MS + 149)
        broker.log.update_high_watermark(broker.log.state.log_end_offset)
        times = [NOW_MS + delta for delta in range(-1, 155)]
        expected = [await broker.log.offset_for_timestamp(time) for time in times]
        await tier_all(broker)
        assert [await readers.times.offset_for_timestamp(PARTITION, broker.log, time) for time in times] == expected

    @pytest.mark.parametrize("wrong", ["index", "timeindex"])
    async def test_R4_an_index_that_its_log_contradicts_hides_no_record_from_a_search_by_time(
        self, broker: Broker, readers: Readers, wrong: str
    ) -> None:
        for i in range(12):
            await append(broker.log, 3, timestamp_ms=NOW_MS + 10 * i)
        await broker.log.roll()
        await append(broker.log, 1, timestamp_ms=NOW_MS + 120)
        broker.log.update_high_watermark(broker.log.state.log_end_offset)
        expected = [await broker.log.offset_for_timestamp(NOW_MS + delta) for delta in range(110)]
        await tier_all(broker)

        def lead_too_far(operation: str, data: bytes) -> bytes:
            """Every second entry is the next one's, as of a segment with larger batches."""
            if operation != f"fetch_index {wrong}":
                return data
            size, key = (8, 4) if wrong == "index" else (12, 8)
            entries = [data[at : at + size] for at in range(0, len(data), size)]
            pairs = zip(entries[::2], entries[1::2], strict=False)
            return b"".join(first[:key] + second[key:] for first, second in pairs)

        broker.storage.tamper = lead_too_far
        found = [
            await readers.times.offset_for_timestamp(PARTITION, broker.log, NOW_MS + delta) for delta in range(110)
        ]
        assert found == expected
        assert readers.indexes.rebuilt == 1

    async def test_R4_a_wrong_time_that_lies_beyond_the_first_look_hides_no_record(
        self, broker: Broker, readers: Readers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The offset index is right and sparse, so that the batch of a time is not among the first bytes read."""
        monkeypatch.setattr("tierfetch.rlm.times.SCAN_BYTES", 100)
        for i in range(24):
            await append(broker.log, 3, timestamp_ms=NOW_MS + 10 * i)
        await broker.log.roll()
        await append(broker.log, 1, timestamp_ms=NOW_MS + 240)
        broker.log.update_high_watermark(broker.log.state.log_end_offset)
        expected = [await broker.log.offset_for_timestamp(NOW_MS + delta) for delta in range(0, 230, 5)]
        await tier_all(broker)

        def tamper(operation: str, data: bytes) -> bytes:
            if operation == "fetch_index index":
                return b"".join(data[at : at + 8] for at in range(0, len(data), 4 * 8))
            if operation == "fetch_index timeindex":
                late = zip(range(0, len(data), 12), range(3 * 12, len(data), 12), strict=False)
                return b"".join(data[at : at + 8] + data[other + 8 : other + 12] for at, other in late)
            return data

        broker.storage.tamper = tamper
        found = []
        for delta in range(0, 230, 5):
            fresh = await make_readers(broker.storage, broker.metadata)
            found.append(await fresh.times.offset_for_timestamp(PARTITION, broker.log, NOW_MS + delta))
            await close_readers(fresh)
        assert found == expected

    async def test_R4_bootstrap_rule_10_records_below_the_log_start_are_no_answer(
        self, broker: Broker, readers: Readers
    ) -> None:
        await broker.fill(3)
        await tier_all(broker)
        await broker.log.increment_log_start_offset(8)
        found = await readers.times.offset_for_timestamp(PARTITION, broker.log, 0)
        assert found is not None
        assert found.offset == 8

    @pytest.mark.parametrize("overtaken", ["the tier", "the local log"])
    async def test_bootstrap_rule_12_local_retention_that_overtakes_a_search_hides_nothing(
        self, broker: Broker, readers: Readers, monkeypatch: pytest.MonkeyPatch, overtaken: str
    ) -> None:
        """The first segment promises records of that time, but only below the log start; while it, or the local log, is
        searched, the second is removed locally.
        """
        for delta in (100, 1):
            await append(broker.log, 2, timestamp_ms=NOW_MS + delta)
        await broker.log.roll()
        for delta in (50, 60):
            await append(broker.log, 2, timestamp_ms=NOW_MS + delta)
            await broker.log.roll()
        await broker.fill(0)
        await until(broker.is_all_tiered)
        await broker.log.increment_log_start_offset(2)
        await broker.log.delete_local_segments(4)
        searched = (broker.storage, "fetch_index") if overtaken == "the tier" else (broker.log, "offset_for_timestamp")
        search = getattr(*searched)

        async def search_late(*arguments: object) -> object:
            await broker.log.delete_local_segments(6)
            return await search(*arguments)

        monkeypatch.setattr(*searched, search_late)
        found = await readers.times.offset_for_timestamp(PARTITION, broker.log, NOW_MS + 40)
        assert broker.log.state.offsets.local_log_start_offset == 6
        assert found is not None
        assert found.offset == 4

    @pytest.mark.parametrize("is_gone", [False, True])
    async def test_expiry_that_overtakes_a_search_is_no_fault_of_the_tier(
        self, broker: Broker, readers: Readers, monkeypatch: pytest.MonkeyPatch, is_gone: bool
    ) -> None:
        """The first segment is searched, and its records are deleted meanwhile, or its objects already."""
        await broker.fill(3)
        await tier_all(broker)
        (first, *_) = broker.ledger.finished()
        fetch = broker.storage.fetch_index

        async def fetch_late(*arguments: Any) -> bytes:
            index = await fetch(*arguments)
            if await broker.log.increment_log_start_offset(first.end_offset + 1) and is_gone:
                broker.manager.wake(PARTITION)
                await until(lambda: broker.ledger.get(first.segment_id) is None)
            return index

        monkeypatch.setattr(broker.storage, "fetch_index", fetch_late)
        found = await readers.times.offset_for_timestamp(PARTITION, broker.log, 0)
        assert found is not None
        assert found.offset == broker.log.state.log_start_offset == first.end_offset + 1

    async def test_tier_is_not_asked_for_what_is_local(self, broker: Broker, readers: Readers) -> None:
        await broker.fill(3)
        await until(broker.is_all_tiered)
        found = await readers.times.offset_for_timestamp(PARTITION, broker.log, 0)
        assert found is not None
        assert found.offset == 0
        assert not any(operation.startswith("fetch") for operation, _ in broker.storage.calls)

    async def test_batch_larger_than_one_look(
        self, broker: Broker, readers: Readers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tierfetch.rlm.times.SCAN_BYTES", 40)
        monkeypatch.setattr("tierfetch.rlm.reader.FIND_BYTES", 61)
        await append(broker.log, 1, value=bytes(500))
        await append(broker.log, 1, timestamp_ms=NOW_MS + 7)
        await broker.log.roll()
        await broker.fill(0)
        await tier_all(broker)
        found = await readers.times.offset_for_timestamp(PARTITION, broker.log, NOW_MS + 7)
        assert found is not None
        assert found.offset == 1
        assert (await read(readers, at(broker, 1, max_bytes=1))).next_offset == 2

    async def test_R4_bootstrap_rule_10_of_two_largest_timestamps_the_first_counts(
        self, broker: Broker, readers: Readers
    ) -> None:
        await append(broker.log, 1, timestamp_ms=NOW_MS + 9)
        await broker.log.roll()
        await append(broker.log, 1, timestamp_ms=NOW_MS + 9)
        broker.log.update_high_watermark(2)
        await tier_all(broker)
        found = await readers.times.max_timestamp_offset(PARTITION, broker.log)
        assert found is not None
        assert found.offset == 0

    @pytest.mark.parametrize("youngest", [0, 4, 8, 12])
    async def test_R4_bootstrap_rule_10_largest_timestamp_of_both_tiers(
        self, broker: Broker, readers: Readers, youngest: int
    ) -> None:
        for i in range(0, 12, 2):
            await append(broker.log, 2, timestamp_ms=NOW_MS + (500 if i == youngest else i))
            if i % 4 == 2:
                await broker.log.roll()
        await append(broker.log, 1, timestamp_ms=NOW_MS + (500 if youngest == 12 else 3))
        broker.log.update_high_watermark(broker.log.state.log_end_offset)
        expected = await broker.log.max_timestamp_offset()
        await tier_all(broker)
        assert await readers.times.max_timestamp_offset(PARTITION, broker.log) == expected
        assert expected is not None
        assert expected.offset == min(youngest + 1, 12)

    async def test_errors_of_the_tier(self, broker: Broker, readers: Readers) -> None:
        await broker.fill(1)
        await tier_all(broker)
        broker.storage.faults = FailNth(1, persistent=True)
        with pytest.raises(KafkaError) as refused:
            await readers.times.offset_for_timestamp(PARTITION, broker.log, 0)
        assert refused.value.code is ErrorCode.kafka_storage_error
        broker.storage.faults = None
        broker.storage.tamper = lambda operation, data: flip_bit(data) if operation == "fetch_log_segment" else data
        with pytest.raises(KafkaError) as refused:
            await readers.times.offset_for_timestamp(PARTITION, broker.log, 0)
        assert refused.value.code is ErrorCode.kafka_storage_error
        broker.storage.tamper = lambda operation, data: data
        assert await readers.times.offset_for_timestamp(PARTITION, broker.log, 0) is not None

    async def test_search_has_a_deadline(self, broker: Broker) -> None:
        await broker.fill(1)
        await tier_all(broker)
        readers = await make_readers(broker.storage, broker.metadata)
        hurried = OffsetsByTime(broker.metadata, readers.chunks, readers.indexes, timeout_ms=5)
        broker.storage.hang_on.add("fetch_log_segment")
        with pytest.raises(KafkaError) as refused:
            await hurried.offset_for_timestamp(PARTITION, broker.log, 0)
        assert refused.value.code is ErrorCode.request_timed_out
        await close_readers(readers)


def sample_ledger_events(topic: str) -> tuple[TopicIdPartition, SharedMetadata]:
    shared = SharedMetadata()
    partition = None
    for path in sorted(samples.BROKER.glob("__remote_log_metadata-*/*.log")):
        data = path.read_bytes()
        for position, header in iter_batches(data):
            for record in iter_records(data, position, header):
                event = decode_event(record.value or b"")
                if event.segment_id.topic_id_partition.topic == topic:
                    partition = event.segment_id.topic_id_partition
                    shared.append(event)
    assert partition is not None
    return partition, shared


SAMPLES_IN_TIER = sorted({path.parent.name.rsplit("-0-", 1)[0] for path in samples.TIER.glob("*/*.log")})


@pytest.mark.parametrize("topic", SAMPLES_IN_TIER)
@pytest.mark.parametrize("max_bytes", [1, 1 << 16])
async def test_R4_tier_written_by_apache_kafka(topic: str, max_bytes: int) -> None:
    """Every record that Kafka's own consumer saw, with only the last segment taken as local."""
    partition, shared = sample_ledger_events(topic)
    metadata = InMemoryRemoteLogMetadataManager(shared)
    await metadata.start()
    await metadata.assign([partition])
    storage = LocalTieredStorage(LocalTieredStorage.Config(dir=samples.TIER.parent))
    readers = await make_readers(storage, metadata, chunk_bytes=1 << 15, cache_bytes=1 << 18)
    log = await open_sample_log(topic)
    local_start = log.state.segments.active.base_offset
    await log.delete_local_segments(local_start)
    end = log.state.log_end_offset
    request = RemoteRead(partition=partition, log=log, offset=0, max_bytes=max_bytes, max_offset=end, with_aborted=True)
    data, aborted = await consume(readers, request, end)
    expected = samples.expected()[topic]
    seen = samples.digest(records_of(data))
    assert seen == {key: expected["read_uncommitted"][key] for key in seen}
    committed = samples.digest(committed_records_of(data, aborted))
    assert committed == {key: expected["read_committed"][key] for key in committed}
    await close_readers(readers)
    await storage.close()


async def open_sample_log(topic: str) -> PartitionLog:
    disk = MemoryDisk()
    disk.put_tree(samples.partition_directory(topic), DIRECTORY)
    config = LogConfig(segment_bytes=65536, remote_storage_enable=True)
    log = await open_log(disk, config=config, is_clean=True, log_start_offset=0)
    log.update_high_watermark(log.state.log_end_offset)
    return log
