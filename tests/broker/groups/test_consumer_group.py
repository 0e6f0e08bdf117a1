"""G1: a consumer group of KIP-848, decision by decision, and what holds whatever its members do."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tierfetch.broker.groups.core.consumer import decision as decision_module
from tierfetch.broker.groups.core.consumer.classic import heartbeat as classic_heartbeat
from tierfetch.broker.groups.core.consumer.classic import join, leave
from tierfetch.broker.groups.core.consumer.decision import (
    ASSIGNED_AT_ONCE_MAX,
    ConsumerSettings,
    Decision,
    World,
    expire,
    gathering_ms,
    resolve,
    unresolved,
)
from tierfetch.broker.groups.core.consumer.heartbeat import heartbeat
from tierfetch.broker.groups.core.consumer.records import (
    ConsumerKey,
    Current,
    Kind,
    MemberState,
    Resolved,
    encode_consumer_key,
    encode_consumer_value,
)
from tierfetch.broker.groups.core.consumer.state import ConsumerGroup, ConsumerGroupState
from tierfetch.broker.groups.core.consumer.topics import REGEX_PROGRAM_MAX, compiled, matching
from tierfetch.broker.groups.core.events import Heartbeat, Leave, MemberIdentity
from tierfetch.broker.groups.core.records import GroupRecord, decode_record
from tierfetch.broker.groups.core.targeted import (
    LOST_BYTES_MAX,
    SETTLING_INTERVAL_MIN_MS,
    Deadlines,
    settling_interval_ms,
)
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.wire import run_to_end
from tierfetch.tests.broker.groups.consumers import REBALANCE_MS, SESSIONS, ClassicClient, Client, Stage, topics

A = UUID(int=1000)
GATHERING_MS = 50


def refusal(stage: Stage, client: Client, **changes: Any) -> ErrorCode:
    beat = client.beat(changes.pop("epoch", None))
    for name, value in changes.items():
        object.__setattr__(beat, name, value)
    with pytest.raises(KafkaError) as error:
        stage.beat(beat)
    return error.value.code


def test_the_first_member_is_given_everything_at_once() -> None:
    stage, client = Stage(topics(a=3)), Client("x")
    told = stage.hear(client)
    assert (told.epoch, told.assignment) == (1, {A: frozenset({0, 1, 2})})
    assert stage.group.state is ConsumerGroupState.STABLE
    assert stage.hear(client).assignment is None  # Nothing has changed.


def test_members_are_heard_sooner_while_their_group_settles() -> None:
    """What one gives up another one waits for; once nothing moves, each comes at the interval that was configured."""
    stage, x, y = Stage(topics(a=2)), Client("x"), Client("y")
    soon_ms, interval_ms = SETTLING_INTERVAL_MIN_MS, stage.settings.heartbeat_interval_ms
    assert stage.hear(x).heartbeat_interval_ms == soon_ms, "others may come right behind the first"
    stage.now_ms += interval_ms
    assert stage.hear(x).heartbeat_interval_ms == interval_ms
    assert stage.hear(y).heartbeat_interval_ms == soon_ms
    stage.now_ms += interval_ms
    assert stage.hear(y).heartbeat_interval_ms == soon_ms, "it waits for what x has to give up"
    stage.settle(x, y)
    assert [stage.hear(each).heartbeat_interval_ms for each in (x, y)] == [interval_ms, interval_ms]


def test_in_short_sessions_silence_means_nothing() -> None:
    stage, x, y = Stage(topics(a=2)), Client("x"), Client("y")
    stage.settings = replace(stage.settings, session_timeout_ms=2 * stage.settings.heartbeat_interval_ms - 1)
    stage.settle(x, y)
    stage.now_ms += stage.settings.session_timeout_ms - 1
    assert stage.hear(x).heartbeat_interval_ms == stage.settings.heartbeat_interval_ms


def test_a_deadline_that_moves_is_looked_at_only_once_it_may_be_over() -> None:
    deadlines = Deadlines()
    assert deadlines.not_before_ms() is None
    deadlines["x"], deadlines["y"] = 100, 200
    deadlines["x"] = 300
    assert deadlines.not_before_ms() == 100, "not looked for yet, and not too late"
    assert deadlines.over(100) == []
    assert deadlines.not_before_ms() == 200
    assert deadlines.over(250) == ["y"]
    deadlines.set_if_absent("x", 1)
    del deadlines["y"]
    assert deadlines.over(300) == ["x"]


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.one_of(st.none(), st.integers(0, 50)), st.integers(0, 60)), max_size=30
    )
)
def test_the_first_deadline_is_known_however_they_move(moves: list[tuple[str, int | None, int]]) -> None:
    deadlines = Deadlines()
    for name, deadline_ms, limit_ms in moves:
        if deadline_ms is None:
            deadlines.pop(name, None)
        else:
            deadlines[name] = deadline_ms
        first_ms = min(deadlines.values(), default=limit_ms)
        assert deadlines.first_before(limit_ms) == (first_ms if first_ms < limit_ms else None)


class Weighed(int):
    """A deadline that counts how often one is compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        Weighed.compared += 1
        return int(self) < int(other)

    def __eq__(self, other: object) -> bool:
        Weighed.compared += 1
        return int(self) == other

    __hash__ = int.__hash__


@pytest.mark.parametrize("order", [1, -1], ids=["in order", "backwards"])
def test_late_heartbeats_of_many_members_cost_the_same_each(order: int) -> None:
    """All members of a new coordinator have the same deadline, and a heartbeat just before it moves the first one."""
    deadlines, members, session_ms = Deadlines(), 2_000, 45_000
    for number in range(members):
        deadlines[f"member-{number}"] = Weighed(session_ms)
    Weighed.compared = 0
    for name in list(deadlines)[::order]:
        deadlines[name] = Weighed(2 * session_ms)
        assert deadlines.first_before(session_ms + 1) in (session_ms, None)
        assert deadlines.over(session_ms - 1) == []
    assert deadlines.first_before(session_ms + 1) is None
    assert deadlines.over(2 * session_ms) == list(deadlines)
    assert Weighed.compared < 100 * members


def test_members_that_come_and_go_leave_nothing() -> None:
    deadlines = Deadlines()
    for number in range(10_000):
        deadlines["x"] = 10_000 - number
        deadlines[f"member-{number}"] = 20_000
        del deadlines[f"member-{number}"]
    assert len(deadlines._bounds) < 100
    assert (deadlines.first_before(20_000), deadlines.over(1), deadlines.over(0)) == (1, ["x"], [])


@pytest.mark.parametrize(("name_length", "writes"), [(10, 2), (1_000, 6), (30_000, 150)])
def test_however_many_are_lost_at_once_what_removes_them_can_be_written(name_length: int, writes: int) -> None:
    """A group may have thousands of members and a long name; what is more than a batch would fail again and again."""
    stage, members = Stage(topics(a=4)), 300
    for number in range(members):
        stage.hear(Client(f"{number:03}-{'x' * 500}"))
    stage.group.group_id = "g" * name_length
    for name in stage.group.members:
        stage.group.sessions[name] = 0
    sizes = []
    while stage.group.members:
        decision = Decision(stage.group)
        assert expire(decision, stage.world)
        sizes.append(sum(len(key) for key, _ in map(GroupRecord.encoded, decision.records)))
    assert len(sizes) == writes
    assert max(sizes) <= LOST_BYTES_MAX + 2 * name_length


def test_the_others_come_soon_after_a_member_is_lost_each_in_its_turn() -> None:
    """What it had is given out within a quarter of a second, not within an interval; nobody comes more often."""
    stage = Stage(topics(a=4))
    lost, *others = clients = [Client(name) for name in "xabcd"]
    stage.settle(*clients)
    interval_ms = stage.settings.heartbeat_interval_ms
    stage.now_ms += interval_ms
    stage.hear(lost)
    lost_ms = stage.group.sessions["x"]
    heard: dict[str, list[int]] = {each.name: [] for each in others}
    due = {each.name: stage.now_ms + 1_000 * number for number, each in enumerate(others, 1)}
    while min(due.values()) < lost_ms + interval_ms:
        each = min(others, key=lambda each: due[each.name])
        stage.now_ms = due[each.name]
        told_ms = stage.hear(each).heartbeat_interval_ms if stage.now_ms < lost_ms else interval_ms
        heard[each.name].append(stage.now_ms)
        due[each.name] += told_ms
    first_after_ms = {name: min(ms for ms in times if ms > lost_ms) - lost_ms for name, times in heard.items()}
    assert max(first_after_ms.values()) <= SETTLING_INTERVAL_MIN_MS + 1
    assert len(set(first_after_ms.values())) == len(others), "not all at once"
    before = [ms for times in heard.values() for ms in times if ms <= lost_ms]
    assert len(before) <= len(others) * (stage.settings.session_timeout_ms // interval_ms)


def test_a_healthy_group_comes_at_its_interval_whatever_the_time() -> None:
    stage, x, y = Stage(topics(a=2)), Client("x"), Client("y")
    stage.settle(x, y)
    interval_ms = stage.settings.heartbeat_interval_ms
    stage.now_ms += interval_ms
    for _ in range(3 * stage.settings.session_timeout_ms // interval_ms):
        assert [stage.hear(each).heartbeat_interval_ms for each in (x, y)] == [interval_ms, interval_ms]
        stage.now_ms += interval_ms


def test_settling_members_of_a_broker_send_a_bounded_number_of_heartbeats() -> None:
    assert settling_interval_ms(10) == SETTLING_INTERVAL_MIN_MS
    assert 10_000 / settling_interval_ms(10_000) == 10 / 20, "500 a second"


def test_a_partition_is_given_up_before_another_member_gets_it() -> None:
    stage, x, y = Stage(topics(a=2)), Client("x"), Client("y")
    stage.hear(x)
    told = stage.hear(y)
    assert (told.epoch, told.assignment) == (2, {})
    assert stage.group.current("y").state is MemberState.UNRELEASED_PARTITIONS
    told = stage.beat(x.beat())
    assert told.epoch == 1, "the epoch stays until it is revoked: commits of what is given up are taken"
    assert told.assignment == {A: frozenset({0})}
    assert stage.hear(y).assignment is None  # x has not said yet that it has revoked it.
    x.told = told
    x.take_in()
    assert stage.hear(x).epoch == 2
    assert stage.hear(y).assignment == {A: frozenset({1})}
    assert stage.group.state is ConsumerGroupState.STABLE


def test_a_lost_answer_is_given_again() -> None:
    stage, x = Stage(topics(a=2)), Client("x")
    stage.beat(x.beat())
    assert stage.hear(x).assignment == {A: frozenset({0, 1})}
    stage.topics = topics(a=3)
    stage.beat(x.beat())  # The answer, with epoch 2, is lost.
    x.is_unsure = True
    told = stage.hear(x)
    assert (told.epoch, told.assignment) == (2, {A: frozenset({0, 1, 2})})


@pytest.mark.parametrize("epoch", [7, -3])
def test_an_epoch_that_is_none_is_refused(epoch: int) -> None:
    stage, x = Stage(topics(a=2)), Client("x")
    stage.hear(x)
    expected = ErrorCode.fenced_member_epoch if epoch > 0 else ErrorCode.invalid_request
    assert refusal(stage, x, epoch=epoch) is expected


def test_what_a_heartbeat_needs() -> None:
    stage, x = Stage(topics(a=2)), Client("x")
    for blank in ("", " \t", "\0"):
        assert refusal(stage, x, member_id=blank) is ErrorCode.invalid_request
        assert refusal(stage, x, rack_id=blank) is ErrorCode.invalid_request
    assert refusal(stage, x, rebalance_timeout_ms=-1) is ErrorCode.invalid_request
    assert refusal(stage, x, owned=None) is ErrorCode.invalid_request
    assert refusal(stage, x, owned={A: frozenset({0})}) is ErrorCode.invalid_request
    assert refusal(stage, x, topics=None) is ErrorCode.invalid_request
    assert refusal(stage, x, instance_id="") is ErrorCode.invalid_request
    assert refusal(stage, x, epoch=-2) is ErrorCode.invalid_request
    assert refusal(stage, x, assignor="sticky") is ErrorCode.unsupported_assignor
    assert refusal(stage, x, regex="(") is ErrorCode.invalid_regular_expression
    assert refusal(stage, x, regex="(a{1000}){1000}") is ErrorCode.invalid_regular_expression
    assert refusal(stage, x, regex=".*" + "(a|b|ab|ba).{1,30}" * 100) is ErrorCode.invalid_regular_expression
    assert refusal(stage, x, epoch=1) is ErrorCode.group_id_not_found
    assert refusal(stage, x, epoch=-1) is ErrorCode.group_id_not_found
    assert stage.group.is_nothing
    stage.hear(x)
    assert refusal(stage, Client("y"), epoch=1) is ErrorCode.unknown_member_id
    assert refusal(stage, Client("y"), epoch=-1) is ErrorCode.unknown_member_id


def test_a_group_has_a_limit() -> None:
    stage = Stage(topics(a=2), ConsumerSettings(size_max=1))
    stage.hear(Client("x"))
    assert refusal(stage, Client("y")) is ErrorCode.group_max_size_reached


def test_a_member_that_leaves_gives_its_partitions_to_the_others() -> None:
    stage, x, y = Stage(topics(a=2)), Client("x"), Client("y")
    stage.settle(x, y)
    assert stage.hear(y, epoch=-1).epoch == -1
    assert stage.hear(x).assignment == {A: frozenset({0, 1})}


def test_a_silent_member_is_lost_after_its_session() -> None:
    stage, x, y = Stage(topics(a=2)), Client("x"), Client("y")
    stage.settle(x, y)
    stage.now_ms = 30_000
    stage.hear(x)
    assert stage.tick(14_999) == []
    assert stage.tick(1) == ["y"]
    assert stage.hear(x).assignment == {A: frozenset({0, 1})}
    assert refusal(stage, y) is ErrorCode.unknown_member_id


def test_a_member_that_does_not_revoke_in_time_is_lost() -> None:
    stage, x, y = Stage(topics(a=2)), Client("x"), Client("y")
    stage.hear(x)
    stage.hear(y)
    stage.beat(x.beat())
    for _ in range(3):
        assert stage.tick(REBALANCE_MS // 4) == []
        stage.beat(x.beat())  # It lives, and keeps what it should give up.
        stage.hear(y)
    assert stage.tick(REBALANCE_MS // 4) == ["x"]
    assert stage.hear(y).assignment == {A: frozenset({0, 1})}


def test_a_static_member_comes_back_to_what_it_had() -> None:
    stage, x, y = Stage(topics(a=4)), Client("x", instance="i"), Client("y")
    stage.settle(x, y)
    had = x.owned
    assert refusal(stage, Client("z", instance="i")) is ErrorCode.unreleased_instance_id
    assert stage.hear(x, epoch=-2).epoch == -2
    epoch = stage.group.epoch
    again = Client("z", instance="i")
    assert stage.hear(again).assignment == had
    assert stage.group.epoch == epoch, "nobody else notices"
    assert refusal(stage, x, epoch=1) is ErrorCode.fenced_instance_id
    assert stage.replayed().static == {"i": "z"}


def test_a_static_member_is_upgraded_and_taken_back_without_leaving() -> None:
    stage, old, y = Stage(topics(a=4)), ClassicClient("x", instance="i"), Client("y")
    stage.hear(y)
    for _ in range(3):
        stage.join_classic(old)
        stage.hear(y)
    had = old.owned
    assert had

    new = Client("z", instance="i")
    assert stage.hear(new).assignment == had
    assert stage.group.members["z"].classic is None
    beat = Heartbeat(token="beat", who=old.who, generation_id=old.generation)
    assert stage.decide(lambda decision: classic_heartbeat(decision, beat, stage.world)) is ErrorCode.fenced_instance_id

    again = ClassicClient("w", instance="i")
    joining = replace(again.joining(stage.topics), who=MemberIdentity("", "i"))
    joined = stage.decide(lambda decision: join(decision, joining, stage.world, SESSIONS))
    assert (joined.error, joined.member_id) == (ErrorCode.none, "w")
    assert stage.group.static == stage.replayed().static == {"i": "w"}
    assert stage.group.members["w"].classic is not None
    assert stage.group.current("w").assigned == had
    assert refusal(stage, new, epoch=joined.generation_id) is ErrorCode.fenced_instance_id


def test_a_static_member_that_stays_away_is_lost_after_its_session() -> None:
    stage, x, y = Stage(topics(a=2)), Client("x", instance="i"), Client("y")
    stage.settle(x, y)
    stage.hear(x, epoch=-2)
    stage.now_ms = 44_000
    stage.hear(y)
    assert stage.tick(1_000) == ["x"]
    assert stage.hear(y).assignment == {A: frozenset({0, 1})}


def test_changed_topics_are_noticed_at_the_next_heartbeat() -> None:
    stage, x = Stage(topics(a=2)), Client("x", topics=("a", "b"))
    stage.hear(x)
    stage.topics = topics(a=2, b=1)
    assert stage.hear(x).assignment == {A: frozenset({0, 1}), UUID(int=1001): frozenset({0})}
    stage.topics = topics(a=2)
    stage.hear(x)
    assert stage.hear(x).epoch == stage.group.epoch == 3


def test_an_expression_is_resolved_apart_from_the_heartbeat() -> None:
    stage, x = Stage(topics(a=1, b=1, c=1)), Client("x", topics=(), regex="a|b")
    assert stage.hear(x).assignment == {}
    assert unresolved(stage.group) == {"a|b"}
    assert stage.group.regex_uses == {"a|b": 1}
    decision = Decision(stage.group)
    resolve(decision, {"a|b": Resolved(("a", "b"), 1, 2)}, stage.world)
    stage.log += decision.records
    assert stage.hear(x).assignment == {A: frozenset({0}), UUID(int=1001): frozenset({0})}
    assert stage.replayed().regexes == {"a|b": Resolved(("a", "b"), 1, 2)}
    stage.hear(Client("y", topics=(), regex="a|b"))
    stage.hear(x, epoch=-1)
    assert (stage.group.regex_uses, list(stage.group.regexes)) == ({"a|b": 1}, ["a|b"])
    stage.hear(Client("y"), epoch=-1)
    assert (stage.group.regex_uses, stage.group.regexes) == ({}, {})


def test_many_members_that_join_at_once_are_assigned_together(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, members = Stage(topics(a=1_000)), 3 * ASSIGNED_AT_ONCE_MAX
    clients = [Client(f"m{number:03}") for number in range(members)]
    assigned, assign = list[int](), decision_module._assign

    def counted(decision: Decision, world: World) -> None:
        assigned.append(len(decision.group.members))
        assign(decision, world)

    monkeypatch.setattr(decision_module, "_assign", counted)
    for client in clients:
        stage.hear(client)
    assert assigned == list(range(1, ASSIGNED_AT_ONCE_MAX + 1))
    assert stage.group.epoch == members
    assert stage.group.target_epoch < stage.group.epoch
    assert {client.epoch for client in clients[ASSIGNED_AT_ONCE_MAX:]} == {ASSIGNED_AT_ONCE_MAX}
    assert not any(client.owned for client in clients[ASSIGNED_AT_ONCE_MAX:])
    stage.now_ms += gathering_ms(members) - 1
    stage.hear(clients[0])
    assert assigned[-1] == ASSIGNED_AT_ONCE_MAX
    stage.now_ms += 1
    stage.settle(*clients, rounds=3)
    assert assigned[ASSIGNED_AT_ONCE_MAX:] == [members]
    assert stage.group.state is ConsumerGroupState.STABLE
    assert sum(len(client.partitions) for client in clients) == 1_000
    assert {client.epoch for client in clients} == {members}


def test_a_new_coordinator_assigns_at_once_what_was_still_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_module, "gathering_ms", lambda _: GATHERING_MS)
    stage, x, y = Stage(topics(a=2)), Client("x"), Client("y")
    stage.hear(x)
    stage.hear(y)
    assert stage.group.target_epoch < stage.group.epoch
    stage.group = stage.replayed()
    stage.settle(x, y)
    assert stage.group.state is ConsumerGroupState.STABLE
    assert (len(x.partitions), len(y.partitions)) == (1, 1)


def test_A2_expressions_are_matched_in_steps_that_are_shorter_the_more_a_match_may_take() -> None:
    """One that the largest program matches with the longest name takes 10 ms, and would hold the loop for seconds."""
    known = topics(**{f"t{number:03}".ljust(249, "a"): 1 for number in range(100)})

    def steps(*expressions: str) -> int:
        return sum(1 for _ in matching(expressions, known, lambda _: True))

    assert steps("t.*") == 0
    assert steps(*["t.*"] * 100) > 10
    heavy = ".*" + "(a|b|ab|ba).{1,30}" * 30
    assert compiled(heavy).programsize > REGEX_PROGRAM_MAX * 3 // 4
    assert steps(heavy) >= 99
    found, rejected = run_to_end(matching(["t09.*", "(", "t.*"], known, lambda name: name < "t098"))
    assert {regex: len(names) for regex, names in found.items()} == {"t09.*": 8, "t.*": 98}
    assert found["t09.*"] == sorted(found["t09.*"])
    assert list(rejected) == ["("]


def test_most_members_choose_the_assignor() -> None:
    stage = Stage(topics(a=4, b=4))
    clients = [Client(name, topics=("a", "b"), assignor=how) for name, how in [("x", "range"), ("y", "range")]]
    stage.settle(*clients, Client("z", topics=("a", "b"), assignor="uniform"))
    assert stage.group.assignor_name(stage.settings.assignors) == "range"
    assert stage.group.targets["x"] == {A: frozenset({0, 1}), UUID(int=1001): frozenset({0, 1})}


def test_a_group_may_have_timeouts_of_its_own_within_the_limits_of_its_broker() -> None:
    own = ConsumerSettings().of({"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "90000"})
    assert (own.session_timeout_ms, own.heartbeat_interval_ms) == (50_000, 15_000)
    stage = Stage(topics(a=1), own)
    client = Client("x")
    stage.hear(client)
    stage.now_ms += own.heartbeat_interval_ms
    assert stage.hear(client).heartbeat_interval_ms == 15_000
    assert stage.tick(49_999) == []
    assert stage.tick(1) == ["x"]


def test_a_group_may_gather_its_changes_for_longer() -> None:
    own = ConsumerSettings().of({"consumer.assignment.interval.ms": "90000"})
    assert own.assignment_interval_ms == 15_000, "the longest that is allowed"
    stage, x, y = Stage(topics(a=2)), Client("x"), Client("y")
    stage.settings = ConsumerSettings().of({"consumer.assignment.interval.ms": "2000"})
    stage.hear(x)
    stage.hear(y)
    stage.now_ms += 1_999
    stage.hear(x)
    assert stage.group.target_epoch < stage.group.epoch
    stage.now_ms += 1
    stage.settle(x, y)
    assert stage.group.state is ConsumerGroupState.STABLE
    assert (len(x.partitions), len(y.partitions)) == (1, 1)


def test_offsets_are_fenced_by_the_epoch_of_the_member() -> None:
    stage, x = Stage(topics(a=2)), Client("x")
    stage.hear(x)
    stage.group.judge_fetch("x", 1)
    stage.group.judge_commit("x", 1, [(UUID(int=9), 0)])
    for member, epoch, code in [
        ("y", 1, ErrorCode.unknown_member_id),
        ("x", 0, ErrorCode.stale_member_epoch),
        ("x", -1, ErrorCode.stale_member_epoch),
        ("x", 2, ErrorCode.stale_member_epoch),
    ]:
        with pytest.raises(KafkaError) as error:
            stage.group.judge_fetch(member, epoch)
        assert error.value.code is code
        with pytest.raises(KafkaError) as error:
            stage.group.judge_commit(member, epoch, [(A, 0), (A, 1)])
        assert error.value.code is code


def may_commit(stage: Stage, member: str, epoch: int, *numbers: int) -> bool:
    with suppress(KafkaError):
        stage.group.judge_commit(member, epoch, [(A, number) for number in numbers])
        return True
    return False


def test_G1_a_member_commits_in_an_older_epoch_what_it_has_had_since_then() -> None:
    """KIP-1251: its epoch rises with an answer that may still be under way."""
    stage, x, y = Stage(topics(a=2)), Client("x"), Client("y")
    stage.hear(x)
    stage.hear(y)
    told = stage.beat(x.beat())
    assert (x.epoch, told.epoch, told.assignment) == (1, 1, {A: frozenset({0})})
    assert may_commit(stage, "x", 1, 0, 1), "what it has to give up it has until it says so"
    x.told = told
    x.take_in()
    assert stage.beat(x.beat()).epoch == 2
    assert x.epoch == 1, "the answer is lost"
    assert may_commit(stage, "x", 1, 0)
    assert not may_commit(stage, "x", 1, 1), "it has given that up"
    assert not may_commit(stage, "x", 1, 0, 1), "all or nothing"
    assert not may_commit(stage, "x", 0, 0)
    assert may_commit(stage, "x", 2, 0)
    assert not may_commit(stage, "x", 3, 0)
    stage.settle(x, y)
    stage.hear(y, epoch=-1)
    stage.settle(x)
    assert (stage.group.current("x").since({A})[A], x.epoch) == ({0: 1, 1: 3}, 3)
    assert may_commit(stage, "x", 2, 0)
    assert not may_commit(stage, "x", 2, 1), "in epoch 2 it was another member's"
    with pytest.raises(
        KafkaError, match=r"partition 1 .* in epoch 2: member 'x', now in epoch 3, has it since epoch 3"
    ):
        stage.group.judge_commit("x", 2, [(A, 1)])
    with pytest.raises(KafkaError, match="does not own it"):
        stage.group.judge_commit("x", 2, [(None, 0)])


def test_G1_what_a_member_has_still_to_give_up_it_has_had_since_it_got_it() -> None:
    stage, x = Stage(topics(a=2)), Client("x")
    stage.hear(x)
    stage.topics = topics(a=3)
    assert stage.beat(x.beat()).epoch == 2
    for name in ("y", "z"):
        stage.hear(Client(name))
    stage.beat(x.beat())
    current = stage.group.current("x")
    assert (current.state, current.epoch, x.epoch) == (MemberState.UNREVOKED_PARTITIONS, 2, 1), "both answers are lost"
    assert current.since({A})[A] == {0: 1, 1: 1, 2: 2}
    assert may_commit(stage, "x", 1, 0, 1)
    assert not may_commit(stage, "x", 1, 2)


class Touched(dict[UUID, frozenset[int]]):
    """The partitions of an epoch, which count how often they are looked at."""

    times = 0

    def __getitem__(self, key: UUID) -> frozenset[int]:
        Touched.times += 1
        return super().__getitem__(key)

    def get(self, *_: object) -> Any:
        raise AssertionError("each topic is looked for in each epoch")


def test_G1_topics_with_epochs_of_their_own_are_written_in_one_pass() -> None:
    """A member may have got each of its topics in another epoch: a record of 1 MB has room for 20,000."""
    topic_ids = [UUID(int=number) for number in range(1, 1_001)]
    current = Current(
        epoch=5_000,
        previous_epoch=4_999,
        state=MemberState.STABLE,
        assigned={topic_id: frozenset({0, 1}) for topic_id in topic_ids},
        epochs={epoch: Touched({topic_id: frozenset({1})}) for epoch, topic_id in enumerate(topic_ids, 1)},
    )
    key = encode_consumer_key(ConsumerKey(Kind.CURRENT, "g", "x"))
    record = decode_record(key, encode_consumer_value(current))
    assert record is not None
    assert record.value == current
    assert Touched.times == len(topic_ids)


def test_G1_a_member_that_begins_again_commits_nothing_of_before() -> None:
    stage, x = Stage(topics(a=2)), Client("x", instance="i")
    stage.hear(x)
    stage.hear(x, epoch=-2)
    assert stage.group.current("x").since({A})[A] == {0: 0, 1: 0}, "as Kafka's records have it"
    assert not may_commit(stage, "x", 1, 0)
    again = Client("z", instance="i")
    stage.topics = topics(a=3)
    stage.hear(again)
    assert (again.epoch, stage.group.current("z").since({A})[A]) == (2, {0: 2, 1: 2, 2: 2})
    again.start_anew()
    stage.topics = topics(a=4)
    stage.hear(again)
    assert (again.epoch, stage.group.current("z").since({A})[A]) == (3, dict.fromkeys(range(4), 3))
    assert not may_commit(stage, "z", 2, 0), "a process before it, with the same member id"


def test_G1_a_classic_member_commits_in_the_generation_before_what_it_keeps() -> None:
    stage, x, y = Stage(topics(a=2)), ClassicClient("x", is_eager=False), Client("y")
    stage.hear(y)
    for _ in range(3):
        stage.join_classic(x)
        stage.hear(y)
    stage.join_classic(x)
    (number,) = x.owned[A]
    before = x.generation
    stage.topics = topics(a=3)
    stage.hear(Client("z"))
    stage.join_classic(x)
    assert (x.generation, x.owned[A]) == (before + 1, frozenset({number}))
    assert may_commit(stage, "x", before, number), "the answer may have been lost"
    assert not may_commit(stage, "x", before, 1 - number)
    assert not may_commit(stage, "x", before + 2, number)
    with pytest.raises(KafkaError) as error:
        stage.group.judge_commit("x", 0, [(A, number)])
    assert error.value.code is ErrorCode.illegal_generation


def test_a_decision_that_is_not_written_is_undone() -> None:
    stage, x, y = Stage(topics(a=2)), Client("x"), Client("y")
    stage.hear(x)
    before = described(stage.group)
    decision = Decision(stage.group)
    heartbeat(decision, y.beat(), stage.world)
    assert described(stage.group) != before
    decision.undo()
    assert described(stage.group) == before
    assert stage.group.bytes_held == stage.replayed().bytes_held


def test_members_whose_removal_is_undone_are_lost_after_another_session() -> None:
    stage, x, y = Stage(topics(a=2)), Client("x"), Client("y")
    stage.hear(x)
    stage.hear(y)
    stage.beat(x.beat())  # It has a partition to give up.
    stage.now_ms += stage.settings.session_timeout_ms
    decision = Decision(stage.group)
    assert expire(decision, stage.world) == ["x", "y"]
    decision.undo()
    stage.group.complete_deadlines(stage.now_ms, stage.settings.session_timeout_ms)
    assert set(stage.group.sessions) == {"x", "y"}
    assert set(stage.group.revocations) == {"x"}
    assert [*stage.group.sessions.over(stage.now_ms), *stage.group.revocations.over(stage.now_ms)] == []
    assert stage.group.deadline_ms() == stage.now_ms + REBALANCE_MS
    assert stage.tick(stage.settings.session_timeout_ms) == ["x", "y"]


def described(group: ConsumerGroup) -> object:
    fields = ("epoch", "metadata_hash", "target_epoch", "members", "targets", "currents", "regexes", "static", "owners")
    return {name: getattr(group, name) for name in fields}


class GroupMachine(RuleBasedStateMachine):
    """Members come, go, are lost, lose answers and take them in late; topics grow; decisions fail to be written."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage(topics(a=3, b=2))
        self.clients: dict[str, Client] = {}
        self.classic: dict[str, ClassicClient] = {}
        self.epochs: dict[str, int] = {}
        self.group_epoch = 0
        self.drawn = 0

    @precondition(lambda self: len(self.clients) < 4)
    @rule(
        subscribed=st.sampled_from([("a",), ("b",), ("a", "b")]),
        assignor=st.sampled_from([None, "uniform", "range"]),
        instance=st.sampled_from([None, None, "i", "j"]),
    )
    def come(self, subscribed: tuple[str, ...], assignor: str | None, instance: str | None) -> None:
        if instance is not None and instance in self.stage.group.static:
            return
        self.drawn += 1
        client = Client(f"m{self.drawn}", subscribed, instance, assignor)
        self.clients[client.name] = client
        self.hear(client)

    @precondition(lambda self: len(self.classic) < 2)
    @rule(subscribed=st.sampled_from([("a",), ("a", "b")]), is_eager=st.booleans())
    def come_classic(self, subscribed: tuple[str, ...], is_eager: bool) -> None:
        self.drawn += 1
        client = ClassicClient(f"c{self.drawn}", subscribed, is_eager)
        self.classic[client.name] = client
        self.stage.join_classic(client)

    @precondition(lambda self: self.classic)
    @rule(data=st.data(), leaves=st.booleans())
    def beat_classic(self, data: st.DataObject, leaves: bool) -> None:
        client = self.classic[data.draw(st.sampled_from(sorted(self.classic)))]
        if leaves:
            del self.classic[client.name]
            event = Leave(token="leave", members=(client.who,))
            left = self.stage.decide(lambda decision: leave(decision, event, self.stage.world))
            assert left.members == ((client.who, ErrorCode.none),)
        else:
            self.stage.hear_classic(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), is_lost=st.booleans(), is_late=st.booleans())
    def beat(self, data: st.DataObject, is_lost: bool, is_late: bool) -> None:
        client = self.draw(data)
        if client.told is None:
            self.hear(client, is_lost=is_lost, is_late=is_late)
        else:
            client.take_in()

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        """A decision that is not written leaves no trace."""
        client = self.draw(data)
        if client.told is None:
            before = described(self.stage.group)
            decision = Decision(self.stage.group)
            with suppress(KafkaError):
                heartbeat(decision, client.beat(), self.stage.world)
            decision.undo()
            assert described(self.stage.group) == before

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), stays=st.booleans())
    def leave(self, data: st.DataObject, stays: bool) -> None:
        client = self.draw(data)
        del self.clients[client.name]
        client.owned = {}
        self.stage.beat(client.beat(-2 if stays and client.instance else -1))

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def start_anew(self, data: st.DataObject) -> None:
        client = self.draw(data)
        client.start_anew()
        self.epochs.pop(client.name, None)
        self.hear(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        """One is silent for a session; the others are heard meanwhile."""
        silent = self.draw(data)
        self.stage.now_ms += self.stage.settings.session_timeout_ms
        for client in list(self.clients.values()):
            if client is not silent:
                client.take_in()
                self.stage.group.revocations.pop(client.name, None)
                self.hear(client)
        self.hear_all_classic()
        del self.clients[silent.name]
        self.stage.tick(0)

    def hear_all_classic(self) -> None:
        for client in self.classic.values():
            self.stage.hear_classic(client)
            self.stage.group.revocations.pop(client.name, None)

    @rule(count=st.integers(1, 6))
    def grow(self, count: int) -> None:
        self.stage.topics = topics(a=max(count, self.stage.topics["a"].partitions), b=2)

    def draw(self, data: st.DataObject) -> Client:
        return self.clients[data.draw(st.sampled_from(sorted(self.clients)))]

    def hear(self, client: Client, *, is_lost: bool = False, is_late: bool = False) -> None:
        try:
            told = self.stage.beat(client.beat())
        except KafkaError as error:
            # Two answers in a row were lost, each with an epoch of its own.
            if error.code is not ErrorCode.fenced_member_epoch or not client.is_unsure:
                raise
            client.start_anew()
            self.epochs.pop(client.name)
            told = self.stage.beat(client.beat())
        client.is_unsure = client.is_unsure or is_lost
        assert told.epoch >= self.epochs.get(client.name, 0), "a member's epoch never goes back"
        self.epochs[client.name] = told.epoch
        if not is_lost:
            client.told = told
            if not is_late:
                client.take_in()

    @property
    def everybody(self) -> list[Client | ClassicClient]:
        return [*self.clients.values(), *self.classic.values()]

    @invariant()
    def no_partition_is_owned_twice(self) -> None:
        owned = [partition for client in self.everybody for partition in client.partitions]
        assert len(owned) == len(set(owned))

    @invariant()
    def what_a_client_has_it_may_commit_and_nothing_else(self) -> None:
        """In the epoch that it knows, however many answers were lost since (KIP-1251)."""
        group = self.stage.group
        known = [*((each, each.epoch) for each in self.clients.values() if each.epoch > 0)]
        known += [(each, each.generation) for each in self.classic.values()]  # type: ignore[misc]
        for client, epoch in known:
            group.judge_commit(client.name, epoch, client.partitions)
            if epoch < group.current(client.name).epoch:
                others = [
                    (topic_id, number)
                    for topic_id, owners in group.owners.items()
                    for number, owner in owners.items()
                    if owner != client.name
                ]
                for partition in others:
                    with pytest.raises(KafkaError):
                        group.judge_commit(client.name, epoch, [partition])

    @invariant()
    def epochs_rise(self) -> None:
        assert self.stage.group.epoch >= self.group_epoch
        assert self.stage.group.target_epoch <= self.stage.group.epoch
        self.group_epoch = self.stage.group.epoch

    @invariant()
    def another_coordinator_has_the_same(self) -> None:
        again = ConsumerGroup("g")
        for record in self.stage.log:
            again.apply(record)
        assert described(again) == described(self.stage.group)
        assert again.bytes_held == self.stage.group.bytes_held
        used = Counter(member.regex for member in again.members.values() if member.regex)
        assert again.regex_uses == self.stage.group.regex_uses == used
        named = Counter(name for member in again.members.values() for name in member.topics)
        assert again.topic_uses == self.stage.group.topic_uses == named
        compacted = ConsumerGroup("g")
        for record in self.stage.group.records():
            compacted.apply(record)
        assert described(compacted) == described(self.stage.group)

    def teardown(self) -> None:
        """Members that stay and are heard own everything within a bound of heartbeats."""
        for client in self.clients.values():
            client.take_in()
        self.stage.now_ms += self.stage.settings.session_timeout_ms
        for client in self.clients.values():
            self.stage.group.revocations.pop(client.name, None)
            self.hear(client)
        self.hear_all_classic()
        self.stage.tick(0)  # Those who were away for too long.
        for _ in range(2 * len(self.everybody) + 2):
            self.stage.now_ms += GATHERING_MS
            for client in self.clients.values():
                self.hear(client)
            for each in self.classic.values():
                self.stage.hear_classic(each)
        owned = {partition for each in self.everybody for partition in each.partitions}
        wanted = {
            (topic.topic_id, number)
            for topic in self.stage.topics.values()
            if any(topic.name in each.topics for each in self.everybody)
            for number in range(topic.partitions)
        }
        assert owned == wanted
        if self.everybody:
            assert self.stage.group.state is ConsumerGroupState.STABLE


class GatheringGroupMachine(GroupMachine):
    """The same where changes are gathered, as in a large group."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(decision_module, "gathering_ms", lambda _: GATHERING_MS)

    @rule(ms=st.sampled_from([1, GATHERING_MS]))
    def wait(self, ms: int) -> None:
        self.stage.now_ms += ms

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.patch.undo()


TestGroups = GroupMachine.TestCase
TestGroups.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestGatheringGroups = GatheringGroupMachine.TestCase
TestGatheringGroups.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
