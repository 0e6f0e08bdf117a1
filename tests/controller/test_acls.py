"""CreateAcls, DeleteAcls, DescribeAcls; the records, the image, snapshots."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tierfetch.controller.core.security.acls import describe_acls
from tierfetch.controller.image.image import MetadataImage
from tierfetch.controller.image.snapshot import snapshot_records
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.security import DescribeAclsRequest

from .harness import CONFIG, Harness

ACL = {
    "resource_type": 2,
    "resource_name": "t",
    "resource_pattern_type": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
ANY_FILTER: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


@pytest.fixture
def cluster() -> Harness:
    return Harness(replace(CONFIG, has_authorizer=True))


def create(cluster: Harness, *acls: dict[str, Any], version: int | None = None) -> list[tuple[ErrorCode, str | None]]:
    answer = cluster.ask(ApiKey.CREATE_ACLS, {"creations": acls}, version)
    return [(result["error_code"], result["error_message"]) for result in answer["results"]]


def described(image: MetadataImage, **changes: Any) -> list[tuple[str, str, int]]:
    response = describe_acls(image.acls, DescribeAclsRequest(**(ANY_FILTER | changes)), has_authorizer=True)
    assert response.error_code is ErrorCode.none
    return [
        (resource.resource_name, acl.principal, acl.operation)
        for resource in response.resources
        for acl in resource.acls
    ]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_are_created_once_described_and_deleted(cluster: Harness, version: int) -> None:
    write = ACL | {"operation": 4}
    assert create(cluster, ACL, ACL, write, version=version) == [(ErrorCode.none, None)] * 3
    assert create(cluster, ACL, version=version) == [(ErrorCode.none, None)]
    assert described(cluster.image) == [("t", "User:alice", 3), ("t", "User:alice", 4)]
    chosen = ANY_FILTER | {"operation": 4}
    answer = cluster.ask(ApiKey.DELETE_ACLS, {"filters": [chosen, chosen]}, version)
    assert [len(result["matching_acls"]) for result in answer["filter_results"]] == [1, 1]
    assert described(cluster.image) == [("t", "User:alice", 3)]


def test_acls_survive_a_failover_and_a_snapshot(cluster: Harness) -> None:
    create(cluster, ACL, ACL | {"resource_name": "prefix", "resource_pattern_type": 4})
    expected = [("t", "User:alice", 3), ("prefix", "User:alice", 3)]
    cluster.failover()
    assert described(cluster.image) == expected
    again = MetadataImage()
    again.replay_all(snapshot_records(cluster.image))
    assert described(again) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"resource_name": ""}, "Resource name should not be empty"),
        ({"resource_type": 1}, "Invalid ResourceType 1"),
        ({"resource_type": 99}, "Invalid ResourceType 99"),
        ({"resource_type": 4}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"resource_pattern_type": 2}, "Invalid PatternType 2"),
        ({"operation": 1}, "Invalid AclOperation 1"),
        ({"permission_type": 1}, "Invalid AclPermissionType 1"),
        ({"principal": "alice"}, "Could not parse principal from `alice` (expected `type:name`)"),
        ({"principal": "User:"}, "Could not parse principal from `User:` (expected `type:name`)"),
    ],
)
def test_what_is_no_acl_is_refused_by_itself(cluster: Harness, change: dict[str, Any], message: str) -> None:
    results = create(cluster, ACL | change, ACL)
    assert results == [(ErrorCode.invalid_request, message), (ErrorCode.none, None)]
    assert len(described(cluster.image)) == 1


def test_without_an_authorizer_there_are_no_acls() -> None:
    cluster = Harness()
    assert create(cluster, ACL) == [(ErrorCode.security_disabled, "No Authorizer is configured.")]
    answer = cluster.ask(ApiKey.DELETE_ACLS, {"filters": [ANY_FILTER]})
    assert [result["error_code"] for result in answer["filter_results"]] == [ErrorCode.security_disabled]
    response = describe_acls(cluster.image.acls, DescribeAclsRequest(**ANY_FILTER), has_authorizer=False)
    assert response.error_code is ErrorCode.security_disabled
