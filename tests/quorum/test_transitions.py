"""The literal table of states: each way in is legal or refused, none is forgotten."""

from __future__ import annotations

import random
from itertools import product

import pytest

from tierfetch.quorum.core import transitions
from tierfetch.quorum.core.config import RaftConfig
from tierfetch.quorum.core.events import RecoveredState
from tierfetch.quorum.core.replica import Replica
from tierfetch.quorum.core.roles import Candidate, Follower, Leader, Poll, Prospective, Resigned, Role, Unattached
from tierfetch.quorum.core.state import LEGAL_TRANSITIONS, RaftState

from .cluster import endpoints_of, key_of, voters_of

ROLES: dict[RaftState, Role] = {
    RaftState.UNATTACHED: Unattached(0, 0),
    RaftState.PROSPECTIVE: Prospective(0, Poll()),
    RaftState.CANDIDATE: Candidate(0, Poll()),
    RaftState.LEADER: Leader(0, (), 0, 0),
    RaftState.FOLLOWER: Follower(0, 0, 0),
    RaftState.RESIGNED: Resigned(0, None, {}),
}


def replica() -> Replica:
    config = RaftConfig(key=key_of(1), endpoints=endpoints_of(1))
    return Replica(config, RecoveredState(voters=(voters_of([1, 2, 3]),)), random.Random(1))


def enter(before: RaftState, after: RaftState, *, epochs: int) -> None:
    one = replica()
    one.role = ROLES[before]
    transitions._enter(one, ROLES[after], one.epoch + epochs, None, None)


@pytest.mark.parametrize(("before", "after"), list(product(RaftState, RaftState)), ids=lambda state: state.value)
def test_Q1_only_legal_transitions_happen(before: RaftState, after: RaftState) -> None:
    if after in LEGAL_TRANSITIONS[before]:
        enter(before, after, epochs=1)
    else:
        with pytest.raises(AssertionError, match=f"{before} to {after}"):
            enter(before, after, epochs=1)


@pytest.mark.parametrize("before", [RaftState.LEADER, RaftState.RESIGNED])
@pytest.mark.parametrize("after", [RaftState.UNATTACHED, RaftState.FOLLOWER])
def test_Q1_who_led_an_epoch_neither_follows_nor_votes_in_it(before: RaftState, after: RaftState) -> None:
    with pytest.raises(AssertionError, match="within epoch"):
        enter(before, after, epochs=0)


def test_Q1_the_table_names_every_state() -> None:
    assert set(LEGAL_TRANSITIONS) == set(RaftState) == set(ROLES)
    assert all(LEGAL_TRANSITIONS.values()), "no state is final"
