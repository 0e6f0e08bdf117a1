"""ShareFetch and ShareAcknowledge on real logs, with a share coordinator in memory."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import PartitionRegistration
from tierfetch.broker.replicas.partition import Partition
from tierfetch.broker.share import partitions as partitions_module
from tierfetch.broker.share.core.partition import ShareSettings
from tierfetch.broker.share.core.runs import RecordState
from tierfetch.broker.share.core.sessions import ConnectionKey, SessionChanges, SessionKey, SharedPartition
from tierfetch.broker.share.fetching import PARTITIONS_AT_ONCE
from tierfetch.broker.share.live import LiveSharePartition
from tierfetch.broker.share.persister import ShareKey
from tierfetch.broker.share.settings import GroupShareSettings, OffsetReset
from tierfetch.log.core import AppendOrigin, LogConfig
from tierfetch.log.segment.slices import LogSlice
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.share_records import ForgottenTopic
from tierfetch.protocol.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from tierfetch.rlm.reader import RemoteRead, RemoteRecords
from tierfetch.tests.broker.hosting import NOW_MS, Host, append, batch
from tierfetch.tests.broker.share.consuming import (
    ACCEPT,
    GROUP,
    REJECT,
    RELEASE,
    RENEW,
    Fetched,
    Member,
    Scene,
    fetched,
    share_fetch,
)
from tierfetch.tests.broker.waiting import until
from tierfetch.tests.turns import turns

FOREVER_MS = 600_000


@pytest.fixture
def scene(host: Host) -> Scene:
    return Scene(host)


async def topic(host: Host, *sizes: int, name: str = "t") -> Partition:
    """A topic led here, with a batch of each size."""
    partition = await host.topic(name, 1)
    await append(partition, *(batch(*[b"v"] * size) for size in sizes))
    return partition


def key_of(partition: Partition) -> ShareKey:
    return ShareKey(GROUP, partition.partition.topic_id, 0)


def id_of(partition: Partition) -> UUID:
    return partition.partition.topic_id


async def test_a_group_shares_the_records_of_a_partition(host: Host, scene: Scene) -> None:
    partition = await topic(host, 2, 2, 2)
    first, second = Member(scene, "a", id_of(partition)), Member(scene, "b", id_of(partition), connection=2)
    assert await first.fetch(max_wait_ms=FOREVER_MS, max_records=2, batch_size=2) == Fetched(
        acquired=((0, 1, 1),), base_offsets=(0,)
    )
    assert await second.fetch(max_wait_ms=FOREVER_MS) == Fetched(acquired=((2, 5, 1),), base_offsets=(2, 4))
    assert await first.acknowledge((0, 1, [ACCEPT])) == 0
    assert scene.persister.states[key_of(partition)].offsets == {0: (2, 1), 1: (2, 1)}
    assert await second.acknowledge((2, 5, [ACCEPT, REJECT, ACCEPT, RELEASE])) == 0
    assert await first.fetch() == Fetched(acquired=((5, 5, 2),), base_offsets=(4,))


async def test_acknowledgements_come_with_the_next_fetch(host: Host, scene: Scene) -> None:
    partition = await topic(host, 2, 2)
    member = Member(scene, "a", id_of(partition))
    await member.fetch(max_wait_ms=FOREVER_MS, max_records=2)
    answer = await member.fetch((0, 1, [ACCEPT]))
    assert (answer.acknowledge_error, answer.acquired) == (0, ((2, 3, 1),))
    answer = await member.fetch((0, 9, [ACCEPT]))
    assert answer.acknowledge_error == ErrorCode.invalid_request
    assert scene.groups.partitions.counters.acknowledged.total() == 2


async def test_an_acknowledgement_is_answered_once_it_is_written(host: Host, scene: Scene) -> None:
    partition = await topic(host, 2)
    member = Member(scene, "a", id_of(partition))
    await member.fetch(max_wait_ms=FOREVER_MS)
    scene.persister.holds = True
    answered = asyncio.create_task(member.acknowledge((0, 1, [ACCEPT])))
    await turns()
    assert not answered.done()
    scene.persister.let_go()
    assert await answered == 0


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_not_available),
        (ConnectionResetError("gone"), ErrorCode.coordinator_not_available),
        (ErrorCode.group_id_not_found, ErrorCode.group_id_not_found),
        (ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_or_partition),
        (ErrorCode.unknown_server_error, ErrorCode.unknown_server_error),
    ],
)
async def test_what_could_not_be_written_is_as_it_was(
    host: Host, scene: Scene, failure: ErrorCode | OSError, told: ErrorCode
) -> None:
    partition = await topic(host, 2)
    member = Member(scene, "a", id_of(partition))
    await member.fetch(max_wait_ms=FOREVER_MS)
    scene.persister.failures.append(failure)
    assert await member.acknowledge((0, 1, [ACCEPT])) == told
    assert await member.acknowledge((0, 1, [ACCEPT])) == 0


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (ErrorCode.fenced_leader_epoch, ErrorCode.not_leader_or_follower),
        (ErrorCode.fenced_state_epoch, ErrorCode.not_leader_or_follower),
        (ErrorCode.invalid_request, ErrorCode.unknown_server_error),
    ],
)
async def test_what_another_one_has_written_or_deleted_is_loaded_again(
    host: Host, scene: Scene, failure: ErrorCode, told: ErrorCode
) -> None:
    partition = await topic(host, 2)
    member = Member(scene, "a", id_of(partition))
    await member.fetch(max_wait_ms=FOREVER_MS)
    scene.persister.failures.append(failure)
    assert await member.acknowledge((0, 1, [ACCEPT])) == told
    assert await member.acknowledge((0, 1, [ACCEPT])) == ErrorCode.invalid_record_state
    assert (await member.fetch(max_wait_ms=FOREVER_MS)).acquired == ((0, 1, 1),)
    assert scene.persister.reads == 2


async def test_after_a_defect_nothing_stays_locked(host: Host, scene: Scene) -> None:
    partition = await topic(host, 2)
    member = Member(scene, "a", id_of(partition))
    scene.persister.read_failure = ValueError("a defect")
    assert (await member.fetch(max_wait_ms=FOREVER_MS)).error == ErrorCode.unknown_server_error
    scene.persister.read_failure = None
    assert (await member.fetch(max_wait_ms=FOREVER_MS)).acquired == ((0, 1, 1),)
    scene.persister.failures.append(ValueError("a defect"))
    assert await member.acknowledge((0, 1, [ACCEPT])) == ErrorCode.unknown_server_error
    assert (await member.fetch(max_wait_ms=FOREVER_MS)).acquired == ((0, 1, 1),)
    assert await member.acknowledge((0, 1, [ACCEPT])) == 0


async def test_decisions_that_come_meanwhile_share_a_write(host: Host, scene: Scene) -> None:
    partition = await topic(host, *[1] * 4)
    members = [Member(scene, name, id_of(partition), connection=number) for number, name in enumerate("abcd")]
    for member in members:
        await member.fetch(max_wait_ms=FOREVER_MS, max_records=1)
    scene.persister.writes.clear()
    scene.persister.holds = True
    answers = []
    for offset, member in enumerate(members):
        answers.append(asyncio.create_task(member.acknowledge((offset, offset, [ACCEPT]))))
        await turns()
    assert [len(write.batches) for write in scene.persister.writes] == [1]
    scene.persister.let_go()
    assert await asyncio.gather(*answers) == [0] * 4
    assert [len(write.batches) for write in scene.persister.writes] == [1, 3]


async def test_a_fetch_waits_for_records(host: Host, scene: Scene) -> None:
    partition = await topic(host)
    member = Member(scene, "a", id_of(partition))
    waiting = asyncio.create_task(member.fetch(max_wait_ms=FOREVER_MS))
    await turns()
    assert not waiting.done()
    await append(partition, batch(b"v"))
    assert (await waiting).acquired == ((0, 0, 1),)


async def test_a_fetch_waits_for_enough_bytes_and_then_takes_what_there_is(host: Host, scene: Scene) -> None:
    partition = await topic(host, 1)
    member = Member(scene, "a", id_of(partition))
    waiting = asyncio.create_task(member.fetch(max_wait_ms=FOREVER_MS, min_bytes=len(batch(b"v")) + 1))
    await until(lambda: scene.persister.reads == 1)
    await turns()
    assert not waiting.done()
    await append(partition, batch(b"v"))
    assert (await waiting).acquired == ((0, 1, 1),)
    await append(partition, batch(b"v"))
    assert (await member.fetch(max_wait_ms=1, min_bytes=1 << 20)).acquired == ((2, 2, 1),)


async def test_a_fetch_is_woken_by_what_is_released(host: Host, scene: Scene) -> None:
    partition = await topic(host, 2)
    first, second = Member(scene, "a", id_of(partition)), Member(scene, "b", id_of(partition), connection=2)
    await first.fetch(max_wait_ms=FOREVER_MS)
    waiting = asyncio.create_task(second.fetch(max_wait_ms=FOREVER_MS))
    await turns()
    assert not waiting.done()
    await first.acknowledge((0, 0, [RELEASE]))
    assert (await waiting).acquired == ((0, 0, 2),)


async def test_two_fetches_do_not_read_the_same_at_the_same_time(host: Host, scene: Scene) -> None:
    partition = await topic(host, 1, 1)
    first, second = Member(scene, "a", id_of(partition)), Member(scene, "b", id_of(partition), connection=2)
    answers = await asyncio.gather(
        first.fetch(max_wait_ms=FOREVER_MS, max_records=1), second.fetch(max_wait_ms=FOREVER_MS, max_records=1)
    )
    assert sorted(answer.acquired for answer in answers) == [((0, 0, 1),), ((1, 1, 1),)]


async def test_a_fetch_waits_for_the_one_that_is_reading(host: Host, scene: Scene) -> None:
    partition = await topic(host, 1, 1)
    read, goes_on, reads = partition.log.read, asyncio.Event(), 0

    async def held_back(*args: Any, **kwargs: Any) -> LogSlice:
        nonlocal reads
        reads += 1
        await goes_on.wait()
        return await read(*args, **kwargs)

    partition.log.read = held_back  # type: ignore[method-assign]
    first, second = Member(scene, "a", id_of(partition)), Member(scene, "b", id_of(partition), connection=2)
    reading = asyncio.create_task(first.fetch(max_wait_ms=FOREVER_MS, max_records=1))
    await until(lambda: reads == 1)
    waiting = asyncio.create_task(second.fetch(max_wait_ms=FOREVER_MS))
    await turns()
    assert reads == 1, "what another one is reading is read too"
    goes_on.set()
    assert ((await reading).acquired, (await waiting).acquired) == (((0, 0, 1),), ((1, 1, 1),))


class SlowTier:
    """Answers nothing until the test says so."""

    def __init__(self) -> None:
        self.answered: list[asyncio.Future[RemoteRecords | None]] = []

    async def read(self, _: RemoteRead) -> RemoteRecords | None:
        self.answered.append(asyncio.get_running_loop().create_future())
        return await self.answered[-1]


async def test_a_fetch_that_waits_for_the_tier_keeps_nothing_from_others_but_what_it_waits_for(host: Host) -> None:
    tier = SlowTier()
    scene = Scene(host, remote=tier)
    old = await host.topic("old", 1, config=LogConfig(segment_bytes=100, remote_storage_enable=True))
    await append(old, *(batch(b"a" * 30) for _ in range(4)))
    await old.log.delete_local_segments(3)
    empty = await topic(host, name="empty")
    first = Member(scene, "a", id_of(old), id_of(empty))
    reading = asyncio.create_task(first.ask(max_wait_ms=FOREVER_MS))
    await until(lambda: len(tier.answered) == 1)
    second = Member(scene, "b", id_of(empty), connection=2)
    waiting = asyncio.create_task(second.fetch(max_wait_ms=FOREVER_MS))
    await turns()
    await append(empty, batch(b"v"))
    assert (await waiting).acquired == ((0, 0, 1),)
    live = scene.groups.partitions.find(key_of(old))
    assert live is not None
    assert live.is_being_read
    tier.answered[0].set_result(RemoteRecords(batch(b"a" * 30), 1))
    assert {topic_id: each.acquired for (topic_id, _), each in (await fetched(await reading)).items()} == {
        id_of(old): ((0, 0, 1),)
    }


class LateTier:
    """Brings nothing in time, which is `wait_s`, as often as the test says, and then the first record."""

    def __init__(self, late: int, wait_s: float = 0.0) -> None:
        self.late = late
        self.wait_s = wait_s
        self.reads = 0

    async def read(self, asked: RemoteRead) -> RemoteRecords | None:
        self.late -= 1
        self.reads += 1
        await asyncio.sleep(self.wait_s)
        return RemoteRecords(b"", asked.offset) if self.late >= 0 else RemoteRecords(batch(b"a" * 30), 1)


async def test_what_the_tier_does_not_bring_in_time_is_looked_for_again_while_the_fetch_waits(host: Host) -> None:
    """It slept until its wait was over: nothing of a tiered log wakes it."""
    scene = Scene(host, remote=LateTier(2))
    old = await host.topic("old", 1, config=LogConfig(segment_bytes=100, remote_storage_enable=True))
    await append(old, *(batch(b"a" * 30) for _ in range(4)))
    await old.log.delete_local_segments(3)
    member = Member(scene, "a", id_of(old))
    assert (await member.fetch(max_wait_ms=FOREVER_MS)).acquired == ((0, 0, 1),)


async def test_a_fetch_ends_with_its_wait_while_the_tier_is_late_and_locks_nothing(host: Host) -> None:
    tier = LateTier(2**31, wait_s=0.05)
    scene = Scene(host, remote=tier)
    old = await host.topic("old", 1, config=LogConfig(segment_bytes=100, remote_storage_enable=True))
    await append(old, *(batch(b"a" * 30) for _ in range(4)))
    await old.log.delete_local_segments(3)
    member = Member(scene, "a", id_of(old))
    assert (await member.fetch(max_wait_ms=20)).acquired == ()
    assert tier.reads == 1, "the tier is waited for once, not again for the last look"
    live = scene.groups.partitions.find(key_of(old))
    assert live is not None
    assert not live.is_being_read
    tier.late = 0
    assert (await Member(scene, "b", id_of(old), connection=2).fetch(max_wait_ms=FOREVER_MS)).acquired == ((0, 0, 1),)


async def test_who_is_lost_while_the_tier_is_read_leaves_that_to_others(host: Host) -> None:
    tier = SlowTier()
    scene = Scene(host, remote=tier)
    old = await host.topic("old", 1, config=LogConfig(segment_bytes=100, remote_storage_enable=True))
    await append(old, *(batch(b"a" * 30) for _ in range(4)))
    await old.log.delete_local_segments(3)
    reading = asyncio.create_task(Member(scene, "a", id_of(old)).ask(max_wait_ms=FOREVER_MS))
    await until(lambda: len(tier.answered) == 1)
    other = asyncio.create_task(Member(scene, "b", id_of(old), connection=2).fetch(max_wait_ms=FOREVER_MS))
    await turns()
    reading.cancel()
    await until(lambda: len(tier.answered) == 2)
    tier.answered[1].set_result(RemoteRecords(batch(b"a" * 30), 1))
    assert (await other).acquired == ((0, 0, 1),)


async def test_a_lock_ends_and_wakes_who_waits(host: Host, scene: Scene) -> None:
    scene.settings = replace(scene.settings, records=ShareSettings(lock_ms=20))
    partition = await topic(host, 1)
    first, second = Member(scene, "a", id_of(partition)), Member(scene, "b", id_of(partition), connection=2)
    await first.fetch(max_wait_ms=FOREVER_MS)
    assert (await second.fetch(max_wait_ms=FOREVER_MS)).acquired == ((0, 0, 2),)
    assert scene.groups.partitions.counters.lock_timeouts == 1
    await until(lambda: scene.persister.states[key_of(partition)].offsets == {0: (RecordState.AVAILABLE, 1)})


async def test_a_lock_is_renewed_and_nothing_is_fetched_with_that(host: Host, scene: Scene) -> None:
    partition = await topic(host, 1, 1)
    member = Member(scene, "a", id_of(partition))
    await member.fetch(max_wait_ms=FOREVER_MS, max_records=1)
    answer = await member.fetch((0, 0, [RENEW]), is_renew_ack=True)
    assert (answer.acknowledge_error, answer.acquired) == (0, ())
    assert await member.acknowledge((0, 0, [RENEW]), renews=True) == 0
    assert await member.acknowledge((0, 0, [RENEW])) == ErrorCode.invalid_request


@pytest.mark.parametrize(("closes", "count"), [(True, 1), (False, 2)])
async def test_the_end_of_a_session_releases_its_locks(host: Host, scene: Scene, closes: bool, count: int) -> None:
    partition = await topic(host, 1)
    first, second = Member(scene, "a", id_of(partition)), Member(scene, "b", id_of(partition), connection=2)
    await first.fetch(max_wait_ms=FOREVER_MS)
    waiting = asyncio.create_task(second.fetch(max_wait_ms=FOREVER_MS))
    await turns()
    if closes:
        await first.ask_to_acknowledge(epoch=-1)
    else:
        scene.groups.connection_watcher("PLAINTEXT")(1)
    assert (await waiting).acquired == ((0, 0, count),)
    assert await first.acknowledge((0, 0, [ACCEPT])) == ErrorCode.share_session_not_found


def releases(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """Return the topics of the share-partitions that are asked to release something, as they come."""
    asked: list[UUID] = []
    release = LiveSharePartition.release

    def noted(live: LiveSharePartition, member: str, *, was_given: bool) -> None:
        asked.append(live.key.topic_id)
        release(live, member, was_given=was_given)

    monkeypatch.setattr(LiveSharePartition, "release", noted)
    return asked


async def test_the_end_of_a_session_looks_only_where_it_has_acquired_something(
    host: Host, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = releases(monkeypatch)
    first, second, gone = [await topic(host, 1, name=name) for name in "tuv"]
    shares = scene.groups.partitions
    a, b = Member(scene, "a", id_of(first), id_of(gone)), Member(scene, "b", id_of(second), connection=2)
    await a.ask(max_wait_ms=FOREVER_MS, min_bytes=2 * len(batch(b"v")))
    await b.fetch(max_wait_ms=FOREVER_MS)
    shares.resigned(gone.partition.topic_partition)
    shares.connection_ended(ConnectionKey("PLAINTEXT", 1))
    shares.connection_ended(ConnectionKey("PLAINTEXT", 1))
    assert asked == [id_of(first)]
    await b.ask_to_acknowledge(epoch=-1)
    assert asked == [id_of(first), id_of(second)]


async def test_a_session_with_many_share_partitions_ends_within_the_loops_share(
    host: Host, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions_module, "ENDED_AT_ONCE", 1)
    asked = releases(monkeypatch)
    ids = [id_of(await topic(host, 1, name=name)) for name in "tuv"]
    member, size = Member(scene, "a", *ids), len(ids) * len(batch(b"v"))
    await member.ask(max_wait_ms=FOREVER_MS, min_bytes=size)
    scene.groups.connection_watcher("PLAINTEXT")(1)
    assert len(asked) == 1
    again = Member(scene, "a", asked[0])
    assert (await again.fetch(max_wait_ms=FOREVER_MS)).acquired == ((0, 0, 2),)
    await until(lambda: sorted(asked) == sorted(ids))
    assert (await Member(scene, "b", *ids, connection=2).ask(min_bytes=size)).error_code is ErrorCode.none


async def test_what_a_member_acquires_again_is_not_released_by_the_end_of_its_session_before(
    host: Host, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions_module, "ENDED_AT_ONCE", 0)
    asked = releases(monkeypatch)
    partition = await topic(host, 1, 1)
    await Member(scene, "a", id_of(partition)).fetch(max_wait_ms=FOREVER_MS, max_records=1)
    shares = scene.groups.partitions
    live = shares.find(key_of(partition))
    assert live is not None
    shares.connection_ended(ConnectionKey("PLAINTEXT", 1))
    key = SessionKey(GROUP, "a")
    shares.begin_fetch(key, 0, ConnectionKey("PLAINTEXT", 1), SessionChanges([SharedPartition(id_of(partition), 0)]))
    shares.note_held(key, live)
    await turns()
    assert asked == []


async def test_the_last_fetch_of_a_session_acknowledges_and_fetches_nothing(host: Host, scene: Scene) -> None:
    partition = await topic(host, 1, 1)
    member = Member(scene, "a", id_of(partition))
    await member.fetch(max_wait_ms=FOREVER_MS, max_records=1)
    member.epoch = -1
    assert await member.fetch((0, 0, [ACCEPT])) == Fetched()
    assert scene.persister.states[key_of(partition)].offsets[0][0] == RecordState.ACKNOWLEDGED


async def test_what_no_session_has_is_forgotten_once_nothing_is_locked(host: Host, scene: Scene) -> None:
    partition = await topic(host, 1, 1)
    member = Member(scene, "a", id_of(partition))
    await member.fetch(max_wait_ms=FOREVER_MS, max_records=1)
    shares = scene.groups.partitions
    await member.ask_to_acknowledge(epoch=-1)
    await until(lambda: shares.find(key_of(partition)) is None)
    assert scene.persister.states[key_of(partition)].offsets == {0: (RecordState.AVAILABLE, 0)}


async def test_a_session_fetches_its_topics_until_they_are_forgotten(host: Host, scene: Scene) -> None:
    first, second = await topic(host, 1, name="t"), await topic(host, 1, name="u")
    member = Member(scene, "a", id_of(first), id_of(second))
    answers = await fetched(await member.ask(max_wait_ms=FOREVER_MS, min_bytes=2 * len(batch(b"v"))))
    assert {topic_id: each.acquired for (topic_id, _), each in answers.items()} == {
        id_of(first): ((0, 0, 1),),
        id_of(second): ((0, 0, 1),),
    }
    await append(first, batch(b"v"))
    await append(second, batch(b"v"))
    forgotten = [ForgottenTopic(topic_id=id_of(first), partitions=(0,))]
    response = await scene.handlers.share_fetch(member.context, share_fetch("a", 1, (), forgotten=forgotten))
    assert [topic_id for topic_id, _ in await fetched(response)] == [id_of(second)]


async def test_a_number_of_records_holds_for_all_partitions_together(host: Host, scene: Scene) -> None:
    first, second = await topic(host, 1, 1, name="t"), await topic(host, 1, 1, name="u")
    member = Member(scene, "a", id_of(first), id_of(second))
    answers = await fetched(
        await member.ask(max_wait_ms=FOREVER_MS, min_bytes=4 * len(batch(b"v")), max_records=3, batch_size=1)
    )
    assert sum(len(each.acquired) for each in answers.values()) == 3


async def test_read_committed_groups_are_given_nothing_that_was_aborted(host: Host, scene: Scene) -> None:
    scene.settings = replace(scene.settings, is_read_committed=True)
    partition = await topic(host, 1)
    await append(partition, batch(b"x", b"y", producer_id=7, sequence=0, transactional=True))
    marker = EndTransactionMarker(ControlType.ABORT, 0)
    data = build_end_transaction_batch(marker, producer_id=7, producer_epoch=0, base_offset=0, timestamp_ms=NOW_MS)
    await partition.append(memoryview(bytearray(data)), AppendOrigin.COORDINATOR, acks_all=False)
    await append(partition, batch(b"z"))
    member = Member(scene, "a", id_of(partition))
    assert (await member.fetch(max_wait_ms=FOREVER_MS)).acquired == ((0, 0, 1), (4, 4, 1))
    await member.acknowledge((0, 0, [ACCEPT]), (4, 4, [ACCEPT]))
    live = scene.groups.partitions.find(key_of(partition))
    assert live is not None
    assert live.machine is not None
    assert live.machine.start_offset == 5


async def test_a_group_begins_where_its_configuration_says_and_that_is_written_first(host: Host, scene: Scene) -> None:
    partition = await topic(host, 1, 1)
    scene.settings = GroupShareSettings(reset=OffsetReset.LATEST)
    member = Member(scene, "a", id_of(partition))
    waiting = asyncio.create_task(member.fetch(max_wait_ms=FOREVER_MS))
    await until(lambda: scene.persister.states.get(key_of(partition)) is not None)
    await until(lambda: scene.persister.states[key_of(partition)].start_offset == 2)
    await append(partition, batch(b"v"))
    assert (await waiting).acquired == ((2, 2, 1),)


async def test_a_group_may_begin_at_a_time(host: Host, scene: Scene) -> None:
    partition = await topic(host, 1, 1)
    scene.settings = GroupShareSettings(reset_before_ms=0)
    assert (await Member(scene, "a", id_of(partition)).fetch(max_wait_ms=FOREVER_MS)).acquired == ((0, 1, 1),)


async def test_records_that_were_deleted_are_not_waited_for(host: Host, scene: Scene) -> None:
    partition = await topic(host, 1, 1, 1)
    member = Member(scene, "a", id_of(partition))
    await member.fetch(max_wait_ms=FOREVER_MS, max_records=1)
    await partition.log.increment_log_start_offset(2)
    assert (await member.fetch(max_wait_ms=FOREVER_MS)).acquired == ((2, 2, 1),)
    assert await member.acknowledge((0, 0, [ACCEPT])) == 0


async def test_a_new_leader_delivers_what_was_locked_again_and_nothing_that_was_acknowledged(
    host: Host, scene: Scene
) -> None:
    partition = await topic(host, 1, 1, 1)
    member = Member(scene, "a", id_of(partition))
    await member.fetch(max_wait_ms=FOREVER_MS, batch_size=1)
    await member.acknowledge((1, 1, [ACCEPT]))
    registration = partition.registration
    assert registration is not None
    scene.groups.partitions.resigned(partition.partition.topic_partition)
    await partition.lead(next_epoch(registration))
    scene.groups.partitions.led(partition)
    assert await member.acknowledge((0, 0, [ACCEPT])) == ErrorCode.invalid_record_state
    assert (await member.fetch(max_wait_ms=FOREVER_MS, batch_size=1)).acquired == ((0, 0, 1), (2, 2, 1))


def next_epoch(registration: PartitionRegistration) -> PartitionRegistration:
    return replace(
        registration, leader_epoch=registration.leader_epoch + 1, partition_epoch=registration.partition_epoch + 1
    )


async def test_who_waits_is_told_that_leadership_has_ended(host: Host, scene: Scene) -> None:
    partition = await topic(host, 1)
    member = Member(scene, "a", id_of(partition))
    await member.fetch(max_wait_ms=FOREVER_MS)
    scene.persister.holds = True
    acknowledging = asyncio.create_task(member.acknowledge((0, 0, [ACCEPT])))
    waiting = asyncio.create_task(Member(scene, "b", id_of(partition), connection=2).fetch(max_wait_ms=FOREVER_MS))
    await turns()
    await partition.step_down(partition.registration)
    scene.groups.partitions.resigned(partition.partition.topic_partition)
    assert await acknowledging == ErrorCode.not_leader_or_follower
    answer = await waiting
    assert (answer.error, answer.leader) == (ErrorCode.not_leader_or_follower, 1)


async def test_a_state_that_cannot_be_read_is_told_and_read_again(host: Host, scene: Scene) -> None:
    partition = await topic(host, 1)
    scene.persister.read_failure = ErrorCode.coordinator_load_in_progress
    member = Member(scene, "a", id_of(partition))
    assert (await member.fetch(max_wait_ms=FOREVER_MS)).error == ErrorCode.coordinator_not_available
    scene.persister.read_failure = None
    assert (await member.fetch(max_wait_ms=FOREVER_MS)).acquired == ((0, 0, 1),)


async def test_errors_of_partitions_that_cannot_be_read(host: Host, scene: Scene) -> None:
    elsewhere = await host.topic("t", 2, 1)
    answers = {
        unknown: (await Member(scene, str(number), unknown, connection=number).fetch(max_wait_ms=FOREVER_MS)).error
        for number, unknown in enumerate((UUID(int=99), None, id_of(elsewhere)))
    }
    assert list(answers.values()) == [
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_id,
        ErrorCode.not_leader_or_follower,
    ]


async def test_an_error_that_was_reported_is_reported_again_when_it_changes_or_after_a_while(
    host: Host, scene: Scene
) -> None:
    """A member with a partition that is led elsewhere was answered at once, for ever: it fetched in a busy loop."""
    elsewhere, here = await host.topic("t", 2, 1), await topic(host, 1, name="u")
    member, loop = Member(scene, "a", id_of(elsewhere), id_of(here)), asyncio.get_running_loop()
    answers = await fetched(await member.ask(max_wait_ms=FOREVER_MS))
    assert answers[id_of(elsewhere), 0].error == ErrorCode.not_leader_or_follower
    answers = await fetched(await member.ask(max_wait_ms=FOREVER_MS))
    assert answers == {(id_of(here), 0): Fetched(acquired=((0, 0, 1),), base_offsets=(0,))}
    waiting = asyncio.create_task(member.ask(max_wait_ms=FOREVER_MS))
    await turns()
    assert not waiting.done()
    began_s = loop.time()
    assert (await fetched(await waiting))[id_of(elsewhere), 0].error == ErrorCode.not_leader_or_follower
    assert 0 < loop.time() - began_s < 5
    member.context = replace(member.context, rights=Rights())
    answers = await fetched(await member.ask(max_wait_ms=FOREVER_MS))
    assert {each.error for each in answers.values()} == {ErrorCode.topic_authorization_failed}


async def test_a_fetch_leaves_the_loop_to_others_between_its_partitions(host: Host, scene: Scene) -> None:
    unknown = [UUID(int=1000 + number) for number in range(3 * PARTITIONS_AT_ONCE)]
    member, loop, gaps = Member(scene, "a", *unknown), asyncio.get_running_loop(), 0

    def count() -> None:
        nonlocal gaps
        gaps += 1
        timer[0] = loop.call_soon(count)

    timer = [loop.call_soon(count)]
    answers = await fetched(await member.ask(max_wait_ms=FOREVER_MS))
    timer[0].cancel()
    assert len(answers) == len(unknown)
    assert gaps >= 2, "600 partitions, looked at and answered, take more than an iteration's share"


class Rights:
    """Nothing may be read."""

    version = None

    def may_read(self, _: object) -> bool:
        return False


async def test_what_may_not_be_read_is_neither_fetched_nor_acknowledged(host: Host, scene: Scene) -> None:
    partition = await topic(host, 1)
    member = Member(scene, "a", id_of(partition))
    await member.fetch(max_wait_ms=FOREVER_MS)
    member.context = replace(member.context, rights=Rights())
    answer = await member.fetch((0, 0, [ACCEPT]), max_wait_ms=FOREVER_MS)
    assert (answer.error, answer.acknowledge_error) == (ErrorCode.topic_authorization_failed,) * 2


class Quota:
    """Lets nothing through while `wait_ms` is set."""

    def __init__(self) -> None:
        self.wait_ms = 0
        self.bytes_max: int | None = None

    def fetch_bytes_max(self, _: object) -> int | None:
        return self.bytes_max

    def throttle_fetch(self, _: object, __: int) -> int:
        return self.wait_ms


async def test_a_throttled_member_is_sent_nothing_and_locks_nothing(host: Host) -> None:
    quota = Quota()
    scene = Scene(host, quota=quota)
    partition = await topic(host, 1)
    member = Member(scene, "a", id_of(partition))
    quota.wait_ms = 50
    response = await member.ask(max_wait_ms=FOREVER_MS)
    assert (response.throttle_time_ms, response.responses) == (50, ())
    quota.wait_ms = 0
    assert (await member.fetch(max_wait_ms=FOREVER_MS)).acquired == ((0, 0, 1),)


async def test_no_more_is_read_than_a_quota_allows(host: Host) -> None:
    quota = Quota()
    quota.bytes_max = len(batch(b"v")) + 1
    scene = Scene(host, quota=quota)
    partition = await topic(host, 1, 1)
    assert (await Member(scene, "a", id_of(partition)).fetch(max_wait_ms=FOREVER_MS)).acquired == ((0, 0, 1),)


async def test_a_request_without_share_groups_is_unsupported(host: Host, scene: Scene) -> None:
    partition = await topic(host, 1)
    scene.is_enabled = False
    member = Member(scene, "a", id_of(partition))
    assert (await member.ask()).error_code is ErrorCode.unsupported_version
    assert (await member.ask_to_acknowledge()).error_code is ErrorCode.unsupported_version


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, ErrorCode.invalid_group_id),
        ({"group_id": None}, ErrorCode.invalid_group_id),
        ({"member_id": None}, ErrorCode.invalid_request),
        ({"share_session_epoch": 5}, ErrorCode.share_session_not_found),
    ],
)
async def test_a_request_that_says_nothing_clear_is_refused(
    scene: Scene, fields: dict[str, Any], code: ErrorCode
) -> None:
    member = Member(scene, "a")
    request = replace(share_fetch("a", 0, ()), **fields)  # type: ignore[type-var]
    assert (await scene.handlers.share_fetch(member.context, request)).error_code is code


async def test_a_session_beyond_the_limit_is_refused_after_its_wait(host: Host) -> None:
    scene = Scene(host, sessions_max=1)
    await Member(scene, "a").ask()
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    response = await Member(scene, "b", connection=2).ask(max_wait_ms=20)
    assert response.error_code is ErrorCode.share_session_limit_reached
    assert loop.time() - began_s >= 0.02


async def test_nothing_is_held_of_the_log_once_an_answer_is_sent_or_a_fetch_has_ended(host: Host, scene: Scene) -> None:
    held: list[LogSlice] = []
    partition = await topic(host, 1, 1)
    read = partition.log.read

    async def noted(*args: Any, **kwargs: Any) -> LogSlice:
        held.append(await read(*args, **kwargs))
        return held[-1]

    partition.log.read = noted  # type: ignore[method-assign]
    member = Member(scene, "a", id_of(partition))
    await member.fetch(max_wait_ms=FOREVER_MS)
    await append(partition, batch(b"v"))
    waiting = asyncio.create_task(member.fetch(max_wait_ms=FOREVER_MS, min_bytes=1 << 20))
    await until(lambda: len(held) == 2)
    await turns()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert [each.size for each in held] == [0, 0]
    live = scene.groups.partitions.find(key_of(partition))
    assert live is not None
    assert not live.is_being_read
    assert (len(live.news), len(live.turns), len(partition.high_watermark_news)) == (0, 0, 0)


async def test_large_batches_are_found_by_their_headers_alone(host: Host, scene: Scene) -> None:
    partition = await host.topic("t", 1, config=LogConfig())
    await append(partition, *(batch(bytes(40_000)) for _ in range(5)))
    member = Member(scene, "a", id_of(partition))
    assert await member.fetch(max_wait_ms=FOREVER_MS, max_records=3) == Fetched(
        acquired=((0, 2, 1),), base_offsets=(0, 1, 2)
    )
