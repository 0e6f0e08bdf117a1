"""Operators make mistakes: what cannot be carried out is refused with Kafka's code for it, and changes nothing.

| mistake                                                    | code                   |
|------------------------------------------------------------|------------------------|
| a config of a topic that is unknown, or cannot be read     | INVALID_CONFIG         |
| something is appended to a config that is no list          | INVALID_CONFIG         |
| a feature that is unknown, or a level that no node has     | INVALID_UPDATE_VERSION |
| a quota that is unknown or negative; of a strange address  | INVALID_REQUEST        |
| quotas are looked for by a match that makes no sense       | INVALID_REQUEST        |
| as many partitions as there are                            | INVALID_PARTITIONS     |

What must not change are configs, features and quotas, of the metadata log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Final

from ....protocol import ErrorCode
from ....protocol.messages import Message, Request
from ....protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest
from ....protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from ....protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    ComponentData,
    DescribeClientQuotasRequest,
    OpData,
)
from ....protocol.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic
from ....protocol.net import KafkaClient
from ....protocol.wire import ResourceType
from ...judges.core.truth import ClusterTruth
from .asker import TIMEOUT_S, broker_addresses
from .controllers import codes_in

SET: Final = 0
APPEND: Final = 2
WRONG_CONFIGS: Final[Mapping[str, str]] = {
    "compression.gzip.level": "best",
    "compression.lz4.level": "99",
    "compression.type": "rar",
    "leader.replication.throttled.replicas": "0-1",
    "min.cleanable.dirty.ratio": "2",
    "retention.ms": "a week",
    "cleanup.policy": "forget",
}
"""What none of these can be."""
UNKNOWN_CONFIG: Final = "retention.msecs"
HIGHEST: Final = 32_767
"""A level that no feature has."""
EXACT: Final = 0
STRANGE: Final = 9
"""No match type of Kafka."""

Mistake = tuple[Request[Message], ErrorCode]


def of_configs(topic: str) -> Iterator[Mistake]:
    """Yield wrong changes of a topic's configs."""
    for key, value in WRONG_CONFIGS.items():
        yield _altered(topic, key, value, SET), ErrorCode.invalid_config
    yield _altered(topic, UNKNOWN_CONFIG, "1", SET), ErrorCode.invalid_config
    yield _altered(topic, "retention.ms", "1", APPEND), ErrorCode.invalid_config


def _altered(topic: str, key: str, value: str, operation: int) -> Request[Message]:
    entry = IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=operation, value=value)
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=ResourceType.TOPIC, resource_name=topic, configs=(entry,)
    )
    return IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


def of_features() -> Iterator[Mistake]:
    """Yield levels that cannot be."""
    for feature in ("nothing.version", "transaction.version"):
        update = FeatureUpdateKey(feature=feature, max_version_level=HIGHEST)
        yield UpdateFeaturesRequest(feature_updates=(update,)), ErrorCode.invalid_update_version


def of_quotas() -> Iterator[Mistake]:
    """Yield quotas that cannot be, and look-ups that make no sense."""
    for kind, name, key, value in (
        ("user", "looks", "bytes_of_luck", 1.0),
        ("user", "looks", "consumer_byte_rate", -1.0),
        ("ip", "here", "connection_creation_rate", 1.0),
    ):
        entry = AlterClientQuotasRequestEntryData(
            entity=(AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name),),
            ops=(OpData(key=key, value=value, remove=False),),
        )
        yield AlterClientQuotasRequest(entries=(entry,), validate_only=False), ErrorCode.invalid_request
    for match_type, match in ((STRANGE, None), (EXACT, None)):
        component = ComponentData(entity_type="user", match_type=match_type, match=match)
        yield DescribeClientQuotasRequest(components=(component,), strict=True), ErrorCode.invalid_request


def of_partitions(topic: str, count: int) -> Iterator[Mistake]:
    """Yield a topic that would have as many partitions as it has, and one that is not there."""
    for name, wanted, code in (
        (topic, count, ErrorCode.invalid_partitions),
        ("nowhere", 2, ErrorCode.unknown_topic_or_partition),
    ):
        asked = CreatePartitionsTopic(name=name, count=wanted, assignments=None)
        yield CreatePartitionsRequest(topics=(asked,), timeout_ms=1_000, validate_only=False), code


class Mistakes:
    """`look` asks for each of them once."""

    def __init__(self, truth: ClusterTruth, rng: Random) -> None:
        self._truth = truth
        self._rng = rng

    async def look(self) -> list[str]:
        """Make each mistake once, at any broker."""
        topic = self._rng.choice([each for _, each in sorted(self._truth.image.topics.items())])
        mistakes = [
            *of_configs(topic.name),
            *of_features(),
            *of_quotas(),
            *of_partitions(topic.name, len(topic.partitions)),
        ]
        before, wrong = self._state(), list[str]()
        client = KafkaClient(client_id="makes-mistakes", random=self._rng)
        try:
            for request, code in mistakes:
                answer = await client.send(
                    self._rng.choice(broker_addresses(self._truth)), request, timeout_s=TIMEOUT_S
                )
                codes = set(codes_in(answer))
                if code not in codes or not codes <= {code, ErrorCode.none}:
                    wrong.append(f"{request} is answered by {sorted(each.name for each in codes)}, not {code.name}")
        finally:
            await client.close()
        return wrong if self._state() == before else [*wrong, "configs, features or quotas have changed by mistakes"]

    def _state(self) -> tuple[object, ...]:
        image = self._truth.image
        topics = {name: (dict(each.configs), len(each.partitions)) for name, each in image.topics.items()}
        return topics, dict(self._truth.metadata.features), dict(image.quotas.items())
