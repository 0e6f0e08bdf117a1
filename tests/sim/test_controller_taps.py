"""Who would join an ISR by a request."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import UUID

from tierfetch.sim.scenarios.controller_taps import joiners
from tierfetch.tests.sim.test_truth import T, truth


def asked(topic_id: UUID, partition: int, *isr: int) -> SimpleNamespace:
    item = SimpleNamespace(
        partition_index=partition, new_isr_with_epochs=[SimpleNamespace(broker_id=member) for member in isr]
    )
    return SimpleNamespace(topics=[SimpleNamespace(topic_id=topic_id, partitions=[item])])


def test_members_that_are_new_to_a_partition_that_is_there() -> None:
    image = truth().metadata
    assert list(joiners(image, asked(T, 0, 1, 2))) == [2]
    assert not list(joiners(image, asked(T, 0, 1)))
    assert not list(joiners(image, asked(T, 1, 1, 2)))
    assert not list(joiners(image, asked(UUID(int=5), 0, 1, 2)))
