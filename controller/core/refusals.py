"""Answers of a controller that does not decide: not the active one, too busy, or stopped in between.

The code is where each API has one: for the whole response, or for each thing that was asked for. Whoever gets
NOT_CONTROLLER asks another controller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode, KafkaError
from .state import Plain

Refuse = Callable[[Any, ErrorCode, str], Plain]


def refusal(api: ApiKey, request: Any, error: KafkaError) -> Plain:
    """The plain response that says so."""
    return _REFUSALS[api](request, error.code, error.message)


def _whole(**others: Any) -> Refuse:
    return lambda _, code, message: {"error_code": code, "error_message": message, **others}


def _bare(**others: Any) -> Refuse:
    return lambda _request, code, _message: {"error_code": code, **others}


def _create_topics(request: Any, code: ErrorCode, message: str) -> Plain:
    return {
        "topics": [
            {"name": topic.name, "topic_id": None, "error_code": code, "error_message": message, "configs": []}
            for topic in request.topics
        ]
    }


def _delete_topics(request: Any, code: ErrorCode, message: str) -> Plain:
    if hasattr(request, "topic_names"):
        asked = [(name, None) for name in request.topic_names]
    else:
        asked = [(topic.name, topic.topic_id) for topic in request.topics]
    return {
        "responses": [
            {"name": name, "topic_id": topic_id, "error_code": code, "error_message": message}
            for name, topic_id in asked
        ]
    }


def _create_partitions(request: Any, code: ErrorCode, message: str) -> Plain:
    return {"results": [{"name": topic.name, "error_code": code, "error_message": message} for topic in request.topics]}


def _configs(request: Any, code: ErrorCode, message: str) -> Plain:
    return {
        "responses": [
            {
                "error_code": code,
                "error_message": message,
                "resource_type": resource.resource_type,
                "resource_name": resource.resource_name,
            }
            for resource in request.resources
        ]
    }


_REFUSALS: Final[Mapping[ApiKey, Refuse]] = {
    ApiKey.BROKER_REGISTRATION: _bare(broker_epoch=-1),
    ApiKey.BROKER_HEARTBEAT: _bare(should_shut_down=False),
    ApiKey.UNREGISTER_BROKER: _whole(),
    ApiKey.CONTROLLER_REGISTRATION: _whole(),
    ApiKey.ALTER_PARTITION: _bare(topics=[]),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: _bare(directories=[]),
    ApiKey.ALLOCATE_PRODUCER_IDS: _bare(producer_id_start=-1, producer_id_len=0),
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _whole(responses=[]),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _whole(topics=[]),
    ApiKey.ELECT_LEADERS: _bare(replica_election_results=[]),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs,
    ApiKey.ALTER_CONFIGS: _configs,
    ApiKey.UPDATE_FEATURES: _whole(results=[]),
}
