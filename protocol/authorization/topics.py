"""Requests that are allowed or denied topic by topic.

A topic that the sender may not describe is not shown to exist: by name the answer is TOPIC_AUTHORIZATION_FAILED whether
it exists or not, by id it is UNKNOWN_TOPIC_ID, and a list of all topics lacks it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from uuid import UUID

from ...security import AclOperation, ResourceType
from ..errors import ErrorCode, KafkaError
from ..fetch.messages import FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopic, FetchTopicResponse
from ..messages import cluster, offsets, share_records, topics
from ..requests import is_named_rightly
from ..wire.produce import ProducePartitionResponse, ProduceRequest, ProduceResponse, ProduceTopic, ProduceTopicResponse
from .access import Access, GateOf, Next, each_item, split

FAILED = ErrorCode.topic_authorization_failed
GROUP_FAILED = ErrorCode.group_authorization_failed
GROUP_MESSAGE = "Group authorization failed."
CONSUMER = -1


def _offsets_denied(access: Access, topic: offsets.ListOffsetsTopic) -> offsets.ListOffsetsTopicResponse | None:
    if access.may_topic(AclOperation.DESCRIBE, topic.name):
        return None
    return offsets.ListOffsetsTopicResponse(
        name=topic.name,
        partitions=tuple(
            offsets.ListOffsetsPartitionResponse(partition_index=item.partition_index, error_code=FAILED)
            for item in topic.partitions
        ),
    )


list_offsets: Final[GateOf[offsets.ListOffsetsRequest, offsets.ListOffsetsResponse]] = each_item(
    lambda request: request.topics,
    lambda request, allowed: replace(request, topics=allowed),
    _offsets_denied,
    lambda response, denied: replace(response, topics=(*response.topics, *denied)),
)
"""Describe on each topic."""


def _epochs_denied(access: Access, topic: offsets.OffsetForLeaderTopic) -> offsets.OffsetForLeaderTopicResult | None:
    if access.may_topic(AclOperation.DESCRIBE, topic.topic):
        return None
    return offsets.OffsetForLeaderTopicResult(
        topic=topic.topic,
        partitions=tuple(
            offsets.EpochEndOffset(partition=item.partition, error_code=FAILED) for item in topic.partitions
        ),
    )


offsets_for_leader_epochs: Final[GateOf[offsets.OffsetForLeaderEpochRequest, offsets.OffsetForLeaderEpochResponse]] = (
    each_item(
        lambda request: request.topics,
        lambda request, allowed: replace(request, topics=allowed),
        _epochs_denied,
        lambda response, denied: replace(response, topics=(*response.topics, *denied)),
        is_exempt=lambda access: access.may_cluster(AclOperation.CLUSTER_ACTION, is_logged=False),
    )
)
"""ClusterAction, or Describe on each topic."""


def _deletion_denied(access: Access, topic: offsets.DeleteRecordsTopic) -> offsets.DeleteRecordsTopicResult | None:
    if access.may_topic(AclOperation.DELETE, topic.name):
        return None
    return offsets.DeleteRecordsTopicResult(
        name=topic.name,
        partitions=tuple(
            offsets.DeleteRecordsPartitionResult(
                partition_index=item.partition_index, low_watermark=-1, error_code=FAILED
            )
            for item in topic.partitions
        ),
    )


delete_records: Final[GateOf[offsets.DeleteRecordsRequest, offsets.DeleteRecordsResponse]] = each_item(
    lambda request: request.topics,
    lambda request, allowed: replace(request, topics=allowed),
    _deletion_denied,
    lambda response, denied: replace(response, topics=(*response.topics, *denied)),
)
"""Delete on each topic."""


def _growth_denied(access: Access, topic: topics.CreatePartitionsTopic) -> topics.CreatePartitionsTopicResult | None:
    if access.may_topic(AclOperation.ALTER, topic.name):
        return None
    return topics.CreatePartitionsTopicResult(name=topic.name, error_code=FAILED)


create_partitions: Final[GateOf[topics.CreatePartitionsRequest, topics.CreatePartitionsResponse]] = each_item(
    lambda request: request.topics,
    lambda request, allowed: replace(request, topics=allowed),
    _growth_denied,
    lambda response, denied: replace(response, results=(*response.results, *denied)),
)
"""Alter on each topic."""


async def create_topics(
    access: Access,
    handler: Next[topics.CreateTopicsRequest, topics.CreateTopicsResponse],
    request: topics.CreateTopicsRequest,
) -> topics.CreateTopicsResponse:
    """Create on the cluster, or on each topic. Configs of a new topic are shown to those that may describe them."""
    may_all = access.may_cluster(AclOperation.CREATE, is_logged=False)
    allowed, others = split(request.topics, lambda topic: may_all or access.may_topic(AclOperation.CREATE, topic.name))
    response = await handler(access.context, replace(request, topics=allowed))
    shown = tuple(_with_configs(access, result) for result in response.topics)
    denied = tuple(
        topics.CreatableTopicResult(name=topic.name, error_code=FAILED, error_message="Authorization failed.")
        for topic in others
    )
    return replace(response, topics=(*shown, *denied))


def _with_configs(access: Access, result: topics.CreatableTopicResult) -> topics.CreatableTopicResult:
    if result.error_code is not ErrorCode.none or access.may_topic(
        AclOperation.DESCRIBE_CONFIGS, result.name, is_logged=False
    ):
        return result
    return replace(result, topic_config_error_code=FAILED, num_partitions=-1, replication_factor=-1, configs=())


async def delete_topics(
    access: Access,
    handler: Next[topics.DeleteTopicsRequest, topics.DeleteTopicsResponse],
    request: topics.DeleteTopicsRequest,
) -> topics.DeleteTopicsResponse:
    """Delete on each topic. By id, the name is shown to those that may describe the topic."""
    allowed, others = split(
        request.topics, lambda topic: access.may_named(AclOperation.DELETE, topic.name, topic.topic_id)
    )
    response = await handler(access.context, replace(request, topics=allowed))
    return replace(response, responses=(*response.responses, *(_undeleted(access, topic) for topic in others)))


def _undeleted(access: Access, topic: topics.DeleteTopicState) -> topics.DeletableTopicResult:
    name = access.name_of(topic.name, topic.topic_id)
    is_shown = topic.name is not None or access.may_topic(AclOperation.DESCRIBE, name or "", is_logged=False)
    return topics.DeletableTopicResult(
        name=name if is_shown else None,
        topic_id=topic.topic_id,
        error_code=FAILED if is_shown or topic.topic_id is None else ErrorCode.unknown_topic_id,
    )


async def metadata(
    access: Access, handler: Next[cluster.MetadataRequest, cluster.MetadataResponse], request: cluster.MetadataRequest
) -> cluster.MetadataResponse:
    """Describe on each topic; what is authorized is reported where it is asked for."""
    if not is_named_rightly(request, access.context.api_version):
        return await handler(access.context, request)  # refused as a whole, whatever the sender's rights
    allowed, hidden = split(
        request.topics or (), lambda topic: access.may_named(AclOperation.DESCRIBE, topic.name, topic.topic_id)
    )
    asked = replace(request, topics=None if request.topics is None else allowed)
    response = await handler(access.context, asked)
    shown = [
        topic
        for topic in response.topics
        if request.topics is not None or access.may_topic(AclOperation.DESCRIBE, topic.name or "", is_logged=False)
    ]
    if request.include_topic_authorized_operations:
        shown = [_with_operations(access, topic) for topic in shown]
    response = replace(response, topics=(*shown, *map(_hidden, hidden)))
    if request.include_cluster_authorized_operations:
        response = replace(
            response, cluster_authorized_operations=access.operations(ResourceType.CLUSTER, "kafka-cluster")
        )
    return response


def _hidden(topic: cluster.MetadataRequestTopic) -> cluster.MetadataResponseTopic:
    if topic.name is None:
        return cluster.MetadataResponseTopic(
            error_code=ErrorCode.unknown_topic_id, name=None, topic_id=topic.topic_id, partitions=()
        )
    return cluster.MetadataResponseTopic(error_code=FAILED, name=topic.name, partitions=())


def _with_operations(access: Access, topic: cluster.MetadataResponseTopic) -> cluster.MetadataResponseTopic:
    if topic.error_code is not ErrorCode.none or topic.name is None:
        return topic
    return replace(topic, topic_authorized_operations=access.operations(ResourceType.TOPIC, topic.name))


async def produce(
    access: Access, handler: Next[ProduceRequest, ProduceResponse | None], request: ProduceRequest
) -> ProduceResponse | None:
    """Write on each topic, and on the transactional id. By id, a topic that may not be written is not named."""
    if request.transactional_id is not None and not access.may_transaction(
        AclOperation.WRITE, request.transactional_id
    ):
        code = ErrorCode.transactional_id_authorization_failed
        return ProduceResponse(topics=tuple(_unwritten(topic, code) for topic in request.topics))
    allowed, denied = split(
        request.topics, lambda topic: access.may_named(AclOperation.WRITE, topic.topic, topic.topic_id)
    )
    if not denied:
        return await handler(access.context, request)
    response = await handler(access.context, replace(request, topics=allowed))
    if response is None:  # acks=0: the connection ends, as for any refusal that cannot be answered
        raise KafkaError(FAILED, "Produce with acks=0 to a topic that may not be written")
    return replace(response, topics=(*response.topics, *(_unwritten(topic, FAILED) for topic in denied)))


def _unwritten(topic: ProduceTopic, code: ErrorCode) -> ProduceTopicResponse:
    partitions = tuple(ProducePartitionResponse(item.partition, code) for item in topic.partitions)
    return ProduceTopicResponse(partitions, topic.topic, topic.topic_id)


async def fetch(access: Access, handler: Next[FetchRequest, FetchResponse], request: FetchRequest) -> FetchResponse:
    """ClusterAction for replicas, Read on each topic for consumers. A session may ask for topics that its request does
    not name, so the handler asks about each topic that it looks at.
    """
    if request.replica_id != CONSUMER:
        if access.may_cluster(AclOperation.CLUSTER_ACTION):
            return await handler(access.context, request)
        return unread(request.topics, ())
    return await handler(replace(access.context, rights=ReadableTopics(access)), request)


class ReadableTopics:
    """What the sender of one Fetch may read; each topic is decided once."""

    def __init__(self, access: Access) -> None:
        context = access.context
        self.version: object = (context.principal, context.client_host, access.authorizer.revision)
        self._access = access
        self._decided: dict[str | UUID, bool] = {}

    def may_read(self, topic: str | UUID) -> bool:
        """Return whether the sender has Read on the topic, or there is none."""
        decided = self._decided.get(topic)
        if decided is None:
            name = topic if isinstance(topic, str) else self._access.topic_name(topic)
            decided = self._decided[topic] = name is None or self._access.may_topic(AclOperation.READ, name)
        return decided


def unread(denied: tuple[FetchTopic, ...], answered: tuple[FetchTopicResponse, ...]) -> FetchResponse:
    """Return what was answered, and a denial for each partition of the topics."""
    refused = (
        FetchTopicResponse(
            tuple(FetchPartitionResponse(item.partition, FAILED) for item in topic.partitions),
            topic.topic,
            topic.topic_id,
        )
        for topic in denied
    )
    return FetchResponse(topics=(*answered, *refused))


def fetch_of_controller(request: FetchRequest, code: ErrorCode) -> FetchResponse:
    """Deny a fetch of the metadata log."""
    return FetchResponse(topics=(), error_code=code)


async def share_fetch(
    access: Access,
    handler: Next[share_records.ShareFetchRequest, share_records.ShareFetchResponse],
    request: share_records.ShareFetchRequest,
) -> share_records.ShareFetchResponse:
    """Read on the group, and on each topic; the handler asks about the topics, as for a Fetch."""
    if access.may_group(AclOperation.READ, request.group_id or ""):
        return await handler(replace(access.context, rights=ReadableTopics(access)), request)
    return share_records.ShareFetchResponse(
        error_code=GROUP_FAILED,
        error_message=GROUP_MESSAGE,
        acquisition_lock_timeout_ms=0,
        responses=(),
        node_endpoints=(),
    )


async def share_acknowledge(
    access: Access,
    handler: Next[share_records.ShareAcknowledgeRequest, share_records.ShareAcknowledgeResponse],
    request: share_records.ShareAcknowledgeRequest,
) -> share_records.ShareAcknowledgeResponse:
    """Read on the group, and on each topic."""
    if access.may_group(AclOperation.READ, request.group_id or ""):
        return await handler(replace(access.context, rights=ReadableTopics(access)), request)
    return share_records.ShareAcknowledgeResponse(
        error_code=GROUP_FAILED, error_message=GROUP_MESSAGE, responses=(), node_endpoints=()
    )
