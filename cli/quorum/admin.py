"""Asks the leader of a metadata quorum: finds it through any controller, and asks again when it has moved.

Where only brokers are known, any broker forwards the question to the active controller, which is that leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Self, TypeVar

from ...protocol import (
    BROKER_ENDPOINTS,
    CONTROLLER_ENDPOINTS,
    ApiKey,
    ErrorCode,
    KafkaError,
    RetriableError,
    cluster_of,
)
from ...protocol.messages import Request
from ...protocol.messages.cluster import DescribeClusterResponse
from ...protocol.messages.quorum import (
    AddRaftVoterResponse,
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    RemoveRaftVoterResponse,
)
from ...protocol.net import Address
from ...security import ClientIdentity
from ..command_config import make_client

TIMEOUT_S: Final = 15.0
ANSWER_TIMEOUT_S: Final = 2.0
"""The timeout of one controller that is asked who leads: if it hangs, the others must still get their turn."""
RETRY_S: Final = 0.1
_CONTROLLERS: Final = cluster_of(CONTROLLER_ENDPOINTS)
_BROKERS: Final = cluster_of(BROKER_ENDPOINTS)
METADATA_LOG: Final = DescribeQuorumRequest(
    topics=(
        DescribeQuorumRequestTopicData(
            topic_name="__cluster_metadata", partitions=(DescribeQuorumRequestPartitionData(partition_index=0),)
        ),
    )
)
_MOVED: Final = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.not_controller, ErrorCode.broker_not_available})

Answer = DescribeQuorumResponse | AddRaftVoterResponse | RemoveRaftVoterResponse
"""The responses that only the leader gives."""
AnswerT = TypeVar("AnswerT", bound=Answer)


class NoLeaderError(RetriableError):
    """No controller could name a leader that answers in time."""


class QuorumAdmin:
    """`async with QuorumAdmin(controllers) as admin:`; each question to the leader within `TIMEOUT_S`."""

    def __init__(
        self, servers: Sequence[Address], identity: ClientIdentity | None = None, *, are_brokers: bool = False
    ) -> None:
        """Connects as `identity`, or as the running command does. The servers are controllers, or all are brokers."""
        assert servers, "an admin needs a server to ask"
        self._servers = list(servers)
        self._are_brokers = are_brokers
        self._identity = identity

    async def __aenter__(self) -> Self:
        self._client = make_client(identity=self._identity)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def cluster(self) -> DescribeClusterResponse:
        """DescribeCluster of the first server that knows a leader, or of one that answers. OSError or KafkaError if
        none does."""
        return (await self._first())[1]

    async def _first(self) -> tuple[Address, DescribeClusterResponse]:
        failure: OSError | KafkaError | None = None
        leaderless = None
        question = _BROKERS if self._are_brokers else _CONTROLLERS
        for address in self._servers:
            try:
                found = await self._client.send(address, question, timeout_s=ANSWER_TIMEOUT_S)
            except OSError as error:
                failure = error
                continue
            if found.error_code is not ErrorCode.none:
                failure = KafkaError(found.error_code, f"{address} {self._wrong_listener()}")
                continue
            if found.controller_id >= 0 or self._are_brokers:
                return address, found
            leaderless = address, found
        if leaderless is None:
            assert failure is not None
            raise failure
        return leaderless

    async def describe(self) -> DescribeQuorumResponsePartitionData:
        """The partition of DescribeQuorum, as the leader says it. KafkaError, NoLeaderError."""
        answer = await self.ask_leader(METADATA_LOG)
        return answer.topics[0].partitions[0]

    async def ask_leader(self, request: Request[AnswerT]) -> AnswerT:
        """The leader's answer without an error. KafkaError for any other answer, NoLeaderError."""
        reason = "no controller names one"
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while True:
                    try:
                        answer = await self._ask(request)
                    except OSError as error:
                        reason = str(error)
                    else:
                        if answer is not None:
                            return answer
                    await asyncio.sleep(RETRY_S)
        except TimeoutError:
            raise NoLeaderError(f"the quorum's leader did not answer within {TIMEOUT_S:g} s: {reason}") from None

    async def _ask(self, request: Request[AnswerT]) -> AnswerT | None:
        """None: there is no leader, or it has moved."""
        address = await self._leader()
        if address is None:
            return None
        answer = await self._client.send(address, request, timeout_s=TIMEOUT_S)
        error = _error_of(answer)
        if error in _MOVED:
            return None
        if error is not ErrorCode.none:
            raise KafkaError(error, answer.error_message or f"{ApiKey(request.api_key).name} was refused")
        return answer

    async def _leader(self) -> Address | None:
        """Return who answers for the leader: itself, or a broker; None if no leader is known."""
        address, cluster = await self._first()
        if self._are_brokers:
            return address
        nodes = {node.broker_id: Address(node.host, node.port) for node in cluster.brokers}
        return nodes.get(cluster.controller_id)

    def _wrong_listener(self) -> str:
        if self._are_brokers:
            return (
                "does not describe its cluster: give a broker's listener, or a controller's with --bootstrap-controller"
            )
        return "does not say who the controllers are: give a controller's listener, not a broker's"


def _error_of(answer: Answer) -> ErrorCode:
    """The first error of an answer."""
    if answer.error_code is not ErrorCode.none or not isinstance(answer, DescribeQuorumResponse):
        return answer.error_code
    partitions = [partition for topic in answer.topics for partition in topic.partitions]
    return next((item.error_code for item in partitions if item.error_code is not ErrorCode.none), ErrorCode.none)
