"""Requests for configs, allowed or denied resource by resource: topics by the topic, the others by the cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ...security import AclOperation, ResourceType
from ..errors import ErrorCode
from ..messages import configs
from .access import Access, GateOf, each_item

TOPIC_RESOURCE = 2
GROUP_RESOURCE = 32
MESSAGE = "Authorization failed."


def _undescribed(access: Access, resource: configs.DescribeConfigsResource) -> configs.DescribeConfigsResult | None:
    code = _code(access, AclOperation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name)
    if code is ErrorCode.none:
        return None
    return configs.DescribeConfigsResult(
        error_code=code,
        error_message=MESSAGE,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=(),
    )


describe_configs: Final[GateOf[configs.DescribeConfigsRequest, configs.DescribeConfigsResponse]] = each_item(
    lambda request: request.resources,
    lambda request, allowed: replace(request, resources=allowed),
    _undescribed,
    lambda response, denied: replace(response, results=(*response.results, *denied)),
)
"""DescribeConfigs on each resource."""


def _unaltered(
    access: Access, resource: configs.AlterConfigsRequestAlterConfigsResource
) -> configs.AlterConfigsResponseAlterConfigsResourceResponse | None:
    code = _code(access, AclOperation.ALTER_CONFIGS, resource.resource_type, resource.resource_name)
    if code is ErrorCode.none:
        return None
    return configs.AlterConfigsResponseAlterConfigsResourceResponse(
        error_code=code,
        error_message=MESSAGE,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


alter_configs: Final[GateOf[configs.AlterConfigsRequest, configs.AlterConfigsResponse]] = each_item(
    lambda request: request.resources,
    lambda request, allowed: replace(request, resources=allowed),
    _unaltered,
    lambda response, denied: replace(response, responses=(*response.responses, *denied)),
)
"""AlterConfigs on each resource."""


def _incrementally_unaltered(
    access: Access, resource: configs.IncrementalAlterConfigsRequestAlterConfigsResource
) -> configs.IncrementalAlterConfigsResponseAlterConfigsResourceResponse | None:
    code = _code(access, AclOperation.ALTER_CONFIGS, resource.resource_type, resource.resource_name)
    if code is ErrorCode.none:
        return None
    return configs.IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
        error_code=code,
        error_message=MESSAGE,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


incremental_alter_configs: Final[
    GateOf[configs.IncrementalAlterConfigsRequest, configs.IncrementalAlterConfigsResponse]
] = each_item(
    lambda request: request.resources,
    lambda request, allowed: replace(request, resources=allowed),
    _incrementally_unaltered,
    lambda response, denied: replace(response, responses=(*response.responses, *denied)),
)
"""AlterConfigs on each resource."""


def _code(access: Access, operation: AclOperation, resource_type: int, name: str) -> ErrorCode:
    """NONE if the operation is allowed on the resource."""
    if resource_type == TOPIC_RESOURCE:
        is_allowed = access.may_topic(operation, name)
        return ErrorCode.none if is_allowed else ErrorCode.topic_authorization_failed
    if resource_type == GROUP_RESOURCE:
        is_allowed = access.may(operation, ResourceType.GROUP, name)
        return ErrorCode.none if is_allowed else ErrorCode.group_authorization_failed
    return ErrorCode.none if access.may_cluster(operation) else ErrorCode.cluster_authorization_failed
