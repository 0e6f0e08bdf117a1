"""Requests for configs, allowed or denied resource by resource: topics by the topic, the others by the cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from ...security.core.acl import AclOperation, ResourceType
from ..errors import ErrorCode
from ..messages import configs
from .access import Access, Next

TOPIC_RESOURCE = 2
GROUP_RESOURCE = 32
MESSAGE = "Authorization failed."


Resource = TypeVar(
    "Resource",
    bound=configs.DescribeConfigsResource
    | configs.AlterConfigsRequestAlterConfigsResource
    | configs.IncrementalAlterConfigsRequestAlterConfigsResource,
)


async def describe_configs(
    access: Access,
    handler: Next[configs.DescribeConfigsRequest, configs.DescribeConfigsResponse],
    request: configs.DescribeConfigsRequest,
) -> configs.DescribeConfigsResponse:
    """DescribeConfigs on each resource."""
    allowed, denied = _judged(access, AclOperation.DESCRIBE_CONFIGS, request.resources)
    if not denied:
        return await handler(access.context, request)
    response = await handler(access.context, replace(request, resources=allowed))
    results = tuple(
        configs.DescribeConfigsResult(
            error_code=code,
            error_message=MESSAGE,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=(),
        )
        for resource, code in denied
    )
    return replace(response, results=(*response.results, *results))


async def alter_configs(
    access: Access,
    handler: Next[configs.AlterConfigsRequest, configs.AlterConfigsResponse],
    request: configs.AlterConfigsRequest,
) -> configs.AlterConfigsResponse:
    """AlterConfigs on each resource."""
    allowed, denied = _judged(access, AclOperation.ALTER_CONFIGS, request.resources)
    if not denied:
        return await handler(access.context, request)
    response = await handler(access.context, replace(request, resources=allowed))
    refused = tuple(
        configs.AlterConfigsResponseAlterConfigsResourceResponse(
            error_code=code,
            error_message=MESSAGE,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, code in denied
    )
    return replace(response, responses=(*response.responses, *refused))


async def incremental_alter_configs(
    access: Access,
    handler: Next[configs.IncrementalAlterConfigsRequest, configs.IncrementalAlterConfigsResponse],
    request: configs.IncrementalAlterConfigsRequest,
) -> configs.IncrementalAlterConfigsResponse:
    """AlterConfigs on each resource."""
    allowed, denied = _judged(access, AclOperation.ALTER_CONFIGS, request.resources)
    if not denied:
        return await handler(access.context, request)
    response = await handler(access.context, replace(request, resources=allowed))
    refused = tuple(
        configs.IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
            error_code=code,
            error_message=MESSAGE,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, code in denied
    )
    return replace(response, responses=(*response.responses, *refused))


def _judged(
    access: Access, operation: AclOperation, resources: tuple[Resource, ...]
) -> tuple[tuple[Resource, ...], list[tuple[Resource, ErrorCode]]]:
    """Return the resources on which the operation is allowed, and the others with their errors."""
    codes = [_code(access, operation, resource.resource_type, resource.resource_name) for resource in resources]
    judged = list(zip(resources, codes, strict=True))
    allowed = tuple(resource for resource, code in judged if code is ErrorCode.none)
    return allowed, [(resource, code) for resource, code in judged if code is not ErrorCode.none]


def _code(access: Access, operation: AclOperation, resource_type: int, name: str) -> ErrorCode:
    """NONE if the operation is allowed on the resource."""
    if resource_type == TOPIC_RESOURCE:
        is_allowed = access.may_topic(operation, name)
        return ErrorCode.none if is_allowed else ErrorCode.topic_authorization_failed
    if resource_type == GROUP_RESOURCE:
        is_allowed = access.may(operation, ResourceType.GROUP, name)
        return ErrorCode.none if is_allowed else ErrorCode.group_authorization_failed
    return ErrorCode.none if access.may_cluster(operation) else ErrorCode.cluster_authorization_failed
