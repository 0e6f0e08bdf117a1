"""A group as large as Kafka takes is answered by a real broker, whatever the answer is: its connection stays open."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tierfetch.protocol import ApiKey, ErrorCode
from tierfetch.protocol.messages.groups import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tierfetch.testing import InProcessCluster
from tierfetch.tests.protocol.wire_fakes import RawPeer, raw_peer

pytestmark = pytest.mark.slow
MIB = 1 << 20
VERSION = 4
GROUP = "g"
SESSION_MS = 600_000
"""Of the member, and of the broker, whose coordinator would begin anew: no load of the machine reaches it."""
CONFIGS = {"offsets.topic.num.partitions": "1", "broker.session.timeout.ms": str(SESSION_MS)}


async def joined(peer: RawPeer) -> tuple[str, int]:
    """Return the id of the only member, and the generation."""
    join = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        member_id="",
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
    )
    while (answer := await asked(peer, join)).error_code is not ErrorCode.none:
        if answer.error_code is ErrorCode.member_id_required:
            join = replace(join, member_id=answer.member_id)
        await asyncio.sleep(0.05)
    return answer.member_id, answer.generation_id


async def asked(peer: RawPeer, join: JoinGroupRequest) -> JoinGroupResponse:
    # It has the topic of offsets created.
    peer.send(ApiKey.FIND_COORDINATOR, 1, 0, FindCoordinatorRequest(coordinator_keys=(GROUP,)))
    await peer.response(ApiKey.FIND_COORDINATOR, 1)
    peer.send(ApiKey.JOIN_GROUP, VERSION, 1, join)
    _, answer = await peer.response(ApiKey.JOIN_GROUP, VERSION)
    assert isinstance(answer, JoinGroupResponse)
    return answer


@pytest.mark.parametrize("size", [MIB // 2, 99 * MIB])
@pytest.mark.tierfetch(brokers=1, tier=None, configs=CONFIGS)
def test_D9_a_group_assignment_of_up_to_100_mib_is_answered(tierfetch_cluster: InProcessCluster, size: int) -> None:
    tierfetch_cluster.create_topic("t")
    _, port = tierfetch_cluster.address(1).split(":")

    async def work() -> tuple[ErrorCode, ErrorCode]:
        async with raw_peer(int(port)) as peer:
            member, generation = await joined(peer)
            assignment = SyncGroupRequestAssignment(member_id=member, assignment=bytes(size))
            sync = SyncGroupRequest(
                group_id=GROUP, generation_id=generation, member_id=member, assignments=(assignment,)
            )
            peer.send(ApiKey.SYNC_GROUP, VERSION, 2, sync)
            _, synced = await peer.response(ApiKey.SYNC_GROUP, VERSION)
            beat = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member)
            peer.send(ApiKey.HEARTBEAT, VERSION, 3, beat)
            _, beaten = await peer.response(ApiKey.HEARTBEAT, VERSION)
            return synced.error_code, beaten.error_code

    synced, beaten = asyncio.run(asyncio.wait_for(work(), 60))
    if size < MIB:
        assert (synced, beaten) == (ErrorCode.none, ErrorCode.none)
    else:  # larger than a record of `__consumer_offsets` may be: what Kafka answers
        assert (synced, beaten) == (ErrorCode.unknown_server_error, ErrorCode.rebalance_in_progress)
