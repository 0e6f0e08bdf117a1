"""The probation of a voter that started without its earlier state: with an empty disk, or without `quorum-state`.

It may be a voter of a new cluster. Or its disk was replaced or wiped: then it has acknowledged records, cast votes and
seen epochs that it no longer knows, under the name that it still has. A new directory id makes a replaced disk another
replica, which does not vote (kraft.version 1). Static voters have no directory ids (kraft.version 0), and a disk that
is formatted again may get the directory id that it had. No other replica can see the difference: only this one knows
that it started empty. So it goes on probation, and until that ends it counts as absent:

    event                                            on probation
    -----------------------------------------------  ----------------------------------------------------------------
    a vote or pre-vote is requested                  granted only to a candidate whose log is empty
    its election timeout passes                      it stands only while its own log is empty
    it fetches                                       under no replica key: its position is part of no majority, not
                                                     even for the leader of an old epoch, which it cannot recognise

Probation ends when

    condition                                        why that is enough
    -----------------------------------------------  ----------------------------------------------------------------
    it votes for an empty log, or stands with one    this is the beginning of a cluster
    it is the only voter                             there is no other replica that it could contradict
    every other voter has reported its epoch, and    no record that it acknowledged is missing, and no vote: every
    a leader of an epoch at least as high, which     replica that made a majority with it, or has its vote and may
    has committed a record of its own epoch, has     still win by it, has reported its epoch. And it has again all
    nothing more for it                              that this leader counts as acknowledged, committed or not
    such a leader's voters do not include it, and    it is a new replica: when they reported, there was no leader of
    a majority of them reported no higher epoch      a higher epoch that might know it as a voter
    it knows no voters, and such a leader rejects    the voters are static and do not include it: its position
    it with INCONSISTENT_VOTER_SET                   counts for no leader

A majority of the others is not enough for a voter: of five, the fourth may be a candidate that has the forgotten vote.
The others are those of every voter set that may be in effect: a voter whose removal is not committed may have that vote
too. They are asked by pre-votes, which bind no voter. So one wiped disk among three or five loses nothing, whichever
voter fails with it, as long as the others' logs are not empty (a majority of empty logs is a new cluster). The price:
all others must be reachable once before this replica counts.

A file marks such a replica (`vote_keeper`). It survives a restart; an operator may remove it, and accepts with that
that records may be lost.
"""

from __future__ import annotations

from ...protocol import ErrorCode
from .messages import VoteRequest, VoteResponse
from .replica import Replica
from .roles import IN_FLIGHT, Follower, Probation
from .state import OffsetAndEpoch, ReplicaKey
from .voters import VoterNode

_REPORTS_EPOCH = frozenset({ErrorCode.none, ErrorCode.fenced_leader_epoch})
"""The results of a pre-vote that report the voter's epoch."""


def may_vote_for(replica: Replica, candidate_end: OffsetAndEpoch) -> bool:
    """Return whether this replica may vote for a log that ends there: on probation, only for an empty one."""
    return replica.probation is None or candidate_end.offset == 0


def end_probation(replica: Replica) -> None:
    """This replica's log and votes are all that it ever had: from now on it counts."""
    if replica.probation is not None:
        replica.end_probation()


def end_probation_if_caught_up(replica: Replica, role: Follower) -> None:
    """The leader has nothing more for this replica: end the probation if that is enough."""
    probation, log = replica.probation, replica.log
    if probation is None:
        return
    latest = log.epochs.latest_entry
    start_offset = log.log_start.offset - 1 if latest is None else latest.start_offset
    # A record of the leader's own epoch must be committed here: an old leader that was replaced cannot commit one.
    is_of_this_leader = log.last.epoch == replica.epoch and replica.high_watermark > start_offset
    if not is_of_this_leader or replica.high_watermark < role.leader_high_watermark:
        return
    if _all_reported(replica, probation) if replica.was_voter else _is_new(replica, probation):
        end_probation(replica)


def _all_reported(replica: Replica, probation: Probation) -> bool:
    others = replica.others_that_may_vote()
    return all(node.id in probation.epochs and probation.epochs[node.id] <= replica.epoch for node in others)


def _is_new(replica: Replica, probation: Probation) -> bool:
    """Return whether a replica that is no voter is new."""
    if not replica.voters.nodes:
        return probation.is_excluded
    reported = [probation.epochs[node.id] for node in replica.voters if node.id in probation.epochs]
    return len(reported) >= replica.voters.majority and max(reported) <= replica.epoch


def poll_probation(replica: Replica, probation: Probation) -> None:
    """Send pre-votes to the voters that have not reported their epoch yet."""
    if replica.is_voter and not replica.others_that_may_vote():
        end_probation(replica)
    for node in _peers_to_ask(replica):
        at_ms = probation.ask_at_ms.setdefault(node.id, replica.now_ms)
        if node.id in probation.epochs or at_ms == IN_FLIGHT or replica.now_ms < at_ms:
            continue
        probation.ask_at_ms[node.id] = IN_FLIGHT
        request = VoteRequest(
            cluster_id=replica.config.cluster_id,
            candidate=replica.key,
            epoch=replica.epoch,
            last=replica.log.last,
            pre_vote=True,
            voter=node.key,
        )
        replica.send(node.id, request)


def _peers_to_ask(replica: Replica) -> list[VoterNode]:
    """Return the voters whose epoch is needed.

    A voter with this node's id and another directory is among them: if it runs, it rejects the request, and the shell
    reports two nodes with one id. A replica that knows no voters asks the leader, which rejects it where voters are
    static and do not include it.
    """
    if not replica.voters.nodes:
        leader_id = replica.leader_id
        is_reachable = leader_id != replica.key.id and replica.known_leader_endpoint() is not None
        return [VoterNode(ReplicaKey(leader_id))] if leader_id is not None and is_reachable else []
    same_id = replica.voters.by_id.get(replica.key.id)
    is_other = same_id is not None and not replica.voters.contains(replica.key)
    return [*replica.others_that_may_vote(), *([same_id] if same_id is not None and is_other else [])]


def deadlines(replica: Replica, probation: Probation) -> list[int]:
    """Return when the next pre-votes are due, in ms of the core's clock."""
    times = [
        probation.ask_at_ms.get(node.id, IN_FLIGHT)
        for node in _peers_to_ask(replica)
        if node.id not in probation.epochs
    ]
    return [at_ms for at_ms in times if at_ms != IN_FLIGHT]


def on_epoch_reported(replica: Replica, peer_id: int, response: VoteResponse) -> None:
    probation = replica.probation
    if probation is None:
        return
    is_excluding = response.error is ErrorCode.inconsistent_voter_set and peer_id == replica.leader_id
    if is_excluding and not replica.voters.nodes:
        probation.is_excluded = True
        probation.epochs[peer_id] = response.leader.epoch
    elif response.error in _REPORTS_EPOCH:
        probation.epochs[peer_id] = response.leader.epoch
    else:
        ask_later(replica, peer_id)


def ask_later(replica: Replica, peer_id: int) -> None:
    if replica.probation is not None:
        replica.probation.ask_at_ms[peer_id] = replica.now_ms + replica.config.fetch_timeout_ms // 4
