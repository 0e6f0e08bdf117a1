"""What a voter of a static set has to prove that began with nothing on its disk (kraft.version 0).

Such a voter may be one of a new cluster. Or its disk was replaced: then it has acknowledged records, given votes and
seen epochs that it knows nothing of any more, and has the same name as before. With directory ids (kraft.version 1) a
replaced disk is another replica, which does not vote; without them only the replica itself can know. So it doubts its
log, and while it does it counts as if it were not there:

    is asked for its vote, or a pre-vote             grants it only to a candidate whose log is empty
    could stand for election                         does so only while its own log is empty
    fetches                                          as nobody: what it has makes no majority, not even for a leader
                                                     of an old epoch, of which it does not know that it is over

The doubt ends when

    it votes for an empty log, or stands with one    this is the beginning of a cluster
    every other voter has told its epoch, and a      nothing that it ever acknowledged is missing, nor a vote: whoever
    leader of no older one, which has committed a    made a majority with it, or has its vote and may yet win by it,
    record of its own epoch, had nothing more for    has told its epoch. And what this leader counts as acknowledged
    it                                               by the one that was, committed or not, it has again

A majority of the others is not enough: of five the fourth may be a candidate that has the forgotten vote. It asks by
pre-votes, which bind nobody. So one wiped disk among three or five loses nothing, whoever fails with it, if the others'
logs hold anything (as many empty logs as make a majority are a new cluster, whatever the others have). What it costs:
all others must be there once before this one counts.

The mark of such a voter is a file (`unproven_voter`), which a restart does not take away; an operator may, and says
with it that records may be lost.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..protocol.errors import ErrorCode
from .effects import VoterProven
from .messages import VoteRequest, VoteResponse
from .replica import Replica
from .roles import IN_FLIGHT, Follower
from .state import OffsetAndEpoch

_TELLING = frozenset({ErrorCode.none, ErrorCode.fenced_leader_epoch})
"""Answers to a vote that say in which epoch the voter is."""


def may_vote_for(replica: Replica, candidate_end: OffsetAndEpoch) -> bool:
    return replica.doubt is None or candidate_end.offset == 0


def prove(replica: Replica) -> None:
    """This replica's log is all that it ever had."""
    if replica.doubt is not None:
        replica.doubt = None
        replica.emit(VoterProven())


def prove_by_catching_up(replica: Replica, role: Follower) -> None:
    """The leader has answered that it has nothing more."""
    doubt, log = replica.doubt, replica.log
    if doubt is None:
        return
    others = replica.other_voters()
    heard = [doubt.epochs[node.id] for node in others if node.id in doubt.epochs]
    if len(heard) < len(others) or replica.epoch < max(heard, default=0):
        return
    latest = log.epochs.latest_entry
    start_offset = log.log_start.offset - 1 if latest is None else latest.start_offset
    is_of_this_leader = log.last.epoch == replica.epoch and replica.high_watermark > start_offset
    if is_of_this_leader and replica.high_watermark >= role.leader_high_watermark:
        prove(replica)


def poll_doubt(replica: Replica) -> None:
    """Ask those who have not told their epoch yet."""
    doubt = replica.doubt
    if doubt is None:
        return
    for node in replica.other_voters():
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


def deadlines(replica: Replica) -> Iterator[int]:
    if replica.doubt is not None:
        epochs, ask_at_ms = replica.doubt.epochs, replica.doubt.ask_at_ms
        yield from (
            at_ms
            for node in replica.other_voters()
            if node.id not in epochs and (at_ms := ask_at_ms[node.id]) != IN_FLIGHT
        )


def on_told(replica: Replica, peer_id: int, response: VoteResponse) -> None:
    doubt = replica.doubt
    if doubt is None:
        return
    if response.error in _TELLING:
        doubt.epochs[peer_id] = response.leader.epoch
    else:
        ask_later(replica, peer_id)


def ask_later(replica: Replica, peer_id: int) -> None:
    if replica.doubt is not None:
        replica.doubt.ask_at_ms[peer_id] = replica.now_ms + replica.config.fetch_timeout_ms // 4
