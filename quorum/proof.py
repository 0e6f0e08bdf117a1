"""What a voter of a static set has to prove that began with nothing on its disk (kraft.version 0).

Such a voter may be one of a new cluster. Or its disk was replaced: then it has acknowledged records, and given votes,
that it knows nothing of any more, and has the same name as before. With directory ids (kraft.version 1) a replaced disk
is another replica, which does not vote; without them only the replica itself can know. Until it has proven its log it

    is asked for its vote, or a pre-vote             grants it only to a candidate whose log is empty
    could stand for election                         does so only while its own log is empty
    has voted for an empty log, or stood with one    has proven it: this is the beginning of a cluster
    has all that its leader knows to be committed,
    a record of the leader's own epoch among it      has proven it: nothing that it ever acknowledged is missing

So one wiped disk among three loses nothing, whoever fails with it: the remaining voter waits for the third, if its own
log holds anything (two empty logs are a new cluster, whatever the third has). What it costs: a voter that has never
been there cannot help to elect a leader either, before it has followed one.

The mark of such a voter is a file (`unproven_voter`), which a restart does not take away; an operator may, and says
with it that records may be lost.
"""

from __future__ import annotations

from .effects import VoterProven
from .replica import Replica
from .roles import Follower
from .state import OffsetAndEpoch


def may_vote_for(replica: Replica, candidate_end: OffsetAndEpoch) -> bool:
    return not replica.is_unproven or candidate_end.offset == 0


def prove(replica: Replica) -> None:
    """This replica's log is all that it ever had."""
    if replica.is_unproven:
        replica.is_unproven = False
        replica.emit(VoterProven())


def prove_by_catching_up(replica: Replica, role: Follower) -> None:
    if not replica.is_unproven:
        return
    log = replica.log
    latest = log.epochs.latest_entry
    start_offset = log.log_start.offset - 1 if latest is None else latest.start_offset
    is_of_this_leader = log.last.epoch == replica.epoch and replica.high_watermark > start_offset
    if is_of_this_leader and replica.high_watermark >= role.leader_high_watermark:
        prove(replica)
