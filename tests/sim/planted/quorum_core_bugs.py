"""Bugs of the quorum's pure part, which tests in `tests/quorum` find without a seed, too."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

from tierfetch.quorum.core import election, follower, leader
from tierfetch.quorum.core.effects import Flush, PersistState
from tierfetch.quorum.core.high_watermark import advanced_high_watermark, majority_reached
from tierfetch.quorum.core.log_view import LogView
from tierfetch.quorum.core.replica import Replica
from tierfetch.quorum.core.roles import Candidate, Prospective, Unattached
from tierfetch.quorum.core.voters import VoterSet
from tierfetch.sim.faults.schedule import FaultKind
from tierfetch.tests.sim.planted.registry import planted

MODEL = "tests/quorum/model/test_model.py"
TRANSCRIPTS = "tests/quorum/test_core_planted.py"
LOG_VIEW = "tests/quorum/test_log_view.py"


@planted(
    "the vote is not persisted",
    file="quorum/core/replica.py",
    scenario="quorum",
    shown_by=MODEL,
    needs_quiet=True,
    faults=(FaultKind.CRASH_VOTER,),
)
def forgotten_vote() -> Iterator[None]:
    def persist(replica):
        voted_key, replica.voted_key = replica.voted_key, None
        original(replica)
        replica.voted_key = voted_key

    original = Replica.persist
    with patch.object(Replica, "persist", persist):
        yield


@planted(
    "a vote leaves before it is on disk",
    file="quorum/core/replica.py",
    scenario="quorum",
    shown_by=MODEL,
    needs_quiet=True,
    faults=(FaultKind.CRASH_VOTER,),
)
def open_gate() -> Iterator[None]:
    def emit(replica, effect):
        replica._effects.append(effect)
        if isinstance(effect, PersistState):
            replica._awaited = effect

    with patch.object(Replica, "emit", emit), patch.object(Replica, "confirm_persisted", lambda *_: None):
        yield


@planted(
    "votes twice in an epoch",
    file="quorum/core/election.py",
    scenario="quorum",
    shown_by=MODEL,
    needs_quiet=True,
    faults=(FaultKind.CRASH_VOTER, FaultKind.REORDERING, FaultKind.SLOW_LINK),
)
def votes_twice() -> Iterator[None]:
    def can_grant(replica, request):
        is_free = isinstance(replica.role, Unattached | Prospective) and replica.leader_id is None
        return is_free and election.is_up_to_date(request.last, replica.log.last)

    def grant(replica, request):
        replica.voted_key = None
        original(replica, request)

    original = election.grant_vote
    with patch.object(election, "can_grant_vote", can_grant), patch.object(election, "grant_vote", grant):
        yield


@planted(
    "a candidate votes for another candidate of its epoch",
    file="quorum/core/election.py",
    scenario="quorum",
    shown_by=MODEL,
    needs_quiet=True,
    faults=(FaultKind.CRASH_VOTER, FaultKind.REORDERING, FaultKind.SLOW_LINK),
)
def candidate_votes() -> Iterator[None]:
    def can_grant(replica, request):
        if isinstance(replica.role, Candidate):
            return election.is_up_to_date(request.last, replica.log.last)
        return original(replica, request)

    def grant(replica, request):
        if not isinstance(replica.role, Candidate):
            original_grant(replica, request)

    original, original_grant = election.can_grant_vote, election.grant_vote
    with patch.object(election, "can_grant_vote", can_grant), patch.object(election, "grant_vote", grant):
        yield


@planted(
    "a shorter log of the same epoch gets the vote",
    file="quorum/core/election.py",
    scenario="quorum",
    shown_by=MODEL,
    faults=(FaultKind.PARTITION, FaultKind.ONE_WAY, FaultKind.PAUSE),
)
def shorter_log() -> Iterator[None]:
    with patch.object(election, "is_up_to_date", lambda candidate, own: candidate.epoch >= own.epoch):
        yield


@planted(
    "the longer log gets the vote, whatever its epoch",
    file="quorum/core/election.py",
    scenario="quorum",
    shown_by=MODEL,
    needs_quiet=True,
    faults=(FaultKind.RELIEVE_LEADERS,),
    appenders=(2, 3),
    batch_records_max=(3,),
)
def longer_log() -> Iterator[None]:
    with patch.object(election, "is_up_to_date", lambda candidate, own: candidate.offset >= own.offset):
        yield


@planted(
    "votes for an earlier epoch are counted",
    file="quorum/core/election.py",
    scenario="quorum",
    shown_by=MODEL,
    needs_quiet=True,
    faults=(FaultKind.LATE_VOTES,),
    election_timeout_ms=(300,),
)
def stale_votes() -> Iterator[None]:
    def poll_of(replica, request):
        role = replica.role
        is_same_kind = isinstance(role, Prospective) if request.pre_vote else isinstance(role, Candidate)
        return role.poll if is_same_kind else None

    with patch.object(election, "_poll_of", poll_of):
        yield


@planted(
    "half of the voters are a majority",
    file="quorum/core/voters.py",
    scenario="quorum",
    shown_by=MODEL,
    faults=(FaultKind.PARTITION, FaultKind.PROCESS_CRASH),
)
def half_is_enough() -> Iterator[None]:
    with patch.object(VoterSet, "majority", property(lambda voters: max(1, len(voters) // 2))):
        yield


@planted(
    "high watermark from an entry of an old epoch",
    file="quorum/core/high_watermark.py",
    scenario="quorum",
    shown_by=MODEL,
    needs_quiet=True,
    faults=(FaultKind.CUT_NEW_LEADERS, FaultKind.ISOLATE_LEADER, FaultKind.SLOW_LINK),
    fetch_max_bytes=(250,),
)
def old_epochs_entry() -> Iterator[None]:
    def advanced(high_watermark, ends, majority, _):
        return max(high_watermark, majority_reached(ends, majority))

    with patch.object(leader, "advanced_high_watermark", advanced):
        yield


@planted(
    "a fetch from an observer counts",
    file="quorum/core/leader.py",
    scenario="quorum",
    shown_by=TRANSCRIPTS,
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
    "a follower acknowledges before its flush",
    file="quorum/core/log_view.py",
    scenario="quorum",
    shown_by=TRANSCRIPTS,
    faults=(FaultKind.POWER_FAILURE, FaultKind.MACHINE_CRASH),
)
def early_acknowledgement() -> Iterator[None]:
    def is_busy(log):
        return any(not isinstance(item.effect, Flush) for item in log._outstanding)

    with patch.object(LogView, "is_busy", property(is_busy)):
        yield


@planted(
    "the leader counts what it has written, not flushed",
    file="quorum/core/leader.py",
    scenario="quorum",
    shown_by=TRANSCRIPTS,
    faults=(FaultKind.POWER_FAILURE, FaultKind.MACHINE_CRASH),
)
def leader_counts_unflushed() -> Iterator[None]:
    original = leader.update_high_watermark

    def update(replica, role):
        flushed = replica.log.flushed_end_offset
        replica.log.flushed_end_offset = replica.log.written_end_offset
        original(replica, role)
        replica.log.flushed_end_offset = flushed

    with patch.object(leader, "update_high_watermark", update):
        yield


@planted(
    "a truncated tail still counts as flushed",
    file="quorum/core/log_view.py",
    scenario="quorum",
    shown_by=LOG_VIEW,
    needs_quiet=True,
    faults=(FaultKind.ISOLATE_LEADER, FaultKind.MACHINE_CRASH),
)
def stale_flush() -> Iterator[None]:
    original = LogView.truncate

    def truncate(log, effect):
        flushed = log.flushed_end_offset
        original(log, effect)
        log.flushed_end_offset = flushed

    with patch.object(LogView, "truncate", truncate):
        yield


@planted(
    "DivergingEpoch is overlooked",
    file="quorum/core/follower.py",
    scenario="quorum",
    shown_by=TRANSCRIPTS,
    needs_quiet=True,
    faults=(FaultKind.ISOLATE_LEADER, FaultKind.PARTITION),
)
def no_truncation() -> Iterator[None]:
    with patch.object(follower, "_truncate", lambda *_: None):
        yield


@planted(
    "no check-quorum",
    file="quorum/core/leader.py",
    scenario="quorum",
    shown_by=TRANSCRIPTS,
    needs_quiet=True,
    faults=(FaultKind.ISOLATE_LEADER,),
)
def no_check_quorum() -> Iterator[None]:
    with patch.object(leader, "check_quorum_deadline", lambda *_: None):
        yield


@planted(
    "pre-votes are granted although the leader is heard",
    file="quorum/core/election.py",
    scenario="quorum",
    shown_by=TRANSCRIPTS,
    needs_quiet=True,
    faults=(FaultKind.ONE_WAY, FaultKind.ISOLATE_LEADER),
)
def disturbed_leader() -> Iterator[None]:
    def can_grant(replica, request):
        return election.is_up_to_date(request.last, replica.log.last)

    with patch.object(election, "can_grant_pre_vote", can_grant):
        yield
