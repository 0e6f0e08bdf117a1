"""Consumers' reads from a tier that fails, hangs, lies, or loses what it had."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable

import pytest

from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.records import iter_batches
from tierfetch.remote.core import RemoteLogSegmentMetadata
from tierfetch.tests.fakes.faults import FailNth
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage
from tierfetch.tests.log.logs import (
    read_bytes,
)

from .brokers import PARTITION, Broker, until
from .reading import Readers, at, close_readers, consume, flip_bit, make_readers, read, tier_all


class TestFaults:
    async def test_failure_is_tried_once_more(self, broker: Broker, readers: Readers) -> None:
        await broker.fill(2)
        before = await read_bytes(broker.log, 0)
        await tier_all(broker)
        for n in range(1, 5):
            broker.storage.faults = FailNth(n)
            fresh = await make_readers(broker.storage, broker.metadata)
            data, _ = await consume(fresh, at(broker, 3), broker.log.state.log_end_offset)
            assert before.endswith(data)
            await close_readers(fresh)

    async def test_tier_that_fails_is_a_storage_error(self, broker: Broker, readers: Readers) -> None:
        await broker.fill(1)
        await tier_all(broker)
        broker.storage.faults = FailNth(1, persistent=True)
        with pytest.raises(KafkaError, match="the tier failed") as refused:
            await readers.reader.read(at(broker, 0))
        assert refused.value.code is ErrorCode.kafka_storage_error
        broker.storage.faults = None
        assert (await read(readers, at(broker, 0))).next_offset == 6

    @pytest.mark.parametrize(
        "tamper",
        [
            pytest.param(lambda data: data[:-1], id="short"),
            pytest.param(lambda data: data + b"\0", id="long"),
            pytest.param(lambda data: bytes(len(data)), id="zeros"),
            pytest.param(flip_bit, id="bit flipped"),
            pytest.param(lambda data: data[7:] + data[:7], id="shifted"),
        ],
    )
    async def test_wrong_bytes_are_never_served_and_not_kept(
        self, broker: Broker, readers: Readers, tamper: Callable[[bytes], bytes]
    ) -> None:
        await broker.fill(1)
        before = await read_bytes(broker.log, 0)
        await tier_all(broker)
        broker.storage.tamper = lambda operation, data: tamper(data) if operation == "fetch_log_segment" else data
        for offset in (0, 1):
            with pytest.raises(KafkaError) as refused:
                await readers.reader.read(at(broker, offset))
            assert refused.value.code is ErrorCode.kafka_storage_error
        assert readers.chunks._counters.damaged_reads == 4, "two attempts each"
        broker.storage.tamper = lambda operation, data: data
        assert bytes((await read(readers, at(broker, 0))).records) == before[: len(before) - 70]

    async def test_bytes_of_another_segment_are_never_served(self, broker: Broker, readers: Readers) -> None:
        await broker.fill(2)
        await tier_all(broker)
        first, second = broker.ledger.finished()
        broker.storage.objects[first.segment_id, None] = broker.storage.objects[second.segment_id, None]
        with pytest.raises(KafkaError, match=r"offsets from 0 to 5 are expected"):
            await readers.reader.read(at(broker, 0))

    async def test_batch_that_claims_to_reach_beyond_the_segment_is_a_storage_error(
        self, broker: Broker, readers: Readers
    ) -> None:
        await broker.fill(1)
        await tier_all(broker)

        def lengthen(operation: str, data: bytes) -> bytes:
            if operation != "fetch_log_segment":
                return data
            *_, (position, header) = iter_batches(data)
            return data[: position + 8] + (header.batch_length + 1).to_bytes(4, "big") + data[position + 12 :]

        broker.storage.tamper = lengthen
        with pytest.raises(KafkaError, match="no whole batch with offset 5"):
            await readers.reader.read(at(broker, 5))

    @pytest.mark.parametrize("index", [b"\1\2\3", b"\0\0\0\5\0\0\0\1" * 3])
    async def test_R4_wrong_index_is_built_again_from_the_log(
        self, broker: Broker, readers: Readers, index: bytes
    ) -> None:
        await broker.fill(1)
        await tier_all(broker)
        whole = await readers.reader.read(at(broker, 3))
        other = await make_readers(broker.storage, broker.metadata)
        broker.storage.tamper = lambda operation, data: index if operation == "fetch_index index" else data
        assert await other.reader.read(at(broker, 3)) == whole

    @pytest.mark.parametrize(
        "wrong",
        [
            pytest.param((1, 13), id="into the middle of a batch"),
            pytest.param((1, -1), id="to the last batch, past what is looked for"),
            pytest.param((1, 1 << 20), id="beyond the log"),
        ],
    )
    async def test_R4_index_that_its_log_contradicts_is_built_again_from_the_log_once(
        self, broker: Broker, readers: Readers, wrong: tuple[int, int], caplog: pytest.LogCaptureFixture
    ) -> None:
        await broker.fill(1)
        log = await read_bytes(broker.log, 0)
        await tier_all(broker)
        offset, position = wrong
        if position < 0:
            position = [at for at, header in iter_batches(log) if header.last_offset <= 5][-1]
        index = struct.pack(">ii", offset, position)
        broker.storage.tamper = lambda operation, data: index if operation == "fetch_index index" else data
        found = await read(readers, at(broker, 3))
        _, first = next(iter_batches(found.records))
        assert first.base_offset <= 3 <= first.last_offset
        for _ in range(3):
            await read(readers, at(broker, 3))
        assert readers.indexes.rebuilt == 1
        assert caplog.text.count("building it from the") == 1

    async def test_R4_a_log_that_contradicts_every_index_is_a_storage_error_and_is_not_scanned_each_time(
        self, broker: Broker, readers: Readers
    ) -> None:
        await broker.fill(1)
        await tier_all(broker)
        shifted = lambda operation, data: data[7:] + data[:7] if operation == "fetch_log_segment" else data  # noqa: E731
        broker.storage.tamper = shifted
        for _ in range(5):
            with pytest.raises(KafkaError) as refused:
                await readers.reader.read(at(broker, 3))
            assert refused.value.code is ErrorCode.kafka_storage_error
        assert readers.indexes.rebuilt <= 1

    async def test_D7_slow_tier_gives_no_records_in_time_and_goes_on_fetching(self, broker: Broker) -> None:
        await broker.fill(1)
        await tier_all(broker)
        hurried = await make_readers(broker.storage, broker.metadata, max_wait_ms=5)
        release = asyncio.Event()

        async def slow(metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
            await release.wait()
            return await MemoryRemoteStorage.fetch_log_segment(broker.storage, metadata, start, end)

        broker.storage.fetch_log_segment = slow  # type: ignore[method-assign]
        late = await read(hurried, at(broker, 0))
        assert (len(late.records), late.next_offset) == (0, 0)
        release.set()
        assert (await read(hurried, at(broker, 0))).next_offset == 6
        fetches = [call for call in broker.storage.calls if call[0] == "fetch_log_segment"]
        assert len(fetches) == 1
        await close_readers(hurried)

    async def test_read_of_more_than_is_kept_comes_to_an_end_in_a_slow_tier(self, broker: Broker) -> None:
        """Each attempt ends before a fetch does: what it has begun must be there for a later one."""
        await broker.fill(1)
        before = await read_bytes(broker.log, 0)
        await tier_all(broker)
        hurried = await make_readers(broker.storage, broker.metadata, chunk_bytes=40, cache_bytes=160, max_wait_ms=5)

        under_way: list[asyncio.Event] = []

        async def slow(metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
            under_way.append(asyncio.Event())
            await under_way[-1].wait()
            return await MemoryRemoteStorage.fetch_log_segment(broker.storage, metadata, start, end)

        broker.storage.fetch_log_segment = slow  # type: ignore[method-assign]
        for _ in range(20):
            records = await read(hurried, at(broker, 0))
            if records.records:
                break
            for fetch in under_way:
                fetch.set()
            under_way.clear()
        assert before.startswith(bytes(records.records))
        assert records.records
        await close_readers(hurried)

    async def test_segment_that_is_deleted_meanwhile_is_out_of_range(self, broker: Broker, readers: Readers) -> None:
        await broker.fill(2)
        await tier_all(broker)
        entered, release = asyncio.Event(), asyncio.Event()

        async def slow(metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
            entered.set()
            await release.wait()
            return await MemoryRemoteStorage.fetch_log_segment(broker.storage, metadata, start, end)

        broker.storage.fetch_log_segment = slow  # type: ignore[method-assign]
        reading = asyncio.create_task(readers.reader.read(at(broker, 0)))
        await entered.wait()
        await broker.log.increment_log_start_offset(6)
        broker.manager.wake(PARTITION)
        await until(lambda: len(broker.ledger.segments()) == 1)
        release.set()
        with pytest.raises(KafkaError) as refused:
            await reading
        assert refused.value.code is ErrorCode.offset_out_of_range
