"""One leader epoch of a led partition: what becomes of an ISR change whose answer does not say that it was made"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import BrokerRegistration, PartitionRegistration
from tierfetch.broker.replicas.delayed import Wakeup
from tierfetch.broker.replicas.leadership import Leadership
from tierfetch.broker.replicas.partition import Partition
from tierfetch.controller.core.state import LOST_DIRECTORY
from tierfetch.fetcher.core.leader_replicas import FollowerFetch
from tierfetch.log.core import AppendOrigin, LogConfig
from tierfetch.log.replica.state import LogState
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.tests.broker.hosting import Host, append, batch
from tierfetch.tests.broker.waiting import until
from tierfetch.tests.fakes.cluster_view import FakeClusterView
from tierfetch.tests.fakes.disk import Effect, MemoryDisk

GROWN = frozenset({1, 2})


class Asked:
    """Stands for `alter_partition`: raises one error after the other, the last one again and again."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.times = 0
        self.epochs: list[Mapping[int, int]] = []

    async def __call__(
        self,
        partition: TopicIdPartition,
        *,
        leader_epoch: int,
        partition_epoch: int,
        isr: Sequence[int],
        stated_epochs: Mapping[int, int],
    ) -> PartitionRegistration:
        self.times += 1
        self.epochs.append(stated_epochs)
        await asyncio.sleep(0)
        raise self.errors.pop(0) if len(self.errors) > 1 else self.errors[0]


@pytest.fixture
async def led(host: Host) -> Partition:
    """By 1, which is alone in the ISR; 2 is a replica."""
    partition = await host.topic("t", 1, 2)
    alone = await host.view.alter_partition(partition.partition, leader_epoch=0, partition_epoch=0, isr=[1])
    partition.note_registration(replace(alone, replicas=(1, 2)))
    assert partition.leader().isr == {1}
    return partition


async def test_a_deposed_leader_tells_its_log_end_only_once_it_is_flushed_as_wanted(
    view: FakeClusterView, tmp_path: Path
) -> None:
    may_sync = asyncio.Event()

    async def hold_sync(effect: Effect) -> None:
        if effect.operation == "sync" and effect.path.suffix == ".log":
            await may_sync.wait()

    host = Host(view, MemoryDisk(before_effect=hold_sync), tmp_path)
    partition = await host.topic("t", 1, 2, config=LogConfig(flush_messages=1))
    appending = asyncio.create_task(partition.append(batch(b"a"), AppendOrigin.CLIENT, acks_all=False))
    await until(lambda: partition.log.state.log_end_offset == 1)
    appending.cancel()
    await view.elect_leader(partition.partition, 2)
    stepping_down = asyncio.create_task(partition.step_down(view.image.topics["t"].partitions[0]))
    await until(lambda: partition.leadership is None)
    assert not stepping_down.done(), "its fetcher would tell the new leader of a record that a crash may take"
    may_sync.set()
    await stepping_down
    assert partition.log.state.offsets.settled_end_offset == 1
    await host.close()


def grow(led: Partition, monkeypatch: pytest.MonkeyPatch, asked: Asked) -> Leadership:
    """Have the leader ask for 2, which is caught up."""
    leadership = led.leader()
    monkeypatch.setattr(leadership._services.view, "alter_partition", asked)
    leadership.replicas.set_eligible({1: -1, 2: -1})
    leadership.record_fetch(2, FollowerFetch(led.log.state.log_end_offset))
    assert leadership.replicas.pending_isr == GROWN
    return leadership


@pytest.mark.parametrize(
    "code", [ErrorCode.invalid_update_version, ErrorCode.fenced_leader_epoch, ErrorCode.new_leader_elected]
)
async def test_C9_a_change_that_may_have_been_made_counts_until_the_image_says_otherwise(
    led: Partition, monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    """Its first answer may be lost, and the retry refused by its own effect."""
    asked = Asked(KafkaError(code, "no"))
    leadership = grow(led, monkeypatch, asked)
    await until(lambda: asked.times and not leadership._altering)
    assert leadership.replicas.maximal_isr == GROWN
    assert led.registration is not None
    led.note_registration(replace(led.registration, isr=(1,), partition_epoch=led.registration.partition_epoch + 1))
    assert leadership.replicas.pending_isr is None
    assert asked.times == 1


async def test_C7_a_change_that_was_not_made_is_given_up(led: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    leadership = grow(led, monkeypatch, Asked(KafkaError(ErrorCode.ineligible_replica, "fenced")))
    await until(lambda: leadership.replicas.pending_isr is None)


async def test_C7_an_image_of_something_else_leaves_the_pending_change_alone(
    led: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    leadership = grow(led, monkeypatch, Asked(OSError("no answer")))
    assert led.registration is not None
    led.note_registration(led.registration)
    assert leadership.replicas.maximal_isr == GROWN


async def test_R3_a_member_that_may_be_in_the_isr_by_now_keeps_what_it_names(
    led: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may lead next, with the log start that it told last."""
    refused = asyncio.Event()

    async def refuse(*_: object, **__: object) -> None:
        await refused.wait()
        raise KafkaError(ErrorCode.ineligible_replica, "fenced")

    leadership = led.leader()
    monkeypatch.setattr(leadership._services.view, "alter_partition", refuse)
    leadership.replicas.set_eligible({1: -1, 2: -1})
    follower = leadership.replicas.followers[2]
    follower.last_caught_up_time_ms = None
    await led.append(batch(b"a", b"b"), AppendOrigin.CLIENT, acks_all=False)
    await led.log.increment_log_start_offset(1)
    assert leadership.low_watermark() == 1
    leadership.record_fetch(2, FollowerFetch(2, log_start_offset=0))
    assert (leadership.replicas.pending_isr, leadership.low_watermark()) == (None, 1), (
        "what lies below 1 may go already"
    )
    leadership.record_fetch(2, FollowerFetch(2, log_start_offset=1))
    await led.log.increment_log_start_offset(2)
    assert (leadership.replicas.pending_isr, leadership.low_watermark()) == (GROWN, 1)
    await led.append(batch(b"c"), AppendOrigin.CLIENT, acks_all=False)
    assert led.log.state.high_watermark == 2
    waiting = Wakeup()
    led.low_watermark_news.add(waiting)
    follower.last_caught_up_time_ms = None
    refused.set()
    assert await waiting.wait(5), "whoever deletes records looks again"
    await until(lambda: led.log.state.high_watermark == 3)
    assert leadership.low_watermark() == 2


class Held:
    """Stands for `alter_partition`, and makes every change; its answers come when they are asked for."""

    def __init__(self) -> None:
        self.answers: list[asyncio.Future[PartitionRegistration]] = []

    async def __call__(self, *_: object, **__: object) -> PartitionRegistration:
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]


@pytest.mark.parametrize("is_refused", [False, True])
async def test_C9_an_answer_that_an_image_has_overtaken_leaves_the_next_change_pending(
    host: Host, monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    """The member to be counts for the high watermark until it is known what became of it."""
    partition = await host.topic("t", 1, 2, 3)
    alone = await host.view.alter_partition(partition.partition, leader_epoch=0, partition_epoch=0, isr=[1])
    alone = replace(alone, replicas=(1, 2, 3))
    partition.note_registration(alone)
    leadership, held = partition.leader(), Held()
    monkeypatch.setattr(leadership._services.view, "alter_partition", held)
    leadership.replicas.set_eligible({1: -1, 2: -1, 3: -1})
    leadership.record_fetch(2, FollowerFetch(0))
    await until(lambda: len(held.answers) == 1)
    grown = replace(alone, isr=(1, 2), partition_epoch=alone.partition_epoch + 1)
    partition.note_registration(grown)
    leadership.replicas.set_eligible({1: -1, 2: -1, 3: -1})
    leadership.record_fetch(3, FollowerFetch(0))
    await until(lambda: len(held.answers) == 2)
    if is_refused:
        held.answers[0].set_exception(KafkaError(ErrorCode.ineligible_replica, "not any more"))
    else:
        held.answers[0].set_result(grown)
    await until(lambda: len(leadership._altering) == 1)
    assert leadership.replicas.maximal_isr == {1, 2, 3}
    held.answers[1].set_result(replace(grown, isr=(1, 2, 3), partition_epoch=grown.partition_epoch + 1))
    await until(lambda: leadership.isr == {1, 2, 3})


async def test_C7_nobody_asks_once_the_leadership_is_over(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for the change that is pending, nor for one whose answer an image has overtaken."""
    partition = await host.topic("t", 1, 2, 3)
    leadership, held = partition.leader(), Held()
    monkeypatch.setattr(leadership._services.view, "alter_partition", held)
    for isr, number in ((frozenset({1, 2}), 1), (frozenset({1, 3}), 2)):
        leadership.replicas.commit_isr(leadership.isr, leadership.replicas.partition_epoch + 1)
        leadership._alter(isr)
        await until(lambda number=number: len(held.answers) == number)  # type: ignore[misc]
    await leadership.close()
    assert [answer.cancelled() for answer in held.answers] == [True, True]


async def test_C7_an_error_that_says_nothing_is_asked_again(led: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tierfetch.broker.replicas.leadership.ALTER_RETRY_MIN_S", 0.001)
    busy = KafkaError(ErrorCode.request_timed_out, "busy")
    asked = Asked(busy, busy, KafkaError(ErrorCode.ineligible_replica, "fenced"))
    leadership = grow(led, monkeypatch, asked)
    await until(lambda: leadership.replicas.pending_isr is None)
    assert asked.times == 3


async def test_C9_a_retry_asks_for_the_incarnation_that_was_caught_up(
    led: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tierfetch.broker.replicas.leadership.ALTER_RETRY_MIN_S", 0.001)
    asked = Asked(OSError("no answer"), OSError("no answer"), KafkaError(ErrorCode.ineligible_replica, "not the same"))
    leadership = led.leader()
    monkeypatch.setattr(leadership._services.view, "alter_partition", asked)
    leadership.replicas.set_eligible({1: 10, 2: 11})
    leadership.record_fetch(2, FollowerFetch(led.log.state.log_end_offset, broker_epoch=11))
    leadership.replicas.set_eligible({1: 10, 2: 20})
    leadership.record_fetch(2, FollowerFetch(0, broker_epoch=20))
    await until(lambda: leadership.replicas.pending_isr is None)
    assert asked.epochs[:3] == [{2: 11}] * 3


async def test_C7_what_the_leader_has_not_flushed_as_it_should_is_not_committed(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even when all followers have it: they may lose it with the leader."""
    partition = await host.topic("flushed", 1, config=LogConfig(flush_messages=1))
    with monkeypatch.context() as flushing:
        flushing.setattr(LogState, "settled_end_offset", property(lambda log: log.log_end_offset - 1))
        await partition.append(batch(b"a", b"b"), AppendOrigin.CLIENT, acks_all=True)
        assert partition.log.state.high_watermark == 1
    partition.leader().advance_high_watermark()
    assert partition.log.state.high_watermark == 2


async def test_D3_a_member_that_fetches_below_the_high_watermark_leaves_the_isr(host: Host) -> None:
    """Its broker is the one that had acknowledged what it lacks."""
    partition = await host.topic("t", 1, 2)
    await append(partition, batch(b"a"), batch(b"b"))
    leadership = partition.leader()
    leadership.record_fetch(2, FollowerFetch(2, broker_epoch=5))
    assert partition.log.state.high_watermark == 2
    leadership.record_fetch(2, FollowerFetch(2, broker_epoch=5))
    assert leadership.isr == {1, 2}
    leadership.record_fetch(2, FollowerFetch(1, broker_epoch=5))
    await until(lambda: leadership.isr == {1})


async def test_D3_a_replica_that_is_lost_is_not_taken_into_the_isr(
    led: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though a fetch of it arrives that it sent before it was."""
    leadership = grow(led, monkeypatch, Asked(KafkaError(ErrorCode.ineligible_replica, "no")))
    await until(lambda: leadership.replicas.pending_isr is None)
    there, offline = UUID(int=1 << 100), UUID(int=1 << 101)
    await leadership._services.view.register(BrokerRegistration(2, "host", 9092, directory_ids=(there,)))
    registration = led.registration
    assert registration is not None
    for directory, is_asked in ((LOST_DIRECTORY, False), (offline, False), (there, True)):
        led.note_registration(replace(registration, directories=(None, directory)))
        leadership.record_fetch(2, FollowerFetch(led.log.state.log_end_offset))
        assert (leadership.replicas.pending_isr is not None) is is_asked
