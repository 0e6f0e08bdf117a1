"""Bugs that show when the voters of the quorum change (`sim/scenarios/operations/voters.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

from tierfetch.quorum.core import leader, leader_log, membership
from tierfetch.quorum.core.effects import Truncate
from tierfetch.quorum.core.replica import Replica
from tierfetch.quorum.core.roles import Leader
from tierfetch.quorum.core.voters import VoterSet
from tierfetch.sim.faults.schedule import FaultKind
from tierfetch.tests.sim.planted.registry import planted


@planted(
    "a voter is added that has not caught up",
    file="quorum/core/membership.py",
    scenario="quorum",
    spares=(1, 2),
    is_static_at_first=(False,),
)
def added_too_early() -> Iterator[None]:
    with patch.object(membership, "_has_caught_up", lambda *_: True):
        yield


@planted(
    "voters whose record was truncated stay in effect",
    file="quorum/core/replica.py",
    scenario="quorum",
    faults=(FaultKind.ISOLATE_LEADER, FaultKind.RELIEVE_LEADERS),
    spares=(1, 2),
    is_static_at_first=(False,),
)
def truncated_voters_stay() -> Iterator[None]:
    def truncate(self: Replica, end_offset: int) -> None:
        effect = Truncate(end_offset)
        self.log.truncate(effect)
        self.emit(effect)

    with patch.object(Replica, "truncate", truncate):
        yield


@planted(
    "a removed leader goes on leading",
    file="quorum/core/membership.py",
    scenario="quorum",
    spares=(1, 2),
    is_static_at_first=(False,),
)
def removed_leader_stays() -> Iterator[None]:
    original = membership.on_high_watermark

    def on_high_watermark(replica: Replica, role: Leader) -> None:
        with patch.object(membership, "resign", lambda *_: None):
            original(replica, role)

    with patch.object(leader, "on_high_watermark", on_high_watermark):
        yield


@planted(
    "a leader does not say where it listens",
    file="quorum/core/leader_log.py",
    scenario="quorum",
    spares=(1, 2),
    is_static_at_first=(False,),
)
def leader_keeps_its_place_to_itself() -> Iterator[None]:
    with patch.object(leader_log, "_with_itself", lambda replica: replica.voters):
        yield


@planted(
    "a replica with a new disk has the vote of the old one",
    file="quorum/core/voters.py",
    scenario="cluster",
    changing_voters=(True,),
)
def new_disk_votes() -> Iterator[None]:
    with patch.object(VoterSet, "contains", lambda self, key: key.id in self.by_id):
        yield
