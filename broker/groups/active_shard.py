"""One led partition of `__consumer_offsets` at work (`coordinator.shard` has its life): its groups perform their steps.

Answers go to the futures that are the tokens, records to the writer, the one timer of each group is a timer of the
event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from functools import partial
from random import Random
from typing import Final
from uuid import UUID

from ...light_dataclass import dataclass
from ...limited_log import LimitedLog
from ...protocol import ErrorCode, KafkaError
from ...protocol.net import Slices, monotonic_ms
from ...protocol.records import Compression, decompressed_bytes_max
from ..coordinator import shard as runtime
from ..coordinator.compacted_shard import CompactedShard
from ..coordinator.log_writer import InTransaction
from ..replicas.leadership import WallClock
from ..replicas.partition import Partition
from .consumer_groups import ConsumerGroups, Surroundings
from .core.consumer import classic
from .core.consumer.decision import Decision, World
from .core.events import (
    Answer,
    Effect,
    Event,
    Heartbeat,
    Join,
    Leave,
    Now,
    Reply,
    SetTimer,
    Store,
    Stored,
    Sync,
    Synced,
    TimerFired,
    Token,
)
from .core.group import Group
from .core.group_state import GroupState, refused
from .core.memory import GroupMemory, bytes_of
from .core.records import (
    GroupKey,
    GroupRecord,
    GroupValue,
    OffsetKey,
    OffsetValue,
    decode_record,
    is_offset_key,
)
from .core.shard import Incarnation, MayGo, Shard, incarnation_of
from .decided_groups import in_turns
from .settings import CoordinatorSettings
from .share_groups import ShareGroups, ShareSurroundings

LOOK_WEIGHT: Final = 1
"""What it costs to look at an offset, in elements of `pace`."""
BURY_WEIGHT: Final = 4
"""What an offset's tombstone costs."""
FREE: Final = 50
"""The offsets of a group that cost no more than the group."""

_log = logging.getLogger(__name__)
_of_peers = LimitedLog(_log)


@dataclass(slots=True)
class _Dying:
    """A group that is being deleted, and the tombstones that end it."""

    tombstones: list[GroupRecord]
    is_over: bool = False


class ActiveShard(CompactedShard[GroupRecord]):
    """See the module's docstring."""

    kind = "groups"

    def __init__(
        self,
        partition: Partition,
        settings: CoordinatorSettings,
        rng: Random,
        now_ms: WallClock,
        memory: GroupMemory,
        surroundings: Surroundings,
        share_surroundings: ShareSurroundings,
    ) -> None:
        """`memory` is that of all shards of the broker."""
        super().__init__(partition, rng, now_ms, settings.compression)
        self._memory = memory
        self.shard = Shard(settings.group)
        self._settings = settings
        self.consumers = ConsumerGroups(self, self.shard, memory, surroundings, self)
        self.shares = ShareGroups(self, self.shard, memory, share_surroundings)
        self._accounted: set[str] = set()
        """The groups that `_memory` knows."""
        self._ended_early: list[tuple[int, bool]] = []
        """Transactions that ended while the partition was read: (producer id, whether it was committed)."""
        self._deleted: set[tuple[str, UUID]] = set()
        """Topics that were deleted, and whose offsets were not looked for yet."""
        self._is_forgetting = False
        self._absent: set[Incarnation] = set()
        """The topics that were absent at the last look."""

    @property
    def now(self) -> Now:
        return Now(monotonic_ms(), self._now_ms())

    # Requests.

    async def ask(self, group_id: str, event_of: Callable[[Token], Event]) -> Answer:
        """Step the group with an event and wait for its answer; a group that does not exist may begin with it."""
        with self._parking() as answered:
            event = event_of(answered)
            if group_id in self.shard.shares:
                code = ErrorCode.inconsistent_group_protocol if isinstance(event, Join) else ErrorCode.unknown_member_id
                raise KafkaError(code, f"{group_id!r} is a share group")
            error = self._judge_size(group_id, event) if isinstance(event, Join) else ErrorCode.none
            if isinstance(event, Join) and error is not ErrorCode.none:
                return refused(error, event.who.member_id)
            if group_id in self.shard.consumers and not self._make_classic(group_id, event):
                return await self.consumers.ask(group_id, partial(self._decide, event))
            group = self.shard.groups.get(group_id)
            if isinstance(event, Sync) and group is not None:
                error = self._memory.judge_assignments(group, event)
                if error is not ErrorCode.none:
                    return Synced(error=error)
            self._step(group_id, event)
            answer: Answer = await answered
            return answer

    def _make_classic(self, group_id: str, event: Event) -> bool:
        """Let a group of KIP-848 without members be one of the classic protocol, if one of its members joins."""
        group = self.shard.consumers[group_id]
        if group.members or not isinstance(event, Join):
            return False
        # The group's first classic record comes after these in the log.
        written = self.submit(group.tombstones())
        written.add_done_callback(_seen)
        self.consumers.forget(group_id)
        return True

    def _decide(self, event: Event, decision: Decision, world: World) -> Answer:
        """Decide for a member of the classic protocol in a group of KIP-848."""
        settings = self._settings.group
        match event:
            case Join():
                sessions = classic.Sessions(settings.session_timeout_min_ms, settings.session_timeout_max_ms)
                return classic.join(decision, event, world, sessions)
            case Sync():
                return classic.sync(decision, event, world)
            case Leave():
                return classic.leave(decision, event, world)
            case Heartbeat():
                return classic.heartbeat(decision, event, world)
        raise AssertionError(event)

    # Groups that change their protocol (`consumer_groups.ClassicGroups`).

    def become_classic(self, group_id: str, value: GroupValue) -> None:
        """Let a group be a classic one, whose members have to join again."""
        self.end_classic(group_id)
        group = self.shard.groups[group_id] = Group.restored(group_id, self._settings.group, value)
        self._account_for(group_id)
        self._perform(group_id, group, group.begin_again(self.now))

    def end_classic(self, group_id: str) -> None:
        """Let a group be none of the classic ones: its members try again."""
        group = self.shard.groups.pop(group_id, None)
        self.stop_timer(group_id)
        if group is not None:
            self._perform(group_id, group, group.abandon(ErrorCode.rebalance_in_progress))
        self._account_for(group_id)

    def put_back_classic(self, group_id: str, value: GroupValue) -> None:
        """Let a group be what it was: its record was not replaced."""
        self.end_classic(group_id)
        group = self.shard.groups[group_id] = Group.restored(group_id, self._settings.group, value)
        self._account_for(group_id)
        self._perform(group_id, group, group.resume(self.now))

    def _judge_size(self, group_id: str, join: Join) -> ErrorCode:
        """Return whether a member may join with what it brings (`core.memory`)."""
        record_bytes_max = self.partition.log.state.config.max_message_bytes
        if self._settings.compression is not Compression.NONE:
            record_bytes_max = decompressed_bytes_max(record_bytes_max)
        group = self.shard.groups.get(group_id) or Group(group_id, self._settings.group)
        error = self._memory.judge(group, join, record_bytes_max)
        if error is not ErrorCode.none:
            _of_peers.warning(
                group_id,
                "group %r: a member with %d bytes of metadata is refused (%s): the group has %d members,"
                " the groups of this broker hold %d of %d bytes",
                group_id,
                join.protocol_bytes,
                error.name,
                len(group.members),
                self._memory.used,
                self._memory.bytes_max,
            )
        return error

    def _account_for(self, group_id: str) -> None:
        group = self.shard.groups.get(group_id)
        self._memory.hold((self, group_id), 0 if group is None else bytes_of(group))
        if group is None:
            self._accounted.discard(group_id)
        else:
            self._accounted.add(group_id)

    async def write(self, records: Sequence[GroupRecord], transaction: InTransaction | None = None) -> None:
        """Return once they are committed and applied; with a transaction they wait for its marker. Raise KafkaError
        with the code that a client gets.
        """
        await self._written(partial(self._writer.write, records, transaction=transaction))

    async def _written(self, write: Callable[..., Awaitable[None]]) -> None:
        if self._end is not None:
            raise self._end
        try:
            await write(timeout_s=self._settings.commit_timeout_ms / 1000)
        except KafkaError as error:
            raise KafkaError(runtime.CODES_OF_ASKERS.get(error.code, error.code), error.message) from error

    async def settled(self) -> None:
        """Return once all that was decided until now is committed or has failed. Raise NOT_COORDINATOR if that takes
        too long, as Kafka does: consumers look for the coordinator then.
        """
        try:
            known = self._writer.settled()
            if known is not None:
                async with asyncio.timeout(self._settings.commit_timeout_ms / 1000):
                    await asyncio.shield(known)
        except (KafkaError, TimeoutError):
            message = f"{self.partition.partition}: its records are not committed yet"
            raise KafkaError(ErrorCode.not_coordinator, message) from None

    # What is deleted: offsets, in steps, and groups.

    async def delete(self, group_id: str) -> ErrorCode:
        """The group, with all its offsets: with nothing of it that a marker could bring back."""
        if group_id in self.shard.shares:
            try:
                await self.shares.delete(group_id)
            except KafkaError as failure:
                return failure.code
            return ErrorCode.none
        error = self.shard.judge_delete(group_id)
        if error is not ErrorCode.none:
            return error
        # What a producer that names no member commits from now on is none of these.
        values = self.shard.values_of(group_id)
        ids = frozenset(map(id, values))
        with self._dying(group_id) as dying:
            error = await self._bury_group(group_id, lambda _, value: id(value) in ids, dying.tombstones)
            dying.is_over = error is ErrorCode.none
        return error

    async def _bury_group(self, group_id: str, may_go: MayGo, tombstones: Sequence[GroupRecord]) -> ErrorCode:
        """Delete those of a group's offsets that may go, and then the group, with these tombstones: in one batch if it
        takes all of them, so that a group is deleted as a whole, or not at all. Only what is larger goes in several.
        """
        own = size = self._writer.size_of(tombstones)
        keys = dict[OffsetKey, None]()
        async for some in Slices(self.shard.held_by(group_id), weight=BURY_WEIGHT, free=FREE):
            keys |= dict.fromkeys([key for key, _ in some])
            size += self._writer.size_of([GroupRecord(key, None) for key, _ in some])
            if size > self._writer.batch_bytes_max:
                error = await self.write_tombstones(self._tombstones(keys, may_go))
                if error is not ErrorCode.none:
                    return error
                keys, size = {}, own
        return await self.write_tombstones([*self._tombstones(keys, may_go), *tombstones])

    async def expire(self, group_id: str, retention_ms: int) -> ErrorCode:
        """Delete what is too old of a group as it is then, and the group with the last of it, as `_bury_group` does;
        what has a newer record on its way into the log is not.
        """
        if group_id not in self.shard.groups and group_id not in self.shard.consumers:
            return ErrorCode.none

        def now() -> MayGo:
            return self.shard.expiry(group_id, retention_ms, self._now_ms())

        if not await self._is_over(group_id, now):
            return await self._bury(self.shard.held_by(group_id), now, free=FREE)
        may_go = now()
        with self._dying(group_id) as dying:
            error = await self._bury_group(group_id, may_go, dying.tombstones)
            dying.is_over = error is ErrorCode.none
        return error

    async def _is_over(self, group_id: str, now: Callable[[], MayGo]) -> bool:
        """Return whether a group has no members, and no offset that may not go."""
        if not self.shard.ends_with_offsets(group_id):
            return False
        async for some in Slices(self.shard.held_by(group_id), weight=BURY_WEIGHT, free=FREE):
            keys = dict.fromkeys([key for key, _ in some])
            if len(self._tombstones(keys, now())) < len(keys):
                return False
        # A member may have joined, and an offset may have come, while others were looked at.
        return self.shard.ends_with_offsets(group_id)

    @contextmanager
    def _dying(self, group_id: str) -> Iterator[_Dying]:
        """Let no member join a group without members as long as this lasts, and then, unless the group is over, let it
        be what it was: a member that joined would vanish with the group's tombstones.
        """
        dying = _Dying(self.shard.tombstones(group_id))
        groups, consumers = self.shard.groups, self.shard.consumers.get(group_id)
        dead = groups.setdefault(group_id, Group(group_id, self._settings.group))
        was = dead.as_value()
        dead.die()
        self.stop_timer(group_id)
        if consumers is not None:
            self.consumers.forget(group_id)
        try:
            yield dying
        finally:
            if self._end is None:  # else all memory is given back, and none may be held again
                # Its own tombstone lets it go, and offsets that came meanwhile make it one without members.
                if groups.get(group_id) is dead:
                    del groups[group_id]
                    if dying.is_over:
                        self.shard.forget(group_id)
                    elif consumers is not None:
                        self.consumers.take_back(consumers)
                    else:
                        groups[group_id] = Group.restored(group_id, self._settings.group, was)
                self._account_for(group_id)

    async def _bury(
        self, held: Iterable[tuple[OffsetKey, OffsetValue]], now: Callable[[], MayGo], *, free: int = 0
    ) -> ErrorCode:
        """Delete those of the offsets that may go, when they are looked at and when their tombstones are written; what
        `now` returns says which. One with a record of its key on its way into the log stays: that may be a newer
        offset, of a topic that has the name now, and would be deleted with it.
        """
        async for some in Slices(held, weight=LOOK_WEIGHT, free=free):
            may_go = now()
            keys = dict.fromkeys([key for key, value in some if may_go(key, value)])
            async for part in Slices(keys, weight=BURY_WEIGHT, free=FREE):
                error = await self.write_tombstones(self._tombstones(part, now()))
                if error is not ErrorCode.none:
                    return error
        return ErrorCode.none

    def _tombstones(self, keys: Iterable[OffsetKey], may_go: MayGo) -> list[GroupRecord]:
        tombstones = [GroupRecord(key, None) for key in keys if self.shard.goes(key, may_go)]
        return [each for each in tombstones if not self._writer.is_writing(each.encoded()[0])]

    async def write_tombstones(self, tombstones: Sequence[GroupRecord]) -> ErrorCode:
        """Return once they are committed and applied, in as many batches as they need, or why they are not."""
        if not tombstones:
            return ErrorCode.none
        try:
            await self._written(partial(self._writer.write_apart, tombstones))
        except KafkaError as error:
            return error.code
        return ErrorCode.none

    def forget_topics(self, topics: Set[tuple[str, UUID]]) -> None:
        """Let all that is known of topics go, which are deleted: offsets, and share-partitions that have begun. A topic
        that has the name of one by now, and what is committed for it from now on, is another.
        """
        self._deleted |= topics
        if self.is_loaded and self._deleted and not self._is_forgetting:
            self._is_forgetting = True
            self.spawn(self._forget_deleted())

    async def _forget_deleted(self) -> None:
        try:
            while self._deleted:
                topics, self._deleted = self._deleted, set()
                await self.shares.forget_topics(frozenset(topic_id for _, topic_id in topics))
                # Offsets that name no topic id are older than this leadership.
                names = {(name, None) for name, _ in topics}
                deleted = frozenset(Incarnation(*each) for each in (*topics, *names))
                # What was on its way when the topics were deleted is of these.
                with suppress(KafkaError):
                    await self.settled()
                await self._bury_in_topics(deleted.__contains__)
        finally:
            self._is_forgetting = False

    async def forget_absent(self, is_there: Callable[[Incarnation], bool]) -> None:
        """Forget all that is known of topics that are absent now and were absent at the last look: they were deleted
        while no broker coordinated here. A new topic may be known here later than elsewhere.
        """
        known = set[Incarnation]()
        absent = set[Incarnation]()
        async for some in Slices(self.shard.held(), weight=LOOK_WEIGHT):
            new = {incarnation_of(key, value) for key, value in some} - known
            known |= new
            absent |= {topic for topic in new if not is_there(topic)}
        of_shares = {topic for topic in await self.shares.topics() if not is_there(topic)}
        gone, self._absent = self._absent, absent | of_shares
        gone = gone & self._absent
        await self.shares.forget_topics(
            frozenset(topic.topic_id for topic in of_shares & gone if topic.topic_id is not None)
        )
        if not absent & gone:
            return

        # A name may be that of another topic by then.
        await self._bury_in_topics(lambda topic: topic in gone and not is_there(topic))

    async def _bury_in_topics(self, is_gone: Callable[[Incarnation], bool]) -> None:
        error = await self._bury(self.shard.held(), lambda: lambda key, value: is_gone(incarnation_of(key, value)))
        if error is not ErrorCode.none:
            name = str(self.partition.partition)
            message = "%s: offsets of deleted topics could not be deleted, trying again later: %s"
            _of_peers.warning(name, message, name, error.name)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """Count the offsets that were committed in it, or drop them."""
        if not self.is_loaded:
            self._ended_early.append((producer_id, is_committed))
            return
        # The marker is in the log after them, and may be known here before them.
        self._writer.once_applied(
            producer_id, partial(self.shard.end_transaction, producer_id, is_committed=is_committed)
        )

    def _apply(self, record: GroupRecord, transaction: InTransaction | None, offset: int) -> None:
        if transaction is None:
            self.shard.apply(record)
        else:
            self.shard.replay_undecided(transaction.producer_id, record)

    # Life.

    def _clear(self) -> None:
        self.shard.clear()

    def _decode(self, key: bytes, value: bytes | None) -> GroupRecord | None:
        return decode_record(key, value)

    def _replay(self, record: GroupRecord) -> None:
        self.shard.replay(record)

    def _may_wait(self, key: bytes) -> bool:
        return is_offset_key(key)

    def _replay_undecided(self, producer_id: int, record: GroupRecord) -> None:
        self.shard.replay_undecided(producer_id, record)

    async def _prepare(self) -> None:
        await self.consumers.resume()
        await self.shares.resume()
        async for group in in_turns(list(self.shard.groups.values())):
            self._perform(group.group_id, group, group.resume(self.now))
            self._account_for(group.group_id)

    async def _resume(self, records: int) -> None:
        # Their markers may lie after the end that was read, so the replay has not seen them.
        for producer_id, is_committed in self._ended_early:
            self.shard.end_transaction(producer_id, is_committed=is_committed)
        self.forget_topics(set())
        name = self.partition.partition.topic_partition
        groups = len(self.shard.groups) + len(self.shard.consumers) + len(self.shard.shares)
        _log.info("%s: %d groups from %d records", name, groups, records)

    def _release(self) -> None:
        self.consumers.release()
        self.shares.release()
        for group_id in self._accounted:
            self._memory.hold((self, group_id), 0)
        self._accounted.clear()

    # Groups.

    def _step(self, group_id: str, event: Event) -> None:
        """A group that is still nothing afterwards is not remembered."""
        groups = self.shard.groups
        group = groups.get(group_id) or Group(group_id, self._settings.group)
        state = group.state
        effects = group.step(event, self.now)
        if group_id not in groups and not group.is_idle:
            groups[group_id] = group
        if not isinstance(event, Heartbeat):
            self._account_for(group_id)
        if group.state is not state:
            _log.info(
                "group %r: %s -> %s, generation %d, %d members",
                group_id, state.value, group.state.value, group.generation_id, len(group.members),
            )  # fmt: skip
        self._perform(group_id, group, effects)

    def _perform(self, group_id: str, group: Group, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Reply(token, answer):
                    self._answer(token, answer)
                case Store():
                    self.spawn(self._store(group_id, group, effect))
                case SetTimer(deadline_ms):
                    self.set_timer(group_id, deadline_ms, partial(self._fire, group_id, group))

    def _fire(self, group_id: str, group: Group) -> None:
        if self.shard.groups.get(group_id) is group and group.state is not GroupState.DEAD:
            self._step(group_id, TimerFired())

    async def _store(self, group_id: str, group: Group, store: Store) -> None:
        error = ErrorCode.none
        # A group that is of the other protocol by now has its records in the log already.
        if self.shard.groups.get(group_id) is not group:
            return
        try:
            await self.write([GroupRecord(GroupKey(group_id), store.value)])
        except KafkaError as failure:
            message = "group %r: generation %d was not stored: %s"
            _of_peers.warning(group_id, message, group_id, store.value.generation_id, failure)
            error = failure.code
        # A group that was reloaded or deleted meanwhile must not step with the old one's record.
        if self._end is None and self.shard.groups.get(group_id) is group:
            self._step(group_id, Stored(store.store_id, error))


def _seen(written: asyncio.Future[None]) -> None:
    """Take note of an error that nothing waits for: what was not deleted is replaced by what comes after it."""
    if not written.cancelled() and written.exception() is not None:
        _of_peers.warning(
            "", "tombstones of a group that is a classic one now were not written: %s", written.exception()
        )
