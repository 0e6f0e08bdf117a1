"""CreateTopics and DeleteTopics, where the cluster view allows them; each topic is done, or refused, by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from ...log.config import LogConfig
from ...protocol.dispatch import RequestContext
from ...protocol.errors import ErrorCode, KafkaError
from ..cluster_view import ClusterView, NewTopic, TopicImage
from ..config import BrokerConfig
from ..topic_config import DescribedConfig, config_in_force, describe_topic, log_defaults
from . import Plain

BROKER_DEFAULT = -1
"""In place of a number of partitions or a replication factor."""


class TopicHandlers:
    """Topics by way of the view; validates configs before anything is created."""

    def __init__(self, view: ClusterView, config: BrokerConfig) -> None:
        self._view = view
        self._config = config

    async def create_topics(self, _: RequestContext, request: Any) -> Plain:
        names = [topic.name for topic in request.topics]
        results = []
        for topic in request.topics:
            try:
                if names.count(topic.name) > 1:
                    raise KafkaError(ErrorCode.invalid_request, f"topic {topic.name!r} is asked for twice")
                created = await self._create(topic, validate_only=request.validate_only)
            except KafkaError as error:
                results.append(_refused(topic.name, error))
            except OSError as error:
                results.append(_refused(topic.name, KafkaError(ErrorCode.unknown_server_error, str(error))))
            else:
                results.append(self._created(topic, created))
        return {"topics": results}

    async def _create(self, topic: Any, *, validate_only: bool) -> TopicImage | None:
        if topic.name in self._view.image.topics:
            raise KafkaError(ErrorCode.topic_already_exists, f"topic {topic.name!r} exists already")
        configs = {entry.name: entry.value for entry in topic.configs if entry.value is not None}
        self._check_configs(configs)
        new = NewTopic(
            name=topic.name,
            partitions=self._config.num_partitions if topic.num_partitions == BROKER_DEFAULT else topic.num_partitions,
            replication_factor=(
                self._config.default_replication_factor
                if topic.replication_factor == BROKER_DEFAULT
                else topic.replication_factor
            ),
            assignments=_assignments(topic),
            configs=configs,
        )
        return None if validate_only else await self._view.create_topic(new)

    def _check_configs(self, configs: Mapping[str, str]) -> None:
        checked = LogConfig.from_topic_configs(configs, log_defaults(config_in_force(self._config, self._view.image)))
        if checked.remote_storage_enable and not self._config.remote_log_storage_system_enable:
            raise KafkaError(
                ErrorCode.invalid_config,
                "remote.storage.enable=true needs remote.log.storage.system.enable=true on the brokers",
            )

    def _created(self, topic: Any, created: TopicImage | None) -> Plain:
        described: list[DescribedConfig] = []
        if created is not None:
            described = describe_topic(created.configs, self._config, self._view.image)
        partitions = created.partitions if created else {}
        return {
            "name": topic.name,
            "topic_id": created.topic_id if created else None,
            "error_code": ErrorCode.none,
            "error_message": None,
            "num_partitions": len(partitions) if created else topic.num_partitions,
            "replication_factor": len(partitions[0].replicas) if created else topic.replication_factor,
            "configs": tuple(
                {
                    "name": config.name,
                    "value": config.value,
                    "read_only": config.is_read_only,
                    "config_source": int(config.source),
                    "is_sensitive": False,
                }
                for config in described
            ),
        }

    async def delete_topics(self, _: RequestContext, request: Any) -> Plain:
        asked: list[tuple[str | None, UUID | None]]
        if hasattr(request, "topic_names"):
            asked = [(name, None) for name in request.topic_names]
        else:
            asked = [(topic.name, topic.topic_id) for topic in request.topics]
        results = []
        for name, topic_id in asked:
            error, message = ErrorCode.none, None
            found = name if topic_id is None else self._view.image.topic_names.get(topic_id)
            try:
                if found is None:
                    raise KafkaError(ErrorCode.unknown_topic_id, f"no topic has the id {topic_id}")
                await self._view.delete_topic(found)
            except KafkaError as refusal:
                error, message = refusal.code, refusal.message
            except OSError as failure:
                error, message = ErrorCode.unknown_server_error, str(failure)
            results.append(
                {
                    "name": found,
                    "topic_id": topic_id,
                    "error_code": error,
                    "error_message": message,
                }
            )
        return {"responses": results}


def _assignments(topic: Any) -> tuple[tuple[int, ...], ...]:
    ordered = sorted(topic.assignments, key=lambda entry: int(entry.partition_index))
    if [entry.partition_index for entry in ordered] != list(range(len(ordered))):
        raise KafkaError(ErrorCode.invalid_replica_assignment, "partitions must be assigned from 0 on, without a gap")
    if ordered and (topic.num_partitions, topic.replication_factor) != (BROKER_DEFAULT, BROKER_DEFAULT):
        raise KafkaError(
            ErrorCode.invalid_request, "either assignments or numbers of partitions and replicas, not both"
        )
    return tuple(tuple(entry.broker_ids) for entry in ordered)


def _refused(name: str, error: KafkaError) -> Plain:
    return {
        "name": name,
        "topic_id": None,
        "error_code": error.code,
        "error_message": error.message,
        "configs": (),
    }
