"""Answers without a decision: in every version of every API; and requests that a broker passes on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tierfetch.broker.cluster.controller_channel import is_from_another
from tierfetch.broker.handlers.forwarding import FORWARDED
from tierfetch.controller.core.machine import HANDLERS
from tierfetch.controller.core.refusals import refusal
from tierfetch.controller.envelope import unwrap
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.codec import RequestHeader, read_response, write_request, write_response
from tierfetch.protocol.envelope import principal_bytes
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.messages.base import Message
from tierfetch.protocol.messages.brokers import EnvelopeRequest
from tierfetch.protocol.messages.errors import WithError
from tierfetch.protocol.messages.topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from tierfetch.protocol.net.dispatch import RequestContext
from tierfetch.protocol.net.slicing import ELEMENT_BYTES
from tierfetch.security.principal import KafkaPrincipal
from tierfetch.tests.messages import request_of

NOT_ACTIVE = KafkaError(ErrorCode.not_controller, "another one is")
OF_THE_QUORUM = (ApiKey.DESCRIBE_QUORUM, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER)
"""What a broker forwards, and the quorum answers."""
VERSIONS = [
    (api, version) for api in (*HANDLERS, *OF_THE_QUORUM) for version in range(api.min_version, api.max_version + 1)
]


BROKER = {"broker_id": 1, "broker_epoch": 2}
RESOURCES = {"resources": [{"resource_type": 2, "resource_name": "t", "configs": []}], "validate_only": False}
ASKED: dict[ApiKey, dict[str, Any]] = {
    ApiKey.BROKER_REGISTRATION: {
        "broker_id": 1,
        "cluster_id": "c",
        "incarnation_id": None,
        "listeners": [],
        "features": [],
        "rack": None,
    },
    ApiKey.BROKER_HEARTBEAT: {
        **BROKER,
        "current_metadata_offset": 3,
        "want_fence": False,
        "want_shut_down": False,
    },
    ApiKey.UNREGISTER_BROKER: {"broker_id": 1},
    ApiKey.CONTROLLER_REGISTRATION: {
        "controller_id": 1,
        "incarnation_id": None,
        "zk_migration_ready": False,
        "listeners": [],
        "features": [],
    },
    ApiKey.ALTER_PARTITION: {**BROKER, "topics": []},
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: {**BROKER, "directories": []},
    ApiKey.ALLOCATE_PRODUCER_IDS: BROKER,
    ApiKey.CREATE_TOPICS: {
        "topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}],
        "timeout_ms": 1,
    },
    ApiKey.DELETE_TOPICS: {
        "topic_names": ["t"],
        "topics": [{"name": "t", "topic_id": None}],
        "timeout_ms": 1,
    },
    ApiKey.CREATE_PARTITIONS: {
        "topics": [{"name": "t", "count": 2, "assignments": None}],
        "timeout_ms": 1,
        "validate_only": False,
    },
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {"topics": [], "timeout_ms": 1},
    ApiKey.LIST_PARTITION_REASSIGNMENTS: {"topics": None, "timeout_ms": 1},
    ApiKey.ELECT_LEADERS: {"topic_partitions": None, "timeout_ms": 1, "election_type": 0},
    ApiKey.CREATE_ACLS: {
        "creations": [
            {
                "resource_type": 2,
                "resource_name": "t",
                "resource_pattern_type": 3,
                "principal": "User:alice",
                "host": "*",
                "operation": 3,
                "permission_type": 3,
            }
        ]
    },
    ApiKey.DELETE_ACLS: {
        "filters": [
            {
                "resource_type_filter": 1,
                "resource_name_filter": None,
                "pattern_type_filter": 1,
                "principal_filter": None,
                "host_filter": None,
                "operation": 1,
                "permission_type": 1,
            }
        ]
    },
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {
        "deletions": [{"name": "alice", "mechanism": 1}],
        "upsertions": [{"name": "bob", "mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": b"p"}],
    },
    ApiKey.ALTER_CLIENT_QUOTAS: {
        "entries": [
            {
                "entity": [{"entity_type": "user", "entity_name": "alice"}],
                "ops": [{"key": "producer_byte_rate", "value": 1.0, "remove": False}],
            }
        ],
        "validate_only": False,
    },
    ApiKey.INCREMENTAL_ALTER_CONFIGS: RESOURCES,
    ApiKey.ALTER_CONFIGS: RESOURCES,
    ApiKey.UPDATE_FEATURES: {"feature_updates": [], "timeout_ms": 1},
    ApiKey.DESCRIBE_QUORUM: {"topics": []},
    ApiKey.ADD_RAFT_VOTER: {
        "cluster_id": "c",
        "timeout_ms": 1,
        "voter_id": 1,
        "voter_directory_id": None,
        "listeners": [],
    },
    ApiKey.REMOVE_RAFT_VOTER: {"cluster_id": "c", "voter_id": 1, "voter_directory_id": None},
}
"""A request for one thing, where the error is that thing's."""
FORWARDED_TO_THE_ACTIVE = [api for api in FORWARDED if api in ASKED]


def find_codes(value: Any) -> set[ErrorCode]:
    if isinstance(value, Message):
        found = {value.error_code} if isinstance(value, WithError) else set()
        return found.union(*(find_codes(getattr(value, name)) for name in value.__slots__))
    if isinstance(value, tuple):
        return set().union(*map(find_codes, value))
    return set()


@pytest.mark.parametrize(("api", "version"), VERSIONS, ids=lambda value: getattr(value, "name", str(value)))
def test_every_request_can_be_refused(api: ApiKey, version: int) -> None:
    response = refusal(request_of(api, ASKED[api], version), NOT_ACTIVE)
    assert find_codes(response) == {ErrorCode.not_controller}
    frame = b"".join(bytes(part) for part in write_response(api, version, 1, response))
    read = read_response(api, version, memoryview(frame)[4:])
    if (api, version) != (ApiKey.ELECT_LEADERS, 0):  # which has no room for it
        assert find_codes(read) == {ErrorCode.not_controller}


def context() -> RequestContext:
    return RequestContext(ApiKey.ENVELOPE, 0, "broker", 7, "peer", "CONTROLLER", 0.0)


def enveloped(data: bytes) -> EnvelopeRequest:
    alice = principal_bytes(KafkaPrincipal("User", "alice"))
    return EnvelopeRequest(request_data=data, request_principal=alice, client_host_address=bytes(4))


def wrapped(api: ApiKey, version: int, values: dict[str, Any]) -> EnvelopeRequest:
    parts = write_request(RequestHeader(api, version, 99, "client"), request_of(api, values, version))
    return enveloped(b"".join(bytes(part) for part in parts)[4:])


async def test_the_request_inside_an_envelope_is_answered_as_if_it_had_come_alone() -> None:
    seen = []

    async def handle(inner: RequestContext, body: DeleteTopicsRequest) -> DeleteTopicsResponse:
        seen.append((inner.api, inner.api_version, inner.client_id, inner.connection_id, body.topics[0].name))
        return DeleteTopicsResponse(responses=(DeletableTopicResult(name="t", topic_id=UUID(int=5)),))

    values = {"topics": [{"name": "t", "topic_id": None}], "timeout_ms": 5}
    answer = await unwrap(context(), wrapped(ApiKey.DELETE_TOPICS, 6, values), {ApiKey.DELETE_TOPICS: handle})
    assert seen == [(ApiKey.DELETE_TOPICS, 6, "client", 7, "t")]
    assert answer.error_code is ErrorCode.none
    data = answer.response_data
    assert data is not None
    assert int.from_bytes(data[:4], "big") == 99, "the client's own correlation id"
    assert read_response(ApiKey.DELETE_TOPICS, 6, memoryview(data)).responses[0].name == "t"


async def test_a_large_request_inside_an_envelope_is_answered_piece_by_piece() -> None:
    sizes, held = [], []

    async def handle(_: RequestContext, body: DeleteTopicsRequest) -> DeleteTopicsResponse:
        sizes.append(len(body.topics))
        return DeleteTopicsResponse(
            responses=tuple(DeletableTopicResult(name=topic.name, topic_id=UUID(int=0)) for topic in body.topics)
        )

    values = {"topics": [{"name": f"t{number}", "topic_id": None} for number in range(250)], "timeout_ms": 5}
    charged = replace(context(), hold=held.append)
    answer = await unwrap(charged, wrapped(ApiKey.DELETE_TOPICS, 6, values), {ApiKey.DELETE_TOPICS: handle})
    assert sizes == [100, 100, 50]
    assert held == [250 * ELEMENT_BYTES]
    assert answer.response_data is not None
    responses = read_response(ApiKey.DELETE_TOPICS, 6, memoryview(answer.response_data)).responses
    assert [response.name for response in responses] == [f"t{number}" for number in range(250)]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", ErrorCode.unsupported_version),
        (b"\x7f\xff\x00\x00\x00\x00\x00\x01\xff\xff", ErrorCode.unsupported_version),
        (bytes.fromhex("0014 0006 00000001 ffff 00 05"), ErrorCode.unsupported_version),
        (wrapped(ApiKey.VOTE, 0, {"cluster_id": None, "topics": []}).request_data, ErrorCode.invalid_request),
        (bytes.fromhex("003a 0000 00000001 ffff 00"), ErrorCode.invalid_request),
    ],
    ids=["nothing", "an API of nobody", "cut off", "not for clients", "another Envelope"],
)
async def test_envelopes_around_something_else_are_refused(data: bytes, code: ErrorCode) -> None:
    async def handle(*_: object) -> None:
        raise AssertionError("a request that is refused reaches no handler")

    answer = await unwrap(context(), enveloped(data), {ApiKey.DELETE_TOPICS: handle})
    assert (answer.error_code, answer.response_data) == (code, None)


@pytest.mark.parametrize("api", FORWARDED_TO_THE_ACTIVE, ids=lambda api: api.name)
def test_a_broker_sees_that_another_controller_is_active(api: ApiKey) -> None:
    assert is_from_another(refusal(request_of(api, ASKED[api], api.max_version), NOT_ACTIVE))
