"""Who would join an ISR by a request."""

from __future__ import annotations

from uuid import UUID

from tierfetch.protocol.messages.brokers import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from tierfetch.sim.scenarios.controller_taps import joiners
from tierfetch.tests.sim.test_truth import T, truth


def asked(topic_id: UUID, partition: int, *isr: int) -> AlterPartitionRequest:
    item = AlterPartitionRequestPartitionData(
        partition_index=partition,
        leader_epoch=0,
        partition_epoch=0,
        new_isr_with_epochs=tuple(BrokerState(broker_id=member) for member in isr),
    )
    topic = AlterPartitionRequestTopicData(topic_id=topic_id, partitions=(item,))
    return AlterPartitionRequest(broker_id=1, topics=(topic,))


def test_members_that_are_new_to_a_partition_that_is_there() -> None:
    image = truth().metadata
    assert list(joiners(image, asked(T, 0, 1, 2))) == [2]
    assert not list(joiners(image, asked(T, 0, 1)))
    assert not list(joiners(image, asked(T, 1, 1, 2)))
    assert not list(joiners(image, asked(UUID(int=5), 0, 1, 2)))
