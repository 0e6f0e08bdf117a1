"""CreateAcls, DeleteAcls and DescribeAcls (KIP-11, KIP-140, KIP-290), as Kafka's AclControlManager decides them.

| request | answered with | when |
|---|---|---|
| all | SECURITY_DISABLED | `authorizer.class.name` is not set |
| CreateAcls | INVALID_REQUEST, for each ACL by itself | its pattern, principal, operation or permission is none |
| CreateAcls | NONE, and nothing changes | there is an equal ACL |
| DeleteAcls | NONE, for each filter by itself, with what it deleted | - |
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeVar
from uuid import UUID

from ....protocol import ErrorCode, KafkaError
from ....protocol.messages.security import (
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ....security import AclOperation
from ....security.core import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    AclPermissionType,
    Acls,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from ...records import AccessControlEntryRecord, MetadataRecord, RemoveAccessControlEntryRecord
from ..state import ControllerResult, ControllerState

NO_AUTHORIZER: Final = "No Authorizer is configured."
ACLS_DELETED_MAX: Final = 10_000
"""ACLs that one request deletes; Kafka's limit of records."""

_Kind = TypeVar("_Kind", bound=IntEnum)


def create_acls(state: ControllerState, request: CreateAclsRequest) -> ControllerResult[CreateAclsResponse]:
    """Add the ACLs that are valid and new."""
    known = {acl for _, acl in state.image.acls.items()}
    records: list[MetadataRecord] = []
    results: list[AclCreationResult] = []
    for creation in request.creations:
        try:
            _check_authorizer(state)
            acl = _new_acl(creation)
        except KafkaError as error:
            results.append(AclCreationResult(error_code=error.code, error_message=error.message))
            continue
        if acl not in known:
            known.add(acl)
            records.append(_record(state.new_uuid(), acl))
        results.append(AclCreationResult(error_message=None))
    return ControllerResult(records, CreateAclsResponse(results=tuple(results)))


def delete_acls(state: ControllerState, request: DeleteAclsRequest) -> ControllerResult[DeleteAclsResponse]:
    """Delete what any of the filters accepts."""
    deleted: dict[UUID, AclBinding] = {}
    results: list[DeleteAclsFilterResult] = []
    for item in request.filters:
        try:
            _check_authorizer(state)
            wanted = _filter(item)
            found = {acl_id: acl for acl_id, acl in state.image.acls.items() if wanted.accepts(acl)}
            if len(deleted | found) > ACLS_DELETED_MAX:
                message = f"{len(deleted | found)} ACLs to delete, {ACLS_DELETED_MAX} are allowed in one request"
                raise KafkaError(ErrorCode.invalid_request, message)
        except KafkaError as error:
            results.append(DeleteAclsFilterResult(error_code=error.code, error_message=error.message, matching_acls=()))
            continue
        deleted |= found
        matching = tuple(_matching(acl) for acl in found.values())
        results.append(DeleteAclsFilterResult(error_message=None, matching_acls=matching))
    records: list[MetadataRecord] = [RemoveAccessControlEntryRecord(id_=acl_id) for acl_id in deleted]
    return ControllerResult(records, DeleteAclsResponse(filter_results=tuple(results)))


def describe_acls(acls: Acls, request: DescribeAclsRequest, *, has_authorizer: bool) -> DescribeAclsResponse:
    """Return the ACLs that the filter accepts, by resource pattern."""
    if not has_authorizer:
        return describe_acls_error(ErrorCode.security_disabled, NO_AUTHORIZER)
    try:
        wanted = _filter(request)
    except KafkaError as error:
        return describe_acls_error(error.code, error.message)
    found: dict[ResourcePattern, dict[AclBinding, None]] = {}
    for _, acl in acls.items():
        if wanted.accepts(acl):
            found.setdefault(acl.pattern, {})[acl] = None
    resources = tuple(_described(pattern, list(bindings)) for pattern, bindings in found.items())
    return DescribeAclsResponse(error_message=None, resources=resources)


def describe_acls_error(code: ErrorCode, message: str) -> DescribeAclsResponse:
    """Return the answer that shows nothing."""
    return DescribeAclsResponse(error_code=code, error_message=message, resources=())


def _check_authorizer(state: ControllerState) -> None:
    if not state.config.has_authorizer:
        raise KafkaError(ErrorCode.security_disabled, NO_AUTHORIZER)


def _described(pattern: ResourcePattern, acls: list[AclBinding]) -> DescribeAclsResource:
    return DescribeAclsResource(
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        acls=tuple(
            AclDescription(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
            )
            for acl in acls
        ),
    )


def _matching(acl: AclBinding) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.pattern.resource_type,
        resource_name=acl.pattern.name,
        pattern_type=acl.pattern.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _record(acl_id: UUID, acl: AclBinding) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id_=acl_id,
        resource_type=acl.pattern.resource_type,
        resource_name=acl.pattern.name,
        pattern_type=acl.pattern.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _new_acl(creation: AclCreation) -> AclBinding:
    """Return the ACL. INVALID_REQUEST if a field is not of an ACL, but of a filter, or of nothing."""
    resource_type = _member(ResourceType, creation.resource_type, (ResourceType.UNKNOWN, ResourceType.ANY))
    pattern_type = _member(
        PatternType, creation.resource_pattern_type, (PatternType.UNKNOWN, PatternType.ANY, PatternType.MATCH)
    )
    operation = _member(AclOperation, creation.operation, (AclOperation.UNKNOWN, AclOperation.ANY))
    permission = _member(
        AclPermissionType, creation.permission_type, (AclPermissionType.UNKNOWN, AclPermissionType.ANY)
    )
    if not creation.resource_name:
        raise KafkaError(ErrorCode.invalid_request, "Resource name should not be empty")
    if resource_type is ResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        message = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
        raise KafkaError(ErrorCode.invalid_request, message)
    kind, colon, name = creation.principal.partition(":")
    if not (kind and colon and name):
        message = f"Could not parse principal from `{creation.principal}` (expected `type:name`)"
        raise KafkaError(ErrorCode.invalid_request, message)
    pattern = ResourcePattern(resource_type, creation.resource_name, pattern_type)
    return AclBinding(pattern, creation.principal, creation.host, operation, permission)


def _filter(item: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """Return the filter. INVALID_REQUEST if it filters by something that no ACL can have."""
    return AclFilter(
        _member(ResourceType, item.resource_type_filter, (ResourceType.UNKNOWN,)),
        item.resource_name_filter,
        _member(PatternType, item.pattern_type_filter, (PatternType.UNKNOWN,)),
        item.principal_filter,
        item.host_filter,
        _member(AclOperation, item.operation, (AclOperation.UNKNOWN,)),
        _member(AclPermissionType, item.permission_type, (AclPermissionType.UNKNOWN,)),
    )


def _member(kind: type[_Kind], number: int, refused: tuple[_Kind, ...]) -> _Kind:
    if number not in set(kind) or kind(number) in refused:
        raise KafkaError(ErrorCode.invalid_request, f"Invalid {kind.__name__} {number}")
    return kind(number)
