"""A1: logs of coordinators, cut, compacted or rotten: what can be read counts, and members go on or begin again.

Whatever is left of the records of a group, and whichever bytes of one have changed, reading them ends, every member is
answered or refused with a code, and what is decided for it can be written.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import compress

from hypothesis import given
from hypothesis import strategies as st

from tierfetch.broker.groups.core.consumer.decision import Decision, expire
from tierfetch.broker.groups.core.consumer.heartbeat import Beat, heartbeat
from tierfetch.broker.groups.core.consumer.state import ConsumerGroup
from tierfetch.broker.groups.core.group_state import GroupSettings
from tierfetch.broker.groups.core.records import decode_record
from tierfetch.broker.groups.core.shard import Shard
from tierfetch.broker.groups.core.share import starts
from tierfetch.broker.groups.core.share.heartbeat import ShareBeat, ShareDecision
from tierfetch.broker.groups.core.share.heartbeat import expire as expire_sharers
from tierfetch.broker.groups.core.share.heartbeat import heartbeat as share_heartbeat
from tierfetch.broker.groups.core.share.state import ShareGroup
from tierfetch.broker.share_state.core.batches import ACKNOWLEDGED, Batch
from tierfetch.broker.share_state.core.records import ShareRecord
from tierfetch.broker.share_state.core.records import decode_record as decode_share_record
from tierfetch.broker.share_state.core.shard import Shard as ShareShard
from tierfetch.broker.share_state.core.state import (
    ShareState,
    Write,
    applied,
    deleted,
    initialized,
    is_fence,
    read_by,
    written,
)
from tierfetch.protocol.errors import CorruptRecordError, KafkaError
from tierfetch.tests.broker.groups.consumers import ClassicClient, Client, Stage, topics
from tierfetch.tests.broker.groups.test_share_group import Stage as ShareStage
from tierfetch.tests.broker.share_state.test_records import KEY

Bytes = tuple[bytes, bytes | None]


def of_consumers() -> list[Bytes]:
    """The log of a group with members of both protocols that come, move and go."""
    stage = Stage(topics(a=4, b=2))
    x, y, z = Client("x", ("a", "b")), Client("y", instance="i"), Client("z", regex="a|b", topics=())
    old = ClassicClient("old")
    for client in (x, y, z):
        stage.hear(client)
    stage.join_classic(old)
    for _ in range(3):
        for client in (x, y, z):
            stage.hear(client)
        stage.hear_classic(old)
    stage.topics = topics(a=5, b=2)
    stage.hear(x)
    stage.hear(z, epoch=-1)
    stage.hear(y, epoch=-2)
    return [record.encoded() for record in stage.log]


def of_sharers() -> list[Bytes]:
    stage = ShareStage()
    stage.beat("x", topics=("a", "b"))
    stage.beat("y")
    stage.initialize()
    stage.beat("x", 1)
    stage.beat("y", -1)
    return [record.encoded() for record in stage.records]


def of_share_state() -> list[Bytes]:
    records: list[ShareRecord] = []
    state: ShareState | None = None
    for step in range(8):
        if state is None or is_fence(state):
            value = initialized(state, step + 1, step, 0)
        elif step == 5:
            value = deleted(state, 6, 0)
        else:
            batch = Batch(step, step + 3, ACKNOWLEDGED, 1)
            write = Write(state_epoch=-1, leader_epoch=step, start_offset=step, batches=(batch,))
            value = written(state, write, 3, 0)  # type: ignore[assignment]
        assert value is not None
        records.append(ShareRecord(KEY, value))
        state = applied(state, value)
    return [*[record.encoded() for record in records], ShareRecord(KEY, None).encoded()]


CONSUMERS, SHARERS, SHARE_STATE = of_consumers(), of_sharers(), of_share_state()


@st.composite
def damaged(draw: st.DrawFn, log: list[Bytes]) -> list[Bytes]:
    """Draw what is left of a log: some of its records, one of them with other bytes."""
    left = list(compress(log, draw(st.lists(st.booleans(), min_size=len(log), max_size=len(log)))))
    left = left or list(log)
    at = draw(st.integers(0, len(left) - 1))
    key, value = left[at]
    rotten = bytearray(key if value is None or draw(st.booleans()) else value)
    is_key = value is None or rotten == key
    for _ in range(draw(st.integers(0, 3))):
        rotten[draw(st.integers(0, len(rotten) - 1))] = draw(st.integers(0, 255))
    rotten = rotten[: draw(st.integers(1, len(rotten)))]
    left[at] = (bytes(rotten), value) if is_key else (key, bytes(rotten))
    return left


def read(log: list[Bytes]) -> Shard:
    shard = Shard(GroupSettings())
    for key, value in log:
        with suppress(CorruptRecordError):
            record = decode_record(key, value)
            if record is not None:
                shard.replay(record)
    return shard


def write(decision: Decision | ShareDecision) -> None:
    """What is decided can be written, and is read again as it is."""
    for record in decision.records:
        assert decode_record(*record.encoded()) == record


@given(damaged(CONSUMERS))
def test_A1_a_consumer_group_goes_on_with_what_is_left(log: list[Bytes]) -> None:
    shard = read(log)
    world = Stage(topics(a=5, b=2)).world
    for group in list(shard.consumers.values()):
        group.resume(0, 45_000)
        assert group.state is not None
        for name in (*group.members, "new"):
            for epoch in (0, group.current(name).epoch):
                decision = Decision(group)
                beat = Beat(
                    member_id=name, epoch=epoch, rebalance_timeout_ms=1_000, topics=("a",), owned={}, client_id="c"
                )
                with suppress(KafkaError):
                    heartbeat(decision, beat, world)
                write(decision)
        lost = Decision(group)
        for name in group.members:
            group.sessions[name] = 0
        expire(lost, world)
        write(lost)
        again = ConsumerGroup(group.group_id)
        for record in group.records():
            again.apply(record)
        assert again.epoch == group.epoch
        for record in group.tombstones():
            shard.replay(record)
    assert not any(group.members for group in shard.consumers.values())


@given(damaged(SHARERS))
def test_A1_a_share_group_goes_on_with_what_is_left(log: list[Bytes]) -> None:
    shard, stage = read(log), ShareStage()
    for group in list(shard.shares.values()):
        group.resume(0, 45_000)
        for name in (*group.members, "new"):
            for epoch in (0, group.current(name).epoch):
                decision = ShareDecision(group)
                with suppress(KafkaError):
                    share_heartbeat(decision, ShareBeat(member_id=name, epoch=epoch, topics=("a",)), stage.world)
                write(decision)
        missing = group.uninitialized(stage.topics, 1)
        begun = ShareDecision(group)
        starts.begin(begun, missing)
        starts.end(begun, missing, [(topic, number) for topic, each in missing.items() for number in each.partitions])
        write(begun)
        lost = ShareDecision(group)
        for name in group.members:
            group.sessions[name] = 0
        expire_sharers(lost, stage.world)
        write(lost)
        again = ShareGroup(group.group_id)
        for record in group.records():
            again.apply(record)
        assert again.starts == group.starts
        for record in group.tombstones():
            shard.replay(record)
    assert not shard.shares


@given(damaged(SHARE_STATE))
def test_A1_a_share_partition_goes_on_with_what_is_left(log: list[Bytes]) -> None:
    shard = ShareShard()
    for offset, (key, value) in enumerate(log):
        with suppress(CorruptRecordError):
            record = decode_share_record(key, value)
            if record is not None:
                shard.replay(record, offset)
    for key, held in list(shard.held.items()):
        state = held.state
        for leader_epoch in (0, state.snapshot.leader_epoch):
            write = Write(state_epoch=-1, leader_epoch=leader_epoch, start_offset=-1, batches=(Batch(9, 9, 2, 1),))
            with suppress(KafkaError):
                value = read_by(state, leader_epoch) or written(state, write, 3, 0)
                record = ShareRecord(key, value)
                assert decode_share_record(*record.encoded()) == record
                assert applied(state, value).snapshot.leader_epoch >= state.snapshot.leader_epoch
        with suppress(KafkaError):
            fence = deleted(state, state.snapshot.state_epoch, 0)
            assert fence is None or decode_share_record(*ShareRecord(key, fence).encoded())
