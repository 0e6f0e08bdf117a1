"""CreatePartitions: a topic grows; and, where a feature level of our own allows it, shrinks by its last partitions.

Kafka has no record that removes a partition, and a Java node could not read one. So removing needs `tierfetch.version`
1, which is finalized only if every registered node supports it, and which keeps out every node that does not.
Otherwise it is UNSUPPORTED_VERSION. It is asked for by a tagged field of the request that Kafka's tools never send:
without it a smaller count is the mistake that Kafka takes it for.

A partition that was removed may be added again, under the same topic id and number, while a broker with a replica of
the old one is down. So an added one begins not with leader epoch 0 but with the offset of its record, above every epoch
of the old one: that replica sees that nothing in its log is the new one's. At every feature level: the partition may
have been removed at a higher one.

The topic with the remote log metadata keeps the partitions that it has.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...log.core import INT32_MAX, LogConfig
from ...protocol import REMOTE_LOG_METADATA_TOPIC, ErrorCode, KafkaError
from ...protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ..image.image import TOPIC_RESOURCE
from ..image.registrations import TopicRegistration
from ..records import MetadataRecord, RemovePartitionsRecord
from .assignments import check_assignment, new_partitions
from .config import REMOVE_PARTITIONS_LEVEL, TIERFETCH_VERSION
from .placement import placer_for
from .state import ControllerResult, ControllerState, Moment, find_duplicates


def create_partitions(
    state: ControllerState, request: CreatePartitionsRequest, moment: Moment
) -> ControllerResult[CreatePartitionsResponse]:
    """CreatePartitions; each topic is done, or refused, by itself."""
    records: list[MetadataRecord] = []
    results = []
    twice = find_duplicates([topic.name for topic in request.topics])
    budget = state.config.partitions_per_request_max
    for topic in request.topics:
        code, message = ErrorCode.none, None
        try:
            if topic.name in twice:
                raise KafkaError(ErrorCode.invalid_request, f"topic {topic.name!r} is asked for twice")
            changes = _change_count(state, topic, budget, moment)
            state.charge(len(changes))
            budget -= len(changes)
            records += changes
        except KafkaError as error:
            code, message = error.code, error.message
        results.append(CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message))
    if request.validate_only:
        records = []
    return ControllerResult(records, CreatePartitionsResponse(results=tuple(results)))


def _change_count(
    state: ControllerState, asked: CreatePartitionsTopic, budget: int, moment: Moment
) -> Sequence[MetadataRecord]:
    topic = state.image.topic(asked.name)
    if topic is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"topic {asked.name!r} does not exist")
    if topic.name == REMOTE_LOG_METADATA_TOPIC:
        raise KafkaError(
            ErrorCode.policy_violation,
            f"where {topic.name} has what it says of a segment follows from its count of partitions: with another count"
            " the tier's segments would no longer be found",
        )
    before, after = len(topic.partitions), asked.count
    if after < before and asked.remove_last_partitions:
        return [_remove_last(state, topic, after)]
    if after == before:
        raise KafkaError(ErrorCode.invalid_partitions, f"topic {topic.name!r} has {before} partitions already")
    if after < before:
        raise KafkaError(
            ErrorCode.invalid_partitions, f"topic {topic.name!r} has {before} partitions; {after} would be fewer"
        )
    if after - before > budget:
        maximum = state.config.partitions_per_request_max
        raise KafkaError(
            ErrorCode.policy_violation, f"one request may create at most {maximum} partitions: use several requests"
        )
    leader_epoch = min(moment.next_offset, INT32_MAX)
    assignments = _assignments(state, topic, asked, after - before)
    return list(new_partitions(state, topic.topic_id, before, assignments, leader_epoch=leader_epoch))


def _assignments(
    state: ControllerState, topic: TopicRegistration, asked: CreatePartitionsTopic, count: int
) -> Sequence[tuple[int, ...]]:
    first = min(topic.partitions, default=None)
    factor = state.config.default_replication_factor if first is None else topic.partitions[first].replication_factor
    if asked.assignments is None:
        placer = placer_for(state.config.placement, state.image.brokers.values(), state.random)
        return [tuple(replicas) for replicas in placer.place(count, factor)]
    if len(asked.assignments) != count:
        raise KafkaError(
            ErrorCode.invalid_replica_assignment,
            f"topic {topic.name!r}: {count} partitions would be added, but {len(asked.assignments)} are assigned",
        )
    assignments = [item.broker_ids for item in asked.assignments]
    for number, replicas in enumerate(assignments, len(topic.partitions)):
        check_assignment(state, replicas, factor, f"{topic.name}-{number}")
    return assignments


def _remove_last(state: ControllerState, topic: TopicRegistration, count: int) -> RemovePartitionsRecord:
    level = state.image.features.get(TIERFETCH_VERSION, 0)
    if level < REMOVE_PARTITIONS_LEVEL:
        raise KafkaError(
            ErrorCode.unsupported_version,
            f"removing partitions needs {TIERFETCH_VERSION} {REMOVE_PARTITIONS_LEVEL}, and it is {level}: finalize it"
            " first, which no Apache Kafka node supports",
        )
    if count < 1:
        raise KafkaError(
            ErrorCode.invalid_partitions, f"topic {topic.name!r} must keep at least 1 partition, not {count}"
        )
    configs, _ = LogConfig.usable_configs(state.image.config(TOPIC_RESOURCE, topic.name), LogConfig())
    if configs.remote_storage_enable:
        raise KafkaError(
            ErrorCode.policy_violation,
            f"topic {topic.name!r} is tiered, and what the tier holds of its last partitions would stay there: set"
            " remote.storage.enable=false with remote.log.delete.on.disable=true first",
        )
    return RemovePartitionsRecord(topic_id=topic.topic_id, count=count)
