"""What a replica that can vote has to prove when it began without what it had: an empty disk, or no `quorum-state`.

It may be a voter of a new cluster. Or its disk was replaced, or emptied: then it has acknowledged records, given votes
and seen epochs that it knows nothing of any more, and has the same name as before. A new directory id makes a replaced
disk another replica, which does not vote (kraft.version 1). But static voters have none (kraft.version 0), and one that
is formatted again may be given the directory id that it had. Nobody else can tell; only the replica itself knows that
it began with nothing. So it doubts itself, and while it does it counts as if it were not there:

    is asked for its vote, or a pre-vote             grants it only to a candidate whose log is empty
    could stand for election                         does so only while its own log is empty
    fetches                                          as nobody: what it has makes no majority, not even for a leader
                                                     of an old epoch, of which it does not know that it is over

The doubt ends when

    it votes for an empty log, or stands with one    this is the beginning of a cluster
    it is the only voter                             there is nobody whom it could contradict
    every other voter has told its epoch, and a      nothing that it ever acknowledged is missing, nor a vote: whoever
    leader of no older one, which has committed a    made a majority with it, or has its vote and may yet win by it,
    record of its own epoch, had nothing more for    has told its epoch. And what this leader counts as acknowledged
    it                                               by the one that was, committed or not, it has again
    such a leader's voters are others, and most of   it is a new replica: a leader of a newer epoch, which might know
    them have told an epoch that is no newer         it as a voter, there was not when they told
    it knows of no voters, and such a leader has     the voters are static, and others: what it has counts for nobody
    said that its own do not hold it
    (INCONSISTENT_VOTER_SET)

A majority of the others is not enough for a voter: of five the fourth may be a candidate that has the forgotten vote.
Others are all of the voter sets that may be in effect: one whose removal is not committed may have that vote, too. It
asks by pre-votes, which bind nobody. So one wiped disk among three or five loses nothing, whoever fails with it, if the
others' logs hold anything (as many empty logs as make a majority are a new cluster, whatever the others have). What it
costs: all others must be there once before this one counts.

The mark of such a replica is a file (`unproven_voter`), which a restart does not take away; an operator may, and says
with it that records may be lost.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from .messages import VoteRequest, VoteResponse
from .replica import Replica
from .roles import IN_FLIGHT, Doubt, Follower
from .state import OffsetAndEpoch, ReplicaKey
from .voters import VoterNode

_TELLING = frozenset({ErrorCode.none, ErrorCode.fenced_leader_epoch})
"""Answers to a vote that say in which epoch the voter is."""


def may_vote_for(replica: Replica, candidate_end: OffsetAndEpoch) -> bool:
    return replica.doubt is None or candidate_end.offset == 0


def prove(replica: Replica) -> None:
    """This replica's log and votes are all that it ever had."""
    if replica.doubt is not None:
        replica.end_doubt()


def prove_by_catching_up(replica: Replica, role: Follower) -> None:
    """The leader has answered that it has nothing more."""
    doubt, log = replica.doubt, replica.log
    if doubt is None:
        return
    latest = log.epochs.latest_entry
    start_offset = log.log_start.offset - 1 if latest is None else latest.start_offset
    is_of_this_leader = log.last.epoch == replica.epoch and replica.high_watermark > start_offset
    if not is_of_this_leader or replica.high_watermark < role.leader_high_watermark:
        return
    if _have_told(replica, doubt) if replica.was_voter else _is_new(replica, doubt):
        prove(replica)


def _have_told(replica: Replica, doubt: Doubt) -> bool:
    others = replica.others_that_may_vote()
    return all(node.id in doubt.epochs and doubt.epochs[node.id] <= replica.epoch for node in others)


def _is_new(replica: Replica, doubt: Doubt) -> bool:
    """Return whether a replica that is no voter is new."""
    if not replica.voters.nodes:
        return doubt.is_excluded
    told = [doubt.epochs[node.id] for node in replica.voters if node.id in doubt.epochs]
    return len(told) >= replica.voters.majority and max(told) <= replica.epoch


def poll_doubt(replica: Replica, doubt: Doubt) -> None:
    """Ask those who have not told their epoch yet."""
    if replica.is_voter and not replica.others_that_may_vote():
        prove(replica)
    for node in _asked(replica):
        at_ms = doubt.ask_at_ms.setdefault(node.id, replica.now_ms)
        if node.id in doubt.epochs or at_ms == IN_FLIGHT or replica.now_ms < at_ms:
            continue
        doubt.ask_at_ms[node.id] = IN_FLIGHT
        request = VoteRequest(
            cluster_id=replica.config.cluster_id,
            candidate=replica.key,
            epoch=replica.epoch,
            last=replica.log.last,
            pre_vote=True,
            voter=node.key,
        )
        replica.send(node.id, request)


def _asked(replica: Replica) -> list[VoterNode]:
    """Also another directory of this node's id: where one runs, it refuses, and the shell says that there are two. Who
    knows no voters asks the leader: one of static voters says by its refusal that they are others."""
    if not replica.voters.nodes:
        leader_id = replica.leader_id
        is_reachable = leader_id != replica.key.id and replica.known_leader_endpoint() is not None
        return [VoterNode(ReplicaKey(leader_id))] if leader_id is not None and is_reachable else []
    double = replica.voters.by_id.get(replica.key.id)
    is_other = double is not None and not replica.voters.contains(replica.key)
    return [*replica.others_that_may_vote(), *([double] if double is not None and is_other else [])]


def deadlines(replica: Replica, doubt: Doubt) -> list[int]:
    times = [doubt.ask_at_ms.get(node.id, IN_FLIGHT) for node in _asked(replica) if node.id not in doubt.epochs]
    return [at_ms for at_ms in times if at_ms != IN_FLIGHT]


def on_told(replica: Replica, peer_id: int, response: VoteResponse) -> None:
    doubt = replica.doubt
    if doubt is None:
        return
    is_excluding = response.error is ErrorCode.inconsistent_voter_set and peer_id == replica.leader_id
    if is_excluding and not replica.voters.nodes:
        doubt.is_excluded = True
        doubt.epochs[peer_id] = response.leader.epoch
    elif response.error in _TELLING:
        doubt.epochs[peer_id] = response.leader.epoch
    else:
        ask_later(replica, peer_id)


def ask_later(replica: Replica, peer_id: int) -> None:
    if replica.doubt is not None:
        replica.doubt.ask_at_ms[peer_id] = replica.now_ms + replica.config.fetch_timeout_ms // 4
