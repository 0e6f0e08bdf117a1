"""Which partitions of a broker an image makes it look at, given the image that was applied before. Pure.

    another value than before        looked at
    -------------------------------  ----------------------------------------------------------------------------------
    a partition's registration       that partition; as removed, if the broker no longer has a replica
    a topic's configs                all its partitions
    a topic's id                     the old topic's as removed, the new one's
    a broker's registration          what this broker leads and the other has a replica of: who may join an ISR
    dynamic broker configs           all that is hosted: topics inherit them

What did not change is the same value in both images (`cluster_view`), so that most of it costs one comparison of
identities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ...protocol import TopicIdPartition
from ...protocol.wire import Steps, run_to_end
from .cluster_image import ClusterImage, PartitionRegistration, TopicImage

STEP_PARTITIONS: Final = 1_000
"""Partitions that are compared between two steps: some 5 ms."""

Changes = dict[TopicIdPartition, PartitionRegistration | None]
"""Partitions in the order of their names; None: no longer hosted."""


def changed_partitions(before: ClusterImage, after: ClusterImage, broker_id: int) -> Changes:
    """See the module's table."""
    return run_to_end(changed_steps(before, after, broker_id))


def changed_steps(
    before: ClusterImage, after: ClusterImage, broker_id: int, size: int = STEP_PARTITIONS
) -> Steps[Changes]:
    """Find the same in steps of `size` partitions that are compared, or of one topic where that has more."""
    compared, everything = size, _is_everything_new(before, after)
    found: Changes = {}
    for name, topic in sorted(before.topics.items()):
        now = after.topics.get(name)
        if now is not topic:
            found.update(_gone(topic, now, broker_id))
            compared -= len(topic.partitions)
        if compared <= 0:
            compared = size
            yield
    others = _changed_brokers(before, after)
    for name, topic in sorted(after.topics.items()):
        known = before.topics.get(name)
        if everything:
            found.update(_hosted(topic, broker_id))
        elif topic is not known:
            found.update(_of_topic(known, topic, broker_id))
        if others and not everything:
            found.update(_led_with(topic, broker_id, others))
        compared -= len(topic.partitions) if everything or others or topic is not known else 0
        if compared <= 0:
            compared = size
            yield
    return found


def _hosted(topic: TopicImage, broker_id: int) -> Changes:
    return {
        topic.id_partition(number): registration
        for number, registration in sorted(topic.partitions.items())
        if broker_id in registration.replicas
    }


def _is_everything_new(before: ClusterImage, after: ClusterImage) -> bool:
    return before.broker_configs is not after.broker_configs and before.broker_configs != after.broker_configs


def _gone(before: TopicImage, now: TopicImage | None, broker_id: int) -> Iterator[tuple[TopicIdPartition, None]]:
    partitions: Mapping[int, PartitionRegistration] = {}
    if now is not None and now.topic_id == before.topic_id:
        partitions = now.partitions
    for number, registration in before.partitions.items():
        present = partitions.get(number)
        if broker_id in registration.replicas and (present is None or broker_id not in present.replicas):
            yield before.id_partition(number), None


def _of_topic(before: TopicImage | None, topic: TopicImage, broker_id: int) -> Changes:
    known: Mapping[int, PartitionRegistration] = {}
    if before is not None and before.topic_id == topic.topic_id and before.configs == topic.configs:
        known = before.partitions
    return {
        topic.id_partition(number): registration
        for number, registration in sorted(topic.partitions.items())
        if registration is not (old := known.get(number)) and broker_id in registration.replicas and registration != old
    }


def _changed_brokers(before: ClusterImage, after: ClusterImage) -> frozenset[int]:
    if before.brokers is after.brokers:
        return frozenset()
    ids = before.brokers.keys() | after.brokers.keys()
    return frozenset(id_ for id_ in ids if before.brokers.get(id_) != after.brokers.get(id_))


def _led_with(topic: TopicImage, broker_id: int, others: frozenset[int]) -> Changes:
    return {
        topic.id_partition(number): registration
        for number, registration in topic.partitions.items()
        if registration.leader == broker_id and not others.isdisjoint(registration.replicas)
    }
