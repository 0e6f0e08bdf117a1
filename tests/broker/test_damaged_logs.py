"""Replicas whose files are damaged: fetched anew where nobody counts on them, else left as they are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tierfetch.broker.cluster.view import NO_LEADER, PartitionRegistration
from tierfetch.broker.replicas.damaged_logs import is_spare
from tierfetch.broker.replicas.partition import Partition
from tierfetch.log.core import AppendOrigin
from tierfetch.log.core.checkpoints import CLEAN_SHUTDOWN
from tierfetch.log.keeper.damage import damage_of
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.topics import TopicPartition
from tierfetch.tests.broker.hosting import batch
from tierfetch.tests.broker.nodes import Nodes
from tierfetch.tests.broker.waiting import until
from tierfetch.tests.fakes.cluster_rules import alter_partition, elect_leader

SEGMENT = "00000000000000000000.log"


@pytest.fixture
async def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Nodes]:
    monkeypatch.setattr("tierfetch.broker.replicas.manager.TICK_S_MAX", 0.02)
    nodes = Nodes(tmp_path)
    yield nodes
    await nodes.close()


async def produce(nodes: Nodes, leader: int, *values: bytes) -> None:
    for value in values:
        await nodes.partition(leader, "t").append(batch(value), AppendOrigin.CLIENT, acks_all=False)


def hurt(directory: Path) -> bytes:
    """Flips a bit of the first batch in the live log; what lies there then."""
    path = directory / "t-0" / SEGMENT
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)
    return bytes(data)


async def hurt_while_down(nodes: Nodes, number: int) -> bytes:
    """As if it had been killed after it had flushed everything."""
    await nodes.stop(number)
    (nodes.directory(number) / CLEAN_SHUTDOWN).unlink()
    return hurt(nodes.directory(number))


async def hurt_while_up(nodes: Nodes, number: int) -> bytes:
    """It is noticed when the log, whose disk failed, is opened anew."""
    log = nodes.partition(number, "t").log
    await log.flush()
    await nodes[number].logs.upkeep.save_checkpoints()
    data = hurt(nodes.directory(number))
    log.state.fail(OSError(5, "Input/output error"))
    return data


def put_aside(nodes: Nodes, number: int) -> list[bytes]:
    return [path.read_bytes() for path in nodes.directory(number).glob(f"t-0.*-stray/{SEGMENT}")]


async def in_sync(nodes: Nodes, *numbers: int) -> None:
    await until(lambda: sorted(nodes.registration("t").isr) == sorted(numbers))
    await until(lambda: len({nodes.partition(number, "t").log.state.log_end_offset for number in numbers}) == 1)
    assert len({nodes.log_bytes(number, "t") for number in numbers}) == 1


async def test_replica_out_of_the_isr_is_fetched_anew_and_its_bytes_are_kept(nodes: Nodes) -> None:
    await nodes.start(1, 2)
    await nodes.topic("t", 1, 2)
    await produce(nodes, 1, b"a", b"b")
    await in_sync(nodes, 1, 2)
    data = await hurt_while_down(nodes, 2)
    await nodes.operator.fence_broker(2)
    await produce(nodes, 1, b"c")
    await nodes.start(2)
    await in_sync(nodes, 1, 2)
    assert nodes.partition(2, "t").log.state.log_end_offset == 3
    assert put_aside(nodes, 2) == [data]


async def test_last_member_of_the_isr_is_left_as_it_is_and_opened_once_it_is_mended(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tierfetch.broker.replicas.damaged_logs.LOOK_AGAIN_S", 0.05)
    await nodes.start(1)
    topic = await nodes.topic("t", 1)
    await produce(nodes, 1, b"a", b"b")
    whole = nodes.log_bytes(1, "t")
    data = await hurt_while_down(nodes, 1)
    await nodes.start(1)
    with pytest.raises(KafkaError, match="is damaged at byte 0") as refused:
        nodes[1].hosted.find("t", 0)
    assert refused.value.code is ErrorCode.kafka_storage_error
    await nodes.operator.alter_topic_configs("t", {"retention.ms": "1234"})
    assert nodes.log_bytes(1, "t") == data
    assert put_aside(nodes, 1) == []
    (nodes.directory(1) / "t-0" / SEGMENT).write_bytes(whole)
    await until(lambda: nodes.hosts(1, "t") and nodes.partition(1, "t").leadership is not None)
    assert nodes.partition(1, "t").log.state.log_end_offset == 2
    assert topic.topic_id == nodes.partition(1, "t").log.state.topic_id


async def test_a_damaged_log_of_a_topic_that_was_replaced_stands_in_nobodys_way(nodes: Nodes) -> None:
    await nodes.start(1)
    await nodes.topic("t", 1)
    await produce(nodes, 1, b"a")
    data = await hurt_while_down(nodes, 1)
    await nodes.operator.delete_topic("t")
    await nodes.start(2)
    await nodes.topic("t", 2)
    await nodes.operator.delete_topic("t")
    await nodes.start(1)
    await nodes.topic("t", 1)
    assert nodes.partition(1, "t").log.state.log_end_offset == 0
    assert put_aside(nodes, 1) in ([], [data])


async def test_replica_in_the_isr_is_left_as_it_is_until_the_leader_has_taken_it_out(nodes: Nodes) -> None:
    await nodes.start(1, 2)
    await nodes.topic("t", 1, 2)
    await produce(nodes, 1, b"a")
    await in_sync(nodes, 1, 2)
    data = await hurt_while_down(nodes, 2)
    members: list[tuple[int, ...]] = []
    nodes.operator.subscribe(lambda _, image: members.append(image.topics["t"].partitions[0].isr))
    await nodes.start(2)
    await produce(nodes, 1, b"b")
    await until(lambda: put_aside(nodes, 2) == [data])
    assert (1,) in members
    await in_sync(nodes, 1, 2)


async def test_leader_whose_log_turns_out_to_be_damaged_has_another_one_lead(nodes: Nodes) -> None:
    await nodes.start(1, 2)
    await nodes.topic("t", 1, 2)
    await produce(nodes, 1, b"a")
    await in_sync(nodes, 1, 2)
    data = await hurt_while_up(nodes, 1)
    await until(lambda: put_aside(nodes, 1) == [data])
    assert nodes.registration("t").leader == 2
    await in_sync(nodes, 1, 2)


async def test_a_new_empty_replica_does_not_lead_by_an_image_that_is_over(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Followers that have not heard of the next leader either would cut their logs to its end."""
    await nodes.start(1, 2)
    topic = await nodes.topic("t", 1, 2)
    await produce(nodes, 1, b"a")
    await in_sync(nodes, 1, 2)
    logs, led = nodes[1].logs, list[int]()
    may_open_again, lead = logs.may_open_again, Partition.lead

    def overtaken(name: TopicPartition) -> bool:
        """While an image is applied that has this broker lead, the next one comes."""
        if damage_of(logs, name) is not None and nodes.registration("t").leader == 1:
            nodes.cluster.change(lambda image: elect_leader(image, topic.id_partition(0), 2))
            nodes.cluster.change(
                lambda image: alter_partition(
                    image,
                    topic.id_partition(0),
                    leader_epoch=1,
                    partition_epoch=nodes.registration("t").partition_epoch,
                    isr=[2],
                )
            )
        return may_open_again(name)

    async def noted(partition: Partition, registration: PartitionRegistration) -> None:
        led.append(registration.leader)
        await lead(partition, registration)

    monkeypatch.setattr(logs, "may_open_again", overtaken)
    monkeypatch.setattr(Partition, "lead", noted)
    data = await hurt_while_up(nodes, 1)
    await until(lambda: put_aside(nodes, 1) == [data])
    await in_sync(nodes, 1, 2)
    assert led == [2]


async def test_replica_that_its_leader_may_be_about_to_take_in_is_left_as_it_is_until_the_next_epoch(
    nodes: Nodes,
) -> None:
    await nodes.start(1, 2)
    topic = await nodes.topic("t", 1, 2)
    await produce(nodes, 1, b"a")
    await in_sync(nodes, 1, 2)
    data = await hurt_while_up(nodes, 2)
    await produce(nodes, 1, b"b")
    await until(lambda: nodes.registration("t").isr == (1,))
    await nodes.operator.alter_topic_configs("t", {"retention.ms": "1234"})
    await until(lambda: nodes.partition(1, "t").log.state.config.retention_ms == 1234)
    assert not nodes.hosts(2, "t")
    assert put_aside(nodes, 2) == []
    await nodes.operator.elect_leader(topic.id_partition(0), 1)
    await in_sync(nodes, 1, 2)
    assert put_aside(nodes, 2) == [data]


@pytest.mark.parametrize(
    ("leader", "isr", "counted_on_epoch", "expected"),
    [
        (1, (1,), -1, True),
        (1, (1, 3), 4, True),
        (1, (1, 3), 5, False),
        (1, (1, 2), -1, False),
        (2, (2,), -1, False),
        (NO_LEADER, (1,), -1, False),
        (NO_LEADER, (2,), -1, False),
        (NO_LEADER, (), -1, False),
    ],
)
def test_spare_is_what_nobody_counts_on(
    leader: int, isr: tuple[int, ...], counted_on_epoch: int, expected: bool
) -> None:
    registration = PartitionRegistration(leader, 5, 9, (1, 2, 3), isr)
    assert is_spare(registration, 2, counted_on_epoch) is expected
