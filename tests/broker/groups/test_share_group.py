"""Share groups (KIP-932), decided: who reads what together, epochs, fences, what is initialized, replay, undo."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.broker.groups.core.consumer.assignors import Subscription
from tierfetch.broker.groups.core.consumer.heartbeat import Told
from tierfetch.broker.groups.core.consumer.records import (
    Assignment,
    Current,
    GroupEpoch,
    MemberState,
    Target,
    TargetEpoch,
)
from tierfetch.broker.groups.core.consumer.topics import Topic, Topics
from tierfetch.broker.groups.core.records import GroupRecord, decode_record
from tierfetch.broker.groups.core.share import starts
from tierfetch.broker.groups.core.share.assignor import assign
from tierfetch.broker.groups.core.share.heartbeat import (
    ShareBeat,
    ShareDecision,
    ShareSettings,
    ShareWorld,
    expire,
    heartbeat,
)
from tierfetch.broker.groups.core.share.records import (
    ShareGroupKey,
    ShareKind,
    ShareMember,
    ShareValue,
    Starts,
    TopicStarts,
)
from tierfetch.broker.groups.core.share.state import NAME_BYTES, ShareGroup, ShareGroupState
from tierfetch.protocol import CorruptRecordError, ErrorCode, KafkaError

A, B = UUID(int=1), UUID(int=2)
TOPICS: Topics = {"a": Topic("a", A, 3), "b": Topic("b", B, 2)}
SESSION_MS = 45_000


class Stage:
    """One group, its records, and share coordinators that initialize what they are told to."""

    def __init__(self, topics: Topics = TOPICS, size_max: int = 200) -> None:
        self.group = ShareGroup("g")
        self.topics = topics
        self.settings = ShareSettings(size_max=size_max)
        self.now_ms = 0
        self.records: list[GroupRecord] = []

    @property
    def world(self) -> ShareWorld:
        return ShareWorld(self.topics, hash(tuple(self.topics.items())), self.settings, self.now_ms)

    def keep(self, decision: ShareDecision) -> None:
        self.records += decision.records

    def beat(self, member: str = "m", epoch: int = 0, topics: tuple[str, ...] | None = None) -> Told:
        decision = ShareDecision(self.group)
        asked = ("a",) if topics is None and epoch == 0 else topics
        told = heartbeat(decision, ShareBeat(member_id=member, epoch=epoch, topics=asked), self.world)
        self.keep(decision)
        return told

    def refused(self, member: str = "m", epoch: int = 0, topics: tuple[str, ...] | None = None) -> ErrorCode:
        before = list(self.group.records())
        with pytest.raises(KafkaError) as error:
            self.beat(member, epoch, topics)
        assert list(self.group.records()) == before
        return error.value.code

    def initialize(self) -> None:
        missing = self.missing()
        for decide in (
            lambda decision: starts.begin(decision, missing),
            lambda decision: starts.end(decision, missing, [(t, n) for t, e in missing.items() for n in e.partitions]),
        ):
            decision = ShareDecision(self.group)
            decide(decision)
            self.keep(decision)

    def missing(self) -> Mapping[UUID, TopicStarts]:
        return self.group.uninitialized(self.topics, self.world.topics_version)

    def assigned(self, member: str = "m") -> Assignment:
        return self.group.current(member).assigned


def test_a_member_is_called_to_just_after_another_one_is_lost() -> None:
    stage = Stage()
    epoch = stage.beat("m").epoch
    stage.now_ms = SESSION_MS - 1_000
    told = stage.beat("n")
    assert 1_000 < told.heartbeat_interval_ms < 2_000, "m has said nothing since"
    assert stage.beat("m", epoch).heartbeat_interval_ms == stage.settings.heartbeat_interval_ms


# The assignor.

topic_ids = [UUID(int=number) for number in range(1, 4)]
subscriptions = st.frozensets(st.sampled_from(topic_ids), min_size=1)
memberships = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=2), subscriptions, max_size=9)
partitions = st.dictionaries(st.sampled_from(topic_ids), st.integers(0, 7).map(lambda count: frozenset(range(count))))


def holders(owned: Mapping[str, Assignment]) -> dict[tuple[UUID, int], set[str]]:
    found: dict[tuple[UUID, int], set[str]] = {}
    for member, assignment in owned.items():
        for topic_id, numbers in assignment.items():
            for number in numbers:
                found.setdefault((topic_id, number), set()).add(member)
    return found


@given(memberships, partitions, st.data())
def test_every_partition_has_its_members_and_every_member_something_to_do(
    wanted: dict[str, frozenset[UUID]], topics: dict[UUID, frozenset[int]], data: st.DataObject
) -> None:
    before: dict[str, Assignment] = {}
    for _ in range(2):
        members = {name: Subscription(each, assigned=before.get(name, {})) for name, each in wanted.items()}
        owned = assign(members, topics)
        assert assign(members, topics) == owned
        assert set(owned) == set(wanted)
        found = holders(owned)
        for topic_id, numbers in topics.items():
            subscribers = [name for name, each in wanted.items() if topic_id in each]
            for number in numbers if subscribers else ():
                at_least = -(-len(subscribers) // len(numbers))
                assert len(found[topic_id, number]) >= at_least
                assert found[topic_id, number] <= set(subscribers)
        for name, each in wanted.items():
            assert bool(owned[name]) == any(topics.get(topic_id) for topic_id in each)
        if len(set(wanted.values())) == 1:
            loads = [sum(map(len, each.values())) for each in owned.values()]
            assert max(loads) - min(loads) <= 2
        before = owned
        gone = data.draw(st.sampled_from(sorted(wanted))) if len(wanted) > 1 else None
        wanted = {name: each for name, each in wanted.items() if name != gone}


def test_members_share_partitions_evenly_and_keep_what_they_have() -> None:
    members = {name: Subscription(frozenset({A})) for name in ("x", "y")}
    first = assign(members, {A: frozenset(range(4))})
    assert first == {"x": {A: frozenset({0, 2})}, "y": {A: frozenset({1, 3})}}
    members = {name: Subscription(frozenset({A}), assigned=first.get(name, {})) for name in ("w", "x", "y")}
    second = assign(members, {A: frozenset(range(4))})
    assert second["x"] == first["x"]
    assert second["y"][A] < first["y"][A]
    assert sum(len(each[A]) for each in second.values()) == 4
    many = assign({str(number): Subscription(frozenset({A})) for number in range(4)}, {A: frozenset({0, 1})})
    assert sorted(len(each) for each in holders(many).values()) == [2, 2]


# Records.

VALUES: list[tuple[ShareKind, str, ShareValue, str, str]] = [
    (
        ShareKind.MEMBER,
        "m",
        ShareMember(rack_id=None, client_id="c", client_host="/h", topics=("a",)),
        "000a" + "000167" + "00016d",
        "0000" + "00" + "0263" + "032f68" + "02" + "0261" + "00",
    ),
    (ShareKind.GROUP, "", GroupEpoch(7, 9), "000b" + "000167", "0000" + "00000007" + "0000000000000009" + "00"),
    (ShareKind.TARGET, "", TargetEpoch(7), "000c" + "000167", "0000" + "00000007" + "00"),
    (
        ShareKind.TARGET_MEMBER,
        "m",
        Target({A: frozenset({1, 0})}),
        "000d" + "000167" + "00016d",
        "0000" + "02" + A.hex + "03" + "00000000" + "00000001" + "00" + "00",
    ),
    (
        ShareKind.CURRENT,
        "m",
        Current(epoch=7, previous_epoch=6, state=MemberState.STABLE, assigned={A: frozenset({1})}),
        "000e" + "000167" + "00016d",
        "0000" + "00000007" + "00000006" + "00" + "02" + A.hex + "02" + "00000001" + "00" + "00",
    ),
    (
        ShareKind.STARTS,
        "",
        Starts(
            initializing={A: TopicStarts("a", frozenset({2}))},
            initialized={A: TopicStarts("a", frozenset({0}))},
            deleting={B: "b"},
        ),
        "000f" + "000167",
        "0000"
        + ("02" + A.hex + "0261" + "02" + "00000002" + "00")
        + ("02" + A.hex + "0261" + "02" + "00000000" + "00")
        + ("02" + B.hex + "0262" + "00")
        + "00",
    ),
]


@pytest.mark.parametrize(("kind", "name", "value", "key_hex", "value_hex"), VALUES, ids=lambda each: str(each)[:20])
def test_records_are_kafkas(kind: ShareKind, name: str, value: ShareValue, key_hex: str, value_hex: str) -> None:
    record = GroupRecord(ShareGroupKey(kind, "g", name), value)
    key, data = record.encoded()
    assert data is not None
    assert (key.hex(), data.hex()) == (key_hex, value_hex)
    assert decode_record(key, data) == record
    assert decode_record(key, None) == GroupRecord(record.key, None)


@given(st.sampled_from(list(ShareKind)), st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(kind: ShareKind, data: bytes) -> None:
    key, _ = GroupRecord(ShareGroupKey(kind, "g", "m"), None).encoded()
    for value in (data, b"\0\0" + data):
        with suppress(CorruptRecordError):
            assert decode_record(key, value) is not None


# Heartbeats.


def test_a_member_is_given_what_is_initialized() -> None:
    stage = Stage()
    joined = stage.beat()
    assert (joined.epoch, joined.assignment, stage.group.state) == (1, {}, ShareGroupState.STABLE)
    assert stage.beat("m", 1).assignment is None, "nothing is new"
    stage.initialize()
    told = stage.beat("m", 1)
    assert (told.epoch, told.assignment) == (2, {A: frozenset({0, 1, 2})})
    assert stage.beat("m", 2).assignment is None
    assert stage.beat("m", 1).assignment == told.assignment, "the answer was lost"
    stage.beat("m", -1)
    assert stage.group.state is ShareGroupState.EMPTY
    assert stage.group.starts.initialized == {A: TopicStarts("a", frozenset({0, 1, 2}))}


def test_several_members_share_a_partition() -> None:
    stage = Stage({"a": Topic("a", A, 1)})
    for name in ("x", "y", "z"):
        stage.beat(name)
    stage.initialize()
    for name in ("x", "y", "z"):
        assert stage.beat(name, stage.group.current(name).epoch).assignment == {A: frozenset({0})}


def test_what_is_fenced_and_what_makes_no_sense() -> None:
    stage = Stage(size_max=1)
    assert stage.refused("m", 1) is ErrorCode.group_id_not_found
    stage.beat()
    assert stage.refused("x", 1) is ErrorCode.unknown_member_id
    assert stage.refused("x", -1) is ErrorCode.unknown_member_id
    assert stage.refused("m", 5) is ErrorCode.fenced_member_epoch
    assert stage.refused("x", 0) is ErrorCode.group_max_size_reached
    assert stage.refused("", 0) is ErrorCode.invalid_request
    assert stage.refused("m", -2) is ErrorCode.invalid_request
    assert stage.refused("m", 0, ()) is ErrorCode.invalid_request


def test_a_topic_that_grows_is_initialized_where_it_is_new_and_one_that_goes_is_forgotten() -> None:
    stage = Stage()
    stage.beat("m", 0, ("a", "b"))
    stage.initialize()
    stage.beat("m", 1)
    stage.topics = {"a": Topic("a", A, 5), "b": TOPICS["b"], "c": TOPICS["b"]}
    assert stage.missing() == {A: TopicStarts("a", frozenset({3, 4}))}
    stage.initialize()
    assert stage.beat("m", stage.group.current("m").epoch).assignment == {
        A: frozenset(range(5)),
        B: frozenset({0, 1}),
    }
    decision = ShareDecision(stage.group)
    starts.forget_topics(decision, [A])
    assert set(stage.group.starts.initialized) == {B}


class CountedTopics(dict[str, Topic]):
    """Topics that count what is looked up in them."""

    looked_up = 0

    def get(self, name: str, default: Any = None) -> Any:
        self.looked_up += 1
        return super().get(name, default)


def test_what_is_initialized_is_looked_for_once_until_something_changes() -> None:
    """A heartbeat looked at every subscription of every member: 4.4 s of the loop with 100 members of 20,000 names."""
    topics = CountedTopics(TOPICS)
    stage = Stage(topics)
    stage.beat()
    stage.initialize()
    assert not stage.missing()
    topics.looked_up = 0
    for _ in range(3):
        assert not stage.missing()
    assert topics.looked_up == 0
    stage.beat("n", topics=("b",))
    assert stage.missing() == {B: TopicStarts("b", frozenset({0, 1}))}
    assert stage.missing(), "what is missing is missing until it is initialized"
    stage.initialize()
    assert not stage.missing()
    stage.beat("m", stage.group.current("m").epoch, ("a", "b"))
    assert not stage.missing()
    decision = ShareDecision(stage.group)
    starts.begin_deletion(decision, [A])
    assert set(stage.missing()) == {A}
    decision.undo()
    assert not stage.missing()
    topics["a"] = Topic("a", A, 4)
    assert stage.missing() == {A: TopicStarts("a", frozenset({3}))}


def test_a_name_is_charged_with_what_it_needs_besides_its_characters() -> None:
    stage = Stage()
    stage.beat(topics=("a",))
    before = stage.group.bytes_held
    stage.beat(topics=("a", *(f"{number:04}" for number in range(1000))))
    assert stage.group.bytes_held - before == 1000 * (4 + NAME_BYTES)


def test_a_member_that_is_silent_is_lost_and_the_others_have_what_it_had() -> None:
    stage = Stage()
    stage.beat("x")
    stage.beat("y")
    stage.initialize()
    stage.now_ms = SESSION_MS - 1
    stage.beat("y", stage.group.current("y").epoch)
    stage.now_ms = SESSION_MS
    decision = ShareDecision(stage.group)
    assert expire(decision, stage.world) == ["x"]
    stage.keep(decision)
    assert stage.beat("y", stage.group.current("y").epoch).assignment == {A: frozenset({0, 1, 2})}


def test_however_many_sharers_are_lost_at_once_what_removes_them_can_be_written() -> None:
    stage = Stage()
    for number in range(100):
        stage.beat(f"{number:03}")
    stage.group.group_id = "g" * 30_000
    stage.now_ms += stage.settings.session_timeout_ms
    writes = 0
    while stage.group.members:
        decision = ShareDecision(stage.group)
        assert len(expire(decision, stage.world)) == 2
        writes += 1
    assert writes == 50


def test_a_deletion_is_noted_before_it_is_made() -> None:
    stage = Stage()
    stage.beat()
    stage.initialize()
    stage.beat("m", -1)
    decision = ShareDecision(stage.group)
    assert starts.begin_deletion(decision, [A, B]) == {A: TopicStarts("a", frozenset({0, 1, 2}))}
    assert stage.group.starts == Starts(deleting={A: "a"})
    before = stage.group.epoch
    starts.end_deletion(decision, [A])
    assert decision.records[-1].value is None, "nothing is a tombstone"
    assert stage.group.epoch == before + 1, "what comes late from before the deletion is of another epoch"
    starts.end_deletion(decision, [A])
    assert stage.group.epoch == before + 1
    decision.undo()
    assert stage.group.starts.initialized == {A: TopicStarts("a", frozenset({0, 1, 2}))}


def test_what_failed_may_have_begun_so_a_deletion_finds_it() -> None:
    stage = Stage()
    stage.beat()
    missing = stage.missing()
    decision = ShareDecision(stage.group)
    starts.begin(decision, missing)
    starts.end(decision, missing, [(A, 1)])
    failed = {A: TopicStarts("a", frozenset({0, 2}))}
    assert stage.group.starts == Starts(initializing=failed, initialized={A: TopicStarts("a", frozenset({1}))})
    assert stage.missing() == failed
    assert starts.begin_deletion(decision, [A]) == missing


steps = st.lists(
    st.one_of(
        st.tuples(st.just("beat"), st.sampled_from("xyz"), st.sampled_from([("a",), ("a", "b"), ("b", "no")])),
        st.tuples(st.sampled_from(["leave", "initialize", "pass", "undo"]), st.sampled_from("xyz"), st.just(())),
    ),
    max_size=30,
)


def contents(group: ShareGroup) -> dict[object, object]:
    return {record.key: record.value for record in group.records()}


def take(stage: Stage, kind: str, member: str, topics: tuple[str, ...]) -> None:
    """Take one step."""
    decision = ShareDecision(stage.group)
    match kind:
        case "initialize":
            stage.initialize()
        case "pass":
            stage.now_ms += SESSION_MS // 2
            expire(decision, stage.world)
            stage.keep(decision)
        case "leave" if member in stage.group.members:
            stage.beat(member, -1)
        case "undo":
            before = contents(stage.group)
            heartbeat(decision, ShareBeat(member_id=member, epoch=0, topics=("b",)), stage.world)
            decision.undo()
            assert contents(stage.group) == before
        case "beat":
            stage.beat(member, 0, topics)


def check_replay(stage: Stage) -> None:
    """Check that the records give the group."""
    again = ShareGroup("g")
    for record in stage.records:
        decoded = decode_record(*record.encoded())
        assert decoded == record
        again.apply(decoded)
    assert contents(again) == contents(stage.group)
    assert again.bytes_held == stage.group.bytes_held
    for group in (again, stage.group):
        assert group.subscribed_topics() == {name for member in group.members.values() for name in member.topics}


@settings(max_examples=200)
@given(steps)
def test_whatever_happens_the_records_give_the_group_and_all_is_assigned(
    run: list[tuple[str, str, tuple[str, ...]]],
) -> None:
    stage = Stage()
    for step in run:
        epoch_before = stage.group.epoch
        take(stage, *step)
        assert stage.group.epoch >= epoch_before
    check_replay(stage)
    # Once all have sent a heartbeat, everything that can be assigned is.
    stage.initialize()
    for _ in range(2):
        for member in list(stage.group.members):
            stage.beat(member, stage.group.current(member).epoch)
    found = holders({member: stage.assigned(member) for member in stage.group.members})
    assignable = stage.group.assignable(stage.topics).values()
    assert set(found) == {(topic.topic_id, number) for topic, numbers in assignable for number in numbers}
    for record in stage.group.tombstones():
        stage.group.apply(record)
    assert not stage.group.has_records
