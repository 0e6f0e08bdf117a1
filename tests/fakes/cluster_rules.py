"""What each change of a fake cluster decides, from one image to the next; KafkaError if it is refused.

Every change of a partition adds 1 to its `partition_epoch`; every change of its leader adds 1 to `leader_epoch`.
Failures are not detected: who leads is changed by `elect_leader`, `fence_broker`, and `register`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from tierfetch.broker.cluster.view import (
    NO_LEADER,
    BrokerRegistration,
    ClusterImage,
    NewTopic,
    PartitionRegistration,
    TopicImage,
)
from tierfetch.controller.core.state import LOST_DIRECTORY
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.topics import TopicIdPartition, check_topic_name


def register(image: ClusterImage, broker: BrokerRegistration) -> ClusterImage:
    """Take up the broker's endpoint and directory ids, at each start of its process.

    If a directory that was registered before is missing now, each of its replicas that is not known to lie in another
    leaves the ISR, also as its last member. What it goes on leading it leads under a new leader epoch.
    """
    known = image.brokers.get(broker.id)
    if known is not None and known.directory_ids:
        has_lost_directory = not set(known.directory_ids) <= set(broker.directory_ids)
        for partition, before in image.hosted_by(broker.id).items():
            is_lost = has_lost_directory and before.directory_of(broker.id) not in broker.directory_ids
            if is_lost and broker.id in (*before.isr, before.leader):
                image = _with_partition(image, partition, _without(before, broker.id))
            elif before.leader == broker.id:
                image = _with_partition(image, partition, _led_anew(before))
    return replace(image, brokers={**image.brokers, broker.id: broker})


def fence_broker(image: ClusterImage, broker_id: int) -> ClusterImage:
    """Take a broker that is known to be down out of every ISR and leadership; the last member of an ISR stays in it.

    What a controller does when a broker's session ends (KIP-631). It joins no ISR until it registers again.
    """
    if broker_id in image.brokers:
        fenced = replace(image.brokers[broker_id], fenced=True)
        image = replace(image, brokers={**image.brokers, broker_id: fenced})
    for partition, before in image.hosted_by(broker_id).items():
        if broker_id in before.isr and len(before.isr) > 1:
            image = _with_partition(image, partition, _without(before, broker_id))
    return image


def assign_directory(
    image: ClusterImage, partition: TopicIdPartition, broker_id: int, directory_id: UUID
) -> ClusterImage:
    """In which directory a replica lies; those of the others are reserved where they are not known.

    What a controller does: a replica in a directory that is lost leaves the ISR and leads no longer, the last member
    stays in it without a leader; one that is back leads where nobody does. Nothing is changed that is so already.
    """
    before = image.partition(partition.topic_partition)
    assert before is not None, partition
    known = zip(before.replicas, before.directories or (UUID(int=0),) * len(before.replicas), strict=True)
    directories = tuple(directory_id if replica == broker_id else directory for replica, directory in known)
    if directories == before.directories:
        return image
    is_lost = directory_id == LOST_DIRECTORY
    others = tuple(member for member in before.isr if member != broker_id)
    after = replace(before, directories=directories, partition_epoch=before.partition_epoch + 1)
    if is_lost and broker_id in before.isr:
        after = replace(after, isr=others or before.isr)
    if is_lost and before.leader == broker_id:
        live = [member for member in others if not _is_fenced(image, member)]
        after = replace(after, leader=live[0] if live else NO_LEADER, leader_epoch=before.leader_epoch + 1)
    elif not is_lost and before.leader == NO_LEADER and broker_id in before.isr:
        after = replace(after, leader=broker_id, leader_epoch=before.leader_epoch + 1)
    return _with_partition(image, partition, after)


def _led_anew(registration: PartitionRegistration) -> PartitionRegistration:
    return replace(
        registration,
        leader_epoch=registration.leader_epoch + 1,
        partition_epoch=registration.partition_epoch + 1,
    )


def _without(registration: PartitionRegistration, broker_id: int) -> PartitionRegistration:
    isr = tuple(member for member in registration.isr if member != broker_id)
    lost_leader = registration.leader == broker_id
    return replace(
        registration,
        leader=(isr[0] if isr else NO_LEADER) if lost_leader else registration.leader,
        leader_epoch=registration.leader_epoch + lost_leader,
        partition_epoch=registration.partition_epoch + 1,
        isr=isr,
    )


def alter_partition(
    image: ClusterImage,
    partition: TopicIdPartition,
    *,
    leader_epoch: int,
    partition_epoch: int,
    isr: Sequence[int],
) -> ClusterImage:
    """Replace the ISR on behalf of the leader of `leader_epoch`."""
    current = _registration(image, partition)
    if leader_epoch != current.leader_epoch:
        raise KafkaError(
            ErrorCode.fenced_leader_epoch,
            f"{partition}: leader epoch {leader_epoch} is not the current one ({current.leader_epoch})",
        )
    if partition_epoch != current.partition_epoch:
        raise KafkaError(
            ErrorCode.invalid_update_version,
            f"{partition}: partition epoch {partition_epoch} is not the current one ({current.partition_epoch})",
        )
    if current.leader not in isr or not set(isr) <= set(current.replicas) or len(set(isr)) != len(isr):
        raise KafkaError(
            ErrorCode.invalid_request,
            f"{partition}: ISR {list(isr)} must hold leader {current.leader}, and only {list(current.replicas)}",
        )
    down = [member for member in isr if member not in current.isr and _is_fenced(image, member)]
    if down:
        raise KafkaError(ErrorCode.ineligible_replica, f"{partition}: brokers {down} are fenced")
    ordered = tuple(member for member in current.replicas if member in isr)
    return _with_partition(image, partition, replace(current, isr=ordered, partition_epoch=partition_epoch + 1))


def _is_fenced(image: ClusterImage, broker_id: int) -> bool:
    return broker_id in image.brokers and image.brokers[broker_id].fenced


def elect_leader(
    image: ClusterImage, partition: TopicIdPartition, leader: int, *, unclean: bool = False
) -> ClusterImage:
    """Make a member of the ISR the leader; `unclean` takes any replica, which then is the whole ISR."""
    current = _registration(image, partition)
    if leader not in current.isr and not (unclean and leader in current.replicas):
        raise KafkaError(
            ErrorCode.eligible_leaders_not_available,
            f"{partition}: broker {leader} is not in the ISR {list(current.isr)}",
        )
    elected = replace(
        current,
        leader=leader,
        leader_epoch=current.leader_epoch + 1,
        partition_epoch=current.partition_epoch + 1,
        isr=current.isr if leader in current.isr else (leader,),
    )
    return _with_partition(image, partition, elected)


def create_topic(image: ClusterImage, topic: NewTopic, topic_id: UUID) -> ClusterImage:
    """Add a topic, its replicas spread over the registered brokers unless they are given."""
    try:
        check_topic_name(topic.name)
    except ValueError as error:
        raise KafkaError(ErrorCode.invalid_topic_exception, str(error)) from error
    if topic.name in image.topics:
        raise KafkaError(ErrorCode.topic_already_exists, f"topic {topic.name!r} exists already")
    assignments = _checked(image, topic) if topic.assignments else _spread(image, topic)
    partitions = {
        number: PartitionRegistration(
            leader=replicas[0], leader_epoch=0, partition_epoch=0, replicas=replicas, isr=replicas
        )
        for number, replicas in enumerate(assignments)
    }
    created = TopicImage(topic.name, topic_id, dict(topic.configs), partitions)
    return replace(image, topics={**image.topics, topic.name: created})


def _checked(image: ClusterImage, topic: NewTopic) -> tuple[tuple[int, ...], ...]:
    for number, replicas in enumerate(topic.assignments):
        unknown = [broker for broker in replicas if broker not in image.brokers]
        if not replicas or unknown or len(set(replicas)) != len(replicas):
            raise KafkaError(
                ErrorCode.invalid_replica_assignment,
                f"{topic.name}-{number}: replicas {list(replicas)} must be different ones of {sorted(image.brokers)}",
            )
    return topic.assignments


def _spread(image: ClusterImage, topic: NewTopic) -> tuple[tuple[int, ...], ...]:
    if topic.partitions < 1:
        raise KafkaError(ErrorCode.invalid_partitions, f"{topic.partitions} partitions; at least 1 is needed")
    brokers = sorted(broker.id for broker in image.brokers.values() if not broker.fenced)
    if not 1 <= topic.replication_factor <= len(brokers):
        raise KafkaError(
            ErrorCode.invalid_replication_factor,
            f"replication factor {topic.replication_factor}; brokers registered: {brokers}",
        )
    led = {broker: 0 for broker in brokers}
    for existing in image.topics.values():
        for registration in existing.partitions.values():
            if registration.leader in led:
                led[registration.leader] += 1
    first = min(range(len(brokers)), key=lambda index: (led[brokers[index]], index))
    return tuple(
        tuple(brokers[(first + number + rank) % len(brokers)] for rank in range(topic.replication_factor))
        for number in range(topic.partitions)
    )


def delete_topic(image: ClusterImage, name: str) -> ClusterImage:
    _topic(image, name)
    return replace(image, topics={other: topic for other, topic in image.topics.items() if other != name})


def alter_topic_configs(image: ClusterImage, name: str, changes: Mapping[str, str | None]) -> ClusterImage:
    topic = _topic(image, name)
    changed = replace(topic, configs=_merged(topic.configs, changes))
    return replace(image, topics={**image.topics, name: changed})


def alter_broker_configs(image: ClusterImage, broker: str, changes: Mapping[str, str | None]) -> ClusterImage:
    merged = _merged(image.broker_configs.get(broker, {}), changes)
    return replace(image, broker_configs={**image.broker_configs, broker: merged})


def _merged(configs: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**configs, **changes}.items() if value is not None}


def _topic(image: ClusterImage, name: str) -> TopicImage:
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"topic {name!r} does not exist")
    return topic


def _registration(image: ClusterImage, partition: TopicIdPartition) -> PartitionRegistration:
    topic = image.topics.get(partition.topic)
    if topic is None or topic.topic_id != partition.topic_id:
        raise KafkaError(ErrorCode.unknown_topic_id, f"{partition}: no such topic incarnation")
    registration = topic.partitions.get(partition.partition)
    if registration is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"{partition}: no such partition")
    return registration


def _with_partition(
    image: ClusterImage, partition: TopicIdPartition, registration: PartitionRegistration
) -> ClusterImage:
    topic = image.topics[partition.topic]
    changed = replace(topic, partitions={**topic.partitions, partition.partition: registration})
    return replace(image, topics={**image.topics, topic.name: changed})
