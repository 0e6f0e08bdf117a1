"""A KRaft replica as a state machine: events in, effects out (KIP-595, KIP-630, KIP-853, KIP-996). Pure.

machine         is `RaftCore.step`, and the table of what must be on disk before what. Begin here.
events          declares everything that can happen to the core.
effects         declares everything that the core asks its shell to do.
messages        declares the requests and responses between replicas.
state           declares the states, and what a replica must never forget.
roles           holds what a replica keeps only while it is in one state.
transitions     moves a replica from one state to another, against a literal table.
replica         holds the state that outlives roles, and declares the status of a replica; it decides nothing.
election        decides votes: asks for them, grants them, counts them; pre-votes first (KIP-996).
leader          leads an epoch: moves the high watermark and keeps in touch with voters.
leader_log      assigns offsets to appends and gathers them into writes.
leader_fetch    answers Fetch, FetchSnapshot and DescribeQuorum.
high_watermark  computes what a majority has.
follower        finds a leader, fetches from it, and truncates.
snapshot_fetch  fetches the leader's snapshot when its log no longer reaches back far enough (KIP-630).
voters          holds the voter set and its history in the log (KIP-853).
membership      adds, removes and updates voters one at a time (KIP-853).
voter_requests  asks the leader to update this voter or to add it (KIP-853).
resignation     resigns leadership, and ends a replica's service.
probation       keeps a voter that lost its disk from voting until it is safe.
identity        checks that a fetcher is the static voter whose id it uses (kraft.version 0).
requests        checks what several requests have in common, and how far they may raise the epoch.
log_view        holds what the core knows of its own log.
config          declares timeouts and limits (`controller.quorum.*`).
errors          declares the errors of an append and of a replica.

What is exported here is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...doors import lazy_door

if TYPE_CHECKING:
    from .messages import UpgradeKRaftVersionRequest, VoterChangeResponse
    from .roles import Candidate, Role
    from .voters import VoterHistory

__all__ = [
    "Candidate",
    "Role",
    "UpgradeKRaftVersionRequest",
    "VoterChangeResponse",
    "VoterHistory",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "Candidate": "roles",
            "Role": "roles",
            "UpgradeKRaftVersionRequest": "messages",
            "VoterChangeResponse": "messages",
            "VoterHistory": "voters",
        },
    )
