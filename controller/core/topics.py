"""CreateTopics and DeleteTopics. Each topic is done, or refused, by itself; those of one request share a batch.

Names are checked as Kafka does: legal characters, and none that differs from another only in '.' and '_', because
metric names could not distinguish them. A deleted topic takes its configs with it; its id never comes back, which is
how brokers and the tier know what belongs to the old incarnation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from ...protocol import CLUSTER_METADATA_TOPIC, ErrorCode, KafkaError, check_topic_name
from ...protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from ..image.image import TOPIC_RESOURCE
from ..records import ConfigRecord, MetadataRecord, RemoveTopicRecord, TopicRecord
from .assignments import check_assignment, new_partitions
from .config import check_topic_configs
from .describe_configs import topic_configs
from .placement import Placer, placer_for
from .state import ControllerResult, ControllerState, find_duplicates

CLUSTER_DEFAULT: Final = -1
"""In place of a number of partitions or a replication factor."""


def create_topics(state: ControllerState, request: CreateTopicsRequest) -> ControllerResult[CreateTopicsResponse]:
    """CreateTopics."""
    records: list[MetadataRecord] = []
    placer = placer_for(state.config.placement, state.image.brokers.values(), state.random)
    twice = find_duplicates([topic.name for topic in request.topics])
    taken = {_collision_key(name): name for name in state.image.topic_ids} if request.topics else {}
    results = []
    budget = state.config.partitions_per_request_max
    for topic in request.topics:
        try:
            if topic.name in twice:
                raise KafkaError(ErrorCode.invalid_request, f"topic {topic.name!r} is asked for twice")
            created = _create(state, topic, placer, taken, budget)
            state.charge(len(created.assignments))
        except KafkaError as error:
            results.append(_refused(topic.name, error))
            continue
        taken[_collision_key(topic.name)] = topic.name
        budget -= len(created.assignments)
        records += created.records
        results.append(_created(topic.name, created))
    if request.validate_only:
        records = []
    return ControllerResult(records, CreateTopicsResponse(topics=tuple(results)))


class _Created:
    __slots__ = ("assignments", "configs", "records", "topic_id")

    def __init__(
        self,
        topic_id: UUID,
        assignments: Sequence[tuple[int, ...]],
        configs: Mapping[str, str],
        records: Sequence[MetadataRecord],
    ) -> None:
        self.topic_id = topic_id
        self.assignments = assignments
        self.configs = configs
        self.records = records


def _create(
    state: ControllerState, topic: CreatableTopic, placer: Placer, taken: Mapping[str, str], budget: int
) -> _Created:
    _check_name(state, topic.name, taken)
    configs = _configs(state, topic)
    assignments = _given(state, topic) if topic.assignments else _placed(state, topic, placer, budget)
    _check_budget(len(assignments), budget, state.config.partitions_per_request_max)
    topic_id = state.new_uuid()
    records: list[MetadataRecord] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=key, value=value)
        for key, value in sorted(configs.items())
    ]
    records += new_partitions(state, topic_id, 0, assignments)
    return _Created(topic_id, assignments, configs, records)


def _check_name(state: ControllerState, name: str, taken: Mapping[str, str]) -> None:
    try:
        check_topic_name(name)
    except ValueError as error:
        raise KafkaError(ErrorCode.invalid_topic_exception, str(error)) from error
    if name == CLUSTER_METADATA_TOPIC:
        raise KafkaError(ErrorCode.invalid_request, f"topic {name!r} is the controllers' own log: it cannot be made")
    if name in state.image.topic_ids:
        raise KafkaError(ErrorCode.topic_already_exists, f"topic {name!r} exists already")
    other = taken.get(_collision_key(name))
    if other is not None:
        raise KafkaError(
            ErrorCode.invalid_topic_exception,
            f"topic name {name!r} differs from {other!r} only in '.' and '_', which metrics do not distinguish",
        )


def _collision_key(name: str) -> str:
    return name.replace(".", "_")


def _configs(state: ControllerState, topic: CreatableTopic) -> dict[str, str]:
    keys = [entry.name for entry in topic.configs]
    twice = find_duplicates(keys)
    if twice:
        raise KafkaError(ErrorCode.invalid_config, f"topic {topic.name!r}: configs {sorted(twice)} are given twice")
    configs = {entry.name: entry.value for entry in topic.configs if entry.value is not None}
    check_topic_configs(state.config, configs)
    return configs


def _given(state: ControllerState, topic: CreatableTopic) -> list[tuple[int, ...]]:
    if topic.replication_factor != CLUSTER_DEFAULT or topic.num_partitions != CLUSTER_DEFAULT:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"topic {topic.name!r}: give either assignments, or numbers of partitions and replicas (then -1 here)",
        )
    by_number = {item.partition_index: item.broker_ids for item in topic.assignments}
    if len(by_number) != len(topic.assignments) or sorted(by_number) != list(range(len(by_number))):
        raise KafkaError(
            ErrorCode.invalid_replica_assignment,
            f"topic {topic.name!r}: partitions {sorted(item.partition_index for item in topic.assignments)} must"
            " be 0, 1, 2 and so on, each once",
        )
    factor = len(by_number[0])
    for number, replicas in sorted(by_number.items()):
        check_assignment(state, replicas, factor, f"{topic.name}-{number}")
    return [by_number[number] for number in range(len(by_number))]


def _placed(state: ControllerState, topic: CreatableTopic, placer: Placer, budget: int) -> list[tuple[int, ...]]:
    count, factor = topic.num_partitions, topic.replication_factor
    if count < CLUSTER_DEFAULT or count == 0:
        raise KafkaError(
            ErrorCode.invalid_partitions, f"topic {topic.name!r}: {count} partitions; at least 1 is needed"
        )
    if factor < CLUSTER_DEFAULT or factor == 0:
        raise KafkaError(
            ErrorCode.invalid_replication_factor, f"topic {topic.name!r}: replication factor {factor}; at least 1"
        )
    count = state.config.num_partitions if count == CLUSTER_DEFAULT else count
    factor = state.config.default_replication_factor if factor == CLUSTER_DEFAULT else factor
    _check_budget(count, budget, state.config.partitions_per_request_max)
    return [tuple(replicas) for replicas in placer.place(count, factor)]


def _check_budget(count: int, budget: int, maximum: int) -> None:
    if count > budget:
        raise KafkaError(
            ErrorCode.policy_violation, f"one request may create at most {maximum} partitions: use several requests"
        )


def _created(name: str, created: _Created) -> CreatableTopicResult:
    configs = tuple(
        CreatableTopicConfigs(
            name=config.name,
            value=config.value,
            read_only=config.is_read_only,
            config_source=int(config.source),
            is_sensitive=False,
        )
        for config in topic_configs(created.configs)
    )
    return CreatableTopicResult(
        name=name,
        topic_id=created.topic_id,
        error_message=None,
        num_partitions=len(created.assignments),
        replication_factor=len(created.assignments[0]),
        configs=configs,
    )


def _refused(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message)


def delete_topics(state: ControllerState, request: DeleteTopicsRequest) -> ControllerResult[DeleteTopicsResponse]:
    """DeleteTopics, by name or by id."""
    records: list[MetadataRecord] = []
    results: list[DeletableTopicResult] = []
    deleted: set[UUID] = set()
    for asked in request.topics:
        name, topic_id = asked.name, asked.topic_id
        try:
            found = _find(state, name, topic_id)
            if found in deleted:
                raise KafkaError(ErrorCode.invalid_request, f"topic {name or topic_id} is asked for twice")
            state.charge(len(state.image.topics[found].partitions))
        except KafkaError as error:
            results.append(_deleted(name, topic_id, error))
            continue
        deleted.add(found)
        records.append(RemoveTopicRecord(topic_id=found))
        results.append(_deleted(state.image.topics[found].name, found, None))
    return ControllerResult(records, DeleteTopicsResponse(responses=tuple(results)))


def _find(state: ControllerState, name: str | None, topic_id: UUID | None) -> UUID:
    if (name is None) == (topic_id is None):
        raise KafkaError(ErrorCode.invalid_request, "a topic goes by its name or by its id: give one of them")
    if topic_id is not None:
        if topic_id not in state.image.topics:
            raise KafkaError(ErrorCode.unknown_topic_id, f"no topic has the id {topic_id}")
        return topic_id
    found = state.image.topic_ids.get(name or "")
    if found is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"topic {name!r} does not exist")
    return found


def _deleted(name: str | None, topic_id: UUID | None, error: KafkaError | None) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name,
        topic_id=topic_id,
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
    )
