"""`open_tier`: a tier read without a broker, beside a consumer without an index; used wrongly, damaged, cancelled."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.errors import OperatorError
from tierfetch.plugins.local import STORAGE_DIRECTORY
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.records import Record
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote import (
    RemoteObject,
    RemoteResourceNotFoundError,
    RemoteStorageCorruptError,
    RemoteStorageRefusedError,
    TierLog,
    embedded,
    open_tier,
)
from tierfetch.tests.fakes.random_tier import (
    PARTITION,
    History,
    Segment,
    Step,
    consumed,
    segments,
    steps,
    write_kafka_tier,
)
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage

TOPIC = PARTITION.topic
PLAIN: list[Step] = [("plain", -1, 3)] * 6
ABORTED: list[Step] = [("transactional", 1, 4), ("plain", -1, 2), ("abort", 1, 1), ("plain", -1, 1)]


def written(directory: Path, some: list[Step], *cuts: int) -> tuple[History, list[Segment]]:
    rng = random.Random(7)
    history = History().run(some, rng)
    found = list(segments(history, cuts, rng))
    write_kafka_tier(directory, found)
    return history, found


def objects(directory: Path, pattern: str) -> list[Path]:
    return sorted((directory / STORAGE_DIRECTORY).glob(f"*/{pattern}"))


async def records_of(log: TierLog, offset: int | None = None, *, committed: bool = True) -> list[Record]:
    return [record async for record in log.read(offset, committed=committed)]


async def read_into(offsets: list[int], log: TierLog) -> None:
    async for record in log.read():
        offsets.append(record.offset)


def of_directory(directory: Path) -> dict[str, str]:
    return {"dir": str(directory)}


@given(steps, st.lists(st.integers(0, 40), max_size=6), st.integers(1, 200), st.integers(0, 2**32))
@settings(max_examples=25)
async def test_what_is_read_is_what_a_consumer_sees_from_each_offset(
    some: list[Step], cuts: list[int], read_bytes: int, seed: int
) -> None:
    rng = random.Random(seed)
    history = History().run(some, rng)
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded, "READ_BYTES", read_bytes * 61)
        write_kafka_tier(Path(directory), segments(history, cuts, rng))
        async with open_tier("local", of_directory(Path(directory))) as tier:
            if not history.batches:
                assert await tier.partitions() == []
                return
            log = await tier.log(TOPIC)
            assert (log.start_offset, log.end_offset, log.damage) == (0, history.end_offset, ())
            offset = rng.randrange(history.end_offset + 1)
            for isolation in ("read_committed", "read_uncommitted"):
                expected = [one for one in consumed(history, isolation) if one.offset >= offset]
                assert await records_of(log, offset, committed=isolation == "read_committed") == expected
            batches = [batch async for batch in log.batches(offset)]
            assert batches == [one.data for one in history.batches if one.next_offset > offset]


async def test_the_history_that_survived_is_read_and_not_the_lost_one(tmp_path: Path) -> None:
    rng = random.Random(1)
    lost = History().run(PLAIN, rng)
    survived = lost.diverged_at(3)
    survived.lead(5)
    survived.run(PLAIN, rng)
    write_kafka_tier(tmp_path, segments(lost, [2, 5], rng))
    write_kafka_tier(tmp_path, segments(survived, [4], rng))
    async with open_tier("local", of_directory(tmp_path)) as tier:
        log = await tier.log(TOPIC)
        assert await records_of(log) == consumed(survived, "read_uncommitted")
        shown = log.segments
        assert [each.start_offset for each in shown[1:]] == [each.end_offset for each in shown[:-1]]
        for each in shown:
            assert log.find(each.start_offset) == log.find(each.end_offset - 1) == each
        assert log.find(log.end_offset) is None


async def test_partitions_are_listed_and_one_is_found_by_its_name(tmp_path: Path) -> None:
    written(tmp_path, PLAIN)
    async with open_tier("local", of_directory(tmp_path)) as tier:
        assert await tier.partitions() == [PARTITION]
        assert (await tier.log(TOPIC, topic_id=PARTITION.topic_id)).partition == PARTITION
        with pytest.raises(OperatorError, match=f"the tier has no orders-3; it has {TOPIC}-0"):
            await tier.log("orders", 3)
        with pytest.raises(OperatorError, match="the tier has no segment of"):
            await tier.log(TOPIC, topic_id=UUID(int=9))


async def test_a_topic_that_was_created_again_is_to_be_chosen_by_its_id(tmp_path: Path) -> None:
    written(tmp_path, PLAIN)
    (directory,) = (tmp_path / STORAGE_DIRECTORY).iterdir()
    former = replace(PARTITION, topic_id=UUID(int=2))
    directory.rename(directory.with_name(str(former)))
    history, _ = written(tmp_path, [("plain", -1, 1)])
    async with open_tier("local", of_directory(tmp_path)) as tier:
        assert await tier.partitions() == sorted([former, PARTITION])
        with pytest.raises(OperatorError, match="of 2 topics: name the topic_id"):
            await tier.log(TOPIC)
        assert (await tier.log(TOPIC, topic_id=PARTITION.topic_id)).end_offset == history.end_offset


async def test_offsets_outside_are_refused(tmp_path: Path) -> None:
    history, _ = written(tmp_path, PLAIN)
    async with open_tier("local", of_directory(tmp_path)) as tier:
        log = await tier.log(TOPIC)
        assert await records_of(log, history.end_offset) == []
        for offset in (-1, history.end_offset + 1):
            with pytest.raises(KafkaError, match=f"not {offset}") as raised:
                await records_of(log, offset)
            assert raised.value.code is ErrorCode.offset_out_of_range


async def test_a_hole_is_an_error_unless_it_is_allowed(tmp_path: Path) -> None:
    _, found = written(tmp_path, PLAIN, 2, 4)
    for path in objects(tmp_path, f"{found[1].metadata.start_offset:020d}-*"):
        path.unlink()
    async with open_tier("local", of_directory(tmp_path)) as tier:
        with pytest.raises(RemoteStorageCorruptError, match=r"offsets \[6, 12\) are in no segment"):
            await tier.log(TOPIC)
        log = await tier.log(TOPIC, allow_damage=True)
        assert log.damage == ("offsets [6, 12) are in no segment",)
        assert [one.offset for one in await records_of(log)] == [*range(6), *range(12, 18)]
        assert [one.offset for one in await records_of(log, 8)] == [*range(12, 18)]


async def test_the_beginning_that_retention_deleted_is_no_hole(tmp_path: Path) -> None:
    _, found = written(tmp_path, PLAIN, 2, 4)
    for path in objects(tmp_path, f"{0:020d}-*"):
        path.unlink()
    async with open_tier("local", of_directory(tmp_path)) as tier:
        assert (await tier.log(TOPIC)).start_offset == found[1].metadata.start_offset


async def test_a_segment_that_cannot_be_described_is_an_error(tmp_path: Path) -> None:
    written(tmp_path, PLAIN, 3)
    objects(tmp_path, "*.leader_epoch_checkpoint")[0].unlink()
    async with open_tier("local", of_directory(tmp_path)) as tier:
        with pytest.raises(RemoteStorageCorruptError, match="leader_epoch_checkpoint"):
            await tier.log(TOPIC)


async def test_damaged_bytes_are_an_error_and_nothing_of_their_batch_is_shown(tmp_path: Path) -> None:
    history, _ = written(tmp_path, PLAIN)
    (path,) = objects(tmp_path, "*.log")
    data = bytearray(path.read_bytes())
    at = sum(len(batch.data) for batch in history.batches[:2])
    data[at + 52] ^= 1  # the producer epoch: nothing but the checksum notices
    path.write_bytes(data)
    async with open_tier("local", of_directory(tmp_path)) as tier:
        seen: list[int] = []
        with pytest.raises(RemoteStorageCorruptError, match="at offset 6 or above"):
            await read_into(seen, await tier.log(TOPIC))
        assert seen == [*range(6)]


@pytest.mark.parametrize("damage", ["absent", "garbage", "shifted"])
async def test_an_offset_index_is_not_trusted(tmp_path: Path, damage: str) -> None:
    history, _ = written(tmp_path, [("plain", -1, 1)] * 40)
    (path,) = objects(tmp_path, "*.index")
    data = path.read_bytes()
    async with open_tier("local", of_directory(tmp_path)) as tier:
        log = await tier.log(TOPIC)
        if damage == "absent":
            path.unlink()
        else:
            path.write_bytes(b"\xff" * 9 if damage == "garbage" else data[:7] + bytes([data[7] ^ 3]) + data[8:])
        for offset in range(history.end_offset):
            expected = [one for one in consumed(history, "read_uncommitted") if one.offset >= offset]
            assert await records_of(log, offset) == expected


async def test_a_lost_transaction_index_does_not_go_unnoticed(tmp_path: Path) -> None:
    history, _ = written(tmp_path, ABORTED)
    async with open_tier("local", of_directory(tmp_path)) as tier:
        assert await records_of(await tier.log(TOPIC)) == consumed(history, "read_committed")
        objects(tmp_path, "*.txnindex")[0].unlink()
        with pytest.raises(RemoteStorageCorruptError, match="transaction index"):
            await records_of(await tier.log(TOPIC))


async def test_a_segment_that_is_deleted_meanwhile_is_an_error(tmp_path: Path) -> None:
    _, found = written(tmp_path, PLAIN, 3)
    async with open_tier("local", of_directory(tmp_path)) as tier:
        log = await tier.log(TOPIC)
        for path in objects(tmp_path, f"{found[1].metadata.start_offset:020d}-*.log"):
            path.unlink()
        seen: list[int] = []
        with pytest.raises(RemoteResourceNotFoundError):
            await read_into(seen, log)
        assert seen == [*range(9)]


class Refusing(MemoryRemoteStorage):
    refuses = True

    async def list_objects(self, partition: TopicIdPartition) -> AsyncIterator[RemoteObject]:
        if self.refuses:
            raise RemoteStorageRefusedError("no such bucket")
        async for listed in super().list_objects(partition):
            yield listed


async def test_what_cannot_be_opened_is_said_at_once() -> None:
    for name, options, text in (
        ("nosuch", {}, "nosuch"),
        ("local", {"dirr": "x"}, r"dirr: unknown key; did you mean dir\?"),
    ):
        with pytest.raises(OperatorError, match=text):
            async with open_tier(name, options):
                pass
    with pytest.raises(RemoteStorageRefusedError, match="no such bucket"):
        async with open_tier(Refusing()):
            pass


async def test_a_tier_is_only_read(tmp_path: Path) -> None:
    async with open_tier("local", of_directory(tmp_path / "absent")) as tier:
        assert await tier.partitions() == []
    assert not (tmp_path / "absent").exists()


class Closing(MemoryRemoteStorage):
    closed = False

    async def close(self) -> None:
        self.closed = True


class Hanging(Closing):
    """Answers the look of `open_tier`, and nothing afterwards."""

    on_listed: Callable[[], None]

    async def list_objects(self, partition: TopicIdPartition) -> AsyncIterator[RemoteObject]:
        if partition == PARTITION:
            self.on_listed()
            await asyncio.Event().wait()
        async for listed in super().list_objects(partition):
            yield listed


async def test_a_plugin_that_was_built_already_stays_its_owners_to_close() -> None:
    storage = Closing()
    async with open_tier(storage) as tier:
        with pytest.raises(OperatorError, match="Closing cannot list partitions: name one with its topic_id"):
            await tier.partitions()
    assert not storage.closed


async def test_a_cancelled_reader_closes_the_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, asked = Hanging(), asyncio.Event()
    storage.on_listed = asked.set
    monkeypatch.setattr(embedded, "load_remote_storage", lambda *_, **__: storage)

    async def read() -> None:
        async with open_tier("local") as tier:
            await tier.log(TOPIC, topic_id=PARTITION.topic_id)

    task = asyncio.create_task(read())
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert storage.closed
