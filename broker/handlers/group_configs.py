"""IncrementalAlterConfigs and AlterConfigs: what a group may not have by this broker's keys is refused here. All else
is forwarded to the active controller, which knows no broker's keys.

A group whose configs would be beyond the limits is forwarded too, to be validated only: what the controller refuses it
for, as a right that is missing, is the answer then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from ...protocol import ErrorCode, KafkaError
from ...protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterConfigsResource,
    AlterConfigsResponse,
    AlterConfigsResponseAlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
)
from ...protocol.net import RequestContext
from ...protocol.wire import ResourceType
from ..cluster.group_limits import check_group_limits
from ..cluster.view import ClusterView
from ..config.broker_config import BrokerConfig
from .forwarding import Forwarding

SET: Final = 0
DELETE: Final = 1
RequestT = TypeVar("RequestT", IncrementalAlterConfigsRequest, AlterConfigsRequest)
ResourceT = TypeVar(
    "ResourceT", IncrementalAlterConfigsRequestAlterConfigsResource, AlterConfigsRequestAlterConfigsResource
)
AnswerT = TypeVar(
    "AnswerT",
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
    AlterConfigsResponseAlterConfigsResourceResponse,
)
Refused = Mapping[str, KafkaError]
"""Why groups may not have what a request would give them."""


class GroupConfigHandlers:
    """Forwards through `forwarding`, but for what is beyond the limits of `config`."""

    def __init__(self, view: ClusterView, config: BrokerConfig, forwarding: Forwarding) -> None:
        self._view = view
        self._config = config
        self._forwarding = forwarding

    async def alter(
        self, context: RequestContext, request: RequestT
    ) -> IncrementalAlterConfigsResponse | AlterConfigsResponse:
        """Answer a request of either kind."""
        refused = self._refused(request.resources)
        within, beyond = _parted(request.resources, refused)
        if not beyond:
            return await self._forwarding.forward(context, request)
        judged = await self._forwarding.forward(context, replace(request, resources=beyond, validate_only=True))
        answers = _answers(judged.responses, refused)
        if within:
            taken = await self._forwarding.forward(context, replace(request, resources=within))
            answers += taken.responses
        return replace(judged, responses=answers)

    def _refused(
        self,
        resources: Iterable[
            IncrementalAlterConfigsRequestAlterConfigsResource | AlterConfigsRequestAlterConfigsResource
        ],
    ) -> Refused:
        groups = [each for each in resources if each.resource_type == ResourceType.GROUP]
        named = Counter([each.resource_name for each in groups])
        refused: dict[str, KafkaError] = {}
        for group in groups:
            if named[group.resource_name] > 1:
                continue  # the controller refuses both
            before = self._view.image.group_configs.get(group.resource_name, {})
            try:
                check_group_limits(self._config, _after(before, group))
            except KafkaError as error:
                refused[group.resource_name] = error
        return refused


def _after(
    before: Mapping[str, str],
    group: IncrementalAlterConfigsRequestAlterConfigsResource | AlterConfigsRequestAlterConfigsResource,
) -> Mapping[str, str]:
    """Return the configs that the group would have, without what the controller refuses."""
    if isinstance(group, AlterConfigsRequestAlterConfigsResource):
        return {each.name: each.value for each in group.configs if each.value is not None}
    after = dict(before)
    for each in group.configs:
        if each.config_operation == DELETE:
            after.pop(each.name, None)
        elif each.config_operation == SET and each.value is not None:
            after[each.name] = each.value
    return after


def _parted(resources: Iterable[ResourceT], refused: Refused) -> tuple[tuple[ResourceT, ...], tuple[ResourceT, ...]]:
    """Return the resources that may be altered, and the groups that may not."""
    within: list[ResourceT] = []
    beyond: list[ResourceT] = []
    for each in resources:
        is_beyond = each.resource_type == ResourceType.GROUP and each.resource_name in refused
        (beyond if is_beyond else within).append(each)
    return tuple(within), tuple(beyond)


def _answers(judged: Iterable[AnswerT], refused: Refused) -> tuple[AnswerT, ...]:
    return tuple(
        [
            replace(
                each,
                error_code=ErrorCode.invalid_config,
                error_message=refused[each.resource_name].message,
            )
            if each.error_code is ErrorCode.none
            else each
            for each in judged
        ]
    )
