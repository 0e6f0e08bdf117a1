"""Requests for configs, allowed or denied resource by resource: topics by the topic, the others by the cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...security.core.acl import AclOperation, ResourceType
from ..errors import ErrorCode
from ..messages import configs
from ..net.dispatch import Handler
from .access import Access, Gate

TOPIC_RESOURCE = 2
GROUP_RESOURCE = 32


def each_resource(operation: AclOperation, denied: Callable[[Any, ErrorCode], Any], answers: str) -> Gate:
    """Return the gate of a request whose `resources` each need `operation`."""

    async def gate(access: Access, handler: Handler, request: Any) -> Any:
        codes = [_code(access, operation, resource) for resource in request.resources]
        paired = list(zip(request.resources, codes, strict=True))
        refused = tuple(denied(resource, code) for resource, code in paired if code is not ErrorCode.none)
        if not refused:
            return await handler(access.context, request)
        allowed = tuple(resource for resource, code in paired if code is ErrorCode.none)
        response = await handler(access.context, replace(request, resources=allowed))
        return replace(response, **{answers: (*getattr(response, answers), *refused)})

    return gate


def _code(access: Access, operation: AclOperation, resource: Any) -> ErrorCode:
    """NONE if the operation is allowed on the resource."""
    if resource.resource_type == TOPIC_RESOURCE:
        is_allowed = access.may_topic(operation, resource.resource_name)
        return ErrorCode.none if is_allowed else ErrorCode.topic_authorization_failed
    if resource.resource_type == GROUP_RESOURCE:
        is_allowed = access.may(operation, ResourceType.GROUP, resource.resource_name)
        return ErrorCode.none if is_allowed else ErrorCode.group_authorization_failed
    return ErrorCode.none if access.may_cluster(operation) else ErrorCode.cluster_authorization_failed


def described(resource: configs.DescribeConfigsResource, code: ErrorCode) -> configs.DescribeConfigsResult:
    """Deny a resource of DescribeConfigs."""
    return configs.DescribeConfigsResult(
        error_code=code,
        error_message="Authorization failed.",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=(),
    )


def altered(resource: Any, code: ErrorCode) -> configs.AlterConfigsResponseAlterConfigsResourceResponse:
    """Deny a resource of AlterConfigs."""
    return configs.AlterConfigsResponseAlterConfigsResourceResponse(
        error_code=code,
        error_message="Authorization failed.",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def incrementally_altered(
    resource: Any, code: ErrorCode
) -> configs.IncrementalAlterConfigsResponseAlterConfigsResourceResponse:
    """Deny a resource of IncrementalAlterConfigs."""
    return configs.IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
        error_code=code,
        error_message="Authorization failed.",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
