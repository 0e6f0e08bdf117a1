"""Operators ask controllers, too (KIP-919).

| asked of                                    | what must hold                                                       |
|---------------------------------------------|----------------------------------------------------------------------|
| each controller: DescribeConfigs            | the configs that the metadata have, and its own                      |
| each that is not the active one: all writes | NOT_CONTROLLER, wherever the answer has a code                       |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Final

from ....broker.cluster import ClusterImage
from ....protocol import ErrorCode
from ....protocol.messages import Message, Request
from ....protocol.messages.brokers import AllocateProducerIdsRequest, UnregisterBrokerRequest
from ....protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest
from ....protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from ....protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from ....protocol.messages.security import (
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    ScramCredentialDeletion,
)
from ....protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from ....protocol.net import Address, KafkaClient
from ....protocol.wire import ResourceType
from ...judges.core.clients.looks import wrong_configs
from ...judges.core.truth import ClusterTruth
from .acls import ACL, of_its_principal
from .asker import TIMEOUT_S

NOWHERE: Final = "nowhere"
"""The topic, user and feature of requests that are not carried out."""
ABSENT_BROKER: Final = 999
Resources = Sequence[tuple[ResourceType, str, Mapping[str, str]]]
"""What has configs, and what they are."""

WRITES: Final[Sequence[Request[Message]]] = (
    CreateTopicsRequest(
        topics=(CreatableTopic(name=NOWHERE, num_partitions=1, replication_factor=1, assignments=(), configs=()),)
    ),
    DeleteTopicsRequest(timeout_ms=1_000, topics=(DeleteTopicState(name=NOWHERE, topic_id=None),)),
    CreatePartitionsRequest(
        topics=(CreatePartitionsTopic(name=NOWHERE, count=2, assignments=None),), timeout_ms=1_000, validate_only=False
    ),
    AlterPartitionReassignmentsRequest(topics=()),
    ListPartitionReassignmentsRequest(timeout_ms=1_000, topics=None),
    ElectLeadersRequest(topic_partitions=()),
    AlterConfigsRequest(
        resources=(
            AlterConfigsRequestAlterConfigsResource(
                resource_type=ResourceType.TOPIC, resource_name=NOWHERE, configs=()
            ),
        ),
        validate_only=False,
    ),
    IncrementalAlterConfigsRequest(
        resources=(
            IncrementalAlterConfigsRequestAlterConfigsResource(
                resource_type=ResourceType.TOPIC, resource_name=NOWHERE, configs=()
            ),
        ),
        validate_only=False,
    ),
    UpdateFeaturesRequest(feature_updates=(FeatureUpdateKey(feature=NOWHERE, max_version_level=1),)),
    UnregisterBrokerRequest(broker_id=ABSENT_BROKER),
    AllocateProducerIdsRequest(broker_id=ABSENT_BROKER),
    AlterClientQuotasRequest(
        entries=(
            AlterClientQuotasRequestEntryData(
                entity=(AlterClientQuotasRequestEntityData(entity_type="user", entity_name=NOWHERE),),
                ops=(OpData(key="request_percentage", value=1.0, remove=False),),
            ),
        ),
        validate_only=False,
    ),
    AlterUserScramCredentialsRequest(deletions=(ScramCredentialDeletion(name=NOWHERE, mechanism=1),), upsertions=()),
    CreateAclsRequest(creations=(ACL,)),
    DeleteAclsRequest(filters=(DeleteAclsFilter(**of_its_principal()),)),
)
"""What only the active controller decides, of things that are not there."""


def configured(image: ClusterImage) -> Resources:
    """Return topics, groups, and what all brokers have."""
    resources = [(ResourceType.TOPIC, topic.name, topic.configs) for topic in image.topics.values()]
    resources += [(ResourceType.GROUP, name, configs) for name, configs in image.group_configs.items()]
    return [*resources, (ResourceType.BROKER, "", image.broker_configs.get("default", {}))]


def describe(resources: Resources) -> DescribeConfigsRequest:
    """Return the request for all of their configs."""
    asked = tuple(
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        for kind, name, _ in resources
    )
    return DescribeConfigsRequest(resources=asked, include_synonyms=True, include_documentation=True)


def wrong_descriptions(results: Sequence[DescribeConfigsResult], resources: Resources) -> list[str]:
    """Return what is said wrongly of resources, in their order."""
    pairs = zip(results, resources, strict=True)
    return [text for result, (_, _, configs) in pairs for text in wrong_configs(result, configs)]


def codes_in(answer: object) -> Iterator[ErrorCode]:
    """Yield all error codes of an answer, however deep."""
    if isinstance(answer, ErrorCode):
        yield answer
    elif isinstance(answer, tuple):
        for each in answer:
            yield from codes_in(each)
    elif isinstance(answer, Message):
        for name in answer.__dataclass_fields__:
            yield from codes_in(getattr(answer, name))


class ControllersLook:
    """`addresses` are those of all controllers, by id; `active` is the id of the one that leads."""

    def __init__(
        self,
        truth: ClusterTruth,
        addresses: Callable[[], Mapping[int, Address]],
        active: Callable[[], int | None],
        rng: Random,
    ) -> None:
        self._truth = truth
        self._addresses = addresses
        self._active = active
        self._rng = rng

    async def look(self) -> list[str]:
        """Ask each for all configs, and for its own; and the others than the active one for what they may not do."""
        wrong: list[str] = []
        client = KafkaClient(client_id="looks-at-controllers", random=self._rng)
        try:
            for node_id, address in self._addresses().items():
                found = await self._wrong_configs(client, node_id, address)
                if node_id != self._active():
                    found += await self._wrong_refusals(client, address)
                wrong += [f"controller {node_id}: {text}" for text in found]
        finally:
            await client.close()
        return wrong

    async def _wrong_configs(self, client: KafkaClient, node_id: int, address: Address) -> list[str]:
        resources = configured(self._truth.image)
        answer = await client.send(address, describe(resources), timeout_s=TIMEOUT_S)
        wrong = wrong_descriptions(answer.results, resources)
        own = describe([(ResourceType.BROKER, str(node_id), {})])
        (found,) = (await client.send(address, own, timeout_s=TIMEOUT_S)).results
        if ("node.id", str(node_id)) not in {(each.name, each.value) for each in found.configs}:
            wrong.append(f"it describes itself as {found}")
        return wrong

    async def _wrong_refusals(self, client: KafkaClient, address: Address) -> list[str]:
        wrong: list[str] = []
        for request in WRITES:
            codes = set(codes_in(await client.send(address, request, timeout_s=TIMEOUT_S)))
            if codes != {ErrorCode.not_controller}:
                wrong.append(f"{type(request).__name__} is answered by {sorted(each.name for each in codes)}")
        return wrong
