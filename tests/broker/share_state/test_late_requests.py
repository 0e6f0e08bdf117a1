"""Requests of a group coordinator to a share coordinator that are lost, doubled and late, in any order: what comes late
changes nothing, whatever became of the group meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tierfetch.broker.groups.core.consumer.records import GroupEpoch
from tierfetch.broker.groups.core.share import starts
from tierfetch.broker.groups.core.share.heartbeat import ShareDecision
from tierfetch.broker.groups.core.share.records import ShareKind, TopicStarts
from tierfetch.broker.groups.core.share.state import ShareGroup
from tierfetch.broker.share_state.core.state import (
    ShareState,
    Write,
    applied,
    deleted,
    initialized,
    is_fence,
    read_by,
    written,
)
from tierfetch.protocol.errors import ErrorCode, KafkaError

TOPIC = UUID(int=1)
TOPICS = {TOPIC: TopicStarts("t", frozenset({0}))}
HERE = (TOPIC, 0)
NOW_MS = 1_000

ANSWERED, UNANSWERED, HELD_UP = "answered", "made, but not answered", "held up on its way"
fates = st.sampled_from([ANSWERED, UNANSWERED, HELD_UP])


@dataclass(frozen=True)
class Asked:
    """A request; `offset` of None deletes."""

    number: int
    epoch: int
    offset: int | None


class LateRequests(RuleBasedStateMachine):
    """One share-partition. Every request that was ever made may come again at any time, within the time of a fence."""

    def __init__(self) -> None:
        super().__init__()
        self.state: ShareState | None = None
        self.group: ShareGroup | None = None
        self.asked: list[Asked] = []
        self.answered = -1
        """The number of the newest request that the group knows to be made."""
        self.leader_epoch = 0

    # The share coordinator.

    def make(self, asked: Asked) -> bool:
        """Return False for one that is fenced."""
        try:
            if asked.offset is None:
                value = deleted(self.state, asked.epoch, NOW_MS)
            else:
                value = initialized(self.state, asked.epoch, asked.offset, NOW_MS)
        except KafkaError as error:
            if error.code is not ErrorCode.fenced_state_epoch:
                raise
            return False
        if value is not None:
            self.state = applied(self.state, value)
        return True

    # The group coordinator, as `share_groups` does it.

    @property
    def owner(self) -> ShareGroup:
        assert self.group is not None
        return self.group

    def decision(self) -> ShareDecision:
        return ShareDecision(self.owner)

    def ask(self, offset: int | None, fate: str) -> bool:
        """Ask once, and again above what is known if that fences; return whether it is known to be made."""
        for _ in range(2):
            asked = Asked(len(self.asked), self.owner.epoch, offset)
            self.asked.append(asked)
            if fate == HELD_UP:
                return False
            if not self.make(asked):
                assert self.state is not None
                starts.above(self.decision(), self.state.snapshot.state_epoch)
                continue
            if fate == ANSWERED:
                self.answered = asked.number
            return fate == ANSWERED
        raise AssertionError("a group that has risen above it is fenced again")

    def begin(self, offset: int, fate: str) -> None:
        if self.owner.starts.deleting and not self.forget(fate):
            return
        starts.begin(self.decision(), TOPICS)
        done = [HERE] if self.ask(offset, fate) else []
        starts.end(self.decision(), TOPICS, done)

    def forget(self, fate: str) -> bool:
        starts.begin_deletion(self.decision(), [TOPIC])
        if self.owner.starts.deleting and not self.ask(None, fate):
            return False
        starts.end_deletion(self.decision(), [TOPIC])
        return True

    @precondition(lambda self: self.group is None)
    @rule(epochs=st.integers(1, 3))
    def a_group_is_made(self, epochs: int) -> None:
        self.group = ShareGroup("g")
        self.decision().put_record(self.owner.record(ShareKind.GROUP, "", GroupEpoch(epochs)))

    @precondition(lambda self: self.group is not None and not self.owner.starts.initialized)
    @rule(fate=fates)
    def a_member_subscribes(self, fate: str) -> None:
        self.begin(-1, fate)

    @precondition(lambda self: self.group is not None)
    @rule(offset=st.integers(0, 1000), fate=fates)
    def an_operator_resets(self, offset: int, fate: str) -> None:
        starts.above(self.decision(), self.owner.epoch)
        self.begin(offset, fate)

    @precondition(lambda self: self.group is not None)
    @rule(fate=fates)
    def an_operator_deletes_its_offsets(self, fate: str) -> None:
        self.forget(fate)

    @precondition(lambda self: self.group is not None)
    @rule(fate=fates)
    def an_operator_deletes_it(self, fate: str) -> None:
        if self.forget(fate):
            self.group = None

    # The leader of the partition, and the network.

    @precondition(lambda self: self.group is not None and bool(self.owner.starts.initialized))
    @rule(read=st.integers(1, 10))
    def a_leader_acknowledges(self, read: int) -> None:
        assert self.state is not None
        self.leader_epoch += 1
        update = read_by(self.state, self.leader_epoch)
        assert update is not None
        self.state = applied(self.state, update)
        snapshot = self.state.snapshot
        write = Write(
            state_epoch=snapshot.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=max(snapshot.start_offset, 0) + read,
        )
        self.state = applied(self.state, written(self.state, write, 500, NOW_MS))

    @precondition(lambda self: self.answered >= 0)
    @rule(which=st.integers(0, 10**6))
    def one_comes_late(self, which: int) -> None:
        """One before the newest that the group knows of, or that itself again."""
        before = self.state
        self.make(self.asked[which % (self.answered + 1)])
        assert self.state == before

    @precondition(lambda self: len(self.asked) > self.answered + 1)
    @rule(which=st.integers(0, 10**6))
    def one_that_was_held_up_comes(self, which: int) -> None:
        """Of those that the group does not know to be made."""
        unknown = self.asked[self.answered + 1 :]
        self.make(unknown[which % len(unknown)])

    @invariant()
    def what_the_group_counts_on_is_there(self) -> None:
        if self.group is None:
            assert self.state is None or is_fence(self.state)
        elif self.owner.starts.initialized:
            assert self.state is not None
            assert not is_fence(self.state)


TestLateRequests = LateRequests.TestCase
