"""Bugs of the quorum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from unittest.mock import patch

from tierfetch.fetcher.epoch_fetch import DivergingEpoch, Serve, validate_fetch
from tierfetch.quorum import election, follower, leader, leader_fetch, log_owner
from tierfetch.quorum.election_file import ElectionFile
from tierfetch.quorum.events import LogCompleted
from tierfetch.quorum.high_watermark import advanced_high_watermark, majority_reached
from tierfetch.quorum.roles import Prospective, Unattached
from tierfetch.sim.schedule import FaultKind
from tierfetch.tests.sim.planted.registry import planted


@planted(
    "a fetch of an observer counts for the high watermark",
    file="quorum/leader.py",
    scenario="quorum",
    faults=(FaultKind.PARTITION, FaultKind.MACHINE_CRASH),
)
def observer_counts() -> Iterator[None]:
    original = leader.update_high_watermark

    def update(replica, role):
        observers = [each.end_offset for key, each in role.positions.items() if not replica.voters.contains(key)]

        def advanced(high_watermark, ends, majority, start):
            return advanced_high_watermark(high_watermark, [*ends, *observers], majority, start)

        with patch.object(leader, "advanced_high_watermark", advanced):
            original(replica, role)

    with patch.object(leader, "update_high_watermark", update):
        yield


@planted(
    "half of the voters count as a majority",
    file="quorum/high_watermark.py",
    scenario="quorum",
    faults=(FaultKind.PARTITION, FaultKind.PROCESS_CRASH),
)
def half_is_enough() -> Iterator[None]:
    def advanced(high_watermark, ends, majority, start):
        return advanced_high_watermark(high_watermark, ends, max(1, majority - 1), start)

    with patch.object(leader, "advanced_high_watermark", advanced):
        yield


@planted(
    "the vote is not written to quorum-state",
    file="quorum/election_file.py",
    scenario="quorum",
    faults=(FaultKind.PROCESS_CRASH, FaultKind.MOVE_LEADER, FaultKind.REORDERING),
    election_timeout_ms=(300,),
)
def forgotten_vote() -> Iterator[None]:
    original = ElectionFile.write

    async def write(self, state, **kwargs):
        await original(self, replace(state, voted_key=None), **kwargs)

    with patch.object(ElectionFile, "write", write):
        yield


@planted(
    "a second candidate gets a vote in the same epoch",
    file="quorum/election.py",
    scenario="quorum",
    faults=(FaultKind.MOVE_LEADER, FaultKind.REORDERING, FaultKind.SLOW_LINK),
    election_timeout_ms=(300,),
)
def votes_twice() -> Iterator[None]:
    def can_grant(replica, request):
        if not isinstance(replica.role, Unattached | Prospective) or replica.leader_id is not None:
            return False
        return election.is_up_to_date(request.last, replica.log.last)

    with patch.object(election, "can_grant_vote", can_grant):
        yield


@planted(
    "a candidate with a shorter log of the same epoch gets votes",
    file="quorum/election.py",
    scenario="quorum",
    faults=(FaultKind.PARTITION, FaultKind.ONE_WAY, FaultKind.PAUSE),
)
def shorter_log() -> Iterator[None]:
    with patch.object(election, "is_up_to_date", lambda candidate, own: candidate.epoch >= own.epoch):
        yield


@planted(
    "the length of logs is compared before their epochs",
    file="quorum/election.py",
    scenario="quorum",
    faults=(FaultKind.PARTITION, FaultKind.ONE_WAY, FaultKind.PAUSE),
)
def length_before_epoch() -> Iterator[None]:
    def is_up_to_date(candidate, own):
        return (candidate.offset, candidate.epoch) >= (own.offset, own.epoch)

    with patch.object(election, "is_up_to_date", is_up_to_date):
        yield


@planted(
    "records are acknowledged before they are flushed",
    file="quorum/log_owner.py",
    scenario="quorum",
    faults=(FaultKind.POWER_FAILURE, FaultKind.MACHINE_CRASH),
)
def acknowledged_before_fsync() -> Iterator[None]:
    async def flush(self, order):
        self._tell(LogCompleted(order))

    with patch.object(log_owner.LogOwner, "_flush", flush):
        yield


@planted(
    "the quorum's leader overlooks a diverging log that is not longer",
    file="quorum/leader_fetch.py",
    scenario="quorum",
    faults=(FaultKind.PARTITION, FaultKind.PAUSE),
)
def overlooked_divergence() -> Iterator[None]:
    def validate(view, position, rules):
        decision = validate_fetch(view, position, rules)
        if isinstance(decision, DivergingEpoch) and position.fetch_offset <= view.log_end_offset:
            return Serve(view.log_end_offset)
        return decision

    with patch.object(leader_fetch, "validate_fetch", validate):
        yield


@planted("a follower's high watermark goes beyond its own log", file="quorum/follower.py", scenario="quorum")
def watermark_beyond_log() -> Iterator[None]:
    def advance(replica, role):
        replica.advance_high_watermark(min(role.leader_high_watermark, replica.log.end_offset + 1))

    with patch.object(follower, "advance_high_watermark", advance):
        yield


@planted(
    "high watermark from an entry of an old epoch",
    file="quorum/high_watermark.py",
    scenario="quorum",
    faults=(FaultKind.PARTITION, FaultKind.PAUSE, FaultKind.PROCESS_CRASH),
)
def old_epochs_entry() -> Iterator[None]:
    def advanced(high_watermark: int, ends: Iterable[int], majority: int, _: int) -> int:
        return max(high_watermark, majority_reached(ends, majority))

    with patch.object(leader, "advanced_high_watermark", advanced):
        yield
