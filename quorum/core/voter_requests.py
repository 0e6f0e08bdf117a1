"""What a follower asks its leader for about itself: to be known as it is, or to become a voter (KIP-853).

    kraft.version   this replica                          asks for
    --------------  ------------------------------------  ----------------------------------------------------------
    0               votes                                 UpdateRaftVoter, once of each leader: which directory it
                                                          has, where it listens, what it speaks. The leader keeps
                                                          that in memory, for an upgrade of kraft.version
    1               votes, and is known otherwise         UpdateRaftVoter, until the log says it as it is; a
                                                          leader writes it itself (`leader_log.begin_epoch`)
    1, auto-join    does not vote, another directory of   RemoveRaftVoter of that one: this replica's disk was
                    its id does                           replaced
    1, auto-join    does not vote                         AddRaftVoter; the leader waits until it has caught up

One request at a time, the first when the leader has answered a Fetch, the next a fetch timeout after the last.
"""

from __future__ import annotations

from ...protocol import ErrorCode
from .config import RaftConfig
from .messages import AddVoterRequest, RemoveVoterRequest, UpdateVoterRequest, VoterChangeResponse
from .replica import Replica
from .roles import Follower
from .voters import KRAFT_VERSION_DYNAMIC, VoterNode

VoterRequest = UpdateVoterRequest | AddVoterRequest | RemoveVoterRequest


def poll_voter_request(replica: Replica, role: Follower) -> None:
    if role.voter_request is not None or not role.has_fetched or replica.now_ms < role.voter_request_at_ms:
        return
    request = _wanted(replica, role)
    if request is not None and replica.leader_id is not None:
        role.voter_request = request
        replica.send(replica.leader_id, request)


def on_answered(replica: Replica, request: VoterRequest, response: VoterChangeResponse) -> None:
    role = replica.role
    if isinstance(role, Follower) and role.voter_request == request:
        role.has_reported = isinstance(request, UpdateVoterRequest) and response.error is ErrorCode.none
        _ask_later(replica, role)


def on_failed(replica: Replica, request: VoterRequest) -> None:
    role = replica.role
    if isinstance(role, Follower) and role.voter_request == request:
        _ask_later(replica, role)


def _ask_later(replica: Replica, role: Follower) -> None:
    role.voter_request = None
    role.voter_request_at_ms = replica.fetch_deadline()


def _wanted(replica: Replica, role: Follower) -> VoterRequest | None:
    config = replica.config
    is_dynamic = replica.kraft_version >= KRAFT_VERSION_DYNAMIC
    if replica.is_voter:
        is_known = replica.voters.by_id[config.key.id] == _own(config) if is_dynamic else role.has_reported
        if is_known:
            return None
        return UpdateVoterRequest(cluster_id=config.cluster_id, epoch=replica.epoch, voter=_own(config))
    if not (config.auto_join and is_dynamic and config.endpoints):
        return None
    other = replica.voters.by_id.get(config.key.id)
    if other is not None:
        return RemoveVoterRequest(cluster_id=config.cluster_id, voter=other.key)
    return AddVoterRequest(
        cluster_id=config.cluster_id,
        voter=_own(config),
        timeout_ms=config.request_timeout_ms // 2,
        ack_when_committed=False,
    )


def _own(config: RaftConfig) -> VoterNode:
    return VoterNode(config.key, config.endpoints)
