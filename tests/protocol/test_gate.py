"""The gate: each API's row, allowed and denied, and that a denied request never reaches its handler."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.authorization.gate import for_brokers_only, guarded
from tierfetch.protocol.authorization.rows import PAGE, ROWS, page
from tierfetch.protocol.codec import write_response
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.fetch.messages import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tierfetch.protocol.messages import brokers, cluster, groups, offsets, producers, security, topics
from tierfetch.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from tierfetch.protocol.net.dispatch import RequestContext
from tierfetch.protocol.wire.produce import ProducePartition, ProduceRequest, ProduceResponse, ProduceTopic
from tierfetch.security.authorizer import AUDIT_LOGGER, LINES_PER_S, StandardAuthorizer
from tierfetch.security.core.acl import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AclRules,
    PatternType,
    Resource,
    ResourcePattern,
    ResourceType,
)
from tierfetch.security.core.acls import Acls
from tierfetch.security.principal import KafkaPrincipal
from tierfetch.tests.broker.requests import context_of

Op, Kind = AclOperation, ResourceType
ALICE = KafkaPrincipal("User", "alice")
OPEN, SECRET = UUID(int=1), UUID(int=2)
NAMES = {OPEN: "open", SECRET: "secret"}
CLUSTER = (Kind.CLUSTER, "kafka-cluster")


ANSWERED = "answered"


class Listener:
    """Alice's requests to handlers that record what they get and answer `answer`."""

    def __init__(self, *rights: tuple[AclOperation, ResourceType, str]) -> None:
        acls = Acls()
        for number, (operation, kind, name) in enumerate(rights):
            pattern = ResourcePattern(kind, name, PatternType.LITERAL)
            acls.put(UUID(int=number), AclBinding(pattern, "User:alice", "*", operation, AclPermissionType.ALLOW))
        self.acls = acls
        self.now_s = 0.0
        self.authorizer = StandardAuthorizer(AclRules(), lambda: acls, lambda: self.now_s)
        self.reached: list[Any] = []
        self.contexts: list[RequestContext] = []

    async def ask(self, api: ApiKey, request: Any, answer: Any, *, is_controller: bool = False) -> Any:
        async def handle(context: RequestContext, reached: Any) -> Any:
            self.contexts.append(context)
            self.reached.append(reached)
            return answer

        (handler,) = guarded({api: handle}, self.authorizer, NAMES.get, is_controller=is_controller).values()
        context = replace(context_of(api, api.max_version), principal=ALICE)
        response = await handler(context, request)
        if response != ANSWERED:
            write_response(api, api.max_version, 1, response)
        return response


def test_every_api_has_a_row_and_the_page_says_so() -> None:
    assert set(ROWS) == set(ApiKey)
    assert PAGE.read_text() == page()


DENIED = ErrorCode.cluster_authorization_failed
ACL = {
    "resource_type": 2,
    "resource_name": "t",
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
FILTER: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


@pytest.mark.parametrize(
    ("api", "request_", "needs", "codes"),
    [
        (
            ApiKey.CREATE_ACLS,
            security.CreateAclsRequest(creations=(security.AclCreation(**ACL),)),
            Op.ALTER,
            lambda response: [item.error_code for item in response.results],
        ),
        (
            ApiKey.DELETE_ACLS,
            security.DeleteAclsRequest(filters=(security.DeleteAclsFilter(**FILTER),)),
            Op.ALTER,
            lambda response: [item.error_code for item in response.filter_results],
        ),
        (
            ApiKey.DESCRIBE_ACLS,
            security.DescribeAclsRequest(**FILTER),
            Op.DESCRIBE,
            lambda response: [response.error_code],
        ),
        (
            ApiKey.ALLOCATE_PRODUCER_IDS,
            brokers.AllocateProducerIdsRequest(broker_id=1),
            Op.CLUSTER_ACTION,
            lambda response: [response.error_code],
        ),
        (
            ApiKey.UNREGISTER_BROKER,
            brokers.UnregisterBrokerRequest(broker_id=1),
            Op.ALTER,
            lambda item: [item.error_code],
        ),
        (
            ApiKey.BROKER_HEARTBEAT,
            brokers.BrokerHeartbeatRequest(
                broker_id=1, current_metadata_offset=1, want_fence=False, want_shut_down=False
            ),
            Op.CLUSTER_ACTION,
            lambda response: [response.error_code],
        ),
        (
            ApiKey.ELECT_LEADERS,
            topics.ElectLeadersRequest(
                topic_partitions=(topics.ElectLeadersRequestTopicPartitions(topic="t", partitions=(0,)),)
            ),
            Op.ALTER,
            lambda response: [response.error_code],
        ),
        (
            ApiKey.WRITE_TXN_MARKERS,
            producers.WriteTxnMarkersRequest(
                markers=(
                    producers.WritableTxnMarker(
                        producer_id=1,
                        producer_epoch=0,
                        transaction_result=True,
                        coordinator_epoch=0,
                        topics=(producers.WritableTxnMarkerTopic(name="open", partition_indexes=(0,)),),
                    ),
                )
            ),
            Op.CLUSTER_ACTION,
            lambda response: [response.markers[0].topics[0].partitions[0].error_code],
        ),
        (
            ApiKey.INIT_PRODUCER_ID,
            producers.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1),
            Op.IDEMPOTENT_WRITE,
            lambda response: [response.error_code],
        ),
    ],
    ids=lambda value: value.name if isinstance(value, ApiKey) else "",
)
async def test_a_request_about_the_cluster_is_denied_as_a_whole(
    api: ApiKey, request_: Any, needs: AclOperation, codes: Callable[[Any], list[ErrorCode]]
) -> None:
    others = set(Op) - {needs, Op.ALL, Op.ANY, Op.UNKNOWN}
    if api is ApiKey.WRITE_TXN_MARKERS:
        others -= {Op.ALTER}
    if needs is Op.DESCRIBE:
        others -= {Op.READ, Op.WRITE, Op.ALTER, Op.DELETE}
    listener = Listener(*((operation, *CLUSTER) for operation in others))
    assert codes(await listener.ask(api, request_, None)) == [DENIED]
    assert listener.reached == []
    allowed = Listener((needs, *CLUSTER))
    assert await allowed.ask(api, request_, ANSWERED) == ANSWERED
    assert allowed.reached == [request_]


TOPIC_ROWS = [
    (
        ApiKey.LIST_OFFSETS,
        offsets.ListOffsetsRequest(
            replica_id=-1,
            topics=tuple(
                offsets.ListOffsetsTopic(
                    name=name, partitions=(offsets.ListOffsetsPartition(partition_index=0, timestamp=-1),)
                )
                for name in ("open", "secret")
            ),
        ),
        Op.DESCRIBE,
        offsets.ListOffsetsResponse(topics=()),
    ),
    (
        ApiKey.DELETE_RECORDS,
        offsets.DeleteRecordsRequest(
            timeout_ms=1,
            topics=tuple(
                offsets.DeleteRecordsTopic(
                    name=name, partitions=(offsets.DeleteRecordsPartition(partition_index=0, offset=1),)
                )
                for name in ("open", "secret")
            ),
        ),
        Op.DELETE,
        offsets.DeleteRecordsResponse(topics=()),
    ),
    (
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        offsets.OffsetForLeaderEpochRequest(
            topics=tuple(
                offsets.OffsetForLeaderTopic(
                    topic=name, partitions=(offsets.OffsetForLeaderPartition(partition=0, leader_epoch=1),)
                )
                for name in ("open", "secret")
            )
        ),
        Op.DESCRIBE,
        offsets.OffsetForLeaderEpochResponse(topics=()),
    ),
]


@pytest.mark.parametrize(("api", "request_", "needs", "answer"), TOPIC_ROWS, ids=lambda value: str(value)[:20])
async def test_each_topic_is_allowed_or_denied_by_itself(api: ApiKey, request_: Any, needs: Any, answer: Any) -> None:
    listener = Listener((needs, Kind.TOPIC, "open"))
    response = await listener.ask(api, request_, answer)
    assert [len(reached.topics) for reached in listener.reached] == [1]
    (denied,) = response.topics
    assert denied.partitions[0].error_code is ErrorCode.topic_authorization_failed


async def test_topics_that_may_not_be_described_do_not_seem_to_exist() -> None:
    described = [cluster.MetadataResponseTopic(name=name, topic_id=key, partitions=()) for key, name in NAMES.items()]
    listener = Listener((Op.READ, Kind.TOPIC, "open"))
    answer = cluster.MetadataResponse(brokers=(), topics=tuple(described))
    everything = await listener.ask(ApiKey.METADATA, cluster.MetadataRequest(topics=None), answer)
    assert [topic.name for topic in everything.topics] == ["open"]
    asked = (cluster.MetadataRequestTopic(name=None, topic_id=SECRET), cluster.MetadataRequestTopic(name="secret"))
    nothing = cluster.MetadataResponse(brokers=(), topics=())
    named = await listener.ask(ApiKey.METADATA, cluster.MetadataRequest(topics=asked), nothing)
    assert [(topic.name, topic.error_code) for topic in named.topics] == [
        (None, ErrorCode.unknown_topic_id),
        ("secret", ErrorCode.topic_authorization_failed),
    ]
    assert listener.reached[1].topics == ()


async def test_authorized_operations_are_reported_where_asked_for() -> None:
    listener = Listener((Op.READ, Kind.TOPIC, "open"), (Op.CREATE, *CLUSTER), (Op.ALL, Kind.GROUP, "g"))
    topic = cluster.MetadataResponseTopic(name="open", partitions=())
    request = cluster.MetadataRequest(topics=None, include_topic_authorized_operations=True)
    response = await listener.ask(ApiKey.METADATA, request, cluster.MetadataResponse(brokers=(), topics=(topic,)))
    assert response.topics[0].topic_authorized_operations == 1 << Op.READ | 1 << Op.DESCRIBE
    asked = cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)
    plain = cluster.DescribeClusterResponse(cluster_id="c", brokers=())
    described = await listener.ask(ApiKey.DESCRIBE_CLUSTER, asked, plain)
    assert described.cluster_authorized_operations == 1 << Op.CREATE
    group = groups.DescribeGroupsResponseDescribedGroup(
        group_id="g", group_state="", protocol_type="", protocol_data="", members=()
    )
    wanted = groups.DescribeGroupsRequest(groups=("g", "h"), include_authorized_operations=True)
    answer = await listener.ask(ApiKey.DESCRIBE_GROUPS, wanted, groups.DescribeGroupsResponse(groups=(group,)))
    all_of_group = sum(1 << item for item in (Op.READ, Op.DELETE, Op.DESCRIBE, Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS))
    assert [(item.group_id, item.error_code, item.authorized_operations) for item in answer.groups] == [
        ("g", ErrorCode.none, all_of_group),
        ("h", ErrorCode.group_authorization_failed, -(2**31)),
    ]


@pytest.mark.parametrize("by_id", [False, True])
async def test_produce_and_fetch_topic_by_topic(by_id: bool) -> None:
    listener = Listener((Op.WRITE, Kind.TOPIC, "open"), (Op.READ, Kind.TOPIC, "open"))
    named = [("", key) if by_id else (name, None) for key, name in NAMES.items()]
    written = tuple(ProduceTopic((ProducePartition(0, b""),), *item) for item in named)
    request = ProduceRequest(acks=1, timeout_ms=1, topics=written)
    response = await listener.ask(ApiKey.PRODUCE, request, ProduceResponse(topics=()))
    assert [topic.partitions[0].error_code for topic in response.topics] == [ErrorCode.topic_authorization_failed]
    assert listener.reached[0].topics == written[:1]
    read = tuple(FetchTopic((FetchPartition(0),), *item) for item in named)
    fetch = FetchRequest(max_wait_ms=1, min_bytes=1, topics=read, session_id=0, session_epoch=0)
    await listener.ask(ApiKey.FETCH, fetch, FetchResponse(topics=()))
    assert listener.reached[1] == fetch
    rights = listener.contexts[1].rights
    assert rights is not None
    assert [rights.may_read(key if by_id else name) for key, name in NAMES.items()] == [True, False]
    assert rights.may_read(UUID(int=99)), "what does not exist is not denied"


async def test_what_a_consumer_may_read_has_another_version_after_each_change() -> None:
    listener = Listener((Op.READ, Kind.TOPIC, "open"))
    fetch = FetchRequest(max_wait_ms=1, min_bytes=1, topics=())
    for _ in range(2):
        await listener.ask(ApiKey.FETCH, fetch, FetchResponse(topics=()))
    listener.acls.remove(UUID(int=0))
    await listener.ask(ApiKey.FETCH, fetch, FetchResponse(topics=()))
    first, second, third = [context.rights.version for context in listener.contexts if context.rights is not None]
    assert first == second != third


async def test_replicas_and_the_metadata_log_need_cluster_action() -> None:
    request = FetchRequest(max_wait_ms=1, min_bytes=1, topics=(FetchTopic((FetchPartition(0),), "open"),), replica_id=2)
    listener = Listener((Op.READ, Kind.TOPIC, "open"))
    response = await listener.ask(ApiKey.FETCH, request, None)
    assert response.topics[0].partitions[0].error_code is ErrorCode.topic_authorization_failed
    response = await listener.ask(ApiKey.FETCH, replace(request, replica_id=-1), None, is_controller=True)
    assert response.error_code is DENIED
    assert listener.reached == []


async def test_configs_resource_by_resource() -> None:
    listener = Listener((Op.ALTER_CONFIGS, Kind.TOPIC, "open"))
    resources = tuple(
        DescribeConfigsResource(resource_type=kind, resource_name=name)
        for kind, name in ((2, "open"), (2, "secret"), (4, "1"), (32, "g"))
    )
    request = DescribeConfigsRequest(resources=resources)
    response = await listener.ask(ApiKey.DESCRIBE_CONFIGS, request, DescribeConfigsResponse(results=()))
    assert listener.reached == [DescribeConfigsRequest(resources=resources[:1])]
    assert [item.error_code for item in response.results] == [
        ErrorCode.topic_authorization_failed,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.group_authorization_failed,
    ]


async def test_offsets_of_a_group() -> None:
    topic = offsets.OffsetCommitRequestTopic(
        name="secret",
        partitions=(
            offsets.OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None),
        ),
    )
    for rights, code in (
        ((), ErrorCode.group_authorization_failed),
        (((Op.READ, Kind.GROUP, "g"),), ErrorCode.topic_authorization_failed),
    ):
        listener = Listener(*rights)
        request = offsets.OffsetCommitRequest(group_id="g", member_id="", topics=(replace(topic),))
        response = await listener.ask(ApiKey.OFFSET_COMMIT, request, offsets.OffsetCommitResponse(topics=()))
        assert response.topics[0].partitions[0].error_code is code
    group = offsets.OffsetFetchRequestGroup(
        group_id="g", topics=(offsets.OffsetFetchRequestTopics(name="secret", partition_indexes=(0,)),)
    )
    listener = Listener()
    fetched = await listener.ask(
        ApiKey.OFFSET_FETCH, offsets.OffsetFetchRequest(groups=(group,)), offsets.OffsetFetchResponse(groups=())
    )
    assert fetched.groups[0].error_code is ErrorCode.group_authorization_failed


async def test_super_users_alone_are_allowed_while_acls_are_loaded() -> None:
    rules = AclRules(super_users=frozenset({"User:admin"}), allow_if_no_acl=True)
    authorizer = StandardAuthorizer(rules, Acls, lambda: 0.0, lambda: False)
    resource = Resource(Kind.TOPIC, "t")
    assert authorizer.allows(("User:admin", "h"), Op.READ, resource, "FETCH")
    assert not authorizer.allows(("User:alice", "h"), Op.READ, resource, "FETCH")


def test_the_audit_log_names_who_what_and_where_and_is_limited(caplog: pytest.LogCaptureFixture) -> None:
    listener = Listener()
    caplog.set_level(logging.INFO, AUDIT_LOGGER)
    for number in range(LINES_PER_S + 7):
        listener.authorizer.allows(("User:eve", "10.0.0.9"), Op.READ, Resource(Kind.TOPIC, f"t{number}\n"), "FETCH")
    assert len(caplog.messages) == LINES_PER_S
    assert caplog.messages[0] == (
        "Principal = User:eve is Denied operation = READ from host = 10.0.0.9 on resource = Topic:LITERAL:'t0\\n' "
        "for request = FETCH"
    )
    listener.now_s = 1.0
    listener.authorizer.allows(("User:eve", "10.0.0.9"), Op.READ, Resource(Kind.TOPIC, "t"), "FETCH")
    assert caplog.messages[LINES_PER_S].startswith("7 denials before were not written")


@pytest.mark.parametrize(("listener", "is_served"), [("INTERNAL", True), ("PLAINTEXT", False)])
async def test_what_brokers_alone_ask_for_is_not_served_on_the_listeners_of_clients(
    listener: str, is_served: bool
) -> None:
    reached: list[Any] = []

    async def handle(_: object, request: Any) -> Any:
        reached.append(request)
        return ANSWERED

    handlers = for_brokers_only({ApiKey.FETCH: handle, ApiKey.WRITE_TXN_MARKERS: handle}, "INTERNAL")
    context = replace(context_of(ApiKey.FETCH, 13), listener=listener)
    of_replica = FetchRequest(max_wait_ms=1, min_bytes=1, topics=(FetchTopic((FetchPartition(0),), "t"),), replica_id=2)
    of_consumer = replace(of_replica, replica_id=-1)
    markers = producers.WriteTxnMarkersRequest(markers=())
    assert await handlers[ApiKey.FETCH](context, of_consumer) == ANSWERED
    answers = [
        await handlers[ApiKey.FETCH](context, of_replica),
        await handlers[ApiKey.WRITE_TXN_MARKERS](context, markers),
    ]
    assert reached == [of_consumer, *((of_replica, markers) if is_served else ())]
    if not is_served:
        assert answers[0].topics[0].partitions[0].error_code is ErrorCode.topic_authorization_failed
    alone = for_brokers_only({ApiKey.FETCH: handle}, None)
    assert await alone[ApiKey.FETCH](context, of_replica) == ANSWERED
