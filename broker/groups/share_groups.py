"""The share groups (KIP-932) of one led partition at work (`decided_groups` has their decisions and timers).

Share-partitions of topics that members subscribe to are initialized by share coordinators (`core.share.starts`):

    heartbeat -> noted as initializing, durable -> share coordinators -> noted as initialized -> assigned

A group whose epoch is fenced by what share coordinators know of one of the same name before it first rises above that.

One piece of work of a group (initializing, deleting, resetting offsets) is done at a time. A member that joins waits
for it up to `BEGIN_WAIT_S`, so that it is assigned something at once; others are at their next heartbeats.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Set
from contextlib import asynccontextmanager
from itertools import islice
from typing import Final, Protocol
from uuid import UUID

from ...light_dataclass import dataclass
from ...limited_log import LimitedLog
from ...protocol import ErrorCode, KafkaError
from ...protocol.net import Slices, monotonic_ms
from ..coordinator.shard import ActiveShard
from .core.consumer.heartbeat import Told
from .core.consumer.records import GroupEpoch
from .core.consumer.topics import Topics
from .core.decided import Decided
from .core.memory import GroupMemory
from .core.records import GroupRecord
from .core.shard import Incarnation, Shard
from .core.share import starts
from .core.share.heartbeat import ShareBeat, ShareDecision, ShareSettings, ShareWorld, expire, heartbeat
from .core.share.records import ShareKind, TopicStarts
from .core.share.state import JOINING, ShareGroup
from .decided_groups import RETRY_MS, DecidedGroups, Pending, named

BEGIN_WAIT_S: Final = 1.0
WORK_WAIT_S: Final = 15.0
"""How long an operator's request waits for the work before it: a call to share coordinators, and its records."""
AT_ONCE_MAX: Final = 1_000
"""The share-partitions that are initialized in one piece of work; the next heartbeat begins the next."""
LOOK_WEIGHT: Final = 50
"""What it costs to look at the topics of a group, in elements of `pace`."""
NO_OFFSET: Final = -1
"""The start offset that the first leader of a share-partition chooses, by share.auto.offset.reset."""

_log = LimitedLog(logging.getLogger(__name__))

SharePartition = tuple[UUID, int]
Offsets = Mapping[SharePartition, int]


class Progress(Protocol):
    """How far a group is in a partition; -1 where that is not known."""

    @property
    def state_epoch(self) -> int: ...

    @property
    def start_offset(self) -> int: ...

    @property
    def leader_epoch(self) -> int: ...

    @property
    def delivery_complete_count(self) -> int: ...


class ShareStates(Protocol):
    """The port to the share coordinators. Each answer is an error or what was asked for."""

    async def initialize(
        self, group_id: str, offsets: Offsets, state_epoch: int
    ) -> Mapping[SharePartition, KafkaError | None]:
        """Let share-partitions begin, or begin again, at offsets."""

    async def delete(
        self, group_id: str, partitions: Iterable[SharePartition], state_epoch: int
    ) -> Mapping[SharePartition, KafkaError | None]:
        """Forget share-partitions, as of an epoch of the group; it is no error if there are none."""

    async def progress(
        self, group_id: str, partitions: Iterable[SharePartition]
    ) -> Mapping[SharePartition, KafkaError | Progress]:
        """Return how far share-partitions are."""


class NoStates:
    """No share coordinator can be reached."""

    async def initialize(
        self, group_id: str, offsets: Offsets, state_epoch: int
    ) -> Mapping[SharePartition, KafkaError | None]:
        return dict.fromkeys(offsets, _nowhere())

    async def delete(
        self, group_id: str, partitions: Iterable[SharePartition], state_epoch: int
    ) -> Mapping[SharePartition, KafkaError | None]:
        return dict.fromkeys(partitions, _nowhere())

    async def progress(
        self, group_id: str, partitions: Iterable[SharePartition]
    ) -> Mapping[SharePartition, KafkaError | Progress]:
        return dict.fromkeys(partitions, _nowhere())


def _nowhere() -> KafkaError:
    return KafkaError(ErrorCode.coordinator_not_available, "there is no share coordinator")


@dataclass(frozen=True, slots=True)
class ShareSurroundings:
    """What share groups know besides themselves: the topics, with their version; `settings_of` a group by its id."""

    topics: Callable[[], tuple[int, Topics]]
    settings_of: Callable[[str], ShareSettings]
    states: Callable[[], ShareStates]
    commit_timeout_ms: int


class ShareGroups(DecidedGroups[ShareGroup]):
    """See the module's docstring."""

    kind = "share"

    def __init__(
        self,
        runtime: ActiveShard[GroupRecord],
        shard: Shard,
        memory: GroupMemory,
        surroundings: ShareSurroundings,
    ) -> None:
        super().__init__(runtime, shard.shares, memory, surroundings.commit_timeout_ms)
        self._shard = shard
        self._surroundings = surroundings
        self._work: dict[str, asyncio.Future[None]] = {}
        """The end of the piece of work that is done for a group."""
        self._retry_at_ms: dict[str, int] = {}

    def world(self, group_id: str) -> ShareWorld:
        """Return what a decision of the group may know now."""
        version, topics = self._surroundings.topics()
        return ShareWorld(topics, version, self._surroundings.settings_of(group_id), monotonic_ms())

    # Heartbeats.

    async def beat(self, group_id: str, beat: ShareBeat) -> Told:
        """Decide a heartbeat, with which the group may begin; return the answer once that is durable."""
        told = self._decide(group_id, beat)
        work = self._work.get(group_id)
        if beat.epoch == JOINING and work is not None:
            await asyncio.wait([work], timeout=BEGIN_WAIT_S)
            if group_id in self._groups:
                told = self._decide(group_id, beat)
        await self._settled(group_id)
        return told

    def _decide(self, group_id: str, beat: ShareBeat) -> Told:
        group = self._get_or_new(group_id)
        decision, world = ShareDecision(group), self.world(group_id)
        try:
            told = heartbeat(decision, beat, world)
            self._check_memory(group)
            self.submit(decision)
        except KafkaError:
            self._undo(decision)
            raise
        self._maybe_begin(group, world)
        return told

    def _get_or_new(self, group_id: str) -> ShareGroup:
        """Return a share group; a new one is not kept yet. Raise GROUP_ID_NOT_FOUND if it is of another kind."""
        if self._shard.is_of_other_kind(group_id, self._groups):
            raise KafkaError(ErrorCode.group_id_not_found, f"group {group_id!r} is not a share group")
        return self._groups.get(group_id) or ShareGroup(group_id)

    # What a kind of group says.

    def _session_timeout_ms(self, group_id: str) -> int:
        return self._surroundings.settings_of(group_id).session_timeout_ms

    def _look_after(self, group: ShareGroup) -> None:
        decision = ShareDecision(group)
        lost = expire(decision, self.world(group.group_id))
        if lost:
            _log.info(group.group_id, "group %r: %s were silent for too long", group.group_id, named(lost))
        try:
            self.submit(decision)
        except KafkaError as error:
            self._undo(decision)
            _log.warning(group.group_id, "group %r: lost members stay for another session: %s", group.group_id, error)

    def _put_back(self, lost: Pending[ShareGroup]) -> None:
        group, group_id = lost.decision.group, lost.decision.group.group_id
        if not group.is_nothing and not self._shard.is_of_other_kind(group_id, self._groups):
            self._groups.setdefault(group_id, group)
        super()._put_back(lost)

    def forget(self, group_id: str) -> None:
        """Drop a group that was deleted."""
        super().forget(group_id)
        self._retry_at_ms.pop(group_id, None)

    # Share-partitions that begin.

    def _maybe_begin(self, group: ShareGroup, world: ShareWorld) -> None:
        group_id = group.group_id
        if group_id in self._work or self._retry_at_ms.get(group_id, 0) > world.now_ms:
            return
        missing = group.uninitialized(world.topics, world.topics_version)
        if missing:
            # Before the task runs: the answer to this heartbeat waits for it.
            self._work[group_id] = asyncio.get_running_loop().create_future()
            self._runtime.spawn(self._begin(group, _some(missing)))

    async def _begin(self, group: ShareGroup, topics: Mapping[UUID, TopicStarts]) -> None:
        group_id = group.group_id
        try:
            offsets = {(topic_id, number): NO_OFFSET for topic_id, each in topics.items() for number in each.partitions}
            failures = await self._initialize(group, topics, offsets)
            if failures:
                partition, error = next(iter(failures.items()))
                message = "group %r: %d share-partitions are not initialized yet, as partition %d of %s: %s"
                _log.warning(group_id, message, group_id, len(failures), partition[1], partition[0], error)
                self._retry_at_ms[group_id] = monotonic_ms() + RETRY_MS
        except KafkaError as error:
            self._retry_at_ms[group_id] = monotonic_ms() + RETRY_MS
            _log.warning(group_id, "group %r: its share-partitions are not initialized yet: %s", group_id, error)
        finally:
            self._end_work(group_id)

    async def _initialize(
        self, group: ShareGroup, topics: Mapping[UUID, TopicStarts], offsets: Offsets
    ) -> dict[SharePartition, KafkaError]:
        """Let share-partitions begin; return those that did not, and why. A deletion that has begun is ended before."""
        deleting = group.starts.deleting.keys() & topics.keys()
        if deleting:
            await self._delete_state(group, deleting)
        self._put(group, lambda decision: starts.begin(decision, topics))
        await self._settled(group.group_id)
        answers = await self._asked(group, offsets, lambda some: self._initialize_some(group, offsets, some))
        failures = {partition: error for partition, error in answers.items() if error is not None}
        done = [partition for partition in offsets if partition in answers and partition not in failures]
        if self._groups.get(group.group_id) is group:
            self._put(group, lambda decision: starts.end(decision, topics, done))
            await self._settled(group.group_id)
        return failures

    async def _initialize_some(
        self, group: ShareGroup, offsets: Offsets, some: Iterable[SharePartition]
    ) -> Mapping[SharePartition, KafkaError | None]:
        states = self._surroundings.states()
        return await states.initialize(group.group_id, {each: offsets[each] for each in some}, group.epoch)

    async def _asked(
        self,
        group: ShareGroup,
        partitions: Iterable[SharePartition],
        ask: Callable[[Iterable[SharePartition]], Awaitable[Mapping[SharePartition, KafkaError | None]]],
    ) -> Mapping[SharePartition, KafkaError | None]:
        """Ask share coordinators; once more, in a higher epoch, where they know of a group that was before this one."""
        answers = await ask(partitions)
        fenced = [
            partition
            for partition, error in answers.items()
            if error is not None and error.code is ErrorCode.fenced_state_epoch
        ]
        if not fenced or not await self._lift(group, fenced):
            return answers
        return {**answers, **await ask(fenced)}

    async def _lift(self, group: ShareGroup, fenced: Iterable[SharePartition]) -> bool:
        """Have the group's epoch, durably, above what share coordinators know; return whether that is done."""
        group_id = group.group_id
        found = await self._surroundings.states().progress(group_id, fenced)
        known = max([each.state_epoch for each in found.values() if not isinstance(each, KafkaError)], default=-1)
        if known < 0 or self._groups.get(group_id) is not group:
            return False
        _log.info(group_id, "group %r: share coordinators know it at epoch %d, it continues above", group_id, known)
        self._put(group, lambda decision: starts.above(decision, known))
        await self._settled(group_id)
        return self._groups.get(group_id) is group

    def _put(self, group: ShareGroup, decide: Callable[[ShareDecision], None]) -> None:
        decision: ShareDecision = Decided(group)
        decide(decision)
        try:
            self.submit(decision)
        except KafkaError:
            self._undo(decision)
            raise

    @asynccontextmanager
    async def _working(self, group_id: str, *, may_begin: bool = False) -> AsyncIterator[ShareGroup]:
        """Have a group without members to oneself, a new one if it may begin with this. Raise GROUP_ID_NOT_FOUND,
        NON_EMPTY_GROUP; and COORDINATOR_NOT_AVAILABLE, which admin clients try again, if it is being worked on for
        `WORK_WAIT_S`.
        """
        deadline_s = asyncio.get_running_loop().time() + WORK_WAIT_S
        while (work := self._work.get(group_id)) is not None:
            left_s = deadline_s - asyncio.get_running_loop().time()
            if left_s <= 0:
                message = f"group {group_id!r} is busy with its share-partitions for {WORK_WAIT_S:g} s: try again"
                raise KafkaError(ErrorCode.coordinator_not_available, message)
            await asyncio.wait([work], timeout=left_s)
        group = self._empty(group_id, may_begin=may_begin)
        self._work[group_id] = asyncio.get_running_loop().create_future()
        try:
            yield group
        finally:
            self._end_work(group_id)

    def _empty(self, group_id: str, *, may_begin: bool = False) -> ShareGroup:
        group = self._get_or_new(group_id) if may_begin else self._groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.group_id_not_found, f"there is no share group {group_id!r}")
        if group.members:
            raise KafkaError(ErrorCode.non_empty_group, f"group {group_id!r} has {len(group.members)} members")
        return group

    def _end_work(self, group_id: str) -> None:
        work = self._work.pop(group_id, None)
        if work is not None and not work.done():
            work.set_result(None)

    # For operators.

    async def delete(self, group_id: str) -> None:
        """Delete a group without members, and its state. Raise KafkaError; then some of the state may be deleted."""
        async with self._working(group_id) as group:
            held = group.starts
            await self._delete_state(group, {*held.initializing, *held.initialized, *held.deleting})
            self._empty(group_id)  # A member may have joined meanwhile.
            self._put(group, lambda decision: _put_all(decision, list(group.tombstones())))
            self.forget(group_id)
            await self._settled(group_id)

    async def reset(
        self, group_id: str, topics: Mapping[UUID, TopicStarts], offsets: Offsets
    ) -> Mapping[SharePartition, KafkaError]:
        """Let share-partitions of a group without members, which may begin with this, begin at offsets; return those
        that do not, and why.
        """
        unknown = KafkaError(
            ErrorCode.invalid_request, "an offset is 0 at least; what is deleted begins by share.auto.offset.reset"
        )
        refused = {partition: unknown for partition, offset in offsets.items() if offset < 0}
        offsets = {partition: offset for partition, offset in offsets.items() if offset >= 0}
        async with self._working(group_id, may_begin=True) as group:
            if not offsets:
                return refused
            self._check_memory(group)
            # With a higher state epoch leaders that hold the old state are fenced.
            epoch = GroupEpoch(group.epoch + 1, group.metadata_hash)
            self._put(group, lambda decision: decision.put_record(group.record(ShareKind.GROUP, "", epoch)))
            return refused | await self._initialize(group, topics, offsets)

    async def delete_topics(self, group_id: str, topic_ids: Iterable[UUID]) -> Set[UUID]:
        """Delete the state of topics in a group without members; return those that it had some of. Raise KafkaError."""
        async with self._working(group_id) as group:
            return await self._delete_state(group, topic_ids)

    async def _delete_state(self, group: ShareGroup, topic_ids: Iterable[UUID]) -> Set[UUID]:
        wanted = set(topic_ids)
        unfinished = self._unfinished(group, wanted)
        held: dict[UUID, TopicStarts] = {}
        self._put(group, lambda decision: held.update(starts.begin_deletion(decision, wanted)))
        await self._settled(group.group_id)
        partitions = {
            (topic_id, number)
            for topic_id, topic in (*unfinished.items(), *held.items())
            for number in topic.partitions
        }
        answers = await self._asked(
            group,
            sorted(partitions),
            lambda some: self._surroundings.states().delete(group.group_id, some, group.epoch),
        )
        for error in answers.values():
            if error is not None:
                raise error
        self._put(group, lambda decision: starts.end_deletion(decision, wanted))
        await self._settled(group.group_id)
        return unfinished.keys() | held.keys()

    def _unfinished(self, group: ShareGroup, wanted: set[UUID]) -> dict[UUID, TopicStarts]:
        """Return topics whose deletion another coordinator has begun; of deleted ones nothing is left."""
        _, topics = self._surroundings.topics()
        return {
            topic.topic_id: TopicStarts(topic.name, frozenset(range(topic.partitions)))
            for topic in topics.values()
            if topic.topic_id in wanted and topic.topic_id in group.starts.deleting
        }

    async def topics(self) -> set[Incarnation]:
        """Return the topics whose share-partitions groups have, or had."""
        found = set[Incarnation]()
        async for some in Slices(list(self._groups.values()), weight=LOOK_WEIGHT):
            for group in some:
                held = group.starts
                begun = (*held.initializing.items(), *held.initialized.items())
                found |= {Incarnation(topic.name, each) for each, topic in begun}
                found |= {Incarnation(name, each) for each, name in held.deleting.items()}
        return found

    async def forget_topics(self, topic_ids: frozenset[UUID]) -> None:
        """Forget topics that are deleted."""
        groups = list(self._groups.values()) if topic_ids else []
        async for some in Slices(groups, weight=LOOK_WEIGHT):
            for group in some:
                held = group.starts
                has_any = topic_ids & {*held.initializing, *held.initialized, *held.deleting}
                if has_any and self._groups.get(group.group_id) is group:
                    self._forget_topics_of(group, topic_ids)

    def _forget_topics_of(self, group: ShareGroup, topic_ids: frozenset[UUID]) -> None:
        try:
            self._put(group, lambda decision: starts.forget_topics(decision, topic_ids))
        except KafkaError as error:
            message = "group %r: deleted topics stay in its records: %s"
            _log.warning(group.group_id, message, group.group_id, error)


def _put_all(decision: ShareDecision, records: Iterable[GroupRecord]) -> None:
    for record in records:
        decision.put_record(record)


def _some(topics: Mapping[UUID, TopicStarts]) -> dict[UUID, TopicStarts]:
    """Return as many share-partitions as are initialized at once."""
    slots = [(topic_id, number) for topic_id, topic in topics.items() for number in sorted(topic.partitions)]
    some: dict[UUID, TopicStarts] = {}
    for topic_id, number in islice(slots, AT_ONCE_MAX):
        known = some.get(topic_id)
        numbers = frozenset({number}) if known is None else known.partitions | {number}
        some[topic_id] = TopicStarts(topics[topic_id].name, numbers)
    return some
