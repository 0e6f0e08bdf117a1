"""Whether a replica that fetches under a static voter's id is that voter (kraft.version 0).

A static set names ids and listeners, no directories. So any process may fetch under a voter's id: a broker that was
given it by mistake, a second node with the same configuration. What such a process has on disk must not count for a
majority. The leader therefore asks the only witness there is, the listener that the set names, by a BeginQuorumEpoch
that says which directory it is for:

    fetches under the voter's id come from                    which is
    --------------------------------------------------------  ----------------------------------------------------
    a directory to which the listener has answered, in this   the voter
    leader's epoch
    another one, half a fetch timeout after the voter or      refused: DUPLICATE_VOTER
    sooner; or one that the listener has denied
    (INVALID_VOTER_KEY) less than a fetch timeout ago
    any other one                                             an observer, and the listener is asked, about one at a
                                                              time
    no directory id (before Fetch v17)                        the voter, unless the voter is known by a directory

A listener that does not answer confirms no directory. With kraft.version 1 the set names directories.
"""

from __future__ import annotations

from ...protocol import ErrorCode
from .messages import BeginQuorumEpochRequest
from .replica import Replica
from .roles import IN_FLIGHT, Identity, Leader
from .state import NO_DIRECTORY_ID, ReplicaKey
from .voters import KRAFT_VERSION_STATIC, VoterNode


def position_key(replica: Replica, role: Leader, key: ReplicaKey) -> ReplicaKey:
    """Return the key of a fetcher's position: the voter set's key if it is that voter, else its own."""
    if not replica.voters.contains(key):
        return key
    voter_key = replica.voters.by_id[key.id].key
    if voter_key.has_directory or not key.has_directory:
        return voter_key
    return voter_key if _identity(role, key.id).confirmed == key.directory_id else key


def is_duplicate(replica: Replica, role: Leader, key: ReplicaKey) -> bool:
    """Return whether a replica other than the voter fetches under the voter's id, as far as is known."""
    if replica.kraft_version != KRAFT_VERSION_STATIC or not replica.voters.contains(key):
        return False
    identity = _identity(role, key.id)
    if not key.has_directory:
        return identity.confirmed is not None
    is_stranger = identity.stranger is not None and identity.stranger == key.directory_id
    if is_stranger and replica.now_ms < identity.stranger_until_ms:
        return True
    position = role.positions.get(replica.voters.by_id[key.id].key)
    if position is None or position.directory_id in (key.directory_id, NO_DIRECTORY_ID):
        return False
    return replica.now_ms < position.last_fetch_ms + replica.config.fetch_timeout_ms // 2


def check_identity(replica: Replica, role: Leader, key: ReplicaKey) -> None:
    """Check the identity of a replica that fetches under a voter's id and does not count as the voter. There is one
    check at a time: such replicas may be many, and the listener slow."""
    if not replica.voters.contains(key):
        return
    identity = role.identities.setdefault(key.id, Identity())
    is_asking = identity.asked is not None and role.begin_at_ms.get(key.id) == IN_FLIGHT
    if identity.asked != key.directory_id and not is_asking:
        identity.asked = key.directory_id
        role.begin_at_ms[key.id] = replica.now_ms


def addressee(role: Leader, node: VoterNode) -> ReplicaKey:
    """Return the replica that a BeginQuorumEpoch to a voter's listener is for."""
    asked = _identity(role, node.id).asked
    return node.key if asked is None else ReplicaKey(node.id, asked)


def on_confirmed(replica: Replica, role: Leader, request: BeginQuorumEpochRequest, error: ErrorCode) -> None:
    """The listener of a voter has answered."""
    voter = request.voter
    node = None if voter is None else replica.voters.by_id.get(voter.id)
    if voter is None or node is None or node.key == voter or node.key.has_directory:
        return
    identity = role.identities.setdefault(voter.id, Identity())
    if identity.asked == voter.directory_id:
        identity.asked = None
    if error is ErrorCode.none:
        identity.confirmed = voter.directory_id
        if voter in role.positions:
            role.positions[node.key] = role.positions.pop(voter)
    elif error is ErrorCode.invalid_voter_key:
        identity.stranger = voter.directory_id
        identity.stranger_until_ms = replica.now_ms + replica.config.fetch_timeout_ms
        role.positions.pop(voter, None)


def _identity(role: Leader, voter_id: int) -> Identity:
    return role.identities.get(voter_id, _UNKNOWN)


_UNKNOWN = Identity()
