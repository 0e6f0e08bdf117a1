"""Everything at once, by seed: appends, reads, rolls, flushes, truncations and removals interleave at every await."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from random import Random

import pytest

from tierfetch.log.core import LogConfig
from tierfetch.log.partition_log import PartitionLog
from tierfetch.log.replica import truncation
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.records import iter_batches, iter_records
from tierfetch.tests.fakes.disk import Effect, MemoryDisk
from tierfetch.tests.log.logs import NOW_MS, data_batch, open_log, read_bytes, records_of

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=150, remote_storage_enable=True)
EXPECTED = {ErrorCode.offset_out_of_range, ErrorCode.not_leader_or_follower}


class Workload:
    """What was acknowledged and not truncated since must be there: one value for each offset."""

    def __init__(self, random: Random, log: PartitionLog) -> None:
        self.random = random
        self.log = log
        self.epoch = 0
        self.values: dict[int, bytes] = {}
        self.cutting = 0
        self.structure = asyncio.Lock()
        """Truncations and removals of a broker exclude each other; appends, reads and flushes do not ask."""

    async def append(self) -> None:
        count, value = self.random.randint(1, 3), self.random.randbytes(self.random.choice([5, 60, 150]))
        epoch, cuts = self.epoch, self.cutting
        data = data_batch(count, value=value)
        try:
            info = await self.log.append_as_leader(data, leader_epoch=epoch, now_ms=NOW_MS)
        except KafkaError as error:
            if error.code not in EXPECTED:
                raise
            return
        if cuts % 2 or self.cutting != cuts:
            return  # a truncation was under way, which may have cut it again
        assert self.log.state.log_end_offset > info.last_offset
        for offset in range(info.first_offset, info.last_offset + 1):
            self.values[offset] = value

    async def read(self) -> None:
        offset = self.random.randrange(self.log.state.log_end_offset + 1)
        try:
            piece = await self.log.read(
                offset, max_bytes=self.random.choice([1, 200, 2000]), max_offset=self.log.state.log_end_offset
            )
        except KafkaError as error:
            if error.code not in EXPECTED:
                raise
            return
        with piece:
            for _ in range(self.random.randrange(6)):
                await asyncio.sleep(0)
            try:
                data = await piece.read()
            except KafkaError as error:
                if error.code is not ErrorCode.not_leader_or_follower:
                    raise
                return
        headers = [header for _, header in iter_batches(data)]
        assert sum(header.size_bytes for header in headers) == len(data)
        if headers:
            assert headers[0].base_offset <= offset <= headers[0].last_offset
            assert all(a.next_offset == b.base_offset for a, b in pairwise(headers))
            assert headers[-1].last_offset < piece.end_offset

    async def truncate(self) -> None:
        """Leadership moves on; a part of the end goes."""
        async with self.structure:
            self.epoch += 1
            self.log.reject_leaders_below(self.epoch)
            self.cutting += 1
            offset = self.random.randrange(
                self.log.state.offsets.local_log_start_offset, self.log.state.log_end_offset + 1
            )
            end = await self.log.truncate_to(offset)
            self.cutting += 1
            self.values = {offset: value for offset, value in self.values.items() if offset < end}
            await self.log.assign_epoch(self.epoch)

    async def step(self) -> None:
        action = self.random.choices(
            [self.append, self.read, self.log.roll, self.log.flush, self.truncate, self.trim, self.look_up],
            weights=[10, 10, 1, 2, 1, 1, 1],
        )[0]
        await action()

    async def trim(self) -> None:
        async with self.structure:
            self.log.update_high_watermark(self.log.state.log_end_offset)
            await self.log.delete_local_segments(self.random.randrange(self.log.state.log_end_offset + 1))

    async def look_up(self) -> None:
        await self.log.max_timestamp_offset()
        await self.log.offset_for_timestamp(NOW_MS + 1)

    async def worker(self, steps: int) -> None:
        for _ in range(steps):
            await self.step()


@pytest.mark.parametrize("seed", range(12))
async def test_what_was_acknowledged_is_there(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truncation, "READER_WAIT_S", 0.0005)
    random = Random(seed)

    async def delay(effect: Effect) -> None:
        for _ in range(random.randrange(4)):
            await asyncio.sleep(0)

    disk = MemoryDisk(before_effect=delay)
    log = await open_log(disk, config=CONFIG, segments_max=2)
    workload = Workload(random, log)
    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(workload.worker(40))
    data = await read_bytes(log)
    assert log.state.failure is None
    found = {record.offset: record.value for record in records_of(data)}
    start = log.state.offsets.local_log_start_offset
    assert {offset: value for offset, value in workload.values.items() if offset >= start}.items() <= found.items()
    assert set(found) == set(range(start, log.state.log_end_offset)) or log.state.log_end_offset == start
    await log.close()
    again = await open_log(disk, config=CONFIG, log_start_offset=0)
    assert await read_bytes(again) == data
    end = log.state.log_end_offset
    assert again.state.epochs.entries == tuple(entry for entry in log.state.epochs.entries if entry.start_offset < end)
    epochs = {
        record.offset: header.partition_leader_epoch
        for position, header in iter_batches(data)
        for record in iter_records(data, position, header)
    }
    assert epochs == {offset: log.state.epochs.epoch_for_offset(offset) for offset in epochs}
