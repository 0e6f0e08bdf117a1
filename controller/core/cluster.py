"""Small things that concern the cluster as a whole: DescribeCluster, and blocks of producer ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...protocol.authorized_operations import NOT_ASKED, OF_CLUSTER
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.brokers import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ...protocol.requests import BROKER_ENDPOINTS, CONTROLLER_ENDPOINTS
from ..records import BrokerEndpoint, ProducerIdsRecord
from .state import ControllerResult, ControllerState, Plain, check_broker_epoch

PRODUCER_ID_BLOCK_SIZE: Final = 1_000
INT64_MAX: Final = 2**63 - 1


def allocate_producer_ids(
    state: ControllerState, request: AllocateProducerIdsRequest
) -> ControllerResult[AllocateProducerIdsResponse]:
    """AllocateProducerIds (KIP-730): ids that nobody else is given, ever."""
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
    """Of whom DescribeCluster is asked: what the controller knows from its quorum. `voters`: where each one listens."""

    cluster_id: str
    listener_name: str
    leader_id: int
    voters: Mapping[int, Sequence[BrokerEndpoint]]


def describe_cluster(state: ControllerState, request: Any, asked: Asked) -> Plain:
    """DescribeCluster as a controller answers it: its own kind, registered or known as a voter, or the brokers."""
    endpoint_type = getattr(request, "endpoint_type", BROKER_ENDPOINTS)
    if endpoint_type == CONTROLLER_ENDPOINTS:
        registered = {node_id: controller.end_points for node_id, controller in state.image.controllers.items()}
        known = {**registered, **asked.voters}
        nodes = [_node(node_id, end_points, asked.listener_name) for node_id, end_points in sorted(known.items())]
    elif endpoint_type == BROKER_ENDPOINTS:
        include_fenced = getattr(request, "include_fenced_brokers", False)
        nodes = [
            {
                **_node(broker.broker_id, broker.end_points, asked.listener_name),
                "rack": broker.rack,
                "is_fenced": broker.fenced,
            }
            for _, broker in sorted(state.image.brokers.items())
            if include_fenced or not broker.fenced
        ]
    else:
        message = f"endpoint type {endpoint_type} is neither brokers (1) nor controllers (2)"
        return _cluster(asked, ErrorCode.unsupported_endpoint_type, message, BROKER_ENDPOINTS, [])
    reachable = [node for node in nodes if node["host"]]
    operations = OF_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED
    answer = _cluster(asked, ErrorCode.none, None, endpoint_type, reachable)
    return {**answer, "cluster_authorized_operations": operations}


def _node(node_id: int, end_points: Iterable[BrokerEndpoint], listener_name: str) -> dict[str, Any]:
    known = list(end_points)
    chosen = next((item for item in known if item.name == listener_name), known[0] if known else None)
    return {
        "broker_id": node_id,
        "host": chosen.host if chosen else "",
        "port": chosen.port if chosen else 0,
        "rack": None,
        "is_fenced": False,
    }


def _cluster(asked: Asked, code: ErrorCode, message: str | None, endpoint_type: int, nodes: Any) -> Plain:
    return {
        "error_code": code,
        "error_message": message,
        "endpoint_type": endpoint_type,
        "cluster_id": asked.cluster_id,
        "controller_id": asked.leader_id,
        "brokers": nodes,
    }
