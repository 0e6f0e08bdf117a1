"""The groups of one partition: replay, commits, expiry."""

from __future__ import annotations

from uuid import UUID

import pytest

from tierfetch.broker.groups.core.consumer.records import (
    ConsumerValue,
    Current,
    GroupEpoch,
    Kind,
    MemberState,
    Resolved,
    Subscriber,
    Target,
    TargetEpoch,
)
from tierfetch.broker.groups.core.consumer.state import ConsumerGroup
from tierfetch.broker.groups.core.events import MemberIdentity, Now
from tierfetch.broker.groups.core.group_state import GroupSettings, GroupState
from tierfetch.broker.groups.core.records import GroupKey, GroupRecord, GroupValue, MemberValue, OffsetKey, OffsetValue
from tierfetch.broker.groups.core.shard import Incarnation, MayGo, Shard, incarnation_of
from tierfetch.broker.groups.core.share.state import ShareGroup
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.topics import TopicPartition

ASSIGNED = {UUID(int=1): frozenset({0, 1})}
DAY_MS = 24 * 3_600_000
SUBSCRIBED = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x01t" + b"\xff\xff\xff\xff"


def shard(*records: GroupRecord) -> Shard:
    made = Shard(GroupSettings())
    for record in records:
        made.replay(record)
    return made


def offset(group: str = "g", topic: str = "t", partition: int = 0, *, at: int = 5, **value: int) -> GroupRecord:
    key = OffsetKey(group, topic, partition)
    return GroupRecord(key, OffsetValue(offset=at, commit_timestamp_ms=value.pop("when", 0), **value))


def group(name: str = "g", *, members: tuple[str, ...] = (), since: int = 0, kind: str = "consumer") -> GroupRecord:
    return GroupRecord(
        GroupKey(name),
        GroupValue(
            protocol_type=kind,
            generation_id=3,
            protocol_name="range" if members else None,
            leader=members[0] if members else None,
            current_state_timestamp_ms=since,
            members=tuple(
                MemberValue(
                    member_id=member,
                    client_id="c",
                    client_host="/h",
                    rebalance_timeout_ms=1,
                    session_timeout_ms=1,
                    subscription=SUBSCRIBED,
                    assignment=b"",
                )
                for member in members
            ),
        ),
    )


def gone(record: GroupRecord) -> GroupRecord:
    return GroupRecord(record.key, None)


def committed(of: Shard, name: str = "g") -> dict[str, int]:
    return {str(partition): value.offset for partition, value in of.offsets.get(name, {}).items()}


def test_the_last_record_of_each_key_holds() -> None:
    read = shard(offset(at=1), offset(partition=1, at=2), offset(at=3), group(), offset("h", at=9))
    assert committed(read) == {"t-0": 3, "t-1": 2}
    assert sorted(read.groups) == ["g", "h"]
    assert (read.groups["g"].generation_id, read.groups["h"].generation_id) == (3, 0)


def test_tombstones_take_away() -> None:
    read = shard(group(), offset(), offset(partition=1), gone(offset()), gone(offset("unknown")))
    assert committed(read) == {"t-1": 5}
    read.replay(gone(offset(partition=1)))
    read.replay(gone(group()))
    assert (read.offsets, read.groups) == ({}, {})


@pytest.mark.parametrize("is_reversed", [False, True])
def test_records_of_a_consumer_group_are_read_in_any_order(is_reversed: bool) -> None:
    made = ConsumerGroup("g")
    current = Current(epoch=2, previous_epoch=1, state=MemberState.STABLE, assigned=ASSIGNED)
    values: list[tuple[Kind, str, ConsumerValue]] = [
        (Kind.CURRENT, "m", current),
        (Kind.TARGET_MEMBER, "m", Target(ASSIGNED)),
        (Kind.REGEX, "t.*", Resolved(("t",), 1, 1)),
        (Kind.TARGET, "", TargetEpoch(2)),
        (Kind.MEMBER, "m", Subscriber(client_id="c", client_host="/h", regex="t.*")),
        (Kind.GROUP, "", GroupEpoch(2, 7)),
    ]
    records = [made.record(*value) for value in values]
    for record in records:
        made.apply(record)
    read = shard(*(reversed(records) if is_reversed else records))
    assert list(read.consumers["g"].records()) == list(made.records())
    for record in made.tombstones():
        read.replay(record)
    assert (read.consumers, read.groups) == ({}, {})


def test_a_group_whose_record_goes_before_its_offsets_is_one_without_members() -> None:
    read = shard(group(members=("a",)), offset(), gone(group()))
    assert read.groups["g"].state is GroupState.EMPTY


def test_offsets_of_a_transaction_count_from_its_marker_on() -> None:
    read = shard(offset(at=1))
    read.replay_undecided(7, offset(at=2))
    read.replay_undecided(8, offset(at=3))
    assert committed(read) == {"t-0": 1}
    assert read.has_undecided("g", TopicPartition("t", 0))
    read.end_transaction(7, is_committed=False)
    read.end_transaction(8, is_committed=True)
    read.end_transaction(9, is_committed=True)
    assert committed(read) == {"t-0": 3}
    assert not read.has_undecided("g", TopicPartition("t", 0))


def test_a_group_that_is_not_there_begins_with_a_commit_without_a_generation() -> None:
    now = Now(0, 0)
    assert shard().judge_commit("g", MemberIdentity(""), -1, now, []) is ErrorCode.none
    assert shard().judge_commit("g", MemberIdentity("a"), 1, now, []) is ErrorCode.illegal_generation


def test_a_producer_that_names_no_member_commits_for_any_group_but_a_share_group() -> None:
    read, now = shard(group(members=("a",))), Now(0, 0)
    read.shares["s"] = ShareGroup("s")

    def judged(name: str, member: str = "", generation: int = -1) -> ErrorCode:
        return read.judge_commit(name, MemberIdentity(member), generation, now, [], in_transaction=True)

    assert judged("g") is ErrorCode.none
    assert judged("g", generation=3) is ErrorCode.unknown_member_id
    assert judged("g", "a", 3) is ErrorCode.none
    assert judged("s") is ErrorCode.group_id_not_found


def test_what_may_be_deleted() -> None:
    read = shard(group("empty"), group("full", members=("a",)), group("other", members=("a",), kind="connect"))
    assert [read.judge_delete(name) for name in ("empty", "full", "nobody")] == [
        ErrorCode.none,
        ErrorCode.non_empty_group,
        ErrorCode.group_id_not_found,
    ]
    assert [read.judge_offset_delete(name) for name in ("empty", "full", "other", "nobody")] == [
        ErrorCode.none,
        ErrorCode.none,
        ErrorCode.non_empty_group,
        ErrorCode.group_id_not_found,
    ]


def buried(read: Shard, may_go: MayGo) -> list[GroupRecord]:
    """Return the tombstones of what may go, as a coordinator writes them."""
    keys = dict.fromkeys(key for key, value in read.held() if may_go(key, value))
    return [GroupRecord(key, None) for key in keys if read.goes(key, may_go)]


def expired(read: Shard, at_ms: int) -> dict[str, list[str]]:
    """Return what expires of each group, and delete it."""
    found = {}
    for name in list(read.groups):
        tombstones = buried(read, only(name, read.expiry(name, DAY_MS, at_ms)))
        for record in tombstones:
            read.apply(record)
        lines = [f"{each.key.topic}-{each.key.partition}" for each in tombstones if isinstance(each.key, OffsetKey)]
        if read.ends_with_offsets(name) and not list(read.held_by(name)):
            assert read.tombstones(name) == [GroupRecord(GroupKey(name), None)]
            lines.append("group")
        if lines:
            found[name] = lines
    return found


def only(name: str, may_go: MayGo) -> MayGo:
    return lambda key, value: key.group_id == name and may_go(key, value)


def test_offsets_of_an_empty_group_expire_after_it_became_so() -> None:
    read = shard(group(since=100), offset(when=50), offset(partition=1, when=99))
    assert expired(read, DAY_MS + 99) == {}
    assert expired(read, DAY_MS + 100) == {"g": ["t-0", "t-1", "group"]}


def test_offsets_without_members_ever_expire_after_their_commit() -> None:
    read = shard(offset(when=50), offset(partition=1, when=99))
    assert expired(read, DAY_MS + 50) == {"g": ["t-0"]}
    assert expired(read, DAY_MS + 99) == {"g": ["t-1", "group"]}


def test_offsets_of_consumers_expire_for_topics_that_nobody_reads() -> None:
    read = shard(group(members=("a", "b")), offset(), offset(topic="u"))
    assert expired(read, DAY_MS) == {"g": ["u-0"]}
    read = shard(group(members=("a",), kind="connect"), offset())
    assert expired(read, 9 * DAY_MS) == {}


def test_a_clients_own_expiry_wins() -> None:
    read = shard(offset(when=0, expire_timestamp_ms=10), offset(partition=1, when=0))
    assert expired(read, 9) == {}
    assert expired(read, 10) == {"g": ["t-0"]}


def test_nothing_expires_of_a_group_that_is_no_longer_there() -> None:
    read = shard(offset())
    read.groups.clear()
    assert buried(read, read.expiry("g", DAY_MS, 9 * DAY_MS)) == []


def test_what_a_transaction_may_still_change_does_not_expire() -> None:
    read = shard(offset())
    read.replay_undecided(7, offset(at=9))
    assert expired(read, 9 * DAY_MS) == {}


def test_groups_with_nothing_are_forgotten() -> None:
    assert expired(shard(group()), 0) == {"g": ["group"]}
    assert expired(shard(group(members=("a",))), 0) == {}


def incarnated(topic_id: int, *, partition: int = 0, group: str = "g") -> GroupRecord:
    value = OffsetValue(offset=topic_id, commit_timestamp_ms=0, topic_id=UUID(int=topic_id))
    return GroupRecord(OffsetKey(group, "t", partition), value)


def of_topics(*topics: Incarnation) -> MayGo:
    return lambda key, value: incarnation_of(key, value) in topics


def test_offsets_of_the_topic_that_had_the_name_before_go_and_no_others() -> None:
    read = shard(incarnated(1), incarnated(2, partition=1), offset(partition=2), offset("h", "u"))
    one, other, any_topic = Incarnation("t", UUID(int=1)), Incarnation("t", UUID(int=2)), Incarnation("t", None)
    assert {incarnation_of(*each) for each in read.held_by("g")} == {one, other, any_topic}
    assert buried(read, of_topics(one)) == [gone(incarnated(1))]
    deleted = of_topics(any_topic, Incarnation("u", None))
    assert buried(read, deleted) == [gone(offset(partition=2)), gone(offset("h", "u"))]


def test_open_transactions_in_the_topic_that_had_the_name_before_let_go_of_it() -> None:
    made = shard(incarnated(1))
    made.replay_undecided(7, incarnated(1))
    made.replay_undecided(7, incarnated(1, partition=1))
    made.replay_undecided(8, incarnated(1, group="h"))
    made.replay_undecided(7, incarnated(1, partition=2))
    made.replay_undecided(9, incarnated(2, partition=2))
    assert [key.group_id for key, _ in made.held()].count("h") == 1
    for record in buried(made, of_topics(Incarnation("t", UUID(int=1)))):
        made.apply(record)
    for producer_id in (7, 8, 9):
        made.end_transaction(producer_id, is_committed=True)
    assert made.offsets == {"g": {TopicPartition("t", 2): incarnated(2, partition=2).value}}, "the last one counts"


def test_what_is_deleted_does_not_come_back_with_a_marker() -> None:
    """As with Kafka's coordinator: of a group, and of a topic that may come again under its name."""
    for is_of_group in (True, False):
        made = shard(offset(partition=0))
        for number, held in enumerate((offset(partition=0), offset(partition=1), offset("h", "u"))):
            made.replay_undecided(number, held)
        values = made.values_of("g")
        may_go = (lambda _, value, values=values: value in values) if is_of_group else of_topics(Incarnation("t", None))
        records = buried(made, only("g", may_go))
        assert {each.key for each in records} == {OffsetKey("g", "t", 0), OffsetKey("g", "t", 1)}
        for record in records:
            made.apply(record)
        for number in range(3):
            made.end_transaction(number, is_committed=True)
        assert made.offsets.keys() == {"h"}


def test_a_group_stays_while_a_transaction_holds_an_offset_of_it() -> None:
    made = shard(group())
    made.replay_undecided(7, offset())
    assert expired(made, 2 * DAY_MS) == {}
    for record in made.tombstones("g"):
        made.apply(record)
    made.end_transaction(7, is_committed=True)
    assert made.offsets.keys() == {"g"}


def test_offsets_may_come_and_go_while_they_are_looked_at() -> None:
    made = shard(*[offset(partition=number) for number in range(4)], offset("h"))
    made.replay_undecided(7, offset("i"))
    seen = []
    for key, _ in made.held():
        seen.append((key.group_id, key.partition))
        made.apply(gone(offset(partition=3)))
        made.apply(offset(partition=4))
        made.apply(gone(offset("h")))
        made.end_transaction(7, is_committed=False)
    assert seen == [("g", 0), ("g", 1), ("g", 2), ("g", 3)], "a group as it was when it was reached; others as they are"
    assert not made.goes(OffsetKey("g", "t", 3), lambda _, __: True), "it is looked at again before it is deleted"
