"""Small things that concern the cluster as a whole: DescribeCluster, and blocks of producer ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ...light_dataclass import dataclass
from ...protocol import (
    BROKER_ENDPOINTS,
    CLUSTER_OPERATIONS,
    CONTROLLER_ENDPOINTS,
    OPERATIONS_NOT_ASKED,
    ErrorCode,
    KafkaError,
)
from ...protocol.messages.brokers import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ...protocol.messages.cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from ..records import BrokerEndpoint, ProducerIdsRecord
from .state import ControllerResult, ControllerState, check_broker_epoch

PRODUCER_ID_BLOCK_SIZE: Final = 1_000
INT64_MAX: Final = 2**63 - 1


def allocate_producer_ids(
    state: ControllerState, request: AllocateProducerIdsRequest
) -> ControllerResult[AllocateProducerIdsResponse]:
    """AllocateProducerIds (KIP-730): blocks of ids, each given out once."""
    try:
        check_broker_epoch(state.image, request.broker_id, request.broker_epoch)
    except KafkaError as error:
        return ControllerResult([], _block(error.code, -1, 0), refusal=error.message)
    first = state.image.next_producer_id
    if first > INT64_MAX - PRODUCER_ID_BLOCK_SIZE:
        return ControllerResult([], _block(ErrorCode.unknown_server_error, -1, 0))
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=first + PRODUCER_ID_BLOCK_SIZE,
    )
    return ControllerResult([record], _block(ErrorCode.none, first, PRODUCER_ID_BLOCK_SIZE))


def _block(code: ErrorCode, start: int, length: int) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=code, producer_id_start=start, producer_id_len=length)


@dataclass(frozen=True, slots=True)
class Asked:
    """The controller's view of its quorum, for DescribeCluster. `voters`: where each one listens."""

    cluster_id: str
    listener_name: str
    leader_id: int
    voters: Mapping[int, Sequence[BrokerEndpoint]]


def describe_cluster(state: ControllerState, request: DescribeClusterRequest, asked: Asked) -> DescribeClusterResponse:
    """DescribeCluster as a controller answers it: its own kind, registered or known as a voter, or the brokers."""
    endpoint_type = request.endpoint_type
    if endpoint_type == CONTROLLER_ENDPOINTS:
        registered = {node_id: controller.end_points for node_id, controller in state.image.controllers.items()}
        known = {**registered, **asked.voters}
        nodes = [_node(node_id, end_points, asked.listener_name) for node_id, end_points in sorted(known.items())]
    elif endpoint_type == BROKER_ENDPOINTS:
        nodes = [
            replace(
                _node(broker.broker_id, broker.end_points, asked.listener_name),
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
            for _, broker in sorted(state.image.brokers.items())
            if request.include_fenced_brokers or not broker.fenced
        ]
    else:
        return DescribeClusterResponse(
            error_code=ErrorCode.unsupported_endpoint_type,
            error_message=f"endpoint type {endpoint_type} is neither brokers (1) nor controllers (2)",
            cluster_id=asked.cluster_id,
            controller_id=asked.leader_id,
            brokers=(),
        )
    return DescribeClusterResponse(
        endpoint_type=endpoint_type,
        cluster_id=asked.cluster_id,
        controller_id=asked.leader_id,
        brokers=tuple(node for node in nodes if node.host),
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else OPERATIONS_NOT_ASKED,
    )


def _node(node_id: int, end_points: Iterable[BrokerEndpoint], listener_name: str) -> DescribeClusterBroker:
    known = list(end_points)
    chosen = next((item for item in known if item.name == listener_name), known[0] if known else None)
    return DescribeClusterBroker(
        broker_id=node_id, host=chosen.host if chosen else "", port=chosen.port if chosen else 0
    )
