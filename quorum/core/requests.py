"""Checks that several requests share, and the errors that they answer with (KIP-595, "common error codes").

How far a request may raise the epoch: the requests of strangers must not use up the epochs.

Epochs are 31 bits wide, are persisted, and never fall. A single Vote, BeginQuorumEpoch or EndQuorumEpoch of epoch
2^31 - 2 would leave no epoch to elect a leader in, restarts included. A request proves nothing about its sender, so it
may raise the epoch by `STEP_MAX` at once, and by one a second in the long run (a token bucket, kept as the one time
`Replica.epochs_claimed_until_ms`). What goes further is rejected with UNKNOWN_LEADER_EPOCH, before anything changes.

An answer to a request of this replica's own is different: it comes from the listener that the voter set, or the
configuration, names. It raises the epoch by any number (`transitions.learn_leader`).

Liveness. An honest voter is seldom many epochs ahead, for a pre-vote must be won before an epoch rises (KIP-996). If it
is, after a long partition or with voters that do not know pre-votes, rejection only delays what it says. Each replica
that does not lead asks others all the time, and learns the epoch from the first answer:

| role here | asks | when |
|---|---|---|
| UNATTACHED | a random voter (Fetch) | each retry back-off |
| FOLLOWER | its leader (Fetch); all voters (pre-vote) | always; after a fetch timeout without an answer |
| PROSPECTIVE, CANDIDATE | all voters (Vote) | at once |
| LEADER | all voters that do not fetch (BeginQuorumEpoch) | each retry back-off; it resigns without a majority |
| RESIGNED | no replica | it becomes UNATTACHED after an election timeout |

A candidate whose request was rejected tries again after its back-off; by then the voters have learned its epoch.
"""

from __future__ import annotations

from typing import Final

from ...fetcher.core import QUORUM_RULES, check_leader_epoch
from ...protocol import ErrorCode
from .replica import Replica
from .roles import Leader
from .state import EPOCH_MAX
from .voters import KRAFT_VERSION_STATIC

STEP_MAX: Final = 1_000
"""Epochs that requests may claim at once; an election with its lost attempts takes a handful."""
MS_PER_EPOCH: Final = 1_000
"""A claimed epoch is restored after this time: at one a second all epochs last 68 years."""


def is_other_cluster(replica: Replica, cluster_id: str | None) -> bool:
    """Whether both sides name a cluster, and not the same."""
    own = replica.config.cluster_id
    return cluster_id is not None and own is not None and cluster_id != own


def is_foreign_voter(replica: Replica, voter_id: int) -> bool:
    """Whether static voters exclude it. With dynamic voters this replica's voter set may lag, so it excludes none."""
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
    return None if claim_epoch(replica, epoch) else ErrorCode.unknown_leader_epoch


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


def claim_epoch(replica: Replica, epoch: int) -> bool:
    """Return whether a request may raise this replica's epoch to `epoch`, and count it if so."""
    # Epochs are a finite resource, and a request may come from any process: without a limit on how fast they rise, one
    # request with a huge epoch would leave the quorum none to elect in.
    steps = epoch - replica.epoch
    if steps <= 0:
        return True
    until_ms = max(replica.epochs_claimed_until_ms, replica.now_ms) + steps * MS_PER_EPOCH
    if until_ms - replica.now_ms > STEP_MAX * MS_PER_EPOCH:
        return False
    replica.epochs_claimed_until_ms = until_ms
    return True
