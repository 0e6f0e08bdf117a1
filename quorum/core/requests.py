"""Checks that several requests share, and the errors that they answer with (KIP-595, "common error codes")."""

from __future__ import annotations

from ...fetcher.core.epoch_fetch import QUORUM_RULES, check_leader_epoch
from ...protocol.errors import ErrorCode
from .replica import Replica
from .roles import Leader
from .state import EPOCH_MAX
from .voters import KRAFT_VERSION_STATIC


def is_other_cluster(replica: Replica, cluster_id: str | None) -> bool:
    """Whether both sides name a cluster, and not the same."""
    own = replica.config.cluster_id
    return cluster_id is not None and own is not None and cluster_id != own


def is_foreign_voter(replica: Replica, voter_id: int) -> bool:
    """Whether static voters exclude it. With dynamic voters a replica may be behind: anyone may be a voter by now."""
    return replica.kraft_version == KRAFT_VERSION_STATIC and voter_id not in replica.voters.by_id


def is_impossible(replica: Replica, node_id: int, epoch: int) -> bool:
    """Whether no other replica can be called so, or lead that epoch."""
    return node_id < 0 or node_id == replica.key.id or epoch >= EPOCH_MAX


def leadership_error(replica: Replica, leader_id: int, epoch: int) -> ErrorCode | None:
    """Why another replica cannot be what it says it is, or was: the leader of `epoch`."""
    if is_impossible(replica, leader_id, epoch):
        return ErrorCode.invalid_request
    if is_foreign_voter(replica, leader_id):
        return ErrorCode.inconsistent_voter_set
    if epoch < replica.epoch:
        return ErrorCode.fenced_leader_epoch
    if epoch == replica.epoch and replica.leader_id not in (None, leader_id):
        return ErrorCode.invalid_request
    return None


def leader_only_error(replica: Replica, epoch: int) -> ErrorCode | None:
    """Why this replica does not answer as the leader of `epoch`."""
    if replica.is_shutting_down:
        return ErrorCode.broker_not_available
    refusal = check_leader_epoch(replica.epoch, epoch, QUORUM_RULES)
    if refusal is not None:
        return refusal.error
    if not isinstance(replica.role, Leader):
        return ErrorCode.not_leader_or_follower
    return None
