"""The state machine of one group, told as what each member is answered."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tierfetch.broker.groups.core.events import MemberIdentity
from tierfetch.broker.groups.core.group import NEW_MEMBER_JOIN_TIMEOUT_MS, Group
from tierfetch.broker.groups.core.group_state import TRANSITIONS, GroupSettings, GroupState
from tierfetch.broker.groups.core.rebalance import NEWCOMERS_IN_DELAY
from tierfetch.protocol.errors import ErrorCode
from tierfetch.tests.broker.groups.stage import (
    DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    Stage,
    stable_pair,
)
from tierfetch.tests.sim.planted.coordinator_bugs import GROUPS, PAST_GENERATION
from tierfetch.tests.sim.planted.registry import shown_by

STABLE, EMPTY = GroupState.STABLE, GroupState.EMPTY
PREPARING, COMPLETING = GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE


@pytest.fixture
def stage() -> Stage:
    return Stage()


# The first rebalance.


def test_a_member_is_given_an_id_before_it_counts(stage: Stage) -> None:
    assert stage.join("a") == ["a: MEMBER_ID_REQUIRED a-1"]
    assert (stage.state, len(stage.group.members)) == (EMPTY, 0)
    assert stage.join("a", member="a-1") == []
    assert stage.state is PREPARING
    assert stage.tick(DELAY_MS) == ["a: joined generation 1 as a-1 leader a-1 range, members a-1"]
    assert stage.state is COMPLETING
    assert stage.sync("a-1", {"a-1": b"all"}) == ["a-1: assigned all"]
    assert stage.state is STABLE
    assert [(member.member_id, member.assignment) for member in stage.stored[-1].members] == [("a-1", b"all")]


def test_an_id_that_nobody_comes_back_with_is_forgotten(stage: Stage) -> None:
    stage.join("a")
    stage.tick(SESSION_MS)
    assert stage.join("a", member="a-1") == ["a: UNKNOWN_MEMBER_ID a-1"]
    assert stage.group.is_idle


def test_old_clients_are_members_at_once(stage: Stage) -> None:
    assert stage.join("a", version=3) == []
    assert stage.tick(DELAY_MS) == ["a: joined generation 1 as a-1 leader a-1 range, members a-1"]


def test_the_first_rebalance_waits_longer_while_newcomers_come_but_not_for_ever(stage: Stage) -> None:
    extra_ms = DELAY_MS // NEWCOMERS_IN_DELAY
    timeout_ms = DELAY_MS + extra_ms
    stage.enter("a", rebalance_ms=timeout_ms)
    stage.tick(DELAY_MS - 1)
    assert stage.enter("b", rebalance_ms=timeout_ms) == []
    assert stage.tick(extra_ms - 1) == []
    assert stage.enter("c", rebalance_ms=timeout_ms) == []
    assert stage.tick(1) == []
    assert stage.tick(1) == [
        "a: joined generation 1 as a-1 leader a-1 range, members a-1 b-3 c-5",
        "b: joined generation 1 as b-3 leader a-1 range",
        "c: joined generation 1 as c-5 leader a-1 range",
    ]


def test_members_that_start_together_wait_for_the_delay_once(stage: Stage) -> None:
    stage.enter("a")
    stage.tick(DELAY_MS - DELAY_MS // NEWCOMERS_IN_DELAY)
    stage.enter("b")
    assert stage.tick(DELAY_MS // NEWCOMERS_IN_DELAY)[0].startswith("a: joined generation 1")


def test_followers_wait_for_the_leaders_assignment(stage: Stage) -> None:
    stage.enter("a")
    stage.enter("b")
    stage.tick(2 * DELAY_MS)
    assert stage.sync("b-3") == []
    assert stage.sync("a-1", {"a-1": b"p0"}) == ["a-1: assigned p0", "b-3: assigned "]
    assert stage.sync("b-3") == ["b-3: assigned "]


def test_an_assignment_is_given_out_only_once_it_is_stored(stage: Stage) -> None:
    stage.enter("a")
    stage.tick(DELAY_MS)
    stage.holds_stores = True
    assert stage.sync("a-1", {"a-1": b"all"}) == []
    assert stage.state is COMPLETING
    assert stage.settle() == ["a-1: assigned all"]


def test_an_assignment_that_cannot_be_stored_begins_a_new_rebalance(stage: Stage) -> None:
    stage.enter("a")
    stage.tick(DELAY_MS)
    stage.holds_stores = True
    stage.sync("a-1", {"a-1": b"all"})
    assert stage.settle(ErrorCode.coordinator_not_available) == ["a-1: COORDINATOR_NOT_AVAILABLE"]
    assert stage.state is PREPARING
    assert stage.join("a", member="a-1") == ["a: joined generation 2 as a-1 leader a-1 range, members a-1"]


def test_an_assignment_of_an_older_generation_changes_nothing(stage: Stage) -> None:
    stage.enter("a")
    stage.tick(DELAY_MS)
    stage.holds_stores = True
    stage.sync("a-1", {"a-1": b"old"})
    assert stage.enter("b") == ["a-1: REBALANCE_IN_PROGRESS"]
    stage.join("a", member="a-1")
    assert stage.group.generation_id == 2
    assert stage.settle() == []
    assert (stage.state, stage.group.members["a-1"].assignment) == (COMPLETING, b"")


# Later rebalances.


def test_a_newcomer_makes_everybody_join_again(stage: Stage) -> None:
    stable_pair(stage)
    assert stage.enter("c") == []
    assert stage.heartbeat("a-1") == "REBALANCE_IN_PROGRESS"
    assert stage.join("a", member="a-1") == []
    assert stage.join("b", member="b-3") == [
        "a: joined generation 2 as a-1 leader a-1 range, members a-1 b-3 c-5",
        "b: joined generation 2 as b-3 leader a-1 range",
        "c: joined generation 2 as c-5 leader a-1 range",
    ]


def test_who_does_not_join_again_in_time_is_out(stage: Stage) -> None:
    stable_pair(stage)
    stage.enter("c")
    for _ in range(11):
        stage.tick(REBALANCE_MS // 12)
        stage.heartbeat("b-3")
        stage.heartbeat("a-1")
    stage.join("b", member="b-3")
    assert stage.tick(REBALANCE_MS // 12) == [
        "b: joined generation 2 as b-3 leader b-3 range, members b-3 c-5",
        "c: joined generation 2 as c-5 leader b-3 range",
    ]
    assert stage.heartbeat("a-1") == "UNKNOWN_MEMBER_ID"


def test_who_does_not_sync_in_time_is_out(stage: Stage) -> None:
    stage.enter("a")
    stage.enter("b")
    stage.tick(2 * DELAY_MS)
    stage.sync("a-1", {"a-1": b"p0", "b-3": b"p1"})
    assert stage.state is STABLE
    for _ in range(12):
        stage.tick(REBALANCE_MS // 12)
        stage.heartbeat("b-3", generation=1)
        stage.heartbeat("a-1", generation=1)
    assert stage.group.members.ids == {"a-1"}
    assert stage.state is PREPARING


def test_a_member_that_falls_silent_is_out_after_its_session(stage: Stage) -> None:
    stable_pair(stage)
    stage.tick(SESSION_MS - 1)
    assert stage.heartbeat("a-1") == "NONE"
    stage.tick(1)
    assert stage.group.members.ids == {"a-1"}
    assert stage.join("a", member="a-1") == ["a: joined generation 2 as a-1 leader a-1 range, members a-1"]


def test_a_group_that_everybody_left_is_empty_and_stored_so(stage: Stage) -> None:
    stable_pair(stage)
    assert stage.leave("a-1", "b-3", "x-9") == ["leaving: a-1 NONE, b-3 NONE, x-9 UNKNOWN_MEMBER_ID"]
    assert (stage.state, stage.group.generation_id) == (EMPTY, 2)
    assert (stage.stored[-1].members, stage.stored[-1].generation_id, stage.stored[-1].leader) == ((), 2, None)
    assert stage.enter("c") == []
    assert stage.tick(DELAY_MS) == ["c: joined generation 3 as c-5 leader c-5 range, members c-5"]


def test_the_leaders_join_is_a_new_rebalance_a_followers_is_not(stage: Stage) -> None:
    stable_pair(stage)
    assert stage.join("b", member="b-3") == ["b: joined generation 1 as b-3 leader a-1 range"]
    assert stage.state is STABLE
    assert stage.join("a", member="a-1") == []
    assert stage.state is PREPARING


def test_a_followers_news_are_a_new_rebalance(stage: Stage) -> None:
    stable_pair(stage)
    assert stage.join("b", member="b-3", protocols=(("range", b"other"),)) == []
    assert stage.state is PREPARING


def test_a_retried_join_gets_the_same_answer_until_the_group_is_stable(stage: Stage) -> None:
    stage.enter("a")
    first = stage.tick(DELAY_MS)
    assert stage.join("a", member="a-1") == first
    assert stage.state is COMPLETING


def test_a_retry_takes_the_place_of_the_request_that_waits(stage: Stage) -> None:
    stable_pair(stage)
    stage.enter("c")
    stage.join("a", member="a-1")
    assert stage.join("a", member="a-1") == ["a: REBALANCE_IN_PROGRESS a-1"]
    assert stage.join("b", member="b-3")[0].startswith("a: joined generation 2")


def test_a_new_member_that_waits_is_not_asked_for_heartbeats_but_forgotten_in_the_end() -> None:
    stage = Stage(GroupSettings(initial_rebalance_delay_ms=2 * NEW_MEMBER_JOIN_TIMEOUT_MS))
    stage.enter("a", rebalance_ms=4 * NEW_MEMBER_JOIN_TIMEOUT_MS)
    assert stage.tick(NEW_MEMBER_JOIN_TIMEOUT_MS - 1) == []
    assert stage.tick(1) == ["a: UNKNOWN_MEMBER_ID a-1"]


# Refusals.


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"session_ms": 5_999}, "INVALID_SESSION_TIMEOUT"),
        ({"session_ms": 1_800_001}, "INVALID_SESSION_TIMEOUT"),
        ({"kind": ""}, "INCONSISTENT_GROUP_PROTOCOL"),
        ({"protocols": ()}, "INCONSISTENT_GROUP_PROTOCOL"),
        ({"kind": "connect"}, "INCONSISTENT_GROUP_PROTOCOL"),
        ({"protocols": (("sticky", b""),)}, "INCONSISTENT_GROUP_PROTOCOL"),
        ({"member": "x-1"}, "UNKNOWN_MEMBER_ID x-1"),
    ],
)
def test_who_is_not_let_in(stage: Stage, options: dict[str, object], error: str) -> None:
    stable_pair(stage)
    assert stage.join("c", **options) == [f"c: {error}"]
    assert stage.state is STABLE


def test_a_full_group_takes_nobody_but_its_members() -> None:
    stage = Stage(GroupSettings(size_max=2, initial_rebalance_delay_ms=DELAY_MS))
    stable_pair(stage)
    assert stage.join("c") == ["c: GROUP_MAX_SIZE_REACHED"]
    stage.join("a", member="a-1")
    assert stage.join("c", version=3) == []
    assert stage.join("b", member="b-3")[0] == "b: GROUP_MAX_SIZE_REACHED b-3"
    assert len(stage.group.members) == 2


@pytest.mark.parametrize("ask", ["heartbeat", "sync"])
def test_who_is_not_of_this_generation(stage: Stage, ask: str) -> None:
    stable_pair(stage)

    def answer(member: str, **options: object) -> str:
        line = getattr(stage, ask)(member, **options)
        return line if isinstance(line, str) else line[0].removeprefix(f"{member}: ")

    assert answer("x-1") == "UNKNOWN_MEMBER_ID"
    assert answer("a-1", generation=2) == "ILLEGAL_GENERATION"
    assert answer("a-1", instance="s") == "UNKNOWN_MEMBER_ID"
    stage.enter("c")
    assert answer("a-1") == "REBALANCE_IN_PROGRESS"
    stage.group.die()
    assert answer("a-1") == "COORDINATOR_NOT_AVAILABLE"


def test_a_sync_for_another_protocol_is_refused(stage: Stage) -> None:
    stable_pair(stage)
    assert stage.sync("a-1", protocol="sticky") == ["a-1: INCONSISTENT_GROUP_PROTOCOL"]


# Protocols.


def test_the_protocol_that_most_prefer_and_all_speak_is_taken(stage: Stage) -> None:
    def speaks(*names: str) -> dict[str, object]:
        return {"protocols": tuple((name, name.encode()) for name in names)}

    stage.enter("a", **speaks("x", "range", "sticky"))
    stage.enter("b", **speaks("sticky", "range"))
    stage.enter("c", **speaks("sticky", "range", "y"))
    stage.tick(2 * DELAY_MS)
    assert stage.group.protocol_name == "sticky"
    assert stage.join("d", protocols=(("x", b""),)) == ["d: INCONSISTENT_GROUP_PROTOCOL"]


# Static members (KIP-345).


def static_pair(stage: Stage) -> None:
    """a-1 is instance "one" and leads, b-2 is instance "two"."""
    stage.join("a", instance="one")
    stage.join("b", instance="two")
    stage.tick(2 * DELAY_MS)
    stage.sync("b-2", instance="two")
    stage.sync("a-1", {"a-1": b"p0", "b-2": b"p1"}, instance="one")


def test_static_members_are_members_at_once(stage: Stage) -> None:
    static_pair(stage)
    assert stage.state is STABLE


def test_a_static_member_that_comes_back_keeps_its_place_without_a_rebalance(stage: Stage) -> None:
    static_pair(stage)
    assert stage.join("b", instance="two") == ["b: joined generation 1 as b-3 leader a-1 range"]
    assert stage.state is STABLE
    assert stage.sync("b-3", instance="two") == ["b-3: assigned p1"]
    assert stage.heartbeat("b-2", instance="two") == "FENCED_INSTANCE_ID"
    assert {member.member_id for member in stage.stored[-1].members} == {"a-1", "b-3"}


def test_a_static_member_that_is_being_replaced_is_answered_when_its_group_ends(stage: Stage) -> None:
    static_pair(stage)
    stage.holds_stores = True
    assert stage.join("b", instance="two") == []
    assert stage.perform(stage.group.abandon(ErrorCode.rebalance_in_progress)) == ["b: REBALANCE_IN_PROGRESS b-3"]
    assert stage.settle() == []


def test_a_static_leader_that_comes_back_is_told_to_assign_nothing(stage: Stage) -> None:
    static_pair(stage)
    assert stage.join("a", instance="one") == ["a: joined generation 1 as a-3 leader a-3 range, members a-3 b-2, skip"]
    assert stage.join("a", instance="one", version=8) == ["a: joined generation 1 as a-4 leader a-3 range"]


def test_a_static_member_that_comes_back_is_answered_once_its_id_is_stored(stage: Stage) -> None:
    static_pair(stage)
    stage.holds_stores = True
    assert stage.join("b", instance="two") == []
    assert stage.settle(ErrorCode.not_coordinator) == ["b: NOT_COORDINATOR b-3"]


def test_a_static_member_that_comes_back_in_a_rebalance_fences_its_other_half(stage: Stage) -> None:
    static_pair(stage)
    stage.enter("c")
    stage.join("b", member="b-2", instance="two")
    assert stage.join("b2", instance="two") == ["b: FENCED_INSTANCE_ID b-2"]
    lines = stage.join("a", member="a-1", instance="one")
    assert lines[0] == "a: joined generation 2 as a-1 leader a-1 range, members a-1 b2-6 c-3"


def test_a_static_member_stays_through_a_rebalance_that_it_missed(stage: Stage) -> None:
    static_pair(stage)
    stage.enter("c")
    stage.join("a", member="a-1", instance="one")
    for _ in range(12):
        stage.heartbeat("b-2", instance="two", generation=1)
        stage.tick(REBALANCE_MS // 12)
    assert stage.state is COMPLETING
    assert "b-2" in stage.group.members


def test_an_admin_removes_a_static_member_by_its_instance(stage: Stage) -> None:
    static_pair(stage)
    gone, never = MemberIdentity("", "two"), MemberIdentity("", "three")
    assert stage.leave(gone, never) == ["leaving: two NONE, three UNKNOWN_MEMBER_ID"]
    assert stage.group.members.ids == {"a-1"}
    assert stage.leave(MemberIdentity("a-0", "one")) == ["leaving: a-0 FENCED_INSTANCE_ID"]


# Commits.


def commit(
    stage: Stage, member: str = "", generation: int = -1, instance: str | None = None, *, in_transaction: bool = False
) -> str:
    who = MemberIdentity(member, instance)
    return stage.group.judge_commit(who, generation, stage.now, in_transaction=in_transaction).name.upper()


def test_who_may_commit(stage: Stage) -> None:
    assert commit(stage) == "NONE", "anybody, while nobody is a member"
    stable_pair(stage)
    assert commit(stage) == "UNKNOWN_MEMBER_ID"
    assert commit(stage, "a-1", 1) == "NONE"
    assert commit(stage, "a-1", 2) == "ILLEGAL_GENERATION"
    assert commit(stage, "x-1", 1) == "UNKNOWN_MEMBER_ID"
    stage.enter("c")
    assert commit(stage, "a-1", 1) == "NONE", "what was read before the rebalance is committed in it"
    stage.join("b", member="b-3")
    stage.join("a", member="a-1")
    assert (stage.state, commit(stage, "a-1", 2)) == (COMPLETING, "REBALANCE_IN_PROGRESS")
    assert commit(stage, "a-1", 2, in_transaction=True) == "NONE", "producers do not know that code"
    assert commit(stage, "a-1", 1, in_transaction=True) == "ILLEGAL_GENERATION"
    stage.group.die()
    assert commit(stage, "a-1", 2) == "COORDINATOR_NOT_AVAILABLE"


def test_commits_of_a_past_generation_are_found(stage: Stage) -> None:
    with shown_by(GROUPS)[PAST_GENERATION](), pytest.raises(AssertionError):
        test_who_may_commit(stage)


def test_a_commit_keeps_a_member_alive(stage: Stage) -> None:
    stable_pair(stage)
    stage.tick(SESSION_MS - 1)
    assert commit(stage, "a-1", 1) == "NONE"
    assert commit(stage, "b-3", 0) == "ILLEGAL_GENERATION", "which keeps none alive"
    stage.tick(1)
    assert stage.group.members.ids == {"a-1"}


# Over a change of coordinators.


def test_a_restored_group_goes_on_where_it_was(stage: Stage) -> None:
    stable_pair(stage)
    restored = Group.restored("g", GroupSettings(initial_rebalance_delay_ms=DELAY_MS), stage.stored[-1])
    successor = Stage(group=restored)
    successor.perform(restored.resume(successor.now))
    assert (restored.state, restored.generation_id, restored.members.leader) == (STABLE, 1, "a-1")
    assert successor.sync("b-3") == ["b-3: assigned p1"]
    assert successor.heartbeat("a-1") == "NONE"
    assert restored.as_value() == stage.stored[-1]
    successor.tick(SESSION_MS)
    assert len(restored.members) == 0


def test_topics_are_known_of_consumers_only(stage: Stage) -> None:
    subscription = b"\x00\x01" + b"\x00\x00\x00\x01" + b"\x00\x02t1" + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x00"
    assert stage.group.subscribed_topics() is None
    stage.enter("a", protocols=(("range", subscription),))
    stage.tick(DELAY_MS)
    assert stage.group.subscribed_topics() == frozenset({"t1"})
    stage.group.members["a-1"].protocols = (("range", b"\x00\x01\x00\x00"),)
    assert stage.group.subscribed_topics() is None


# Anything that members may do.


PROTOCOLS = ("range", "sticky", "uniform")


class AnyGroup(RuleBasedStateMachine):
    """Whatever comes, in whatever order: the group stays in order and owes nobody an answer for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage(GroupSettings(size_max=4, initial_rebalance_delay_ms=DELAY_MS))
        self.generation = 0

    def _somebody(self, number: int) -> MemberIdentity:
        members = list(self.stage.group.members)
        return members[number % len(members)].identity if members else MemberIdentity("nobody")

    @rule(
        name=st.sampled_from("abc"), instance=st.none() | st.sampled_from(["s1", "s2"]), version=st.sampled_from([3, 9])
    )
    def newcomer(self, name: str, instance: str | None, version: int) -> None:
        self.stage.join(name, instance=instance, version=version)

    @rule(number=st.integers(0, 5))
    def pending(self, number: int) -> None:
        ids = sorted(self.stage.group.pending_joins)
        if ids:
            self.stage.join("p", member=ids[number % len(ids)])

    @rule(number=st.integers(0, 5), news=st.booleans())
    def again(self, number: int, news: bool) -> None:
        who = self._somebody(number)
        protocols = (("range", b"new" if news else b"r"), (PROTOCOLS[number % 3], b"r"))
        self.stage.join("again", member=who.member_id, instance=who.group_instance_id, protocols=protocols)

    @rule(number=st.integers(0, 5), holds=st.booleans())
    def sync(self, number: int, holds: bool) -> None:
        self.stage.holds_stores = holds
        who = self._somebody(number)
        self.stage.sync(who.member_id, {who.member_id: b"x"}, instance=who.group_instance_id)

    @rule(error=st.sampled_from([ErrorCode.none, ErrorCode.not_coordinator]))
    def settle(self, error: ErrorCode) -> None:
        self.stage.settle(error)

    @rule(number=st.integers(0, 5))
    def heartbeat(self, number: int) -> None:
        who = self._somebody(number)
        self.stage.heartbeat(who.member_id, instance=who.group_instance_id)

    @rule(number=st.integers(0, 5))
    def leave(self, number: int) -> None:
        self.stage.leave(self._somebody(number))

    @rule(passed_ms=st.sampled_from([1, DELAY_MS, SESSION_MS, REBALANCE_MS]))
    def wait(self, passed_ms: int) -> None:
        self.stage.tick(passed_ms)

    @invariant()
    def is_in_order(self) -> None:
        group, members = self.stage.group, list(self.stage.group.members)
        assert group.generation_id >= self.generation
        self.generation = group.generation_id
        assert group.members.leader in (None, *group.members.ids)
        assert (group.members.leader is None) == (not members)
        protocols = [len(name) + len(said) for member in members for name, said in member.protocols]
        assert group.members.protocol_bytes == sum(protocols)
        spoken = [{name for name, _ in member.protocols} for member in members]
        for name in PROTOCOLS:
            is_spoken = all(name in each for each in spoken)
            assert group.members.supports("consumer", ((name, b""), ("odd", b""), (name, b""))) is is_spoken
        ids = [f"{member.member_id}{member.group_instance_id or ''}{member.client_id}/127.0.0.1" for member in members]
        largest = [max(len(said) for _, said in member.protocols) for member in members]
        assert group.members.record_bytes == sum(map(len, ids)) + sum(largest) + 22 * len(members)
        waits = [member for member in members if member.join_token is not None]
        assert not waits or group.state is PREPARING
        if group.state in (EMPTY, COMPLETING, STABLE):
            assert bool(members) == (group.state is not EMPTY)
        if group.state in (COMPLETING, STABLE):
            assert all(member.metadata(group.protocol_name) for member in members)
        if members and not self.stage.held:
            assert self.stage.timer_ms is not None, "somebody could be waited for for ever"

    def teardown(self) -> None:
        self.stage.holds_stores = False
        self.stage.settle()
        self.stage.tick(2 * NEW_MEMBER_JOIN_TIMEOUT_MS)
        assert self.stage.group.is_idle, "a group that nobody talks to ends"


AnyGroup.TestCase.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
TestAnyGroup = AnyGroup.TestCase


def test_every_state_can_die_and_only_the_dead_stay_so() -> None:
    assert all(GroupState.DEAD in after for state, after in TRANSITIONS.items() if state is not GroupState.DEAD)
    assert TRANSITIONS[GroupState.DEAD] == frozenset()
    with pytest.raises(AssertionError, match="STABLE"):
        Stage().group._transition(STABLE)
