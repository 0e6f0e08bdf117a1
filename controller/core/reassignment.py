"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455).

A reassignment is in the partition's own registration, so it survives every failover; it ends when AlterPartition, or a
broker's going, leaves all new replicas in the ISR. The arithmetic is in `reassignment_replicas`.

| asked for | answer |
|---|---|
| unknown topic or partition | UNKNOWN_TOPIC_OR_PARTITION |
| the same partition twice in a request | INVALID_REQUEST for the second |
| brokers that are not registered, twice the same, none | INVALID_REPLICA_ASSIGNMENT |
| another number of replicas where the request forbids that | INVALID_REPLICATION_FACTOR |
| a second reassignment | replaces the first |
| cancelling where none is under way | NO_REASSIGNMENT_IN_PROGRESS |
| cancelling where only new replicas are in sync | INVALID_REPLICA_ASSIGNMENT unless unclean elections are allowed |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...protocol import ErrorCode, KafkaError
from ...protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ..image.registrations import PartitionKey, PartitionRegistration, TopicRegistration
from ..records import MetadataRecord
from .assignments import check_assignment
from .broker_changes import election_of
from .partition_change import PartitionChange
from .reassignment_replicas import ReplicaTarget, begin, revert
from .state import ControllerResult, ControllerState


def alter_partition_reassignments(
    state: ControllerState, request: AlterPartitionReassignmentsRequest
) -> ControllerResult[AlterPartitionReassignmentsResponse]:
    """AlterPartitionReassignments; each partition is done, or refused, by itself."""
    records: list[MetadataRecord] = []
    decided: set[PartitionKey] = set()
    may_change_factor = request.allow_replication_factor_change
    responses = []
    for topic in request.topics:
        partitions = []
        for item in topic.partitions:
            code, message = ErrorCode.none, None
            try:
                record = _alter_one(state, topic.name, item, decided, may_change_factor=may_change_factor)
                records += [] if record is None else [record]
            except KafkaError as error:
                code, message = error.code, error.message
            partitions.append(
                ReassignablePartitionResponse(
                    partition_index=item.partition_index, error_code=code, error_message=message
                )
            )
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=tuple(partitions)))
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_change_factor, error_message=None, responses=tuple(responses)
    )
    return ControllerResult(records, response, is_atomic=False)


def _alter_one(
    state: ControllerState,
    name: str,
    asked: ReassignablePartition,
    decided: set[PartitionKey],
    *,
    may_change_factor: bool,
) -> MetadataRecord | None:
    topic = state.image.topic(name)
    before = None if topic is None else topic.partitions.get(asked.partition_index)
    if topic is None or before is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"{name}-{asked.partition_index} does not exist")
    key = PartitionKey(topic.topic_id, asked.partition_index)
    if key in decided:
        raise KafkaError(ErrorCode.invalid_request, f"{state.image.name(key)} is given twice: one target is needed")
    if asked.replicas is None:
        target = _cancel(state, topic, key, before)
    else:
        target = _begin(state, key, before, asked.replicas, may_change_factor=may_change_factor)
    decided.add(key)
    return PartitionChange(
        state,
        key,
        before,
        election=election_of(state, key),
        isr=target.isr,
        replicas=target.replicas,
        adding=target.adding,
        removing=target.removing,
    ).build()


def _begin(
    state: ControllerState,
    key: PartitionKey,
    before: PartitionRegistration,
    replicas: Sequence[int],
    *,
    may_change_factor: bool,
) -> ReplicaTarget:
    check_assignment(state, replicas, None, state.image.name(key))
    if not may_change_factor and len(replicas) != before.replication_factor:
        raise KafkaError(
            ErrorCode.invalid_replication_factor,
            f"{state.image.name(key)}: {len(replicas)} replicas where {before.replication_factor} are, and changing"
            " that was not allowed",
        )
    return begin(before, replicas)


def _cancel(
    state: ControllerState, topic: TopicRegistration, key: PartitionKey, before: PartitionRegistration
) -> ReplicaTarget:
    name = state.image.name(key)
    if not before.is_reassigning:
        raise KafkaError(ErrorCode.no_reassignment_in_progress, f"{name} is not being reassigned")
    target = revert(before)
    if target is None:
        raise KafkaError(ErrorCode.invalid_replica_assignment, f"{name}: nothing would be left: all replicas are new")
    if target.is_unclean and not state.is_unclean_election_enabled(topic.name):
        raise KafkaError(
            ErrorCode.invalid_replica_assignment,
            f"{name}: only new replicas {before.isr} are in sync: cancelling loses data; wait for an old one, or"
            " allow unclean leader elections for the topic",
        )
    return target


def list_partition_reassignments(
    state: ControllerState, request: ListPartitionReassignmentsRequest
) -> ControllerResult[ListPartitionReassignmentsResponse]:
    """ListPartitionReassignments: all, or those among the asked partitions. Unknown ones are left out, as in Kafka."""
    listed: dict[str, list[OngoingPartitionReassignment]] = {}
    for key in _asked_keys(state, request):
        registration = state.image.partition(key)
        if registration is not None and registration.is_reassigning:
            listed.setdefault(state.image.topics[key.topic_id].name, []).append(
                OngoingPartitionReassignment(
                    partition_index=key.partition,
                    replicas=registration.replicas,
                    adding_replicas=registration.adding_replicas,
                    removing_replicas=registration.removing_replicas,
                )
            )
    topics = tuple(
        OngoingTopicReassignment(name=name, partitions=tuple(partitions)) for name, partitions in listed.items()
    )
    return ControllerResult([], ListPartitionReassignmentsResponse(error_message=None, topics=topics))


def _asked_keys(state: ControllerState, request: ListPartitionReassignmentsRequest) -> Iterable[PartitionKey]:
    if request.topics is None:
        return sorted(state.image.indexes.reassigning)
    return [
        PartitionKey(state.image.topic_ids[topic.name], number)
        for topic in request.topics
        for number in topic.partition_indexes
        if topic.name in state.image.topic_ids
    ]
