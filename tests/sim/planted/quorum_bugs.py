"""Bugs of the quorum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

from tierfetch.fetcher.core.epoch_fetch import DivergingEpoch, Serve, validate_fetch
from tierfetch.quorum import log_owner
from tierfetch.quorum.core import follower, leader_fetch
from tierfetch.quorum.core.events import LogCompleted
from tierfetch.quorum.peers import Peers
from tierfetch.quorum.storage.election_file import ElectionFile
from tierfetch.sim.faults.schedule import FaultKind
from tierfetch.tests.sim.planted.registry import planted


@planted(
    "the vote is not written to quorum-state",
    file="quorum/storage/election_file.py",
    scenario="quorum",
    needs_quiet=True,
    faults=(FaultKind.CRASH_VOTER,),
    election_timeout_ms=(300,),
)
def forgotten_vote() -> Iterator[None]:
    original = ElectionFile.write

    async def write(self, state, **kwargs):
        await original(self, replace(state, voted_key=None), **kwargs)

    with patch.object(ElectionFile, "write", write):
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
    file="quorum/core/leader_fetch.py",
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


@planted("a follower's high watermark goes beyond its own log", file="quorum/core/follower.py", scenario="quorum")
def watermark_beyond_log() -> Iterator[None]:
    def advance(replica, role):
        replica.advance_high_watermark(min(role.leader_high_watermark, replica.log.end_offset + 1))

    with patch.object(follower, "advance_high_watermark", advance):
        yield


@planted(
    "fetches that were given up are answered all the same",
    file="quorum/peers.py",
    scenario="quorum",
    fetch_timeout_ms=(700,),
)
def fetches_that_chase_each_other() -> Iterator[None]:
    original = Peers.send

    def send(self, effect):
        self._fetching = None
        original(self, effect)

    with patch.object(Peers, "send", send):
        yield
