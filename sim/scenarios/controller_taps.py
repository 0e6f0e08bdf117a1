"""Taps at the controllers' listeners: judges learn of heartbeats, and requests of leaders are held up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator

from ...controller import ControllerService, MetadataImage, PartitionKey
from ...protocol import ApiKey
from ...protocol.messages.brokers import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ...protocol.net import RequestContext
from ..judges.core.events import HeartbeatAnswered, HeartbeatEvent, HeartbeatReceived


def tap_isr_changes(service: ControllerService, hold: Callable[[Collection[int]], float]) -> None:
    """`hold` is given the brokers that an AlterPartition would have join, and says for how many seconds it is late."""
    handlers = service.quorum.server.handlers
    handle = handlers[ApiKey.ALTER_PARTITION]

    async def tapped(context: RequestContext, request: AlterPartitionRequest) -> AlterPartitionResponse:
        joining = set(joiners(service.controller.core.state.image, request))
        late_s = hold(joining) if joining and service.controller.is_active else 0.0
        if late_s:
            await asyncio.sleep(late_s)
        response = await handle(context, request)
        assert isinstance(response, AlterPartitionResponse), response
        return response

    handlers[ApiKey.ALTER_PARTITION] = tapped


def tap_heartbeats(service: ControllerService, publish: Callable[[HeartbeatEvent], None]) -> None:
    """Publish all heartbeats that this controller receives from now on."""
    handlers = service.quorum.server.handlers
    handle = handlers[ApiKey.BROKER_HEARTBEAT]

    async def tapped(context: RequestContext, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        if service.controller.is_active:
            publish(
                HeartbeatReceived(service.node.status.leader_and_epoch.epoch, service.node.status.next_offset, request)
            )
        answer = await handle(context, request)
        assert isinstance(answer, BrokerHeartbeatResponse), answer
        broker = service.controller.core.state.image.brokers.get(request.broker_id)
        registered_epoch = None if broker is None else broker.epoch
        publish(HeartbeatAnswered(request, answer.error_code, registered_epoch))
        return answer

    handlers[ApiKey.BROKER_HEARTBEAT] = tapped


def joiners(image: MetadataImage, request: AlterPartitionRequest) -> Iterator[int]:
    """Yield the brokers that would become members of an ISR."""
    for topic in request.topics:
        if topic.topic_id is None:
            continue
        for asked in topic.partitions:
            now = image.partition(PartitionKey(topic.topic_id, asked.partition_index))
            if now is not None:
                yield from (item.broker_id for item in asked.new_isr_with_epochs if item.broker_id not in now.isr)
