"""Which state a replica starts in, from what was on its disk.

    quorum-state                                  starts as
    --------------------------------------------  ----------------------------------------------------------------
    an epoch below that of the last record        UNATTACHED in the record's epoch: who led it is not known
    itself as leader                              RESIGNED: its old epoch must not see two leaders, nor two votes
    another replica as leader                     FOLLOWER of it
    a vote, or nothing                            UNATTACHED, the vote kept

A replica that is the only voter does not wait for anybody.
"""

from __future__ import annotations

from .effects import LeaderChanged
from .replica import Replica
from .roles import Follower, Resigned, Unattached


def start(replica: Replica) -> None:
    replica.is_started = True
    now_ms = replica.now_ms
    last_epoch = replica.log.last.epoch
    if last_epoch > replica.epoch:
        replica.epoch, replica.leader_id, replica.voted_key = last_epoch, None, None
        replica.persist()
    is_alone = replica.is_voter and not replica.other_voters
    election_deadline_ms = now_ms if is_alone else replica.random_election_deadline()
    if replica.leader_id is None:
        replica.role = Unattached(election_deadline_ms, now_ms)
    elif replica.leader_id == replica.key.id:
        replica.role = Resigned(election_deadline_ms, None, {})
    else:
        replica.role = Follower(replica.fetch_deadline(), now_ms, now_ms)
    replica.told_leader = replica.leader
    replica.emit(LeaderChanged(replica.leader))
